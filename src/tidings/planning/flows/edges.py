"""The graph as arrays of edges, which the flow and the linear program both read.

`kind` tells what scales with time: a network edge carries its rate times the horizon, a data edge what there is. The
sink keeps what it has, so nothing leads out of it; and a path to or from a host without access is left out.
"""

from typing import Any

import numpy

from tidings.model.identity import NodeId
from tidings.planning.flows.graph import CollectionGraph

SOURCE = 0
"""The vertex behind all hosts."""

ACCESS, PATH, DATA, BACK = range(4)


class EdgeArrays:
    """Vertices are numbers; `tails[e]` and `heads[e]` are those of edge e, `rates[e]` blocks a second of a network
    edge, `sizes[e]` blocks of another, `senders[e]` and `receivers[e]` its two hosts."""

    def __init__(self, graph: CollectionGraph, sink: NodeId) -> None:
        self.names = list(graph.hosts)
        numbers = {name: number for number, name in enumerate(self.names)}
        vertex, entry, exit = 1, [], []
        self.middle: list[int] = []
        for name in self.names:
            count = len(graph.hosts[name].providers)
            self.middle.append(vertex)
            entry.append(vertex + 1)
            exit.append(vertex + 1 + count)
            vertex += 1 + 2 * count
        self.vertices, self.sink = vertex, self.middle[numbers[sink]]
        rows: list[tuple[int, int, float, float, int, int, int]] = []
        for number, (name, host) in enumerate(graph.hosts.items()):
            for provider, each in enumerate(host.providers):
                rows.append((entry[number] + provider, self.middle[number], each.down, 0, ACCESS, number, number))
                if name != sink:
                    rows.append((self.middle[number], exit[number] + provider, each.up, 0, ACCESS, number, number))
            if host.blocks:
                rows.append((SOURCE, self.middle[number], 0, host.blocks, DATA, -1, number))
        for path in graph.paths:
            if path.sender != sink:
                sender, receiver = numbers[path.sender], numbers[path.receiver]
                tail, head = exit[sender] + path.sender_provider, entry[receiver] + path.receiver_provider
                rows.append((tail, head, path.rate, 0, PATH, sender, receiver))
        merged: dict[tuple[NodeId, NodeId], int] = {}
        for back in graph.handbacks:
            if back.holder != sink and back.origin != sink:
                merged[back.holder, back.origin] = merged.get((back.holder, back.origin), 0) + back.blocks
        for (holder, origin), blocks in merged.items():
            h, o = numbers[holder], numbers[origin]
            rows.append((self.middle[h], self.middle[o], 0, blocks, BACK, h, o))
        columns: Any = list(zip(*rows, strict=True)) if rows else [()] * 7
        self.tails = numpy.array(columns[0], dtype=numpy.int32)
        self.heads = numpy.array(columns[1], dtype=numpy.int32)
        self.rates = numpy.array(columns[2], dtype=float)
        self.sizes = numpy.array(columns[3], dtype=float)
        self.kinds = numpy.array(columns[4], dtype=numpy.int8)
        self.senders = numpy.array(columns[5], dtype=numpy.int32)
        self.receivers = numpy.array(columns[6], dtype=numpy.int32)
        self.is_network = self.kinds <= PATH

    def capacities(self, horizon: float, unit: float, most: float) -> Any:
        """Whole numbers of `unit`ths of a block that each edge carries within so many seconds, none above `most`."""
        scaled = numpy.where(self.is_network, numpy.minimum(self.rates, most / unit) * horizon, self.sizes) * unit
        # A rate such as 0.1 times 10 is a hair below 1.
        return numpy.minimum(numpy.floor(scaled * (1 + 1e-12) + 1e-9), most).astype(numpy.int32)
