"""A host that takes part in collections: it shares files, passes on blocks of others, coordinates, and collects itself.

Access or an open door says who is there; the directory, who takes part; measurement, what paths carry; the mover moves
blocks, the coordinator plans, the gatherer wants files. Every host has all of them: any of them can be the sink, and
any the coordinator (Patel thesis, section 3.4.2). What a part sends to this host itself does not leave it.
"""

from collections.abc import Callable
from random import Random

import msgspec

from tidings.machine.effects import Effect, Send
from tidings.machine.inputs import Input, Received
from tidings.machine.node import Node, Part
from tidings.model.identity import NodeId
from tidings.protocols.access.access import Access
from tidings.protocols.access.judge import Judge, Signatures, open_judge
from tidings.protocols.access.open_door import OpenDoor, OpenDoorParams
from tidings.protocols.access.params import AccessParams
from tidings.protocols.collect.coordinator import Coordinator
from tidings.protocols.collect.directory import MembersDirectory
from tidings.protocols.collect.gatherer import Gatherer
from tidings.protocols.collect.measurement import Measurement
from tidings.protocols.collect.mover import BlockMover
from tidings.protocols.collect.params import CollectParams
from tidings.protocols.collect.shelf import BlockShelf
from tidings.pubsub.signals import ClientDown, ClientUp, LinkFailed

KIND = "collect"
"""What hosts say that they are, so that a broker is not taken for one."""


class CollectorParams(msgspec.Struct, frozen=True, kw_only=True):
    access: AccessParams | OpenDoorParams = AccessParams()
    collect: CollectParams = CollectParams()
    has_files: bool = True


class CollectorNode(Node):
    """`CollectorNode("a", CollectorParams(), shelf, rng)`."""

    def __init__(
        self,
        node_id: NodeId,
        params: CollectorParams,
        shelf: BlockShelf,
        rng: Random,
        judge: Judge = open_judge,
        signatures: Signatures | None = None,
        sign: Callable[[bytes], bytes] | None = None,
        address: Callable[[], str] = lambda: "",
    ) -> None:
        self.node_id, self.params, self.shelf = node_id, params, shelf
        self.access: Access | OpenDoor
        if isinstance(params.access, OpenDoorParams):
            self.access = OpenDoor(node_id, params.access, rng)
        else:
            self.access = Access(node_id, params.access, judge, rng, signatures, sign, address, KIND)
        collect = params.collect
        self.directory = MembersDirectory(node_id, collect, params.has_files, rng)
        self.mover = BlockMover(node_id, collect, shelf, rng)
        self.measurement = Measurement(node_id, collect, is_busy=lambda: bool(self.mover.jobs))
        self.coordinator = Coordinator(node_id, collect, rng)
        self.gatherer = Gatherer(node_id, collect, shelf)
        parts: dict[str, Part] = {
            "access": self.access,
            "directory": self.directory,
            "measurement": self.measurement,
            "mover": self.mover,
            "coordinator": self.coordinator,
            "gatherer": self.gatherer,
        }
        super().__init__(parts, tells=(ClientUp, ClientDown, LinkFailed))

    def handle(self, now: float, input: Input) -> list[Effect]:
        return self.with_own(now, super().handle(now, input))

    def start(self, now: float) -> list[Effect]:
        return self.with_own(now, super().start(now))

    def with_own(self, now: float, effects: list[Effect]) -> list[Effect]:
        """What we say to ourselves is heard at once."""
        outgoing: list[Effect] = []
        waiting = list(reversed(effects))
        while waiting:
            effect = waiting.pop()
            if type(effect) is Send and effect.to == self.node_id:
                waiting += reversed(super().handle(now, Received(self.node_id, effect.message)))
            else:
                outgoing.append(effect)
        return outgoing
