"""Addresses as people write them; and the sockets on which others reach us there: TCP and UDP under the same number,
and what to do when they cannot be had.
"""

import errno
import os
import socket

from tidings.model.errors import UsageError
from tidings.net.errors import HostError
from tidings.net.tls import Address

PORT_DEFAULT = 7411
PORT_MAX = 65535
SCHEMES = ("tidings://", "tidingss://")


def parse_address(text: str, setting: str, is_called: bool = False) -> Address:
    """host:port, [host]:port for IPv6, or host with the usual port. Who is called has a host and a port above 0."""
    text = text.strip().rstrip("/")
    for scheme in SCHEMES:
        text = text.removeprefix(scheme)
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(PORT_DEFAULT)
    host = host.removeprefix("[").removesuffix("]")
    is_port = port.isascii() and port.isdigit() and int(port) <= PORT_MAX
    if not is_port or "/" in host or " " in host or (is_called and not (host and int(port))):
        raise UsageError(f"{setting}: {text!r} is no address; write host:port, such as 127.0.0.1:{PORT_DEFAULT}")
    return host, int(port)


def parse_named_address(text: str, setting: str) -> tuple[str, Address]:
    name, sign, address = text.partition("=")
    if not sign or not name.strip():
        raise UsageError(f"{setting}: {text!r} names nobody; write NAME=HOST:PORT, such as b=127.0.0.1:{PORT_DEFAULT}")
    return name.strip(), parse_address(address, setting, is_called=True)


def address_text(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def default_name(listen: Address) -> str:
    """As long as there is one broker on a port, no two of one machine have the same name."""
    return f"{socket.gethostname()}-{listen[1] or os.getpid()}"


BACKLOG = 128
"""Callers that the operating system holds until we take them."""

PORTS_TRIED_MAX = 16
"""Free TCP ports tried until one is found that is free for UDP too."""


def open_sockets(address: Address, with_datagrams: bool) -> tuple[socket.socket, socket.socket | None]:
    """A listening TCP socket and, if wanted, a UDP socket of the same port. Port 0 takes any that is free."""
    host, port = address
    family, numeric = look_up(host, port)
    for attempt in range(PORTS_TRIED_MAX):
        stream = bind(family, socket.SOCK_STREAM, numeric, address)
        if not with_datagrams:
            return stream, None
        try:
            return stream, bind(family, socket.SOCK_DGRAM, (numeric[0], stream.getsockname()[1], *numeric[2:]), address)
        except HostError:
            stream.close()
            if port != 0 or attempt == PORTS_TRIED_MAX - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def look_up(host: str, port: int) -> tuple[int, tuple[str, int, *tuple[int, ...]]]:
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as problem:
        raise HostError(
            f"cannot listen on {host}:{port}: {problem.strerror}; give an address of this machine, such as 127.0.0.1"
        ) from None
    family, _, _, _, numeric = found[0]
    return family, numeric  # type: ignore[return-value]


def bind(family: int, kind: socket.SocketKind, numeric: tuple[str | int, ...], asked: Address) -> socket.socket:
    # Named in full: asyncio switches Nagle's delay off only for sockets that say they are TCP.
    made = socket.socket(family, kind, socket.IPPROTO_TCP if kind is socket.SOCK_STREAM else socket.IPPROTO_UDP)
    try:
        made.setblocking(False)
        if kind is socket.SOCK_STREAM:
            # A node that was restarted may listen again at once, though old connections still fade out.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(numeric)
        if kind is socket.SOCK_STREAM:
            made.listen(BACKLOG)
    except OSError as problem:
        made.close()
        raise HostError(explain(problem, kind, asked)) from None
    return made


def explain(problem: OSError, kind: socket.SocketKind, asked: Address) -> str:
    host, port = asked
    protocol = "TCP" if kind is socket.SOCK_STREAM else "UDP"
    match problem.errno:
        case errno.EADDRINUSE:
            why = (
                "another program uses that port; stop it ('ss -ltnup' shows which it is), or choose another port; 0 "
                "takes any that is free"
            )
        case errno.EADDRNOTAVAIL:
            why = "this machine does not have that address; 127.0.0.1 is for this machine only, 0.0.0.0 for all of its"
        case errno.EACCES:
            why = "ports below 1024 are for privileged users; choose a larger one"
        case _:
            why = problem.strerror or str(problem)
    return f"cannot listen on {host}:{port} ({protocol}): {why}"
