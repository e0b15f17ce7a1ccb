"""Popularity: which publications are worth a way of their own on the tree, and which are not.

The problem. A stream that one distant broker wants costs a forward on every link towards it, as one does that a hundred
brokers want there. When a broker comes to the end of its capacity, the first holds up the second. Whether somebody
behind a link wants a publication is all that routing asks; it is blind to how many do.

The idea. For each link and advertisement the broker knows how many subscriptions there are behind the link and how far
away (`census.py`). The *gain* of a forward there is their number divided by their mean distance:

    gain = n / (hop_sum / n) = n * n / hop_sum

A share `phi` of the broker's `capacity` (forwards a second) is for the tree. Every `evaluated_every` seconds the
streams are sorted by gain, the rates of the last interval are added up from the top, and those that fit are *popular*.
The one that crosses the limit still is, so there is always one. Nothing is done while the gains are as they were and
what is popular fills its share to within a tenth: else streams at the limit would go to and fro. Those whose publisher
asked for low latency come first, whatever their gain; those whose publisher asked for cheap ones come last.

Only the publisher's broker acts on it (`carriage/popular.py`); those on the way forward what comes. What becomes of
what is not popular is a matter of the carriage.

Foreseen. The rates of the last interval say what was. Where somebody knows better what comes (`foreseen`), a stream is
expected to have the share of the foreseen rate that it had of the last one, and that counts.

State. A `Stream` for each link and advertisement that something was offered to, whichever way it took: how much in this
interval, the rate of the last one, whether it is popular. All begin as popular. One that was silent for an interval is
forgotten; then it is as at the beginning.

Guaranteed. The popular streams are the first ones of the list by gain, and fill nine tenths of the share or are all of
them. Where nothing is counted behind a link yet, its streams are popular.

Source: Salehi, PopSub, 5.1 to 5.3 (Alg 2); specification 3.4.1 to 3.4.3, repairs G-21 to G-24.
"""

from collections.abc import Callable
from math import ceil, inf
from typing import NamedTuple

from tidings.model.identity import NodeId
from tidings.protocols.routing.census import NOBODY, Tally
from tidings.pubsub.signals import AdvertisementId

BAND = 0.1
"""By which share of its target what is popular may miss it before anything is changed."""

STREAMS_MAX = 100_000
"""Links times advertisements of which rates are known; what comes beyond is popular and not counted."""

StreamKey = tuple[NodeId, AdvertisementId]


class Stream:
    """What goes over one link under one advertisement."""

    __slots__ = ("count", "gain", "is_popular", "rate")

    def __init__(self) -> None:
        self.count = 0
        self.rate = 0.0
        self.gain = 0.0
        """As it was when it was last evaluated."""
        self.is_popular = True


class Evaluation(NamedTuple):
    """What came of it, for those who look."""

    streams: int
    popular: int
    rate: float
    popular_rate: float
    """Publications a second, all and those of popular streams."""
    gain: float
    """The mean over the publications of popular streams."""


def gain_of(tally: Tally) -> float:
    return tally.subscriptions**2 / tally.hop_sum if tally.hop_sum else 0.0


class Popularity:
    """`Popularity(capacity, phi, behind, rank)`: `behind` says what is counted behind a link, `rank` which
    advertisements come first (0), in the order of their gain (1), and last (2), `foreseen` how many publications a
    second are expected of one, if that is known."""

    def __init__(
        self,
        capacity: float,
        phi: float,
        behind: Callable[[NodeId, AdvertisementId], Tally],
        rank: Callable[[AdvertisementId], int] = lambda advertisement: 1,
        foreseen: Callable[[AdvertisementId], float | None] | None = None,
    ) -> None:
        self.capacity, self.phi, self.behind, self.rank = capacity, phi, behind, rank
        self.foreseen = foreseen
        self.streams: dict[StreamKey, Stream] = {}
        self.gain_min: float | None = None
        """The least gain of a popular stream; None where nobody is known to want any."""
        self.has_unpopular = False
        """Whether there was a stream that is not, when they were evaluated."""
        self.uncounted = 0
        """Publications for which there was no room in the table."""

    @property
    def target(self) -> float:
        return self.capacity * self.phi

    def offer(self, neighbour: NodeId, advertisement: AdvertisementId, count: int) -> bool:
        """So many publications are to go there; whether they are popular."""
        key = neighbour, advertisement
        stream = self.streams.get(key)
        if stream is None:
            if len(self.streams) >= STREAMS_MAX:
                self.uncounted += count
                return True
            stream = self.streams[key] = Stream()
        stream.count += count
        return stream.is_popular

    def is_popular(self, key: StreamKey) -> bool:
        stream = self.streams.get(key)
        return stream is None or stream.is_popular

    def gain(self, neighbour: NodeId, advertisement: AdvertisementId) -> float:
        return gain_of(self.behind(neighbour, advertisement))

    def evaluate(self, interval: float) -> Evaluation:
        """At the end of an interval."""
        has_changed = self.measure(interval)
        expected = self.expect()
        filled = sum(expected[key] for key, stream in self.streams.items() if stream.is_popular)
        if has_changed or abs(filled - self.target) > BAND * self.target:
            self.fill(expected)
        popular = [stream for stream in self.streams.values() if stream.is_popular]
        self.gain_min = min((stream.gain for stream in popular if stream.gain > 0), default=None)
        self.has_unpopular = len(popular) < len(self.streams)
        popular_rate = sum(stream.rate for stream in popular)
        gain = sum(stream.rate * stream.gain for stream in popular)
        return Evaluation(
            streams=len(self.streams),
            popular=len(popular),
            rate=sum(stream.rate for stream in self.streams.values()),
            popular_rate=popular_rate,
            gain=gain / popular_rate if popular_rate else 0.0,
        )

    def measure(self, interval: float) -> bool:
        """Take rates and gains as they are now; whether a gain is another one than before."""
        has_changed = False
        for key, stream in list(self.streams.items()):
            if not stream.count and not stream.rate:
                # Silent for two intervals: there is nothing to decide about it.
                del self.streams[key]
                has_changed = True
                continue
            stream.rate, stream.count = stream.count / interval, 0
            gain = self.gain(*key)
            has_changed |= gain != stream.gain
            stream.gain = gain
        return has_changed

    def expect(self) -> dict[StreamKey, float]:
        """The rates of the next interval."""
        if self.foreseen is None:
            return {key: stream.rate for key, stream in self.streams.items()}
        most: dict[AdvertisementId, float] = {}
        for (_, advertisement), stream in self.streams.items():
            most[advertisement] = max(stream.rate, most.get(advertisement, 0.0))
        foreseen = {advertisement: self.foreseen(advertisement) for advertisement in most}
        expected: dict[StreamKey, float] = {}
        for key, stream in self.streams.items():
            rate, last = foreseen[key[1]], most[key[1]]
            # Of what an advertisement publishes a link gets a part; the one that got most is taken to have got all.
            share = stream.rate / last if last else 1.0
            expected[key] = stream.rate if rate is None else rate * share
        return expected

    def fill(self, expected: dict[StreamKey, float]) -> None:
        filled = 0.0
        for key in self.sorted_keys():
            stream = self.streams[key]
            stream.is_popular = filled < self.target
            if stream.is_popular:
                filled += expected[key]

    def sorted_keys(self) -> list[StreamKey]:
        """The best first; equal ones in the order of their names, so that they stay where they are."""
        return sorted(self.streams, key=lambda key: (self.rank(key[1]), -self.streams[key].gain, key))

    def batch_size(self, neighbour: NodeId, advertisement: AdvertisementId) -> float:
        """How many publications of a stream together are as good as one of the least popular stream; without end where
        that cannot be said."""
        gain = self.gain(neighbour, advertisement)
        return ceil(self.gain_min / gain) if self.gain_min is not None and gain > 0 else inf

    def diverts(self, neighbour: NodeId, advertisement: AdvertisementId) -> bool:
        """Whether it is known who is there."""
        return self.behind(neighbour, advertisement) != NOBODY

    def forget(self, neighbour: NodeId) -> None:
        """The link is gone."""
        for key in [key for key in self.streams if key[0] == neighbour]:
            del self.streams[key]

    def check(self) -> None:
        assert len(self.streams) <= STREAMS_MAX, "more streams than STREAMS_MAX"
