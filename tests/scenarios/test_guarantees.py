"""Guarantees in the simulator: the race after the receipt, crashes, shutting down, and the published experiments at a
small scale. `tidings lab run dependable/E23` runs them at larger ones. TIDINGS_EXAMPLES lengthens this."""

from functools import cache
from math import ceil, floor
from statistics import fmean
from typing import Any

import msgspec
import pytest

from tests.spark.references.families import reference
from tests.worlds.cloud import (
    CloudOutcome,
    delivery_latency_99,
    false_positives,
    group_differences,
    later,
    messages_per_broker,
    missed_publications,
    play,
    throughput,
)
from tests.worlds.edge import head
from tidings.lab.dependable.cloud import CloudSetting
from tidings.machine.effects import Send
from tidings.machine.inputs import Received
from tidings.model.errors import UsageError
from tidings.model.identity import name_of
from tidings.nodes.broker import BrokerParams
from tidings.protocols.delivery.edge.edge import Close, EdgeClosed
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.routing.messages import AdvertisementAdded, Installed, TablesBegun, TablesTold
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.router import Router
from tidings.pubsub.client import Arrived, Begun, Confirmed, OpenAdvertisement, OpenSubscription, PublishBatch
from tidings.pubsub.signals import NeighbourUp
from tidings.sim.cast import ClientRole, cast_all
from tidings.sim.library.brokers import brokers, cast_brokers, client_of, with_clients
from tidings.sim.network.latency import Constant
from tidings.sim.scenario import Scenario, run_scenario
from tidings.sim.simulator import Simulator
from tidings.sim.topologies.shapes import make_topology
from tidings.spark.metrics.registry import METRICS
from tidings.trace.record import Record
from tidings.trace.writers import RingBuffer


def assert_passes(scenario: Scenario, seed: int) -> None:
    result = run_scenario(scenario, seed, check="every")
    assert result.passed, "\n".join([f"seed {seed}", *map(str, result.problems), *result.faults])


# The race.


@pytest.mark.spec("S-99", "S-110")
@pytest.mark.parametrize("late", [False, True], ids=["advertised before", "advertised after the receipt"])
@pytest.mark.parametrize("latency", [0.0, 0.02], ids=["0 ms", "20 ms"])
def test_what_is_published_after_a_receipt_at_another_broker_arrives_once(
    latency: float, late: bool, examples: int
) -> None:
    assert_passes(brokers(2, "chain", rounds=examples, latency=latency, late=late), seed=1)


@pytest.mark.parametrize("workload", ["w-psdg", "transport-e23", "patterns", "quotes"])
def test_the_same_with_what_a_workload_asks_for_and_publishes(workload: str) -> None:
    assert_passes(brokers(4, rounds=30, workload=workload), seed=1)


def test_the_same_where_a_question_for_history_passes_more_than_a_hundred_brokers() -> None:
    scenario = brokers(150, "chain", rounds=12, spacing=5.0, latency=0.002, late=True)
    result = run_scenario(scenario, 2, check="never", frames=False)
    assert result.passed, "\n".join(map(str, result.problems))


@pytest.mark.spec("S-99", "S-110")
@pytest.mark.parametrize("late", [False, True], ids=["advertised before", "advertised after the receipt"])
def test_the_same_on_a_map_of_fifty_brokers(late: bool, examples: int) -> None:
    try:
        assert_passes(brokers(50, "zoo-tree:Surfnet", rounds=max(8, examples // 8), late=late), seed=1)
    except UsageError as absent:
        pytest.skip(str(absent))


@pytest.mark.parametrize("late", [False, True], ids=["advertised before", "advertised after the receipt"])
@pytest.mark.parametrize("topology", ["random_tree", "ring"])
def test_nothing_that_was_published_after_a_receipt_is_lost_when_brokers_crash(
    topology: str, late: bool, examples: int
) -> None:
    for seed in range(max(1, examples // 30)):
        assert_passes(brokers(5, topology, rounds=30, late=late, crashes=3), seed)


def test_clients_that_go_to_another_broker_lose_nothing_without_being_told(examples: int) -> None:
    for seed in range(max(1, examples // 30)):
        assert_passes(brokers(5, rounds=30, crashes=3, moving=True), seed)


def test_nothing_is_lost_when_the_network_is_cut_and_brokers_pause(examples: int) -> None:
    for seed in range(max(1, examples // 30)):
        assert_passes(brokers(5, rounds=30, pauses=2, partitions=2), seed)


# Two brokers by hand.


def pair(params: BrokerParams) -> Simulator:
    topology = with_clients(make_topology("chain", 2, 0))
    simulator = Simulator(1, Constant(0.01), checking=True)
    for name, make in cast_brokers(topology, params).items():
        simulator.add(name, make)
    simulator.run(3.0)
    return simulator


@pytest.mark.parametrize("broker", ["n0", "n1"], ids=["at the same broker", "at another broker"])
def test_a_publisher_that_lost_its_memory_publishes_under_lower_numbers_and_all_of_it_arrives(broker: str) -> None:
    topology = with_clients(make_topology("chain", 2, 0))
    simulator = Simulator(1, Constant(0.01), checking=True)
    roles: dict[str, tuple[str, Any]] = {name: ("broker", BrokerParams()) for name in ("n0", "n1")}
    here, there = client_of("n0"), client_of("n1")
    roles[here] = "client", ClientRole(brokers=("n0", "n1"), is_named=True)
    roles[there] = "client", ClientRole(brokers=("n1",))
    for name, make in cast_all(roles, topology).items():
        simulator.add(name, make)
    simulator.inject(3.0, there, OpenSubscription("all", "x >= 0"))
    simulator.inject(4.0, here, OpenAdvertisement("advertise", "x >= 0"))
    simulator.inject(5.0, here, PublishBatch(1, (head(1), head(2), head(3)), (b"",) * 3, "first"))
    simulator.run(6.0)
    simulator.crash(here)
    if broker == "n1":
        simulator.crash("n0")
    simulator.restart(here, keep_state=False)
    simulator.inject(60.0, here, OpenAdvertisement("advertise", "x >= 0"))
    simulator.inject(70.0, here, PublishBatch(1, (head(4),), (b"",), "second"))
    simulator.run(120.0)
    items = [item for _, item in simulator.delivered(here)]
    assert [item.ticket for item in items if isinstance(item, Confirmed)].count("second") == 1
    arrived = [item for _, item in simulator.delivered(there) if isinstance(item, Arrived)]
    assert [number for batch in arrived for number in batch.numbers] == [1, 2, 3, 1]
    assert len({batch.publisher for batch in arrived}) == 2
    assert {name_of(batch.publisher) for batch in arrived} == {here}


@pytest.mark.spec("S-121")
def test_a_broker_that_closes_says_so_when_what_was_begun_is_acknowledged() -> None:
    simulator = pair(BrokerParams())
    client = client_of("n0")
    simulator.inject(3.0, client, OpenAdvertisement("advertise", "x >= 0"))
    simulator.inject(3.015, "n0", Close())
    simulator.run(4.0)
    [closed_at] = [at for at, item in simulator.delivered("n0") if isinstance(item, EdgeClosed)]
    [confirmed_at] = [at for at, item in simulator.delivered(client) if isinstance(item, Confirmed)]
    assert 3.015 < closed_at < confirmed_at, "the answer has left for the client when the broker closes"


@pytest.mark.spec("S-113")
def test_a_publication_that_another_subscription_attracts_is_dropped_at_the_edge_of_one_that_is_not_in_place() -> None:
    # A wide subscription at n0 brings everything from n1; a second one is made while publications are on their way.
    simulator = pair(BrokerParams(delivery=EdgeParams()))
    here, there = client_of("n0"), client_of("n1")
    simulator.inject(3.0, there, OpenAdvertisement("advertise", "x >= 0"))
    simulator.inject(3.5, here, OpenSubscription("wide", "x >= 0"))
    simulator.run(4.0)
    for place in range(100):
        simulator.inject(4.0 + place / 1000, there, PublishBatch(1, (head(place),), (b"",)))
    simulator.inject(4.03, here, OpenSubscription("narrow", "x >= 0 OR y = 1"))
    simulator.run(6.0)
    items = [item for _, item in simulator.delivered(here)]
    numbers = {item.ticket: item.number for item in items if isinstance(item, Begun)}
    batches = [item for item in items if isinstance(item, Arrived)]
    arrived = {
        ticket: [each for batch in batches if batch.subscription == number for each in batch.numbers]
        for ticket, number in numbers.items()
    }
    assert arrived["wide"] == list(range(1, 101))
    assert arrived["narrow"] == list(range(101 - len(arrived["narrow"]), 101))
    assert 0 < len(arrived["narrow"]) < 100
    assert simulator.counters().given_up != {}


@pytest.mark.spec("S-97")
def test_an_advertisement_waits_for_the_acknowledgements_of_both_links_on_which_it_went_on() -> None:
    router = Router("b2", RoutingParams())
    router.start(0.0)
    lives = {}
    for name in ("b1", "b4", "b5"):
        [begun] = [effect.message for effect in router.handle(0.0, NeighbourUp(name, 1)) if isinstance(effect, Send)]
        lives[name] = begun.life
    for name, life in lives.items():
        router.handle(0.0, Received(name, TablesBegun(1, life)))
        router.handle(0.0, Received(name, TablesTold()))
    told = AdvertisementAdded(7, "p/1@b1", "p", "x >= 0", "b1", 1)
    sent = [effect for effect in router.handle(0.0, Received("b1", told)) if isinstance(effect, Send)]
    assert [(send.to, type(send.message)) for send in sent] == [("b4", AdvertisementAdded), ("b5", AdvertisementAdded)]
    numbers = {send.to: send.message.number for send in sent}
    effects = router.handle(0.1, Received("b4", Installed(numbers["b4"], ("b4",), 1)))
    assert not any(isinstance(effect, Send) for effect in effects)
    effects = router.handle(0.2, Received("b5", Installed(numbers["b5"], ("b5",), 1)))
    [answer] = [effect for effect in effects if isinstance(effect, Send)]
    assert answer.to == "b1"
    assert (answer.message.number, sorted(answer.message.brokers)) == (7, ["b2", "b4", "b5"])


# The published experiments, small.


@cache
def outcome(setting: CloudSetting) -> CloudOutcome:
    return play(setting)


def small(brokers: int, system: str, kind: str, **settings: float) -> CloudOutcome:
    fields = {"brokers": brokers, "system": system, "kind": kind, "seconds": 20.0, "joining": 6.0} | settings
    return outcome(msgspec.convert(fields, CloudSetting))


@pytest.mark.spec("S-118")
@pytest.mark.parametrize("brokers", [6, 10])
def test_receipts_leave_no_false_positives_and_less_in_memory_than_waiting(brokers: int) -> None:
    ours, plain = small(brokers, "guarantees", "installed"), small(brokers, "plain", "installed")
    assert max(ours.ack_times) < plain.setting.timeout
    assert false_positives(ours)[0] == 0 < false_positives(plain)[0]
    assert sum(plain.in_memory) > 3 * sum(ours.in_memory)


@pytest.mark.long
@pytest.mark.spec("S-119")
def test_references_miss_nothing_and_twins_agree_with_five_joins_a_second() -> None:
    """Over six seeds, since few subscriptions of a plain system miss anything in a short run."""
    misses: dict[int, float] = {}
    differ: dict[int, float] = {}
    for size in (3, 10):
        for seed in range(1, 7):
            setting = {"seconds": 30.0, "joining": 15.0, "joins": 5, "seed": seed}
            ours, plain = (small(size, system, "reference", **setting) for system in ("guarantees", "plain"))
            assert missed_publications(ours)[0] == group_differences(ours)[0] == 0
            misses[size] = misses.get(size, 0.0) + missed_publications(plain)[0]
            differ[size] = differ.get(size, 0.0) + group_differences(plain)[0]
    assert 0 < misses[3] < misses[10]
    assert 0 < differ[3] < differ[10]


def test_references_miss_nothing_and_twins_agree() -> None:
    """Shape only: thirty join in a second, where the published experiment has five."""
    shares = []
    for size in (3, 10):
        ours = small(size, "guarantees", "reference", seconds=17.0, joining=4.0, joins=30)
        plain = small(size, "plain", "reference", seconds=17.0, joining=4.0, joins=30)
        assert missed_publications(ours)[0] == group_differences(ours)[0] == 0
        shares.append((missed_publications(plain)[0], group_differences(plain)[0]))
    assert all(0 <= small < large for small, large in zip(*shares, strict=True))


def test_brokers_near_their_limit_make_plain_clients_miss_much_and_guarantees_nothing() -> None:
    """What the source found, it found with brokers that took long: E24 finds how long."""
    slow = {"seconds": 20.0, "joining": 6.0, "handling": 0.01}
    ours, plain = (small(3, system, "reference", **slow) for system in ("guarantees", "plain"))
    assert missed_publications(ours)[0] == group_differences(ours)[0] == 0
    usual = small(3, "plain", "reference", seconds=20.0, joining=6.0)
    assert missed_publications(plain)[0] > 3 * missed_publications(usual)[0]


# What a trace says of it.


def traced(system: str, kind: str) -> tuple[CloudOutcome, list[Record]]:
    fields = {"brokers": 10, "system": system, "kind": kind, "seconds": 13.0, "joining": 2.0, "joins": 40}
    trace = RingBuffer(1_000_000)
    return play(msgspec.convert(fields, CloudSetting), trace), trace.records()


def metric(name: str, records: list[Record]) -> dict[str, Any]:
    [row] = reference(METRICS[name], records)
    return row


@pytest.mark.parametrize("system", ["guarantees", "plain"])
def test_the_metrics_of_receipts_are_what_the_applications_saw(system: str) -> None:
    outcome, records = traced(system, "installed")
    spans = outcome.unacknowledged
    begun, until = ([span[end] for mine in spans for span in mine] for end in (0, 1))
    samples = range(ceil(min(begun)), floor(max(until)) + 1)
    held = [begin <= at < end for at in samples for mine in spans for begin, end in mine]
    memory = metric("publications_in_memory", records)["publications_in_memory"]
    assert memory == pytest.approx(sum(held) / len(samples) / len(spans))
    waits = metric("acknowledgement_time", records)
    if system == "guarantees":
        assert waits["acknowledged"] == len(outcome.ack_times) > 50
        assert waits["acknowledgement_mean"] == pytest.approx(fmean(outcome.ack_times), abs=1e-6)
    else:
        assert waits["acknowledged"] == 0, "a plain client only waits"


@pytest.mark.parametrize("system", ["guarantees", "plain"])
def test_the_metric_of_what_comes_too_early_is_what_the_applications_saw(system: str) -> None:
    outcome, records = traced(system, "installed")
    row, (share, each) = metric("premature_deliveries", records), false_positives(outcome)
    affected = share * len(later(outcome))
    assert row["promised_clients"] == len(outcome.subscribers)
    assert row["premature_clients_share"] * row["promised_clients"] == pytest.approx(affected)
    assert row["premature"] == pytest.approx(affected * each)
    assert (row["premature"] > 0) == (system == "plain")


@pytest.mark.parametrize("system", ["guarantees", "plain"])
def test_the_metric_of_twins_is_what_the_applications_saw(system: str) -> None:
    outcome, records = traced(system, "reference")
    row, (share, each) = metric("group_difference", records), group_differences(outcome)
    differing = share * len(later(outcome)) / 2
    assert row["twin_groups"] == len(outcome.subscribers) / 2
    assert row["differing_group_share"] * row["twin_groups"] == pytest.approx(differing)
    assert row["group_difference_mean"] * row["twin_groups"] == pytest.approx(differing * each)
    assert (differing > 0) == (system == "plain")
    assert metric("premature_deliveries", records)["premature"] == 0


def test_guarantees_cost_few_messages_and_no_time() -> None:
    # Shape only: S-120 asks for 5 %. A short run has few deliveries for each subscription that joins; in runs as long
    # as the published ones it is 5.4 %, so S-120 is missed there too (docs/concepts/delivery.md).
    ours = small(6, "guarantees", "mixed", seconds=30.0, joining=4.0)
    plain = small(6, "plain", "mixed", seconds=30.0, joining=4.0)
    assert messages_per_broker(ours) <= 1.12 * messages_per_broker(plain)
    assert throughput(ours) > 0.95 * throughput(plain)
    assert abs(delivery_latency_99(ours) / delivery_latency_99(plain) - 1) < 0.05
