"""What inputs and effects become in a trace."""

from enum import Enum
from typing import Any

import msgspec
import pytest

from tidings.machine.effects import CancelTimer, Connect, Deliver, Drop, Note, Save, Send, SetTimer
from tidings.machine.inputs import Fired, LinkDown, LinkUp, Received, Request, Saved, Signal
from tidings.machine.message import Count, Message, Name
from tidings.model.event import Event
from tidings.model.language.parser import parse
from tidings.pubsub.notes import BlockStored, RepairRequested
from tidings.pubsub.requests import Publish, PublishRequest
from tidings.trace.record import DETAIL_CHARS_MAX, KEY_CHARS_MAX, Record, Rows, Subject
from tidings.trace.things import SEND, LostMessage, add_things, of_effect, of_input, of_thing

QUAKE = Event({"source": "/station", "id": "7", "type": "quake", "magnitude": 5.1}, b"wave")


class Colour(Enum):
    RED = 1


class Ping(Message, frozen=True):
    round: Count


class Digest(Message, frozen=True):
    ids: tuple[Name, ...]


class Forward(Message, frozen=True):
    event: Event
    hops: Count


class Announce(PublishRequest, frozen=True):
    """A protocol's own form of publishing."""

    events: tuple[Event, ...]


class PublishedLater(Request, frozen=True):
    """No request, whatever it is called."""

    event: Event


class Suspected(Signal, frozen=True):
    neighbour: str


class PeerSuspected(Note, frozen=True):
    who: str
    misses: int


class Seen(Note, frozen=True):
    value: Any


def note_detail(value: Any) -> str:
    record = of_effect(0.0, "a", Seen(value))
    assert record is not None
    assert record.detail is not None
    return record.detail


def test_a_received_message_names_sender_type_fields_and_size() -> None:
    assert of_input(1.5, "b", Received("a", Ping(3), 14)) == Record(
        time=1.5, node="b", kind="receive", peer="a", message="Ping", size_bytes=14, detail='{"round":3}'
    )


def test_a_sent_message_is_described_as_the_received_one_will_be() -> None:
    sent, received = (
        of_effect(1.0, "a", Send("b", Digest(("x", "y")))),
        of_input(2.0, "b", Received("a", Digest(("x", "y")))),
    )
    assert sent is not None
    assert received is not None
    assert (sent.kind, sent.node, sent.peer) == ("send", "a", "b")
    assert (sent.message, sent.key, sent.detail) == (received.message, received.key, received.detail)


def test_a_message_about_an_event_has_its_key_and_does_not_repeat_its_attributes() -> None:
    record = of_effect(1.0, "a", Send("b", Forward(QUAKE, 2)))
    assert record is not None
    assert (record.key, record.detail) == ("/station 7", '{"event":"/station 7","hops":2}')


def test_a_publication_has_the_attributes_and_the_delivery_only_the_key() -> None:
    detail = '{"id":"7","magnitude":5.1,"source":"/station","type":"quake"}'
    about: dict[str, Any] = {"message": "Event", "key": "/station 7", "size_bytes": 4}
    assert of_input(1.0, "a", Publish(QUAKE)) == Record(time=1.0, node="a", kind="publish", detail=detail, **about)
    assert of_effect(2.0, "b", Deliver(QUAKE)) == Record(time=2.0, node="b", kind="deliver", **about)


def test_a_delivered_event_without_identity_shows_its_attributes() -> None:
    record = of_effect(2.0, "b", Deliver(Event({"price": 5})))
    assert record is not None
    assert (record.key, record.detail) == (None, '{"price":5}')


def test_a_batch_of_publications_lists_their_keys() -> None:
    record = of_input(1.0, "a", Announce((QUAKE, Event({"id": "8"}))))
    assert record is not None
    assert (record.kind, record.message, record.detail) == ("publish", "Announce", '{"events":["/station 7","8"]}')
    assert of_input(1.0, "a", PublishedLater(QUAKE)) is None


def test_a_drop_has_a_reason() -> None:
    assert of_effect(3.0, "b", Drop(Ping(3), "too late")) == Record(
        time=3.0, node="b", kind="drop", message="Ping", reason="too late", detail='{"round":3}'
    )


def test_what_the_world_loses_names_the_receiver_who_never_saw_it() -> None:
    assert of_thing(3.0, "a", LostMessage("b", Ping(3), "noise")) == Record(
        time=3.0, node="a", kind="drop", peer="b", message="Ping", reason="noise", detail='{"round":3}'
    )


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("round", "round"),
        (("ping", "round"), "ping/round"),
        (("gossip", ("nack", "/station", 7)), "gossip/nack//station/7"),
        (("wait", QUAKE), "wait//station 7"),
        (frozenset({"b", "a", "c"}), '["a","b","c"]'),
        (5, "5"),
    ],
)
def test_a_timer_is_known_by_its_name(key: Any, text: str) -> None:
    assert of_input(1.0, "a", Fired(key)) == Record(time=1.0, node="a", kind="timer", key=text)


def test_links_tell_their_other_end_their_epoch_and_why_they_went_down() -> None:
    up, down = of_input(1.0, "a", LinkUp("b", 2)), of_input(2.0, "a", LinkDown("b", 2, "reset"))
    link: dict[str, Any] = {"node": "a", "kind": "link", "peer": "b", "detail": '{"epoch":2}'}
    assert up == Record(time=1.0, message="LinkUp", **link)
    assert down == Record(time=2.0, message="LinkDown", reason="reset", **link)


def test_a_note_has_its_kind_and_its_fields_in_sorted_order() -> None:
    assert of_effect(1.0, "a", PeerSuspected("b", 3)) == Record(
        time=1.0, node="a", kind="note", message="peer_suspected", detail='{"misses":3,"who":"b"}'
    )


def test_a_note_about_an_event_has_the_key_of_the_event() -> None:
    assert of_effect(1.0, "a", RepairRequested("/station 7", 2)) == Record(
        time=1.0, node="a", kind="note", message="repair_requested", key="/station 7", detail='{"round":2}'
    )


def test_a_note_of_something_stored_has_its_size() -> None:
    assert of_effect(1.0, "a", BlockStored("job", 4096)) == Record(
        time=1.0, node="a", kind="note", message="block_stored", key="job", size_bytes=4096, detail="{}"
    )


@pytest.mark.parametrize(
    "other", [SetTimer("round", 1.0), CancelTimer("round"), Save("x", b""), Connect("b"), Saved("x"), Suspected("b")]
)
def test_what_is_not_for_the_trace_makes_no_record(other: Any) -> None:
    assert of_thing(1.0, "a", other) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b", "a"}, '["a","b"]'),
        ({2: "two", "one": 1}, '{"2":"two","one":1}'),
        (b"\x00\x01", '"2 bytes"'),
        (Colour.RED, '"RED"'),
        (parse("price > 100"), '"price > 100"'),
        (QUAKE, '"/station 7"'),
        (Ping(3), '{"round":3}'),
        (object(), '"object"'),
        (frozenset({frozenset({"b", "a"}), frozenset({"c"})}), '["[\\"a\\",\\"b\\"]","[\\"c\\"]"]'),
        ([[[[[[[[[1]]]]]]]]], '[[[[[[["..."]]]]]]]'),
        (tuple(range(70)), f'[{",".join(str(n) for n in range(64))},"..."]'),
    ],
)
def test_any_value_becomes_text_that_is_the_same_everywhere(value: Any, text: str) -> None:
    assert note_detail(value) == f'{{"value":{text}}}'


def test_a_detail_that_is_too_long_is_cut_and_says_so() -> None:
    record = of_effect(1.0, "a", Send("b", Digest(("x" * 5000,))))
    assert record is not None
    assert record.detail is not None
    assert len(record.detail) <= DETAIL_CHARS_MAX
    fields = msgspec.json.decode(record.detail)
    assert fields["chars"] > 5000
    assert fields["begins"].startswith('{"ids":["xxx')


def test_long_keys_that_begin_alike_stay_different() -> None:
    first, second = (of_input(1.0, "a", Fired("x" * 1000 + end)) for end in "ab")
    assert first is not None
    assert second is not None
    assert first.key != second.key
    assert first.key is not None
    assert len(first.key) == KEY_CHARS_MAX


def test_a_finished_record_passes_within_the_bounds() -> None:
    record = Record(time=1.0, node="", kind="fault", message="partition", detail='{"sides":2}')
    assert of_thing(9.0, "x", record) == record
    long = of_thing(1.0, "", msgspec.structs.replace(record, detail='"' + "x" * 5000 + '"'))
    assert long is not None
    assert len(long.detail or "") <= DETAIL_CHARS_MAX


def subjects_of(messages: list[Any]) -> list[Subject]:
    rows, things = Rows(), [cell for message in messages for cell in (1.0, "a", SEND, "b", message, None)]
    add_things(rows, things, [])
    return [rows.subjects[number] for number in rows.subject_numbers]


def test_small_messages_that_are_equal_are_one_subject() -> None:
    first, second, third = subjects_of([Ping(3), Ping(3), Ping(4)])
    assert first is second
    assert (first.detail, third.detail) == ('{"round":3}', '{"round":4}')


def test_larger_messages_are_one_subject_if_they_are_one_object() -> None:
    digest = Digest(("x", "y"))
    first, second, third = subjects_of([digest, digest, Digest(("x", "y"))])
    assert first is second
    assert first is not third
    assert first == third
