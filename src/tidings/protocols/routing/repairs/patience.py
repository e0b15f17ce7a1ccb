"""When to stop waiting for a link that is lost: as soon as waiting costs anything, and not before it was of use.

The problem. Repairs that wait need a time for it, T_u. Too short, and everything is taken back and told again; too
long, and events run along routes that lead nowhere. The source sets it by hand to a little more than the overlay needs,
which whoever starts a broker does not know. And no one time is right: as long as no event comes along an old route
waiting costs nothing, and where links are replaced all the time it saves the more the longer it lasts.

The idea. Both sides of it can be seen where the waiting is done, whatever the overlay tells. *Of use* it was when what
the lost neighbour wanted has come back from another neighbour: of each lost neighbour some filters that no other
neighbour wanted are watched. They come one upon the other when the new link is there; a quarter of the time that it
took later, what has not come will not. *Costs* are events that arrive here and are wanted by nobody. So waiting ends
with the first such event behind that moment. Where nothing comes back, because the other side is dead, waiting ends
with the first such event behind the time that it has taken before, computed like the patience of TCP (RFC 6298): mean
and deviation, both moving, and

    mean + 4 deviations

In any case it ends after `unsubscribe_after` seconds. T_s is not learned: filters must be held back for as long as the
other end may wait (eq. 6.1). A longer T_s costs messages only where changes overlap (concepts/dynamic-topologies.md).

Bounds: `WATCHED_LOSSES_MAX` lost neighbours, `WATCHED_FILTERS_MAX` filters of each.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from tidings.model.bounds import WATCHED_FILTERS_MAX, WATCHED_LOSSES_MAX
from tidings.protocols.routing.tables import Ghost, Tables

MEAN_GAIN, DEVIATION_GAIN, DEVIATIONS = 1 / 8, 1 / 4, 4.0
"""RFC 6298."""

LOOKED_AT_MAX = 1000
"""Of what a lost neighbour wanted, to find some that nobody else does."""

QUIET = 1.25
"""Times as long as it took until the last filter came back, and nothing more is expected."""


class WatchedLoss(msgspec.Struct):
    lost_at: float
    texts: set[str]
    """Those that have not come back."""
    took: float | None = None
    """Seconds until the last one did so far."""


class RepairPatience:
    def __init__(self, longest: float) -> None:
        self.longest = longest
        self.mean: float | None = None
        self.deviation = 0.0
        self.watched: dict[Ghost, WatchedLoss] = {}
        """Oldest first, for `longest` seconds each, also when they are not waited for any more."""

    def usual(self) -> float:
        """Seconds after which filters have come back before."""
        return self.longest if self.mean is None else min(self.longest, self.mean + DEVIATIONS * self.deviation)

    def watch(self, now: float, ghost: Ghost, texts: Iterable[str]) -> None:
        """A neighbour is lost, and nobody else wants these."""
        few = {text for text, _ in zip(texts, range(WATCHED_FILTERS_MAX), strict=False)}
        self.learn(now)
        self.forget(ghost)
        self.watched[ghost] = WatchedLoss(now, few)
        if len(self.watched) > WATCHED_LOSSES_MAX:
            self.forget(next(iter(self.watched)))

    def came_back(self, now: float, text: str) -> None:
        self.learn(now)
        for watched in self.watched.values():
            if text in watched.texts:
                watched.texts.discard(text)
                watched.took = now - watched.lost_at

    def past(self, now: float) -> Iterator[Ghost]:
        """Those for whom waiting has been of use, or was for as long as usual."""
        usual = self.usual()
        for ghost, watched in self.watched.items():
            if now - watched.lost_at >= min(usual, self.longest if watched.took is None else QUIET * watched.took):
                yield ghost

    def learn(self, now: float) -> None:
        """From those who were watched for long enough."""
        for ghost in [each for each, watched in self.watched.items() if now - watched.lost_at >= self.longest]:
            self.forget(ghost)

    def forget(self, ghost: Ghost) -> None:
        watched = self.watched.pop(ghost, None)
        if watched is None or watched.took is None:
            return
        if self.mean is None:
            self.mean, self.deviation = watched.took, watched.took / 2
        else:
            self.deviation += DEVIATION_GAIN * (abs(self.mean - watched.took) - self.deviation)
            self.mean += MEAN_GAIN * (watched.took - self.mean)

    def check(self) -> None:
        assert len(self.watched) <= WATCHED_LOSSES_MAX
        assert all(len(each.texts) <= WATCHED_FILTERS_MAX for each in self.watched.values())


def wanted_by_no_neighbour(tables: Tables, texts: Iterable[str]) -> Iterator[str]:
    """Of what a lost neighbour wanted: what came from nobody else who is there."""
    some = islice(texts, LOOKED_AT_MAX)
    return (text for text in some if not any(isinstance(hop, str) and tables.is_live(hop) for hop in tables.hops[text]))
