"""Messages to bytes and back.

A message is two bytes that name its type (most significant first), then its fields as a MessagePack array in the order
of their declaration. There is one way to write a message: the same message gives the same bytes in every process,
whatever the platform or the hash seed. That is why fields without a single order (dicts, sets) are not allowed.

Reading trusts nothing. The type says how deep a message is and how long each of its parts may be, and the decoder
refuses what goes beyond that before it builds anything. So when a type is registered, its fields are examined: one that
is not bounded, or that could be changed after sending, is refused with a sentence that says what to write instead.
Whatever else is wrong with bytes (cut short, too long, unknown code, NaN, integers beyond 64 bit, bad UTF-8) comes out
as `BadMessage` and as nothing else.

Most messages need no code for this. A type that does (because it holds an event, or for a smaller form) registers both
halves of a codec, from message to bytes and back; one half alone is a mistake that an assertion stops.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from tidings.model.bounds import MESSAGE_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.wire.errors import BadMessage
from tidings.wire.fields import longest_form

CODE_BYTES = 2
CODE_MAX = 2 ** (8 * CODE_BYTES) - 1

COPIED_BYTES_MAX = 16 * 1024
"""Fields up to this length are cut out of a message by a copy, longer ones by a view, whichever is cheaper."""

Encode = Callable[[Any], bytes]
Decode = Callable[[bytes | memoryview], Any]

encode_fields: Encode = msgspec.msgpack.Encoder().encode


class Registry:
    """The message types that are known, each with its code."""

    def __init__(self) -> None:
        self.types: dict[int, type] = {}
        self.encoders: dict[type, tuple[bytes, Encode, int]] = {}
        self.decoders: dict[bytes, tuple[Decode, int]] = {}

    def add(
        self,
        code: int,
        type: type,
        encode: Encode | None = None,
        decode: Decode | None = None,
        bytes_max: int = MESSAGE_BYTES_MAX,
    ) -> None:
        """`encode` and `decode` replace the automatic form; `decode` may raise ValueError on bad bytes. No message of
        the type is longer than `bytes_max`, or than its fields allow."""
        assert (encode is None) == (decode is None), f"{type.__name__}: give both encode and decode, or neither"
        if not 0 < code <= CODE_MAX:
            raise UsageError(f"{type.__name__}: code {code} does not fit; take one from 1 to {CODE_MAX}")
        if code in self.types:
            raise UsageError(f"{type.__name__}: code {code:#06x} belongs to {self.types[code].__name__}; take another")
        if type in self.encoders:
            raise UsageError(f"{type.__name__} is registered already")
        if encode is None or decode is None:
            longest_bytes = CODE_BYTES + longest_form(type)
            if type.__struct_config__.forbid_unknown_fields:  # type: ignore[attr-defined]
                bytes_max = min(bytes_max, longest_bytes)
            encode, decode = encode_fields, msgspec.msgpack.Decoder(type).decode
        head = code.to_bytes(CODE_BYTES)
        self.types[code] = type
        self.encoders[type] = head, encode, bytes_max
        self.decoders[head] = decode, bytes_max

    def encode(self, message: Any) -> bytes:
        entry = self.encoders.get(type(message))
        if entry is None:
            raise UsageError(f"{type(message).__name__} has no code; list it in wire/registry.py")
        head, encode, bytes_max = entry
        try:
            data = head + encode(message)
        except (ValueError, TypeError, OverflowError) as problem:
            raise UsageError(f"{type(message).__name__} has no bytes: {problem}") from None
        if len(data) > bytes_max:
            raise UsageError(
                f"{type(message).__name__} of {len(data)} bytes, at most {bytes_max} are allowed; split it"
            )
        return data

    def decode(self, data: bytes) -> Any:
        """The message of these bytes, or BadMessage."""
        entry = self.decoders.get(data[:CODE_BYTES])
        if entry is None:
            raise BadMessage(why_unknown(data))
        decode, bytes_max = entry
        if len(data) > bytes_max:
            raise BadMessage(f"{self.name_of(data)} of {len(data)} bytes, at most {bytes_max} are allowed")
        try:
            return decode(data[CODE_BYTES:] if len(data) <= COPIED_BYTES_MAX else memoryview(data)[CODE_BYTES:])
        except (ValueError, RecursionError, OverflowError, MemoryError) as problem:
            raise BadMessage(f"{self.name_of(data)}: {problem}") from None

    def name_of(self, data: bytes) -> str:
        return self.types[int.from_bytes(data[:CODE_BYTES])].__name__


def why_unknown(data: bytes) -> str:
    if len(data) < CODE_BYTES:
        return f"{len(data)} bytes, too few for a message"
    return f"no message type has the code {int.from_bytes(data[:CODE_BYTES]):#06x}"
