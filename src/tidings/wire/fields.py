"""Is a message type fit for the wire, and how long can it get?

Asked once for each type, when it is registered. The answer follows its annotations: the type must be a frozen struct of
array form, and each field a value of bounded size. What is found wanting is named by its path, with what to write
instead. From the bounds of the fields follows a bound for the whole: bytes that are longer need not be looked at, and
this matters because one wide character makes Python keep a text four times as large as its bytes.
"""

from typing import Any

from msgspec import inspect

from tidings.model.errors import UsageError

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
