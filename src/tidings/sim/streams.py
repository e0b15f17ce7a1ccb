"""Streams and links: connections that keep order and lose nothing while they live.

A `SimulatedStream` is one direction of a connection. The delay of a message is drawn like that of a datagram, and then
the message waits for the one before it; so the messages of one ordered pair arrive in the order in which they were
sent, however much latency fluctuates. A stream that a machine simply sends on (`Send` with `Transport.STREAM`) is
opened by the first message, which waits for a handshake of one round trip. When the other node is down, what arrives is
lost, and the next message opens a new stream.

A `SimulatedLink` is a connection that a machine asked for (`Connect`): two streams, of which both ends are told. The
other end hears `LinkUp` first, before anything that comes over the link; then the one that asked. Each link between the
same two nodes has a higher epoch. A link ends in one of four ways, and both ends hear `LinkDown`:

- it breaks (`Simulator.break_link`, or a message that the network gives up): everything on its way is lost;
- an end crashes: the same; the other end hears of it after the latency of the network, or, if the crash is a silent
  one, only after `silence_timeout`, or when it sends and the node lives again, which knows no such link;
- an end asks for it (`Disconnect`): what it sent before still arrives, unless the other end asks for it too before
  that; what was sent to it does not;
- too much waits, at the sender or for a receiver that is paused: the sender hears "queue full" at once. A stream has no
  holes, so the message that does not fit is the last of it, as on sockets.
"""

from typing import TYPE_CHECKING, Any

from tidings.machine.effects import Admit, ProbeNode, Transport
from tidings.machine.inputs import LinkDown, LinkUp, NodeProbed, Received
from tidings.model.identity import NodeId
from tidings.sim.frames import DamagedInStream, why_lost
from tidings.sim.network.rule import STREAM_OVERFULL, reason_of

if TYPE_CHECKING:
    from tidings.sim.process import Process
    from tidings.sim.simulator import Simulator

STREAM = Transport.STREAM

HANDSHAKE_BYTES = 40
"""A TCP segment without content."""

LINK_BROKEN = "link is broken"
NO_LISTENER = "nobody listens there"
NO_ANSWER = "no answer"
REPLACED = "replaced by a new link"
SELF = "a node has no link to itself"


class SimulatedStream:
    """From `sender` to the node `to`."""

    __slots__ = ("arrival_at", "broken", "link", "name", "ready_at", "receiver", "sender", "to", "world")

    def __init__(self, world: "Simulator", sender: "Process", to: NodeId, ready_at: float) -> None:
        self.world, self.sender, self.to = world, sender, to
        self.name = to
        """What its sender calls the other end."""
        self.ready_at = ready_at
        """When the handshake is over."""
        self.arrival_at = 0.0
        """When the last message arrives; the next does not before."""
        self.receiver: Process | None = None
        """The life that this stream leads to; known when the first message arrives."""
        self.link: SimulatedLink | None = None
        self.broken: str | None = None
        """Why nothing arrives any more."""

    def send(self, now: float, message: Any, size_bytes: int) -> None:
        world, sender = self.world, self.sender.id
        if self.broken is not None:
            world.lose(now, sender, self.to, message, self.broken)
            if self.link is not None and self.receiver is not None and self.receiver.is_dead:
                world.links.reset(now, self.sender, self.link)
            return
        leaves_at = now if now > self.ready_at else self.ready_at
        fates = world.network.fate(leaves_at, sender, self.to, size_bytes, STREAM)
        if not fates:
            world.lose(now, sender, self.to, message, reason_of(fates))
            if fates is STREAM_OVERFULL:
                world.links.disconnect(now, self.sender, self.name, STREAM_OVERFULL.reason)
            else:
                self.fail(now, LINK_BROKEN, world.params.silence_timeout)
            return
        self.arrival_at = at = max(leaves_at + fates[0], self.arrival_at + world.jitter)
        world.push(at, self.arrive, Received(sender, message, size_bytes))

    def arrive(self, now: float, received: Received) -> None:
        receiver = self.receiver
        if receiver is None:
            receiver = self.receiver = self.world.nodes[self.to].process
        if self.broken is not None:
            self.world.lose(now, received.sender, self.to, received.message, self.broken)
        elif self.link is not None and receiver is not None and self.link.is_given_up_at(receiver):
            self.world.lose(now, received.sender, self.to, received.message, LINK_BROKEN)
        elif receiver is None or receiver.is_dead:
            self.world.lose(now, received.sender, self.to, received.message, NO_LISTENER)
            self.reset()
        elif isinstance(received.message, DamagedInStream):
            reason = why_lost(received.message)
            self.world.lose(now, received.sender, self.to, received.message, reason)
            self.fail(now, reason, 0.0)
            # The link may have ended before, and what was sent last be still on its way: a stream has no holes.
            self.broken = LINK_BROKEN
        elif receiver.is_running or not receiver.is_overfull():
            receiver.arrived(now, received)
        else:
            self.world.lose(now, received.sender, self.to, received.message, STREAM_OVERFULL.reason)
            self.fail(now, STREAM_OVERFULL.reason, 0.0)

    def fail(self, now: float, reason: str, noticed_after: float) -> None:
        """A message was given up, so nothing after it may arrive."""
        if self.link is not None:
            self.world.links.breaks(now, self.link, reason, noticed_after)
        else:
            self.reset()

    def reset(self) -> None:
        """The next message begins anew, unless there is a link: then its ends are told first."""
        if self.link is None:
            self.broken = LINK_BROKEN
            if self.sender.streams.get(self.to) is self:
                del self.sender.streams[self.to]

    def take_over(self) -> None:
        """Be the stream of this pair from now on, without overtaking what is on its way on earlier ones."""
        streams, drained_at = self.sender.streams, self.sender.drained_at
        if (earlier := streams.get(self.to)) is not None and earlier.broken is None:
            earlier.close()
        self.arrival_at = max(self.arrival_at, drained_at.get(self.to, 0.0))
        streams[self.to] = self

    def close(self) -> None:
        """Nothing more is sent; what is on its way still arrives."""
        drained_at = self.sender.drained_at
        drained_at[self.to] = max(self.arrival_at, drained_at.get(self.to, 0.0))


class SimulatedLink:
    """A connection between `asker` and the node `other`."""

    __slots__ = (
        *("accepter", "asker", "asker_up", "back", "epoch", "forth", "is_broken", "is_draining", "other", "waiter"),
    )

    def __init__(self, asker: "Process", other: NodeId, epoch: int, forth: SimulatedStream) -> None:
        self.asker, self.other, self.epoch = asker, other, epoch
        self.forth: SimulatedStream | None = forth
        self.accepter: Process | None = None
        self.waiter: Process | None = None
        """The other end, if it asked for a link too before it heard of this one; it is owed an answer."""
        self.back: SimulatedStream | None = None
        self.asker_up = False
        self.is_broken = False
        self.is_draining = False
        """Whether the other end gave it up before the asker heard that it is there: what it said still comes."""
        forth.link = self

    def is_up_at(self, process: "Process") -> bool:
        return self.accepter is process or (self.asker is process and self.asker_up)

    def is_given_up_at(self, process: "Process") -> bool:
        """Whether this end has heard, or said itself, that the link is gone; while it lives neither end has."""
        return self.is_broken and process.links.get(self.name_at(process)) is not self

    def peer_of(self, process: "Process") -> NodeId:
        return self.other if process is self.asker else self.asker.id

    def name_at(self, process: "Process") -> NodeId:
        """What this end calls the other."""
        return self.peer_of(process)

    def down_at(self, process: "Process", reason: str) -> LinkDown:
        return LinkDown(self.peer_of(process), self.epoch, reason)


class SimulatedLinks:
    """All links of the network."""

    def __init__(self, world: "Simulator") -> None:
        self.world = world
        self.live: dict[tuple[NodeId, NodeId], SimulatedLink] = {}
        """At most one for each pair, from the moment that an end asks for it."""
        self.epochs: dict[tuple[NodeId, NodeId], int] = {}
        self.calls: dict[tuple[NodeId, NodeId], int] = {}
        """Of those who call where nothing answers, and whom: the epoch of the last call. An earlier one is over."""

    def connect(self, now: float, asker: "Process", other: NodeId) -> None:
        world, pair = self.world, pair_of(asker.id, other)
        link = self.live.get(pair)
        if link is not None and link.is_up_at(asker):
            world.push(now, asker.take, LinkUp(other, link.epoch))
            return
        self.calls.pop((asker.id, other), None)
        if (stale := asker.links.get(other)) is not None and stale is not link:
            self.forget(asker, stale)
            # Of a call that is still waiting for its answer there is nothing to tell: this one takes its place.
            if stale.is_up_at(asker):
                world.push(now, asker.take, LinkDown(other, stale.epoch, REPLACED))
        if link is not None:
            if asker is not link.asker:
                link.waiter, asker.links[other] = asker, link
            return
        epoch = self.epochs[pair] = self.epochs.get(pair, 0) + 1
        if other == asker.id:
            world.push(now, asker.take, LinkDown(other, epoch, SELF))
            return
        travel = self.travel(now, asker, other)
        if travel is None:
            self.calls[asker.id, other] = epoch
            world.push(now + world.params.connect_timeout, self.give_up, (asker, other, epoch))
            return
        forth = SimulatedStream(world, asker, other, now + sum(travel))
        forth.arrival_at = now + travel[0]
        forth.take_over()
        link = self.live[pair] = asker.links[other] = SimulatedLink(asker, other, epoch, forth)
        world.push(forth.arrival_at, self.accept, (link, now))

    def travel(self, now: float, asker: "Process", other: NodeId) -> tuple[float, float] | None:
        """How long a call takes there and back, if it is answered."""
        world = self.world
        if other not in world.nodes:
            return None
        there = world.network.fate(now, asker.id, other, HANDSHAKE_BYTES, STREAM)
        back = world.network.fate(now, other, asker.id, HANDSHAKE_BYTES, STREAM)
        return (there[0], back[0]) if there and back else None

    def give_up(self, now: float, call: tuple["Process", NodeId, int]) -> None:
        asker, other, epoch = call
        if self.calls.get((asker.id, other)) == epoch:
            del self.calls[asker.id, other]
            asker.take(now, LinkDown(other, epoch, NO_ANSWER))

    def accept(self, now: float, asked: tuple[SimulatedLink, float]) -> None:
        link, asked_at = asked
        world, asker = self.world, link.asker
        process, forth = world.nodes[link.other].process, link.forth
        if link.is_broken or forth is None:
            return
        if process is None:
            give_up_at = max(now, asked_at + world.params.connect_timeout)
            self.breaks(now, link, NO_ANSWER, give_up_at - now)
            return
        if (stale := process.links.get(asker.id)) is not None and stale is not link:
            self.notice(now, (process, stale, REPLACED))
        link.accepter = forth.receiver = process
        link.back = back = SimulatedStream(world, process, asker.id, now)
        back.link, back.receiver = link, asker
        back.arrival_at = max(forth.ready_at, now)
        back.take_over()
        process.links[asker.id] = link
        world.push(back.arrival_at, self.confirm, link)
        process.take(now, LinkUp(asker.id, link.epoch))

    def confirm(self, now: float, link: SimulatedLink) -> None:
        asker = link.asker
        if not link.is_broken or (link.is_draining and asker.links.get(link.name_at(asker)) is link):
            link.asker_up = True
            link.asker.take(now, LinkUp(link.other, link.epoch))

    def disconnect(self, now: float, process: "Process", other: NodeId, reason: str) -> None:
        link = process.links.get(other)
        if link is None:
            if (epoch := self.calls.pop((process.id, other), None)) is not None:
                self.world.push(now, process.take, LinkDown(other, epoch, reason))
            if (stream := process.streams.pop(other, None)) is not None:
                stream.close()
            return
        if link.is_broken:
            # It was gone already, and this end had not noticed.
            down = link.down_at(process, reason)
            self.forget(process, link)
            self.world.push(now, process.take, down)
            return
        ours, theirs = (link.forth, link.back) if process is link.asker else (link.back, link.forth)
        if ours is None or theirs is None:
            self.breaks(now, link, reason, 0.0)
            return
        self.end(link)
        link.is_draining = process is link.accepter
        theirs.broken = LINK_BROKEN
        ours.close()
        # The goodbye comes behind all that was sent, and jitter must not let it overtake.
        latency = self.latency(now, process.id, link.peer_of(process))
        noticed_at = max(now + latency, ours.arrival_at + self.world.jitter)
        down = link.down_at(process, reason)
        self.forget(process, link)
        self.world.push(now, process.take, down)
        self.world.push(noticed_at, self.notice, (ours.receiver, link, reason))

    def probe(self, now: float, asker: "Process", probe: ProbeNode) -> None:
        """The node's operating system answers, also for a process that is paused."""
        world, node = self.world, probe.node
        travel = self.travel(now, asker, node)
        if travel is not None and sum(travel) < probe.seconds:
            world.push(now + travel[0], self.answer_probe, (asker, probe, now, travel[1]))
        else:
            world.push(now + probe.seconds, asker.take, NodeProbed(node, False, probe.address))

    def answer_probe(self, now: float, asked: tuple["Process", ProbeNode, float, float]) -> None:
        asker, probe, asked_at, back = asked
        is_there = self.world.nodes[probe.node].process is not None
        answered_at = now + back if is_there else asked_at + probe.seconds
        self.world.push(answered_at, asker.take, NodeProbed(probe.node, is_there, probe.address))

    def opens_streams(self, process: "Process") -> bool:
        """Whether a message to a node without a stream opens one."""
        return True

    def admit(self, now: float, process: "Process", effect: Admit) -> None:
        """Nobody knocks here: a name is its node's, and nobody else's."""

    def between(self, one: NodeId, other: NodeId) -> list[SimulatedLink]:
        """All that these two have with each other."""
        link = self.live.get(pair_of(one, other))
        return [] if link is None else [link]

    def breaks(self, now: float, link: SimulatedLink, reason: str, noticed_after: float) -> None:
        """Everything on its way is lost; living ends hear of it so many seconds later."""
        if link.is_broken:
            return
        for stream in (link.forth, link.back):
            if stream is not None:
                stream.broken = LINK_BROKEN
        self.end(link)
        for process in (link.asker, link.accepter or link.waiter):
            if process is not None and not process.is_dead:
                self.world.push(now + noticed_after, self.notice, (process, link, reason))

    def reset(self, now: float, process: "Process", link: SimulatedLink) -> None:
        """Something is sent to a life that is over. If its node lives again, that answers that it knows no such link;
        if it is down, nothing does."""
        world, other = self.world, link.peer_of(process)
        if world.nodes[other].process is None or process.links.get(other) is not link:
            return
        there = world.network.fate(now, process.id, other, HANDSHAKE_BYTES, STREAM)
        back = world.network.fate(now, other, process.id, HANDSHAKE_BYTES, STREAM)
        if there and back:
            world.push(now + there[0] + back[0], self.notice, (process, link, LINK_BROKEN))

    def end(self, link: SimulatedLink) -> None:
        link.is_broken = True
        # The collector is off during a run, so no cycle of a link and its streams may stay.
        link.forth = link.back = None
        del self.live[pair_of(link.asker.id, link.other)]

    def notice(self, now: float, end: tuple["Process", SimulatedLink, str]) -> None:
        """An end hears that the link is gone. Only the first such news counts."""
        process, link, reason = end
        if process.links.get(link.name_at(process)) is link:
            down = link.down_at(process, reason)
            self.forget(process, link)
            process.take(now, down)

    def forget(self, process: "Process", link: SimulatedLink) -> None:
        name = link.name_at(process)
        del process.links[name]
        if (stream := process.streams.get(name)) is not None and stream.link is link:
            del process.streams[name]

    def crash(self, now: float, process: "Process", reason: str, is_silent: bool) -> None:
        """All links of a process that has just died."""
        for link in list(process.links.values()):
            silence = self.world.params.silence_timeout
            after = silence if is_silent else self.latency(now, process.id, link.peer_of(process))
            self.breaks(now, link, reason, after)
        process.links.clear()

    def latency(self, now: float, sender: NodeId, to: NodeId) -> float:
        """How long it takes to tell. A queue that is full holds up no goodbye: what went into it before does."""
        fates = self.world.network.fate(now, sender, to, HANDSHAKE_BYTES, STREAM)
        if fates:
            return fates[0]
        return 0.0 if fates is STREAM_OVERFULL else self.world.params.silence_timeout


def pair_of(one: NodeId, other: NodeId) -> tuple[NodeId, NodeId]:
    return (one, other) if one <= other else (other, one)
