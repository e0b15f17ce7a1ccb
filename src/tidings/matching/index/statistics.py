"""What the fast engine learns from filters and events: where numbers lie.

For each dimension it keeps a sample of the bounds that filters mention and one of the numbers that events bring. From
both come the *edges* of the buckets, half of them each: edges among the numbers make every bucket equally likely,
edges among the bounds separate the filters. From the numbers alone (the bounds, until there are events) come the
*knots*, between which a number is equally likely to lie; they tell how many events an interval will let through.

New edges are taken only where they are clearly better, and only when no chunk uses the set that they would overwrite.
"""

from typing import Any

import numpy as np

from tidings.matching.index.kernels.layout import (
    DIMENSION_AT,
    DIMENSION_BOUNDS,
    DIMENSION_BOUNDS_SEEN,
    DIMENSION_EDGES,
    DIMENSION_KNOTS,
    DIMENSION_NUMBERS,
    DIMENSION_PARITY,
    EDGES,
    KNOTS,
    SAMPLED,
    SAMPLES,
    USERS_AT,
    IndexStore,
)

SAMPLE_MIN = 16
"""A smaller sample says nothing."""

IMPROVEMENT = 1.5
"""New edges are taken if two numbers share a bucket this many times less often."""


def learn(store: IndexStore, dimensions: int) -> bool:
    """Learn every dimension; whether any edges changed."""
    changed = [learn_dimension(store, dimension) for dimension in range(dimensions)]
    return any(changed)


def learn_dimension(store: IndexStore, dimension: int) -> bool:
    at = int(store.words[DIMENSION_AT + dimension])
    bounds, numbers = samples_of(store, at)
    if len(bounds) < SAMPLE_MIN and len(numbers) < SAMPLE_MIN:
        return False
    source = numbers if len(numbers) >= SAMPLE_MIN else bounds
    store.floats[at + DIMENSION_KNOTS : at + DIMENSION_KNOTS + KNOTS] = np.quantile(
        source, np.linspace(0.0, 1.0, KNOTS)
    )
    parity = int(store.words[at + DIMENSION_PARITY])
    edges = edges_of(bounds, numbers)
    present = edges_at(store, at, parity)
    is_better = collisions(present, bounds, numbers) > IMPROVEMENT * collisions(edges, bounds, numbers)
    if not is_better or store.words[USERS_AT + 2 * dimension + 1 - parity]:
        return False
    edges_at(store, at, 1 - parity)[:] = edges
    store.words[at + DIMENSION_PARITY] = 1 - parity
    return True


def edges_at(store: IndexStore, at: int, parity: int) -> Any:
    begin = at + DIMENSION_EDGES + parity * EDGES
    return store.floats[begin : begin + EDGES]


def samples_of(store: IndexStore, at: int) -> tuple[Any, Any]:
    """The sampled bounds and numbers, sorted."""
    bounds_count = min(int(store.words[at + DIMENSION_BOUNDS_SEEN]), SAMPLES)
    bounds = store.floats[at + DIMENSION_BOUNDS : at + DIMENSION_BOUNDS + bounds_count]
    numbers = store.floats[at + DIMENSION_NUMBERS : at + DIMENSION_NUMBERS + min(int(store.words[SAMPLED]), SAMPLES)]
    return np.sort(bounds), np.sort(numbers[~np.isnan(numbers)])


def edges_of(bounds: Any, numbers: Any) -> Any:
    """EDGES ascending edges, filled up with infinity where there are fewer different ones."""
    usable = [sample for sample in (bounds, numbers) if len(sample) >= SAMPLE_MIN]
    share = EDGES // len(usable)
    chosen = [sample[(np.arange(1, share + 1) * len(sample)) // (share + 1)] for sample in usable]
    different = np.unique(np.concatenate(chosen))
    edges = np.full(EDGES, np.inf)
    edges[: len(different)] = different
    return edges


def collisions(edges: Any, bounds: Any, numbers: Any) -> float:
    """How likely two members of a sample lie in the same bucket; the mean over both samples."""
    usable = [sample for sample in (bounds, numbers) if len(sample) >= SAMPLE_MIN]
    shares = [
        np.bincount(np.searchsorted(edges, sample, "right"), minlength=EDGES + 1) / len(sample) for sample in usable
    ]
    return float(np.mean([(share**2).sum() for share in shares]))
