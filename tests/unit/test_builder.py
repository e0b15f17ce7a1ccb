"""Filters built in Python are the filters that the same text gives."""

import pytest

from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.language.builder import attr
from tidings.model.language.parser import parse


@pytest.mark.parametrize(
    ("filter", "text"),
    [
        (attr.price > 100, "price > 100"),
        (attr.price >= 1.5, "price >= 1.5"),
        (attr.price < 100, "price < 100"),
        (attr.price <= 100, "price <= 100"),
        (attr.price == 100, "price = 100"),
        (attr.price != 100, "price != 100"),
        (100 < attr.price, "price > 100"),  # noqa: SIM300
        (attr.symbol == "IBM", "symbol = 'IBM'"),
        (attr.symbol < "M", "symbol < 'M'"),
        (attr.urgent == True, "urgent = TRUE"),  # noqa: E712
        (attr.urgent.is_true(), "urgent"),
        (attr.urgent.is_false(), "urgent = FALSE"),
        (attr.symbol.is_in("IBM", "AAPL", 5), "symbol IN ('IBM', 'AAPL', 5)"),
        (attr.symbol.not_in("IBM"), "symbol NOT IN ('IBM')"),
        (attr.x.is_in(True, "a"), "x IN (TRUE, 'a')"),
        (attr["a.b"].prefix("50%"), "a.b LIKE '50\\%%'"),
        (attr.x.suffix("_a"), "x LIKE '%\\_a'"),
        (attr.x.contains("b"), "x LIKE '%b%'"),
        (attr.x.like("a_%"), "x LIKE 'a_%'"),
        (attr.x.unlike("a_%"), "x NOT LIKE 'a_%'"),
        (attr.x.exists(), "EXISTS x"),
        (attr.x.absent(), "NOT EXISTS x"),
        (attr.Source == "here", "source = 'here'"),
        (attr.specversion == "1.0", "TRUE"),
        ((attr.price > 100) & attr.symbol.is_in("IBM", "AAPL"), "price > 100 AND symbol IN ('IBM', 'AAPL')"),
        ((attr.price > 100) | ~(attr.symbol == "IBM"), "price > 100 OR symbol != 'IBM'"),
        (~((attr.a == 1) & (attr.b == 2)), "NOT (a = 1 AND b = 2)"),
    ],
)
def test_what_is_built_equals_what_is_parsed(filter: Filter, text: str) -> None:
    assert filter == parse(text)


def test_a_prefix_that_ends_in_a_backslash_takes_a_range() -> None:
    filter = attr.path.prefix("C:\\")
    assert filter.matches(Event({"path": "C:\\temp"}))
    assert filter.matches(Event({"path": "C:\\"}))
    assert not filter.matches(Event({"path": "C:"}))
    assert not filter.matches(Event({"path": "C:]"}))


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (lambda: attr["a b"], "attribute name 'a b'"),
        (lambda: attr["like"], "'like' is a word of the filter language"),
        (lambda: attr.x == None, "a value is a bool, int, float or str, not NoneType"),  # noqa: E711
        (lambda: attr.x > float("nan"), "not a finite number"),
        (lambda: attr.x > 2**63, "integer beyond 64 bit"),
        (lambda: attr.x.is_in(attr.y), "not NamedAttribute"),  # type: ignore[arg-type]
        (lambda: attr.x.is_in(), "give at least one value"),
        (lambda: attr.x.prefix(5), "a text or pattern is a str, not int"),  # type: ignore[arg-type]
        (lambda: attr.x.contains("a\\"), "ends in a backslash"),
        (lambda: attr.x.like("\ud800"), "lone surrogate"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_the_attribute_named(build: object, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        build()  # type: ignore[operator]


def test_python_words_between_filters_are_refused() -> None:
    with pytest.raises(TypeError, match="combine filters with"):
        assert (attr.x > 1) and (attr.x < 5)
    with pytest.raises(TypeError, match="combine filters with"):
        assert 1 < attr.x < 5


def test_an_attribute_prints_as_it_is_written() -> None:
    assert repr(attr["a.b"]) == "attr['a.b']"
