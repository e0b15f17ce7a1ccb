"""ILA, informed link activation: the ends of the new link hear what they need not tell each other.

The problem. Timed and notified repairs keep old routes for a while, and so an end of the new link tells the other what
it has from the old link alone: what the other side wants itself. It spreads there, and is taken back a moment later.

The idea. An end of the old link knows which filters it has from the lost neighbour alone: P. It sends them to the end
of the new link on its side (`Activate`), which begins to tell the other end what is wanted only when it hears that, and
*holds back* what is in P and no client of its own wants. It cannot know whether somebody else on its side wants such a
filter too before the old routes are gone; so it waits for `subscribe_after` seconds (T_s) and then tells what is still
wanted. Who subscribes to such a filter meanwhile waits that long for the receipt.

For this the old routes must go before T_s is over. With t_rep the time in which the overlay finds the new link, and
t_prop that of filters to spread (eq. 6.1):

    T_u + t_prop < T_s + t_rep

T_s is the longest unless it is fixed (`is_tuned`). That the other end takes back what it need not have any more shows
where filters are held back: one of them is not wanted any more by whoever stands on the way to that end. All
of them come one upon the other. A quarter of the time that this took later what is still wanted is really wanted.

Two forms. *Symmetric*: each end of the old link computes its own P and tells its end of the new link. *Asymmetric*: one
end computes both, and what it sends passes over the new link to the other end: P2, what the lost neighbour has from us
alone, is what we have and it never asked us for. Overlays in which one end of the old link is dead, or the one that
repairs, need the second. Where both ends hear of the new link, the asymmetric form does everything twice, to no harm.

*Siblings*: the asymmetric form, better paired where a broker failed that had several others below it, which the source
names as open work (3.6.3, figure 14.2(b)). One of them, c2, goes below another, c1, and c1 somewhere above. What c2
wants c1 had from the lost broker alone, and so it holds it back from its new neighbour, though it is real now: it is
taken back above when the old routes go, and told anew after T_s. So whoever lost the link itself holds nothing back. It
has no reason to: what it had from the lost neighbour alone is a ghost's, which is told to nobody, and whoever comes to
want it now is real. (That c1 passes on what c2 said that its side alone wants saves nothing more: c2 comes too late.)

What a stranger can do with `Activate`: delay filters on a link whose reconfiguration he can name by T_s. The link must
be up under that name, and nobody becomes a neighbour by it [R]. An end of a new link that hears nothing begins after
T_s, and tells everything. A filter that the other end alone wants is never told to it [R], and whatever is held back
goes with the link [R].

State. `expected`: what was said of a link of ours that is not up yet. `held_since`: links that hold back. On the links:
`is_withheld`, `holds_back`.
Messages: `Activate`, and `Flush` where it is on. Timers: those of TDU, and ("subscribe", neighbour, reconfiguration).

Source: dynamic-topologies.md 3.6 (its source's 6.2, 14.2.3).
"""

from collections.abc import Iterable
from struct import pack, unpack
from typing import ClassVar, NamedTuple

import msgspec
from xxhash import xxh3_64_intdigest

from tidings.machine.effects import CancelTimer, Drop, Effect, Send, SetTimer
from tidings.machine.message import Message
from tidings.model.bounds import PATTERN_DIGESTS_MAX, TABLE_DIGEST_BYTES
from tidings.model.identity import NodeId
from tidings.protocols.routing.links import NeighbourLink
from tidings.protocols.routing.repairs.messages import Activate, Flush
from tidings.protocols.routing.repairs.patience import QUIET
from tidings.protocols.routing.repairs.restraint import WithholdingRepair, timer_of
from tidings.protocols.routing.subscriptions import RoutingSubscriptions
from tidings.protocols.routing.tables import Ghost, Tables
from tidings.pubsub.signals import NeighbourReplaced, ReconfigurationId

NO_SUCH_LINK = "the link that it activates is not up under this reconfiguration"
NO_WAY_TO_LINK = "whoever should pass it on to the link that it activates is no neighbour"
ACTIVE_ALREADY = "the link that it activates is active"


class Activation(NamedTuple):
    """What an end of a new link holds back, and what its other end should, if that is for us to say."""

    held_back: bytes
    onward: bytes | None


class InformedRepair(WithholdingRepair):
    messages: ClassVar[tuple[type[Message], ...]] = (Flush, Activate)

    def __init__(self, subscriptions: RoutingSubscriptions) -> None:
        super().__init__(subscriptions)
        self.expected: dict[tuple[NodeId, ReconfigurationId], Activation] = {}
        self.held_since: dict[NodeId, float] = {}
        """New neighbours from whom filters are held back, and since when."""
        if self.params.is_tuned:
            subscriptions.went = self.went

    def lost(self, now: float, ghost: Ghost, effects: list[Effect]) -> None:
        # Also where no neighbour is left: what it wanted says what the other end need not tell.
        self.defer(now, ghost, effects)

    def up(self, now: float, link: NeighbourLink) -> list[Effect]:
        if not link.reconfiguration:
            return []
        link.is_withheld = True
        link.holds_back = self.is_not_local
        activation = self.expected.pop((link.neighbour, link.reconfiguration), None)
        if activation is not None:
            return self.activate(now, link, activation)
        return [self.begin_wait(now, link)]

    def replaced(self, now: float, replaced: NeighbourReplaced) -> list[Effect]:
        activation = self.activation_of(replaced)
        if replaced.near != self.node_id:
            first, *others = replaced.way[1:] or (replaced.near,)
            return [Send(first, Activate(replaced.reconfiguration, replaced.far, *activation, tuple(others)))]
        link = self.subscriptions.links.get(replaced.far)
        if link is not None and link.reconfiguration == replaced.reconfiguration:
            return self.activate(now, link, activation) if link.is_withheld else []
        self.expected[replaced.far, replaced.reconfiguration] = activation
        if len(self.expected) > self.params.ghosts_max:
            del self.expected[next(iter(self.expected))]
        return []

    def activation_of(self, replaced: NeighbourReplaced) -> Activation:
        ghost, tables = Ghost(replaced.lost, replaced.reconfiguration), self.subscriptions.tables
        held_back = digests_of(wanted_alone(tables, ghost))
        if self.params.activation == "symmetric":
            return Activation(held_back, None)
        onward = digests_of(wanted_without(tables, ghost))
        if self.params.activation == "siblings" and replaced.near == self.node_id:
            # What we have from the lost neighbour alone is a ghost's, and not told in any case. Whoever else comes to
            # want it is real, and must not wait.
            held_back = b""
        return Activation(held_back, onward)

    def receive(self, now: float, sender: NodeId, message: Message) -> list[Effect]:
        if not isinstance(message, Activate):
            return super().receive(now, sender, message)
        if message.way:
            return self.pass_on(message)
        link = self.subscriptions.links.get(message.far)
        if link is None or link.reconfiguration != message.reconfiguration:
            return [Drop(message, NO_SUCH_LINK)]
        if not link.is_withheld:
            return [Drop(message, ACTIVE_ALREADY)]
        return self.activate(now, link, Activation(message.held_back, message.onward))

    def pass_on(self, message: Activate) -> list[Effect]:
        """It is for an end of the new link that its sender cannot reach."""
        first, *others = message.way
        if first not in self.subscriptions.links:
            return [Drop(message, NO_WAY_TO_LINK)]
        return [Send(first, msgspec.structs.replace(message, way=tuple(others)))]

    def activate(self, now: float, link: NeighbourLink, activation: Activation) -> list[Effect]:
        held_back, onward = activation
        effects: list[Effect] = []
        if onward is not None:
            effects.append(Send(link.neighbour, Activate(link.reconfiguration, self.node_id, onward)))
        link.is_withheld = False
        digests = frozenset(read_digests(held_back))
        link.holds_back = lambda text: self.is_not_local(text) and digest_of(text) in digests
        if digests:
            self.held_since[link.neighbour] = now
            effects.append(self.begin_wait(now, link))
        else:
            effects.append(CancelTimer(timer_of(link)))
            link.holds_back = None
        self.subscriptions.walk_on(now, link, effects)
        return effects

    def went(self, now: float, text: str) -> list[Effect]:
        """The other end of the lost link has begun to take back what it need not have any more, if we held this back
        for its sake: all of it comes one upon the other, and what is still wanted behind that is really wanted."""
        effects: list[Effect] = []
        for neighbour, since in self.held_since.items():
            link = self.subscriptions.links[neighbour]
            if link.holds_back is not None and link.holds_back(text):
                ends_at = min(now + (QUIET - 1) * (now - since), since + self.params.subscribe_after)
                effects.append(SetTimer(timer_of(link), ends_at))
        return effects

    def let_go(self, now: float, link: NeighbourLink, effects: list[Effect]) -> None:
        self.held_since.pop(link.neighbour, None)
        super().let_go(now, link, effects)

    def parted(self, now: float, neighbour: NodeId) -> list[Effect]:
        self.held_since.pop(neighbour, None)
        return super().parted(now, neighbour)

    def is_not_local(self, text: str) -> bool:
        return None not in self.subscriptions.tables.hops.get(text, ())

    def check(self) -> None:
        super().check()
        assert len(self.expected) <= self.params.ghosts_max
        assert self.held_since.keys() <= self.subscriptions.links.keys()


def wanted_alone(tables: Tables, ghost: Ghost) -> list[str]:
    """P: what we have from the lost neighbour, and nobody else, but for others that are lost."""
    return [text for text in tables.haunted(ghost) if not any(map(tables.is_live, tables.hops[text]))]


def wanted_without(tables: Tables, ghost: Ghost) -> list[str]:
    """P2: what it has from us alone, since it never asked us for it."""
    return [
        text
        for text, hops in tables.hops.items()
        if not tables.is_haunted(ghost, text) and any(map(tables.is_live, hops))
    ]


def digest_of(text: str) -> int:
    return xxh3_64_intdigest(text.encode())


def digests_of(texts: Iterable[str]) -> bytes:
    digests = [digest_of(text) for text in texts][:PATTERN_DIGESTS_MAX]
    return pack(f">{len(digests)}Q", *digests)


def read_digests(data: bytes) -> tuple[int, ...]:
    """Of bytes that may be anybody's."""
    count = len(data) // TABLE_DIGEST_BYTES
    return unpack(f">{count}Q", data[: count * TABLE_DIGEST_BYTES])
