"""Request filters and request messages."""

from random import Random

import pytest

from tests.worlds.recovery import PARAMS, RecoveryWorld
from tidings.matching.bloom import (
    FLAG_NAME,
    BloomProfile,
    bits_of_conjunction,
    bits_of_event,
    bits_of_tags,
    bits_superset,
    message_bits_match_filter_bits,
)
from tidings.model.event import Event
from tidings.model.language.parser import parse
from tidings.protocols.routing.destinations.knowledge import rows_of as drp_rows_of
from tidings.protocols.transport.marks import BIT, DOMAIN, MARK, OF, Kind
from tidings.protocols.transport.recovery.requester import (
    FILTER_BITS_MAX,
    FILTERS_MAX,
    REQUEST_BITS_MAX,
    bits_in,
    publisher_filter,
    request_filter,
    request_head,
    rows_of,
)
from tidings.protocols.transport.rows import row_of_event
from tidings.pubsub.publications import event_of

PROFILE = PARAMS.profile
YANKEES = parse("team = 'Yankees'")
SPORT = parse("news = 'sport'")
MATCH = Event({"news": "sport", "team": "Yankees"})


def row(text: str) -> int:
    (conjunction,) = parse(text).conjunctions
    return bits_of_conjunction(conjunction, PROFILE)


def request_for(event: Event, domain: str = "") -> Event:
    return event_of(request_head(99, bits_of_event(event, PROFILE), domain), b"")


@pytest.mark.spec("T-50")
def test_a_request_filter_asks_for_the_marker_and_for_each_bit_of_the_row_once() -> None:
    bits = row("team = 'Yankees' AND price > 5")
    (conjunction,) = parse(request_filter(bits)).conjunctions
    named = [constraint.name for constraint in conjunction if constraint.present]
    assert sorted(named) == sorted([MARK, *(f"{BIT}{place}" for place in range(PROFILE.bits) if bits >> place & 1)])
    (marker,) = [constraint for constraint in conjunction if constraint.name == MARK]
    assert marker.accepts("request") and not marker.accepts("data") and not marker.accepts("repair")
    assert [constraint.name for constraint in conjunction if not constraint.present] == [DOMAIN]


@pytest.mark.spec("T-50")
def test_a_filter_for_everything_asks_for_all_requests() -> None:
    assert rows_of([parse("TRUE")], PROFILE) == (0,)
    assert parse(request_filter(0)).matches(request_for(MATCH))


@pytest.mark.spec("T-51")
def test_a_request_reaches_everybody_whose_filter_matches_the_lost_event() -> None:
    event = Event({"a": 5, "b": "x", "c": True})
    for text in (
        "a = 5",
        "a > 1",
        "b = 'x' AND c = TRUE",
        "EXISTS c",
        "TRUE",
        "b LIKE 'x%'",
        "a = 5 AND b = 'x' AND c",
    ):
        for bits in rows_of([parse(text)], PROFILE):
            assert parse(text).matches(event) and parse(request_filter(bits)).matches(request_for(event))
    assert not parse(request_filter(row("a = 6"))).matches(request_for(event))


@pytest.mark.spec("T-52")
def test_alice_hears_what_bob_asks_for_though_their_filters_have_nothing_in_common() -> None:
    world = RecoveryWorld(1)
    world.add(1, "team = 'Yankees'")
    world.add(2, "news = 'sport'")
    world.add(3, "team = 'Mets'")
    world.publish(0, MATCH.attributes)
    world.publish(1, MATCH.attributes, misses=(2,))
    world.miss(2, 1, MATCH.attributes)
    world.run(1.0)
    assert world.nodes[1].requests_heard == 1 and world.nodes[3].requests_heard == 0
    assert world.recoveries() == [(2, 1)]


@pytest.mark.spec("T-52")
def test_copying_the_requesters_own_attributes_would_miss_alice() -> None:
    naive = parse("reliable = 'request' AND team = 'Yankees'")
    assert not naive.matches(Event({"reliable": "request", "news": "sport"}))
    assert SPORT.matches(Event({"reliable": "request", **MATCH.attributes}))  # an ordinary filter takes it for an event


@pytest.mark.spec("T-53")
@pytest.mark.parametrize("text", ["team = 'Yankees'", "news = 'sport'", "EXISTS team", "team != 'Mets'", "price > 0"])
def test_a_request_does_not_match_ordinary_filters(text: str) -> None:
    assert not parse(text).matches(request_for(MATCH))


@pytest.mark.spec("T-53")
def test_a_request_has_no_attribute_but_reserved_ones() -> None:
    attributes = request_for(MATCH).attributes
    assert all(name.startswith("tidings_") for name in attributes)
    assert attributes[MARK] == Kind.REQUEST.value and attributes[OF] == 99


@pytest.mark.spec("T-63")
def test_requests_stay_inside_their_domain() -> None:
    ours, theirs, none = (parse(request_filter(row("team = 'Yankees'"), name)) for name in ("x", "it's", ""))
    assert [each.matches(request_for(MATCH, "x")) for each in (ours, theirs, none)] == [True, False, False]
    assert [each.matches(request_for(MATCH, "it's")) for each in (ours, theirs, none)] == [False, True, False]
    assert [each.matches(request_for(MATCH)) for each in (ours, theirs, none)] == [False, False, True]
    assert parse(publisher_filter(99, "x")).matches(request_for(MATCH, "x"))
    assert not parse(publisher_filter(99)).matches(request_for(MATCH, "x"))


def test_publishers_ask_for_requests_for_their_own_events() -> None:
    assert parse(publisher_filter(99)).matches(request_for(MATCH))
    assert not parse(publisher_filter(98)).matches(request_for(MATCH))


def test_what_a_wider_row_includes_is_not_asked_for_twice() -> None:
    rows = rows_of([parse("a = 1 AND b = 2"), parse("a = 1"), parse("a = 1 OR c = 3")], PROFILE)
    assert sorted(rows) == sorted([row("a = 1"), row("c = 3")])


def test_a_node_with_very_many_filters_hears_all_requests() -> None:
    filters = [parse(f"a = {value}") for value in range(FILTERS_MAX + 1)]
    assert len(rows_of(filters[:FILTERS_MAX], BloomProfile(1024))) == FILTERS_MAX
    assert rows_of(filters, BloomProfile(1024)) == (0,)


def test_a_row_with_more_bits_than_an_event_may_have_attributes_is_asked_of_its_publisher() -> None:
    full = (1 << REQUEST_BITS_MAX) - 1
    assert len(event_of(request_head(99, full, "x"), b"").attributes) == REQUEST_BITS_MAX + 3
    assert set(event_of(request_head(99, full << 1 | 1), b"").attributes) == {OF, MARK}


def test_a_filter_with_very_many_bits_is_widened_until_brokers_can_parse_it() -> None:
    wide = parse(request_filter((1 << 255) - 1, "a domain"))
    request = event_of(request_head(99, (1 << FILTER_BITS_MAX) - 1, "a domain"), b"")
    assert wide.matches(request)


def test_places_are_listed_from_the_lowest() -> None:
    assert list(bits_in(0)) == []
    assert list(bits_in(1 << 255 | 0b101)) == [0, 2, 255]


def test_substrates_know_the_names_of_bits() -> None:
    assert FLAG_NAME == BIT


# What requests cost a network that routes by Bloom rows (G-15).


def brokers_reached(
    requests_bits: list[int], rows: list[tuple[int, ...]], profile: BloomProfile, as_flags: bool
) -> float:
    """Brokers with these request filters that a home broker sends a request to, on average."""

    def rename(text: str) -> str:
        return text if as_flags else text.replace(BIT, "plain_")

    filters = [[parse(rename(request_filter(each))) for each in some] for some in rows]
    known = [drp_rows_of(some, profile, 1000) for some in filters]
    reached = 0
    for bits in requests_bits:
        attributes = {rename(name): value for name, value in event_of(request_head(99, bits), b"").attributes.items()}
        message = bits_of_event(Event(attributes), profile)
        reached += sum(any(message_bits_match_filter_bits(message, row) for row in some) for some in known)
    return reached / len(requests_bits)


def test_requests_reach_hardly_more_brokers_than_have_volunteers_for_them() -> None:
    """46 brokers with five clients each; events of ten attributes, rows of 256 bits."""
    random, profile = Random(1), BloomProfile(256)

    def value() -> str:
        return f"v{min(int(random.paretovariate(0.7)), 50)}"

    events = [Event({f"a{place}": value() for place in range(10)}) for _ in range(60)]
    rows = [
        rows_of(
            [parse(" AND ".join(f"a{place} = '{value()}'" for place in random.sample(range(10), 2))) for _ in range(5)],
            profile,
        )
        for _ in range(46)
    ]
    lost = [bits_of_event(event, profile) for event in events]
    wanted = sum(any(message_bits_match_filter_bits(bits, row) for row in some) for bits in lost for some in rows)
    plain = brokers_reached(lost, rows, profile, as_flags=False)
    flags = brokers_reached(lost, rows, profile, as_flags=True)
    print(f"of 46 brokers {wanted / 60:.1f} have volunteers; plain names reach {plain:.1f}, flags {flags:.1f}")
    assert plain > 40 and flags < 1.15 * wanted / 60


def test_flags_have_a_place_of_their_own_each() -> None:
    profile = BloomProfile(128, seed=3)
    places = {bits_of_tags([f"B|{FLAG_NAME}{number}"], profile) for number in range(128)}
    assert len(places) == 128 and all(place.bit_count() == 1 for place in places)


def test_where_records_tell_topics_requests_reach_those_who_want_the_topic() -> None:
    wanted, event = parse("topic = 'a' AND price > 3"), Event({"topic": "a", "price": 5})
    (row,) = rows_of([wanted], PROFILE, "topic")
    assert bits_superset(row_of_event(event, PROFILE, "topic"), row)
    assert not bits_superset(row_of_event(event, PROFILE, "topic"), rows_of([wanted], PROFILE)[0])
