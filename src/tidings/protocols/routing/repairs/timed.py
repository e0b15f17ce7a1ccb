"""TDU, timed deferred unsubscription: what a lost neighbour wanted is taken back only after a while.

The idea. A lost link is about to be replaced. What the other side wanted it will want again, by another way, and the
routes that lead to the place of the break are most of that way. So they stay for `unsubscribe_after` seconds (T_u). If
by then the new link has brought the same filters, from another neighbour, the old ones go without anybody being told.

The best T_u is the time in which the overlay finds a new link, and a little more for filters to spread. If it is too
short this is STRAWMAN, and 0 is STRAWMAN exactly; if it is too long events run along routes that lead nowhere. Unless
it is to be fixed (`is_tuned`) waiting ends before when it has been of use and begins to cost (`patience.py`).

What the neighbour wanted is a ghost's meanwhile. So whoever is an end of both links does not send over the new one what
it knew from the lost one alone; a filter that was wanted behind two lost links goes with the second; and a neighbour
that comes back in time has its new entries beside its ghost [R]. A node without any neighbour left has nobody to spare:
it forgets at once, older ghosts too [R], and has nothing to take back from whoever comes; unless what its own clients
publish meanwhile is to be brought around the failure (`rescue_window`), for which it must know who wanted it.

Guaranteed: right after any changes in any order. It needs to know only that a neighbour came or went, sends no message
of its own, and (un)subscriptions and publications meanwhile are what they always are.

Timers: ("unsubscribe", ghost).

Source: dynamic-topologies.md 3.4 (its source's 6.1.1).
"""

from tidings.machine.effects import CancelTimer, Effect, SetTimer
from tidings.machine.inputs import TimerKey
from tidings.protocols.routing.repairs.patience import RepairPatience, wanted_by_no_neighbour
from tidings.protocols.routing.repairs.strawman import Strawman
from tidings.protocols.routing.subscriptions import RoutingSubscriptions
from tidings.protocols.routing.tables import Ghost

TIMER = "unsubscribe"


class TimedRepair(Strawman):
    def __init__(self, subscriptions: RoutingSubscriptions) -> None:
        super().__init__(subscriptions)
        self.params = subscriptions.state.params
        self.times = RepairPatience(self.params.unsubscribe_after)
        if self.params.is_tuned and self.params.unsubscribe_after:
            subscriptions.came, subscriptions.state.carrier.in_vain = self.times.came_back, self.in_vain

    def lost(self, now: float, ghost: Ghost, effects: list[Effect]) -> None:
        if not self.subscriptions.links and not self.params.rescue_window:
            self.subscriptions.withdraw(now, ghost.lost, effects)
            self.settle(now, list(self.subscriptions.tables.ghosts), effects)
        else:
            self.defer(now, ghost, effects)

    def defer(self, now: float, ghost: Ghost, effects: list[Effect]) -> None:
        if not self.params.unsubscribe_after:
            self.subscriptions.withdraw(now, ghost.lost, effects)
            return
        self.subscriptions.defer(now, ghost, effects)
        effects.append(SetTimer((TIMER, ghost), now + self.params.unsubscribe_after))
        if self.params.is_tuned and ghost in self.subscriptions.tables.ghosts:
            tables = self.subscriptions.tables
            self.times.watch(now, ghost, wanted_by_no_neighbour(tables, tables.haunted(ghost)))

    def in_vain(self, now: float, count: int) -> list[Effect]:
        """Events came here that nobody wants."""
        effects: list[Effect] = []
        ghosts = self.subscriptions.tables.ghosts
        self.settle(now, [ghost for ghost in self.times.past(now) if ghost in ghosts], effects)
        return effects

    def settle(self, now: float, ghosts: list[Ghost], effects: list[Effect]) -> None:
        """They are not waited for any longer."""
        for ghost in ghosts:
            effects.append(CancelTimer((TIMER, ghost)))
            self.subscriptions.release(now, ghost, effects)

    def fired(self, now: float, key: TimerKey) -> list[Effect]:
        effects: list[Effect] = []
        match key:
            case (name, Ghost() as ghost) if name == TIMER:
                self.subscriptions.release(now, ghost, effects)
        return effects

    def check(self) -> None:
        assert self.params.unsubscribe_after or not self.subscriptions.tables.ghosts
        self.times.check()
