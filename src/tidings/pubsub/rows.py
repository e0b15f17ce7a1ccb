"""What the tables of a broker look like to those who ask.

Each part of a broker shows what it has: its `views()` are tables, its `gauges()` numbers, and only the part itself
knows where they come from. A row says things in words that stay the same whatever machine routes or delivers: filters
are texts, nodes are names, times are times of day in seconds.
"""

from collections.abc import Callable, Iterable

import msgspec


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all rows: an object in JSON."""


Look = Row | Callable[[], Row]
"""A row, or what makes it when its page goes out: the text of a filter is dear, and a table may have many."""

View = Callable[[str], Iterable[Look]]
"""The rows of a table, given the argument of the question."""


NO_TENANT = "-"
"""How metrics call the tenant of those who are in none."""


class Gauge(msgspec.Struct, frozen=True):
    """A number of a part as it is now."""

    name: str
    meaning: str
    value: float
    labels: dict[str, str] = {}


def tenant_use(tenant: str, quota: str, value: float) -> Gauge:
    """How much a tenant has of something that may be bounded for it."""
    return Gauge("tenant_use", "what a tenant has here, by what may be bounded", value, tenant_labels(tenant, quota))


def tenant_bound(tenant: str, quota: str, value: float) -> Gauge:
    return Gauge("tenant_bound", "how much of that it may have", value, tenant_labels(tenant, quota))


def tenant_refusals(tenant: str, quota: str, value: float) -> Gauge:
    return Gauge("tenant_refusals", "how much of that it was refused", value, tenant_labels(tenant, quota))


def tenant_labels(tenant: str, quota: str) -> dict[str, str]:
    return {"tenant": tenant or NO_TENANT, "quota": quota}


class BrokerRow(Row, frozen=True, kw_only=True):
    """The broker itself; this table has one row."""

    broker: str
    version: str = ""
    listen: str = ""
    http: str = ""
    overlay: str = ""
    routing: str = ""
    """Of which kind they are."""
    strategy: str = ""
    reduction: str = ""
    """Of routing by tables; other kinds have none."""
    parent: str = ""
    """Where subscriptions go under the hierarchical strategy."""
    not_ready: str = ""
    """Why it is not ready; empty if it is."""
    drained: str = ""
    """Where its clients are sent away: what it waits for, or that it is safe to stop."""
    above: str = ""
    depth: float = 0.0
    colour: str = ""
    """Its place in a tree that finds itself: the broker above it (none for the root), how deep it is, and the colour of
    the tree, which is the name of its root and how many there were; empty for overlays without such."""
    repairs: int = 0
    """How often it lost the one above and found another."""
    alone: str = ""
    """Why it has found none of the brokers that it was to join; empty if it has, and for overlays that join nobody."""


class LinkRow(Row, frozen=True, kw_only=True):
    """Another broker that this one is linked with, was, or should be."""

    broker: str = ""
    """Empty as long as only its address is known."""
    address: str = ""
    is_configured: bool = False
    """Whether it is this broker that keeps the link up."""
    is_up: bool = False
    is_neighbour: bool = False
    """Whether events are routed over it. A ring has links that are not needed."""
    is_synchronised: bool = False
    """Whether both have told each other their tables."""
    problem: str = ""
    """Why it is down, as far as that is known."""


class DrainRow(Row, frozen=True, kw_only=True):
    """How far a broker is with sending its clients away; this table has one row."""

    state: str
    """"serving", "draining", or "safe to stop"."""
    seconds: float = 0.0
    """Since it began."""
    clients: int = 0
    """Those that are to go and are still here."""
    told: int = 0
    """Of these, those that have been told."""
    unable: int = 0
    """Of these, those that said that they found no other broker, or do not know what is meant."""
    watching: int = 0
    """Clients that only look at the broker; they end with it."""
    moved: int = 0
    """Clients that went."""
    let_go: int = 0
    """Clients that did not go in time, and whose connection was ended."""
    ways_out: tuple[str, ...] = ()
    """Brokers where clients are sent."""
    neighbours: tuple[str, ...] = ()
    """Brokers with which it has links of the tree."""
    stored: int = 0
    """Publications that are stored here."""
    waits_for: str = ""
    """What is to happen before it is safe to stop; empty if it is."""
    problem: str = ""
    """Why the last client that said so could not go."""


class ClientRow(Row, frozen=True, kw_only=True):
    client: str
    principal: str
    roles: tuple[str, ...] = ()
    publish_bound: str = ""
    subscribe_bound: str = ""


class SubscriptionRow(Row, frozen=True, kw_only=True):
    """What a client of this broker wants, as routing was told."""

    client: str
    number: int
    filter: str


class TransportRow(Row, frozen=True, kw_only=True):
    """Something of a client's transport, as the client itself tells it. `kind` is "client", "stream" for a publisher
    that it follows, "flow as receiver" or "flow as publisher"; each has the fields that mean something for it."""

    client: str = ""
    kind: str
    modes: str = ""
    """What it does as a publisher."""
    problem: str = ""
    publisher: str = ""
    flow: str = ""
    """Its filter, or its number."""
    hold: float = 0.0
    """Seconds for which an event would be held back now."""
    loss_event_rate: float = 0.0
    round_trip: float = 0.0
    cache: int = 0
    cache_max: int = 0
    requests: int = 0
    hits: int = 0
    delivered: int = 0
    late: int = 0
    lost: int = 0
    recovered: int = 0
    given_up: int = 0
    rate: float = 0.0
    """Events a second, received or allowed; 0 for no bound."""
    quota: float = 0.0
    queue: int = 0
    is_limiting: bool = False
    published: int = 0
    withheld: int = 0
    more: int = 0
    """Rows that the client left out."""


class AdvertisementRow(Row, frozen=True, kw_only=True):
    """What somebody is going to publish, as routing knows it."""

    advertisement: str
    publisher: str
    filter: str
    hop: str = ""
    """The neighbour on whose side the publisher is; empty for a client of this broker."""


class RouteRow(Row, frozen=True, kw_only=True):
    """A filter that was told to a neighbour, or that a neighbour told us."""

    neighbour: str
    is_ours: bool
    """Whether we told it."""
    filter: str
    is_pending: bool = False
    """Told, but not yet acknowledged."""


class PopularityRow(Row, frozen=True, kw_only=True):
    """What goes over a link under an advertisement, where routing goes by popularity; the most popular first."""

    neighbour: str
    advertisement: str
    publisher: str = ""
    subscriptions: int
    hops: float
    """How many there are behind the link, and how far away on average."""
    gain: float
    rate: float
    """Publications a second, in the last interval."""
    way: str
    """"tree", or the way of what is not popular, where the publisher is here."""
    latency: str = "any"
    """What the publisher asked for."""
    is_here: bool = True
    """Whether the publisher is here, so that it is decided here."""


class DestinationRow(Row, frozen=True, kw_only=True):
    """A broker that is known to routing by destination."""

    broker: str
    hop: str
    """The neighbour on the way to it; empty for itself, and where no way is known now."""
    predicates: int
    """How many it told of what its clients may want."""


class QueueRow(Row, frozen=True, kw_only=True):
    """How the events of a subscription reach its client."""

    client: str
    number: int
    guarantee: str = ""
    group: str = ""
    policy: str = ""
    is_connected: bool = True
    waiting: int = 0
    """Publications in the queue."""
    waiting_max: int = 0
    under_way: int = 0
    """Sent, and not yet taken by the application."""
    window: int = 0
    sent: int = 0
    """Sent to the client in all."""
    dropped: dict[str, int] = {}
    """By reason."""
    positions: dict[str, int] = {}
    """The number of the last publication of each publisher that was passed on."""
    state: str = ""


class PublisherRow(Row, frozen=True, kw_only=True):
    """A publisher at this broker, and what is stored of it."""

    publisher: str
    is_connected: bool = True
    accepted: int = 0
    """The number up to which publications were taken."""
    stored: int = 0
    stored_bytes: int = 0
    oldest: int = 0
    """The number of the oldest one that is stored; 0 if none is."""


class EventRow(Row, frozen=True, kw_only=True):
    """A stored publication, named by publisher and number."""

    publisher: str
    number: int
    advertisement: str
    accepted_at: float
    attributes: dict[str, bool | int | float | str]


class PlanRow(Row, frozen=True, kw_only=True):
    """The plan that is carried out from here, or was last: at most one row."""

    plan: str
    state: str
    """"engaging", "running", "aborting", "done" or "aborted"."""
    step: int = 0
    """The step that is under way or was last, from 1 on; 0 before the first."""
    steps: int = 0
    actions_done: int = 0
    actions: int = 0
    began_at: float = 0.0
    seconds: float = 0.0
    """Since it began, or in all where it is over."""
    problem: str = ""
    """Why it was aborted."""


class PlannedActionRow(Row, frozen=True, kw_only=True):
    """An action of that plan."""

    number: int
    step: int
    action: str
    state: str
    """"waiting", "ordered", "done" or "failed"."""
    problem: str = ""


class CoordinationRow(Row, frozen=True, kw_only=True):
    """The same as those know it who carry plans out by ZooKeeper: a path, and what stands there."""

    path: str
    data: str


class CounterRow(Row, frozen=True, kw_only=True):
    """Something that was counted or measured: `tidings_..._total` only grows."""

    name: str
    labels: dict[str, str] = {}
    value: float


class SettingRow(Row, frozen=True, kw_only=True):
    """A setting of the broker, its bounds and time-outs included, and where it comes from."""

    name: str
    value: str
    origin: str
