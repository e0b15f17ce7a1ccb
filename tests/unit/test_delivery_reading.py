"""Reading what is stored by marks and pages: the broker's side, message by message."""

from typing import Any

import pytest

from tests.worlds.desk import drops, sent
from tests.worlds.edge import EdgeDesk, head
from tidings.machine.effects import Save, Send, SetTimer
from tidings.machine.inputs import Loaded, Saved
from tidings.model.bounds import (
    BATCH_BYTES_MAX,
    BROKERS_ASKED_MAX,
    EXTENTS_MAX,
    FRAME_BYTES_MAX,
    MARKS_MAX,
    NAME_CHARS_MAX,
    OFFERS_MAX,
    PATH_BYTES_MAX,
)
from tidings.model.errors import UsageError
from tidings.model.language.parser import parse
from tidings.protocols.delivery.edge.history import ELSEWHERE_MAX, HistoryStore, PublisherHistory, within, without
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.readings import OLD_ANSWER, ORIGINS_MAX
from tidings.protocols.delivery.edge.references import NO_WAY_BACK, NOT_A_NEIGHBOUR, WRONG_FILTER, WRONG_PATH
from tidings.protocols.delivery.messages import (
    Advertise,
    Fetch,
    FetchedFar,
    FetchFar,
    Look,
    LookFar,
    MarksFar,
    PublishMessage,
    Refusal,
)
from tidings.pubsub.client import Accepted, Fetched, MarksReply
from tidings.pubsub.pages import page_of
from tidings.pubsub.publications import encode_head
from tidings.wire import encode


def storing(params: EdgeParams | None = None) -> EdgeDesk:
    """A publisher p here; publications 1 to 5 with x = number, accepted at 1.0 to 5.0; c reads; b and d are
    neighbours."""
    desk = EdgeDesk(params)
    desk.neighbours("b", "d")
    desk.up("p", "c")
    desk.advertise("p")
    for number in range(1, 6):
        desk.now = float(number)
        desk.publish("p", number, number)
    return desk


def look(desk: EdgeDesk, filter: str = "x >= 0", number: int = 1) -> MarksReply:
    (marks,) = sent(desk.say("c", Look(number, filter)), MarksReply, "c")
    assert isinstance(marks, MarksReply)
    return marks


def fetch(
    filter: str = "x >= 0",
    publisher: str = "p",
    *,
    after: int | None = None,
    since: float | None = None,
    through: int = 5,
    limit: int = 1000,
    number: int = 1,
    with_payloads: bool = True,
) -> Fetch:
    return Fetch(number, filter, publisher, after, since, through, limit, with_payloads)


def page(desk: EdgeDesk, *asked: Any, **fields: Any) -> Fetched:
    (fetched,) = sent(desk.say("c", fetch(*asked, **fields)), Fetched, "c")
    assert isinstance(fetched, Fetched)
    return fetched


def far(advertisement: str = "p/1@z", *numbers: int, reading: int = 1, **fields: Any) -> FetchedFar:
    """The answer of another broker."""
    known: dict[str, Any] = {
        "reading": reading,
        "advertisement": advertisement,
        "problem": "",
        "begin": 0,
        "reach": max(numbers, default=0),
        "through": max(numbers, default=0),
        "has_more": False,
        "lacking": (),
        "elsewhere": (),
        "held": (),
        "path": (),
        "page": page_of(map(float, numbers), numbers, tuple(map(head, numbers)), (b"",) * len(numbers)),
    } | fields
    return FetchedFar(**known)


def refused(desk: EdgeDesk) -> str:
    (refusal,) = sent(desk.effects, Refusal, "c")
    assert refusal.kind == "read"
    reason: str = refusal.reason
    return reason


# Marks.


def test_marks_say_how_far_each_publisher_has_come_and_what_it_advertises() -> None:
    desk = storing()
    desk.up("q")
    desk.advertise("q", 1, "y = 1 AND x < 3")
    marks = (("p", 0, 5), ("q", 0, 0))
    assert look(desk) == MarksReply(1, marks, ("x < 3 AND y = 1", "x >= 0"), (), True, ("a",), (), 5.0)


def test_only_publishers_whose_advertisements_overlap_the_filter_have_marks() -> None:
    desk = storing()
    desk.up("q")
    desk.advertise("q", 1, "x < 0")
    assert look(desk, "x > 3").marks == (("p", 0, 5),)
    assert look(desk, "y = 3 AND x < 0").marks == (("q", 0, 0),)
    assert look(desk, "x = 'a'").marks == ()


def test_a_mark_says_up_to_which_number_publications_are_forgotten() -> None:
    assert look(storing(EdgeParams(history_count_max=2))).marks == (("p", 3, 5),)


def test_what_was_declined_at_the_end_is_not_part_of_a_mark() -> None:
    """After a restart nobody would know of it."""
    desk = storing()
    desk.publish("p", 6, -1)
    assert look(desk).marks == (("p", 0, 5),)
    assert page(desk, through=6, after=4).page.numbers == (5,)


def test_looking_leaves_no_trace_in_routing_or_here() -> None:
    desk = storing()
    assert all(isinstance(effect, Send) for effect in desk.say("c", Look(1, "x >= 0")))
    assert not desk.edge.readings.open


def test_publishers_elsewhere_are_asked_for_on_their_ways() -> None:
    desk = storing()
    desk.know("q/1@z")
    desk.know("q/2@z")
    desk.know("r/1@y", hop="d")
    effects = desk.say("c", Look(1, "x >= 0"))
    sends = [effect for effect in effects if isinstance(effect, Send)]
    assert sends == [Send("b", LookFar(1, ("q/1@z",), ("a",))), Send("d", LookFar(1, ("r/1@y",), ("a",)))]
    assert not sent(desk.say("b", MarksFar(1, (("q/1@z", 9, ((0, 2),), ((2, 9),)),), (), ())), MarksReply)
    (marks,) = sent(desk.say("d", MarksFar(1, (("r/1@y", 7, (), ((0, 7),)),), (), ())), MarksReply)
    assert marks.marks == (("p", 0, 5), ("q", 2, 9), ("r", 0, 7))
    assert (marks.brokers, marks.absent) == (("a", "y", "z"), ())


def test_a_publisher_that_moved_has_one_mark_for_what_all_its_brokers_store() -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    desk.up("c")
    desk.know("q/1@y")
    desk.know("q/1@z")
    desk.say("c", Look(1, "x >= 0"))
    desk.say("b", MarksFar(1, (("q/1@y", 9, ((0, 5),), ((5, 9),)),), (), ()))
    (marks,) = sent(desk.say("b", MarksFar(1, (("q/1@z", 5, ((0, 2),), ((2, 5),)),), (), ())), MarksReply)
    assert marks.marks == (("q", 2, 9),)


def test_what_no_broker_holds_any_more_counts_as_forgotten() -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    desk.up("c")
    desk.know("q/1@y")
    desk.know("q/1@z")
    desk.say("c", Look(1, "x >= 0"))
    desk.say("b", MarksFar(1, (("q/1@y", 9, ((0, 7),), ((7, 9),)),), (), ()))
    (marks,) = sent(desk.say("b", MarksFar(1, (("q/1@z", 5, ((0, 2),), ((2, 5),)),), (), ())), MarksReply)
    assert marks.marks == (("q", 7, 9),)


def test_who_does_not_answer_in_time_is_named_and_left_out() -> None:
    desk = storing()
    desk.know("q/1@z")
    desk.know("q/1@y", hop="d")
    assert SetTimer("read", 15.0) in desk.say("c", Look(1, "x >= 0"))
    desk.say("d", MarksFar(1, (("q/1@y", 7, (), ((0, 7),)),), (), ()))
    (marks,) = sent(desk.fire("read", 15.0), MarksReply)
    assert (marks.marks, marks.unreachable) == ((("p", 0, 5),), ("q",))
    assert (marks.brokers, marks.absent) == (("a", "y"), ("z",))
    assert drops(desk.say("b", MarksFar(1, (("q/1@z", 9, (), ()),), (), ()))) == [OLD_ANSWER]


def test_a_publisher_to_whom_no_way_is_known_is_named_at_once() -> None:
    desk = storing()
    desk.know("q/1")
    desk.ways.hops.clear()
    assert look(desk).unreachable == ("q",)
    desk.know("q/1")
    desk.say("c", Look(2, "x >= 0"))
    (marks,) = sent(desk.say("b", MarksFar(2, (), ("q/1@z",), ())), MarksReply)
    assert marks.unreachable == ("q",)
    desk.say("c", Look(3, "x >= 0"))
    (marks,) = sent(desk.forget("q/1"), MarksReply)
    assert marks.unreachable == ("q",)


def test_marks_of_many_publishers_come_in_several_messages() -> None:
    desk = EdgeDesk()
    desk.up("c", *(f"p{place:04}" for place in range(MARKS_MAX + 1)))
    for place in range(MARKS_MAX + 1):
        desk.advertise(f"p{place:04}", 1, f"x > {place}")
    first, second = sent(desk.say("c", Look(1, "x >= 0")), MarksReply)
    assert (len(first.marks), first.is_last, len(first.offers)) == (MARKS_MAX, False, OFFERS_MAX)
    assert (second.marks, second.is_last, second.offers) == ((("p0300", 0, 0),), True, ())


# Pages.


def test_a_page_holds_what_matches_behind_a_number_up_to_another() -> None:
    desk = storing()
    heads = tuple(map(head, (3, 4)))
    found = page_of((3.0, 4.0), (3, 4), heads, (b"3", b"4"))
    assert page(desk, "x != 2", after=1, through=4) == Fetched(1, 4, False, False, found)


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        ({"since": 3.0}, (3, 4, 5)),
        ({"since": 3.5}, (4, 5)),
        ({"since": 99.0}, ()),
        ({}, (1, 2, 3, 4, 5)),
        ({"after": 2, "since": 99.0}, (3, 4, 5)),
        ({"after": 5}, ()),
        ({"after": 99}, ()),
        ({"since": 2.0, "through": 3}, (2, 3)),
    ],
)
def test_a_page_begins_behind_a_number_or_at_a_time_or_with_the_oldest(
    asked: dict[str, Any], numbers: tuple[int, ...]
) -> None:
    fetched = page(storing(), **asked)
    assert (fetched.page.numbers, fetched.is_truncated, fetched.has_more) == (numbers, False, False)


def test_pages_follow_each_other_behind_the_number_up_to_which_the_last_is_complete() -> None:
    desk = storing()
    first = page(desk, limit=2)
    assert (first.page.numbers, first.through, first.has_more) == ((1, 2), 2, True)
    second = page(desk, after=2, limit=2)
    assert (second.page.numbers, second.through, second.has_more) == ((3, 4), 4, True)
    last = page(desk, after=4, limit=2)
    assert (last.page.numbers, last.through, last.has_more) == ((5,), 5, False)


def test_a_page_in_the_middle_of_a_batch_is_cut_out_of_it() -> None:
    desk = EdgeDesk()
    desk.up("p", "c")
    desk.advertise("p")
    desk.publish("p", 1, *range(10))
    fetched = page(desk, after=3, through=7, limit=2)
    assert (fetched.page.numbers, fetched.through, fetched.has_more) == ((4, 5), 5, True)
    assert fetched.page.payloads == (b"4", b"5")
    assert page(desk, after=5, through=7).page.numbers == (6, 7)


def test_no_more_is_looked_at_for_a_page_than_allowed() -> None:
    desk = storing(EdgeParams(scanned_max=3))
    first = page(desk, "x = 5")
    assert (first.page.numbers, first.through, first.has_more) == ((), 3, True)
    assert page(desk, "x = 5", after=3).page.numbers == (5,)


def test_a_page_fits_a_frame() -> None:
    desk = EdgeDesk()
    desk.up("p", "c")
    desk.advertise("p")
    for number in range(1, 4):
        desk.say("p", PublishMessage(1, number, False, (head(number),), (b"x" * (BATCH_BYTES_MAX // 2),)))
    first = page(desk, through=3)
    assert (first.page.numbers, first.has_more, first.through) == ((1,), True, 1)
    assert len(encode(first)) < FRAME_BYTES_MAX
    desk.say("p", PublishMessage(1, 4, False, (head(4),), (b"x" * (BATCH_BYTES_MAX - 10 - len(head(4))),)))
    assert len(encode(page(desk, after=3, through=4))) < FRAME_BYTES_MAX


def test_a_page_says_when_something_that_was_wanted_is_no_longer_stored() -> None:
    desk = storing(EdgeParams(history_count_max=2))
    assert page(desk, after=3).is_truncated is False
    assert page(desk, after=2).is_truncated is True
    assert page(desk, after=2).page.numbers == (4, 5)
    assert page(desk, since=4.0).is_truncated is False
    assert page(desk, since=3.0).is_truncated is True


def test_what_is_published_under_another_advertisement_belongs_to_the_publisher_too() -> None:
    desk = storing()
    desk.advertise("p", 2)
    desk.publish("p", 6, 6, advertisement=2)
    assert page(desk, through=6, after=4).page.numbers == (5, 6)


def test_publications_that_are_not_saved_yet_are_not_shown() -> None:
    desk = EdgeDesk(EdgeParams(is_durable=True), start=False)
    desk.effects = desk.edge.start(0.0)
    desk.handle(Loaded("", ()))
    desk.up("p", "c")
    desk.advertise("p")
    saves = [effect for effect in desk.publish("p", 1, 1) if isinstance(effect, Save)]
    assert look(desk).marks == (("p", 0, 0),)
    desk.say("c", fetch(through=1))
    assert not sent(desk.effects, Fetched)
    desk.handle(Saved(saves[0].name))
    assert look(desk).marks == (("p", 0, 1),)
    assert page(desk, through=1, number=2).page.numbers == (1,)


def test_a_look_that_waited_for_the_store_to_be_read_finds_what_is_in_it() -> None:
    disk: dict[str, bytes] = {}
    desk = EdgeDesk(EdgeParams(is_durable=True))
    run(desk, disk, desk.handle(Loaded("", ())))
    desk.up("p")
    run(desk, disk, desk.say("p", Advertise(1, "x >= 0")))
    run(desk, disk, desk.publish("p", 1, 1))
    desk = EdgeDesk(EdgeParams(is_durable=True))
    desk.up("c")
    desk.say("c", Look(1, "x >= 0"))
    (marks,) = sent(desk.handle(Loaded("", tuple(sorted(disk.items())))), MarksReply)
    assert marks.marks == (("p", 0, 1),)


# What a client may read.


def test_reading_is_narrowed_to_what_the_client_may_subscribe_to() -> None:
    desk = storing()
    desk.up("q", "r")
    desk.advertise("q", 1, "x >= 10")
    desk.up("c", subscribe_bound=parse("x < 3"))
    marks = look(desk)
    assert (marks.marks, marks.offers) == ((("p", 0, 5),), ("x >= 0",))
    assert page(desk).page.numbers == (1, 2)
    desk.say("c", fetch("x > 3"))
    assert "not permitted" in refused(desk)
    desk.say("c", Look(7, "x > 3"))
    assert "not permitted" in refused(desk)
    desk.say("c", fetch(publisher="q"))
    assert "not permitted" in refused(desk)


def test_the_narrowed_filter_is_what_other_brokers_are_asked_with() -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    desk.up("c", subscribe_bound=parse("x < 3"))
    desk.know("q/1")
    (question,) = sent(desk.say("c", fetch(publisher="q")), FetchFar)
    assert question.filter == "x >= 0 AND x < 3"


def test_a_filter_that_cannot_be_read_is_refused() -> None:
    desk = storing()
    desk.say("c", Look(1, "x >"))
    assert "the filter is wrong" in refused(desk)
    desk.say("c", fetch("x >"))
    assert "the filter is wrong" in refused(desk)


def test_whoever_is_no_client_reads_nothing() -> None:
    desk = storing()
    assert len(drops(desk.say("b", Look(1, "x >= 0")))) == 1
    assert len(drops(desk.say("stranger", fetch()))) == 1


def test_a_client_waits_for_no_more_readings_than_allowed() -> None:
    desk = EdgeDesk(EdgeParams(readings_max=2))
    desk.up("c", "e")
    for number in (1, 2):
        desk.say("c", fetch(number=number))
    desk.say("c", Look(3, "x >= 0"))
    assert "at most 2" in refused(desk)
    desk.say("e", fetch())
    assert len(desk.edge.readings.open) == 3


def test_a_client_that_leaves_takes_its_readings_with_it() -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    desk.up("c")
    desk.know("q/1")
    desk.say("c", fetch(publisher="q"))
    desk.down("c")
    assert not desk.edge.readings.open
    assert drops(desk.say("b", far("q/1@z", 1))) == [OLD_ANSWER]
    desk.up("c")
    assert not sent(desk.fire("read", 10.0), Refusal)


# Publishers elsewhere.


def test_a_page_of_a_publisher_elsewhere_comes_from_there() -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    desk.up("c")
    desk.know("q/1")
    desk.know("q/2")
    (timer, send) = desk.say("c", fetch(publisher="q", after=2, through=9, limit=7))
    assert send == Send("b", FetchFar(1, "q/1@z", "x >= 0", 2, None, 9, 7, ("a",)))
    assert timer == SetTimer("read", 10.0)
    (fetched,) = sent(desk.say("b", far("q/1@z", 3, 4, 9)), Fetched)
    assert (fetched.number, fetched.page.numbers, fetched.through, fetched.has_more) == (1, (3, 4, 9), 9, False)


def test_whoever_wants_no_payloads_gets_none_from_here_and_from_elsewhere() -> None:
    desk = EdgeDesk()
    desk.up("p", "c")
    desk.advertise("p")
    size_bytes = 2 * BATCH_BYTES_MAX // 3
    for number in (1, 2, 3):
        desk.say("p", PublishMessage(1, number, False, (head(number),), (bytes(size_bytes),)))
    assert page(desk, through=3).page.numbers == (1,)
    bare = page(desk, through=3, with_payloads=False)
    assert (bare.page.numbers, bare.page.payloads, bare.has_more) == ((1, 2, 3), (b"",) * 3, False)
    assert page(desk, "x >= 2", through=3, with_payloads=False).page.heads == (head(2), head(3))
    desk.neighbours("b")
    desk.know("q/1")
    (asked,) = sent(desk.say("c", fetch(publisher="q", with_payloads=False)), FetchFar)
    assert not asked.with_payloads
    (answer,) = sent(desk.say("b", question(with_payloads=False, path=("b",))), FetchedFar)
    assert answer.page.payloads == (b"",) * 3


def test_a_publisher_that_moved_is_read_at_all_its_brokers() -> None:
    desk = EdgeDesk()
    desk.neighbours("b", "d")
    desk.up("c")
    desk.know("q/1@z")
    desk.know("q/1@y", hop="d")
    desk.say("c", fetch(publisher="q", through=6))
    assert not sent(desk.say("b", far("q/1@z", 4, 5, 6, lacking=((0, 3),), held=((3, 6),))), Fetched)
    (fetched,) = sent(desk.say("d", far("q/1@y", 1, 2, 3, held=((0, 3),))), Fetched)
    assert (fetched.page.numbers, fetched.is_truncated, fetched.has_more) == ((1, 2, 3, 4, 5, 6), False, False)


def test_what_all_brokers_of_a_publisher_lack_is_lost() -> None:
    desk = EdgeDesk()
    desk.neighbours("b", "d")
    desk.up("c")
    desk.know("q/1@z")
    desk.know("q/1@y", hop="d")
    desk.say("c", fetch(publisher="q", through=6))
    desk.say("b", far("q/1@z", 5, 6, lacking=((0, 4),), held=((4, 6),)))
    (fetched,) = sent(desk.say("d", far("q/1@y", 1, 2, 3, held=((0, 3),))), Fetched)
    assert (fetched.page.numbers, fetched.is_truncated) == ((1, 2, 3, 5, 6), True)


def test_a_page_of_several_brokers_ends_where_the_first_of_them_stopped() -> None:
    desk = EdgeDesk()
    desk.neighbours("b", "d")
    desk.up("c")
    desk.know("q/1@z")
    desk.know("q/1@y", hop="d")
    desk.say("c", fetch(publisher="q", through=9, limit=3))
    desk.say("b", far("q/1@z", 2, 4, 7, has_more=True, reach=9))
    (fetched,) = sent(desk.say("d", far("q/1@y", 1, 3, 6, has_more=True, reach=9)), Fetched)
    assert (fetched.page.numbers, fetched.through, fetched.has_more) == ((1, 2, 3), 3, True)


def test_a_broker_that_does_not_answer_is_named_and_the_reading_may_be_repeated() -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    desk.up("c")
    desk.know("q/1")
    desk.say("c", fetch(publisher="q"))
    (refusal,) = sent(desk.fire("read", 10.0), Refusal)
    assert refusal.may_retry and "not reachable" in refusal.reason and "(z)" in refusal.reason
    assert not desk.edge.readings.open


def test_a_publisher_that_is_known_nowhere_is_waited_for() -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    desk.up("c")
    assert not sent(desk.say("c", fetch(publisher="q")), FetchFar)
    (question,) = sent(desk.know("q/1"), FetchFar)
    assert question.advertisement == "q/1@z"
    assert sent(desk.say("b", far("q/1@z", 5)), Fetched)
    desk.say("c", fetch(publisher="nobody"))
    desk.now = 1.0
    (refusal,) = sent(desk.fire("read", 10.0), Refusal)
    assert "no publisher nobody is known" in refusal.reason


def test_a_question_that_was_lost_with_a_link_is_asked_again_when_the_publisher_is_known_again() -> None:
    desk = EdgeDesk()
    desk.neighbours("b", "d")
    desk.up("c")
    desk.know("q/1")
    desk.say("c", fetch(publisher="q"))
    desk.forget("q/1")
    assert desk.edge.readings.open
    (again,) = [effect for effect in desk.know("q/1", hop="d") if isinstance(effect, Send)]
    assert again.to == "d"
    assert sent(desk.say("d", far("q/1@z", 5)), Fetched)


def test_no_way_is_no_answer_and_the_way_may_come_back() -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    desk.up("c")
    desk.know("q/1")
    desk.say("c", fetch(publisher="q"))
    assert drops(desk.say("b", far("q/1@z", problem="no way"))) == ["no way"]
    assert sent(desk.know("q/1"), FetchFar)
    assert sent(desk.say("b", far("q/1@z", 5)), Fetched)


def test_a_publisher_that_has_not_come_so_far_is_not_taken_for_one_that_has() -> None:
    desk = storing()
    assert not sent(desk.say("c", fetch(through=6)), Fetched)
    (refusal,) = sent(desk.fire("read", 15.0), Refusal)
    assert refusal.may_retry and "has come to 5" in refusal.reason
    desk.say("c", fetch(through=6))
    desk.know("p/1@z")
    (fetched,) = sent(desk.say("b", far("p/1@z", 6, reading=2, lacking=((0, 5),), held=((5, 6),))), Fetched)
    assert (fetched.page.numbers, fetched.is_truncated) == ((1, 2, 3, 4, 5, 6), False)


def test_no_more_brokers_are_asked_for_a_publisher_than_allowed() -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    desk.up("c")
    for place in range(ORIGINS_MAX + 3):
        desk.know(f"q/1@z{place}")
    assert len(sent(desk.say("c", fetch(publisher="q")), FetchFar)) == ORIGINS_MAX
    assert not sent(desk.know("q/1@more"), FetchFar)


# For others.


def question(**fields: Any) -> FetchFar:
    known: dict[str, Any] = {
        "reading": 3,
        "advertisement": "p/1@a",
        "filter": "x >= 0",
        "after": None,
        "since": None,
        "through": 9,
        "limit": 1000,
        "path": ("z", "b"),
    } | fields
    return FetchFar(**known)


def test_the_questions_of_other_brokers_are_answered_along_their_way() -> None:
    desk = storing(EdgeParams(history_count_max=3))
    (send,) = desk.say("b", question(after=1))
    assert (send.to, send.message.path) == ("b", ("z",))
    answer = send.message
    assert (answer.reading, answer.advertisement, answer.page.numbers) == (3, "p/1@a", (3, 4, 5))
    assert (answer.begin, answer.reach, answer.through, answer.has_more) == (1, 5, 5, False)
    assert (answer.lacking, answer.held) == (((1, 2),), ((2, 5),))
    (send,) = desk.say("b", LookFar(4, ("p/1@a",), ("z", "b")))
    assert send == Send("b", MarksFar(4, (("p/1@a", 5, ((0, 2),), ((2, 5),)),), (), ("z",)))


def test_questions_for_publishers_elsewhere_go_on_and_write_down_their_way() -> None:
    desk = storing()
    desk.know("q/1@y", hop="d")
    assert desk.say("b", question(advertisement="q/1@y")) == [
        Send("d", question(advertisement="q/1@y", path=("z", "b", "a")))
    ]
    effects = desk.say("b", LookFar(4, ("p/1@a", "q/1@y", "r/1@x"), ("b",)))
    assert effects == [
        Send("b", MarksFar(4, (("p/1@a", 5, (), ((0, 5),)),), ("r/1@x",), ())),
        Send("d", LookFar(4, ("q/1@y",), ("b", "a"))),
    ]


def test_a_question_never_goes_back_where_it_came_from() -> None:
    desk = storing()
    desk.know("q/1@y", hop="b")
    (send,) = desk.say("b", question(advertisement="q/1@y"))
    assert (send.to, send.message.path) == ("b", ("z",))
    assert "no way" in send.message.problem


def test_answers_for_others_go_back_along_the_path() -> None:
    desk = storing()
    assert desk.say("b", far("q/1@z", 1, path=("x", "d"))) == [Send("d", far("q/1@z", 1, path=("x",)))]
    marks = MarksFar(1, (), ("q/1@z",), ("d",))
    assert desk.say("b", marks) == [Send("d", MarksFar(1, (), ("q/1@z",), ()))]
    assert drops(desk.say("b", far("q/1@z", 1, path=("gone",)))) == [NO_WAY_BACK]


def test_questions_and_answers_that_make_no_sense_are_dropped() -> None:
    desk = storing()
    assert drops(desk.say("z", question())) == [NOT_A_NEIGHBOUR]
    assert drops(desk.say("b", question(path=("b", "a", "b")))) == [WRONG_PATH]
    assert drops(desk.say("b", question(filter="x >"))) == [WRONG_FILTER]
    assert drops(desk.say("b", LookFar(1, ("p/1@a",), ("z",)))) == [WRONG_PATH]
    assert drops(desk.say("z", far("q/1@z", 1))) == [NOT_A_NEIGHBOUR]
    assert drops(desk.say("b", far("q/1@z", 1))) == [OLD_ANSWER]
    desk.say("c", Look(1, "x >= 0"))
    assert drops(desk.say("b", MarksFar(1, (("p/1@a", 9, (), ()),), (), ()))) == [OLD_ANSWER]


def test_the_longest_names_fit_a_frame() -> None:
    """Names of characters that take most bytes."""
    name = "\N{GRINNING FACE}" * NAME_CHARS_MAX
    extents = ((2**62, 2**63 - 1),) * 16
    path = (name,) * (PATH_BYTES_MAX // len(name.encode()))
    assert len(encode(LookFar(1, (name,) * MARKS_MAX, path))) < FRAME_BYTES_MAX
    far_marks = ((name, 2**63 - 1, extents, extents),) * MARKS_MAX
    assert len(encode(MarksFar(1, far_marks, (name,) * MARKS_MAX, path))) < FRAME_BYTES_MAX
    offers = ("x" * 4096,) * OFFERS_MAX
    marks = ((name, 2**63 - 1, 2**63 - 1),) * MARKS_MAX
    brokers = (name,) * BROKERS_ASKED_MAX
    longest = MarksReply(1, marks, offers, (name,) * MARKS_MAX, True, brokers, brokers)
    assert len(encode(longest)) < FRAME_BYTES_MAX


# What is held, and what is lacking.


def test_extents_are_taken_from_extents() -> None:
    assert without([(0, 10)], []) == [(0, 10)]
    assert without([(0, 10)], [(3, 5), (8, 20)]) == [(0, 3), (5, 8)]
    assert without([(0, 10), (20, 30)], [(0, 30)]) == []
    assert without([(5, 5)], []) == []
    assert within([(0, 10), (20, 30)], 5, 25) == [(5, 10), (20, 25)]


def test_a_publisher_that_came_from_elsewhere_lacks_here_what_it_published_there() -> None:
    desk = EdgeDesk()
    desk.up("p", "c")
    desk.say("p", Advertise(1, "x >= 0", 101))
    desk.settle()
    desk.know("p/1", hop=None)
    desk.publish("p", 104, 4, 5)
    history = desk.edge.publishers.all["p"].history
    assert (history.lacking(), history.held(105)) == ([(100, 103)], [(103, 105)])
    assert look(desk).marks == (("p", 103, 105),)


def test_a_publisher_that_was_away_for_a_while_leaves_a_gap() -> None:
    desk = storing()
    desk.publish("p", 9, 9)
    history = desk.edge.publishers.all["p"].history
    assert (history.lacking(), history.held(9)) == ([(5, 8)], [(0, 5), (8, 9)])
    assert page(desk, through=5).is_truncated is False
    assert page(desk, after=8, through=9).is_truncated is False
    assert look(desk).marks == (("p", 8, 9),)


def test_what_was_published_elsewhere_is_waited_for_before_it_is_called_lost() -> None:
    desk = storing()
    desk.publish("p", 9, 9)
    assert not sent(desk.say("c", fetch(through=9)), Fetched)
    (fetched,) = sent(desk.fire("read", 15.0), Fetched)
    assert (fetched.page.numbers, fetched.is_truncated) == ((1, 2, 3, 4, 5, 9), True)
    desk.say("c", fetch(through=9))
    desk.know("p/1@z")
    (fetched,) = sent(desk.say("b", far("p/1@z", 6, 7, 8, reading=2, held=((5, 8),))), Fetched)
    assert (fetched.page.numbers, fetched.is_truncated) == ((1, 2, 3, 4, 5, 6, 7, 8, 9), False)


def test_a_new_life_that_begins_with_a_higher_number_leaves_no_gap() -> None:
    desk = storing()
    desk.say("p", Advertise(1, "x >= 0", 1000))
    desk.settle()
    desk.publish("p", 1000, 9)
    assert look(desk).marks == (("p", 0, 1000),)
    assert page(desk, through=1000).is_truncated is False


def test_what_is_elsewhere_is_bounded_and_what_is_between_counts_as_lacking_then() -> None:
    history = PublisherHistory(HistoryStore(EdgeParams()))
    history.base = 0
    for place in range(ELSEWHERE_MAX + 2):
        history.skip(10 * place + 5, 10 * place + 9)
        history.check()
    assert history.elsewhere[0] == (5, 29)
    assert len(history.elsewhere) == ELSEWHERE_MAX
    history.forget(27, 1.0)
    assert history.lacking()[:3] == [(0, 27), (27, 29), (35, 39)]
    assert len(history.lacking()) <= EXTENTS_MAX and len(history.held(10**6)) <= EXTENTS_MAX


# Numbers of publishers that left.


def gone(params: EdgeParams) -> EdgeDesk:
    """p published 1 to 3 at 1.0, left, and its history is too old."""
    desk = EdgeDesk(params)
    desk.up("p")
    desk.advertise("p")
    desk.now = 1.0
    desk.publish("p", 1, 1, 2, 3)
    desk.down("p")
    desk.fire("sweep", 20.0)
    assert not desk.edge.publishers.all
    return desk


def test_a_publisher_that_repeats_itself_long_after_its_history_is_recognised() -> None:
    desk = gone(EdgeParams(history_age=10.0, marks_age=0.0))
    desk.now = 3600.0
    desk.up("p", "c")
    desk.advertise("p")
    assert sent(desk.publish("p", 1, 1, 2, 3), Accepted) == [Accepted(3)]
    assert look(desk).marks == (("p", 3, 3),)
    assert sent(desk.publish("p", 3, 3, 4), Accepted) == [Accepted(4)]
    assert page(desk, after=3, through=4).page.payloads == (b"4",)
    assert page(desk, after=2, through=4).is_truncated is True


def test_the_number_of_a_publisher_is_forgotten_some_time() -> None:
    desk = gone(EdgeParams(history_age=10.0, marks_age=0.0, numbers_age=100.0))
    assert SetTimer("sweep", 101.0) in desk.effects
    desk.fire("sweep", 101.0)
    assert not desk.edge.publishers.numbers.marks
    assert not any(isinstance(effect, SetTimer) for effect in desk.effects)


def test_publishers_that_come_meanwhile_are_swept_in_time() -> None:
    desk = gone(EdgeParams(history_age=10.0, marks_age=0.0))
    desk.up("q")
    assert SetTimer("sweep", 25.0) in desk.say("q", Advertise(1, "x >= 0"))


def test_no_more_numbers_are_remembered_than_allowed_and_the_oldest_go_first() -> None:
    desk = EdgeDesk(EdgeParams(history_age=1.0, marks_age=0.0, numbers_max=2))
    for place, name in enumerate(("p", "q", "r")):
        desk.now = float(place)
        desk.up(name)
        desk.advertise(name)
        desk.publish(name, 1, 1)
    for name in ("r", "q", "p"):
        desk.down(name)
    desk.fire("sweep", 50.0)
    assert list(desk.edge.publishers.numbers.marks) == ["q", "r"]


def test_numbers_are_remembered_on_disk() -> None:
    params = EdgeParams(history_age=10.0, marks_age=0.0, is_durable=True, numbers_age=1000.0)
    disk: dict[str, bytes] = {}
    desk = EdgeDesk(params)
    run(desk, disk, desk.handle(Loaded("", ())))
    desk.up("p")
    desk.advertise("p")
    run(desk, disk, desk.publish("p", 1, 1, 2))
    run(desk, disk, desk.down("p"))
    run(desk, disk, desk.fire("sweep", 20.0))
    assert list(disk) == ["publisher/p"]

    desk = EdgeDesk(params)
    desk.now = 30.0
    run(desk, disk, desk.handle(Loaded("", tuple(sorted(disk.items())))))
    assert not desk.edge.publishers.all
    desk.up("p")
    desk.advertise("p")
    assert sent(desk.publish("p", 1, 1, 2), Accepted) == [Accepted(2)]

    desk = EdgeDesk(params)
    desk.now = 2000.0
    run(desk, disk, desk.handle(Loaded("", tuple(sorted(disk.items())))))
    assert not disk and not desk.edge.publishers.numbers.marks


def run(desk: EdgeDesk, disk: dict[str, bytes], effects: list[Any]) -> None:
    """Carry out what is to be saved."""
    for effect in effects:
        if isinstance(effect, Save):
            if effect.data is None:
                disk.pop(effect.name, None)
            else:
                disk[effect.name] = effect.data
            run(desk, disk, desk.handle(Saved(effect.name)))


def test_gaps_and_what_came_from_elsewhere_are_remembered_on_disk() -> None:
    params = EdgeParams(is_durable=True)
    disk: dict[str, bytes] = {}
    desk = EdgeDesk(params)
    run(desk, disk, desk.handle(Loaded("", ())))
    desk.up("p")
    desk.say("p", Advertise(1, "x >= 0", 11))
    run(desk, disk, desk.effects)
    desk.settle()
    run(desk, disk, desk.publish("p", 13, 1))
    run(desk, disk, desk.publish("p", 20, 1))
    before = desk.edge.publishers.all["p"].history
    desk = EdgeDesk(params)
    desk.handle(Loaded("", tuple(sorted(disk.items()))))
    after = desk.edge.publishers.all["p"].history
    assert after.lacking() == before.lacking() == [(10, 12), (13, 19)]
    assert after.held(20) == before.held(20) == [(12, 13), (19, 20)]


def test_numbers_that_were_declined_last_are_looked_for_nowhere_after_a_restart() -> None:
    params = EdgeParams(is_durable=True)
    disk: dict[str, bytes] = {}
    desk = EdgeDesk(params)
    run(desk, disk, desk.handle(Loaded("", ())))
    desk.up("p")
    desk.say("p", Advertise(1, "x >= 0"))
    run(desk, disk, desk.effects)
    desk.settle()
    run(desk, disk, desk.publish("p", 1, 1))
    run(desk, disk, desk.publish("p", 2, -1, -1))
    desk = EdgeDesk(params)
    desk.handle(Loaded("", tuple(sorted(disk.items()))))
    desk.up("p")
    desk.say("p", Advertise(1, "x >= 0"))
    desk.publish("p", 4, 1)
    history = desk.edge.publishers.all["p"].history
    assert history.lacking() == [] and history.held(4) == [(0, 4)]


@pytest.mark.parametrize("name", ["reading_timeout", "numbers_age", "numbers_max", "readings_max"])
def test_bounds_of_reading_are_checked(name: str) -> None:
    wrong: Any = {name: -1}
    with pytest.raises(UsageError, match=name):
        EdgeParams(**wrong)


def test_heads_that_cannot_be_read_match_nothing() -> None:
    desk = EdgeDesk()
    desk.up("p", "c")
    desk.advertise("p", 1, "TRUE")
    desk.say("p", PublishMessage(1, 1, False, (b"\xc1", encode_head({"x": 1})), (b"", b"")))
    assert page(desk, through=2).page.numbers == (2,)
