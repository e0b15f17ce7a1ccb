"""What attackers do. Each attack is a coroutine that goes on until its process is ended.

Insiders use the client that everybody uses:

    patterns     200 subscriptions LIKE '%a___b%', each with another number of _, and events of 65 kB
    questions    1,000 subscriptions with patterns at a and 300 advertisements with patterns at b, again and again
    long         as many patterns of 4 kB as a client may have, and events of 65 kB
    expressions  200 filters that have no normal form, with patterns, from 5 clients each, and events of 65 kB
    lists        200 subscriptions and 60 advertisements with lists of 120 words, again and again
    fanout       1,000 subscriptions that all match, and the smallest events, as many as the broker takes
    churn        1,000 subscriptions made and ended again and again, as quickly as possible
    crossing     1,000 subscriptions at a and 1,000 advertisements at b that overlap in some attributes
    reading      50 readers, each with 20 subscriptions to all 20,000 events of the history, who take nothing
    watching     every table of the broker, asked for again and again
    tokens       texts of filters as dear as possible to read
    names        clients, groups and attributes with names as long as they may be, as many as an event or a client has
    groups       1,000 groups at a time, of two clients that take the same names, each with all of the history
    large        4 publishers of events as large as they may be, to 4 readers at both brokers

Those who speak the protocol themselves stand in `forged.py`: positions, silent, lying.

Outsiders open connections and say little (those at a port with TLS stand in `encrypted.py`):

    knocking     new connections as quickly as possible, with and without a first word
    dripping     500 connections that send a byte a second, at the door and at /metrics
    returning    clients that attach and leave without a word, as quickly as possible
"""

import asyncio
import itertools
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import tidings
from bench.hostile.encrypted import ENCRYPTED
from bench.hostile.forged import lying, positions, silent
from bench.hostile.target import Target, place_of
from tidings.model.bounds import ATTRIBUTE_NAME_CHARS_MAX, ATTRIBUTES_MAX, NAME_CHARS_MAX, PUBLICATION_BYTES_MAX
from tidings.model.values import Value
from tidings.net.errors import ClientError
from tidings.net.inspector import Inspector
from tidings.pubsub.rows import Row
from tidings.wire import encode, frame
from tidings.wire.handshake import Hello

LONG_TEXT = 65_000


# ------------------------------------------------------------------------------------------------------------ insiders


async def patterns(target: Target) -> None:
    await subscribe_and_publish(target, [f"text LIKE '%a{'_' * ones}b%'" for ones in range(1, 201)])


async def long(target: Target) -> None:
    await subscribe_and_publish(target, [f"text LIKE '%{'a_' * (1900 + length)}b%'" for length in range(100)])


async def expressions(target: Target) -> None:
    texts = [f"LOWER(text) LIKE '%a{'_' * ones}b%' OR LENGTH(text) = {ones}" for ones in range(1, 201)]
    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(subscribe_and_publish(target, texts))


async def subscribe_and_publish(target: Target, filters: list[str]) -> None:
    async with tidings.connect(target.url_a) as subscriber, tidings.connect(target.url_a) as publisher:
        for each in filters:
            with suppress(ClientError):
                await subscriber.subscribe(each)
        await publisher.advertise("EXISTS text")
        for number in itertools.count():
            text = "a" * (LONG_TEXT - number % 1000)
            with suppress(ClientError):
                await publisher.publish({"text": text}, receipt=True)


async def questions(target: Target) -> None:
    for life in itertools.count():
        pattern = f"text LIKE '%{life}{{letter}}{{ones}}{{number}}_'"

        def texts(letter: str, count: int, pattern: str = pattern) -> list[str]:
            return [pattern.format(letter=letter, ones="_" * (20 + n % 20), number=n) for n in range(count)]

        await cross(target, texts("a", 1000), texts("b", 300))


async def crossing(target: Target) -> None:
    """No patterns: numbers and words, each filter with six attributes, every second with an OR."""

    def texts(step: int, life: int) -> list[str]:
        return [
            " AND ".join(f"(n{k} > {n * k + life} OR w{k} = 'w{n}')" for k in range(1, 3))
            + "".join(f" AND x{k} < {n * step + k}" for k in range(4))
            for n in range(1000)
        ]

    for life in itertools.count():
        await cross(target, texts(1, life), texts(-1, life))


async def lists(target: Target) -> None:
    def texts(life: int) -> list[str]:
        return [
            "a IN (" + ", ".join(f"'{life + n + k * 7}'" for k in range(120)) + f") AND b NOT IN ({n}, {n + 1})"
            for n in range(200)
        ]

    for life in itertools.count():
        await cross(target, texts(life), texts(life + 200)[:60])


async def cross(target: Target, subscribed: list[str], advertised: list[str]) -> None:
    async with tidings.connect(target.url_a) as subscriber, tidings.connect(target.url_b) as publisher:
        await asyncio.gather(*(subscriber.subscribe(each) for each in subscribed), return_exceptions=True)
        await asyncio.gather(*(publisher.advertise(each) for each in advertised), return_exceptions=True)


async def fanout(target: Target) -> None:
    async with tidings.connect(target.url_a) as subscriber, tidings.connect(target.url_a) as publisher:
        await asyncio.gather(
            *(subscriber.subscribe(f"x != {n}", policy="drop oldest") for n in range(1000)), return_exceptions=True
        )
        await publisher.advertise("EXISTS x")
        for number in itertools.count():
            await publisher.publish({"x": -number})


async def churn(target: Target) -> None:
    async with tidings.connect(target.url_a) as client:
        for life in itertools.count():
            texts = [f"kind = 'c{life}' AND number > {n}" for n in range(1000)]
            made = await asyncio.gather(*(client.subscribe(each) for each in texts), return_exceptions=True)
            ending = [each.unsubscribe() for each in made if not isinstance(each, BaseException)]
            await asyncio.gather(*ending, return_exceptions=True)


async def reading(target: Target) -> None:
    async with tidings.connect(target.url_a, name="writer") as writer:
        await writer.advertise("EXISTS x")
        for number in range(20_000):
            await writer.publish({"x": number, "text": "word" * 20})
        await writer.flush()

        async def read() -> None:
            while True:
                with suppress(ClientError):
                    async with tidings.connect(target.url_a) as reader:
                        for _ in range(20):
                            await reader.subscribe("x >= 0", since=0.0, window=1)
                            await reader.fetch("x >= 0 AND LENGTH(text) > 3", "writer", through=20_000, limit=4096)

        async with asyncio.TaskGroup() as group:
            for _ in range(50):
                group.create_task(read())


async def watching(target: Target) -> None:
    """A thousand subscriptions, and every table that there is."""
    async with tidings.connect(target.url_a) as client:
        await asyncio.gather(*(client.subscribe(f"x = {n}") for n in range(1000)), return_exceptions=True)

        async def watch() -> None:
            while True:
                with suppress(ClientError):
                    async with Inspector(target.url_a.removeprefix("tidings://")) as inspector:
                        for table in ("links", "clients", "subscriptions", "routes", "history", "counters", "settings"):
                            await inspector.table(table, Row)

        await asyncio.gather(*(watch() for _ in range(20)))


async def tokens(target: Target) -> None:
    """4 KiB and 512 words each, most of which have no normal form; refused or not."""

    def text(n: int) -> str:
        return " AND ".join(f"(a{k} = {n} OR b{k} LIKE '%{n}_%')" for k in range(55))

    async with tidings.connect(target.url_a) as client:
        for life in itertools.count():
            texts = [text(1000 * life + n) for n in range(200)]
            made = await asyncio.gather(*(client.subscribe(each) for each in texts), return_exceptions=True)
            ending = [each.unsubscribe() for each in made if not isinstance(each, BaseException)]
            await asyncio.gather(*ending, return_exceptions=True)


async def names(target: Target) -> None:
    attributes = [f"a{number}".ljust(ATTRIBUTE_NAME_CHARS_MAX, "a") for number in range(ATTRIBUTES_MAX)]

    async def one(number: int) -> None:
        longest: dict[str, Value] = {each: f"{each}{number}" for each in attributes}
        for life in itertools.count():
            name = f"n{number}.{life}".ljust(NAME_CHARS_MAX - 20, "n")
            with suppress(ClientError):
                async with tidings.connect(target.url_a, name=name) as client:
                    await client.advertise(f"EXISTS {attributes[0]}")
                    for each in attributes:
                        group = f"g{life}".ljust(NAME_CHARS_MAX, "g")
                        await client.subscribe(f"{each} = '{each}{number}'", group=group, policy="drop oldest")
                    for _ in range(100):
                        await client.publish(longest, receipt=True)

    await asyncio.gather(*map(one, range(5)))


async def groups(target: Target) -> None:
    async with tidings.connect(target.url_b, name="grouped") as writer:
        await writer.advertise("EXISTS x")
        for number in range(2000):
            await writer.publish({"x": number})
        await writer.flush()

        async def squat(url: str) -> None:
            for life in itertools.count():
                with suppress(ClientError):
                    async with tidings.connect(url) as client:
                        asked = [
                            client.subscribe("x >= 0", group=f"group{life % 7}.{n}", since=0.0, policy="drop oldest")
                            for n in range(1000)
                        ]
                        await asyncio.gather(*asked, return_exceptions=True)

        await asyncio.gather(squat(target.url_a), squat(target.url_b))


async def large(target: Target) -> None:
    payload = b"x" * (PUBLICATION_BYTES_MAX - 4096)

    async def publish(number: int) -> None:
        async with tidings.connect(target.url_a if number % 2 else target.url_b) as publisher:
            await publisher.advertise("kind = 'large'")
            while True:
                with suppress(ClientError):
                    await publisher.publish({"kind": "large"}, payload, receipt=True)

    async def take(number: int) -> None:
        async with tidings.connect(target.url_a if number % 2 else target.url_b) as reader:
            async for _ in await reader.subscribe("kind = 'large'", policy="drop oldest"):
                pass

    await asyncio.gather(*map(take, range(4)), *map(publish, range(4)))


# ----------------------------------------------------------------------------------------------------------- outsiders


async def knocking(target: Target) -> None:
    place = place_of(target.url_a)

    async def knock(number: int) -> None:
        for life in itertools.count():
            with suppress(OSError):
                _, writer = await asyncio.open_connection(*place)
                if number % 2:
                    writer.write(frame(encode(Hello(f"n{number}.{life}", capabilities=("link",), epoch=1))))
                await asyncio.sleep(0.05)
                writer.close()

    await asyncio.gather(*map(knock, range(100)))


async def dripping(target: Target) -> None:
    host, _, port = target.http_a.rpartition(":")
    places = [place_of(target.url_a), (host, int(port))]

    async def drip(number: int) -> None:
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection(*places[number % 2])
                for byte in itertools.cycle(b"GET /metrics HTTP/1.1\r\nX: "):
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(1.0)

    await asyncio.gather(*map(drip, range(500)))


async def returning(target: Target) -> None:
    async def come_and_go(number: int) -> None:
        while True:
            with suppress(ClientError, OSError):
                client = await tidings.connect(target.url_a, name=f"n{number}")
                client.host.links.abort()
                await client.leave()

    await asyncio.gather(*map(come_and_go, range(20)))


ATTACKS: dict[str, Callable[[Target], Coroutine[Any, Any, None]]] = {
    each.__name__: each
    for each in (
        *(patterns, questions, long, expressions, lists, fanout, churn, crossing, reading, watching, tokens),
        *(names, groups, large, positions, silent, lying),
        *(knocking, dripping, returning),
    )
} | ENCRYPTED

if __name__ == "__main__":
    asyncio.run(ATTACKS[sys.argv[1]](Target(*sys.argv[2:])))
