"""E9 to E13: the broker that forwards so much in a second, and a small world of them."""

from collections import Counter
from typing import Any

import msgspec
import pytest

from tidings.lab.dependable.popularity import e14
from tidings.lab.dependable.popularity.followed import SYSTEMS, PopularSetting, PopularWorld, System
from tidings.machine.effects import Effect, Send
from tidings.machine.inputs import Fired, Input, Received
from tidings.protocols.routing.params import GroupName
from tidings.pubsub.gathered import GatheredPublications
from tidings.pubsub.notes import Queued
from tidings.pubsub.publications import Publications
from tidings.sim.throughput import TIMER, ThroughputMachine
from tidings.trace.writers import RingBuffer
from tidings.workloads.recorded import data_folder


class Echo:
    """Sends on what it receives."""

    def start(self, now: float) -> list[Effect]:
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        return [Send("q", input.message)] if isinstance(input, Received) else []

    def check(self) -> None:
        pass


def batch(*numbers: int) -> Publications:
    return Publications("p", "p/1@a", 0.0, 0, numbers, (b"\x80",) * len(numbers), (b"",) * len(numbers))


def told(effects: list[Effect]) -> list[Any]:
    return [
        effect.message.numbers if isinstance(effect, Send) and isinstance(effect.message, Publications) else effect
        for effect in effects
        if isinstance(effect, Send | Queued)
    ]


def test_what_is_more_than_a_second_has_waits_for_the_next_in_order() -> None:
    machine = ThroughputMachine(Echo(), units=2.0, batch_cost=0.5)
    assert told(machine.handle(0.1, Received("p", batch(1)))) == [(1,)]
    assert told(machine.handle(0.2, Received("p", batch(2)))) == [(2,)]
    assert told(machine.handle(0.3, Received("p", batch(3)))) == [Queued(1)]
    assert told(machine.handle(0.4, Received("p", batch(4, 5, 6)))) == [Queued(2)]
    machine.check()
    # 3 costs one unit, and 4 to 6 two: one more than this second has, which the next one pays.
    assert told(machine.handle(1.0, Fired(TIMER))) == [(3,), (4, 5, 6)]
    assert told(machine.handle(2.0, Received("p", batch(7)))) == [(7,)]
    assert told(machine.handle(2.1, Received("p", batch(8)))) == [Queued(1)], "one was paid for before"
    gathered = GatheredPublications(batch(9, 10), (1.0, 2.0))
    assert told(machine.handle(2.2, Received("p", gathered))) == [Queued(2)]
    machine.check()


class Rows:
    def __init__(self) -> None:
        self.rows: list[Any] = []

    def write(self, row: Any) -> None:
        self.rows.append(row)


@pytest.mark.skipif(data_folder() is None, reason="the PlanetLab matrix is not there (TIDINGS_DATA)")
def test_all_systems_deliver_the_same_and_say_how() -> None:
    """PO-2 in the world of the experiments, small; nothing is measured here."""
    deliveries: dict[System, int] = {}
    for system in SYSTEMS:
        rows = Rows()
        setting = PopularSetting(
            system=system, brokers=15, subscriptions=60, publishers=20, seconds=20.0, rate=1.0, capacity=40.0
        )
        world = PopularWorld(setting, 1, rows)  # type: ignore[arg-type]
        world.run()
        deliveries[system] = world.rows.delivered
        ways = Counter(msgspec.json.decode(row.detail)["via"] for row in rows.rows if row.kind == "deliver")
        via = {"plain": "tree", "batching": "batch", "direct": "direct", "gossip": "gossip"}[system]
        assert ways[via] and set(ways) <= {"tree", via}
        assert any(row.message == "forwarded" for row in rows.rows)
    assert len(set(deliveries.values())) == 1 and deliveries["plain"] > 50


@pytest.mark.skipif(data_folder() is None, reason="the PlanetLab matrix is not there (TIDINGS_DATA)")
def test_one_group_of_all_delivers_the_same_and_is_heard_by_many_more() -> None:
    heard: list[int] = []
    delivered: list[int] = []
    groups: tuple[GroupName, ...] = ("wanting", "everybody")
    for group_of in groups:
        rows = Rows()
        setting = PopularSetting(
            system="gossip", brokers=15, subscriptions=30, publishers=10, seconds=10.0, capacity=40.0, group_of=group_of
        )
        world = PopularWorld(setting, 1, rows)  # type: ignore[arg-type]
        world.run()
        delivered.append(world.rows.delivered)
        heard.append(sum(row.message == "gossip_taken" for row in rows.rows))
    assert delivered[0] == delivered[1] > 20 and heard[1] > 2 * heard[0] > 0


def test_what_batches_cost_is_told_for_each_size_beside_single_publications() -> None:
    """Shape only: how fast it is depends on the machine."""
    found = e14.run("", {"seconds": 0.001}, 1, RingBuffer(1))
    sizes = {name.partition("|")[2] for name in found if name.startswith("gain|")}
    assert sizes == {str(2**power) for power in range(9)} and found["gain|1"] == 1.0
    assert all(value > 0 for name, value in found.items() if name != "slope|all")
