"""Which connection is kept: both ends come to the same answer, whoever called and whatever is remembered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.net import dialer
from tidings.net.dialer import Epochs, StreamChoice, judge


@pytest.mark.parametrize(
    ("known", "mine", "theirs", "has_stream", "verdict"),
    [
        (0, 1, 1, False, StreamChoice.TAKE),
        (1, 1, 1, True, StreamChoice.REFUSE),
        (1, 1, 1, False, StreamChoice.REFUSE),
        (1, 2, 2, True, StreamChoice.TAKE),
        (1, 2, 1, True, StreamChoice.QUESTION),
        (1, 2, 1, False, StreamChoice.TAKE),
        (0, 1, 9, False, StreamChoice.TAKE),
    ],
)
def test_a_connection_is_judged(known: int, mine: int, theirs: int, has_stream: bool, verdict: StreamChoice) -> None:
    assert judge(known, mine, theirs, has_stream) is verdict


@given(st.integers(0, 5), st.integers(1, 7), st.integers(1, 7), st.booleans())
def test_what_is_taken_or_may_be_has_a_larger_epoch(known: int, mine: int, theirs: int, has_stream: bool) -> None:
    verdict = judge(known, mine, theirs, has_stream)
    assert (max(mine, theirs) > known) == (verdict is not StreamChoice.REFUSE)


def test_the_memory_of_epochs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialer, "EPOCHS_MAX", 3)
    epochs = Epochs()
    for peer in ("a", "b", "c", "a", "d"):
        epochs.remember(peer, epochs.next(peer))
    assert [epochs.of(peer) for peer in "abcd"] == [2, 0, 1, 1]
