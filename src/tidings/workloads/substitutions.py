"""Links of a tree that are replaced by others, at random: how chapter 7 of the source changes a topology.

At even intervals a link breaks, drawn from those that are there, and another one, drawn among those that join the two
parts again, comes `repair_after` seconds later. Both are of the tree as it is *planned*: a break takes the link out of
it and puts the other one in at once, so that it is a tree at any time however many changes overlap (G-16). The ends of
new links have fewer than `degree` neighbours, where there are such (G-10). Where one end of a lost link looks for the
new one itself, as in overlays that mend themselves, both links have that end in common (`shares_end`). A pair that has
just been parted is not joined again.

Source: dynamic-topologies.md 4.1.
"""

from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from tidings.machine.streams import RandomStream, random_stream

Pair = tuple[str, str]

PARTED_FOR = 0.02
"""Seconds until two that were parted may be joined again."""

DRAWS_MAX = 20


class Substitution(msgspec.Struct, frozen=True):
    broken_at: float
    linked_at: float
    head: tuple[str, ...]
    """From one end of the old link to that of the new one on its side."""
    tail: tuple[str, ...]
    """From the other end of the new link to the other end of the old one."""

    @property
    def old(self) -> Pair:
        return self.head[0], self.tail[-1]

    @property
    def new(self) -> Pair:
        return self.head[-1], self.tail[0]


def substitutions(
    edges: Iterable[Pair],
    times: Sequence[float],
    repair_after: float,
    seed: int,
    degree: int = 4,
    shares_end: bool = False,
) -> list[Substitution]:
    rng = random_stream(seed, "substitutions")
    tree = PlannedTree(edges, degree, shares_end)
    made: list[Substitution] = []
    for at in times:
        for _ in range(DRAWS_MAX):
            drawn = tree.draw(rng, at, repair_after)
            if drawn is not None:
                made.append(drawn)
                break
    return made


class PlannedTree:
    def __init__(self, edges: Iterable[Pair], degree: int, shares_end: bool = False) -> None:
        self.degree, self.shares_end = degree, shares_end
        self.near: dict[str, dict[str, None]] = {}
        self.up_at: dict[Pair, float] = {}
        self.parted: deque[tuple[float, set[str]]] = deque()
        for pair in edges:
            self.join(*pair, at=0.0)

    def join(self, one: str, other: str, at: float) -> None:
        self.near.setdefault(one, {})[other] = None
        self.near.setdefault(other, {})[one] = None
        self.up_at[one, other] = at

    def draw(self, rng: RandomStream, at: float, repair_after: float) -> Substitution | None:
        up = [pair for pair, since in self.up_at.items() if since + PARTED_FOR <= at]
        if not up:
            return None
        first, last = up[rng.below(len(up))]
        if rng.below(2):
            first, last = last, first
        ways = {end: self.ways(end, without) for end, without in ((first, last), (last, first))}
        near = first if self.shares_end else self.draw_end(rng, list(ways[first]))
        far = self.draw_end(rng, list(ways[last]))
        while self.parted and self.parted[0][0] + PARTED_FOR < at:
            self.parted.popleft()
        if {near, far} == {first, last} or {near, far} in [pair for _, pair in self.parted]:
            return None
        self.parted.append((at + repair_after, {first, last}))
        del self.near[first][last], self.near[last][first]
        self.up_at.pop((first, last), None)
        self.up_at.pop((last, first), None)
        self.join(near, far, at + repair_after)
        head, tail = way_back(ways[first], near)[::-1], way_back(ways[last], far)
        return Substitution(at, at + repair_after, tuple(head), tuple(tail))

    def draw_end(self, rng: RandomStream, side: list[str]) -> str:
        free = [name for name in side if len(self.near[name]) < self.degree] or side
        return free[rng.below(len(free))]

    def ways(self, begin: str, without: str) -> dict[str, str | None]:
        """All that are reached from there, and where each was reached from."""
        reached: dict[str, str | None] = {begin: None}
        queue = deque([begin])
        while queue:
            name = queue.popleft()
            for other in self.near[name]:
                if other not in reached and not (name == begin and other == without):
                    reached[other] = name
                    queue.append(other)
        return reached


def way_back(ways: dict[str, str | None], name: str | None) -> list[str]:
    way = []
    while name is not None:
        way.append(name)
        name = ways[name]
    return way
