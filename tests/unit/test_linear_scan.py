import pytest

from tidings.matching.linear import LinearScan
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.sets.constraint import Constraint, NumberSet, above, below


def price(number: NumberSet) -> Filter:
    return Filter(((Constraint("price", number=number),),))


CHEAP, DEAR, ANY, NOTHING = price(below(10)), price(above(10)), Filter(((),)), Filter(())


@pytest.fixture
def scan() -> LinearScan:
    scan = LinearScan()
    scan.add("cheap", CHEAP)
    scan.add("dear", DEAR)
    scan.add("any", ANY)
    scan.add("nothing", NOTHING)
    return scan


def test_keys_come_in_the_order_in_which_they_were_added(scan: LinearScan) -> None:
    assert scan.match(Event({"price": 5})) == ["cheap", "any"]
    assert scan.match(Event({"price": 50})) == ["dear", "any"]
    assert scan.match(Event({"price": 10})) == ["any"]
    assert scan.match(Event({})) == ["any"]


def test_a_batch_is_answered_event_by_event(scan: LinearScan) -> None:
    assert scan.match_batch([Event({"price": 5}), Event({}), Event({"price": 50})]) == [
        ["cheap", "any"],
        ["any"],
        ["dear", "any"],
    ]
    assert scan.match_batch([]) == []


def test_adding_a_key_again_replaces_its_filter_and_moves_it_to_the_end(scan: LinearScan) -> None:
    scan.add("cheap", DEAR)
    assert len(scan) == 4
    assert scan.match(Event({"price": 50})) == ["dear", "any", "cheap"]
    assert scan.match(Event({"price": 5})) == ["any"]


def test_a_discarded_key_is_gone_at_once(scan: LinearScan) -> None:
    assert scan.discard("any") is True
    assert scan.discard("any") is False
    assert "any" not in scan
    assert "cheap" in scan
    assert len(scan) == 3
    assert scan.match(Event({"price": 5})) == ["cheap"]


def test_many_are_added_as_one_by_one() -> None:
    scan = LinearScan()
    scan.add_many([(1, CHEAP), (2, ANY), (1, ANY)])
    assert scan.match(Event({"price": 50})) == [2, 1]


def test_an_event_goes_to_each_link_that_has_a_match_in_the_order_the_links_came() -> None:
    scan = LinearScan()
    scan.add("s1", CHEAP, link="west")
    scan.add("s2", ANY, link="east")
    scan.add("s3", CHEAP, link="east")
    scan.add("s4", DEAR, link="north")
    scan.add("local", ANY)
    events = [Event({"price": 5}), Event({"price": 50}), Event({})]
    assert scan.match_links(events) == [["west", "east"], ["east", "north"], ["east"]]


def test_a_filter_moves_to_another_link_when_added_again() -> None:
    scan = LinearScan()
    scan.add("s1", CHEAP, link=1)
    scan.add("s1", CHEAP, link=2)
    assert scan.match_links([Event({"price": 5})]) == [[2]]
    scan.add("s1", CHEAP)
    assert scan.match_links([Event({"price": 5})]) == [[]]


def test_a_link_without_filters_is_forgotten() -> None:
    scan = LinearScan()
    scan.add("s1", ANY, link=1)
    scan.discard("s1")
    assert scan.match_links([Event({})]) == [[]]
    assert scan.keys_of_link == {}
