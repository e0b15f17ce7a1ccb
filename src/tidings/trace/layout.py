"""Where things stand in the picture of a run: a lane for each node, rows for times, downwards.

Time is not drawn to scale: with one pause of a minute between bursts of milliseconds nothing would be legible. Rows
keep the order of the records, and the gap between two rows grows with the time between them, within bounds. Records of
the same time share a row as long as no node needs two marks in it.
"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

import msgspec

from tidings.trace.record import Record

NODES_MAX = 24
"""Lanes of a picture; nodes that come later are left out."""

LEFT, TOP, BOTTOM, RIGHT = 96, 96, 72, 190
LANE_GAP_MIN, LANE_GAP_MAX, PICTURE_WIDTH = 150, 260, 1000
ROW_GAP_MIN, ROW_GAP_USUAL, ROW_GAP_MAX = 20, 30, 64

ARROW_KINDS = ("send", "receive")


class Layout(msgspec.Struct):
    """Places in pixels."""

    lanes: dict[str, float]
    """x of each node."""
    rows: list[float]
    """y of each record."""
    ticks: list[tuple[float, float]]
    """Time and y of each row in which a time begins."""
    width: float
    height: float
    nodes_left_out: int


def lay_out(records: Sequence[Record]) -> Layout:
    names = node_names(records)
    shown = names[:NODES_MAX]
    gap = min(LANE_GAP_MAX, max(LANE_GAP_MIN, PICTURE_WIDTH / max(1, len(shown))))
    lanes = {name: LEFT + gap / 2 + gap * number for number, name in enumerate(shown)}
    rows, ticks = row_places(records)
    return Layout(
        lanes=lanes,
        rows=rows,
        ticks=ticks,
        width=LEFT + gap * max(1, len(shown)) - gap / 2 + RIGHT,
        height=(rows[-1] if rows else TOP) + BOTTOM,
        nodes_left_out=len(names) - len(shown),
    )


def node_names(records: Sequence[Record]) -> list[str]:
    """Sorted, so that the same network has the same lanes whoever speaks first; the world itself has no lane."""
    names = {record.node for record in records} | {record.peer for record in records if record.peer is not None}
    return sorted(names - {""}, key=natural_order)


def natural_order(name: str) -> tuple[int, str]:
    """n2 before n10: shorter names first."""
    return len(name), name


def row_places(records: Sequence[Record]) -> tuple[list[float], list[tuple[float, float]]]:
    times = [record.time for record in records]
    gaps = [after - before for before, after in pairwise(times) if after > before]
    scale = ROW_GAP_USUAL / median(gaps) if gaps else 1.0
    rows: list[float] = []
    ticks: list[tuple[float, float]] = []
    y, marked = float(TOP), set[str]()
    for record in records:
        if not ticks or record.time != ticks[-1][0]:
            if ticks:
                y += min(ROW_GAP_MAX, max(ROW_GAP_MIN, (record.time - ticks[-1][0]) * scale))
            ticks.append((record.time, y))
            marked.clear()
        elif record.node in marked and record.kind not in ARROW_KINDS:
            y += ROW_GAP_MIN
            marked.clear()
        if record.kind not in ARROW_KINDS:
            marked.add(record.node)
        rows.append(round(y, 1))
    return rows, ticks
