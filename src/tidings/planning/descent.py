"""How far a tree is from its goal, and what each shift does to that: what searches without a program go by.

The distance is the sum, over the goal links that are missing, of the links on the way between their ends, less one: so
many shifts make the links one after the other, if none helps or hinders another one (spec dependable.md 3.5.6).

What shift(i, j, k) does to it takes no search. Whatever is behind i comes nearer by one to what is behind k, farther
by one from all others on j's side. So with p(i-j) missing links whose way crosses i-j, and p(i-j-k) whose way goes on
to k,

    distance after - distance before = p(i-j) - 2 p(i-j-k)

and a shift is worth a look only if some way crosses i-j-k.
"""

from collections import Counter

from tidings.model.identity import NodeId
from tidings.planning.tree import Link, OverlayTree, link, path_between

Turn = tuple[NodeId, NodeId, NodeId]
"""i, j, k: as in shift(i, j, k)."""


class Descent:
    """A tree on its way, changed shift by shift."""

    def __init__(self, tree: OverlayTree, goal: OverlayTree) -> None:
        self.goal = frozenset(goal.links)
        self.links = set(tree.links)
        around = tree.neighbours()
        self.paths: dict[Link, list[NodeId]] = {
            (a, b): path_between(around, a, b) for a, b in goal.links if (a, b) not in self.links
        }

    @property
    def distance(self) -> int:
        return sum(len(path) - 2 for path in self.paths.values())

    def turns(self) -> dict[Turn, int]:
        """Every shift along a missing link's way, and what it does to the distance. Sorted by name."""
        crossing: Counter[Link] = Counter()
        going_on: Counter[Turn] = Counter()
        for path in self.paths.values():
            for place in range(len(path) - 1):
                crossing[link(path[place], path[place + 1])] += 1
            for place in range(len(path) - 2):
                i, j, k = path[place : place + 3]
                if link(i, j) not in self.goal:
                    going_on[i, j, k] += 1
                if link(j, k) not in self.goal:
                    going_on[k, j, i] += 1
        return {(i, j, k): crossing[link(i, j)] - 2 * count for (i, j, k), count in sorted(going_on.items())}

    def shift(self, i: NodeId, j: NodeId, k: NodeId) -> None:
        """Carries it out; all ways over i-j are new, those that go on to k without j, the others by way of k."""
        old, new = link(i, j), link(i, k)
        self.links.remove(old)
        self.links.add(new)
        self.paths.pop(new, None)
        for path in self.paths.values():
            reroute(path, i, j, k)

    def slide(self) -> list[Turn]:
        """Makes the missing link with the shortest way, whatever that does to the others (G-31).

        Some link of the way is not in the goal, which would have a circle otherwise. Its two ends are moved along the
        way to where they are to be. A goal link that it becomes before is as welcome: either way fewer are missing.
        """
        _, path = min((len(way), list(way)) for way in self.paths.values())
        missing = len(self.paths)
        left = next(at for at in range(len(path) - 1) if link(path[at], path[at + 1]) not in self.goal)
        right, done = left + 1, list[Turn]()
        while len(self.paths) == missing:
            if left > 0:
                turn = (path[right], path[left], path[left - 1])
                left -= 1
            else:
                turn = (path[left], path[right], path[right + 1])
                right += 1
            self.shift(*turn)
            done.append(turn)
        return done

    def copy(self) -> "Descent":
        twin = object.__new__(Descent)
        twin.goal, twin.links = self.goal, set(self.links)
        twin.paths = {each: list(path) for each, path in self.paths.items()}
        return twin


def reroute(path: list[NodeId], i: NodeId, j: NodeId, k: NodeId) -> None:
    """The way after the link i-j has become i-k."""
    if i not in path or j not in path:
        return
    place, other = path.index(i), path.index(j)
    if abs(place - other) != 1:
        return
    step = other - place
    beyond = other + step
    if 0 <= beyond < len(path) and path[beyond] == k:
        del path[other]
    else:
        path.insert(max(place, other), k)
