"""A forecast of rates, for a broker that goes by popularity: a table that Spark made, told interval by interval.

The table is that of `tidings.spark.forecast`: a row for each advertisement and interval with the rate that is
expected, as CSV with a header (columns `advertisement`, `interval`, `forecast`; others are not looked at), in one file
or a folder of them, as Spark writes it. An advertisement is named as in the table `streams`, or by its publisher, who
has one then. Interval n lasts from n times `seconds` of the Unix clock, as `rates_of` counts them.

What cannot be read changes nothing, and is told. What is not in the table, and intervals that it does not have, are
expected to go on as they did.
"""

import csv
import math
from pathlib import Path

from tidings.model.bounds import FORECAST_ROWS_MAX
from tidings.model.errors import UsageError

LOOK_PERIOD = 1.0
"""Seconds between two looks at the file."""

NEEDED = ("advertisement", "interval", "forecast")


class ForecastFile:
    """`ForecastFile(Path("rates.csv"), 30.0)`."""

    def __init__(self, path: Path, seconds: float) -> None:
        self.path, self.seconds = path, seconds
        self.rates: dict[int, dict[str, float]] = {}
        self.read_at: tuple[float, ...] | None = None
        self.told: int | None = None
        """The interval that was told last."""

    def files(self) -> list[Path]:
        return sorted(self.path.glob("*.csv")) if self.path.is_dir() else [self.path]

    def has_changed(self) -> bool:
        try:
            changed_at = tuple(file.stat().st_mtime for file in self.files())
        except OSError:
            changed_at = ()
        if changed_at == self.read_at:
            return False
        self.read_at = changed_at
        return True

    def read(self) -> None:
        """UsageError that says what is wrong; then what was read before holds."""
        rates: dict[int, dict[str, float]] = {}
        count, files = 0, self.files()
        if not files:
            raise UsageError(f"forecast {self.path}: a folder without files *.csv; write the table there with a header")
        for file in files:
            try:
                with file.open(newline="", encoding="utf-8") as lines:
                    for row in csv.DictReader(lines):
                        count += 1
                        if count > FORECAST_ROWS_MAX:
                            raise UsageError(f"forecast {file}: more than {FORECAST_ROWS_MAX} rows; leave old ones out")
                        advertisement, interval, rate = (row[name] for name in NEEDED)
                        expected = float(rate)
                        if not (math.isfinite(expected) and expected >= 0):
                            raise UsageError(f"forecast {file}: row {count}: {rate} is no rate; give 0 or more")
                        rates.setdefault(int(interval), {})[advertisement] = expected
            except (KeyError, TypeError, ValueError) as problem:
                raise UsageError(
                    f"forecast {file}: row {count}: {problem}; it needs columns {', '.join(NEEDED)}, as "
                    "tidings.spark.forecast makes them"
                ) from None
            except OSError as problem:
                raise UsageError(f"forecast {file}: {problem.strerror}; check the name") from None
        self.rates, self.told = rates, None

    def due(self, now: float) -> tuple[tuple[str, float], ...] | None:
        """What is expected of the interval that has begun, once; `now` is Unix time."""
        interval = math.floor(now / self.seconds)
        if interval == self.told:
            return None
        self.told = interval
        return tuple(self.rates.get(interval, {}).items())
