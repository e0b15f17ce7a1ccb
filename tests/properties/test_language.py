"""Random filters and events: the normal form agrees with the evaluator, text and filters turn into each other, and no
text whatever makes the parser fail otherwise than it promises."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidings.matching.merging import merge
from tidings.model.errors import FilterSyntaxError, UsageError
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.language.builder import attr
from tidings.model.language.evaluation import is_true
from tidings.model.language.expression import expression_text
from tidings.model.language.normal_form import conjunction_of, disjunction_of, negation_of, normalise
from tidings.model.language.parser import parse, parse_expression
from tidings.model.sets.conjunction import Conjunction
from tidings.model.values import Value

NAMES = ("x", "y", "a.b")
LITERALS = (
    *("0", "1", "5", "-1", "1.5", "5.0", "1e1", "9223372036854775807", "-9223372036854775808", "TRUE", "false"),
    *("''", "'a'", "'ab'", "'b'", "'5'", "'05'", "'1.5'", "'TRUE'", "'true'", "'False'", "'a%'", "'a\\\\'", "'it\\'s'"),
)
PATTERNS = ("'a%'", "'%b'", "'_'", "'%'", "'5%'", "'a\\%'", "'%a_'", "'ab'", "'t%e'", "'_%'", "''")
VALUES: tuple[Value | None, ...] = (
    *(None, None, True, False, 0, 1, 5, -1, 1.0, 1.5, 5.0, 10, 2**63 - 1, -(2**63)),
    *("", "a", "ab", "b", "abc", "5", "05", "1.5", "5.0", "TRUE", "true", "False", "a%", "a\\", "it's", "10"),
)
OPERATORS = ("=", "!=", "<>", "<", "<=", ">", ">=")
CALLS = ("LENGTH({})", "UPPER({})", "ABS({})", "BOOL({})", "INT({})", "IS_INT({})", "CONCAT({}, {})", "LEFT({}, {})")
CASES_PER_EXAMPLE = 15
EVENTS_PER_FILTER = 25


def random_value(rng: Random, depth: int) -> str:
    kind = rng.randrange(12 if depth else 6)
    if kind < 3:
        return rng.choice(NAMES)
    if kind < 6:
        return rng.choice(LITERALS)
    if kind < 8:
        return f"({random_value(rng, depth - 1)} {rng.choice('+-*/%')} {random_value(rng, depth - 1)})"
    if kind < 9:
        return f"-{rng.choice(NAMES)}"
    if kind < 11:
        call = rng.choice(CALLS)
        return call.format(*(random_value(rng, depth - 1) for _ in range(call.count("{}"))))
    return f"({random_condition(rng, depth - 1)})"


def random_atom(rng: Random) -> str:
    """A condition on one attribute, most of which have a normal form."""
    name, literal = rng.choice(NAMES), rng.choice(LITERALS)
    kind = rng.randrange(10)
    if kind < 5:
        return f"{name} {rng.choice(OPERATORS)} {literal}"
    if kind == 5:
        return f"{literal} {rng.choice(OPERATORS)} {name}"
    if kind == 6:
        return f"{name} {rng.choice(('LIKE', 'NOT LIKE'))} {rng.choice(PATTERNS)}"
    if kind == 7:
        choices = ", ".join(rng.choice(LITERALS) for _ in range(rng.randint(1, 3)))
        return f"{name} {rng.choice(('IN', 'NOT IN'))} ({choices})"
    return name if kind == 8 else f"EXISTS {name}"


def random_condition(rng: Random, depth: int) -> str:
    kind = rng.randrange(14)
    if depth == 0 or kind < 4:
        return random_atom(rng)
    if kind < 6:
        return f"{random_value(rng, depth - 1)} {rng.choice(OPERATORS)} {random_value(rng, depth - 1)}"
    if kind == 6:
        return f"{random_value(rng, depth - 1)} IN ({random_value(rng, depth - 1)}, {random_value(rng, depth - 1)})"
    if kind == 7:
        return f"NOT {random_condition(rng, depth - 1)}"
    if kind == 8:
        return f"({random_condition(rng, depth - 1)})"
    parts = [random_condition(rng, depth - 1) for _ in range(rng.randint(2, 4))]
    return rng.choice((" AND ", " OR ", " OR ", " AND ", " XOR ")).join(parts)


def random_event(rng: Random) -> Event:
    drawn = ((name, rng.choice(VALUES)) for name in NAMES)
    return Event({name: value for name, value in drawn if value is not None})


def random_texts(seed: int, plain: bool = False) -> Iterator[tuple[str, Random]]:
    rng = Random(seed)
    for _ in range(CASES_PER_EXAMPLE):
        yield (random_atom(rng) if plain else random_condition(rng, rng.randrange(5))), rng


def accepts(conjunction: Conjunction, event: Event) -> bool:
    return all(constraint.accepts(event.attributes.get(constraint.name)) for constraint in conjunction)


seeds = st.integers(0, 2**32)


@given(seeds)
def test_a_filter_matches_exactly_when_its_text_evaluates_to_true(seed: int) -> None:
    for text, rng in random_texts(seed):
        filter, expression = parse(text), parse_expression(text)
        for _ in range(EVENTS_PER_FILTER):
            event = random_event(rng)
            assert filter.matches(event) == is_true(expression, event.attributes), (text, event)


@given(seeds)
def test_the_normal_form_accepts_every_event_that_the_expression_accepts(seed: int) -> None:
    for text, rng in random_texts(seed):
        filter, expression = parse(text), parse_expression(text)
        for _ in range(EVENTS_PER_FILTER):
            event = random_event(rng)
            if is_true(expression, event.attributes):
                assert any(accepts(conjunction, event) for conjunction in filter.conjunctions), (text, event)


def is_fixed_point(filter: Filter) -> bool:
    return parse(filter.text()) == filter


@given(seeds)
def test_a_filter_printed_and_parsed_is_the_same_filter(seed: int) -> None:
    for text, _ in random_texts(seed):
        assert is_fixed_point(parse(text)), text


@given(seeds)
def test_a_filter_made_of_filters_printed_and_parsed_is_the_same_filter(seed: int) -> None:
    cases = list(random_texts(seed, plain=seed % 2 == 0))
    for (left, rng), (right, _) in pairwise(cases):
        one, other = parse(left), parse(right)
        sample = [random_event(rng) for _ in range(5)]
        made = [one & other, one | other, ~one, one.simplify(), (one | other).simplify()]
        made += [*merge([one, other]).filters, *merge([one, other], sample, 0.9).filters]
        assert all(map(is_fixed_point, made)), (left, right)


def random_product(rng: Random) -> str:
    """An AND of ORs, of lists and of long names: multiplied out it is much longer."""
    long = "".join(rng.choices("abc", k=rng.choice((1, 20, 100))))
    lists = [", ".join(f"'{rng.randrange(10**6)}'" for _ in range(rng.choice((1, 20, 60, 120))))]
    sums = [
        " OR ".join(f"{long}{rng.randrange(30)} {rng.choice(OPERATORS)} {rng.choice(LITERALS)}" for _ in range(terms))
        for terms in rng.choices((2, 3, 5), k=rng.randint(1, 5))
    ]
    return f"{rng.choice(NAMES)} {rng.choice(('IN', 'NOT IN'))} ({lists[0]}) AND ({') AND ('.join(sums)})"


@given(seeds)
@example(0)
def test_a_filter_that_is_long_when_multiplied_out_has_a_text_that_parses(seed: int) -> None:
    rng = Random(seed)
    for _ in range(CASES_PER_EXAMPLE):
        text = random_product(rng)
        try:
            filter = parse(text)
        except FilterSyntaxError:
            continue
        assert is_fixed_point(filter), text
        expression = parse_expression(text)
        for _ in range(3):
            event = random_event(rng)
            assert filter.matches(event) == is_true(expression, event.attributes), (text, event)


NAME_100 = "a" * 100


@pytest.mark.parametrize(
    "text",
    [
        " AND ".join(f"({NAME_100}{number} = 1 OR {NAME_100[1:]}{number} = 2)" for number in range(4)),
        "x IN (" + ", ".join(f"'{number}'" for number in range(100)) + ") AND (a = 1 OR b = 2 OR c = 3 OR d = 4)",
        "x NOT IN (" + ", ".join(f"'{number}'" for number in range(120)) + ") AND (a = 1 OR b = 2 OR c = 3 OR d)",
        "x IN (" + ",".join(f"{number}e99" for number in range(250)) + ")",
    ],
    ids=["bytes", "words", "words left out", "numbers"],
)
def test_a_filter_whose_normal_form_is_longer_than_a_text_may_be_keeps_its_expression(text: str) -> None:
    assert is_fixed_point(parse(text))


@pytest.mark.parametrize(
    ("texts", "merged"),
    [
        (("t != 'a'", "t IN ('a', 'b')"), "EXISTS t"),
        (("t != 'a'", "t != 'b'"), "EXISTS t"),
        (("a.b != '' OR a.b = ''", "a.b >= '05'"), "EXISTS a.b"),
    ],
)
def test_every_text_is_said_in_one_way(texts: tuple[str, ...], merged: str) -> None:
    assert merge(map(parse, texts)).filters == (parse(merged),)


@pytest.mark.parametrize(
    "make",
    [
        lambda: parse("x IN (" + ",".join(f"1e{number}" for number in range(100, 250)) + f",'{'b' * 3150}')"),
        lambda: attr.x == "a" * 5000,
        lambda: attr.x.is_in(*map(str, range(1000))),
        lambda: (attr.x == "a" * 3000) | (attr.y == "b" * 3000),
        lambda: parse("UPPER(" * 63 + "x" + ")" * 63),
    ],
)
def test_a_filter_that_has_no_text_is_refused(make: Callable[[], Filter]) -> None:
    with pytest.raises(UsageError, match="when it is written out"):
        make()


@given(seeds)
def test_an_expression_printed_and_parsed_is_the_same_expression(seed: int) -> None:
    for text, _ in random_texts(seed):
        expression = parse_expression(text)
        assert parse_expression(expression_text(expression)) == expression, text


@given(seeds)
def test_combining_filters_is_the_same_as_combining_their_texts(seed: int) -> None:
    cases = list(random_texts(seed, plain=seed % 2 == 0))
    for (left, _), (right, _) in pairwise(cases):
        one, other = parse(left), parse(right)
        assert conjunction_of(one, other) == parse(f"({one.text()}) AND ({other.text()})"), (left, right)
        assert disjunction_of(one, other) == parse(f"({one.text()}) OR ({other.text()})"), (left, right)
        assert negation_of(one) == parse(f"NOT ({one.text()})"), left


@given(seeds)
def test_not_of_a_filter_never_matches_where_the_filter_does(seed: int) -> None:
    for text, rng in random_texts(seed):
        filter, opposite = parse(text), negation_of(parse(text))
        for _ in range(EVENTS_PER_FILTER):
            event = random_event(rng)
            assert not (filter.matches(event) and opposite.matches(event)), (text, event)


@given(seeds)
def test_the_order_of_operands_does_not_matter_when_all_have_a_normal_form(seed: int) -> None:
    rng = Random(seed)
    for _ in range(CASES_PER_EXAMPLE):
        parts = [random_atom(rng) for _ in range(3)]
        for word in (" AND ", " OR "):
            forward, backward = parse(word.join(parts)), parse(word.join(reversed(parts)))
            if forward.residual is None:
                assert forward == backward, parts


def parses_or_is_refused(text: str) -> None:
    try:
        assert isinstance(parse(text), Filter)
    except FilterSyntaxError as error:
        assert 0 <= error.position <= len(text)
        assert str(error).count("^") >= 1


@given(st.text(max_size=200))
def test_arbitrary_text_parses_or_is_refused_with_a_place(text: str) -> None:
    parses_or_is_refused(text)


SOUP = (
    *("AND", "or", "XOR", "NOT", "LIKE", "IN", "EXISTS", "TRUE", "(", ")", "(", ")", ",", "=", "!=", "<>", "<=", ">"),
    *("+", "-", "*", "/", "%", "x", "1", "1.5", "'a'", '"b%"', "'", '"', "\\", "LENGTH", "LEFT(", "1e5", "==", "&&"),
)


@given(st.lists(st.sampled_from(SOUP), max_size=40), st.sampled_from(["", " "]))
def test_a_soup_of_tokens_parses_or_is_refused_with_a_place(tokens: list[str], between: str) -> None:
    parses_or_is_refused(between.join(tokens))


@given(seeds, st.integers(0, 10_000), st.text(max_size=3))
def test_a_damaged_filter_parses_or_is_refused_with_a_place(seed: int, place: int, damage: str) -> None:
    for text, rng in random_texts(seed):
        start = place % (len(text) + 1)
        parses_or_is_refused(text[:start] + damage + text[start + rng.randrange(4) :])


@pytest.mark.parametrize(
    "text",
    [
        "(" * 4096,
        "(" * 500 + "x" + ")" * 500,
        "NOT " * 900 + "x",
        "-" * 1000 + "x",
        " OR ".join(f"a{number}=1" for number in range(10_000)),
        " OR ".join(f"a{number % 50}={number}" for number in range(250)),
        " AND ".join(f"(a{number}=1 OR b{number}=2)" for number in range(90)),
        " AND ".join(f"x LIKE '%{chr(97 + number % 26)}_%{number}'" for number in range(150)),
        " XOR ".join(f"a{number}=1" for number in range(60)),
        f"x LIKE '{'%_' * 2000}'",
        "x IN (" + ",".join(f"'{number}'" for number in range(450)) + ")",
        "'" + "\\" * 4000,
        "1" * 4000,
        "a" * 4000,
    ],
    ids=lambda text: text[:12],
)
def test_extreme_text_parses_or_is_refused_with_a_place(text: str) -> None:
    parses_or_is_refused(text)


def test_normalising_twice_changes_nothing() -> None:
    for text, _ in random_texts(7):
        once = normalise(parse_expression(text))
        assert normalise(parse_expression(once.text())) == once
