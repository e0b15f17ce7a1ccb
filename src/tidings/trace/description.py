"""Messages, items and timer names as text for a trace: a name, a key, and the fields.

What is said of a value is decided once for each type, when it is first seen. If its fields can hold nothing but plain
data, they are encoded as they are, which is quick. Otherwise they are walked: an event is then shown by its key (its
attributes stand in the row of its publication), a filter by its text, bytes by their number, anything unknown by the
name of its type. The walk has bounds, and so has all text: what is too long is cut, and says so.

The same value gives the same text in every process: names and sets are sorted, nothing prints its address.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import islice
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
import xxhash
from msgspec.structs import asdict

from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.trace.record import DETAIL_CHARS_MAX, KEY_CHARS_MAX, Subject

WALK_DEPTH_MAX = 8
WALK_ITEMS_MAX = 64
"""How deep, and how many items of a sequence, a walk looks; of the rest it only says that there is more."""

MORE = "..."

BEGINNING_CHARS = 200
"""Of a detail that is too long, what is kept for the reader."""

IDENTITY_FIELDS = ("event", "key", "id")
"""A message that has one of these fields is about the thing that it names; the first found counts."""

PLAIN, PLAIN_WHOLES = (str, int, float, bool, NoneType), (tuple, list, Union, UnionType)
"""What is encoded as it should be shown, in one order, and briefly."""

SMALL, SMALL_WHOLES = (str, int, bool, NoneType), (Union, UnionType)
"""What is cheap to compare, and has the same text when it is equal. (No float: 0.0 and -0.0 are equal.)"""

ENCODER = msgspec.json.Encoder(order="deterministic")
encode, encode_lines = ENCODER.encode, ENCODER.encode_lines

Description = tuple[str, str | None, str | None]
"""Name of the type, key, detail."""


class DescriptionPlan(NamedTuple):
    """How values of a type are described."""

    name: str
    identity: str | None
    """The field that holds the key."""
    is_plain: bool
    """Its fields are plain data."""
    is_quick: bool
    """Besides, it has no key."""
    is_small: bool
    """Its fields are single words and whole numbers, and it compares by them."""


plans: dict[type, DescriptionPlan] = {}
"""One for each type of message in the program."""


def plan_of(kind: type) -> DescriptionPlan:
    return plans.get(kind) or make_plan(kind)


def describe(value: Any) -> Description:
    if type(value) is Event:
        return describe_event(value)
    plan = plan_of(type(value))
    key = None if plan.identity is None else key_text(getattr(value, plan.identity))
    return plan.name, key, fitted(encode(asdict(value)).decode()) if plan.is_plain else detail_text(value)


def describe_all(values: list[Any]) -> Iterator[Subject]:
    """The same for many at once, where plain fields are encoded together, which is much cheaper.

    What is described already stays as it is.
    """
    names = {kind: plan_of(kind).name for kind in dict.fromkeys(map(type, values)) if plan_of(kind).is_quick}
    lines = iter(encode_lines([asdict(value) for value in values if type(value) in names]).decode().split("\n"))
    for value in values:
        kind = type(value)
        if kind in names:
            yield Subject(names[kind], None, None, fitted(next(lines)))
        elif kind is Subject:
            yield value
        else:
            name, key, detail = describe(value)
            yield Subject(name, key, None, detail)


def is_small(kind: type) -> bool:
    """Whether values of this type have the same text when they are equal, and comparing them is cheap."""
    return plan_of(kind).is_small


def describe_event(event: Event, in_full: bool = False) -> Description:
    """Attributes are told where an event is published, and found from elsewhere by its key."""
    key = key_text(event)
    return "Event", key, detail_text(event.attributes) if in_full or key is None else None


def make_plan(kind: type) -> DescriptionPlan:
    names: tuple[str, ...] = getattr(kind, "__struct_fields__", ())
    identity = next((name for name in IDENTITY_FIELDS if name in names), None)
    hints = field_types(kind) if issubclass(kind, msgspec.Struct) else [Any]
    is_plain = all(is_made_of(hint, PLAIN, PLAIN_WHOLES) for hint in hints)
    is_small = is_comparable(kind) and all(is_made_of(hint, SMALL, SMALL_WHOLES) for hint in hints)
    plan = plans[kind] = DescriptionPlan(kind.__name__, identity, is_plain, is_plain and identity is None, is_small)
    return plan


def field_types(kind: type) -> list[Any]:
    try:
        return list(get_type_hints(kind).values())
    except (NameError, TypeError):
        return [Any]


def is_comparable(kind: type) -> bool:
    """Whether it compares, and hashes, by its fields and by nothing else."""
    return issubclass(kind, msgspec.Struct) and kind.__struct_config__.frozen and kind.__eq__ is msgspec.Struct.__eq__


def is_made_of(hint: Any, parts: tuple[Any, ...], wholes: tuple[Any, ...]) -> bool:
    if hint in parts or (isinstance(hint, type) and issubclass(hint, Enum)):
        return True
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return True
    if origin is Annotated:
        return is_made_of(inner[0], parts, wholes)
    return origin in wholes and all(each is Ellipsis or is_made_of(each, parts, wholes) for each in inner)


def detail_text(value: Any) -> str:
    return fitted(encode(walked(value)).decode())


def fitted(text: str) -> str:
    """Within the bound on details."""
    if len(text) <= DETAIL_CHARS_MAX:
        return text
    return encode({"begins": text[:BEGINNING_CHARS], "chars": len(text)}).decode()


def walked(value: Any, depth: int = 0) -> Any:
    """The value as plain data that encodes the same everywhere."""
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes | bytearray):
        return f"{len(value)} bytes"
    if isinstance(value, Filter):
        return value.text()
    if isinstance(value, Event):
        return event_key(value) or type(value).__name__
    if depth >= WALK_DEPTH_MAX:
        return MORE
    if isinstance(value, msgspec.Struct):
        return {name: walked(field, depth + 1) for name, field in asdict(value).items()}
    if isinstance(value, Mapping):
        items = islice(value.items(), WALK_ITEMS_MAX)
        return {word(key): walked(item, depth + 1) for key, item in items} | more(value, {MORE: len(value)}, {})
    if isinstance(value, tuple | list):
        return [walked(item, depth + 1) for item in value[:WALK_ITEMS_MAX]] + more(value, [MORE], [])
    if isinstance(value, set | frozenset):
        return sorted(word(item) for item in value)[:WALK_ITEMS_MAX] + more(value, [MORE], [])
    return type(value).__name__


def more(value: Any, rest: Any, nothing: Any) -> Any:
    return rest if len(value) > WALK_ITEMS_MAX else nothing


def key_text(value: Any) -> str | None:
    """The name of a thing: words as they are, parts of a tuple joined, an event by its source and id."""
    text = event_key(value) if type(value) is Event else word(value)
    if text is None or len(text) <= KEY_CHARS_MAX:
        return text
    # Two long keys that begin alike must not become one.
    digest = xxhash.xxh3_64_hexdigest(text.encode())
    return f"{text[: KEY_CHARS_MAX - len(digest) - 1]}~{digest}"


def word(value: Any) -> str:
    kind = type(value)
    if kind is str:
        return value  # type: ignore[no-any-return]
    if kind is tuple:
        return "/".join([part if type(part) is str else word(part) for part in value])
    plain = walked(value)
    return plain if isinstance(plain, str) else encode(plain).decode()


def event_key(event: Event) -> str | None:
    """Source and id with a space between, which a source, being a URI reference, does not contain."""
    source, id = event.attributes.get("source"), event.attributes.get("id")
    if source is None or id is None:
        return id  # type: ignore[return-value]
    return f"{source} {id}"
