"""Links where a name is a claim: who calls is a visitor until the machine that is called says who it is.

On sockets anybody can say any name, so brokers are asked before a name counts (`machine.inputs.Knocked`, `Admit`). Here
the same is played for every machine that hears `Knocked`, if `SimulatorParams.has_visitors` says so. Each call is a
stream of its own, and several may stand side by side between the same two nodes:

- the end that is called hears `Knocked` with a name that is the world's ("?7"), and the name that the other end *says*;
- the end that called hears the same, with whom it had asked for; a client, which believes whom it called, hears
  `LinkUp`;
- all that is said on the stream comes under the visitor's name, and only what the door takes may be said, or the link
  ends;
- `Admit` binds the stream to its name: the end hears `LinkUp` with both names. A link that was there under that name
  gives way if it is broken, be that unnoticed, or if the other end has decided (`replaces`); else the visitor is sent
  away. On sockets a heartbeat finds out whether the earlier one is broken; here it is known.

A node with `claims` says that name instead of its own: a stranger who would be somebody else.
"""

from itertools import count
from typing import TYPE_CHECKING, Any

from tidings.machine.effects import Admit
from tidings.machine.inputs import Knocked, LinkDown, LinkUp, Received
from tidings.machine.node import visitor_messages
from tidings.model.identity import NodeId, is_visitor, visitor
from tidings.sim.frames import Sealed
from tidings.sim.streams import NO_ANSWER, REPLACED, SimulatedLink, SimulatedLinks, SimulatedStream

if TYPE_CHECKING:
    from tidings.sim.process import Process
    from tidings.sim.simulator import Simulator

KEPT = "there is a stream already, and it works"
NOT_FOR_VISITORS = "a visitor may not say that"


class Visit(SimulatedLink):
    """A connection whose ends have their own names for each other."""

    __slots__ = ("accepter_epoch", "accepter_name", "asker_epoch", "asker_name")

    def __init__(self, asker: "Process", other: NodeId, forth: SimulatedStream, name: NodeId) -> None:
        super().__init__(asker, other, 0, forth)
        self.asker_name, self.accepter_name = name, ""
        self.asker_epoch = self.accepter_epoch = 0

    def name_at(self, process: "Process") -> NodeId:
        return self.asker_name if process is self.asker else self.accepter_name

    def down_at(self, process: "Process", reason: str) -> LinkDown:
        name = self.name_at(process)
        if process is not self.asker:
            return LinkDown(name, self.accepter_epoch, reason)
        if not is_visitor(name) or not self.asker_up:
            return LinkDown(self.other if is_visitor(name) else name, self.asker_epoch, reason)
        return LinkDown(name, 0, reason, asked=self.other)

    def bind(self, process: "Process", name: NodeId, epoch: int) -> None:
        if process is self.asker:
            self.asker_name, self.asker_epoch = name, epoch
        else:
            self.accepter_name, self.accepter_epoch = name, epoch


class VisitStream(SimulatedStream):
    """Names are those of the moment in which a message is handled."""

    __slots__ = ()

    def arrive(self, now: float, received: Received) -> None:
        receiver, link = self.receiver, self.link
        if self.broken is not None or receiver is None or link is None:
            super().arrive(now, received)
            return
        if not receiver.is_running and not receiver.is_dead and not receiver.is_overfull():
            receiver.held.append((self.arrive, received))
            return
        name = link.name_at(receiver)
        if is_visitor(name) and not isinstance(said(received.message), receiver.asks):
            self.world.lose(now, received.sender, self.to, received.message, NOT_FOR_VISITORS)
            self.world.links.breaks(now, link, NOT_FOR_VISITORS, 0.0)
            return
        super().arrive(now, Received(name, received.message, received.size_bytes))


def said(message: Any) -> Any:
    return message.message if isinstance(message, Sealed) else message


class VisitedLinks(SimulatedLinks):
    def __init__(self, world: "Simulator") -> None:
        super().__init__(world)
        self.numbers = count(1)
        self.bound: dict[tuple[NodeId, NodeId], int] = {}
        """The last epoch of each end, by its node and the name that it was bound to."""

    def asks(self, node: NodeId) -> bool:
        """Whether that node wants to know who is there; of one that has not begun it is not known."""
        known = self.world.nodes.get(node)
        return known is not None and (known.machine is None or bool(visitor_messages(known.machine)))

    def opens_streams(self, process: "Process") -> bool:
        return not process.asks

    def connect(self, now: float, asker: "Process", other: NodeId) -> None:
        if other == asker.id or not (asker.asks or self.asks(other)):
            super().connect(now, asker, other)
            return
        held = asker.links.get(other)
        if held is not None and held.is_broken:
            self.notice(now, (asker, held, REPLACED))
        elif held is not None and (held.asker_up or held.asker is not asker):
            self.world.push(now, asker.take, LinkUp(other, self.bound.get((asker.id, other), 0)))
            return
        if any(it.asker is asker and it.other == other and not it.asker_up for it in asker.links.values()):
            return
        travel = self.travel(now, asker, other)
        if travel is None:
            down = LinkDown(other, self.bound.get((asker.id, other), 0), NO_ANSWER)
            self.world.push(now + self.world.params.connect_timeout, asker.take, down)
            return
        forth = VisitStream(self.world, asker, other, now + sum(travel))
        forth.arrival_at = now + travel[0]
        visit = Visit(asker, other, forth, self.next_visitor() if asker.asks else other)
        self.enter(asker, visit, forth)
        self.world.push(forth.arrival_at, self.receive_call, (visit, now))

    def next_visitor(self) -> NodeId:
        return visitor(next(self.numbers))

    def enter(self, process: "Process", visit: Visit, stream: SimulatedStream) -> None:
        stream.link, stream.name = visit, visit.name_at(process)
        process.links[stream.name], process.streams[stream.name] = visit, stream

    def receive_call(self, now: float, asked: tuple[Visit, float]) -> None:
        visit, asked_at = asked
        world, asker, forth = self.world, visit.asker, visit.forth
        process = world.nodes[visit.other].process
        if visit.is_broken or forth is None:
            return
        if process is None:
            give_up_at = max(now, asked_at + world.params.connect_timeout)
            self.breaks(now, visit, NO_ANSWER, give_up_at - now)
            return
        visit.accepter = forth.receiver = process
        claimed = asker.node.claims or asker.id
        if (stale := process.links.get(claimed)) is not None and not process.asks:
            self.notice(now, (process, stale, REPLACED))
        visit.accepter_name = self.next_visitor() if process.asks else claimed
        visit.back = back = VisitStream(world, process, asker.id, now)
        back.receiver, back.arrival_at = asker, max(forth.ready_at, now)
        self.enter(process, visit, back)
        world.push(back.arrival_at, self.receive_answer, visit)
        if process.asks:
            process.take(now, Knocked(visit.accepter_name, claimed))
        else:
            visit.accepter_epoch = self.next_epoch(process, claimed)
            process.take(now, LinkUp(claimed, visit.accepter_epoch))

    def receive_answer(self, now: float, visit: Visit) -> None:
        if visit.is_broken:
            return
        visit.asker_up, asker = True, visit.asker
        if asker.asks:
            asker.take(now, Knocked(visit.asker_name, visit.other, visit.other))
        else:
            visit.asker_epoch = self.next_epoch(asker, visit.other)
            asker.take(now, LinkUp(visit.other, visit.asker_epoch))

    def next_epoch(self, process: "Process", name: NodeId) -> int:
        epoch = self.bound[process.id, name] = self.bound.get((process.id, name), 0) + 1
        return epoch

    def admit(self, now: float, process: "Process", effect: Admit) -> None:
        """At once, before anything else comes on that stream: the machine has settled its state."""
        visit, held = process.links.get(effect.visitor), process.links.get(effect.name)
        if not isinstance(visit, Visit) or visit.is_broken:
            # It is gone, and the machine hears of that.
            return
        if held is not None and not held.is_broken and not effect.replaces:
            self.disconnect(now, process, effect.visitor, KEPT)
            return
        if held is not None:
            # The other end hears of it as of any break; ours before it hears of the new one.
            self.breaks(now, held, REPLACED, self.latency(now, process.id, held.peer_of(process)))
            self.notice(now, (process, held, REPLACED))
        stream = process.streams[effect.visitor]
        self.forget(process, visit)
        visit.bind(process, effect.name, self.next_epoch(process, effect.name))
        self.enter(process, visit, stream)
        process.take(now, LinkUp(effect.name, self.bound[process.id, effect.name], visitor=effect.visitor))

    def between(self, one: NodeId, other: NodeId) -> list[SimulatedLink]:
        found = super().between(one, other)
        for node, far in ((one, other), (other, one)):
            known = self.world.nodes.get(node)
            if known is not None and known.process is not None:
                links = known.process.links.values()
                found += [it for it in links if it.name_at(known.process) == far or it.peer_of(known.process) == far]
        return list(dict.fromkeys(found))

    def end(self, link: SimulatedLink) -> None:
        if not isinstance(link, Visit):
            super().end(link)
            return
        link.is_broken = True
        link.forth = link.back = None
