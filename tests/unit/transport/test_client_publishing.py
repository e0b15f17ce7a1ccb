"""What a transport client publishes: batches through the transport and back, tickets, its own messages."""

import msgspec
import pytest

from tests.worlds.desk import drops, items, sent
from tests.worlds.transport_client import ALL, OFF, ORDERED, RELIABLE, ClientDesk, Other, publications, receipt
from tidings.machine.inputs import LinkDown, Received
from tidings.machine.streams import random_stream
from tidings.model.language.parser import parse
from tidings.nodes.client import ClientNode
from tidings.protocols.access.params import GuestParams
from tidings.protocols.delivery.messages import Advertise, PublishMessage, Refusal, Subscribe
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.delivery.session.session import WINDOW_FULL
from tidings.protocols.delivery.session.standings import NO_SUCH
from tidings.protocols.transport.adapter.own import CONTROL
from tidings.protocols.transport.adapter.traffic import WITHHELD
from tidings.protocols.transport.carrier import Modes, RoomMade
from tidings.protocols.transport.congestion.paced import interests_of
from tidings.protocols.transport.headers import decode_data
from tidings.protocols.transport.marks import TO, Kind, head_of, unmark
from tidings.protocols.transport.messages import Feedback, FlowReport, encode_control
from tidings.protocols.transport.params import CongestionParams, TransportParams
from tidings.protocols.transport.signals import Configure
from tidings.pubsub.client import Accepted, Begun, Confirmed, Declined, Failed, OpenAdvertisement, PublishBatch
from tidings.pubsub.publications import encode_head
from tidings.wire import encode


def plain_bytes(values: range) -> bytes:
    """What a client without a transport sends for the same request."""
    client = ClientNode("ann", GuestParams(brokers=("b",)), SessionParams(), random_stream(1, "session"))
    client.start(0.0)
    client.session.broker = "b"
    client.handle(0.0, OpenAdvertisement("a", "TRUE"))
    heads = tuple(encode_head({"x": value}) for value in values)
    (message,) = sent(client.handle(0.0, PublishBatch(1, heads, tuple(b"%d" % value for value in values))))
    return encode(message)


@pytest.mark.spec("T-17")
def test_a_publisher_that_is_not_ordered_sends_the_bytes_of_a_plain_client() -> None:
    desk = ClientDesk(OFF)
    desk.advertise()
    (message,) = publications(desk.publish(range(5)))
    assert encode(message) == plain_bytes(range(5))


def test_events_leave_marked_and_numbered_in_one_batch_again() -> None:
    desk = ClientDesk(ORDERED)
    desk.advertise()
    (message,) = publications(desk.publish(range(5)))
    assert (message.advertisement, message.first, message.receipt) == (1, 1, False)
    for sequence, (head, payload) in enumerate(zip(message.heads, message.payloads, strict=True)):
        assert unmark(head) == (encode_head({"x": sequence}), Kind.DATA)
        header, rest = decode_data(payload)
        assert (header.sequence, rest) == (sequence, b"%d" % sequence)


def test_a_batch_with_a_ticket_is_confirmed_like_one_of_a_plain_client() -> None:
    desk = ClientDesk(RELIABLE)
    desk.advertise()
    effects = desk.publish(range(3), "ticket")
    (message,) = publications(effects)
    assert items(effects) == [Begun("ticket", 1)]
    assert message.receipt
    answer = receipt("publish", 3)
    assert items(desk.hear(answer)) == [Confirmed("ticket", answer)]
    assert desk.client.window.through == 0
    desk.hear(Accepted(3))
    assert (desk.client.window.through, desk.client.window.count) == (1, 0)


def test_a_batch_under_no_advertisement_fails_and_takes_no_numbers() -> None:
    desk = ClientDesk(ORDERED)
    effects = desk.publish(range(3), "ticket")
    assert items(effects) == [Failed("ticket", NO_SUCH)]
    desk.advertise()
    (message,) = publications(desk.publish(range(1)))
    assert decode_data(message.payloads[0])[0].sequence == 0


def test_what_headers_push_out_of_the_window_waits_until_there_is_room() -> None:
    desk = ClientDesk(ORDERED, window_publications=100, window_bytes=400)
    desk.advertise()
    effects = desk.publish(range(10), "ticket")
    (message,) = publications(effects)
    assert 1 <= len(message.heads) < 10
    assert not desk.client.window.has_room(1, 1)
    through, told = 0, []
    for _ in range(20):
        last = message.first + len(message.heads) - 1
        told += items(desk.hear(receipt("publish", last)), Confirmed)
        effects = desk.hear(Accepted(last))
        through += len(message.heads)
        if not publications(effects):
            break
        (message,) = publications(effects)
    assert through == 10
    assert [item.ticket for item in told] == ["ticket"]
    assert (desk.client.window.count, desk.client.window.through) == (0, 1)


def test_what_does_not_fit_the_window_at_all_is_refused_as_ever() -> None:
    desk = ClientDesk(ORDERED, window_publications=5)
    desk.advertise()
    effects = desk.publish(range(6), "ticket")
    assert drops(effects) == [WINDOW_FULL]
    assert items(effects) == [Failed("ticket", WINDOW_FULL)]


def test_bytes_that_are_no_event_go_to_the_broker_which_declines_them() -> None:
    desk = ClientDesk(ORDERED)
    desk.advertise()
    (message,) = publications(desk.handle(PublishBatch(1, (b"\xc1",), (b"",))))
    assert message.heads == (b"\xc1",)
    assert items(desk.hear(Declined((1,), "no event"))) == [Declined((1,), "no event")]


# Under congestion control.


def limited(desk: ClientDesk, quota: float) -> None:
    """Some receiver reports what it can take of everything."""
    transport = desk.client.transport
    profile = transport.params.profile
    (interest,) = interests_of(parse("x >= 0"), profile, 1.0, False)
    report = FlowReport(interest.flow, quota, interest.bits)
    feedback = Feedback(99, transport.node_id, desk.now, 0.05, (report,), profile.size_bytes)
    head = head_of({TO: transport.node_id}, Kind.FEEDBACK)
    (inbox,) = [number for number, key in desk.client.own.keys.items() if key == "inbox"]
    other = Other("cat", 99)
    desk.hear(other.delivery([(1, head, encode_control(feedback))], inbox))
    assert transport.sender.table.rows


PACED = TransportParams(is_paced=True, congestion=CongestionParams(queue_max=4))


def test_a_paced_batch_leaves_in_pieces_and_its_ticket_is_answered_when_all_are() -> None:
    desk = ClientDesk(PACED)
    desk.advertise()
    limited(desk, 10.0)
    effects = desk.publish(range(5), "ticket")
    assert items(effects, Begun) == []
    told, numbers = [], []
    for step in range(1, 40):
        for message in publications(effects):
            numbers += [decode_data(payload)[0].sequence for payload in message.payloads]
            told += items(desk.hear(receipt("publish", message.first + len(message.heads) - 1)), Confirmed)
        effects = desk.advance(step / 10)
    assert numbers == [0, 1, 2, 3, 4]
    assert [item.ticket for item in told] == ["ticket"]
    assert desk.client.transport.has_room(encode_head({"x": 1}), b"")


def test_a_full_queue_says_so_and_what_has_to_give_way_fails_its_ticket() -> None:
    desk = ClientDesk(PACED)
    desk.advertise()
    limited(desk, 1.0)
    effects = desk.publish(range(3))
    while desk.client.transport.has_room(encode_head({"x": 1}), b""):
        effects += desk.publish(range(1))
    assert not desk.client.transport.has_room(encode_head({"x": 1}), b"")
    assert desk.client.transport.has_room(encode_head({"y": 1}), b""), "another flow is free"
    effects = desk.publish(range(8), "ticket")
    assert Failed("ticket", WITHHELD) in items(effects)
    assert RoomMade() in items(effects)
    assert len(items(effects, Failed)) == 1


# Messages of its own.


def test_its_own_messages_go_under_an_advertisement_of_their_own_once_that_is_known() -> None:
    desk = ClientDesk(ALL)
    number = desk.subscribe(modes=Modes(True, True, True))
    other = Other()
    effects = desk.hear(other.delivery([other.make(1)], number))
    (advertise,) = sent(effects, Advertise)
    assert advertise.filter == CONTROL.text()
    assert publications(effects) == []
    effects = desk.hear(receipt("advertise", advertise.number, CONTROL.text()))
    (message,) = publications(effects)
    assert unmark(message.heads[0])[1] is Kind.ECHO_REQUEST
    assert items(effects) == []


def test_the_application_sees_none_of_the_transports_own_requests() -> None:
    desk = ClientDesk(ALL, is_attached=False)
    effects = desk.effects + desk.attach()
    asked = sent(effects, Subscribe)
    assert asked and all(message.guarantee == "none" for message in asked)
    for message in asked:
        assert items(desk.hear(receipt("subscribe", message.number, message.filter))) == []


@pytest.mark.parametrize("answer", ["refused", "narrowed", "declined"])
def test_a_client_that_may_not_publish_the_transports_messages_keeps_order_and_says_what_is_off(answer: str) -> None:
    desk = ClientDesk(ALL)
    number = desk.subscribe(modes=Modes(True, True, True))
    other = Other()
    (advertise,) = sent(desk.hear(other.delivery([other.make(1)], number)), Advertise)
    if answer == "refused":
        effects = desk.hear(Refusal("advertise", advertise.number, "not permitted: only x >= 0", False))
    elif answer == "narrowed":
        effects = desk.hear(receipt("advertise", advertise.number, f"x >= 0 AND {CONTROL.text()}"))
    else:
        desk.hear(receipt("advertise", advertise.number, CONTROL.text()))
        effects = desk.hear(Declined((1,), "not permitted: only x >= 0"))
    assert items(effects) == []
    state = desk.client.state()
    assert "recovery and pacing are off" in state.problem
    assert (state.is_ordered, state.is_reliable, state.is_paced) == (True, False, False)
    assert not desk.client.transport.recovery.reliable
    effects = desk.hear(other.delivery([other.make(2)], number))
    assert [item.payloads for item in items(effects)] == [(b"2",)]
    assert desk.client.subscriptions[number].modes == Modes(True, True, True)


def test_with_the_next_broker_it_is_tried_again() -> None:
    desk = ClientDesk(ALL)
    number = desk.subscribe(modes=Modes(True, True, True))
    desk.client.own.forbid("not permitted")
    desk.client.modes_changed(0.0)
    desk.handle(LinkDown("b", 1, "broken"))
    desk.advance(30.0)
    desk.attach()
    desk.handle(Received("b", Accepted(0)))
    assert desk.client.state().problem == ""
    assert number in desk.client.transport.recovery.reliable


@pytest.mark.spec("T-102")
def test_what_a_publisher_does_can_be_changed_while_it_runs() -> None:
    desk = ClientDesk(ORDERED)
    desk.advertise()
    desk.publish(range(2))
    assert desk.client.state().cache == 0
    desk.handle(Configure(msgspec.structs.replace(ORDERED, is_reliable=True)))
    (message,) = publications(desk.publish(range(2, 4)))
    assert isinstance(message, PublishMessage)
    assert [decode_data(payload)[0].sequence for payload in message.payloads] == [2, 3]
    assert (desk.client.state().is_reliable, desk.client.state().cache) == (True, 2)
    desk.handle(Configure(OFF))
    (message,) = publications(desk.publish(range(4, 5)))
    assert message.payloads == (b"4",)
