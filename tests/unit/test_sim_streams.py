"""Streams keep order, links have epochs, and what breaks takes what was on its way with it."""

import pytest

from tests.worlds.puppets import PuppetWorld
from tidings.machine.effects import Connect, Disconnect, Send, Transport
from tidings.machine.inputs import LinkDown, LinkUp, Received
from tidings.model.identity import NodeId
from tidings.protocols.teaching.ping import Echo
from tidings.sim.network import bandwidth
from tidings.sim.network.bandwidth import Bandwidth
from tidings.sim.network.latency import Constant, Drawn, Matrix, Pareto, Uniform
from tidings.sim.network.rule import Fates, LostPacket, Rule, Wrapper


class Cut(Wrapper):
    """Loses everything while `is_cut`."""

    is_cut = False

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        return LostPacket("cut") if self.is_cut else self.inner.fate(now, sender, to, size_bytes, transport)


def test_the_first_message_of_a_stream_waits_for_a_round_trip_and_the_next_does_not() -> None:
    world = PuppetWorld("a", "b")
    world.say(1.0, "a", Send("b", Echo(1)))
    world.say(5.0, "a", Send("b", Echo(2)))
    world.run(10.0)
    assert [now for now, _ in world.puppet("b").seen] == [2.5, 5.5]


@pytest.mark.spec("P-9")
def test_streams_stay_in_order_under_fluctuating_latency_and_datagrams_do_not() -> None:
    world = PuppetWorld("a", "b", network=Drawn(Pareto(0.01, 1.1)))
    for number in range(500):
        world.say(number * 0.01, "a", Send("b", Echo(number)))
    world.run(1e6)
    assert world.puppet("b").numbers() == list(range(500))
    world = PuppetWorld("a", "b", network=Drawn(Pareto(0.01, 1.1)))
    for number in range(500):
        world.say(number * 0.01, "a", Send("b", Echo(number), Transport.DATAGRAM))
    world.run(1e6)
    assert world.puppet("b").numbers() != sorted(world.puppet("b").numbers())


@pytest.mark.spec("P-9")
def test_jitter_does_not_disturb_the_order_of_a_stream() -> None:
    world = PuppetWorld("a", "b", jitter=1e-3)
    world.say(1.0, "a", *[Send("b", Echo(number)) for number in range(300)])
    world.run(100.0)
    assert world.puppet("b").numbers() == list(range(300))


def test_after_a_crash_of_the_receiver_the_stream_is_opened_anew() -> None:
    world = PuppetWorld("a", "b")
    world.say(0.0, "a", Send("b", Echo(1)))
    world.call_at(2.0, lambda: world.crash("b"))
    world.call_at(2.1, lambda: world.restart("b", keep_state=True))
    world.say(3.0, "a", Send("b", Echo(2)))
    world.say(3.2, "a", Send("b", Echo(3)))
    world.say(4.0, "a", Send("b", Echo(4)))
    world.run(10.0)
    assert world.puppet("b").numbers() == [1, 4]
    assert world.puppet("b").seen[-1][0] == 5.5
    assert world.counters().lost == {"link is broken": 1, "nobody listens there": 1}


def test_a_message_the_network_gives_up_breaks_the_stream_and_what_follows_on_it() -> None:
    network = Cut(Constant(0.5))
    world = PuppetWorld("a", "b", network=network)
    world.say(0.0, "a", Send("b", Echo(1)))
    world.say(3.0, "a", Send("b", Echo(2)))
    world.call_at(3.1, lambda: setattr(network, "is_cut", True))
    world.say(3.2, "a", Send("b", Echo(3)), Send("b", Echo(4)))
    world.call_at(3.3, lambda: setattr(network, "is_cut", False))
    world.say(4.0, "a", Send("b", Echo(5)))
    world.run(10.0)
    assert world.puppet("b").numbers() == [1, 5]
    assert world.counters().lost == {"cut": 2, "link is broken": 1}


def test_both_ends_hear_of_a_new_link_the_other_end_first() -> None:
    world = PuppetWorld("a", "b")
    world.say(1.0, "a", Connect("b"), Send("b", Echo(1)))
    world.run(5.0)
    assert world.puppet("b").seen == [(1.5, LinkUp("a", 1)), (2.5, Received("a", Echo(1)))]
    assert world.puppet("a").seen == [(2.0, LinkUp("b", 1))]


def test_nothing_arrives_over_a_link_before_its_link_up() -> None:
    for seed in range(20):
        world = PuppetWorld("a", "b", network=Drawn(Uniform(0.001, 1.0)), seed=seed)
        world.say(0.0, "a", Connect("b"), *[Send("b", Echo(number)) for number in range(5)])
        for tenth in range(40):
            world.say(tenth / 10, "b", Send("a", Echo(tenth)))
        world.run(20.0)
        assert isinstance(world.puppet("b").seen[0][1], LinkUp)
        assert world.puppet("a").numbers() == sorted(world.puppet("a").numbers())


def test_asking_again_for_a_link_that_is_up_is_answered_with_the_same_epoch() -> None:
    world = PuppetWorld("a", "b")
    world.say(0.0, "a", Connect("b"))
    world.say(0.2, "b", Connect("a"))
    world.say(5.0, "b", Connect("a"))
    world.run(6.0)
    assert world.puppet("a").news() == [(1.0, LinkUp("b", 1))]
    assert world.puppet("b").news() == [(0.5, LinkUp("a", 1)), (5.0, LinkUp("a", 1))]


@pytest.mark.parametrize("trouble", ["crash", "break", "disconnect"])
def test_an_end_that_asks_while_the_others_wish_is_on_its_way_is_answered_in_any_case(trouble: str) -> None:
    world = PuppetWorld("a", "b")
    world.say(0.0, "a", Connect("b"))
    world.say(0.2, "b", Connect("a"))
    if trouble == "crash":
        world.call_at(0.3, lambda: world.crash("a"))
    elif trouble == "break":
        world.call_at(0.3, lambda: world.break_link("a", "b"))
    else:
        world.say(0.3, "b", Disconnect("a", "enough"))
    world.run(5.0)
    assert [type(input) for _, input in world.puppet("b").news()] == [LinkDown]
    assert [type(input) for _, input in world.puppet("a").news()] == ([] if trouble == "crash" else [LinkDown])


def test_an_end_that_asks_too_hears_first_that_its_old_link_is_gone() -> None:
    world = PuppetWorld("a", "b", silence_timeout=20.0)
    world.say(0.0, "a", Connect("b"))
    world.call_at(2.0, lambda: world.crash("a", is_silent=True))
    world.call_at(3.0, lambda: world.restart("a", keep_state=False))
    world.say(4.0, "a", Connect("b"))
    world.say(4.2, "b", Connect("a"))
    world.run(50.0)
    assert world.puppet("b").news() == [
        (0.5, LinkUp("a", 1)),
        (4.2, LinkDown("a", 1, "replaced by a new link")),
        (4.5, LinkUp("a", 2)),
    ]


def test_everything_on_a_broken_link_is_lost_and_both_ends_hear_of_it() -> None:
    world = PuppetWorld("a", "b")
    world.say(0.0, "a", Connect("b"))
    world.say(3.0, "a", Send("b", Echo(1)))
    world.say(3.0, "b", Send("a", Echo(2)))
    world.call_at(3.2, lambda: world.break_link("b", "a", "cable cut", noticed_after=0.1))
    world.say(3.25, "a", Send("b", Echo(3)))
    world.say(5.0, "a", Connect("b"))
    world.run(10.0)
    assert world.puppet("a").numbers() == world.puppet("b").numbers() == []
    assert world.puppet("a").news()[1:] == [(pytest.approx(3.3), LinkDown("b", 1, "cable cut")), (6.0, LinkUp("b", 2))]
    assert world.puppet("b").news()[1:] == [(pytest.approx(3.3), LinkDown("a", 1, "cable cut")), (5.5, LinkUp("a", 2))]
    assert world.counters().lost == {"link is broken": 3}
    assert not world.break_link("a", "c")


def test_who_disconnects_is_heard_to_the_end_and_hears_no_more() -> None:
    world = PuppetWorld("a", "b")
    world.say(0.0, "a", Connect("b"))
    world.say(3.0, "b", Send("a", Echo(1)))
    world.say(3.1, "a", Send("b", Echo(2)), Disconnect("b", "done"))
    world.run(10.0)
    assert world.puppet("a").seen[1:] == [(3.1, LinkDown("b", 1, "done"))]
    assert world.puppet("b").seen[1:] == [(3.6, Received("a", Echo(2))), (3.6, LinkDown("a", 1, "done"))]


def test_what_was_sent_on_a_link_that_both_ends_gave_up_does_not_arrive() -> None:
    world = PuppetWorld("a", "b")
    world.say(0.0, "a", Connect("b"))
    world.say(3.0, "a", Send("b", Echo(1)), Disconnect("b", "is not heard"))
    world.say(3.2, "b", Disconnect("a", "is not heard"), Connect("a"))
    world.run(10.0)
    assert world.puppet("b").numbers() == []
    assert world.puppet("b").news()[1:] == [(3.2, LinkDown("a", 1, "is not heard")), (4.2, LinkUp("a", 2))]
    assert world.counters().lost == {"link is broken": 1}


def test_disconnecting_while_connecting_ends_in_link_down() -> None:
    world = PuppetWorld("a", "b")
    world.say(0.0, "a", Connect("b"), Disconnect("b", "changed my mind"), Disconnect("c"))
    world.run(10.0)
    assert world.puppet("a").news() == [(0.0, LinkDown("b", 1, "changed my mind"))]
    assert world.puppet("b").news() == []


def test_a_link_to_nobody_or_to_oneself_comes_back_as_link_down() -> None:
    world = PuppetWorld("a", "b", connect_timeout=3.0)
    world.crash("b")
    world.say(0.0, "a", Connect("b"), Connect("nobody"), Connect("a"), Send("b", Echo(1)))
    world.run(10.0)
    assert world.puppet("a").news() == [
        (0.0, LinkDown("a", 1, "a node has no link to itself")),
        (3.0, LinkDown("nobody", 1, "no answer")),
        (3.0, LinkDown("b", 1, "no answer")),
    ]
    assert sum(world.counters().lost.values()) == 1


def test_a_crash_is_heard_at_the_other_end_of_each_link_and_a_silent_one_later() -> None:
    world = PuppetWorld("a", "b", "c", silence_timeout=20.0)
    world.say(0.0, "a", Connect("b"), Connect("c"))
    world.say(3.0, "b", Send("a", Echo(1)))
    world.call_at(3.2, lambda: world.crash("a", "bug"))
    world.run(5.0)
    assert world.puppet("b").news()[-1] == (3.7, LinkDown("a", 1, "bug"))
    assert world.puppet("c").news()[-1] == (3.7, LinkDown("a", 1, "bug"))
    world.restart("a", keep_state=False)
    world.say(6.0, "a", Connect("b"))
    world.call_at(8.0, lambda: world.crash("a", is_silent=True))
    world.say(9.0, "b", Send("a", Echo(2)))
    world.run(40.0)
    assert world.puppet("b").news()[-2:] == [(6.5, LinkUp("a", 2)), (28.0, LinkDown("a", 2, "crash"))]
    assert world.counters().lost == {"link is broken": 2}


def test_a_node_that_comes_back_unnoticed_replaces_its_old_link() -> None:
    world = PuppetWorld("a", "b", silence_timeout=20.0)
    world.say(0.0, "a", Connect("b"))
    world.call_at(2.0, lambda: world.crash("a", is_silent=True))
    world.call_at(3.0, lambda: world.restart("a", keep_state=False))
    world.say(4.0, "a", Connect("b"))
    world.run(50.0)
    assert world.puppet("b").news() == [
        (0.5, LinkUp("a", 1)),
        (4.5, LinkDown("a", 1, "replaced by a new link")),
        (4.5, LinkUp("a", 2)),
    ]


def test_asking_for_a_link_before_its_break_was_noticed_brings_the_news_first() -> None:
    world = PuppetWorld("a", "b")
    world.say(0.0, "a", Connect("b"))
    world.call_at(2.0, lambda: world.break_link("a", "b", noticed_after=10.0))
    world.say(3.0, "a", Connect("b"))
    world.run(50.0)
    downs_and_ups = [type(input).__name__ + str(input.epoch) for _, input in world.puppet("a").news()]
    assert downs_and_ups == ["LinkUp1", "LinkDown1", "LinkUp2"]
    assert [type(input).__name__ + str(input.epoch) for _, input in world.puppet("b").news()] == downs_and_ups


def test_a_stream_to_a_paused_node_breaks_when_too_much_waits_for_it() -> None:
    world = PuppetWorld("a", "b", held_max=2, silence_timeout=5.0)
    world.say(0.0, "a", Connect("b"))
    world.run(2.0)
    world.pause("b")
    world.say(2.0, "a", *[Send("b", Echo(number)) for number in range(4)])
    world.run(10.0)
    assert world.puppet("a").news()[-1] == (2.5, LinkDown("b", 1, "queue full"))
    assert world.counters().lost == {"link is broken": 1, "queue full": 1}
    world.resume("b")
    assert world.puppet("b").numbers() == [0, 1]
    assert world.puppet("b").news()[-1] == (10.0, LinkDown("a", 1, "queue full"))


@pytest.fixture
def short_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "SEND_QUEUE_BYTES_MAX", 200)


def slow_network() -> Rule:
    """A byte takes a millisecond, and nothing waits but at the sender."""
    return Bandwidth(Constant(0.5), rate_bps=8 * 1000, queue_bytes_max=0)


@pytest.mark.usefixtures("short_queues")
@pytest.mark.parametrize("jitter", [0.0, 1e-3])
def test_a_full_queue_breaks_the_link_behind_what_waits_in_it(jitter: float) -> None:
    for seed in range(10):
        world = PuppetWorld("a", "b", network=slow_network(), seed=seed, jitter=jitter)
        world.say(1.0, "a", Connect("b"))
        world.say(5.0, "a", *[Send("b", Echo(number)) for number in range(9)])
        world.say(20.0, "a", Connect("b"))
        world.run(30.0)
        down_at, down = world.puppet("a").news()[1]
        assert down_at == pytest.approx(5.0, abs=0.01)
        assert down == LinkDown("b", 1, "queue full")
        arrived = world.puppet("b").numbers()
        assert 1 < len(arrived) < 9
        assert arrived == list(range(len(arrived)))
        assert world.counters().lost["queue full"] >= 1
        last, broken = world.puppet("b").seen[len(arrived) : len(arrived) + 2]
        assert isinstance(last[1], Received)
        assert broken[1] == LinkDown("a", 1, "queue full")
        assert broken[0] == pytest.approx(last[0], abs=0.01)
        assert [type(input) for _, input in world.puppet("a").news()] == [LinkUp, LinkDown, LinkUp]


@pytest.mark.usefixtures("short_queues")
def test_a_full_queue_without_a_link_ends_the_stream_and_the_next_message_begins_a_new_one() -> None:
    world = PuppetWorld("a", "b", network=slow_network())
    world.say(0.0, "a", *[Send("b", Echo(number)) for number in range(9)])
    world.say(20.0, "a", Send("b", Echo(100)))
    world.run(30.0)
    *first, last = world.puppet("b").numbers()
    assert first == list(range(len(first)))
    assert last == 100
    assert world.counters().lost["queue full"] >= 1


def test_jitter_does_not_let_the_news_of_a_disconnect_overtake_the_last_message() -> None:
    for seed in range(50):
        world = PuppetWorld("a", "b", jitter=0.1, seed=seed)
        world.say(1.0, "a", Connect("b"))
        world.say(3.0, "a", Send("b", Echo(1)), Disconnect("b", "done"))
        world.run(10.0)
        assert [type(input) for _, input in world.puppet("b").seen] == [LinkUp, Received, LinkDown]


def test_a_link_to_a_node_that_does_not_exist_asks_the_network_nothing() -> None:
    world = PuppetWorld("a", "b", network=Matrix({("a", "b"): 0.1, ("b", "a"): 0.1}))
    world.say(0.0, "a", Connect("nobody"))
    world.run(10.0)
    assert world.puppet("a").news() == [(3.0, LinkDown("nobody", 1, "no answer"))]


def test_messages_sent_on_a_stream_stay_ahead_of_those_on_the_link_that_takes_its_place() -> None:
    for seed in range(30):
        world = PuppetWorld("a", "b", network=Drawn(Uniform(0.01, 2.0)), seed=seed)
        world.say(0.0, "a", *[Send("b", Echo(number)) for number in range(3)])
        world.say(0.5, "a", Connect("b"))
        world.say(0.5, "b", *[Send("a", Echo(number)) for number in range(3)])
        world.say(3.0, "a", *[Send("b", Echo(number)) for number in range(3, 6)])
        world.say(3.0, "b", *[Send("a", Echo(number)) for number in range(3, 6)])
        world.run(30.0)
        assert world.puppet("a").numbers() == world.puppet("b").numbers() == list(range(6))
