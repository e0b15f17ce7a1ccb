"""The clients of a broker as its delivery knows them, and what is outstanding for them; what their tenants
have of this broker, and whether they may have more.

What is on the way to a client is kept within a window of bytes (`machine/window.py`): events, what it reads of history,
and receipts. Events that have no room wait in the queues of their subscriptions (`admission.py`), the rest here: a
client has no more than `readings_max` readings at a time, and a receipt for each request. The client says what has
arrived, whether its application has taken it or not; and what that has taken has arrived, with everything before it.

All clients of a tenant share its bounds (`pubsub/tenants.py`): subscriptions, publishers, publications and bytes a
second, bytes in history. The latest bounds that a client came with count. Whoever asks for more is refused with the
figure; only of what is stored the oldest of the tenant is forgotten instead, as history does when it is full, and never
that of another: when the broker stores all it may, it is the tenant that has most which makes room.

A rate is a bucket: a second's worth fits in, and it fills as time goes by. So a tenant that paused may publish a
second's worth at once, and none may publish more than twice that in any second.

State. A `TenantUse` for each tenant whose clients came, or of whose publishers something is stored; `order` has its
stored batches, oldest first, those included that were forgotten for another reason until they come to the front.
"""

import math
from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.machine.effects import Effect, Send
from tidings.machine.window import SendWindow
from tidings.model.bounds import BROKERS_NAMED_MAX, TEXT_CHARS_MAX
from tidings.model.errors import UsageError
from tidings.model.filter import Filter
from tidings.model.identity import NodeId, tenant_of
from tidings.model.language.parser import parse
from tidings.protocols.delivery.edge.history import HistoryStore
from tidings.protocols.delivery.messages import Refusal
from tidings.protocols.delivery.sizes import size_of
from tidings.pubsub.client import Guarantee, Kind, Receipt
from tidings.pubsub.notes import RequestRefused
from tidings.pubsub.rows import Gauge, tenant_refusals, tenant_use
from tidings.pubsub.signals import ClientUp, Settled, Ticket
from tidings.pubsub.tenants import (
    ASKS_RESERVED,
    TENANT_ATTRIBUTE,
    TENANTS_MAX,
    Tenant,
    is_reserved,
    narrowed,
    widened,
)

if TYPE_CHECKING:
    from tidings.protocols.delivery.edge.admission import ServedSubscription
    from tidings.protocols.delivery.edge.advertisements import Publisher


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
        self.looked_units = 0
        """The work of looking at what is stored for it, and what it was counted with when it came (`looks.py`)."""
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


TOO_MANY_SUBSCRIPTIONS = "the tenant {tenant} has its {most} subscriptions already; unsubscribe one"
TOO_MANY_PUBLISHERS = (
    "the tenant {tenant} has its {most} publishers already, those included that left and of which something is stored; "
    "publish as one of them, or wait until history has forgotten one"
)
TOO_FAST = "the tenant {tenant} may publish {most:g} {what} a second and would publish more; publish more slowly"
STALE_MAX = 64
"""Forgotten batches that `order` may hold besides as many as are stored."""


class RateBucket:
    """How much of something may be had now."""

    def __init__(self) -> None:
        self.level, self.at = math.inf, -math.inf

    def room(self, now: float, rate: float | None) -> float:
        """As much as a second brings at most, but one thing at least."""
        if rate is None:
            self.level = math.inf
        else:
            since = now - self.at
            self.level = min(max(rate, 1.0), self.level + since * rate if math.isfinite(since) else math.inf)
        self.at = now
        return self.level


class TenantUse:
    def __init__(self, name: str) -> None:
        self.tenant = Tenant(name)
        self.subscriptions = self.publishers = self.stored_bytes = self.stored_batches = self.events = self.bytes = 0
        self.events_bucket, self.bytes_bucket = RateBucket(), RateBucket()
        self.order: deque[tuple[Publisher, int]] = deque()
        """Publishers with the first number of a batch."""
        self.refused: Counter[str] = Counter()

    def add_subscription(self) -> None:
        most = self.tenant.subscriptions_max
        if most is not None and self.subscriptions >= most:
            self.refused["subscriptions"] += 1
            raise Forbidden(TOO_MANY_SUBSCRIPTIONS.format(tenant=self.tenant.name, most=most))
        self.subscriptions += 1

    def add_publisher(self) -> None:
        most = self.tenant.publishers_max
        if most is not None and self.publishers >= most:
            self.refused["publishers"] += 1
            raise Forbidden(TOO_MANY_PUBLISHERS.format(tenant=self.tenant.name, most=most))

    def admit(self, now: float, sizes: list[int]) -> tuple[int, str]:
        """How many of the first publications of these sizes may be accepted now, and why no more."""
        tenant = self.tenant
        events = self.events_bucket.room(now, tenant.events_per_second_max)
        room = self.bytes_bucket.room(now, tenant.bytes_per_second_max)
        count, taken_bytes, reason = 0, 0, ""
        for size in sizes:
            if events - count < 1:
                reason = TOO_FAST.format(tenant=tenant.name, most=tenant.events_per_second_max, what="events")
                self.refused["events_per_second"] += len(sizes) - count
                break
            # What is larger than a second's worth goes when nothing else did for a second.
            if taken_bytes + size > room and (taken_bytes or room < (tenant.bytes_per_second_max or 0)):
                reason = TOO_FAST.format(tenant=tenant.name, most=tenant.bytes_per_second_max, what="bytes")
                self.refused["bytes_per_second"] += len(sizes) - count
                break
            count, taken_bytes = count + 1, taken_bytes + size
        self.events_bucket.level -= count
        self.bytes_bucket.level -= taken_bytes
        self.events += count
        self.bytes += taken_bytes
        return count, reason

    # What is stored.

    def stored(self, publisher: "Publisher", number: int, size: int) -> None:
        self.stored_bytes += size
        self.stored_batches += 1
        self.order.append((publisher, number))
        if len(self.order) > 2 * self.stored_batches + STALE_MAX:
            self.order = deque(each for each in self.order if is_stored(*each))

    def forgotten(self, size: int) -> None:
        self.stored_bytes -= size
        self.stored_batches -= 1

    def surplus(self) -> Iterator["Publisher"]:
        """Publishers whose oldest batch is to be forgotten, one after the other, until the bound holds."""
        most = self.tenant.stored_bytes_max
        while most is not None and self.stored_bytes > most and (publisher := self.oldest()) is not None:
            yield publisher

    def oldest(self) -> "Publisher | None":
        """Whose oldest batch is the oldest of the tenant; it is going to be forgotten."""
        while self.order:
            publisher, number = self.order.popleft()
            if is_stored(publisher, number):
                return publisher
        return None

    def gauges(self) -> Iterator[Gauge]:
        name = self.tenant.name
        yield tenant_use(name, "subscriptions", self.subscriptions)
        yield tenant_use(name, "publishers", self.publishers)
        yield tenant_use(name, "stored_bytes", self.stored_bytes)
        # Whoever looks twice has the rate.
        yield tenant_use(name, "events", self.events)
        yield tenant_use(name, "bytes", self.bytes)
        for quota, count in sorted(self.refused.items()):
            yield tenant_refusals(name, quota, count)


def is_stored(publisher: "Publisher", number: int) -> bool:
    batches = publisher.history.batches
    return bool(batches) and batches[0].numbers[0] <= number


class TenantUses:
    """By tenant; the empty name is that of everybody who is in none."""

    def __init__(self) -> None:
        self.all: dict[str, TenantUse] = {}

    def of(self, name: str) -> TenantUse:
        use = self.all.get(name)
        if use is None:
            use = self.all[name] = TenantUse(name)
        return use

    def of_publisher(self, publisher: str) -> TenantUse:
        return self.of(tenant_of(publisher))

    def arrive(self, tenant: Tenant | None) -> TenantUse:
        """A client comes with these bounds of its tenant."""
        use = self.of("" if tenant is None else tenant.name)
        if tenant is not None:
            use.tenant = tenant
        return use

    def surplus(self, store: HistoryStore, size: int) -> Iterator["Publisher"]:
        """Where several tenants share a store that has no room for so much more: publishers of the tenant that has
        most, whose oldest batch is to be forgotten. So none can push the history of another out."""
        while store.size_bytes + size > store.params.history_bytes_total_max:
            largest = max(self.all.values(), key=lambda use: use.stored_bytes)
            publisher = largest.oldest() if largest.stored_bytes < store.size_bytes else None
            if publisher is None:
                return
            yield publisher

    def forget_stored(self) -> None:
        for use in self.all.values():
            use.publishers = use.stored_bytes = use.stored_batches = 0
            use.order.clear()

    def gauges(self) -> Iterator[Gauge]:
        if self.all.keys() == {""}:
            return
        for use in list(self.all.values())[:TENANTS_MAX]:
            yield from use.gauges()
