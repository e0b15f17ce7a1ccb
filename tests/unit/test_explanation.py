"""Explaining a filter: cost classes, what it reads, and why an event is refused."""

import pytest

from tidings import Event, parse
from tidings.matching.explanation import FailedConstraint, explain, judge


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("a = 1", "equality"),
        ("a IN ('x', 'y')", "equality"),
        ("a = TRUE", "equality"),
        ("EXISTS a", "equality"),
        ("a > 1", "range"),
        ("a < 'm'", "range"),
        ("a != 1", "range"),
        ("a = 1 AND b > 1", "range"),
        ("a LIKE '%x'", "pattern"),
        ("a != 'x'", "pattern"),
        ("a > 1 OR b LIKE 'x_z'", "pattern"),
        ("LENGTH(a) = 1", "residual"),
        ("a = 1 AND b < c", "residual"),
    ],
)
def test_a_filter_is_as_dear_as_its_dearest_part(text: str, cost: str) -> None:
    assert explain(parse(text)).cost == cost


def test_attributes_of_a_residual_expression_are_read_too() -> None:
    assert explain(parse("z = 1 AND LENGTH(b) > a AND (EXISTS c OR b > a)")).attributes == ("a", "b", "c", "z")


def test_each_conjunction_says_what_refuses_the_event() -> None:
    judgement = judge(parse("a = 1 AND b = 2 OR c = 3"), Event({"a": 1, "c": 4}))
    assert judgement.matches is False
    assert judgement.refusals == ((FailedConstraint("b = 2", "b", None),), (FailedConstraint("c = 3", "c", 4),))


def test_an_event_that_passes_one_conjunction_matches() -> None:
    judgement = judge(parse("a = 1 AND b = 2 OR c = 3"), Event({"c": 3}))
    assert judgement.matches is True
    assert judgement.refusals[1] == ()


def test_the_outcome_of_a_residual_expression_is_shown() -> None:
    filter = parse("a = 1 AND LENGTH(b) > 3")
    refused, failed = judge(filter, Event({"a": 1, "b": "xyz"})), judge(filter, Event({"a": 1}))
    assert (refused.matches, refused.residual_value, refused.residual_error) == (False, False, None)
    assert (failed.matches, failed.residual_error is None) == (False, False)
