"""What a foreign network must do to carry a transport, and what our messages look like on it.

A carrier brings bytes from whoever publishes them to all others in the same network. It may be late, lose some, repeat
some, change their order; it must not cut or join them. It knows no filters: each receiver looks at every message and
keeps what it asked for.

A message is the length of its head in four bytes, its head (attributes, with the mark of the transport where it has
one), and its payload (with the transport's header before it).
"""

from collections.abc import Callable
from typing import Protocol

from tidings.pubsub.publications import ATTRIBUTES_BYTES_MAX

LENGTH_BYTES = 4


class Carrier(Protocol):
    """One connection to such a network."""

    async def open(self, arrived: Callable[[bytes], None]) -> None:
        """Connect. From now on `arrived` is called, on this loop, with each message of the network."""

    async def publish(self, data: bytes) -> None:
        """Give one message to the network. OSError or ValueError where it is not taken: it is lost then."""

    async def close(self) -> None:
        """Hand over what was published, and leave."""


class BadFrame(ValueError):
    """Bytes that are no message of ours; something else uses the same network."""


def join(head: bytes, payload: bytes) -> bytes:
    return len(head).to_bytes(LENGTH_BYTES) + head + payload


def split(data: bytes) -> tuple[bytes, bytes]:
    """Head and payload."""
    end = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES])
    if not LENGTH_BYTES < end <= min(len(data), LENGTH_BYTES + ATTRIBUTES_BYTES_MAX):
        raise BadFrame(f"{len(data)} bytes that are no message")
    return data[LENGTH_BYTES:end], data[end:]
