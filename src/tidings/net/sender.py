"""From a message to the queue of a stream, or to the reason why it was dropped.

A message is encoded once, however many peers it goes to one after the other. Without a stream it waits for the call
that is under way, or causes one; `dialer.py` says when a peer may be called.

A stream has no holes. A message that it cannot take, because its queue is full or the peer reads no frame of that
length, ends it: what waits in the queue still goes out, in order, with a goodbye behind it. If it was a link, both ends
hear `LinkDown`, and their protocols do what they do when a link breaks. To leave the one message out and go on would be
worse, since nobody would be told. In the same way, when too much waits for a call, all of it is dropped, and a
`Connect` that waits with it is answered by `LinkDown`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tidings.machine.effects import BROADCAST
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.net import counts as reasons
from tidings.net.connection import CONTROL, Cause, Connection, ConnectionStage
from tidings.net.dialer import Dial
from tidings.net.world import HostWorld
from tidings.wire.frames import HEAD_BYTES, frame
from tidings.wire.registry import decode, encode


class Posting:
    """`up` are the streams there are, `dials` the peers that can be called; both belong to `Links`. `overfull(dial)` is
    called when too much waited for a call, and was dropped."""

    def __init__(
        self,
        world: HostWorld,
        up: Mapping[NodeId, Connection],
        dials: Mapping[NodeId, Dial],
        overfull: Callable[[Dial], None],
    ) -> None:
        self.world, self.counts, self.up, self.dials, self.overfull = world, world.counts, up, dials, overfull
        self.latest_message: Any = None
        self.latest_frame = b""

    def send(self, to: NodeId, message: Any) -> None:
        if to == BROADCAST:
            self.world.lost(to, message, reasons.NO_BROADCAST)
            return
        if message is not self.latest_message:
            try:
                self.latest_frame = frame(encode(message))
            except UsageError as problem:
                self.latest_message = None
                self.world.log.error("message without bytes", message=type(message).__name__, problem=str(problem))
                self.world.lost(to, message, reasons.NO_BYTES)
                return
            self.latest_message = message
        stream = self.up.get(to)
        if stream is not None:
            self.put(stream, self.latest_frame)
        else:
            self.send_without_stream(to, message, self.latest_frame)

    def put(self, stream: Connection, framed: bytes) -> None:
        if len(framed) > stream.frame_bytes_max + HEAD_BYTES:
            self.break_off(stream, framed, reasons.TOO_LARGE)
        elif stream.outbox.put(framed):
            self.counts.stream_messages_sent += 1
            self.counts.stream_bytes_sent += len(framed)
        else:
            self.break_off(stream, framed, reasons.QUEUE_FULL)

    def break_off(self, stream: Connection, framed: bytes, reason: str) -> None:
        self.lose(stream.peer, framed, reason)
        stream.end(Cause.UNSENT, reason)

    def send_without_stream(self, to: NodeId, message: Any, framed: bytes) -> None:
        dial = self.dials.get(to)
        if dial is None:
            self.world.lost(to, message, reasons.NO_ADDRESS)
        elif not dial.is_under_way and not dial.begin():
            self.world.lost(to, message, reasons.NO_LINK)
        elif not dial.waiting.put(framed):
            self.world.lost(to, message, reasons.QUEUE_FULL)
            self.drop_waiting(dial, reasons.QUEUE_FULL)
            self.overfull(dial)

    def send_waiting(self, dial: Dial, stream: Connection) -> None:
        """The call succeeded."""
        # What was said in the handshake must not count as waiting messages.
        stream.outbox.flush()
        for framed in dial.waiting.take_all():
            if stream.stage is ConnectionStage.ENDED:
                self.lose(stream.peer, framed, reasons.LINK_DOWN)
            else:
                self.put(stream, framed)

    def drop_waiting(self, dial: Dial, reason: str) -> None:
        for framed in dial.waiting.take_all():
            self.lose(dial.peer, framed, reason)

    def lose(self, to: NodeId, framed: bytes, reason: str) -> None:
        message = decode(framed[HEAD_BYTES:])
        if type(message) not in CONTROL:
            self.world.lost(to, message, reason)
