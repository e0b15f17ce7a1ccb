"""What an application gives to `publish`, brought into one form: attributes, and a payload of bytes.

A payload is opaque: nobody on the way looks into it, so it is bytes, or something that has bytes (a `bytearray`, a
`memoryview`, an array). A value that JSON can say goes into `json=`; it is written as JSON, and the event says so in
its `datacontenttype`. Everything else is refused here, where the program that made the mistake is told; a broker would
refuse it only after `publish` has returned.
"""

import json as json_format
from typing import Any

from msgspec import UNSET, UnsetType

from tidings.model.cloudevents import is_json
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.values import Value

CONTENT_TYPE, JSON = "datacontenttype", "application/json"

Payload = bytes | bytearray | memoryview
Given = dict[str, Value] | Event


def contents(given: Given, payload: Payload, json: Any | UnsetType = UNSET) -> tuple[dict[str, Value], bytes]:
    """Attributes and payload, as they are sent; UsageError for a payload that cannot be. Attributes are checked when
    they are encoded."""
    if isinstance(given, Event):
        if json is not UNSET or len(payload):
            raise UsageError("publish: an Event has its own payload; give its attributes, or make it with the payload")
        return given.attributes, given.payload
    if json is UNSET:
        return given, bytes_of(payload)
    if type(payload) is not bytes or payload:
        raise UsageError("publish: payload and json= are both given, and an event has one payload; leave one out")
    if type(given) is not dict:
        return given, b""
    content_type = given.get(CONTENT_TYPE, JSON)
    if not (isinstance(content_type, str) and is_json(content_type)):
        raise UsageError(f"publish: json= makes JSON, and {CONTENT_TYPE} says {content_type!r:.40}; leave that out")
    return {**given, CONTENT_TYPE: content_type}, json_bytes(json)


def bytes_of(payload: Any) -> bytes:
    if type(payload) is bytes:
        return payload
    try:
        return memoryview(payload).tobytes()
    except TypeError:
        advice = "payload.encode()" if isinstance(payload, str) else "bytes"
        raise UsageError(
            f"publish: the payload is of type {type(payload).__name__}, and bytes are needed; give {advice}, or json= "
            "for a value that is to be sent as JSON"
        ) from None


def json_bytes(value: Any) -> bytes:
    try:
        return json_format.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as problem:
        raise UsageError(f"publish: json= cannot be written as JSON: {problem}; give what JSON has") from None
