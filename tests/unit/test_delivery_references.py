"""History between brokers: what is stored, who is asked, what is answered."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.worlds.desk import drops, of, sent
from tests.worlds.edge import EdgeDesk, batch, head, named
from tidings.machine.effects import Drop, Save, Send
from tidings.machine.inputs import Loaded, Saved
from tidings.model.bounds import FRAME_BYTES_MAX, PATH_BYTES_MAX, PUBLICATION_BYTES_MAX, REFERENCE_HOPS_MAX
from tidings.protocols.delivery.edge.flows import PACK_BYTES_MAX, PACK_FILTER_CHARS_MAX, TOO_MANY
from tidings.protocols.delivery.edge.history import ERAS_MAX, HistoryStore, PublisherHistory, size_bytes
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.references import NO_WAY_BACK, NOT_A_NEIGHBOUR, TOO_FAR, WRONG_FILTER, WRONG_PATH
from tidings.protocols.delivery.messages import (
    Advertise,
    History,
    HistoryBegun,
    HistoryTaken,
    PackedReferences,
    PublishMessage,
    Reference,
)
from tidings.protocols.delivery.sizes import size_of
from tidings.pubsub.client import Accepted
from tidings.pubsub.publications import Publications, encode_head
from tidings.pubsub.signals import NeighbourDown
from tidings.wire import encode


def question(*wanted: tuple[str, int | None], **fields: Any) -> Reference:
    known: dict[str, Any] = {
        "client": "c",
        "subscription": 1,
        "round": 3,
        "filter": "x >= 0",
        "wanted": tuple((named(id, "a"), after) for id, after in wanted or (("p/1", None),)),
        "since": 0.0,
        "is_from_now": False,
        "group": "",
        "principal": "",
        "limit": 1000,
        "limit_bytes": 10_000_000,
        "path": ("z", "b"),
    } | fields
    return Reference(**known)


def storing(params: EdgeParams | None = None) -> EdgeDesk:
    """A publisher p here; publications 1 to 5 with x = number, accepted at 1.0 to 5.0; b and d are neighbours."""
    desk = EdgeDesk(params)
    desk.neighbours("b", "d")
    desk.up("p")
    desk.advertise("p")
    for number in range(1, 6):
        desk.now = float(number)
        desk.publish("p", number, number)
    return desk


def answered(desk: EdgeDesk, asked: Reference) -> tuple[int, ...]:
    return tuple(number for history in sent(desk.say("b", asked), History) for number in history.numbers)


# Answers.


def test_the_answer_goes_back_along_the_way_of_the_question() -> None:
    desk = storing()
    (send,) = desk.say("b", question(("p/1", 3)))
    assert isinstance(send, Send)
    history = send.message
    assert (send.to, history.path) == ("b", ("z",))
    assert (history.client, history.subscription, history.round) == ("c", 1, 3)
    assert (history.publisher, history.numbers, history.accepted_at) == ("p", (4, 5), (4.0, 5.0))
    assert history.heads == (head(4), head(5))
    assert (history.has_more, history.is_truncated, history.through) == (False, False, 5)


@pytest.mark.spec("S-104")
@pytest.mark.spec("S-105")
def test_since_a_time_is_everything_accepted_then_or_later() -> None:
    desk = storing()
    assert answered(desk, question(since=3.0)) == (3, 4, 5)
    assert answered(desk, question(since=3.5)) == (4, 5)
    assert answered(desk, question(since=99.0)) == ()
    assert answered(desk, question(since=99.0, is_from_now=True)) == ()
    assert answered(desk, question(since=None, is_from_now=True)) == ()


def test_without_number_and_time_it_is_everything_since_the_first_advertisement_whichever_is_named() -> None:
    desk = storing()
    desk.advertise("p", 2)
    desk.publish("p", 6, 6, advertisement=2)
    for either in ("p/1", "p/2"):
        assert answered(desk, question((either, None), since=None)) == (1, 2, 3, 4, 5, 6)
        assert answered(desk, question((either, 4))) == (5, 6), "numbers ascend over all advertisements"


def test_an_answer_says_behind_which_number_it_begins() -> None:
    desk = storing()
    for asked, begin in [(question(("p/1", 3)), 3), (question(since=3.5), 3), (question(since=None), 0)]:
        (history,) = sent(desk.say("b", asked), History)
        assert history.begin == begin


@pytest.mark.spec("S-108")
def test_behind_a_number_is_everything_above_it_whatever_the_time() -> None:
    desk = storing()
    assert answered(desk, question(("p/1", 2), since=99.0)) == (3, 4, 5)
    assert answered(desk, question(("p/1", 5))) == ()
    assert answered(desk, question(("p/1", 0))) == (1, 2, 3, 4, 5)


def test_only_what_matches_is_answered() -> None:
    assert answered(storing(), question(filter="x = 2 OR x = 5")) == (2, 5)


def test_advertisements_of_one_publisher_are_answered_together_in_order() -> None:
    desk = storing()
    desk.advertise("p", 2)
    desk.publish("p", 6, 6, advertisement=2)
    desk.publish("p", 7, 7)
    (history,) = sent(desk.say("b", question(("p/1", 4), ("p/2", 4))), History)
    assert history.numbers == (5, 6, 7)
    assert answered(desk, question(("p/2", 0))) == (1, 2, 3, 4, 5, 6, 7)


@pytest.mark.spec("S-111")
def test_an_answer_with_nothing_in_it_is_sent_all_the_same() -> None:
    (history,) = sent(storing().say("b", question(filter="x = 77")), History)
    assert (history.numbers, history.has_more) == ((), False)


def test_no_more_is_answered_than_there_is_room_for() -> None:
    (history,) = sent(storing().say("b", question(("p/1", 1), limit=2)), History)
    assert (history.numbers, history.has_more, history.through) == ((2, 3), True, 3)
    (history,) = sent(storing().say("b", question(("p/1", 3), limit=2)), History)
    assert (history.numbers, history.has_more, history.through) == ((4, 5), False, 5)


def test_no_more_is_looked_at_than_allowed_and_the_answer_says_how_far_it_goes() -> None:
    desk = storing(EdgeParams(scanned_max=3))
    (history,) = sent(desk.say("b", question(("p/1", 0), filter="x = 5")), History)
    assert (history.numbers, history.has_more, history.through) == ((), True, 3)
    assert answered(desk, question(("p/1", 3), filter="x = 5")) == (5,)


def publishing(params: EdgeParams, size: int, count: int) -> EdgeDesk:
    """A publisher p here that has published so many of this size; b is a neighbour."""
    desk = EdgeDesk(params)
    desk.neighbours("b")
    desk.up("p")
    desk.advertise("p")
    for number in range(1, count + 1):
        desk.say("p", PublishMessage(1, number, False, (head(number),), (b"y" * size,)))
    return desk


def test_an_answer_is_a_page_of_bytes_and_says_that_there_is_more() -> None:
    desk = publishing(EdgeParams(page_bytes=1000), 300, 7)
    (history,) = sent(desk.say("b", question(("p/1", 0))), History)
    assert (history.numbers, history.has_more, history.through) == ((1, 2, 3), True, 3)
    (history,) = sent(desk.say("b", question(("p/1", 3), limit_bytes=700)), History)
    assert (history.numbers, history.has_more, history.through) == ((4, 5), True, 5)
    assert answered(desk, question(("p/1", 5))) == (6, 7)


def test_a_publication_larger_than_a_page_is_one_and_fits_a_frame() -> None:
    desk = publishing(EdgeParams(page_bytes=1000), PUBLICATION_BYTES_MAX - len(head(1)), 2)
    asked = question(("p/1", 0), limit_bytes=0, path=("z" * 255,) * (PATH_BYTES_MAX // 255 - 1) + ("b",))
    (history,) = sent(desk.say("b", asked), History)
    assert (history.numbers, history.has_more) == ((1,), True)
    assert len(encode(history)) <= FRAME_BYTES_MAX


# How much is on the way.


def taken(life: int, total_bytes: int) -> HistoryTaken:
    return HistoryTaken(life, total_bytes)


def test_answers_leave_as_the_neighbour_takes_them_and_are_made_when_they_leave() -> None:
    desk = publishing(EdgeParams(page_bytes=1000, history_window_bytes=2000), 800, 3)
    pages = [sent(desk.say("b", question(("p/1", number))), History) for number in (0, 1, 2)]
    assert [[page.numbers for page in each] for each in pages] == [[(1,)], [(2,)], []]
    desk.publish("p", 4, 4)
    assert sent(desk.say("b", taken(9, 10)), History) == [], "of another life"
    size = size_of(pages[0][0])
    (page,) = sent(desk.say("b", taken(1, size)), History)
    assert page.numbers == (3, 4)
    assert sent(desk.say("b", taken(1, 10 * size)), History) == [], "more than was sent"


def test_questions_that_leave_together_are_packed() -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    desk.up("c")
    for number in range(1, 1001):
        desk.subscribe("c", number, guarantee="reference")
    desk.know("p/1")
    effects = desk.advance(1.0)
    packs = sent(effects, PackedReferences)
    assert sum(len(pack.questions) for pack in packs) + len(sent(effects, Reference)) == 1000
    assert len(of(Send, effects)) <= 10
    assert all(size_of(pack) <= PACK_BYTES_MAX for pack in packs)


def test_what_only_passes_through_is_taken_when_it_has_been_passed_on() -> None:
    desk = storing(EdgeParams(history_window_bytes=1600))
    desk.say("b", HistoryBegun(5, 1600))
    desk.ways.hops["q/1@z"] = "d"
    passing = question(("q/1@z", 7))
    for _ in range(3):
        effects = desk.say("b", passing)
        assert [each.life for each in sent(effects, HistoryTaken, "b")] == [5]
    effects = desk.say("b", passing)
    assert sent(effects, HistoryTaken) == sent(effects, Reference) == []
    effects = desk.say("d", taken(2, size_of(replace(passing, path=(*passing.path, "a")))))
    assert sent(effects, HistoryTaken, "b") == [taken(5, 4 * size_of(passing))]
    assert len(sent(effects, Reference, "d")) == 1
    desk.say("b", passing)
    assert sent(desk.handle(NeighbourDown("d", 1)), HistoryTaken) == [taken(5, 5 * size_of(passing))]


def test_what_makes_no_sense_is_taken_all_the_same() -> None:
    desk = storing()
    desk.say("z", HistoryBegun(5, 8))
    asked = question(path=("z",))
    assert desk.say("z", asked) == [Drop(asked, NOT_A_NEIGHBOUR), Send("z", taken(5, size_of(asked)))]
    assert drops(desk.say("p", HistoryBegun(1, 8))) == [NOT_A_NEIGHBOUR], "a client"


def test_no_more_questions_wait_than_allowed() -> None:
    desk = publishing(EdgeParams(history_window_bytes=8, unanswered_max=2), 10, 1)
    for round in range(3):
        assert drops(desk.say("b", question(("p/1", 0), round=round))) == []
    assert drops(desk.say("b", question(("p/1", 0), round=3))) == [TOO_MANY]


@pytest.mark.spec("S-109")
def test_the_answer_is_given_in_one_step_so_that_everything_later_follows_it() -> None:
    desk = storing()
    effects = [*desk.say("b", question(("p/1", 4))), *desk.publish("p", 6, 6)]
    kinds = [effect.message for effect in effects if isinstance(effect, Send) and effect.to == "b"]
    assert [message.numbers for message in kinds] == [(5,)]
    assert answered(desk, question(("p/1", 4))) == (5, 6)


# Groups.


@pytest.mark.spec("S-107")
def test_the_first_question_of_a_group_fixes_the_time_for_all_members() -> None:
    desk = storing()
    (first,) = sent(desk.say("b", question(group="twins", since=3.0)), History)
    (later,) = sent(desk.say("d", question(group="twins", since=5.0, path=("d",))), History)
    (earlier,) = sent(desk.say("d", question(group="twins", since=1.0, path=("d",))), History)
    assert first.numbers == later.numbers == earlier.numbers == (3, 4, 5)
    assert first.group_at == later.group_at == 3.0
    assert sent(desk.say("b", question(group="others", since=5.0)), History)[0].numbers == (5,)


@pytest.mark.spec("S-107")
def test_a_group_begins_where_a_member_goes_on_that_began_earlier_with_another_broker() -> None:
    """Of a publisher that moved here behind number 1: its former broker says that the group began there."""
    desk = storing()
    (first,) = sent(desk.say("b", question(group="twins", since=None, is_from_now=True)), History)
    assert first.begin == 5
    assert answered(desk, question(("p/1", 1), group="twins", since=None)) == (2, 3, 4, 5)
    assert answered(desk, question(group="twins", since=None, is_from_now=True)) == (2, 3, 4, 5)
    assert answered(desk, question(("p/1", 4), group="twins", since=None)) == (5,)
    assert answered(desk, question(group="twins", since=None, is_from_now=True)) == (2, 3, 4, 5)


def test_a_time_that_the_first_member_named_stays_where_the_beginning_moves_back() -> None:
    desk = storing()
    desk.say("b", question(group="twins", since=3.0))
    desk.say("b", question(("p/1", 1), group="twins", since=3.0))
    (later,) = sent(desk.say("d", question(group="twins", since=5.0, path=("d",))), History)
    assert later.group_at == 3.0


def test_each_publisher_has_its_own_time_of_a_group() -> None:
    desk = storing()
    desk.up("q")
    desk.advertise("q")
    desk.say("b", question(group="twins", since=3.0))
    (history,) = sent(desk.say("b", question(("q/1", None), group="twins", since=4.0)), History)
    assert history.group_at == 4.0


def test_a_group_is_forgotten_when_no_member_asked_for_as_long_as_history_lasts() -> None:
    desk = storing(EdgeParams(history_age=10.0))
    desk.say("b", question(group="twins", since=3.0))
    desk.fire("sweep", 14.0)
    assert desk.edge.references.groups.all
    desk.fire("sweep", 15.5)
    assert not desk.edge.references.groups.all


def test_no_more_groups_are_remembered_than_allowed_and_who_has_most_loses_one() -> None:
    desk = storing(EdgeParams(groups_max=3))
    for principal, name in [("ann", "one"), ("eve", "one"), ("eve", "two"), ("eve", "three")]:
        desk.say("b", question(group=name, principal=principal))
    assert list(desk.edge.references.groups.all) == [("ann", "one", "p"), ("eve", "two", "p"), ("eve", "three", "p")]


def test_a_stranger_with_the_same_name_of_a_group_has_a_group_of_its_own() -> None:
    desk = storing()
    desk.say("b", question(group="twins", principal="eve", since=99.0))
    assert answered(desk, question(group="twins", principal="ann", since=0.0)) == (1, 2, 3, 4, 5)
    assert answered(desk, question(group="twins", principal="eve", since=0.0)) == ()


def test_a_member_that_comes_later_with_whatever_guarantee_gets_what_the_first_got() -> None:
    desk = storing()
    (first,) = sent(desk.say("b", question(group="twins", since=None, is_from_now=True)), History)
    assert (first.numbers, first.begin) == ((), 5)
    desk.publish("p", 6, 6)
    (second,) = sent(desk.say("d", question(group="twins", since=None, is_from_now=True, path=("d",))), History)
    assert (second.numbers, second.begin) == ((6,), 5)


def test_a_member_that_is_older_than_the_publisher_is_owed_everything() -> None:
    desk = storing()
    desk.say("b", question(group="twins", since=None, is_from_now=True))
    assert answered(desk, question(group="twins", since=None)) == (1, 2, 3, 4, 5)
    assert answered(desk, question(group="twins", since=None, is_from_now=True)) == (1, 2, 3, 4, 5)


def test_a_group_that_has_begun_elsewhere_begins_where_its_first_member_here_goes_on() -> None:
    desk = storing()
    assert answered(desk, question(("p/1", 2), group="twins", since=None)) == (3, 4, 5)
    assert answered(desk, question(group="twins", since=None, is_from_now=True)) == (3, 4, 5)


@pytest.mark.parametrize("is_from_now", [True, False])
def test_a_member_that_was_there_before_the_publisher_hears_what_its_group_began_behind(is_from_now: bool) -> None:
    """A later member is heard first: the first one was cut off meanwhile."""
    desk = storing()

    def ask(since: float, **fields: Any) -> History:
        asked = question(since=since, group="twins", is_from_now=is_from_now, **fields)
        (history,) = sent(desk.say("b", asked), History)
        assert isinstance(history, History)
        return history

    assert (ask(4.5).numbers, ask(4.5).begun_late) == ((5,), 0)
    early = ask(1.5)
    assert (early.numbers, early.begun_late) == ((5,), 0), "no receipt yet: where the first begins, all do"
    late = ask(1.5, is_late=True)
    assert (late.numbers, late.begun_late) == ((5,), 3), "it had its receipt when 2, 3 and 4 were published"
    assert ask(9.0, is_late=True).begun_late == 0


def test_a_group_has_no_time_that_no_member_named() -> None:
    desk = storing()
    (first,) = sent(desk.say("b", question(group="twins", since=3.0, is_from_now=True)), History)
    (later,) = sent(desk.say("d", question(group="twins", since=5.0, path=("d",))), History)
    assert first.numbers == later.numbers == (3, 4, 5)
    assert first.group_at is later.group_at is None


def test_a_durable_broker_finds_its_groups_again() -> None:
    desk = durable()
    desk.say("b", question(group="twins", principal="ann", since=None, is_from_now=True))
    desk.publish("p", 6, 6)
    again = EdgeDesk(EdgeParams(is_durable=True), start=False)
    again.note(again.edge.start(0.0))
    again.handle(Loaded("", tuple(sorted(saved_by(desk).items())), None))
    again.neighbours("b")
    for principal, numbers in [("ann", (6,)), ("eve", ())]:
        asked = question(group="twins", principal=principal, since=None, is_from_now=True)
        assert answered(again, asked) == numbers


def durable() -> EdgeDesk:
    desk = EdgeDesk(EdgeParams(is_durable=True), start=False)
    desk.note(desk.edge.start(0.0))
    desk.handle(Loaded("", (), None))
    desk.neighbours("b")
    desk.up("p")
    desk.advertise("p")
    for number in range(1, 6):
        desk.publish("p", number, number)
        for save in of(Save, desk.effects):
            desk.handle(Saved(save.name, None))
    return desk


def test_since_a_time_begins_ahead_of_what_is_not_saved_yet() -> None:
    """A crash may have it accepted again, under the same numbers and after that time."""
    desk = durable()
    desk.now = 6.0
    desk.publish("p", 6, 6)
    for client, path in (("c", ("z", "b")), ("e", ("d",))):
        desk.neighbours(path[-1])
        (history,) = sent(desk.say(path[-1], question(since=7.0, client=client, path=path)), History)
        assert (history.begin, history.numbers) == (5, (6,))
    for save in of(Save, desk.told(Save)):
        desk.handle(Saved(save.name, None))
    (history,) = sent(desk.say("b", question(since=7.0)), History)
    assert (history.begin, history.numbers) == (6, ())


def saved_by(desk: EdgeDesk) -> dict[str, bytes]:
    saved: dict[str, bytes] = {}
    for save in desk.told(Save):
        saved.pop(save.name, None)
        if save.data is not None:
            saved[save.name] = save.data
    return saved


# The way.


@pytest.mark.spec("S-103")
def test_a_question_goes_on_toward_each_publisher_and_writes_down_its_way() -> None:
    desk = storing()
    desk.ways.hops |= {"q/1@z": "d", "r/1@z": "d"}
    effects = desk.say("b", question(("q/1@z", 7), ("p/1", 4), ("r/1@z", None)))
    (further,) = sent(effects, Reference, "d")
    assert further.wanted == (("q/1@z", 7), ("r/1@z", None))
    assert further.path == ("z", "b", "a")
    assert [history.numbers for history in sent(effects, History, "b")] == [(5,)]


@pytest.mark.spec("S-102")
def test_an_answer_for_another_broker_is_passed_back_on_the_exact_way() -> None:
    desk = storing()
    history = sent(desk.say("b", question(("p/1", 4), path=("z", "d", "b"))), History)[0]
    assert history.path == ("z", "d")
    (send,) = desk.say("b", history)
    assert (send.to, send.message.path) == ("d", ("z",))


def test_where_no_way_is_known_the_asker_is_told() -> None:
    desk = storing()
    (history,) = sent(desk.say("b", question(("q/1@z", 7))), History)
    assert history.publisher == "q"
    assert "a" in history.problem
    desk.ways.hops["q/1@z"] = "b"
    assert sent(desk.say("b", question(("q/1@z", 7))), History)[0].problem != "", "not back to where it came from"


@pytest.mark.parametrize(
    ("sender", "asked", "reason"),
    [
        ("stranger", question(path=("stranger",)), NOT_A_NEIGHBOUR),
        ("p", question(path=("p",)), NOT_A_NEIGHBOUR),
        ("b", question(path=("z",)), WRONG_PATH),
        ("b", question(path=()), WRONG_PATH),
        ("b", question(path=("a", "b")), WRONG_PATH),
        ("b", question(filter="x >"), WRONG_FILTER),
    ],
)
def test_questions_that_make_no_sense_are_dropped(sender: str, asked: Reference, reason: str) -> None:
    assert drops(storing().say(sender, asked)) == [reason]


@pytest.mark.parametrize(
    "path", [("z",) * (REFERENCE_HOPS_MAX - 1), ("z" * 255,) * (PATH_BYTES_MAX // 255) + ("y" * 127,)]
)
def test_a_question_that_has_come_too_far_is_answered_here_and_goes_no_further(path: tuple[str, ...]) -> None:
    desk = storing()
    desk.know("q/1", hop="d")
    here, far = sent(desk.say("b", question(("p/1", 3), ("q/1@z", None), path=(*path, "b"))), History)
    assert (here.numbers, here.problem, here.path) == ((4, 5), "", path)
    assert (far.advertisement, far.problem, far.path) == ("q/1@z", TOO_FAR, path)


def test_answers_that_make_no_sense_are_dropped() -> None:
    desk = storing()
    history = sent(desk.say("b", question(("p/1", 4))), History)[0]
    assert drops(desk.say("stranger", history)) == [NOT_A_NEIGHBOUR]
    assert drops(desk.say("b", history)) == [NO_WAY_BACK]


def test_a_head_that_cannot_be_read_any_more_is_not_answered() -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    desk.up("p")
    desk.advertise("p", filter="TRUE")
    desk.say("p", PublishMessage(1, 1, False, (b"\x01", encode_head({"x": 2})), (b"", b"")))
    assert answered(desk, question(("p/1", 0))) == (2,)


# What is stored.


@pytest.mark.spec("S-114")
def test_history_is_bounded_by_count_and_what_is_forgotten_is_flagged() -> None:
    desk = storing(EdgeParams(history_count_max=3))
    (history,) = sent(desk.say("b", question(("p/1", 1))), History)
    assert (history.numbers, history.is_truncated) == ((3, 4, 5), True)
    (history,) = sent(desk.say("b", question(("p/1", 2))), History)
    assert (history.numbers, history.is_truncated) == ((3, 4, 5), False)
    (history,) = sent(desk.say("b", question(since=2.0)), History)
    assert history.is_truncated
    (history,) = sent(desk.say("b", question(since=2.5)), History)
    assert not history.is_truncated


def test_of_a_batch_that_is_larger_than_history_the_last_part_is_kept() -> None:
    desk = EdgeDesk(EdgeParams(history_count_max=80))
    desk.neighbours("b")
    desk.up("p")
    desk.advertise("p")
    desk.publish("p", 1, *range(1, 101))
    (history,) = sent(desk.say("b", question(("p/1", 0))), History)
    assert history.numbers == tuple(range(21, 101))
    assert (history.missing, history.is_truncated) == (20, True)


def test_what_is_saved_of_a_batch_in_pieces_is_found_again() -> None:
    params = EdgeParams(history_count_max=80, is_durable=True)
    desk = EdgeDesk(params, start=False)
    desk.note(desk.edge.start(0.0))
    desk.handle(Loaded("", (), None))
    desk.up("p")
    desk.advertise("p")
    desk.publish("p", 1, *range(1, 101))
    saved = [save.name for save in desk.told(Save) if save.name.startswith("publication/")]
    told = [desk.handle(Saved(name, None)) for name in saved]
    assert [each.through for effects in told for each in sent(effects, Accepted)][-1:] == [100]
    again = EdgeDesk(params, start=False)
    again.note(again.edge.start(0.0))
    again.handle(Loaded("", tuple(saved_by(desk).items()), None))
    again.neighbours("b")
    (history,) = sent(again.say("b", question(("p/1", 0))), History)
    assert history.numbers == tuple(range(21, 101))
    assert history.missing == 20


def test_what_is_forgotten_is_counted() -> None:
    desk = storing(EdgeParams(history_count_max=2))
    for asked, missing in ((question(("p/1", 0)), 3), (question(("p/1", 2)), 1), (question(since=2.0), 2)):
        (history,) = sent(desk.say("b", asked), History)
        assert (history.missing, history.is_counted) == (missing, True)
    (history,) = sent(desk.say("b", question(("p/1", 0), filter="x = 1")), History)
    assert (history.missing, history.is_counted) == (3, False), "nobody knows which of them match"


def test_of_much_that_is_forgotten_the_count_is_at_most_so_many() -> None:
    history = PublisherHistory(HistoryStore(EdgeParams()))
    history.base = 0
    for number in range(1, 10 * ERAS_MAX):
        history.forget(number, float(number))
    assert len(history.eras) <= ERAS_MAX
    last = 10 * ERAS_MAX - 1
    assert history.lacks_since(float(last)) == (1, False)
    for at in range(1, last):
        count, is_counted = history.lacks_since(float(at))
        assert count >= last - at + 1 and not is_counted
    assert history.lacks_since(last + 1.0) == (0, True)


@pytest.mark.spec("S-114")
def test_history_is_bounded_by_age() -> None:
    desk = storing(EdgeParams(history_age=3.0))
    desk.fire("sweep", 7.0)
    (history,) = sent(desk.say("b", question(("p/1", 0))), History)
    assert (history.numbers, history.is_truncated) == ((5,), True)


def store_batch(history: PublisherHistory, publications: Publications) -> list[Publications]:
    return history.append(publications, size_bytes(publications))


@pytest.mark.spec("S-114")
def test_history_is_bounded_by_bytes_for_each_publisher_and_for_all() -> None:
    params = EdgeParams(history_bytes_max=100, history_bytes_total_max=150)
    store = HistoryStore(params)
    one, other = PublisherHistory(store), PublisherHistory(store)
    for number in (1, 2, 3):
        store_batch(one, batch("p", [number], number, size=40))
    assert [each.numbers for each in one.batches] == [(2,), (3,)]
    forgotten = store_batch(other, batch("q", [1, 2], 4.0, size=40))
    assert [each.numbers for each in forgotten] == [(1, 2)]
    assert other.lacks_behind(0) and other.lacks_since(4.0)
    assert store.size_bytes == one.size_bytes
    one.check()


@pytest.mark.spec("S-114")
def test_without_history_everything_older_is_flagged() -> None:
    desk = storing(EdgeParams(history_age=0.0))
    (history,) = sent(desk.say("b", question(("p/1", 3))), History)
    assert (history.numbers, history.is_truncated) == ((), True)
    (history,) = sent(desk.say("b", question(since=5.5)), History)
    assert not history.is_truncated


def test_a_publisher_that_published_elsewhere_before_is_not_taken_for_a_new_one() -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    desk.up("p")
    desk.advertise("p")
    desk.publish("p", 9, 9)
    (history,) = sent(desk.say("b", question(("p/1", 5))), History)
    assert (history.numbers, history.is_truncated) == ((9,), True)
    (history,) = sent(desk.say("b", question(("p/1", 8))), History)
    assert not history.is_truncated


def test_a_publisher_whose_numbers_begin_high_in_this_life_lacks_nothing() -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    desk.up("p")
    desk.say("p", Advertise(1, "x >= 0", 1000))
    desk.publish("p", 1000, 9)
    for asked in (question(since=-5.0), question(("p/1", 5))):
        (history,) = sent(desk.say("b", asked), History)
        assert (history.numbers, history.is_truncated) == ((1000,), False)


def test_a_question_of_a_broker_that_is_no_neighbour_any_more_is_not_answered() -> None:
    desk = storing()
    assert of(Send, desk.say("b", question()))
    desk.handle(NeighbourDown("b", 1))
    assert drops(desk.say("b", question())) == [NOT_A_NEIGHBOUR]


def test_questions_with_long_filters_leave_in_messages_that_are_read_quickly() -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    desk.up("c")
    filters = [f"x IN ({', '.join(str(100 * number + n) for n in range(100))})" for number in range(10)]
    for number, filter in enumerate(filters, 1):
        desk.installed("c", number, filter)
    effects = desk.know("p/1", "EXISTS x")
    packs = [pack.questions for pack in sent(effects, PackedReferences)] + [
        (each,) for each in sent(effects, Reference)
    ]
    assert sum(map(len, packs)) == 10
    assert all(len(pack) == 1 or sum(len(each.filter) for each in pack) <= PACK_FILTER_CHARS_MAX for pack in packs)
    assert len(packs) > 1
