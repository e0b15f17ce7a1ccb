"""Churn: who is there and who is not, as a plan that is drawn before the run.

Peers come and go. How they do decides what a protocol is worth, so a plan of absences is made from one of three sources
and from the seed of the run, and nothing else:

* **A recorded trace.** Somebody probed hosts every 20 minutes and wrote a bit for each: there, or not. Between two
  probes that differ lies a transition, and nobody knows when exactly; it is placed uniformly at random inside that
  interval. For more nodes than recorded hosts rows are used again, each time with placements of its own, so that two
  nodes of the same row do not move in step. (Patel thesis, section 5.5.)
* **Sessions.** Each node is there for a time drawn from one distribution and away for a time drawn from another, by
  turns: exponential, Weibull (measured sessions often have a shape below 1: many short, a few very long), Pareto.
  At time zero this has gone on for a while, so the share of nodes that are there is about right from the beginning.
* **A mass failure.** A share of the nodes goes at one moment, and comes back at another or never.

An absence is the span in which a node is away. Nodes that are exempt (publishers, observers) are never away; a plan
without absences switches churn off. While a node is away it sends, receives and does nothing, and what it had planned
is cancelled: the simulator sees to that. Failures of machines, as a cluster records them, are in `machines.py`.
"""

import gzip
import math
import re
import zlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from tidings.machine.streams import RandomStream, random_stream
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.workloads.workload import require

PROBE_INTERVAL = 1200.0
"""Seconds between two probes of a recorded trace."""

ROWS_MAX, PROBES_MAX = 20_000, 20_000
"""Hosts of a recorded trace, and probes of each."""

CYCLES_BEFORE_START = 10
"""How many mean sessions and absences went by before time zero."""

ABSENCES_MAX = 1_000_000
"""Absences of one plan."""

FOR_EVER = math.inf


class Absence(msgspec.Struct, frozen=True, order=True):
    """`node` is away from `begin` up to `end`, which may be for ever."""

    begin: float
    end: float
    node: NodeId


class Spread(Protocol):
    """How long sessions and absences last: anything with a mean and a draw."""

    @property
    def mean(self) -> float: ...

    def draw(self, rng: RandomStream, /) -> float: ...


class Weibull(msgspec.Struct, frozen=True):
    """P(more than x) = exp(-(x / scale)**shape)."""

    scale: float
    shape: float

    def __post_init__(self) -> None:
        require(self.scale > 0, f"scale: {self.scale} must be above 0")
        require(self.shape > 0, f"shape: {self.shape} must be above 0")

    @property
    def mean(self) -> float:
        return self.scale * math.gamma(1 + 1 / self.shape)

    def draw(self, rng: RandomStream) -> float:
        return self.scale * math.pow(-math.log(1.0 - rng.random()), 1 / self.shape)


class ChurnTrace(msgspec.Struct, frozen=True):
    """A row for each host, a bit for each probe: "1101" was there, there, away, there."""

    rows: tuple[str, ...]
    interval: float = PROBE_INTERVAL

    def __post_init__(self) -> None:
        require(self.interval > 0, f"interval: {self.interval} must be above 0")
        if not 0 < len(self.rows) <= ROWS_MAX:
            raise UsageError(f"a churn trace of {len(self.rows)} hosts; give 1 to {ROWS_MAX}")
        for number, row in enumerate(self.rows, 1):
            if not 0 < len(row) <= PROBES_MAX or row.strip("01"):
                raise UsageError(
                    f"host {number} of the churn trace: write a 0 or 1 for each of 1 to {PROBES_MAX} probes"
                )


HOST_LINE = re.compile(r"(?:[^\s,]*[^\s,01][^\s,]*[\s,]+)?(?P<bits>[01](?:[\s,]*[01])*)")
"""A name, which is not all zeros and ones, and the bits, with or without something between them."""


def read_churn(path: str | Path, interval: float = PROBE_INTERVAL) -> ChurnTrace:
    """A text file, gzip'ed if it ends in .gz: a line for each host with its bits, a name before them if you like."""
    try:
        data = Path(path).read_bytes()
        text = (gzip.decompress(data) if str(path).endswith(".gz") else data).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as problem:
        raise UsageError(f"cannot read the churn trace {path}: {problem}") from None
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            found = HOST_LINE.fullmatch(line.strip())
            if found is None:
                raise UsageError(f"{path}, line {number}: write a host's probes as 0 and 1, such as 'h7 110011'")
            rows.append(re.sub(r"[\s,]", "", found["bits"]))
    return ChurnTrace(tuple(rows), interval)


def traced_churn(
    trace: ChurnTrace, nodes: Sequence[NodeId], seed: int, exempt: Collection[NodeId] = ()
) -> list[Absence]:
    """The absences of a recorded trace. After its last probe a host stays as it was then."""
    absences: list[Absence] = []
    for place, node in enumerate(nodes):
        if node in exempt:
            continue
        row = trace.rows[place % len(trace.rows)]
        rng = random_stream(seed, "churn", node)
        away_since = 0.0 if row[0] == "0" else None
        for probe in range(1, len(row)):
            if row[probe] == row[probe - 1]:
                continue
            at = (probe - 1 + rng.random()) * trace.interval
            if away_since is None:
                away_since = at
            else:
                absences.append(Absence(away_since, at, node))
                away_since = None
        if away_since is not None:
            absences.append(Absence(away_since, FOR_EVER, node))
    return in_order(absences)


def session_churn(
    nodes: Sequence[NodeId],
    there: Spread,
    away: Spread,
    until: float,
    seed: int,
    exempt: Collection[NodeId] = (),
) -> list[Absence]:
    """Sessions and absences by turns, up to `until`; an absence that began before it ends when it ends."""
    cycle = there.mean + away.mean
    if not math.isfinite(cycle):
        raise UsageError(f"{there} and {away}: one of them has no mean; give a Pareto distribution a shape above 1")
    require(cycle > 0, f"mean of a session and an absence together: {cycle} must be above 0")
    absences: list[Absence] = []
    for node in nodes:
        if node in exempt:
            continue
        rng = random_stream(seed, "churn", node)
        now, is_there = -CYCLES_BEFORE_START * cycle, rng.random() < there.mean / cycle
        while now < until:
            end = now + (there if is_there else away).draw(rng)
            if not is_there and end > 0:
                absences.append(Absence(max(now, 0.0), end, node))
                if len(absences) > ABSENCES_MAX:
                    raise UsageError(f"more than {ABSENCES_MAX} absences; make sessions longer, or the run shorter")
            now, is_there = end, not is_there
    return in_order(absences)


def mass_failure(
    nodes: Sequence[NodeId],
    share: float,
    at: float,
    seed: int,
    back_at: float = FOR_EVER,
    exempt: Collection[NodeId] = (),
) -> list[Absence]:
    """`share` of the nodes that are not exempt, rounded to whole nodes, go at once."""
    if not 0 <= share <= 1:
        raise UsageError(f"share: {share} is no share; give a number from 0 to 1")
    if not 0 <= at < back_at:
        raise UsageError(f"back_at: {back_at} is not after the failure at {at}")
    candidates = [node for node in nodes if node not in exempt]
    chosen = random_stream(seed, "churn", "mass failure").sample(candidates, round(share * len(candidates)))
    return in_order([Absence(at, back_at, node) for node in chosen])


class PeerSession(msgspec.Struct, frozen=True, order=True):
    """A node that comes once, at `begin`, and goes for good at `end`."""

    begin: float
    end: float
    node: NodeId


DAY = 86_400.0


def peer_sessions(least: int, most: int, *, median: float, sigma: float, until: float, seed: int) -> list[PeerSession]:
    """Nodes of a file-sharing network, each there for one session: log-normal, with this median; arrivals are a Poisson
    process whose rate swings with the time of day, so that between `least` and `most` are there. Those that are there
    at time zero begin then. (Frey thesis, sections 10.4.1 and 15.1, whose recorded trace is not to be had.)"""
    require(0 < least <= most, f"least {least}, most {most}: give 0 < least <= most")
    require(median > 0 and sigma >= 0 and until > 0, "median, sigma and until: give spans above 0")
    mean = median * math.exp(sigma**2 / 2)
    rng = random_stream(seed, "churn", "sessions")
    now, sessions = -CYCLES_BEFORE_START * mean, list[PeerSession]()
    while (now := now + rng.expovariate(most / mean)) < until:
        swing = 0.5 * (1 - math.cos(2 * math.pi * now / DAY))
        # Thinned: the rate is at most that with which `most` would be there.
        is_kept = rng.random() * most < least + (most - least) * swing
        length = median * math.exp(sigma * normal(rng))
        if is_kept and now + length > 0:
            sessions.append(PeerSession(max(0.0, now), now + length, f"n{len(sessions)}"))
            require(len(sessions) <= ABSENCES_MAX, f"more than {ABSENCES_MAX} sessions; make the run shorter")
    return sorted(sessions)


def normal(rng: RandomStream) -> float:
    """By Box and Muller."""
    return math.sqrt(-2 * math.log(1 - rng.random())) * math.cos(2 * math.pi * rng.random())


def in_order(absences: list[Absence]) -> list[Absence]:
    return sorted(absences)
