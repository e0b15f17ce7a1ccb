"""Reading filter text: how operators group, what literals mean, and what a refusal says."""

import pytest

from tidings.model.bounds import (
    ATTRIBUTE_NAME_CHARS_MAX,
    EXPRESSION_DEPTH_MAX,
    FILTER_TEXT_BYTES_MAX,
    FILTER_TOKENS_MAX,
)
from tidings.model.errors import FilterSyntaxError, UsageError
from tidings.model.language.expression import (
    And,
    Arithmetic,
    Attribute,
    Call,
    Compare,
    Exists,
    Expression,
    In,
    Like,
    Literal,
    Negate,
    Not,
    Or,
    Xor,
)
from tidings.model.language.lexer import quoted, string_value
from tidings.model.language.parser import parse, parse_expression

A, B, C, D = map(Attribute, "abcd")


def is_one(attribute: Attribute) -> Expression:
    return Compare("=", attribute, Literal(1))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a OR b AND c", Or((A, And((B, C))))),
        ("a AND b OR c", Or((And((A, B)), C))),
        ("a XOR b AND c", Xor(A, And((B, C)))),
        ("a OR b XOR c", Or((A, Xor(B, C)))),
        ("a XOR b XOR c", Xor(Xor(A, B), C)),
        ("NOT a = 1", Not(is_one(A))),
        ("NOT a AND b", And((Not(A), B))),
        ("NOT NOT a", Not(Not(A))),
        ("a = NOT b", Compare("=", A, Not(B))),
        ("NOT a LIKE 'x'", Not(Like(A, "x"))),
        ("NOT a IN (1)", Not(In(A, (Literal(1),)))),
        ("a = 1 AND b = 1", And((is_one(A), is_one(B)))),
        ("a + b * c", Arithmetic("+", A, Arithmetic("*", B, C))),
        ("a - b - c", Arithmetic("-", Arithmetic("-", A, B), C)),
        ("a * -b", Arithmetic("*", A, Negate(B))),
        ("a + b IN (c)", In(Arithmetic("+", A, B), (C,))),
        ("a < b + c", Compare("<", A, Arithmetic("+", B, C))),
        ("(a OR b) AND c", And((Or((A, B)), C))),
        ("a AND (b AND c) AND d", And((A, B, C, D))),
        ("EXISTS a AND b", And((Exists("a"), B))),
    ],
)
def test_operators_group_as_in_sql(text: str, expected: Expression) -> None:
    assert parse_expression(text) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("--5", 5),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("1E+3", 1000.0),
        ("25e-1", 2.5),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("tRuE", True),
        ("'it\\'s'", "it's"),
        ('"say \\"hi\\""', 'say "hi"'),
        ("'say \\\"hi\\\"'", 'say \\"hi\\"'),
        ("'C:\\\\'", "C:\\"),
        ("'a\\b\\\\c'", "a\\b\\\\c"),
        ("'two\nlines'", "two\nlines"),
    ],
)
def test_literals_have_their_value_and_type(text: str, value: object) -> None:
    literal = parse_expression(text)
    assert isinstance(literal, Literal)
    assert literal.value == value
    assert type(literal.value) is type(value)


@pytest.mark.parametrize("text", ["", "'", "\\", "\\'", "a\\\\", "\\\\'x\\", "it's", '"', "\\\"'", "a\\b", "\0\n"])
def test_any_string_survives_quoting(text: str) -> None:
    assert string_value(quoted(text)) == text
    assert parse_expression(quoted(text)) == Literal(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [("a.b", "a.b"), ("_x1", "_x1"), ("1e5x", "1e5x"), ("2fast", "2fast"), ("Price", "Price"), ("SOURCE", "source")],
)
def test_names_keep_their_case_except_those_of_cloudevents(text: str, name: str) -> None:
    assert parse_expression(text) == Attribute(name)


def test_keywords_and_functions_are_read_in_any_case() -> None:
    assert parse_expression("not Exists a and length(b) In (1)") == And(
        (Not(Exists("a")), In(Call("LENGTH", (B,)), (Literal(1),)))
    )


def test_a_function_name_without_parenthesis_is_an_attribute() -> None:
    assert parse_expression("left = 1") == is_one(Attribute("left"))


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("", 0, "the filter is empty: expected a condition such as price > 100, or TRUE"),
        ("x = ", 3, "the filter ends too early: expected a value, an attribute name, NOT or ("),
        ("x AND", 5, "the filter ends too early: expected a value, an attribute name, NOT or ("),
        ("AND x", 0, "unexpected AND: expected a value, an attribute name, NOT or ("),
        ("x = = 5", 4, "unexpected =: expected a value, an attribute name, NOT or ("),
        ("x y", 2, "unexpected y: expected an operator such as =, LIKE, IN, AND or OR, or the end"),
        ("(x y", 3, "unexpected y: expected an operator such as =, LIKE, IN, AND or OR, or )"),
        ("x IN (1 2", 8, "unexpected 2: expected an operator such as =, LIKE, IN, AND or OR, or a comma, or )"),
        ("(x = 1", 0, "this parenthesis is not closed: expected )"),
        ("ABC(", 3, "this parenthesis is not closed: expected )"),
        ("x = 1)", 5, "this parenthesis was never opened"),
        ("x, y", 1, "unexpected ,: expected an operator such as =, LIKE, IN, AND or OR, or the end"),
        ("x = 'abc", 4, "this string is not closed: expected ' at its end"),
        ('x = "abc', 4, 'this string is not closed: expected " at its end'),
        ("x == 1", 2, "== is not an operator here: write = to compare"),
        ("x && y", 2, "&& is not an operator here: write AND"),
        ("x || y", 2, "|| is not an operator here: write OR"),
        ("!x", 0, "! is not an operator here: write NOT"),
        ("x = $", 4, "unexpected character '$': strings stand in quotes"),
        ("1.5x = 1", 0, "1.5x is neither a number nor a name"),
        ("x LIKE 123", 7, "unexpected 123: expected a pattern in quotes"),
        ("x IN 5", 5, "unexpected 5: expected ( and a list of values"),
        ("x NOT = 5", 6, "unexpected =: expected LIKE or IN"),
        ("EXISTS 5", 7, "unexpected 5: expected an attribute name"),
        ("x IS NULL", 2, "unexpected IS: write EXISTS name or NOT EXISTS name to ask whether an attribute is there"),
        ("x BETWEEN 1 AND 5", 2, "unexpected BETWEEN: write x >= 1 AND x <= 5"),
        ("x = 9223372036854775808", 4, "integer beyond 64 bit: write it with a decimal point"),
        ("5 - 9223372036854775808", 4, "integer beyond 64 bit: write it with a decimal point"),
        ("x = 1e999", 4, "this number is too large: at most 1.7976931348623157e308"),
        ("LENGHT(x) > 3", 0, "unknown function LENGHT: did you mean LENGTH or LEFT?"),
        ("ABS(1) = LEFT(x)", 9, "LEFT takes 2 arguments, not 1"),
        ("SUBSTRING(x) = 'a'", 0, "SUBSTRING takes 2 arguments or 3 arguments, not 1"),
        ("CONCAT_WS() = ''", 0, "CONCAT_WS takes at least 1 argument, not 0"),
    ],
)
def test_a_refusal_names_the_place_and_what_was_expected(text: str, position: int, problem: str) -> None:
    with pytest.raises(FilterSyntaxError) as refusal:
        parse(text)
    assert (refusal.value.position, refusal.value.problem) == (position, problem)


def test_the_caret_stands_under_the_place() -> None:
    with pytest.raises(FilterSyntaxError) as refusal:
        parse("price >> 5")
    assert str(refusal.value).splitlines()[1:] == ["  price >> 5", "         ^"]


def test_an_unknown_function_without_a_similar_one_lists_what_there_is() -> None:
    with pytest.raises(FilterSyntaxError, match="unknown function QQQ: there are LENGTH, CONCAT"):
        parse("QQQ(x)")


def test_an_unknown_function_is_legal_in_an_expression() -> None:
    assert parse_expression("FOO(a)") == Call("FOO", (A,))


@pytest.mark.parametrize(
    "text",
    [
        "x = '" + "a" * FILTER_TEXT_BYTES_MAX + "'",
        "x = '" + "ü" * (FILTER_TEXT_BYTES_MAX // 2) + "'",
        "x" + "+1" * (FILTER_TOKENS_MAX // 2),
        "(" * (FILTER_TOKENS_MAX + 1),
        "NOT " * EXPRESSION_DEPTH_MAX + "x",
        "x" * (ATTRIBUTE_NAME_CHARS_MAX + 1),
        "x = " + "1" * 65,
        "x = '\ud800'",
    ],
    ids=["bytes", "utf-8 bytes", "tokens", "parentheses", "depth", "name", "number", "surrogate"],
)
def test_text_beyond_a_bound_is_refused(text: str) -> None:
    with pytest.raises(FilterSyntaxError):
        parse(text)


def test_text_just_within_the_bounds_is_read() -> None:
    assert parse_expression("NOT " * (EXPRESSION_DEPTH_MAX - 1) + "a")
    assert parse_expression("(" * 255 + "a" + ")" * 255) == A
    assert parse_expression(" OR ".join(["a"] * (FILTER_TOKENS_MAX // 2))) == Or((A,) * (FILTER_TOKENS_MAX // 2))
    assert parse_expression("x" * ATTRIBUTE_NAME_CHARS_MAX) == Attribute("x" * ATTRIBUTE_NAME_CHARS_MAX)


def test_what_is_no_text_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="must be a str, not bytes"):
        parse(b"x = 1")  # type: ignore[arg-type]
