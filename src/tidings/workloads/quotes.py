"""Stock quotes: prices that walk at random, symbols of which a few trade most of the time, volumes.

The logarithm of a price is Brownian motion: what happens in a second is normal with a given spread, and independent of
every other second. That looks as if the last quote had to be known before the next can be drawn. It need not: the value
of each symbol at the beginning of every chunk, the *anchors*, are drawn first, all of them, since they are few; and
between two known values Brownian motion is a *bridge*, which is drawn freely and then tilted to end where it must. So
each chunk is drawn by itself, rows stand in the order of time, and the walk has no seams.

    events           key, published_at, symbol, sector, price, volume
    subscriptions    subscription, filter: a symbol at a price, large volumes of a sector, or any symbol at a price

Symbols and sectors are invented, or those of the S&P 500 where the folder of real data is at hand (`listing="sp500"`).
Which symbol trades when has nothing to do with any real market.
"""

from functools import lru_cache, partial
from typing import Literal

import numpy

from tidings.workloads.content import all_of, between, equals
from tidings.workloads.recorded import csv_rows, folder_text, strings, typed
from tidings.workloads.schedule import zipf
from tidings.workloads.table import CHUNK_ITEMS, Array, Choices, Columns, Drawn, Names, Random, Table, stream
from tidings.workloads.workload import Workload, require

SECTORS = ("energy", "finance", "health", "industry", "materials", "retail", "technology", "utilities")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
PRICE_MEDIAN, PRICE_SPREAD = 60.0, 0.8
VOLUME_MEDIAN, VOLUME_SPREAD, LOT = 300.0, 1.2, 100
BY_SYMBOL, BY_SECTOR = 0.6, 0.25
"""Shares of the kinds of subscriptions; the rest ask for a price alone."""

Listing = tuple[tuple[str, ...], tuple[str, ...]]


class Quotes(Workload, frozen=True, kw_only=True, tag="quotes"):
    """Stock quotes: Zipf symbols, prices that walk at random, volumes; in the order of time."""

    event_count: int = 1_000_000
    rate: float = 1000.0
    """Quotes a second, of all symbols together."""
    listing: Literal["generated", "sp500"] = "generated"
    symbols: int = 500
    """How many are taken of the listing; the first ones trade most."""
    exponent: float = 1.0
    """Of how often symbols trade."""
    volatility: float = 0.0002
    """How far the logarithm of a price moves in a second (standard deviation)."""
    subscription_count: int = 10_000

    def check(self) -> None:
        self.require_positive("event_count", "rate", "symbols", "volatility", "subscription_count")
        require(self.exponent >= 0, f"exponent: {self.exponent} is not possible; give 0 or more")

    def listed(self) -> Listing:
        """Symbols and their sectors."""
        if self.listing == "generated":
            return tuple(map(symbol, range(self.symbols))), tuple(
                SECTORS[n % len(SECTORS)] for n in range(self.symbols)
            )
        lines = csv_rows(folder_text("events", "sp500-constituents.csv"))
        rows = [(row["Symbol"], row["GICS Sector"]) for row in typed(lines, strings("Symbol", "GICS Sector"))]
        require(self.symbols <= len(rows), f"symbols: {self.symbols} is more than the {len(rows)} that are listed")
        order = stream(self.seed, "quotes/listing").permutation(len(rows))[: self.symbols].tolist()
        return tuple(rows[place][0] for place in order), tuple(rows[place][1] for place in order)

    def first_prices(self) -> Array:
        drawn = stream(self.seed, "quotes/first").standard_normal(self.symbols)
        return PRICE_MEDIAN * numpy.exp(PRICE_SPREAD * drawn)

    def events(self) -> Table:
        columns: Columns = {
            "key": "string",
            "published_at": "double",
            "symbol": "string",
            "sector": "string",
            "price": "double",
            "volume": "long",
        }
        make = partial(self.draw_quotes, self.listed())
        return self.drawn("quotes/events", self.event_count, columns, make=make)

    def draw_quotes(self, listed: Listing, random: Random, first: int, count: int) -> Drawn:
        rows = numpy.arange(first, first + count)
        symbols = zipf(random, count, self.symbols, self.exponent)
        logarithms = self.walk(random, symbols, first)
        volumes = VOLUME_MEDIAN * numpy.exp(VOLUME_SPREAD * random.standard_normal(count))
        return {
            "key": Names("", rows),
            "published_at": rows / self.rate,
            "symbol": Choices(listed[0], symbols),
            "sector": Choices(listed[1], symbols),
            "price": numpy.round(self.first_prices()[symbols] * numpy.exp(logarithms), 2),
            "volume": numpy.maximum(LOT, numpy.round(volumes / LOT) * LOT).astype(numpy.int64),
        }

    def walk(self, random: Random, symbols: Array, first: int) -> Array:
        """For each row how far its symbol has come since the beginning: a bridge from one anchor to the next."""
        chunks, span = -(-self.event_count // CHUNK_ITEMS), CHUNK_ITEMS / self.rate
        path = anchors(self.seed, self.symbols, chunks, self.volatility * span**0.5)
        start, end = path[first // CHUNK_ITEMS], path[first // CHUNK_ITEMS + 1]
        order = numpy.argsort(symbols, kind="stable")
        owner, times = symbols[order], order / self.rate
        is_first = numpy.diff(owner, prepend=-1) != 0
        since = numpy.where(is_first, times, numpy.diff(times, prepend=0.0))
        sums = numpy.cumsum(random.standard_normal(len(order)) * self.volatility * numpy.sqrt(since))
        begins = numpy.flatnonzero(is_first)
        before = numpy.concatenate([[0.0], sums])[begins]
        free = sums - numpy.repeat(before, numpy.diff(begins, append=len(order)))
        lasts = numpy.append(begins[1:], len(order)) - 1
        overshoot = numpy.zeros(self.symbols)
        remaining = numpy.sqrt(span - times[lasts])
        overshoot[owner[lasts]] = free[lasts] + random.standard_normal(len(lasts)) * self.volatility * remaining
        overshoot -= end - start
        walked = numpy.empty(len(order))
        walked[order] = start[owner] + free - overshoot[owner] * (times / span)
        return walked

    def subscriptions(self) -> Table:
        columns: Columns = {"subscription": "string", "filter": "string"}
        make = partial(self.draw_subscriptions, self.listed())
        return self.drawn("quotes/subscriptions", self.subscription_count, columns, make=make)

    def draw_subscriptions(self, listed: Listing, random: Random, first: int, count: int) -> Drawn:
        kind, side = random.random(count), random.random(count) < 0.5
        symbols = zipf(random, count, self.symbols, self.exponent)
        levels = numpy.round(self.first_prices()[symbols] * numpy.exp(0.02 * random.standard_normal(count)), 2)
        volumes = LOT * numpy.round(numpy.exp(random.random(count) * 4) * 3)
        rows = zip(kind.tolist(), side.tolist(), symbols.tolist(), levels.tolist(), volumes.tolist(), strict=True)
        return {
            "subscription": Names("s", numpy.arange(first, first + count)),
            "filter": [quote_filter(listed, *row) for row in rows],
        }


def quote_filter(listed: Listing, kind: float, above: bool, place: int, level: float, volume: float) -> str:
    price = between("price", level, numpy.inf) if above else between("price", -numpy.inf, level)
    if kind < BY_SYMBOL:
        return all_of([equals("symbol", listed[0][place]), price])
    if kind < BY_SYMBOL + BY_SECTOR:
        return all_of([equals("sector", listed[1][place]), between("volume", volume, numpy.inf)])
    return price


@lru_cache(maxsize=4)
def anchors(seed: int, symbols: int, chunks: int, spread: float) -> Array:
    """How far each symbol has come at the beginning of each chunk, and at the end of the last."""
    steps = stream(seed, "quotes/anchors").standard_normal((chunks, symbols)) * spread
    path: Array = numpy.vstack([numpy.zeros((1, symbols)), numpy.cumsum(steps, axis=0)])
    path.flags.writeable = False
    return path


def symbol(place: int) -> str:
    """AAA, AAB, ...; longer when these are used up."""
    name = ""
    while place or len(name) < 3:
        place, letter = divmod(place, len(LETTERS))
        name = LETTERS[letter] + name
    return name
