"""Guest: the client's end of access, which finds a broker and is let in.

The idea. Ask for a link to the first broker that is named; when it is there, say `Attach`, sign the nonce if there is a
`Challenge`, and when `Attached` comes, tell the node `PeerUp`: the broker serves us. When the link breaks, or did not
come, or the broker stays silent for `attach_timeout`, tell `PeerDown` with the reason, wait a little, and try the next
broker in the list, round and round; one that served us for `retry_max` or longer is tried once more before. A broker
that turns us away is named by `TurnedAway`; then no further attempt is made with it, and when all have turned us away,
none at all, until the node starts again.

**Sent away.** A broker that is drained says `MoveAway` and names others (`move.py`). They are called while it still
serves us. Who lets us in is our broker from then on: `PeerUp`, which names the one that we are *leaving*. That one
keeps its link until delivery says `Parted`, or for `parting_max`; then comes its `PeerDown`. If nobody lets us in it
hears `CannotMove`, and we stay. A broker that does not begin to serve us for that reason says `MoveAway` in place of
`Attached`; then those that it names are tried next.

State. `broker`: the one we are with or trying now, and how far that came; `called`: what the list calls it, which may
be its address. `moving`: the way out that is tried; `leaving`: the broker that sent us away, with the epoch of its
link. `learned`: brokers that others have named, in `welcoming` as well.
Timers. "attach": no answer. "connect": the next attempt. "move": no answer on a way out. "part": we left long ago.
"go": we may move again.
"""

from collections.abc import Callable, Iterable
from random import Random

from tidings.machine.effects import CancelTimer, Connect, Disconnect, Drop, Effect, Know, Send, SetTimer
from tidings.machine.inputs import Fired, Input, LinkDown, LinkUp, Received, Signal
from tidings.machine.message import Contact
from tidings.model.bounds import TEXT_CHARS_MAX, WAYS_OUT_MAX
from tidings.model.identity import NodeId
from tidings.protocols.access.judge import statement
from tidings.protocols.access.messages import Attach, Attached, CannotMove, Challenge, MoveAway, Proof, Rejected
from tidings.protocols.access.move import WaysOut, WhyNotThere, why_no_broker
from tidings.protocols.access.params import GuestParams, retry_wait
from tidings.pubsub.signals import Parted, PeerDown, PeerUp, TurnedAway

NOT_ASKED = "answers what was not asked"
NO_ANSWER = "the broker did not answer in time"
NO_KEY = "the broker asks for a signature, and the key of the token is not at hand; give it"
STARTED_AGAIN = "started again"
MOVED = "the client was sent away, and is served elsewhere"
NOT_PARTED = "the client was sent away and is served elsewhere; it has waited long enough for the rest"


class Guest:
    """`Guest("ann", GuestParams(brokers=("b",)), rng)`; `sign` where the token is bound to a key."""

    messages: tuple[type, ...] = (Attached, Rejected, Challenge, MoveAway)
    hears: tuple[type, ...] = (LinkUp, LinkDown, Parted)
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
        self.why_not_there: WhyNotThere = lambda broker, contact: ""
        self.learned: list[NodeId] = []
        self.moving: WaysOut | None = None
        self.leaving: tuple[NodeId, int] | None = None
        self.asked_to_go: tuple[Contact, ...] | None = None
        """Where, if it is too early for that."""
        self.moved_at = float("-inf")

    def start(self, now: float) -> list[Effect]:
        downs: list[Effect] = []
        if self.leaving is not None:
            downs.append(PeerDown(*self.leaving, STARTED_AGAIN))
        if self.is_attached and self.broker is not None:
            downs.append(PeerDown(self.broker, self.epoch or 0, STARTED_AGAIN))
        self.welcoming, self.failures = [*self.params.brokers, *self.learned], 0
        self.moving = self.leaving = self.asked_to_go = None
        self.moved_at = float("-inf")
        return downs + self.connect()

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Fired("connect"):
                return self.connect()
            case Fired("attach") if self.epoch is not None and not self.is_attached:
                return self.leave(now, NO_ANSWER)
            case Fired("move"):
                return self.try_another(NO_ANSWER)
            case Fired("part"):
                return self.part(NOT_PARTED)
            case Fired("go") if self.asked_to_go is not None:
                return self.go(now, self.asked_to_go)
            case Parted(broker) if self.leaving is not None and self.leaving[0] == broker:
                return self.part(MOVED)
            case LinkUp(node, epoch) if self.is_way_out(node):
                return self.way_out_up(now, node, epoch)
            case LinkDown(node, epoch, reason) if self.is_way_out(node):
                return self.try_another(reason)
            case LinkDown(node, epoch, reason) if self.leaving is not None and self.leaving[0] == node:
                return self.parted(reason) if epoch >= self.leaving[1] else []
            case LinkUp(node, epoch, asked) if self.broker in (node, asked) and (
                self.epoch is None or epoch > self.epoch
            ):
                return self.link_up(now, node, epoch)
            case LinkDown(node, epoch, reason) if node == self.broker and (self.epoch is None or epoch >= self.epoch):
                return self.link_lost(now, reason)
            case Received(sender, message) if isinstance(message, self.messages):
                return self.receive(now, sender, message)
        return []

    def receive(self, now: float, sender: NodeId, message: object) -> list[Effect]:
        if self.moving is not None and sender == self.moving.broker and self.moving.epoch is not None:
            return self.hear_way_out(now, sender, self.moving, message)
        if sender != self.broker or self.epoch is None:
            return [Drop(message, NOT_ASKED)]
        if isinstance(message, MoveAway):
            return self.sent_away(now, sender, message)
        return [Drop(message, NOT_ASKED)] if self.is_attached else self.hear(now, sender, message)

    def connect(self) -> list[Effect]:
        self.epoch, self.is_attached = None, False
        self.broker = self.called = self.welcoming[0] if self.welcoming else None
        return [] if self.broker is None else [Connect(self.broker)]

    def link_up(self, now: float, broker: NodeId, epoch: int) -> list[Effect]:
        downs: list[Effect] = [PeerDown(broker, self.epoch or 0, "replaced by a new link")] if self.is_attached else []
        self.broker, self.epoch, self.is_attached = broker, epoch, False
        return [*downs, SetTimer("attach", now + self.params.attach_timeout), self.attach(broker)]

    def attach(self, broker: NodeId) -> Send:
        return Send(broker, Attach("client", self.params.credentials, when_drained=self.params.when_drained))

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
        effects: list[Effect] = [] if self.leaving is None else self.part(reason)
        effects += [CancelTimer("attach"), PeerDown(self.broker, self.epoch or 0, reason)]
        if self.welcoming and self.welcoming[0] == self.called and not has_served:
            self.welcoming.append(self.welcoming.pop(0))
        self.broker, self.called, self.epoch, self.is_attached = None, None, None, False
        self.asked_to_go = None
        if self.moving is not None:
            return [*effects, *self.take_way_out(now, self.moving)]
        if self.welcoming:
            wait = retry_wait(self.failures, self.params.retry_first, self.params.retry_max, self.rng.random())
            self.failures += 1
            effects.append(SetTimer("connect", now + wait))
        return effects

    # Sent away.

    def sent_away(self, now: float, broker: NodeId, message: MoveAway) -> list[Effect]:
        if not self.is_attached:
            return self.sent_on(now, broker, message)
        if self.moving is not None:
            return []
        if self.leaving is None and now >= self.moved_at + self.params.moves_pause:
            return self.go(now, message.contacts)
        self.asked_to_go = message.contacts
        return [SetTimer("go", max(now, self.moved_at + self.params.moves_pause))]

    def sent_on(self, now: float, broker: NodeId, message: MoveAway) -> list[Effect]:
        """It does not begin to serve us. Those that it named are next, and then the others in their order."""
        ways = [it for it in message.contacts if it.node != broker and not why_no_broker(it)]
        ways = [it for it in ways if not self.why_not_there(broker, it)]
        effects = self.leave(now, message.reason)
        self.learn(ways)
        named = dict.fromkeys(it.node for it in ways)
        self.welcoming = [*named, *(it for it in self.welcoming if it not in named)]
        return [*(Know(it.node, it.address) for it in ways if it.address), *effects]

    def go(self, now: float, contacts: Iterable[Contact]) -> list[Effect]:
        """Begin to look for another broker, beside the one that serves us."""
        if self.leaving is not None:
            # It is gone within `parting_max`.
            return [SetTimer("go", now + self.params.moves_pause)]
        self.asked_to_go, self.moving = None, WaysOut()
        self.moving.add(contacts, (self.broker, self.called))
        return self.try_another("")

    def try_another(self, problem: str) -> list[Effect]:
        moving = self.moving
        if moving is None or self.broker is None:
            return []
        moving.problem = problem or moving.problem
        parting: list[Effect] = []
        if moving.broker is not None:
            parting += [CancelTimer("move"), Disconnect(moving.broker, moving.problem)]
        contact = moving.next(self.broker, self.why_not_there)
        if contact is None:
            self.moving = None
            return [*parting, Send(self.broker, CannotMove(moving.problem[:TEXT_CHARS_MAX]))]
        known: list[Effect] = [Know(contact.node, contact.address)] if contact.address else []
        return [*parting, *known, Connect(contact.node)]

    def is_way_out(self, node: NodeId) -> bool:
        return self.moving is not None and self.moving.broker == node

    def way_out_up(self, now: float, node: NodeId, epoch: int) -> list[Effect]:
        assert self.moving is not None
        if self.moving.epoch is not None and epoch <= self.moving.epoch:
            return []
        self.moving.epoch = epoch
        return [SetTimer("move", now + self.params.attach_timeout), self.attach(node)]

    def hear_way_out(self, now: float, broker: NodeId, moving: WaysOut, message: object) -> list[Effect]:
        match message:
            case Attached(_, publish_bound):
                return self.moved(now, broker, moving, publish_bound)
            case Challenge(nonce) if self.sign is not None:
                return [Send(broker, Proof(self.sign(statement(nonce, self.node_id, broker))))]
            case MoveAway(reason, contacts):
                moving.add(contacts, (self.broker, self.called))
                return self.try_another(reason)
            case Rejected(reason):
                return self.try_another(reason)
        return self.try_another(NO_KEY)

    def moved(self, now: float, broker: NodeId, moving: WaysOut, publish_bound: str) -> list[Effect]:
        """It serves us from now on; the other one stays until delivery needs nothing more of it."""
        assert self.broker is not None
        old, self.leaving, self.moving = self.broker, (self.broker, self.epoch or 0), None
        self.broker = self.called = broker
        self.epoch, self.attached_at, self.moved_at, self.failures = moving.epoch, now, now, 0
        self.learn([Contact(broker)])
        self.welcoming = [broker, *(it for it in self.welcoming if it != broker)]
        timers = CancelTimer("move"), SetTimer("part", now + self.params.parting_max)
        return [*timers, PeerUp(broker, self.epoch or 0, publish_bound, leaving=old)]

    def learn(self, contacts: Iterable[Contact]) -> None:
        for contact in contacts:
            if contact.node in self.params.brokers:
                continue
            self.learned = [*(it for it in self.learned if it != contact.node), contact.node]
            if contact.node not in self.welcoming:
                self.welcoming.append(contact.node)
        forgotten, self.learned = self.learned[:-WAYS_OUT_MAX], self.learned[-WAYS_OUT_MAX:]
        self.welcoming = [it for it in self.welcoming if it not in forgotten]

    def part(self, reason: str) -> list[Effect]:
        if self.leaving is None:
            return []
        broker, _ = self.leaving
        return [*self.parted(reason), Disconnect(broker, reason)]

    def parted(self, reason: str) -> list[Effect]:
        """The broker that sent us away is gone."""
        assert self.leaving is not None
        left, self.leaving = self.leaving, None
        return [CancelTimer("part"), PeerDown(*left, reason)]

    def take_way_out(self, now: float, moving: WaysOut) -> list[Effect]:
        """The broker that sent us away was lost before another one had let us in: the one that we are trying is our
        next, as if it had been called in the usual way."""
        self.moving = None
        if moving.broker is None:
            return self.connect()
        self.broker = self.called = moving.broker
        self.epoch, self.is_attached = moving.epoch, False
        self.learn([Contact(moving.broker)])
        self.welcoming = [moving.broker, *(it for it in self.welcoming if it != moving.broker)]
        again = [] if self.epoch is None else [SetTimer("attach", now + self.params.attach_timeout)]
        return [CancelTimer("move"), *again]

    def check(self) -> None:
        assert self.epoch is None or self.broker is not None, "a link to nobody"
        assert not self.is_attached or self.epoch is not None, "attached without a link"
        named = {*self.params.brokers, *self.learned}
        assert all(broker in named for broker in self.welcoming), "a broker that was never named"
        assert len(self.welcoming) == len(set(self.welcoming)), "a broker is tried twice"
        assert len(self.learned) <= WAYS_OUT_MAX, "too many brokers are remembered"
        assert self.moving is None or (self.is_attached and self.moving.broker is not None), "moves from or to nowhere"
        assert self.leaving is None or self.leaving[0] != self.broker, "leaves its own broker"
