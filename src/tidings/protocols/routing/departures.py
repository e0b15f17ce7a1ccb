"""Forgetting what a lost neighbour wanted, a piece at a time.

A neighbour may have wanted a hundred thousand filters. To take them back everywhere, or only to note that a ghost has
them now (`tables.py`), takes seconds in one step, in which this broker serves nobody. So where there are more of them
than one step may look at (`turn_entries`) it is done in turns (`walks.py`), with time for other traffic in between. The
neighbour is *absent* until that is done: nothing goes to it, and what it wanted stays told as that of ghosts does. A
small table is settled in the step in which it has to be.

    parting      what it wanted becomes a ghost's
    releasing    what a ghost wanted is taken back
    fading       what it wanted is taken back, and then it is forgotten

If the neighbour is back before that, what is left is done at once: it is rare, and then what it says is new.
"""

from collections.abc import Callable
from itertools import islice

from tidings.machine.effects import Effect
from tidings.model.identity import NodeId
from tidings.protocols.routing.reductions import Reduction
from tidings.protocols.routing.state import State
from tidings.protocols.routing.subscriptions import RoutingSubscriptions
from tidings.protocols.routing.tables import Ghost


class TableDepartures:
    def __init__(self, state: State, subscriptions: RoutingSubscriptions) -> None:
        self.state, self.subscriptions, self.tables = state, subscriptions, state.tables
        self.fading: dict[NodeId, None] = {}
        self.reductions: list[Reduction] = []
        """Of links that are forgotten; they go likewise."""
        self.releasing: dict[Ghost, None] = {}
        self.arm: Callable[[float], list[Effect]] = lambda now: []
        """Asks for the next turn (`walks.py`)."""
        subscriptions.departures = self

    @property
    def is_under_way(self) -> bool:
        return bool(self.fading or self.reductions or self.releasing or self.tables.parting)

    def is_large(self, count: int) -> bool:
        return count > self.state.params.turn_entries

    # What has to be done.

    def withdraw(self, now: float, neighbour: NodeId, effects: list[Effect]) -> None:
        """The neighbour wants nothing any more. If it is lost there may be a while until nobody is told so."""
        if neighbour in self.state.links or not self.is_large(len(self.tables.texts[neighbour])):
            self.subscriptions.withdraw_some(now, neighbour, list(self.tables.texts[neighbour]), effects)
            return
        self.tables.absent[neighbour] = None
        self.fading[neighbour] = None
        effects += self.arm(now)

    def haunt(self, now: float, ghost: Ghost, effects: list[Effect]) -> None:
        """What the lost neighbour wanted is the ghost's from now on."""
        tables = self.tables
        is_lost = ghost.lost not in self.state.links
        # Where somebody brings events around a failure, every event has to find all ghosts at once.
        if not is_lost or tables.ghost_index is not None or not self.is_large(len(tables.texts[ghost.lost])):
            tables.add_ghost(ghost)
            return
        tables.begin_parting(ghost)
        effects += self.arm(now)

    def release(self, now: float, ghost: Ghost, effects: list[Effect]) -> None:
        """Whatever the ghost has and nobody else wants is taken back."""
        if self.is_large(self.tables.count_haunted(ghost)):
            self.releasing[ghost] = None
            effects += self.arm(now)
        else:
            self.release_at_once(now, ghost, effects)

    def release_at_once(self, now: float, ghost: Ghost, effects: list[Effect]) -> None:
        self.subscriptions.reconcile(now, self.forget(ghost), effects)

    def forget(self, ghost: Ghost) -> list[str]:
        """What it had, for whoever says what follows from that."""
        self.releasing.pop(ghost, None)
        if self.tables.parting.get(ghost.lost) == ghost:
            self.part(ghost.lost)
        return self.tables.remove_ghost(ghost)

    def settle(self, now: float, neighbour: NodeId, effects: list[Effect]) -> None:
        """It is back: nothing of its former life is left under its name."""
        if neighbour in self.tables.parting:
            self.part(neighbour)
        if self.fading.pop(neighbour, 0) is None:
            self.subscriptions.withdraw_some(now, neighbour, list(self.tables.texts[neighbour]), effects)
            self.tables.remove_neighbour(neighbour)

    # One turn of it.

    def go_on(self, now: float, effects: list[Effect]) -> None:
        entries = self.state.params.turn_entries
        if self.reductions:
            if self.reductions[-1].fade(entries):
                self.reductions.pop()
        elif self.tables.parting:
            self.part(next(iter(self.tables.parting)), entries)
        elif self.fading:
            self.fade(now, next(iter(self.fading)), entries, effects)
        elif self.releasing:
            ghost = next(iter(self.releasing))
            self.subscriptions.reconcile(now, self.tables.thin_ghost(ghost, entries), effects)
            if not self.tables.texts[ghost]:
                self.release_at_once(now, ghost, effects)

    def part(self, neighbour: NodeId, entries: int | None = None) -> None:
        if self.tables.part(neighbour, entries):
            self.tables.remove_neighbour(neighbour)

    def fade(self, now: float, neighbour: NodeId, entries: int, effects: list[Effect]) -> None:
        texts = list(islice(self.tables.texts[neighbour], entries))
        self.subscriptions.withdraw_some(now, neighbour, texts, effects)
        for advertisement in list(islice(self.tables.offers_of[neighbour], entries - len(texts))):
            self.tables.remove_offer(neighbour, advertisement)
        if not self.tables.texts[neighbour] and not self.tables.offers_of[neighbour]:
            del self.fading[neighbour]
            self.tables.remove_neighbour(neighbour)

    def check(self) -> None:
        assert self.fading.keys() | self.tables.parting.keys() <= self.tables.absent.keys()
        assert self.releasing.keys() <= self.tables.ghosts.keys(), "what is no ghost is released"
        assert set(self.tables.parting.values()) <= self.tables.ghosts.keys(), "it becomes no ghost"
