"""For how long a lost neighbour is remembered that has not come back: until waiting has cost what it may save.

The problem. While a lost neighbour rests (`rests.py`) events still come to where it wanted them, and are dropped there.
When it is forgotten both tables of the link have to be told again should it come back. Nobody knows whether it will:
a link that was cut is back soon, a process that was started again after some seconds, a machine that burned never.

The idea. Both costs can be counted where the waiting is done. At *stake* are the filters that were told on the link, to
either side. Each event that comes here and is wanted by nobody is a message in vain. Whoever waits until there were as
many of these as are at stake pays, whatever happens, at most about twice what one would who knows the future; no rule
that sees no more does better (it is the problem of renting or buying skis, Karlin et al. 1988). Where no event comes
waiting costs nothing, and ends after `rest_for` seconds.

And where the overlay has put another link in the place of the lost one, waiting is over. That shows, too: what the lost
neighbour wanted comes from another one, filter upon filter, and stops. A quarter of the time that this took later
what has not come will not, and the next event in vain ends the waiting. Of each lost neighbour some filters that no
other neighbour wanted are watched for this.

Bounds: `resting_max` lost neighbours (`rests.py`), `WATCHED_FILTERS_MAX` filters of each.
"""

from collections.abc import Iterable, Iterator

import msgspec

from tidings.model.bounds import WATCHED_FILTERS_MAX
from tidings.model.identity import NodeId
from tidings.protocols.routing.repairs.patience import QUIET


class WatchedRest(msgspec.Struct):
    lost_at: float
    stake: int
    """Filters that would be told again."""
    texts: set[str]
    """Those that are watched and have not come from another neighbour."""
    vain: int = 0
    """Events that came meanwhile and were wanted by nobody."""
    took: float | None = None
    """Seconds until the last filter came so far."""


class RestPatience:
    def __init__(self) -> None:
        self.watched: dict[NodeId, WatchedRest] = {}
        """Those that rest."""

    def watch(self, now: float, neighbour: NodeId, stake: int, texts: Iterable[str]) -> None:
        """It rests from now on, and no other neighbour wants these."""
        few = {text for text, _ in zip(texts, range(WATCHED_FILTERS_MAX), strict=False)}
        self.watched[neighbour] = WatchedRest(now, stake, few)

    def forget(self, neighbour: NodeId) -> None:
        self.watched.pop(neighbour, None)

    def came_back(self, now: float, text: str) -> None:
        """A neighbour wants this that did not before."""
        for watched in self.watched.values():
            if text in watched.texts:
                watched.texts.discard(text)
                watched.took = now - watched.lost_at

    def in_vain(self, now: float, count: int) -> list[NodeId]:
        """So many events came that nobody wants. Those that are not waited for any longer because of that."""
        for watched in self.watched.values():
            watched.vain += count
        return list(self.past(now))

    def past(self, now: float) -> Iterator[NodeId]:
        for neighbour, watched in self.watched.items():
            is_replaced = watched.took is not None and now - watched.lost_at >= QUIET * watched.took
            if is_replaced or watched.vain >= watched.stake:
                yield neighbour

    def check(self) -> None:
        assert all(len(each.texts) <= WATCHED_FILTERS_MAX for each in self.watched.values())
