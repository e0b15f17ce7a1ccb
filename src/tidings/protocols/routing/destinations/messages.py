"""What brokers that route by destination tell each other: who is linked to whom, who may want what, and events."""

from typing import Annotated

from msgspec import Meta

from tidings.machine.message import Message, Name
from tidings.pubsub.publications import Publications

NEIGHBOURS_MAX = 256
"""Links of one broker."""

ROWS_BYTES_MAX = 512 * 1024
"""All Bloom rows of one broker together."""

DESTINATIONS_MAX = 100
"""Brokers that one message is for. Their names fit into a frame beside the largest batch."""

HOPS_MAX = 255

VERSION_MAX = 2**62
"""No broker counts so far; somebody who claims it is not believed."""

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
    bits: Annotated[int, Meta(ge=8, le=64 * 1024)]
    hashes: Annotated[int, Meta(ge=1, le=32)]
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    """The profile of the rows. All brokers of a network have the same."""
    rows: Annotated[bytes, Meta(max_length=ROWS_BYTES_MAX)]


class Directed(Message, frozen=True):
    """Publications for the clients of these brokers, and of no others."""

    destinations: Destinations
    hops_left: Annotated[int, Meta(ge=0, le=HOPS_MAX)]
    batch: Publications
