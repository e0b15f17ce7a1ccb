"""Files that `tidings plan` reads: trees as TOML, traffic as CSV, evaluators of one's own as Python.

A tree is a list of links; brokers are named only where one has no link, or to have unknown names refused:

    links = [["b1", "b2"], ["b2", "b3"]]
    brokers = ["b1", "b2", "b3"]

Traffic is a table with a header and a line for each pair of brokers. Rates are events a second from a to b, latencies
seconds between them, and either column may be empty or missing:

    a,b,rate,latency
    b1,b3,120,0.030

An evaluator is `path/to/file.py:function`, from today's tree, the traffic and the wish to a better tree
(`planning/evaluators.py`).
"""

import csv
import importlib.util
import tomllib
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec

from tidings.model.errors import UsageError
from tidings.planning.evaluators import EVALUATORS, Evaluator
from tidings.planning.traffic import Traffic, TrafficRow, traffic_of
from tidings.planning.tree import OverlayTree, link, tree_of

FILE_BYTES_MAX = 8 * 1024 * 1024


class TreeFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    links: list[tuple[str, str]] = []
    brokers: list[str] = []


def read_tree(path: Path, option: str) -> OverlayTree:
    try:
        found = msgspec.convert(tomllib.loads(read_text(path, option)), TreeFile)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as problem:
        raise UsageError(f'{option} {path}: {problem}; write it as links = [["b1", "b2"], ["b2", "b3"]]') from None
    try:
        if found.brokers:
            return OverlayTree(tuple(sorted(found.brokers)), tuple(sorted(link(a, b) for a, b in found.links)))
        return tree_of(found.links)
    except UsageError as problem:
        raise UsageError(f"{option} {path}: {problem}") from None


def read_traffic(path: Path, option: str) -> Traffic:
    lines = csv.DictReader(StringIO(read_text(path, option)))
    if not {"a", "b"} <= set(lines.fieldnames or ()):
        raise UsageError(f"{option} {path}: the first line names the columns; they are a,b,rate,latency")
    rows = []
    for place, line in enumerate(lines, 2):
        try:
            rows.append(TrafficRow(line["a"].strip(), line["b"].strip(), number(line, "rate"), number(line, "latency")))
        except (ValueError, AttributeError):
            raise UsageError(f"{option} {path}, line {place}: write it as b1,b3,120,0.030") from None
    try:
        return traffic_of(rows)
    except UsageError as problem:
        raise UsageError(f"{option} {path}: {problem}") from None


def number(line: dict[str, str], column: str) -> float | None:
    text = line.get(column)
    return float(text) if text and text.strip() else None


def read_text(path: Path, option: str) -> str:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise UsageError(
                f"{option} {path}: it has more than {FILE_BYTES_MAX // 1024**2} MiB; give the part that changes"
            )
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise UsageError(f"{option} {path}: it cannot be read: {problem}") from None


def read_evaluator(name: str, option: str) -> Evaluator:
    """One of ours by its name, or a function of a file."""
    if name in EVALUATORS:
        return EVALUATORS[name]
    path, _, function = name.rpartition(":")
    if not path.endswith(".py"):
        raise UsageError(f"{option} {name}: choose from latency, degree, load, or give path/to/file.py:function")
    if not Path(path).is_file():
        raise UsageError(f"{option} {name}: there is no file {path}; write it as path/to/file.py:function")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None, f"{path} is no Python file"
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Evaluator | None = getattr(module, function, None)
    if not callable(found):
        raise UsageError(f"{option} {name}: {path} has no function {function!r}")
    return found
