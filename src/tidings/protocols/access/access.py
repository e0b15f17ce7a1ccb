"""Access: who is at the other end of a link, and may it come in?

The problem. Anybody who knows the address can open a link. A broker has to know, before it serves, whether a client or
another broker is there, who answers for it, and what that principal may do. And the links between brokers that were
configured must come back by themselves after a break, as must those that other parts of the node ask for at run time,
to brokers that they have met.

The idea. The first word on a link is `Attach(role, credentials)`. A *judge* (`judge.py`), a pure function, answers
who that is, or why not. A client is told `Attached` and is served from then on (`ClientUp`). Two brokers judge each
other: the one that called attaches first, the other attaches back, and each is a peer of the other (`PeerUp`) when it
has accepted and was accepted. Each says where it listens, so that others can be told. Whoever is turned away hears
`Rejected` with the reason and loses the link; who is merely late loses the link alone. Where a verdict names the key of
a holder, `Challenge` and `Proof` come in between.

Identity first. A new stream belongs to a *visitor* (`Knocked`), whatever name it gives; visitors can be many for one
name, and nothing that they do touches a link there is. When the judge has said yes and the key is proved, `Admit` binds
the stream to the name, and only then an earlier one gives way. Two brokers that called each other at once have two
streams; which one is kept is decided by the end with the smaller name (`follow`).

Links on demand, `LinkWanted` and `LinkUnwanted`: see `wanted.py`. A broker that is drained takes no clients: `away`
says so, and where they could go (`drain.py`).

Everything else waits for these signals: delivery serves the clients of `ClientUp`, the overlay the peers of `PeerUp`,
routing the overlay's neighbours; what anybody else sends is dropped by whom it is for. Since a link keeps its order and
`Attached` is the last word before an end calls the other a peer, no message of a peer comes before its `PeerUp`.

State. `entrants`: the nodes with a link, and the visitors, each with how far it came in (`entrant.py`). `wanted`: the
links to keep, for whom, and how often in a row each did not come to a `PeerUp`.

Timers. ("attach", node): it was not let in within `attach_timeout`, and loses its link. ("connect", broker): the next
attempt for a wanted link, with waits that double up to `retry_max`, less a random part. ("expiry", node): its
credentials are worth nothing from now on, and it loses its link; it may come back with new ones. "rejudge": some of
those who are in are still to be judged again.

Rights that change. Whoever owns the judge says `Rejudge` when it has learned something new (`rights.py`).

Guaranteed. Up and down of one node come in turns, and up only after the judge's yes (and the proof). A node is a peer
or a client, never both. A wanted link is asked for until it is there, for as long as it is wanted. Not guaranteed: that
the node behind a name is always the same one; without TLS or a holder's key a name is only a claim, and so is the
address that it says.

Bounds. Links that are not let in yet (`strangers_max`), clients, peers. One more is turned away with the reason. Links
that are wanted (`links_wanted_max`): one more is refused with `LinkFailed`.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

from tidings.machine.effects import Admit, CancelTimer, Disconnect, Drop, Effect, Know, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Knocked, LinkDown, LinkUp, Received, Request, Signal
from tidings.machine.message import Contact, is_address_text
from tidings.model.bounds import NONCE_BYTES, TEXT_CHARS_MAX
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId, is_visitor
from tidings.protocols.access.entrant import Entrant, check_entrants, visiting, why_apart, why_not
from tidings.protocols.access.judge import Judge, Role, Signatures, bound_text, statement
from tidings.protocols.access.messages import (
    Attach,
    Attached,
    Challenge,
    LetGo,
    MoveAway,
    Proof,
    Rejected,
    WhenDrained,
)
from tidings.protocols.access.params import AccessParams
from tidings.protocols.access.rights import judged_again
from tidings.protocols.access.tenancy import WRONG_TENANT, TenantConnections, called_in
from tidings.protocols.access.wanted import WantedLinks
from tidings.pubsub.notes import EntryRejected, VisitorAdmitted, VisitorTurnedAway
from tidings.pubsub.rows import Gauge
from tidings.pubsub.signals import LET_GO, ClientDown, ClientUp, LinkFailed, LinkUnwanted, LinkWanted, PeerDown, PeerUp

NO_LINK = "comes from a node without a link"
ATTACHED_ALREADY = "has attached already"
NOT_ASKED = "answers what was not asked"
TOO_LATE = "did not attach in time"
TOO_MANY_STRANGERS = "too many links that have not attached yet; try later"
TOO_MANY_CLIENTS = "as many clients as are allowed are served already; try another broker"
TOO_MANY_PEERS = "as many brokers as are allowed are linked already"
WRONG_PROOF = "the signature over the nonce is wrong: the key of the token is needed"
NO_PROOF_POSSIBLE = "the token is bound to a key, and this broker cannot check signatures"
CREDENTIALS_EXPIRED = "the credentials have expired; attach again with new ones"
REPLACED = "replaced by a new link"
STARTED_AGAIN = "started again"
WE_ARE_REJECTED = "rejected us"
BAD_ADDRESS = "the address that you say you listen at is none; say host:port, or nothing"
OURSELVES = "this is the broker itself"
TOO_MANY_WANTED = "as many links as are allowed are kept already; let go of one, or raise links_wanted_max"
NOT_WANTED = "the link is not wanted any more"
RIGHTS_CHANGED = "your rights have changed; attach again"

REJUDGE_PAUSE = 0.001


class Rejudge(Request, frozen=True):
    """Request: the judge has learned something new, so judge everybody who is in once more."""


class Access:
    """`Access("a", AccessParams(links=("b",)), open_judge, rng)`. Where tokens name their holders' keys, `signatures`
    checks the proofs of others and `sign` makes ours; `rng` draws nonces, so on sockets it is the system's. `address()`
    is where we listen."""

    messages: tuple[type, ...] = (Attach, Attached, Rejected, Challenge, Proof, LetGo)
    hears: tuple[type, ...] = (Knocked, LinkUp, LinkDown, LinkWanted, LinkUnwanted, Rejudge)
    tells: tuple[type[Signal], ...] = (PeerUp, PeerDown, ClientUp, ClientDown, LinkFailed)

    def __init__(
        self,
        node_id: NodeId,
        params: AccessParams,
        judge: Judge,
        rng: Random,
        signatures: Signatures | None = None,
        sign: Callable[[bytes], bytes] | None = None,
        address: Callable[[], str] = lambda: "",
        kind: str = "",
        away: Callable[[WhenDrained], MoveAway | None] = lambda when_drained: None,
    ) -> None:
        if node_id in params.links:
            raise UsageError(f"links: {node_id!r} is this broker itself; leave it out")
        self.node_id, self.params, self.judge, self.rng = node_id, params, judge, rng
        self.signatures, self.sign, self.address, self.kind, self.away = signatures, sign, address, kind, away
        self.entrants: dict[NodeId, Entrant] = {}
        self.accepted: dict[Role, int] = {"client": 0, "broker": 0}
        """How many entrants were accepted as what."""
        self.of_tenant = TenantConnections()
        self.peers = 0
        self.wanted = WantedLinks(params.links, params.retry_first, params.retry_max, rng)
        self.unjudged: list[NodeId] = []
        """Those who are still to be judged again, the last one first."""

    def start(self, now: float) -> list[Effect]:
        downs = [effect for node in list(self.entrants) for effect in self.forget(node, STARTED_AGAIN)]
        self.wanted.restart()
        self.unjudged.clear()
        return [*downs, *map(self.wanted.dial, self.wanted.users)]

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(sender, message) if isinstance(message, self.messages):
                entrant = self.entrants.get(sender)
                return [Drop(message, NO_LINK)] if entrant is None else self.hear(now, sender, entrant, message)
            case Knocked():
                return self.knocked(now, input)
            case LinkUp(node, epoch, asked, visitor):
                if asked in self.wanted.users:
                    self.wanted.recognise(node, asked)
                return self.bound(now, node, epoch, visitor) if visitor else self.link_up(now, node, epoch)
            case LinkDown(node, epoch, reason, asked):
                return self.link_down(now, node, epoch, reason, asked)
            case Fired(("connect", str(link))) if link in self.wanted.users and not self.is_there(link):
                return [self.wanted.dial(link)]
            case LinkWanted(contact, user):
                return self.want(now, contact, user)
            case LinkUnwanted(broker, user) if self.wanted.remove(broker, user):
                return self.let_go(broker)
            case Fired(("attach", str(node))) if (entrant := self.entrants.get(node)) and entrant.is_stranger:
                return self.turn_away(node, TOO_LATE)
            case Fired(("expiry", str(node))) if node in self.entrants:
                return self.turn_away(node, CREDENTIALS_EXPIRED)
            case Rejudge():
                self.unjudged = list(reversed(self.entrants))
                return self.judge_again(now)
            case Fired("rejudge"):
                return self.judge_again(now)
        return []

    @property
    def strangers(self) -> int:
        return len(self.entrants) - self.accepted["client"] - self.peers

    # Links are wanted.

    def is_there(self, link: NodeId) -> bool:
        """Or on its way. What a visitor claims that called us does not count: it could keep us from calling whom it
        says it is."""
        return any((self.wanted.link_of(it.name) if it.is_bound else it.asked) == link for it in self.entrants.values())

    def want(self, now: float, contact: Contact, user: str) -> list[Effect]:
        broker = contact.node
        if broker == self.node_id or is_visitor(broker):
            return [LinkFailed(broker, OURSELVES, is_refused=True)]
        if broker not in self.wanted and len(self.wanted) >= self.params.links_wanted_max:
            return [LinkFailed(broker, TOO_MANY_WANTED, is_refused=True)]
        effects: list[Effect] = [Know(broker, contact.address)] if is_address_text(contact.address) else []
        entrant = self.entrants.get(broker)
        if not self.wanted.add(broker, user) or (entrant is not None and not entrant.is_silent):
            return effects
        if entrant is not None:
            return [*effects, *self.attach(broker, entrant, is_ours=True)]
        return [*effects, self.wanted.dial(broker)]

    def let_go(self, broker: NodeId) -> list[Effect]:
        """Nobody here wants the link any more. A call that nobody has answered is called off, so that the next one
        begins anew; a link that is not up yet is let go as soon as it is."""
        entrant = self.entrants.get(broker)
        parting: list[Effect] = [Send(broker, LetGo())] if entrant is not None and entrant.is_peer else []
        if entrant is None and self.wanted.is_calling(broker):
            parting.append(Disconnect(broker, NOT_WANTED))
        return [CancelTimer(("connect", broker)), *parting]

    # Links come and go.

    def link_up(self, now: float, node: NodeId, epoch: int) -> list[Effect]:
        known = self.entrants.get(node)
        if known is not None and known.epoch >= epoch:
            return []
        was_dialled = self.wanted.heard_of(node)
        effects = self.forget(node, REPLACED)
        if was_dialled and node not in self.wanted:
            return [*effects, Disconnect(node, NOT_WANTED)]
        entrant = Entrant(node, epoch, is_proved=True, is_bound=True, attach_by=now + self.params.attach_timeout)
        return effects + self.begin(node, entrant, is_wanted=node in self.wanted)

    def knocked(self, now: float, knock: Knocked) -> list[Effect]:
        if knock.asked:
            self.wanted.heard_of(knock.asked)
            if knock.asked not in self.wanted:
                return [Disconnect(knock.visitor, NOT_WANTED)]
        entrant = visiting(knock, now + max(0.0, self.params.attach_timeout - knock.waited))
        # Whoever calls us shows first who it is: what we show is not for everybody who knows a name.
        return self.begin(knock.visitor, entrant, is_wanted=bool(knock.asked))

    def begin(self, node: NodeId, entrant: Entrant, is_wanted: bool) -> list[Effect]:
        self.entrants[node] = entrant
        if self.strangers > self.params.strangers_max:
            return self.turn_away(node, TOO_MANY_STRANGERS)
        timer = SetTimer(("attach", node), entrant.attach_by)
        return [timer, *(self.attach(node, entrant, is_ours=True) if is_wanted else ())]

    def bound(self, now: float, node: NodeId, epoch: int, visitor: NodeId) -> list[Effect]:
        """The visitor goes by its own name from now on."""
        entrant = self.entrants.pop(visitor, None)
        if entrant is None or entrant.granted is None:
            return [Disconnect(node, NOT_WANTED)]
        effects = self.forget(node, REPLACED)
        entrant.epoch, entrant.is_bound = epoch, True
        self.entrants[node] = entrant
        timers = CancelTimer(("attach", visitor)), SetTimer(("attach", node), max(now, entrant.attach_by))
        return [*effects, *timers, *self.let_in(node, entrant)]

    def attach(self, broker: NodeId, entrant: Entrant, is_ours: bool) -> list[Effect]:
        if entrant.has_asked:
            return []
        entrant.has_asked, entrant.is_ours = True, is_ours
        # A token that is good without a key is not for somebody of whom we have nothing but his word.
        is_shown = is_ours or self.sign is not None or entrant.is_known
        credentials = self.params.credentials if is_shown else b""
        return [Send(broker, Attach("broker", credentials, self.address(), self.kind))]

    def link_down(self, now: float, node: NodeId, epoch: int, reason: str, asked: NodeId) -> list[Effect]:
        """`asked` says whom we had called, where that is a visitor still."""
        known = self.entrants.get(node)
        if known is not None and known.epoch > epoch:
            return []
        effects, called = self.forget(node, reason), asked or node
        self.wanted.heard_of(called)
        link = self.wanted.link_of(called)
        if link in self.wanted.users and not (asked and self.is_there(link)):
            effects.append(self.wanted.failed(now, link))
            if self.wanted.is_on_demand(link) and not (known is not None and known.is_peer):
                effects.append(LinkFailed(called, reason))
        return effects

    def forget(self, node: NodeId, reason: str) -> list[Effect]:
        entrant = self.entrants.pop(node, None)
        if entrant is None:
            return []
        effects: list[Effect] = [CancelTimer(("attach", node)), CancelTimer(("expiry", node))]
        if entrant.role is not None:
            self.accepted[entrant.role] -= 1
            self.of_tenant.leave(None if entrant.verdict is None else entrant.verdict.tenant)
        if entrant.is_client:
            effects.append(ClientDown(node, reason))
        elif entrant.is_peer:
            self.peers -= 1
            effects.append(PeerDown(node, entrant.epoch, reason))
        return effects

    def turn_away(self, node: NodeId, reason: str, away: MoveAway | None = None) -> list[Effect]:
        entrant = self.entrants.get(node)
        # Who was not judged may come again; so may whoever does not know how to go where it is told.
        is_final = reason not in (TOO_LATE, TOO_MANY_STRANGERS) and away is None
        told: list[Effect] = [Send(node, Rejected(reason[:TEXT_CHARS_MAX]))] if is_final else []
        if away is not None and entrant is not None and entrant.when_drained:
            told = [Send(node, away)]
        told.append(Disconnect(node, reason))
        if entrant is None:
            return told
        principal = entrant.verdict.principal if entrant.verdict is not None else ""
        visitor = "" if entrant.is_bound else node
        note = VisitorTurnedAway(entrant.name, reason, principal, entrant.asked_role, visitor)
        return [*self.forget(node, reason), note, *told]

    # What the other end says.

    def hear(self, now: float, sender: NodeId, entrant: Entrant, message: object) -> list[Effect]:
        match message:
            case Attach() if entrant.granted is not None or entrant.challenged is not None:
                return [Drop(message, ATTACHED_ALREADY)]
            case Attach(_, _, address) if address and not is_address_text(address):
                return self.turn_away(sender, BAD_ADDRESS)
            case Attach(role, credentials, address, kind, when_drained):
                entrant.address, entrant.kind, entrant.when_drained = address, kind, when_drained
                return self.consider(now, sender, entrant, role, credentials)
            case LetGo() if entrant.is_peer:
                return [] if sender in self.wanted else [*self.forget(sender, LET_GO), Disconnect(sender, LET_GO)]
            case Proof(signature) if entrant.challenged is not None:
                return self.check_proof(sender, entrant, signature)
            case Challenge(nonce) if entrant.has_asked and not entrant.has_accepted and self.sign is not None:
                return [Send(sender, Proof(self.sign(statement(nonce, self.node_id, entrant.name))))]
            case Attached() if entrant.has_asked and not entrant.has_accepted:
                entrant.has_accepted = True
                return self.come_up(sender, entrant) if entrant.is_bound else self.follow(sender, entrant)
            case Rejected(reason) if entrant.has_asked:
                why = f"{WE_ARE_REJECTED}: {reason}"
                note = EntryRejected(entrant.name, reason, "" if entrant.is_bound else sender)
                return [*self.forget(sender, why), note, Disconnect(sender, why)]
        return [Drop(message, NOT_ASKED)]

    def consider(self, now: float, node: NodeId, entrant: Entrant, role: Role, credentials: bytes) -> list[Effect]:
        entrant.asked_role, entrant.credentials = role, credentials
        verdict = self.judge(entrant.name, role, credentials, now + self.params.clock_offset)
        if isinstance(verdict, str):
            return self.turn_away(node, verdict)
        entrant.verdict = verdict
        called = called_in(entrant.name, verdict.tenant)
        if problem := why_not(entrant, role, verdict, self.entrants.get(called)) or why_apart(self.kind, entrant.kind):
            return self.turn_away(node, problem)
        if not called or (entrant.is_bound and called != entrant.name):
            return self.turn_away(node, WRONG_TENANT)
        if not verdict.holder_key:
            return self.grant(node, entrant, role)
        if self.signatures is None:
            return self.turn_away(node, NO_PROOF_POSSIBLE)
        nonce = self.rng.randbytes(NONCE_BYTES)
        entrant.challenged = role, nonce, verdict
        return [Send(node, Challenge(nonce))]

    def check_proof(self, node: NodeId, entrant: Entrant, signature: bytes) -> list[Effect]:
        assert entrant.challenged is not None and self.signatures is not None
        role, nonce, verdict = entrant.challenged
        entrant.challenged = None
        if not self.signatures.verify(verdict.holder_key, signature, statement(nonce, entrant.name, self.node_id)):
            return self.turn_away(node, WRONG_PROOF)
        return self.grant(node, entrant, role)

    def grant(self, node: NodeId, entrant: Entrant, role: Role) -> list[Effect]:
        """It is who it says, and may come in as this."""
        assert entrant.verdict is not None
        if role == "client" and (away := self.away(entrant.when_drained)) is not None:
            return self.turn_away(node, away.reason, away)
        entrant.granted, entrant.claimed = role, entrant.name
        entrant.name = called_in(entrant.name, entrant.verdict.tenant)
        if entrant.asked in self.wanted.users and entrant.asked != entrant.name:
            self.wanted.recognise(entrant.name, entrant.asked)
        if entrant.is_bound:
            return self.let_in(node, entrant)
        if role == "client" or self.node_id < entrant.name:
            return [Admit(node, entrant.name)]
        return [*self.answer(node, entrant), *self.follow(node, entrant)]

    def follow(self, node: NodeId, entrant: Entrant) -> list[Effect]:
        """Two brokers may have called each other at once. The one with the smaller name decides which stream is kept:
        it binds one, and only there says `Attached`; the other binds the one on which it hears that."""
        is_decided = entrant.granted == "broker" and entrant.has_accepted and self.node_id > entrant.name
        return [Admit(node, entrant.name, replaces=True)] if is_decided else []

    def answer(self, node: NodeId, entrant: Entrant) -> list[Effect]:
        """Tell it that it is accepted; a broker that has not heard who we are hears that too."""
        assert entrant.verdict is not None
        effects: list[Effect] = []
        if not entrant.has_answered:
            entrant.has_answered, verdict = True, entrant.verdict
            bounds = bound_text(verdict.publish_bound), bound_text(verdict.subscribe_bound)
            # They concern clients, and an answer to a stranger among brokers is short.
            told = Attached(verdict.principal, *(bounds if entrant.granted == "client" else ("", "")))
            effects += [VisitorAdmitted(entrant.name, verdict.principal, entrant.granted or ""), Send(node, told)]
        return effects if entrant.granted == "client" else [*effects, *self.attach(node, entrant, is_ours=False)]

    def let_in(self, node: NodeId, entrant: Entrant) -> list[Effect]:
        role, verdict = entrant.granted, entrant.verdict
        assert role is not None and verdict is not None
        most, too_many = (
            (self.params.clients_max, TOO_MANY_CLIENTS) if role == "client" else (self.params.peers_max, TOO_MANY_PEERS)
        )
        if self.accepted[role] >= most:
            return self.turn_away(node, too_many)
        if too_many := self.of_tenant.enter(verdict.tenant):
            return self.turn_away(node, too_many)
        entrant.role = role
        self.accepted[role] += 1
        effects = self.answer(node, entrant)
        if verdict.expires_at is not None:
            effects.append(SetTimer(("expiry", node), verdict.expires_at - self.params.clock_offset))
        if role == "broker":
            return [*effects, *self.come_up(node, entrant)]
        effects.append(CancelTimer(("attach", node)))
        bounds = verdict.publish_bound, verdict.subscribe_bound
        up = ClientUp(node, verdict.principal, *bounds, verdict.roles, verdict.tenant, entrant.when_drained)
        return [*effects, up]

    def judge_again(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for node, verdict, note in judged_again(self.unjudged, self.entrants, self.judge, now, self.params):
            if isinstance(verdict, str):
                effects += self.turn_away(node, verdict)
            elif note is not None:
                effects += [*self.forget(node, RIGHTS_CHANGED), note, Disconnect(node, RIGHTS_CHANGED)]
        if self.unjudged:
            effects.append(SetTimer("rejudge", now + REJUDGE_PAUSE))
        return effects

    def come_up(self, broker: NodeId, entrant: Entrant) -> list[Effect]:
        """Both ends have accepted each other, or one of them is still to do so."""
        if not entrant.is_peer:
            return []
        self.peers += 1
        self.wanted.came(broker)
        link = self.wanted.link_of(broker)
        asked, is_configured = "" if link == broker else link, self.wanted.is_configured(broker)
        up = PeerUp(broker, entrant.epoch, address=entrant.address, asked=asked, is_configured=is_configured)
        parting: list[Effect] = [Send(broker, LetGo())] if entrant.is_ours and broker not in self.wanted else []
        return [CancelTimer(("attach", broker)), up, *parting]

    # What others may look at.

    def why_unsettled(self) -> str:
        waiting = self.wanted.untried()
        return f"waiting for a first answer of {', '.join(waiting)}" if waiting else ""

    def gauges(self) -> Iterator[Gauge]:
        yield Gauge("links", "brokers that are linked", self.peers)
        yield from self.of_tenant.gauges()

    def check(self) -> None:
        params, entrants = self.params, self.entrants.values()
        assert self.strangers == sum(1 for it in entrants if it.is_stranger) <= params.strangers_max, "strangers"
        assert self.accepted["client"] == sum(1 for it in entrants if it.is_client) <= params.clients_max, "clients"
        tenants = Counter(it.verdict.tenant.name for it in entrants if it.role and it.verdict and it.verdict.tenant)
        assert tenants == +self.of_tenant.counts, "the connections of a tenant are miscounted"
        assert self.peers == sum(1 for it in entrants if it.is_peer) <= self.accepted["broker"], "peers"
        assert self.accepted["broker"] <= params.peers_max, "too many peers"
        check_entrants(self.entrants)
        assert len(self.wanted) <= params.links_wanted_max, "more links are wanted than links_wanted_max allows"
        assert all(self.wanted.users.values()), "a link is kept that nobody wants"
