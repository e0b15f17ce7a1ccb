"""Who may talk to us, and who may listen: TLS between nodes.

Every node has a certificate, signed by an authority that all nodes of the network trust, and asks the other end for its
own: both know whom they talk to. The names in a certificate (DNS names, common name) are names of nodes, and the name
in a Hello must be one of them; otherwise any node of the network could pass for any other. Addresses do not matter.

Without TLS anyone on the path can read and write. A host therefore speaks plain TCP on the loopback interface only,
unless it is told `insecure=True`. Datagrams are never encrypted: outside loopback they too need `insecure=True`.

asyncio can do the handshake by itself, but hands a connection over only when that is finished. Until then nobody counts
it, and a host that stops cannot close it. So TCP comes first here, with a connection that is ours from its first packet
on, and the handshake is a step of its own, which `abort` ends at any time. What the peer says right behind its
handshake may arrive before we hear that the handshake is over; it is kept, and handed on.
"""

import asyncio
import errno
import ipaddress
import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.net.errors import HostError
from tidings.protocols.access.judge import principal_of

if TYPE_CHECKING:
    from tidings.net.connection import Connection

Address = tuple[str, int]
"""Host name or IP address, and port."""

LOCALHOST = "localhost"


class Tls(msgspec.Struct, frozen=True):
    """The two ends that a node can be: called and calling. `Tls.from_files` makes both from the usual three files."""

    server: ssl.SSLContext
    client: ssl.SSLContext

    @classmethod
    def from_files(cls, certificate: str | Path, key: str | Path, authority: str | Path) -> "Tls":
        """PEM files: our certificate, its private key, and the certificate of the authority that signs for all."""
        contexts = []
        for protocol in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT):
            context = ssl.SSLContext(protocol)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            # Names are those of nodes, and are compared with the Hello.
            context.check_hostname = False
            context.verify_mode = ssl.CERT_REQUIRED
            load(context, certificate, key, authority)
            contexts.append(context)
        return cls(*contexts)


def load(context: ssl.SSLContext, certificate: str | Path, key: str | Path, authority: str | Path) -> None:
    for file in (certificate, key, authority):
        try:
            Path(file).read_bytes()
        except OSError as problem:
            raise HostError(f"cannot read {file} for TLS: {problem.strerror}; check the name and its rights") from None
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as problem:
        raise HostError(
            f"{certificate} and {key} are not usable for TLS ({problem.reason or problem}): a certificate and the "
            "private key that belongs to it are needed, both as PEM"
        ) from None
    try:
        context.load_verify_locations(authority)
    except ssl.SSLError as problem:
        raise HostError(f"{authority} is no certificate of an authority as PEM ({problem.reason or problem})") from None


def why_not_this_peer(ssl_object: Any, node: NodeId) -> str:
    """Why the certificate of the other end does not let it be `node`; empty if it does, or if there is no TLS."""
    if ssl_object is None:
        return ""
    certificate = ssl_object.getpeercert() or {}
    names = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"]
    names += [value for part in certificate.get("subject", ()) for kind, value in part if kind == "commonName"]
    # Several clients of one principal share its certificate, and have something behind its name.
    if node in names or principal_of(node) in names:
        return ""
    return f"the certificate is for {', '.join(sorted(set(names))) or 'nobody'}, not for {node}"


def is_loopback(host: str) -> bool:
    if host == LOCALHOST:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_address(call: str, address: Address) -> None:
    """UsageError where no socket could be connected to such a thing."""
    host, port = address
    try:
        host.encode("idna")
    except UnicodeError:
        raise UsageError(f"{call}: {host!r} is no name of a host") from None
    if not host or not 0 < port < 2**16:
        raise UsageError(f"{call}: {host!r}, {port!r} is no address; give the host's name and a port up to 65535")


def check_permitted(host: str, port: int, tls: Tls | None, insecure: bool) -> None:
    """HostError where plain TCP would leave the machine without having been asked for."""
    if tls is None and not insecure and not is_loopback(host):
        raise HostError(
            f"{host or '*'}:{port} without TLS: anybody on the way could read and write; give tls=Tls.from_files(...), "
            "or say insecure=True"
        )


class Upgrader(Protocol):
    """Who keeps the connections that are on their way to TLS."""

    def upgrade_begun(self, upgrade: "TlsUpgrade") -> None: ...

    def upgrade_over(self, upgrade: "TlsUpgrade") -> None: ...


class TlsUpgrade(asyncio.Protocol):
    def __init__(self, context: ssl.SSLContext, timeout: float, connection: "Connection", owner: Upgrader) -> None:
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
