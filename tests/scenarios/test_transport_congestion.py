"""Flows through bottlenecks, with the real machines of congestion control at both ends (transport 8.2, E19 to E22)."""

from typing import Any

import pytest

from tests.scenarios.bottleneck import Bottleneck, Link, Listener
from tidings.protocols.transport.params import CongestionParams, TransportParams
from tidings.protocols.transport.signals import CarriedEvent, Told
from tidings.pubsub.notes import Withheld

CAPACITY = 219.0
PUBLISHED, MATCH = 4000.0, 0.22
SECONDS = 30.0
KINDS: list[dict[str, Any]] = [{"kind": "a"}, {"kind": "b"}]


def flow(
    seconds: float = SECONDS, is_paced: bool = True, record: int = 2, clock: float = 0.0, **congestion: Any
) -> tuple[Bottleneck, Listener]:
    """The model of 8.2: what one receiver wants is four times what its link carries."""
    params = TransportParams(is_paced=is_paced, record=record, congestion=CongestionParams(**congestion))
    world = Bottleneck(params, record=record)
    listener = world.listen("kind = 'a'", Link(CAPACITY, 50), clock, is_paced)
    world.publish(PUBLISHED, KINDS, [MATCH, 1.0 - MATCH], seconds)
    world.run(seconds)
    world.sender.check()
    listener.machine.check()
    return world, listener


@pytest.fixture(scope="module")
def uncontrolled() -> Listener:
    _, listener = flow(is_paced=False)
    return listener


@pytest.mark.parametrize(
    "how",
    [
        {"record": 2},
        {"record": 5},
        {"control": "window"},
        {"acknowledgements": True},
        {"slow_start": True},
        {"suppression": True},
        {"clock": 1000.0},
    ],
    ids=str,
)
def test_losses_fall_by_twenty_and_what_arrives_does_not(uncontrolled: Listener, how: dict[str, Any]) -> None:
    _, listener = flow(**how)
    assert listener.link.dropped * 20 <= uncontrolled.link.dropped
    assert len(listener.received) >= 0.93 * len(uncontrolled.received)
    assert listener.delays / len(listener.received) < uncontrolled.delays / len(uncontrolled.received)


def test_what_nobody_limits_is_not_slowed_down() -> None:
    params = TransportParams(is_paced=True, record=2)
    world = Bottleneck(params)
    world.listen("kind = 'a'", Link(CAPACITY, 50))
    wide = world.listen("kind = 'b'", Link(10_000.0, 500))
    world.publish(PUBLISHED / 2.0, KINDS, [0.5, 0.5], 10.0)
    world.run(10.0)
    published = [event for _, event in world.sent.values() if event.attributes["kind"] == "b"]
    assert wide.link.dropped == 0
    assert len(published) == pytest.approx(PUBLISHED / 4.0 * 10.0, rel=0.05)
    assert world.notes[Withheld] > 0


@pytest.mark.spec("T-93")
def test_a_covered_receiver_behind_the_same_bottleneck_adds_no_row() -> None:
    world = Bottleneck(TransportParams(is_paced=True, record=2))
    link = Link(CAPACITY, 50)
    wide = world.listen("news = 'sport'", link)
    world.publish(600.0, [{"news": "sport"}, {"news": "sport", "team": "Y"}], [0.95, 0.05], 15.0)
    world.run(5.0)
    narrow = world.listen("news = 'sport' AND team = 'Y'", link)
    world.run(15.0)
    (state,) = world.sender.states()
    assert state.receiver == wide.number
    assert len(narrow.received) > 50
    assert narrow.feedback < 0.2 * wide.feedback


def test_a_flow_follows_what_its_link_can_carry() -> None:
    """E20 in small: half the capacity, then twice."""
    world = Bottleneck(TransportParams(is_paced=True, record=2))
    link = Link(400.0, 50)
    listener = world.listen("kind = 'a'", link)
    world.publish(2000.0, KINDS, [0.5, 0.5], 60.0)
    shares = []
    for at, rate in ((20.0, 200.0), (40.0, 400.0), (60.0, 0.0)):
        before = link.rate
        world.run(at)
        recent = sum(at - 10.0 <= time < at for time in listener.times)
        shares.append(recent / 10.0 / before)
        link.rate = rate
    assert min(shares) >= 0.9


def test_three_receivers_of_one_flow_get_what_the_slowest_can_take() -> None:
    world = Bottleneck(TransportParams(is_paced=True, record=2))
    listeners = [world.listen("kind = 'a'", Link(rate, 50)) for rate in (100.0, 300.0, 5000.0)]
    world.publish(1000.0, KINDS, [0.5, 0.5], 30.0)
    world.run(30.0)
    (state,) = world.sender.states()
    assert state.receiver == 100
    recent = [sum(time > 10.0 for time in listener.times) / 20.0 for listener in listeners]
    assert recent == pytest.approx([recent[0]] * 3, rel=0.1)
    assert recent[0] >= 0.85 * 100.0


def crowd(suppression: bool) -> tuple[int, int]:
    """Feedback messages, and events dropped, of fifteen receivers behind one bottleneck."""
    congestion = CongestionParams(suppression=suppression)
    world = Bottleneck(TransportParams(is_paced=True, record=2, congestion=congestion))
    links = [Link(150.0, 50) for _ in range(15)]
    for link in links:
        world.listen("kind = 'a'", link)
    world.publish(400.0, KINDS, [0.8, 0.2], 15.0)
    world.run(15.0)
    return sum(listener.feedback for listener in world.listeners.values()), sum(link.dropped for link in links)


def test_suppression_saves_feedback_and_costs_few_losses() -> None:
    plain, plain_lost = crowd(suppression=False)
    saved, saved_lost = crowd(suppression=True)
    assert saved < 0.8 * plain
    assert saved_lost <= 1.5 * plain_lost


def test_a_lying_receiver_does_not_starve_the_others() -> None:
    """Its share is what leaves in any case; the honest receiver gets that once the time-out is over."""
    from tidings.protocols.transport.limits import SHARE_MIN
    from tidings.protocols.transport.messages import Feedback, FlowReport

    params = TransportParams(is_paced=True, record=2, congestion=CongestionParams(flow_timeout=2.0))
    world = Bottleneck(params)
    honest = world.listen("kind = 'a'", Link(5000.0, 50))
    world.publish(1000.0, KINDS, [0.8, 0.2], 12.0)
    (interest,) = honest.machine.interests.flows().values()

    def lie() -> None:
        reports = (FlowReport(interest.flow, 0.0, interest.bits),)
        message = Feedback(666, 1, world.now, 2.0, reports, params.profile.size_bytes)
        world.push(world.now, 0, Told(message, CarriedEvent(b"", b"")))

    world.run(2.0)
    for tick in range(40):
        lie()
        world.run(2.0 + (tick + 1) * 0.2)
    held = sum(2.2 <= time < 3.0 for time in honest.times)
    later = sum(4.0 <= time < 10.0 for time in honest.times)
    assert held <= 5
    assert later >= 0.9 * 800.0 * SHARE_MIN * 6.0
