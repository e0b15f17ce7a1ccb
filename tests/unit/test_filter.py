"""Filters: matching, covering, overlap, simplification, identity. Examples one can check by hand."""

import os
import subprocess
import sys

import pytest

from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.language.builder import attr
from tidings.model.language.parser import parse


@pytest.mark.spec("T-1")
@pytest.mark.parametrize(
    "text",
    [
        *("price < 120", "price = 1", "price != 1", "price LIKE 'a%'", "price NOT LIKE 'a%'", "price IN (1, 2)"),
        *("price NOT IN (1, 2)", "price = TRUE", "NOT (price = 1)", "NOT price", "EXISTS price", "price < other"),
    ],
)
def test_a_constraint_on_an_absent_attribute_never_matches(text: str) -> None:
    assert not parse(text).matches(Event({"volume": 5, "other": 3}))


def test_only_the_question_for_absence_matches_an_absent_attribute() -> None:
    assert parse("NOT EXISTS price").matches(Event({}))
    assert not parse("NOT EXISTS price").matches(Event({"price": 1}))


@pytest.mark.spec("T-2", "S-1")
def test_a_conjunction_needs_all_its_constraints_and_a_disjunction_one_part() -> None:
    both = parse("symbol = 'AMD' AND price < 120")
    assert both.matches(Event({"symbol": "AMD", "price": 100, "market": "NYSE"}))
    assert not both.matches(Event({"symbol": "AMD", "price": 130}))
    either = parse("symbol = 'AMD' OR price < 120")
    assert either.matches(Event({"price": 100}))
    assert either.matches(Event({"symbol": "AMD"}))
    assert not either.matches(Event({"symbol": "IBM", "price": 130}))


def test_true_matches_everything_and_false_nothing() -> None:
    assert parse("TRUE").matches(Event({})) and parse("TRUE") == Filter(((),))
    assert not parse("FALSE").matches(Event({"a": 1})) and parse("FALSE") == Filter(())


@pytest.mark.spec("T-3")
@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("x LIKE 'ab%'", "abc", True),
        ("x LIKE 'ab%'", "cab", False),
        ("x LIKE '%bc'", "abc", True),
        ("x LIKE '%b%'", "abc", True),
        ("x = 'abc'", "abc", True),
        ("x = 'abc'", "abcd", False),
        ("x < 'b'", "abc", True),
        ("x >= 'b'", "abc", False),
        ("x < 120", 119.5, True),
        ("x <= 120", 120, True),
        ("x > 120", 120, False),
        ("x = 120", 120.0, True),
        ("x = 9007199254740993", 9007199254740992.0, False),
        ("x < 9007199254740993", 9007199254740992.0, True),
        ("x = TRUE", True, True),
        ("x != TRUE", False, True),
        ("x = FALSE", True, False),
    ],
)
def test_each_operator_works_on_its_type(text: str, value: object, expected: bool) -> None:
    assert parse(text).matches(Event({"x": value})) is expected  # type: ignore[dict-item]


@pytest.mark.spec("T-4", "S-3")
@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("TRUE", "x = 1"),
        ("x = 1", "FALSE"),
        ("EXISTS x", "x = 1"),
        ("x > 1", "x > 2"),
        ("x >= 2", "x > 1.9999999999999998"),
        ("x != 5", "x > 5 AND x < 7"),
        ("x < 10", "x = '05'"),
        ("x = 5", "x IN ('5', '05') AND x = 5"),
        ("x IN ('a', 'b', 'c')", "x IN ('a', 'c')"),
        ("x LIKE 'a%'", "x LIKE 'ab%c'"),
        ("x LIKE '%b%'", "x LIKE 'ab%c'"),
        ("x != 'q'", "x LIKE 'ab%'"),
        ("x != 'IBM'", "x > 5"),
        ("x >= 'ab'", "x LIKE 'ab%'"),
        ("x = 1", "x = 1 AND y = 2"),
        ("x < 5 OR x >= 5", "x > 0 AND x < 9"),
        ("x < 5 AND y < 5 OR x >= 5 AND y < 5", "x > 0 AND y < 2"),
        ("x < 2 OR x > 1 AND y < 5 OR x > 1 AND y >= 5", "x > 0 AND y > 0"),
        ("NOT EXISTS x", "NOT EXISTS x AND y = 1"),
        ("LENGTH(x) > 3", "LENGTH(x) > 3 AND y = 1"),
        ("LENGTH(x) > 3 AND y > 0", "LENGTH(x) > 3 AND y > 5"),
        ("x > 5", "x > y AND x > 6"),
    ],
)
def test_covers_says_yes(wide: str, narrow: str) -> None:
    assert parse(wide).covers(parse(narrow))


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("x > 2", "x > 1"),
        ("x = 5", "x = 5 OR x = 6"),
        ("x IN (5)", "x = 5"),
        ("x = '5'", "x = 5"),
        ("x LIKE 'ab%'", "x LIKE 'a%b'"),
        ("x = 1 AND y = 2", "x = 1"),
        ("EXISTS x", "NOT EXISTS x"),
        ("x = 1", "TRUE"),
        ("FALSE", "x = 1"),
        ("x < 5 OR x > 5", "x > 0"),
        ("LENGTH(x) > 3", "LENGTH(x) > 2"),
        ("LENGTH(x) > 3", "x = 'abcd'"),
    ],
)
def test_covers_says_no_and_a_counterexample_shows_it(wide: str, narrow: str) -> None:
    assert not parse(wide).covers(parse(narrow))
    witness = parse(wide).counterexample(parse(narrow))
    if witness is None:
        assert wide == "LENGTH(x) > 3"  # covering of residual expressions is by their text alone
    else:
        assert parse(narrow).matches(witness) and not parse(wide).matches(witness)


@pytest.mark.spec("S-2")
def test_an_advertisement_overlaps_a_subscription_on_attributes_that_only_one_of_them_constrains() -> None:
    advertisement = parse("class = 'STOCK' AND symbol = 'IBM'")
    assert advertisement.overlaps(parse("class = 'STOCK' AND value < 20"))
    assert advertisement.overlaps(parse("class = 'STOCK'"))
    assert not advertisement.overlaps(parse("class = 'STOCK' AND symbol = 'AMD'"))
    assert not advertisement.overlaps(parse("class = 'NEWS'"))


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("x < 5", "x > 5", False),
        ("x <= 5", "x >= 5", True),
        ("x LIKE 'a%'", "x LIKE '%b'", True),
        ("x LIKE 'a%'", "x LIKE 'b%'", False),
        ("x LIKE 'a_'", "x LIKE '%bc'", False),
        ("x = 5", "x = '05'", True),
        ("x = 5", "x = 'five'", False),
        ("x = TRUE", "x = 1", True),
        ("EXISTS x", "NOT EXISTS x", False),
        ("FALSE", "TRUE", False),
        ("LENGTH(x) > 3", "y = 1", True),
        ("LENGTH(x) > 3", "NOT EXISTS x", False),
    ],
)
def test_overlaps_says_whether_an_event_can_match_both(left: str, right: str, expected: bool) -> None:
    assert parse(left).overlaps(parse(right)) is expected
    assert parse(right).overlaps(parse(left)) is expected


@pytest.mark.parametrize(
    ("text", "simple"),
    [
        ("x > 1 OR x > 2", "x > 1"),
        ("x > 1 AND y = 2 OR x > 1", "x > 1"),
        ("x < 5 AND y = 1 OR x >= 5 AND x < 9 AND y = 1", "x < 9 AND y = 1"),
        ("x LIKE 'ab%' OR x LIKE 'a%'", "x LIKE 'a%'"),
        ("EXISTS x OR NOT EXISTS x", "TRUE"),
        ("x = 1 OR TRUE", "TRUE"),
    ],
)
def test_simplify_finds_the_shorter_form(text: str, simple: str) -> None:
    assert parse(text).simplify() == parse(simple)


def test_equal_filters_have_equal_hashes_and_digests_in_every_process() -> None:
    text = "price > 100 AND symbol IN ('IBM', 'AAPL') OR LENGTH(name) > 3"
    code = f"from tidings.model.language.parser import parse; f = parse({text!r}); print(hash(f), f.digest().hex())"
    answers = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    filter = parse(text)
    assert answers == {f"{hash(filter)} {filter.digest().hex()}\n"}
    assert parse("a = 1 AND b = 2") == parse("b = 2 AND a = 1.0")
    assert hash(parse("a = 1 AND b = 2")) == hash(parse("b = 2 AND a = 1.0"))


def test_a_filter_refuses_to_be_a_truth() -> None:
    with pytest.raises(TypeError, match="combine filters with"):
        bool(attr.price > 100)
    with pytest.raises(TypeError, match="combine filters with"):
        _ = 1 < attr.price < 5


def test_filters_combine_by_operators_as_their_texts_do() -> None:
    price, symbol = attr.price > 100, attr.symbol.is_in("IBM", "AAPL")
    assert price & symbol == parse("price > 100 AND symbol IN ('IBM', 'AAPL')")
    assert price | symbol == parse("price > 100 OR symbol IN ('IBM', 'AAPL')")
    assert ~(price & symbol) == parse("NOT (price > 100 AND symbol IN ('IBM', 'AAPL'))")
