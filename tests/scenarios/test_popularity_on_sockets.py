"""Brokers on sockets that go by popularity: clients notice nothing of it, but for what they were not promised."""

import os
import time
from pathlib import Path

import pytest

from tests.scenarios.services import chain
from tests.worlds.loopback import connect
from tests.worlds.sockets import play, until
from tidings.diagnosis.network import crawl
from tidings.diagnosis.way import trace_event
from tidings.model.event import Event
from tidings.net.addresses import address_text
from tidings.net.broker.service import BrokerService
from tidings.protocols.routing.carriage.popular import PopularCarriage
from tidings.protocols.routing.params import PopularityName
from tidings.protocols.routing.router import Router

SAID = {
    "batching": "when its batch is full",
    "direct": "goes directly to d",
    "gossip": "is told to the group of d",
    "asked": "goes directly to d, past the tree: not popular behind b (1 subscription 3.0 hops away",
}
"""What `tidings why` tells of it."""


def carriage(service: BrokerService) -> PopularCarriage:
    assert isinstance(service.node.routing, Router)
    found = service.node.routing.carrier.carriage
    assert isinstance(found, PopularCarriage)
    return found


@pytest.mark.parametrize("way", ["batching", "direct", "gossip", "asked"])
def test_what_few_want_comes_another_way_and_promises_are_kept(way: PopularityName) -> None:
    async def scenario() -> None:
        routing = {"engine": "plain", "popularity": way, "capacity": 1.0, "evaluated_every": 0.1, "batched_for": 0.1}
        async with (
            chain("a", "b", "c", "d", routing=routing, groups={"interval": 0.1}) as brokers,
            connect("tidings://" + address_text(brokers["a"].address), name="pub") as publisher,
            connect("tidings://" + address_text(brokers["d"].address), name="far") as far,
            connect("tidings://" + address_text(brokers["c"].address), name="sure") as sure,
        ):
            for kind in ("popular", "rare"):
                await publisher.advertise(f"kind = '{kind}'", latency="low" if way == "asked" else "any")
            loose = await far.subscribe("kind = 'rare'", guarantee="none")
            others = [await far.subscribe("kind = 'popular'", guarantee="none") for _ in range(4)]
            ours = carriage(brokers["a"])
            numbers: set[object] = set()
            count = 0

            async def publish() -> None:
                nonlocal count
                count += 1
                await publisher.publish({"kind": "popular", "n": count})
                await publisher.publish({"kind": "rare", "n": count})

            async def take() -> None:
                for event in await loose.take(100):
                    assert event.attributes["n"] not in numbers, "twice"
                    numbers.add(event.attributes["n"])

            while ours.diverted["diverted"] < 5:
                await publish()
                await take()
            # A stream that was silent for a moment is as at the beginning, so it is asked until it is seen.
            steps: list[str] = []
            while not any(SAID[way] in text for text in steps):
                await publish()
                await take()
                network = await crawl([address_text(brokers["a"].address)])
                (told,) = trace_event(network, Event({"kind": "rare", "n": 1}), "far/1")
                assert told.arrives
                steps = [step.text for step in told.steps]
            while len(numbers) < count:
                await take()
            # Who was promised something gets all of it, in order, whatever the others' way was before.
            kept = await sure.subscribe("kind = 'rare'", guarantee="installed")
            first = count + 1
            got: list[object] = []
            for _ in range(30):
                await publish()
                got += [event.attributes["n"] for event in await kept.take(1)]
                await take()
            assert got == list(range(first, count + 1))
            while len(numbers) < count:
                await take()
            assert numbers == set(range(1, count + 1)) and len(others) == 4

    play(scenario())


def test_a_broker_measures_its_capacity_when_nobody_says_it() -> None:
    async def scenario() -> None:
        async with chain("a", routing={"engine": "plain", "popularity": "batching"}) as brokers:
            measured = carriage(brokers["a"])
            await until(lambda: measured.popularity.capacity != measured.params.units_per_second)
            assert measured.popularity.capacity > 0

    play(scenario())


def test_a_forecast_is_read_and_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "rates.csv"

    def write(rate: float) -> None:
        # One interval that lasts longer than the test.
        interval = int(time.time() // 1e9)
        path.write_text(f"advertisement,interval,forecast\np,{interval},{rate}\n")

    async def scenario() -> None:
        routing = {"engine": "plain", "popularity": "direct", "capacity": 1.0, "forecast_interval": 1e9}
        write(2.5)
        async with chain("a", routing={**routing, "forecast": str(path)}) as brokers:
            ours = carriage(brokers["a"])
            await until(lambda: ours.rates_foreseen == {"p": 2.5})
            write(7.0)
            os.utime(path, (1.0, 1.0))
            await until(lambda: ours.rates_foreseen == {"p": 7.0})

    play(scenario())
