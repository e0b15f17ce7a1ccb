"""The same question as a linear program, solved by HiGHS: the exact time, several sinks, and prices.

    minimise T   where   0 <= f_e <= T rate_e  on network edges,   0 <= f_e <= size_e  on data edges,
                         what comes into a vertex leaves it,  and all blocks are sent

It is slower than the flow and knows more. `exact_horizon` is what the flow is checked against. With several sinks each
has a flow of its own on shared edges (`several_sinks`), and with a price for each path money can be held down within a
time, or time within a price (`cheapest`, `fastest_within`).
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import msgspec
import numpy

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.planning.flows.edges import DATA, PATH, SOURCE, EdgeArrays
from tidings.planning.flows.graph import CollectionGraph, check_graph
from tidings.planning.flows.plan import Pair
from tidings.planning.flows.quickest import with_ways_out


class RealPlan(msgspec.Struct, frozen=True):
    """As a linear program has it: parts of blocks, and not whole seconds."""

    seconds: float
    sends: Mapping[NodeId, Mapping[Pair, float]]
    """For each sink what goes over which path."""
    price: float = 0.0


class Commodity:
    """The flow to one sink, as columns of the program."""

    def __init__(self, graph: CollectionGraph, sink: NodeId, first: int) -> None:
        self.sink, self.first = sink, first
        self.edges = EdgeArrays(graph, sink)
        self.blocks, self.count = graph.blocks, len(self.edges.tails)


def exact_horizon(graph: CollectionGraph, sink: NodeId) -> float:
    """The smallest real T."""
    return several_sinks({sink: graph}).seconds


def several_sinks(jobs: Mapping[NodeId, CollectionGraph]) -> RealPlan:
    """All blocks of every graph are at its sink as soon as possible; the graphs say of the same hosts and paths what is
    to be collected from each."""
    found = solve_program(jobs)
    assert found is not None, "with time enough every source reaches its sink"
    return found


def cheapest(graph: CollectionGraph, sink: NodeId, prices: Mapping[Pair, float], seconds: float) -> RealPlan | None:
    """The least price at which all is there within so many seconds; None where no price is high enough. `prices` are
    for a block, of each path."""
    return solve_program({sink: graph}, prices, seconds=seconds)


def fastest_within(graph: CollectionGraph, sink: NodeId, prices: Mapping[Pair, float], price: float) -> RealPlan | None:
    """The shortest time for at most this price."""
    return solve_program({sink: graph}, prices, price=price)


def solve_program(
    jobs: Mapping[NodeId, CollectionGraph],
    prices: Mapping[Pair, float] | None = None,
    seconds: float = inf,
    price: float = inf,
) -> RealPlan | None:
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, vstack

    if not jobs:
        raise UsageError("several_sinks: give at least one sink with its graph")
    commodities: list[Commodity] = []
    first = 1
    for sink, graph in jobs.items():
        check_graph(graph, sink)
        commodities.append(Commodity(with_ways_out(graph, sink)[0], sink, first))
        first += commodities[-1].count
    if all(each.blocks == jobs[each.sink].hosts[each.sink].blocks for each in commodities):
        return RealPlan(0.0, {each.sink: {} for each in commodities})
    upper = numpy.full(first, inf)
    equal: list[Any] = []
    amounts: list[Any] = []
    shared: dict[tuple[tuple[int, int], float], list[int]] = {}
    for each in commodities:
        edges, columns = each.edges, each.first + numpy.arange(each.count)
        upper[columns] = numpy.where(edges.is_network, inf, edges.sizes)
        ones = numpy.ones(each.count)
        rows = coo_array(
            (
                numpy.concatenate((ones, -ones)),
                (numpy.concatenate((edges.heads, edges.tails)), numpy.tile(columns, 2)),
            ),
            shape=(edges.vertices, first),
        ).tocsr()
        inner = numpy.ones(edges.vertices, dtype=bool)
        inner[[SOURCE, edges.sink]] = False
        sent = coo_array(
            (
                numpy.ones((edges.kinds == DATA).sum()),
                (numpy.zeros((edges.kinds == DATA).sum()), columns[edges.kinds == DATA]),
            ),
            shape=(1, first),
        )
        equal += [rows[inner], sent]
        amounts += [numpy.zeros(inner.sum()), numpy.array([each.blocks])]
        for place in numpy.flatnonzero(edges.is_network & numpy.isfinite(edges.rates)):
            key = int(edges.tails[place]), int(edges.heads[place])
            shared.setdefault((key, float(edges.rates[place])), []).append(each.first + int(place))
    limits: list[tuple[int, int, float]] = []
    limit_amounts: list[float] = []
    for row, ((_, rate), together) in enumerate(shared.items()):
        limits += [(row, each_place, 1.0) for each_place in together]
        limits.append((row, 0, -rate))
        limit_amounts.append(0.0)
    costs = numpy.zeros(first)
    if prices is not None:
        for each in commodities:
            for place in numpy.flatnonzero(each.edges.kinds == PATH):
                costs[each.first + place] = prices.get(pair_of(each.edges, place), 0.0)
        if price < inf:
            row = len(limit_amounts)
            limits += [(row, int(place), float(costs[place])) for place in numpy.flatnonzero(costs)]
            limit_amounts.append(price)
    places = ([row for row, _, _ in limits], [column for _, column, _ in limits])
    matrix = coo_array(([factor for _, _, factor in limits], places), shape=(len(limit_amounts), first)).tocsr()
    goal = numpy.zeros(first)
    if seconds < inf:
        goal, upper[0] = costs, seconds
    else:
        goal[0] = 1.0
    found = linprog(
        goal,
        A_ub=matrix,
        b_ub=limit_amounts,
        A_eq=vstack(equal),
        b_eq=numpy.concatenate(amounts),
        bounds=numpy.column_stack((numpy.zeros(first), upper)),
        method="highs",
    )
    if found.status == 2:
        return None
    if found.x is None:
        raise UsageError(f"the linear program was not solved: {found.message}")
    sends = {each.sink: sends_of(each, found.x) for each in commodities}
    return RealPlan(float(found.x[0]), sends, float(costs @ found.x))


def sends_of(commodity: Commodity, values: Any) -> dict[Pair, float]:
    edges = commodity.edges
    carried = values[commodity.first : commodity.first + commodity.count]
    sends: dict[Pair, float] = {}
    for place in numpy.flatnonzero((edges.kinds == PATH) & (carried > 1e-9)):
        pair = pair_of(edges, place)
        sends[pair] = sends.get(pair, 0.0) + float(carried[place])
    return sends


def pair_of(edges: EdgeArrays, place: Any) -> Pair:
    return edges.names[edges.senders[place]], edges.names[edges.receivers[place]]


def enough_peers(graph: CollectionGraph, sink: NodeId, order: Sequence[NodeId]) -> int:
    """How many senders to the sink, the first of `order`, fill its downlink (F-10): its degree grows until one more
    gives nothing, or all are there. The rest of the graph stays."""
    down = sum(each.down for each in graph.hosts[sink].providers)
    rates = {path.sender: path.rate for path in graph.paths if path.receiver == sink}
    reached = 0.0
    for count, name in enumerate(order, 1):
        host = graph.hosts[name]
        reached += min(rates.get(name, 0.0), sum(each.up for each in host.providers))
        if reached >= down:
            return count
    return len(order)
