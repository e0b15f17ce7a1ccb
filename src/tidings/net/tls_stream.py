"""TLS on one connection: bytes of TCP on one side, frames of a `Connection` on the other.

asyncio can do this by itself, but keeps a buffer of a quarter of a megabyte for each connection, and hands a connection
over only when the handshake is finished; until then nobody counts it, and a host that stops cannot close it. Here a
connection is its owner's from the first packet on, and an idle one costs what OpenSSL keeps of it.

To TCP this is the protocol, to the `Connection` it is the transport. What arrives goes through OpenSSL in pieces of one
record, since its buffers keep the size that they once had; in the same way what leaves. Nothing is said to the
`Connection` before the handshake is over, and then as if the connection were made at that moment.

OpenSSL keeps tens of kilobytes for each connection from its beginning on. So where we are called it begins when the
first record of the caller is whole; whoever calls and says nothing costs no more than without TLS.

The end. Either side may close without TLS's own goodbye: frames have their own (`wire.handshake.Goodbye`), and bytes
that end elsewhere are reported as a lost connection.
"""

import asyncio
import errno
import os
import ssl
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from tidings.net.connection import Connection

PIECE_BYTES = 16 * 1024
"""What one record of TLS carries."""

RECORD_HEAD_BYTES = 5
HANDSHAKE = 22
"""The kind of record with which a caller begins (RFC 8446, section 5.1)."""

OPENING_RECORD_BYTES_MAX = 8 * 1024
"""A longer one is not waited for: OpenSSL may have it as it comes."""


class TlsStream(asyncio.Transport, asyncio.BufferedProtocol):
    """`secured` is done when the handshake is, or has failed: then it raises why. `buffer` is for what arrives, and may
    be shared, since it is empty again when a call returns."""

    def __init__(
        self,
        context: ssl.SSLContext,
        connection: "Connection",
        buffer: memoryview,
        loop: asyncio.AbstractEventLoop,
        server_name: str | None,
    ) -> None:
        """`server_name` is whom we call; None where we are called."""
        super().__init__()
        self.connection, self.buffer = connection, buffer
        self.context, self.server_name = context, server_name
        self.opening = b""
        """What has arrived of the first record."""
        self.incoming: ssl.MemoryBIO
        self.outgoing: ssl.MemoryBIO
        self.ssl_object: ssl.SSLObject | None = None
        self.secured: asyncio.Future[None] = loop.create_future()
        # Where we are called nobody waits for it.
        self.secured.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.tcp: asyncio.Transport
        self.is_handshaking, self.is_paused = True, False

    # To TCP: a protocol.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.tcp = cast(asyncio.Transport, transport)
        self.connection.connected(self)
        if self.server_name is not None and not self.tcp.is_closing():
            self.begin(self.server_name or None)
            self.shake_hands()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        arrived = bytes(self.buffer[:nbytes])
        if self.ssl_object is None:
            arrived, self.opening = self.opening + arrived, b""
            if not is_whole(arrived):
                self.opening = arrived
                return
            self.begin(None)
        for place in range(0, len(arrived), PIECE_BYTES):
            self.incoming.write(arrived[place : place + PIECE_BYTES])
            if self.is_handshaking:
                self.shake_hands()
            else:
                self.hand_on()
            if self.tcp.is_closing():
                return

    def eof_received(self) -> None:
        if self.is_handshaking:
            self.fail(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))
        else:
            self.connection.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        if self.is_handshaking:
            self.fail(error or ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))
        self.connection.connection_lost(error)

    def pause_writing(self) -> None:
        self.connection.pause_writing()

    def resume_writing(self) -> None:
        self.connection.resume_writing()

    # In between.

    def begin(self, server_name: str | None) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.ssl_object = self.context.wrap_bio(
            self.incoming, self.outgoing, server_side=self.server_name is None, server_hostname=server_name
        )

    def shake_hands(self) -> None:
        assert self.ssl_object is not None
        try:
            self.ssl_object.do_handshake()
        except ssl.SSLWantReadError:
            self.send_outgoing()
            return
        except ssl.SSLError as problem:
            # What is wrong is told in an alert.
            self.send_outgoing()
            self.fail(problem)
            return
        self.send_outgoing()
        self.is_handshaking = False
        if not self.secured.done():
            self.secured.set_result(None)
        self.connection.connection_made(self)
        self.hand_on()

    def fail(self, problem: Exception) -> None:
        self.is_handshaking = False
        if not self.secured.done():
            self.secured.set_exception(problem)
        self.connection.not_secured(problem)
        self.tcp.abort()

    def hand_on(self) -> None:
        """What has arrived and is whole."""
        assert self.ssl_object is not None
        while not self.is_paused and not self.tcp.is_closing():
            try:
                count = cast(int, self.ssl_object.read(len(self.buffer), self.buffer))
            except ssl.SSLWantReadError:
                # Reading may have to answer, such as with new keys.
                self.send_outgoing()
                return
            except ssl.SSLError:
                # Not what the other end sent, or its goodbye in the words of TLS.
                self.connection.eof_received()
                self.tcp.abort()
                return
            if not count:
                self.connection.eof_received()
                self.close()
                return
            self.connection.arrived(bytes(self.buffer[:count]))

    def send_outgoing(self) -> None:
        if self.outgoing.pending:
            self.tcp.write(self.outgoing.read())

    # To the connection: a transport.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_handshaking or self.tcp.is_closing():
            return
        assert self.ssl_object is not None
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self.ssl_object.write(rest[:PIECE_BYTES]) :]
                self.send_outgoing()
        except ssl.SSLError:
            self.tcp.abort()

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        """What was written still goes out."""
        if self.is_handshaking:
            self.tcp.abort()
        else:
            self.tcp.close()

    def abort(self) -> None:
        self.tcp.abort()

    def is_closing(self) -> bool:
        return self.tcp.is_closing()

    def pause_reading(self) -> None:
        self.is_paused = True
        self.tcp.pause_reading()

    def resume_reading(self) -> None:
        self.is_paused = False
        if self.ssl_object is not None and not self.is_handshaking:
            self.hand_on()
        if not self.is_paused and not self.tcp.is_closing():
            self.tcp.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.tcp.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.ssl_object if name == "ssl_object" else self.tcp.get_extra_info(name, default)


def is_whole(opening: bytes) -> bool:
    """Whether this begins with a whole record, or with something that is none and never will be."""
    if len(opening) < RECORD_HEAD_BYTES:
        return False
    kind, size_bytes = opening[0], int.from_bytes(opening[3:RECORD_HEAD_BYTES], "big")
    return kind != HANDSHAKE or size_bytes > OPENING_RECORD_BYTES_MAX or len(opening) >= RECORD_HEAD_BYTES + size_bytes
