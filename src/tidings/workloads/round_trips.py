"""Measured round trips between many hosts, as matrices in seconds.

Two sets are read (Zhu and others, IEEE/ACM ToN 25(2), 2017; MIT licence): PlanetLab, 490 servers, in milliseconds, and
Seattle, 99 personal devices, in seconds. Both are tables of numbers; a file may be gzip'ed or a member of a tar file.
What is not measured there (an entry of 0 off the diagonal, or one below it) counts as unknown: the entry of the
other direction is taken, and where that is unknown too, the median of the matrix. So a matrix here is complete.
"""

import gzip
import math
import tarfile
from pathlib import Path
from statistics import median

import msgspec

from tidings.model.errors import UsageError
from tidings.workloads.data import require_folder

HOSTS_MAX = 2_000
SEATTLE = "seattle-16-of-688-slices.tar.gz"

Rows = tuple[tuple[float, ...], ...]


class LatencyMatrix(msgspec.Struct, frozen=True):
    """`rows[i][j]` seconds from host i to host j and back; zero on the diagonal, above zero elsewhere."""

    name: str
    rows: Rows


def planetlab_matrix(slice: int = 1) -> LatencyMatrix:
    """One of the time slices 1, 6, 12 and 18."""
    path = require_folder("the PlanetLab matrix") / "latency" / f"PlanetLabData_{slice}.tsv.gz"
    if not path.is_file():
        raise UsageError(f"slice: there is no {path.name}; give 1, 6, 12 or 18")
    return read_matrix(gzip.decompress(path.read_bytes()).decode(), f"planetlab-{slice}", 1e-3)


def seattle_matrix(slice: int = 1) -> LatencyMatrix:
    """One of the 16 time slices that are kept: 1, 44, 87, 130, ... 646."""
    path = require_folder("the Seattle matrix") / "latency" / SEATTLE
    with tarfile.open(path) as archive:
        for member in archive:
            if Path(member.name).name == f"SeattleData_{slice}" and (file := archive.extractfile(member)) is not None:
                return read_matrix(file.read().decode(), f"seattle-{slice}", 1.0)
    raise UsageError(f"slice: there is no SeattleData_{slice}; give 1, 44, 87 and so on, every 43rd up to 646")


def read_matrix(text: str, name: str, unit_seconds: float) -> LatencyMatrix:
    """Rows of numbers apart by white space; as many rows as columns."""
    rows = []
    for place, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                rows.append([float(entry) * unit_seconds for entry in line.split()])
            except ValueError:
                raise UsageError(f"{name}, line {place}: an entry is no number") from None
    if len(rows) > HOSTS_MAX or any(len(row) != len(rows) for row in rows):
        raise UsageError(f"{name}: {len(rows)} rows; a matrix has as many columns, and at most {HOSTS_MAX}")
    return LatencyMatrix(name, complete(rows))


def complete(rows: list[list[float]]) -> Rows:
    known = [entry for i, row in enumerate(rows) for j, entry in enumerate(row) if i != j and is_known(entry)]
    middle = median(known) if known else 0.0

    def entry(i: int, j: int) -> float:
        if i == j:
            return 0.0
        if is_known(rows[i][j]):
            return rows[i][j]
        return rows[j][i] if is_known(rows[j][i]) else middle

    return tuple(tuple(entry(i, j) for j in range(len(rows))) for i in range(len(rows)))


def is_known(entry: float) -> bool:
    return math.isfinite(entry) and entry > 0
