"""A stream of bytes cut into frames.

A stream has no marks of its own, so each message travels in a frame: four bytes that say how long the body is (most
significant first), then the body. Whoever reads must not trust that length. A frame longer than the bound, or an empty
one, is refused as soon as its first four bytes are there, and the stream is given up: after a wrong length nobody can
say where the next frame begins. The frames before it are good, and are handed on first.

Before two nodes know each other they exchange one small frame each (`handshake.py`), so the first frame of a stream may
have a much smaller bound: it is all that a stranger can make us hold. A body that comes in pieces grows with what has
arrived, not with what was announced, and is handed on without a copy. So a reader holds less than twice the bound at
any time, what it returns included, as long as the pieces are short beside the bound.
"""

import struct
from io import BytesIO

from tidings.model.bounds import FRAME_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.wire.codec import BadFrame

HEAD_BYTES = 4
HEAD = struct.Struct(">I")


def frame(body: bytes) -> bytes:
    if not 0 < len(body) <= FRAME_BYTES_MAX:
        raise UsageError(f"body of {len(body)} bytes, a frame takes 1 to {FRAME_BYTES_MAX}; split what it carries")
    return HEAD.pack(len(body)) + body


class FrameReader:
    """Feed it whatever arrives, in pieces of any length; it returns the bodies that are complete.

    When a wrong length has come, `problem` says so: the bodies before it have been returned, and nothing follows them.
    Whoever feeds on all the same gets it as `BadFrame`.
    """

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX, opening_bytes_max: int | None = None) -> None:
        """`opening_bytes_max` bounds the first frame where that is to be smaller."""
        self.frame_bytes_max = frame_bytes_max
        self.bytes_max = frame_bytes_max if opening_bytes_max is None else opening_bytes_max
        self.head = b""
        self.body: BytesIO | None = None
        self.missing_bytes = 0
        self.problem: str | None = None
        self.rest = b""
        """What came with the frame that is too long, itself included: it may be allowed before anybody minds."""

    def feed(self, data: bytes) -> list[bytes]:
        if self.can_go_on:
            data, self.rest, self.problem = self.rest + data, b"", None
        if self.problem is not None:
            raise BadFrame(self.problem)
        frames: list[bytes] = []
        place, end = 0, len(data)
        try:
            if self.body is not None or self.head:
                place = self.go_on(data, frames)
            while end - place >= HEAD_BYTES:
                (size_bytes,) = HEAD.unpack_from(data, place)
                place += HEAD_BYTES
                if place + size_bytes <= end and 0 < size_bytes <= self.bytes_max:
                    frames.append(bytes(data[place : place + size_bytes]))
                    self.bytes_max = self.frame_bytes_max
                    place += size_bytes
                else:
                    self.begin(size_bytes, data[place:])
                    place += self.fill(data[place:], frames)
            self.head += bytes(data[place:])
        except BadFrame as bad:
            self.problem = bad.reason
        return frames

    def go_on(self, data: bytes, frames: list[bytes]) -> int:
        """With what an earlier piece began; how many bytes belong to it."""
        if self.body is not None:
            return self.fill(data, frames)
        place = min(HEAD_BYTES - len(self.head), len(data))
        self.head += bytes(data[:place])
        if len(self.head) < HEAD_BYTES:
            return place
        self.begin(HEAD.unpack(self.head)[0], data[place:])
        return place + self.fill(data[place:], frames)

    def widen(self, frame_bytes_max: int) -> None:
        """Frames may be that long from now on, those that have arrived too."""
        self.frame_bytes_max = self.bytes_max = frame_bytes_max

    @property
    def can_go_on(self) -> bool:
        """Whether a problem there was is none any more."""
        return len(self.rest) >= HEAD_BYTES and HEAD.unpack_from(self.rest)[0] <= self.bytes_max

    def begin(self, size_bytes: int, rest: bytes) -> None:
        """A frame of this length follows, in this piece and others."""
        if not 0 < size_bytes <= self.bytes_max:
            self.head, self.rest = b"", HEAD.pack(size_bytes) + rest if size_bytes else b""
            raise BadFrame(
                "an empty frame"
                if size_bytes == 0
                else f"a frame of {size_bytes} bytes, at most {self.bytes_max} are allowed here"
            )
        self.head = b""
        self.body, self.missing_bytes = BytesIO(), size_bytes

    def fill(self, data: bytes, frames: list[bytes]) -> int:
        """Take what belongs to the frame that has begun; how many bytes that were."""
        assert self.body is not None
        taken = self.body.write(data[: self.missing_bytes])
        self.missing_bytes -= taken
        if self.missing_bytes == 0:
            frames.append(self.body.getvalue())
            self.body = None
            self.bytes_max = self.frame_bytes_max
        return taken

    @property
    def is_between_frames(self) -> bool:
        """Whether a stream that ends now ends cleanly."""
        return self.body is None and not self.head
