"""Brokers of different kinds: whoever knocks at the wrong network hears which kind it is, and what to start with."""

from random import Random

import pytest

from tidings.machine.effects import Effect, Send
from tidings.machine.inputs import LinkUp, Received
from tidings.protocols.access.access import Access
from tidings.protocols.access.judge import NOBODY_KNOWS_YOU, NameJudge, open_judge
from tidings.protocols.access.messages import Attach, Rejected
from tidings.protocols.access.params import AccessParams
from tidings.pubsub.signals import PeerUp


def knocked(ours: str, theirs: str, judge: NameJudge | None = None) -> list[Effect]:
    access = Access("a", AccessParams(), judge or open_judge, Random(1), kind=ours)
    access.start(0.0)
    access.handle(0.0, LinkUp("b", 1))
    return access.handle(0.1, Received("b", Attach("broker", b"", "", theirs)))


def rejections(effects: list[Effect]) -> list[str]:
    return [each.message.reason for each in effects if isinstance(each, Send) and isinstance(each.message, Rejected)]


def test_a_broker_of_another_overlay_is_told_what_to_start_with() -> None:
    (reason,) = rejections(knocked("lstree/tables", "spanning-tree/tables"))
    assert "--overlay lstree --routing tables" in reason and "spanning-tree/tables" in reason


def test_a_broker_of_another_routing_is_told_so_too() -> None:
    (reason,) = rejections(knocked("all-peers/destinations", "all-peers/tables"))
    assert "--overlay all-peers --routing destinations" in reason


@pytest.mark.parametrize(("ours", "theirs"), [("lstree/tables", "lstree/tables"), ("", "x/y"), ("x/y", "")])
def test_those_of_one_kind_and_those_who_do_not_say_come_in(ours: str, theirs: str) -> None:
    effects = knocked(ours, theirs)
    assert rejections(effects) == []
    assert any(isinstance(each, Send) and isinstance(each.message, Attach) for each in effects)


def test_a_stranger_learns_nothing_of_what_network_it_is() -> None:
    assert rejections(knocked("lstree/tables", "x/y", NameJudge({}))) == [NOBODY_KNOWS_YOU]


def test_a_client_has_no_kind() -> None:
    access = Access("a", AccessParams(), open_judge, Random(1), kind="lstree/tables")
    access.start(0.0)
    access.handle(0.0, LinkUp("c", 1))
    effects = access.handle(0.1, Received("c", Attach("client", b"", "", "")))
    assert rejections(effects) == [] and not any(isinstance(each, PeerUp) for each in effects)
