"""What the parts of a host need of it. They know nothing else of it, and nothing of each other."""

import asyncio
from typing import Any, Protocol

from tidings.machine.inputs import Input
from tidings.model.identity import NodeId
from tidings.net.counts import HostCounts
from tidings.net.params import HostParams


class HostWorld(Protocol):
    node_id: NodeId
    loop: asyncio.AbstractEventLoop
    params: HostParams
    counts: HostCounts
    log: Any
    is_traced: bool

    def clock(self) -> float: ...

    def step(self, input: Input) -> None:
        """Something happened to the machine."""
        ...

    def step_soon(self, input: Input) -> None:
        """The answer to an order that could be given at once."""
        ...

    def lost(self, to: NodeId, message: Any, reason: str) -> None:
        """A message could not be sent."""
        ...
