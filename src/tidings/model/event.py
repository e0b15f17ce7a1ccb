"""An event: typed attributes that filters read, and a payload that nobody but the receiver reads.

There is one namespace. The CloudEvents context attributes (`id`, `source`, `type`, `subject`, `time`, ...) are
attributes like any other, so a filter may ask for `type = 'quake' AND magnitude >= 4.5`. An event without `id` or
`source` is legal inside a process; whoever publishes it fills them in, and `(source, id)` is then its identity
everywhere. Nobody changes an event after it was built.

Everything is checked when an event is built, so nothing behind it checks again. This runs for each event that enters a
process, and the attributes of one stream hardly vary: names that passed once are remembered (a bounded number of them),
and each value pays for one look at its type.

Two events are equal when they hold the same attributes, of the same types, and the same payload; `True`, `1` and `1.0`
are different values here, since filters tell the first from the others. The hash is made from the whole value and not
from `(source, id)`: events that nobody has named yet would all share one hash.
"""

import re
from calendar import isleap

import msgspec

from tidings.model.bounds import ATTRIBUTES_MAX, INTEGER_MAX, INTEGER_MIN, PAYLOAD_BYTES_MAX, STRING_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.model.values import Value, check_name, check_value

CONTEXT_NAMES = ("id", "source", "type", "subject", "time", "datacontenttype", "dataschema")
"""Attributes that CloudEvents defines; where present they are non-empty strings."""

KNOWN_NAMES_MAX = 4096
"""Attribute names remembered as well formed; when there are more, all are forgotten and learned again."""

TIMESTAMP_SYNTAX = re.compile(
    r"(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
    r"[Tt](?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?"
    r"(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)
MONTHS_OF_30_DAYS = ("04", "06", "09", "11")

known_names: set[str] = set()


class Event(msgspec.Struct, frozen=True):
    """`Event({"type": "quake", "magnitude": 5.1}, b"...")`; refuses what no peer would accept."""

    attributes: dict[str, Value]
    payload: bytes = b""

    def __post_init__(self) -> None:
        attributes, payload = self.attributes, self.payload
        if type(attributes) is not dict:
            raise UsageError(f"attributes: a dict of name and value is needed, not {type(attributes).__name__}")
        if type(payload) is not bytes:
            raise UsageError(f"payload: bytes are needed, not {type(payload).__name__}")
        if len(attributes) > ATTRIBUTES_MAX:
            raise UsageError(f"event with {len(attributes)} attributes, at most {ATTRIBUTES_MAX} are allowed")
        if len(payload) > PAYLOAD_BYTES_MAX:
            raise UsageError(f"payload of {len(payload)} bytes, at most {PAYLOAD_BYTES_MAX} are allowed")
        if not known_names.issuperset(attributes):
            learn_names(attributes)
        for name, value in attributes.items():
            # The common cases in line; whatever fails them is looked at, and refused, by check_value.
            kind = type(value)
            if kind is float:
                fits = value - value == 0.0  # type: ignore[operator]
            elif kind is int:
                fits = INTEGER_MIN <= value <= INTEGER_MAX  # type: ignore[operator]
            elif kind is str:
                fits = len(value) <= STRING_BYTES_MAX and value.isascii()  # type: ignore[arg-type, union-attr]
            else:
                fits = kind is bool
            if not fits:
                check_value(name, value)
        for name in CONTEXT_NAMES:
            if name in attributes:
                check_context(name, attributes[name])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Event):
            return NotImplemented
        theirs = other.attributes
        return (
            self.payload == other.payload
            and self.attributes == theirs
            and all(type(value) is type(theirs[name]) for name, value in self.attributes.items())
        )

    def __hash__(self) -> int:
        return hash((frozenset(self.attributes.items()), self.payload))

    @property
    def id(self) -> str | None:
        return self.context("id")

    @property
    def source(self) -> str | None:
        return self.context("source")

    @property
    def type(self) -> str | None:
        return self.context("type")

    @property
    def subject(self) -> str | None:
        return self.context("subject")

    @property
    def time(self) -> str | None:
        """When it happened, as the RFC 3339 text it came in."""
        return self.context("time")

    @property
    def key(self) -> tuple[str | None, str | None]:
        """`(source, id)`, the identity by which duplicates are known."""
        return self.context("source"), self.context("id")

    def context(self, name: str) -> str | None:
        return self.attributes.get(name)  # type: ignore[return-value]


def learn_names(attributes: dict[str, Value]) -> None:
    for name in attributes:
        check_name(name)
    if len(known_names) + len(attributes) > KNOWN_NAMES_MAX:
        known_names.clear()
    known_names.update(attributes)


def check_context(name: str, value: Value) -> None:
    if type(value) is not str or not value:
        raise UsageError(f"attribute {name!r}: CloudEvents wants a non-empty string here, not {value!r:.40}")
    if name == "time" and not is_timestamp(value):
        raise UsageError(f"attribute 'time': {value!r:.40} is no RFC 3339 time; write it as 2026-11-15T20:45:00Z")


def is_timestamp(text: str) -> bool:
    """RFC 3339 `date-time`: a day that exists, a leap second allowed, the offset required."""
    fields = TIMESTAMP_SYNTAX.fullmatch(text)
    if fields is None:
        return False
    year, month, day = fields.groups()
    if month == "02":
        return day <= ("29" if isleap(int(year)) else "28")
    return day != "31" or month not in MONTHS_OF_30_DAYS
