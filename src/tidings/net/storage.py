"""What is done beside the loop: names and bytes in one SQLite file, to be known after a crash; slow work in threads.

`Save` is answered by `Saved` only when the data is on the disk (write-ahead log, synced at each commit), and whatever
goes wrong comes back as the error in that answer. Saves that wait together are committed together, which makes many
small ones cheap; if such a commit fails, each of them is tried alone, so that each has its own answer.

On a full disk a large save fails and the small one behind it does not. Machines save what continues what they saved
before under names that begin alike, up to the last "/" (the *shelf*). So where a save fails, those behind it on that
shelf fail as well, until the machine has heard of it (`reopen`): what is on the disk after a crash has no hole.

One thread owns the file and does one thing after the other, in the order in which it was asked: a `Load` sees every
`Save` before it. The file is locked while it is open, since two nodes that share one would destroy each other's state.

Disks and people damage files. So each entry has a digest, and the names of all entries are kept a second time, in pages
of their own: whatever is not whole is noticed when the file is opened, which is refused then (`store.py` keeps what is
whole, and knows by name what is not). A file of an earlier version gets both when it is opened first. What was
saved last stands in a log beside the file, which SQLite takes to end where it is damaged; that is noticed too
(`write_ahead.py`).

`Compute` runs in a thread, and comes back as `Computed`. Jobs are pure, so threads need no locks. They share the
interpreter with the loop: work in C that lets go of it (numpy, scipy, hashing) runs beside, plain Python slows the loop
down. A job cannot be stopped; a host that stops does not wait for those that run, and forgets their results.
"""

import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from pathlib import Path
from threading import Condition, Thread
from typing import Any

from tidings.machine.effects import Compute, Load, Save
from tidings.machine.inputs import Computed, Loaded, Saved
from tidings.net.errors import HostError
from tidings.net.write_ahead import examine_log

APPLICATION_ID = 0x7464
"""Marks a file as ours ("td"), so that a database of another program is not mistaken for one."""

VERSION = 2
"""Of the tables: with digests, and with the names a second time."""

DIGEST_BYTES = 8

DAMAGED = (
    "it is damaged, and nothing was changed: see what is whole with `tidings store check DIR`, keep that with `tidings "
    "store salvage DIR`, or put a copy in its place"
)

LOG_DAMAGED = "the log of what was saved last is wrong at frame {frame}, and what stands behind it would be left out"

OWNER_FILE, OWNER_FOLDER = 0o600, 0o700
"""Who may read what is stored."""

BATCH_MAX = 256
"""Saves committed together."""

EARLIER_FAILED = "what stands before it could not be saved"
TOO_MANY_WAITING = "too many saves wait for the disk"
NO_STORAGE = "this host stores nothing; give it storage=FILE"

Order = Save | Load | str
"""A shelf is opened again in its turn."""

Answer = Saved | Loaded
Answers = Callable[[list[Answer], float], None]


class Storage:
    """`answered(answers, seconds)` is called in the storage thread, after each commit or load."""

    def __init__(self, path: Path, waiting_max: int, answered: Answers) -> None:
        self.path, self.waiting_max, self.answered = path, waiting_max, answered
        self.waiting: deque[Order] = deque()
        self.changed = Condition()
        self.is_closing = False
        self.shut: set[str] = set()
        """Shelves on which a save failed; for membership only."""
        self.database = open_database(path)
        self.thread = Thread(target=self.work, name=f"storage {path.name}", daemon=True)
        self.thread.start()

    def ask(self, order: Order) -> bool:
        """Whether there was room for it."""
        with self.changed:
            if len(self.waiting) >= self.waiting_max or self.is_closing:
                return False
            self.waiting.append(order)
            self.changed.notify()
            return True

    def refuse(self, save: Save) -> None:
        """There was no room for it: the shelf is shut."""
        with self.changed:
            self.shut.add(shelf_of(save.name))

    def reopen(self, name: str) -> None:
        """The machine hears now that this save failed; what it asks for from now on it asks for knowing that."""
        with self.changed:
            self.waiting.append(shelf_of(name))
            self.changed.notify()

    def close(self) -> None:
        """Finish what waits, then close the file. Blocks."""
        with self.changed:
            self.is_closing = True
            self.changed.notify()
        self.thread.join()

    def work(self) -> None:
        while orders := self.next_orders():
            began = time.monotonic()
            first = orders[0]
            if isinstance(first, str):
                self.shut.discard(first)
                continue
            answers: list[Answer] = [self.load(first)] if isinstance(first, Load) else [*self.save_all(orders)]
            self.answered(answers, time.monotonic() - began)
        self.database.close()

    def next_orders(self) -> list[Order]:
        """One load, a shelf, or as many saves as stand together in front; nothing when the end has come."""
        with self.changed:
            while not self.waiting and not self.is_closing:
                self.changed.wait()
            orders: list[Order] = []
            while self.waiting and len(orders) < BATCH_MAX:
                if not isinstance(self.waiting[0], Save):
                    return orders or [self.waiting.popleft()]
                orders.append(self.waiting.popleft())
            return orders

    def save_all(self, orders: list[Order]) -> list[Saved]:
        saves = [order for order in orders if isinstance(order, Save)]
        if not any(shelf_of(save.name) in self.shut for save in saves) and self.commit(saves) is None:
            return [Saved(save.name) for save in saves]
        return [Saved(save.name, self.save(save)) for save in saves]

    def save(self, save: Save) -> str | None:
        """Alone; what went wrong."""
        shelf = shelf_of(save.name)
        if shelf in self.shut and save.data is not None:
            return EARLIER_FAILED
        error = self.commit([save])
        if error is not None:
            with self.changed:
                self.shut.add(shelf)
        return error

    def commit(self, saves: list[Save]) -> str | None:
        """Write all of these or none; what went wrong."""
        try:
            with self.database:
                self.database.execute("BEGIN")
                for save in saves:
                    if save.data is None:
                        self.database.execute("DELETE FROM entries WHERE name = ?", (save.name,))
                        self.database.execute("DELETE FROM names WHERE name = ?", (save.name,))
                    else:
                        insert(self.database, save.name, save.data)
        except (sqlite3.Error, ValueError, OverflowError) as problem:
            return f"cannot save to {self.path}: {problem}"
        return None

    def load(self, load: Load) -> Loaded:
        entries = []
        try:
            for name, data, digest in self.database.execute(
                "SELECT name, data, digest FROM entries WHERE name >= ? ORDER BY name", (load.prefix,)
            ):
                if not name.startswith(load.prefix):
                    break
                if digest != digest_of(name, data):
                    return Loaded(load.prefix, (), f"cannot load from {self.path}: {name} is not what was saved")
                entries.append((name, data))
        except (sqlite3.Error, ValueError) as problem:
            return Loaded(load.prefix, (), f"cannot load from {self.path}: {problem}")
        return Loaded(load.prefix, tuple(entries))


def shelf_of(name: str) -> str:
    """A name without a "/" stands for itself."""
    return name.rpartition("/")[0] or name


def open_database(path: Path) -> sqlite3.Connection:
    try:
        keep_private(path)
    except OSError as problem:
        raise HostError(
            f"cannot open the storage {path}: {problem.strerror}; name a file of yours in a folder that exists"
        ) from None
    damaged_at = examine_log(path).damaged_at
    if damaged_at is not None:
        raise HostError(f"cannot use the storage {path}: {LOG_DAMAGED.format(frame=damaged_at)}; {DAMAGED}")
    try:
        database = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as problem:
        raise HostError(f"cannot open the storage {path}: {problem}; name a file in a folder that exists") from None
    try:
        prepare(database, path)
    except sqlite3.Error as problem:
        database.close()
        raise HostError(f"cannot use the storage {path}: {problem}; {advice(problem)}") from None
    except HostError:
        database.close()
        raise
    return database


def keep_private(path: Path) -> None:
    """Nobody else reads the file, nor those that SQLite keeps beside it: it gives them the rights of this one."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, OWNER_FILE))
    for beside in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        if beside.exists():
            beside.chmod(OWNER_FILE)


def prepare(database: sqlite3.Connection, path: Path) -> None:
    # Locked for as long as it is open; without a lock of others to respect, no shared memory file is needed.
    database.execute("PRAGMA locking_mode = EXCLUSIVE")
    (application,) = database.execute("PRAGMA application_id").fetchone()
    tables = database.execute("SELECT name FROM sqlite_master").fetchall()
    if application != APPLICATION_ID and tables:
        raise HostError(f"{path} is the database of another program; name another file for the storage")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise HostError(f"{path} was written by a later version of tidings; use that one, or name another file")
    if version < VERSION:
        renew(database, is_earlier="entries" in [name for (name,) in tables])
    verify(database, path)


def renew(database: sqlite3.Connection, is_earlier: bool) -> None:
    """A new file, or one of an earlier version, gets the tables of this one."""
    with database:
        database.execute("BEGIN")
        if is_earlier:
            database.execute("ALTER TABLE entries RENAME TO earlier")
        create_tables(database)
        if is_earlier:
            for name, data in database.execute("SELECT name, data FROM earlier"):
                insert(database, name, data)
            database.execute("DROP TABLE earlier")
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        database.execute(f"PRAGMA user_version = {VERSION}")


def create_tables(database: sqlite3.Connection) -> None:
    database.execute(
        "CREATE TABLE IF NOT EXISTS entries (name TEXT PRIMARY KEY, data BLOB NOT NULL, digest BLOB NOT NULL) "
        "WITHOUT ROWID"
    )
    database.execute("CREATE TABLE IF NOT EXISTS names (name TEXT PRIMARY KEY, digest BLOB NOT NULL) WITHOUT ROWID")


def insert(database: sqlite3.Connection, name: str, data: bytes) -> None:
    database.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", (name, data, digest_of(name, data)))
    database.execute("INSERT OR REPLACE INTO names VALUES (?, ?)", (name, digest_of(name)))


def digest_of(name: str, data: bytes = b"") -> bytes:
    return blake2b(data, digest_size=DIGEST_BYTES, key=blake2b(name.encode(), digest_size=32).digest()).digest()


def verify(database: sqlite3.Connection, path: Path) -> None:
    """Every entry is what was saved, and none is missing; HostError otherwise."""
    names = database.execute("SELECT name, digest FROM names ORDER BY name")
    for name, data, digest in database.execute("SELECT name, data, digest FROM entries ORDER BY name"):
        expected = names.fetchone()
        if expected is not None and expected[0] < name:
            raise HostError(f"cannot use the storage {path}: {expected[0]!r} was saved and is not there; {DAMAGED}")
        if digest != digest_of(name, data) or expected != (name, digest_of(name)):
            raise HostError(f"cannot use the storage {path}: {name!r} is not what was saved; {DAMAGED}")
    missing = names.fetchone()
    if missing is not None:
        raise HostError(f"cannot use the storage {path}: {missing[0]!r} was saved and is not there; {DAMAGED}")


def advice(problem: sqlite3.Error) -> str:
    # What Python itself finds wrong with a value has no code.
    match getattr(problem, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return "another node has it open; give each node its own file"
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return DAMAGED
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return "give this user the right to write the file and its folder"
        case sqlite3.SQLITE_FULL:
            return "the disk is full; free some space"
    return "check the file and its disk"


TOO_MANY_COMPUTATIONS = "too many computations wait"


class Computing:
    """`answered(computed)` is called in the thread that did the work."""

    def __init__(self, workers: int, waiting_max: int, answered: Callable[[Computed], None]) -> None:
        self.workers, self.waiting_max, self.answered = workers, waiting_max, answered
        self.executor: ThreadPoolExecutor | None = None
        self.under_way = 0

    def ask(self, effect: Compute) -> bool:
        """Whether there was room for it. The owner calls `done` when it has taken the answer."""
        if self.under_way >= self.waiting_max:
            return False
        self.under_way += 1
        if self.executor is None:
            self.executor = ThreadPoolExecutor(self.workers, thread_name_prefix="compute")
        self.executor.submit(effect.job.run).add_done_callback(partial(self.finish, effect.key))
        return True

    def done(self) -> None:
        self.under_way -= 1

    def finish(self, key: Any, future: Future[Any]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            self.answered(Computed(key, future.result()))
        else:
            self.answered(Computed(key, None, f"{type(error).__name__}: {error}"))

    def close(self) -> None:
        if self.executor is not None:
            self.executor.shutdown(wait=False, cancel_futures=True)
