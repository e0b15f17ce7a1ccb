"""What was published and what came, and the figures of it."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

SOON = 1.0
"""Seconds within which a delivery is in time."""


class OutageFigures(msgspec.Struct, frozen=True):
    system: str
    kind: str
    owed: int
    within: float
    """The share of what was owed during the outage that came in a second."""
    within_before: float
    p50: float
    p99: float
    """Seconds, of what was published during the outage and came."""
    gap_p99: float
    gap_max: float
    lost: int
    lost_during: int
    twice: int

    def line(self) -> str:
        return (
            f"{self.system:18} {self.kind:10} owed {self.owed:6}  within 1 s {self.within:7.2%} (before "
            f"{self.within_before:7.2%})  p50 {self.p50:7.3f}  p99 {self.p99:7.3f} s  gap p99 {self.gap_p99:5.2f}, "
            f"longest {self.gap_max:5.2f} s  lost {self.lost} ({self.lost_during} of the outage)  twice {self.twice}"
        )


class OutageTally:
    def __init__(self) -> None:
        self.published: dict[str, tuple[float, tuple[int, ...]]] = {}
        """By event: when, and to which subscribers it is owed."""
        self.came: defaultdict[tuple[str, int], list[tuple[float, str]]] = defaultdict(list)
        """By kind of subscription and subscriber: when what came."""
        self.killed_at = self.back_at = 0.0
        self.heard_at = 0.0

    def publish(self, now: float, event: str, owed: Iterable[int]) -> None:
        self.published[event] = now, tuple(owed)

    def deliver(self, now: float, kind: str, subscriber: int, event: str) -> None:
        self.came[kind, subscriber].append((now, event))
        self.heard_at = now

    def is_complete(self, kinds: Sequence[str]) -> bool:
        owed = sum(len(owed) for _, owed in self.published.values())
        return all(self.different(kind) >= owed for kind in kinds)

    def different(self, kind: str) -> int:
        return sum(len({event for _, event in came}) for (which, _), came in self.came.items() if which == kind)

    def figures(self, system: str, kind: str) -> OutageFigures:
        first: dict[tuple[int, str], float] = {}
        twice = 0
        for (which, subscriber), came in self.came.items():
            if which != kind:
                continue
            for at, event in came:
                twice += (subscriber, event) in first
                first.setdefault((subscriber, event), at)
        during: list[float | None] = []
        before: list[float | None] = []
        lost = lost_during = 0
        for event, (at, owed) in self.published.items():
            part = before if at < self.killed_at else during if at < self.back_at else None
            for subscriber in owed:
                came_at = first.get((subscriber, event))
                lost += came_at is None
                if part is not None:
                    part.append(None if came_at is None else came_at - at)
                lost_during += came_at is None and part is during
        delays = sorted(delay for delay in during if delay is not None)
        gaps = sorted(self.gaps(kind))
        return OutageFigures(
            system,
            kind,
            len(during),
            soon(during),
            soon(before),
            at_share(delays, 0.5),
            at_share(delays, 0.99),
            at_share(gaps, 0.99),
            gaps[-1] if gaps else 0.0,
            lost,
            lost_during,
            twice,
        )

    def gaps(self, kind: str) -> Iterable[float]:
        """The longest of each subscription, from the moment before the outage to the last publication."""
        end = max(at for at, _ in self.published.values())
        for (which, _), came in self.came.items():
            if which == kind:
                times = [at for at, _ in came]
                since = max(0, bisect_left(times, self.killed_at) - 1)
                inside = [at for at in times[since:] if at <= end] + [end]
                yield max((late - early for early, late in pairwise(inside)), default=0.0)


def soon(delays: Sequence[float | None]) -> float:
    return sum(delay is not None and delay <= SOON for delay in delays) / max(1, len(delays))


def at_share(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")
