"""The two event queues: same order, same behaviour at the edges."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.model.errors import UsageError
from tidings.sim import queue as queues
from tidings.sim.queue import HeapQueue, LadderQueue, Queue, Standstill

QUEUES = [HeapQueue, LadderQueue]

# What happens when an entry has its turn: after these delays, further entries.
delays = st.one_of(st.sampled_from([0.0, 0.0, 0.001, 0.5, 1.0, 1000.0]), st.floats(0, 10, allow_nan=False))
plans = st.lists(st.tuples(delays, st.lists(delays, max_size=3)), max_size=60)


def log_of(queue: Queue, plan: list[tuple[float, list[float]]], stops: list[float]) -> list[tuple[float, int]]:
    log: list[tuple[float, int]] = []
    names = iter(range(1_000_000))

    def act(now: float, argument: tuple[int, list[float]]) -> None:
        name, follow = argument
        assert queue.now == now
        log.append((now, name))
        for delay in follow:
            queue.push(now + delay, act, (next(names), []))

    for time, follow in plan:
        queue.push(time, act, (next(names), follow))
    for stop in [*sorted(stops), math.inf]:
        queue.run(stop)
        log.append((queue.now, -1))
    assert len(queue) == 0
    return log


@given(plans, st.lists(delays, max_size=3), st.sampled_from([2.0**-20, 2.0**-10, 1.0, 2.0**10]))
def test_heap_and_ladder_give_the_same_order(
    plan: list[tuple[float, list[float]]], stops: list[float], width: float
) -> None:
    plain = log_of(HeapQueue(), plan, stops)
    assert log_of(LadderQueue(width), plan, stops) == plain
    happened = [(time, name) for time, name in plain if name >= 0]
    assert [time for time, _ in happened] == sorted(time for time, _ in happened)


@pytest.mark.parametrize("make", QUEUES)
def test_what_is_due_at_the_same_moment_comes_in_the_order_of_adding(make: type[Queue]) -> None:
    queue, seen = make(), []
    for number in range(5):
        queue.push(1.0, lambda now, argument: seen.append(argument), number)
    queue.push(0.5, lambda now, argument: queue.push(1.0, lambda now, argument: seen.append(argument), 5), None)
    queue.run(1.0)
    assert seen == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("make", QUEUES)
def test_an_action_that_raises_leaves_the_rest_in_the_queue(make: type[Queue]) -> None:
    queue, seen = make(), []

    def act(now: float, argument: int) -> None:
        if argument == 2:
            raise RuntimeError("no")
        seen.append(argument)

    for number in range(5):
        queue.push(1.0 + number * 1e-6, act, number)
    with pytest.raises(RuntimeError):
        queue.run(math.inf)
    queue.run(2.0)
    assert seen == [0, 1, 3, 4]
    assert queue.now == 2.0
    assert queue.done == 5


@pytest.mark.parametrize("make", QUEUES)
def test_a_run_inside_a_run_is_refused(make: type[Queue]) -> None:
    queue = make()
    queue.push(0.0, lambda now, argument: queue.run(1.0), None)
    with pytest.raises(UsageError, match="inside a run"):
        queue.run(1.0)


@pytest.mark.parametrize("make", QUEUES)
@pytest.mark.parametrize("until", [1.0, math.inf])
def test_time_that_stands_still_is_noticed(make: type[Queue], until: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "SAME_MOMENT_MAX", 5000)
    queue = make()

    def again(now: float, argument: None) -> None:
        queue.push(now, again, None)

    queue.push(0.5, again, None)
    with pytest.raises(Standstill, match="time stands still"):
        queue.run(until)


@pytest.mark.parametrize("make", QUEUES)
def test_discarded_entries_never_have_their_turn(make: type[Queue]) -> None:
    queue, seen = make(), []
    for number in range(10):
        queue.push(float(number % 3), lambda now, argument: seen.append(argument), number)
    queue.discard(lambda entry: entry[3] % 2 == 0)
    assert sorted(entry[3] for entry in queue.entries()) == [1, 3, 5, 7, 9]
    queue.run(math.inf)
    assert seen == [3, 9, 1, 7, 5]


def test_the_ladder_finds_a_width_for_dense_and_for_sparse_times() -> None:
    for spacing in (1e-6, 1e-3, 10.0):
        queue = LadderQueue()

        def act(now: float, left: int, queue: LadderQueue = queue, spacing: float = spacing) -> None:
            if left:
                queue.push(now + 100 * spacing, act, left - 1)

        for number in range(100):
            queue.push(number * spacing, act, 100)
        queue.run(math.inf)
        assert queue.done == 10_100
        fill = spacing**-1 / queue.per_second
        assert queues.FILL_MIN / 2 <= fill <= queues.FILL_MAX * 2


def test_a_burst_in_a_wide_bucket_is_cut_into_narrow_ones() -> None:
    queue = LadderQueue(width=1024.0)

    def act(now: float, left: int) -> None:
        if left:
            queue.push(now + 1e-4, act, left - 1)

    for _ in range(10):
        queue.push(0.0, act, 2000)
    queue.run(math.inf)
    assert queue.done == 20_010
    assert queue.per_second > 1.0
