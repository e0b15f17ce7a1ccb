"""Filters written in Python: `(attr.price > 100) & attr.symbol.is_in("IBM", "AAPL")`.

`attr.price` names an attribute, `attr["a.b"]` one whose name is no Python name (or is that of a method here). Comparing
it, or calling one of its questions, gives a `Filter`; filters combine by `&`, `|` and `~`. Each means what the same
filter means as text, and is equal to what `parse` makes of it:

    attr.price > 100                      price > 100
    attr.symbol == "IBM"                  symbol = 'IBM'
    attr.symbol.is_in("IBM", "AAPL")      symbol IN ('IBM', 'AAPL')
    attr.name.prefix("ab")                name LIKE 'ab%'
    attr.price.absent()                   NOT EXISTS price
    ~(attr.price > 100) & attr.urgent.is_true()

Python's own `and`, `or`, `not` and chained comparisons (`1 < attr.price < 5`) cannot be given a meaning; a filter
refuses to be a truth, so they raise an error.
"""

from tidings.model.errors import UsageError
from tidings.model.filter import Filter
from tidings.model.language.expression import Attribute, Compare, Exists, Expression, In, Like, Literal, Not, all_of
from tidings.model.language.lexer import KEYWORDS, attribute_name
from tidings.model.language.normal_form import normalise
from tidings.model.sets.patterns import escape, prefix_pattern
from tidings.model.sets.text_conditions import prefix_end
from tidings.model.values import Value, check_name, check_string, check_value


class NamedAttribute:
    """One attribute, of which a filter may ask something."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        if check_name(name).upper() in KEYWORDS:
            raise UsageError(f"attribute name {name!r} is a word of the filter language; filters cannot ask for it")
        self.name = attribute_name(name)

    def __repr__(self) -> str:
        return f"attr[{self.name!r}]"

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, value: Value) -> Filter:  # type: ignore[override]
        return self.compared("=", value)

    def __ne__(self, value: Value) -> Filter:  # type: ignore[override]
        return self.compared("!=", value)

    def __lt__(self, value: Value) -> Filter:
        return self.compared("<", value)

    def __le__(self, value: Value) -> Filter:
        return self.compared("<=", value)

    def __gt__(self, value: Value) -> Filter:
        return self.compared(">", value)

    def __ge__(self, value: Value) -> Filter:
        return self.compared(">=", value)

    def is_in(self, *values: Value) -> Filter:
        """The value is one of these, each cast to the type of the value, as IN does."""
        return normalise(self.membership(values))

    def not_in(self, *values: Value) -> Filter:
        return normalise(Not(self.membership(values)))

    def is_true(self) -> Filter:
        return self.compared("=", True)

    def is_false(self) -> Filter:
        return self.compared("=", False)

    def prefix(self, text: str) -> Filter:
        """The value begins with this text."""
        return normalise(self.beginning(self.checked_text(text)))

    def suffix(self, text: str) -> Filter:
        """The value ends with this text."""
        return normalise(Like(self.expression(), "%" + escape(self.checked_text(text))))

    def contains(self, text: str) -> Filter:
        """The value has this text somewhere in it."""
        pattern = prefix_pattern(self.checked_text(text))
        if pattern is None:
            raise UsageError(f"attribute {self.name!r}: no pattern says 'contains' for a text that ends in a backslash")
        return normalise(Like(self.expression(), "%" + pattern))

    def like(self, pattern: str) -> Filter:
        r"""The value matches the LIKE pattern: `%` any run, `_` one character, `\%` and `\_` themselves."""
        return normalise(Like(self.expression(), self.checked_text(pattern)))

    def unlike(self, pattern: str) -> Filter:
        return normalise(Not(Like(self.expression(), self.checked_text(pattern))))

    def exists(self) -> Filter:
        return normalise(Exists(self.name))

    def absent(self) -> Filter:
        return normalise(Not(Exists(self.name)))

    def expression(self) -> Attribute:
        return Attribute(self.name)

    def compared(self, operator: str, value: Value) -> Filter:
        return normalise(Compare(operator, self.expression(), Literal(check_value(self.name, value))))

    def membership(self, values: tuple[Value, ...]) -> Expression:
        if not values:
            raise UsageError(f"attribute {self.name!r}: give at least one value")
        return In(self.expression(), tuple(Literal(check_value(self.name, value)) for value in values))

    def checked_text(self, text: str) -> str:
        if not isinstance(text, str):
            raise UsageError(f"attribute {self.name!r}: a text or pattern is a str, not {type(text).__name__}")
        return check_string(self.name, text)

    def beginning(self, text: str) -> Expression:
        """LIKE where a pattern can say it; a text that ends in a backslash takes a range."""
        pattern = prefix_pattern(text)
        if pattern is not None:
            return Like(self.expression(), pattern)
        end = prefix_end(text)
        assert end is not None
        return all_of((Compare(">=", self.expression(), Literal(text)), Compare("<", self.expression(), Literal(end))))


class AttributeNames:
    """`attr.price` or `attr["price"]`."""

    def __getattr__(self, name: str) -> NamedAttribute:
        if name.startswith("__"):
            raise AttributeError(name)
        return NamedAttribute(name)

    def __getitem__(self, name: str) -> NamedAttribute:
        return NamedAttribute(name)


attr = AttributeNames()
