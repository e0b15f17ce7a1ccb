"""Being called: the socket on which we listen, and who may keep a connection that he has made to it.

Every connection is counted from the moment in which it is accepted, before a byte of it is read, and before TLS. It is
a *stranger's* until it is let in: until it is the stream of a node that the machine knows, or where machines believe
names, until it is a stream. Whoever is in has a place of his own (`streams_max`), which no number of strangers takes
from him.

There are places for `strangers_max` strangers. When one more comes, one of the address that has most of them gives way,
the one that came first: so a crowd from one address takes places from itself, and not from others. Among callers of one
address nobody gives way before he had a moment to say who he is (`stranger_patience`); until then the newcomer is sent
away, and comes back. In the same way strangers give way when an address has as many connections as it may. Addresses of
IPv6 count by their first 64 bits, since whoever has one has all that begin with those.

Each stranger has `handshake_timeout` to become a stream, and what the machine grants (`Knocked.waited`) to be let in.
It may say little (`connection.VISITOR_FRAME_BYTES_MAX`), and no buffer is kept for it.
"""

import asyncio
import ipaddress
import socket
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from tidings.net.connection import Cause, Connection
from tidings.net.params import HostParams
from tidings.net.tls import Tls
from tidings.net.tls_stream import TlsStream

ACCEPTING_TURNS = 2
"""Of the loop, until a call that it has accepted is known to us: one to begin, one to be told."""

TOO_MANY_OF_ADDRESS = "too many connections from your address; close some, or call another node"
TOO_MANY_STRANGERS = "too many connections of which it is not known yet who they are; try later"
GIVES_WAY = "others want to come in, and you have not said who you are; try again"


class Household(Protocol):
    """Whose door it is."""

    loop: asyncio.AbstractEventLoop
    params: HostParams
    tls: Tls | None
    buffer: memoryview
    is_stopping: bool

    def make_connection(self, calling: None) -> Connection: ...


class Door:
    def __init__(self, household: Household, clock: Callable[[], float]) -> None:
        self.household, self.loop, self.params, self.clock = household, household.loop, household.params, clock
        self.callers: Counter[str] = Counter()
        """How many connections came from which address."""
        self.strangers: dict[str, dict[Connection, None]] = {}
        """Those that are not let in yet, by address, in the order in which they came."""
        self.count = 0
        """How many these are."""
        self.server: asyncio.Server | None = None

    # Beginning and end.

    async def open(self, listening: socket.socket) -> None:
        self.server = await self.loop.create_server(self.take_call, sock=listening, start_serving=False)
        # The machine has begun, and may have failed by now.
        if self.household.is_stopping:
            self.server.close()
        else:
            await self.server.start_serving()

    def close(self) -> None:
        if self.server is not None:
            server, self.server = self.server, None
            # A call that asyncio has accepted and not yet begun with would be left open by closing the server now.
            for listening in server.sockets:
                self.loop.remove_reader(listening.fileno())
            self.loop.call_soon(server.close)

    async def wait_until_closed(self) -> None:
        for _ in range(ACCEPTING_TURNS):
            await asyncio.sleep(0)

    # Whoever comes.

    def take_call(self) -> asyncio.BaseProtocol:
        connection, tls = self.household.make_connection(None), self.household.tls
        if tls is None:
            return connection
        assert tls.server is not None
        return TlsStream(tls.server, connection, self.household.buffer, self.loop, server_name=None)

    def came(self, connection: Connection) -> None:
        """Somebody has called; whoever has to go for it is sent away."""
        peer_name = connection.transport.get_extra_info("peername") or ("nowhere",)
        address = connection.caller = network_of(str(peer_name[0]))
        self.callers[address] += 1
        self.strangers.setdefault(address, {})[connection] = None
        self.count += 1
        if self.callers[address] > self.params.address_connections_max:
            self.make_room(connection, address, TOO_MANY_OF_ADDRESS)
        elif self.count > self.params.strangers_max:
            fullest = max(self.strangers, key=lambda each: len(self.strangers[each]))
            self.make_room(connection, fullest, TOO_MANY_STRANGERS)

    def make_room(self, newcomer: Connection, address: str, reason: str) -> None:
        """A stranger of this address gives way."""
        oldest = next(iter(self.strangers[address]))
        is_patient = self.clock() - oldest.made_at < self.params.stranger_patience
        if oldest is newcomer or (is_patient and address == newcomer.caller):
            self.send_away(newcomer, reason)
        else:
            self.send_away(oldest, GIVES_WAY)

    def send_away(self, connection: Connection, reason: str) -> None:
        # Its place is free before the loop has closed its socket.
        self.left(connection)
        connection.dismiss(Cause.TOO_MANY, reason)

    def let_in(self, connection: Connection) -> None:
        """It is no stranger any more."""
        known = self.strangers.get(connection.caller, {})
        if connection in known:
            del known[connection]
            self.count -= 1
            if not known:
                del self.strangers[connection.caller]

    def left(self, connection: Connection) -> None:
        """It is here no longer."""
        self.let_in(connection)
        if connection.caller:
            self.callers[connection.caller] -= 1
            if self.callers[connection.caller] <= 0:
                del self.callers[connection.caller]
            connection.caller = ""


def network_of(host: str) -> str:
    """As what an address is counted."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
