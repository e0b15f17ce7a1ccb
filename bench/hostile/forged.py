"""Attackers who speak the protocol themselves, frame by frame, and say what the client of this package never would.

    positions    Subscriptions that continue behind 200,000 publishers, named in full, again and again
    silent       20 subscribers to everything who never read, and a publisher that fills their connections
    lying        A broker that joins, acknowledges what it is told, and lies as quickly as it can: tables, digests,
                 marks, extents, answers to what nobody asked. What is believed of a broker it does not lie about:
                 its place in the tree, and that it will answer, for which others wait

Whoever is turned away calls again.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any, Literal

import tidings
from bench.hostile.target import Target, place_of
from tidings.model.bounds import CHANGES_PACKED_MAX, NAME_CHARS_MAX, PUBLISHERS_MAX
from tidings.protocols.access.messages import Attach, Attached
from tidings.protocols.delivery.messages import (
    Behind,
    History,
    HistoryBegun,
    HistoryTaken,
    LookFar,
    MarksFar,
    Reference,
    Subscribe,
    Unsubscribe,
)
from tidings.protocols.overlay.messages import Join
from tidings.protocols.routing.messages import (
    AdvertisementAdded,
    AdvertisementRemoved,
    ChangesInstalled,
    PartTold,
    PublicationsSkipped,
    PublicationsTaken,
    SubscriptionAdded,
    SubscriptionRemoved,
    TableChanges,
    TablesBegun,
    TablesTaken,
    TablesTold,
)
from tidings.protocols.routing.packets import changes_of
from tidings.pubsub.publications import Publications, encode_head
from tidings.wire import FrameReader, decode, encode, frame
from tidings.wire.handshake import Heartbeat, Hello

POSITIONS = 200_000
PAGE = 2048
"""Positions in one message: names as long as they may be have no more room."""

SILENT = 20
LIES_AT_ONCE = 50
QUIET = 4.0
CHANGES = AdvertisementAdded, AdvertisementRemoved, SubscriptionAdded, SubscriptionRemoved


class RawPeer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer, self.frames = reader, writer, FrameReader()
        self.heard: list[Any] = []

    async def say(self, *messages: Any) -> None:
        self.writer.write(b"".join(frame(encode(each)) for each in messages))
        await self.writer.drain()

    async def hear(self, kind: type) -> Any:
        while True:
            for place, message in enumerate(self.heard):
                if isinstance(message, kind):
                    del self.heard[: place + 1]
                    return message
            data = await self.reader.read(65_536)
            if not data:
                raise ConnectionError("the broker ended it")
            self.heard += [decode(body) for body in self.frames.feed(data)]

    async def ignore(self) -> None:
        while await self.reader.read(65_536):
            pass


@asynccontextmanager
async def attached(url: str, name: str, role: Literal["client", "broker"]) -> AsyncIterator[RawPeer]:
    reader, writer = await asyncio.open_connection(*place_of(url))
    peer = RawPeer(reader, writer)
    try:
        await peer.say(Hello(name, capabilities=("link",), epoch=1))
        await peer.hear(Hello)
        await peer.say(Heartbeat(), Attach(role, b""))
        await peer.hear(Attached)
        yield peer
    finally:
        writer.close()


def asked(number: int, filter: str, **more: Any) -> Subscribe:
    fields: dict[str, Any] = {"guarantee": "installed", "since": None, "after": (), "is_continued": True, "group": ""}
    return Subscribe(number, filter, **fields | {"policy": "wait", "queue_max": 1, "window": 1} | more)


async def positions(target: Target) -> None:
    names = [f"{number:06}".ljust(NAME_CHARS_MAX, "n") for number in range(POSITIONS)]
    pages = [tuple((name, 1) for name in names[at : at + PAGE]) for at in range(0, POSITIONS, PAGE)]
    assert PAGE <= PUBLISHERS_MAX
    for life in itertools.count():
        with suppress(OSError):
            async with attached(target.url_a, f"zpositions{life}", "client") as peer:
                ignoring = asyncio.create_task(peer.ignore())
                for number in itertools.count(1):
                    for page in pages:
                        await peer.say(Behind(number, page))
                    await peer.say(asked(number, "kind = 'never'"), Unsubscribe(number))
                ignoring.cancel()


async def silent(target: Target) -> None:
    async def stay_silent(number: int) -> None:
        for life in itertools.count():
            with suppress(OSError):
                async with attached(target.url_a, f"zsilent{number}.{life}", "client") as peer:
                    wanted = {"is_continued": False, "queue_max": 10_000, "window": 10_000}
                    await peer.say(*(asked(n, "kind = 'noise'", **wanted) for n in range(1, 50)))
                    while not peer.writer.is_closing():
                        await peer.say(Heartbeat())
                        await asyncio.sleep(1.0)

    async def publish() -> None:
        async with tidings.connect(target.url_a) as publisher:
            await publisher.advertise("kind = 'noise'")
            for number in itertools.count():
                await publisher.publish({"kind": "noise", "number": number}, b"x" * 20_000, receipt=True)

    async with asyncio.TaskGroup() as group:
        group.create_task(publish())
        for number in range(SILENT):
            group.create_task(stay_silent(number))


async def lying(target: Target) -> None:
    """It begins when the ordinary clients have their receipts: these wait for every broker, and so for this one."""
    await asyncio.sleep(QUIET)
    for life in itertools.count():
        with suppress(OSError):
            name = f"zliar{life}"
            async with attached(target.url_a, name, "broker") as peer:
                # Two brokers are peers when each has let the other in.
                await peer.hear(Attach)
                await peer.say(Attached("a", "", ""))
                await tell_lies(peer, name, Random(life))


async def tell_lies(peer: RawPeer, name: str, rng: Random) -> None:
    await peer.say(Join())
    begun = await peer.hear(TablesBegun)
    answering = asyncio.create_task(acknowledge(peer))
    await peer.say(TablesBegun(1, begun.life, b"\xff" * 4096, b"\x00" * 4096), HistoryBegun(1, 1 << 40))
    telling = lies(name, rng)
    try:
        while not answering.done():
            await peer.say(*itertools.islice(telling, LIES_AT_ONCE))
    finally:
        answering.cancel()


async def acknowledge(peer: RawPeer) -> None:
    """Whatever else it is, it is a broker that keeps nobody waiting."""
    while True:
        told = await peer.hear(object)
        changes = changes_of(told) if isinstance(told, TableChanges) else (told,)
        numbers = tuple(each.number for each in changes if isinstance(each, CHANGES) and each.number)
        if numbers:
            await peer.say(ChangesInstalled(numbers, ("zliar",), 1))


def lies(name: str, rng: Random) -> Iterator[Any]:
    """Good frames of a neighbour: forged publishers, numbers, marks and digests."""
    while True:
        publisher, me = f"p{rng.randrange(200)}", (name,)
        advertisement, any_number = f"{publisher}/1@{name}", rng.choice((0, 1, 2**31, 2**53))
        extents = tuple((each, any_number) for each in range(8))
        filters = [f"kind = 'l{rng.random()}' AND x LIKE '%{'_' * rng.randrange(30)}a{each}%'" for each in range(4)]
        head = encode_head({"kind": "lie"})
        yield TablesTold()
        yield TableChanges(
            tuple(
                AdvertisementAdded(0, f"{publisher}/{n}@{name}", publisher, text, "z", 1)
                for n, text in enumerate(filters)
            ),
            subscriptions_added=tuple(SubscriptionAdded(any_number + n, text) for n, text in enumerate(filters)),
            parts_told=(PartTold(rng.random() < 0.5, 0, 1),),
        )
        yield Publications(publisher, advertisement, 1e9, any_number, (any_number,), (head,), (b"",))
        yield PublicationsSkipped(publisher, advertisement, any_number)
        yield ChangesInstalled(tuple(rng.randrange(1 << 20) for _ in range(CHANGES_PACKED_MAX)), me, any_number)
        yield rng.choice((TablesTaken(any_number), PublicationsTaken(any_number), HistoryTaken(1, any_number)))
        yield MarksFar(any_number, ((advertisement, any_number, extents, extents),), (advertisement,), ())
        yield LookFar(any_number, (advertisement,) * 4, me)
        asked_for = ((advertisement, any_number),)
        yield Reference("c", 1, any_number, filters[0], asked_for, None, False, "g", "", any_number, any_number, me)
        found = (1e9,), (any_number,), (head,), (b"",)
        told = True, any_number, True, extents, extents, True, any_number, ""
        yield History("c", 1, any_number, advertisement, publisher, 1e9, any_number, *told, (), *found)
