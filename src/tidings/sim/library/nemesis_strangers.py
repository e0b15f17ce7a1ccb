"""Strangers in a nemesis (`nemesis.py`): who calls brokers under the name of a broker or a client, and is not it.

In half of the runs names are claims, as on sockets (`sim/visits.py`): whoever calls is a visitor, shows the secret of
its name, and only then is bound to it. In half of these there are strangers besides. Each says the name of somebody
who is there, calls a broker again and again, and says whatever a visitor may say, and now and then what it may not; or
nothing at all. A stranger has no secret, so a broker that lets one in, that gives it the place of the one whose name it
says, or that keeps anything of it to the end, has broken a promise.
"""

import msgspec

from tidings.machine.effects import Connect, Deliver, Disconnect, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, LinkUp, Received
from tidings.machine.message import Message
from tidings.machine.streams import RandomStream, random_stream
from tidings.model.bounds import NONCE_BYTES, SIGNATURE_BYTES
from tidings.model.identity import NodeId
from tidings.protocols.access.judge import CREDENTIALS_NEEDED, Role, Verdict
from tidings.protocols.access.messages import Attach, Attached, Challenge, LetGo, Proof, Rejected
from tidings.protocols.teaching.ping import Echo
from tidings.workloads.nemesis.campaign import BEGIN, Campaign

STRANGERS_MAX, CALLS_MAX, WORDS_MAX = 3, 12, 3

WORDS: tuple[Message, ...] = (
    Attach("client", b""),
    Attach("broker", b""),
    Attach("client", b"the secret of somebody else"),
    Attach("broker", b"", "192.0.2.1:7400"),
    Attached("somebody", "", ""),
    Rejected("not you"),
    Challenge(bytes(NONCE_BYTES)),
    Proof(bytes(SIGNATURE_BYTES)),
    LetGo(),
    Echo(1),
)
"""What strangers say; the last is not for visitors."""


class StrangerPlan(msgspec.Struct, frozen=True):
    name: NodeId
    claims: NodeId
    broker: NodeId
    """Whom it calls."""
    calls: tuple[tuple[float, tuple[Message, ...]], ...]
    """When, and what it says then."""


class LetIn(msgspec.Struct, frozen=True):
    """Delivered by a stranger: somebody believed it."""


def draw_strangers(campaign: Campaign) -> tuple[StrangerPlan, ...] | None:
    """None is a run in which every name is its node's own."""
    rng = random_stream(campaign.seed, "nemesis strangers")
    if rng.random() < 0.5:
        return None
    brokers = [broker.name for broker in campaign.brokers]
    somebody = [*brokers, *(client.name for client in campaign.clients[:20])]
    count = 1 + rng.below(STRANGERS_MAX) if rng.random() < 0.5 else 0
    return tuple(draw_stranger(rng, f"s{place}", somebody, brokers, campaign.until) for place in range(count))


def draw_stranger(
    rng: RandomStream, name: NodeId, somebody: list[NodeId], brokers: list[NodeId], until: float
) -> StrangerPlan:
    times = sorted(round(rng.uniform(BEGIN / 2, until), 3) for _ in range(1 + rng.below(CALLS_MAX)))
    calls = tuple((at, tuple(rng.choice(WORDS) for _ in range(rng.below(WORDS_MAX + 1)))) for at in times)
    return StrangerPlan(name, rng.choice(somebody), rng.choice(brokers), calls)


def secret_of(name: NodeId) -> bytes:
    return f"the secret of {name}".encode()


def secret_judge(peer: NodeId, role: Role, credentials: bytes, now: float) -> Verdict | str:
    """Whoever shows the secret of a name is the one of that name, and nobody else is let in."""
    if credentials != secret_of(peer):
        return CREDENTIALS_NEEDED
    # Clients have no roles of their own, for groups of those who have are one principal's.
    return Verdict(peer, roles=("broker",) if role == "broker" else ())


class Stranger:
    """Calls when it is time, says its words, and delivers `LetIn` if it is believed."""

    def __init__(self, plan: StrangerPlan) -> None:
        self.plan, self.place = plan, 0

    def start(self, now: float) -> list[Effect]:
        return [SetTimer("call", max(now, self.plan.calls[0][0]))]

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Fired("call"):
                self.place += 1
                effects: list[Effect] = [Disconnect(self.plan.broker), Connect(self.plan.broker)]
                if self.place < len(self.plan.calls):
                    effects.append(SetTimer("call", self.plan.calls[self.place][0]))
                return effects
            case LinkUp(broker):
                return [Send(broker, word) for word in self.plan.calls[self.place - 1][1]]
            case Received(_, message) if not isinstance(message, Rejected):
                return [Deliver(LetIn())]
        return []

    def check(self) -> None:
        pass
