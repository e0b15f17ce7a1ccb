"""NDU, notified deferred unsubscription: waiting ends as soon as the new link has made up for the old one.

The idea. Each end of a new link tells the other what it wants (`router.py`) and behind that sends `Flush`, which names
the reconfiguration. Links keep their order, so where `Flush` comes by, all that the new link has changed there has
happened. It goes on to everybody until it comes to an end of the old link, which then takes back what the lost
neighbour wanted, without waiting any longer. A `Flush` that is lost in another change leaves the timer of TDU
(`timed.py`).

Not true where a neighbour is told so much that changes for it wait (`packets.py`): a `Flush` may overtake them. Then
some filters are taken back and told again, as if it had not been waited for at all; the tables are right either way.

Somebody who lies with `Flush` can end the waiting for the reconfiguration that he names, and can have each broker pass
one message on to each neighbour: in a changing tree, which may be a ring for a moment, everybody passes on the `Flush`
of one origin only once [R], and remembers `FLUSHES_REMEMBERED_MAX` of them. Only neighbours are heard.

Messages: `Flush`. Timers: those of TDU.

Source: dynamic-topologies.md 3.5 (its source's 6.1.2).
"""

from typing import ClassVar

from tidings.machine.effects import Drop, Effect, Send
from tidings.machine.message import Message
from tidings.model.bounds import FLUSHES_REMEMBERED_MAX
from tidings.model.identity import NodeId
from tidings.protocols.routing.links import NeighbourLink
from tidings.protocols.routing.repairs.messages import Flush
from tidings.protocols.routing.repairs.timed import TimedRepair
from tidings.protocols.routing.state import NO_NEIGHBOUR
from tidings.protocols.routing.subscriptions import RoutingSubscriptions
from tidings.pubsub.signals import Level, ReconfigurationId

PASSED_ON_ALREADY = "was passed on already"


class NotifiedRepair(TimedRepair):
    needs: ClassVar[Level] = Level.REPLACEMENTS
    messages: ClassVar[tuple[type[Message], ...]] = (Flush,)

    def __init__(self, subscriptions: RoutingSubscriptions) -> None:
        super().__init__(subscriptions)
        self.node_id = subscriptions.state.node_id
        self.flushes: dict[Flush, None] = {}
        """Those that came by, oldest first."""

    def told(self, now: float, link: NeighbourLink) -> list[Effect]:
        if not link.reconfiguration or self.params.flush == "none":
            return []
        flush = Flush(link.reconfiguration, self.node_id)
        self.remember(flush)
        return [Send(link.neighbour, flush)]

    def receive(self, now: float, sender: NodeId, message: Message) -> list[Effect]:
        return self.flushed(now, sender, message) if isinstance(message, Flush) else []

    def flushed(self, now: float, sender: NodeId, flush: Flush) -> list[Effect]:
        if not self.is_heard(sender):
            return [Drop(flush, NO_NEIGHBOUR)]
        if flush in self.flushes:
            return [Drop(flush, PASSED_ON_ALREADY)]
        self.remember(flush)
        effects: list[Effect] = []
        if self.stop(now, flush.reconfiguration, effects):
            return effects
        return [Send(link.neighbour, flush) for link in self.open_links() if link.neighbour != sender]

    def stop(self, now: float, reconfiguration: ReconfigurationId, effects: list[Effect]) -> bool:
        """Whether we are the end for which the news is."""
        waiting = [ghost for ghost in self.subscriptions.tables.ghosts if ghost.reconfiguration == reconfiguration]
        self.settle(now, waiting, effects)
        return bool(waiting)

    def remember(self, flush: Flush) -> None:
        self.flushes[flush] = None
        if len(self.flushes) > FLUSHES_REMEMBERED_MAX:
            del self.flushes[next(iter(self.flushes))]

    def open_links(self) -> list[NeighbourLink]:
        return [link for link in self.subscriptions.links.values() if link.reduction is not None]

    def is_heard(self, sender: NodeId) -> bool:
        """Whether it is a neighbour, and means the present life of its link."""
        return sender in self.subscriptions.links and self.subscriptions.links[sender].is_heard

    def check(self) -> None:
        super().check()
        assert len(self.flushes) <= FLUSHES_REMEMBERED_MAX
