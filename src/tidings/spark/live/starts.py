"""Where a read begins and ends: what `startingOffsets` and `endingOffsets` say.

    earliest                                       all that brokers still store
    latest                                         nothing that is there now
    2026-11-15T09:30:00Z, or seconds since 1970    what was accepted from then on
    {"desk": 17, "floor": "earliest"}              by publisher: behind a number; -2 and "earliest", -1 and "latest"
    {"since": 0, "after": {"desk": 17}}            an offset of a stream, as its checkpoint and its progress show it

A publisher is named with its life (`desk~k3v9`), or without it, which means all its lives. Publishers that are not
named are read from the beginning, or in an offset since its time. A named one of which no broker knows, or that has not
come as far as its number, is an error unless `failOnDataLoss` is "false": nobody can say that it has not published
more, and what it will publish up to there would be passed over.

What cannot be meant is refused: a time in milliseconds (nothing would ever be read), a batch read of "latest" or one
that ends before it begins (nothing is there).
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from tidings.model.errors import UsageError
from tidings.model.identity import name_of
from tidings.spark.live.offsets import ALL_STORED, DataLoss, Offset, OffsetMark

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
WORDS = {-2: EARLIEST, -1: LATEST}
"""As other sources call them."""

SECONDS_MAX = 1e11
"""Of a time, in the year 5138. Milliseconds since 1970 are above since 1973."""

HOW_TO_START = (
    'write "earliest", "latest", a time such as 2026-11-15T09:30:00Z, seconds since 1970, {"publisher": 17}, or an '
    "offset"
)


class Start(msgspec.Struct, frozen=True):
    kind: Literal["earliest", "latest", "time", "offset", "publishers"]
    time: float = 0.0
    offset: Offset | None = None
    numbers: dict[str, int | str] = {}
    """By publisher: a number, "earliest" or "latest"."""


def read_start(option: str, text: str) -> Start:
    text = text.strip()
    if text.lower() in (EARLIEST, LATEST):
        return Start(EARLIEST if text.lower() == EARLIEST else LATEST)
    if text.startswith("{"):
        return read_json(option, text)
    return Start("time", time=read_time(option, text))


def read_json(option: str, text: str) -> Start:
    try:
        said = msgspec.json.decode(text, type=dict[str, int | str | float | dict[str, int] | list[str] | bool])
        if not said.keys() & {"after", "since"}:
            numbers = {name: WORDS.get(it, it) if type(it) is int else it for name, it in said.items()}
            return Start("publishers", numbers={name: check_number(it) for name, it in numbers.items()})
        offset = msgspec.convert(said, Offset)
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError) as problem:
        raise UsageError(f"option {option}: no offset ({problem}); {HOW_TO_START}") from None
    return Start("offset", offset=Offset(offset.since, offset.after, seen=offset.seen, behind=offset.behind))


def check_number(said: object) -> int | str:
    if (type(said) is int and said >= 0) or said in (EARLIEST, LATEST):
        assert isinstance(said, int | str)
        return said
    raise ValueError(f"{said!r:.40} is no number of an event")


def read_time(option: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        try:
            instant = datetime.fromisoformat(text)
        except ValueError:
            raise UsageError(f"option {option}: {text!r:.80} is not understood; {HOW_TO_START}") from None
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()
    if not 0 <= seconds < SECONDS_MAX:
        raise UsageError(
            f"option {option}: {text:.40} is no time in seconds since 1970; of milliseconds take the thousandth, or "
            + HOW_TO_START
        )
    return seconds


def first_offset(start: Start, marks: Iterable[OffsetMark], now: float) -> Offset:
    """Where a stream begins, for good: "earliest" is a number of each publisher, too, so that what brokers forget while
    the first batch is read, or before it is read again, is missed."""
    match start.kind:
        case "earliest":
            return beginning(ALL_STORED, {mark.publisher: mark.forgotten for mark in marks}, marks, now)
        case "latest":
            return beginning(now, {mark.publisher: mark.through for mark in marks}, marks, now)
        case "time":
            return Offset(start.time, is_first=True, seen=now)
        case "publishers":
            return beginning(ALL_STORED, named_numbers(start.numbers, marks), marks, now)
    assert start.offset is not None
    given = start.offset
    return Offset(given.since, given.after, is_first=True, seen=given.seen, behind=given.behind)


def check_span(start: Start | None, end: Start | None) -> None:
    """Of a batch read: is there anything between these?"""
    if start is not None and start.kind == LATEST:
        raise UsageError(
            'option startingOffsets: a batch read that begins at "latest" has nothing to read; leave the option out to '
            "read all that is stored, give a time, or read a stream"
        )
    if end is None:
        return
    if end.kind == EARLIEST:
        raise UsageError('option endingOffsets: nothing lies before "earliest"; give "latest", a time or an offset')
    if start is not None and start.kind == end.kind == "time" and end.time <= start.time:
        raise UsageError(
            f"option endingOffsets: it is {start.time - end.time:g} s before startingOffsets, so there is nothing to "
            "read; exchange them"
        )
    before = given_numbers(start)
    for publisher, number in given_numbers(end).items():
        if number < before.get(publisher, 0):
            raise UsageError(
                f"option endingOffsets: {publisher} ends at {number} and begins at {before[publisher]}, so there is "
                "nothing to read; exchange them"
            )


def given_numbers(said: Start | None) -> dict[str, int]:
    if said is None:
        return {}
    if said.offset is not None:
        return said.offset.after
    return {name: number for name, number in said.numbers.items() if isinstance(number, int)}


def check_come(start: Start | None, marks: Iterable[OffsetMark], fails: bool) -> None:
    """Has each that is named come as far as its number? DataLoss if not, since what it publishes up to there would be
    passed over."""
    if start is None or start.kind != "publishers" or not fails:
        return
    come: dict[str, int] = {}
    for mark in marks:
        for name in (mark.publisher, name_of(mark.publisher)):
            come[name] = max(mark.through, come.get(name, 0))
    for name, number in given_numbers(start).items():
        if number > come.get(name, number):
            raise DataLoss(
                f"option startingOffsets: {name} has come to {come[name]}, not to {number}, and what it publishes up "
                "to there would be passed over; give a number that is there, or set failOnDataLoss to false"
            )


def beginning(since: float, after: dict[str, int], marks: Iterable[OffsetMark], now: float) -> Offset:
    through = {mark.publisher: mark.through for mark in marks}
    # Of whom nobody knows anything, nobody can say that it has not come further.
    behind = sorted(name for name, number in after.items() if name not in through or through[name] > number)
    return Offset(since, after, is_first=True, seen=now, behind=behind)


def named_numbers(said: dict[str, int | str], marks: Iterable[OffsetMark]) -> dict[str, int]:
    """A number for each publisher that is there or was named. One that is named with a number and is not there keeps
    it, and will be missed."""
    marks = list(marks)
    there = {mark.publisher for mark in marks} | {name_of(mark.publisher) for mark in marks}
    numbers = {name: it for name, it in said.items() if type(it) is int and name not in there}
    for mark in marks:
        wanted = said.get(mark.publisher, said.get(name_of(mark.publisher), EARLIEST))
        if isinstance(wanted, int):
            numbers[mark.publisher] = wanted
        else:
            numbers[mark.publisher] = mark.forgotten if wanted == EARLIEST else mark.through
    return numbers


def last_offset(end: Start | None, reached: dict[str, int], marks: Iterable[OffsetMark], fails: bool) -> dict[str, int]:
    """Where a batch read ends that could go as far as was reached; DataLoss where it is to go further."""
    if end is None or end.kind not in ("offset", "publishers"):
        return reached
    if end.offset is not None:
        wanted = end.offset.after
    else:
        named = {name: it for name, it in end.numbers.items() if it != EARLIEST}
        wanted = {it: n for it, n in named_numbers(named, marks).items() if it in named or name_of(it) in named}
    for publisher, number in wanted.items():
        if fails and number > reached.get(publisher, 0):
            raise DataLoss(
                f"option endingOffsets: {publisher} has come to {reached.get(publisher, 0)} as far as brokers know, "
                f"not to {number}; name a publisher and a number that are there, or set failOnDataLoss to false"
            )
    return {publisher: min(number, reached[publisher]) for publisher, number in wanted.items() if publisher in reached}
