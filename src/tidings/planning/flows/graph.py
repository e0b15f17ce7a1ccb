"""Hosts, what they hold, and how fast anything gets from one to another: what a collection is planned on.

The middle of the internet has room. What is scarce is the access of each host and, now and then, one path. So a host is
three vertices in a row, and every scarce thing is one edge (Patel thesis, section 3.3.1):

    x+ --down--> x0 --up--> x-          the access of x, which all of its transfers share
    x- --rate--> y+                     the path from x to y
    s  --blocks-> x0                    what x holds, from a source s that stands behind all hosts

A host with two providers has one x0, and x+ and x- for each: five vertices. A path begins and ends at one of them.
Rates are blocks a second, sizes are blocks. A host that holds nothing relays for others.

In a collection that runs, a block that was passed on is held twice, by whom it came from and where it is. An edge
(y0, x0), a *handback*, says that x may send it in place of y.
"""

from collections.abc import Mapping
from math import inf, isnan

import msgspec

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId

HOSTS_MAX = 2_000
BLOCKS_MAX = 2**30
"""Of one collection; the flow is found in 32-bit numbers."""


class AccessRates(msgspec.Struct, frozen=True):
    """Of one provider, in blocks a second."""

    down: float = inf
    up: float = inf


class FlowHost(msgspec.Struct, frozen=True):
    blocks: int = 0
    providers: tuple[AccessRates, ...] = (AccessRates(),)


class DataPath(msgspec.Struct, frozen=True):
    sender: NodeId
    receiver: NodeId
    rate: float
    """Blocks a second."""
    sender_provider: int = 0
    receiver_provider: int = 0


class Handback(msgspec.Struct, frozen=True):
    """`blocks` of `origin` are with `holder`, and `origin` has them still."""

    holder: NodeId
    origin: NodeId
    blocks: int


class CollectionGraph(msgspec.Struct, frozen=True):
    hosts: Mapping[NodeId, FlowHost]
    paths: tuple[DataPath, ...]
    handbacks: tuple[Handback, ...] = ()

    @property
    def blocks(self) -> int:
        return sum(host.blocks for host in self.hosts.values())


def graph_of(
    blocks: Mapping[NodeId, int],
    paths: Mapping[tuple[NodeId, NodeId], float],
    access: Mapping[NodeId, tuple[float, float]] | None = None,
) -> CollectionGraph:
    """Hosts with one provider each, from plain dictionaries; `access` is (down, up), by default no limit."""
    limits = access or {}
    names = dict.fromkeys([*blocks, *limits, *(end for pair in paths for end in pair)])
    hosts = {name: FlowHost(blocks.get(name, 0), (AccessRates(*limits.get(name, (inf, inf))),)) for name in names}
    return CollectionGraph(hosts, tuple(DataPath(x, y, rate) for (x, y), rate in paths.items()))


def check_graph(graph: CollectionGraph, sink: NodeId) -> None:
    hosts = graph.hosts
    if sink not in hosts:
        raise UsageError(f"sink: there is no host {sink!r}; the hosts are {', '.join(list(hosts)[:20])}")
    if len(hosts) > HOSTS_MAX:
        raise UsageError(
            f"{len(hosts)} hosts: at most {HOSTS_MAX} are planned for; collect from some of them at a time"
        )
    if graph.blocks > BLOCKS_MAX:
        raise UsageError(f"{graph.blocks} blocks: at most {BLOCKS_MAX} are planned for; make the blocks larger")
    for name, host in hosts.items():
        if host.blocks < 0:
            raise UsageError(f"host {name!r} holds {host.blocks} blocks; give a number from 0")
        if not host.providers:
            raise UsageError(f"host {name!r} has no provider; give at least one pair of rates")
        for each in host.providers:
            check_rate(f"a rate of host {name!r}", each.down)
            check_rate(f"a rate of host {name!r}", each.up)
    seen: set[tuple[NodeId, int, NodeId, int]] = set()
    for path in graph.paths:
        ends = (path.sender, path.sender_provider, path.receiver, path.receiver_provider)
        for name, provider in ((path.sender, path.sender_provider), (path.receiver, path.receiver_provider)):
            if name not in hosts or not 0 <= provider < len(hosts[name].providers):
                raise UsageError(
                    f"path {path.sender!r} -> {path.receiver!r}: there is no host {name!r} with that provider"
                )
        if path.sender == path.receiver or ends in seen:
            raise UsageError(
                f"path {path.sender!r} -> {path.receiver!r} is there twice, or leads nowhere; leave it out"
            )
        seen.add(ends)
        check_rate(f"the rate of path {path.sender!r} -> {path.receiver!r}", path.rate)
    for back in graph.handbacks:
        if back.holder not in hosts or back.origin not in hosts or back.holder == back.origin or back.blocks < 0:
            raise UsageError(f"{each!r}: give two known hosts and a number from 0")


def check_rate(name: str, rate: float) -> None:
    if isnan(rate) or rate < 0:
        raise UsageError(f"{name}: {rate} is no rate; give blocks a second from 0")
