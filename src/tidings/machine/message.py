"""What machines say to each other.

A message is a frozen struct that derives from `Message` and lives in the module of its protocol. It holds values only,
so it prints, compares and hashes, and nobody can change it after it was sent; two nodes never share anything else.

Every field states its bound, because the bytes of a message may come from anybody. The types below are the usual ones;
a field of its own kind is annotated in place:

    class Digest(Message, frozen=True):
        ids: Annotated[tuple[Name, ...], Meta(max_length=1000)]

The bounds are checked when bytes are decoded, before anything of that size is built. A machine that makes a message
keeps to them itself; the simulator's checking mode, which sends every message through its bytes, finds the one that
does not. Fields that hold a dict, a list, a set or `Any` are not allowed: they have no single order or can be changed.
"""

import sys
from typing import Annotated

import msgspec

from tidings.model.bounds import (
    ADDRESS_CHARS_MAX,
    BROKERS_NAMED_MAX,
    FILTER_TEXT_BYTES_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
    NAME_CHARS_MAX,
    PLACE_DIMENSIONS_MAX,
    TEXT_CHARS_MAX,
)
from tidings.model.escapes import PRINTABLE

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_CHARS_MAX, pattern=PRINTABLE)]
OptionalName = Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX, pattern=PRINTABLE)]
"""Empty for none."""
Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARS_MAX)]
FilterText = Annotated[str, msgspec.Meta(min_length=1, max_length=FILTER_TEXT_BYTES_MAX)]
BrokerNames = Annotated[tuple[Name, ...], msgspec.Meta(max_length=BROKERS_NAMED_MAX)]
AddressText = Annotated[str, msgspec.Meta(max_length=ADDRESS_CHARS_MAX)]
"""Where a node listens, "host:port"; empty where that is not known."""
Integer = Annotated[int, msgspec.Meta(ge=INTEGER_MIN, le=INTEGER_MAX)]
Count = Annotated[int, msgspec.Meta(ge=0, le=INTEGER_MAX)]
Real = Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
"""A finite float: the bounds exclude the infinities, and NaN is inside no bounds."""
Place = Annotated[tuple[Real, ...], msgspec.Meta(min_length=1, max_length=PLACE_DIMENSIONS_MAX)]
"""Where a node is, in a space in which distances are round trips in seconds (`protocols/coordinates`)."""


class Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Base of all messages. On the wire the fields stand in their order, without their names. A message holds values
    that were there before it, so it is in no circle, and nobody has to look for it as garbage."""


class Contact(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A node and where it listens ("host:port", empty where only the name is known): what views, caches and messages
    carry about nodes that are not linked yet."""

    node: Name
    address: AddressText = ""


def is_address_text(text: str) -> bool:
    """Whether it says host and port; what a stranger tells may be anything."""
    host, _, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and 0 < int(port) < 2**16
    return is_port and bool(host) and host.isprintable() and not any(map(str.isspace, host))
