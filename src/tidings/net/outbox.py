"""What waits to be sent to one peer.

What waits to be sent is bounded, and written in one piece per turn of the loop: a machine that answers a hundred
messages in one turn causes one write, not a hundred. When the peer does not read, its transport says so (`pause`); from
then on frames wait in the `Outbox`, and when its bound is reached the newest is refused. Frames may be put in before
there is a connection. They wait under the same bound until one is attached.
"""

import asyncio
from collections import deque

from tidings.net.params import HostParams


class Outbox:
    def __init__(self, loop: asyncio.AbstractEventLoop, params: HostParams) -> None:
        self.loop = loop
        self.messages_max, self.bytes_max = params.queue_messages_max, params.queue_bytes_max
        self.piece_bytes = params.write_buffer_bytes
        self.frames: deque[bytes] = deque()
        self.size_bytes = 0
        self.transport: asyncio.WriteTransport | None = None
        self.is_paused = False
        self.is_scheduled = False
        self.has_written = False
        """Whether anything went out since somebody last set this to False."""

    def put(self, frame: bytes) -> bool:
        """Whether there was room for it."""
        if len(self.frames) >= self.messages_max or self.size_bytes + len(frame) > self.bytes_max:
            return False
        self.frames.append(frame)
        self.size_bytes += len(frame)
        if not self.is_scheduled and self.transport is not None and not self.is_paused:
            self.is_scheduled = True
            self.loop.call_soon(self.flush)
        return True

    def attach(self, transport: asyncio.WriteTransport) -> None:
        self.transport = transport
        self.flush()

    def flush(self) -> None:
        self.is_scheduled = False
        while self.frames and not self.is_paused and self.transport is not None:
            if self.size_bytes <= self.piece_bytes:
                piece = b"".join(self.frames)
                self.frames.clear()
            else:
                piece = self.first_piece()
            self.size_bytes -= len(piece)
            self.transport.write(piece)
            self.has_written = True

    def first_piece(self) -> bytes:
        """As much as one write should have."""
        taken: list[bytes] = []
        room = self.piece_bytes
        while self.frames and (not taken or len(self.frames[0]) <= room):
            frame = self.frames.popleft()
            room -= len(frame)
            taken.append(frame)
        return b"".join(taken)

    def take_all(self) -> list[bytes]:
        """Give up what waits: nobody will send it any more."""
        frames = list(self.frames)
        self.frames.clear()
        self.size_bytes = 0
        return frames

    def finish(self, last: bytes) -> None:
        """Hand everything that waits, and `last` behind it, to the transport at once: the connection ends."""
        if self.transport is not None:
            self.transport.write(b"".join([*self.take_all(), last]))
