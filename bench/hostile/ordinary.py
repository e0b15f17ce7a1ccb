"""`python -m bench.hostile.ordinary URL_A URL_B SECONDS`: ordinary clients, and how long each thing that they do takes.

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

PERIOD = 0.02
LAST_WAIT = 30.0
"""Seconds for the last events to come; those that have not are told as so much."""


async def far(url_a: str, url_b: str, until: float) -> list[float]:
    return await events_between(url_b, url_a, "far", until)


async def near(url_a: str, url_b: str, until: float) -> list[float]:
    return await events_between(url_a, url_a, "near", until)


async def events_between(url_from: str, url_to: str, kind: str, until: float) -> list[float]:
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
        last = time.monotonic() + LAST_WAIT
        while sent and time.monotonic() < last:
            await asyncio.sleep(PERIOD)
        taking.cancel()
    return took + [LAST_WAIT] * len(sent)


async def requests(url_a: str, url_b: str, until: float) -> list[float]:
    took: list[float] = []
    async with tidings.connect(url_a) as client:
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


async def ordinary(url_a: str, url_b: str, seconds: float) -> dict[str, list[float]]:
    until = time.monotonic() + seconds
    times = await asyncio.gather(*(each(url_a, url_b, until) for each in ORDINARY.values()))
    return dict(zip(ORDINARY, times, strict=True))


if __name__ == "__main__":
    go_first()
    print(json.dumps(asyncio.run(ordinary(sys.argv[1], sys.argv[2], float(sys.argv[3])))))
