"""The bounds and times of the broker's side of delivery."""

import math
from typing import Literal

import msgspec

from tidings.machine.window import NARROWEST_SHARE
from tidings.model.bounds import BATCH_BYTES_MAX, SUBSCRIPTIONS_MATCHED_MAX
from tidings.model.errors import UsageError
from tidings.model.work import UNITS_PER_MS
from tidings.protocols.delivery.sizes import TAKEN_STEP_BYTES

MEBIBYTE = 1024 * 1024

DAY = 24 * 3600.0

TAKEN_STEPS = 4 * NARROWEST_SHARE
"""How often the taker of a window full of bytes says that it has taken them: also of the narrowest more than twice."""

SPANS = ("history_age", "marks_age", "numbers_age")
PERIODS = ("ask_again_after", "held_for", "save_again_after", "sweep_period", "reading_timeout")
BOUNDS = (
    *("history_count_max", "history_bytes_max", "history_bytes_total_max"),
    *("subscriptions_max", "advertisements_max", "publishers_max", "lives_max", "window_max", "queue_max", "heads_max"),
    *("streams_max", "groups_max", "scanned_max", "deferred_max", "numbers_max", "marks_max", "readings_max"),
    *("page_bytes", "unanswered_max", "positions_max", "search_units_max"),
)


class EdgeParams(msgspec.Struct, frozen=True, kw_only=True):
    """All times in seconds."""

    clock_offset: float = 0.0
    """Time of day less machine time."""

    history_age: float = 120.0
    """How long a publication is stored by the broker that accepted it; 0 stores nothing. It must be longer than a
    message needs twice across the network, or longer than the outage to be bridged."""

    history_count_max: int = 100_000
    """Publications stored of one publisher."""

    history_bytes_max: int = 128 * MEBIBYTE
    """Heads and payloads stored of one publisher."""

    history_bytes_total_max: int = 512 * MEBIBYTE
    """Heads and payloads stored of all publishers; at least `history_bytes_max`."""

    marks_age: float = 3600.0
    """For so long after the history of a publisher that left is gone, others can learn that there was some."""

    marks_max: int = 1000
    """Publishers that left whose marks are kept so; those that left first go first."""

    numbers_age: float = 7 * DAY
    """How long the last number of a publisher is remembered, from its last publication on, when it has left and its
    history is gone: for so long it may repeat what it published."""

    numbers_max: int = 100_000
    """Publishers that left whose number is remembered; those go first whose last publication is oldest."""

    is_durable: bool = False
    """Whether a publication is accepted only when it is on disk, and is there again after a restart."""

    unlisted: Literal["arrival", "installation"] = "arrival"
    """What a subscription behind given publications gets from publishers that it does not name and that are known
    when it comes: everything since it arrived here, or what is published once it is installed at their brokers."""

    strict_ack: bool = False
    """Whether an "installed" subscription gets, right behind its receipt, also what came before that: as far as it was
    accepted when the subscription was in place at the publisher's broker. It is kept until then, within
    `early_bytes_max`; what has no room is asked for."""

    subscriptions_max: int = 1000
    """Subscriptions of one client."""

    advertisements_max: int = 1000
    """Advertisements of one client."""

    publishers_max: int = 10_000
    """Publishers at this broker, those included that left and whose history is kept."""

    lives_max: int = 1000
    """Lives of one client among them: processes that came one after the other under its name."""

    pending_bytes_max: int = 16 * MEBIBYTE
    """Publications of one client that are in its queues or on the way to it and not yet taken; at least one batch."""

    client_window_bytes: int = 2 * MEBIBYTE
    """Events and what was read on the way to one client, as it says what has arrived; one message may exceed it. Well
    below the queue of a link (`net/params.py`)."""

    window_max: int = 65_536
    """Publications of one subscription on the way to its client; a larger window that a client asks for is cut."""

    queue_max: int = 100_000
    """Publications in the queue of one subscription; a longer queue that a client asks for is cut."""

    heads_max: int = 65_536
    """Heads of which it is remembered that they lie within their advertisement; when there are more, all are
    forgotten."""

    streams_max: int = 4096
    """Publishers that are known to one subscription in full; beyond it only the position of those is kept that are
    gone."""

    groups_max: int = 10_000
    """Groups whose time is remembered, each for one publisher."""

    scanned_max: int = 10_000
    """Stored publications that are looked at for one answer, so that one question does not stop the broker."""

    page_bytes: int = 256 * 1024
    """Heads and payloads of one answer of history; a single publication may be larger."""

    history_window_bytes: int = MEBIBYTE
    """Questions and answers of history on the way to one neighbour, as it says what it has taken; one message may
    exceed it. Well below the queue of a link (`net/params.py`). Where that takes long it is down to an eighth
    (`machine/window.py`)."""

    unanswered_max: int = 100_000
    """Questions and answers that wait for room in that window, for one neighbour; what comes beyond is given up, and
    asked again."""

    early_bytes_max: int = 8 * MEBIBYTE
    """Publications, for all subscriptions, that came while an answer of history was awaited, and are kept until it is
    there; those beyond are asked for."""

    positions_max: int = 250_000
    """Positions that a client names for one subscription; more are refused."""

    readings_max: int = 64
    """Requests of one client to read what is stored that are not answered yet."""

    reading_timeout: float = 10.0
    """How long such a request waits for the brokers of publishers."""

    search_units_max: int = 50 * UNITS_PER_MS
    """Work of searching for the patterns of all subscriptions of a principal here in the longest string that there is
    (`model/weight.py`): 50 ms. One word in the middle ('%word%') is a thousandth of it. What exceeds it is refused."""

    held_for: float = 0.01
    """Seconds after which questions for history are asked for which there was no time in one step."""

    ask_again_after: float = 30.0
    """After this a question for history that was not answered is asked again."""

    save_again_after: float = 1.0
    """After this something is saved again that could not be."""

    sweep_period: float = 5.0
    """How often it is looked at whether history has become too old."""

    deferred_max: int = 10_000
    """What may happen while the history is read from disk at the start; the rest is turned away."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.clock_offset):
            raise UsageError(f"clock_offset: {self.clock_offset} is no time; give seconds")
        for name in SPANS + PERIODS:
            span = getattr(self, name)
            if not (math.isfinite(span) and span >= 0 and (span or name in SPANS)):
                raise UsageError(f"{name}: {span} is no span of time; give seconds above 0")
        for name in BOUNDS:
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: {getattr(self, name)} leaves no room; give at least 1")
        if self.history_bytes_total_max < self.history_bytes_max:
            raise UsageError(
                f"history_bytes_total_max: {self.history_bytes_total_max} is below history_bytes_max; "
                f"give at least {self.history_bytes_max}"
            )
        if self.subscriptions_max > SUBSCRIPTIONS_MATCHED_MAX:
            raise UsageError(
                f"subscriptions_max: {self.subscriptions_max}, but a delivery names at most {SUBSCRIPTIONS_MATCHED_MAX}"
            )
        if self.history_window_bytes < NARROWEST_SHARE:
            raise UsageError(f"history_window_bytes: {self.history_window_bytes} lets nothing through")
        if self.client_window_bytes < 2 * TAKEN_STEP_BYTES:
            raise UsageError(
                f"client_window_bytes: {self.client_window_bytes}, but clients tell in steps of {TAKEN_STEP_BYTES}; "
                f"give at least {2 * TAKEN_STEP_BYTES}"
            )
        if self.early_bytes_max < 0:
            raise UsageError(f"early_bytes_max: {self.early_bytes_max}; give 0 or more")
        if self.pending_bytes_max < BATCH_BYTES_MAX:
            raise UsageError(
                f"pending_bytes_max: {self.pending_bytes_max} is less than one batch; give at least {BATCH_BYTES_MAX}"
            )
