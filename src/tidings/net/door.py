"""Being called: the socket on which we listen, and who may keep a connection that he has made to it.

Every connection is counted by the address it came from; there is a bound on those of one address, and one on those that
are not yet streams.
"""

import asyncio
import socket
from collections import Counter
from typing import Any, Protocol

from tidings.net.connection import Connection, ConnectionStage
from tidings.net.params import HostParams
from tidings.net.tls import Tls, TlsUpgrade

ACCEPTING_TURNS = 2
"""Of the loop, until a call that it has accepted is known to us: one to begin, one to be told."""


class Household(Protocol):
    """Whose door it is."""

    loop: asyncio.AbstractEventLoop
    params: HostParams
    log: Any
    tls: Tls | None
    open: dict[Connection, None]
    is_stopping: bool

    def make_connection(self, calling: None) -> Connection: ...

    def tell_if_all_gone(self) -> None: ...


class Door:
    def __init__(self, household: Household) -> None:
        self.household, self.loop, self.params = household, household.loop, household.params
        self.upgrades: dict[TlsUpgrade, None] = {}
        """Connections whose TLS handshake is not finished, those that we made too."""
        self.callers: Counter[str] = Counter()
        """How many connections came from which address."""
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
        for upgrade in list(self.upgrades):
            upgrade.abort()

    async def wait_until_closed(self) -> None:
        for _ in range(ACCEPTING_TURNS):
            await asyncio.sleep(0)

    # Whoever comes.

    def take_call(self) -> asyncio.BaseProtocol:
        connection = self.household.make_connection(None)
        if self.household.tls is None:
            return connection
        return TlsUpgrade(self.household.tls.server, self.params.handshake_timeout, connection, self)

    def upgrade_begun(self, upgrade: TlsUpgrade) -> None:
        self.upgrades[upgrade] = None
        is_called = upgrade.connection.calling is None
        if self.household.is_stopping or (is_called and self.count_strangers() > self.params.strangers_max):
            upgrade.abort()
        elif is_called:
            upgrade.task = self.loop.create_task(self.answer_upgrade(upgrade))

    async def answer_upgrade(self, upgrade: TlsUpgrade) -> None:
        try:
            await upgrade.finish(self.loop)
        except OSError as problem:
            self.household.log.info("no TLS with a caller", reason=str(problem))

    def upgrade_over(self, upgrade: TlsUpgrade) -> None:
        self.upgrades.pop(upgrade, None)
        self.household.tell_if_all_gone()

    def why_not(self, connection: Connection) -> str:
        """Why this one, which has just come, cannot stay."""
        connection.caller = str((connection.transport.get_extra_info("peername") or ("",))[0])
        self.callers[connection.caller] += 1
        if self.callers[connection.caller] > self.params.address_connections_max:
            return "too many connections from your address; close some, or call another node"
        if self.count_strangers() > self.params.strangers_max:
            return "too many connections that are not yet streams; try later"
        return ""

    def left(self, connection: Connection) -> None:
        self.callers[connection.caller] -= 1
        if self.callers[connection.caller] <= 0:
            del self.callers[connection.caller]

    def count_strangers(self) -> int:
        return len(self.upgrades) + sum(
            1 for it in self.household.open if it.stage in (ConnectionStage.GREETING, ConnectionStage.INTRODUCED)
        )
