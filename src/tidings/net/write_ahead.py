"""Whether the write-ahead log of a store is whole, which SQLite does not say.

The problem. What was committed last stands in a log beside the file. Its frames, each a page, have checksums that build
on each other; SQLite reads up to the first that is wrong and takes that for the end, as it is when the power went while
something was written. If a byte of an earlier frame was changed by a disk or by somebody, everything behind it is left
out without a word, though it was committed, and accepted.

The idea. A commit is synced before the next one begins. So a frame that is wrong lies within what was cut off only if
nothing of a later commit is behind it. Each frame holds its own checksum, so those behind a damaged one can be judged
all the same: from what the damaged one says of itself. Where a later commit is found, the log is damaged, and the start
is refused (`storage.py`). Damage in the very last commit looks just like a write that was cut off, and stays unnoticed;
so does a log of which the end is missing.

`applied` is the file with all frames that are whole, for a salvage (`store.py`).

Checksums. Of each pair of words (x, y): `a += x + b; b += y + a`, modulo 2**32. That is a linear map, so a frame is
the sum of its words with weights that are the same for all frames, which numpy adds up at once.

Source: https://www.sqlite.org/fileformat2.html, section 4.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HEADER_BYTES, FRAME_HEADER_BYTES = 32, 24
MAGIC = 0x377F0682
"""The last bit says in which order the bytes of words stand."""
WORD = 2**32
COUNTED_BYTES = 8
"""Of the header of a frame, ahead of the page."""

Sums = tuple[int, int]


class LogFrame(NamedTuple):
    page_number: int
    is_commit: bool
    is_whole: bool
    """Whether it is what was written behind the frame before it."""
    page: bytes


class LogReport(NamedTuple):
    damaged_at: int | None
    """The first frame that is wrong, counted from 1, if something was committed behind it; 0 is the head of the log."""
    frames: list[LogFrame]
    """All that was written since the log was begun anew."""


def log_path(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def examine_log(path: Path) -> LogReport:
    """Of the store at this path, which nobody has open."""
    log = log_path(path)
    data = log.read_bytes() if log.is_file() else b""
    page_bytes = int.from_bytes(data[8:12])
    if len(data) <= HEADER_BYTES or page_bytes < 512 or page_bytes & (page_bytes - 1):
        return LogReport(None if len(data) <= HEADER_BYTES + FRAME_HEADER_BYTES else 0, [])
    is_headed = Checksums(data, 24).of(data[:24], (0, 0)) == sums_at(data, 24)
    first = data[HEADER_BYTES + 8 : HEADER_BYTES + 16]
    frames = list(frames_of(data, page_bytes, data[16:24] if is_headed else first))
    wrong = 0 if not is_headed else next((place + 1 for place, it in enumerate(frames) if not it.is_whole), None)
    return LogReport(wrong if wrong is not None and is_followed(frames[max(0, wrong - 1) :]) else None, frames)


def is_followed(frames: list[LogFrame]) -> bool:
    """Whether something was written behind the commit to which the first of these belongs."""
    ends = next((place for place, frame in enumerate(frames) if frame.is_commit), len(frames))
    return any(frame.is_whole for frame in frames[ends + 1 :])


def frames_of(data: bytes, page_bytes: int, salts: bytes) -> Iterator[LogFrame]:
    size = FRAME_HEADER_BYTES + page_bytes
    checksums, sums = Checksums(data, COUNTED_BYTES + page_bytes), sums_at(data, 24)
    frames = [data[begin : begin + size] for begin in range(HEADER_BYTES, len(data) - size + 1, size)]
    # Behind these is what an earlier log of the same file left; a salt that was damaged is no end.
    last = max((place for place, frame in enumerate(frames) if frame[8:16] == salts), default=-1)
    for frame in frames[: last + 1]:
        page, said = frame[FRAME_HEADER_BYTES:], sums_at(frame, 16)
        is_whole = frame[8:16] == salts and checksums.of(frame[:COUNTED_BYTES] + page, sums) == said
        yield LogFrame(int.from_bytes(frame[:4]), any(frame[4:8]), is_whole, page)
        sums = said


def sums_at(data: bytes, begin: int) -> Sums:
    return int.from_bytes(data[begin : begin + 4]), int.from_bytes(data[begin + 4 : begin + 8])


class Checksums:
    """Of pieces of this length, with the order of bytes that the head of the log says."""

    def __init__(self, head: bytes, size_bytes: int) -> None:
        self.order = ">u4" if int.from_bytes(head[:4]) & 1 else "<u4"
        powers = [(1, 0, 0, 1)]
        for _ in range(size_bytes // 8):
            # One more pair of words: a and b become a + b and a + 2 b, and what the words add is left out here.
            a, b, c, d = powers[-1]
            powers.append(((a + b) % WORD, (a + 2 * b) % WORD, (c + d) % WORD, (c + 2 * d) % WORD))
        self.whole = powers.pop()
        a_of_x, a_of_both, b_of_x, b_of_both = map(array, zip(*reversed(powers), strict=True))
        self.weights = ((a_of_x, a_of_both), (b_of_x, b_of_both))

    def of(self, data: bytes, before: Sums) -> Sums:
        import numpy

        words = numpy.frombuffer(data, self.order).astype(numpy.uint64)
        x = words[::2]
        both = (x + words[1::2]) % WORD
        first, second = before
        added = [int(((of_x * x) % WORD + (of_both * both) % WORD).sum()) for of_x, of_both in self.weights]
        a, b, c, d = self.whole
        return (added[0] + a * first + b * second) % WORD, (added[1] + c * first + d * second) % WORD


def array(row: tuple[int, ...]) -> Any:
    import numpy

    return numpy.array(row, dtype=numpy.uint64)


def applied(file: bytes, frames: list[LogFrame]) -> bytes:
    """The file with what is whole of its log; of a page that is not, what it was before."""
    made = bytearray(file)
    for frame in frames:
        if frame.is_whole and frame.page_number:
            begin = (frame.page_number - 1) * len(frame.page)
            if len(made) < begin + len(frame.page):
                made.extend(bytes(begin + len(frame.page) - len(made)))
            made[begin : begin + len(frame.page)] = frame.page
    return bytes(made)
