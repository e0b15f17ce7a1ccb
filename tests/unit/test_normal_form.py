"""From expressions to conjunctions of constraints: what has a normal form, what is kept whole, and the bounds."""

import pytest

from tidings.model.bounds import CONSTRAINTS_MAX
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.language.normal_form import conjunction_of, disjunction_of, negation_of
from tidings.model.language.parser import parse
from tidings.model.sets.constraint import Constraint, above, at_most, equal_to, number_set
from tidings.model.sets.texts import like, one_of, unlike


def constraints_of(text: str) -> tuple[tuple[Constraint, ...], ...]:
    filter = parse(text)
    assert filter.residual is None
    return filter.conjunctions


@pytest.mark.parametrize(
    ("text", "constraint"),
    [
        ("x = 5", Constraint("x", number=equal_to(5))),
        ("x = 5.0", Constraint("x", number=equal_to(5))),
        ("x != 5", Constraint("x", number=equal_to(5).complement())),
        ("x > '5'", Constraint("x", number=above(5))),
        ("x <= TRUE", Constraint("x", number=at_most(1))),
        ("5 < x", Constraint("x", number=above(5))),
        ("2 + 3 < x", Constraint("x", number=above(5))),
        ("x = 'a'", Constraint("x", text=one_of(["a"]))),
        ("5 = x", Constraint("x", text=one_of(["5"]))),
        ("NOT 'a' != x", Constraint("x", text=one_of(["a"]))),
        ("x IN (5, 'a', 2.0)", Constraint("x", text=one_of(["2", "5", "a"]))),
        ("x = 1 OR x = 2", Constraint("x", number=number_set([(1, 1), (2, 2)]))),
        ("x = 'a' OR x = '05'", Constraint("x", text=one_of(["05", "a"]))),
        ("x LIKE 'a%'", Constraint("x", text=like("a%"))),
        ("NOT x LIKE 'a%'", Constraint("x", text=unlike("a%"))),
        ("x LIKE '%'", Constraint("x")),
        ("x", Constraint("x", truth=True)),
        ("NOT x", Constraint("x", truth=False)),
        ("x != TRUE", Constraint("x", truth=False)),
        ("EXISTS x", Constraint("x")),
        ("NOT EXISTS x", Constraint("x", present=False)),
        ("NOT (x > 5)", Constraint("x", number=at_most(5))),
        ("EXISTS x AND x > 5", Constraint("x", number=above(5))),
        ("x > 5 AND (1 = 1 OR LENGTH(y) > 2)", Constraint("x", number=above(5))),
    ],
)
def test_a_condition_on_one_attribute_is_one_constraint(text: str, constraint: Constraint) -> None:
    assert constraints_of(text) == ((constraint,),)


@pytest.mark.parametrize(
    "text",
    [
        *("FALSE", "5", "'a'", "x + 1", "x > 5 AND x < 3", "x = 'a' AND x = 'b'", "EXISTS x AND NOT EXISTS x"),
        *(
            "x = 'a' AND x > 5",
            "x AND NOT x",
            "x LIKE 'a%' AND x LIKE 'b%'",
            "1 / 0 = 1",
            "(1 / 0 = 1 AND FALSE) = TRUE",
            "x > 1.7976931348623157e308",
        ),
        *("LENGTH(y) > 2 AND x = 1 AND x = 2", "NOT EXISTS specversion"),
    ],
)
def test_what_can_never_be_true_matches_nothing(text: str) -> None:
    assert parse(text) == Filter(())


@pytest.mark.parametrize(
    "text", ["TRUE", "'true'", "1 < 2", "(1 / 0 = 1 AND FALSE) = FALSE", "x OR TRUE", "EXISTS specversion", "NOT FALSE"]
)
def test_what_is_always_true_matches_everything(text: str) -> None:
    assert parse(text) == Filter(((),))


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("a = 1 AND b = 2", "b = 2 AND a = 1"),
        ("a = 1 OR b = 2", "b = 2 OR a = 1"),
        ("NOT (a = 1 AND b = 2)", "a != 1 OR b != 2"),
        ("a = 1 XOR b = 2", "a = 1 AND b != 2 OR a != 1 AND b = 2"),
        ("NOT (a = 1 XOR b = 2)", "a = 1 AND b = 2 OR a != 1 AND b != 2"),
        ("a > 1 AND a > 2", "a > 2"),
        ("NOT NOT a", "a"),
        ("(a = 1 OR b = 1) AND c = 1", "a = 1 AND c = 1 OR b = 1 AND c = 1"),
        ("x = 1 OR x = 1", "x = 1"),
    ],
)
def test_texts_that_say_the_same_give_equal_filters(text: str, other: str) -> None:
    assert parse(text) == parse(other)
    assert hash(parse(text)) == hash(parse(other))


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("LENGTH(x) > 3", ["x"]),
        ("x < y", ["x", "y"]),
        ("x + 1 = 2", ["x"]),
        ("5 != x", ["x"]),
        ("x IN (TRUE, 'a')", ["x"]),
        ("x IN ('05')", ["x"]),
        ("x IN (y)", ["x"]),
        ("(x OR y) = z", ["z"]),
        ("UPPER(x) LIKE 'A%'", ["x"]),
        ("NOT LENGTH(x) > 3", ["x"]),
    ],
)
def test_a_condition_without_a_form_is_kept_whole_and_asks_for_what_it_reads(text: str, needed: list[str]) -> None:
    filter = parse(text)
    assert filter.residual is not None
    assert filter.conjunctions == (tuple(map(Constraint, needed)),)


def test_an_approximation_keeps_the_constraints_beside_the_condition_without_a_form() -> None:
    filter = parse("x = 1 AND LENGTH(y) > 3")
    assert filter.conjunctions == ((Constraint("x", number=equal_to(1)), Constraint("y")),)
    assert filter.matches(Event({"x": 1, "y": "long"}))
    assert not filter.matches(Event({"x": 1, "y": "no"}))


def test_a_residual_that_is_no_truth_is_read_as_one() -> None:
    filter = parse("LOWER(x)")
    assert filter.matches(Event({"x": "TRUE"}))
    assert not filter.matches(Event({"x": "yes"}))


def test_the_largest_normal_form_is_still_exact() -> None:
    text = " OR ".join(f"a{number} LIKE 'x%'" for number in range(CONSTRAINTS_MAX))
    assert len(constraints_of(text)) == CONSTRAINTS_MAX


@pytest.mark.parametrize(
    "text",
    [
        " OR ".join(f"a{number} = 1" for number in range(CONSTRAINTS_MAX + 1)),
        " AND ".join(f"a{number} = 1" for number in range(CONSTRAINTS_MAX + 1)),
        " AND ".join(f"(a{number} = 1 OR b{number} = 2)" for number in range(20)),
        " XOR ".join(f"a{number} = 1" for number in range(12)),
        " AND ".join(f"x NOT LIKE '%{number}_'" for number in range(CONSTRAINTS_MAX + 1)),
    ],
    ids=["or", "and", "product", "xor", "patterns"],
)
def test_beyond_the_bound_the_expression_is_kept_and_the_approximation_keeps_the_bound(text: str) -> None:
    filter = parse(text)
    assert filter.residual is not None
    assert sum(map(len, filter.conjunctions)) <= CONSTRAINTS_MAX


def test_an_approximation_beyond_the_bound_keeps_what_all_parts_constrain() -> None:
    filter = parse(" OR ".join(f"price > {number} AND symbol = 's{number}'" for number in range(40)))
    assert filter.conjunctions == (
        (Constraint("price", number=above(0)), Constraint("symbol", text=one_of(f"s{number}" for number in range(40)))),
    )
    assert filter.matches(Event({"price": 8, "symbol": "s7"}))
    assert not filter.matches(Event({"price": 7, "symbol": "s7"}))


def test_long_lists_of_values_are_one_constraint() -> None:
    numbers = parse(" OR ".join(f"x = {number}" for number in range(0, 200, 2)))
    assert numbers.residual is None
    assert [len(conjunction) for conjunction in numbers.conjunctions] == [1]
    assert constraints_of("x IN (" + ", ".join(f"'s{number}'" for number in range(200)) + ")")


def test_not_leaves_events_without_the_attribute_unmatched() -> None:
    filter, opposite = parse("x > 5"), negation_of(parse("x > 5"))
    for value in (4, 5, 6, "7", "word"):
        event = Event({"x": value})
        assert filter.matches(event) + opposite.matches(event) == (value != "word")
    assert not opposite.matches(Event({}))


def test_filters_combine_as_their_texts_would() -> None:
    left, right = parse("x > 5 OR y = 'a'"), parse("LENGTH(z) > 3")
    assert conjunction_of(left, right) == parse("(x > 5 OR y = 'a') AND LENGTH(z) > 3")
    assert disjunction_of(left, right) == parse("x > 5 OR y = 'a' OR LENGTH(z) > 3")
    assert negation_of(right) == parse("NOT LENGTH(z) > 3")


def test_combining_without_end_is_refused_rather_than_nested_without_end() -> None:
    filter = parse("LENGTH(x) > 3")
    with pytest.raises(UsageError, match="nested deeper"):
        for number in range(100):
            filter = negation_of(conjunction_of(filter, parse(f"LENGTH(y{number}) > 3")))
