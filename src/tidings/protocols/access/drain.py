"""Draining: a broker sends its clients away, because somebody is going to stop it.

The problem. A broker that is stopped breaks the links of all its clients at once. Each of them finds another broker and
loses nothing, but only after it has noticed, and all of them come there in the same moment.

The idea. An admin says that the broker is to be drained (`DrainAsked`). From then on it takes no new clients: whoever
would be let in hears where to go instead (`away`, which access asks). Those that are here are told one after the other
(`MoveAway`), `drain_rate` a second and no more than `drain_at_once` that have not gone yet; each goes first and lets go
of us then (`guest.py`). Who has not gone after `drain_patience`, because it could not or does not know what is meant,
loses its connection: it comes back somewhere as after any break. Those who only look at the broker stay.

**Where to.** Brokers that are linked with us live, and say where they listen. Each is told that we are drained
(`BrokerDrains`), answers with those that it is linked with (`OtherBrokers`), and does not send its own clients to us if
it should be drained too. Every client is told of some, beginning with another one each time, so that they spread. With
nowhere to go nobody is sent away: the request is refused, or waits for a link.

**Safe to stop** is said when all clients have gone, `why_busy()` names nothing (a second link of the tree, something
unfinished), and for `drain_quiet` seconds nothing has come that passes through here (`passed`). What is stored here is
not moved: how much that is stands in the row of the table "drain".

State. `begun_at`: None where it is not drained. `clients`: all, with what they do when drained. `waiting`: those to be
told; `told`: those that were. `peers`: where they listen; `others`: whom they named.
Timer. "tick", while it is drained. After a restart it is not.
Guaranteed: a client that is told of a broker which lets it in loses no event (`delivery/session/departure.py`). Not
guaranteed: that a broker which is named has room.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

import msgspec

from tidings.machine.effects import CancelTimer, Disconnect, Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received, Request, Signal
from tidings.machine.message import Contact, is_address_text
from tidings.model.bounds import TEXT_CHARS_MAX, WAYS_OUT_MAX
from tidings.model.identity import NodeId
from tidings.protocols.access.messages import (
    BrokerDrains,
    CannotMove,
    DrainAnswered,
    DrainAsked,
    MoveAway,
    OtherBrokers,
    WhenDrained,
)
from tidings.protocols.access.params import AccessParams
from tidings.pubsub.notes import ClientLetGo, RequestRefused
from tidings.pubsub.rows import DrainRow, Gauge, View
from tidings.pubsub.signals import ClientDown, ClientUp, DrainChanged, PeerDown, PeerUp

ADMIN = "admin"

TICK = 0.1
"""Seconds between two looks at who is to be told, or let go."""

TOLD_AGAIN = 4
"""How often within its patience a client that found no other broker is told once more."""

DRAINED = "the broker {broker} is going to be stopped, and takes no clients"
NOT_PERMITTED = "not permitted: this needs a token with the role admin"
NOT_A_CLIENT = "comes from a node that is no client of this broker"
NOT_A_PEER = "comes from a node that is no broker linked with this one"
NOWHERE = (
    "there is no other broker where its clients could go: none is linked with it that says where it listens and is not "
    "drained too; link it with one (--link, --join), or stop it, and its clients will look for another by themselves"
)
NOT_GONE = "the broker is drained, and this client did not go in time"
DOES_NOT_KNOW = "does not know how to go where it is told"
SERVING, DRAINING, SAFE = "serving", "draining", "safe to stop"


class Drain(Request, frozen=True):
    """Request: send the clients away and take no new ones."""


class Undrain(Request, frozen=True):
    """Request: take clients again. Those that have gone come back when they like."""


class ToldClient(msgspec.Struct):
    """A client that was told to go, and when; `again_at` if it could not."""

    at: float
    again_at: float | None = None


class Draining:
    """`why_busy()` says what else is to happen before the broker may be stopped, `neighbours()` and `stored()` are for
    those who look; `address()` is where we listen. With `is_open` every client may ask."""

    messages: tuple[type, ...] = (DrainAsked, CannotMove, BrokerDrains, OtherBrokers)
    hears: tuple[type, ...] = (ClientUp, ClientDown, PeerUp, PeerDown, Drain, Undrain)
    tells: tuple[type[Signal], ...] = (DrainChanged,)

    def __init__(
        self,
        node_id: NodeId,
        params: AccessParams,
        why_busy: Callable[[], str] = lambda: "",
        neighbours: Callable[[], Iterable[NodeId]] = tuple,
        stored: Callable[[], int] = lambda: 0,
        address: Callable[[], str] = lambda: "",
        is_open: bool = False,
    ) -> None:
        self.node_id, self.params, self.is_open = node_id, params, is_open
        self.why_busy, self.neighbours, self.stored, self.address = why_busy, neighbours, stored, address
        self.begun_at: float | None = None
        self.now = self.passed_at = 0.0
        self.clients: dict[NodeId, ClientUp] = {}
        self.waiting: deque[NodeId] = deque()
        self.told: dict[NodeId, ToldClient] = {}
        self.problems: dict[NodeId, str] = {}
        """Why clients that are still here could not go."""
        self.problem = ""
        self.peers: dict[NodeId, str] = {}
        self.others: dict[NodeId, tuple[Contact, ...]] = {}
        self.drained_too: dict[NodeId, None] = {}
        self.moved = self.let_go = self.turn = 0

    def start(self, now: float) -> list[Effect]:
        self.begun_at = None
        for each in (self.clients, self.waiting, self.told, self.problems, self.peers, self.others, self.drained_too):
            each.clear()
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        self.now = now
        match input:
            case ClientUp(client):
                self.clients[client] = input
            case ClientDown(client) if client in self.clients:
                self.client_down(client)
            case PeerUp(broker, _, _, address):
                self.peers[broker] = address
                return [Send(broker, BrokerDrains(True))] if self.is_on else []
            case PeerDown(broker):
                self.peers.pop(broker, None)
                self.others.pop(broker, None)
                self.drained_too.pop(broker, None)
            case Fired("tick") if self.is_on:
                return self.tick(now)
            case Drain():
                return self.begin(now)
            case Undrain():
                return self.end()
            case Received(sender, BrokerDrains() | OtherBrokers() as message):
                return self.hear_peer(sender, message)
            case Received(sender, message):
                return self.hear_client(now, sender, message)
        return []

    @property
    def is_on(self) -> bool:
        return self.begun_at is not None

    def away(self, when_drained: WhenDrained) -> MoveAway | None:
        """What a client hears in place of being let in; None where it is let in."""
        return self.told_to_go() if self.is_on and when_drained != "stays" else None

    # What others say.

    def hear_peer(self, sender: NodeId, message: BrokerDrains | OtherBrokers) -> list[Effect]:
        if sender not in self.peers:
            return [Drop(message, NOT_A_PEER)]
        if isinstance(message, OtherBrokers):
            self.others[sender] = message.contacts
            return []
        self.drained_too.pop(sender, None)
        if not message.is_on:
            return []
        self.drained_too[sender] = None
        return [Send(sender, OtherBrokers(tuple(self.linked(besides=sender))[:WAYS_OUT_MAX]))]

    def hear_client(self, now: float, sender: NodeId, message: object) -> list[Effect]:
        client = self.clients.get(sender)
        if client is None:
            return [Drop(message, NOT_A_CLIENT)]
        if isinstance(message, DrainAsked):
            return self.asked(now, client, message)
        told = self.told.get(sender)
        if isinstance(message, CannotMove) and told is not None:
            self.problems[sender] = self.problem = message.reason
            told.again_at = now + self.params.drain_patience / TOLD_AGAIN
        return []

    def asked(self, now: float, client: ClientUp, asked: DrainAsked) -> list[Effect]:
        is_whole = client.tenant is None or not client.tenant.name
        if not (self.is_open or (ADMIN in client.roles and is_whole)):
            note = RequestRefused(client.client, client.principal, "drain", NOT_PERMITTED)
            return [note, Send(client.client, DrainAnswered(asked.number, NOT_PERMITTED))]
        if asked.is_on and not self.is_on and self.going() and not self.ways_out():
            return [Send(client.client, DrainAnswered(asked.number, NOWHERE))]
        effects = self.begin(now) if asked.is_on else self.end()
        return [*effects, Send(client.client, DrainAnswered(asked.number, ""))]

    # Begin, go on, end.

    def begin(self, now: float) -> list[Effect]:
        if self.is_on:
            return []
        self.begun_at = self.passed_at = now
        self.moved = self.let_go = 0
        self.problem = ""
        self.waiting.extend(self.going())
        told = [Send(peer, BrokerDrains(True)) for peer in self.peers]
        return [*self.change(True), *told, SetTimer("tick", now + TICK)]

    def end(self) -> list[Effect]:
        if not self.is_on:
            return []
        self.begun_at = None
        self.waiting.clear()
        self.told.clear()
        self.problems.clear()
        told = [Send(peer, BrokerDrains(False)) for peer in self.peers]
        return [*self.change(False), *told, CancelTimer("tick")]

    def change(self, is_on: bool) -> list[Effect]:
        """For an overlay that can do something about it."""
        return [DrainChanged(is_on)] if self.tells else []

    def tick(self, now: float) -> list[Effect]:
        effects: list[Effect] = [SetTimer("tick", now + TICK)]
        if not self.ways_out():
            # Whoever is let go now has nowhere to go either.
            return effects
        for client, told in list(self.told.items()):
            if told.at + self.params.drain_patience <= now:
                effects += self.let_one_go(client)
            elif told.again_at is not None and told.again_at <= now:
                told.again_at = None
                effects.append(Send(client, self.told_to_go()))
        room = min(self.params.drain_at_once - len(self.told), max(1, round(self.params.drain_rate * TICK)))
        for _ in range(min(room, len(self.waiting))):
            effects += self.tell(now, self.waiting.popleft())
        return effects

    def tell(self, now: float, client: NodeId) -> list[Effect]:
        self.told[client] = ToldClient(now)
        if self.clients[client].when_drained:
            return [Send(client, self.told_to_go())]
        self.problems[client] = self.problem = DOES_NOT_KNOW
        return []

    def let_one_go(self, client: NodeId) -> list[Effect]:
        self.let_go += 1
        del self.told[client]
        note = ClientLetGo(client, self.problems.pop(client, ""))
        return [note, Disconnect(client, NOT_GONE)]

    def client_down(self, client: NodeId) -> None:
        del self.clients[client]
        self.problems.pop(client, None)
        if self.told.pop(client, None) is not None:
            self.moved += 1
        elif client in self.waiting:
            self.waiting.remove(client)

    def going(self) -> list[NodeId]:
        """Clients that are to go."""
        return [name for name, client in self.clients.items() if client.when_drained != "stays"]

    # Where to.

    def linked(self, besides: NodeId = "") -> Iterator[Contact]:
        """Brokers that are linked with this one and take clients."""
        for peer, address in self.peers.items():
            if peer != besides and peer not in self.drained_too and self.is_reachable(address):
                yield Contact(peer, address)

    def ways_out(self) -> list[Contact]:
        ways = {contact.node: contact for contact in self.linked()}
        for contact in (contact for named in self.others.values() for contact in named):
            is_known = contact.node in ways or contact.node in self.drained_too or contact.node == self.node_id
            if not is_known and self.is_reachable(contact.address):
                ways[contact.node] = contact
        return list(ways.values())

    def is_reachable(self, address: str) -> bool:
        """Where nobody has an address, as in the simulator, names are enough."""
        return is_address_text(address) if address or self.address() else True

    def told_to_go(self) -> MoveAway:
        ways = self.ways_out()
        self.turn += 1
        first = self.turn % max(1, len(ways))
        reason = DRAINED.format(broker=self.node_id)[:TEXT_CHARS_MAX]
        return MoveAway(reason, tuple([*ways[first:], *ways[:first]][:WAYS_OUT_MAX]))

    # What others may look at.

    def passed(self, now: float) -> None:
        """Something came that others may need of us."""
        self.passed_at = now

    def waits_for(self) -> str:
        if not self.is_on:
            return ""
        if count := len(self.going()):
            return f"{count} clients to go" if self.ways_out() else f"{count} clients to go, and {NOWHERE}"
        if busy := self.why_busy():
            return busy
        if self.now < self.passed_at + self.params.drain_quiet:
            return "others to be done with what they ask of it"
        return ""

    def why_unsettled(self) -> str:
        if not self.is_on:
            return ""
        waits_for = self.waits_for()
        return f"drained, waiting for {waits_for}" if waits_for else "drained, and safe to stop"

    def row(self) -> DrainRow:
        going, waits_for = self.going(), self.waits_for()
        return DrainRow(
            state=(DRAINING if waits_for else SAFE) if self.is_on else SERVING,
            seconds=0.0 if self.begun_at is None else self.now - self.begun_at,
            clients=len(going),
            told=len(self.told),
            unable=len(self.problems),
            watching=len(self.clients) - len(going),
            moved=self.moved,
            let_go=self.let_go,
            ways_out=tuple(contact.node for contact in self.ways_out()),
            neighbours=tuple(self.neighbours()),
            stored=self.stored(),
            waits_for=waits_for,
            problem=self.problem,
        )

    def views(self) -> dict[str, View]:
        return {"drain": lambda _: [self.row()]}

    def gauges(self) -> Iterator[Gauge]:
        yield Gauge("draining", "1 if the broker sends its clients away", self.is_on)
        yield Gauge("drain_clients", "clients that are still to go from a broker that is drained", self.left)
        yield Gauge("drain_let_go", "clients that did not go in time when it was last drained", self.let_go)

    @property
    def left(self) -> int:
        return len(self.going()) if self.is_on else 0

    def check(self) -> None:
        assert self.is_on or not (self.waiting or self.told or self.problems), "sends clients away for nothing"
        assert self.clients.keys() >= {*self.waiting, *self.told, *self.problems}, "somebody is told who has left"
        assert self.told.keys().isdisjoint(self.waiting), "somebody is told twice"
        assert len(self.told) <= self.params.drain_at_once, "too many are told at once"
