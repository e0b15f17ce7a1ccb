"""What waits for one peer: bounded in number and in bytes, written once per turn of the loop."""

import asyncio
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.sockets import play
from tidings.model.bounds import FRAME_BYTES_MAX
from tidings.net.outbox import Outbox
from tidings.net.params import HostParams


class Pipe:
    """Takes what is written; says `pause` to the outbox when it holds more than `high` bytes."""

    def __init__(self, outbox: Outbox, high: int) -> None:
        self.outbox, self.high = outbox, high
        self.written: list[bytes] = []
        self.held = 0

    def write(self, data: bytes) -> None:
        self.written.append(data)
        self.held += len(data)
        if self.held > self.high:
            self.outbox.is_paused = True

    def drain(self) -> None:
        self.held = 0
        self.outbox.is_paused = False
        self.outbox.flush()


def make_outbox(**params: Any) -> Outbox:
    return Outbox(asyncio.get_running_loop(), HostParams(**params))


def test_what_is_put_in_one_turn_is_written_in_one_piece() -> None:
    async def scenario() -> list[bytes]:
        outbox = make_outbox()
        pipe = Pipe(outbox, 10_000)
        outbox.attach(cast(asyncio.WriteTransport, pipe))
        for letter in b"abc":
            assert outbox.put(bytes([letter]))
        assert pipe.written == []
        await asyncio.sleep(0)
        outbox.put(b"d")
        await asyncio.sleep(0)
        return pipe.written

    assert play(scenario()) == [b"abc", b"d"]


def test_the_bounds_hold_in_messages_and_in_bytes() -> None:
    async def scenario() -> None:
        few = make_outbox(queue_messages_max=3)
        assert [few.put(b"x") for _ in range(5)] == [True, True, True, False, False]
        size_bytes = FRAME_BYTES_MAX + 4
        small = make_outbox(queue_bytes_max=size_bytes)
        assert small.put(bytes(size_bytes - 1))
        assert not small.put(b"xy")
        assert small.put(b"x")
        assert small.size_bytes == size_bytes

    play(scenario())


@given(
    sizes=st.lists(st.integers(1, 3000), max_size=60),
    piece_bytes=st.integers(1, 4000),
    drains=st.lists(st.booleans(), max_size=60),
)
def test_frames_leave_in_order_and_whole_however_the_peer_reads(
    sizes: list[int], piece_bytes: int, drains: list[bool]
) -> None:
    async def scenario() -> None:
        outbox = make_outbox(write_buffer_bytes=piece_bytes)
        pipe = Pipe(outbox, piece_bytes)
        frames = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
        outbox.put(b"before there was a connection")
        outbox.attach(cast(asyncio.WriteTransport, pipe))
        for number, framed in enumerate(frames):
            assert outbox.put(framed)
            assert outbox.size_bytes == sum(map(len, outbox.frames))
            if number < len(drains) and drains[number]:
                await asyncio.sleep(0)
                pipe.drain()
        await asyncio.sleep(0)
        while outbox.frames:
            pipe.drain()
        assert b"".join(pipe.written) == b"before there was a connection" + b"".join(frames)
        largest = max([29, *sizes])
        assert all(len(piece) <= max(piece_bytes, largest) for piece in pipe.written)

    play(scenario())
