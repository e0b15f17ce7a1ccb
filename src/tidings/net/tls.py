"""Who may talk to us, and who may listen: TLS between nodes.

Every node has a certificate, signed by an authority that all nodes of the network trust, and asks the other end for its
own: both know whom they talk to. The names in a certificate (DNS names, common name) are names of nodes, and the name
in a Hello must be one of them; otherwise any node of the network could pass for any other. Addresses do not matter.

Without TLS anyone on the path can read and write. A host therefore speaks plain TCP on the loopback interface only,
unless it is told `insecure=True`. Datagrams are never encrypted: outside loopback they too need `insecure=True`.
"""

import ipaddress
import ssl
from pathlib import Path
from typing import Any

import msgspec

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.net.errors import HostError
from tidings.protocols.access.judge import principal_of

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
            # Nobody resumes a session, and tickets for it cost memory.
            if protocol is ssl.PROTOCOL_TLS_SERVER:
                context.num_tickets = 0
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
