"""What a foreign network must do to carry a transport, and what our messages look like on it.

It brings bytes from whoever publishes them to all others in the same network. It may be late, lose some, repeat some,
change their order; it must not cut or join them. It knows no filters: each receiver looks at every message and keeps
what it asked for (`protocols/transport/carrier.py`).

A message is the length of its head in four bytes, its head (attributes, with the mark of the transport where it has
one), and its payload (with the transport's header before it).
"""

import re
from collections.abc import Callable
from typing import Protocol

from tidings.model.bounds import ATTRIBUTES_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.protocols.transport.carrier import Posted

LENGTH_BYTES = 4
NAME_SYNTAX = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ForeignNetwork(Protocol):
    """One connection to such a network."""

    async def open(self, arrived: Callable[[bytes], None]) -> None:
        """Connect. From now on `arrived` is called, on this loop, with each message of the network."""

    async def publish(self, data: bytes) -> None:
        """Give one message to the network. OSError or ValueError where it is not taken: it is lost then."""

    async def close(self) -> None:
        """Hand over what was published, and leave."""


def check_name(network: str) -> None:
    if not NAME_SYNTAX.fullmatch(network):
        raise UsageError(f"network: {network!r} is no name; give 1 to 64 letters, digits, '-' or '_'")


class BadPosted(ValueError):
    """Bytes that are no message of ours; something else uses the same network."""


def join(message: Posted) -> bytes:
    return len(message.head).to_bytes(LENGTH_BYTES) + message.head + message.payload


def split(data: bytes) -> Posted:
    end = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES])
    if not LENGTH_BYTES < end <= min(len(data), LENGTH_BYTES + ATTRIBUTES_BYTES_MAX):
        raise BadPosted(f"{len(data)} bytes that are no message")
    return Posted(data[LENGTH_BYTES:end], data[end:])
