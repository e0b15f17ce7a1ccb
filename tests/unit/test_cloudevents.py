import json
from typing import Any

import pytest

from tidings.model.bounds import ATTRIBUTES_MAX, PAYLOAD_BYTES_MAX, STRING_BYTES_MAX
from tidings.model.cloudevents import (
    HEADER_VALUE_CHARS_MAX,
    STRUCTURED_BYTES_MAX,
    TYPES_HEADER_CHARS_MAX,
    from_binary,
    from_structured,
    to_binary,
    to_structured,
)
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.values import Value

IDENTITY = {"id": "7", "source": "/usgs", "type": "quake"}
PLAIN_HEADERS = {"ce-specversion": "1.0", "ce-id": "7", "ce-source": "/usgs", "ce-type": "quake"}


def quake(payload: bytes = b"", **attributes: Value) -> Event:
    return Event({**IDENTITY, **attributes}, payload)


def structured(**members: object) -> bytes:
    return json.dumps({"specversion": "1.0", **IDENTITY, **members}).encode()


def test_structured_form_of_a_small_event() -> None:
    assert to_structured(quake(b"\x00\x01", magnitude=5.0)) == (
        b'{"specversion":"1.0","id":"7","source":"/usgs","type":"quake","magnitude":5.0,"data_base64":"AAE="}'
    )


def test_binary_form_of_a_small_event() -> None:
    event = quake(b"\x00\x01", magnitude=5.0, depth=10, felt=True, Station="AK", datacontenttype="image/png")
    assert to_binary(event) == (
        {
            **PLAIN_HEADERS,
            "ce-magnitude": "5.0",
            "ce-depth": "10",
            "ce-felt": "true",
            "ce-station": "AK",
            "content-type": "image/png",
            "tidings-types": "f:magnitude,i:depth,b:felt,s:Station",
        },
        b"\x00\x01",
    )


def test_an_event_of_plain_strings_needs_no_header_of_ours() -> None:
    assert to_binary(quake())[0] == PLAIN_HEADERS


def test_json_payload_is_embedded_byte_for_byte() -> None:
    payload = b'{"b": 1.50,\n "a":[1e400,"\\u00e9"]}'
    data = to_structured(quake(payload, datacontenttype="application/vnd.x+json; charset=utf-8"))
    assert b'"data":' + payload in data
    assert from_structured(data).payload == payload


@pytest.mark.parametrize(
    "payload",
    [b" 5", b"5 ", b"{", b"NaN", b'"\xff"', b"1],[1", b"1 2", b"[" * 100_000 + b"]" * 100_000],
)
def test_payload_that_json_would_not_keep_travels_as_base64(payload: Any) -> None:
    event = quake(payload, datacontenttype="application/json")
    assert "data_base64" in json.loads(to_structured(event))
    assert from_structured(to_structured(event)) == event


def test_text_payload_is_a_string_where_that_keeps_it() -> None:
    event = quake("naïve\x00".encode(), datacontenttype="text/plain; charset=UTF-8")
    assert json.loads(to_structured(event))["data"] == "naïve\x00"
    assert from_structured(to_structured(event)) == event
    for payload, content_type in [(b"\xff", "text/plain"), (b"abc", "text/plain; charset=latin-1")]:
        assert "data_base64" in json.loads(to_structured(quake(payload, datacontenttype=content_type)))


def test_data_without_a_content_type_is_json_and_says_so() -> None:
    event = from_structured(structured(data="just a string"))
    assert event.payload == b'"just a string"'
    assert event.attributes["datacontenttype"] == "application/json"


def test_a_null_payload_is_not_an_absent_one() -> None:
    assert from_structured(structured(data=None)).payload == b"null"
    assert from_structured(structured()).payload == b""


def test_data_string_of_another_type_is_its_text() -> None:
    event = from_structured(structured(datacontenttype="application/xml", data="<a é/>"))
    assert event.payload == "<a é/>".encode()


def test_a_null_attribute_counts_as_absent() -> None:
    assert from_structured(structured(subject=None, extension=None)) == quake()


def test_numbers_keep_their_type() -> None:
    event = from_structured(
        b'{"specversion":"1.0","id":"7","source":"/usgs","type":"quake","a":5,"b":5.0,"c":1e2,"d":-0.0}'
    )
    assert [(type(event.attributes[name]), repr(event.attributes[name])) for name in "abcd"] == [
        (int, "5"),
        (float, "5.0"),
        (float, "100.0"),
        (float, "-0.0"),
    ]


def test_a_plain_cloud_event_over_http_has_strings_only() -> None:
    headers = {"CE-SpecVersion": "1.0", "Ce-Id": "7", "ce-source": "/usgs", "ce-type": "quake", "ce-depth": "10"}
    event = from_binary({**headers, "Content-Type": "text/plain", "Host": "example.org", "X-é": "\x00"}, b"hello")
    assert event == quake(b"hello", depth="10", datacontenttype="text/plain")


def test_percent_encoding_follows_the_http_binding() -> None:
    event = quake(subject="Euro € 😀", note='100% "sure"\n~')
    headers, _ = to_binary(event)
    assert headers["ce-subject"] == "Euro%20%E2%82%AC%20%F0%9F%98%80"
    assert headers["ce-note"] == "100%25%20%22sure%22%0A~"
    assert from_binary(headers, b"") == event


@pytest.mark.parametrize(
    ("text", "value"),
    [("%41%2c", "A,"), ("%e2%82%ac", "€"), ('"a b"', "a b"), (r'"a \"b\" %25"', 'a "b" %'), ("a b", "a b"), ("", "")],
)
def test_other_spellings_of_a_header_are_read(text: str, value: Any) -> None:
    assert from_binary({**PLAIN_HEADERS, "ce-x": text}, b"").attributes["x"] == value


def test_names_that_differ_only_in_case_use_numbered_headers() -> None:
    event = quake(Id=1, ID=2.0, SpecVersion="x", DataContentType=True, Data="y", datacontenttype="a/b")
    headers, body = to_binary(event)
    assert headers["ce-id"] == "7"
    assert headers["ce-specversion"] == "1.0"
    assert headers["content-type"] == "a/b"
    assert from_binary(headers, body) == event
    assert from_structured(to_structured(event)) == event


def test_the_version_is_written_by_the_envelope() -> None:
    event = quake(specversion="1.0")
    assert from_structured(to_structured(event)) == quake()
    assert from_binary(*to_binary(event)) == quake()
    for write in (to_structured, to_binary):
        with pytest.raises(UsageError, match="specversion"):
            write(quake(specversion="0.3"))


@pytest.mark.parametrize("write", [to_structured, to_binary])
@pytest.mark.parametrize("name", ["id", "source", "type"])
def test_an_event_without_identity_is_not_written(write: Any, name: str) -> None:
    attributes: dict[str, Value] = {key: value for key, value in IDENTITY.items() if key != name}
    with pytest.raises(UsageError, match=f"'{name}'"):
        write(Event(attributes))


@pytest.mark.parametrize("write", [to_structured, to_binary])
@pytest.mark.parametrize("name", ["data", "data_base64"])
def test_names_of_the_payload_are_no_attributes(write: Any, name: str) -> None:
    with pytest.raises(UsageError, match=f"'{name}'"):
        write(Event({**IDENTITY, name: "x"}))


@pytest.mark.parametrize("content_type", ["a/b\r\nx: y", " a/b", "a/b ", "a/é", "application/cloudevents+json"])
def test_a_content_type_that_no_header_can_hold_is_refused(content_type: str) -> None:
    with pytest.raises(UsageError, match="content"):
        to_binary(quake(datacontenttype=content_type))


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"", "JSON"),
        (b"[]", "JSON"),
        (b"null", "JSON"),
        (b'{"a":1', "JSON"),
        (b"\xff", "JSON"),
        (b"[" * 100_000, "JSON"),
        (b'{"a":' * 100_000, "JSON"),
        (structured()[:-1] + b', "data": ' + b"[" * 100_000, "JSON"),
        (structured(specversion="0.3"), "specversion"),
        (structured(specversion=1.0), "specversion"),
        (b'{"id":"7","source":"/usgs","type":"quake"}', "specversion"),
        (structured(id=None), "'id'"),
        (structured(id=7), "'id'"),
        (structured(id=""), "'id'"),
        (structured(time="now"), "'time'"),
        (structured(depth=[1]), "'depth'"),
        (structured(depth={"a": 1}), "'depth'"),
        (structured(depth=2**63), "'depth'"),
        (structured()[:-1] + b',"depth":' + b"1" * 5000 + b"}", "'depth'"),
        (structured()[:-1] + b',"depth":NaN}', "JSON"),
        (structured()[:-1] + b',"depth":1e400}', "'depth'"),
        (structured()[:-1] + b',"depth":"\xff"}', "'depth'"),
        (structured()[:-1] + b',"depth":"\\ud800"}', "JSON|'depth'"),
        (structured()[:-1] + b',"data":"\xff"}', "'data'"),
        (structured(note="x" * (STRING_BYTES_MAX + 1)), "'note'"),
        (structured(**{"a-b": 1}), "'a-b'"),
        (structured(**{f"a{number}": 1 for number in range(ATTRIBUTES_MAX)}), "attributes"),
        (structured(data=1, data_base64="AA=="), "data_base64"),
        (structured(data_base64="A"), "data_base64"),
        (structured(data_base64="AA==\n"), "data_base64"),
        (structured(data_base64="é"), "data_base64"),
        (structured(data_base64=5), "data_base64"),
        (structured(data=5, datacontenttype="text/plain"), "'data'"),
        (structured(data="é", datacontenttype="text/plain; charset=latin-1"), "'data'"),
        (structured(data="x" * PAYLOAD_BYTES_MAX), "payload"),
        (b" " * (STRUCTURED_BYTES_MAX + 1), "at most"),
        ("{}", "bytes"),
    ],
)
def test_malformed_structured_events_are_refused_by_name(data: Any, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        from_structured(data)


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({"ce-specversion": "0.3"}, "specversion"),
        ({"ce-ID": "8"}, "ce-id"),
        ({"CONTENT-TYPE": "a/b", "content-type": "a/b"}, "content-type"),
        ({"content-type": "application/cloudevents+json"}, "structured"),
        ({"content-type": ""}, "datacontenttype"),
        ({"ce-datacontenttype": "a/b"}, "datacontenttype"),
        ({"ce-data": "x"}, "'data'"),
        ({"ce-": "x"}, "name"),
        ({"ce-a-b": "x"}, "'a-b'"),
        ({"ce-x": "%"}, "'x'"),
        ({"ce-x": "%4"}, "'x'"),
        ({"ce-x": "%C0%A0"}, "'x'"),
        ({"ce-x": "€"}, "'x'"),
        ({"ce-x": "a\r\nb"}, "'x'"),
        ({"ce-x": "a" * (STRING_BYTES_MAX + 1)}, "'x'"),
        ({"ce-x": "a" * (HEADER_VALUE_CHARS_MAX + 1)}, "'x'"),
        ({"ce-time": "now"}, "'time'"),
        ({"ce-subject": ""}, "'subject'"),
        ({"ce-x": 5}, "ce-x"),
        ({b"ce-x": "5"}, "ce-x"),
        ({"tidings-types": "i:x"}, "'x'"),
        ({"tidings-types": "x"}, "tidings-types"),
        ({"tidings-types": "q:x", "ce-x": "1"}, "tidings-types"),
        ({"tidings-types": "i:x,i:x", "ce-x": "1", "ce-x-2": "1"}, "'x'"),
        ({"tidings-types": "i:a-b", "ce-a-b": "1"}, "'a-b'"),
        ({"tidings-types": "s:data", "ce-data": "1"}, "'data'"),
        ({"tidings-types": "s:datacontenttype", "ce-datacontenttype-2": "a/b"}, "'datacontenttype'"),
        ({"tidings-types": "i:x", "ce-x": "1.5"}, "'x'"),
        ({"tidings-types": "i:x", "ce-x": "9223372036854775808"}, "'x'"),
        ({"tidings-types": "i:x", "ce-x": "1" * 5000}, "'x'"),
        ({"tidings-types": "f:x", "ce-x": "nan"}, "'x'"),
        ({"tidings-types": "f:x", "ce-x": "1e999"}, "'x'"),
        ({"tidings-types": "b:x", "ce-x": "TRUE"}, "'x'"),
        ({"tidings-types": "i:id"}, "'id'"),
        ({"tidings-types": "s:X,s:x", "ce-x": "1"}, "'x'"),
        ({"tidings-types": "s:" + "x" * TYPES_HEADER_CHARS_MAX}, "tidings-types"),
        ({f"ce-a{number}": "1" for number in range(ATTRIBUTES_MAX)}, "attributes"),
    ],
)
def test_malformed_headers_are_refused_by_name(headers: Any, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        from_binary({**PLAIN_HEADERS, **headers}, b"")


@pytest.mark.parametrize("missing", ["ce-specversion", "ce-id", "ce-source", "ce-type"])
def test_a_required_header_that_is_missing_is_named(missing: str) -> None:
    headers = {name: value for name, value in PLAIN_HEADERS.items() if name != missing}
    with pytest.raises(UsageError, match=missing.removeprefix("ce-")):
        from_binary(headers, b"")


def test_wrong_kinds_of_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="headers"):
        from_binary([("ce-id", "7")], b"")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="payload"):
        from_binary(PLAIN_HEADERS, "text")  # type: ignore[arg-type]
