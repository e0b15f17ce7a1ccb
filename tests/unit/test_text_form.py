"""Filters printed: the shortest spelling of numbers, parentheses only where needed, text that parses back."""

import pytest

from tidings.model.filter import Filter
from tidings.model.language.expression import conjunction_text, constraint_text, expression_text, filter_text
from tidings.model.language.parser import parse, parse_expression
from tidings.model.sets.constraint import EVERY_NUMBER, Constraint, above, between, equal_to, number_set
from tidings.model.sets.texts import after, one_of, starting_at, up_to


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("x>5", "x > 5"),
        ("x < 0.1", "x < 0.1"),
        ("x >= 5 AND x <= 7", "x >= 5 AND x <= 7"),
        ("x > 5 AND x < 7", "x > 5 AND x < 7"),
        ("x = 5.0", "x = 5"),
        ("x <> 5", "x != 5"),
        ("x != 5 AND x != 7", "x != 5 AND x != 7"),
        ("x > 1 AND x != 5 AND x <= 9", "x > 1 AND x <= 9 AND x != 5"),
        ("x = 3 OR x = 1", "x = 1 OR x = 3"),
        ("(x < 1 OR x > 5) AND y = 1", "(x < 1 OR x > 5) AND y = 1"),
        ("x < 5 OR x >= 5", "x < 0 OR x >= 0"),
        ("x = 1e300", "x = 1e+300"),
        ("x in ('b', 'a')", "x IN ('a', 'b')"),
        ("x in ('b', 'b')", "x = 'b'"),
        ("x = 'TRUE' OR x = 'a'", "x = 'TRUE' OR x = 'a'"),
        ("x NOT IN ('a', 'b')", "x NOT IN ('a', 'b')"),
        ("x > 'm' AND x <= 'p'", "x > 'm' AND x <= 'p'"),
        ("x >= 'ab' AND x < 'ac'", "x LIKE 'ab%'"),
        ("x < '5\0' AND x != '5'", "x < '5\0' AND x != '5'"),
        ("NOT x LIKE '%a'", "x NOT LIKE '%a'"),
        ('x = "it\'s"', "x = 'it\\'s'"),
        ("x = 'C:\\\\'", "x = 'C:\\\\'"),
        ("x", "x = TRUE"),
        ("not exists x", "NOT EXISTS x"),
        ("true", "TRUE"),
        ("x > 5 and x < 3", "FALSE"),
        ("b = 1 or a = 1 and c = 1", "a = 1 AND c = 1 OR b = 1"),
        ("length(x) > 3 and (y = 1 or z)", "LENGTH(x) > 3 AND (y = 1 OR z)"),
    ],
)
def test_a_filter_prints_in_its_canonical_form(text: str, printed: str) -> None:
    filter = parse(text)
    assert filter.text() == printed
    assert parse(printed) == filter


@pytest.mark.parametrize(
    "text",
    [
        *(
            "(a OR b) AND c",
            "a OR b AND c",
            "NOT (a AND b)",
            "NOT a = b",
            "(NOT a) = b",
            "a = (NOT b)",
            "a XOR b XOR c",
        ),
        *("a XOR (b XOR c)", "(a XOR b) = c", "a - (b - c)", "a - b - c", "(a + b) * c", "-(a + b)", "--a", "a - -1"),
        *("(a = b) = c", "a = (b = c)", "(a LIKE 'x') IN (b)", "a + b NOT IN (c, d OR e)", "(a OR b) LIKE 'x%'"),
        *("F(a, b + 1, G())", "-(-9223372036854775808)", "7.0 / 2", "(EXISTS a) = b", "a NOT LIKE 'x' = b"),
    ],
)
def test_parentheses_keep_the_meaning_of_an_expression(text: str) -> None:
    expression = parse_expression(text)
    assert parse_expression(expression_text(expression)) == expression


@pytest.mark.parametrize("text", ["a OR b AND c", "NOT a = b", "a - b - c", "-a * b", "a XOR b XOR c"])
def test_no_parentheses_are_printed_that_are_not_needed(text: str) -> None:
    assert expression_text(parse_expression(text)) == text


@pytest.mark.parametrize(
    ("constraint", "printed"),
    [
        (Constraint("x"), "EXISTS x"),
        (Constraint("x", present=False), "NOT EXISTS x"),
        (Constraint("x", number=EVERY_NUMBER), "x < 0 OR x >= 0"),
        (Constraint("x", number=number_set([(1, 1), (3, 4)])), "x = 1 OR x >= 3 AND x <= 4"),
        (Constraint("x", number=between(1, 2), truth=True), "x >= 1 AND x <= 2 AND x = TRUE"),
        (Constraint("x", text=one_of(["05", "a"])), "x = '05' OR x = 'a'"),
        (Constraint("x", text=after("5")), "x >= '5\0'"),
        (Constraint("x", text=up_to("5")), "x < '5\0'"),
        (Constraint("x", text=starting_at("5")), "x = '5' OR x >= '5\0'"),
    ],
)
def test_every_constraint_has_a_text(constraint: Constraint, printed: str) -> None:
    assert constraint_text(constraint) == printed


def test_conjunctions_and_filters_print_their_parts_in_order() -> None:
    both = (Constraint("a", number=equal_to(1)), Constraint("b", number=above(2)))
    assert conjunction_text(both) == "a = 1 AND b > 2"
    assert conjunction_text(()) == "TRUE"
    assert filter_text(Filter((both, (Constraint("c"),)))) == "a = 1 AND b > 2 OR EXISTS c"
    assert filter_text(Filter(())) == "FALSE"


def test_a_filter_prints_even_if_its_text_is_too_long_to_be_parsed() -> None:
    many = Constraint("x", text=one_of(f"value{number}" for number in range(1000)))
    assert filter_text(Filter(((many,),))).count("'value") == 1000
