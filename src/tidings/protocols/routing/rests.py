"""Links that rest: a neighbour that is lost and may come back is not forgotten at once.

Most links that are lost come back, to the same neighbour and soon. To take back everywhere what the neighbour wanted,
and to tell it all again, costs as much as the tables are large. So where the repair allows it (`Repair.rests`) both
ends remember for `rest_for` seconds what they told and what they heard, and when the link is back only the difference
is told (`links.py`, `buckets.py`).

Meanwhile the neighbour is *absent*. What it wants is as a ghost's: it is not told anew to anybody and not taken back
from anybody, and no event goes there. What it offered does not count, since publications may be lost now: others hear
that it is withdrawn, and delivery hears `Forgotten`. When the neighbour is back and both ends have gone through their
tables it counts again, and delivery hears `Known` and asks for what it lacks.

`rest_for` is the longest: unless it is fixed (`is_tuned`) a neighbour is forgotten before when events that come for it
in vain have cost as much as may be saved, or when another link has taken its place (`rest_patience.py`).

A neighbour that does not come back is forgotten a piece at a time (`departures.py`). One that comes back in the middle
of that is told, or tells, what is lacking.

Timers: ("rest", neighbour).
"""

from tidings.machine.effects import CancelTimer, Effect, SetTimer
from tidings.machine.inputs import TimerKey
from tidings.model.identity import NodeId
from tidings.protocols.routing.advertisements import RoutingAdvertisements
from tidings.protocols.routing.departures import TableDepartures
from tidings.protocols.routing.links import NeighbourLink
from tidings.protocols.routing.packets import packed_answers
from tidings.protocols.routing.repairs.patience import wanted_by_no_neighbour
from tidings.protocols.routing.rest_patience import RestPatience
from tidings.protocols.routing.state import State

TIMER = "rest"


class RestingLinks:
    def __init__(
        self, state: State, departures: TableDepartures, advertisements: RoutingAdvertisements, is_used: bool
    ) -> None:
        self.state, self.departures, self.advertisements = state, departures, advertisements
        self.tables = state.tables
        self.links: dict[NodeId, NeighbourLink] = {}
        """Those that rest, the one that has rested longest first."""
        self.patience = RestPatience()
        # What is brought around a failure is not in vain, and whoever does that must know who wanted it.
        if is_used and state.params.is_tuned and not state.params.rescue_window:
            departures.subscriptions.came, state.carrier.in_vain = self.patience.came_back, self.in_vain

    def suspend(self, now: float, link: NeighbourLink) -> list[Effect]:
        """A life of the link is over."""
        effects = link.suspend() + packed_answers(self.state.ledger.lose(link.neighbour))
        effects += self.state.carrier.carriage.close(link.neighbour)
        self.tables.absent[link.neighbour] = None
        self.advertisements.suspend(now, link.neighbour, effects)
        if self.state.census is not None:
            effects += self.state.census.lost(now, link.neighbour)
        self.state.tables_changed()
        return effects

    def rest(self, now: float, link: NeighbourLink) -> list[Effect]:
        """The link is lost; it is among the others no more."""
        effects = self.suspend(now, link)
        self.links[link.neighbour] = link
        texts = self.tables.texts[link.neighbour]
        self.patience.watch(
            now, link.neighbour, len(texts) + len(link.filters), wanted_by_no_neighbour(self.tables, texts)
        )
        effects.append(SetTimer((TIMER, link.neighbour), now + self.state.params.rest_for))
        if len(self.links) > self.state.params.resting_max:
            oldest = next(iter(self.links))
            effects += self.forget_early(now, oldest)
        return effects

    def start(self, now: float) -> list[Effect]:
        """There is no timer any more."""
        return [SetTimer((TIMER, neighbour), now + self.state.params.rest_for) for neighbour in self.links]

    def wake(self, neighbour: NodeId) -> tuple[NeighbourLink | None, list[Effect]]:
        """The neighbour is back: the link as it was, if it rests."""
        self.departures.fading.pop(neighbour, None)
        link = self.links.pop(neighbour, None)
        self.patience.forget(neighbour)
        return link, [] if link is None else [CancelTimer((TIMER, neighbour))]

    def fired(self, now: float, key: TimerKey) -> list[Effect]:
        match key:
            case (name, str(neighbour)) if name == TIMER and neighbour in self.links:
                return self.forget(now, neighbour)
        return []

    def in_vain(self, now: float, count: int) -> list[Effect]:
        """So many events came here that nobody wants."""
        past = self.patience.in_vain(now, count)
        return [effect for neighbour in past for effect in self.forget_early(now, neighbour)]

    def forget_early(self, now: float, neighbour: NodeId) -> list[Effect]:
        return [CancelTimer((TIMER, neighbour)), *self.forget(now, neighbour)]

    def forget(self, now: float, neighbour: NodeId) -> list[Effect]:
        """It has not come back."""
        link = self.links.pop(neighbour)
        self.patience.forget(neighbour)
        if link.kept is not None:
            self.departures.reductions.append(link.kept)
        self.departures.fading[neighbour] = None
        return self.departures.arm(now)

    def check(self) -> None:
        assert len(self.links) <= self.state.params.resting_max
        assert not self.links.keys() & self.state.links.keys()
        assert self.links.keys() <= self.tables.absent.keys()
        assert self.patience.watched.keys() == self.links.keys()
        self.patience.check()
        for link in self.links.values():
            link.check()
