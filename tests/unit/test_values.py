"""Values and their readings as number, text and truth."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.model.bounds import INTEGER_MAX, INTEGER_MIN
from tidings.model.errors import UsageError
from tidings.model.values import (
    check_name,
    check_value,
    next_number,
    number_of,
    previous_number,
    text_of,
    truth_of,
)

numbers = st.one_of(
    st.integers(INTEGER_MIN, INTEGER_MAX),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([2**53, 2**53 + 1, 2.0**63, -(2.0**63), 0.0, -0.0, 5e-324, 1.7976931348623157e308]),
)


@pytest.mark.parametrize(
    ("value", "number", "text", "truth"),
    [
        (5, 5, "5", None),
        (5.0, 5, "5", None),
        (-0.0, 0, "0", None),
        (2.5, 2.5, "2.5", None),
        (1e300, 1e300, "1e+300", None),
        (True, 1, "true", True),
        (False, 0, "false", False),
        ("5", 5, "5", None),
        ("05", 5, "05", None),
        ("+5.0", 5.0, "+5.0", None),
        ("1e3", 1000.0, "1e3", None),
        (".5", 0.5, ".5", None),
        ("TRUE", None, "TRUE", True),
        ("false", None, "false", False),
        ("IBM", None, "IBM", None),
        ("", None, "", None),
        (" 5", None, " 5", None),
        ("1_000", None, "1_000", None),
        ("٣", None, "٣", None),
        ("nan", None, "nan", None),
        ("1e999", None, "1e999", None),
        ("9223372036854775808", None, "9223372036854775808", None),
        ("1" * 65, None, "1" * 65, None),
    ],
)
def test_each_value_reads_as_the_table_says(value: object, number: object, text: str, truth: object) -> None:
    assert number_of(value) == number  # type: ignore[arg-type]
    assert text_of(value) == text  # type: ignore[arg-type]
    assert truth_of(value) is truth  # type: ignore[arg-type]


@given(numbers)
def test_a_number_reads_back_from_its_text(number: float) -> None:
    assert number_of(text_of(number)) == number


@given(numbers, numbers)
def test_equal_numbers_have_equal_texts_and_different_ones_different(left: float, right: float) -> None:
    assert (left == right) == (text_of(left) == text_of(right))


@given(numbers)
def test_no_number_lies_between_a_number_and_the_next(number: float) -> None:
    above = next_number(number)
    assert above > number
    if above != math.inf:
        assert previous_number(above) == number
    below = previous_number(number)
    assert below < number
    if below != -math.inf:
        assert next_number(below) == number


def test_the_next_number_after_a_large_integer_is_the_next_integer_although_no_double_lies_there() -> None:
    assert next_number(2**53) == 2**53 + 1
    assert previous_number(2.0**63) == INTEGER_MAX
    assert next_number(INTEGER_MAX) == 2.0**63


@pytest.mark.parametrize("name", ["price", "a.b", "_x", "3d", "Price_2", "x" * 128, "1e5x"])
def test_names_of_letters_digits_underscore_and_dot_are_accepted(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", ".a", "5", "1e5", "1.5", "a-b", "a b", "é", "x" * 129, "a\n", None, 5])
def test_other_names_are_refused_with_the_name(name: object) -> None:
    with pytest.raises(UsageError, match="attribute name"):
        check_name(name)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (math.nan, "not a finite number"),
        (math.inf, "not a finite number"),
        (2**63, "beyond 64 bit"),
        (-(2**63) - 1, "beyond 64 bit"),
        ("x" * 65537, "65537 bytes"),
        ("é" * 32769, "65538 bytes"),
        ("\ud800", "lone surrogate"),
        (None, "not NoneType"),
        ([1], "not list"),
        (b"x", "not bytes"),
    ],
)
def test_values_no_peer_would_accept_are_refused_with_the_attribute_named(value: object, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as refusal:
        check_value("price", value)
    assert "'price'" in str(refusal.value)
