"""Conditions of Spark as filters: what the broker leaves out is what Spark would leave out."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import datasource
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from tidings.model.event import Event
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.spark.live.columns import push, translate
from tidings.spark.live.readings import READINGS

KINDS: dict[str, type] = {"text": str, "whole": int, "real": float, "truth": bool, "id": str, "source": str}

texts = st.one_of(
    st.text(max_size=4),
    st.text("a%_\\'\"", max_size=4),
    st.sampled_from(["5", "05", "5.0", "true", "TRUE", "IBM", "1e3"]),
)
small = st.integers(-4, 4)
numbers = st.one_of(small, st.sampled_from([2**53, 2**53 + 1, -(2**53), 2**63 - 1, -(2**63)]), st.floats(-4, 4))
values: st.SearchStrategy[Value] = st.one_of(st.booleans(), numbers, numbers.map(str), texts)
literals: dict[type, st.SearchStrategy[Any]] = {
    str: texts,
    int: st.one_of(small, st.integers(-(2**63), 2**63 - 1)),
    float: st.one_of(st.floats(-4, 4), small.map(float), st.sampled_from([2.0**53, 1e300, float("inf"), float("nan")])),
    bool: st.booleans(),
}


@st.composite
def conditions(draw: st.DrawFn) -> datasource.Filter:
    name = draw(st.sampled_from(list(KINDS)))
    kind, path = KINDS[name], (name,)
    shapes: list[Any] = [EqualTo, EqualNullSafe, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual, In]
    shapes += [IsNull, IsNotNull] + ([StringContains, StringEndsWith, StringStartsWith] if kind is str else [])
    shape = draw(st.sampled_from(shapes))
    if shape in (IsNull, IsNotNull):
        made: datasource.Filter = shape(path)
    elif shape is In:
        made = In(path, tuple(draw(st.lists(literals[kind], min_size=1, max_size=4))))
    else:
        made = shape(path, draw(literals[kind]))
    return Not(made) if draw(st.booleans()) else made


@st.composite
def events(draw: st.DrawFn) -> dict[str, Value]:
    made = draw(st.dictionaries(st.sampled_from(["text", "whole", "real", "truth"]), values))
    made.update(draw(st.dictionaries(st.sampled_from(["id", "source"]), texts.filter(bool), max_size=2)))
    return made


def order(value: Any) -> Any:
    """Spark's: NaN is above everything and equals itself; texts by their bytes."""
    if isinstance(value, float):
        return (value != value, 0.0 if value != value else value)
    return value.encode() if isinstance(value, str) else value


def truth(condition: datasource.Filter, row: dict[str, Any]) -> bool | None:
    """What SQL says of a row: true, false or null."""
    if isinstance(condition, Not):
        child = truth(condition.child, row)
        return None if child is None else not child
    value = row[condition.attribute[0]]
    if isinstance(condition, IsNull | IsNotNull):
        return (value is None) is isinstance(condition, IsNull)
    if value is None:
        return False if isinstance(condition, EqualNullSafe) else None
    match condition:
        case In(_, choices):
            return any(order(value) == order(it) for it in choices)
        case EqualTo(_, other) | EqualNullSafe(_, other):
            return bool(order(value) == order(other))
        case LessThan(_, other):
            return bool(order(value) < order(other))
        case LessThanOrEqual(_, other):
            return bool(order(value) <= order(other))
        case GreaterThan(_, other):
            return bool(order(value) > order(other))
        case GreaterThanOrEqual(_, other):
            return bool(order(value) >= order(other))
        case StringContains(_, part):
            return part in value
        case StringStartsWith(_, part):
            return bool(value.startswith(part))
        case StringEndsWith(_, part):
            return bool(value.endswith(part))
    raise AssertionError(condition)


def row_of(attributes: dict[str, Value]) -> dict[str, Any]:
    row = {name: READINGS[kind](attributes[name]) if name in attributes else None for name, kind in KINDS.items()}
    row["id"] = row["id"] or "17"
    row["source"] = row["source"] or "desk"
    return row


@given(conditions(), st.lists(events(), min_size=1, max_size=8))
@example(In(("text",), ("05",)), [{"text": 5}])
@example(EqualTo(("real",), 2.0**53), [{"real": 2**53 + 1}])
@example(Not(EqualTo(("whole",), 5)), [{"whole": 2.5}])
@example(StringStartsWith(("text",), "a\\"), [{"text": "a\\b"}])
def test_a_filter_holds_for_the_rows_for_which_the_condition_is_true_and_if_exact_for_no_other(
    condition: datasource.Filter, rows: list[dict[str, Value]]
) -> None:
    found = translate(condition, KINDS)
    if found is None:
        return
    sent = parse(found.filter.text())
    for attributes in rows:
        is_wanted = truth(condition, row_of(attributes)) is True
        passes = sent.matches(Event(attributes))
        assert passes or not is_wanted
        assert is_wanted or not passes or not found.is_exact


@given(st.lists(conditions(), max_size=4), events())
def test_pushed_conditions_and_those_left_together_say_what_all_say(
    given_conditions: list[datasource.Filter], attributes: dict[str, Value]
) -> None:
    filter, left = push("NOT EXISTS other", given_conditions, KINDS)
    row = row_of(attributes)
    passes = parse(filter).matches(Event(attributes)) and all(truth(it, row) is True for it in left)
    assert passes == all(truth(it, row) is True for it in given_conditions)


@pytest.mark.parametrize(
    ("condition", "text", "is_exact"),
    [
        (GreaterThan(("real",), 100.0), "real > 100", True),
        (Not(EqualTo(("truth",), True)), "truth = FALSE", True),
        (In(("text",), ("IBM", "ACME")), "text IN ('ACME', 'IBM')", True),
        (Not(In(("text",), ("IBM", "ACME"))), "text NOT IN ('ACME', 'IBM')", True),
        (StringStartsWith(("text",), "10%"), r"text LIKE '10\%%'", True),
        (IsNull(("text",)), "NOT EXISTS text", True),
        (IsNotNull(("text",)), "EXISTS text", True),
        (GreaterThan(("whole",), 3), "whole > 3", False),
        (EqualTo(("whole",), 3), "whole = 3", True),
        (EqualTo(("id",), "e7"), "NOT EXISTS id OR id = 'e7'", False),
    ],
)
def test_conditions_become_plain_filters(condition: datasource.Filter, text: str, is_exact: bool) -> None:
    found = translate(condition, KINDS)
    assert found is not None
    assert (found.filter.text(), found.is_exact) == (text, is_exact)


@pytest.mark.parametrize(
    "condition",
    [
        IsNull(("real",)),
        EqualTo(("publisher",), "desk"),
        EqualTo(("real",), 2.0**53),
        LessThan(("truth",), True),
        StringContains(("text",), "x\\"),
        EqualTo(("a", "b"), 1),
        EqualTo(("text",), "x" * 70_000),
        In(("whole",), tuple(range(1000))),
    ],
)
def test_other_conditions_are_left_to_spark(condition: datasource.Filter) -> None:
    assert translate(condition, KINDS) is None
    assert push("TRUE", [condition], KINDS) == ("TRUE", [condition])


def test_conditions_that_would_make_the_filter_too_long_are_left_to_spark() -> None:
    many: list[datasource.Filter] = [EqualTo(("text",), f"{place:0100}") for place in range(60)]
    long: list[datasource.Filter] = [Not(it) for it in many]
    filter, left = push("TRUE", long, KINDS)
    assert 0 < len(left) < len(long)
    assert len(filter) <= 4096
