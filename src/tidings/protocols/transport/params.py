"""The parameters of the transport, with the values that the sources used where they name any (transport 3.9)."""

import math
from typing import Any, Literal

import msgspec

from tidings.matching.bloom import BloomProfile
from tidings.model.bounds import RECORD_MAX
from tidings.model.errors import UsageError


def check_counts(params: msgspec.Struct, *names: str) -> None:
    for name in names:
        if getattr(params, name) < 1:
            raise UsageError(f"{name}: {getattr(params, name)} leaves no room; give at least 1")


def check_spans(params: msgspec.Struct, *names: str) -> None:
    for name in names:
        value = getattr(params, name)
        if not (math.isfinite(value) and value > 0):
            raise UsageError(f"{name}: {value} cannot be used; give a number above 0")


class OrderingParams(msgspec.Struct, frozen=True, kw_only=True):
    mode: Literal["basic", "enhanced", "static"] = "enhanced"
    """Basic knows only that numbers are missing; enhanced asks the record whether they are for us; static holds every
    event behind a gap for `static_latch`, the baseline."""
    violation: float = 0.05
    """P_t: the share of events behind a gap that may be handed over too early, by the exact quantile; by that of the
    appendix it is far less, 0.16 % where this says 5 %. At most 0.5."""
    samples: int = 25
    """q: delay differences from which the scale is estimated."""
    quantile: Literal["exact", "appendix"] = "appendix"
    """Which of the printed forms gives the latch (X-1). The default is the one that measures better."""
    latch_model: Literal["laplace2", "chebyshev", "empirical"] = "laplace2"
    static_latch: float = 0.03
    late_policy: Literal["deliver", "drop"] = "deliver"
    latch_max: float = 2.0
    """Seconds that anything is held back."""
    joins: Literal["first_event", "listening"] = "first_event"
    """From when on the events of a publisher are missed: from the first one that came (G-6); or from when the
    application began to listen, as far as records and digests prove that they were sent later. Then the first events of
    a stream can be lost and repaired like all others."""
    patience: float = 0.0
    """Seconds that events wait, beyond their latch, for one before them that was lost and is asked for: strict order at
    the price of delay. 0: nothing ever waits for a repair."""
    digest_latch: float = 0.0
    """Seconds that an event has to come, at least, when a digest tells of it: where events wait in queues, digests
    overtake them."""
    pending_max: int = 10_000
    """Events held back for one stream; beyond it the oldest goes out at once."""
    window: int = 4096
    """Numbers below the highest one within which repetitions are recognised."""

    def __post_init__(self) -> None:
        if not 0.0 < self.violation <= 0.5:
            raise UsageError(f"violation: {self.violation} is no share of events; give more than 0, at most 0.5")
        check_counts(self, "samples", "pending_max", "window")
        for name in ("patience", "digest_latch"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise UsageError(f"{name}: {getattr(self, name)} is no span of time; give seconds, or 0 for none")
        check_spans(self, "static_latch", "latch_max")


class RecoveryParams(msgspec.Struct, frozen=True, kw_only=True):
    c1: float = 2.0
    c2: float = 2.0
    tuning: bool = True
    """Whether C1, C2, D1 and D2 follow what is heard (3.5.6)."""
    backoff: float = 2.0
    awaits_answers: bool = True
    """Whether a request is repeated only when its answer could have come: there and back, and the longest that others
    wait before they answer. The source has the doubled interval alone, which becomes shorter than that when C1 and C2
    have shrunk; then much is asked for, and repaired, twice."""
    rounds_max: int = 24
    """Requests for one event. The source's network loses 1 % on a link and 6 are enough; at 20 % they are not."""
    repair_mode: Literal["republish", "unicast", "auto"] = "republish"
    answers_alone: bool = True
    """Whether publishers answer every second round to the requester alone, where others republish: it may ask for what
    only seems to be for it."""
    cache_min: int = 5
    cache_max: int = 300
    cache_hits: float = 1.0
    """H: the hit ratio below which the cache of an active repairer grows."""
    cache_period: float = 1.0
    cache_total: int = 20_000
    """Events that the caches of all streams, and that of our own events, keep together."""
    cache_bytes: int = 64 * 1024 * 1024
    """Their attributes and payloads."""
    publisher_repairs: bool = True
    """Whether publishers answer requests for their own events."""
    own_cache: int = 10_000
    """Events of our own that we keep to answer with."""
    distance_first: float = 0.05
    """Seconds to a publisher before anything was measured."""
    domain: str = ""
    """Where set, requests stay among those with the same."""
    requests_max: int = 1000
    """Losses that are asked for at a time; further ones are given up at once."""
    requests_per_second: float = 200.0
    """What one requester may ask of us; further ones are ignored, and counted."""
    repairs_per_second: float = 500.0
    """Repairs that we send."""
    uses_history: bool = True
    """Whether a loss that nobody repaired is read from the carrier's history, where it has one."""

    def __post_init__(self) -> None:
        check_counts(self, "rounds_max", "cache_min", "cache_max", "own_cache", "requests_max")
        check_counts(self, "cache_total", "cache_bytes")
        check_spans(self, "c1", "c2", "cache_period", "distance_first", "requests_per_second", "repairs_per_second")
        if self.cache_min > self.cache_max:
            raise UsageError(f"cache_min: {self.cache_min} is above cache_max; give at most {self.cache_max}")
        if not 0.0 <= self.cache_hits <= 1.0:
            raise UsageError(f"cache_hits: {self.cache_hits} is no share; give 0 to 1")
        if self.backoff < 1.0:
            raise UsageError(f"backoff: {self.backoff} would ask faster and faster; give at least 1")


class CongestionParams(msgspec.Struct, frozen=True, kw_only=True):
    control: Literal["equation", "window"] = "equation"
    """Who finds the rate: receivers, by the TCP response function; or publishers, by a window that the limiting
    receiver acknowledges (F-6)."""
    alpha: float = 0.5
    """How much a flow may grow in a round trip, as a share of what is received of it."""
    loss_events: int = 8
    """i: loss intervals that count."""
    intervals: Literal["weighted", "plain"] = "weighted"
    """TFRC's weights with the open interval, or the plain mean of closed ones."""
    uncovered_gap: Literal["fractional", "pessimistic", "optimistic"] = "fractional"
    takes_back: bool = True
    """Whether a loss event ends when all that seemed lost has come late."""
    first_interval: Literal["measured", "half"] = "measured"
    """What stands for the time before the first loss: what allows half of the rate at which events came (G-17); or as
    much more as was received without a loss, up to that rate."""
    scales_overlap: bool = True
    """Whether filters of one receiver that want the same events get quotas that count these for each of them. Without,
    quotas together are what is allowed, and a receiver whose filters overlap gets less than that."""
    tick_min: float = 0.02
    """Seconds between two reports, at least."""
    meter_window: float = 0.5
    """Seconds over which rates are measured, or a round trip where that is longer."""
    covering: Literal["bits", "exact"] = "bits"
    """How the publisher tells that one flow includes another."""
    limiting_header: Literal["list", "single"] = "list"
    flow_timeout: float = 5.0
    """Seconds after which a flow that nobody reports is not limited any more; ten round trips where that is longer."""
    flows_max: int = 4096
    queue_max: int = 50
    """Events that wait in one flow."""
    overflow: Literal["drop_oldest", "drop_newest"] = "drop_oldest"
    slow_start: bool = False
    """G-21: whether a flow begins at twice the smallest rate that a receiver reports, until its first loss."""
    suppression: bool = False
    """F-4: whether receivers wait a random time before they report, and refrain when another has reported less."""
    acknowledgements: bool = False
    """F-3a: whether limiting receivers acknowledge, so that the publisher tells exactly what was lost."""
    sources_per_second: float = 200.0
    """Feedback messages a second that a publisher reads."""
    control_share: float = 0.1
    """Requests and repairs may take this share of what is received and published, but always `control_min` a second
    (G-24). With less, recovery falls behind at a loss of 5 %, above all at publishers, who answer for everybody."""
    control_min: float = 20.0

    def __post_init__(self) -> None:
        check_counts(self, "loss_events", "flows_max", "queue_max")
        check_spans(self, "alpha", "tick_min", "meter_window", "flow_timeout", "sources_per_second", "control_min")
        if not 0.0 < self.control_share <= 1.0:
            raise UsageError(f"control_share: {self.control_share} is no share; give more than 0, at most 1")


class TransportParams(msgspec.Struct, frozen=True, kw_only=True):
    """What a node does of its own accord: as a publisher, whether it writes headers, keeps what it sent for repairs,
    and obeys feedback. As a subscriber each subscription says it for itself (`Listen`)."""

    is_ordered: bool = True
    is_reliable: bool = False
    is_paced: bool = False
    record: int = 5
    """R: events before it that the header of each event tells of; 0 for basic ordering."""
    profile: BloomProfile = BloomProfile(bits=256)
    """How attributes become Bloom rows; the same for all who use the transport on one network. The sources have 128
    bits for events of few attributes; 256 leave room for ranges."""
    topic_attribute: str = ""
    """Where set, rows tell only of this attribute: the topics of a network that has no other filters (T-42)."""
    tells_ranges: bool = True
    """Whether rows tell how large numbers are, so that filters with ranges find out what is theirs (`rows.py`). The
    same for all, too; the sources have no such thing."""
    is_compressed: bool = False
    """Whether records merge equal rows of consecutive events (F-2a)."""
    digest_period: float = 0.25
    """Seconds between two digests, of a reliable publisher; 0 for none."""
    digest_record: int = 128
    """Entries of a digest."""
    digests_after: int = 10
    """Digests that are sent after the last event, at growing distances, before the publisher falls silent."""
    echo_first: float = 1.0
    """Seconds until an echo that was not answered is repeated; each further time twice as long."""
    echo_tries: int = 5
    echo_every: float = 30.0
    """Seconds between two echoes in a session that never limits its flow."""
    round_trip_gain: float = 0.1
    session_timeout: float = 60.0
    """Seconds of silence after which a stream is forgotten."""
    streams_max: int = 10_000
    """Streams that are followed at a time; for a new one, one that was silent for long is forgotten."""
    ordering: OrderingParams = OrderingParams()
    recovery: RecoveryParams = RecoveryParams()
    congestion: CongestionParams = CongestionParams()

    def __post_init__(self) -> None:
        check_counts(self, "digest_record", "echo_tries", "streams_max")
        check_spans(self, "echo_first", "echo_every", "session_timeout")
        if not 0 <= self.record <= RECORD_MAX or self.digest_record > RECORD_MAX:
            raise UsageError(f"record: a header tells of at most {RECORD_MAX} events")
        if self.profile.size_bytes > 255:
            raise UsageError(f"profile: rows of {self.profile.size_bytes} bytes, at most 255 fit a header")
        check_modes(self.is_ordered, self.is_reliable, self.is_paced, self.ordering.mode)
        if (self.is_reliable or self.is_paced) and not self.record:
            raise UsageError("record: losses are found by the record of events; give at least 1")


def as_published(**others: Any) -> TransportParams:
    """As the sources and the specification have it, wherever the defaults do otherwise; docs/concepts/transport.md has
    the reasons. `others` are further parameters."""
    published: dict[str, Any] = {
        "profile": BloomProfile(bits=128),
        "tells_ranges": False,
        "digest_period": 0.0,
        "ordering": OrderingParams(quantile="exact"),
        "recovery": RecoveryParams(rounds_max=6, awaits_answers=False, answers_alone=False, uses_history=False),
        "congestion": CongestionParams(
            takes_back=False, first_interval="half", scales_overlap=False, control_share=0.05, control_min=2.0
        ),
    }
    return TransportParams(**{**published, **others})


def check_modes(is_ordered: bool, is_reliable: bool, is_paced: bool, mode: str = "enhanced") -> None:
    """Losses are found by enhanced ordering, and both recovery and congestion control need to know them (T-18)."""
    for name, is_on in (("reliable", is_reliable), ("paced", is_paced)):
        if is_on and not is_ordered:
            raise UsageError(f"{name}: losses are found by ordering; give ordered=True as well")
        if is_on and mode != "enhanced":
            raise UsageError(f"{name}: losses are found by enhanced ordering only, not {mode!r}")
