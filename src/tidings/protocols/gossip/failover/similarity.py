"""How much two brokers have in common: the similarity of their subscription counters (dependable.md 3.3.1).

The problem. A publication that cannot go its way shall go to a few others that are likely to bring it to those who want
it. Nobody knows the tables of others, and comparing filters would be dear.

The idea. Each broker counts, for each advertisement, the subscriptions that passed it: its own clients' and those told
by its neighbours. That is its *vector*, and two brokers are as similar as the counters have in common:

    S(V, W) = sum over advertisements of min(V[a], W[a])

An advertisement that one of them does not know counts 0 there, so that brokers with different tables can be compared.
S is symmetric, between 0 and the smaller sum, never falls when a counter rises, and S(V, V) is the sum of V.

Other measures may do better (the author's future work, FW-2): "jaccard" divides by what either of them has, so that a
broker through which everything passes is not similar to everybody; "weighted" multiplies each advertisement by how many
publications came under it lately; "filters" counts no subscriptions, but how many of the filters themselves both have
in their tables. Their names are hashes, and of more than fit those with the lowest, so that what two brokers leave out
is the same.

A vector from elsewhere may claim anything. What it can gain is at most the sum of our own vector, once.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Literal

from xxhash import xxh64_intdigest

from tidings.model.bounds import INTEGER_MAX, VECTOR_ENTRIES_MAX
from tidings.pubsub.signals import AdvertisementId

Vector = tuple[tuple[AdvertisementId, int], ...]
"""Counters above 0, by advertisement, in the order of their names."""

Measure = Literal["minima", "jaccard", "weighted", "filters"]

JACCARD_UNIT = 1_000_000
"""Similarities are whole numbers: equal vectors have this one."""

FILTERS_MAX = 4096
"""Filters of our tables that are looked at, where filters are compared."""

REMEMBERED_MAX = 4096
"""Vectors of others of which the similarity is remembered; when there are more, all are forgotten."""


def vector_of(counts: Mapping[AdvertisementId, int], entries_max: int = VECTOR_ENTRIES_MAX) -> Vector:
    """The largest counters, if there are more than a message may carry."""
    positive = {advertisement: count for advertisement, count in counts.items() if count > 0}
    if len(positive) > entries_max:
        largest = sorted(positive, key=lambda advertisement: (-positive[advertisement], advertisement))
        positive = {advertisement: positive[advertisement] for advertisement in largest[:entries_max]}
    return tuple(sorted(positive.items()))


def filters_of(texts: Iterable[str]) -> dict[str, int]:
    """Counters, as it were: one of each filter, by a hash of it."""
    return {f"{xxh64_intdigest(text.encode()):016x}": 1 for text in islice(texts, FILTERS_MAX)}


def similarity(one: Vector, other: Vector) -> int:
    """S of the source."""
    counts = dict(one)
    return sum(min(counts.get(advertisement, 0), count) for advertisement, count in other)


class SimilarityScale:
    """How similar others are to us, by one measure. `set` says what we are; answers are remembered until then."""

    def __init__(self, measure: Measure = "minima") -> None:
        self.measure = measure
        self.vector: Vector = ()
        self.counts: dict[AdvertisementId, int] = {}
        self.weights: Mapping[AdvertisementId, float] = {}
        self.known: dict[int, tuple[Vector, int]] = {}
        """By identity: the vectors of members are the same objects from cycle to cycle."""

    def set(self, vector: Vector, weights: Mapping[AdvertisementId, float] | None = None) -> None:
        if vector != self.vector or (weights is not None and self.measure == "weighted"):
            self.vector, self.counts = vector, dict(vector)
            self.weights = weights or {}
            self.known.clear()

    def rank(self, other: Vector) -> int:
        found = self.known.get(id(other))
        if found is not None and found[0] is other:
            return found[1]
        if len(self.known) >= REMEMBERED_MAX:
            self.known.clear()
        answer = min(self.compute(other), INTEGER_MAX)
        self.known[id(other)] = other, answer
        return answer

    def compute(self, other: Vector) -> int:
        if self.measure == "weighted":
            # One more than the rate, so that what is quiet just now still counts.
            mine, weights = self.counts, self.weights
            return round(sum(min(mine.get(id, 0), count) * (1.0 + weights.get(id, 0.0)) for id, count in other))
        common = sum(min(self.counts.get(id, 0), count) for id, count in other)
        if self.measure != "jaccard" or not common:
            return common
        either = sum(self.counts.values()) + sum(count for _, count in other) - common
        return common * JACCARD_UNIT // either
