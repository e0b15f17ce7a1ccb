"""Blocks on disk: a folder that is shared, a file of blocks that are passed on, and the folder that is collected into.

Nothing is held in memory but the block that is on its way through. A file that is sent is opened once, and looked at
before each block: one that has another size or time than when it was listed was changed, and is not sent on. What is
passed on lies in one file of equal slots below the scratch folder, which is deleted with the collection; what a dead
agent left there goes when the next one of its name starts.

What arrives is written into `.tidings-part-NAME` beside its place. When it is whole and its SHA-256 is that of its
source it is linked to its name, which fails where the name is taken: nothing that was there is ever written over.
"""

import errno
import os
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tidings.machine.effects import Job
from tidings.model.identity import NodeId
from tidings.net.collect.files import FileDigestJob, FinishJob
from tidings.net.collect.journal import Journal
from tidings.net.collect.paths import TEMPORARY, files_below, folder_name, open_below, why_unsafe
from tidings.protocols.collect.messages import SharedFile
from tidings.protocols.collect.runs import NumberRun, runs_of
from tidings.protocols.collect.shelf import BlockRead, BlockTable, digest_of_block

OPEN_FILES_MAX = 64
PART = f"{TEMPORARY}part-"
RELAYED = f"{TEMPORARY}relayed-"


class OpenFiles:
    """Descriptors, the one used longest ago closed first."""

    def __init__(self) -> None:
        self.files: OrderedDict[tuple[str, ...], int] = OrderedDict()

    def get(self, key: tuple[str, ...]) -> int | None:
        if key in self.files:
            self.files.move_to_end(key)
        return self.files.get(key)

    def put(self, key: tuple[str, ...], file: int) -> int:
        self.files[key] = file
        while len(self.files) > OPEN_FILES_MAX:
            os.close(self.files.popitem(last=False)[1])
        return file

    def close(self, *beginning: str) -> None:
        for key in [key for key in self.files if key[: len(beginning)] == beginning]:
            os.close(self.files.pop(key))


class BlockSlots:
    """Blocks of one collection that are passed on, in a file without a name that others could open."""

    def __init__(self, folder: Path, node: str, block_bytes: int) -> None:
        handle, self.path = tempfile.mkstemp(prefix=f"{RELAYED}{folder_name(node)}-", dir=folder)
        self.file, self.block_bytes = handle, block_bytes
        self.places: dict[tuple[NodeId, int], tuple[int, int, int]] = {}
        self.free: list[int] = []
        self.count = 0

    def write(self, key: tuple[NodeId, int], data: bytes, digest: int) -> None:
        if key in self.places:
            return
        slot = self.free.pop() if self.free else self.count
        os.pwrite(self.file, data, slot * self.block_bytes)
        self.count = max(self.count, slot + 1)
        self.places[key] = slot, len(data), digest

    def read(self, key: tuple[NodeId, int]) -> BlockRead:
        if key not in self.places:
            return BlockRead(b"", 0, 0, "it is not here")
        slot, size, digest = self.places[key]
        data = os.pread(self.file, size, slot * self.block_bytes)
        if digest_of_block(data) != digest:
            return BlockRead(b"", 0, 0, "it was damaged where it was kept")
        return BlockRead(data, size, digest)

    def drop(self, key: tuple[NodeId, int]) -> None:
        if (place := self.places.pop(key, None)) is not None:
            self.free.append(place[0])

    def close(self) -> None:
        os.close(self.file)
        Path(self.path).unlink(missing_ok=True)


class DiskShelf:
    def __init__(
        self, node: str, share: Path | None = None, into: Path | None = None, scratch: Path | None = None
    ) -> None:
        self.node, self.share, self.into = node, share, into
        self.scratch = scratch or Path(tempfile.gettempdir())
        self.is_resumed = False
        self.open_files = OpenFiles()
        self.tables: dict[str, BlockTable] = {}
        self.slots: dict[str, BlockSlots] = {}
        self.block_bytes: dict[str, int] = {}
        self.receiving: dict[str, Mapping[NodeId, BlockTable]] = {}
        self.journal: Journal | None = None
        for left in self.scratch.glob(f"{RELAYED}{folder_name(node)}-*"):
            with suppress(OSError):
                left.unlink()

    # What is shared.

    def shared(self, patterns: tuple[str, ...]) -> tuple[SharedFile, ...] | str:
        if self.share is None:
            return "nothing is shared here"
        for pattern in patterns:
            if pattern.startswith("/") or ".." in pattern.split("/"):
                return f"{pattern!r} leads out of what is shared; patterns are relative to it"
        return tuple(
            SharedFile(path, stat.st_size, stat.st_mtime_ns) for path, stat in files_below(self.share, patterns)
        )

    def offer(self, job: str, table: BlockTable) -> str:
        if table.files and self.share is None:
            return "nothing is shared here"
        self.tables[job] = table
        self.block_bytes[job] = table.block_bytes
        return ""

    def read(self, job: str, origin: NodeId, seq: int, is_own: bool) -> BlockRead:
        try:
            if not is_own:
                return (
                    self.slots[job].read((origin, seq)) if job in self.slots else BlockRead(b"", 0, 0, "it is not here")
                )
            place = self.tables[job].place(seq)
            listed = self.tables[job].files[place.file]
            key = (job, "own", listed.path)
            file = self.open_files.get(key)
            if file is None:
                assert self.share is not None
                file = self.open_files.put(key, open_below(self.share, listed.path))
            stat = os.fstat(file)
            data = os.pread(file, place.size_bytes, place.offset)
        except OSError as problem:
            return BlockRead(b"", 0, 0, f"cannot be read: {problem.strerror or problem}")
        if (stat.st_size, stat.st_mtime_ns) != (listed.size_bytes, listed.changed_ns) or len(data) != place.size_bytes:
            return BlockRead(b"", 0, 0, f"{listed.path} was changed while it was collected; collect it again")
        return BlockRead(data, len(data), digest_of_block(data))

    def own_digest(self, job: str, file: int) -> Job:
        assert self.share is not None
        return FileDigestJob(str(self.share), self.tables[job].files[file])

    # What is passed on.

    def keep(self, job: str, origin: NodeId, seq: int, data: bytes, digest: int) -> str:
        if digest_of_block(data) != digest:
            return "its bytes are not those of its digest"
        try:
            if job not in self.slots:
                self.slots[job] = BlockSlots(self.scratch, self.node, self.block_bytes[job])
            self.slots[job].write((origin, seq), data, digest)
        except OSError as problem:
            return f"it cannot be kept here: {problem.strerror}"
        return ""

    def drop(self, job: str, origin: NodeId, seq: int) -> None:
        if job in self.slots:
            self.slots[job].drop((origin, seq))

    # What arrives.

    def why_unsafe(self, path: str) -> str:
        return why_unsafe(path)

    def receive(self, job: str, tables: Mapping[NodeId, BlockTable]) -> dict[NodeId, tuple[NumberRun, ...]] | str:
        if self.into is None:
            return "there is no folder to collect into"
        if len({folder_name(origin) for origin in tables}) < len(tables):
            return "two sources have names that make the same folder; give one of them another name"
        try:
            self.into.mkdir(parents=True, exist_ok=True)
            self.journal = self.journal or Journal(self.into)
            has = {origin: self.receive_from(origin, table) for origin, table in tables.items()}
        except FileExistsError as problem:
            return (
                f"{problem.filename} is there already, and nothing is written over; choose another folder, or --resume"
            )
        except OSError as problem:
            return f"cannot write below {self.into}: {problem.strerror}"
        missing = sum(
            table.files[table.place(seq).file].size_bytes and table.block_bytes
            for origin, table in tables.items()
            for seq in set(range(table.count)) - has[origin]
        )
        free = shutil.disk_usage(self.into).free
        if missing > free:
            return f"{self.into} has {free} bytes free and up to {missing} are needed; free some, then --resume"
        self.receiving[job] = tables
        return {origin: runs_of(numbers) for origin, numbers in has.items()}

    def place_of(self, origin: NodeId, path: str) -> tuple[Path, Path]:
        """Where it is to lie, and where it grows."""
        assert self.into is not None and not why_unsafe(path)
        final = self.into / folder_name(origin) / path
        return final, final.with_name(f"{PART}{final.name}")

    def receive_from(self, origin: NodeId, table: BlockTable) -> set[int]:
        """The numbers of the blocks that are here from the last time, every one of them looked at."""
        assert self.journal is not None
        here: set[int] = set()
        for number, file in enumerate(table.files):
            final, part = self.place_of(origin, file.path)
            self.make_folder(final.parent)
            known = self.journal.known(origin, file, table.block_bytes) if self.is_resumed else None
            blocks = table.of_file(number)
            if known is not None and known[0] and final.is_file() and final.stat().st_size == file.size_bytes:
                here.update(blocks)
                continue
            if os.path.lexists(final):
                raise FileExistsError(errno.EEXIST, "there already", str(final))
            if known is not None and not known[0] and part.is_file() and not part.is_symlink():
                with part.open("rb") as grown:
                    for place, digest in known[1].items():
                        grown.seek(place * table.block_bytes)
                        size = min(table.block_bytes, file.size_bytes - place * table.block_bytes)
                        if 0 <= place < len(blocks) and digest_of_block(grown.read(size)) == digest:
                            here.add(blocks[place])
                continue
            self.journal.begin(origin, file, table.block_bytes)
            part.unlink(missing_ok=True)
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644))
        return here

    def make_folder(self, folder: Path) -> None:
        """None of them may be a link: it could lead anywhere."""
        assert self.into is not None
        here = self.into
        for part in folder.relative_to(self.into).parts:
            here = here / part
            with suppress(FileExistsError):
                here.mkdir()
            if here.is_symlink() or not here.is_dir():
                raise FileExistsError(errno.EEXIST, "no folder", str(here))

    def arrive(self, job: str, origin: NodeId, seq: int, data: bytes, digest: int) -> str:
        table = self.receiving[job][origin]
        place = table.place(seq)
        if len(data) != place.size_bytes or digest_of_block(data) != digest:
            return f"a block of {origin} is not what its digest says"
        path = table.files[place.file].path
        key = (job, "arrives", origin, path)
        try:
            file = self.open_files.get(key)
            if file is None:
                _, part = self.place_of(origin, path)
                file = self.open_files.put(key, os.open(part, os.O_WRONLY | os.O_NOFOLLOW))
            written = os.pwrite(file, data, place.offset)
            if written < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as problem:
            return f"{path} of {origin} cannot be written: {problem.strerror}; mend that, then --resume"
        assert self.journal is not None
        self.journal.add(origin, path, seq - table.firsts[place.file], digest)
        return ""

    def finish(self, job: str, origin: NodeId, file: int, sha256: bytes) -> Job:
        listed = self.receiving[job][origin].files[file]
        self.open_files.close(job, "arrives", origin, listed.path)
        final, part = self.place_of(origin, listed.path)
        return FinishJob(str(part), str(final), sha256, listed.changed_ns)

    def close(self, job: str, is_complete: bool) -> None:
        self.open_files.close(job)
        self.tables.pop(job, None)
        self.block_bytes.pop(job, None)
        if (slots := self.slots.pop(job, None)) is not None:
            slots.close()
        if (tables := self.receiving.pop(job, None)) is None or self.journal is None:
            return
        for origin, table in tables.items():
            for listed in table.files:
                final, part = self.place_of(origin, listed.path)
                if final.is_file() and not part.exists():
                    self.journal.finish(origin, listed.path)
        if is_complete:
            self.journal.remove()
        else:
            self.journal.close()
        self.journal = None
