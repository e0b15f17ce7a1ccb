"""A client that is sent away, its access and its session, step by step."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_session import Client, advertised, arrived, delivery, publish, receipt, subscribed
from tests.worlds.desk import Desk, drops, items, sent
from tidings.machine.effects import Connect, Disconnect, Drop, Effect, Know, Send
from tidings.machine.inputs import Fired, Input, LinkDown, LinkUp, Received
from tidings.machine.message import Contact
from tidings.machine.streams import random_stream
from tidings.model.bounds import WAYS_OUT_MAX
from tidings.protocols.access import guest as outside
from tidings.protocols.access.guest import Guest
from tidings.protocols.access.messages import Attach, Attached, CannotMove, MoveAway, Rejected
from tidings.protocols.access.params import GuestParams
from tidings.protocols.delivery.messages import (
    Advertise,
    DeliveriesTaken,
    PublishMessage,
    Refusal,
    Subscribe,
)
from tidings.protocols.delivery.session.departure import LEFT, OURSELVES
from tidings.protocols.delivery.session.progress import NOT_CONFIRMED, REPEATED, WINDOW_IGNORED
from tidings.protocols.delivery.session.session import RECEIPT_LOST
from tidings.pubsub.client import (
    Accepted,
    Arrived,
    Confirmed,
    Declined,
    Failed,
    Missed,
    Namesake,
    OpenAdvertisement,
    OpenSubscription,
    Replied,
)
from tidings.pubsub.signals import Parted, PeerDown, PeerUp, TurnedAway

Y, Z = Contact("y", "h:2"), Contact("z", "h:3")
WELCOME = Attached("ann", "", "")


class Visitor(Desk[Guest]):
    """A guest that is served by x."""

    def __init__(self, brokers: tuple[str, ...] = ("x",), **params: Any) -> None:
        super().__init__(Guest("ann", GuestParams(brokers=brokers, **params), random_stream(1)))
        self.handle(LinkUp("x", 1))
        assert self.hear("x", WELCOME) == [*self.effects[:-1], PeerUp("x", 1)]

    def hear(self, sender: str, message: Any) -> list[Effect]:
        return self.handle(Received(sender, message))

    def go(self, *contacts: Contact) -> list[Effect]:
        return self.hear("x", MoveAway("off", contacts))

    def arrive(self, broker: str = "y") -> list[Effect]:
        self.handle(LinkUp(broker, 1))
        return self.hear(broker, WELCOME)


# Access: where to.


def test_a_guest_that_is_sent_away_is_let_in_elsewhere_first_and_lets_go_then() -> None:
    guest = Visitor()
    assert guest.go(Y, Z) == [Know("y", "h:2"), Connect("y")]
    up = guest.handle(LinkUp("y", 1))
    assert sent(up, to="y") == [Attach("client", b"", when_drained="goes")]
    assert guest.hear("y", WELCOME)[-1] == PeerUp("y", 1, leaving="x")
    parted = guest.handle(Parted("x"))
    assert parted[1:] == [PeerDown("x", 1, outside.MOVED), Disconnect("x", outside.MOVED)]
    assert guest.handle(LinkDown("x", 1, "bye")) == []
    assert guest.machine.broker == "y"


def test_the_broker_that_sent_us_away_is_kept_no_longer_than_is_allowed() -> None:
    guest = Visitor(parting_max=3.0)
    guest.go(Y)
    guest.arrive()
    effects = guest.advance(3.5)
    assert effects[-2:] == [PeerDown("x", 1, outside.NOT_PARTED), Disconnect("x", outside.NOT_PARTED)]
    assert guest.handle(Parted("x")) == []


def test_ways_out_are_tried_one_after_the_other_and_none_of_them_costs_us_our_broker() -> None:
    guest = Visitor(attach_timeout=2.0)
    guest.go(Y, Z, Contact("w", "h:4"))
    assert guest.handle(LinkDown("y", 0, "nobody there"))[-2:] == [Know("z", "h:3"), Connect("z")]
    guest.handle(LinkUp("z", 1))
    assert guest.hear("z", Rejected("no"))[-3:] == [Disconnect("z", "no"), Know("w", "h:4"), Connect("w")]
    guest.handle(LinkUp("w", 1))
    silent = guest.advance(2.5)
    assert silent[-2:] == [Disconnect("w", outside.NO_ANSWER), Send("x", CannotMove(outside.NO_ANSWER))]
    assert guest.machine.is_attached
    assert not guest.told(TurnedAway), "the application hears nothing of it"


def test_one_that_is_drained_too_names_others() -> None:
    guest = Visitor()
    guest.go(Y)
    guest.handle(LinkUp("y", 1))
    assert guest.hear("y", MoveAway("off too", (Contact("x", "h:1"), Z)))[-1] == Connect("z")
    assert guest.arrive("z")[-1] == PeerUp("z", 1, leaving="x")


def test_what_may_not_be_called_is_not_called() -> None:
    guest = Visitor()
    guest.machine.why_not_there = lambda broker, contact: f"not {contact.node}, as {broker} says" * (contact == Y)
    bad = Contact("@h:1", ""), Contact("q", "nonsense"), Contact("x", "h:9")
    assert guest.go(*bad, Y) == [Send("x", CannotMove("not y, as x says"))]
    assert guest.go() == [Send("x", CannotMove("no broker was named where we could go"))]


def test_a_broker_that_is_lost_while_we_move_leaves_us_with_the_next_one() -> None:
    guest = Visitor()
    guest.go(Y)
    assert guest.handle(LinkDown("x", 1, "gone"))[:2] == [*guest.effects[:1], PeerDown("x", 1, "gone")]
    assert guest.arrive()[-1] == PeerUp("y", 1)
    assert guest.machine.leaving is None


def test_who_loses_the_next_broker_lets_go_of_both_and_begins_anew() -> None:
    guest = Visitor()
    guest.go(Y)
    guest.arrive()
    effects = guest.handle(LinkDown("y", 1, "crashed"))
    assert [it for it in effects if isinstance(it, PeerDown)] == [
        PeerDown("x", 1, "crashed"),
        PeerDown("y", 1, "crashed"),
    ]
    assert Disconnect("x", "crashed") in effects
    assert guest.fire_next() == [Connect("x")], "y had not served us for long"
    guest.handle(LinkDown("x", 0, "stopped"))
    assert guest.fire_next() == [Connect("y")], "it is remembered"


def test_a_guest_that_comes_to_a_drained_broker_tries_the_others_that_it_names_next() -> None:
    guest = Desk(Guest("ann", GuestParams(brokers=("x", "w")), random_stream(1)))
    guest.handle(LinkUp("x", 1))
    effects = guest.handle(Received("x", MoveAway("off", (Y, Z))))
    assert [it for it in effects if isinstance(it, Know)] == [Know("y", "h:2"), Know("z", "h:3")]
    assert Disconnect("x", "off") in effects
    assert not guest.told(TurnedAway)
    for broker in ("y", "z", "w", "x"):
        assert guest.fire_next() == [Connect(broker)]
        guest.handle(LinkDown(broker, 0, "no answer"))


def test_two_brokers_that_send_us_to_each_other_wait_for_each_move() -> None:
    guest = Visitor(moves_pause=1.0)
    guest.go(Y)
    guest.arrive()
    guest.handle(Parted("x"))
    assert guest.hear("y", MoveAway("off", (Contact("x", "h:1"),))) == guest.effects
    assert [it for it in guest.effects if isinstance(it, Connect)] == []
    assert guest.advance(1.5)[-1] == Connect("x")


@given(st.lists(st.lists(st.integers(0, 20), max_size=WAYS_OUT_MAX), max_size=6), st.data())
def test_whatever_others_name_little_of_it_is_kept(named: list[list[int]], data: st.DataObject) -> None:
    guest = Visitor()
    broker: str = "x"
    for numbers in named:
        contacts = tuple(Contact(f"b{number}", f"h:{number + 1}") for number in numbers)
        guest.hear(broker, MoveAway("off", contacts))
        for _ in range(2 * WAYS_OUT_MAX):
            moving = guest.machine.moving
            if moving is None or moving.broker is None:
                break
            happens: list[Input] = [
                LinkUp(moving.broker, 1),
                LinkDown(moving.broker, 0, "no"),
                Received(moving.broker, WELCOME),
            ]
            guest.handle(happens[data.draw(st.integers(0, 2))])
        guest.advance(guest.now + 20.0)
        broker = guest.machine.broker or broker
    assert len(guest.machine.learned) <= WAYS_OUT_MAX


# Delivery: nothing lost, nothing twice.


def moved(client: Client) -> list[Any]:
    """What the next broker is told."""
    return sent(client.handle(PeerUp("n", 1, leaving="b")), to="n")


def test_all_is_said_to_the_next_broker_and_the_old_one_is_let_go_when_it_has_confirmed_it() -> None:
    client = subscribed()
    client.handle(OpenAdvertisement("a", "TRUE"))
    client.hear(receipt("advertise", 1))
    client.handle(publish(b"1"))
    client.hear(delivery(1))
    told = moved(client)
    assert [type(it) for it in told] == [Advertise, PublishMessage, Subscribe]
    assert told[-1].after == (("p", 1),)
    assert not client.told(Parted)
    for message in (receipt("advertise", 1), receipt("subscribe", 1)):
        assert Parted("b") not in client.hear(message, "n")
    assert Parted("b") in client.hear(Accepted(1), "n")
    assert client.handle(PeerDown("b", 1, "moved")) == []
    assert drops(client.hear(delivery(2))) != []


def test_both_brokers_deliver_and_whatever_comes_first_counts() -> None:
    client = subscribed()
    client.hear(delivery(1))
    moved(client)
    assert items(client.hear(delivery(2, 3)), Arrived) == [arrived(2, 3)]
    assert drops(client.hear(delivery(2), "n")) == [REPEATED]
    assert items(client.hear(delivery(3, 4), "n"), Arrived) == [arrived(4)]
    assert drops(client.hear(delivery(3, 4))) == [REPEATED]


def test_what_the_old_broker_gave_up_is_delivered_by_the_next_and_nothing_behind_it_comes_before() -> None:
    client = subscribed(policy="drop oldest")
    client.hear(delivery(1))
    moved(client)
    assert items(client.hear(Missed(1, "p", 2, "queue full"))) == []
    assert drops(client.hear(delivery(4))) == [LEFT]
    assert items(client.hear(delivery(2, 3, 4), "n"), Arrived) == [arrived(2, 3, 4)]


def test_without_a_promise_what_the_old_broker_gave_up_is_told() -> None:
    client = subscribed(guarantee="none")
    client.hear(delivery(1))
    moved(client)
    missed = Missed(1, "p", 2, "queue full")
    assert items(client.hear(missed)) == [missed]


def test_nothing_comes_before_the_receipt_and_that_is_the_next_brokers_to_give() -> None:
    client = subscribed()
    client.handle(OpenSubscription("t", "y > 1"))
    moved(client)
    assert drops(client.hear(receipt("subscribe", 2))) == [LEFT]
    assert drops(client.hear(delivery(1, matched=((2,),)))) == [NOT_CONFIRMED]
    assert items(client.hear(receipt("subscribe", 2), "n"), Confirmed) == [Confirmed("t", receipt("subscribe", 2))]


def test_the_next_broker_alone_says_what_is_accepted() -> None:
    client = advertised()
    client.handle(publish(b"1", b"2"))
    moved(client)
    assert drops(client.hear(Accepted(2))) == [LEFT]
    assert drops(client.hear(Declined((1,), "too fast"))) == [LEFT]
    assert items(client.hear(Accepted(2), "n")) == [Accepted(2)]


def test_receipts_of_what_could_not_be_kept_are_waited_for_and_fail_only_when_the_old_broker_is_gone() -> None:
    client = advertised(window_bytes=4)
    client.handle(publish(b"12345678", ticket="r"))
    client.hear(Accepted(1))
    moved(client)
    assert Parted("b") not in client.hear(receipt("advertise", 1), "n")
    effects = client.hear(receipt("publish", 1))
    assert items(effects) == [Confirmed("r", receipt("publish", 1))]
    assert Parted("b") in effects

    client = advertised(window_bytes=4)
    client.handle(publish(b"12345678", ticket="r"))
    client.hear(Accepted(1))
    moved(client)
    client.hear(receipt("advertise", 1), "n")
    assert items(client.handle(PeerDown("b", 1, "crashed"))) == [Failed("r", RECEIPT_LOST)]


def test_receipts_of_what_the_old_broker_accepted_are_its_to_give_and_the_next_is_asked_when_it_has_gone() -> None:
    client = advertised()
    client.handle(publish(b"1", ticket="r"))
    client.hear(Accepted(1))
    assert not [it for it in moved(client) if isinstance(it, PublishMessage)]
    client.hear(receipt("advertise", 1), "n")
    assert not client.told(Parted)
    refusal = Refusal("publish", 1, "the link was lost", may_retry=True)
    effects = client.hear(refusal)
    assert not items(effects, Failed)
    assert Parted("b") in effects
    (again,) = sent(client.handle(PeerDown("b", 1, "moved")), PublishMessage, to="n")
    assert (again.first, again.receipt) == (1, True)
    assert items(client.hear(receipt("publish", 1), "n")) == [Confirmed("r", receipt("publish", 1))]


def test_a_refusal_of_what_the_next_broker_is_asked_too_counts_for_nothing() -> None:
    client = advertised()
    client.handle(publish(b"1", ticket="r"))
    moved(client)
    assert drops(client.hear(Refusal("publish", 1, "no", may_retry=True))) == [LEFT]
    assert items(client.hear(receipt("publish", 1), "n")) == [Confirmed("r", receipt("publish", 1))]


def test_replies_to_what_was_published_arrive_from_both() -> None:
    client = advertised()
    moved(client)
    reply = Replied("w", "r", b"h", b"")
    assert items(client.hear(reply)) == [reply]
    assert items(client.hear(reply, "n")) == [reply]


def test_we_are_no_namesake_of_ourselves() -> None:
    client = advertised()
    moved(client)
    for broker, sender in (("n", "b"), ("b", "n")):
        assert drops(client.hear(Namesake("ann", broker), sender)) in ([OURSELVES], [LEFT])
    other = Namesake("ann", "c")
    assert items(client.hear(other, "n")) == [other]
    lively = Client(life="k3v9q0ta")
    lively.up()
    moved(lively)
    other = Namesake("ann~other", "b")
    assert items(lively.hear(other, "n")) == [other]


def test_an_old_broker_that_floods_us_is_cut_off() -> None:
    client = subscribed(window=2)
    moved(client)
    for first in (1, 3):
        assert items(client.hear(delivery(first, first + 1)), Arrived) == [arrived(first, first + 1)]
    flood = delivery(5, 6)
    assert client.hear(flood) == [Drop(flood, WINDOW_IGNORED), Disconnect("b", WINDOW_IGNORED)]


def test_the_old_broker_hears_what_has_arrived_so_that_it_can_go_on() -> None:
    client = subscribed(guarantee="none")
    moved(client)
    bulky = delivery(1)
    heavy = type(bulky)(bulky.publisher, 60.0, (1,), (b"h",), (bytes(600_000),), ((1,),))
    told = sent(client.hear(heavy), DeliveriesTaken, to="b")
    assert [it.total_bytes > 600_000 for it in told] == [True]


def test_a_next_broker_that_is_lost_leaves_the_session_as_after_any_break() -> None:
    client = subscribed()
    moved(client)
    client.hear(delivery(1))
    client.handle(PeerDown("b", 1, "gone"))
    client.handle(PeerDown("n", 1, "gone"))
    assert client.machine.departure is None
    (again,) = client.up("c")
    assert again.after == (("p", 1),)


def test_a_timer_of_an_earlier_move_means_nothing() -> None:
    guest = Visitor()
    for key in ("move", "part", "go"):
        assert guest.handle(Fired(key)) == []
