"""The settings of routing, in one place."""

import math
from typing import Literal

import msgspec

from tidings.machine.effects import Transport
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId

StrategyName = Literal["flooding", "subscription", "hierarchical", "advertisement"]
ReductionName = Literal["plain", "covering", "merging"]
RepairName = Literal["strawman", "resuming", "timed", "notified", "informed", "path", "shift"]
ActivationName = Literal["symmetric", "asymmetric", "siblings"]
FlushName = Literal["flood", "path", "none"]
FailoverChoice = Literal["none", "gossip"]
CarriageName = Literal["plain", "aired"]
GroupName = Literal["wanting", "everybody"]
PopularityName = Literal["off", "batching", "direct", "gossip", "asked"]

CAPACITY = 20_000.0
"""Publications that a broker forwards in a second, where nobody has measured it."""

ASIDE_WINDOW = 4096
"""The same for publications that may come beside the tree."""

TAKEN_STEPS = 8
"""How often the taker of a window full of bytes says that it has taken them."""

TABLES_NARROWEST_SHARE = 16
"""The part of the window for tables that is left where they are taken slowly."""

TABLES_TAKEN_STEPS = 4 * TABLES_NARROWEST_SHARE
"""How often the taker of a window full of tables says so: also of the narrowest more than twice."""


class RoutingParams(msgspec.Struct, frozen=True, tag_field="kind", tag="tables"):
    strategy: StrategyName = "advertisement"
    """Which filters are announced to which neighbour, see `strategies.py`. The same in the whole network."""

    reduction: ReductionName = "covering"
    """How the filters announced to one neighbour are made fewer, see `reductions.py`. "merging" covers as well."""

    parent: NodeId | None = None
    """Hierarchical strategy: the neighbour towards the root; None at the root itself."""

    repair: RepairName = "resuming"
    """What a lost link means for the tables, see `repairs/repair.py`. The same in the whole network."""

    unsubscribe_after: float = 1.5
    """T_u: seconds after which what a lost neighbour wanted is taken back, by repairs that wait ("timed" and those
    behind it). More than the overlay needs to replace a link, by as much as filters need to spread; 0 does not wait."""

    subscribe_after: float = 1.5
    """T_s: seconds for which an end of a new link holds filters back (repairs "informed" and "path"). Added to
    `reconnect_after` it should be more than `unsubscribe_after` (eq. 6.1)."""

    reconnect_after: float = 0.0
    """t_rep: seconds that the overlay needs to replace a lost link, as far as that is known; 0 where it is not."""

    is_tuned: bool = True
    """Whether `unsubscribe_after` and `rest_for` are but the longest that is waited: then waiting ends when it has been
    of use and begins to cost events that come along old routes in vain (`patience.py`, `rest_patience.py`)."""

    activation: ActivationName = "asymmetric"
    """Repair "informed": whether both ends of a lost link tell the ends of the new one what to hold back, or one end
    does for both; "siblings" is the latter, better paired where several lose the same neighbour at once."""

    flush: FlushName = "flood"
    """How the news that a new link has made up for the old one travels (repairs "notified", "informed", "path"): to
    everybody, back along the path (repair "path" only), or not at all (not with "path")."""

    literal_duplicates: bool = False
    """Whether a filter is told again to whoever has it for the sake of a lost neighbour, as the source of these repairs
    does it. For comparisons of cost; with reduction "plain" only."""

    rest_for: float = 30.0
    """Seconds for which a neighbour that is lost is remembered at most, where the repair allows it (`rests.py`)."""

    resting_max: int = 100
    """Neighbours that are remembered so; beyond it the one that is lost for longest is forgotten."""

    carriage: CarriageName = "plain"
    """How publications get to the neighbours that want them, see `carrier.py`: each over its link, or ("aired") once
    for all of them on the air, where some may not hear it, see `aired.py`."""

    popularity: PopularityName = "off"
    """Whether streams of publications that few want behind a link leave the tree to others, see `popularity.py`: they
    are gathered into batches, go directly to the brokers of their subscribers, are told among these ("gossip"), or
    ("asked") go directly where their publisher asked for low latency, and in batches else.
    Where it is not "off", brokers count as with `census`. The same in the whole network."""

    phi: float = 0.05
    """Popularity: the share of the broker's capacity that is for popular streams, above 0 and up to 1."""

    capacity: float | None = None
    """Popularity: publications that this broker can forward in a second (`tidings bench --batches`). Where it is not
    given, a broker on sockets measures it as it starts; others take `CAPACITY`."""

    forecast: str = ""
    """Popularity: a table of rates that are expected (`tidings.spark.forecast`, as CSV: a file, or a folder of them). A
    broker on sockets reads it, again when it changes, and goes by it in place of the rates of the last interval."""

    forecast_interval: float = 30.0
    """Popularity: seconds of an interval of that table."""

    evaluated_every: float = 2.0
    """Popularity: seconds between two decisions about what is popular."""

    batched_for: float = 3.0
    """Popularity: seconds for which a publication waits for others at most."""

    batched_bytes_max: int = 16 * 1024 * 1024
    """Popularity: what waits for its batch, on all links together; beyond it batches leave at once."""

    aside_max: int = 500
    """Popularity: brokers behind a link, each counted for each of its filters with "direct", up to which what is not
    popular leaves the tree."""

    group_of: GroupName = "wanting"
    """Popularity, "gossip": who is in the group of an advertisement: the brokers that want something of it, or
    "everybody", as if there were one group for all that is not popular: what groups of their own save, shown by doing
    without."""

    notes_forwards: bool = False
    """Popularity: whether each message with publications is noted in the trace, for experiments."""

    publications_window_bytes: int = 2 * 1024 * 1024
    """Publications on the way to one neighbour over a stream, as it says what it has taken; one batch may exceed it.
    Well below the queue of a link (`net/params.py`)."""

    parcels_bytes_max: int = 1024 * 1024
    """Publications that wait for room in that window. What comes beyond is left out, and the neighbour is told."""

    tables_window_bytes: int = 256 * 1024
    """Changes of tables on the way to one neighbour while it is told a whole table, as it says what it has taken."""

    changes_bytes_max: int = 1024 * 1024
    """Changes on the way to one neighbour at most. Beyond it what its table lacks is told when it has taken enough."""

    turn_entries: int = 64
    """Entries of tables that are told, or found to be covered, in one step; eight times as many if there is nothing to
    do with them. What is left goes on `turn_after` seconds later."""

    turn_after: float = 0.001
    """Seconds for other traffic, between two such steps."""

    transport: Transport = Transport.STREAM
    """How they travel. As datagrams a link may lose or reorder some, and large ones do not leave; what brokers tell
    each other about tables always goes over streams."""

    failover: FailoverChoice = "none"
    """How events get around a broker that failed, while the tree is not whole: not at all, or by those who want much
    the same (`protocols/gossip/failover`). The same in the whole network. It needs a repair that keeps routes and
    strategy "advertisement", and sets `rescue_window` and `census`."""

    rescue_window: int = 0
    """Numbers of each publisher by which it is told, of what comes around a failure, whether it passed already. 0 where
    nothing does: then `Stranded` is not told and `Rescued` not heard."""

    is_apart: bool = False
    """With a `rescue_window`: whether what came around a failure may come once more by the tree (`around.py`). Where
    anything is guaranteed it has to."""

    in_flight_for: float = 0.0
    """With a `rescue_window`: seconds for which it is known what went where, since it may still have been on its way
    when the link broke. Longer than a link takes to be known as broken."""

    in_flight_bytes_max: int = 1024 * 1024
    """Of these publications; beyond it the oldest are forgotten sooner."""

    advertises: bool = True
    """Whether everybody is told who publishes what. Without it publications are taken from any neighbour, and nobody
    hears that some may be lost. Not for strategy "advertisement", nor where anything is guaranteed."""

    census: bool = False
    """Whether brokers count the subscriptions behind each neighbour for each advertisement, see `census.py`. The same
    in the whole network."""

    census_after: float = 0.1
    """Seconds in which changes of these counts are gathered into one message on a link."""

    acknowledges: bool = True
    """Whether changes are answered when everybody concerned has carried them out. Without it a change costs one message
    on a link instead of two, nobody learns when something is installed everywhere, and no guarantee can be given."""

    ack_timeout: float = 30.0
    """Seconds after which an unanswered change, or receipt of publications, counts as failed. Longer than an answer
    needs from the far end of the network."""

    merge_share_max: float = 0.0
    """Merging: the share of recent events that a merged filter may match although nobody wants them. 0 merges only
    what can be merged exactly."""

    merge_group_max: int = 32
    """Merging: filters that are merged with each other at most. Adding one of them costs the square of it."""

    sample_max: int = 256
    """Merging: recent events by which the share is estimated."""

    memo_max: int = 65_536
    """Heads whose destinations are remembered; when there are more, all are forgotten and found again."""

    publishers_max: int = 65_536
    """Advertisements of publishers under which it is remembered what passed last; beyond it the longest silent is
    forgotten."""

    filters_max: int = 1_000_000
    """Filters that one neighbour, or all clients of this broker, may want; further ones are refused."""

    advertisements_max: int = 100_000
    """Advertisements that may come from one neighbour, or from all clients of this broker."""

    ghosts_max: int = 1000
    """Lost neighbours whose wishes a repair may remember; beyond it the oldest are settled at once."""

    unanswered_max: int = 1_000_000
    """Changes and receipts that one neighbour may leave unanswered; beyond it the oldest counts as failed. At least
    `filters_max`, since a new neighbour is told everything at once."""

    engine: Literal["fast", "plain"] | None = None
    """Engine of the index; None is the best that is installed."""

    @property
    def counts(self) -> bool:
        """Whether there is a census."""
        return self.census or self.popularity != "off"

    @property
    def passage_window(self) -> int:
        """Numbers by which it is told whether something passed, where it may come out of order."""
        return max(0 if self.is_apart else self.rescue_window, ASIDE_WINDOW if self.overtakes else 0)

    @property
    def overtakes(self) -> bool:
        """Whether publications may come out of order for those to whom nothing was promised."""
        return self.popularity in ("direct", "gossip", "asked")

    @property
    def units_per_second(self) -> float:
        return CAPACITY if self.capacity is None else self.capacity

    @property
    def is_best_effort(self) -> bool:
        """Whether publications may be lost between two brokers while their link lives, or nobody says that they are
        there: then no guarantee can be given."""
        is_sure = self.acknowledges and self.transport is Transport.STREAM and self.carriage == "plain"
        return not is_sure

    def __post_init__(self) -> None:
        for name in ("ack_timeout", "census_after", "turn_after", "rest_for", "evaluated_every", "batched_for"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise UsageError(f"{name}: {getattr(self, name)} is no span of time; give seconds above 0")
        self.check_repair()
        self.check_failover()
        if not 0.0 <= self.merge_share_max <= 1.0:
            raise UsageError(f"merge_share_max: {self.merge_share_max} is no share; give 0 to 1")
        if self.merge_share_max and self.reduction != "merging":
            raise UsageError(f"merge_share_max: {self.merge_share_max} is for reduction 'merging' only; leave it 0")
        if self.parent is not None and self.strategy != "hierarchical":
            raise UsageError(f"parent: {self.parent!r} is for strategy 'hierarchical' only; leave it None")
        bounds = ("sample_max", "memo_max", "publishers_max", "filters_max", "advertisements_max", "ghosts_max")
        for name in (*bounds, "turn_entries", "resting_max"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: {getattr(self, name)} leaves no room; give at least 1")
        if self.publications_window_bytes < TAKEN_STEPS:
            raise UsageError(f"publications_window_bytes: {self.publications_window_bytes} lets nothing through")
        if not TABLES_TAKEN_STEPS <= self.tables_window_bytes <= self.changes_bytes_max:
            raise UsageError(
                f"tables_window_bytes: {self.tables_window_bytes} is not between {TABLES_TAKEN_STEPS} and "
                f"changes_bytes_max {self.changes_bytes_max}"
            )
        if self.parcels_bytes_max < 0:
            raise UsageError(f"parcels_bytes_max: {self.parcels_bytes_max}; give 0 or more")
        if self.rescue_window < 0:
            raise UsageError(f"rescue_window: {self.rescue_window} numbers cannot be remembered; give 0 or more")
        if not (math.isfinite(self.in_flight_for) and self.in_flight_for >= 0):
            raise UsageError(f"in_flight_for: {self.in_flight_for} is no span of time; give seconds, 0 or more")
        if self.in_flight_bytes_max < 0:
            raise UsageError(f"in_flight_bytes_max: {self.in_flight_bytes_max} bytes; give 0 or more")
        if self.merge_group_max < 2:
            raise UsageError(f"merge_group_max: {self.merge_group_max} filters cannot be merged; give at least 2")
        if self.unanswered_max < self.filters_max:
            raise UsageError(f"unanswered_max: {self.unanswered_max} is below filters_max {self.filters_max}")

    def check_popularity(self) -> None:
        if not (math.isfinite(self.phi) and 0 < self.phi <= 1):
            raise UsageError(f"phi: {self.phi} is no share of a capacity; give a number above 0, up to 1")
        if not (math.isfinite(self.forecast_interval) and self.forecast_interval > 0):
            raise UsageError(f"forecast_interval: {self.forecast_interval} is no span of time; give seconds above 0")
        if self.capacity is not None and not (math.isfinite(self.capacity) and self.capacity > 0):
            raise UsageError(f"capacity: {self.capacity} publications a second cannot be; give a number above 0")
        if self.aside_max < 1:
            raise UsageError(
                f"aside_max: {self.aside_max} lets nothing leave the tree; give at least 1, or another way"
            )
        if self.batched_bytes_max < 0:
            raise UsageError(f"batched_bytes_max: {self.batched_bytes_max}; give 0 or more")
        if self.popularity == "off":
            return
        if self.carriage != "plain" or self.transport is not Transport.STREAM:
            raise UsageError(
                f"popularity: {self.popularity!r} goes with carriage 'plain' over streams only, for it decides itself "
                "how publications travel; leave carriage and transport as they are, or give popularity 'off'"
            )
        if self.strategy != "advertisement":
            raise UsageError(
                f"popularity: {self.popularity!r} counts subscriptions for each advertisement; it needs strategy "
                f"'advertisement', not {self.strategy!r}"
            )

    def check_failover(self) -> None:
        """The rule of composition S-122."""
        if self.failover == "none":
            return
        if self.repair == "strawman":
            raise UsageError(
                "failover: repair 'strawman' forgets at once what a lost neighbour wanted, and nobody would know what "
                "to bring around it (rule S-122); choose repair 'resuming' or 'timed', or failover 'none'"
            )
        if not self.advertises or self.strategy != "advertisement":
            raise UsageError(
                "failover: brokers are compared by the subscriptions on the way to advertisements (rule S-122); choose "
                "strategy 'advertisement' and leave advertises True, or choose failover 'none'"
            )

    def check_repair(self) -> None:
        for name in ("unsubscribe_after", "subscribe_after", "reconnect_after"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise UsageError(f"{name}: {getattr(self, name)} is no span of time; give seconds, 0 or more")
        if self.flush == "path" and self.repair != "path":
            raise UsageError(
                f"flush: 'path' is for repair 'path' only, not for {self.repair!r}; give 'flood' or 'none'"
            )
        if self.flush == "none" and self.repair == "path":
            raise UsageError("flush: repair 'path' does not work without it; give 'flood' or 'path'")
        if self.repair == "shift" and self.strategy not in ("subscription", "advertisement"):
            raise UsageError(
                f"repair: 'shift' has both ends of a link tell each other their tables before events go there, which "
                f"strategy {self.strategy!r} does not; choose strategy 'advertisement' or 'subscription', or repair "
                "'resuming'"
            )
        if self.repair == "shift" and self.failover != "none":
            raise UsageError(
                f"failover: {self.failover!r} brings events around the tree, and a link that takes another's place "
                "waits for those that go by the tree only (rule S-122); choose failover 'none', or repair 'resuming'"
            )
        if self.repair == "shift" and self.popularity in ("direct", "gossip", "asked"):
            raise UsageError(
                f"popularity: {self.popularity!r} has events leave the tree, and a link that takes another's place "
                "waits for those that go by the tree only (rule S-122); with repair 'shift' choose popularity 'off' or "
                "'batching'"
            )
        if self.literal_duplicates and self.reduction != "plain":
            raise UsageError(f"literal_duplicates: not with reduction {self.reduction!r}; give reduction 'plain'")
        self.check_popularity()
        if not self.advertises and self.strategy == "advertisement":
            raise UsageError("advertises: strategy 'advertisement' needs it; choose another strategy, or leave it True")
