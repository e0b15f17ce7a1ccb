"""What outsiders do at a port with TLS, where each connection costs a broker more than it costs them.

    half_open    500 connections that send a ClientHello a byte a second
    handshakes   100 at a time that begin a handshake, have the broker do its part of it, and leave
    secured      500 that finish the handshake and say nothing

The brokers have certificates then, and ordinary clients come over TLS as well; `alone, TLS` is their line.
"""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.hostile.target import Target, place_of
from tidings.net.certificates import new_authority, new_certificate

CONNECTIONS, HANDSHAKES = 500, 100
DAY = 24 * 3600.0
RECORD_HEAD_BYTES = 5
"""Whoever has so much of the answer to a ClientHello has made the broker sign."""


def certificates(folder: Path) -> dict[str, tuple[str, ...]]:
    """What the brokers a and b are started with; client.pem and client.key are for their clients."""
    authority, _ = new_authority(folder)
    new_certificate(folder, "client", "client", [], DAY)
    options: dict[str, tuple[str, ...]] = {}
    for name in "ab":
        certificate, key = new_certificate(folder, name, "broker", ["127.0.0.1"], DAY)
        files = "--tls-certificate", str(certificate), "--tls-key", str(key), "--tls-authority", str(authority)
        options[name] = files
    return options


def trusting_nobody() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    opening = trusting_nobody().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    with suppress(ssl.SSLWantReadError):
        opening.do_handshake()
    return outgoing.read()


async def half_open(target: Target) -> None:
    async def open_half(number: int) -> None:
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection(*place_of(target.url_a))
                for byte in client_hello():
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(1.0)

    await asyncio.gather(*map(open_half, range(CONNECTIONS)))


async def handshakes(target: Target) -> None:
    async def begin(number: int) -> None:
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection(*place_of(target.url_a))
                writer.write(client_hello())
                await reader.readexactly(RECORD_HEAD_BYTES)
                writer.close()

    await asyncio.gather(*map(begin, range(HANDSHAKES)))


async def secured(target: Target) -> None:
    async def stay(number: int) -> None:
        while True:
            with suppress(OSError):
                reader, _ = await asyncio.open_connection(*place_of(target.url_a), ssl=trusting_nobody())
                await reader.read()

    await asyncio.gather(*map(stay, range(CONNECTIONS)))


ENCRYPTED: dict[str, Callable[[Target], Coroutine[Any, Any, None]]] = {
    each.__name__: each for each in (half_open, handshakes, secured)
}
