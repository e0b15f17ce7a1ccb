"""`python -m bench.hostile.ordinary SECONDS TARGET`: ordinary clients, and how long each thing that they do takes.

One publishes 50 events a second at b and another gets them at a, one publishes at a what it gets itself, and a third
subscribes and unsubscribes at a. The answer is one line of JSON: times in seconds, by what was done.
"""

import asyncio
import itertools
import json
import sys
import time

import tidings
from bench.hostile.first import go_first
from bench.hostile.target import Target

PERIOD = 0.02
LAST_WAIT = 30.0
"""Seconds for the last events to come; those that have not are told as so much."""


async def far(target: Target, until: float) -> list[float]:
    return await events_between(target, target.url_b, target.url_a, "far", until)


async def near(target: Target, until: float) -> list[float]:
    return await events_between(target, target.url_a, target.url_a, "near", until)


async def events_between(target: Target, url_from: str, url_to: str, kind: str, until: float) -> list[float]:
    sent: dict[int, float] = {}
    took: list[float] = []
    tls = target.tls
    async with (
        tidings.connect(url_to, name=f"client+{kind}-to", tls=tls) as subscriber,
        tidings.connect(url_from, name=f"client+{kind}-from", tls=tls) as publisher,
    ):
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
        last = time.monotonic() + LAST_WAIT
        while sent and time.monotonic() < last:
            await asyncio.sleep(PERIOD)
        taking.cancel()
    return took + [LAST_WAIT] * len(sent)


async def requests(target: Target, until: float) -> list[float]:
    took: list[float] = []
    async with tidings.connect(target.url_a, name="client+asking", tls=target.tls) as client:
        for number in itertools.count():
            if time.monotonic() > until:
                break
            began = time.monotonic()
            subscription = await client.subscribe(f"kind = 'asked' AND number = {number}")
            await subscription.unsubscribe()
            took.append((time.monotonic() - began) / 2)
            await asyncio.sleep(PERIOD)
    return took


ORDINARY = {"event, b to a": far, "event, a to a": near, "subscription at a": requests}


async def ordinary(target: Target, seconds: float) -> dict[str, list[float]]:
    until = time.monotonic() + seconds
    times = await asyncio.gather(*(each(target, until) for each in ORDINARY.values()))
    return dict(zip(ORDINARY, times, strict=True))


if __name__ == "__main__":
    go_first()
    print(json.dumps(asyncio.run(ordinary(Target(*sys.argv[2:]), float(sys.argv[1])))))
