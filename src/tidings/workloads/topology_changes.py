"""Trees of brokers, and the trees that they are to become: what planners are tried on (spec 4.1, W-ITT; G-37, G-60).

A tree is drawn broker by broker. Each is given a number of links it may have, all numbers up to the largest equally
likely; the next broker goes below the first that has room (level by level: balanced), or below any that has
(unbalanced). If nobody has room, the last one is given some.

The goal is the tree with a share of its links changed: they are taken out one at a time, and the two parts are joined
by a random pair of brokers that was not linked at the beginning. So the goal is no better a network than the first,
only another one, which is what a planner needs to be tried on.

    links    a, b, latency, is_today, is_goal: of every link of either tree; latencies are uniform, in seconds
"""

from typing import ClassVar

from tidings.planning.tree import Link, OverlayTree, link, neighbours_of, reached_from, tree_of
from tidings.workloads.table import Columns, Listed, Random, Row, stream
from tidings.workloads.workload import Workload, require

BROKERS_MAX = 2_000


class TopologyChange(Workload, frozen=True, kw_only=True, tag="topology-change"):
    """The trees of W-ITT: a random tree of brokers, and the same with a share of its links changed."""

    tables: ClassVar[tuple[str, ...]] = ("links",)

    brokers: int = 60
    degree_max: int = 6
    """Links of a broker in the first tree; the source has 5, 6 and 7."""
    is_balanced: bool = True
    change: float = 0.2
    """Share of the links that the goal does not have."""
    latency_min: float = 0.010
    latency_max: float = 0.050

    def check(self) -> None:
        self.require_positive("latency_min")
        self.require_shares("change")
        require(4 <= self.brokers <= BROKERS_MAX, f"brokers: {self.brokers} is not possible; give 4 to {BROKERS_MAX}")
        require(self.degree_max >= 3, f"degree_max: {self.degree_max} is not possible; give 3 or more")
        require(self.latency_min <= self.latency_max, "latency_max: it is below latency_min")

    def today(self) -> OverlayTree:
        """The root is b0."""
        random = stream(self.seed, "topology-change/tree")
        free = [int(random.integers(2, self.degree_max + 1))]
        links: list[Link] = []
        for number in range(1, self.brokers):
            able = [place for place, count in enumerate(free) if count > 0]
            parent = able[0] if self.is_balanced else able[int(random.integers(len(able)))]
            free[parent] -= 1
            degree = int(random.integers(1, self.degree_max + 1))
            is_last = len(able) == 1 and free[parent] == 0
            free.append(max(degree - 1, 1) if is_last else degree - 1)
            links.append((name(parent), name(number)))
        return tree_of(links)

    def goal(self) -> OverlayTree:
        today, random = self.today(), stream(self.seed, "topology-change/goal")
        count = round(self.change * len(today.links))
        links, chosen = set(today.links), random.choice(len(today.links), count, replace=False)
        for place in chosen.tolist():
            links.remove(today.links[place])
            links.add(self.draw_link(random, today, links, today.links[place]))
        return tree_of(links)

    def draw_link(self, random: Random, today: OverlayTree, links: set[Link], gone: Link) -> Link:
        """Joins the two parts, by brokers that are not linked today."""
        one = reached_from(neighbours_of(sorted(links), today.brokers), gone[0])
        sides = sorted(one), [broker for broker in today.brokers if broker not in one]
        there = set(today.links)
        if all(link(a, b) in there for a in sides[0] for b in sides[1]):
            return gone  # Nothing else joins the two parts; so it is in the smallest trees.
        while True:
            a, b = (side[int(random.integers(len(side)))] for side in sides)
            if link(a, b) not in there:
                return link(a, b)

    def links(self) -> Listed:
        columns: Columns = {
            "a": "string",
            "b": "string",
            "latency": "double",
            "is_today": "boolean",
            "is_goal": "boolean",
        }
        return Listed(columns, self.link_rows)

    def link_rows(self) -> list[Row]:
        today, goal = set(self.today().links), set(self.goal().links)
        every = sorted(today | goal)
        drawn = stream(self.seed, "topology-change/latencies").uniform(self.latency_min, self.latency_max, len(every))
        return [
            {"a": a, "b": b, "latency": float(latency), "is_today": (a, b) in today, "is_goal": (a, b) in goal}
            for (a, b), latency in zip(every, drawn.tolist(), strict=True)
        ]


def name(number: int) -> str:
    return f"b{number}"
