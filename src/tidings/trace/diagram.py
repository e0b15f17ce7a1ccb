"""A small run as a picture: nodes as vertical lines, messages as arrows, time downwards.

An arrow goes from where a message was sent to where it was received. A message that was lost ends half way in a cross,
one of which the records say nothing more ends in an open circle. Everything else that happened to a node is a mark on
its line. Whoever points at a mark is shown the whole record. The picture is plain SVG, and the same for the same
records.

There is a lane for each node, and rows for times. Time is not drawn to scale:
with one pause of a minute between bursts of milliseconds nothing would be legible. Rows keep the order of the records,
and the gap between two rows grows with the time between them, within bounds. Records of the same time share a row as
long as no node needs two marks in it.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import atan2, degrees, hypot
from statistics import median

import msgspec

from tidings.model.escapes import markup
from tidings.trace.record import Kind, Record
from tidings.trace.sequence import Arrow, about_text, pair, span_text, time_places, where_text

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


RECORDS_MAX = 1000
"""Records in one picture; of more, the first are drawn, and the picture says so."""

LABEL_CHARS_MAX, LABEL_CHAR_WIDTH = 30, 6.0

Point = tuple[float, float]

COLOURS = ("#2563a8", "#0f8a6a", "#b3541e", "#7a4fb5", "#a8357a", "#54707f", "#8a7a10", "#3a6f2f")
"""For types of messages, in the order in which they appear."""

RED, GREEN, BLUE, GREY, INK = "#c02a2a", "#1f8a3b", "#2563a8", "#8a929c", "#1d2733"

STYLE = f"""
text {{ font: 11px 'DejaVu Sans', Verdana, sans-serif; fill: {INK}; }}
.title {{ font-size: 14px; font-weight: bold; }}
.faint, .tick {{ fill: #6b7480; }}
.tick {{ text-anchor: end; font-size: 10px; }}
.name {{ text-anchor: middle; font-weight: bold; }}
.label {{ text-anchor: middle; font-size: 10px; paint-order: stroke; stroke: #fff; stroke-width: 3px; }}
.side {{ font-size: 10px; paint-order: stroke; stroke: #fff; stroke-width: 3px; }}
.lane {{ stroke: #b7bfc9; stroke-width: 1.5; }}
.row {{ stroke: #eef1f4; }}
""".strip()

SHAPES: dict[Kind, tuple[str, str, str]] = {
    "start": ("M-9,0H9", INK, "start"),
    "publish": ("M0,-6L6,0L0,6L-6,0Z", BLUE, "publish"),
    "deliver": ("M-5.5,-4.5H5.5L0,5.5Z", GREEN, "deliver"),
    "drop": ("M-4.5,-4.5L4.5,4.5M-4.5,4.5L4.5,-4.5", RED, "drop"),
    "timer": ("M-4,0A4,4 0 1 1 4,0A4,4 0 1 1 -4,0M0,-2.4V0H2", GREY, "timer"),
    "link": ("M-7,-2.5H7M-7,2.5H7", GREY, "link"),
    "note": ("M-4,-4H4V4H-4Z", "#b98a00", "note"),
    "fault": ("M1,-8L-5,1.5H-0.5L-1.5,8L5,-1.5H0.5Z", RED, "fault"),
    "stop": ("M-9,0H9M-9,4H9", INK, "stop"),
}
"""Of each kind of mark: its outline about the point, its colour, its name in the legend."""

FILLED = ("publish", "deliver", "note", "fault")
LABELLED = ("publish", "deliver", "drop", "note", "fault", "stop", "link")


def draw(records: Sequence[Record], whole: bool = True, title: str = "") -> str:
    """The picture of these records; `whole` says that there are no others."""
    whole = whole and len(records) <= RECORDS_MAX
    shown = records[:RECORDS_MAX]
    layout = lay_out(shown)
    places = time_places(record.time for record in shown)
    parts = [
        *opening(layout, title),
        *axis(layout, places),
        *lanes(layout),
        *arrows(shown, layout, whole),
        *marks(shown, layout),
        *legend(shown, layout, whole),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def opening(layout: Layout, title: str) -> Iterator[str]:
    width, height = f"{layout.width:g}", f"{layout.height:g}"
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">')
    yield f"<style>{STYLE}</style>"
    yield f'<rect width="{width}" height="{height}" fill="#fff"/>'
    if title:
        yield f'<text class="title" x="16" y="26">{markup(title)}</text>'


def axis(layout: Layout, places: int) -> Iterator[str]:
    right = max(layout.lanes.values(), default=80)
    yield f'<text class="tick" x="66" y="{TOP - 34}">seconds</text>'
    for time, y in layout.ticks:
        yield f'<path class="row" d="M74,{y:g}H{right:g}"/>'
        yield f'<text class="tick" x="66" y="{y + 3.5:g}">{time:.{places}f}</text>'


def lanes(layout: Layout) -> Iterator[str]:
    for name, x in layout.lanes.items():
        wide = max(36, 7.5 * len(shortened(name)) + 16)
        yield f'<path class="lane" d="M{x:g},{TOP - 30}V{layout.height - 48:g}"/>'
        yield (
            f'<rect x="{x - wide / 2:g}" y="{TOP - 52}" width="{wide:g}" height="24" rx="5" fill="#eef3fa" '
            f'stroke="#b7bfc9"/>'
        )
        yield f'<text class="name" x="{x:g}" y="{TOP - 36}">{markup(shortened(name))}</text>'


def arrows(records: Sequence[Record], layout: Layout, whole: bool) -> Iterator[str]:
    colours: dict[str | None, str] = {}
    labels: list[str] = []
    labelled: set[tuple[Point, str]] = set()
    for arrow in pair(records):
        record = records[first_place(arrow)]
        if record.node not in layout.lanes or record.peer not in layout.lanes:
            continue
        colour = colours.setdefault(record.message, COLOURS[len(colours) % len(COLOURS)])
        title = markup(arrow_title(records, arrow, whole))
        begin, end = arrow_ends(records, arrow, layout)
        yield f"<g><title>{title}</title>{arrow_line(arrow, begin, end, colour)}</g>"
        text = shortened(about_text(record))
        # What one node sends to many at a time is named once.
        if not arrow.is_duplicate and (begin, text) not in labelled:
            labelled.add((begin, text))
            labels.append(label(text, begin, end, colour))
        if arrow.drop is not None:
            labels.append(beside(records[arrow.drop].reason, *end))
    # After all lines, so that none is drawn across the letters.
    yield from labels


def arrow_ends(records: Sequence[Record], arrow: Arrow, layout: Layout) -> tuple[Point, Point]:
    place = first_place(arrow)
    own, other = layout.lanes[records[place].node], layout.lanes[records[place].peer or ""]
    y = layout.rows[place]
    if arrow.send is None:
        return (half_way(other, own), y - 6), (own, y)
    if arrow.receive is None:
        return (own, y), (half_way(own, other), y + 12)
    return (own, y), (other, layout.rows[arrow.receive])


def arrow_line(arrow: Arrow, begin: Point, end: Point, colour: str) -> str:
    is_whole = arrow.send is not None and arrow.receive is not None and not arrow.is_duplicate
    dashes = "" if is_whole else ' stroke-dasharray="5 3"'
    return (
        f'<path d="M{begin[0]:g},{begin[1]:g}{line_to(begin, end)}" fill="none" stroke-width="1.3" '
        f'stroke="{colour if arrow.drop is None else RED}"{dashes}/>{ending(arrow, begin, end, colour)}'
    )


def first_place(arrow: Arrow) -> int:
    """The record that begins the arrow: its send, or where that is not among the records, its receive."""
    place = arrow.send if arrow.send is not None else arrow.receive
    assert place is not None
    return place


def line_to(begin: Point, end: Point) -> str:
    if begin[0] != end[0]:
        return f"L{end[0]:g},{end[1]:g}"
    # A node that sends to itself: a loop beside its line.
    return f"C{begin[0] + 60:g},{begin[1]:g} {end[0] + 60:g},{end[1]:g} {end[0]:g},{end[1]:g}"


def half_way(begin: float, end: float) -> float:
    return begin + (end - begin) / 2 if begin != end else begin + 30


def turn(begin: Point, end: Point) -> float:
    """The angle of the line in degrees, clockwise from pointing right; a loop comes back pointing left."""
    return 180.0 if begin[0] == end[0] else degrees(atan2(end[1] - begin[1], end[0] - begin[0]))


def ending(arrow: Arrow, begin: Point, end: Point, colour: str) -> str:
    place = f'transform="translate({end[0]:g},{end[1]:g}) rotate({turn(begin, end):.1f})"'
    if arrow.receive is not None:
        return f'<path d="M0,0L-8,-3.5V3.5Z" {place} fill="{colour}"/>'
    if arrow.drop is not None:
        return f'<path d="M-5,-5L5,5M-5,5L5,-5" {place} stroke="{RED}" stroke-width="2"/>'
    return f'<circle r="3.5" {place} fill="#fff" stroke="{colour}"/>'


def label(text: str, begin: Point, end: Point, colour: str) -> str:
    """Above the line and along it, close to the sender: half way it would meet those of messages that cross."""
    angle = turn(begin, end) if begin[0] != end[0] else 0.0
    upright = angle - 180 if angle > 90 else angle + 180 if angle < -90 else angle
    length = hypot(end[0] - begin[0], end[1] - begin[1])
    part = min(0.5, (LABEL_CHAR_WIDTH * len(text) / 2 + 16) / max(length, 1.0))
    x, y = begin[0] + part * (end[0] - begin[0]), begin[1] + part * (end[1] - begin[1])
    return (
        f'<text class="label" transform="translate({x:.1f},{y:.1f}) rotate({upright:.1f})" y="-4" '
        f'style="fill:{colour}">{markup(text)}</text>'
    )


def arrow_title(records: Sequence[Record], arrow: Arrow, whole: bool) -> str:
    record = records[first_place(arrow)]
    text = f"{record.time:g} s: {where_text(record)} {about_text(record)}"
    if arrow.send is None:
        return text
    if arrow.receive is not None:
        again = "again " if arrow.is_duplicate else ""
        return f"{text}, received {again}after {span_text(records[arrow.receive].time - record.time)}"
    if arrow.drop is not None:
        return f"{text}, lost: {records[arrow.drop].reason}"
    return f"{text}, not received" if whole else text


def marks(records: Sequence[Record], layout: Layout) -> Iterator[str]:
    for record, y in zip(records, layout.rows, strict=True):
        is_loss = record.kind == "drop" and record.peer is not None
        if record.kind not in SHAPES or record.node not in layout.lanes or is_loss:
            continue
        x = layout.lanes[record.node]
        title = markup(f"{record.time:g} s: {where_text(record)} {record.kind} {about_text(record)}")
        yield f"<g><title>{title}</title>{mark(record.kind, x, y)}{side_text(record, x, y)}</g>"


def mark(kind: Kind, x: float, y: float) -> str:
    outline, colour, _ = SHAPES[kind]
    fill = colour if kind in FILLED else "#fff"
    return (
        f'<path d="{outline}" transform="translate({x:g},{y:g})" fill="{fill}" stroke="{colour}" stroke-width="1.5"/>'
    )


def side_text(record: Record, x: float, y: float) -> str:
    if record.kind not in LABELLED:
        return ""
    if record.kind == "link":
        return beside(f"{record.message} {record.peer}", x, y)
    return beside(record.reason if record.kind == "drop" else about_text(record), x, y)


def beside(text: str | None, x: float, y: float) -> str:
    return f'<text class="side" x="{x + 11:g}" y="{y + 3.5:g}">{markup(shortened(text or ""))}</text>'


def legend(records: Sequence[Record], layout: Layout, whole: bool) -> Iterator[str]:
    """What the marks mean that occur, and what is missing from the picture."""
    y, x = layout.height - 22, 24.0
    for kind, (_, _, name) in SHAPES.items():
        if any(record.kind == kind for record in records):
            yield mark(kind, x, y - 4) + f'<text class="faint" x="{x + 13:g}" y="{y:g}">{name}</text>'
            x += 26 + 7 * len(name)
    missing = []
    if not whole:
        missing.append(f"the first {len(records)} records; there are more")
    if layout.nodes_left_out:
        missing.append(f"{layout.nodes_left_out} more nodes are not shown")
    if missing:
        yield f'<text class="faint" x="16" y="{layout.height - 4:g}">{"; ".join(missing)}</text>'


def shortened(text: str) -> str:
    return text if len(text) <= LABEL_CHARS_MAX else f"{text[: LABEL_CHARS_MAX - 3]}..."
