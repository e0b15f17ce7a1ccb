"""A broker inside this process, for tests, notebooks and programs that want no other: `connect("memory:")`.

It is the broker of `nodes/broker.py` on a host like any other, which listens on a free port of the loopback interface
and runs on a thread and a loop of its own; so clients on any loop and any thread of the process can share it. It starts
with the first client that names it and stops when the last of them is closed. Nothing of it is kept.
"""

import asyncio
import secrets
import threading
from contextlib import suppress
from random import SystemRandom

from tidings.net.host import Host
from tidings.net.logs import make_logger
from tidings.net.timers import clock_offset
from tidings.net.tls import Address
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.protocols.access.params import AccessParams
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.routing.params import RoutingParams

lock = threading.Lock()
shared: dict[str, "Embedded"] = {}
"""Brokers with a name, while somebody uses them."""


class Embedded:
    """A broker that runs; `address` is where."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.users = 0
        self.address: Address
        self.failure: BaseException | None = None
        self.loop = asyncio.new_event_loop()
        self.ending = asyncio.Event()
        started = threading.Event()
        self.thread = threading.Thread(target=self.run, args=(started,), name="embedded broker", daemon=True)
        self.thread.start()
        started.wait()
        if self.failure is not None:
            raise self.failure

    def run(self, started: threading.Event) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            try:
                runner.run(self.serve(started))
            except Exception as problem:
                self.failure = problem
            finally:
                started.set()

    async def serve(self, started: threading.Event) -> None:
        offset = clock_offset()
        params = BrokerParams(
            access=AccessParams(clock_offset=offset),
            delivery=EdgeParams(clock_offset=offset),
            # For the few subscriptions of one process it is fast enough, and there is nothing to compile first.
            routing=RoutingParams(engine="plain"),
        )
        node_id = f"{self.name or 'embedded'}-{secrets.token_hex(4)}"
        log = make_logger(node_id, "error")
        async with Host(node_id, BrokerNode(node_id, params, SystemRandom()), log=log) as host:
            self.address = host.address
            started.set()
            await self.ending.wait()

    def give_back(self) -> None:
        """One user less. The last one waits until the broker has stopped."""
        with lock:
            self.users -= 1
            if self.users:
                return
            if shared.get(self.name) is self:
                del shared[self.name]
        # A broker that failed has closed its loop already.
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.ending.set)
        self.thread.join()


def borrow_broker(name: str) -> Embedded:
    """The broker of this name, started if need be; without a name, one of its own. May take a moment: not on a loop."""
    with lock:
        broker = shared.get(name) if name else None
        if broker is None:
            broker = Embedded(name)
            if name:
                shared[name] = broker
        broker.users += 1
        return broker
