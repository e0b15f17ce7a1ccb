"""What a broker says it dropped, read from the history of the network.

The transport finds losses by records, and a record tells of a few events only. Our brokers tell more: `Missed` names
the subscription and the publisher of what was dropped for a slow client, and how many. So for a reliable subscription
the stretch in which they must lie is read from history: behind the last event that came before `Missed`, up to the last
one that has come since. What the transport has not seen of it is `Recovered`, by the way "history".

    Missed            a hole begins at the position of the subscription; look after `WAIT_FIRST`
    timer             something came since: read up to that. Nothing did: ask how far the publisher has come (marks)
    page              bring what is lacking; read on; at the end of the stretch the hole moves up to there
    enough, or late   the hole is closed when all that was missed is found, or after `TRIES_MAX` looks, each time twice
                      as far apart: the rest came another way, or is no longer stored

Timer ("mending", (subscription, publisher)). At most `HOLES_MAX` holes; what is dropped beyond them is not looked for.
Only events with a header are brought: without one nobody can tell what came already.
"""

from collections.abc import Callable
from typing import cast

import msgspec

from tidings.machine.effects import Effect, SetTimer
from tidings.nodes.carried.items import Hear, Own
from tidings.nodes.client import ClientNode
from tidings.protocols.transport.codec import decode_data
from tidings.protocols.transport.entries import BadHeader
from tidings.protocols.transport.marking import Kind, unmark
from tidings.protocols.transport.signals import Content, Recovered
from tidings.protocols.transport.transport import TransportNode
from tidings.pubsub.client import Fetched, MarksRead, Missed, ReadHistory, ReadMarks

WAIT_FIRST = 1.0
"""Seconds until the first look: caches of others are nearer than histories, and come first."""

TRIES_MAX = 6
HOLES_MAX = 256
PAGE_PUBLICATIONS = 1024

Key = tuple[int, str]
"""Subscription and publisher."""


class Hole(msgspec.Struct):
    after: int
    """The publisher's number up to which everything is there, or was looked for."""
    missing: int
    through: int = 0
    """How far is being read; 0 while nothing is."""
    tries: int = 0


class Mending:
    """`filter_of(number)` is that of a subscription, as it was installed; None if there is none."""

    def __init__(
        self,
        client: ClientNode,
        transport: TransportNode,
        from_session: Hear,
        from_transport: Hear,
        filter_of: Callable[[int], str | None],
    ) -> None:
        self.client, self.transport, self.filter_of = client, transport, filter_of
        self.from_session, self.from_transport = from_session, from_transport
        self.holes: dict[Key, Hole] = {}

    def position(self, key: Key) -> int | None:
        """The number up to which the session has delivered."""
        receiving = self.client.session.receiving.get(key[0])
        return None if receiving is None else receiving.positions.get(key[1], 0)

    def missed(self, now: float, missed: Missed) -> list[Effect]:
        key = missed.subscription, missed.publisher
        hole, position = self.holes.get(key), self.position(key)
        if hole is not None:
            hole.missing += missed.count
            hole.tries = 0
            return []
        if position is None or not missed.count or not missed.publisher or len(self.holes) >= HOLES_MAX:
            return []
        self.holes[key] = Hole(position, missed.count)
        return [SetTimer(("mending", key), now + WAIT_FIRST)]

    def look(self, now: float, key: Key) -> list[Effect]:
        """A timer fired."""
        hole, filter, position = self.holes.get(key), self.filter_of(key[0]), self.position(key)
        if hole is None or hole.through or filter is None or position is None:
            return []
        hole.tries += 1
        if position > hole.after:
            return self.read_through(now, key, filter, position)
        return self.from_session(now, self.client.handle(now, ReadMarks(Own("marks", key), filter)))

    def marks_read(self, now: float, item: MarksRead) -> list[Effect]:
        assert isinstance(item.ticket, Own)
        key = cast(Key, item.ticket.key)
        hole, filter = self.holes.get(key), self.filter_of(key[0])
        found = [through for part in item.parts for name, _, through in part.marks if name == key[1]]
        if hole is None or filter is None or not found or max(found) <= hole.after:
            return self.look_again(now, key)
        return self.read_through(now, key, filter, max(found))

    def read_through(self, now: float, key: Key, filter: str, through: int) -> list[Effect]:
        hole = self.holes[key]
        hole.through = through
        request = ReadHistory(Own("mend", key), filter, key[1], hole.after, None, through, PAGE_PUBLICATIONS)
        return self.from_session(now, self.client.handle(now, request))

    def read(self, now: float, key: Key, page: Fetched) -> list[Effect]:
        """A page is here: bring what is lacking, and read on."""
        hole, filter = self.holes.get(key), self.filter_of(key[0])
        if hole is None or filter is None:
            return []
        effects: list[Effect] = []
        columns = page.numbers, page.heads, page.payloads, page.accepted_at
        for number, head, payload, accepted_at in zip(*columns, strict=True):
            stored = Content(head, payload, key[1], number, accepted_at, (key[0],))
            recovered = self.recover(key, stored)
            if recovered is not None:
                hole.missing -= 1
                effects += self.transport.tally.found(recovered)
                effects += self.transport.handle(now, recovered)
        out = self.from_transport(now, effects)
        if page.has_more and page.through < hole.through:
            hole.after = page.through
            return out + self.read_through(now, key, filter, hole.through)
        hole.after = hole.through
        return out + self.look_again(now, key)

    def recover(self, key: Key, stored: Content) -> Recovered | None:
        """As an event that was lost and is here, if it is one."""
        head, kind = unmark(stored.head)
        if kind is not Kind.DATA:
            return None
        try:
            header, payload = decode_data(stored.payload)
        except BadHeader:
            return None
        stream = key[1], header.publisher
        following = self.transport.shim.streams.all.get(stream)
        if following is None:
            return None
        sequence = following.whole(header.sequence)
        if sequence in following.seen:
            return None
        content = Content(head, payload, stored.source, stored.number, stored.accepted_at, stored.subscriptions)
        return Recovered(stream, sequence, content, "history")

    def look_again(self, now: float, key: Key) -> list[Effect]:
        """Nothing more is read now: later, unless all is found, or we looked often enough."""
        hole = self.holes.get(key)
        if hole is None:
            return []
        hole.through = 0
        if hole.missing <= 0 or hole.tries >= TRIES_MAX:
            del self.holes[key]
            return []
        return [SetTimer(("mending", key), now + WAIT_FIRST * 2.0**hole.tries)]

    def forget(self, subscription: int) -> None:
        """Timers that are set find nothing."""
        self.holes = {key: hole for key, hole in self.holes.items() if key[0] != subscription}

    def check(self) -> None:
        assert len(self.holes) <= HOLES_MAX, "more holes are mended than is allowed"
        assert all(hole.tries <= TRIES_MAX for hole in self.holes.values()), "looked too often"
