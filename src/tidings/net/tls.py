"""Who may talk to us, and who may listen: TLS between nodes.

Two ways. With *certificates at both ends*, signed by an authority that all nodes of the network trust, each end knows
whom it talks to. With a certificate *at the called end alone*, which is what most servers have, callers know where they
are, and show who they are by a token.

**Where we are.** Whoever calls an address checks that the certificate is for that host: a DNS name or an IP address in
it. Whoever calls a node by its name, wherever it may be, checks that the certificate is for that node. In neither case
anything is said before, so no token goes to somebody who has a certificate of the same authority and nothing else.

**Who is there.** What a certificate says of nodes (`certificates.py`):

    URI tidings://broker/NAME    the broker of that name; only such a certificate, or a principal, makes a broker
    URI tidings://client/NAME    a client; it is never a broker, and never answers where we call
    neither                      DNS names and the common name are names of nodes, whose role others have to say

The name in a Hello must be one of them. Where the certificate is that of an ordinary server, and we called its address,
the host is proved and the name of the node is a claim; so a broker asks for a token besides.

Without TLS anyone on the path can read and write. A host therefore speaks plain TCP on the loopback interface only,
unless it is told `insecure=True`. Datagrams are never encrypted: outside loopback they too need `insecure=True`. A
bearer token does not leave the machine in plain text even then.
"""

import ipaddress
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

import msgspec

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.net.errors import HostError
from tidings.protocols.access.judge import principal_of

Address = tuple[str, int]
"""Host name or IP address, and port."""

LOCALHOST = "localhost"
NODE_SCHEME = "tidings://"


class Tls(msgspec.Struct, frozen=True):
    """What a node needs for the two ends that it can be. `Tls.from_files` makes it of the usual three files,
    `Tls.trusting` for a client that has no certificate."""

    client: ssl.SSLContext
    """For calling an address: the host must stand in the certificate."""
    by_name: ssl.SSLContext
    """For calling a node by its name: that must stand in it."""
    server: ssl.SSLContext | None = None
    """For being called; none where we have no certificate."""

    @classmethod
    def from_files(
        cls,
        certificate: str | Path,
        key: str | Path,
        authority: str | Path | None,
        callers: Literal["certified", "anybody"] = "certified",
    ) -> "Tls":
        """PEM files: our certificate, its private key, and the certificate of the authority that signs for all; None
        for those that the operating system trusts. `callers` need a certificate too, or may have one."""
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Nobody resumes a session, and tickets for it cost memory.
        server.num_tickets = 0
        contexts = calling(True), calling(False), server
        for context in contexts:
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            load_certificate(context, certificate, key)
            if context is not server or authority is not None:
                load_authority(context, authority)
        if authority is not None:
            server.verify_mode = ssl.CERT_REQUIRED if callers == "certified" else ssl.CERT_OPTIONAL
        return cls(*contexts)

    @classmethod
    def trusting(cls, authority: str | Path | None = None) -> "Tls":
        """Without a certificate of our own: for clients, which then show a token."""
        contexts = calling(True), calling(False)
        for context in contexts:
            load_authority(context, authority)
        return cls(*contexts)


def calling(checks_host: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = checks_host
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def load_certificate(context: ssl.SSLContext, certificate: str | Path, key: str | Path) -> None:
    check_readable(certificate, key)
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as problem:
        raise HostError(
            f"{certificate} and {key} are not usable for TLS ({problem.reason or problem}): a certificate and the "
            "private key that belongs to it are needed, both as PEM"
        ) from None


def load_authority(context: ssl.SSLContext, authority: str | Path | None) -> None:
    if authority is None:
        context.load_default_certs()
        return
    check_readable(authority)
    try:
        context.load_verify_locations(authority)
    except ssl.SSLError as problem:
        raise HostError(f"{authority} is no certificate of an authority as PEM ({problem.reason or problem})") from None


def check_readable(*files: str | Path) -> None:
    for file in files:
        try:
            Path(file).read_bytes()
        except OSError as problem:
            raise HostError(f"cannot read {file} for TLS: {problem.strerror}; check the name and its rights") from None


class Certified(msgspec.Struct, frozen=True):
    """What a certificate says of the node at the other end."""

    problem: str = ""
    """Why it does not let it be that node."""
    roles: tuple[str, ...] | None = None
    """What it may be; nothing where the certificate does not say it, None where the name is not proved."""


def certified(ssl_object: Any, node: NodeId, calling: NodeId | None, is_host_proved: bool) -> Certified:
    """`calling` is whom we called, if we did; `is_host_proved` if the certificate is for the host at which we did."""
    certificate = ssl_object.getpeercert() if ssl_object is not None else None
    if not certificate:
        return Certified()
    nodes, names = nodes_in(certificate), names_in(certificate)
    # Several clients of one principal share its certificate, and have something behind its name.
    held = [name for name in (node, principal_of(node)) if name in (nodes or names)]
    if not held and is_host_proved and not nodes:
        return Certified()
    if not held:
        return Certified(f"the certificate is for {', '.join(sorted({*nodes, *names})) or 'nobody'}, not for {node}")
    roles = tuple(nodes.get(held[0], ()))
    if calling is not None and nodes and "broker" not in roles:
        return Certified(f"{node} answered with the certificate of a client; a broker is needed there")
    return Certified(roles=roles)


def nodes_in(certificate: Mapping[str, Any]) -> dict[str, list[str]]:
    """The nodes that it names as such, with the role of each."""
    nodes: dict[str, list[str]] = {}
    for kind, value in certificate.get("subjectAltName", ()):
        role, slash, name = value.removeprefix(NODE_SCHEME).partition("/")
        if kind == "URI" and value.startswith(NODE_SCHEME) and slash and role in ("broker", "client"):
            nodes.setdefault(unquote(name), []).append(role)
    return nodes


def names_in(certificate: Mapping[str, Any]) -> list[str]:
    """What else may be names of nodes in it."""
    names = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"]
    return names + [value for part in certificate.get("subject", ()) for kind, value in part if kind == "commonName"]


def check_bearer(address: Address, tls: Tls | None, token: bytes, is_bound: bool) -> None:
    """HostError where a token that anybody could use would leave the machine in plain text."""
    if token and not is_bound and tls is None and not is_loopback(address[0]):
        raise HostError(
            f"{address[0]}:{address[1]} without TLS: whoever is on the way, or answers there, could take the token; "
            "use TLS, or a token that is bound to a key"
        )


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
            f"{host or '*'}:{port} without TLS: anybody on the way could read and write; give certificates "
            "(tls=Tls.from_files(...), --tls-certificate), or say insecure (insecure=True, --insecure)"
        )
