"""A node of the simulated network: what outlives the crashes of its process."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tidings.machine.effects import BROADCAST
from tidings.machine.inputs import Input, Received
from tidings.machine.node import Machine
from tidings.machine.streams import RandomStream
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.sim.hardware import Clock, Disk, Processing
from tidings.sim.process import NODE_DOWN, Process

if TYPE_CHECKING:
    from tidings.sim.simulator import Simulator

Draws = Callable[[str], RandomStream]
"""The random streams of one life of a node: `draws("gossip")` is the one for that purpose."""

Make = Callable[[Draws], Machine]
"""Builds the machine of a node: `lambda draws: Ping(["b"], PingParams(), draws("ping"))`."""


class SimulatedDelivery(NamedTuple):
    """Something that a machine handed to its application, and the true time at which it did."""

    at: float
    item: Any


class SimulatedNode:
    def __init__(self, world: "Simulator", id: NodeId, make: Make) -> None:
        if id == BROADCAST:
            raise UsageError(f"node {id!r}: this name is the address of all nodes; give it another")
        params = world.params
        self.world, self.id, self.make = world, id, make
        self.machine: Machine | None = None
        """That of the present life, or of the last one while the node is down."""
        self.process: Process | None = None
        """None while the node is down."""
        self.lives = 0
        self.claims: NodeId = ""
        """The name that it says when it calls, where that is not its own."""
        self.clock: Clock | None = None
        """None is a perfect one."""
        self.disk = Disk(params.save_delay)
        self.processing: Processing | None = None
        """How fast messages are handled, from the next start on; None is at once."""
        self.delivered: list[SimulatedDelivery] = []
        self.delivered_count = 0
        self.past_sent = self.past_received = self.past_fired = 0
        self.world.arrivals[id] = self.arrive

    @property
    def sent(self) -> int:
        return self.past_sent + (self.process.sent if self.process else 0)

    @property
    def received(self) -> int:
        return self.past_received + (self.process.received if self.process else 0)

    @property
    def fired(self) -> int:
        return self.past_fired + (self.process.fired if self.process else 0)

    def arrive(self, now: float, received: Received) -> None:
        """A message arrives that was sent while the node was down."""
        if self.process is not None:
            self.process.arrived(now, received)
        else:
            self.world.lose(now, received.sender, self.id, received.message, NODE_DOWN)

    def inject(self, now: float, input: Input) -> None:
        process = self.process
        if process is not None and (process.is_running or not process.is_overfull()):
            process.take(now, input)
        else:
            self.world.refused += 1

    def keep(self, now: float, item: Any) -> None:
        self.delivered_count += 1
        if len(self.delivered) < self.world.params.delivered_max:
            self.delivered.append(SimulatedDelivery(now, item))

    def begin(self, now: float, keep_state: bool) -> None:
        """A new life."""
        if self.machine is None or not keep_state:
            self.machine = self.make(self.world.draws(self.id, self.lives))
        self.process = Process(self.world, self, self.machine)
        self.world.arrivals[self.id] = self.process.arrived
        self.lives += 1
        self.process.start(now)

    def end(self, now: float) -> None:
        process = self.process
        assert process is not None
        process.die(now)
        self.past_sent += process.sent
        self.past_received += process.received
        self.past_fired += process.fired
        self.process, self.world.arrivals[self.id] = None, self.arrive
