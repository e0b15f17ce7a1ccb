"""The publisher's side of an edge."""

import msgspec
import pytest

from tests.worlds.desk import drops, of, sent
from tests.worlds.edge import EdgeDesk, forwarded, head
from tidings.machine.effects import Deliver, Disconnect, Effect, Load, Save, SetTimer
from tidings.machine.inputs import Loaded, Saved
from tidings.model.bounds import PUBLICATION_BYTES_MAX
from tidings.model.language.parser import parse
from tidings.protocols.delivery.edge.acceptance import NO_ADVERTISEMENT
from tidings.protocols.delivery.edge.edge import CLOSING, NOT_A_CLIENT, Close, EdgeClosed
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.publishers import UNREADABLE
from tidings.protocols.delivery.edge.saves import NOT_SAVED
from tidings.protocols.delivery.messages import (
    ACCEPTED_ELSEWHERE,
    Advertise,
    History,
    PublishMessage,
    Reference,
    Refusal,
    Subscribe,
    Unadvertise,
)
from tidings.pubsub.client import Accepted, Declined, Receipt
from tidings.pubsub.signals import Forward, NeighbourUp, Offer, Unoffer


def publishing(params: EdgeParams | None = None, filter: str = "x >= 0") -> EdgeDesk:
    desk = EdgeDesk(params)
    desk.up("p")
    desk.advertise("p", filter=filter)
    return desk


def reference(advertisement: str, since: float) -> Reference:
    wanted = ((advertisement, None),)
    return Reference("c", 1, 1, "TRUE", wanted, since, False, "", "", 100, 100_000, ("b",))


def test_an_advertisement_is_offered_and_acknowledged_when_the_network_has_it() -> None:
    desk = EdgeDesk()
    desk.up("p")
    (offer,) = of(Offer, desk.say("p", Advertise(1, "x >= 0")))
    assert (offer.advertisement, offer.publisher, offer.filter) == ("p/1@a", "p", parse("x >= 0"))
    desk.now = 3.0
    assert sent(desk.settle(), Receipt) == [Receipt("advertise", 1, ("a", "b"), 2, 3.0, "x >= 0")]
    assert not desk.edge.requests.waiting


def test_what_a_publisher_asks_for_is_told_to_routing() -> None:
    desk = EdgeDesk()
    desk.up("p")
    (offer,) = of(Offer, desk.say("p", Advertise(1, "x >= 0", latency="low")))
    assert offer.latency == "low"
    assert [each.latency for each in of(Offer, desk.edge.start(0.0))] == ["low"], "as after a crash that kept memory"
    desk.up("p")
    (offer,) = of(Offer, desk.say("p", Advertise(1, "x >= 0")))
    assert offer.latency == "any", "what it asks last counts"


def test_a_request_that_the_network_did_not_carry_out_is_refused_and_may_be_repeated() -> None:
    desk = EdgeDesk()
    desk.up("p")
    desk.say("p", Advertise(1, "x >= 0"))
    (refusal,) = sent(desk.settle(problem="b did not answer in time"), Refusal)
    assert refusal.may_retry and "b did not answer in time" in refusal.reason
    (offer,) = of(Offer, desk.say("p", Advertise(1, "x >= 0")))
    assert offer.advertisement == "p/1@a"


def test_publications_are_accepted_forwarded_and_stored_under_the_numbers_of_their_publisher() -> None:
    desk = publishing()
    desk.now = 7.0
    effects = desk.publish("p", 1, 10, 20)
    assert forwarded(effects) == [(1, 2)]
    assert sent(effects, Accepted) == [Accepted(2)]
    (stored,) = desk.edge.publishers.all["p"].history.batches
    assert (stored.publisher, stored.advertisement, stored.accepted_at) == ("p", "p/1@a", 7.0)
    assert stored.heads == (head(10), head(20))


def test_a_repetition_is_acknowledged_and_not_forwarded_again() -> None:
    desk = publishing()
    desk.publish("p", 1, 10, 20)
    effects = desk.publish("p", 1, 10, 20)
    assert forwarded(effects) == []
    assert sent(effects, Accepted) == [Accepted(2)]
    effects = desk.publish("p", 2, 20, 30)
    assert forwarded(effects) == [(3,)]
    assert sent(effects, Accepted) == [Accepted(3)]


def test_a_repetition_for_which_a_receipt_is_wanted_goes_out_once_more() -> None:
    desk = publishing()
    desk.publish("p", 1, 10)
    (forward,) = of(Forward, desk.publish("p", 1, 10, receipt=True))
    assert forward.ticket is not None
    assert sent(desk.settle(), Receipt)[0].number == 1


@pytest.mark.spec("S-115")
def test_the_receipt_of_a_publication_waits_for_the_brokers_of_all_who_want_it() -> None:
    desk = publishing()
    effects = desk.publish("p", 1, 10, 20, receipt=True)
    assert sent(effects, Receipt) == []
    desk.now = 4.0
    assert sent(desk.settle(), Receipt) == [Receipt("publish", 2, ("a", "b"), 2, 4.0, "")]


def test_times_of_acceptance_ascend_for_each_publisher_whatever_the_clock_does() -> None:
    desk = publishing(EdgeParams(clock_offset=1000.0))
    desk.now = 5.0
    times = [of(Forward, desk.publish("p", number, 1))[0].batch.accepted_at for number in (1, 2)]
    desk.now = 4.0
    times.append(of(Forward, desk.publish("p", 3, 1))[0].batch.accepted_at)
    assert times[0] == 1005.0
    assert times == sorted(set(times))
    assert times[2] - times[0] == pytest.approx(2e-6)


@pytest.mark.spec("S-116")
def test_a_publication_after_unadvertising_is_declined_at_once() -> None:
    desk = publishing()
    effects = desk.say("p", Unadvertise(1))
    assert [unoffer.advertisement for unoffer in of(Unoffer, effects)] == ["p/1@a"]
    effects = desk.publish("p", 1, 10)
    assert forwarded(effects) == []
    assert sent(effects, Declined) == [Declined((1,), NO_ADVERTISEMENT)]
    assert sent(effects, Accepted) == [Accepted(1)]
    assert sent(desk.settle(), Receipt)[0].kind == "unadvertise"


def answered(desk: EdgeDesk, *advertisements: str) -> list[int]:
    """What another broker gets that asks for what is stored under these."""
    wanted = tuple((each, None) for each in advertisements)
    question = Reference("c", 1, 1, "x >= 0", wanted, 0.0, False, "", "", 100, 10_000, ("z",))
    histories = sent(desk.say("z", question), History)
    assert not any(each.problem for each in histories), histories
    return [number for each in histories for number in each.numbers]


def test_what_was_accepted_under_an_advertisement_is_there_though_it_is_withdrawn() -> None:
    desk = publishing(EdgeParams(history_age=10.0, marks_age=0.0))
    desk.neighbours("z")
    desk.publish("p", 1, 10, 20)
    effects = desk.say("p", Unadvertise(1))
    assert of(Unoffer, effects) == []
    assert sent(effects, Receipt)[0].kind == "unadvertise"
    assert answered(desk, "p/1@a") == [1, 2]
    assert sent(desk.publish("p", 3, 30), Declined) == [Declined((3,), NO_ADVERTISEMENT)]
    assert of(Unoffer, desk.fire("sweep", 9.0)) == []
    assert [each.advertisement for each in of(Unoffer, desk.fire("sweep", 11.0))] == ["p/1@a"]


@pytest.mark.parametrize("is_late", [False, True])
def test_whoever_asks_for_what_is_forgotten_of_a_withdrawn_advertisement_is_told(is_late: bool) -> None:
    desk = publishing(EdgeParams(history_age=10.0, marks_age=50.0))
    desk.neighbours("z")
    desk.publish("p", 1, 10, 20)
    if is_late:
        desk.fire("sweep", 11.0)
    effects = desk.say("p", Unadvertise(1))
    assert of(Unoffer, effects) == [] and sent(effects, Receipt)
    assert of(Unoffer, desk.fire("sweep", 40.0)) == []
    question = Reference("c", 1, 1, "x >= 0", (("p/1@a", None),), 0.0, False, "", "", 100, 10_000, ("z",))
    (history,) = sent(desk.say("z", question), History)
    assert history.is_truncated and history.missing == 2
    assert [each.advertisement for each in of(Unoffer, desk.fire("sweep", 61.0))] == ["p/1@a"]


def test_what_is_kept_of_withdrawn_advertisements_for_their_marks_makes_room_for_new_ones() -> None:
    desk = EdgeDesk(EdgeParams(advertisements_max=2, history_age=10.0))
    desk.up("p")
    for number in (1, 2):
        desk.advertise("p", number)
        desk.publish("p", number, 10, advertisement=number)
        desk.say("p", Unadvertise(number))
    desk.fire("sweep", 11.0)
    assert list(desk.edge.publishers.offered) == ["p/1@a", "p/2@a"]
    effects = desk.say("p", Advertise(3, "x >= 0"))
    assert [each.advertisement for each in of(Unoffer, effects)] == ["p/1@a"]
    assert list(desk.edge.publishers.offered) == ["p/2@a", "p/3@a"]


def test_who_advertises_again_after_a_refusal_does_not_hide_what_it_published_elsewhere() -> None:
    desk = EdgeDesk()
    desk.neighbours("z")
    desk.up("p")
    (first,) = of(Offer, desk.say("p", Advertise(1, "x >= 0", elsewhere=2)))
    (again,) = of(Offer, desk.say("p", Advertise(1, "x >= 0", elsewhere=2)))
    assert again.advertisement == first.advertisement
    wanted = ((again.advertisement, None),)
    question = Reference("c", 1, 1, "x >= 0", wanted, None, False, "", "", 100, 10_000, ("z",))
    (history,) = sent(desk.say("z", question), History)
    assert history.is_truncated and history.missing == 2 and history.lacking == ((0, 2),)


def test_what_was_withdrawn_and_is_advertised_again_after_a_break_goes_on_as_before() -> None:
    desk = publishing()
    desk.neighbours("z")
    desk.publish("p", 1, 10)
    desk.say("p", Unadvertise(1))
    desk.down("p")
    desk.up("p")
    desk.say("p", Advertise(1, "x >= 0"))
    desk.publish("p", 1, 10, 20)
    desk.say("p", Unadvertise(1))
    assert list(desk.edge.publishers.offered) == ["p/1@a"]
    assert answered(desk, "p/1@a") == [1, 2]


def test_a_number_that_stands_for_another_filter_leaves_what_was_published_before_in_reach() -> None:
    desk = publishing()
    desk.neighbours("z")
    desk.publish("p", 1, 10)
    desk.down("p")
    desk.up("p")
    (offer,) = of(Offer, desk.say("p", Advertise(1, "x >= 0 AND x < 5")))
    assert offer.advertisement == "p/1.1@a"
    desk.publish("p", 2, 3)
    assert answered(desk, "p/1@a", "p/1.1@a") == [1, 2]


def test_withdrawn_advertisements_whose_publications_are_stored_count_as_those_that_are_open() -> None:
    desk = EdgeDesk(EdgeParams(advertisements_max=2))
    desk.up("p")
    for number in (1, 2):
        desk.advertise("p", number)
        desk.publish("p", number, 10, advertisement=number)
        desk.say("p", Unadvertise(number))
    (refusal,) = sent(desk.say("p", Advertise(3, "x >= 0")), Refusal)
    assert "at most 2" in refusal.reason and "still stored" in refusal.reason
    assert of(Offer, desk.say("p", Advertise(2, "x >= 0")))


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_publication_is_judged_by_the_bound_of_who_sends_it_now(is_durable: bool) -> None:
    desk, disk = EdgeDesk(EdgeParams(is_durable=is_durable)), dict[str, bytes]()
    if is_durable:
        desk.handle(Loaded(""))
    desk.up("p")
    disk_after(desk.say("p", Advertise(1, "x >= 0")), disk)
    disk_after(desk.publish("p", 1, 50), disk)
    if is_durable:
        desk = EdgeDesk(EdgeParams(is_durable=True))
        desk.handle(Loaded("", tuple(sorted(disk.items()))))
    else:
        desk.down("p")
    desk.up("p", publish_bound=parse("x < 10"))
    effects = desk.publish("p", 2, 50)
    assert forwarded(effects) == []
    assert sent(effects, Declined) == [Declined((2,), NO_ADVERTISEMENT)]
    desk.say("p", Advertise(1, "x >= 0"))
    effects = desk.publish("p", 3, 50, 5)
    assert forwarded(effects) == [(4,)]
    assert sent(effects, Declined)[0].numbers == (3,)
    assert sent(desk.publish("p", 5, 50, advertisement=2), Declined)


def test_withdrawing_what_is_not_there_is_done_already() -> None:
    desk = EdgeDesk()
    desk.up("p")
    assert sent(desk.say("p", Unadvertise(4)), Receipt)[0].number == 4


def test_who_did_not_advertise_is_told_so() -> None:
    desk = EdgeDesk()
    desk.up("p")
    effects = desk.publish("p", 1, 10, receipt=True)
    assert sent(effects, Declined) == [Declined((1,), NO_ADVERTISEMENT)]
    assert sent(effects, Refusal) == [Refusal("publish", 1, NO_ADVERTISEMENT, False)]


def test_a_publication_outside_its_advertisement_is_declined_and_the_others_go() -> None:
    desk = publishing(filter="x < 10")
    effects = desk.publish("p", 1, 5, 50, 6)
    (declined,) = sent(effects, Declined)
    assert declined.numbers == (2,)
    assert "x < 10" in declined.reason
    assert forwarded(effects) == [(1, 3)]
    assert sent(effects, Accepted) == [Accepted(3)]


def test_a_repetition_of_what_was_never_accepted_is_refused_and_gets_no_time() -> None:
    desk = publishing(filter="x < 10")
    desk.say("p", PublishMessage(7, 1, False, (head(1), head(2)), (b"", b"")))
    effects = desk.say("p", PublishMessage(1, 1, True, (head(1),), (b"",)))
    assert forwarded(effects) == [] and sent(effects, Refusal)[0].number == 1


def test_what_another_broker_accepted_is_not_called_declined_where_a_receipt_is_asked_for_here() -> None:
    desk = EdgeDesk()
    desk.up("p")
    desk.say("p", Advertise(1, "x >= 0", elsewhere=2))
    desk.settle()
    effects = desk.say("p", PublishMessage(1, 1, True, (head(1), head(2)), (b"", b"")))
    assert sent(effects, Refusal) == [Refusal("publish", 2, ACCEPTED_ELSEWHERE, may_retry=False)]
    assert not sent(effects, Declined) and forwarded(effects) == []


def test_an_advertisement_is_narrowed_to_what_the_client_may_publish() -> None:
    desk = EdgeDesk()
    desk.up("p", publish_bound=parse("x < 10"))
    desk.say("p", Advertise(1, "x >= 0"))
    (receipt,) = sent(desk.settle(), Receipt)
    assert parse(receipt.filter) == parse("x >= 0 AND x < 10")
    effects = desk.publish("p", 1, 5, 50)
    assert forwarded(effects) == [(1,)]
    assert sent(effects, Declined)[0].numbers == (2,)


@pytest.mark.parametrize("filter", ["x > 20", "y ="])
def test_an_advertisement_that_cannot_be_is_refused_with_the_reason(filter: str) -> None:
    desk = EdgeDesk()
    desk.up("p", publish_bound=parse("x < 10"))
    (refusal,) = sent(desk.say("p", Advertise(1, filter)), Refusal)
    assert not refusal.may_retry
    assert "x < 10" in refusal.reason or "filter is wrong" in refusal.reason


def test_a_head_that_is_no_event_is_declined() -> None:
    desk = publishing()
    effects = desk.say("p", PublishMessage(1, 1, False, (b"\x01",), (b"",)))
    assert sent(effects, Declined)[0].numbers == (1,)
    assert forwarded(effects) == []


def test_heads_that_passed_are_remembered_up_to_a_bound() -> None:
    desk = publishing(EdgeParams(heads_max=2))
    within = desk.edge.publishers.offered["p/1@a"].within
    desk.publish("p", 1, 1, 1, 2)
    assert within == {head(1), head(2)}
    desk.publish("p", 4, 3)
    assert within == {head(3)}


def test_a_frame_that_holds_more_than_a_batch_becomes_several() -> None:
    desk = publishing()
    large, small = b"y" * (PUBLICATION_BYTES_MAX // 2), b"z" * 40_000
    effects = desk.say("p", PublishMessage(1, 1, True, (head(1),) * 3, (large, large, small)))
    assert forwarded(effects) == [(1,), (2, 3)]
    assert [forward.ticket is None for forward in of(Forward, effects)] == [True, False]


def test_a_publication_that_is_too_large_is_declined() -> None:
    desk = publishing()
    payload = b"y" * PUBLICATION_BYTES_MAX
    effects = desk.say("p", PublishMessage(1, 1, False, (head(1), head(2)), (payload, b"")))
    assert sent(effects, Declined)[0].numbers == (1,)
    assert forwarded(effects) == [(2,)]
    effects = desk.say("p", PublishMessage(1, 3, True, (head(1),), (payload,)))
    assert sent(effects, Refusal)[0].number == 3


def test_more_advertisements_than_allowed_are_refused() -> None:
    desk = EdgeDesk(EdgeParams(advertisements_max=1))
    desk.up("p")
    desk.say("p", Advertise(1, "x >= 0"))
    assert "at most 1" in sent(desk.say("p", Advertise(2, "x >= 0")), Refusal)[0].reason
    assert of(Offer, desk.say("p", Advertise(1, "x >= 0")))


def test_a_number_of_an_earlier_life_of_the_client_may_stand_for_another_filter() -> None:
    desk = publishing()
    desk.down("p")
    desk.up("p")
    effects = desk.say("p", Advertise(1, "x < 5"))
    assert [type(effect) for effect in effects if isinstance(effect, Unoffer | Offer)] == [Unoffer, Offer]


def test_a_publisher_that_left_is_forgotten_with_its_history() -> None:
    desk = publishing(EdgeParams(history_age=10.0, marks_age=0.0))
    desk.publish("p", 1, 10)
    desk.down("p")
    assert of(Unoffer, desk.fire("sweep", 5.0)) == []
    assert [each.advertisement for each in of(Unoffer, desk.fire("sweep", 10.0))] == ["p/1@a"]
    assert desk.edge.publishers.all == {}
    assert SetTimer("sweep", 15.0) not in desk.effects


def test_a_publisher_that_left_is_remembered_for_those_who_ask_for_its_history() -> None:
    desk = publishing(EdgeParams(history_age=10.0, marks_age=100.0))
    desk.publish("p", 1, 10, 20, 30)
    desk.down("p")
    desk.neighbours("b")
    assert of(Unoffer, desk.fire("sweep", 50.0)) == []
    (history,) = sent(desk.say("b", reference("p/1@a", since=-5.0)), History)
    assert (history.numbers, history.is_truncated, history.missing, history.is_counted) == ((), True, 3, True)
    assert [each.advertisement for each in of(Unoffer, desk.fire("sweep", 110.0))] == ["p/1@a"]


def test_what_was_declined_is_not_counted_exactly_among_what_is_forgotten() -> None:
    """It used up a number; how many of them there were is not remembered."""
    desk = publishing(EdgeParams(history_age=10.0, marks_age=100.0))
    desk.publish("p", 1, 10, -1, 30)
    desk.down("p")
    desk.neighbours("b")
    desk.fire("sweep", 50.0)
    (history,) = sent(desk.say("b", reference("p/1@a", since=-5.0)), History)
    assert (history.is_truncated, history.missing, history.is_counted) == (True, 3, False)


def test_a_publisher_that_is_remembered_takes_no_place_of_others_and_comes_back() -> None:
    desk = publishing(EdgeParams(history_age=10.0, publishers_max=1))
    desk.publish("p", 1, 10)
    desk.down("p")
    desk.fire("sweep", 50.0)
    desk.up("q")
    assert not sent(desk.say("q", Advertise(1, "x >= 0")), Refusal)
    desk.down("q")
    desk.fire("sweep", 70.0)
    desk.up("p")
    assert not sent(desk.say("p", Advertise(1, "x >= 0")), Refusal)
    assert sent(desk.publish("p", 1, 10, 20), Accepted) == [Accepted(2)]
    assert desk.edge.publishers.remembered == 0


def test_no_more_publishers_are_remembered_than_allowed_and_those_that_left_first_go_first() -> None:
    desk = EdgeDesk(EdgeParams(history_age=10.0, marks_max=2))
    for place, name in enumerate(("p", "q", "r")):
        desk.now = float(place)
        desk.up(name)
        desk.advertise(name)
        desk.publish(name, 1, 1)
        desk.down(name)
    desk.fire("sweep", 50.0)
    assert list(desk.edge.publishers.all) == ["q", "r"]


def test_without_history_a_publisher_that_leaves_is_forgotten_at_once() -> None:
    desk = publishing(EdgeParams(history_age=0.0))
    desk.publish("p", 1, 10)
    assert of(Unoffer, desk.down("p")) != []
    assert desk.edge.publishers.all == {}


def test_strangers_are_not_served() -> None:
    desk = EdgeDesk()
    for message in (PublishMessage(1, 1, False, (head(1),), (b"",)), Advertise(1, "x >= 0")):
        assert drops(desk.say("nobody", message)) == [NOT_A_CLIENT]


def test_numbers_that_do_not_exist_are_dropped() -> None:
    desk = publishing()
    assert drops(desk.say("p", PublishMessage(1, 2**63 - 1, False, (head(1), head(1)), (b"", b"")))) != []
    assert drops(desk.say("p", PublishMessage(1, 5, False, (), ()))) != []


def test_it_is_known_with_which_number_an_advertisement_began() -> None:
    desk = publishing()
    desk.publish("p", 1, 10, 20)
    desk.advertise("p", 2, "y > 0")
    desk.publish("p", 3, 30)
    desk.say("p", Advertise(2, "y > 0"))
    desk.up("q")
    desk.say("q", Advertise(1, "x >= 0", first=700))
    began = {id: each.began for id, each in desk.edge.publishers.offered.items()}
    assert began == {"p/1@a": 1, "p/2@a": 3, "q/1@a": 700}


# Durable.


def durable() -> EdgeDesk:
    desk = EdgeDesk(EdgeParams(is_durable=True))
    assert desk.effects == [Load("")]
    desk.handle(Loaded(""))
    desk.up("p")
    return desk


def disk_after(effects: list[Effect], entries: dict[str, bytes]) -> None:
    for effect in effects:
        if isinstance(effect, Save):
            if effect.data is None:
                entries.pop(effect.name, None)
            else:
                entries[effect.name] = effect.data


def test_a_durable_edge_accepts_when_it_is_on_disk_and_forwards_at_once() -> None:
    desk = durable()
    desk.advertise("p")
    effects = desk.publish("p", 1, 10)
    assert forwarded(effects) == [(1,)]
    assert sent(effects, Accepted) == []
    (save,) = of(Save, effects)
    assert sent(desk.handle(Saved(save.name)), Accepted) == [Accepted(1)]


def test_what_could_not_be_saved_is_saved_again_and_accepted_only_then() -> None:
    desk = durable()
    desk.advertise("p")
    (first,) = of(Save, desk.publish("p", 1, 10))
    (second,) = of(Save, desk.publish("p", 2, 10))
    effects = desk.handle(Saved(first.name, "disk full"))
    assert drops(effects) == [NOT_SAVED]
    (timer,) = of(SetTimer, effects)
    assert sent(desk.handle(Saved(second.name)), Accepted) == []
    assert of(Save, desk.fire(timer.key, timer.at)) == [first]
    assert sent(desk.handle(Saved(first.name)), Accepted) == [Accepted(2)]


def test_behind_what_could_not_be_saved_nothing_is_saved_before_it() -> None:
    """`tidings chaos --seed 1006`: a disk was full, took small batches, and the broker crashed. What it had not taken
    was declined when it was repeated, as if it had been before."""
    desk = durable()
    desk.advertise("p")
    (first,) = of(Save, desk.publish("p", 1, 10))
    effects = desk.handle(Saved(first.name, "disk full"))
    (timer,) = of(SetTimer, effects)
    assert of(Save, desk.publish("p", 2, 10)) == [] == of(Save, desk.publish("p", 3, 10))
    again = of(Save, desk.fire(timer.key, timer.at))
    assert again[0] == first and [save.name[-1] for save in again] == ["1", "2", "3"]
    assert len(of(SetTimer, desk.handle(Saved(first.name, "disk full")))) == 1
    for save in again[1:]:
        assert of(SetTimer, desk.handle(Saved(save.name, "what stands before it"))) == [], "one timer is enough"
    for save in of(Save, desk.fire(timer.key, timer.at)):
        effects = desk.handle(Saved(save.name))
    assert sent(effects, Accepted) == [Accepted(3)]


def test_where_a_group_begins_is_saved_again_and_not_forgotten_when_the_disk_was_full() -> None:
    """The same seed: it was removed instead."""
    desk = durable()
    desk.advertise("p")
    asked = Reference("c", 1, 1, "x >= 0", (("p/1@a", None),), 0.0, False, "twins", "", 10, 1000, ("n",))
    desk.handle(NeighbourUp("n", 1))
    (save,) = [save for save in of(Save, desk.say("n", asked)) if save.name.startswith("group/")]
    (timer,) = of(SetTimer, desk.handle(Saved(save.name, "disk full")))
    assert of(Save, desk.fire(timer.key, timer.at)) == [save]


def test_after_a_restart_the_history_is_there_again_and_repetitions_are_recognised() -> None:
    desk, disk = durable(), dict[str, bytes]()
    disk_after(desk.say("p", Advertise(1, "x >= 0")), disk)
    desk.now = 1.0
    disk_after(desk.publish("p", 1, 10, 20), disk)
    desk.now = 2.0
    disk_after(desk.publish("p", 3, 30), disk)
    again = EdgeDesk(EdgeParams(is_durable=True))
    again.now = 5.0
    again.up("p")
    assert again.effects == []
    effects = again.handle(Loaded("", tuple(sorted(disk.items()))))
    assert [offer.advertisement for offer in of(Offer, effects)] == ["p/1@a"]
    assert again.edge.publishers.offered["p/1@a"].began == 1
    assert [batch.numbers for batch in again.edge.publishers.all["p"].history.batches] == [(1, 2), (3,)]
    again.say("p", Advertise(1, "x >= 0"))
    effects = again.publish("p", 3, 30, 40)
    assert forwarded(effects) == [(4,)]


def test_after_a_restart_a_withdrawn_advertisement_still_shows_the_way_and_takes_nothing() -> None:
    desk, disk = durable(), dict[str, bytes]()
    for effects in (desk.say("p", Advertise(1, "x >= 0")), desk.publish("p", 1, 10), desk.say("p", Unadvertise(1))):
        disk_after(effects, disk)
    again = EdgeDesk(EdgeParams(is_durable=True))
    again.neighbours("z")
    effects = again.handle(Loaded("", tuple(sorted(disk.items()))))
    assert [offer.advertisement for offer in of(Offer, effects)] == ["p/1@a"]
    assert answered(again, "p/1@a") == [1]
    again.up("p")
    assert sent(again.publish("p", 2, 10), Declined)


def test_what_was_forgotten_before_a_restart_is_still_known_to_be_missing() -> None:
    desk, disk = EdgeDesk(EdgeParams(is_durable=True, history_count_max=1)), dict[str, bytes]()
    desk.handle(Loaded(""))
    desk.up("p")
    disk_after(desk.say("p", Advertise(1, "x >= 0")), disk)
    for number in (1, 2, 3):
        disk_after(desk.publish("p", number, 10), disk)
    assert len([name for name in disk if name.startswith("publication/")]) == 1
    again = EdgeDesk(EdgeParams(is_durable=True, history_count_max=1))
    again.handle(Loaded("", tuple(sorted(disk.items()))))
    history = again.edge.publishers.all["p"].history
    assert history.lacks_behind(1)
    assert not history.lacks_behind(2)


def test_what_cannot_be_read_any_more_is_dropped_and_the_rest_is_used() -> None:
    desk = EdgeDesk(EdgeParams(is_durable=True))
    effects = desk.handle(
        Loaded(
            "",
            (
                ("advertisement/p/1@a", msgspec.msgpack.encode(("p", 1, "x >= 0"))),
                ("advertisement/q/1@a", msgspec.msgpack.encode(("q", 1, "x ="))),
                ("publication/p/1", b"nonsense"),
            ),
        )
    )
    assert drops(effects) == [UNREADABLE, UNREADABLE]
    assert [offer.advertisement for offer in of(Offer, effects)] == ["p/1@a"]


def test_too_much_while_the_store_is_read_is_turned_away() -> None:
    desk = EdgeDesk(EdgeParams(is_durable=True, deferred_max=2))
    desk.up("p")
    desk.say("p", Advertise(1, "x >= 0"))
    effects = desk.say("p", Advertise(2, "x >= 0"))
    assert [effect.neighbour for effect in of(Disconnect, effects)] == ["p"]


# Shutting down.


@pytest.mark.spec("S-121")
def test_a_closing_edge_waits_for_what_was_begun_and_refuses_what_is_new() -> None:
    desk = publishing()
    desk.publish("p", 1, 10, receipt=True)
    assert desk.handle(Close()) == []
    assert [effect.reason for effect in of(Disconnect, desk.up("q"))] == [CLOSING]
    assert drops(desk.publish("p", 2, 20)) == [CLOSING]
    request = Subscribe(1, "x >= 0", "installed", None, (), False, "", "wait", 10, 10)
    assert sent(desk.say("p", request), Refusal)[0].may_retry
    effects = desk.settle()
    assert sent(effects, Receipt)[0].kind == "publish"
    assert of(Deliver, effects) == [Deliver(EdgeClosed())]
    assert of(Deliver, desk.down("p")) == []


@pytest.mark.spec("S-121")
def test_a_closing_edge_waits_for_its_disk() -> None:
    desk = durable()
    desk.advertise("p")
    (save,) = of(Save, desk.publish("p", 1, 10))
    assert of(Deliver, desk.handle(Close())) == []
    assert of(Deliver, desk.handle(Saved(save.name))) == [Deliver(EdgeClosed())]


def test_an_edge_with_nothing_to_wait_for_closes_at_once() -> None:
    assert EdgeDesk().handle(Close()) == [Deliver(EdgeClosed())]


def test_what_was_declined_is_declined_again_when_it_is_repeated() -> None:
    """The word may have been lost with the link; what was accepted stays accepted."""
    desk = publishing()
    desk.publish("p", 1, 10, -1, 20)
    desk.down("p")
    desk.up("p")
    desk.say("p", Advertise(1, "x >= 0"))
    effects = desk.publish("p", 1, 10, -1, 20, -2)
    assert [each.numbers for each in sent(effects, Declined)] == [(2,), (4,)]
    assert sent(effects, Accepted) == [Accepted(4)]


def test_accepted_names_nothing_whose_decline_may_be_lost_with_an_earlier_connection() -> None:
    desk = publishing()
    desk.publish("p", 1, 10)
    desk.publish("p", 2, -1)
    desk.down("p")
    desk.up("p")
    desk.say("p", Advertise(1, "x >= 0"))
    assert sent(desk.publish("p", 1, 10), Accepted) == [Accepted(1)]
    again = desk.publish("p", 2, -1)
    assert [each.numbers for each in sent(again, Declined)] == [(2,)]
    assert sent(again, Accepted) == [Accepted(2)]


def test_a_save_tells_of_nothing_whose_decline_may_be_lost_with_an_earlier_connection() -> None:
    desk = durable()
    desk.advertise("p")
    (save,) = of(Save, desk.publish("p", 1, 10))
    desk.publish("p", 2, -1)
    desk.down("p")
    desk.up("p")
    desk.say("p", Advertise(1, "x >= 0"))
    assert sent(desk.publish("p", 1, 10), Accepted) == []
    assert sent(desk.handle(Saved(save.name)), Accepted) == [Accepted(1)]


def test_what_was_declined_is_declined_again_though_history_has_forgotten_it() -> None:
    desk = EdgeDesk(EdgeParams(history_count_max=1))
    desk.up("p")
    desk.advertise("p")
    desk.publish("p", 1, 10, -1, 20)
    desk.publish("p", 4, 30)
    desk.down("p")
    desk.up("p")
    desk.say("p", Advertise(1, "x >= 0"))
    effects = desk.publish("p", 1, 10, -1, 20, 30)
    assert [each.numbers for each in sent(effects, Declined)] == [(2,)]
    assert sent(effects, Accepted) == [Accepted(4)]


def test_an_advertisement_that_could_not_be_saved_is_saved_again_and_its_publications_wait_for_it() -> None:
    desk, name = durable(), "advertisement/p/1@a"
    desk.advertise("p")
    assert of(SetTimer, desk.handle(Saved(name, "disk full")))[0].key == ("save", name)
    (batch,) = of(Save, desk.publish("p", 1, 10))
    waiting = desk.handle(Saved(batch.name))
    assert sent(waiting, Accepted) == []
    (save,) = of(Save, desk.fire(("save", name), 1.0))
    assert save.name == name and save.data is not None
    desk.handle(Saved(name))
    assert of(SetTimer, waiting)[0].key == ("save", batch.name)
    assert of(Save, desk.fire(("save", batch.name), 1.0)) == [batch]
    assert sent(desk.handle(Saved(batch.name)), Accepted) == [Accepted(1)]


def test_what_is_no_more_is_removed_again_where_that_failed() -> None:
    desk, name = durable(), "advertisement/p/1@a"
    desk.advertise("p")
    desk.say("p", Unadvertise(1))
    desk.handle(Saved(name, "disk full"))
    assert of(Save, desk.fire(("save", name), 1.0)) == [Save(name, None)]


# A store that was salvaged.


def salvaged(*lost: str) -> EdgeDesk:
    """p published 1 to 6 before a restart; the entries whose names begin so were damaged."""
    desk, disk = durable(), dict[str, bytes]()
    disk_after(desk.say("p", Advertise(1, "x >= 0")), disk)
    for first in (1, 3, 5):
        desk.now = float(first)
        disk_after(desk.publish("p", first, first, first + 1), disk)
    gone = [name for name in disk if name.startswith(lost)] if lost else []
    entries = {name: data for name, data in disk.items() if name not in gone}
    entries |= {f"lost/{name}": b"" for name in gone} | {name: b"" for name in lost if name.startswith("lost/")}
    again = EdgeDesk(EdgeParams(is_durable=True))
    again.now = 7.0
    again.handle(Loaded("", tuple(sorted(entries.items()))))
    again.neighbours("b")
    return again


@pytest.mark.parametrize(
    ("lost", "numbers", "missing"),
    [
        (("publication/p/0000000000000000003",), (1, 2, 5, 6), 2),
        (("publication/p/0000000000000000005",), (1, 2, 3, 4), 2),
        (("publication/",), (), 6),
        (("advertisement/",), (1, 2, 3, 4, 5, 6), 0),
        (("publication/p/0000000000000000001", "advertisement/"), (3, 4, 5, 6), 2),
    ],
)
def test_what_a_salvaged_store_lacks_is_told_with_a_count(
    lost: tuple[str, ...], numbers: tuple[int, ...], missing: int
) -> None:
    desk = salvaged(*lost)
    (history,) = sent(desk.say("b", reference("p/1@a", since=-5.0)), History)
    assert (history.numbers, history.missing, history.is_truncated) == (numbers, missing, missing > 0)
    desk.fire("sweep", 12.0)
    (history,) = sent(desk.say("b", reference("p/1@a", since=-5.0)), History)
    assert history.missing == missing, "also later"
    desk.up("p")
    desk.advertise("p")
    assert sent(desk.publish("p", 7, 7), Refusal) == []
    desk.edge.check()


def test_where_names_are_lost_too_whatever_reaches_back_may_lack_something() -> None:
    desk = salvaged("lost/unknown")
    (history,) = sent(desk.say("b", reference("p/1@a", since=-5.0)), History)
    assert (history.numbers, history.is_truncated, history.missing) == ((1, 2, 3, 4, 5, 6), True, 0)
    (history,) = sent(desk.say("b", reference("p/1@a", since=8.0)), History)
    assert not history.is_truncated


def test_whoever_asks_when_a_publisher_that_moved_advertises_here_hears_that_something_is_elsewhere() -> None:
    desk = EdgeDesk()
    desk.up("p")
    desk.say("p", Advertise(1, "x >= 0", elsewhere=4))
    publisher = desk.edge.publishers.all["p"]
    assert (publisher.through, publisher.history.lacks_behind(3)) == (4, 1)
    assert publisher.history.lacking() == [(0, 4)]
    desk.publish("p", 5, 1)
    assert publisher.history.held(5) == [(4, 5)]
    desk.say("p", Advertise(2, "x >= 1", elsewhere=4))
    assert publisher.through == 5, "it is known already"


def test_a_publisher_that_comes_back_from_elsewhere_advertises_anew_so_that_readers_ask() -> None:
    desk = publishing()
    (first,) = {each.id for each in desk.edge.publishers.all["p"].advertisements.values()}
    desk.publish("p", 1, 1)
    desk.down("p")
    desk.up("p")
    (same,) = of(Offer, desk.say("p", Advertise(1, "x >= 0")))
    assert same.advertisement == first
    desk.down("p")
    desk.up("p")
    (anew,) = of(Offer, desk.say("p", Advertise(1, "x >= 0", elsewhere=3)))
    assert anew.advertisement != first and {first, anew.advertisement} == desk.edge.publishers.offered.keys()
    (again,) = of(Offer, desk.say("p", Advertise(1, "x >= 0", elsewhere=3)))
    assert again.advertisement == anew.advertisement
    (forward,) = of(Forward, desk.publish("p", 4, 4))
    assert forward.batch.advertisement == anew.advertisement
