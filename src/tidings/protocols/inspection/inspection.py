"""Inspection: a broker answers questions about itself.

The problem. A subscriber gets nothing, and nobody can say where its events end: the answer is spread over the tables of
many brokers. So each broker shows its tables to those who may see them, and tells where its neighbours can be asked;
one who asks all of them can put the pieces together (`tidings.diagnosis`).

The idea. This part does nothing but listen, and keeps nothing that another part keeps. What the parts have (queues,
routes, subscriptions) is read from *views*, functions that they give us and that only look. From signals it knows who
may ask, and remembers of other brokers what nobody else does: also those that are gone.

State. `others`: other brokers, also those that are gone, up to `brokers_max`. `clients`: as told; access bounds them.
`looks`: a table can be larger than a message, and must not change between
two pages; so the rows are collected once and kept for the one who asks until the last page is fetched, for at most
`looks_max` of them at a time. `transports`: what each client last told of its transport, until it leaves.

**Other brokers** (`Acquaintances`): linked with it now, once, or never yet though they should be. Who asks about a
network goes from broker to broker, and wants to hear of those that are gone as well. So a broker that was linked once
is remembered, with its address and why it left; and a link that is configured and never came up is shown with the
address that was tried and the reason.

Messages. `Inspect` is answered by `Report`. Clients with the role "admin" may ask, or all clients where the broker is
open to everybody anyway; an admin of a tenant sees that tenant alone (`tenants.py`). `TransportReport` comes from
clients that have a transport, now and then.

Not guaranteed: that the tables of two brokers are of the same moment. Who compares them looks twice.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice

import msgspec

from tidings.machine.effects import Drop, Effect, Send
from tidings.machine.inputs import Input, LinkDown, LinkUp, Received, Signal
from tidings.model.bounds import REPORT_ROWS_BYTES_MAX, TEXT_CHARS_MAX, TRANSPORT_ROWS_MAX
from tidings.model.errors import UsageError
from tidings.model.identity import ADDRESS_MARK, NodeId
from tidings.protocols.inspection.messages import Inspect, Report, TransportReport
from tidings.protocols.inspection.tenants import rows_of
from tidings.pubsub.notes import RequestRefused
from tidings.pubsub.rows import BrokerRow, ClientRow, LinkRow, Look, Row, TransportRow, View
from tidings.pubsub.signals import (
    LET_GO,
    ClientDown,
    ClientUp,
    LinkFailed,
    NeighbourDown,
    NeighbourUp,
    PeerDown,
    PeerUp,
)

NOT_YET = "not reached yet"


class LinkSeen(msgspec.Struct):
    """What is known of another broker."""

    address: str = ""
    is_up: bool = False
    is_neighbour: bool = False
    problem: str = ""


class Acquaintances:
    """`configured` are the links to keep up, by name or by address (`identity.at`)."""

    def __init__(
        self, configured: Iterable[NodeId], is_synchronised: Callable[[NodeId], bool], brokers_max: int
    ) -> None:
        self.configured: dict[NodeId, NodeId | None] = dict.fromkeys(configured)
        """Who answers under it, if that is known."""
        self.problems: dict[NodeId, str] = {}
        """Why a configured link is down, or was last."""
        self.is_synchronised, self.brokers_max = is_synchronised, brokers_max
        self.links: dict[NodeId, LinkSeen] = {}

    def forget_links(self) -> None:
        for link in self.links.values():
            link.is_up = link.is_neighbour = False

    def hear(self, input: Input) -> None:
        match input:
            case PeerUp(broker, _, _, address):
                link = self.link(broker)
                link.is_up, link.problem, link.address = True, "", address or link.address
            case PeerDown(broker, _, reason) if broker in self.links:
                link = self.links[broker]
                link.is_up, link.is_neighbour, link.problem = False, False, ""
                self.explain(broker, reason)
            case NeighbourUp(neighbour):
                link = self.link(neighbour)
                link.is_up = link.is_neighbour = True
            case NeighbourDown(neighbour) if neighbour in self.links:
                self.links[neighbour].is_neighbour = False
            case LinkUp(neighbour, _, asked):
                for name in (neighbour, asked):
                    if name in self.configured:
                        self.configured[name] = neighbour
                        self.problems.pop(name, None)
            case LinkDown(neighbour, _, reason, asked):
                self.explain(asked or neighbour, reason)
            case LinkFailed(neighbour, reason):
                self.explain(neighbour, reason)

    def explain(self, name: NodeId, reason: str) -> None:
        """Why a broker that is down does not come up; what both let go is as it should be."""
        reason = "" if reason == LET_GO else reason
        for configured, broker in self.configured.items():
            if name in (configured, broker):
                self.problems[configured] = reason
        link = self.links.get(self.configured.get(name) or name)
        if link is not None and not link.is_up and reason:
            link.problem = reason

    def link(self, broker: NodeId) -> LinkSeen:
        if broker not in self.links:
            gone = [name for name, link in self.links.items() if not link.is_up]
            if len(self.links) >= self.brokers_max and gone:
                del self.links[gone[0]]
            self.links[broker] = LinkSeen()
        return self.links[broker]

    def rows(self) -> list[LinkRow]:
        configured = set(self.configured.values())
        rows = [
            LinkRow(
                broker=broker,
                address=link.address,
                is_configured=broker in configured,
                is_up=link.is_up,
                is_neighbour=link.is_neighbour,
                is_synchronised=link.is_neighbour and self.is_synchronised(broker),
                problem=link.problem,
            )
            for broker, link in sorted(self.links.items())
        ]
        missing = [name for name, broker in self.configured.items() if broker not in self.links]
        return [*rows, *(missing_row(name, self.problems.get(name, NOT_YET)) for name in missing)]

    def check(self) -> None:
        assert all(link.is_up for link in self.links.values() if link.is_neighbour), "a neighbour without a link"


def missing_row(name: NodeId, problem: str) -> LinkRow:
    address = name.removeprefix(ADDRESS_MARK)
    return LinkRow(
        broker=name if address == name else "",
        address="" if address == name else address,
        is_configured=True,
        problem=problem,
    )


ADMIN = "admin"
"""The role that may look at everything."""

NO_SUCH_CLIENT = "inspected by somebody who is not attached"
NOT_PERMITTED = "not permitted"
BAD_REPORT = "a report on a transport that cannot be read"

read_transport = msgspec.json.Decoder(tuple[TransportRow, ...]).decode


class InspectionParams(msgspec.Struct, frozen=True):
    rows_max: int = 100_000
    """Rows of one look at a table. A longer table is not shown at all: who compares tables must not take a part for
    the whole."""

    looks_max: int = 8
    """Clients that read page by page at the same time; the oldest look is given up for a new one."""

    brokers_max: int = 1000
    """Other brokers that are remembered; of those that are gone the first is forgotten."""

    def __post_init__(self) -> None:
        for name in ("rows_max", "looks_max", "brokers_max"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: {getattr(self, name)} leaves no room; give at least 1")


class Inspection:
    """`own()` is the broker's row, asked for anew each time. `configured` are the links to keep up, by name or by
    address (`identity.at`); `is_open` lets every client ask; `views` add tables."""

    messages: tuple[type, ...] = (Inspect, TransportReport)

    def __init__(
        self,
        own: Callable[[], BrokerRow],
        configured: Iterable[NodeId] = (),
        is_open: bool = False,
        views: Mapping[str, View] | None = None,
        is_synchronised: Callable[[NodeId], bool] = lambda neighbour: True,
        params: InspectionParams | None = None,
    ) -> None:
        self.own, self.is_open, self.params = own, is_open, params or InspectionParams()
        self.others = Acquaintances(configured, is_synchronised, self.params.brokers_max)
        self.clients: dict[NodeId, ClientUp] = {}
        self.transports: dict[NodeId, tuple[TransportRow, ...]] = {}
        self.looks: dict[NodeId, list[Look]] = {}
        self.views: dict[str, View] = {
            "broker": lambda _: [self.own()],
            "links": lambda _: self.others.rows(),
            "clients": lambda _: map(client_row, self.clients.values()),
            "transport": lambda _: self.transport_rows(),
            **(views or {}),
        }

    def start(self, now: float) -> list[Effect]:
        self.others.forget_links()
        self.clients.clear()
        self.transports.clear()
        self.looks.clear()
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        hear = self.ears.get(type(input))
        return [] if hear is None else hear(self, input)

    # What the other parts tell each other.

    def other(self, input: Input) -> list[Effect]:
        self.others.hear(input)
        return []

    def client_up(self, signal: ClientUp) -> list[Effect]:
        self.clients[signal.client] = signal
        return []

    def client_down(self, signal: ClientDown) -> list[Effect]:
        self.clients.pop(signal.client, None)
        self.transports.pop(signal.client, None)
        self.looks.pop(signal.client, None)
        return []

    # What others ask.

    def received(self, input: Received) -> list[Effect]:
        sender, message = input.sender, input.message
        if sender not in self.clients:
            return [Drop(message, NO_SUCH_CLIENT)]
        if isinstance(message, TransportReport):
            return self.hear_transport(sender, message)
        assert isinstance(message, Inspect)
        if not self.is_open and ADMIN not in self.clients[sender].roles:
            reason = f"{NOT_PERMITTED}: this needs a token with the role {ADMIN}"
            note = RequestRefused(sender, self.clients[sender].principal, "inspect", reason)
            return [note, refusal(sender, message, reason)]
        if message.row == 0 and message.table not in self.views:
            tables = ", ".join(self.views)
            return [refusal(sender, message, f"there is no table {message.table!r} here; there are {tables}")]
        return [self.page(sender, message)]

    def hear_transport(self, sender: NodeId, message: TransportReport) -> list[Effect]:
        try:
            rows = read_transport(message.rows)
        except (msgspec.DecodeError, RecursionError):
            return [Drop(message, BAD_REPORT)]
        if len(rows) > TRANSPORT_ROWS_MAX:
            return [Drop(message, BAD_REPORT)]
        self.transports[sender] = rows
        return []

    def transport_rows(self) -> Iterable[Look]:
        for client, rows in self.transports.items():
            for row in rows:
                yield msgspec.structs.replace(row, client=client)

    def page(self, sender: NodeId, question: Inspect) -> Send:
        if question.row == 0:
            self.looks.pop(sender, None)
            table, tenant = self.views[question.table](question.argument), self.clients[sender].tenant
            if tenant is not None and tenant.name:
                table = rows_of(tenant.name, table)
            rows = list(islice(table, self.params.rows_max + 1))
            if len(rows) > self.params.rows_max:
                problem = f"the table has more than {self.params.rows_max} rows; raise inspection.rows_max"
                return refusal(sender, question, problem)
            self.looks[sender] = rows
            if len(self.looks) > self.params.looks_max:
                del self.looks[next(iter(self.looks))]
        elif sender not in self.looks:
            return refusal(sender, question, "the table was put away meanwhile; ask from the first row again")
        rows = self.looks[sender]
        data, following = encode_rows(rows, question.row)
        if following >= len(rows):
            del self.looks[sender]
            following = 0
        return Send(sender, Report(question.number, data, following, ""))

    def check(self) -> None:
        assert len(self.looks) <= self.params.looks_max, "more looks are kept than looks_max allows"
        self.others.check()
        assert all(client in self.clients for client in self.looks), "a look is kept for somebody who left"
        assert all(client in self.clients for client in self.transports), "a report is kept of somebody who left"

    ears: Mapping[type, Callable[..., list[Effect]]] = {
        Received: received,
        LinkUp: other,
        LinkDown: other,
        LinkFailed: other,
        PeerUp: other,
        PeerDown: other,
        NeighbourUp: other,
        NeighbourDown: other,
        ClientUp: client_up,
        ClientDown: client_down,
    }
    hears: tuple[type, ...] = tuple(kind for kind in ears if kind is not Received)
    tells: tuple[type[Signal], ...] = ()


def refusal(sender: NodeId, question: Inspect, problem: str) -> Send:
    return Send(sender, Report(question.number, b"[]", 0, problem[:TEXT_CHARS_MAX]))


def encode_rows(rows: list[Look], first: int) -> tuple[bytes, int]:
    """As many rows as fit one report, and the place of the next."""
    pieces: list[bytes] = []
    size_bytes, place = len(b"[]"), first
    while place < len(rows):
        row = rows[place]
        piece = msgspec.json.encode(row if isinstance(row, Row) else row())
        size_bytes += len(piece) + 1
        if size_bytes > REPORT_ROWS_BYTES_MAX and pieces:
            break
        if size_bytes <= REPORT_ROWS_BYTES_MAX:
            pieces.append(piece)
        else:
            # One row alone that is too long for any report, such as an event with very large attributes.
            size_bytes -= len(piece) + 1
        place += 1
    return b"[" + b",".join(pieces) + b"]", place


def client_row(client: ClientUp) -> ClientRow:
    return ClientRow(
        client=client.client,
        principal=client.principal,
        roles=client.roles,
        publish_bound="" if client.publish_bound is None else client.publish_bound.text(),
        subscribe_bound="" if client.subscribe_bound is None else client.subscribe_bound.text(),
    )
