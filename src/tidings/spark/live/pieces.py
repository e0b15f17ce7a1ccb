"""How the work of a read is cut, and what each task of it does.

The driver cuts what lies between two positions into pieces, at most `partitions` of them. Numbers of a publisher have
holes, some of them huge (`offsets.py`), so before it cuts a wide range it asks for the first few events in it: from
there on numbers are mostly close together. That is balance, not truth; wherever the cuts are, each event is in one
piece.

A task connects, reads its ranges page by page, and turns each page into a record batch. It asks for the next page
before it decodes the one it has, so that the broker searches meanwhile.

Nothing in a piece depends on when or where it is read: the same positions give the same pieces and rows again, as
long as brokers store them. Where they do not, `DataLoss` ends the query, or a line in the log counts what is missing.
"""

import builtins
import logging
from bisect import bisect_left
from collections.abc import Coroutine, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any

import pyarrow
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from tidings.model.errors import UsageError
from tidings.net.client.history import Marks, Stored
from tidings.spark.live.casts import DeclaredColumns, plain_schema
from tidings.spark.live.connection import LiveConnection
from tidings.spark.live.decoder import Decoder
from tidings.spark.live.offsets import NAMED_MAX, Range, cut, loss, loss_of_unknown
from tidings.spark.live.options import Options

PAGE_EVENTS = 4096
"""Events of one page, and the least worth a task of its own."""

PROBE_EVENTS = 64
"""Events that the driver looks at to see where a range begins."""

PROBE_PAGES = 16
"""And how often it asks for that, where they are few and far between."""

log = logging.getLogger("tidings.spark.live")


class Unreachable(UsageError):
    """A broker that stores what was asked for does not answer."""


class Piece(InputPartition):
    """What one task reads; `until` is the time of day at which a batch read ends, if it has one."""

    def __init__(self, ranges: list[Range], until: float | None = None) -> None:
        self.ranges, self.until = ranges, until


class RangeStart:
    """Where the events of a range begin: a range that says so, the numbers of the first few, and their size."""

    def __init__(self, range: Range, numbers: tuple[int, ...], size_bytes: int) -> None:
        self.range, self.numbers, self.size_bytes = range, numbers, size_bytes


def find_begin(link: LiveConnection, filter: str, range: Range, fails: bool) -> RangeStart | None:
    """None where nothing matches. Brokers look at a part of their history at a time, so that it may take some pages."""
    numbers, size_bytes, rest = list[int](), 0, range
    for _ in builtins.range(PROBE_PAGES):
        stored = link.run(fetch(link, filter, rest, PROBE_EVENTS - len(numbers)))
        check_whole(stored, rest, fails)
        numbers += stored.numbers
        size_bytes += stored.page.size_bytes
        rest = Range(range.publisher, stored.through, range.since, range.through)
        if not stored.has_more or len(numbers) >= PROBE_EVENTS:
            break
    if not numbers and not stored.has_more:
        return None
    after = numbers[0] - 1 if numbers else stored.through
    return RangeStart(Range(range.publisher, after, range.since, range.through), tuple(numbers), size_bytes)


def cut_work(
    link: LiveConnection, filter: str, ranges: list[Range], options: Options, fails: bool
) -> list[list[Range]]:
    found = []
    for range in ranges:
        if range.after is None or range.width > PAGE_EVENTS:
            begin = find_begin(link, filter, range, fails)
            if begin is not None:
                found.append(begin.range)
        else:
            found.append(range)
    least = PAGE_EVENTS
    if options.partitions_min:
        least = max(1, min(least, sum(it.width for it in found) // options.partitions_min))
    return cut(found, max(options.partitions, options.partitions_min), least)


def fetch(
    link: LiveConnection, filter: str, range: Range, limit: int, payloads: bool = True
) -> Coroutine[Any, Any, Stored]:
    return link.client.fetch(
        filter,
        range.publisher,
        after=range.after,
        since=range.since if range.after is None and not range.is_open else None,
        through=range.through,
        limit=limit,
        payloads=payloads,
    )


def check_whole(stored: Stored, range: Range, fails: bool) -> None:
    if stored.is_truncated and not range.is_open:
        if fails:
            raise loss(range.publisher)
        log.warning("%s: publications behind %s were forgotten before they were read", range.publisher, range.after)


def check_known(publishers: Sequence[str], fails: bool) -> None:
    """Of these nobody knows anything any more."""
    if publishers and fails:
        raise loss_of_unknown(publishers)
    if publishers:
        log.warning("no broker knows anything of %d publishers that this query was reading", len(publishers))


def check_reached(found: Marks, fails: bool, told: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Could everybody be asked who stores what is wanted? The brokers that could not; `told` are those of whom the log
    knows."""
    missing = tuple(sorted({*found.absent, *(f"that of {name}" for name in found.unreachable if not found.absent)}))
    if missing and fails:
        raise Unreachable(
            f"{len(missing)} brokers with what this query reads cannot be reached ({', '.join(missing[:NAMED_MAX])}), "
            f"nor {len(found.unreachable)} publishers there: start them, wait until they are linked, or set "
            "failOnUnreachable to false and read what there is"
        )
    if missing and missing != told:
        log.warning(
            "%d brokers with what this query reads cannot be reached (%s); it goes on, and reads what they store when "
            "they are back",
            len(missing),
            ", ".join(missing[:NAMED_MAX]),
        )
    return missing


def check_stored(link: LiveConnection, filter: str, ranges: list[Range], fails: bool) -> None:
    """Before anything is read of these: is all of it still there?"""
    for range in ranges:
        check_whole(link.run(fetch(link, filter, range, 1)), range, fails)


def read_pages(
    link: LiveConnection, filter: str, range: Range, fails: bool, payloads: bool = True
) -> Generator[Stored, None, None]:
    task = link.begin(fetch(link, filter, range, PAGE_EVENTS, payloads))
    try:
        while True:
            stored = link.finish(task)
            check_whole(stored, range, fails)
            if stored.has_more:
                range = Range(range.publisher, stored.through, range.since, range.through)
                task = link.begin(fetch(link, filter, range, PAGE_EVENTS, payloads))
            if len(stored):
                yield stored
            if not stored.has_more:
                return
    finally:
        link.drop(task)


def read_piece(piece: Piece, filter: str, schema: StructType, options: Options) -> Iterator[pyarrow.RecordBatch]:
    decoder = Decoder(plain_schema(schema), options.fails_on_type)
    declared = DeclaredColumns(schema, options.payload_format, options.fails_on_type, options.payload_schema)
    with LiveConnection(options) as link:
        for range in piece.ranges:
            found = read_pages(link, filter, range, options.fails_on_loss, decoder.needs_payloads)
            with closing(found) as pages:
                for stored in pages:
                    if piece.until is None or stored.accepted_at[-1] < piece.until:
                        yield declared.batch(decoder.batch(stored.publisher, stored.page))
                        continue
                    # They come in the order of their times.
                    early = stored.page.first(bisect_left(stored.accepted_at, piece.until))
                    if early:
                        yield declared.batch(decoder.batch(stored.publisher, early))
                    break
    if misread := decoder.misread + declared.misread:
        log.warning("%d values had another type than their column and are null", misread)
