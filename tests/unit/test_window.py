"""The window of bytes on the way to a peer."""

from hypothesis import given
from hypothesis import strategies as some

from tidings.machine.window import NARROWEST_SHARE, SendWindow, TakenBytes, YieldingWindow


def test_a_window_has_room_until_it_is_full_and_again_when_enough_was_taken() -> None:
    window = SendWindow(100)
    window.send(99)
    assert window.has_room
    window.send(1000)
    assert not window.has_room
    assert window.hear(999)
    assert not window.has_room
    assert window.hear(1000)
    assert window.has_room


def test_a_total_that_cannot_be_is_ignored() -> None:
    window = SendWindow(100)
    window.send(50)
    assert window.hear(40)
    assert not window.hear(39)
    assert not window.hear(51)
    assert window.taken_bytes == 40


@given(some.lists(some.integers(0, 300), max_size=50))
def test_a_step_of_half_the_window_never_leaves_both_ends_waiting(sizes: list[int]) -> None:
    window, taken = SendWindow(100), TakenBytes(50)
    for size in sizes:
        assert window.has_room
        window.send(size)
        total = taken.take(size)
        assert total is None or window.hear(total)


def send_and_take(window: YieldingWindow, taken: TakenBytes, now: float, took: float, size: int) -> None:
    while window.has_room:
        window.send(now, size)
    while not window.has_room:
        total = taken.take(size)
        if total is not None:
            assert window.hear(now + took, total)


def test_a_yielding_window_narrows_while_it_is_late_and_widens_when_it_is_quick() -> None:
    window, taken = YieldingWindow(3200), TakenBytes(100)
    widths = []
    for took in [0.001] * 5 + [0.002] * 5 + [0.1] * 100 + [0.001] * 100:
        send_and_take(window, taken, 0.0, took, 50)
        widths.append(window.window_bytes)
    assert set(widths[:10]) == {3200}, "a little later is not late"
    assert widths[10] < 3200
    assert widths[109] == 400, "an eighth"
    assert widths[-1] == 3200


def test_on_a_long_link_a_share_of_its_time_is_not_late() -> None:
    window, taken = YieldingWindow(3200), TakenBytes(100)
    for took in (0.2, 0.24, 0.24):
        send_and_take(window, taken, 0.0, took, 50)
    assert window.window_bytes == 3200
    send_and_take(window, taken, 0.0, 0.26, 50)
    assert window.window_bytes < 3200


@given(some.integers(8, 400), some.lists(some.tuples(some.integers(0, 300), some.floats(0.0, 1.0)), max_size=50))
def test_both_ends_of_a_yielding_window_never_wait_for_each_other(widest: int, steps: list[tuple[int, float]]) -> None:
    window, taken = YieldingWindow(widest), TakenBytes(max(1, widest // (4 * NARROWEST_SHARE)))
    now = 0.0
    for size, took in steps:
        assert window.has_room
        assert widest // NARROWEST_SHARE <= window.window_bytes <= widest
        window.send(now, size)
        now += took
        total = taken.take(size)
        assert total is None or window.hear(now, total)
