"""The kernel of the simulated world, one behaviour at a time."""

import gc
import math
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from tests.worlds.puppets import Do, Puppet, PuppetWorld
from tidings.machine.effects import (
    CancelTimer,
    Compute,
    Connect,
    Deliver,
    Drop,
    Effect,
    Job,
    Load,
    Save,
    Send,
    SetTimer,
    Transport,
)
from tidings.machine.inputs import Computed, Fired, Input, Loaded, Received, Saved, Signal
from tidings.machine.message import Message
from tidings.model.errors import UsageError
from tidings.protocols.teaching.ping import Echo, Ping, PingParams, Probe
from tidings.pubsub.notes import Suppressed
from tidings.sim.hardware import Processing
from tidings.sim.network.internet import Internet
from tidings.sim.network.latency import Constant, Fluctuating
from tidings.sim.network.loss import Loss
from tidings.sim.network.rule import Rule
from tidings.sim.node import Draws
from tidings.sim.process import Process
from tidings.sim.queue import Standstill
from tidings.sim.simulator import Simulator, SimulatorParams
from tidings.sim.streams import SimulatedStream

DATAGRAM = Transport.DATAGRAM


class Unlisted(Message, frozen=True):
    """A message that has no code on the wire."""


class Rumour(Signal, frozen=True):
    """A signal that nobody in the node hears."""


def echo(number: int, to: str = "b") -> Send:
    return Send(to, Echo(number), DATAGRAM)


def test_a_message_arrives_after_its_latency_and_says_who_sent_it() -> None:
    world = PuppetWorld("a", "b")
    world.say(1.0, "a", echo(7))
    world.run(2.0)
    assert world.puppet("b").seen == [(1.5, Received("a", Echo(7)))]
    assert world.now == 2.0


def test_a_message_sent_at_the_start_reaches_a_node_that_starts_after_the_sender() -> None:
    world = PuppetWorld()
    world.add("a", lambda draws: Puppet(echo(1), Send("b", Echo(2))))
    world.add("b", lambda draws: Puppet())
    world.run(5.0)
    assert world.puppet("b").numbers() == [1, 2]


@pytest.mark.spec("P-6")
def test_time_jumps_to_what_is_due_and_never_goes_back() -> None:
    world = PuppetWorld("a")
    world.say(3.0, "a", SetTimer("late", 100.0), SetTimer("early", 10.0), SetTimer("past", 1.0))
    world.run(math.inf)
    assert world.puppet("a").seen == [(3.0, Fired("past")), (10.0, Fired("early")), (100.0, Fired("late"))]
    assert world.now == 100.0
    with pytest.raises(UsageError, match="does not go back"):
        world.run(99.0)
    with pytest.raises(UsageError, match="no time to come"):
        world.inject(99.0, "a", Do(()))


@pytest.mark.spec("P-1")
def test_a_timer_set_again_fires_once_at_the_last_time_and_a_cancelled_one_never() -> None:
    world = PuppetWorld("a")
    world.say(0.0, "a", SetTimer("x", 1.0), SetTimer("x", 5.0), SetTimer("y", 2.0), SetTimer("z", 9.0))
    world.say(1.5, "a", CancelTimer("y"), CancelTimer("unknown"), SetTimer("z", 3.0))
    world.run(20.0)
    assert world.puppet("a").seen == [(3.0, Fired("z")), (5.0, Fired("x"))]


def test_a_timer_can_be_set_again_for_the_same_time_and_fires_once() -> None:
    world = PuppetWorld("a")
    world.say(0.0, "a", SetTimer("x", 1.0), SetTimer("x", 1.0))
    world.run(2.0)
    assert world.puppet("a").seen == [(1.0, Fired("x"))]


def test_timers_replaced_many_times_do_not_pile_up_in_the_queue() -> None:
    world = PuppetWorld("a", "b")
    for number in range(400):
        world.say(number * 0.01, "a", *[SetTimer(key, 1000.0 + number) for key in range(100)])
    world.run(4.0)
    assert len(world.queue) < 20_000
    world.run(2000.0)
    assert len(world.puppet("a").seen) == 100


def test_a_timer_for_no_time_at_all_is_refused_with_the_name_of_the_node() -> None:
    for at in (math.nan, math.inf):
        world = PuppetWorld("a")
        world.say(0.0, "a", SetTimer("x", at))
        with pytest.raises(UsageError, match="node 'a' set the timer 'x'"):
            world.run(1.0)


class Hasty:
    """Sets its timer for now whenever it fires, so many times; then for later."""

    def __init__(self, count: int) -> None:
        self.count = count

    def start(self, now: float) -> list[Effect]:
        return [SetTimer("look", now + 1.0)]

    def handle(self, now: float, input: Input) -> list[Effect]:
        self.count -= 1
        return [SetTimer("look", now if self.count >= 0 else now + 1.0)]

    def check(self) -> None:
        pass


def test_a_node_that_keeps_setting_a_timer_for_now_is_stopped_and_named() -> None:
    simulator = Simulator(seed=1, network=Constant(0.1), params=SimulatorParams(timers_at_once_max=50))
    simulator.add("patient", lambda draws: Hasty(50))
    simulator.add("hasty", lambda draws: Hasty(51), at=0.5)
    with pytest.raises(
        Standstill, match=r"still at 1\.5: node 'hasty' set 51 timers.* 'look'.*timers_at_once_max is 50"
    ):
        simulator.run(until=10.0)
    assert simulator.node("patient").fired == 51


@pytest.mark.spec("P-10")
def test_a_node_that_crashed_sends_receives_and_fires_nothing() -> None:
    world = PuppetWorld("a", "b")
    world.say(0.9, "a", echo(1))
    world.say(0.0, "b", SetTimer("x", 2.0), Send("a", Echo(2), DATAGRAM))
    world.call_at(1.0, lambda: world.crash("b"))
    world.say(1.1, "a", echo(3))
    world.say(1.2, "b", SetTimer("y", 3.0))
    world.run(10.0)
    assert world.puppet("b").seen == []
    assert world.puppet("a").numbers() == [2]
    assert world.counters().lost == {"node is down": 2}
    assert world.counters().refused == 1


@pytest.mark.spec("P-10")
def test_what_was_on_its_way_to_the_former_life_is_lost_and_what_is_sent_to_a_node_that_is_down_may_arrive() -> None:
    world = PuppetWorld("a", "b")
    world.say(0.9, "a", echo(1))
    world.say(0.0, "b", SetTimer("x", 2.0))
    world.call_at(1.0, lambda: world.crash("b"))
    world.say(1.05, "a", echo(2))
    world.call_at(1.1, lambda: world.restart("b", keep_state=True))
    world.run(10.0)
    assert world.puppet("b").numbers() == [2]
    assert world.puppet("b").starts == [0.0, 1.1]
    assert world.puppet("b").times(Fired) == []


def test_restart_keeps_the_state_or_builds_a_new_machine_with_other_draws() -> None:
    drawn: list[float] = []

    def make(draws: Draws) -> Puppet:
        drawn.append(draws("x").random())
        return Puppet()

    world = PuppetWorld()
    world.add("a", make)
    world.run(1.0)
    first = world.puppet("a")
    world.crash("a")
    world.crash("a")
    world.restart("a", keep_state=True)
    assert world.puppet("a") is first
    with pytest.raises(UsageError, match="is up"):
        world.restart("a", keep_state=True)
    world.crash("a")
    world.restart("a", keep_state=False)
    assert world.puppet("a") is not first
    assert len(set(drawn)) == 2


def test_saved_entries_survive_a_crash_and_unfinished_ones_do_not() -> None:
    world = PuppetWorld("a", save_delay=1.0)
    world.say(0.0, "a", Save("k/2", b"two"), Save("k/1", b"one"), Save("k/3", b"three"), Save("other", b""))
    world.say(0.5, "a", Save("k/3", None))
    world.run(2.0)
    saved = [input for _, input in world.puppet("a").seen]
    assert saved == [Saved("k/2"), Saved("k/1"), Saved("k/3"), Saved("other"), Saved("k/3")]
    world.say(2.0, "a", Save("k/9", b"lost"))
    world.call_at(2.5, lambda: world.crash("a"))
    world.call_at(3.0, lambda: world.restart("a", keep_state=False))
    world.say(4.0, "a", Load("k/"))
    world.run(6.0)
    assert world.puppet("a").seen == [(5.0, Loaded("k/", (("k/1", b"one"), ("k/2", b"two"))))]


def test_a_slow_disk_keeps_order_and_a_full_one_says_so() -> None:
    world = PuppetWorld("a", save_delay=3.0)
    world.say(0.0, "a", Save("x", b"1"))

    def change() -> None:
        world.nodes["a"].disk.delay = 0.1

    world.call_at(1.0, change)
    world.say(1.0, "a", Save("x", b"2"), Load(""))
    world.run(4.0)
    assert [input for _, input in world.puppet("a").seen] == [Saved("x"), Saved("x"), Loaded("", (("x", b"2"),))]
    world.nodes["a"].disk.error = "disk is full"
    world.say(4.0, "a", Save("y", b""), Load(""))
    world.run(5.0)
    assert [input for _, input in world.puppet("a").seen[3:]] == [
        Saved("y", "disk is full"),
        Loaded("", error="disk is full"),
    ]


class Divide(Job, frozen=True):
    by: int

    @property
    def seconds(self) -> float:
        return self.by / 8

    def run(self) -> float:
        return 1 / self.by


class Nothing(Job, frozen=True):
    def run(self) -> None:
        """A job that does not say how long it takes."""


def test_a_computation_comes_back_after_the_time_that_its_job_says_with_its_result_or_its_error() -> None:
    world = PuppetWorld("a")
    world.say(1.0, "a", Compute("half", Divide(2)), Compute("none", Divide(0)), Compute("nothing", Nothing()))
    world.run(2.0)
    assert world.puppet("a").seen == [
        (1.0, Computed("none", error="ZeroDivisionError: division by zero")),
        (1.01, Computed("nothing")),
        (1.25, Computed("half", 0.5)),
    ]


def test_a_paused_node_catches_up_in_order_when_it_is_resumed() -> None:
    world = PuppetWorld("a", "b")
    world.say(0.0, "b", SetTimer("x", 1.2))
    world.say(0.5, "a", echo(1))
    world.say(0.8, "a", echo(2))
    world.call_at(0.9, lambda: world.pause("b"))
    world.call_at(2.0, lambda: world.resume("b"))
    world.run(1.5)
    assert world.counters().in_flight == 2
    world.run(3.0)
    assert world.puppet("b").seen == [
        (2.0, Received("a", Echo(1))),
        (2.0, Fired("x")),
        (2.0, Received("a", Echo(2))),
    ]


def test_what_waits_for_a_paused_node_is_bounded_and_lost_when_it_crashes() -> None:
    world = PuppetWorld("a", "b", held_max=2)
    world.pause("b")
    world.say(0.0, "a", echo(1), echo(2), echo(3))
    world.run(1.0)
    assert world.counters().lost == {"too much waits for a paused node": 1}
    world.say(1.0, "b", Deliver("never"))
    world.run(2.0)
    assert world.counters().refused == 1
    world.crash("b")
    assert world.counters().lost == {"node is down": 2, "too much waits for a paused node": 1}
    assert world.counters().in_flight == 0


def test_a_machine_sees_the_clock_of_its_node() -> None:
    world = PuppetWorld("a", "b")
    world.set_clock("a", offset=100.0, drift=0.5)
    world.say(2.0, "a", SetTimer("x", 106.0), Deliver("item"))
    world.say(2.0, "b", Send("a", Echo(1), DATAGRAM))
    world.run(10.0)
    assert world.puppet("a").seen == [(103.75, Received("b", Echo(1))), (106.0, Fired("x"))]
    assert world.delivered("a") == [(2.0, "item")]


def test_a_timer_goes_by_the_clock_also_when_that_changes_under_way() -> None:
    world = PuppetWorld("a")
    world.say(0.0, "a", SetTimer("x", 10.0))
    world.call_at(4.0, lambda: world.set_clock("a", offset=3.0))
    world.run(6.5)
    assert world.puppet("a").seen == []
    world.run(20.0)
    assert world.puppet("a").seen == [(10.0, Fired("x"))]


@pytest.mark.parametrize("drift", [-0.37, -1e-6, 1e-9, 1e-4, 2.1])
def test_no_timer_fires_before_its_time_on_a_clock_that_drifts(drift: float) -> None:
    world = PuppetWorld("a")
    world.set_clock("a", offset=1e6, drift=drift)
    due = [1e6 + number / 7 for number in range(1, 60)]
    world.say(0.0, "a", *[SetTimer(at, at) for at in due])
    world.run(200.0)
    seen = world.puppet("a").seen
    assert [input.key for _, input in seen] == due
    assert all(at <= now < at + 1e-6 for at, (now, _) in zip(due, seen, strict=True))


def test_jitter_is_off_by_default_and_otherwise_delays_each_event_a_little() -> None:
    world = PuppetWorld("a", "b")
    world.say(1.0, "a", SetTimer("x", 2.0))
    world.run(3.0)
    assert world.puppet("a").times(Fired) == [2.0]


@pytest.mark.spec("P-8")
def test_jitter_makes_seeds_differ_where_nothing_is_drawn() -> None:
    def times(seed: int, jitter: float) -> list[float]:
        simulator = Simulator(seed, Constant(0.5), params=SimulatorParams(jitter=jitter))
        simulator.add("a", lambda draws: Puppet(SetTimer("x", 2.0), Send("a", Echo(1)), echo(2, "a")))
        simulator.run(5.0)
        machine = simulator.nodes["a"].machine
        assert isinstance(machine, Puppet)
        return [now for now, _ in machine.seen]

    assert times(1, 0.0) == times(2, 0.0) == [0.5, 1.5, 2.0]
    assert times(1, 1e-6) == times(1, 1e-6) != times(2, 1e-6)
    for late, due in zip(times(1, 1e-6), [0.5, 1.5, 2.0], strict=True):
        assert due <= late <= due + 5e-6


def test_drops_and_deliveries_are_counted_and_signals_and_notes_do_nothing() -> None:
    world = PuppetWorld("a", delivered_max=2)
    world.say(1.0, "a", Drop("it", "too old"), Drop("it", "too old"), Drop("it", "full"), Suppressed("7"), Rumour())
    world.say(2.0, "a", Deliver(1), Deliver(2), Deliver(3))
    world.run(3.0)
    counters = world.counters()
    assert counters.given_up == {"full": 1, "too old": 2}
    assert counters.delivered == 3
    assert [item for _, item in world.delivered("a")] == [1, 2]


def test_a_message_to_a_node_that_does_not_exist_is_lost_with_a_reason() -> None:
    world = PuppetWorld("a")
    world.say(0.0, "a", echo(1, "nobody"), Send("nobody", Echo(2)))
    world.run(1.0)
    assert world.counters().lost == {"no such node": 2}


def test_what_is_no_effect_is_refused() -> None:
    world = PuppetWorld("a")
    nonsense: Any = "hello"
    world.say(0.0, "a", nonsense)
    with pytest.raises(UsageError, match="is no effect"):
        world.run(1.0)


def test_an_exception_in_a_machine_names_the_node_the_time_and_the_input() -> None:
    class Broken(Puppet):
        def handle(self, now: float, input: Input) -> list[Effect]:
            raise RuntimeError("broken")

    simulator = Simulator(1, Constant(0.1))
    simulator.add("a", lambda draws: Broken())
    simulator.inject(2.0, "a", Do(()))
    with pytest.raises(RuntimeError) as caught:
        simulator.run(3.0)
    assert "node 'a' at 2.0" in caught.value.__notes__[0]
    assert gc.isenabled()


def test_the_garbage_collector_is_off_during_a_run_and_as_before_afterwards() -> None:
    world, states = PuppetWorld("a"), []
    world.call_at(1.0, lambda: states.append(gc.isenabled()))
    world.run(2.0)
    assert states == [False]
    assert gc.isenabled()
    gc.disable()
    try:
        world.run(3.0)
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.spec("P-4")
def test_in_checking_mode_a_message_arrives_as_a_copy_with_its_true_size() -> None:
    sent = Echo(300)
    world = PuppetWorld("a", "b", checking=True)
    world.say(0.0, "a", Send("b", sent, DATAGRAM), Send("b", sent))
    world.run(5.0)
    received = [input for _, input in world.puppet("b").seen]
    assert [input.message for input in received] == [sent, sent]
    assert all(input.message is not sent for input in received)
    assert {input.size_bytes for input in received} == {6}


def test_without_checking_a_message_is_handed_over_as_it_is_and_sizes_are_not_taken() -> None:
    sent = Echo(300)
    world = PuppetWorld("a", "b")
    world.say(0.0, "a", Send("b", sent, DATAGRAM))
    world.run(5.0)
    assert world.puppet("b").seen[0][1].message is sent
    assert world.puppet("b").seen[0][1].size_bytes == 0


@pytest.mark.spec("P-20")
def test_checking_mode_finds_a_message_that_was_changed_after_it_was_sent() -> None:
    sent = Echo(300)
    world = PuppetWorld("a", "b", checking=True)
    world.say(0.0, "a", Send("b", sent, DATAGRAM))
    world.call_at(0.2, lambda: msgspec.structs.force_setattr(sent, "round", 301))
    with pytest.raises(AssertionError, match="changed after it was sent"):
        world.run(5.0)


def test_checking_mode_refuses_a_message_that_does_not_come_back_as_it_was() -> None:
    wrong: Any = "nine"
    for message, problem in ((Echo(wrong), "does not come back"), (Unlisted(), "has no code")):
        world = PuppetWorld("a", "b", checking=True)
        world.say(0.0, "a", Send("b", message, DATAGRAM))
        with pytest.raises(Exception, match=problem):
            world.run(5.0)


def test_checking_mode_checks_the_state_of_machines_now_and_then() -> None:
    world = PuppetWorld("a", checking=True)
    for number in range(40):
        world.say(number, "a")
    world.run(50.0)
    assert world.puppet("a").checks == 2
    world.check()
    assert world.puppet("a").checks == 3


def test_messages_wait_for_a_worker_of_a_busy_broker_and_are_lost_beyond_its_queue() -> None:
    world = PuppetWorld("a")
    world.add("b", lambda draws: Puppet(), processing=Processing(workers=2, mean=10.0, queue_max=3))
    world.run(0.0)
    world.say(0.0, "a", *[echo(number) for number in range(8)])
    world.run(0.5)
    assert world.counters().lost == {"processing queue is full": 3}
    world.run(math.inf)
    assert sorted(world.puppet("b").numbers()) == [0, 1, 2, 3, 4]


def test_a_node_cannot_be_added_twice_and_must_exist_to_be_used() -> None:
    world = PuppetWorld("a")
    with pytest.raises(UsageError, match="already"):
        world.add("a", lambda draws: Puppet())
    uses: list[Callable[[], object]] = [
        lambda: world.crash("x"),
        lambda: world.inject(1.0, "x", Do(())),
        lambda: world.delivered("x"),
    ]
    for use in uses:
        with pytest.raises(UsageError, match="no node 'x'"):
            use()


def test_a_network_serves_one_run_only() -> None:
    network = Loss(Constant(0.1), 0.1)
    Simulator(1, network)
    with pytest.raises(UsageError, match="make a new one"):
        Simulator(1, network)


@pytest.mark.parametrize("wrong", [{"jitter": -1.0}, {"held_max": 0}, {"connect_timeout": math.inf}])
def test_parameters_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        SimulatorParams(**wrong)  # type: ignore[arg-type]


@pytest.mark.spec("P-16")
def test_one_node_may_use_streams_and_datagrams_side_by_side() -> None:
    world = PuppetWorld("a", "b")
    world.say(0.0, "a", Send("b", Probe(1)), echo(2))
    world.run(5.0)
    assert world.puppet("b").seen == [(0.5, Received("a", Echo(2))), (1.5, Received("a", Probe(1)))]


def test_lives_that_are_over_leave_no_memory_behind_although_the_collector_is_off() -> None:
    simulator = Simulator(1, Constant(0.05))
    for name, other in (("a", "b"), ("b", "a")):
        first = [Connect(other), SetTimer("x", 1.0), Send(other, Echo(1)), echo(2, other)]
        simulator.add(name, lambda draws, first=first: Puppet(*first))  # type: ignore[misc]
    counts: list[int] = []
    for number in range(1, 50):
        simulator.call_at(number, lambda: simulator.crash("b"))
        simulator.call_at(number + 0.5, lambda: simulator.restart("b", keep_state=False))
    # Whoever counts looks at all that there is, which takes a while.
    for number in (10, 30, 49):
        simulator.call_at(number + 0.9, lambda: counts.append(living(Process, SimulatedStream, Puppet)))
    gc.collect()
    before = living(Process, SimulatedStream, Puppet)
    simulator.run(60.0)
    assert len(counts) == 3
    assert max(counts) - before < 15


def living(*kinds: type) -> int:
    return sum(type(thing) in kinds for thing in gc.get_objects())


def make_ping(neighbours: list[str], draws: Draws) -> Ping:
    return Ping(neighbours, PingParams(), draws("ping"))


@pytest.mark.parametrize(
    "network",
    [
        pytest.param(lambda: Constant(0.05), id="constant latency, shape only"),
        pytest.param(
            lambda: Fluctuating(Internet()),
            id="latencies that fluctuate",
            marks=[pytest.mark.long, pytest.mark.spec("P-17")],
        ),
    ],
)
def test_ten_thousand_nodes_fit_in_memory(network: Callable[[], Rule]) -> None:
    tracemalloc.start()
    simulator = Simulator(1, network())
    for number in range(10_000):
        neighbours = [f"n{(number + step) % 10_000}" for step in (1, 100)]
        simulator.add(f"n{number}", partial(make_ping, neighbours))
    simulator.run(1.2)
    size_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert simulator.counters().received > 30_000
    assert size_bytes < 200 * 2**20
