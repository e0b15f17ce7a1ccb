"""The publishers that a node follows: which of their numbers it saw, and when it last heard of each."""

from collections.abc import Iterable
from itertools import islice

from tidings.protocols.transport.formats import unwrap
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.signals import Stream
from tidings.pubsub.seen import Seen

SAME_ID_MAX = 8
"""Streams of one publisher id. Ids are drawn at random, so a second one is rare, or a lie."""

LOOKED_AT = 32
"""Streams among which the one that was silent longest makes room for a new one."""


class Following:
    """One stream, from its event `first` on."""

    __slots__ = ("last", "seen")

    def __init__(self, now: float, first: int, window: int) -> None:
        self.seen = Seen(first, window)
        self.last = now

    def whole(self, wrapped: int) -> int:
        return unwrap(wrapped, self.seen.high)

    def take(self, now: float, wrapped: int) -> tuple[int, bool]:
        """The whole number, and whether it is new."""
        self.last = now
        sequence = unwrap(wrapped, self.seen.high)
        return sequence, self.seen.add(sequence)


class FollowedStreams:
    def __init__(self, params: TransportParams) -> None:
        self.params = params
        self.all: dict[Stream, Following] = {}
        self.by_id: dict[int, list[Stream]] = {}

    def open(self, now: float, stream: Stream, first: int) -> Stream | None:
        """Follow this one from its event `first` on; answers with the one that had to go for it."""
        gone = None
        same = self.by_id.setdefault(stream[1], [])
        if len(same) >= SAME_ID_MAX:
            gone = self.silent_longest(same)
        elif len(self.all) >= self.params.streams_max:
            gone = self.silent_longest(self.next_looked_at())
        self.all[stream] = Following(now, first, self.params.ordering.window)
        same.append(stream)
        return gone

    def silent_longest(self, streams: Iterable[Stream]) -> Stream:
        return min(streams, key=lambda known: self.all[known].last)

    def next_looked_at(self) -> list[Stream]:
        """The next few of all, in turn: a stranger that makes up publishers must not have us look at all of them for
        each."""
        looked_at = list(islice(self.all, LOOKED_AT))
        for stream in looked_at:
            self.all[stream] = self.all.pop(stream)
        return looked_at

    def forget_id(self, stream: Stream) -> None:
        same = self.by_id.get(stream[1], [])
        if stream in same:
            same.remove(stream)
        if not same:
            self.by_id.pop(stream[1], None)

    def find(self, publisher: int, wrapped: int, is_lacking: bool = True) -> tuple[Stream | None, int, bool]:
        """The stream of this id that lacks the number (or, without `is_lacking`, has it), else any; the whole number,
        and whether it is lacking."""
        found: tuple[Stream | None, int, bool] = (None, wrapped, False)
        for stream in self.by_id.get(publisher, ()):
            following = self.all[stream]
            sequence = following.whole(wrapped)
            lacks = sequence not in following.seen
            if lacks is is_lacking:
                return stream, sequence, lacks
            found = stream, sequence, lacks
        return found

    def silent(self, now: float) -> list[Stream]:
        return [stream for stream, one in self.all.items() if now - one.last >= self.params.session_timeout]

    def check(self) -> None:
        assert len(self.all) <= self.params.streams_max, "more streams are followed than streams_max allows"
        assert sum(map(len, self.by_id.values())) == len(self.all), "streams are filed wrongly by their ids"
