from typing import Any

import pytest

from tidings.model import event as event_module
from tidings.model.bounds import ATTRIBUTES_MAX, INTEGER_MAX, INTEGER_MIN, PAYLOAD_BYTES_MAX, STRING_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.model.event import CONTEXT_NAMES, KNOWN_NAMES_MAX, Event, is_timestamp
from tidings.model.values import Value


def test_context_attributes_are_read_as_properties() -> None:
    event = Event(
        {"id": "7", "source": "/usgs", "type": "quake", "subject": "Alaska", "time": "2018-02-01T00:00:00.5+01:00"}
    )
    assert (event.id, event.source, event.type, event.subject) == ("7", "/usgs", "quake", "Alaska")
    assert event.time == "2018-02-01T00:00:00.5+01:00"
    assert event.key == ("/usgs", "7")


def test_an_event_without_identity_is_legal_inside_a_process() -> None:
    event = Event({"price": 5})
    assert event.key == (None, None)
    assert event.time is None


@pytest.mark.parametrize("name", CONTEXT_NAMES)
@pytest.mark.parametrize("value", ["", 5, 1.5, True])
def test_a_context_attribute_that_is_no_text_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"'{name}'"):
        Event({name: value})


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-15T20:45:00Z",
        "2026-11-15t20:45:00z",
        "2024-02-29T00:00:00+23:59",
        "2000-02-29T00:00:00Z",
        "2016-12-31T23:59:60Z",
        "0000-01-31T00:00:00.000000000001-00:00",
        "2026-04-30T00:00:00Z",
    ],
)
def test_rfc_3339_times_are_accepted_and_kept_as_written(text: str) -> None:
    assert Event({"time": text}).time == text


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-15",
        "2026-11-15T20:45Z",
        "2026-11-15T20:45:00",
        "2026-11-15 20:45:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-11-31T00:00:00Z",
        "2026-11-00T00:00:00Z",
        "2023-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2026-11-15T24:00:00Z",
        "2026-11-15T20:60:00Z",
        "2026-11-15T20:45:61Z",
        "2026-11-15T20:45:00.Z",
        "2026-11-15T20:45:00+24:00",
        "2026-11-15T20:45:00Z\n",
        "٢٠٢٦-11-15T20:45:00Z",
    ],
)
def test_other_times_are_refused(text: str) -> None:
    assert not is_timestamp(text)
    with pytest.raises(UsageError, match="'time'"):
        Event({"time": text})


@pytest.mark.parametrize("value", [INTEGER_MIN, INTEGER_MAX, 1.7976931348623157e308, 5e-324, -0.0, True, "", "é" * 8])
def test_values_up_to_the_bounds_are_kept(value: Any) -> None:
    assert Event({"x": value}).attributes["x"] is value


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        float("-inf"),
        INTEGER_MIN - 1,
        INTEGER_MAX + 1,
        "a" * (STRING_BYTES_MAX + 1),
        "é" * (STRING_BYTES_MAX // 2 + 1),
        "\ud800",
        None,
        b"bytes",
        [1],
        1j,
    ],
)
def test_values_beyond_the_bounds_are_refused_by_name(value: Any) -> None:
    with pytest.raises(UsageError, match="'magnitude'"):
        Event({"x": 1, "magnitude": value})


@pytest.mark.parametrize("name", ["", "a-b", "5", "é", "a b", "a\n", "x" * 129, 5])
def test_a_bad_name_is_refused_also_after_good_ones(name: str) -> None:
    with pytest.raises(UsageError, match="attribute name"):
        Event({"good": 1, name: 1})


def test_too_many_attributes_and_too_long_payloads_are_refused() -> None:
    attributes: dict[str, Value] = {f"a{number}": number for number in range(ATTRIBUTES_MAX)}
    assert len(Event(attributes, b"x" * PAYLOAD_BYTES_MAX).attributes) == ATTRIBUTES_MAX
    with pytest.raises(UsageError, match="129 attributes"):
        Event({**attributes, "one_more": 1})
    with pytest.raises(UsageError, match="payload"):
        Event({}, b"x" * (PAYLOAD_BYTES_MAX + 1))


@pytest.mark.parametrize("payload", [bytearray(b"x"), memoryview(b"x"), "x", None])
def test_a_payload_is_bytes_and_nothing_else(payload: Any) -> None:
    with pytest.raises(UsageError, match="payload"):
        Event({}, payload)


def test_attributes_are_a_dict_and_nothing_else() -> None:
    with pytest.raises(UsageError, match="attributes"):
        Event([("a", 1)])  # type: ignore[arg-type]


def test_the_memory_of_good_names_is_bounded() -> None:
    for number in range(3 * KNOWN_NAMES_MAX // 100):
        Event({f"n{number}_{column}": 1 for column in range(100)})
        assert len(event_module.known_names) <= KNOWN_NAMES_MAX
    Event({"n0_0": 1})
    assert "n0_0" in event_module.known_names


def test_events_compare_and_hash_by_value_and_type() -> None:
    event = Event({"a": 1, "b": "x"}, b"p")
    assert event == Event({"b": "x", "a": 1}, b"p")
    assert hash(event) == hash(Event({"b": "x", "a": 1}, b"p"))
    assert event != Event({"a": 1, "b": "x"}, b"q")
    assert event != Event({"a": 2, "b": "x"}, b"p")
    assert event != Event({"a": 1.0, "b": "x"}, b"p")
    assert event != Event({"a": True, "b": "x"}, b"p")
    assert event != "something else"
    assert len({event, Event({"a": 1, "b": "x"}, b"p"), Event({"a": True, "b": "x"}, b"p")}) == 2


def test_nobody_replaces_a_part_of_an_event() -> None:
    with pytest.raises(AttributeError):
        Event({}).payload = b"other"  # type: ignore[misc]
