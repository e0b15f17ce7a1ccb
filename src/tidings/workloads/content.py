"""Events and subscriptions of any shape, with a wanted share of matches.

Which attributes there are, of which type and distribution, is a parameter. A subscription is a conjunction, of one of
two kinds:

    by value   one word, drawn with the popularity it has among events, and one or more ranges
    by range   ranges only, a quarter of them open to one side

All ranges of a kind have the same width in quantiles, that is, each is satisfied by the same share of events; where it
lies is drawn. The width is found by bisection on a sample, for each kind, so that the mean share of events which a
subscription matches is `match_rate`. Halving again and again works because wider ranges never match less.

A word asked for may by itself be rarer than the wanted rate; then no width will do, and we say so.

An attribute has a type and a distribution:

    Words("symbol", 1000, 1.0)        text, one of 1000 words with Zipf shares; w0 is the most popular
    Ranks("quantity", 100_000, 1.0)   whole numbers 1, 2, 3, ... with Zipf shares, 1 being the most frequent
    Decimals("price", 0.0, 1000.0)    decimals, all alike
    Whole("hour", 0, 23)              whole numbers, all alike, both ends included
    Flag("hot", 0.1)                  true with this probability

An attribute is drawn as *codes*, plain numbers: a word is its place in the order of popularity, a flag is 0 or 1. Codes
are what filters are calibrated on; `column` turns them into what an event carries. Filters ask for words by value and
for numbers by range, whose ends are the codes `at` two quantiles: so ranges lie where the data is, as those of real
subscribers do. Flags are not asked for.
"""

import math
from collections.abc import Iterable
from functools import partial
from typing import ClassVar

import msgspec
import numpy

from tidings.model.errors import UsageError
from tidings.model.language.lexer import quoted
from tidings.workloads.schedule import distinct_places, places, zipf_cumulative
from tidings.workloads.table import Array, Choices, Column, Columns, ColumnType, Drawn, Names, Random, Table, stream
from tidings.workloads.workload import Workload, require


class Ranked(msgspec.Struct, frozen=True):
    """One of `count` things with Zipf shares."""

    name: str
    count: int
    exponent: float = 1.0

    def __post_init__(self) -> None:
        holds = self.count > 0 and self.exponent >= 0
        require(holds, f"attribute {self.name}: give a count above 0 and an exponent of 0 or more")

    def at(self, quantiles: Array) -> Array:
        return places(zipf_cumulative(self.count, self.exponent), quantiles)


class Words(Ranked, frozen=True, tag="words"):
    type: ClassVar[ColumnType] = "string"
    count: int = 1000


class Ranks(Ranked, frozen=True, tag="ranks"):
    type: ClassVar[ColumnType] = "long"
    count: int = 100_000

    def at(self, quantiles: Array) -> Array:
        return numpy.minimum(super().at(quantiles), self.count - 1) + 1


class Decimals(msgspec.Struct, frozen=True, tag="uniform"):
    name: str
    low: float = 0.0
    high: float = 1.0

    type: ClassVar[ColumnType] = "double"

    def __post_init__(self) -> None:
        require(self.low < self.high, f"attribute {self.name}: low must be below high")

    def at(self, quantiles: Array) -> Array:
        return self.low + (self.high - self.low) * quantiles


class Whole(msgspec.Struct, frozen=True, tag="whole"):
    name: str
    low: int = 0
    high: int = 100

    type: ClassVar[ColumnType] = "long"

    def __post_init__(self) -> None:
        require(self.low <= self.high, f"attribute {self.name}: low must not be above high")

    def at(self, quantiles: Array) -> Array:
        steps = numpy.floor(quantiles * (self.high - self.low + 1)).astype(numpy.int64)
        return numpy.asarray(self.low + numpy.minimum(steps, self.high - self.low))


class Flag(msgspec.Struct, frozen=True, tag="flag"):
    name: str
    share: float = 0.5

    type: ClassVar[ColumnType] = "boolean"

    def __post_init__(self) -> None:
        require(0 <= self.share <= 1, f"attribute {self.name}: a share is from 0 to 1")

    def at(self, quantiles: Array) -> Array:
        return numpy.asarray(quantiles < self.share)


Attribute = Words | Ranks | Decimals | Whole | Flag


def draw(attribute: Attribute, random: Random, size: int) -> Array:
    return attribute.at(random.random(size))


def column(attribute: Attribute, codes: Array) -> Column:
    """What events carry."""
    return Choices(word_list(attribute.count), codes) if isinstance(attribute, Words) else codes


def word(place: int) -> str:
    return f"w{place}"


def word_list(count: int) -> list[str]:
    return [word(place) for place in range(count)]


# Filters that ask for attributes: text of the filter language, put together from parts that are known to be sound.


def equals(name: str, value: str) -> str:
    return f"{name} = {quoted(value)}"


def one_of(name: str, values: Iterable[str]) -> str:
    return f"{name} IN ({', '.join(map(quoted, values))})"


def between(name: str, low: float, high: float) -> str:
    """Both ends belong to it; an infinite end is left out. "" if nothing is asked."""
    parts = []
    if low > -math.inf:
        parts.append(f"{name} >= {number(low)}")
    if high < math.inf:
        parts.append(f"{name} <= {number(high)}")
    return " AND ".join(parts)


def all_of(parts: Iterable[str]) -> str:
    return " AND ".join(part for part in parts if part) or "TRUE"


def number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


SAMPLE_FILTERS, SAMPLE_EVENTS, BISECTIONS = 4096, 256, 14
OPEN_SHARE = 0.25
RANGES_MAX = 3
DIGITS = 9
"""Ends of ranges are cut to so many significant digits; an end need not be longer than the text that carries it."""

FIVE_COLUMNS: tuple[Attribute, ...] = (
    Words("symbol", 1000, 1.0),
    Decimals("price", 0.0, 1000.0),
    Ranks("quantity", 100_000, 1.0),
    Decimals("change", -10.0, 10.0),
)


class TypedContent(Workload, frozen=True, kw_only=True, tag="content"):
    """Typed events, and subscriptions that match a wanted share of them."""

    event_count: int = 1_000_000
    subscription_count: int = 10_000
    attributes: tuple[Attribute, ...] = FIVE_COLUMNS
    match_rate: float = 0.002
    """The share of events that a subscription matches, on average over subscriptions."""
    value_share: float = 0.7
    """The share of subscriptions that ask for a word; the others ask for ranges only."""

    def check(self) -> None:
        self.require_positive("event_count", "subscription_count", "match_rate")
        self.require_shares("match_rate", "value_share")
        names = [attribute.name for attribute in self.attributes]
        require(
            len(set(names)) == len(names) and "key" not in names, "attributes: names must differ, and none is `key`"
        )
        require(bool(self.ranged), "attributes: give at least one number, so that there is something to calibrate")
        require(bool(self.worded) or self.value_share == 0, "attributes: give a Words, or set value_share to 0")

    @property
    def worded(self) -> list[int]:
        return [place for place, attribute in enumerate(self.attributes) if isinstance(attribute, Words)]

    @property
    def ranged(self) -> list[int]:
        return [place for place, attribute in enumerate(self.attributes) if not isinstance(attribute, Words | Flag)]

    def events(self) -> Table:
        columns: Columns = {"key": "string", **{attribute.name: attribute.type for attribute in self.attributes}}
        return self.drawn("content/events", self.event_count, columns, make=self.draw_events)

    def subscriptions(self) -> Table:
        return self.drawn(
            "content/subscriptions",
            self.subscription_count,
            {"subscription": "string", "filter": "string"},
            make=partial(self.draw_subscriptions, self.widths()),
        )

    def draw_events(self, random: Random, first: int, count: int) -> Drawn:
        drawn = {attribute.name: column(attribute, draw(attribute, random, count)) for attribute in self.attributes}
        return {"key": Names("", numpy.arange(first, first + count)), **drawn}

    def draw_subscriptions(self, widths: tuple[float, float], random: Random, first: int, count: int) -> Drawn:
        by_value = random.random(count) < self.value_share
        asked = [
            self.draw_ranges(random, count, width, with_word) for width, with_word in zip(widths, KINDS, strict=True)
        ]
        texts = [asked[0 if valued else 1].text(self, place) for place, valued in enumerate(by_value.tolist())]
        return {"subscription": Names("s", numpy.arange(first, first + count)), "filter": texts}

    def draw_ranges(self, random: Random, count: int, width: float, with_word: bool) -> "Asked":
        """One conjunction a row: a word first if it is asked for, then ranges on different attributes."""
        ranged = numpy.array(self.ranged)
        slots = min(RANGES_MAX + (not with_word), len(ranged))
        fewest = 1 if with_word else min(2, slots)
        wanted = random.integers(fewest, slots + 1, count)
        chosen = distinct_places(random, len(ranged), wanted, slots)
        attributes = numpy.where(chosen < 0, -1, ranged[chosen])
        begins, sides = random.random((count, slots)) * (1 - width), random.random((count, slots))
        begins = numpy.where(sides < OPEN_SHARE / 2, 0.0, numpy.where(sides > 1 - OPEN_SHARE / 2, 1 - width, begins))
        low, high = numpy.full((count, slots), -math.inf), numpy.full((count, slots), math.inf)
        for place in self.ranged:
            here = attributes == place
            low[here] = significant(self.attributes[place].at(begins[here]))
            high[here] = significant(self.attributes[place].at(numpy.minimum(begins[here] + width, 1.0)))
        low[sides < OPEN_SHARE / 2], high[sides > 1 - OPEN_SHARE / 2] = -math.inf, math.inf
        if not with_word:
            return Asked(attributes, low, high)
        worded = numpy.array(self.worded)[random.integers(0, max(1, len(self.worded)), count)]
        words = numpy.zeros(count)
        for place in self.worded:
            here = worded == place
            words[here] = draw(self.attributes[place], random, int(here.sum()))
        return Asked(
            numpy.column_stack([worded, attributes]),
            numpy.column_stack([words, low]),
            numpy.column_stack([words, high]),
        )

    def widths(self) -> tuple[float, float]:
        """In quantiles, of subscriptions by value and by range."""
        # Evenly spread over quantiles rather than drawn, so that a sample has the shares that all events have.
        steps = (numpy.arange(SAMPLE_EVENTS) + 0.5) / SAMPLE_EVENTS
        events = numpy.column_stack(
            [attribute.at(stream(self.seed, attribute.name).permutation(steps)) for attribute in self.attributes]
        ).astype(numpy.float64)
        by_value, by_range = (
            self.width(events, with_word) if share > 0 else 1.0
            for with_word, share in zip(KINDS, (self.value_share, 1 - self.value_share), strict=True)
        )
        return by_value, by_range

    def width(self, events: Array, with_word: bool) -> float:
        def rate(width: float) -> float:
            sample = self.draw_ranges(stream(self.seed, "content/sample"), SAMPLE_FILTERS, width, with_word)
            return sample.match_rate(events)

        if (most := rate(1.0)) < self.match_rate:
            raise UsageError(
                f"match_rate: {self.match_rate} cannot be reached, since the words asked for match {most:.2g} by "
                "themselves; lower it, set value_share to 0, or give fewer words or a larger exponent"
            )
        low, high = 0.0, 1.0
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if rate(middle) < self.match_rate else (low, middle)
        return (low + high) / 2


KINDS = (True, False)
"""Subscriptions by value ask for a word, those by range do not."""


class Asked(msgspec.Struct, frozen=True):
    """Conjunctions as arrays of codes, one row each; an attribute of -1 asks for nothing."""

    attributes: Array
    low: Array
    high: Array

    def match_rate(self, events: Array) -> float:
        """By brute force, the mean over conjunctions of the share of events that match."""
        matched = numpy.ones((len(events), len(self.attributes)), bool)
        for slot in range(self.attributes.shape[1]):
            asked = self.attributes[:, slot]
            values = events[:, numpy.maximum(asked, 0)]
            matched &= (asked < 0) | ((self.low[:, slot] <= values) & (values <= self.high[:, slot]))
        return float(matched.mean())

    def text(self, workload: TypedContent, row: int) -> str:
        parts = []
        for place, low, high in zip(self.attributes[row], self.low[row], self.high[row], strict=True):
            if place >= 0:
                attribute = workload.attributes[place]
                is_word = isinstance(attribute, Words)
                parts.append(equals(attribute.name, word(int(low))) if is_word else between(attribute.name, low, high))
        return all_of(parts)


def significant(values: Array) -> Array:
    """Cut to a few significant digits; zero stays zero."""
    values = values.astype(numpy.float64)
    magnitude = numpy.floor(numpy.log10(numpy.abs(numpy.where(values == 0, 1, values))))
    scale = 10.0 ** (DIGITS - 1 - magnitude)
    return numpy.asarray(numpy.round(values * scale) / scale)
