"""What happens to a packet on its way: rules, and how they are put together.

A rule answers one question: a packet of this size leaves `sender` for `to` now; after which delays does it arrive? The
answer is a tuple. One delay is the usual case, two are a duplicate, and the empty one is a loss, which says why.

Rules are put around each other. The innermost is a latency; each rule around it changes the question or the answer:

    Loss(Duplication(Jittered(Constant(0.05), 0.01), probability=0.001), probability=0.02)

Datagrams and streams ask the same question. What a rule does to a stream must leave it a stream: a packet that is lost
is sent again, which costs time, and only when this was in vain a number of times is the answer a loss; the link is then
broken, with everything that is on its way. That a stream stays in order is seen to by the simulator (`streams.py`).

A rule has state (queues, random numbers), so it belongs to one run. `begin` is called once, with the seed of the run.
Each sender has draws of its own, so that one more node in the network does not change the luck of the others.
"""

import math
from typing import TYPE_CHECKING, Self

from xxhash import xxh3_64_intdigest

from tidings.machine.effects import Transport
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId

if TYPE_CHECKING:
    from tidings.sim.network.flows import Bulk

Fates = tuple[float, ...]
"""Delays after which a packet, and each duplicate of it, arrives."""

RETRANSMIT_AFTER = 0.2
"""Seconds after which a stream sends a lost packet again, as Linux does at the least; doubled each time."""

RETRANSMISSIONS_MAX = 8
"""How often it does before the link counts as broken: 51 seconds in all."""


class LostPacket(tuple[float, ...]):
    """No delay at all: the packet does not arrive, for this reason."""

    reason: str

    def __new__(cls, reason: str) -> Self:
        fates = super().__new__(cls)
        fates.reason = reason
        return fates


def reason_of(fates: Fates) -> str:
    """Why a packet without fates is lost."""
    return fates.reason if isinstance(fates, LostPacket) else UNNAMED


UNNAMED = "lost"
STREAM_GIVEN_UP = LostPacket("lost again with every retransmission")

STREAM_OVERFULL = LostPacket("queue full")
"""The sender of a stream may keep no more. It knows so at once, and what it sent before arrives (`streams.py`)."""


class Draws:
    """The random numbers of one sender at one rule: the n-th is a hash of their name and n.

    A `Stream` would do as well, but takes 2.5 kB. With one for each rule and each of ten thousand senders, a run spent
    more time waiting for memory than on anything else.
    """

    __slots__ = ("count", "name")

    def __init__(self, name: str) -> None:
        self.name, self.count = name.encode(), 0

    def random(self) -> float:
        self.count = count = self.count + 1
        return (xxh3_64_intdigest(self.name, count) >> 11) * UNIT

    def below(self, count: int) -> int:
        return int(self.random() * count)

    def expovariate(self, rate: float) -> float:
        return -math.log(1.0 - self.random()) / rate


UNIT = 2.0**-53


class Senders(dict[NodeId, Draws]):
    """The draws of each sender, made when they are first needed."""

    def __init__(self, *place: object) -> None:
        super().__init__()
        self.place = "\x1f".join(map(str, place))

    def __missing__(self, sender: NodeId) -> Draws:
        draws = self[sender] = Draws(f"{self.place}\x1f{sender}")
        return draws


class Rule:
    """Base of all rules."""

    needs_sizes = False
    """Whether the answer depends on the size of the packet. If no rule needs it, messages need not be measured."""

    bulk: "Bulk | None" = None
    """How bulk transfers share links (`flows.py`), where the network says so."""

    senders: Senders

    def begin(self, seed: int, place: tuple[str, ...] = ("network",)) -> None:
        """Make ready for a run. `place` names where in the network this rule stands."""
        if hasattr(self, "senders"):
            raise UsageError("this network was part of a run already, and remembers it; make a new one for each run")
        self.senders = Senders(seed, *place, type(self).__name__)

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        raise NotImplementedError

    def reach(self, now: float, sender: NodeId, to: NodeId, size_bytes: int) -> list[tuple[NodeId, Fates]] | None:
        """Who hears a broadcast, and when; None where all do, each with a fate of its own. See `radio.py`."""
        return None

    def draws(self, sender: NodeId) -> Draws:
        """The random numbers of this rule for this sender."""
        return self.senders[sender]


class Wrapper(Rule):
    """Base of rules that stand around another one."""

    def __init__(self, inner: Rule) -> None:
        self.inner = inner
        self.needs_sizes = self.needs_sizes or inner.needs_sizes
        self.bulk = inner.bulk

    def begin(self, seed: int, place: tuple[str, ...] = ("network",)) -> None:
        super().begin(seed, place)
        self.inner.begin(seed, (*place, type(self).__name__))

    def reach(self, now: float, sender: NodeId, to: NodeId, size_bytes: int) -> list[tuple[NodeId, Fates]] | None:
        return self.inner.reach(now, sender, to, size_bytes)


def later(fates: Fates, wait: float) -> Fates:
    """The same fates for a packet that had to wait first."""
    return tuple([wait + delay for delay in fates]) if fates else fates


def check_probability(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise UsageError(f"{name}: {value} is no probability; give a number from 0 to 1")


def check_positive(name: str, value: float) -> None:
    if not value > 0:
        raise UsageError(f"{name}: {value} must be above 0")
