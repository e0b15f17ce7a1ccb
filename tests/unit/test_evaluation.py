"""Evaluating expressions: casts, errors, three-valued logic, arithmetic and functions beyond the conformance cases."""

import pytest

from tidings.model.bounds import STRING_BYTES_MAX
from tidings.model.language.evaluation import Outcome, evaluate, is_true
from tidings.model.language.parser import parse_expression
from tidings.model.values import Value

EVENT: dict[str, Value] = {
    **{"five": 5, "half": 0.5, "whole": 5.0, "yes": True, "no": False},
    **{"text5": "5", "text05": "05", "TRUE1": "TRUE", "word": "abc", "big": 2**63 - 1, "long": "x" * STRING_BYTES_MAX},
}


def outcome(text: str) -> Outcome:
    return evaluate(parse_expression(text), EVENT)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("missing OR TRUE", Outcome(True)),
        ("TRUE OR missing", Outcome(True)),
        ("missing AND FALSE", Outcome(False)),
        ("FALSE AND missing", Outcome(False)),
        ("missing AND TRUE", Outcome(False, "missingAttribute")),
        ("missing OR FALSE", Outcome(False, "missingAttribute")),
        ("word AND missing", Outcome(False, "cast")),
        ("missing AND word", Outcome(False, "missingAttribute")),
        ("missing OR word OR yes", Outcome(True)),
        ("NOT (missing OR TRUE)", Outcome(False)),
        ("NOT (missing = 1)", Outcome(False, "missingAttribute")),
        ("missing XOR TRUE", Outcome(False, "missingAttribute")),
        ("five AND TRUE", Outcome(False, "cast")),
        ("TRUE1 AND TRUE", Outcome(True)),
    ],
)
def test_an_operand_that_failed_is_unknown_and_may_be_overruled(text: str, expected: Outcome) -> None:
    assert outcome(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("text05 = 5", Outcome(True)),
        ("text05 = '5'", Outcome(False)),
        ("five = '5'", Outcome(True)),
        ("whole = '5'", Outcome(True)),
        ("whole = five", Outcome(True)),
        ("yes = 1", Outcome(True)),
        ("1 = yes", Outcome(False, "cast")),
        ("yes = 'true'", Outcome(True)),
        ("TRUE1 = TRUE", Outcome(True)),
        ("word = 5", Outcome(False, "cast")),
        ("word != 5", Outcome(False, "cast")),
        ("word = TRUE", Outcome(False, "cast")),
        ("text05 < '10'", Outcome(True)),
        ("word < '10'", Outcome(False, "cast")),
        ("word < 'abd'", Outcome(True)),
        ("five < 'abc'", Outcome(True)),
        ("5 < word", Outcome(False, "cast")),
        ("LENGTH(word) < word", Outcome(False, "cast")),
        ("half < TRUE", Outcome(True)),
        ("9223372036854775807 > 9223372036854775806.0", Outcome(False)),
        ("big < 9223372036854775808.0", Outcome(True)),
    ],
)
def test_the_right_operand_decides_how_two_values_compare(text: str, expected: Outcome) -> None:
    assert outcome(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("five IN ('05')", Outcome(True)),
        ("text5 IN ('05')", Outcome(False)),
        ("text5 IN (5.0)", Outcome(True)),
        ("yes IN ('TRUE')", Outcome(True)),
        ("yes IN (1)", Outcome(False)),
        ("five IN ('abc', 5)", Outcome(True)),
        ("five NOT IN ('abc')", Outcome(True)),
        ("five IN (missing, 5)", Outcome(True)),
        ("five IN (missing, 6)", Outcome(False, "missingAttribute")),
        ("missing IN (1)", Outcome(False, "missingAttribute")),
        ("five IN (FALSE OR TRUE, five)", Outcome(True)),
    ],
)
def test_in_casts_each_choice_to_the_type_of_the_value(text: str, expected: Outcome) -> None:
    assert outcome(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7 / 2", Outcome(3)),
        ("-7 / 2", Outcome(-3)),
        ("7 / -2", Outcome(-3)),
        ("-7 % 2", Outcome(-1)),
        ("7 % -2", Outcome(1)),
        ("7.0 / 2", Outcome(3.5)),
        ("7 / 2.0", Outcome(3.5)),
        ("-7.5 % 2", Outcome(-1.5)),
        ("'1.5' * 2", Outcome(3.0)),
        ("1 / 0.0", Outcome(0, "math")),
        ("1.5 % 0", Outcome(0, "math")),
        ("big + 1", Outcome(0, "math")),
        ("-9223372036854775808 / -1", Outcome(0, "math")),
        ("-(-9223372036854775808)", Outcome(0, "math")),
        ("1e308 * 10", Outcome(0, "math")),
        ("word + 1", Outcome(0, "cast")),
        ("-word", Outcome(0, "cast")),
        ("-half", Outcome(-0.5)),
        ("five + half * 2", Outcome(6.0)),
    ],
)
def test_arithmetic_keeps_integers_whole_and_in_64_bit(text: str, expected: Outcome) -> None:
    assert outcome(text) == expected
    assert type(outcome(text).value) is type(expected.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ABS(-9223372036854775808)", Outcome(2**63 - 1, "math")),
        ("ABS(-1.5)", Outcome(1.5)),
        ("INT(2.7)", Outcome(2)),
        ("INT('-2.7')", Outcome(-2)),
        ("INT(1e30)", Outcome(0, "cast")),
        ("FLOAT(five) / 2", Outcome(2.5)),
        ("FLOAT(word)", Outcome(0.0, "cast")),
        ("BOOL(half)", Outcome(True)),
        ("STRING(whole)", Outcome("5")),
        ("IS_INT(whole)", Outcome(True)),
        ("IS_INT('x')", Outcome(False)),
        ("IS_INT(half)", Outcome(False)),
        ("IS_FLOAT('1e3')", Outcome(True)),
        ("IS_BOOL(TRUE1)", Outcome(True)),
        ("IS_BOOL(1)", Outcome(False)),
        ("IS_INT(missing)", Outcome(False, "missingAttribute")),
        ("LENGTH(missing)", Outcome(0, "missingAttribute")),
        ("UPPER(missing)", Outcome("", "missingAttribute")),
        ("LEFT(word, 'x')", Outcome("", "cast")),
        ("RIGHT(word, 0)", Outcome("")),
        ("SUBSTRING(word, 2, -1)", Outcome("", "functionEvaluation")),
        ("SUBSTRING('', 1)", Outcome("", "functionEvaluation")),
        ("LENGTH('äöü')", Outcome(3)),
        ("FOO(1)", Outcome(False, "missingFunction")),
        ("LENGTH(long)", Outcome(STRING_BYTES_MAX)),
        ("CONCAT(long, 'x')", Outcome("", "functionEvaluation")),
        ("CONCAT_WS(long, long, long)", Outcome("", "functionEvaluation")),
    ],
)
def test_functions_cast_their_arguments_and_stay_bounded(text: str, expected: Outcome) -> None:
    assert outcome(text) == expected
    assert type(outcome(text).value) is type(expected.value)


def test_specversion_is_there_without_being_spelled_out() -> None:
    assert evaluate(parse_expression("EXISTS specversion AND SpecVersion = '1.0'"), {}) == Outcome(True)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [("yes", True), ("TRUE1", True), ("no", False), ("five", False), ("missing", False), ("word = 5", False)],
)
def test_a_filter_is_true_when_its_value_reads_as_true_without_error(text: str, verdict: bool) -> None:
    assert is_true(parse_expression(text), EVENT) is verdict


def test_literals_that_python_calls_equal_are_kept_apart() -> None:
    assert outcome("yes = TRUE") == Outcome(True)
    assert outcome("five = TRUE") == Outcome(False, "cast")
    assert outcome("five = 1") == Outcome(False)
    assert len({parse_expression(text) for text in ("1", "1.0", "TRUE")}) == 3
