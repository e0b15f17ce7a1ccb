"""The tree of twenty servers, who is killed, and who wants what."""

from collections.abc import Iterator

import msgspec

PARENTS = (-1, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 8, 8, 9)
"""The server above each: one, three, six, and ten leaves."""

NAMES = tuple(f"b{place:02}" for place in range(len(PARENTS)))
LEAVES = tuple(place for place in range(len(PARENTS)) if place not in PARENTS)
KILLED = (1, 4)
"""4 is below 1. Behind them are 10 and 11, each alone, and 5 with 12 and 13."""

TOPICS = len(LEAVES)
WANTED = (0, 1, 4)
"""The subscriber of the n-th leaf wants the topics n, n + 1 and n + 4."""


def links() -> Iterator[tuple[int, int]]:
    for place, above in enumerate(PARENTS):
        if above >= 0:
            yield above, place


def topics_of(leaf: int) -> tuple[int, ...]:
    return tuple((leaf + step) % TOPICS for step in WANTED)


def subscribers_of(topic: int) -> tuple[int, ...]:
    """The leaves, by their number."""
    return tuple(leaf for leaf in range(len(LEAVES)) if topic in topics_of(leaf))


class OutagePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds, and events a second of all publishers together."""

    rate: float = 100.0
    resting: float = 30.0
    """Between the start and the first event: views are filled, and what a broker takes at rest is measured."""
    before: float = 15.0
    outage: float = 10.0
    behind: float = 15.0
    settling: float = 60.0
    """When for so long nothing has come, nothing more is hoped for."""
    payload_bytes: int = 200

    @property
    def seconds(self) -> float:
        return self.before + self.outage + self.behind
