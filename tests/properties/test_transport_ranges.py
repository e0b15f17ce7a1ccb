"""Rows that tell ranges: what a filter matches is never taken for another's, and most of what it does not match is."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.matching.bloom import BloomProfile
from tidings.model.event import Event
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.protocols.transport.ordering.rules import WantedRows
from tidings.protocols.transport.rows import ALL_STEPS, bounds_of, is_met, row_of_event, step_of

PROFILE = BloomProfile(bits=256)

numbers = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-20, 20),
    st.integers(-80, 80).map(lambda eighth: eighth / 8),
)
values = st.one_of(numbers, numbers.map(str), st.booleans(), st.sampled_from(["", "abc", "1e3", "-0"]))
comparisons = st.tuples(st.sampled_from("ab"), st.sampled_from(["<", "<=", ">", ">=", "=", "!="]), numbers)
conditions = comparisons.map(lambda parts: f"{parts[0]} {parts[1]} {parts[2]!r}")
lists = st.tuples(st.sampled_from("ab"), st.lists(values, min_size=1, max_size=4)).map(
    lambda parts: f"{parts[0]} IN ({', '.join(map(spelled, parts[1]))})"
)
texts = st.one_of(
    conditions,
    lists,
    lists.map(lambda text: f"NOT ({text})"),
    st.tuples(lists, conditions).map(" AND ".join),
    st.lists(conditions, min_size=2, max_size=3).map(" AND ".join),
    st.lists(conditions, min_size=2, max_size=3).map(" OR ".join),
    conditions.map(lambda text: f"NOT ({text})"),
)


def spelled(value: Value) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return f"'{value}'" if isinstance(value, str) else repr(value)


def interests_of(text: str) -> WantedRows:
    interests = WantedRows(PROFILE, tells_ranges=True)
    interests.add(1, parse(text))
    return interests


@given(texts, st.dictionaries(st.sampled_from("abc"), values, max_size=3))
def test_what_matches_is_always_found(text: str, attributes: dict[str, Value]) -> None:
    event = Event(attributes)
    if not parse(text).matches(event):
        return
    row = row_of_event(event, PROFILE, tells_ranges=True)
    assert interests_of(text).matching(row) in ((1,), None)


@given(numbers)
def test_every_number_lies_in_its_step(number: float) -> None:
    step = step_of(number)
    low, high = bounds_of(step)
    assert step in ALL_STEPS
    assert low <= number <= high
    assert is_met(step, number, number)


@pytest.mark.parametrize(
    ("text", "wanted_max"),
    [
        ("price > 100", 1.05),
        ("price < 20", 1.1),
        ("price > 50 AND price < 60", 1.35),
        ("volume >= 1000", 1.1),
        ("symbol IN ('AMD', 'IBM')", 1.05),
    ],
)
def test_most_of_what_does_not_match_is_told_apart(text: str, wanted_max: float) -> None:
    """What seems to match, against what does, among quotes; without ranges it would be all of them."""
    rng, filter, interests = Random(7), parse(text), interests_of(text)
    matching = seeming = 0
    for number in range(4000):
        attributes: dict[str, Value] = {
            "symbol": rng.choice(["AMD", "IBM", "SAP"]),
            "price": round(rng.uniform(1, 200), 2),
            "volume": rng.randrange(10, 2000),
            "number": number,
        }
        event = Event(attributes)
        matching += filter.matches(event)
        seeming += interests.matching(row_of_event(event, PROFILE, tells_ranges=True)) == (1,)
    assert matching <= seeming <= wanted_max * matching
