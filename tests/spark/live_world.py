"""A broker for tests of the format "tidings": in a thread of this process, so that Spark's processes can reach it."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from pyspark.errors import StreamingQueryException

from tests.scenarios.services import make_service
from tests.worlds.loopback import connect
from tests.worlds.sockets import WAIT_MAX
from tidings.net.addresses import address_text
from tidings.net.broker.service import BrokerService
from tidings.net.tls import Address
from tidings.pubsub.publications import decode_head, encode_head

STORED = {"history_age": 3600.0, "history_count_max": 1_000_000, "history_bytes_max": 2**30}


Result = TypeVar("Result")

WORKER_IS_LATE = "Python worker failed to connect back"


PAUSE_MAX = 60.0
"""Seconds."""


def patiently(attempt: Callable[[], Result]) -> Result:
    """Spark gives the Python process of a source ten seconds to start, however busy the machine is, and this cannot be
    set. A query that failed by that alone is started again, as whoever runs one would; each time later, since processes
    that were too late go on starting, and are what others then wait for."""
    pause = 1.0
    while True:
        try:
            return attempt()
        except StreamingQueryException as problem:
            if WORKER_IS_LATE not in str(problem):
                raise
        time.sleep(pause)
        pause = min(PAUSE_MAX, 2 * pause)


class ThreadBroker:
    """Stores an hour unless told otherwise."""

    def __init__(
        self,
        name: str = "broker",
        data: Path | None = None,
        port: int = 0,
        authorities: list[Path] | None = None,
        links: Sequence[Address] = (),
        **delivery: Any,
    ) -> None:
        self.name, self.data, self.port, self.authorities, self.links = name, data, port, authorities, links
        self.delivery = {**STORED, "history_bytes_total_max": 2**30, **delivery}

    def __enter__(self) -> Self:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name=self.name, daemon=True)
        self.thread.start()
        self.service: BrokerService = self.run(self.begin())
        self.url = f"tidings://{address_text(self.service.address)}"
        return self

    async def begin(self) -> BrokerService:
        settings = {"data": self.data, "listen": f"127.0.0.1:{self.port}", "authorities": self.authorities}
        others = map(address_text, self.links)
        sections = {"delivery": self.delivery, "routing": {"engine": "plain"}}
        return await make_service(self.name, *others, **settings, **sections).__aenter__()

    @property
    def address(self) -> Address:
        return self.service.address

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(WAIT_MAX)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.run(self.service.__aexit__(None, None, None))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def publish(self, name: str, events: Iterable[dict[str, Any]], advertise: str = "TRUE") -> None:
        """All of them are accepted when this returns."""
        asyncio.run(publish(self.url, name, list(events), advertise))

    def stored(self) -> list[int]:
        """The attribute n of all that is stored here, of all publishers."""
        return asyncio.run(stored(self.url))

    def accepted_from(self, after: dict[str, int]) -> float:
        """When the first event behind these numbers was accepted, by the clock of the broker, which is the one that
        counts: a test that takes a time of its own depends on how quick it is, and on two clocks."""
        return asyncio.run(accepted_from(self.url, after))


async def publish(url: str, name: str, events: list[dict[str, Any]], advertise: str = "TRUE") -> None:
    # One publisher, however often it is called, with numbers that are far apart.
    async with connect(url, name=name, numbers_from=time.time_ns() // 1000) as client:
        await client.advertise(advertise)
        await client.publish_encoded(list(map(encode_head, events)), [str(event).encode() for event in events])
        await client.flush()


async def stored(url: str) -> list[int]:
    got = []
    async with connect(url) as client:
        for mark in (await client.marks("TRUE")).marks:
            async for page in client.history("TRUE", mark.publisher, through=mark.through):
                got += [int(decode_head(head)["n"]) for head in page.heads]
    return got


async def accepted_from(url: str, after: dict[str, int]) -> float:
    async with connect(url) as client:
        marks = [mark for mark in (await client.marks("TRUE")).marks if mark.publisher in after]
        pages = [
            await client.fetch("TRUE", mark.publisher, after=after[mark.publisher], through=mark.through)
            for mark in marks
        ]
    return min(page.accepted_at[0] for page in pages if page.accepted_at)
