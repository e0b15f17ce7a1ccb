"""How long a packet takes: constant, drawn from a distribution, or read from a matrix.

These are the innermost rules of a network. All delays are one way, in seconds. Latency that changes over time as it was
measured is in `replay.py`, latency between hosts of an internet in `internet.py`.
"""

from collections.abc import Mapping, Sequence

from tidings.machine.effects import Transport
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.sim.network.distributions import Distribution
from tidings.sim.network.rule import Fates, Rule, Wrapper, later


class Constant(Rule):
    def __init__(self, delay: float) -> None:
        if not 0 <= delay < float("inf"):
            raise UsageError(f"delay: {delay} is no delay; give seconds from 0")
        self.fates: Fates = (delay,)

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        return self.fates


class Drawn(Rule):
    """Each packet draws its own delay: `Drawn(Exponential(0.05))`. Datagrams overtake each other."""

    def __init__(self, distribution: Distribution) -> None:
        self.distribution = distribution

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        return (self.distribution.draw(self.senders[sender]),)


class Jittered(Wrapper):
    """Adds to each packet up to `spread` seconds, uniformly."""

    def __init__(self, inner: Rule, spread: float) -> None:
        super().__init__(inner)
        if spread < 0:
            raise UsageError(f"spread: {spread} is no span of time; give seconds from 0")
        self.spread = spread

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        extra = self.spread * self.draws(sender).random()
        return later(self.inner.fate(now, sender, to, size_bytes, transport), extra)


class Matrix(Rule):
    """Delays by pair: `Matrix({("a", "b"): 0.05, ("b", "a"): 0.06})`. Who is not in it takes `default`."""

    def __init__(self, delays: Mapping[tuple[NodeId, NodeId], float], default: float | None = None) -> None:
        for (sender, to), delay in delays.items():
            if not 0 <= delay < float("inf"):
                raise UsageError(f"delay from {sender!r} to {to!r}: {delay} is no delay; give seconds from 0")
        self.known: dict[tuple[NodeId, NodeId], Fates] = {pair: (delay,) for pair, delay in delays.items()}
        self.default = None if default is None else (default,)

    @classmethod
    def from_round_trips(cls, names: Sequence[NodeId], milliseconds: Sequence[Sequence[float]]) -> "Matrix":
        """From a square table of round-trip times in milliseconds, as measurements give them; one way is half."""
        if len(milliseconds) < len(names) or any(len(row) < len(names) for row in milliseconds):
            raise UsageError(f"a table of {len(milliseconds)} rows is too small for {len(names)} nodes")
        return cls(
            {
                (sender, to): milliseconds[row][column] / 2000
                for row, sender in enumerate(names)
                for column, to in enumerate(names)
            }
        )

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        fates = self.known.get((sender, to), self.default)
        if fates is None:
            raise UsageError(f"the matrix has no delay from {sender!r} to {to!r}; add one, or give a default")
        return fates
