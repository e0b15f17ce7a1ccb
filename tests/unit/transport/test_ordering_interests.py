"""Which entries of a record are for us."""

import pytest

from tests.worlds.ordering import OURS, OrderingDesk, Publisher
from tidings.matching.bloom import BloomProfile, bits_of_event
from tidings.model.event import Event
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.protocols.transport.ordering.rules import WantedRows
from tidings.protocols.transport.params import OrderingParams, TransportParams
from tidings.protocols.transport.rows import row_of_event, rows_of_filter
from tidings.protocols.transport.signals import GapSeen

PROFILE = BloomProfile(bits=128)
FULL = 2**128 - 1


def interests(*filters: str) -> WantedRows:
    made = WantedRows(PROFILE)
    for subscription, text in enumerate(filters, start=1):
        made.add(subscription, parse(text))
    return made


def row(**attributes: Value) -> int:
    return bits_of_event(Event(attributes), PROFILE)


def test_row_belongs_to_those_whose_filter_may_match() -> None:
    ours = interests("a = 1", "a = 2 OR b = 'x'")
    assert ours.matching(row(a=1)) == (1,)
    assert ours.matching(row(a=2)) == (2,)
    assert ours.matching(row(a=1, b="x")) == (1, 2)
    assert ours.matching(row(c=1)) == ()


def test_row_of_nothing_and_row_that_is_too_full_say_nothing() -> None:
    assert interests("a = 1").matching(0) is None
    assert interests("a = 1").matching(FULL) is None


def test_row_that_says_nothing_is_for_those_who_want_everything() -> None:
    ours = interests("a = 1", "TRUE")
    assert ours.matching(0) == (2,)
    assert ours.matching(FULL) == (2,)
    assert ours.matching(row(a=1)) == (1, 2)


def test_meaning_of_a_row_follows_the_filters() -> None:
    ours = interests("a = 1")
    assert ours.matching(row(a=2)) == ()
    assert ours.add(2, parse("a = 2"))
    assert ours.matching(row(a=2)) == (2,)
    assert not ours.add(2, parse("a = 2"))
    assert ours.remove(2)
    assert not ours.remove(2)
    assert ours.matching(row(a=2)) == ()


def test_meaning_of_a_row_follows_the_profile() -> None:
    ours = interests("a = 1")
    wider = BloomProfile(bits=256, seed=5)
    ours.configure(wider, "")
    assert ours.matching(bits_of_event(Event({"a": 1}), wider)) == (1,)
    assert ours.matching(bits_of_event(Event({"a": 2}), wider)) == ()


def test_event_with_too_many_attributes_has_the_row_that_says_nothing() -> None:
    many = Event({f"attribute{number}": number for number in range(60)})
    assert row_of_event(many, PROFILE) == 0
    assert row_of_event(Event({"a": 1}), PROFILE) == bits_of_event(Event({"a": 1}), PROFILE)


def test_the_id_of_an_event_is_in_no_row() -> None:
    event = Event({"id": "7", "idle": True, "price": 3})
    assert row_of_event(event, PROFILE) == row_of_event(Event({"idle": True, "price": 3}), PROFILE)
    assert rows_of_filter(parse("id = '7' AND price = 3"), PROFILE) == rows_of_filter(parse("price = 3"), PROFILE)


@pytest.mark.spec("T-42")
def test_with_topics_a_row_tells_of_the_topic_alone() -> None:
    small = BloomProfile(bits=64)
    sport = row_of_event(Event({"topic": "sport", "team": "Yankees", "price": 7}), small, "topic")
    assert sport == row_of_event(Event({"topic": "sport"}), small, "topic")
    assert sport != row_of_event(Event({"topic": "news"}), small, "topic")
    assert rows_of_filter(parse("topic = 'sport' AND price > 3"), small, "topic") == (sport,)
    assert row_of_event(Event({"topics": "sport", "price": 7}), small, "topic") == 0


@pytest.mark.spec("T-42")
def test_record_of_topics_tells_whether_a_missing_event_is_ours() -> None:
    params = TransportParams(
        record=5, profile=BloomProfile(bits=64), topic_attribute="topic", ordering=OrderingParams(mode="enhanced")
    )
    publisher, receiver = Publisher(params), OrderingDesk(params, sport="topic = 'sport'")
    for number, topic in enumerate(("sport", "news", "sport", "sport", "sport")):
        publisher.send(number * 0.001, {"topic": topic, "number": number})
    receiver.at(0.100, publisher.heard(1))
    receiver.fix_scale(0.010)
    receiver.at(0.102, publisher.heard(3))
    assert receiver.times() == {1: 0.1, 3: 0.102}
    receiver.at(0.104, publisher.heard(5))
    assert receiver.order() == [1, 3]
    receiver.advance(1.0)
    assert receiver.order() == [1, 3, 5]
    assert list(receiver.lost()) == [4]
    assert [(gap.missing, gap.relevant) for gap in receiver.told(GapSeen)] == [(1, 0), (1, 1)]


def test_rows_of_another_size_are_as_if_there_were_no_record() -> None:
    ours = TransportParams(record=5)
    theirs = TransportParams(record=5, profile=BloomProfile(bits=128))
    publisher, receiver = Publisher(theirs), OrderingDesk(ours)
    publisher.send_all((0.0, 0.001, 0.002), OURS)
    receiver.at(0.100, publisher.heard(1))
    receiver.fix_scale(0.010)
    receiver.at(0.102, publisher.heard(3))
    assert receiver.order() == [1]
    receiver.advance(1.0)
    assert receiver.order() == [1, 3]
    assert receiver.lost() == {}
    assert [(gap.missing, gap.uncovered, gap.relevant) for gap in receiver.told(GapSeen)] == [(1, 1, 0)]
