"""Ports for brokers on this machine that may be killed and come back to the same place."""

import secrets
import socket
from contextlib import suppress

PORTS = range(20_000, 32_000)
"""Below those that a system gives to connections."""


def free_addresses(names: list[str]) -> dict[str, str]:
    """Ports that nobody listens on, and that no connection from here is given while a broker is dead."""
    addresses: dict[str, str] = {}
    while len(addresses) < len(names):
        port = secrets.choice(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if f"127.0.0.1:{port}" not in addresses.values():
                addresses[names[len(addresses)]] = f"127.0.0.1:{port}"
    return addresses
