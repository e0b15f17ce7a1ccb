"""The workload of bulk matching: quotes of 5000 symbols, and subscriptions of two to four conditions.

An event is a quote: symbol (Zipf 0.8), price (lognormal), volume (uniform), change (normal), and in four of five a
venue. Of the subscriptions

    80 %   ask for a symbol, drawn like those of the events, and 1 to 3 further conditions
    10 %   ask for symbols that begin with two letters, and 1 to 3 further conditions
    10 %   ask for nothing to be equal, but for 2 to 4 further conditions: ranges, rarer ones, and that there is a venue

A further condition is a one-sided range (< <= > >=) of price, volume or change, a venue, or that there is one. About
0.2 % of the events match a subscription.

Each subscription is there twice: as the text of a filter, and as columns for plain SQL (`by_sql`), where every range is
a closed interval so that one comparison for each end will do.

`by_sql` is the best formulation that we know: subscriptions are told apart by the condition that leaves the fewest
events, and each kind has its own join. A symbol is a broadcast hash join, two letters are one on the first two letters;
what is left is a nested loop. What else a subscription asks is the condition of the join, numbers before strings. All
of it is compiled by Spark.
"""

from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SYMBOLS, ZIPF, LETTERS = 5000, 0.8, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
PREFIX_LETTERS = 2
VENUES = np.array(["north", "east", "south", "west", "hub"])
VENUE_MISSING = 0.2
VOLUMES = 100_000
SYMBOL_SHARE, PREFIX_SHARE = 0.8, 0.1
RARE = 0.25
"""Ranges of subscriptions without a symbol let at most this share of events through."""

EVENTS_PER_FILE = 125_000
NORMAL = NormalDist()


def symbols() -> Any:
    """5000 different words of four letters, the most frequent first."""
    generator = np.random.default_rng([7, SYMBOLS])
    numbers = generator.permutation(len(LETTERS) ** 4)[:SYMBOLS]
    letters = np.array(list(LETTERS))
    columns = [letters[numbers // len(LETTERS) ** place % len(LETTERS)] for place in range(4)]
    return np.char.add(np.char.add(columns[0], columns[1]), np.char.add(columns[2], columns[3]))


def draw_symbols(generator: Any, count: int) -> Any:
    frequencies = np.arange(1, SYMBOLS + 1) ** -ZIPF
    cumulated = np.cumsum(frequencies / frequencies.sum())
    return symbols()[np.minimum(np.searchsorted(cumulated, generator.random(count)), SYMBOLS - 1)]


def quotes(first: int, count: int) -> Any:
    """Events as an Arrow table; the key of the first is `first`."""
    generator = np.random.default_rng([1, first])
    return pa.table(
        {
            "key": np.arange(first, first + count),
            "symbol": pa.array(draw_symbols(generator, count)),
            "price": np.round(np.exp(generator.normal(4, 1, count)), 2),
            "volume": generator.integers(1, VOLUMES, count),
            "change": np.round(generator.normal(0, 2, count), 3),
            "venue": pa.array(
                VENUES[generator.integers(0, len(VENUES), count)], mask=generator.random(count) < VENUE_MISSING
            ),
        }
    )


def write_quotes(folder: Path, count: int) -> list[str]:
    """The files of so many events, EVENTS_PER_FILE in each."""
    paths = []
    for first in range(0, count, EVENTS_PER_FILE):
        path = folder / f"quotes-{first:09}.parquet"
        pyarrow.parquet.write_table(quotes(first, min(EVENTS_PER_FILE, count - first)), path)
        paths.append(str(path))
    return paths


def subscriptions(count: int) -> Any:
    """An Arrow table: subscription, filter, and the same filter as columns for `by_sql`."""
    generator = np.random.default_rng([2, count])
    kinds, words = generator.random(count), draw_symbols(generator, count)
    return pa.Table.from_pylist(
        [subscription(generator, number, kinds[number], str(words[number])) for number in range(count)], schema=SCHEMA
    )


SCHEMA = pa.schema(
    [
        ("subscription", pa.int64()),
        ("filter", pa.string()),
        ("wanted_symbol", pa.string()),
        ("wanted_prefix", pa.string()),
        ("wanted_venue", pa.string()),
        ("needs_venue", pa.bool_()),
        ("price_low", pa.float64()),
        ("price_high", pa.float64()),
        ("volume_low", pa.int64()),
        ("volume_high", pa.int64()),
        ("change_low", pa.float64()),
        ("change_high", pa.float64()),
    ]
)
WIDE = {"price": (-np.inf, np.inf), "volume": (0, VOLUMES), "change": (-np.inf, np.inf)}
RANGES = tuple(WIDE)


def subscription(generator: Any, number: int, kind: float, word: str) -> dict[str, Any]:
    asks_symbol = kind < SYMBOL_SHARE + PREFIX_SHARE
    row: dict[str, Any] = {"subscription": number, "needs_venue": False}
    for name, (low, high) in WIDE.items():
        row |= {f"{name}_low": low, f"{name}_high": high}
    conditions = []
    if kind < SYMBOL_SHARE:
        row["wanted_symbol"] = word
        conditions.append(f"symbol = '{word}'")
    elif asks_symbol:
        row["wanted_prefix"] = word[:PREFIX_LETTERS]
        conditions.append(f"symbol LIKE '{word[:PREFIX_LETTERS]}%'")
    if asks_symbol:
        further = generator.permutation([*RANGES, "venue", "exists"])[: generator.integers(1, 4)]
    else:
        further = [*generator.permutation(RANGES), "exists"][: generator.integers(2, 5)]
    for name in map(str, further):
        if name == "venue":
            row["wanted_venue"] = str(VENUES[generator.integers(len(VENUES))])
            conditions.append(f"venue = '{row['wanted_venue']}'")
        elif name == "exists":
            row["needs_venue"] = True
            conditions.append("EXISTS venue")
        else:
            share = max(generator.random() * (1.0 if asks_symbol else RARE), 1e-5)
            conditions.append(one_sided(row, name, str(generator.choice(["<", "<=", ">", ">="])), share))
    return {**row, "filter": " AND ".join(conditions)}


def one_sided(row: dict[str, Any], name: str, operator: str, share: float) -> str:
    """The range of one attribute that lets this share of events through, as text and in the row."""
    quantile = share if operator[0] == "<" else 1 - share
    if name == "volume":
        bound: Any = int(quantile * VOLUMES)
        inside = bound + {"<": -1, ">": 1}.get(operator, 0)
    else:
        z = NORMAL.inv_cdf(quantile)
        bound = round(float(np.exp(4 + z)), 2) if name == "price" else round(2 * z, 3)
        inside = bound if "=" in operator else float(np.nextafter(bound, -np.inf if operator == "<" else np.inf))
    row[f"{name}_{'high' if operator[0] == '<' else 'low'}"] = inside
    return f"{name} {operator} {bound}"


IN_RANGES = " AND ".join(f"{name} >= {name}_low AND {name} <= {name}_high" for name in RANGES)
VENUE_FITS = "(NOT needs_venue OR venue IS NOT NULL) AND (wanted_venue IS NULL OR wanted_venue = venue)"
KINDS = (
    ("wanted_symbol IS NOT NULL", f"wanted_symbol = symbol AND {IN_RANGES} AND {VENUE_FITS}"),
    (
        "wanted_prefix IS NOT NULL",
        f"wanted_prefix = substring(symbol, 1, {PREFIX_LETTERS}) AND {IN_RANGES} AND {VENUE_FITS}",
    ),
    (
        "wanted_symbol IS NULL AND wanted_prefix IS NULL",
        f"{IN_RANGES} AND (NOT needs_venue OR venue IS NOT NULL)",
    ),
)


def by_sql(session: "SparkSession", events: "DataFrame", wanted: "DataFrame") -> "DataFrame":
    """Pairs of key and subscription that match."""
    events.createOrReplaceTempView("bulk_events")
    wanted.createOrReplaceTempView("bulk_wanted")
    joins = [
        f"""SELECT /*+ BROADCAST(w) */ key, subscription
            FROM bulk_events JOIN (SELECT * FROM bulk_wanted WHERE {kind}) w ON {condition}"""
        for kind, condition in KINDS
    ]
    return session.sql(" UNION ALL ".join(joins))
