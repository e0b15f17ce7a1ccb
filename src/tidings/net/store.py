"""What is whole in a damaged store, and a new one made of that.

The problem. A few bytes of `broker.sqlite` were overwritten. SQLite finds a page that is none, or does not notice at
all that a value has changed; what lies behind a page of the tree cannot be reached any more.

The idea. Every page of the file is looked at by itself, whatever leads there. Both tables are trees without row
numbers, whose pages hold whole rows: a name, for an entry its data, and a digest. A row that has its digest is what was
saved. The names that were kept a second time tell which rows are missing.

    check       how many entries are whole, and which are not
    salvage     a new store with those; in it `PART/lost/NAME` for each that is missing, so that the broker can say what
                of the history of a publisher is gone. The damaged file stays beside it.

What was in the write-ahead log is brought into the file first (in a copy of both); of one that is damaged, the pages
that are whole. Pages that SQLite gave up are left
out as far as the file says which they are; an old row of such a page is known by its name, which is not among the names
any more. Where the names are damaged as well, they cannot all be known; `is_exact` says so, and there is an entry
`PART/lost/unknown`.

Source: the file format of SQLite, https://www.sqlite.org/fileformat2.html, sections 1.3, 1.5, 1.6 and 2.1.
"""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from tidings.net.errors import HostError
from tidings.net.storage import (
    APPLICATION_ID,
    LOG_DAMAGED,
    OWNER_FILE,
    VERSION,
    create_tables,
    digest_of,
    insert,
    keep_private,
)
from tidings.net.write_ahead import LogReport, applied, examine_log

LOST, UNKNOWN = "lost/", "unknown"

HEADER_BYTES = 100
PAGE_BYTES = 4096
"""Of a page, where the file does not say."""

INDEX_INTERIOR, INDEX_LEAF = 0x02, 0x0A
OVERFLOW_HEAD_BYTES = 4
TEXT_TYPE_MIN, BLOB_TYPE_MIN = 13, 12
FREE_PAGES_MAX = 1_000_000
"""Pages that were given up; a longer list is a damaged one."""

Row = list[bytes | str]


class StoreReport(msgspec.Struct, frozen=True):
    path: str
    is_whole: bool
    whole: int
    """Entries that are what was saved."""
    missing: tuple[str, ...]
    """Names of those that are not."""
    is_exact: bool
    """Whether more than these cannot be missing."""
    problem: str = ""
    """What SQLite says of it."""
    damaged: str = ""
    """Where the damaged file is now, after a salvage."""


class StoreContents(msgspec.Struct):
    entries: dict[str, bytes]
    names: set[str]
    is_exact: bool
    problem: str


def check_store(path: Path) -> StoreReport:
    return report_of(path, recover(path))


def salvage_store(path: Path) -> StoreReport:
    """Put a store in place of the damaged one, which is renamed."""
    found = recover(path)
    report = report_of(path, found)
    if report.is_whole:
        return report
    entries = dict(found.entries)
    entries |= {lost_name(name): b"" for name in report.missing}
    if not report.is_exact:
        entries |= {f"{part_of(name)}{LOST}{UNKNOWN}": b"" for name in (*entries, *report.missing)}
    draft = path.with_name(f"{path.name}.salvaged")
    draft.unlink(missing_ok=True)
    keep_private(draft)
    with closing(sqlite3.connect(draft, isolation_level=None)) as database, database:
        database.execute("BEGIN")
        create_tables(database)
        for name, data in sorted(entries.items()):
            insert(database, name, data)
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        database.execute(f"PRAGMA user_version = {VERSION}")
    damaged = free_name(path)
    for ending in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.rename(f"{path}{ending}", f"{damaged}{ending}")
    os.rename(draft, path)
    return msgspec.structs.replace(report, damaged=str(damaged))


def part_of(name: str) -> str:
    """The part of a node that saved it, with a slash: each has names of its own."""
    part, slash, _ = name.partition("/")
    return part + slash


def lost_name(name: str) -> str:
    part = part_of(name)
    rest = name.removeprefix(part)
    # What was lost before stays so.
    return name if rest.startswith(LOST) else f"{part}{LOST}{rest}"


def free_name(path: Path) -> Path:
    number = 1
    while path.with_name(f"{path.name}.damaged-{number}").exists():
        number += 1
    return path.with_name(f"{path.name}.damaged-{number}")


def report_of(path: Path, found: StoreContents) -> StoreReport:
    missing = tuple(sorted(found.names - found.entries.keys()))
    is_whole = not found.problem and not missing
    return StoreReport(str(path), is_whole, len(found.entries), missing, found.is_exact, found.problem)


def recover(path: Path) -> StoreContents:
    if not path.is_file():
        raise HostError(f"there is no store {path}; name the folder that was given as --data")
    with tempfile.TemporaryDirectory(prefix="tidings-store-") as folder:
        copy = Path(folder) / "store"
        log = examine_log(path)
        if log.damaged_at is not None:
            return recover_without_log(path, log, copy)
        for ending in ("", "-wal"):
            if Path(f"{path}{ending}").exists():
                shutil.copyfile(f"{path}{ending}", f"{copy}{ending}")
                os.chmod(f"{copy}{ending}", OWNER_FILE)
        found, names, problem = read_by_sqlite(copy)
        if not problem and names is not None and names == found.keys():
            return StoreContents(found, names, True, "")
        entries, scanned = scan(copy.read_bytes())
        # What SQLite read has its digest too; a page that it reached is no old one.
        entries |= found
        if names is not None:
            return StoreContents({name: entries[name] for name in entries if name in names}, names, True, problem)
        if not problem:
            # The names alone were damaged.
            return StoreContents(found, set(found), True, "the names of entries are damaged, and no entry is")
        return StoreContents(entries, scanned | entries.keys(), False, problem)


def recover_without_log(path: Path, log: LogReport, copy: Path) -> StoreContents:
    """SQLite would leave out all that stands behind the damage. What was on the page that is damaged nobody knows."""
    file = applied(path.read_bytes(), log.frames)
    copy.write_bytes(file)
    os.chmod(copy, OWNER_FILE)
    found, names, problem = read_by_sqlite(copy)
    entries, scanned = scan(file)
    entries |= found
    problem = LOG_DAMAGED.format(frame=log.damaged_at) + (f"; {problem}" if problem else "")
    return StoreContents(entries, scanned | entries.keys() | (names or set()), False, problem)


def read_by_sqlite(path: Path) -> tuple[dict[str, bytes], set[str] | None, str]:
    """Entries that are whole as far as they can be reached, all names (None where that cannot be said), and what is
    wrong with the entries."""
    entries: dict[str, bytes] = {}
    names: set[str] | None = None
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version >= VERSION:
                names = read_names(database)
            problem = read_entries(database, entries, version)
            return entries, entries.keys() | set() if version < VERSION and not problem else names, problem
    except sqlite3.Error as error:
        return entries, names, str(error)


def read_names(database: sqlite3.Connection) -> set[str] | None:
    try:
        rows = database.execute("SELECT name, digest FROM names ORDER BY name").fetchall()
    except sqlite3.Error:
        return None
    return {name for name, _ in rows} if all(digest == digest_of(name) for name, digest in rows) else None


def read_entries(database: sqlite3.Connection, entries: dict[str, bytes], version: int) -> str:
    try:
        if version < VERSION:
            entries |= dict(database.execute("SELECT name, data FROM entries ORDER BY name"))
            return ""
        damaged = 0
        for name, data, digest in database.execute("SELECT name, data, digest FROM entries ORDER BY name"):
            if digest == digest_of(name, data):
                entries[name] = data
            else:
                damaged += 1
    except (sqlite3.Error, UnicodeError) as error:
        return str(error)
    return f"{damaged} entries are not what was saved" if damaged else ""


# Page by page.


def scan(file: bytes) -> tuple[dict[str, bytes], set[str]]:
    """Entries and names that have their digests, wherever they are in the file."""
    page_bytes = int.from_bytes(file[16:18]) or 1
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    if page_bytes < 512 or page_bytes & (page_bytes - 1):
        page_bytes = PAGE_BYTES
    is_earlier = int.from_bytes(file[60:64]) < VERSION
    free = free_pages(file, page_bytes)
    entries: dict[str, bytes] = {}
    names: set[str] = set()
    for number in range(1, len(file) // page_bytes + 1):
        if number in free:
            continue
        for row in rows_of(file, number, page_bytes):
            match row:
                case [str(name), bytes(data), bytes(digest)] if digest == digest_of(name, data):
                    entries[name] = data
                case [str(name), bytes(digest)] if digest == digest_of(name):
                    names.add(name)
                case [str(name), bytes(data)] if is_earlier:
                    # There were no digests.
                    entries[name] = data
    return entries, names


def free_pages(file: bytes, page_bytes: int) -> set[int]:
    """As the file says: a list of trunks, each with a list of leaves."""
    free: set[int] = set()
    trunk = int.from_bytes(file[32:36])
    while trunk and trunk not in free and trunk * page_bytes <= len(file) and len(free) < FREE_PAGES_MAX:
        free.add(trunk)
        page = file[(trunk - 1) * page_bytes : trunk * page_bytes]
        count = min(int.from_bytes(page[4:8]), page_bytes // 4 - 2)
        free.update(int.from_bytes(page[8 + 4 * place : 12 + 4 * place]) for place in range(count))
        trunk = int.from_bytes(page[:4])
    return free


def rows_of(file: bytes, number: int, page_bytes: int) -> Iterator[Row]:
    page = file[(number - 1) * page_bytes : number * page_bytes]
    begin = HEADER_BYTES if number == 1 else 0
    kind = page[begin]
    if kind not in (INDEX_INTERIOR, INDEX_LEAF):
        return
    head_bytes = 12 if kind == INDEX_INTERIOR else 8
    count = int.from_bytes(page[begin + 3 : begin + 5])
    for place in range(min(count, page_bytes // 2)):
        pointer = begin + head_bytes + 2 * place
        cell = int.from_bytes(page[pointer : pointer + 2]) + (4 if kind == INDEX_INTERIOR else 0)
        with suppress(ValueError, IndexError):
            yield record_of(payload_of(file, page, cell, page_bytes))


def payload_of(file: bytes, page: bytes, cell: int, page_bytes: int) -> bytes:
    """What begins in this cell, with what overflows it."""
    size, cell = varint(page, cell)
    if size > len(file):
        raise ValueError("longer than the file")
    most, least = (page_bytes - 12) * 64 // 255 - 23, (page_bytes - 12) * 32 // 255 - 23
    here = size
    if size > most:
        here = least + (size - least) % (page_bytes - OVERFLOW_HEAD_BYTES)
        here = here if here <= most else least
    parts = [page[cell : cell + here]]
    left = size - here
    following = int.from_bytes(page[cell + here : cell + here + 4]) if left else 0
    while left > 0:
        if not 0 < following * page_bytes <= len(file):
            raise ValueError("overflows into nothing")
        overflow = file[(following - 1) * page_bytes : following * page_bytes]
        part = overflow[OVERFLOW_HEAD_BYTES : OVERFLOW_HEAD_BYTES + left]
        parts.append(part)
        left -= len(part)
        following = int.from_bytes(overflow[:OVERFLOW_HEAD_BYTES])
    return b"".join(parts)


def record_of(payload: bytes) -> Row:
    """Texts and byte strings; ValueError for a record with anything else."""
    head_bytes, place = varint(payload, 0)
    at, row = head_bytes, Row()
    while place < head_bytes:
        kind, place = varint(payload, place)
        if kind < BLOB_TYPE_MIN:
            raise ValueError("a value of another type")
        is_text = bool(kind % 2)
        length = (kind - (TEXT_TYPE_MIN if is_text else BLOB_TYPE_MIN)) // 2
        value = payload[at : at + length]
        if len(value) < length:
            raise ValueError("cut short")
        row.append(value.decode() if is_text else value)
        at += length
    return row


def varint(data: bytes, place: int) -> tuple[int, int]:
    """A number of one to nine bytes, seven bits in each and eight in the ninth; and where the next thing begins."""
    value = 0
    for count in range(8):
        byte = data[place + count]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + count + 1
    return value << 8 | data[place + 8], place + 9
