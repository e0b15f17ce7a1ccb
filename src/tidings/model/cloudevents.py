"""Events as CloudEvents 1.0, in both of its forms, and back without loss.

*Structured*: one JSON object that holds everything.

    {"specversion":"1.0","id":"7","source":"/usgs","type":"quake","magnitude":5.0,"data_base64":"AAE="}

JSON keeps bool, integer and number apart (`5` is an int and `5.0` a float), and member names keep their letter case, so
attributes go in as they are. The payload goes into `data` where that keeps every byte: as the JSON it is when
`datacontenttype` says JSON, as a string when it says UTF-8 text; otherwise into `data_base64`. Where `data` comes
without a `datacontenttype`, JSON is implied, and the event says so from then on (JSON format, 3.1.2). A member that is
null counts as absent (2.2).

*Binary*: HTTP headers and a body that is the payload.

    ce-specversion: 1.0    ce-id: 7    ce-type: quake    ce-magnitude: 5.0    tidings-types: f:magnitude

Values are percent-encoded (HTTP binding, 3.1.3.2); `datacontenttype` travels as `content-type`. Plain headers know
neither types nor letter case, so a header of our own lists each attribute that is not a string with a lower-case name:
a letter for the type (b, i, f, s), a colon, the exact name. Names that differ only in case would share one header; then
all of them are listed, the lower-case one first, and the second one uses `ce-<name>-2`, and so on ('-' is in no name).
Headers that are not listed are strings, which is what other senders of CloudEvents mean.

`specversion` belongs to the envelope: it is written always and is no attribute of the event that is read. Whatever does
not fit is refused with a UsageError that names the attribute; no input raises anything else.
"""

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from urllib.parse import quote, unquote_to_bytes

import msgspec

from tidings.model.bounds import (
    ATTRIBUTE_NAME_CHARS_MAX,
    ATTRIBUTES_MAX,
    NUMBER_TEXT_CHARS_MAX,
    PAYLOAD_BYTES_MAX,
    STRING_BYTES_MAX,
)
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.values import DECIMAL_SYNTAX, INTEGER_SYNTAX, Value, check_name, check_value

STRUCTURED_BYTES_MAX = ATTRIBUTES_MAX * (6 * STRING_BYTES_MAX + ATTRIBUTE_NAME_CHARS_MAX + 8) + 2 * PAYLOAD_BYTES_MAX
"""No event needs more as JSON, even with every character of every string escaped; read before it is parsed."""

HEADER_VALUE_CHARS_MAX = 3 * STRING_BYTES_MAX
"""A header value before percent-decoding."""

TYPES_HEADER = "tidings-types"
TYPES_HEADER_CHARS_MAX = ATTRIBUTES_MAX * (ATTRIBUTE_NAME_CHARS_MAX + 3)
"""Every attribute listed, with its type letter, colon and comma."""

DEPTH_MARGIN = 256
"""A payload nested so deep that this many more levels could not be parsed travels as base64."""

VERSION = "1.0"
REQUIRED = ("id", "source", "type")
PAYLOAD_MEMBERS = ("data", "data_base64")
TYPE_LETTERS: dict[type, str] = {bool: "b", int: "i", float: "f", str: "s"}
PLAIN_IN_HEADERS = "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~"
"""Printable ASCII beside letters and digits, without the space, the double quote and the percent sign."""

HEADER_TEXT = re.compile(r"[\x20-\x7e]*")
MEDIA_TYPE_TEXT = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
CHARSET = re.compile(r";\s*charset\s*=\s*\"?([^\s;\"]+)", re.IGNORECASE)
BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")

object_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


def to_structured(event: Event) -> bytes:
    """The event as one JSON object (media type application/cloudevents+json)."""
    check_complete(event)
    members: dict[str, object] = {"specversion": VERSION, **event.attributes}
    if event.payload:
        content_type = str(event.attributes.get("datacontenttype", ""))
        if is_json(content_type) and is_json_value(event.payload):
            members["data"] = msgspec.Raw(event.payload)
        elif content_type.lower().startswith("text/") and is_utf8_type(content_type) and is_utf8(event.payload):
            members["data"] = event.payload.decode()
        else:
            members["data_base64"] = b64encode(event.payload).decode("ascii")
    return msgspec.json.encode(members)


def from_structured(data: bytes) -> Event:
    """Read one JSON object; every refusal is a UsageError."""
    if type(data) is not bytes:
        raise UsageError(f"data: bytes are needed, not {type(data).__name__}")
    if len(data) > STRUCTURED_BYTES_MAX:
        raise UsageError(f"structured event of {len(data)} bytes, at most {STRUCTURED_BYTES_MAX} are allowed")
    try:
        members = object_decoder.decode(data)
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"structured event: a JSON object is needed ({problem})") from None
    if len(members) > ATTRIBUTES_MAX + 2:  # the version and one member for the payload come on top
        raise UsageError(
            f"structured event with {len(members)} members, at most {ATTRIBUTES_MAX} attributes are allowed"
        )
    payload_members = [(name, members.pop(name)) for name in PAYLOAD_MEMBERS if name in members]
    if len(payload_members) > 1:
        raise UsageError("'data' and 'data_base64' are both there; send one of them")
    attributes: dict[str, Value] = {}
    for name, raw in members.items():
        value = json_value(check_name(name), raw)
        if value is not None:
            attributes[name] = check_value(name, value)
    check_version(attributes.pop("specversion", None), "specversion")
    check_required(attributes)
    return Event(attributes, read_payload(attributes, *payload_members[0]) if payload_members else b"")


def read_payload(attributes: dict[str, Value], member: str, raw: msgspec.Raw) -> bytes:
    """The payload's bytes; names the content type in `attributes` where it was only implied."""
    if member == "data" and is_json(str(attributes.setdefault("datacontenttype", "application/json"))):
        content = bytes(raw)
        if not is_utf8(content):
            raise UsageError("'data': the JSON is not UTF-8")
        return content
    value = json_value(member, raw)
    if type(value) is not str:
        raise UsageError(f"{member!r}: a string is needed, not {type(value).__name__}")
    if member == "data_base64":
        try:
            return b64decode(value, validate=True)
        except (binascii.Error, ValueError) as problem:
            raise UsageError(f"'data_base64': not base64 ({problem})") from None
    if not is_utf8_type(str(attributes["datacontenttype"])):
        raise UsageError("'data': a string cannot hold this charset; send data_base64")
    return value.encode()


def json_value(name: str, raw: msgspec.Raw) -> object:
    try:
        return msgspec.json.decode(raw)
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"attribute {name!r}: {problem}") from None


def to_binary(event: Event) -> tuple[dict[str, str], bytes]:
    """The event as HTTP headers (names in lower case) and body."""
    check_complete(event)
    headers, listed = {"ce-specversion": VERSION}, []
    by_header: dict[str, list[str]] = {"specversion": ["specversion"], "datacontenttype": ["datacontenttype"]}
    for name in event.attributes:
        if name not in ("specversion", "datacontenttype"):
            by_header.setdefault(name.lower(), []).append(name)
    for lower, names in by_header.items():
        # The lower-case name is the one that other readers of CloudEvents look for: it gets the plain header.
        for place, name in enumerate(sorted(names, key=lambda name: (name != lower, name)), start=1):
            if name in ("specversion", "datacontenttype"):
                continue
            value = event.attributes[name]
            headers[header_name(lower, place)] = quote(header_text(value), safe=PLAIN_IN_HEADERS)
            if len(names) > 1 or name != lower or type(value) is not str:
                listed.append(f"{TYPE_LETTERS[type(value)]}:{name}")
    if "datacontenttype" in event.attributes:
        headers["content-type"] = check_media_type(str(event.attributes["datacontenttype"]))
    if listed:
        headers[TYPES_HEADER] = ",".join(listed)
    return headers, event.payload


def from_binary(headers: Mapping[str, str], body: bytes) -> Event:
    """Read HTTP headers, in any letter case, and a body; headers that are not about the event are passed over."""
    if not isinstance(headers, Mapping):
        raise UsageError(f"headers: a mapping of name to value is needed, not {type(headers).__name__}")
    ours = lower_case_headers(headers)
    if len(ours) > ATTRIBUTES_MAX + 2:  # the version and the list of types come on top
        raise UsageError(f"event with {len(ours)} headers, at most {ATTRIBUTES_MAX} attributes are allowed")
    attributes: dict[str, Value] = {}
    check_version(ours.pop("ce-specversion", None), "ce-specversion")
    content_type = ours.pop("content-type", None)
    if content_type is not None:
        attributes["datacontenttype"] = check_media_type(content_type)
    for header, letter, name in listed_types(ours.pop(TYPES_HEADER, "")):
        if header not in ours:
            raise UsageError(f"{TYPES_HEADER}: names {name!r}, but there is no header {header}")
        attributes[name] = value_from_header(name, letter, percent_decoded(name, ours.pop(header)))
    for header, text in ours.items():
        name = header.removeprefix("ce-")
        if name == "datacontenttype" or name in PAYLOAD_MEMBERS:
            raise UsageError(f"header {header}: {name!r} is no attribute; use content-type and the body")
        if check_name(name) in attributes:
            raise UsageError(f"header {header}: the attribute {name!r} is there twice")
        attributes[name] = percent_decoded(name, text)
    check_required(attributes)
    return Event(attributes, body)


def header_name(lower: str, place: int) -> str:
    return f"ce-{lower}" if place == 1 else f"ce-{lower}-{place}"


def lower_case_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that are about the event, by lower-case name."""
    ours: dict[str, str] = {}
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise UsageError(f"header {name!r:.80}: name and value must be str; decode them as latin-1 first")
        lower = name.lower()
        if lower.startswith("ce-") or lower in ("content-type", TYPES_HEADER):
            if lower in ours:
                raise UsageError(f"header {lower[:80]}: there twice; header names do not differ by letter case")
            ours[lower] = value
    return ours


def listed_types(text: str) -> list[tuple[str, str, str]]:
    """Header, type letter and exact attribute name of each entry of the types header."""
    if len(text) > TYPES_HEADER_CHARS_MAX:
        raise UsageError(f"{TYPES_HEADER}: {len(text)} characters, at most {TYPES_HEADER_CHARS_MAX} are allowed")
    entries, names = [], set()
    places = {"specversion": 1, "datacontenttype": 1}
    for entry in text.split(",") if text else []:
        letter, colon, name = entry.strip(" ").partition(":")
        if not colon or letter not in TYPE_LETTERS.values():
            raise UsageError(f"{TYPES_HEADER}: {entry!r:.80} is not a type letter (b, i, f, s), a colon and a name")
        if check_name(name) in names or name in ("specversion", "datacontenttype", *PAYLOAD_MEMBERS):
            raise UsageError(f"{TYPES_HEADER}: {name!r} is there twice or cannot be listed")
        names.add(name)
        lower = name.lower()
        places[lower] = places.get(lower, 0) + 1
        entries.append((header_name(lower, places[lower]), letter, name))
    return entries


def header_text(value: Value) -> str:
    """Canonical CloudEvents text; a float keeps its point, so that it reads back as one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def value_from_header(name: str, letter: str, text: str) -> Value:
    value: Value | None = None
    short = len(text) <= NUMBER_TEXT_CHARS_MAX
    if letter == "s":
        value = text
    elif letter == "b":
        value = {"true": True, "false": False}.get(text)
    elif letter == "i" and short and INTEGER_SYNTAX.fullmatch(text):
        value = int(text)
    elif letter == "f" and short and DECIMAL_SYNTAX.fullmatch(text):
        value = float(text)
    if value is None:
        raise UsageError(f"attribute {name!r}: {text!r:.40} is no value of the type {letter!r} in {TYPES_HEADER}")
    return check_value(name, value)


def percent_decoded(name: str, text: str) -> str:
    if len(text) > HEADER_VALUE_CHARS_MAX:
        raise UsageError(f"attribute {name!r}: header of {len(text)} characters, at most {HEADER_VALUE_CHARS_MAX}")
    if not HEADER_TEXT.fullmatch(text):
        raise UsageError(f"attribute {name!r}: the header holds more than printable ASCII; percent-encode it")
    if len(text) >= 2 and text[0] == text[-1] == '"':  # senders before CloudEvents 1.0.2 quoted instead
        text = re.sub(r"\\(.)", r"\1", text[1:-1])
    if BAD_PERCENT.search(text):
        raise UsageError(f"attribute {name!r}: % without two hexadecimal digits in {text!r:.40}")
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise UsageError(f"attribute {name!r}: the percent-encoded bytes are not UTF-8") from None


def check_complete(event: Event) -> None:
    """What CloudEvents asks of an event that leaves the process."""
    check_required(event.attributes)
    check_version(event.attributes.get("specversion", VERSION), "specversion")
    for name in PAYLOAD_MEMBERS:
        if name in event.attributes:
            raise UsageError(f"attribute {name!r}: CloudEvents keeps this name for the payload; choose another")


def check_required(attributes: Mapping[str, Value]) -> None:
    for name in REQUIRED:
        if name not in attributes:
            raise UsageError(f"attribute {name!r} is missing; CloudEvents requires {', '.join(REQUIRED)}")


def check_version(version: object, name: str) -> None:
    if version != VERSION:
        raise UsageError(f"{name!r} is {version!r:.40}; only CloudEvents {VERSION!r} is spoken here")


def check_media_type(text: str) -> str:
    if not MEDIA_TYPE_TEXT.fullmatch(text):
        raise UsageError(f"attribute 'datacontenttype': {text!r:.80} cannot be a content-type header")
    if text.lower().startswith("application/cloudevents"):
        raise UsageError("content-type: this is a structured event, or a batch of them; read it with from_structured")
    return text


def is_json(content_type: str) -> bool:
    """Media type */json or */*+json; parameters do not matter."""
    subtype = content_type.partition(";")[0].strip().lower().rpartition("/")[2]
    return subtype == "json" or subtype.endswith("+json")


def is_utf8_type(content_type: str) -> bool:
    charset = CHARSET.search(content_type)
    return charset is None or charset[1].lower() in ("utf-8", "utf8", "us-ascii")


def is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_json_value(content: bytes) -> bool:
    """Is it one JSON value that reads back as these very bytes, by a reader with a deeper stack as well?"""
    try:
        raw = msgspec.json.decode(content, type=msgspec.Raw)
        msgspec.json.decode(b"[" * DEPTH_MARGIN + content + b"]" * DEPTH_MARGIN, type=msgspec.Raw)
    except (ValueError, RecursionError):
        return False
    return bytes(raw) == content and is_utf8(content)
