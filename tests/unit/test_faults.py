"""Faults: their text, how plans are drawn and made smaller, and what each does to a run."""

from contextlib import suppress
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.puppets import Do, Puppet
from tidings.machine.effects import Connect, Deliver, Disconnect, Effect, Load, Save, Send, SetTimer, Transport
from tidings.machine.inputs import Fired, Input, Received, Saved
from tidings.model.errors import UsageError
from tidings.protocols.teaching.ping import Echo, Probe
from tidings.pubsub.signals import PeerDown
from tidings.sim.fault_schedule import (
    CUT_OFF,
    DRAWERS,
    Disturbed,
    Downtime,
    FaultMix,
    FaultSchedule,
    downtimes,
    draw_faults,
    first_starts,
)
from tidings.sim.faults import (
    Break,
    Clog,
    Corrupt,
    Crash,
    Fault,
    FaultPlan,
    FullDisk,
    Partition,
    Pause,
    Skew,
    SlowDisk,
    parse_fault,
    parse_plan,
    plan_of,
)
from tidings.sim.frames import REFUSED, STOPPED, CorruptibleFrames
from tidings.sim.library.brokers import cast_brokers, with_clients
from tidings.sim.network.latency import Constant
from tidings.sim.node import Draws
from tidings.sim.simulator import Simulator
from tidings.sim.topologies.shapes import make_topology
from tidings.workloads.churn import FOR_EVER

NODES = [f"n{place}" for place in range(8)]
EVERYTHING = FaultMix(
    crashes=4,
    crashes_forgetting=4,
    pauses=4,
    partitions=4,
    one_way_partitions=4,
    swizzles=3,
    skewed_clocks=3,
    slow_disks=3,
    full_disks=3,
    corruptions=3,
)


def plans() -> st.SearchStrategy[FaultPlan]:
    return st.builds(lambda seed: draw_faults(EVERYTHING, NODES, seed), st.integers(0, 100_000))


@given(plans())
def test_a_plan_is_read_back_from_its_text(plan: FaultPlan) -> None:
    assert parse_plan(plan.text()) == plan
    assert parse_plan("\n".join(str(fault) for fault in plan.faults)) == plan


@given(st.floats(0, 1e9), st.floats(1e-6, 1e9), st.floats(0, 1e6), st.floats(-0.999, 10))
def test_the_text_of_a_fault_is_exact(at: float, length: float, offset: float, drift: float) -> None:
    if at + length > at:
        fault = Skew(at, at + length, "n1", offset, drift)
        assert parse_fault(str(fault)) == fault


def test_faults_read_as_one_would_write_them() -> None:
    assert str(Crash(2.5, 7.0, "n3", forgetting=True)) == "2.5..7 crash n3 forgetting"
    assert str(Crash(2.5, FOR_EVER, "n3", silent=True)) == "2.5.. crash n3 silent"
    assert str(Partition(4.0, 8.0, ("n1", "n2"), "outgoing")) == "4..8 partition n1,n2 outgoing"
    assert parse_plan("3..9 pause n1;  0..1 clog n2\n") == plan_of([Clog(0.0, 1.0, "n2"), Pause(3.0, 9.0, "n1")])
    assert parse_fault("1..2 clock n1 drift=0.5") == Skew(1.0, 2.0, "n1", 0.0, 0.5)
    assert parse_fault("4..8 break n1,n2") == Break(4.0, 8.0, "n1", "n2")
    assert str(Break(4.0, 8.0, "n1", "n2")) == "4..8 break n1,n2"
    assert parse_plan("") == FaultPlan()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("crash n1", "write a fault as in"),
        ("1..2 flood n1", "there is no 'flood'; the kinds are crash, pause, partition"),
        ("x..2 crash n1", "its times are no numbers"),
        ("2..1 crash n1", "ends after that"),
        ("nan..1 crash n1", "begins at 0 or later"),
        ("1..2 crash n1 loudly", "nothing, or forgetting and silent"),
        ("1..2 crash n1,n2", "this strikes one node"),
        ("1..2 partition n1 sideways", "its direction is both, outgoing, incoming"),
        ("1..2 slow-disk n1", "delay is missing"),
        ("1..2 slow-disk n1 delay=x", "could not convert"),
        ("1..2 corrupt n1 probability=2", "from 0 to 1"),
        ("1..2 clock n1 offset=-1", "at time 0 only"),
        ("1..2 pause n1 for=ever", "after the node comes nothing"),
        ("1..2 break n1", "write both of them"),
    ],
)
def test_what_is_wrong_with_a_fault_is_said(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as raised:
        parse_plan(text)
    assert text.split()[0].partition("..")[0] in str(raised.value)


@given(st.text(max_size=60))
def test_no_text_makes_the_reader_of_plans_stumble(text: str) -> None:
    with suppress(UsageError):
        parse_plan(text)


@given(st.integers(0, 10_000))
def test_drawn_faults_keep_to_their_mix(seed: int) -> None:
    mix = FaultMix(begin=10.0, end=50.0, length_max=5.0, crashes=3, partitions=2, swizzles=2, share_max=0.25)
    plan = draw_faults(mix, NODES, seed, exempt=("n0",))
    for fault in plan.faults:
        assert 10.0 <= fault.at < fault.until <= 50.001
        assert fault.until - fault.at <= 5.001
        assert "n0" not in fault.nodes
    assert sum(isinstance(fault, Crash) for fault in plan.faults) <= 3
    assert all(len(fault.nodes) <= 2 for fault in plan.faults)


def test_all_kinds_of_faults_are_drawn_sooner_or_later() -> None:
    kinds = {type(fault) for seed in range(30) for fault in draw_faults(EVERYTHING, NODES, seed).faults}
    assert kinds == {Crash, Pause, Partition, Clog, Skew, SlowDisk, FullDisk, Corrupt}


def test_one_more_kind_leaves_the_other_faults_of_a_seed_as_they_were() -> None:
    for seed in range(20):
        fewer = draw_faults(FaultMix(crashes=5), NODES, seed).faults
        more = draw_faults(FaultMix(crashes=5, pauses=5), NODES, seed).faults
        assert [fault for fault in more if isinstance(fault, Crash)] == list(fewer)


def test_a_mix_says_what_is_wrong_with_it() -> None:
    for name in DRAWERS:
        with pytest.raises(UsageError, match=name):
            FaultMix(**{name: -1})
    for wrong in ({"end": 0.0}, {"length_max": 0.0}, {"share_max": 0.0}, {"drift_max": 1.0}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            FaultMix(**wrong)  # type: ignore[arg-type]


def test_a_plan_becomes_smaller() -> None:
    plan = parse_plan("1..3 crash n1; 2..4 pause n2; 3..9 partition n1,n2,n5; 4.. crash n3")
    assert plan.over_at == 9.0
    assert plan.without(range(1, 3)) == parse_plan("1..3 crash n1; 4.. crash n3")
    assert plan.shortened(2) == parse_plan("1..3 crash n1; 2..4 pause n2; 3..6 partition n1,n2,n5; 4.. crash n3")
    assert plan.shortened(3) is None
    assert plan.among(("n2", "n3", "n5")) == parse_plan("2..4 pause n2; 3..9 partition n2,n5; 4.. crash n3")
    shortest = parse_plan("1..1.001 crash n1")
    assert shortest.shortened(0) is None


def test_crashes_that_overlap_are_one() -> None:
    plan = parse_plan("1..5 crash n1 silent; 3..9 crash n1 forgetting; 9..10 crash n1; 20..30 crash n1; 0..4 crash n2")
    assert downtimes(plan) == {
        "n1": [Downtime(1.0, 10.0, True, True), Downtime(20.0, 30.0, False, False)],
        "n2": [Downtime(0.0, 4.0, False, False)],
    }
    assert first_starts(plan) == {"n2": 4.0}


class Diary:
    """Sends a numbered probe to its peer every second, saves, and delivers the time and whatever it hears."""

    def __init__(self, peer: str, transport: Transport) -> None:
        self.peer, self.transport, self.number = peer, transport, 0

    def start(self, now: float) -> list[Effect]:
        return [Deliver(("start", self.number)), SetTimer("tick", now + 1.0)]

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Fired("tick"):
                self.number += 1
                send = Send(self.peer, Probe(self.number), self.transport)
                return [Deliver(("tick", now)), Save("number", b"x"), send, SetTimer("tick", now + 1.0)]
            case Received(_, Probe(number)):
                return [Deliver(("heard", number))]
            case Saved():
                return [Deliver(("saved", now))]
        return []

    def check(self) -> None:
        assert self.number >= 0


def run(faults: str, until: float = 10.5, transport: Transport = Transport.DATAGRAM) -> Simulator:
    """Two nodes, a and b, that write to each other with a delay of 0.25."""
    plan = parse_plan(faults)
    simulator = Simulator(1, Disturbed(Constant(0.25), plan), checking=True, frames=CorruptibleFrames(plan, 1))
    FaultSchedule(simulator, plan).schedule()
    starts = first_starts(plan)
    for node, peer in (("a", "b"), ("b", "a")):

        def make(draws: Draws, peer: str = peer) -> Diary:
            return Diary(peer, transport)

        simulator.add(node, make, at=starts.get(node, 0.0))
    simulator.run(until)
    return simulator


def entries(simulator: Simulator, node: str, kind: str) -> list[tuple[float, Any]]:
    return [(at, item[1]) for at, item in simulator.delivered(node) if item[0] == kind]


def test_without_faults_everything_is_heard() -> None:
    simulator = run("")
    assert entries(simulator, "b", "heard") == [(second + 0.25, second) for second in range(1, 11)]


def test_a_crashed_node_does_nothing_and_comes_back_with_or_without_its_state() -> None:
    kept, forgotten = run("3.5..6.5 crash a"), run("3.5..6.5 crash a forgetting")
    assert entries(kept, "a", "start") == [(0.0, 0), (6.5, 3)]
    assert entries(forgotten, "a", "start") == [(0.0, 0), (6.5, 0)]
    for simulator in (kept, forgotten):
        assert not any(3.5 < at < 6.5 for at, _ in simulator.delivered("a"))
        assert simulator.counters().lost == {"node is down": 3}


def test_a_node_that_is_down_at_first_starts_when_it_is_over() -> None:
    assert entries(run("0..4 crash a; 2..5 crash a"), "a", "start") == [(5.0, 0)]


def test_a_paused_node_catches_up() -> None:
    simulator = run("2.1..5.6 pause a; 3..6.6 pause a")
    heard = entries(simulator, "a", "heard")
    assert [number for _, number in heard] == list(range(1, 11))
    assert [at for at, _ in heard if 2.1 < at < 7] == [2.25 + 4.35] * 5


def test_a_pause_survives_a_restart_inside_it() -> None:
    simulator = run("2.1..8.1 pause a; 3..4 crash a")
    assert not any(4.0 < at < 8.1 for at, _ in entries(simulator, "a", "tick"))
    assert any(at >= 8.1 for at, _ in entries(simulator, "a", "tick"))


@pytest.mark.parametrize(("words", "a_hears", "b_hears"), [("", 6, 6), (" outgoing", 10, 6), (" incoming", 6, 10)])
def test_a_partition_cuts_the_directions_it_says(words: str, a_hears: int, b_hears: int) -> None:
    simulator = run(f"2.5..6.5 partition a{words}")
    assert len(entries(simulator, "a", "heard")) == a_hears
    assert len(entries(simulator, "b", "heard")) == b_hears
    assert simulator.counters().lost == {CUT_OFF.reason: 20 - a_hears - b_hears}


def test_a_stream_outlives_a_short_partition() -> None:
    simulator = run("2.5..4.5 partition a", transport=Transport.STREAM)
    assert [number for _, number in entries(simulator, "b", "heard")] == list(range(1, 11))


def test_a_clog_holds_messages_and_lets_them_go_at_once() -> None:
    simulator = run("2.5..6.5 clog a; 6.4..7.2 clog b")
    heard = entries(simulator, "b", "heard")
    assert [number for _, number in heard] == list(range(1, 11))
    assert [at for at, number in heard if 3 <= number <= 7] == pytest.approx([7.2 + 0.25] * 5)


def test_a_skewed_clock_jumps_drifts_and_never_goes_back() -> None:
    ticks = entries(run("2.5..6.5 clock a offset=0.75 drift=1.0"), "a", "tick")
    shown = [clock for _, clock in ticks]
    assert shown == sorted(shown)
    # The jump takes the clock from 2.5 to 3.25, past the tick of 3; until 6.5 it runs at twice the pace.
    assert [at for at, _ in ticks[:4]] == pytest.approx([1.0, 2.0, 2.5, 3.0])
    assert ticks[2][1] == pytest.approx(3.25)
    ahead = {round(clock - at, 6) for at, clock in ticks if at > 6.5}
    assert ahead == {0.75 + 4.0}


def test_a_clock_may_be_behind_from_the_beginning() -> None:
    ticks = entries(run("0..5 clock a offset=-3"), "a", "tick")
    assert [clock - at for at, clock in ticks] == pytest.approx([-3.0] * len(ticks))


def test_a_slow_disk_is_slow_while_it_lasts() -> None:
    saved = entries(run("2.5..6.5 slow-disk a delay=0.5; 3.5..4.5 slow-disk a delay=0.75"), "a", "saved")
    assert [at for at, _ in saved] == pytest.approx([1.005, 2.005, 3.5, 4.75, 5.5, 6.5, 7.005, 8.005, 9.005, 10.005])


def test_a_full_disk_takes_nothing_and_keeps_what_it_has() -> None:
    schedule = FaultSchedule(run(""), parse_plan("11..12 full-disk a"))
    (fault,), disk = schedule.plan.faults, schedule.simulator.nodes["a"].disk
    schedule.begin(fault)
    assert disk.save(Save("other", b"y")).error == "no space left on the disk"
    assert disk.load(Load("")).entries == (("number", b"x"),)
    assert disk.save(Save("number", None)).error is None
    schedule.end(fault)
    assert disk.save(Save("other", b"y")).error is None


def test_a_connection_breaks_at_the_beginning_of_a_fault_and_at_its_end() -> None:
    topology = with_clients(make_topology("chain", 2, 0))
    plan = parse_plan("3..5 break n0.client,n0")
    simulator = Simulator(1, Disturbed(Constant(0.01), plan))
    FaultSchedule(simulator, plan).schedule()
    for name, make in cast_brokers(topology).items():
        simulator.add(name, make)
    simulator.run(8.0)
    gone = [at for at, item in simulator.delivered("n0.client") if isinstance(item, PeerDown)]
    assert gone == [3.0, 5.0]


@pytest.mark.parametrize("transport", [Transport.DATAGRAM, Transport.STREAM])
def test_corrupt_frames_are_refused_and_counted(transport: Transport) -> None:
    simulator = run("0..200 corrupt a probability=1", until=100.9, transport=transport)
    counters = simulator.counters()
    assert entries(simulator, "b", "heard") == []
    assert len(entries(simulator, "a", "heard")) == 100
    assert counters.lost[REFUSED] > 50
    assert sum(counters.lost.values()) == counters.lost[REFUSED] + counters.lost[STOPPED] == 100


def test_nothing_comes_behind_a_corrupt_frame_also_where_its_link_has_ended_meanwhile() -> None:
    plan = parse_plan("1.99..2.01 corrupt a probability=1")
    simulator = Simulator(1, Constant(0.25), checking=True, frames=CorruptibleFrames(plan, 1))
    for name in ("a", "b"):
        simulator.add(name, lambda draws: Puppet())
    simulator.inject(0.0, "a", Do((Connect("b"),)))
    simulator.call_at(0.9, lambda: simulator.pause("b"))
    for number, at in ((1, 1.0), (2, 2.0), (3, 2.05)):
        simulator.inject(at, "a", Do((Send("b", Echo(number)),)))
    simulator.inject(2.1, "a", Do((Disconnect("b"),)))
    simulator.call_at(5.0, lambda: simulator.resume("b"))
    simulator.run(9.0)
    puppet = simulator.nodes["b"].machine
    assert isinstance(puppet, Puppet) and puppet.numbers() == [1]


def test_some_frames_are_corrupted_with_a_probability() -> None:
    simulator = run("0..200 corrupt a probability=0.3", until=200.5)
    assert 40 < sum(simulator.counters().lost.values()) < 80


@given(st.binary(min_size=1, max_size=40), st.integers(0, 1000))
def test_damage_changes_at_least_one_bit(data: bytes, seed: int) -> None:
    frames = CorruptibleFrames(parse_plan("0..1 corrupt a probability=1"), seed)
    damaged = frames.damage("a", data)
    assert len(damaged) == len(data)
    assert damaged != data


def test_every_fault_is_a_frozen_value() -> None:
    rng = Random(1)
    fault: Fault = rng.choice(draw_faults(EVERYTHING, NODES, 2).faults)
    with pytest.raises(AttributeError):
        fault.at = 3.0  # type: ignore[misc]
    assert msgspec.structs.replace(fault, at=fault.at) == fault
