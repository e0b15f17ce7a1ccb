"""`python -m bench.hostile`: how long an ordinary client waits while others give a broker as much to do as they can.

    python -m bench.hostile                    all attacks, 15 seconds each
    python -m bench.hostile --only patterns    one of them
    python -m bench.hostile --seconds 5

Two brokers, a and b, in processes of their own, and the attackers in another. An ordinary client publishes 50 events a
second at b and gets them at a, another publishes at a what it gets itself, and a third subscribes and unsubscribes at
a; the time that each of these takes is the figure. Attackers use the client that everybody uses:

    patterns     200 subscriptions LIKE '%a___b%', each with another number of _, and events of 65 kB, at a
    questions    1,000 subscriptions with patterns at a and 300 advertisements with patterns at b, again and again
    long         as many patterns of 4 kB as a client may have, and events of 65 kB, at a
    expressions  200 filters that have no normal form, with patterns, and events of 65 kB, at a

Times are wall-clock times on loopback, so they mean something on an idle machine only; the lines `alone` say how idle
it is.
"""

import argparse
import asyncio
import itertools
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from statistics import quantiles
from typing import Any

import tidings
from tidings.net.errors import ClientError

SECONDS, PERIOD = 15.0, 0.02
LONG_TEXT = 65_000
TARGET = 0.050


# ------------------------------------------------------------------------------------------------------------- attacks


async def patterns(url_a: str, url_b: str) -> None:
    filters = [f"text LIKE '%a{'_' * ones}b%'" for ones in range(1, 201)]
    await subscribe_and_publish(url_a, filters)


async def long(url_a: str, url_b: str) -> None:
    filters = [f"text LIKE '%{'a_' * (1900 + length)}b%'" for length in range(100)]
    await subscribe_and_publish(url_a, filters)


async def expressions(url_a: str, url_b: str) -> None:
    filters = [f"LOWER(text) LIKE '%a{'_' * ones}b%' OR LENGTH(text) = {ones}" for ones in range(1, 201)]
    await subscribe_and_publish(url_a, filters)


async def subscribe_and_publish(url: str, filters: list[str]) -> None:
    async with tidings.connect(url) as subscriber, tidings.connect(url) as publisher:
        for each in filters:
            with suppress(ClientError):
                await subscriber.subscribe(each)
        await publisher.advertise("EXISTS text")
        for number in itertools.count():
            text = "a" * (LONG_TEXT - number % 1000)
            with suppress(ClientError):
                await publisher.publish({"text": text}, receipt=True)


async def questions(url_a: str, url_b: str) -> None:
    for life in itertools.count():
        async with tidings.connect(url_a) as subscriber, tidings.connect(url_b) as publisher:
            pattern = f"text LIKE '%{life}{{letter}}{{ones}}{{number}}_'"

            def texts(letter: str, count: int, pattern: str = pattern) -> list[str]:
                return [pattern.format(letter=letter, ones="_" * (20 + n % 20), number=n) for n in range(count)]

            await asyncio.gather(*(subscriber.subscribe(each) for each in texts("a", 1000)), return_exceptions=True)
            await asyncio.gather(*(publisher.advertise(each) for each in texts("b", 300)), return_exceptions=True)


ATTACKS: dict[str, Callable[[str, str], Coroutine[Any, Any, None]]] = {
    "patterns": patterns,
    "questions": questions,
    "long": long,
    "expressions": expressions,
}


# ------------------------------------------------------------------------------------------------- the ordinary client


async def far(url_a: str, url_b: str, until: float) -> list[float]:
    return await events_between(url_b, url_a, "far", until)


async def near(url_a: str, url_b: str, until: float) -> list[float]:
    return await events_between(url_a, url_a, "near", until)


async def events_between(url_from: str, url_to: str, kind: str, until: float) -> list[float]:
    """How long each event took; one that did not come is told as the whole time."""
    sent: dict[int, float] = {}
    took: list[float] = []
    async with tidings.connect(url_to) as subscriber, tidings.connect(url_from) as publisher:
        await publisher.advertise(f"kind = '{kind}'")
        subscription = await subscriber.subscribe(f"kind = '{kind}'")

        async def take() -> None:
            async for delivered in subscription:
                took.append(time.monotonic() - sent.pop(int(delivered.attributes["number"])))

        taking = asyncio.create_task(take())
        for number in itertools.count():
            if time.monotonic() > until:
                break
            sent[number] = time.monotonic()
            await publisher.publish({"kind": kind, "number": number})
            await asyncio.sleep(PERIOD)
        async with asyncio.timeout(30):
            while sent:
                await asyncio.sleep(PERIOD)
        taking.cancel()
    return took


async def requests(url_a: str, url_b: str, until: float) -> list[float]:
    took: list[float] = []
    async with tidings.connect(url_a) as client:
        for number in itertools.count():
            if time.monotonic() > until:
                return took
            began = time.monotonic()
            subscription = await client.subscribe(f"kind = 'asked' AND number = {number}")
            await subscription.unsubscribe()
            took.append((time.monotonic() - began) / 2)
            await asyncio.sleep(PERIOD)
    return took


ORDINARY = {"event, b to a": far, "event, a to a": near, "subscription": requests}


# ------------------------------------------------------------------------------------------------------------ measuring


@asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    started = await asyncio.create_subprocess_exec(sys.executable, "-m", *arguments, stdout=pipe, stderr=pipe)
    try:
        yield started
    finally:
        with suppress(ProcessLookupError):
            started.terminate()
        await started.wait()


@asynccontextmanager
async def broker(name: str, *more: str) -> AsyncIterator[tuple[str, list[str]]]:
    """Its address, and what it logs."""
    lines: list[str] = []
    async with process("tidings", "broker", "--name", name, "--listen", "127.0.0.1:0", *more) as started:
        assert started.stdout is not None and started.stderr is not None
        ready = (await started.stdout.readline()).decode()
        found = re.search(r"127\.0\.0\.1:\d+", ready)
        assert found is not None, f"the broker did not start: {ready}"
        errors = started.stderr

        async def read() -> None:
            while line := await errors.readline():
                lines.append(line.decode())

        reading = asyncio.create_task(read())
        yield found.group(), lines
        reading.cancel()


async def measure(attack: str | None, seconds: float) -> tuple[dict[str, list[float]], int]:
    """The times of the ordinary client, and how often the link between the brokers was lost."""
    async with broker("a") as (a, logged), broker("b", "--link", a) as (b, _):
        url_a, url_b = f"tidings://{a}", f"tidings://{b}"
        await asyncio.sleep(1.0)
        if attack is None:
            return await ordinary(url_a, url_b, seconds), losses_in(logged)
        async with process("bench.hostile", "--attack", attack, url_a, url_b):
            await asyncio.sleep(2.0)
            return await ordinary(url_a, url_b, seconds), losses_in(logged)


def losses_in(logged: list[str]) -> int:
    return len([line for line in logged if "stream down" in line and re.search(r"peer=b\b", line)])


async def ordinary(url_a: str, url_b: str, seconds: float) -> dict[str, list[float]]:
    until = time.monotonic() + seconds
    times = await asyncio.gather(*(each(url_a, url_b, until) for each in ORDINARY.values()))
    return dict(zip(ORDINARY, times, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.hostile", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", choices=ATTACKS, help="one attack")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long each is measured")
    parser.add_argument("--attack", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.attack:
        name, url_a, url_b = arguments.attack
        asyncio.run(ATTACKS[name](url_a, url_b))
        return 0
    print("| beside | of an ordinary client | median | 99 % | most | links lost |\n|---|---|---|---|---|---|")
    is_reached = True
    for attack in (None, *([arguments.only] if arguments.only else ATTACKS)):
        found, lost = asyncio.run(measure(attack, arguments.seconds))
        for what, times in found.items():
            cuts = quantiles(times, n=100)
            is_reached = is_reached and cuts[98] < TARGET and not lost
            median, high, most = (f"{1000 * each:.1f} ms" for each in (cuts[49], cuts[98], max(times)))
            print(f"| {attack or 'alone'} | {what} | {median} | {high} | {most} | {lost} |", flush=True)
    return 0 if is_reached else 1


if __name__ == "__main__":
    sys.exit(main())
