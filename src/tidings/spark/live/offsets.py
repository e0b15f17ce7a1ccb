"""Positions in the history of a network, and how much of it a batch may read.

The idea. A broker numbers nothing: each publisher numbers its own publications, and its broker stores them. So a
position in the history of the whole network is one number for each publisher, "read behind this", and a time for
publishers that nobody knew yet:

    {"since": 1794797198.9, "after": {"desk": 4711, "floor": 22}, "seen": 1794797311.2}

Publishers that are named are read behind their number, all others since that time (0 for all that is stored). What
lies between two positions never changes, except that the oldest of it is forgotten, and then it is missed; that is what
makes a batch repeatable.

**Where a batch begins** is said where it ends. Spark keeps the position at which each batch ended, but not the one at
which the first began: it asks again for that when it restarts a query whose first batch was not finished, and "latest"
or "earliest" would then be another position. A publisher that comes later has no number in the position before. So the
position at which a batch ends names, in "begun", where the batch begins for each publisher that is new in it, and the
first batch for all; that is believed rather than what is asked for anew. "is_first" is a position where nothing was
read yet.

    {"since": 0, "after": {"desk": 4713, "floor": 22}, "begun": {"desk": 4711, "floor": 0}, ...}

**Nobody disappears unnoticed.** Brokers remember publishers that left for as long as `Marks.remembered_for` says. A
position says when brokers were last asked ("seen"), and who had published more by then than was read ("behind"). A
publisher in a position of which no broker knows has left nothing unread if it was not behind and less time has passed
than brokers remember. Then it need not be in the position any more, so that positions stay as short as the memory of
brokers. Otherwise it may have published something that nobody will read: that is a loss, and told (`lost`). While a
broker is absent nothing is concluded from who is not known.

**The same question.** A batch that is read again after its filter or its schema was changed would be another one. A
position carries a digest of both ("plan"), and a query that asks for something else is refused (`check_plan`).

Numbers have holes: of a filter, and of clients that came again under the same name and begin far above what they had
used. So a difference of numbers bounds the events from above, and may be far above; whoever divides the work asks first
where the events begin (`pieces.py`).

Everything here is a pure function; time and brokers come in as values.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from tidings.model.errors import UsageError

ALL_STORED = 0.0
"""As a time: everything that is stored."""

SHRINK_AFTER = 60.0
"""A publisher of which no broker knows any more leaves the position after so many seconds: a broker that has just
started may not know it yet."""

SEEN_AGAIN_AFTER = 60.0
"""A position in which nothing is new is noted again, with the time, after so many seconds at least."""

NAMED_MAX = 3
"""Publishers that a message names."""


class OffsetMark(Protocol):
    """How far a publisher has come, and up to where its broker has forgotten."""

    @property
    def publisher(self) -> str: ...
    @property
    def forgotten(self) -> int: ...
    @property
    def through(self) -> int: ...


class FoundMarks(Protocol):
    """What brokers answer who are asked for marks."""

    @property
    def marks(self) -> Sequence[OffsetMark]: ...
    @property
    def unreachable(self) -> Sequence[str]: ...
    @property
    def absent(self) -> Sequence[str]: ...
    @property
    def remembered_for(self) -> float: ...


class DataLoss(UsageError):
    """Something was forgotten before it was read."""


class Plan(msgspec.Struct, frozen=True):
    """What is asked for, as digests."""

    filter: str
    schema: str


class Offset(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    since: float = ALL_STORED
    after: dict[str, int] = {}
    begun: dict[str, int] | None = None
    """Where the batch that ends here begins, for publishers that no position before it names."""
    is_first: bool = False
    """Where a stream begins: nothing was read yet."""
    seen: float = 0.0
    """The time of day at which brokers were asked."""
    behind: list[str] = []
    """Publishers that had published more then than was read."""
    plan: Plan | None = None

    def json(self) -> dict[str, Any]:
        """As Spark keeps it. Spark compares texts, so names stand in one order."""
        made: dict[str, Any] = {"since": self.since, "after": dict(sorted(self.after.items())), "seen": self.seen}
        if self.begun is not None:
            made["begun"] = dict(sorted(self.begun.items()))
        if self.is_first:
            made["is_first"] = True
        if self.behind:
            made["behind"] = sorted(self.behind)
        if self.plan is not None:
            made["plan"] = msgspec.to_builtins(self.plan)
        return made


def read_offset(given: Mapping[str, Any]) -> Offset:
    try:
        return msgspec.convert(given, Offset)
    except msgspec.ValidationError as problem:
        raise UsageError(
            f"{given!r:.200} is no offset of the format tidings ({problem}); does the checkpoint belong to another "
            "query?"
        ) from None


# The same question.


def plan_of(filter: str, schema: str) -> Plan:
    """Of the texts of both."""
    return Plan(digest(filter), digest(schema))


def digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def check_plan(offset: Offset, plan: Plan) -> None:
    if offset.plan is None or offset.plan == plan:
        return
    changed = " and ".join(name for name in ("filter", "schema") if getattr(offset.plan, name) != getattr(plan, name))
    raise UsageError(
        f"the {changed} of this query changed since its checkpoint was written, and a batch that was begun would have "
        f"other rows; go on with the former {changed}, or start with a new checkpointLocation and with startingOffsets "
        "set to the last offset of the old one (the last line of the last file in its folder offsets)"
    )


# How far.


def last_numbers(start: Offset, marks: Iterable[OffsetMark]) -> dict[str, int]:
    """How far one can read now. Nobody goes back: a publisher whose broker cannot be asked stays where it was."""
    numbers = dict(start.after)
    for mark in marks:
        is_news = mark.publisher in numbers or mark.through > mark.forgotten
        if is_news and mark.through > numbers.get(mark.publisher, 0):
            numbers[mark.publisher] = mark.through
    return numbers


def advance(
    start: Offset,
    numbers: Mapping[str, int],
    pins: Mapping[str, int] | None = None,
    *,
    seen: float = 0.0,
    behind: Iterable[str] = (),
    plan: Plan | None = None,
) -> Offset:
    """The position at which a batch ends that begins at `start` and reads up to these numbers; `pins` are where it
    begins for those that `start` does not name."""
    begun = {**(start.after if start.is_first else {}), **(pins or {})}
    named = {publisher: number for publisher, number in begun.items() if publisher in numbers}
    return Offset(
        since=start.since,
        after=dict(numbers),
        begun=named if named or start.is_first else None,
        seen=seen,
        behind=sorted(behind),
        plan=plan,
    )


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
    begun = end.begun or {}
    ranges = []
    for publisher, through in sorted(end.after.items()):
        after = begun.get(publisher, start.after.get(publisher))
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


# What is gone.


def doubtful(start: Offset, marks: Iterable[OffsetMark]) -> list[Range]:
    """What may have been forgotten before it was read. A mark says so too early where the publisher has moved and its
    earlier broker is out of reach for a while; whoever asks for these is told the truth."""
    return [
        Range(mark.publisher, start.after[mark.publisher], start.since, mark.through)
        for mark in marks
        if mark.publisher in start.after and mark.forgotten > start.after[mark.publisher]
    ]


def unknown(start: Offset, found: FoundMarks) -> list[str]:
    """Publishers of the position of which no broker knows, where all could be asked."""
    if found.absent:
        return []
    known = {mark.publisher for mark in found.marks} | set(found.unreachable)
    return sorted(start.after.keys() - known)


def lost(start: Offset, found: FoundMarks, behind: Collection[str], seen: float, now: float) -> list[str]:
    """Those of them who may have published something that nobody can read any more. Brokers were last asked at `seen`,
    and some were behind then."""
    is_long_ago = now - seen > found.remembered_for
    return [publisher for publisher in unknown(start, found) if is_long_ago or publisher in behind]


def unread(marks: Iterable[OffsetMark], numbers: Mapping[str, int]) -> list[str]:
    """Who has published more than up to these numbers."""
    return [mark.publisher for mark in marks if mark.through > numbers.get(mark.publisher, mark.through)]


def loss(publisher: str) -> DataLoss:
    return DataLoss(
        f"publications of {publisher} were forgotten by its broker before they were read: let brokers store more "
        "(delivery.history_age, history_count_max, history_bytes_max), run the query more often, or set "
        "failOnDataLoss to false and go on without them"
    )


def loss_of_unknown(publishers: Sequence[str]) -> DataLoss:
    named = ", ".join(publishers[:NAMED_MAX]) + (", ..." if len(publishers) > NAMED_MAX else "")
    return DataLoss(
        f"no broker knows anything of {len(publishers)} publishers any more that this query was reading ({named}), and "
        "nobody can say whether they published more than it has read: let brokers remember for longer "
        "(delivery.history_age, marks_age, marks_max; --data over restarts), run the query more often, name publishers "
        "in startingOffsets as they are called and where they match the filter, or set failOnDataLoss to false and go "
        "on without them"
    )
