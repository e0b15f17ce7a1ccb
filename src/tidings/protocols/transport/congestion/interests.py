"""What a receiver wants, cut into flows.

A publisher tells flows apart by Bloom rows, and a row stands for one conjunction: an event of the flow has all of its
bits. So each conjunction of a filter is a flow of its own; conjunctions with equal rows are the same one. A filter of
very many conjunctions is one flow whose row has the bits that all of them share, and is then wider than the filter.

For an event we know the subscriptions that it came for, and need the flows. Where every filter has one conjunction that
is a table (`FlowInterests.of`, remembered for each combination of subscriptions); where one has several, the attributes
of the event are read.
"""

import msgspec
import xxhash

from tidings.matching.bloom import BloomProfile, bits_of_tags
from tidings.matching.tags import tags_of_filter
from tidings.model.bounds import ASKED_FILTER_BYTES_MAX
from tidings.model.filter import Filter
from tidings.model.sets.conjunction import Conjunction
from tidings.model.values import Value
from tidings.protocols.transport.rows import kept
from tidings.pubsub.publications import BadPublication, read_head

CONJUNCTIONS_MAX = 16
"""Flows of one filter; beyond it there is one for all."""

REMEMBERED_MAX = 1024
"""Combinations of subscriptions whose flows are remembered."""

WEIGHT_MIN, WEIGHT_MAX = 1e-3, 1e3
"""Priorities further apart would leave one side nothing."""


class FlowInterest(msgspec.Struct, frozen=True):
    """A flow that we want. `text` is its filter, where flows are compared by filters and not by bits."""

    flow: int
    bits: int
    text: str = ""
    priority: float = 1.0


def flow_of(bits: int, text: str, size_bytes: int) -> int:
    """The number of a flow: the same for all who want it."""
    return xxhash.xxh32_intdigest(bits.to_bytes(size_bytes, "little") + text.encode())


def interests_of(
    filter: Filter, profile: BloomProfile, priority: float = 1.0, is_exact: bool = False, topic_attribute: str = ""
) -> tuple[FlowInterest, ...]:
    """In the order of the conjunctions. Filters that match nothing have none."""
    parts: list[tuple[int, Filter]]
    rows = [bits_of_tags(kept(tags, topic_attribute), profile) for tags in tags_of_filter(filter)]
    if len(rows) > CONJUNCTIONS_MAX:
        common = rows[0]
        for row in rows:
            common &= row
        parts = [(common, filter)]
    else:
        parts = [(row, Filter((part,), filter.residual)) for row, part in zip(rows, filter.conjunctions, strict=True)]
    priority = min(WEIGHT_MAX, max(WEIGHT_MIN, priority))
    found = []
    for bits, part in parts:
        text = part.text() if is_exact else ""
        if len(text.encode()) > ASKED_FILTER_BYTES_MAX:
            text = ""
        found.append(FlowInterest(flow_of(bits, text, profile.size_bytes), bits, text, priority))
    return tuple(found)


class FlowInterests:
    """Of the paced subscriptions of this node."""

    def __init__(self) -> None:
        self.subscriptions: dict[int, tuple[Filter, tuple[FlowInterest, ...]]] = {}
        self.remembered: dict[tuple[int, ...], tuple[FlowInterest, ...] | None] = {}
        """None: it depends on the event."""

    def put(self, subscription: int, filter: Filter, interests: tuple[FlowInterest, ...]) -> None:
        self.subscriptions[subscription] = filter, interests
        self.remembered.clear()

    def remove(self, subscription: int) -> None:
        self.subscriptions.pop(subscription, None)
        self.remembered.clear()

    def flows(self) -> dict[int, FlowInterest]:
        """All that are wanted; where several subscriptions want the same, with the highest priority."""
        found: dict[int, FlowInterest] = {}
        for _, interests in self.subscriptions.values():
            for interest in interests:
                known = found.get(interest.flow)
                if known is None or known.priority < interest.priority:
                    found[interest.flow] = interest
        return found

    def is_paced(self, subscriptions: tuple[int, ...]) -> bool:
        """Is it for a paced subscription? Without subscriptions nobody knows, and it is taken for one."""
        return not subscriptions or any(number in self.subscriptions for number in subscriptions)

    def of(self, subscriptions: tuple[int, ...], head: bytes) -> tuple[FlowInterest, ...]:
        """The flows of an event that came for these, each once."""
        if subscriptions not in self.remembered:
            if len(self.remembered) >= REMEMBERED_MAX:
                self.remembered.clear()
            self.remembered[subscriptions] = self.find(subscriptions)
        known = self.remembered[subscriptions]
        return self.read(subscriptions, head) if known is None else known

    def find(self, subscriptions: tuple[int, ...]) -> tuple[FlowInterest, ...] | None:
        found: dict[int, FlowInterest] = {}
        for number in subscriptions:
            if number in self.subscriptions:
                _, interests = self.subscriptions[number]
                if len(interests) > 1:
                    return None
                found.update((interest.flow, interest) for interest in interests)
        return tuple(found.values())

    def read(self, subscriptions: tuple[int, ...], head: bytes) -> tuple[FlowInterest, ...]:
        try:
            attributes = read_head(head).attributes
        except BadPublication:
            return ()
        found: dict[int, FlowInterest] = {}
        for number in subscriptions:
            filter, interests = self.subscriptions.get(number, (None, ()))
            if filter is None:
                continue
            if len(interests) == 1:
                found[interests[0].flow] = interests[0]
                continue
            for conjunction, interest in zip(filter.conjunctions, interests, strict=True):
                if accepts(conjunction, attributes):
                    found[interest.flow] = interest
        return tuple(found.values())


def accepts(conjunction: Conjunction, attributes: dict[str, Value]) -> bool:
    return all(constraint.accepts(attributes.get(constraint.name)) for constraint in conjunction)
