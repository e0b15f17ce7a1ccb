"""What repairs have in common that keep filters from a new neighbour for a while: the end of the waiting.

Whoever waits on a new link does not wait for ever: `subscribe_after` seconds (T_s) after it began to, it tells whatever
is still wanted, whether or not anybody said so. Timers: ("subscribe", neighbour, reconfiguration).
"""

from tidings.machine.effects import Effect, SetTimer
from tidings.machine.inputs import TimerKey
from tidings.protocols.routing.links import NeighbourLink
from tidings.protocols.routing.repairs.notified import NotifiedRepair

SUBSCRIBE_TIMER = "subscribe"


class WithholdingRepair(NotifiedRepair):
    def begin_wait(self, now: float, link: NeighbourLink) -> Effect:
        return SetTimer(timer_of(link), now + self.params.subscribe_after)

    def fired(self, now: float, key: TimerKey) -> list[Effect]:
        effects = super().fired(now, key)
        match key:
            case (name, str(neighbour), str(reconfiguration)) if name == SUBSCRIBE_TIMER:
                link = self.subscriptions.links.get(neighbour)
                if link is not None and link.reconfiguration == reconfiguration:
                    self.let_go(now, link, effects)
        return effects

    def let_go(self, now: float, link: NeighbourLink, effects: list[Effect]) -> None:
        """Whatever is still wanted is told."""
        link.is_withheld, link.holds_back = False, None
        self.subscriptions.look_again(now, link, effects)


def timer_of(link: NeighbourLink) -> TimerKey:
    return SUBSCRIBE_TIMER, link.neighbour, link.reconfiguration
