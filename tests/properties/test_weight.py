"""What evaluating an expression counts as work is never more than its weight says, whatever it is made of."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tidings.model.bounds import STRING_BYTES_MAX
from tidings.model.errors import FilterSyntaxError, UsageError
from tidings.model.event import Event
from tidings.model.language.evaluation import PART_UNITS
from tidings.model.language.expression import (
    And,
    Arithmetic,
    Attribute,
    Call,
    Compare,
    Expression,
    In,
    Like,
    Literal,
    Not,
    Or,
    Xor,
    expression_text,
)
from tidings.model.language.functions import CASE_PASSES, FUNCTIONS
from tidings.model.language.parser import parse
from tidings.model.sets.patterns import FIND_CHARS
from tidings.model.values import Value
from tidings.model.weight import expression_weight, weight_of
from tidings.model.work import WORK

names = st.sampled_from(["a", "b", "c"])
leaves = st.one_of(
    names.map(Attribute),
    st.builds(Literal, st.sampled_from(["", "x", "ß%", "ab" * 500, 7, -1.5, True])),
)
patterns = st.sampled_from(["%a_b%", "%ab%", "a%", "%x__y%z%", "%" + "a_" * 50 + "%"])


def calls(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    """Of every function, with as many arguments as it takes."""
    made = [
        st.builds(Call, st.just(name), st.tuples(*[inner] * count))
        for name, functions in FUNCTIONS.items()
        for count in range(1, 8)
        if any(function.takes(count) for function in functions)
    ]
    return st.one_of(made)


def wider(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(inner, min_size=2, max_size=4).map(tuple)
    return st.one_of(
        calls(inner),
        calls(inner),
        st.builds(Like, inner, patterns),
        st.builds(Compare, st.sampled_from(["=", "!=", "<", ">="]), inner, inner),
        st.builds(In, inner, several),
        st.builds(Arithmetic, st.sampled_from(["+", "*", "/"]), inner, inner),
        st.builds(And, several),
        st.builds(Or, several),
        st.builds(Xor, inner, inner),
        st.builds(Not, inner),
    )


expressions = st.recursive(leaves, wider, max_leaves=30)

LETTERS = ["a", "ab", "ß", "ΐ", "İ", "ẞ", "😀a", " "]
texts = st.builds(
    lambda letters, count: letters * count, st.sampled_from(LETTERS), st.sampled_from([1, 60, 5000, 9000])
)
values = st.one_of(texts, texts, st.sampled_from([0, 2**60, -1.2345678901234567e-300, True]))
events = st.dictionaries(names, values, max_size=3)


@given(expressions, events)
def test_work_is_never_more_than_the_weight(expression: Expression, attributes: dict[str, Value]) -> None:
    try:
        filter = parse(expression_text(expression))
        event = Event(attributes)
    except (FilterSyntaxError, UsageError):
        return
    if filter.residual is None:
        return
    before = WORK.units
    filter.matches(event)
    head = msgspec.msgpack.encode(attributes)
    assert WORK.units - before <= weight_of(filter).units(len(head))


def test_a_string_that_is_doubled_again_and_again_weighs_no_more_than_the_longest_that_there_is() -> None:
    doubled: Expression = Attribute("a")
    for _ in range(7):
        doubled = Call("CONCAT", (doubled, doubled))
    inside, outside = expression_weight(doubled), expression_weight(Call("LOWER", (doubled,)))
    assert outside.units(10) - inside.units(10) == PART_UNITS + CASE_PASSES * (1 + 2 * STRING_BYTES_MAX // FIND_CHARS)
