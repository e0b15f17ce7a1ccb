"""How long a collection is expected to take, planned and direct, by what is known of paths."""

from collections.abc import Mapping
from importlib.util import find_spec
from math import inf
from typing import NamedTuple

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.planning.flows.direct import direct_seconds
from tidings.protocols.collect.estimates import Estimates
from tidings.protocols.collect.messages import Enlisted
from tidings.protocols.collect.params import CollectParams


class Expectation(NamedTuple):
    planned_seconds: float = 0.0
    direct_seconds: float = 0.0
    is_measured: bool = False


def expect(
    blocks: Mapping[NodeId, int],
    hosts: list[NodeId],
    sink: NodeId,
    members: Mapping[NodeId, Enlisted],
    paths: Mapping[tuple[NodeId, NodeId], float],
    params: CollectParams,
) -> Expectation:
    estimates = Estimates(params.rate_unknown_bps)
    estimates.paths = dict(paths)
    for node, each in members.items():
        if each.up_bps:
            estimates.up[node] = each.up_bps
        if each.down_bps:
            estimates.down[node] = each.down_bps
    if params.down_bps:
        estimates.down[sink] = params.down_bps
    pairs = [(x, y) for x in hosts for y in hosts if x != y and (y == sink or (x, y) in paths)]
    graph = estimates.graph(blocks, hosts, pairs, params.block_bytes * 8.0)
    is_measured = all((node, sink) in paths for node in blocks)
    if not sum(blocks.values()) or find_spec("scipy") is None:
        return Expectation(0.0, 0.0, is_measured)
    from tidings.planning.flows.quickest import quickest

    try:
        planned = float(quickest(graph, sink).horizon)
    except UsageError:
        planned = inf
    return Expectation(planned, direct_seconds(graph, sink), is_measured)
