"""Radio: reach, a shared medium, broadcast."""

import itertools
import math
from typing import Any

import pytest

from tidings.machine.effects import BROADCAST, Effect, Send, Transport
from tidings.machine.inputs import Input, Received, Signal
from tidings.model.errors import UsageError
from tidings.protocols.teaching.ping import Echo
from tidings.sim.network.latency import Constant
from tidings.sim.network.loss import Duplication, Loss
from tidings.sim.network.radio import Radio, RadioParams
from tidings.sim.network.rule import Fates, reason_of
from tidings.sim.simulator import Simulator

DATAGRAM = Transport.DATAGRAM
PLACES = {"a": (0.0, 0.0), "b": (80.0, 0.0), "c": (160.0, 0.0), "d": (1000.0, 0.0)}
AIR_TIME = (1000 + 58) * 8 / 2e6


def radio(places: dict[str, tuple[float, float]] | None = None, **params: Any) -> Radio:
    where = PLACES if places is None else places
    rule = Radio(list(where), lambda node, now: where[node], RadioParams(**params))
    rule.begin(1)
    return rule


def heard(rule: Radio, now: float, sender: str, size: int = 1000) -> dict[str, Fates]:
    reach = rule.reach(now, sender, BROADCAST, size)
    assert reach is not None
    return dict(reach)


def test_a_packet_reaches_who_is_near_after_its_time_on_the_air() -> None:
    rule = radio()
    assert rule.fate(0.0, "a", "b", 1000, DATAGRAM)[0] == pytest.approx(AIR_TIME, abs=1e-6)
    assert reason_of(rule.fate(1.0, "a", "c", 1000, DATAGRAM)) == "out of range"


def test_a_broadcast_is_heard_by_all_in_reach_and_takes_the_air_once() -> None:
    rule = radio()
    assert list(heard(rule, 0.0, "b")) == ["a", "c"]
    assert list(heard(rule, 1.0, "d")) == []
    assert len(rule.air) == 1
    assert rule.reach(2.0, "a", "nobody", 10) is None


def test_who_hears_another_waits_and_all_air_time_in_one_place_is_serialised() -> None:
    rule = radio({name: (float(place), 0.0) for place, name in enumerate("abcdefgh")})
    delays = [rule.fate(number * 0.0001, name, "a", 1000, DATAGRAM)[0] for number, name in enumerate("bcdefgh")]
    ends = sorted(number * 0.0001 + delay for number, delay in enumerate(delays))
    assert all(later - earlier >= AIR_TIME - 1e-9 for earlier, later in itertools.pairwise(ends))


def test_two_that_begin_in_the_same_slot_collide_where_both_are_heard() -> None:
    rule = radio({"a": (0.0, 0.0), "b": (50.0, 0.0), "c": (90.0, 0.0)})
    assert heard(rule, 0.0, "a")["b"]
    assert reason_of(heard(rule, 0.00001, "c")["b"]) == "collision on the air"
    assert heard(rule, 0.1, "c")["b"]


def test_terminals_hidden_from_each_other_collide_at_the_node_between_them() -> None:
    rule = radio(reach=100.0, sense_reach=120.0)
    assert heard(rule, 0.0, "a")["b"]
    assert reason_of(heard(rule, 0.001, "c")["b"]) == "collision on the air"
    # To one node it is tried again until the air there is free.
    assert rule.fate(1.0, "a", "b", 1000, DATAGRAM)
    (delay,) = rule.fate(1.001, "c", "b", 1000, DATAGRAM)
    assert delay > 2 * AIR_TIME - 0.001 - 1e-6


def test_a_node_that_sends_does_not_hear() -> None:
    rule = radio({"a": (0.0, 0.0), "b": (50.0, 0.0)})
    assert heard(rule, 0.0, "b")["a"]
    assert reason_of(heard(rule, 0.000001, "a")["b"]) == "collision on the air"


def test_packets_do_not_wait_for_the_air_for_ever() -> None:
    rule = radio({"a": (0.0, 0.0), "b": (50.0, 0.0)}, wait_max=0.05)
    fates = [rule.fate(0.0, "a", "b", 1000, DATAGRAM) for _ in range(30)]
    assert {reason_of(fate) for fate in fates if not fate} == {"air is busy for too long"}
    assert 5 <= sum(bool(fate) for fate in fates) <= 12
    assert set(map(reason_of, heard(rule, 0.0, "a").values())) == {"air is busy for too long"}


def test_a_node_that_walks_away_is_lost_on_the_way() -> None:
    rule = Radio(["a", "b"], lambda node, now: (0.0, 0.0) if node == "a" else (10 * now, 0.0))
    rule.begin(1)
    reached = [bool(rule.fate(float(second), "a", "b", 100, DATAGRAM)) for second in range(20)]
    assert reached == [True] * 11 + [False] * 9


class Shout(Signal, frozen=True):
    number: int


class Shouter:
    def __init__(self) -> None:
        self.heard: list[tuple[str, int]] = []

    def start(self, now: float) -> list[Effect]:
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Shout(number):
                return [Send(BROADCAST, Echo(number), DATAGRAM)]
            case Received(sender, Echo(number)):
                self.heard.append((sender, number))
        return []

    def check(self) -> None:
        pass


@pytest.mark.parametrize("checking", [False, True])
def test_a_broadcast_in_the_simulator_reaches_the_machines_in_reach_and_is_counted_for_each(checking: bool) -> None:
    simulator = Simulator(1, Radio(list(PLACES), lambda node, now: PLACES[node]), checking=checking)
    for name in PLACES:
        simulator.add(name, lambda draws: Shouter())
    simulator.inject(1.0, "b", Shout(7))
    simulator.inject(2.0, "d", Shout(8))
    simulator.run(3.0)
    seen = {name: node.machine.heard for name, node in simulator.nodes.items()}
    assert seen == {"a": [("b", 7)], "b": [], "c": [("b", 7)], "d": []}
    counters = simulator.counters()
    assert (counters.sent, counters.received, counters.lost) == (3, 2, {"nobody hears it": 1})


def test_without_a_radio_a_broadcast_reaches_all_others_each_with_a_fate_of_its_own() -> None:
    simulator = Simulator(1, Duplication(Loss(Constant(0.1), 0.3), 0.3))
    for name in PLACES:
        simulator.add(name, lambda draws: Shouter())
    for number in range(100):
        simulator.inject(1.0 + number, "b", Shout(number))
    simulator.run(200.0)
    heard = {name: len(node.machine.heard) for name, node in simulator.nodes.items()}
    assert heard.pop("b") == 0
    assert len(set(heard.values())) > 1
    counters = simulator.counters()
    assert counters.sent == 300
    assert counters.in_flight == 0
    assert 0 < counters.lost["lost by noise"] < 150
    assert sum(heard.values()) == counters.received > 200


def test_a_broadcast_over_a_stream_is_dropped_and_nobody_has_its_name() -> None:
    class Misled(Shouter):
        def start(self, now: float) -> list[Effect]:
            return [Send(BROADCAST, Echo(1))]

    simulator = Simulator(1, Constant(0.1))
    simulator.add("a", lambda draws: Misled())
    simulator.add("b", lambda draws: Shouter())
    simulator.run(1.0)
    assert simulator.counters().lost == {"a stream has one receiver": 1}
    with pytest.raises(UsageError, match="the address of all nodes"):
        simulator.add(BROADCAST, lambda draws: Shouter())


def test_loss_around_a_radio_strikes_each_hearer_of_a_broadcast_for_itself() -> None:
    inner = Radio(list(PLACES), lambda node, now: PLACES[node])
    rule = Loss(inner, 0.5)
    rule.begin(1)
    heard = [dict(rule.reach(float(second), "b", BROADCAST, 10) or []) for second in range(500)]
    shares = [sum(bool(fates[node]) for fates in heard) / 500 for node in ("a", "c")]
    assert shares == pytest.approx([0.5, 0.5], abs=0.08)
    assert sum(bool(fates["a"]) != bool(fates["c"]) for fates in heard) > 150
    assert Loss(Constant(0.1), 0.5).reach(0.0, "b", BROADCAST, 10) is None


def test_radio_parameters_out_of_range_are_refused() -> None:
    wrongs: list[dict[str, Any]] = [{"reach": 0.0}, {"sense_reach": 10.0}, {"rate_bps": -1.0}, {"wait_max": math.nan}]
    for wrong in wrongs:
        with pytest.raises(UsageError):
            RadioParams(**wrong)
