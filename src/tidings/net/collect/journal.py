"""What has arrived, on disk, so that a collection that was broken off goes on.

A table of files and one of blocks, in SQLite, in the folder into which is collected. Blocks are written into the file
first and into the journal later, many at once; whoever goes on reads every block that the journal names and compares
it with its digest, so a journal that says too much does no harm, and one that says too little costs the last blocks
again.
"""

import sqlite3
from pathlib import Path

from tidings.protocols.collect.messages import SharedFile

NAME = ".tidings-collect.sqlite"
BLOCKS_UNWRITTEN_MAX = 256


class Journal:
    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self.connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        self.connection.executescript(
            """
            PRAGMA journal_mode = WAL;
            PRAGMA synchronous = NORMAL;
            CREATE TABLE IF NOT EXISTS files (
                source TEXT, path TEXT, size_bytes INTEGER, changed_ns INTEGER, block_bytes INTEGER,
                is_finished INTEGER DEFAULT 0, PRIMARY KEY (source, path));
            CREATE TABLE IF NOT EXISTS blocks (
                source TEXT, path TEXT, place INTEGER, digest INTEGER, PRIMARY KEY (source, path, place)) WITHOUT ROWID;
            """
        )
        self.unwritten: list[tuple[str, str, int, int]] = []

    def known(self, source: str, file: SharedFile, block_bytes: int) -> tuple[bool, dict[int, int]] | None:
        """Whether it is finished, and its blocks with their digests; None where another file of that name was begun, or
        none."""
        row = self.connection.execute(
            "SELECT size_bytes, changed_ns, block_bytes, is_finished FROM files WHERE source = ? AND path = ?",
            (source, file.path),
        ).fetchone()
        if row is None or row[:3] != (file.size_bytes, file.changed_ns, block_bytes):
            return None
        blocks = self.connection.execute(
            "SELECT place, digest FROM blocks WHERE source = ? AND path = ?", (source, file.path)
        )
        return bool(row[3]), dict(blocks.fetchall())

    def begin(self, source: str, file: SharedFile, block_bytes: int) -> None:
        self.forget(source, file.path)
        self.connection.execute(
            "INSERT INTO files (source, path, size_bytes, changed_ns, block_bytes) VALUES (?, ?, ?, ?, ?)",
            (source, file.path, file.size_bytes, file.changed_ns, block_bytes),
        )

    def forget(self, source: str, path: str) -> None:
        self.connection.execute("DELETE FROM blocks WHERE source = ? AND path = ?", (source, path))
        self.connection.execute("DELETE FROM files WHERE source = ? AND path = ?", (source, path))

    def add(self, source: str, path: str, place: int, digest: int) -> None:
        self.unwritten.append((source, path, place, digest))
        if len(self.unwritten) >= BLOCKS_UNWRITTEN_MAX:
            self.write()

    def write(self) -> None:
        if self.unwritten:
            self.connection.execute("BEGIN")
            self.connection.executemany("INSERT OR REPLACE INTO blocks VALUES (?, ?, ?, ?)", self.unwritten)
            self.connection.execute("COMMIT")
            self.unwritten.clear()

    def finish(self, source: str, path: str) -> None:
        self.connection.execute("UPDATE files SET is_finished = 1 WHERE source = ? AND path = ?", (source, path))
        self.connection.execute("DELETE FROM blocks WHERE source = ? AND path = ?", (source, path))

    def close(self) -> None:
        self.write()
        self.connection.close()

    def remove(self) -> None:
        """Everything is there: nothing is left to go on with."""
        self.connection.close()
        for suffix in ("", "-wal", "-shm"):
            self.path.with_name(NAME + suffix).unlink(missing_ok=True)
