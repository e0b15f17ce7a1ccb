"""Named timers on a loop: replaced, cancelled, fired in the simulator's order."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.sockets import play, until
from tidings.machine.inputs import TimerKey
from tidings.net.timers import LOOKS_AT_CLOCKS, STALE_MAX, Timers, clock_offset


def fired_after(orders: Callable[[Timers, float], None], count: int) -> list[tuple[float, TimerKey]]:
    """What fires, as (seconds after the start, key), once `orders` were given."""

    async def scenario() -> list[tuple[float, TimerKey]]:
        loop, fired = asyncio.get_running_loop(), list[tuple[float, TimerKey]]()
        timers = Timers(loop, lambda at, key: fired.append((at, key)))
        now = loop.time()
        orders(timers, now)
        await until(lambda: len(fired) >= count)
        assert timers.heap == [] or not any(timers.live.get(key) == ticket for _, ticket, key in timers.heap)
        return [(round(at - now, 6), key) for at, key in fired]

    return play(scenario())


def test_a_timer_that_is_set_again_fires_once_at_the_last_time() -> None:
    def orders(timers: Timers, now: float) -> None:
        timers.set("round", now + 0.001)
        timers.set("round", now + 0.02)
        timers.set("other", now + 0.01)

    assert fired_after(orders, 2) == [(0.01, "other"), (0.02, "round")]


def test_a_timer_can_be_set_to_an_earlier_time() -> None:
    def orders(timers: Timers, now: float) -> None:
        timers.set("round", now + 60.0)
        timers.set("round", now + 0.001)

    assert fired_after(orders, 1) == [(0.001, "round")]


def test_a_cancelled_timer_never_fires() -> None:
    def orders(timers: Timers, now: float) -> None:
        timers.set("round", now + 0.001)
        timers.set("last", now + 0.01)
        timers.cancel("round")
        timers.cancel("never set")

    assert fired_after(orders, 1) == [(0.01, "last")]


@given(spans=st.lists(st.sampled_from([0.0, 0.001, 0.002]), min_size=1, max_size=30))
def test_timers_that_are_due_fire_by_time_and_then_in_the_order_they_were_set(spans: list[float]) -> None:
    def orders(timers: Timers, now: float) -> None:
        for number, span in enumerate(spans):
            timers.set(number, now + span)

    expected = sorted((span, number) for number, span in enumerate(spans))
    assert fired_after(orders, len(spans)) == expected


def test_a_timer_that_sets_itself_for_now_leaves_the_loop_its_turn() -> None:
    async def scenario() -> None:
        loop, turns, fired = asyncio.get_running_loop(), 0, 0

        def fire(at: float, key: TimerKey) -> None:
            nonlocal fired
            fired += 1
            timers.set(key, at)

        timers = Timers(loop, fire)
        timers.set("eager", loop.time())
        while fired < 10:
            turns += 1
            await asyncio.sleep(0)
        assert turns >= 10
        timers.clear()

    play(scenario())


def test_replaced_timers_do_not_pile_up() -> None:
    async def scenario() -> None:
        timers = Timers(asyncio.get_running_loop(), lambda at, key: None)
        for number in range(10_000):
            timers.set("round", 1e9 + number)
        assert len(timers.heap) <= STALE_MAX + 2
        timers.clear()

    play(scenario())


@pytest.mark.parametrize("pause", [0.0, 0.001])
def test_nothing_fires_after_clear(pause: float) -> None:
    async def scenario() -> list[TimerKey]:
        loop, fired = asyncio.get_running_loop(), list[TimerKey]()
        timers = Timers(loop, lambda at, key: fired.append(key))
        timers.set("round", loop.time() + pause)
        timers.clear()
        await later(loop, pause + 0.002)
        return fired

    assert play(scenario()) == []


def later(loop: asyncio.AbstractEventLoop, span: float) -> Awaitable[None]:
    reached: asyncio.Future[None] = loop.create_future()
    loop.call_later(span, reached.set_result, None)
    return reached


def test_a_pause_between_looks_at_two_clocks_does_not_make_the_time_of_day_wrong() -> None:
    now, looks, day = 100.0, 0, 1_700_000_000.0

    def clock() -> float:
        nonlocal now, looks
        looks += 1
        # Interrupted behind each look but one pair: for a second, and longer each time.
        now += 0.001 if looks in (3, 4) else float(looks)
        return now

    assert clock_offset(clock, lambda: now + day) == pytest.approx(day, abs=0.001)
    assert looks == 2 * LOOKS_AT_CLOCKS
