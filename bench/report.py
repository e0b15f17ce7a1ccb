"""The figures as tables: on the terminal, and in the documentation with the machine named."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.measures import Figure
from bench.targets import Target

PACKAGES = ("numpy", "numba", "pyarrow", "pyroaring")

BROKERS_SECTION, READING_SECTION = "## Brokers", "## Reading into Spark"
METRICS_SECTION, SWEEPS_SECTION = "## Metrics of large traces", "## Sweeps of tiny runs"
SINK_SECTION = "## Publishing from Spark"
OTHERS = (BROKERS_SECTION, READING_SECTION, METRICS_SECTION, SWEEPS_SECTION, SINK_SECTION)
"""Sections of the page that other programs write."""

CAPTION = """\
All times are CPU time of the process, the median over chunks of several interleaved rounds. Use ratios inside one
table: absolute figures move with the load of the machine. Everybody is checked against brute force before being timed.

The index takes real `Event` values or Arrow record batches of 4,096 through its public API and answers with integer
keys (flat arrays for Arrow batches, lists of keys for lists of `Event`). The other matchers have it easier: the naive
loop takes dicts, the rest take rows of numbers that were encoded beforehand, and they answer with filter numbers.
*Numpy counting* is counting as published, every end of an interval being a predicate; *narrowed* is a faster form that
touches fewer.

Memory is the growth of resident memory in a process of its own; the `Filter` objects belong to the caller and are not
in it. Churn replaces 10 % of the filters, one minute's worth, between batches of 64 events; a pause is the longest
single call, or what a batch took beyond the median; slowdown is the time of a batch against that before the churn.
The workload is described in `bench/workload.py`."""


@dataclass(frozen=True)
class Grid:
    """A table as text: one row a contender, one column a setting."""

    title: str
    columns: list[str]
    rows: list[list[str]]


def machine() -> str:
    """Enough to judge the figures by; nothing that tells whose machine it is."""
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES if find_spec(name))
    return (
        f"{cpu_model()}, {os.cpu_count()} cores, {platform.system()}; Python {platform.python_version()}, {packages}; "
        f"{datetime.now(UTC):%d %B %Y}, load average {load}."
    )


def cpu_model() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def grids(figures: Mapping[str, Sequence[Figure]]) -> list[Grid]:
    """One table a section."""
    return [grid_of(section, part) for section, part in figures.items()]


def grid_of(title: str, figures: Sequence[Figure]) -> Grid:
    settings = dict.fromkeys(setting(figure) for figure in figures)
    values = {(row_of(figure), setting(figure)): figure.value for figure in figures}
    rows = [
        [row, *(shown(values.get((row, column))) for column in settings)]
        for row in dict.fromkeys(row_of(figure) for figure in figures)
    ]
    return Grid(title, list(settings), rows)


def row_of(figure: Figure) -> str:
    return f"{figure.who}, {figure.what}"


def setting(figure: Figure) -> str:
    variant = "" if figure.variant == "uniform" else f" {figure.variant}"
    size = f"{figure.filters // 1_000_000}M" if figure.filters >= 1_000_000 else f"{figure.filters // 1000}k"
    return f"{size} {figure.rate:.1%}{variant}"


def shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def target_grid(targets: Sequence[Target]) -> Grid:
    return Grid(
        "targets",
        ["target", "measured", "reached"],
        [[target.text, limit(target), measured(target), verdict(target)] for target in targets],
    )


def limit(target: Target) -> str:
    if target.limit is None:
        return "none set"
    return f"{'at least' if target.at_least else 'at most'} {target.limit:,g} {target.unit}"


def measured(target: Target) -> str:
    return "not measured" if target.measured is None else f"{shown(target.measured)} {target.unit}"


def verdict(target: Target) -> str:
    return {True: "yes", False: "NO", None: "-"}[target.reached]


def print_grid(console: Console, grid: Grid) -> None:
    table = Table(title=grid.title, title_justify="left")
    table.add_column("", no_wrap=True)
    for column in grid.columns:
        table.add_column(column, justify="right")
    for row in grid.rows:
        table.add_row(*row)
    console.print(table)


def markdown(grid: Grid) -> str:
    lines = [["", *grid.columns], ["---", *("---:" for _ in grid.columns)], *grid.rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def document(figures: Mapping[str, Sequence[Figure]], targets: Sequence[Target]) -> str:
    """The page of the documentation."""
    parts = ["# Benchmarks", "Written by `make bench`.", machine(), CAPTION]
    parts += ["## What was to be reached", markdown(target_grid(targets))]
    for grid in grids(figures):
        parts += [f"## {grid.title.capitalize()}", markdown(grid)]
    return "\n\n".join(parts) + "\n"


def section_of(page: str, heading: str) -> str:
    """A part of the page that another program wrote, up to the next of its kind; empty if there is none."""
    begin = page.find(f"\n{heading}\n")
    if begin < 0:
        return ""
    end = page.find("\n## ", begin + 1)
    return page[begin:] if end < 0 else page[begin:end]


def with_section(page: str, heading: str, text: str) -> str:
    """The page with this section, in place of the one it had or at its end."""
    before = section_of(page, heading)
    if not before:
        return page.rstrip("\n") + "\n\n" + text
    return page.replace(before, "\n" + text if page.endswith(before) else "\n" + text.rstrip("\n") + "\n")
