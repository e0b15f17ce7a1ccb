"""The clients of a broker as its delivery knows them, and what is outstanding for them.

What is on the way to a client is kept within a window of bytes (`machine/window.py`): events, what it reads of history,
and receipts. Events that have no room wait in the queues of their subscriptions (`admission.py`), the rest here: a
client has no more than `readings_max` readings at a time, and a receipt for each request. The client says what has
arrived, whether its application has taken it or not; and what that has taken has arrived, with everything before it.
"""

from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.machine.effects import Effect, Send
from tidings.machine.window import SendWindow
from tidings.model.bounds import BROKERS_NAMED_MAX, TEXT_CHARS_MAX
from tidings.model.errors import UsageError
from tidings.model.filter import Filter
from tidings.model.identity import NodeId, tenant_of
from tidings.model.language.parser import parse
from tidings.protocols.delivery.messages import Refusal
from tidings.protocols.delivery.sizes import size_of
from tidings.pubsub.client import Guarantee, Kind, Receipt
from tidings.pubsub.notes import RequestRefused
from tidings.pubsub.signals import ClientUp, Settled, Ticket
from tidings.pubsub.tenants import (
    ASKS_RESERVED,
    TENANT_ATTRIBUTE,
    is_reserved,
    narrowed,
    widened,
)

if TYPE_CHECKING:
    from tidings.protocols.delivery.edge.admission import ServedSubscription
    from tidings.protocols.delivery.edge.tenants import TenantUse


class ServedClient:
    """One connection of a client. A client that comes back is a new one, with the same name."""

    def __init__(self, up: ClientUp, window_bytes: int, use: "TenantUse") -> None:
        self.name: NodeId = up.client
        self.publisher: NodeId = up.client
        """As whom it publishes: its name, or the life of it that it told."""
        self.principal = up.principal
        self.publish_bound, self.subscribe_bound = up.publish_bound, up.subscribe_bound
        self.tenant = up.tenant
        """None where the broker knows of no tenants."""
        self.use = use
        """What its tenant has, and may have."""
        self.tenant_name = "" if up.tenant is None else up.tenant.name
        self.told_through = 0
        """Of its publications the last that came over this connection: what was declined up to there it is told."""
        self.group_owner = up.principal if up.roles else self.tenant_name
        """Whose its groups are. Where nobody is asked who he is, a name is a claim, and groups are everybody's."""
        self.pending_bytes = 0
        """Publications in its queues and on the way to it."""
        self.lagging: dict[int, ServedSubscription] = {}
        """Its subscriptions that wait for room before they ask for more."""
        self.is_turned_out = False
        self.window = SendWindow(window_bytes)
        self.answers: deque[Any] = deque()
        """To what it reads and asked for, that wait for room; events wait behind them."""
        self.behind: dict[int, dict[NodeId, int] | None] = {}
        """Positions for subscriptions that are still to come, by their number; None where there were too many."""
        self.namesakes: dict[tuple[NodeId, NodeId], None] = {}
        """Others who publish under its name, each with its broker, of whom it was told."""

    @property
    def has_room(self) -> bool:
        """For events."""
        return self.window.has_room and not self.answers

    def send(self, message: Any) -> Send:
        """Of what the window counts."""
        self.window.send(size_of(message))
        return Send(self.name, message)

    def put(self, answer: Any) -> list[Effect]:
        """Let it leave, or wait."""
        if self.answers or not self.window.has_room:
            self.answers.append(answer)
            return []
        return [self.send(answer)]

    def is_of(self, name: NodeId) -> bool:
        """Whether the publisher of this name may be seen by the client: one of the same tenant."""
        return tenant_of(name) == self.tenant_name

    def shown(self, filter: Filter) -> str:
        """The filter as the client may see it."""
        return filter.text() if self.tenant is None else widened(filter).text()


class NetworkRequest(msgspec.Struct, frozen=True, eq=False):
    """Something that the network carries out; the client is answered when it has."""

    kind: Kind
    client: ServedClient
    number: int
    filter_text: str = ""
    subject: object = None
    """What it is about, so that the answer to an earlier request under the same number is not mistaken."""

    def receipt(self, settled: Settled, at: float, promise: Guarantee) -> Receipt:
        brokers = settled.brokers[:BROKERS_NAMED_MAX]
        count = max(settled.brokers_count, len(settled.brokers))
        return Receipt(self.kind, self.number, brokers, count, at, self.filter_text, promise)

    def refusal(self, settled: Settled, may_retry: bool) -> Refusal:
        reason = f"the network did not carry it out: {settled.problem}; try again" if may_retry else settled.problem
        return Refusal(self.kind, self.number, reason[:TEXT_CHARS_MAX], may_retry)


class Requests:
    """What is outstanding, by ticket. Every ticket comes back once."""

    def __init__(self) -> None:
        self.waiting: dict[Ticket, NetworkRequest] = {}
        self.made = 0

    def add(self, request: NetworkRequest) -> Ticket:
        self.made += 1
        self.waiting[self.made] = request
        return self.made

    def take(self, ticket: Ticket) -> NetworkRequest | None:
        return self.waiting.pop(ticket, None)


class BadRequest(Exception):
    """A request cannot be carried out; `reason` says why and what to do."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason[:TEXT_CHARS_MAX]


class Forbidden(BadRequest):
    """It cannot be carried out because this client may not have it; that is written down."""


def refused(client: ServedClient, kind: Kind, number: int, problem: BadRequest) -> list[Effect]:
    """The client is told, and whoever keeps the audit where it was a matter of rights."""
    refusal = Send(client.name, Refusal(kind, number, problem.reason, may_retry=False))
    if not isinstance(problem, Forbidden):
        return [refusal]
    return [RequestRefused(client.name, client.principal, kind, problem.reason), refusal]


def read_filter(text: str, client: ServedClient, bound: Filter | None, purpose: str) -> Filter:
    """What is asked for, narrowed to what the client may have and to its tenant; BadRequest if nothing is left."""
    filter = read_within(text, bound, purpose)
    if client.tenant is None:
        return filter
    try:
        return narrowed(filter, client.tenant_name)
    except UsageError as problem:
        raise BadRequest(str(problem)) from None


def read_within(text: str, bound: Filter | None, purpose: str) -> Filter:
    try:
        asked = parse(text)
    except UsageError as problem:
        raise BadRequest(f"the filter is wrong: {problem}") from None
    if TENANT_ATTRIBUTE in text and is_reserved(asked):
        raise Forbidden(ASKS_RESERVED)
    if bound is None or bound.covers(asked):
        return asked
    if not asked.overlaps(bound):
        raise Forbidden(f"not permitted: you may {purpose} only {bound.text()}; ask for something within that")
    try:
        narrowed = asked & bound
    except UsageError:
        raise BadRequest(
            f"the filter and the bound on what you may {purpose} are too long together; use a shorter one"
        ) from None
    if not narrowed.conjunctions:
        raise Forbidden(f"not permitted: you may {purpose} only {bound.text()}; ask for something within that")
    return narrowed
