"""Replies at an edge: to a publisher here, on their way, and what becomes of them."""

import pytest

from tests.worlds.desk import drops, sent
from tests.worlds.edge import EdgeDesk
from tidings.machine.effects import Effect
from tidings.model.bounds import PUBLICATION_BYTES_MAX
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.references import NOT_A_NEIGHBOUR, WRONG_PATH
from tidings.protocols.delivery.edge.replies import GONE, OLD_ANSWER, TOO_SLOW, UNKNOWN, UNSETTLED
from tidings.protocols.delivery.messages import Refusal, ReplyFar, ReplyMessage, ReplySettledFar
from tidings.pubsub.client import Receipt, Replied
from tidings.pubsub.publications import encode_head

HEAD = encode_head({})


def reply(number: int = 1, publisher: str = "p", payload: bytes = b"yes", head: bytes = HEAD) -> ReplyMessage:
    return ReplyMessage(number, publisher, "word", f"reply {number}", head, payload)


def far(*path: str, advertisement: str = "p/1@a", payload: bytes = b"yes") -> ReplyFar:
    return ReplyFar(7, advertisement, "word", "reply 1", HEAD, payload, path)


def receipts(effects: list[Effect]) -> list[int]:
    return [receipt.number for receipt in sent(effects, Receipt) if receipt.kind == "reply"]


def refusals(effects: list[Effect]) -> list[tuple[str, bool]]:
    return [(refusal.reason, refusal.may_retry) for refusal in sent(effects, Refusal) if refusal.kind == "reply"]


def desk_with_publisher(params: EdgeParams | None = None) -> EdgeDesk:
    desk = EdgeDesk(params)
    desk.neighbours("b", "d")
    desk.up("p", "c")
    desk.advertise("p")
    return desk


def test_a_publisher_at_the_same_broker_gets_the_reply_and_the_replier_a_receipt() -> None:
    effects = desk_with_publisher().say("c", reply())
    assert sent(effects, Replied) == [Replied("word", "reply 1", HEAD, b"yes")]
    assert receipts(effects) == [1]


def test_a_reply_takes_the_way_of_the_advertisement_and_its_fate_comes_back() -> None:
    replier, middle, publisher = EdgeDesk(name="c"), EdgeDesk(name="b"), desk_with_publisher()
    replier.neighbours("b")
    replier.up("r")
    replier.know("p/1@a")
    middle.neighbours("a", "c")
    middle.know("p/1@a", hop="a")
    (there,) = sent(replier.say("r", reply()), ReplyFar)
    (there,) = sent(middle.say("c", there), ReplyFar)
    assert there.path == ("c", "b")
    effects = publisher.say("b", there)
    assert sent(effects, Replied) == [Replied("word", "reply 1", HEAD, b"yes")]
    (back,) = sent(effects, ReplySettledFar)
    (back,) = sent(middle.say("a", back), ReplySettledFar)
    assert receipts(replier.say("b", back)) == [1]
    assert drops(replier.say("b", back)) == [OLD_ANSWER]


def test_nobody_of_this_name_is_known() -> None:
    desk = desk_with_publisher()
    assert refusals(desk.say("c", reply(publisher="q"))) == [(UNKNOWN, False)]


def test_a_publisher_that_has_left_is_not_replied_to_and_the_replier_hears_it() -> None:
    desk = desk_with_publisher()
    desk.down("p")
    assert refusals(desk.say("c", reply())) == [(GONE, True)]
    (back,) = sent(desk.say("b", far("c", "b")), ReplySettledFar)
    assert back.problem == GONE and back.path == ("c",)


def test_of_a_publisher_that_moved_all_brokers_are_tried_and_one_success_is_enough() -> None:
    desk = desk_with_publisher()
    desk.know("q/1@x", hop="b")
    desk.know("q/1@y", hop="d")
    effects = desk.say("c", reply(publisher="q"))
    first, second = sent(effects, ReplyFar)
    settled = ReplySettledFar(first.replying, first.advertisement, GONE, ())
    assert not receipts(desk.say("b", settled)) and not refusals(desk.effects)
    assert receipts(desk.say("d", ReplySettledFar(second.replying, second.advertisement, "", ()))) == [1]


def test_a_publisher_that_has_moved_while_it_was_replied_to_is_found_at_its_new_broker() -> None:
    desk = desk_with_publisher()
    desk.know("q/1@x", hop="b")
    (there,) = sent(desk.say("c", reply(publisher="q")), ReplyFar)
    desk.know("q/1@y", hop="d")
    (again,) = sent(desk.say("b", ReplySettledFar(there.replying, there.advertisement, GONE, ())), ReplyFar)
    assert (again.advertisement, again.reply, again.replying) == ("q/1@y", "reply 1", there.replying)
    assert receipts(desk.say("d", ReplySettledFar(again.replying, again.advertisement, "", ()))) == [1]


def test_all_brokers_failed() -> None:
    desk = desk_with_publisher()
    desk.know("q/1@x", hop="b")
    (there,) = sent(desk.say("c", reply(publisher="q")), ReplyFar)
    assert refusals(desk.say("b", ReplySettledFar(there.replying, there.advertisement, GONE, ()))) == [(GONE, True)]


def test_without_an_answer_the_replier_hears_that_it_is_not_known() -> None:
    desk = desk_with_publisher()
    desk.know("q/1@x", hop="b")
    desk.say("c", reply(publisher="q"))
    assert refusals(desk.fire("reply", desk.timers["reply"])) == [(UNSETTLED, True)]


def test_a_broker_without_a_way_says_so() -> None:
    desk = desk_with_publisher()
    (back,) = sent(desk.say("b", far("c", "b", advertisement="q/1@x")), ReplySettledFar)
    assert "no way" in back.problem and back.path == ("c",)


def test_a_reply_that_came_on_no_honest_way_is_dropped() -> None:
    desk = desk_with_publisher()
    assert drops(desk.say("z", far("z"))) == [NOT_A_NEIGHBOUR]
    assert drops(desk.say("b", far("c"))) == [WRONG_PATH]
    assert drops(desk.say("b", far("a", "b"))) == [WRONG_PATH]
    assert not sent(desk.effects, Replied)


def test_a_publisher_that_takes_nothing_gets_a_window_of_replies_and_no_more() -> None:
    params = EdgeParams(client_window_bytes=256 * 1024)
    desk = desk_with_publisher(params)
    problems = []
    for number in range(20):
        effects = desk.say("c", reply(number, payload=bytes(50_000)))
        problems += [reason for reason, may_retry in refusals(effects) if may_retry]
    waiting = desk.edge.clients["p"].answers
    assert set(problems) == {TOO_SLOW}
    assert sum(len(each.payload) for each in waiting) <= 2 * params.client_window_bytes


def test_a_client_has_so_many_replies_under_way_and_no_more() -> None:
    desk = desk_with_publisher(EdgeParams(readings_max=2))
    desk.know("q/1@x", hop="b")
    for number in (1, 2):
        assert not refusals(desk.say("c", reply(number, "q")))
    ((reason, _),) = refusals(desk.say("c", reply(3, "q")))
    assert "at most 2" in reason
    desk.down("c")
    desk.up("c")
    assert not refusals(desk.say("c", reply(4, "q")))


@pytest.mark.parametrize(
    "asked", [reply(payload=bytes(PUBLICATION_BYTES_MAX)), reply(head=b"\xc1")], ids=["too large", "no attributes"]
)
def test_what_no_event_could_be_is_no_reply_either(asked: ReplyMessage) -> None:
    desk = desk_with_publisher()
    effects = desk.say("c", asked)
    ((_, may_retry),) = refusals(effects)
    assert not may_retry and not sent(effects, Replied)
