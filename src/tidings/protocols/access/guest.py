"""Guest: the client's end of access, which finds a broker and is let in.

The idea. Ask for a link to the first broker that is named; when it is there, say `Attach`, sign the nonce if there is a
`Challenge`, and when `Attached` comes, tell the node `PeerUp`: the broker serves us. When the link breaks, or did not
come, or the broker stays silent for `attach_timeout`, tell `PeerDown` with the reason, wait a little, and try the next
broker in the list, round and round; one that served us for `retry_max` or longer is tried once more before. A broker
that turns us away is named by `TurnedAway`; then no further attempt is made with it, and when all have turned us away,
none at all, until the node starts again.

State. `broker`: the one we are with or trying now, and how far that came; `called`: what the list calls it, which may
be its address. Timers. "attach": no answer. "connect": the next attempt.
"""

from collections.abc import Callable
from random import Random

from tidings.machine.effects import CancelTimer, Connect, Disconnect, Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, LinkDown, LinkUp, Received, Signal
from tidings.model.identity import NodeId
from tidings.protocols.access.judge import statement
from tidings.protocols.access.messages import Attach, Attached, Challenge, Proof, Rejected
from tidings.protocols.access.params import GuestParams, retry_wait
from tidings.pubsub.signals import PeerDown, PeerUp, TurnedAway

NOT_ASKED = "answers what was not asked"
NO_ANSWER = "the broker did not answer in time"
NO_KEY = "the broker asks for a signature, and the key of the token is not at hand; give it"
STARTED_AGAIN = "started again"


class Guest:
    """`Guest("ann", GuestParams(brokers=("b",)), rng)`; `sign` where the token is bound to a key."""

    messages: tuple[type, ...] = (Attached, Rejected, Challenge)
    hears: tuple[type, ...] = (LinkUp, LinkDown)
    tells: tuple[type[Signal], ...] = (PeerUp, PeerDown, TurnedAway)

    def __init__(
        self, node_id: NodeId, params: GuestParams, rng: Random, sign: Callable[[bytes], bytes] | None = None
    ) -> None:
        self.node_id, self.params, self.rng, self.sign = node_id, params, rng, sign
        self.welcoming = list(params.brokers)
        """Brokers that have not turned us away, the next one to try in front."""
        self.broker: NodeId | None = None
        self.called: NodeId | None = None
        self.epoch: int | None = None
        """That of the link, when there is one."""
        self.is_attached = False
        self.attached_at = 0.0
        self.failures = 0

    def start(self, now: float) -> list[Effect]:
        downs: list[Effect] = []
        if self.is_attached and self.broker is not None:
            downs.append(PeerDown(self.broker, self.epoch or 0, STARTED_AGAIN))
        self.welcoming, self.failures = list(self.params.brokers), 0
        return downs + self.connect()

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Fired("connect"):
                return self.connect()
            case Fired("attach") if self.epoch is not None and not self.is_attached:
                return self.leave(now, NO_ANSWER)
            case LinkUp(node, epoch, asked) if self.broker in (node, asked) and (
                self.epoch is None or epoch > self.epoch
            ):
                return self.link_up(now, node, epoch)
            case LinkDown(node, epoch, reason) if node == self.broker and (self.epoch is None or epoch >= self.epoch):
                return self.link_lost(now, reason)
            case Received(sender, message) if isinstance(message, self.messages):
                if sender != self.broker or self.epoch is None or self.is_attached:
                    return [Drop(message, NOT_ASKED)]
                return self.hear(now, sender, message)
        return []

    def connect(self) -> list[Effect]:
        self.epoch, self.is_attached = None, False
        self.broker = self.called = self.welcoming[0] if self.welcoming else None
        return [] if self.broker is None else [Connect(self.broker)]

    def link_up(self, now: float, broker: NodeId, epoch: int) -> list[Effect]:
        downs: list[Effect] = [PeerDown(broker, self.epoch or 0, "replaced by a new link")] if self.is_attached else []
        self.broker, self.epoch, self.is_attached = broker, epoch, False
        timer = SetTimer("attach", now + self.params.attach_timeout)
        return [*downs, timer, Send(broker, Attach("client", self.params.credentials))]

    def hear(self, now: float, broker: NodeId, message: object) -> list[Effect]:
        match message:
            case Attached(_, publish_bound):
                self.is_attached, self.attached_at, self.failures = True, now, 0
                return [CancelTimer("attach"), PeerUp(broker, self.epoch or 0, publish_bound)]
            case Challenge(nonce) if self.sign is not None:
                return [Send(broker, Proof(self.sign(statement(nonce, self.node_id, broker))))]
            case Rejected(reason):
                return self.turned_away(now, broker, reason)
        return self.turned_away(now, broker, NO_KEY)

    def turned_away(self, now: float, broker: NodeId, reason: str) -> list[Effect]:
        self.welcoming = [it for it in self.welcoming if it != self.called]
        return [TurnedAway(broker, reason), *self.leave(now, reason)]

    def leave(self, now: float, reason: str) -> list[Effect]:
        assert self.broker is not None
        broker = self.broker
        return [*self.link_lost(now, reason), Disconnect(broker, reason)]

    def link_lost(self, now: float, reason: str) -> list[Effect]:
        """The broker we are with is gone, or was never there: the next one has its turn, unless this one served us for
        a while. It has our history, and may be back at once."""
        assert self.broker is not None
        has_served = self.is_attached and now - self.attached_at >= self.params.retry_max
        effects: list[Effect] = [CancelTimer("attach"), PeerDown(self.broker, self.epoch or 0, reason)]
        if self.welcoming and self.welcoming[0] == self.called and not has_served:
            self.welcoming.append(self.welcoming.pop(0))
        self.broker, self.called, self.epoch, self.is_attached = None, None, None, False
        if self.welcoming:
            wait = retry_wait(self.failures, self.params.retry_first, self.params.retry_max, self.rng.random())
            self.failures += 1
            effects.append(SetTimer("connect", now + wait))
        return effects

    def check(self) -> None:
        assert self.epoch is None or self.broker is not None, "a link to nobody"
        assert not self.is_attached or self.epoch is not None, "attached without a link"
        assert all(broker in self.params.brokers for broker in self.welcoming), "a broker that was never named"
