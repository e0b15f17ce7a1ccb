"""Both CloudEvents forms give back the very event, and nothing a stranger sends raises anything but UsageError."""

import json
import string
from random import Random
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tidings.model.bounds import INTEGER_MAX, INTEGER_MIN
from tidings.model.cloudevents import from_binary, from_structured, to_binary, to_structured
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.values import Value

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
values: st.SearchStrategy[Value] = st.one_of(
    st.booleans(),
    st.integers(INTEGER_MIN, INTEGER_MAX),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
    st.sampled_from([5, 5.0, True, "true", "5", -0.0, 1e300]),
)
names = st.one_of(
    st.sampled_from(["price", "Price", "PRICE", "x.y", "x_y", "Id", "Data", "SpecVersion", "DataContentType", "1a"]),
    st.text(string.ascii_letters + "_.", min_size=1, max_size=6).map(lambda name: f"a{name}"),
)
content_types = st.sampled_from(
    ["application/json", "Application/X+JSON", "text/plain", "text/plain;charset=latin-1", "image/png", "a"]
)
json_texts = st.recursive(
    st.none() | st.booleans() | st.integers() | texts, lambda inner: st.lists(inner, max_size=3), max_leaves=5
).map(lambda value: json.dumps(value).encode())
payloads = st.one_of(st.binary(max_size=40), texts.map(str.encode), json_texts)


@st.composite
def events(draw: st.DrawFn) -> Event:
    attributes: dict[str, Value] = draw(st.dictionaries(names, values, max_size=6))
    for name in ("id", "source", "type"):
        attributes[name] = draw(texts.filter(bool))
    if draw(st.booleans()):
        attributes["datacontenttype"] = draw(content_types)
    if draw(st.booleans()):
        attributes["time"] = "2026-11-15T20:45:00.25+01:00"
    return Event(attributes, draw(payloads))


def exactly(event: Event) -> object:
    """Everything that must survive, the sign of zero and the exact type of each value included."""
    return sorted((name, type(value).__name__, repr(value)) for name, value in event.attributes.items()), event.payload


@given(events())
def test_structured_form_loses_nothing(event: Event) -> None:
    data = to_structured(event)
    json.loads(data)
    assert exactly(from_structured(data)) == exactly(event)


@given(events())
def test_binary_form_loses_nothing(event: Event) -> None:
    headers, body = to_binary(event)
    assert all(text.isascii() and text.isprintable() for pair in headers.items() for text in pair)
    assert exactly(from_binary(headers, body)) == exactly(event)


@given(events(), st.randoms(use_true_random=False))
def test_letter_case_of_header_names_does_not_matter(event: Event, random: Random) -> None:
    headers, body = to_binary(event)
    shouted = {"".join(random.choice((c.upper(), c.lower())) for c in name): text for name, text in headers.items()}
    assert from_binary(shouted, body) == event


@given(st.binary(max_size=200))
@example(b'{"specversion":"1.0","id":"a","source":"b","type":"c","x":-}')
def test_arbitrary_bytes_are_an_event_or_a_usage_error(data: Any) -> None:
    try:
        event = from_structured(data)
    except UsageError:
        return
    assert from_structured(to_structured(event)) == event


@given(events(), st.data())
def test_damaged_structured_events_are_an_event_or_a_usage_error(event: Event, data: Any) -> None:
    text = bytearray(to_structured(event))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.binary(max_size=3) | st.sampled_from([b'"', b"[", b"e9"])
        )
        if not text:
            break
    try:
        read = from_structured(bytes(text))
    except UsageError:
        return
    assert from_structured(to_structured(read)) == read


odd_names = st.one_of(
    st.sampled_from(["ce-id", "CE-Id", "ce-x", "ce-x-2", "ce-specversion", "content-type", "tidings-types", "ce-data"]),
    st.text(max_size=8),
    st.binary(max_size=2),
)
odd_texts = st.one_of(
    st.text(max_size=10), st.text('%4fC0\\"é ', max_size=8), st.text("sbif:,xX-2", max_size=10), st.integers()
)


@given(st.dictionaries(odd_names, odd_texts, max_size=6), st.booleans(), st.binary(max_size=5) | st.none())
def test_arbitrary_headers_are_an_event_or_a_usage_error(headers: Any, is_complete: bool, body: Any) -> None:
    if is_complete:
        headers = {"ce-specversion": "1.0", "ce-id": "7", "ce-source": "/s", "ce-type": "t", **headers}
    try:
        event = from_binary(headers, body)
    except UsageError:
        return
    assert from_binary(*to_binary(event)) == event
