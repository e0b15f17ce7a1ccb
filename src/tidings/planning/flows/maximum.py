"""Maximum flow, through scipy, and the minimum cut that explains it.

The matrix of the edges is laid out once; for another horizon only its numbers change.
"""

from importlib.util import find_spec
from typing import Any

import numpy

from tidings.model.errors import UsageError
from tidings.planning.flows.edges import SOURCE, EdgeArrays


class MaximumFlow:
    def __init__(self, edges: EdgeArrays) -> None:
        if find_spec("scipy") is None:
            raise UsageError("planning needs scipy, which is not installed: pip install 'tidings[plan]'")
        self.edges = edges
        self.order = numpy.lexsort((edges.heads, edges.tails))
        counts = numpy.bincount(edges.tails, minlength=edges.vertices)
        self.starts = numpy.concatenate(([0], numpy.cumsum(counts))).astype(numpy.int32)
        self.columns = edges.heads[self.order]
        self.solved = 0
        """Maximum flows that were found."""

    def matrix(self, capacities: Any) -> Any:
        from scipy.sparse import csr_array

        shape = (self.edges.vertices, self.edges.vertices)
        return csr_array((capacities[self.order], self.columns, self.starts), shape=shape)

    def solve(self, capacities: Any) -> tuple[int, Any]:
        """The value, and the flow matrix, which has the flow back as a negative number."""
        from scipy.sparse.csgraph import maximum_flow

        self.solved += 1
        found = maximum_flow(self.matrix(capacities), SOURCE, self.edges.sink)
        return int(found.flow_value), found.flow

    def on_edges(self, flow: Any) -> Any:
        """Of a flow matrix what each edge carries."""
        # Edges lie in the matrix in their own order, and an edge back is in it beside each.
        tails = numpy.repeat(numpy.arange(self.edges.vertices), numpy.diff(flow.indptr))
        places = tails.astype(numpy.int64) * self.edges.vertices + flow.indices
        wanted = self.edges.tails.astype(numpy.int64) * self.edges.vertices + self.edges.heads
        order = numpy.argsort(places, kind="stable")
        found = order[numpy.searchsorted(places, wanted, sorter=order)]
        return numpy.maximum(flow.data[found], 0)

    def source_side(self, capacities: Any, flow: Any) -> Any:
        """Which vertices the source still reaches: the edges out of them are a minimum cut."""
        from scipy.sparse.csgraph import breadth_first_order

        residual = (self.matrix(capacities) - flow).tocsr()
        residual.data = numpy.where(residual.data > 0, 1.0, 0.0)
        residual.eliminate_zeros()
        reached = numpy.zeros(self.edges.vertices, dtype=bool)
        reached[breadth_first_order(residual, SOURCE, return_predecessors=False)] = True
        return reached
