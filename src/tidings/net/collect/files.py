"""Whole files, read beside the loop: what their SHA-256 is, and the last step of one that has arrived."""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from tidings.machine.effects import Job
from tidings.net.collect.paths import open_below
from tidings.protocols.collect.messages import SharedFile

PIECE_BYTES = 1024 * 1024


def sha256_of_file(file: int) -> bytes:
    digest = hashlib.sha256()
    place = 0
    while piece := os.pread(file, PIECE_BYTES, place):
        digest.update(piece)
        place += len(piece)
    return digest.digest()


class FileDigestJob(Job, frozen=True):
    """Of a file that is shared; a sentence where it is not what was listed any more."""

    share: str
    file: SharedFile

    def run(self) -> bytes | str:
        try:
            opened = open_below(Path(self.share), self.file.path)
        except OSError as problem:
            return f"{self.file.path} cannot be read: {problem.strerror or problem}"
        try:
            digest = sha256_of_file(opened)
            stat = os.fstat(opened)
        finally:
            os.close(opened)
        if (stat.st_size, stat.st_mtime_ns) != (self.file.size_bytes, self.file.changed_ns):
            return f"{self.file.path} was changed while it was collected; collect it again"
        return digest


class FinishJob(Job, frozen=True):
    """Compare, and give it its name; its SHA-256, or a sentence where that cannot be."""

    part: str
    final: str
    sha256: bytes
    changed_ns: int

    def run(self) -> bytes | str:
        try:
            return self.finish()
        except OSError as problem:
            return f"{self.final} cannot be written: {problem.strerror}"

    def finish(self) -> bytes | str:
        is_there = not os.path.exists(self.part) and os.path.isfile(self.final)
        file = os.open(self.final if is_there else self.part, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            found = sha256_of_file(file)
            is_right = not self.sha256 or found == self.sha256
            if is_right and not is_there:
                os.fsync(file)
        finally:
            os.close(file)
        if not is_right:
            if not is_there:
                os.unlink(self.part)
            return "is not what its source says it is; collect it again"
        if is_there:
            return found
        with suppress(OSError):
            os.utime(self.part, ns=(self.changed_ns, self.changed_ns))
        try:
            # A link fails where the name is taken, which renaming does not.
            os.link(self.part, self.final)
        except FileExistsError:
            return f"{self.final} came to be there meanwhile, and is not written over"
        os.unlink(self.part)
        return found
