"""From TCP to TLS, with a connection that is ours from its first packet on.

asyncio can do the handshake by itself, but hands a connection over only when that is finished. Until then nobody counts
it, and a host that stops cannot close it. Here TCP comes first and the handshake is a step of its own, which `abort`
ends at any time. What the peer says right behind its handshake may arrive before we hear that the handshake is over; it
is kept, and handed on.
"""

import asyncio
import errno
import os
import ssl
from typing import Protocol, cast

from tidings.net.connection import Connection


class Upgrader(Protocol):
    """Who keeps the connections that are on their way to TLS."""

    def upgrade_begun(self, upgrade: "TlsUpgrade") -> None: ...

    def upgrade_over(self, upgrade: "TlsUpgrade") -> None: ...


class TlsUpgrade(asyncio.Protocol):
    def __init__(self, context: ssl.SSLContext, timeout: float, connection: Connection, owner: Upgrader) -> None:
        self.context, self.timeout, self.connection, self.owner = context, timeout, connection, owner
        self.transport: asyncio.Transport
        self.early: list[bytes] = []
        self.is_lost = False
        self.task: asyncio.Task[None] | None = None
        """Where we were called: what does the handshake."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        # All that comes is for TLS.
        self.transport.pause_reading()
        self.owner.upgrade_begun(self)

    def data_received(self, data: bytes) -> None:
        self.early.append(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        self.owner.upgrade_over(self)

    def abort(self) -> None:
        self.transport.abort()

    async def finish(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do the handshake, and hand the connection over; raises OSError where it fails."""
        secured: asyncio.Transport | None = None
        try:
            if not self.transport.is_closing():
                secured = await loop.start_tls(
                    self.transport,
                    self,
                    self.context,
                    server_side=self.connection.calling is None,
                    server_hostname=None if self.connection.calling is None else "",
                    ssl_handshake_timeout=self.timeout,
                )
            if secured is None or self.is_lost:
                raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        except BaseException:
            self.transport.abort()
            raise
        finally:
            self.owner.upgrade_over(self)
        secured.set_protocol(self.connection)
        self.connection.connection_made(secured)
        for data in self.early:
            self.connection.arrived(data)
