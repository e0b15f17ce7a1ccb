"""One round of chaos: brokers as processes on this machine, clients in this one, and what strikes them.

Everything is drawn from the seed of the round: the campaign, and the faults.

    2.5..4 kill n1               the process is killed (SIGKILL) and started again
    2.5..4 stop n1               it is stopped (SIGSTOP) and goes on (SIGCONT)
    2.5..9 full-disk n1          it cannot make a file longer than the longest it has (RLIMIT_FSIZE), as on a full disk
    2.5..4 clock n1 shift=0.4    it is killed, and started again with a clock that is wrong by so many seconds
    2.5..4 restart w0            a client ends without a word, and another life of it begins

When all faults are over the round waits until nothing is missing any more, at most for `PATIENCE` seconds, and what is
missing then is what it found. The draws of a seed are always the same; what processes make of them is not, so a seed
that failed is a good place to look, and no more.
"""

import asyncio
import resource
import signal
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from tidings.cli.brokers import Fleet, PlannedBroker
from tidings.cli.chaos_clients import ChaosClient, ChaosClock, ChaosReader, ChaosWriter
from tidings.cli.ports import free_addresses
from tidings.machine.streams import RandomStream, random_stream
from tidings.net.broker.config import STORAGE_NAME
from tidings.sim.topologies.shapes import make_topology
from tidings.workloads.nemesis.campaign import BEGIN, Campaign, CampaignParams, draw_campaign
from tidings.workloads.nemesis.judged import BrokenPromise
from tidings.workloads.nemesis.promise import PromiseJudge

PATIENCE = 90.0
"""Seconds: a question that was not answered is asked again after 30, a receipt given up after 30."""

SAVED_AGAIN_WITHIN = 5.0
"""Seconds in which what a full disk did not take is there at last. Who is killed before forgets where groups begin."""

LOOK_PERIOD = 0.5

KINDS = ("kill", "kill", "kill", "stop", "stop", "full-disk", "clock", "restart")


class ChaosFault(msgspec.Struct, frozen=True):
    at: float
    until: float
    kind: str
    node: str
    shift: float = 0.0

    def __str__(self) -> str:
        shift = f" shift={self.shift:g}" if self.kind == "clock" else ""
        return f"{self.at:g}..{self.until:g} {self.kind} {self.node}{shift}"


class RoundOutcome(msgspec.Struct, frozen=True):
    seed: int
    brokers: int
    faults: list[str]
    broken: list[BrokenPromise]
    judged: dict[str, int]
    seconds: float
    joins: bool = False

    def command(self) -> str:
        return f"tidings chaos --seed {self.seed} --duration 0" + (" --join" if self.joins else "")


def draw_chaos(rng: RandomStream, campaign: Campaign, most: int) -> list[ChaosFault]:
    """Faults of one node do not overlap: a process that is dead cannot be stopped."""
    drawn: list[ChaosFault] = []
    free_at: dict[str, float] = {}
    clients = [client.name for client in campaign.clients]
    for _ in range(1 + rng.below(most)):
        kind = rng.choice(KINDS)
        node = rng.choice(clients) if kind == "restart" else rng.choice(campaign.brokers).name
        at = round(max(rng.uniform(BEGIN, campaign.until), free_at.get(node, 0.0)), 2)
        until = round(at + rng.choice((0.2, 1.0, 3.0, 8.0)) * (0.5 + rng.random()), 2)
        shift = round(rng.uniform(-campaign.clock_error, campaign.clock_error), 3) if kind == "clock" else 0.0
        free_at[node] = until + 0.5
        drawn.append(ChaosFault(at, until, kind, node, shift))
    return sorted(drawn, key=lambda fault: fault.at)


class ChaosRound:
    """With `joins` no links are drawn: each broker is told where all are, and they find their tree."""

    def __init__(self, seed: int, params: CampaignParams, faults_max: int, folder: Path, joins: bool = False) -> None:
        self.seed, self.folder, self.joins = seed, folder, joins
        self.campaign = draw_campaign(params, seed)
        self.faults = draw_chaos(random_stream(seed, "chaos"), self.campaign, faults_max)
        self.judge = PromiseJudge(self.campaign.may_forget)
        self.broken: list[BrokenPromise] = []
        self.shifts = {broker.name: broker.clock_offset for broker in self.campaign.brokers}
        self.addresses = free_addresses([broker.name for broker in self.campaign.brokers])
        self.fleet = Fleet([], folder, as_json=False)
        self.full_until: dict[str, float] = {}
        """When brokers had room on their disk again."""
        self.struck: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def play(self) -> RoundOutcome:
        clock = ChaosClock()
        clients: dict[str, ChaosClient] = {}
        try:
            for broker in self.campaign.brokers:
                await self.fleet.start(self.planned(broker.name))
            clock = ChaosClock()
            clients = self.cast(clock)
            await asyncio.gather(*(client.begin() for client in clients.values()))
            await asyncio.gather(*(self.strike(clock, fault, clients) for fault in self.faults))
            await clock.until(self.campaign.until)
            await self.settle(clock)
        finally:
            with suppress(Exception):
                await asyncio.gather(*(client.end() for client in clients.values()))
            await self.fleet.stop()
        faults = [str(fault) for fault in self.faults]
        brokers, judged = len(self.campaign.brokers), self.judge.figures()
        return RoundOutcome(self.seed, brokers, faults, self.broken, judged, clock.now, self.joins)

    def planned(self, name: str) -> PlannedBroker:
        campaign, place = self.campaign, int(name.removeprefix("n"))
        edges = make_topology(campaign.shape, len(campaign.brokers), campaign.seed).edges
        links = [self.addresses[edge.b] for edge in edges if edge.a == name]
        settings: dict[str, Any] = {
            "listen": self.addresses[name],
            **({"join": list(self.addresses.values())} if self.joins else {"links": links}),
            "log": "warning",
            "clock_shift": self.shifts[name],
            "routing": {"engine": "plain"},
            "delivery": {"history_age": campaign.history_age, "history_count_max": campaign.history_count_max},
        }
        if campaign.brokers[place].is_durable:
            settings["data"] = str(self.folder / name)
        return PlannedBroker(name, self.addresses[name], settings)

    def cast(self, clock: ChaosClock) -> dict[str, ChaosClient]:
        common: dict[str, Any] = {
            "urls": self.addresses,
            "clock": clock,
            "judge": self.judge,
            "broken": self.broken.append,
        }
        campaign = self.campaign
        readers = [ChaosReader(part, campaign, **common) for part in campaign.readers]
        writers = [ChaosWriter(part, **common) for part in campaign.writers]
        return {client.name: client for client in (*readers, *writers)}

    async def strike(self, clock: ChaosClock, fault: ChaosFault, clients: dict[str, ChaosClient]) -> None:
        await clock.until(fault.at)
        # A process that is being started is struck when it is there.
        async with self.struck[fault.node]:
            await self.strike_now(clock, fault, clients)

    async def strike_now(self, clock: ChaosClock, fault: ChaosFault, clients: dict[str, ChaosClient]) -> None:
        if fault.kind == "restart":
            await clients[fault.node].end()
            await clock.until(fault.until)
            await clients[fault.node].begin()
            return
        child = self.fleet.children[fault.node]
        if fault.kind == "stop":
            child.send_signal(signal.SIGSTOP)
            await clock.until(fault.until)
            child.send_signal(signal.SIGCONT)
        elif fault.kind == "full-disk":
            files = [path.stat().st_size for path in (self.folder / fault.node).glob(f"{STORAGE_NAME}*")]
            if files:
                most = resource.RLIM_INFINITY
                resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (max(files), most))
                await clock.until(fault.until)
                resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (most, most))
                self.full_until[fault.node] = clock.now
        else:
            await self.kill(child, fault.node, clock.now)
            await clock.until(fault.until)
            if fault.kind == "clock":
                self.shifts[fault.node] = fault.shift
            await self.fleet.start(self.planned(fault.node))

    async def kill(self, child: asyncio.subprocess.Process, name: str, now: float) -> None:
        child.kill()
        await child.wait()
        place = int(name.removeprefix("n"))
        served = [writer.name for writer in self.campaign.writers if name in writer.brokers]
        if not self.campaign.brokers[place].is_durable:
            self.judge.forgot(served)
        elif now < self.full_until.get(name, 0.0) + SAVED_AGAIN_WITHIN:
            self.judge.shake(served)

    async def settle(self, clock: ChaosClock) -> None:
        """Until nothing is missing, or no more is hoped for."""
        give_up_at = clock.now + PATIENCE
        while missing := self.judge.at_end():
            ended = [name for name, child in self.fleet.children.items() if child.returncode is not None]
            if ended:
                self.broken.append(BrokenPromise("brokers", f"{ended[0]} ended by itself; see its log", ended[0]))
            if clock.now > give_up_at or ended:
                self.broken += missing
                return
            await asyncio.sleep(LOOK_PERIOD)


def add_up(outcomes: list[RoundOutcome]) -> tuple[Counter[str], Counter[str]]:
    """What was judged in all rounds, and the faults by kind."""
    judged: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    for outcome in outcomes:
        judged.update(outcome.judged)
        faults.update(fault.split()[1] for fault in outcome.faults)
    return judged, faults
