"""Attributes of events, each with its type and its distribution, and filters that ask for them.

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
from typing import ClassVar

import msgspec
import numpy

from tidings.model.language.lexer import quoted
from tidings.workloads.schedule import places, zipf_cumulative
from tidings.workloads.table import Array, Choices, Column, ColumnType, Random
from tidings.workloads.workload import require


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
