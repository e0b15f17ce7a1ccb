"""Trees of brokers, and which of them fail: the setting of the GEPS experiments (dependable.md 4.1, W-GEPS).

A tree has a root; each broker has as many neighbours as drawn, uniformly from 2 up to the largest degree. In a
*balanced* tree those who are to have others below them are taken in the order in which they came, so that level after
level is filled; in an *unbalanced* one anybody is taken next.

Three kinds of failures:

    uniform     a share of the brokers is down together, from one moment to another
    clustered   the same share, but in branches of 4 or 5 adjacent brokers (a power supply, a rack)
    machines    each broker fails as a machine of a cluster does: 29 days of machine failures squeezed into the run
                (`machines.py`, the stand-in for the Google trace)

The root does not fail in the first two, nor does anybody twice. What fails is drawn from the seed, whatever system is
tried on it.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from tidings.machine.streams import RandomStream, random_stream
from tidings.workloads.churn import Absence
from tidings.workloads.machines import Machines
from tidings.workloads.workload import require

FailureKind = Literal["uniform", "clustered", "machines"]

CLUSTER_SIZES = (4, 5)

DEGREE_MIN = 2


class FailingTree(msgspec.Struct, frozen=True, kw_only=True):
    brokers: int = 400
    degree: int = 4
    """Neighbours of a broker, at most."""
    is_balanced: bool = True
    failures: FailureKind = "uniform"
    rate: float = 0.1
    """The share of brokers that fail together."""
    down_at: float = 20.0
    up_at: float = 40.0
    duration: float = 60.0
    """Seconds into which a trace of machines is squeezed."""
    seed: int = 1

    def __post_init__(self) -> None:
        require(self.brokers >= DEGREE_MIN, f"brokers: {self.brokers} make no tree; give at least {DEGREE_MIN}")
        require(self.degree >= DEGREE_MIN, f"degree: {self.degree}; give at least {DEGREE_MIN}")
        require(0 <= self.rate < 1, f"rate: {self.rate} is no share below 1")
        require(0 <= self.down_at < self.up_at, f"down_at: {self.down_at} is not before up_at {self.up_at}")

    def parents(self) -> list[int]:
        """The broker above each, by number; -1 for the root, which is 0."""
        rng = random_stream(self.seed, "failing tree", f"{self.brokers}/{self.degree}/{self.is_balanced}")
        parents, open_brokers = [-1], [0]
        while len(parents) < self.brokers:
            place = 0 if self.is_balanced else rng.below(len(open_brokers))
            above = open_brokers.pop(place)
            neighbours = DEGREE_MIN + rng.below(self.degree - DEGREE_MIN + 1)
            below = neighbours if above == 0 else neighbours - 1
            for _ in range(min(below, self.brokers - len(parents))):
                open_brokers.append(len(parents))
                parents.append(above)
        return parents

    def absences(self, parents: Sequence[int], names: Sequence[str]) -> list[Absence]:
        rng = random_stream(self.seed, "failing tree", "failures", self.failures)
        count = round(self.rate * len(parents))
        if self.failures == "machines":
            law = Machines(seed=self.seed, nodes=len(parents), duration=self.duration)
            return [Absence(each.down_at, each.up_at, names[each.node]) for each in law.outage_plan()]
        chosen = clusters(parents, count, rng) if self.failures == "clustered" else uniform(len(parents), count, rng)
        return [Absence(self.down_at, self.up_at, names[place]) for place in sorted(chosen)]


def uniform(brokers: int, count: int, rng: RandomStream) -> set[int]:
    return set(rng.sample(range(1, brokers), min(count, brokers - 1)))


def clusters(parents: Sequence[int], count: int, rng: RandomStream) -> set[int]:
    """Adjacent brokers, from one at random downwards and then up, until there are as many as drawn."""
    below: dict[int, list[int]] = {}
    for place, above in enumerate(parents):
        below.setdefault(above, []).append(place)
    chosen: set[int] = set()
    while len(chosen) < min(count, len(parents) - 1):
        size = min(rng.choice(CLUSTER_SIZES), count - len(chosen))
        begin = 1 + rng.below(len(parents) - 1)
        cluster: list[int] = []
        ahead = [begin]
        while ahead and len(cluster) < size:
            place = ahead.pop(0)
            if place in chosen or place in cluster or place < 1:
                continue
            cluster.append(place)
            ahead += [*below.get(place, ()), parents[place]]
        chosen |= set(cluster)
    return chosen
