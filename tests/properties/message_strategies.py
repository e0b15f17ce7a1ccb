"""Messages of any registered type, drawn from the annotations of its fields: what a peer may send, and no more."""

from typing import Any, cast

from hypothesis import strategies as st
from msgspec import inspect

from tidings.machine.message import Message
from tidings.model.bounds import INTEGER_MAX
from tidings.model.escapes import PRINTABLE, printable_syntax
from tidings.model.event import Event
from tidings.protocols.teaching.gossip import GossipRepair
from tidings.pubsub.gathered import GatheredPublications, join
from tidings.pubsub.pages import NO_PAGE, StoredPage, page_of
from tidings.pubsub.publications import Publications
from tidings.wire import REGISTRY

LENGTH_MAX = 6
"""Tuples, texts and bytes are drawn no longer than this, unless they must be longer; bounds have tests of their own."""

names = st.from_regex(r"[a-z_][a-z0-9_.]{0,6}", fullmatch=True).filter(lambda name: name != "time")
values = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(min_size=1, max_size=8),
)
context = st.fixed_dictionaries({}, optional={"id": st.text(min_size=1, max_size=8), "source": st.just("/a")})
others = st.dictionaries(
    names.filter(lambda name: name not in ("id", "source", "type", "subject", "datacontenttype", "dataschema")),
    values,
    max_size=5,
)
events = st.builds(
    lambda some, more, payload: Event({**some, **more}, payload), context, others, st.binary(max_size=20)
)


printable_characters = st.characters(exclude_categories=("C", "Z")).filter(printable_syntax.fullmatch)


def of_type(kind: inspect.Type) -> st.SearchStrategy[Any]:
    match kind:
        case inspect.NoneType():
            return st.none()
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType():
            return st.integers(kind.ge, kind.le)
        case inspect.FloatType(ge=least, gt=above, le=most):
            low, is_open = (above, True) if least is None else (least, False)
            return st.floats(low, most, exclude_min=is_open and low is not None, allow_nan=False, allow_infinity=False)
        case inspect.StrType() if kind.pattern == PRINTABLE:
            return st.text(printable_characters, min_size=kind.min_length or 0, max_size=length(kind))
        case inspect.StrType() if kind.pattern:
            return st.from_regex(kind.pattern, fullmatch=True).map(lambda text: text[: kind.max_length])
        case inspect.StrType():
            return st.text(min_size=kind.min_length or 0, max_size=length(kind))
        case inspect.BytesType():
            return st.binary(min_size=kind.min_length or 0, max_size=length(kind))
        case inspect.EnumType(cls):
            return st.sampled_from(cls)
        case inspect.LiteralType(choices):
            return st.sampled_from(choices)
        case inspect.UnionType(members):
            return st.one_of([of_type(member) for member in members])
        case inspect.TupleType(members):
            return st.tuples(*[of_type(member) for member in members])
        case inspect.VarTupleType(member):
            return st.lists(of_type(member), min_size=kind.min_length or 0, max_size=length(kind)).map(tuple)
        case inspect.StructType(cls) if issubclass(cls, Message):
            return of_message(cls)
        case inspect.StructType(cls) if cls is StoredPage:
            return stored_pages
        case inspect.StructType(cls, fields):
            return st.builds(cls, *[of_type(field.type) for field in fields])
    raise AssertionError(f"no strategy for {kind}")


stored_rows = st.tuples(
    st.floats(-1e9, 1e9), st.integers(0, INTEGER_MAX), st.binary(min_size=1, max_size=9), st.binary(max_size=9)
)
stored_pages: st.SearchStrategy[StoredPage] = st.lists(stored_rows, max_size=LENGTH_MAX).map(
    lambda rows: page_of(*zip(*rows, strict=True)) if rows else NO_PAGE
)


def length(kind: Any) -> int:
    return max(min(int(kind.max_length), LENGTH_MAX), kind.min_length or 0)


def of_message(kind: type) -> st.SearchStrategy[Message]:
    if kind is GossipRepair:
        return st.builds(GossipRepair, events)
    if kind is GatheredPublications:
        return gathered
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    fields = {field.name: of_type(field.type) for field in info.fields}
    return st.integers(1, LENGTH_MAX).flatmap(
        lambda count: st.builds(kind, **{name: side_by_side(name, drawn, count) for name, drawn in fields.items()})
    )


SIDE_BY_SIDE = ("numbers", "heads", "payloads", "accepted_at", "matched")
"""Fields that are arrays of equal length, where they are arrays at all."""


def side_by_side(name: str, drawn: st.SearchStrategy[Any], count: int) -> st.SearchStrategy[Any]:
    if name not in SIDE_BY_SIDE:
        return drawn
    return drawn.map(lambda value: (value * count)[:count] if isinstance(value, tuple) else value).filter(
        lambda value: not isinstance(value, tuple) or len(value) == count
    )


gathered: st.SearchStrategy[GatheredPublications] = st.lists(of_message(Publications), min_size=1, max_size=3).map(
    lambda batches: join(cast(list[Publications], batches))
)

messages: st.SearchStrategy[Message] = st.one_of([of_message(kind) for kind in REGISTRY.types.values()])
