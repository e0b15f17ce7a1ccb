"""Lives of a publisher at an edge: processes of one name, one after the other or at the same time."""

import pytest

from tests.worlds.desk import drops, of, sent
from tests.worlds.edge import EdgeDesk, forwarded
from tidings.machine.effects import Effect, Send
from tidings.model.identity import life_of, name_of
from tidings.protocols.delivery.edge.acceptance import ONE_LIFE
from tidings.protocols.delivery.edge.namesakes import TOLD_MAX
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.references import NOT_A_NEIGHBOUR, WRONG_PATH
from tidings.protocols.delivery.messages import (
    Advertise,
    Fetch,
    FetchFar,
    NamesakeFar,
    PublisherLife,
    Reference,
    Refusal,
)
from tidings.pubsub.client import Accepted, Namesake
from tidings.pubsub.notes import NamesakeFound
from tidings.pubsub.signals import Forward, Offer


def live(desk: EdgeDesk, life: str, client: str = "p") -> list[Effect]:
    """A process connects under this name and advertises."""
    desk.up(client)
    desk.say(client, PublisherLife(life))
    return desk.say(client, Advertise(1, "x >= 0"))


def publishers(effects: list[Effect]) -> list[str]:
    return [effect.batch.publisher for effect in of(Forward, effects)]


def test_a_life_is_read_back_from_its_name() -> None:
    assert life_of("p", "k3") == "p~k3" and name_of("p~k3") == "p"
    assert life_of("p", "") == name_of("p") == "p"


def test_a_process_that_begins_with_lower_numbers_than_the_one_before_publishes_all_the_same() -> None:
    desk = EdgeDesk()
    live(desk, "one")
    assert publishers(desk.publish("p", 1000, 1, 2)) == ["p~one"]
    desk.down("p")
    effects = live(desk, "two")
    assert [offer.advertisement for offer in of(Offer, effects)] == ["p~two/1@a"]
    effects = desk.publish("p", 7, 3)
    assert publishers(effects) == ["p~two"] and forwarded(effects) == [(7,)]
    assert sent(effects, Accepted) == [Accepted(7)]


def test_a_process_that_comes_back_is_recognised_with_what_it_published() -> None:
    desk = EdgeDesk()
    live(desk, "one")
    desk.publish("p", 1, 1, 2)
    desk.down("p")
    live(desk, "one")
    effects = desk.publish("p", 1, 1, 2)
    assert forwarded(effects) == [] and sent(effects, Accepted) == [Accepted(2)]
    assert desk.edge.publishers.lives == {"p": 1}


def test_one_connection_is_one_life() -> None:
    desk = EdgeDesk()
    live(desk, "one")
    assert drops(desk.say("p", PublisherLife("two"))) == [ONE_LIFE]
    assert publishers(desk.publish("p", 1, 1)) == ["p~one"]


def test_nobody_takes_the_name_of_a_life() -> None:
    desk = EdgeDesk()
    desk.up("p~one")
    (refusal,) = sent(desk.say("p~one", Advertise(1, "x >= 0")), Refusal)
    assert "~" in refusal.reason and not refusal.may_retry


def test_lives_of_one_name_are_bounded_and_forgotten_with_their_history() -> None:
    desk = EdgeDesk(EdgeParams(lives_max=2, history_age=10.0))
    for life in ("one", "two"):
        live(desk, life)
        desk.down("p")
    (refusal,) = sent(live(desk, "three"), Refusal)
    assert "2 processes" in refusal.reason
    live(desk, "one", "q")
    desk.fire("sweep", 20.0)
    assert not sent(live(desk, "three"), Refusal)
    assert desk.edge.publishers.lives == {"p": 1, "q": 1}


def test_a_position_without_a_life_holds_for_all_lives_of_the_name() -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    desk.up("c")
    desk.subscribe("c", guarantee="reference", after=(("p", 7), ("p~one", 3)))
    desk.settle()
    effects = [*desk.know("p~one/1@z"), *desk.know("p~two/1@z")]
    wanted = [each for question in sent(effects, Reference) for each in question.wanted]
    assert dict(wanted) == {"p~one/1@z": 3, "p~two/1@z": 7}


# Two at once, at one broker.


def told(effects: list[Effect]) -> list[Namesake]:
    return sent(effects, Namesake)


def test_a_process_that_is_started_again_has_no_namesake() -> None:
    desk = EdgeDesk()
    live(desk, "one")
    desk.down("p")
    assert told(live(desk, "two")) == []
    desk.down("p")
    assert told(live(desk, "two")) == []


def test_two_that_take_each_others_place_are_both_told() -> None:
    desk = EdgeDesk()
    live(desk, "one")
    assert told(live(desk, "two")) == []
    effects = live(desk, "one")
    assert told(effects) == [Namesake("p~two", "a")]
    assert of(NamesakeFound, effects) == [NamesakeFound("p~one", "p~two", "a")]
    assert told(live(desk, "two")) == [Namesake("p~one", "a")]


# Two at once, at two brokers.


def test_the_broker_of_a_namesake_is_told_and_tells_its_client() -> None:
    here, there = EdgeDesk(name="a"), EdgeDesk(name="z")
    here.neighbours("b")
    there.neighbours("b")
    live(here, "one")
    live(there, "two")
    (send,) = of(Send, here.know("p~two/1@z"))
    assert send == Send("b", NamesakeFar("p~two/1@z", "p~one", "a", ("a",)))
    on_the_way = NamesakeFar("p~two/1@z", "p~one", "a", ("a", "b"))
    assert told(there.say("b", on_the_way)) == [Namesake("p~one", "a")]
    assert there.say("b", on_the_way) == [], "once is enough"


def test_who_advertises_after_its_namesake_is_known_warns_it_too() -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    desk.know("p~two/1@z")
    desk.know("p~two/2@z")
    assert [far.advertisement for far in sent(live(desk, "one"), NamesakeFar)] == ["p~two/2@z"]
    desk.forget("p~two/1")
    desk.forget("p~two/2")
    desk.down("p")
    assert sent(live(desk, "one"), NamesakeFar) == []


def test_nobody_is_told_of_a_process_that_has_left() -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    live(desk, "one")
    desk.down("p")
    assert desk.know("p~two/1@z") == []
    assert desk.say("b", NamesakeFar("p~one/1@a", "p~two", "z", ("z", "b"))) == []


def test_a_process_that_moved_is_no_namesake_of_itself() -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    live(desk, "one")
    assert desk.say("b", NamesakeFar("p~one/1@a", "p~one", "z", ("z", "b"))) == []


def test_a_warning_goes_on_toward_the_advertisement_and_never_in_circles() -> None:
    desk = EdgeDesk()
    desk.neighbours("b", "c")
    desk.know("p~two/1@z", hop="c")
    warning = NamesakeFar("p~two/1@z", "p~one", "y", ("y", "b"))
    (send,) = of(Send, desk.say("b", warning))
    assert (send.to, send.message.path) == ("c", ("y", "b", "a"))
    assert drops(desk.say("d", warning)) == [NOT_A_NEIGHBOUR]
    assert drops(desk.say("c", warning)) == [WRONG_PATH]
    assert drops(desk.say("b", NamesakeFar("p~two/1@z", "p~one", "y", ("y", "a", "b")))) == [WRONG_PATH]
    assert "no way" in drops(desk.say("b", NamesakeFar("p~six/1@z", "p~one", "y", ("y", "b"))))[0]


@pytest.mark.parametrize("count", [TOLD_MAX, TOLD_MAX + 3])
def test_a_client_is_told_of_so_many_namesakes_and_no_more(count: int) -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    live(desk, "one")
    effects = []
    for number in range(count):
        effects += desk.say("b", NamesakeFar("p~one/1@a", f"p~{number}", "z", ("z", "b")))
    assert len(told(effects)) == TOLD_MAX


# Reading.


def test_a_name_that_had_one_life_is_read_by_itself_and_one_that_had_several_by_one_of_them() -> None:
    desk = EdgeDesk()
    desk.neighbours("b")
    desk.up("c")
    desk.know("p~one/1@z")
    (question,) = sent(desk.say("c", Fetch(1, "TRUE", "p", None, None, 5, 10)), FetchFar)
    assert question.advertisement == "p~one/1@z"
    desk.know("p~two/1@z")
    (refusal,) = sent(desk.say("c", Fetch(2, "TRUE", "p", None, None, 5, 10)), Refusal)
    assert "p~one, p~two" in refusal.reason
    assert sent(desk.say("c", Fetch(3, "TRUE", "p~two", None, None, 5, 10)), FetchFar)
