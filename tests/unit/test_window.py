"""The window of bytes on the way to a peer."""

from hypothesis import given
from hypothesis import strategies as some

from tidings.machine.window import SendWindow, TakenBytes


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
