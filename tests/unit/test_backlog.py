"""What a neighbour tells of its tables waits, and what may pass it does."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.desk import drops, sent
from tests.worlds.edge import head, subscription
from tidings.machine.effects import Effect, SetTimer
from tidings.machine.inputs import Fired, LinkDown, LinkUp, Received
from tidings.machine.message import Message
from tidings.nodes import backlog
from tidings.nodes.backlog import BARRIERS, CHANGES, FREE, LOST, ORDERED, TURN_AFTER, TableBacklog, names_in
from tidings.nodes.broker import BACKLOG_KEY, BrokerNode, BrokerParams
from tidings.protocols.access.messages import Attach, Attached
from tidings.protocols.delivery.edge.exchange import HistoryExchange
from tidings.protocols.delivery.messages import Delivery, HistoryBegun, HistoryTaken, NamesakeFar, PackedReferences
from tidings.protocols.overlay.overlay import AllPeersParams
from tidings.protocols.routing.messages import (
    AdvertisementAdded,
    AdvertisementRemoved,
    Installed,
    PublicationsSkipped,
    SubscriptionAdded,
    TableChanges,
    TablesBegun,
    TablesTold,
)
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.router import Router
from tidings.pubsub.client import Receipt
from tidings.pubsub.publications import Publications

LONG = "x = '" + "a" * 2000 + "'"


def offer(publisher: str, filter: str = "x >= 0") -> AdvertisementAdded:
    return AdvertisementAdded(0, f"{publisher}/1", publisher, filter, "b", 1)


def event(publisher: str, number: int = 1) -> Publications:
    return Publications(publisher, f"{publisher}/1", 0.0, 0, (number,), (head(number),), (b"",))


def beside_b() -> BrokerNode:
    """A broker, its neighbour b that has told that p publishes there, and its client c that wants what p publishes."""
    params = BrokerParams(overlay=AllPeersParams(is_tree=True), routing=RoutingParams(engine="plain"))
    node = BrokerNode("a", params, Random(1))
    node.start(0.0)
    node.handle(0.0, LinkUp("b", 1))
    hear(node, Attach("broker", b""))
    (begun,) = sent(hear(node, Attached("b", "", "")), TablesBegun)
    for message in (TablesBegun(7, begun.life), offer("p", "EXISTS x"), TablesTold()):
        hear(node, message)
    node.handle(0.0, LinkUp("c", 1))
    assert sent(hear(node, Attach("client", b""), "c"), Attached)
    asked = hear(node, subscription(1, "x >= 0", guarantee="none", policy="drop oldest"), "c")
    (added,) = sent(asked, SubscriptionAdded, "b")
    assert sent(hear(node, Installed(added.number, ("b",), 1)), Receipt, "c")
    return node


def hear(node: BrokerNode, message: Message, sender: str = "b", now: float = 0.0) -> list[Effect]:
    effects = node.handle(now, Received(sender, message))
    node.check()
    return effects


def offers_of(node: BrokerNode, named: str = "") -> int:
    assert isinstance(node.routing, Router)
    return len([each for each in node.routing.tables.offers_of["b"] if each.startswith(named)])


def test_an_event_does_not_wait_behind_three_hundred_advertisements_of_others() -> None:
    """What stands ahead of it is counted, and no clock is looked at: before, all of them did."""
    node = beside_b()
    for number in range(300):
        hear(node, offer(f"q{number}", f"{LONG} AND y = {number}"))
    carried_out = offers_of(node)
    assert carried_out < 5
    (delivery,) = sent(hear(node, event("p")), Delivery, "c")
    assert delivery.publisher == "p" and offers_of(node) == carried_out
    turns = 0
    while node.backlog.waiting:
        node.handle(0.0, Fired(BACKLOG_KEY))
        node.check()
        assert offers_of(node) - carried_out <= 2, "a turn is short"
        carried_out, turns = offers_of(node), turns + 1
    assert offers_of(node) == 301 and turns >= 149, "all of them are carried out in the end"


def test_an_acknowledgement_passes_the_tables_of_others() -> None:
    node = beside_b()
    (added,) = sent(
        hear(node, subscription(2, "x < 0", guarantee="none", policy="drop oldest"), "c"), SubscriptionAdded
    )
    for number in range(20):
        hear(node, offer(f"q{number}", f"{LONG} AND y = {number}"))
    waiting = len(node.backlog.neighbours["b"].inputs)
    assert sent(hear(node, Installed(added.number, ("b",), 1)), Receipt, "c")
    assert waiting == len(node.backlog.neighbours["b"].inputs) > 0


def test_an_event_waits_for_its_own_advertisement_and_behind_its_own_events() -> None:
    node = beside_b()
    for number in range(10):
        hear(node, offer(f"q{number}", LONG))
    hear(node, offer("r"))
    hear(node, offer("q", LONG))
    assert not sent(hear(node, event("r", 1)), Delivery)
    assert sent(hear(node, event("p", 1)), Delivery)
    while not offers_of(node, "r/1"):
        assert not sent(node.handle(0.0, Fired(BACKLOG_KEY)), Delivery)
    assert not sent(hear(node, event("r", 2)), Delivery), "the first one waits still"
    effects: list[Effect] = []
    while node.backlog.waiting:
        effects += node.handle(0.0, Fired(BACKLOG_KEY))
    assert [delivery.numbers for delivery in sent(effects, Delivery, "c")] == [(1,), (2,)]


def test_what_waits_is_lost_with_its_link() -> None:
    node = beside_b()
    for number in range(10):
        hear(node, offer(f"q{number}", LONG))
    waiting = len(node.backlog.neighbours["b"].inputs)
    effects = node.handle(0.0, LinkDown("b", 1, "it broke"))
    node.check()
    assert drops(effects).count(LOST) == waiting > 0 and not node.backlog.waiting
    assert node.handle(0.0, Fired(BACKLOG_KEY)) == []


def test_beyond_the_bound_the_oldest_is_carried_out_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "BACKLOG_BYTES_MAX", 20_000)
    node = beside_b()
    for number in range(50):
        hear(node, offer(f"q{number}", f"{LONG} AND y = {number}"))
    waiting = node.backlog.neighbours["b"]
    assert waiting.waiting_bytes <= 20_000 and offers_of(node) + len(waiting.inputs) == 51


def test_turns_go_round_among_neighbours() -> None:
    waiting = TableBacklog()
    for sender in "abc":
        for number in range(4):
            received = Received(sender, SubscriptionAdded(number, LONG))
            if waiting.must_wait(0.0, received):
                waiting.put(0.0, received)
    served = []
    while waiting.waiting:
        served += [each.sender for each in waiting.take_turn()[:1]]
        waiting.arm(0.0)
        waiting.check()
    assert "".join(served).startswith("abcabc")


def test_a_neighbour_that_changes_little_is_served_at_once() -> None:
    waiting = TableBacklog()
    for second in range(100):
        assert not waiting.must_wait(float(second), Received("b", SubscriptionAdded(1, "x = 1")))
    assert waiting.arm(0.0) == []


def test_whatever_brokers_say_of_tables_and_history_has_its_place_here() -> None:
    """A new message has to be thought about: it waits unless it is named."""
    spoken = {*Router.messages, *HistoryExchange.messages, NamesakeFar}
    assert spoken <= ORDERED
    assert not (FREE & CHANGES or FREE & BARRIERS or CHANGES & BARRIERS)


PUBLISHERS = "pqr"
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.sampled_from([offer(each, LONG) for each in PUBLISHERS]),
    st.sampled_from([AdvertisementRemoved(0, f"{each}/1") for each in PUBLISHERS]),
    st.sampled_from([TableChanges(advertisements_added=(offer(each), offer("s"))) for each in PUBLISHERS]),
    st.builds(event, st.sampled_from(PUBLISHERS), st.integers(1, 9)),
    st.builds(lambda each: PublicationsSkipped(each, f"{each}/1", 3), st.sampled_from(PUBLISHERS)),
    st.sampled_from([SubscriptionAdded(0, LONG), SubscriptionAdded(0, "x = 1"), PackedReferences(()), TablesTold()]),
    st.sampled_from([Installed(1, (), 0), HistoryTaken(1, 1), HistoryBegun(1, 1), TablesBegun(1, 1)]),
)


@given(st.lists(st.one_of(MESSAGES, st.none()), max_size=40))
def test_nothing_passes_what_it_depends_on_and_nothing_is_lost(steps: list[Message | None]) -> None:
    """None is a turn. Messages are known by their place."""
    waiting, came, left = TableBacklog(), dict[int, Any](), list[int]()
    for step in steps:
        if step is None:
            left += [each.size_bytes for each in waiting.take_turn()]
            timers = waiting.arm(0.0)
        else:
            received = Received("b", step, len(came) + 1)
            came[received.size_bytes] = step
            timers = []
            if waiting.must_wait(0.0, received):
                timers = waiting.put(0.0, received)
            else:
                left.append(received.size_bytes)
        assert timers in ([], [SetTimer("turn", TURN_AFTER)])
        waiting.check()
    while waiting.waiting:
        left += [each.size_bytes for each in waiting.take_turn()]
        waiting.arm(0.0)
    assert sorted(left) == sorted(came)
    for place, later in enumerate(left):
        for earlier in (each for each in left[place + 1 :] if each < later):
            passed, passing = came[earlier], came[later]
            assert type(passed) not in BARRIERS
            if not isinstance(passing, Installed | HistoryTaken):
                assert isinstance(passing, Publications | PublicationsSkipped)
                assert not {*names_in(passed)} & {passing.publisher, passing.advertisement}
