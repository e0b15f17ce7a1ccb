"""A small run as text: one line for each record, in columns that line up.

     time  where   what     about
    0.100  a -> b  send     Ping(round=3)  received after 50 ms
    0.150  b <- a  receive  Ping(round=3)
    0.200  a -> b  send     Ping(round=4)  lost: noise
    0.300  a       timer    ping/round

Times are shown in seconds, with as many places as tell them apart. A send says what became of its message, if that is
known: a reader that has left records out (`whole` is false) does not claim that a message never arrived.

Which receive belongs to which send? A trace tells that a sent something and that b received something; an arrow between
the two is a conclusion. A receive is paired with the oldest send of the same message (same sender, receiver, type, key
and fields) that is still open, a loss with the latest one, because a world that loses a message does so when it is
sent. A receive that finds no open send repeats the last one that was paired: the message was duplicated. A send that
stays open was under way when the records end.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from tidings.model.escapes import printable
from tidings.trace.record import Record

Identity = tuple[str, str, str | None, str | None, str | None]


class Arrow(msgspec.Struct):
    """A message on its way: the places, in the list of records, of its send and of what became of it."""

    send: int | None
    """None if it was sent before the first record."""
    receive: int | None = None
    drop: int | None = None
    is_duplicate: bool = False


def pair(records: Sequence[Record]) -> list[Arrow]:
    """One arrow for each message, in the order of the records that begin them."""
    arrows: list[Arrow] = []
    open_arrows: defaultdict[Identity, deque[Arrow]] = defaultdict(deque)
    latest: dict[Identity, Arrow] = {}
    for place, record in enumerate(records):
        if record.peer is None or record.kind not in ("send", "receive", "drop"):
            continue
        ends = (record.peer, record.node) if record.kind == "receive" else (record.node, record.peer)
        identity = (*ends, record.message, record.key, record.detail)
        waiting = open_arrows[identity]
        if record.kind == "send":
            arrows.append(Arrow(place))
            waiting.append(arrows[-1])
        elif record.kind == "receive":
            arrow = waiting.popleft() if waiting else repeated(latest.get(identity), arrows)
            arrow.receive = place
            latest[identity] = arrow
        elif waiting:
            waiting.pop().drop = place
    return arrows


def repeated(original: Arrow | None, arrows: list[Arrow]) -> Arrow:
    arrows.append(Arrow(None) if original is None else Arrow(original.send, is_duplicate=True))
    return arrows[-1]


ABOUT_CHARS_MAX = 100
"""A longer text about one record is cut."""

TIME_PLACES_MIN, TIME_PLACES_MAX = 3, 9

SIGNS = {"send": "->", "receive": "<-", "drop": "-x", "link": "--"}


def sequence_lines(records: Sequence[Record], whole: bool = True) -> list[str]:
    """The records as lines; `whole` says that there are no others."""
    places = time_places(record.time for record in records)
    fates = fate_texts(records, whole)
    lines = [("time", "where", "what", "about")]
    for place, record in enumerate(records):
        about = together(about_text(record), fates.get(place))
        lines.append((f"{record.time:.{places}f}", where_text(record), record.kind, about))
    time_width, where_width, what_width = (max(len(line[column]) for line in lines) for column in range(3))
    return [
        f"{time:>{time_width}}  {where:<{where_width}}  {what:<{what_width}}  {about}".rstrip()
        for time, where, what, about in lines
    ]


def time_places(times: Iterable[float]) -> int:
    """Decimal places that keep different times different, within bounds."""
    different = sorted({round(time, TIME_PLACES_MAX) for time in times})
    gap = min((after - before for before, after in pairwise(different)), default=1.0)
    return next((n for n in range(TIME_PLACES_MIN, TIME_PLACES_MAX) if gap >= 0.9 * 10.0**-n), TIME_PLACES_MAX)


def where_text(record: Record) -> str:
    node = printable(record.node)
    return node if record.peer is None else f"{node} {SIGNS.get(record.kind, '..')} {printable(record.peer)}"


def about_text(record: Record) -> str:
    """`Ping(round=3)`: the type with its fields, or with the key if there are none; then the reason."""
    fields = ", ".join(field_texts(record.detail))
    if record.message is None:
        text = together(record.key, fields)
    elif fields:
        text = f"{record.message}({fields})"
    else:
        text = record.message if record.key is None else f"{record.message} {record.key}"
    text = printable(together(text, record.reason))
    return text if len(text) <= ABOUT_CHARS_MAX else f"{text[: ABOUT_CHARS_MAX - 3]}..."


def field_texts(detail: str | None) -> list[str]:
    if detail is None:
        return []
    try:
        fields = msgspec.json.decode(detail)
    except msgspec.DecodeError:
        return [detail]
    if not isinstance(fields, dict):
        return [value_text(fields)]
    return [f"{name}={value_text(value)}" for name, value in fields.items()]


def value_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def fate_texts(records: Sequence[Record], whole: bool) -> dict[int, str]:
    """By the place of a send or a receive: what became of the message, or what is special about it."""
    texts: dict[int, str] = {}
    for arrow in pair(records):
        if arrow.receive is not None and arrow.send is None:
            texts[arrow.receive] = "sent before" if not whole else "no send recorded"
        elif arrow.receive is not None and arrow.is_duplicate:
            texts[arrow.receive] = "once more"
        elif arrow.send is not None:
            texts[arrow.send] = send_fate(records, arrow, whole)
    return texts


def send_fate(records: Sequence[Record], arrow: Arrow, whole: bool) -> str:
    sent_at = records[arrow.send or 0].time
    if arrow.receive is not None:
        return f"received after {span_text(records[arrow.receive].time - sent_at)}"
    if arrow.drop is not None:
        return f"lost: {printable(records[arrow.drop].reason or '')}"
    return "not received" if whole else ""


def span_text(seconds: float) -> str:
    """A span of time in the unit that suits it, with three digits that count."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if abs(seconds) >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def together(*texts: str | None) -> str:
    return "  ".join(text for text in texts if text)
