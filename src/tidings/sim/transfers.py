"""Bulk transfers that machines ask for, from their beginning to their end.

Where the network says how links are shared (`network/flows.py`), a transfer is a flow among others: it gets its max-min
fair share for as long as it lasts. On any other network it takes as long as one message of its size.

When all of it has left, the last of it takes the latency of the network, and the receiver gets the message that says
what it was, with the size of all. The sender hears `Transferred` at that moment. Nobody hears of a transfer that its
sender cancelled, or that ended with its sender. A receiver that is down is noticed at the end.
"""

from typing import TYPE_CHECKING

from tidings.machine.effects import Send, Transfer, Transport
from tidings.machine.inputs import Received, TimerKey, Transferred
from tidings.machine.message import Message
from tidings.model.errors import UsageError
from tidings.sim.network.flows import Transfers
from tidings.sim.network.rule import reason_of

if TYPE_CHECKING:
    from tidings.sim.process import Process
    from tidings.sim.simulator import Simulator

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
        self.flows = None if self.bulk is None else Transfers(world, self.bulk.flows)
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
            self.flows.start(name, path, transfer.size_bytes, lambda ended_at: self.leave(ended_at, begun))
        else:
            fates = world.network.fate(now, sender.id, transfer.to, transfer.size_bytes, Transport.STREAM)
            if fates:
                world.push(now + fates[0], self.arrive, begun)
            else:
                world.push(now + world.params.silence_timeout, self.fail, (begun, reason_of(fates)))

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
