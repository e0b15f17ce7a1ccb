"""What a plan says, and whether it is sound."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import ceil, inf

import msgspec

from tidings.model.identity import NodeId
from tidings.planning.flows.graph import CollectionGraph, DataPath

Pair = tuple[NodeId, NodeId]


class CollectionPlan(msgspec.Struct, frozen=True):
    sink: NodeId
    horizon: int
    """Whole seconds in which all blocks can be at the sink; no smaller number will do."""
    sends: Mapping[Pair, int]
    """Blocks that the first sends to the second; l in the source."""
    handbacks: Mapping[Pair, int] = {}
    """Of the blocks that the first holds of the second, those for which the second stands in again."""
    added: tuple[DataPath, ...] = ()
    """Ways out that were not measured, for hosts that had none to the sink."""

    def rate(self, sender: NodeId, receiver: NodeId) -> float:
        """Blocks a second, planned; f* in the source."""
        return self.sends.get((sender, receiver), 0) / self.horizon if self.horizon else 0.0

    def relays(self) -> dict[NodeId, int]:
        """Blocks that each host other than the sink takes from others."""
        taken: dict[NodeId, int] = defaultdict(int)
        for (_, receiver), blocks in self.sends.items():
            if receiver != self.sink:
                taken[receiver] += blocks
        return dict(taken)


def problems(graph: CollectionGraph, plan: CollectionPlan) -> Iterator[str]:
    """What is wrong with a plan. A path or an access may carry less than one block beyond what its rate allows, since
    blocks are whole and rates are not."""
    sink, horizon = plan.sink, plan.horizon
    sent: dict[NodeId, int] = defaultdict(int)
    taken: dict[NodeId, int] = defaultdict(int)
    for (sender, receiver), blocks in plan.sends.items():
        sent[sender] += blocks
        taken[receiver] += blocks
        if blocks < 0:
            yield f"{sender} sends {blocks} blocks to {receiver}"
    rates: dict[Pair, float] = defaultdict(float)
    for path in (*graph.paths, *plan.added):
        rates[path.sender, path.receiver] += path.rate
    for pair, blocks in plan.sends.items():
        if blocks > whole(horizon * rates[pair]):
            yield f"{pair[0]} -> {pair[1]}: {blocks} blocks in {horizon} s at {rates[pair]:g} a second"
    back_in: dict[NodeId, int] = defaultdict(int)
    back_out: dict[NodeId, int] = defaultdict(int)
    for (holder, origin), blocks in plan.handbacks.items():
        back_out[holder] += blocks
        back_in[origin] += blocks
    for name, host in graph.hosts.items():
        ups, downs = (sum(each.up for each in host.providers), sum(each.down for each in host.providers))
        if name != sink:
            held = host.blocks + taken[name] + back_in[name] - back_out[name]
            if sent[name] != held:
                yield f"{name} sends {sent[name]} blocks and has {held}"
            if sent[name] > whole(horizon * ups):
                yield f"{name} sends {sent[name]} blocks in {horizon} s, at {ups:g} a second at most"
        elif sent[name] or back_out[name]:
            yield "the sink sends"
        if taken[name] > whole(horizon * downs):
            yield f"{name} takes {taken[name]} blocks in {horizon} s, at {downs:g} a second at most"
    if (arriving := taken[sink] + graph.hosts[sink].blocks) != graph.blocks:
        yield f"{arriving} of {graph.blocks} blocks come to the sink"


def whole(blocks: float) -> float:
    """Rounded up; a rate without a limit carries anything."""
    return inf if blocks == inf else ceil(blocks - 1e-6)
