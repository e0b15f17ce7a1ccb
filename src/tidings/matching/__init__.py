"""Which filters does an event satisfy: `Index`, and `LinearScan` as its plain counterpart behind the same interface."""

from tidings.matching.index import Index, IndexParams, Matches
from tidings.matching.linear import LinearScan

__all__ = ["Index", "IndexParams", "LinearScan", "Matches"]
