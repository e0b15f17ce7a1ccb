"""Laws of recovery: who hears a request, and a machine that strangers write to."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.test_bloom import accepts, some_conjunction, some_event
from tests.worlds.desk import Desk, of
from tests.worlds.recovery import PUBLISHER, STREAM, UnpacedRecovery, event, params_with
from tidings.machine.inputs import Fired
from tidings.matching.bloom import (
    FLAG_NAME,
    BloomProfile,
    bits_of_conjunction,
    bits_of_event,
    filter_bits_cover,
    message_bits_match_filter_bits,
    tags_of_conjunction,
    tags_of_event,
)
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.model.sets.conjunction import covers_conjunction
from tidings.model.sets.constraint import Constraint
from tidings.protocols.transport.headers import Data, encode_data
from tidings.protocols.transport.marks import Kind, mark
from tidings.protocols.transport.messages import LossRepair, LossRequest
from tidings.protocols.transport.recovery.requester import request_filter, request_head, rows_of
from tidings.protocols.transport.signals import (
    CarriedEvent,
    Configure,
    Departed,
    Emit,
    EventLost,
    Heard,
    Listen,
    Recalled,
    Recovered,
    RoundTrip,
    StopListening,
    StreamGone,
    Told,
)
from tidings.pubsub.publications import encode_head, event_of

PROFILE = BloomProfile(bits=128)
FLAGS = tuple(f"{FLAG_NAME}{number}" for number in (0, 1, 7, 127, 128, "x", "9" * 30))


@pytest.mark.spec("T-51")
def test_a_request_reaches_every_volunteer_whose_filter_matches_the_event(examples: int) -> None:
    random, matches = Random(examples), 0
    for _ in range(examples * 10):
        lost, conjunction = some_event(random), some_conjunction(random)
        if not accepts(conjunction, lost):
            continue
        matches += 1
        request = event_of(request_head(PUBLISHER, bits_of_event(lost, PROFILE)), b"")
        (row,) = rows_of([Filter((conjunction,))], PROFILE)
        assert parse(request_filter(row)).matches(request), (conjunction, lost)
    assert matches > examples / 2


def some_flags(random: Random, constraint: bool) -> Any:
    chosen = [name for name in FLAGS if random.random() < 0.4]
    if constraint:
        made = [Constraint(name, truth=random.choice((None, True, False))) for name in chosen]
        return tuple(made + [Constraint(name, present=False) for name in FLAGS[:1] if name not in chosen])
    return {name: random.choice((True, False, 1, "true")) for name in chosen}


@pytest.mark.spec("T-6", "T-7")
def test_the_laws_of_tags_and_bits_hold_for_flags_too(examples: int) -> None:
    random, matches, coverings = Random(examples), 0, 0
    for _ in range(examples * 20):
        flagged = Event({**some_event(random).attributes, **some_flags(random, constraint=False)})
        narrow = tuple(each for each in some_flags(random, constraint=True) if random.random() < 0.5)
        wide = tuple(each for each in narrow if random.random() < 0.5)
        if accepts(narrow, flagged):
            matches += 1
            assert set(tags_of_conjunction(narrow)) <= set(tags_of_event(flagged))
            bits = bits_of_conjunction(narrow, PROFILE)
            assert message_bits_match_filter_bits(bits_of_event(flagged, PROFILE), bits)
        if covers_conjunction(wide, narrow):
            coverings += 1
            assert set(tags_of_conjunction(wide)) <= set(tags_of_conjunction(narrow))
            assert filter_bits_cover(bits_of_conjunction(wide, PROFILE), bits_of_conjunction(narrow, PROFILE))
    assert matches > examples and coverings > examples


# A machine that strangers write to.

numbers = st.integers(0, 12)
wild = st.sampled_from((0, 1, 5, 2**32 - 1))
spans = st.sampled_from((0.0, 1e-9, 0.05, 3600.0))
ids = st.sampled_from((1, 2, 7, PUBLISHER))
streams = st.sampled_from((STREAM, ("y", PUBLISHER), ("", 7), ("z", 3)))
heads = st.sampled_from((encode_head({"a": 1}), encode_head({"a": 2}), b"", b"\xff", b"\x81\xa1a\xc0"))
contents = st.builds(
    CarriedEvent,
    heads,
    st.just(b"p"),
    st.just("z"),
    st.integers(0, 20),
    st.just(0.0),
    st.sampled_from(((), (1,), (1, 2), (9,))),
)
headers = st.builds(Data, ids, numbers, spans)
requests = st.builds(
    LossRequest,
    ids,
    ids,
    numbers,
    spans,
    spans,
    spans,
    st.integers(0, 2**128 - 1),
    st.just(16),
    wild,
    ids,
    spans,
    spans,
)
repairs = st.builds(LossRepair, ids, spans, ids, spans, spans, headers, heads)
stored = st.builds(
    lambda head, header: CarriedEvent(mark(head, Kind.DATA) if head else b"", encode_data(header) + b"p", "z", 5),
    heads,
    headers,
)
filters = st.sampled_from(tuple(parse(text) for text in ("a = 1", "a > 0", "TRUE", "a = 1 OR b = 2")))
configured = st.sampled_from(
    tuple(
        Configure(params_with(**fields))
        for fields in (
            {},
            {"tuning": False},
            {"repair_mode": "unicast", "own_cache": 1},
            {"repair_mode": "auto", "cache_total": 3, "requests_max": 2},
            {"rounds_max": 1, "uses_history": False, "publisher_repairs": False},
        )
    )
)
inputs = st.one_of(
    st.builds(Heard, streams, numbers, headers, contents),
    st.builds(
        EventLost, streams, numbers, st.integers(0, 2**128 - 1), spans, st.sampled_from(((1,), (1, 2), (), (9,)))
    ),
    st.builds(Told, requests, contents, st.one_of(st.none(), streams), numbers),
    st.builds(Told, repairs, contents, st.one_of(st.none(), streams), numbers, st.booleans()),
    st.builds(Recovered, streams, numbers, contents, st.just("late")),
    st.builds(Recalled, streams, numbers, st.lists(stored, max_size=3).map(tuple), st.just("")),
    st.builds(RoundTrip, streams, st.sampled_from((-1.0, 0.0, 0.1, 1e9))),
    st.builds(Departed, numbers, headers, heads, st.just(b"p"), st.just(0)),
    st.builds(StreamGone, streams),
    st.builds(Listen, st.sampled_from((1, 2)), filters, st.just(True), st.booleans()),
    st.builds(StopListening, st.sampled_from((1, 2))),
    configured,
    st.just("fire"),
    st.just("stale"),
    st.just("crash"),
)


@given(st.lists(st.tuples(st.sampled_from((0.0, 0.01, 0.3, 5.0)), inputs), max_size=80), st.integers(0, 100))
def test_whatever_is_written_to_it_a_machine_stays_whole(steps: list[tuple[float, Any]], seed: int) -> None:
    desk = Desk(UnpacedRecovery(7, params_with(), Random(seed)))
    fired: list[Any] = ["review"]
    desk.handle(Listen(1, parse("a = 1"), is_reliable=True))
    for wait, input in steps:
        desk.now += wait
        if input == "crash":
            desk.timers.clear()
            effects = desk.note(desk.machine.start(desk.now))
        elif input == "stale":
            effects = desk.handle(Fired(fired[-1]))
        elif input == "fire":
            if not desk.timers:
                continue
            fired.append(min(desk.timers, key=lambda key: desk.timers[key]))
            effects = desk.fire_next()
        else:
            effects = desk.handle(input)
        for recovered in of(Recovered, effects):
            assert recovered.content.subscriptions, "for nobody"
        for outgoing in of(Emit, effects):
            event_of(outgoing.head, b"")
    for key in list(desk.machine.losses.requester.losses):
        assert ("request", *key) in desk.timers, "a loss that nothing will end"


@given(st.integers(0, 2**32), st.integers(2, 8), st.floats(0.0, 0.5))
def test_every_loss_ends(seed: int, rounds: int, share: float) -> None:
    """Recovered or given up; nothing is left to fire but the review of caches."""
    desk, random = Desk(UnpacedRecovery(7, params_with(rounds_max=rounds), Random(seed)), starts=False), Random(seed)
    desk.handle(Listen(1, parse("a = 1"), is_reliable=True))
    header, head, row = event(0, {"a": 1})
    content = CarriedEvent(head, b"p", "z", 1, 0.0, (1,))
    desk.handle(Heard(STREAM, 0, header, content))
    for sequence in range(1, 20):
        desk.handle(EventLost(STREAM, sequence, row, 0.0, (1,)))
    # Without the review nothing is left to fire in the end.
    while desk.timers.keys() - {"review"}:
        desk.timers.pop("review", None)
        key: Any = min(desk.timers, key=lambda key: desk.timers[key])
        desk.fire_next()
        if random.random() < share and key[0] == "request":
            repair = LossRepair(9, 0.0, 7, 0.0, 0.0, Data(PUBLISHER, key[2], 0.0))
            desk.handle(Told(repair, content, STREAM, key[2], True))
    machine, ended = desk.machine, len(desk.told(Recovered))
    losses = machine.losses
    assert machine.recovered_count + losses.given_up == 19 and not losses.requester.losses
    assert ended == machine.recovered_count and losses.requester.sent <= 19 * rounds
