"""The matching workload: filters and events drawn from one seed, with a wanted share of matches.

An event has 20 attributes, all of them always present (the worst case for counting). Text attributes take one of 1000
words with Zipf frequencies, numeric ones a number. A filter is a conjunction on distinct attributes, of one of these
kinds:

    equality   one word asked for, and 1 to 3 intervals
    range      2 to 4 intervals, a quarter of them open to one side
    text       1 to 3 conditions on words (equal, one of a few, prefix), and one interval

and a workload is one of four variants:

    uniform    10 text and 10 numeric attributes, numbers uniform in [0, 1); 70 % equality, 30 % range: the reference
    lognormal  the same with lognormal numbers
    zipf       the same with integers of Zipf frequencies, 1 being the most frequent
    text       14 text and 6 numeric attributes, only filters of the kind text

At a match rate of 10 % all filters are of the kind range, since an asked word alone is rarer than that. Intervals are
drawn in the space of quantiles and then mapped to values, so their bounds follow the data, as those of real subscribers
do. Their width is found by bisection on a sample, for each kind, so that a filter matches at the wanted mean rate.

Everything is held twice. For the baselines a predicate is a row (filter, attribute, low, high) over numbers, a word
being its place in alphabetical order; a list of words is several rows of which at most one holds. A filter matches when
the number of rows that hold is the number of attributes it asks about. For the index there are real `Filter` and
`Event` values and Arrow batches, made from the same arrays.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import numpy
import numpy.typing

from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.sets.constraint import Constraint, NumberSet
from tidings.model.sets.texts import TextSet, like
from tidings.model.values import Value, canonical_number

Array = numpy.typing.NDArray[Any]

ATTRIBUTES = 20
WORDS = 1000
LETTERS = "abcdefghij"
ZIPF_NUMBERS = 100_000
SAMPLE_FILTERS, SAMPLE_EVENTS, BISECTIONS = 3000, 300, 12
WORDS_OF_LIST = 4
OPEN_SHARE = 0.25
RANGES_ONLY_FROM = 0.1
VARIANTS = ("uniform", "lognormal", "zipf", "text")


@dataclass(frozen=True)
class Predicates:
    """Rows sorted by filter and attribute; the rows of filter i are `first[i]` up to `first[i + 1]`."""

    first: Array
    attribute: Array
    low: Array
    high: Array
    needed: Array
    """For each filter how many of its rows hold when it matches."""

    def matches(self, rows: Array) -> Array:
        """Brute force: for each event and filter, does it match?"""
        values = rows[:, self.attribute]
        holds = (self.low <= values) & (values <= self.high)
        return numpy.asarray(numpy.add.reduceat(holds, self.first[:-1], axis=1, dtype=numpy.int64) == self.needed)


@dataclass(frozen=True)
class Workload:
    variant: str
    rate: float
    texts: int
    """How many attributes are text; they come first."""
    predicates: Predicates
    rows: Array
    """Events by attribute, words as their place in the alphabet."""

    @property
    def size(self) -> int:
        return len(self.predicates.needed)

    def matching(self, event: int) -> list[int]:
        """The filters that match one event, by brute force."""
        found: list[int] = numpy.flatnonzero(self.predicates.matches(self.rows[event : event + 1])[0]).tolist()
        return found

    def filters(self, begin: int = 0, end: int | None = None) -> Iterator[Filter]:
        """Real filters, equal constraints on words being shared."""
        rows = self.predicates
        first = rows.first[begin : self.size + 1 if end is None else end + 1].tolist()
        base, stop = first[0], first[-1]
        attributes, lows, highs = (column[base:stop].tolist() for column in (rows.attribute, rows.low, rows.high))
        words: dict[tuple[int, tuple[tuple[float, float], ...]], Constraint] = {}
        for start, finish in pairwise(first):
            spans: dict[int, tuple[tuple[float, float], ...]] = {}
            for row in range(start - base, finish - base):
                spans[attributes[row]] = (*spans.get(attributes[row], ()), (lows[row], highs[row]))
            yield Filter((tuple(self.constraint(attribute, span, words) for attribute, span in spans.items()),))

    def constraint(self, attribute: int, spans: Any, words: dict[Any, Constraint]) -> Constraint:
        if attribute >= self.texts:
            low, high = spans[0]
            return Constraint(NAMES[attribute], number=NumberSet(((canonical_number(low), canonical_number(high)),)))
        constraint = words.get((attribute, spans))
        if constraint is None:
            constraint = words[attribute, spans] = Constraint(NAMES[attribute], text=text_set(spans))
        return constraint

    def events(self) -> list[Event]:
        return [Event(attributes) for attributes in self.dicts()]

    def dicts(self) -> list[dict[str, Value]]:
        """Attributes of each event, as a program without this library would have them."""
        return [
            {
                name: ALL_WORDS[int(value)] if place < self.texts else self.number(value)
                for place, (name, value) in enumerate(zip(NAMES, row, strict=True))
            }
            for row in self.rows.tolist()
        ]

    def number(self, value: float) -> Value:
        return int(value) if self.variant == "zipf" else value

    def batches(self, size: int) -> list[Any]:
        """The events as Arrow record batches of `size`, words as plain strings."""
        import pyarrow

        words = numpy.array(ALL_WORDS)
        columns = [
            pyarrow.array(words[column.astype(numpy.int64)])
            if place < self.texts
            else pyarrow.array(column.astype(numpy.int64) if self.variant == "zipf" else column)
            for place, column in enumerate(self.rows.T)
        ]
        whole = pyarrow.RecordBatch.from_arrays(columns, names=list(NAMES))
        return [whole.slice(begin, size) for begin in range(0, len(whole), size)]


def make_workload(filters: int, rate: float, events: int = 4096, variant: str = "uniform", seed: int = 1) -> Workload:
    """The same arguments give the same workload, on every machine."""
    texts = 14 if variant == "text" else 10
    draw = Draw(variant, texts)
    if rate >= RANGES_ONLY_FROM:
        kinds = {"range": 1.0}
    else:
        kinds = {"text": 1.0} if variant == "text" else {"equality": 0.7, "range": 0.3}
    widths = {kind: width_for(variant, texts, kind, rate) for kind in kinds}
    random = numpy.random.default_rng((seed, filters))
    chosen = random.choice(len(kinds), filters, p=list(kinds.values()))
    parts = []
    for number, kind in enumerate(kinds):
        owners = numpy.flatnonzero(chosen == number)
        parts.append(draw.filters(random, kind, owners, widths[kind]))
    predicates = assemble(filters, numpy.concatenate(parts))
    return Workload(variant, rate, texts, predicates, draw.events(numpy.random.default_rng((seed, 0)), events))


class Draw:
    """Draws filters and events of one variant."""

    def __init__(self, variant: str, texts: int) -> None:
        self.variant, self.texts = variant, texts
        ranks = 1.0 / numpy.arange(1, WORDS + 1)
        self.word_share = ranks / ranks.sum()
        # Which words are frequent has nothing to do with the alphabet, or a prefix would catch all or none of them.
        self.word_of_rank = numpy.random.default_rng(7).permutation(WORDS)
        shares = 1.0 / numpy.arange(1, ZIPF_NUMBERS + 1)
        self.zipf_quantiles = numpy.cumsum(shares / shares.sum())
        self.normal_places = numpy.linspace(0.0, 1.0, 4097)[1:-1]
        self.normal_values = numpy.array([NormalDist().inv_cdf(place) for place in self.normal_places.tolist()])

    def words(self, random: numpy.random.Generator, shape: int | tuple[int, int]) -> Array:
        words: Array = self.word_of_rank[random.choice(WORDS, shape, p=self.word_share)]
        return words

    def numbers(self, quantiles: Array) -> Array:
        """Values at quantiles; monotone, so an interval of quantiles is an interval of values."""
        if self.variant == "lognormal":
            return numpy.asarray(numpy.exp(1.5 * numpy.interp(quantiles, self.normal_places, self.normal_values)))
        if self.variant == "zipf":
            return numpy.minimum(numpy.searchsorted(self.zipf_quantiles, quantiles), ZIPF_NUMBERS - 1) + 1.0
        return quantiles

    def events(self, random: numpy.random.Generator, count: int) -> Array:
        words = self.words(random, (count, self.texts)).astype(numpy.float64)
        return numpy.hstack([words, self.numbers(random.random((count, ATTRIBUTES - self.texts)))])

    def filters(self, random: numpy.random.Generator, kind: str, owners: Array, width: float) -> Array:
        """Predicate rows (owner, attribute, low, high) of one filter for each owner."""
        count = len(owners)
        if kind == "text":
            texts, intervals = random.integers(1, 4, count), numpy.ones(count, numpy.int64)
        else:
            texts = numpy.full(count, 1 if kind == "equality" else 0)
            intervals = random.integers(2, 5, count) - texts
        numeric = distinct_choices(random, ATTRIBUTES - self.texts, intervals) + self.texts
        rows = [self.intervals(random, numpy.repeat(owners, intervals), numeric, width)]
        attributes, asking = distinct_choices(random, self.texts, texts), numpy.repeat(owners, texts)
        if kind == "text":
            rows += self.word_conditions(random, asking, attributes)
        else:
            words = self.words(random, len(asking))
            rows.append(numpy.column_stack([asking, attributes, words, words]))
        return numpy.concatenate(rows)

    def intervals(self, random: numpy.random.Generator, owners: Array, attributes: Array, width: float) -> Array:
        begin = random.random(len(owners)) * (1 - width)
        low, high = self.numbers(begin), self.numbers(begin + width)
        side = random.random(len(owners))
        below, above = side < OPEN_SHARE / 2, side > 1 - OPEN_SHARE / 2
        edges = self.numbers(numpy.array([width, 1 - width]))
        low = numpy.where(below, -numpy.inf, numpy.where(above, edges[1], low))
        high = numpy.where(below, edges[0], numpy.where(above, numpy.inf, high))
        return numpy.column_stack([owners, attributes, low, high])

    def word_conditions(self, random: numpy.random.Generator, owners: Array, attributes: Array) -> list[Array]:
        """A third each: the word itself, one of a few words, all words with its first letter or two."""
        words, way = self.words(random, len(owners)), random.integers(0, 3, len(owners))
        span = numpy.where(random.random(len(owners)) < 0.5, WORDS // 10, WORDS // 100)
        low = numpy.where(way == 2, words // span * span, words)
        high = numpy.where(way == 2, low + span - 1, words)
        more = numpy.flatnonzero(numpy.repeat(way == 1, WORDS_OF_LIST - 1)) // (WORDS_OF_LIST - 1)
        others = self.words(random, len(more))
        rows = numpy.concatenate(
            [
                numpy.column_stack([owners, attributes, low, high]),
                numpy.column_stack([owners[more], attributes[more], others, others]),
            ]
        )
        return [numpy.unique(rows, axis=0)]  # a word drawn twice into one list counts once


@cache
def width_for(variant: str, texts: int, kind: str, rate: float) -> float:
    """The width of intervals, in quantiles, at which filters of this kind match at the wanted rate."""
    draw = Draw(variant, texts)
    rows = draw.events(numpy.random.default_rng(11), SAMPLE_EVENTS)
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        width = (low + high) / 2
        sample = draw.filters(numpy.random.default_rng(13), kind, numpy.arange(SAMPLE_FILTERS), width)
        if assemble(SAMPLE_FILTERS, sample).matches(rows).mean() < rate:
            low = width
        else:
            high = width
    return (low + high) / 2


def distinct_choices(random: numpy.random.Generator, available: int, counts: Array) -> Array:
    """For each count so many different numbers below `available`, one after the other."""
    width = int(counts.max(initial=0))
    order = numpy.argsort(random.random((len(counts), available)), axis=1)[:, :width]
    chosen: Array = order[numpy.arange(width) < counts[:, None]]
    return chosen


def assemble(filters: int, rows: Array) -> Predicates:
    order = numpy.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))
    owner, attribute = rows[order, 0].astype(numpy.int64), rows[order, 1].astype(numpy.int64)
    first = numpy.zeros(filters + 1, numpy.int64)
    numpy.cumsum(numpy.bincount(owner, minlength=filters), out=first[1:])
    is_new = numpy.ones(len(owner), bool)
    is_new[1:] = (owner[1:] != owner[:-1]) | (attribute[1:] != attribute[:-1])
    needed = numpy.bincount(owner[is_new], minlength=filters)
    return Predicates(first, attribute, rows[order, 2].copy(), rows[order, 3].copy(), needed)


def word(place: int) -> str:
    """Words in alphabetical order: aaa, aab, ..., jjj."""
    return LETTERS[place // 100] + LETTERS[place // 10 % 10] + LETTERS[place % 10]


ALL_WORDS = [word(place) for place in range(WORDS)]
NAMES = tuple(f"a{place:02}" for place in range(ATTRIBUTES))
"""In alphabetical order, as the constraints of a conjunction must be."""


def text_set(spans: tuple[tuple[float, float], ...]) -> TextSet:
    low, high = spans[0]
    if low != high:
        return like(prefix_of(low, high) + "%")
    return TextSet(include=tuple(ALL_WORDS[int(place)] for place, _ in spans))


def prefix_of(low: float, high: float) -> str:
    return ALL_WORDS[int(low)][: 1 if high - low > 10 else 2]
