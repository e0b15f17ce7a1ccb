"""Positions in the history of a network, and how much of it a batch may read.

The idea. A broker numbers nothing: each publisher numbers its own publications, and its broker stores them. So a
position in the history of the whole network is one number for each publisher, "read behind this", and a time for
publishers that nobody knew yet:

    {"since": 1794797198.9, "after": {"desk": 4711, "floor": 22}}

Publishers that are named are read behind their number, all others since that time (0 for all that is stored). What
lies between two positions never changes, except that the oldest of it is forgotten; that is what makes a batch
repeatable.

Where a stream begins. Spark keeps the position at which each batch ended, but not the one at which the first began: it
asks again for that, also when it restarts a query whose first batch was not finished. "latest" would then be another
position, and what lay between would be lost. So the position at which the first batch ended also says where it began:
in "begun", or with "is_first" that it ended where it began, since there was no news. That is believed rather than what
is asked for anew:

    {"since": 1794797198.9, "after": {"desk": 4713, "floor": 22}, "begun": {"desk": 4711, "floor": 22}}

Numbers have holes: of a filter, and of clients that came again under the same name and begin far above what they had
used. So a difference of numbers bounds the events from above, and may be far above; whoever divides the work asks first
where the events begin (`pieces.py`).

Everything here is a pure function; time and brokers come in as values.

How far a query is behind its publishers (`lag`). Spark reports, with the progress of each micro-batch, where the batch
ended and how far brokers had come when we last asked (`sources[...].endOffset` and `latestOffset`; also in listeners
and in Spark's UI). Python sources cannot add numbers of their own to that, so the difference is taken here.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import msgspec

from tidings.model.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
ALL_STORED = 0.0
"""As a time: everything that is stored."""

HOW_TO_START = 'write "earliest", "latest", a time such as 2026-11-15T09:30:00Z, seconds since 1970, or an offset'


class OffsetMark(Protocol):
    """How far a publisher has come, and up to where its broker has forgotten."""

    @property
    def publisher(self) -> str: ...
    @property
    def forgotten(self) -> int: ...
    @property
    def through(self) -> int: ...


class DataLoss(UsageError):
    """Something was forgotten before it was read."""


class Offset(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    since: float = ALL_STORED
    after: dict[str, int] = {}
    begun: dict[str, int] | None = None
    """Where the batch that ends here began, if it was the first."""
    is_first: bool = False
    """Where a stream begins: nothing was read yet."""

    def json(self) -> dict[str, Any]:
        """As Spark keeps it. Spark compares texts, so names stand in one order."""
        made: dict[str, Any] = {"since": self.since, "after": dict(sorted(self.after.items()))}
        if self.begun is not None:
            made["begun"] = dict(sorted(self.begun.items()))
        if self.is_first:
            made["is_first"] = True
        return made


def read_offset(given: Mapping[str, Any]) -> Offset:
    try:
        return msgspec.convert(given, Offset)
    except msgspec.ValidationError as problem:
        raise UsageError(
            f"{given!r:.200} is no offset of the format tidings ({problem}); does the checkpoint belong to another "
            "query?"
        ) from None


class Start(msgspec.Struct, frozen=True):
    """What `startingOffsets` or `endingOffsets` says."""

    kind: Literal["earliest", "latest", "time", "offset"]
    time: float = 0.0
    offset: Offset | None = None


def read_start(option: str, text: str) -> Start:
    text = text.strip()
    if text.lower() in (EARLIEST, LATEST):
        return Start(EARLIEST if text.lower() == EARLIEST else LATEST)
    if text.startswith("{"):
        try:
            offset = msgspec.json.decode(text, type=Offset)
        except (msgspec.DecodeError, msgspec.ValidationError) as problem:
            raise UsageError(
                f'option {option}: no offset ({problem}); write {{"since": 0, "after": {{"publisher": 17}}}}'
            ) from None
        return Start("offset", offset=Offset(offset.since, offset.after))
    return Start("time", time=read_time(option, text))


def read_time(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"option {option}: {text!r:.80} is not understood; {HOW_TO_START}") from None
    return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()


def first_offset(start: Start, marks: Iterable[OffsetMark], now: float) -> Offset:
    """Where a read begins."""
    match start.kind:
        case "earliest":
            return Offset(ALL_STORED, is_first=True)
        case "latest":
            return Offset(now, {mark.publisher: mark.through for mark in marks}, is_first=True)
        case "time":
            return Offset(start.time, is_first=True)
    assert start.offset is not None
    return Offset(start.offset.since, start.offset.after, is_first=True)


def last_numbers(start: Offset, marks: Iterable[OffsetMark]) -> dict[str, int]:
    """How far one can read now. Nobody goes back: a publisher whose broker cannot be asked stays where it was."""
    numbers = dict(start.after)
    for mark in marks:
        is_news = mark.publisher in numbers or mark.through > mark.forgotten
        if is_news and mark.through > numbers.get(mark.publisher, 0):
            numbers[mark.publisher] = mark.through
    return numbers


def advance(start: Offset, numbers: Mapping[str, int]) -> Offset:
    """The position at which a batch ends that begins at `start` and reads up to these numbers."""
    if numbers == start.after:
        return start
    return Offset(start.since, dict(numbers), start.after if start.is_first else None)


class Range(msgspec.Struct, frozen=True):
    """Publications of one publisher: behind `after`, or since `since` where that is None, through `through`."""

    publisher: str
    after: int | None
    since: float
    through: int

    @property
    def width(self) -> int:
        """How many publications there can be; many more than there are where it is not known where they begin."""
        return self.through - (self.after or 0)

    @property
    def is_open(self) -> bool:
        """Whether it begins with whatever is stored, so that nothing is missing in front."""
        return self.after is None and self.since == ALL_STORED


def ranges_between(start: Offset, end: Offset) -> list[Range]:
    """What lies between two positions, in the order of publishers. Nothing lies before where a stream begins, wherever
    that is said to be now."""
    if end.is_first:
        return []
    begun = start.after if end.begun is None else end.begun
    ranges = []
    for publisher, through in sorted(end.after.items()):
        after = begun.get(publisher)
        if through > (after or 0):
            ranges.append(Range(publisher, after, end.since, through))
    return ranges


def share(total: int, wanted: Mapping[str, int]) -> dict[str, int]:
    """Divide `total` fairly: who wants little gets it, the others equally much of the rest. Where there is not one for
    each, those who want most get one, so that nobody waits for ever."""
    if total < len(wanted):
        by_need = sorted(wanted, key=lambda publisher: (-wanted[publisher], publisher))
        return dict.fromkeys(by_need[:total], 1)
    shares: dict[str, int] = {}
    by_want = sorted(wanted.items(), key=lambda item: (item[1], item[0]))
    for place, (publisher, want) in enumerate(by_want):
        shares[publisher] = min(want, -(-total // (len(by_want) - place)))
        total -= shares[publisher]
    return shares


def cut(ranges: list[Range], pieces: int, least: int) -> list[list[Range]]:
    """Lay the ranges end to end and cut the line into at most so many pieces of equal length, each of at least `least`
    numbers, if there are as many. The result depends on nothing but the arguments. Ranges that have no `after` are left
    whole."""
    total = sum(it.width for it in ranges)
    pieces = max(1, min(pieces, total // least))
    ends = [total * (place + 1) // pieces for place in range(pieces)]
    made: list[list[Range]] = [[] for _ in ends]
    place = passed = 0
    for rest in ranges:
        while rest.after is not None and passed + rest.width > ends[place]:
            at = rest.after + ends[place] - passed
            if at > rest.after:
                made[place].append(msgspec.structs.replace(rest, through=at))
            rest, passed, place = msgspec.structs.replace(rest, after=at), ends[place], place + 1
        made[place].append(rest)
        passed += rest.width
        while place < pieces - 1 and passed >= ends[place]:
            place += 1
    return [piece for piece in made if piece]


def doubtful(start: Offset, marks: Iterable[OffsetMark]) -> list[Range]:
    """What may have been forgotten before it was read. A mark says so too early where the publisher has moved and its
    earlier broker is out of reach for a while; whoever asks for these is told the truth."""
    return [
        Range(mark.publisher, start.after[mark.publisher], start.since, mark.through)
        for mark in marks
        if mark.publisher in start.after and mark.forgotten > start.after[mark.publisher]
    ]


def loss(publisher: str) -> DataLoss:
    return DataLoss(
        f"publications of {publisher} were forgotten by its broker before they were read: let brokers store more "
        "(delivery.history_age, history_count_max, history_bytes_max), run the query more often, or set "
        "failOnDataLoss to false and go on without them"
    )


def lag(query: "StreamingQuery") -> dict[str, int]:
    """For each publisher, how many of its numbers were not read yet when the query last reported; 0 for none. Numbers
    have holes, so that there may be fewer events. Empty before the first report."""
    progress = query.lastProgress
    behind: dict[str, int] = {}
    for source in progress["sources"] if progress is not None else ():
        end, latest = position(source["endOffset"]), position(source["latestOffset"])
        if latest is None:
            continue
        read = end.after if end is not None else {}
        for publisher, through in sorted(latest.after.items()):
            behind[publisher] = max(0, through - read.get(publisher, 0))
    return behind


def position(reported: Any) -> Offset | None:
    """None for what a source of another format reports."""
    try:
        if isinstance(reported, str):
            return msgspec.json.decode(reported, type=Offset)
        return msgspec.convert(reported, Offset)
    except (msgspec.ValidationError, msgspec.DecodeError):
        return None
