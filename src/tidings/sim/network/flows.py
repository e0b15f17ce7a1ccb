"""Bulk transfers as fluid flows that share links max-min fairly.

A large transfer is not simulated packet by packet. It is a flow with a rate, and the rates of all flows follow from the
capacities: raise all of them together; when a link is full, the flows across it stay where they are, and the others go
on rising (progressive filling). The result is max-min fair: no flow can have more without another, that has no more
than it, having less. This is what long TCP transfers come to on average (peer-to-peer specification 3H).

Rates hold until a flow starts, ends, or a capacity changes; then they are found again. So a transfer costs work only
when something changes, whatever its size.

    flows = Flows({"up": 10e6, "down": 5e6})
    flows.start(0.0, "t1", ("up", "down"), size_bytes=1_000_000)
    flows.next_end()                       # (1.6, "t1")

`Transfers` lets them run in a simulator. `Shared` is the rule by which a network has them: what machines send in bulk
(`Transfer`) then takes the links that `path` names, while messages are carried as by the rule inside.

`BulkTransfers` are those that machines ask for. Where the network says how links are shared, a transfer is a flow among
others: it gets its max-min fair share for as long as it lasts. On any other network it takes as long as one message of
its size.

When all of it has left, the last of it takes the latency of the network, and the receiver gets the message that says
what it was, with the size of all. The sender hears `Transferred` at that moment. Nobody hears of a transfer that its
sender cancelled, or that ended with its sender. A receiver that is down is noticed at the end.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidings.machine.effects import Send, Transfer, Transport
from tidings.machine.inputs import Received, TimerKey, Transferred
from tidings.machine.message import Message
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.sim.network.rule import Fates, Rule, Wrapper, check_positive, reason_of

if TYPE_CHECKING:
    from tidings.sim.network.pipes import PipedTransfers
    from tidings.sim.process import Process
    from tidings.sim.simulator import Simulator

LinkName = Any
FlowName = Any
"""Anything that can be the key of a dict."""

Path = Callable[[NodeId, NodeId], Sequence[LinkName]]
"""The links from one node to another."""

ALMOST_FULL = 1e-12
"""Rounding: a link with less than this share of its capacity left is full."""


class Flow:
    __slots__ = ("name", "path", "rate_bps", "rate_bps_max", "remaining_bits")

    def __init__(self, name: FlowName, path: tuple[LinkName, ...], remaining_bits: float, rate_bps_max: float) -> None:
        self.name, self.path = name, path
        self.remaining_bits, self.rate_bps_max = remaining_bits, rate_bps_max
        self.rate_bps = 0.0

    def time_left(self) -> float:
        if self.remaining_bits <= 0:
            return 0.0
        return self.remaining_bits / self.rate_bps if self.rate_bps > 0 else math.inf


class Flows:
    def __init__(self, capacities_bps: Mapping[LinkName, float]) -> None:
        self.capacities_bps = dict(capacities_bps)
        for name, capacity in self.capacities_bps.items():
            check_positive(f"capacity of {name!r}", capacity)
        self.flows: dict[FlowName, Flow] = {}
        self.now = 0.0

    def start(
        self,
        now: float,
        name: FlowName,
        path: Sequence[LinkName],
        size_bytes: float = math.inf,
        rate_bps_max: float = math.inf,
    ) -> None:
        """A flow over these links. `rate_bps_max` is its own limit, such as a window per round trip."""
        if name in self.flows:
            raise UsageError(f"flow {name!r} runs already; stop it first, or give the new one another name")
        for link in path:
            if link not in self.capacities_bps:
                raise UsageError(f"flow {name!r}: there is no link {link!r}")
        if not path and rate_bps_max == math.inf:
            raise UsageError(f"flow {name!r}: without a link it needs a rate_bps_max")
        check_positive("rate_bps_max", rate_bps_max)
        self.advance(now)
        self.flows[name] = Flow(name, tuple(dict.fromkeys(path)), size_bytes * 8, rate_bps_max)
        self.share()

    def stop(self, now: float, name: FlowName) -> float:
        """End a flow; how many bytes of it were left."""
        self.advance(now)
        if name not in self.flows:
            raise UsageError(f"there is no flow {name!r}")
        left = self.flows.pop(name).remaining_bits / 8
        self.share()
        return left

    def set_capacity(self, now: float, link: LinkName, capacity_bps: float) -> None:
        check_positive(f"capacity of {link!r}", capacity_bps)
        self.advance(now)
        self.capacities_bps[link] = capacity_bps
        self.share()

    def advance(self, now: float) -> None:
        """Let the flows run until now."""
        if now < self.now:
            raise UsageError(f"{now} is before {self.now}; flows do not run back")
        for flow in self.flows.values():
            flow.remaining_bits = max(0.0, flow.remaining_bits - flow.rate_bps * (now - self.now))
        self.now = now

    def next_end(self) -> tuple[float, FlowName] | None:
        """When the next flow ends, and which; of those that end together, the one that started first."""
        flow = min(self.flows.values(), key=Flow.time_left, default=None)
        if flow is None or flow.time_left() == math.inf:
            return None
        return self.now + flow.time_left(), flow.name

    def share(self) -> None:
        """Find all rates, by progressive filling."""
        left = dict(self.capacities_bps)
        rising = dict.fromkeys(self.flows.values())
        crossing: dict[LinkName, int] = {}
        for flow in rising:
            for link in flow.path:
                crossing[link] = crossing.get(link, 0) + 1
        level = 0.0
        while rising:
            step = (
                min(left[link] / count for link, count in crossing.items() if count)
                if any(crossing.values())
                else math.inf
            )
            step = min(step, min(flow.rate_bps_max for flow in rising) - level)
            level += step
            for link, count in crossing.items():
                left[link] -= step * count
            full = {link for link, count in crossing.items() if left[link] <= ALMOST_FULL * self.capacities_bps[link]}
            for flow in [flow for flow in rising if flow.rate_bps_max <= level or not full.isdisjoint(flow.path)]:
                flow.rate_bps = level
                del rising[flow]
                for link in flow.path:
                    crossing[link] -= 1


class Transfers:
    """Flows in a simulator: each calls `done(now)` when it has ended."""

    def __init__(self, simulator: "Simulator", flows: Flows) -> None:
        self.simulator, self.flows = simulator, flows
        self.done: dict[FlowName, Callable[[float], object]] = {}
        self.round = 0
        """Ends that were planned before the latest change are out of date; they are told by this number."""

    def start(
        self,
        name: FlowName,
        path: Sequence[LinkName],
        size_bytes: float,
        done: Callable[[float], object],
        rate_bps_max: float = math.inf,
    ) -> None:
        self.flows.start(self.simulator.now, name, path, size_bytes, rate_bps_max)
        self.done[name] = done
        self.plan()

    def stop(self, name: FlowName) -> float:
        """Give a transfer up; how many bytes were left."""
        left = self.flows.stop(self.simulator.now, name)
        del self.done[name]
        self.plan()
        return left

    def set_capacity(self, link: LinkName, capacity_bps: float) -> None:
        self.flows.set_capacity(self.simulator.now, link, capacity_bps)
        self.plan()

    def plan(self) -> None:
        self.round += 1
        if (end := self.flows.next_end()) is not None:
            self.simulator.push(max(end[0], self.simulator.now), self.end, (end[1], self.round))

    def end(self, now: float, planned: tuple[FlowName, int]) -> None:
        name, planned_in = planned
        if planned_in == self.round:
            self.flows.stop(now, name)
            done = self.done.pop(name)
            self.plan()
            done(now)


class Bulk:
    """Capacities, and which of them a transfer between two nodes uses."""

    def __init__(self, capacities_bps: Mapping[LinkName, float], path: Path, in_pipes: bool = False) -> None:
        self.flows, self.path, self.in_pipes = Flows(capacities_bps), path, in_pipes


class Shared(Wrapper):
    """A network whose links are shared by bulk transfers; with `in_pipes`, those between two nodes go one behind the
    other (`pipes.py`)."""

    def __init__(
        self, inner: Rule, capacities_bps: Mapping[LinkName, float], path: Path, in_pipes: bool = False
    ) -> None:
        super().__init__(inner)
        self.bulk = Bulk(capacities_bps, path, in_pipes)

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        return self.inner.fate(now, sender, to, size_bytes, transport)


CANCELLED = "the transfer was cancelled"
SENDER_DOWN = "the sender of the transfer is down"
RECEIVER_DOWN = "the receiver of the transfer is down"
NOT_A_NODE = "no such node"


class Underway:
    """A transfer that has not arrived."""

    __slots__ = ("is_flow", "is_over", "key", "message", "sender", "size_bytes", "to")

    def __init__(self, sender: "Process", transfer: Transfer, message: Message) -> None:
        self.sender, self.key, self.to = sender, transfer.key, transfer.to
        self.message, self.size_bytes = message, transfer.size_bytes
        self.is_flow = self.is_over = False


class BulkTransfers:
    def __init__(self, world: "Simulator") -> None:
        self.world, self.bulk = world, world.network.bulk
        self.flows: Transfers | PipedTransfers | None = None
        if self.bulk is not None and self.bulk.in_pipes:
            # Loaded here, since a core without numpy has no pipes.
            from tidings.sim.network import pipes

            self.flows = pipes.PipedTransfers(world, self.bulk.flows.capacities_bps)
        elif self.bulk is not None:
            self.flows = Transfers(world, self.bulk.flows)
        self.underway: dict[tuple[Process, TimerKey], Underway] = {}

    def start(self, now: float, sender: "Process", transfer: Transfer) -> None:
        world, name = self.world, (sender, transfer.key)
        if name in self.underway or transfer.size_bytes < 0:
            raise UsageError(f"node {sender.id!r}: {transfer!r:.200} is under way already, or of no size")
        message = transfer.message
        if world.frames is not None:
            message = world.frames.seal(now, sender.id, Send(transfer.to, message)).message
        begun = self.underway[name] = Underway(sender, transfer, message)
        if transfer.to not in world.nodes:
            world.push(now, self.fail, (begun, NOT_A_NODE))
        elif self.flows is not None and self.bulk is not None:
            begun.is_flow = True
            path = self.bulk.path(sender.id, transfer.to)

            def leave(ended_at: float) -> None:
                self.leave(ended_at, begun)

            self.flows.start(name, path, transfer.size_bytes, leave, *self.pipe(begun))
        else:
            fates = world.network.fate(now, sender.id, transfer.to, transfer.size_bytes, Transport.STREAM)
            if fates:
                world.push(now + fates[0], self.arrive, begun)
            else:
                world.push(now + world.params.silence_timeout, self.fail, (begun, reason_of(fates)))

    def pipe(self, begun: Underway) -> tuple[Any, ...]:
        """Where there are pipes: that of a process, so that a dead one leaves nothing behind."""
        return ((begun.sender, begun.to),) if self.bulk is not None and self.bulk.in_pipes else ()

    def leave(self, now: float, begun: Underway) -> None:
        begun.is_flow = False
        self.world.push(now + self.world.links.latency(now, begun.sender.id, begun.to), self.arrive, begun)

    def arrive(self, now: float, begun: Underway) -> None:
        receiver = self.world.nodes[begun.to].process
        if receiver is None:
            self.fail(now, (begun, RECEIVER_DOWN))
        elif not begun.is_over:
            self.end(begun)
            receiver.arrived(now, Received(begun.sender.id, begun.message, begun.size_bytes))
            begun.sender.take(now, Transferred(begun.key))

    def fail(self, now: float, failed: tuple[Underway, str]) -> None:
        begun, reason = failed
        if not begun.is_over:
            self.give_up(now, begun, reason)
            begun.sender.take(now, Transferred(begun.key, reason))

    def cancel(self, now: float, sender: "Process", key: TimerKey) -> None:
        if (begun := self.underway.get((sender, key))) is not None:
            self.give_up(now, begun, CANCELLED)

    def abandon(self, now: float, sender: "Process") -> None:
        """All of a process that has died."""
        for begun in [each for each in self.underway.values() if each.sender is sender]:
            self.give_up(now, begun, SENDER_DOWN)

    def give_up(self, now: float, begun: Underway, reason: str) -> None:
        if begun.is_flow and self.flows is not None:
            self.flows.stop((begun.sender, begun.key))
        self.end(begun)
        self.world.lose(now, begun.sender.id, begun.to, begun.message, reason)

    def end(self, begun: Underway) -> None:
        begun.is_over = True
        del self.underway[begun.sender, begun.key]
