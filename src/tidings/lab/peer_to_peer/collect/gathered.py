"""One collection on a drawn topology, in the fluid model, by the hosts that ship: what E30 to E41 are made of.

Hosts are those of the simulator's world of fluids: accesses and paths are links, every pair that sends is one max-min
fair flow (specification 3H). A coordinator believes of paths what a measurement would have told it: the truth times a
log-normal error of 0.15. Peers are assigned as a directory does. Time counts from the sink's word to begin, with all
files listed, to its last file.
"""

from collections.abc import Mapping
from math import exp
from typing import Any

import msgspec

from tidings.machine.message import Contact
from tidings.machine.streams import RandomStream, random_stream
from tidings.nodes.collector import CollectorNode, CollectorParams
from tidings.protocols.access.open_door import OpenDoorParams
from tidings.protocols.collect.directory import assigned_peers
from tidings.protocols.collect.messages import Enlisted
from tidings.protocols.collect.params import CollectParams
from tidings.protocols.collect.shelf import MemoryShelf
from tidings.protocols.collect.signals import CollectionEnded, MembersKnown, ProceedCollection, StartCollection
from tidings.sim.network.flows import Shared
from tidings.sim.network.latency import Constant
from tidings.sim.simulator import Simulator
from tidings.workloads.bandwidths import BandwidthTable, drawn_bandwidths

LATENCY, ERROR, LISTED_AT, LIMIT = 0.05, 0.15, 3.0, 200_000.0
MODULATION_PERIOD, MODULATION_RHO, MODULATION_SIGMA = 10.0, 0.9, 0.3


class CollectionSetting(msgspec.Struct, frozen=True):
    nodes: int = 50
    megabytes: float = 100.0
    block_megabytes: float = 1.0
    strategy: str = "planned"
    pool: int = 0
    peers: int = 10
    period: float = 15.0
    cross: float = 0.0
    """Of the sink's downlink, taken by others."""
    is_modulated: bool = False
    """Whether capacities wander: log-AR(1), 0.9 for each 10 s, 0.3."""
    is_lazy: bool = False
    is_paced: bool = False
    median_bps: float = 10e6
    sigma: float = 0.95


def gaussian(draws: RandomStream) -> float:
    """Near enough, the same on every platform."""
    return sum(draws.random() for _ in range(12)) - 6.0


class CollectionRun:
    def __init__(self, table: BandwidthTable, sink: str, setting: CollectionSetting, seed: int) -> None:
        self.table, self.sink, self.setting, self.seed = table, sink, setting, seed
        # A block is a block whatever its size is: rates and files are scaled to the largest one that there is.
        self.scale = 512 * 1024 / (setting.block_megabytes * 1e6)
        self.params = CollectParams(
            block_bytes=512 * 1024, peers=setting.peers, period=setting.period, probe_period=0.0, progress_period=1e6,
            keeps_replicas=setting.is_lazy, is_paced=setting.is_paced, relay_bytes_max=2**40, window_bytes_max=2**30,
        )  # fmt: skip
        self.simulator = Simulator(seed, self.network())
        for name in table.hosts:
            size = 0 if name == sink else round(setting.megabytes * 1e6 * self.scale)
            self.add(name, MemoryShelf(sizes={"file": size} if size else {}))
        self.simulator.run(until=0.0)

    def network(self) -> Shared:
        capacities: dict[tuple[str, ...], float] = {
            ("path", *pair): rate * self.scale for pair, rate in self.table.rates.items()
        }
        for name in self.table.hosts:
            taken = 1 - self.setting.cross if name == self.sink else 1.0
            capacities["down", name] = self.table.down[name] * self.scale * taken
            capacities["up", name] = self.table.up[name] * self.scale

        def path(sender: str, to: str) -> list[tuple[str, ...]]:
            return [("up", sender), ("path", sender, to), ("down", to)]

        return Shared(Constant(LATENCY), capacities, path, in_pipes=True)

    def add(self, name: str, shelf: MemoryShelf) -> None:
        params = CollectorParams(access=OpenDoorParams(), collect=self.params)
        self.simulator.add(name, lambda draws: CollectorNode(name, params, shelf, draws("collect")))

    def known(self) -> MembersKnown:
        """What measurements would have told."""
        peers = assigned_peers(self.table.hosts, self.setting.peers, random_stream(self.seed, "peers"))
        draws = random_stream(self.seed, "errors")
        paths = tuple(
            (sender, peer, self.table.rates[sender, peer] * self.scale * exp(ERROR * gaussian(draws)))
            for sender in self.table.hosts
            for peer in peers[sender]
        )
        members = tuple(
            Enlisted(
                Contact(name), name != self.sink, self.table.up[name] * self.scale, self.table.down[name] * self.scale
            )
            for name in self.table.hosts
        )
        return MembersKnown(members, paths)

    def modulate(self) -> None:
        """All paths and accesses wander, each by itself."""
        transfers = self.simulator.transfers.flows
        assert transfers is not None
        draws = random_stream(self.seed, "modulation")
        names: list[Any] = [("path", *pair) for pair in self.table.rates]
        states = dict.fromkeys(names, 0.0)
        truth = {("path", *pair): rate * self.scale for pair, rate in self.table.rates.items()}

        def wander() -> None:
            for name in names:
                noise = MODULATION_SIGMA * (1 - MODULATION_RHO**2) ** 0.5 * gaussian(draws)
                states[name] = MODULATION_RHO * states[name] + noise
                transfers.set_capacity(name, truth[name] * exp(states[name]))
            self.simulator.call_at(self.simulator.now + MODULATION_PERIOD, wander)

        self.simulator.call_at(LISTED_AT, wander)

    def seconds(self) -> float:
        simulator, sink = self.simulator, self.sink
        process = simulator.nodes[sink].process
        assert process is not None and isinstance(process.machine, CollectorNode)
        process.machine.gatherer.handle(0.0, self.known())
        process.machine.coordinator.handle(0.0, self.known())
        setting = self.setting
        simulator.inject(0.0, sink, StartCollection("job", ("*",), (), "", setting.strategy, setting.pool))
        simulator.inject(LISTED_AT, sink, ProceedCollection("job"))
        if setting.is_modulated:
            self.modulate()
        while simulator.now < LIMIT:
            simulator.run(until=simulator.now + 30.0)
            for each in reversed(simulator.delivered(sink)):
                if isinstance(each.item, CollectionEnded):
                    assert each.item.is_complete, each.item.reason or "a file is missing"
                    return each.item.seconds - LISTED_AT
        raise AssertionError("a collection did not end")


def seconds_of(seed: int, sink: int, parameters: Mapping[str, Any], **more: Any) -> float:
    """One sink of the topology of this seed."""
    fields = {name: value for name, value in parameters.items() if name in CollectionSetting.__struct_fields__}
    setting = CollectionSetting(**(fields | more))
    table = drawn_bandwidths(setting.nodes, seed, setting.median_bps, setting.sigma)
    return seconds_on(table, sink, setting, seed)


def seconds_on(table: BandwidthTable, sink: int, setting: CollectionSetting, seed: int) -> float:
    return CollectionRun(table, table.hosts[sink], setting, seed).seconds()


def median_of(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def shares(gains: list[float]) -> dict[str, float]:
    """Of gains over direct transfer (0.2: a fifth less time), one for each sink."""
    return {
        "gain": sum(gain > 0.02 for gain in gains) / len(gains),
        "gain a fifth": sum(gain >= 0.2 for gain in gains) / len(gains),
        "worst loss": max(0.0, -min(gains)),
        "best gain": max(gains),
        "median gain": median_of(gains),
    }
