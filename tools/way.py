"""The way of one event, or of one subscription, through the files: `python tools/way.py event`.

Two brokers and two clients run in this process, on loopback sockets and with the plain engine, as an application would
start them. While one event goes from the publisher to the application that subscribed (or one subscription from there
until its receipt), every function of the package that is entered is written down. What is printed is the list of
rooms in the order in which they are first entered, and the counts: the size of what a reader must follow.

The network is warm, as a running one is: an event with the same names and other values has gone the same way before.

It also counts how often an event is decoded and a filter parsed in each of the four places (two clients, two brokers):
each should read what passes at most once.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import structlog

import tidings
from tidings.net.addresses import address_text
from tidings.net.broker.config import load_config
from tidings.net.broker.service import BrokerService

PACKAGE = str(Path(tidings.__file__).parent) + "/"
QUIET = structlog.wrap_logger(structlog.ReturnLogger(), processors=[])

READINGS = {"event_of": "event decoded", "decode_event": "event decoded", "parse_anew": "filter parsed"}
"""Functions in which content is read, and what a call of them means."""


class Way(msgspec.Struct):
    """What was entered between two moments."""

    calls: int = 0
    functions: dict[tuple[str, str, int], None] = {}
    crossings: int = 0
    readings: dict[str, int] = {}

    def entered(self, frame: FrameType, event: str, argument: Any) -> None:
        path = frame.f_code.co_filename
        if event != "call" or not path.startswith(PACKAGE):
            return
        file, name = path.removeprefix(PACKAGE), frame.f_code.co_qualname
        last = next(reversed(self.functions), None) if self.functions else None
        self.calls += 1
        self.functions[file, name, frame.f_code.co_firstlineno] = None
        if last is not None and last[0].rpartition("/")[0] != file.rpartition("/")[0]:
            self.crossings += 1
        reading = READINGS.get(frame.f_code.co_name)
        if reading is not None:
            self.readings[reading] = self.readings.get(reading, 0) + 1

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(file for file, _, _ in self.functions))

    @property
    def folders(self) -> list[str]:
        return list(dict.fromkeys(file.rpartition("/")[0] for file in self.files))


async def follow(step: Callable[[], Awaitable[object]]) -> Way:
    way = Way()
    sys.setprofile(way.entered)
    try:
        await step()
    finally:
        sys.setprofile(None)
    return way


def broker(name: str, *links: str) -> BrokerService:
    flags = {"name": name, "listen": "127.0.0.1:0", "links": list(links) or None, "routing": {"engine": "plain"}}
    return BrokerService(load_config(None, flags), log=QUIET)


async def walk(what: str) -> Way:
    modes: dict[str, Any] = {"ordered": True, "reliable": True, "paced": True} if what == "transport" else {}
    async with broker("a") as a, broker("b", address_text(a.address)) as b:
        urls = [f"tidings://{address_text(each.address)}" for each in (a, b)]
        async with (
            tidings.connect(urls[0], name="pete", **modes) as publisher,
            tidings.connect(urls[1], name="ann", **modes) as subscriber,
        ):
            await publisher.advertise("price > 0")
            if what == "subscription":
                return await follow(lambda: subscriber.subscribe("price > 100 AND symbol = 'IBM'"))
            subscription = await subscriber.subscribe("price > 100")
            await publisher.publish({"price": 101.5, "symbol": "AAPL"}, b"first", receipt=True)
            await subscription.take(1)

            async def carry() -> None:
                await publisher.publish({"price": 104.5, "symbol": "IBM"}, b"payload")
                (event,) = await subscription.take(1)
                assert event.attributes["price"] == 104.5

            return await follow(carry)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", nargs="?", default="event", choices=("event", "subscription", "transport"))
    parser.add_argument("--json", action="store_true", help="counts only, for programs")
    asked = parser.parse_args()
    way = asyncio.run(walk(asked.what))
    counts = {
        "calls": way.calls,
        "functions": len(way.functions),
        "files": len(way.files),
        "folders": len(way.folders),
        "crossings": way.crossings,
        **way.readings,
    }
    if asked.json:
        print(json.dumps(counts))
        return
    for file in way.files:
        print(file)
        for name in [name for other, name, _ in way.functions if other == file]:
            print(f"    {name}")
    print(", ".join(f"{name} {count}" for name, count in counts.items()))


if __name__ == "__main__":
    main()
