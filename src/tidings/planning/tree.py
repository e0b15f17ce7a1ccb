"""A tree of brokers as a value: where a plan begins, and where it is to end.

Whoever plans needs a tree and nothing less: connected, so that everybody is reached; without circles, so that an event
comes once. So an `OverlayTree` cannot be anything else, and what is refused is told in words of the network: which
brokers are apart from the others, which links go round in a circle.

Links have no direction; a link is written once, the smaller name first (`link`). Everything stands in order of names,
so equal trees are equal values, and whatever is computed from one is computed in the same order everywhere.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId

Link = tuple[NodeId, NodeId]
Neighbours = Mapping[NodeId, Sequence[NodeId]]

BROKERS_MAX = 2_000
"""Brokers of a tree that is planned for. A larger network is changed region by region."""

NAMED_MAX = 8
"""Brokers or links that an error names before it only counts."""


def link(a: NodeId, b: NodeId) -> Link:
    return (a, b) if a < b else (b, a)


class OverlayTree(msgspec.Struct, frozen=True):
    """Brokers and links in order; `tree_of` puts them there."""

    brokers: tuple[NodeId, ...]
    links: tuple[Link, ...]

    def __post_init__(self) -> None:
        if len(self.brokers) > BROKERS_MAX:
            raise UsageError(
                f"a tree of {len(self.brokers)} brokers: at most {BROKERS_MAX} are planned for at once; "
                "give the part that changes, a tree by itself, and plan region by region"
            )
        require_simple(self.brokers, self.links)
        around = self.neighbours()
        pieces = parts_of(around)
        if len(pieces) > 1:
            smallest: list[NodeId] = min(pieces[1:], key=len)
            apart = named(sorted(smallest))
            raise UsageError(f"no tree: {apart} cannot be reached from {self.brokers[0]}; add a link that joins them")
        if len(self.links) > len(self.brokers) - 1:
            circle = " - ".join(circle_in(around))
            raise UsageError(f"no tree: the links {circle} go round in a circle; leave one of them out")

    def neighbours(self) -> dict[NodeId, list[NodeId]]:
        return neighbours_of(self.links, self.brokers)


def tree_of(links: Iterable[Link], brokers: Iterable[NodeId] = ()) -> OverlayTree:
    """The tree of these links; `brokers` only has to name one that has no link, being alone."""
    ordered = [link(a, b) for a, b in links]
    met = {*brokers, *(end for each in ordered for end in each)}
    return OverlayTree(tuple(sorted(met)), tuple(sorted(ordered)))


def require_simple(brokers: Sequence[NodeId], links: Sequence[Link]) -> None:
    if not brokers:
        raise UsageError("no tree: it has no broker; name at least one")
    known = set(brokers)
    if len(known) < len(brokers):
        raise UsageError("brokers: one is named twice")
    seen = set[Link]()
    for a, b in links:
        if a == b:
            raise UsageError(f"no tree: the link {a} - {b} leads from a broker to itself; leave it out")
        if not known.issuperset((a, b)):
            unknown = b if a in known else a
            raise UsageError(f"the link {a} - {b} names {unknown}, which is no broker here; is it spelled right?")
        if (a, b) in seen or (b, a) in seen:
            raise UsageError(f"no tree: the link {a} - {b} is given twice; leave one out")
        seen.add((a, b))


def neighbours_of(links: Iterable[Link], brokers: Iterable[NodeId] = ()) -> dict[NodeId, list[NodeId]]:
    around: dict[NodeId, list[NodeId]] = {broker: [] for broker in brokers}
    for a, b in links:
        around.setdefault(a, []).append(b)
        around.setdefault(b, []).append(a)
    return around


def reached_from(around: Neighbours, root: NodeId) -> dict[NodeId, NodeId | None]:
    """Every broker that can be reached, in breadth-first order, and the one before it on the way."""
    before: dict[NodeId, NodeId | None] = {root: None}
    waiting = deque([root])
    while waiting:
        broker = waiting.popleft()
        for other in around.get(broker, ()):
            if other not in before:
                before[other] = broker
                waiting.append(other)
    return before


def path_between(around: Neighbours, a: NodeId, b: NodeId) -> list[NodeId]:
    """The brokers from a to b; empty if there is no way."""
    before = reached_from(around, b)
    if a not in before:
        return []
    path = [a]
    while (following := before[path[-1]]) is not None:
        path.append(following)
    return path


def parts_of(around: Neighbours) -> list[list[NodeId]]:
    met = set[NodeId]()
    pieces = []
    for root in around:
        if root not in met:
            piece = list(reached_from(around, root))
            met.update(piece)
            pieces.append(piece)
    return pieces


def is_tree(links: Iterable[Link], brokers: Iterable[NodeId]) -> bool:
    joined, everybody = list(links), list(brokers)
    around = neighbours_of(joined, everybody)
    return len(around) == len(everybody) == len(joined) + 1 and len(parts_of(around)) == 1


def circle_in(around: Neighbours) -> list[NodeId]:
    """Brokers of some circle, the first repeated at the end: what is left when leaves are taken off again and again."""
    left = {broker: set(others) for broker, others in around.items()}
    leaves = [broker for broker, others in left.items() if len(others) == 1]
    while leaves:
        leaf = leaves.pop()
        for other in left.pop(leaf):
            left[other].discard(leaf)
            if len(left[other]) == 1:
                leaves.append(other)
    first = min(broker for broker, others in left.items() if others)
    circle, met = [first], {first: 0}
    while True:
        before = circle[-2] if len(circle) > 1 else None
        following = min(other for other in left[circle[-1]] if other != before)
        if following in met:
            return [*circle[met[following] :], following]
        met[following] = len(circle)
        circle.append(following)


def named(things: Sequence[str]) -> str:
    """A list for an error, cut where it gets long."""
    shown = ", ".join(things[:NAMED_MAX])
    return shown if len(things) <= NAMED_MAX else f"{shown} and {len(things) - NAMED_MAX} more"
