"""The times and bounds of a collection."""

import math
from typing import Literal

import msgspec

from tidings.model.bounds import BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, COLLECTORS_MAX
from tidings.model.errors import UsageError

Strategy = Literal["planned", "direct"]
"""Through each other along a plan, or everybody straight to the sink."""


class CollectParams(msgspec.Struct, frozen=True, kw_only=True):
    """Of every host; where two hosts differ, those of the sink count for its collections."""

    block_bytes: int = 256 * 1024
    """What is sent, acknowledged and counted as one; 64 KiB to 512 KiB. Smaller blocks let slow paths be planned more
    finely, larger ones cost less."""

    peers: int = 10
    """Hosts to which each one's paths are measured, and over which plans go; k in the source."""

    period: float = 15.0
    """Seconds between two plans; p in the source. 0 plans once."""

    slack: float = 0.05
    """A path that reaches this much less than was planned is as good as planned."""

    window_seconds: float = 1.0
    """Seconds of planned data that may be on the way to one receiver, one block at least. What is not on the way can
    be planned anew."""

    window_bytes_max: int = 16 * 1024 * 1024
    """And never more than this; below the queue of a link (`HostParams.queue_bytes_max`)."""

    rate_seconds: float = 5.0
    """Over which a rate is measured."""

    status_timeout: float = 5.0
    """Seconds in which hosts answer how far they are; of others the last answer counts."""

    lost_after: float = 10.0
    """Seconds without a link after which a host is lost to a collection, and what it held comes from elsewhere."""

    probe_period: float = 180.0
    """Seconds between two measurements of paths, each of one peer in turn; 0 measures none."""

    probe_blocks: int = 8
    """Blocks sent to measure a path."""

    blast_seconds: float = 30.0
    """For which all peers send to a host at once, to find what its access carries."""

    rate_unknown_bps: float = 100e6
    """What a path is taken for that was not measured, bits a second."""

    is_paced: bool = False
    """Whether blocks leave no faster than was planned, so that no path takes what was meant for another; it can be no
    quicker than the plan either."""

    keeps_replicas: bool = False
    """Whether a relay keeps a block that it has passed on, while there is room, so that it is there if its origin dies
    (lazy deletion); else it is deleted at once."""

    relay_bytes_max: int = 1024 * 1024 * 1024
    """Blocks of others that a host keeps at a time; beyond it blocks are refused."""

    up_bps: float = 0.0
    """Bits a second that this host sends at most, over all collections; 0 is no limit."""

    down_bps: float = 0.0
    """And takes."""

    list_timeout: float = 10.0
    """Seconds in which sources say which files they have."""

    progress_period: float = 0.5
    """Seconds between two reports of progress to the application."""

    orphaned_after: float = 60.0
    """Seconds without the sink after which a host forgets a collection and deletes what it held for it."""

    def __post_init__(self) -> None:
        for name in (
            "window_seconds",
            "rate_seconds",
            "status_timeout",
            "lost_after",
            "list_timeout",
            "orphaned_after",
        ):
            check_span(name, getattr(self, name))
        check_span("progress_period", self.progress_period)
        check_span("blast_seconds", self.blast_seconds)
        for name in ("period", "probe_period", "up_bps", "down_bps"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageError(f"{name}: {getattr(self, name)}; give a number from 0")
        if not BLOCK_BYTES_MIN <= self.block_bytes <= BLOCK_BYTES_MAX:
            raise UsageError(
                f"block_bytes: {self.block_bytes} is out of bounds; give {BLOCK_BYTES_MIN} to {BLOCK_BYTES_MAX}"
            )
        if not 1 <= self.peers <= COLLECTORS_MAX:
            raise UsageError(f"peers: {self.peers} is out of bounds; give 1 to {COLLECTORS_MAX}")
        if not 0 <= self.slack < 1:
            raise UsageError(f"slack: {self.slack} is no share; give a number from 0 to 1")
        if self.window_bytes_max < self.block_bytes or self.relay_bytes_max < self.block_bytes:
            raise UsageError("window_bytes_max and relay_bytes_max: give at least block_bytes")
        if self.probe_blocks < 2:
            raise UsageError(f"probe_blocks: {self.probe_blocks}; it takes two blocks to measure the time between them")
        if not 0 < self.rate_unknown_bps < math.inf:
            raise UsageError(f"rate_unknown_bps: {self.rate_unknown_bps} is no rate; give bits a second above 0")


def check_span(name: str, span: float) -> None:
    if not 0 < span < math.inf:
        raise UsageError(f"{name}: {span} is no span of time; give seconds above 0")
