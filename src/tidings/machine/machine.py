"""The contract: a protocol is a machine.

Something happened (an input) at a time (`now`, in seconds); the machine changes its state and answers with the list of
effects to be carried out. It reads no clock, opens no socket, sleeps never, shares nothing and draws randomness only
from the generator it was given. So the same object runs on sockets, in the simulator, under a property test and at a
Python prompt, and a run is reproduced by its seed.
"""

from typing import Protocol

from tidings.machine.effects import Effect
from tidings.machine.inputs import Input


class Machine(Protocol):
    """What every protocol, and every node made of protocols, offers to the world."""

    def start(self, now: float) -> list[Effect]:
        """First timers, first messages. Called before any input, and again after a crash that left the state intact:
        then no timer is set and nothing is under way any more."""
        ...

    def handle(self, now: float, input: Input) -> list[Effect]:
        """Take one input and answer with all effects. Never raises on what a peer sent."""
        ...

    def check(self) -> None:
        """Assert the invariants of the state."""
        ...
