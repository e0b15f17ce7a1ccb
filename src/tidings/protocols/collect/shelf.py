"""Where blocks are: the files that a host shares, what it holds for others, and what arrives for it.

A machine opens no files. It is given a *shelf*: in the simulator a dictionary, on a host a folder (`net/collect`). All
that a shelf says is an answer, never an exception: what cannot be read has a reason.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from hashlib import sha256 as sha256_of
from typing import Protocol

import msgspec
from xxhash import xxh3_64_intdigest

from tidings.machine.effects import Job
from tidings.model.identity import NodeId
from tidings.protocols.collect.messages import SharedFile
from tidings.protocols.collect.runs import NumberRun, runs_of


def digest_of_block(data: bytes) -> int:
    """As a signed number, which every codec takes."""
    return xxh3_64_intdigest(data) - 2**63


class BlockRead(msgspec.Struct, frozen=True):
    data: bytes
    size_bytes: int
    digest: int
    problem: str = ""


class BlockPlace(msgspec.Struct, frozen=True):
    file: int
    offset: int
    size_bytes: int


class BlockTable:
    """The blocks of a list of files, numbered from the first block of the first file on."""

    def __init__(self, files: tuple[SharedFile, ...], block_bytes: int) -> None:
        self.files, self.block_bytes = files, block_bytes
        self.firsts: list[int] = []
        count = 0
        for file in files:
            self.firsts.append(count)
            count += -(-file.size_bytes // block_bytes)
        self.count = count

    def of_file(self, file: int) -> range:
        end = self.firsts[file + 1] if file + 1 < len(self.firsts) else self.count
        return range(self.firsts[file], end)

    def place(self, seq: int) -> BlockPlace:
        low, high = 0, len(self.files) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self.firsts[middle] <= seq:
                low = middle
            else:
                high = middle - 1
        # Files without a block share their first number with the file behind them, which is the one found.
        offset = (seq - self.firsts[low]) * self.block_bytes
        return BlockPlace(low, offset, min(self.block_bytes, self.files[low].size_bytes - offset))


class BlockShelf(Protocol):
    def shared(self, patterns: tuple[str, ...]) -> tuple[SharedFile, ...] | str:
        """The files here that match, in the order of their names; or why they cannot be told."""
        ...

    def offer(self, job: str, table: BlockTable) -> str:
        """These files are to be sent; why they cannot be, if so."""
        ...

    def read(self, job: str, origin: NodeId, seq: int, is_own: bool) -> BlockRead: ...

    def keep(self, job: str, origin: NodeId, seq: int, data: bytes, digest: int) -> str:
        """A block of somebody, to be passed on; why it cannot be kept, if so."""
        ...

    def drop(self, job: str, origin: NodeId, seq: int) -> None: ...

    def why_unsafe(self, path: str) -> str:
        """Why no file of this name is taken from anybody; empty where one is."""
        ...

    def receive(self, job: str, tables: Mapping[NodeId, BlockTable]) -> dict[NodeId, tuple[NumberRun, ...]] | str:
        """Files are to arrive from these origins; which blocks are here already, or why they cannot arrive."""
        ...

    def arrive(self, job: str, origin: NodeId, seq: int, data: bytes, digest: int) -> str: ...

    def own_digest(self, job: str, file: int) -> Job:
        """Comes to the SHA-256 of a file that is sent, or to a sentence that says why not."""
        ...

    def finish(self, job: str, origin: NodeId, file: int, sha256: bytes) -> Job:
        """Comes to the SHA-256 of the file that arrived, which lies in its place then, or to a sentence that says why
        it does not. Where the one that is wanted is empty any is right."""
        ...

    def close(self, job: str, is_complete: bool) -> None:
        """Nothing of it is needed any more; what arrived stays where it can be gone on with."""
        ...


class SaidJob(Job, frozen=True):
    """What is known at once."""

    said: bytes | str

    def run(self) -> bytes | str:
        return self.said


class MemoryShelf:
    """Files and blocks in memory. `is_hollow` is for large runs: blocks have a size and no bytes."""

    def __init__(self, files: Mapping[str, bytes] | None = None, sizes: Mapping[str, int] | None = None) -> None:
        self.files = dict(files or {})
        self.sizes = dict(sizes or {})
        self.is_hollow = not self.files and sizes is not None
        self.offered: dict[str, BlockTable] = {}
        self.held: dict[tuple[str, NodeId, int], tuple[bytes, int]] = {}
        self.receiving: dict[str, Mapping[NodeId, BlockTable]] = {}
        self.arrived: dict[tuple[str, NodeId], dict[int, bytes]] = {}
        self.finished: dict[tuple[NodeId, str], bytes] = {}

    def shared(self, patterns: tuple[str, ...]) -> tuple[SharedFile, ...] | str:
        known = self.sizes or {path: len(data) for path, data in self.files.items()}
        return tuple(
            SharedFile(path, size)
            for path, size in sorted(known.items())
            if any(fnmatchcase(path, pattern) for pattern in patterns)
        )

    def offer(self, job: str, table: BlockTable) -> str:
        known = self.sizes or self.files
        if missing := [file.path for file in table.files if file.path not in known]:
            return f"there is no {missing[0]!r} here"
        self.offered[job] = table
        return ""

    def read(self, job: str, origin: NodeId, seq: int, is_own: bool) -> BlockRead:
        if not is_own:
            data, digest = self.held.get((job, origin, seq), (None, 0))
            return BlockRead(b"", 0, 0, "it is not here") if data is None else BlockRead(data, len(data), digest)
        place = self.offered[job].place(seq)
        file = self.offered[job].files[place.file]
        if self.is_hollow:
            return BlockRead(b"", place.size_bytes, 0)
        whole = self.files.get(file.path, b"")
        if len(whole) != file.size_bytes:
            return BlockRead(b"", 0, 0, f"{file.path} was changed while it was sent")
        data = whole[place.offset : place.offset + place.size_bytes]
        return BlockRead(data, len(data), digest_of_block(data))

    def keep(self, job: str, origin: NodeId, seq: int, data: bytes, digest: int) -> str:
        if data and digest_of_block(data) != digest:
            return "its bytes are not those of its digest"
        self.held[job, origin, seq] = data, digest
        return ""

    def drop(self, job: str, origin: NodeId, seq: int) -> None:
        self.held.pop((job, origin, seq), None)

    def why_unsafe(self, path: str) -> str:
        return "leads out of its folder" if ".." in path.split("/") or path.startswith("/") else ""

    def receive(self, job: str, tables: Mapping[NodeId, BlockTable]) -> dict[NodeId, tuple[NumberRun, ...]] | str:
        self.receiving[job] = tables
        for origin in tables:
            self.arrived.setdefault((job, origin), {})
        return {origin: runs_of(self.arrived[job, origin]) for origin in tables}

    def arrive(self, job: str, origin: NodeId, seq: int, data: bytes, digest: int) -> str:
        if data and digest_of_block(data) != digest:
            return "its bytes are not those of its digest"
        self.arrived[job, origin][seq] = data
        return ""

    def own_digest(self, job: str, file: int) -> Job:
        path = self.offered[job].files[file].path
        return SaidJob(sha256_of(self.files.get(path, b"")).digest())

    def finish(self, job: str, origin: NodeId, file: int, sha256: bytes) -> Job:
        table, blocks = self.receiving[job][origin], self.arrived[job, origin]
        data = b"".join(blocks[seq] for seq in table.of_file(file))
        found = sha256_of(data).digest()
        if sha256 and found != sha256:
            return SaidJob("it is not what its source says it is")
        self.finished[origin, table.files[file].path] = data
        return SaidJob(found)

    def close(self, job: str, is_complete: bool) -> None:
        self.offered.pop(job, None)
        for key in [key for key in self.held if key[0] == job]:
            del self.held[key]
