"""Direct transfer: every source sends straight to the sink. What a plan is compared with.

The sink has `pool` connections. Sources begin in the order that is given; when one is done the next begins. Whoever
sends shares the sink's downlink max-min fairly, and is held back by its own uplink and path.
"""

from collections.abc import Sequence
from math import inf

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.planning.flows.graph import CollectionGraph


def direct_seconds(
    graph: CollectionGraph, sink: NodeId, pool: int | None = None, order: Sequence[NodeId] | None = None
) -> float:
    """Until the last block is there; inf where a source has no path to the sink."""
    down = sum(each.down for each in graph.hosts[sink].providers)
    rates: dict[NodeId, float] = {}
    for path in graph.paths:
        if path.receiver == sink:
            host = graph.hosts[path.sender]
            rates[path.sender] = min(path.rate, host.providers[path.sender_provider].up)
    waiting = [name for name in (order or graph.hosts) if name != sink and graph.hosts[name].blocks]
    if pool is not None and pool < 1:
        raise UsageError(f"pool: {pool} is no number of connections; give at least 1")
    pool = len(waiting) if pool is None else pool
    if any(rates.get(name, 0) <= 0 for name in waiting) or (waiting and down <= 0):
        return inf
    waiting.reverse()
    left: dict[NodeId, float] = {}
    now = 0.0
    while waiting or left:
        while waiting and len(left) < pool:
            name = waiting.pop()
            left[name] = graph.hosts[name].blocks
        shares = fair_shares({name: rates[name] for name in left}, down)
        step = min(left[name] / shares[name] for name in left)
        now += step
        left = {name: rest - shares[name] * step for name, rest in left.items()}
        left = {name: rest for name, rest in left.items() if rest > 1e-9}
    return now


def fair_shares(limits: dict[NodeId, float], whole: float) -> dict[NodeId, float]:
    """Max-min fair shares of `whole`, none above its limit."""
    shares: dict[NodeId, float] = {}
    rest, count = whole, len(limits)
    for name, limit in sorted(limits.items(), key=lambda each: each[1]):
        shares[name] = min(limit, rest / count)
        rest, count = rest - shares[name], count - 1
    return shares
