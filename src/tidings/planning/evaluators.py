"""Which tree would serve better: evaluators, each with a goal, what it gains, and the model behind the number.

An evaluator is a function from today's tree and the traffic to a better tree. There are five, and `EVALUATORS` takes
more:

    latency     events arrive sooner: the sum over all events of the latency of their way becomes less
    degree      the same, and no broker has more than so many links
    load        the busiest broker has less to do, at whatever latency
    drain       nothing passes through some brokers any more: they become leaves, and can be stopped
    grow        new brokers find their place

The best tree for given traffic is hard to find (the optimum communication spanning tree is NP-hard), so what is found
is good and not proven best. The search changes one link at a time: a link is cut, and the two parts are joined by the
pair of brokers for which the sum is least. With the links cut, both parts are trees, so for all pairs at once the sum
is

    sum over a in one part, b in the other, of rate(a, b) (way(a, u) + latency(u, v) + way(v, b))

The change that gains most is made, and so on until none gains a thousandth. A goal that differs from today's tree in
few links is worth more than one that is a little better, since each changed link is to be paid for: so at most
`changes_max` links are changed.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.planning.traffic import MODEL, Array, Traffic, TrafficArrays, TreeFigures
from tidings.planning.tree import OverlayTree, link, named, neighbours_of, parts_of, reached_from, tree_of

CHANGES_MAX = 10
GAIN_MIN = 0.001
"""Share of the sum; less is not worth the change of a link."""
EVALUATED_MAX = 300
"""Brokers of a tree that is looked at; the work grows with the cube of it."""
LOAD_PAIRS = 8
"""Pairs of brokers for each cut link whose loads are computed: those with the least latency."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a better tree has to be."""

    changes_max: int = CHANGES_MAX
    degree_max: int | None = None
    drained: tuple[NodeId, ...] = ()
    new: tuple[NodeId, ...] = ()


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    goal: OverlayTree
    before: TreeFigures
    after: TreeFigures
    """Of the same traffic; that of new brokers is in both where the table has it, and before they are not."""
    changes: int
    """Links of today that the goal does not have."""
    model: str = MODEL

    def gain(self, name: str) -> float:
        """The share by which hops, latency or load_max are less; below 0 if they are more."""
        before, after = getattr(self.before, name), getattr(self.after, name)
        return 1.0 - after / before if before else 0.0


Evaluator = Callable[[OverlayTree, Traffic, Wish], OverlayTree]


def propose(
    name: str, today: OverlayTree, traffic: Traffic, wish: Wish, evaluators: "Mapping[str, Evaluator] | None" = None
) -> Proposal:
    known = EVALUATORS if evaluators is None else evaluators
    if name not in known:
        raise UsageError(f"nothing evaluates {name!r}; choose from {', '.join(known)}")
    if len(today.brokers) > EVALUATED_MAX:
        raise UsageError(
            f"a tree of {len(today.brokers)} brokers: at most {EVALUATED_MAX} are looked at; give a part of it"
        )
    if not traffic.rates and name in ("latency", "degree", "load"):
        raise UsageError("the table has no rates between brokers of this tree; give a table with the column rate")
    goal = known[name](today, traffic, wish)
    before = TrafficArrays(today.brokers, traffic).figures(today)
    after = TrafficArrays(goal.brokers, traffic).figures(goal)
    return Proposal(goal=goal, before=before, after=after, changes=len(set(today.links) - set(goal.links)))


def with_less_latency(today: OverlayTree, traffic: Traffic, wish: Wish) -> OverlayTree:
    return improved(today, TrafficArrays(today.brokers, traffic), wish, sum_of_ways)


def with_bounded_degree(today: OverlayTree, traffic: Traffic, wish: Wish) -> OverlayTree:
    if wish.degree_max is None or wish.degree_max < 2:
        raise UsageError("degree_max: say how many links a broker may have, 2 or more")
    arrays = TrafficArrays(today.brokers, traffic)
    # Changes that are needed to keep the bound do not count as those that only gain.
    return improved(relieved(today, arrays, wish.degree_max), arrays, wish, sum_of_ways)


def with_less_load(today: OverlayTree, traffic: Traffic, wish: Wish) -> OverlayTree:
    return improved(today, TrafficArrays(today.brokers, traffic), wish, largest_load)


def without_some(today: OverlayTree, traffic: Traffic, wish: Wish) -> OverlayTree:
    """Each drained broker keeps one link. The parts that it held together are joined by the links that cost least."""
    unknown = [broker for broker in wish.drained if broker not in today.brokers]
    if unknown or not wish.drained:
        raise UsageError(f"drained: {named(unknown) or 'nobody'} is no broker of this tree; name brokers that are")
    staying = [broker for broker in today.brokers if broker not in wish.drained]
    if not staying:
        raise UsageError("drained: nobody would be left; name fewer brokers")
    arrays, gone = TrafficArrays(today.brokers, traffic), set(wish.drained)
    links = [each for each in today.links if gone.isdisjoint(each)]
    joined = join_parts(links, staying, arrays, wish.degree_max)
    around = today.neighbours()
    for broker in wish.drained:
        near = [other for other in around[broker] if other not in gone] or staying
        joined.append(link(broker, nearest(broker, near, arrays)))
    return tree_of(joined)


def with_new_ones(today: OverlayTree, traffic: Traffic, wish: Wish) -> OverlayTree:
    """Each new broker becomes a leaf where its traffic has the shortest ways; if it has none, at the nearest broker."""
    if not wish.new or any(broker in today.brokers for broker in wish.new):
        raise UsageError("new: name brokers that are not in the tree yet")
    tree = today
    for broker in wish.new:
        wider = (*tree.brokers, broker)
        arrays = TrafficArrays(wider, traffic)
        ways = arrays.distances(tree.links)[:-1, :-1]
        wanted = arrays.both[-1, :-1]
        costs = arrays.latencies[-1, :-1] * max(float(wanted.sum()), 1e-9) + ways @ wanted
        for at, near in enumerate(tree.neighbours().values()):
            if wish.degree_max is not None and len(near) >= wish.degree_max:
                costs[at] = float("inf")
        tree = tree_of([*tree.links, (broker, tree.brokers[int(costs.argmin())])])
    return tree


EVALUATORS: dict[str, Evaluator] = {
    "latency": with_less_latency,
    "degree": with_bounded_degree,
    "load": with_less_load,
    "drain": without_some,
    "grow": with_new_ones,
}

Objective = Callable[[OverlayTree, TrafficArrays], float]


def sum_of_ways(tree: OverlayTree, arrays: TrafficArrays) -> float:
    return float((arrays.rates * arrays.distances(tree.links)).sum())


def largest_load(tree: OverlayTree, arrays: TrafficArrays) -> float:
    return float(arrays.loads(tree).max())


def improved(today: OverlayTree, arrays: TrafficArrays, wish: Wish, objective: Objective) -> OverlayTree:
    tree, value = today, objective(today, arrays)
    first = set(today.links)
    while True:
        candidates = [
            (objective(other, arrays), other.links, other)
            for other in neighbouring_trees(
                tree, arrays, wish.degree_max, 1 if objective is sum_of_ways else LOAD_PAIRS
            )
            if len(first.difference(other.links)) <= wish.changes_max
        ]
        if not candidates:
            return tree
        best, _, other = min(candidates, key=lambda each: each[:2])
        if best >= value * (1 - GAIN_MIN):
            return tree
        tree, value = other, best


def neighbouring_trees(
    tree: OverlayTree, arrays: TrafficArrays, degree_max: int | None, pairs: int
) -> list[OverlayTree]:
    """For each link that is cut, those with the best few pairs of brokers to join the parts again."""
    import numpy

    found = []
    for cut in tree.links:
        left = [each for each in tree.links if each != cut]
        costs, one, other = joining_costs(left, tree.brokers, cut[0], arrays, degree_max)
        order = numpy.argsort(costs, axis=None, kind="stable")[: pairs + 1]
        for flat in order.tolist():
            u, v = divmod(flat, len(other))
            joined = link(tree.brokers[one[u]], tree.brokers[other[v]])
            if joined != cut and costs[u, v] < float("inf"):
                found.append(tree_of([*left, joined]))
    return found


def joining_costs(
    links: Sequence[tuple[NodeId, NodeId]],
    brokers: Sequence[NodeId],
    end: NodeId,
    arrays: TrafficArrays,
    degree_max: int | None,
) -> tuple[Array, list[int], list[int]]:
    """What events between the two parts cost with each pair of brokers as their link; and the places of both parts."""
    import numpy

    around = neighbours_of(links, brokers)
    side = reached_from(around, end)
    one = [arrays.place[broker] for broker in brokers if broker in side]
    other = [arrays.place[broker] for broker in brokers if broker not in side]
    ways = arrays.distances(links)
    between = arrays.both[numpy.ix_(one, other)]
    rate = float(between.sum())
    to_u = ways[numpy.ix_(one, one)] @ between.sum(axis=1)
    to_v = ways[numpy.ix_(other, other)] @ between.sum(axis=0)
    # Without traffic between the parts, the nearest pair joins them.
    costs = to_u[:, None] + to_v[None, :] + max(rate, 1e-9) * arrays.latencies[numpy.ix_(one, other)]
    if degree_max is not None:
        for places, axis in ((one, 0), (other, 1)):
            full = [at for at, place in enumerate(places) if len(around[arrays.brokers[place]]) >= degree_max]
            if axis == 0:
                costs[full, :] = numpy.inf
            else:
                costs[:, full] = numpy.inf
    return costs, one, other


def relieved(today: OverlayTree, arrays: TrafficArrays, degree_max: int) -> OverlayTree:
    """No broker has more links than it may: the links of those that do are moved where they cost least."""
    tree = today
    while True:
        over = [broker for broker, near in tree.neighbours().items() if len(near) > degree_max]
        if not over:
            return tree
        candidates = []
        for cut in tree.links:
            if over[0] in cut:
                left = [each for each in tree.links if each != cut]
                costs, one, other = joining_costs(left, tree.brokers, cut[0], arrays, degree_max)
                u, v = divmod(int(costs.argmin()), len(other))
                if costs[u, v] < float("inf"):
                    moved = tree_of([*left, link(tree.brokers[one[u]], tree.brokers[other[v]])])
                    candidates.append((sum_of_ways(moved, arrays), moved.links, moved))
        assert candidates, "two parts of a tree always have brokers with fewer than two links"
        tree = min(candidates, key=lambda each: each[:2])[2]


def join_parts(
    links: list[tuple[NodeId, NodeId]], brokers: list[NodeId], arrays: TrafficArrays, degree_max: int | None
) -> list[tuple[NodeId, NodeId]]:
    """The parts are joined, one after the other, by the shortest links that there may be."""
    joined = list(links)
    while len(pieces := parts_of(neighbours_of(joined, brokers))) > 1:
        around, first = neighbours_of(joined, brokers), pieces[0]
        free = [broker for broker in brokers if degree_max is None or len(around[broker]) < degree_max]
        able = [(a, b) for a in free if a in set(first) for b in free if b not in set(first)]
        if not able:
            raise UsageError(f"degree_max {degree_max}: the parts that are left cannot be joined; allow more links")
        joined.append(
            link(*min(able, key=lambda pair: (arrays.latencies[arrays.place[pair[0]], arrays.place[pair[1]]], pair)))
        )
    return joined


def nearest(broker: NodeId, others: Sequence[NodeId], arrays: TrafficArrays) -> NodeId:
    return min(others, key=lambda other: (arrays.latencies[arrays.place[broker], arrays.place[other]], other))
