"""Messages to bytes and back.

A message is two bytes that name its type (most significant first), then its fields as a MessagePack array in the order
of their declaration. There is one way to write a message: the same message gives the same bytes in every process,
whatever the platform or the hash seed. That is why fields without a single order (dicts, sets) are not allowed.

Reading trusts nothing. The type says how deep a message is and how long each of its parts may be, and the decoder
refuses what goes beyond that before it builds anything. So when a type is registered, its fields are examined: one that
is not bounded, or that could be changed after sending, is refused with a sentence that says what to write instead.
Whatever else is wrong with bytes (cut short, too long, unknown code, NaN, integers beyond 64 bit, bad UTF-8) comes out
as `BadMessage` and as nothing else. From the bounds of the fields follows a bound for the whole: bytes that are longer
need not be looked at, and this matters because one wide character makes Python keep a text four times as large as its
bytes.

Most messages need no code for this. A type that does (because it holds an event, or for a smaller form) registers both
halves of a codec, from message to bytes and back; one half alone is a mistake that an assertion stops.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import inspect

from tidings.model.bounds import MESSAGE_BYTES_MAX
from tidings.model.errors import UsageError


class WireError(Exception):
    """`reason` is a sentence for a person: it goes into the log and, as the reason of a goodbye, to the other end."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class BadFrame(WireError):
    """The stream is out of step and cannot be read further; the connection is closed."""


class BadMessage(WireError):
    """The bytes of one message say nothing we know."""


HEAD_BYTES_MAX = 5
"""What precedes a text, bytes or an array: a mark and a length."""

NUMBER_BYTES_MAX = 9
CHARACTER_BYTES_MAX = 4

SIDES = ("gt", "ge"), ("lt", "le")
REPLACEMENTS: dict[type, str] = {
    inspect.DictType: "a dict has no single order and hides duplicates; use a tuple of pairs, or give the type a codec",
    inspect.ListType: "a list can be changed after sending; use a tuple",
    inspect.SetType: "a set has no order; use a sorted tuple",
    inspect.FrozenSetType: "a set has no order; use a sorted tuple",
    inspect.AnyType: "anything may hide in it; name its type",
    inspect.RawType: "it is not checked when it arrives; use bytes with a max_length",
}


def longest_form(kind: type) -> int:
    """The bytes that a message of this type takes at most; a UsageError if a field of it is unfit."""
    return longest(kind.__name__, inspect.type_info(kind), ())


def longest(path: str, kind: inspect.Type, within: tuple[type, ...]) -> int:
    match kind:
        case inspect.NoneType() | inspect.BoolType():
            return 1
        case inspect.IntType() | inspect.FloatType():
            return longest_number(path, kind)
        case inspect.StrType():
            return HEAD_BYTES_MAX + CHARACTER_BYTES_MAX * length_of(path, kind)
        case inspect.BytesType():
            return HEAD_BYTES_MAX + length_of(path, kind)
        case inspect.EnumType(cls):
            return max(longest_choice(member.value) for member in cls)
        case inspect.LiteralType(values):
            return max(longest_choice(value) for value in values)
        case inspect.UnionType(members):
            return max(longest(path, member, within) for member in members)
        case inspect.TupleType(members):
            parts = [longest(f"{path}[{place}]", member, within) for place, member in enumerate(members)]
            return HEAD_BYTES_MAX + sum(parts)
        case inspect.VarTupleType(member):
            return HEAD_BYTES_MAX + length_of(path, kind) * longest(f"{path}[...]", member, within)
        case inspect.StructType():
            return longest_struct(path, kind, within)
    advice = REPLACEMENTS.get(type(kind), "no such values are sent; use what machine/message.py offers")
    raise UsageError(f"{path}: {advice}")


def longest_struct(path: str, kind: inspect.StructType, within: tuple[type, ...]) -> int:
    name = kind.cls.__name__
    if kind.cls in within:
        raise UsageError(f"{path}: {name} contains itself, so its depth has no bound; give it a codec")
    if not kind.array_like or not kind.cls.__struct_config__.frozen:
        raise UsageError(f"{path}: {name} is no frozen struct of array form; derive it from Message")
    parts = [longest(f"{path}.{field.name}", field.type, (*within, kind.cls)) for field in kind.fields]
    return HEAD_BYTES_MAX + sum(parts)


def longest_number(path: str, kind: Any) -> int:
    if any(all(getattr(kind, name) is None for name in side) for side in SIDES):
        raise UsageError(f"{path}: its range has no bounds, so it lets NaN or 64-bit overflow in; use Integer or Real")
    return NUMBER_BYTES_MAX


def longest_choice(value: Any) -> int:
    return HEAD_BYTES_MAX + len(value.encode()) if isinstance(value, str) else NUMBER_BYTES_MAX


def length_of(path: str, kind: Any) -> int:
    if kind.max_length is None:
        raise UsageError(f"{path}: its length has no bound; annotate it with Meta(max_length=...)")
    length: int = kind.max_length
    return length


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
            raise BadMessage(f"{self.name_of(data)}: {plainly(str(problem))}") from None

    def name_of(self, data: bytes) -> str:
        return self.types[int.from_bytes(data[:CODE_BYTES])].__name__


def plainly(problem: str) -> str:
    """A sentence instead of the rule that a text breaks."""
    _, rule, rest = problem.partition("matching regex ")
    return f"a name with characters that names do not have - at {rest.rpartition(' - at ')[2]}" if rule else problem


def why_unknown(data: bytes) -> str:
    if len(data) < CODE_BYTES:
        return f"{len(data)} bytes, too few for a message"
    return f"no message type has the code {int.from_bytes(data[:CODE_BYTES]):#06x}"
