"""The bounds and times of access."""

import math
from typing import Literal

import msgspec

from tidings.model.bounds import CREDENTIALS_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId


class AccessParams(msgspec.Struct, frozen=True, kw_only=True):
    links: tuple[NodeId, ...] = ()
    """Brokers to which a link is kept. One end of a link is enough; both do no harm."""

    credentials: bytes = b""
    """What we show to them: a token; nothing where the link tells who we are."""

    clients_max: int = 10_000
    """Clients that are served at the same time."""

    peers_max: int = 256
    """Brokers that are linked at the same time."""

    strangers_max: int = 1024
    """Links at the same time whose other end has not been let in yet: those that call us, of whom the host keeps fewer
    (`HostParams.strangers_max`), and those that we call."""

    links_wanted_max: int = 256
    """Links that are kept at the same time, the configured ones and those that parts of the node ask for together; a
    further one is refused."""

    attach_timeout: float = 5.0
    """Seconds from a new link to the moment at which its other end must have been let in."""

    retry_first: float = 0.1
    """Seconds before a lost link is asked for again; each further attempt waits twice as long, less a random part."""

    retry_max: float = 1.0
    """Longest wait between two attempts: a network that is whole again is linked again within it and a connection's
    time, so the bound on convergence rests on it. At least `retry_first`."""

    drain_rate: float = 50.0
    """Clients that a broker which is drained sends away in a second."""

    drain_at_once: int = 20
    """Clients that were told to go and are still here; no further one is told meanwhile, so that brokers with much to
    do are not given more than they can take."""

    drain_patience: float = 15.0
    """Seconds that a client has to go, from the time when it was told; then its connection is ended."""

    drain_quiet: float = 3.0
    """Seconds in which no event and no question of others came; then nothing passes through a broker that is drained.
    Longer than a message takes from one end of the network to the other."""

    clock_offset: float = 0.0
    """Time of day less machine time: tokens expire by the time of day."""

    def __post_init__(self) -> None:
        if len(set(self.links)) != len(self.links):
            raise UsageError(f"links: {', '.join(self.links)} names a broker twice; name each once")
        if len(self.credentials) > CREDENTIALS_BYTES_MAX:
            raise UsageError(f"credentials: {len(self.credentials)} bytes, at most {CREDENTIALS_BYTES_MAX} are allowed")
        for name in ("clients_max", "peers_max", "strangers_max"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: {getattr(self, name)} lets nobody in; give at least 1")
        if self.drain_at_once < 1:
            raise UsageError(f"drain_at_once: {self.drain_at_once} would send nobody away; give at least 1")
        for name in ("drain_rate", "drain_patience", "drain_quiet"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise UsageError(f"{name}: {getattr(self, name)}; give a number above 0")
        if self.links_wanted_max < len(self.links):
            raise UsageError(f"links_wanted_max: {self.links_wanted_max}, but links names {len(self.links)}; raise it")
        check_spans(self.attach_timeout, self.retry_first, self.retry_max)
        if not math.isfinite(self.clock_offset):
            raise UsageError(f"clock_offset: {self.clock_offset} is no time; give seconds")


class GuestParams(msgspec.Struct, frozen=True, kw_only=True):
    brokers: tuple[NodeId, ...]
    """Where to be served: the first that lets us in, beginning with the first; the next one after a failure."""

    credentials: bytes = b""
    attach_timeout: float = 5.0
    """Seconds from a new link to the broker's answer; then the next broker is tried."""

    retry_first: float = 0.1
    retry_max: float = 1.0
    """As in `AccessParams`; the series is counted over all brokers together."""

    when_drained: Literal["", "goes", "stays"] = "goes"
    """What becomes of us when our broker is drained; "stays" is for those who only look at it."""

    parting_max: float = 10.0
    """Seconds that a broker which sent us away is kept beside the next one, until nothing is needed of it any more."""

    moves_pause: float = 1.0
    """Seconds from one move to the next, so that brokers which send us to each other cannot keep us going for ever."""

    def __post_init__(self) -> None:
        if not self.brokers:
            raise UsageError("brokers: none is named; name at least one")
        if len(self.credentials) > CREDENTIALS_BYTES_MAX:
            raise UsageError(f"credentials: {len(self.credentials)} bytes, at most {CREDENTIALS_BYTES_MAX} are allowed")
        check_spans(self.attach_timeout, self.retry_first, self.retry_max)
        for name in ("parting_max", "moves_pause"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise UsageError(f"{name}: {getattr(self, name)} is no span of time; give seconds above 0")


def check_spans(attach_timeout: float, retry_first: float, retry_max: float) -> None:
    spans = {"attach_timeout": attach_timeout, "retry_first": retry_first, "retry_max": retry_max}
    for name, span in spans.items():
        if not (math.isfinite(span) and span > 0):
            raise UsageError(f"{name}: {span} is no span of time; give seconds above 0")
    if retry_max < retry_first:
        raise UsageError(f"retry_max: {retry_max} is below retry_first; give at least {retry_first}")


DOUBLINGS_MAX = 30
"""Keeps the power of two finite; `retry_max` is reached long before."""


def retry_wait(failures: int, first: float, longest: float, chance: float) -> float:
    """How long to wait after so many failures in a row; `chance` in [0, 1) takes off up to half, so that many nodes
    which lost the same broker do not come back all at once."""
    return min(longest, first * 2.0 ** min(failures, DOUBLINGS_MAX)) * (1 - chance / 2)
