"""Which connection is kept: both ends come to the same answer, whoever called and whatever is remembered."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.model.bounds import EPOCH_MAX
from tidings.net import choice
from tidings.net.choice import Epochs, StreamChoice, judge


@pytest.mark.parametrize(
    ("known", "by_caller", "by_called", "has_stream", "verdict"),
    [
        (0, 1, 1, False, StreamChoice.TAKE),
        (1, 1, 1, True, StreamChoice.REFUSE),
        (1, 1, 1, False, StreamChoice.TAKE),
        (1, 2, 2, True, StreamChoice.TAKE),
        (1, 1, 2, True, StreamChoice.QUESTION),
        (1, 1, 2, False, StreamChoice.TAKE),
        (0, 9, 1, False, StreamChoice.TAKE),
        (EPOCH_MAX, EPOCH_MAX, EPOCH_MAX, False, StreamChoice.TAKE),
    ],
)
def test_a_connection_is_judged(
    known: int, by_caller: int, by_called: int, has_stream: bool, verdict: StreamChoice
) -> None:
    assert judge(known, by_caller, by_called, has_stream) is verdict


@given(st.integers(0, 5), st.integers(1, 7), st.integers(1, 7))
def test_a_stream_gives_way_at_once_only_to_a_caller_who_knew_it(known: int, by_caller: int, by_called: int) -> None:
    verdict = judge(known, by_caller, by_called, has_stream=True)
    assert (by_caller > known) == (verdict is StreamChoice.TAKE)
    assert (max(by_caller, by_called) > known) == (verdict is not StreamChoice.REFUSE)


@given(st.lists(st.integers(0, EPOCH_MAX)))
def test_every_epoch_is_larger_than_the_one_before_and_what_is_proposed_can_be_said(proposed: list[int]) -> None:
    epochs = Epochs()
    seen = [epochs.advance("a", each) for each in proposed]
    assert all(one < other for one, other in pairwise(seen))
    assert epochs.next("a") <= EPOCH_MAX


def test_the_memory_of_epochs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "EPOCHS_MAX", 3)
    epochs = Epochs()
    for peer in ("a", "b", "c", "a", "d"):
        epochs.advance(peer)
    assert [epochs.of(peer) for peer in "abcd"] == [2, 0, 1, 1]
