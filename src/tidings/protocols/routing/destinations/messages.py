"""What brokers that route by destination tell each other: who is linked to whom, who may want what, and events."""

from typing import Annotated

from msgspec import Meta

from tidings.machine.message import Message, Name
from tidings.model.bounds import (
    BLOOM_BITS_MAX,
    DESTINATION_HOPS_MAX,
    DESTINATIONS_MAX,
    INTEGER_MAX,
    NEIGHBOURS_MAX,
    PREDICATE_ROWS_BYTES_MAX,
    VERSION_MAX,
)
from tidings.pubsub.publications import Publications

Version = Annotated[int, Meta(ge=0, le=VERSION_MAX)]

Neighbours = Annotated[tuple[Name, ...], Meta(max_length=NEIGHBOURS_MAX)]
Destinations = Annotated[tuple[Name, ...], Meta(min_length=1, max_length=DESTINATIONS_MAX)]


class LinkState(Message, frozen=True):
    """These are the neighbours of `broker`. A higher version replaces a lower one."""

    broker: Name
    version: Version
    neighbours: Neighbours


class Predicates(Message, frozen=True):
    """What the clients of `broker` may want: Bloom rows, one after the other."""

    broker: Name
    version: Version
    bits: Annotated[int, Meta(ge=8, le=BLOOM_BITS_MAX)]
    hashes: Annotated[int, Meta(ge=1, le=32)]
    seed: Annotated[int, Meta(ge=0, le=INTEGER_MAX)]
    """The profile of the rows. All brokers of a network have the same."""
    rows: Annotated[bytes, Meta(max_length=PREDICATE_ROWS_BYTES_MAX)]


class Directed(Message, frozen=True):
    """Publications for the clients of these brokers, and of no others."""

    destinations: Destinations
    hops_left: Annotated[int, Meta(ge=0, le=DESTINATION_HOPS_MAX)]
    batch: Publications
