"""Evaluating expressions: casts, errors, three-valued logic, arithmetic and functions beyond the conformance cases."""

import pytest

from tidings.model.bounds import STRING_BYTES_MAX
from tidings.model.language.evaluation import EvaluationOutcome, evaluate, is_true
from tidings.model.language.parser import parse_expression
from tidings.model.values import Value

EVENT: dict[str, Value] = {
    **{"five": 5, "half": 0.5, "whole": 5.0, "yes": True, "no": False},
    **{"text5": "5", "text05": "05", "TRUE1": "TRUE", "word": "abc", "big": 2**63 - 1, "long": "x" * STRING_BYTES_MAX},
}


def outcome(text: str) -> EvaluationOutcome:
    return evaluate(parse_expression(text), EVENT)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("missing OR TRUE", EvaluationOutcome(True)),
        ("TRUE OR missing", EvaluationOutcome(True)),
        ("missing AND FALSE", EvaluationOutcome(False)),
        ("FALSE AND missing", EvaluationOutcome(False)),
        ("missing AND TRUE", EvaluationOutcome(False, "missingAttribute")),
        ("missing OR FALSE", EvaluationOutcome(False, "missingAttribute")),
        ("word AND missing", EvaluationOutcome(False, "cast")),
        ("missing AND word", EvaluationOutcome(False, "missingAttribute")),
        ("missing OR word OR yes", EvaluationOutcome(True)),
        ("NOT (missing OR TRUE)", EvaluationOutcome(False)),
        ("NOT (missing = 1)", EvaluationOutcome(False, "missingAttribute")),
        ("missing XOR TRUE", EvaluationOutcome(False, "missingAttribute")),
        ("five AND TRUE", EvaluationOutcome(False, "cast")),
        ("TRUE1 AND TRUE", EvaluationOutcome(True)),
    ],
)
def test_an_operand_that_failed_is_unknown_and_may_be_overruled(text: str, expected: EvaluationOutcome) -> None:
    assert outcome(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("text05 = 5", EvaluationOutcome(True)),
        ("text05 = '5'", EvaluationOutcome(False)),
        ("five = '5'", EvaluationOutcome(True)),
        ("whole = '5'", EvaluationOutcome(True)),
        ("whole = five", EvaluationOutcome(True)),
        ("yes = 1", EvaluationOutcome(True)),
        ("1 = yes", EvaluationOutcome(False, "cast")),
        ("yes = 'true'", EvaluationOutcome(True)),
        ("TRUE1 = TRUE", EvaluationOutcome(True)),
        ("word = 5", EvaluationOutcome(False, "cast")),
        ("word != 5", EvaluationOutcome(False, "cast")),
        ("word = TRUE", EvaluationOutcome(False, "cast")),
        ("text05 < '10'", EvaluationOutcome(True)),
        ("word < '10'", EvaluationOutcome(False, "cast")),
        ("word < 'abd'", EvaluationOutcome(True)),
        ("five < 'abc'", EvaluationOutcome(True)),
        ("5 < word", EvaluationOutcome(False, "cast")),
        ("LENGTH(word) < word", EvaluationOutcome(False, "cast")),
        ("half < TRUE", EvaluationOutcome(True)),
        ("9223372036854775807 > 9223372036854775806.0", EvaluationOutcome(False)),
        ("big < 9223372036854775808.0", EvaluationOutcome(True)),
    ],
)
def test_the_right_operand_decides_how_two_values_compare(text: str, expected: EvaluationOutcome) -> None:
    assert outcome(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("five IN ('05')", EvaluationOutcome(True)),
        ("text5 IN ('05')", EvaluationOutcome(False)),
        ("text5 IN (5.0)", EvaluationOutcome(True)),
        ("yes IN ('TRUE')", EvaluationOutcome(True)),
        ("yes IN (1)", EvaluationOutcome(False)),
        ("five IN ('abc', 5)", EvaluationOutcome(True)),
        ("five NOT IN ('abc')", EvaluationOutcome(True)),
        ("five IN (missing, 5)", EvaluationOutcome(True)),
        ("five IN (missing, 6)", EvaluationOutcome(False, "missingAttribute")),
        ("missing IN (1)", EvaluationOutcome(False, "missingAttribute")),
        ("five IN (FALSE OR TRUE, five)", EvaluationOutcome(True)),
    ],
)
def test_in_casts_each_choice_to_the_type_of_the_value(text: str, expected: EvaluationOutcome) -> None:
    assert outcome(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7 / 2", EvaluationOutcome(3)),
        ("-7 / 2", EvaluationOutcome(-3)),
        ("7 / -2", EvaluationOutcome(-3)),
        ("-7 % 2", EvaluationOutcome(-1)),
        ("7 % -2", EvaluationOutcome(1)),
        ("7.0 / 2", EvaluationOutcome(3.5)),
        ("7 / 2.0", EvaluationOutcome(3.5)),
        ("-7.5 % 2", EvaluationOutcome(-1.5)),
        ("'1.5' * 2", EvaluationOutcome(3.0)),
        ("1 / 0.0", EvaluationOutcome(0, "math")),
        ("1.5 % 0", EvaluationOutcome(0, "math")),
        ("big + 1", EvaluationOutcome(0, "math")),
        ("-9223372036854775808 / -1", EvaluationOutcome(0, "math")),
        ("-(-9223372036854775808)", EvaluationOutcome(0, "math")),
        ("1e308 * 10", EvaluationOutcome(0, "math")),
        ("word + 1", EvaluationOutcome(0, "cast")),
        ("-word", EvaluationOutcome(0, "cast")),
        ("-half", EvaluationOutcome(-0.5)),
        ("five + half * 2", EvaluationOutcome(6.0)),
    ],
)
def test_arithmetic_keeps_integers_whole_and_in_64_bit(text: str, expected: EvaluationOutcome) -> None:
    assert outcome(text) == expected
    assert type(outcome(text).value) is type(expected.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ABS(-9223372036854775808)", EvaluationOutcome(2**63 - 1, "math")),
        ("ABS(-1.5)", EvaluationOutcome(1.5)),
        ("INT(2.7)", EvaluationOutcome(2)),
        ("INT('-2.7')", EvaluationOutcome(-2)),
        ("INT(1e30)", EvaluationOutcome(0, "cast")),
        ("FLOAT(five) / 2", EvaluationOutcome(2.5)),
        ("FLOAT(word)", EvaluationOutcome(0.0, "cast")),
        ("BOOL(half)", EvaluationOutcome(True)),
        ("STRING(whole)", EvaluationOutcome("5")),
        ("IS_INT(whole)", EvaluationOutcome(True)),
        ("IS_INT('x')", EvaluationOutcome(False)),
        ("IS_INT(half)", EvaluationOutcome(False)),
        ("IS_FLOAT('1e3')", EvaluationOutcome(True)),
        ("IS_BOOL(TRUE1)", EvaluationOutcome(True)),
        ("IS_BOOL(1)", EvaluationOutcome(False)),
        ("IS_INT(missing)", EvaluationOutcome(False, "missingAttribute")),
        ("LENGTH(missing)", EvaluationOutcome(0, "missingAttribute")),
        ("UPPER(missing)", EvaluationOutcome("", "missingAttribute")),
        ("LEFT(word, 'x')", EvaluationOutcome("", "cast")),
        ("RIGHT(word, 0)", EvaluationOutcome("")),
        ("SUBSTRING(word, 2, -1)", EvaluationOutcome("", "functionEvaluation")),
        ("SUBSTRING('', 1)", EvaluationOutcome("", "functionEvaluation")),
        ("LENGTH('äöü')", EvaluationOutcome(3)),
        ("FOO(1)", EvaluationOutcome(False, "missingFunction")),
        ("LENGTH(long)", EvaluationOutcome(STRING_BYTES_MAX)),
        ("CONCAT(long, 'x')", EvaluationOutcome("", "functionEvaluation")),
        ("CONCAT_WS(long, long, long)", EvaluationOutcome("", "functionEvaluation")),
    ],
)
def test_functions_cast_their_arguments_and_stay_bounded(text: str, expected: EvaluationOutcome) -> None:
    assert outcome(text) == expected
    assert type(outcome(text).value) is type(expected.value)


def test_specversion_is_there_without_being_spelled_out() -> None:
    assert evaluate(parse_expression("EXISTS specversion AND SpecVersion = '1.0'"), {}) == EvaluationOutcome(True)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [("yes", True), ("TRUE1", True), ("no", False), ("five", False), ("missing", False), ("word = 5", False)],
)
def test_a_filter_is_true_when_its_value_reads_as_true_without_error(text: str, verdict: bool) -> None:
    assert is_true(parse_expression(text), EVENT) is verdict


def test_literals_that_python_calls_equal_are_kept_apart() -> None:
    assert outcome("yes = TRUE") == EvaluationOutcome(True)
    assert outcome("five = TRUE") == EvaluationOutcome(False, "cast")
    assert outcome("five = 1") == EvaluationOutcome(False)
    assert len({parse_expression(text) for text in ("1", "1.0", "TRUE")}) == 3
