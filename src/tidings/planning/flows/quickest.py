"""The quickest collection: the smallest whole number of seconds in which all blocks can be at the sink, and how.

Within T seconds a path carries T times its rate. So all blocks arrive within T if and only if the maximum flow from the
source behind all hosts to the sink, with network edges times T and data edges as they are, is all of them. T* is the
smallest whole T for which it is (Patel thesis, section 3.3.2).

T* is looked for from below. Where the flow falls short, the minimum cut says why: across it go at most N blocks a
second and D blocks that are there, so T is at least (B - D) / N. That is the next T to try, and mostly the last but
one. Where rounding makes these steps small they double, and the gap is halved.

Flows are found in thousandths of a block, since a path of 0.7 blocks a second carries 7 in 10 seconds and not 0. A plan
is in whole blocks: every edge is given its flow rounded up, and of a network with whole capacities there is a whole
flow. Where whole capacities rounded down are enough, they are taken.
"""

from collections.abc import Mapping
from math import ceil, isinf

import msgspec
import numpy

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.planning.flows.edges import BACK, PATH, EdgeArrays
from tidings.planning.flows.graph import CollectionGraph, DataPath, check_graph
from tidings.planning.flows.maximum import MaximumFlow
from tidings.planning.flows.plan import CollectionPlan, Pair

PARTS = 1000
"""Of a block, in which flows are found."""
FLOW_MAX = 2**30
HORIZON_MAX = 10**9
"""Seconds; what takes longer is as good as impossible."""


def quickest(graph: CollectionGraph, sink: NodeId) -> CollectionPlan:
    """The plan with the smallest horizon. Hosts that cannot reach the sink are given a way out (`with_ways_out`)."""
    check_graph(graph, sink)
    graph, added = with_ways_out(graph, sink)
    blocks = graph.blocks
    if blocks == graph.hosts[sink].blocks:
        return CollectionPlan(sink, 0, {}, {}, added)
    edges = EdgeArrays(graph, sink)
    flows, parts = MaximumFlow(edges), max(1, min(PARTS, FLOW_MAX // blocks))
    horizon = smallest_horizon(flows, blocks, parts, lower_bound(graph, sink))
    sends, handbacks = whole_flow(flows, blocks, parts, horizon)
    return CollectionPlan(sink, horizon, sends, handbacks, added)


def lower_bound(graph: CollectionGraph, sink: NodeId) -> int:
    """No collection is quicker than the sink's downlink, nor than the uplink of the host that has most."""
    taken = graph.blocks - graph.hosts[sink].blocks
    bounds = [taken / max(sum(each.down for each in graph.hosts[sink].providers), 1e-300)]
    if not graph.handbacks:
        for name, host in graph.hosts.items():
            if name != sink and host.blocks:
                bounds.append(host.blocks / max(sum(each.up for each in host.providers), 1e-300))
    return max(1, ceil(min(max(bounds) - 1e-9, HORIZON_MAX)))


def smallest_horizon(flows: MaximumFlow, blocks: int, parts: int, low: int) -> int:
    """The smallest T from `low` on, below which none is possible."""
    edges, most, step = flows.edges, blocks * parts, 1
    tried, horizon, possible = low - 1, low, None
    while possible is None or possible - tried > 1:
        if horizon > HORIZON_MAX:
            raise UsageError("the sink cannot be reached at a rate above 0; look at the rates of its paths")
        capacities = edges.capacities(horizon, parts, most)
        value, flow = flows.solve(capacities)
        if value == most:
            possible = horizon
            horizon = (tried + possible) // 2
            continue
        tried = horizon
        side = flows.source_side(capacities, flow)
        cut = side[edges.tails] & ~side[edges.heads]
        rate = float(edges.rates[cut & edges.is_network].sum())
        sizes = float(edges.sizes[cut & ~edges.is_network].sum())
        needed = ceil((blocks - sizes) / rate - 1e-6) if rate > 0 else HORIZON_MAX + 1
        if needed <= tried + 1:
            needed, step = tried + step, step * 2
        if possible is not None:
            # What is possible is known already: never beyond the middle unless the cut says so.
            needed = min(max(needed, (tried + possible) // 2), possible - 1) if possible - tried > 1 else possible
        horizon = needed
    return possible


def is_feasible(graph: CollectionGraph, sink: NodeId, horizon: int) -> bool:
    """Whether all blocks can be at the sink within so many seconds; the plain question, one flow."""
    edges, blocks = EdgeArrays(graph, sink), graph.blocks
    parts = max(1, min(PARTS, FLOW_MAX // max(1, blocks)))
    return MaximumFlow(edges).solve(edges.capacities(horizon, parts, blocks * parts))[0] == blocks * parts


def whole_flow(
    flows: MaximumFlow, blocks: int, parts: int, horizon: int
) -> tuple[Mapping[Pair, int], Mapping[Pair, int]]:
    edges = flows.edges
    value, flow = flows.solve(edges.capacities(horizon, 1, blocks))
    if value != blocks:
        _, fine = flows.solve(edges.capacities(horizon, parts, blocks * parts))
        roundings = numpy.ceil(flows.on_edges(fine) / parts).astype(numpy.int32)
        value, flow = flows.solve(roundings)
    assert value == blocks, "a network with whole capacities has a whole flow"
    carried = flows.on_edges(flow)
    sends: dict[Pair, int] = {}
    handbacks: dict[Pair, int] = {}
    for place in numpy.flatnonzero(carried):
        kind = edges.kinds[place]
        if kind in (PATH, BACK):
            pair = edges.names[edges.senders[place]], edges.names[edges.receivers[place]]
            into = sends if kind == PATH else handbacks
            into[pair] = into.get(pair, 0) + int(carried[place])
    cancel_circles(sends, handbacks)
    return sends, handbacks


def cancel_circles(sends: dict[Pair, int], handbacks: dict[Pair, int]) -> None:
    """Blocks that would be sent in a circle stay where they are."""
    out: dict[NodeId, dict[tuple[NodeId, bool], None]] = {}
    for is_back, pairs in ((False, sends), (True, handbacks)):
        for sender, receiver in pairs:
            out.setdefault(sender, {})[receiver, is_back] = None
    finished: set[NodeId] = set()
    for root in list(out):
        way: list[tuple[NodeId, bool]] = []
        nodes = [root]
        while nodes:
            here = nodes[-1]
            if here in finished or not out.get(here):
                finished.add(here)
                nodes.pop()
                if way:
                    # Nothing behind it leads in a circle: it is looked at no more.
                    step = way.pop()
                    out[nodes[-1]].pop(step, None)
                continue
            receiver, is_back = next(iter(out[here]))
            if receiver not in nodes:
                nodes.append(receiver)
                way.append((receiver, is_back))
                continue
            first = nodes.index(receiver)
            circle = [*way[first:], (receiver, is_back)]
            steps = list(zip(nodes[first:], circle, strict=True))
            least = min((handbacks if back else sends)[x, y] for x, (y, back) in steps)
            for x, (y, back) in steps:
                pairs = handbacks if back else sends
                pairs[x, y] -= least
                if not pairs[x, y]:
                    del pairs[x, y]
                    out[x].pop((y, back), None)
            del nodes[first + 1 :]
            del way[first:]
            # What was looked at on the way may have been cut off; begin again from here.


def with_ways_out(graph: CollectionGraph, sink: NodeId) -> tuple[CollectionGraph, tuple[DataPath, ...]]:
    """Hosts with blocks that cannot reach the sink send to it directly, as slowly as the slowest path that is known. A
    handback is no way out: it does not grow with time."""
    reached, waiting = {sink}, [sink]
    into: dict[NodeId, list[NodeId]] = {}
    up = {name: max(each.up for each in host.providers) > 0 for name, host in graph.hosts.items()}
    for path in graph.paths:
        rates = graph.hosts[path.sender].providers[path.sender_provider].up, path.rate
        if min(rates) > 0 and graph.hosts[path.receiver].providers[path.receiver_provider].down > 0:
            into.setdefault(path.receiver, []).append(path.sender)
    while waiting:
        for sender in into.get(waiting.pop(), ()):
            if sender not in reached:
                reached.add(sender)
                waiting.append(sender)
    stranded = [name for name, host in graph.hosts.items() if host.blocks and name not in reached]
    if not stranded:
        return graph, ()
    measured = [path.rate for path in graph.paths if path.rate > 0]
    rate = min(measured) if measured else 1.0
    if dead := [name for name in stranded if not up[name]]:
        raise UsageError(f"{', '.join(dead[:10])} cannot send anything: the rate of every uplink is 0")
    taken = {(path.sender, path.receiver) for path in graph.paths}
    added = tuple(DataPath(name, sink, 1.0 if isinf(rate) else rate) for name in stranded)
    kept = tuple(path for path in graph.paths if (path.sender, path.receiver) not in taken or path.rate > 0)
    return msgspec.structs.replace(graph, paths=(*kept, *added)), added
