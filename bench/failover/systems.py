"""The systems: how their servers are started, killed and started again, and how their clients publish and subscribe."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Protocol

import tidings
from bench.brokers.servers import NATS, PROGRAMS, STARTING_SECONDS_MAX, TICKS_PER_SECOND, free_port, program
from bench.failover.shape import LEAVES, NAMES, PARENTS, TOPICS, links, topics_of
from tidings.cli.brokers import Fleet, PlannedBroker, read_network
from tidings.net.client.client import Client

PLAIN, GUARANTEED = "plain", "guaranteed"

Came = Callable[[str, int, str], None]
"""Told of a delivery: the kind of subscription, the number of the leaf, the event."""


class OutageSystem(Protocol):
    name: str
    kinds: tuple[str, ...]

    def running(self, came: Came) -> contextlib.AbstractAsyncContextManager[None]:
        """All servers are up, and all clients have their subscriptions."""
        ...

    async def publish(self, leaf: int, topic: int, event: str, payload: bytes) -> None: ...

    async def kill(self, place: int) -> None: ...

    async def start(self, place: int) -> None: ...

    def pids(self) -> list[int]: ...


class TidingsTree:
    kinds: tuple[str, ...] = (PLAIN, GUARANTEED)

    def __init__(self, failover: str, folder: Path) -> None:
        self.failover, self.folder = failover, folder
        self.name = "tree" if failover == "none" else failover
        self.planned: list[PlannedBroker] = []
        self.fleet = Fleet([], folder, as_json=False)
        self.publishers: list[Client] = []

    @contextlib.asynccontextmanager
    async def running(self, came: Came) -> AsyncIterator[None]:
        settings = {"log": "warning", "routing": {"engine": "plain", "failover": self.failover}}
        ports = {name: f"127.0.0.1:{free_port()}" for name in NAMES}
        brokers = {name: {"listen": listen} for name, listen in ports.items()}
        pairs = [[NAMES[above], NAMES[below]] for above, below in links()]
        self.planned = read_network({"links": pairs, "settings": settings, "brokers": brokers}, self.folder)
        tasks: list[asyncio.Task[None]] = []
        try:
            for place in range(len(NAMES)):
                await self.start(place)
            async with contextlib.AsyncExitStack() as stack:
                for number, leaf in enumerate(LEAVES):
                    url = f"tidings://{self.planned[leaf].listen}"
                    self.publishers.append(await stack.enter_async_context(tidings.connect(url, name=f"p{number}")))
                    await self.publishers[-1].advertise(f"topic >= 0 AND topic < {TOPICS}")
                    client = await stack.enter_async_context(tidings.connect(url, name=f"s{number}"))
                    wanted = f"topic IN ({', '.join(map(str, topics_of(number)))})"
                    for kind in self.kinds:
                        subscription = await client.subscribe(
                            wanted, guarantee="none" if kind == PLAIN else "installed"
                        )
                        tasks.append(asyncio.create_task(self.receive(subscription, kind, number, came)))
                yield
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            await self.fleet.stop()

    async def receive(self, subscription: Any, kind: str, leaf: int, came: Came) -> None:
        while events := await subscription.take():
            for event in events:
                came(kind, leaf, event.id)

    async def publish(self, leaf: int, topic: int, event: str, payload: bytes) -> None:
        await self.publishers[leaf].publish({"id": event, "topic": topic}, payload)

    async def kill(self, place: int) -> None:
        child = self.fleet.children[NAMES[place]]
        child.kill()
        await child.wait()

    async def start(self, place: int) -> None:
        await self.fleet.start(self.planned[place])

    def pids(self) -> list[int]:
        return [child.pid for child in self.fleet.children.values()]


class NatsServers:
    kinds: tuple[str, ...] = (PLAIN,)

    def __init__(self, is_cluster: bool, folder: Path) -> None:
        self.is_cluster, self.folder = is_cluster, folder
        self.name = f"{NATS}, {'cluster' if is_cluster else 'leaf nodes'}"
        self.program = program(PROGRAMS[NATS])
        self.clients = [free_port() for _ in NAMES]
        self.inner = [free_port() for _ in NAMES]
        self.children: dict[int, asyncio.subprocess.Process] = {}
        self.publishers: list[Any] = []

    def settings(self, place: int) -> str:
        above = PARENTS[place]
        lines = [f'server_name: "{NAMES[place]}"', f'listen: "127.0.0.1:{self.clients[place]}"']
        if self.is_cluster:
            routes = f'"nats-route://127.0.0.1:{self.inner[above]}"' if above >= 0 else ""
            lines.append(f'cluster {{ name: tree, listen: "127.0.0.1:{self.inner[place]}", routes: [{routes}] }}')
        else:
            remote = f'{{ url: "nats-leaf://127.0.0.1:{self.inner[above]}" }}' if above >= 0 else ""
            lines.append(f'leafnodes {{ listen: "127.0.0.1:{self.inner[place]}", reconnect: 1, remotes: [{remote}] }}')
        return "\n".join(lines) + "\n"

    @contextlib.asynccontextmanager
    async def running(self, came: Came) -> AsyncIterator[None]:
        import nats

        try:
            for place in range(len(NAMES)):
                await self.start(place)
            async with contextlib.AsyncExitStack() as stack:
                for number, leaf in enumerate(LEAVES):
                    url = f"nats://127.0.0.1:{self.clients[leaf]}"
                    self.publishers.append(await nats.connect(url))
                    subscriber = await nats.connect(url)
                    for client in (self.publishers[-1], subscriber):
                        stack.push_async_callback(client.close)
                    for topic in topics_of(number):
                        await subscriber.subscribe(f"t.{topic}", cb=self.hearing(number, came))
                    await subscriber.flush()
                yield
        finally:
            for child in self.children.values():
                with contextlib.suppress(ProcessLookupError):
                    child.kill()
                await child.wait()

    def hearing(self, leaf: int, came: Came) -> Callable[[Any], Any]:
        async def hear(message: Any) -> None:
            came(PLAIN, leaf, message.data.partition(b" ")[0].decode())

        return hear

    async def publish(self, leaf: int, topic: int, event: str, payload: bytes) -> None:
        await self.publishers[leaf].publish(f"t.{topic}", event.encode() + b" " + payload)

    async def kill(self, place: int) -> None:
        self.children[place].kill()
        await self.children[place].wait()

    async def start(self, place: int) -> None:
        path = self.folder / f"{NAMES[place]}.conf"
        path.write_text(self.settings(place))
        with (self.folder / f"{NAMES[place]}.log").open("wb") as log:
            self.children[place] = await asyncio.create_subprocess_exec(
                self.program, "-c", str(path), stdout=log, stderr=log
            )
        deadline = time.monotonic() + STARTING_SECONDS_MAX
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self.clients[place])
                writer.close()
                return
            await asyncio.sleep(0.05)
        raise RuntimeError(f"{self.name}: {NAMES[place]} did not start")

    def pids(self) -> list[int]:
        return [child.pid for child in self.children.values()]


def cpu_seconds(pids: list[int]) -> float:
    """Of all these together, in user and kernel mode."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS_PER_SECOND


def load() -> float:
    return os.getloadavg()[0]
