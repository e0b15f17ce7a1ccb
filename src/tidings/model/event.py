"""An event: typed attributes that filters read, and a payload that nobody but the receiver reads.

There is one namespace. The CloudEvents context attributes (`id`, `source`, `type`, `subject`, `time`, ...) are
attributes like any other, so a filter may ask for `type = 'quake' AND magnitude >= 4.5`. An event without `id` or
`source` is legal inside a process; whoever publishes it fills them in, and `(source, id)` is then its identity
everywhere. Nobody changes an event after it was built.
"""

import msgspec

from tidings.model.bounds import ATTRIBUTES_MAX, PAYLOAD_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.model.values import Value, check_name, check_value


class Event(msgspec.Struct, frozen=True):
    """`Event({"type": "quake", "magnitude": 5.1}, b"...")`; refuses what no peer would accept."""

    attributes: dict[str, Value]
    payload: bytes = b""

    def __post_init__(self) -> None:
        if len(self.attributes) > ATTRIBUTES_MAX:
            raise UsageError(f"event with {len(self.attributes)} attributes, at most {ATTRIBUTES_MAX} are allowed")
        if len(self.payload) > PAYLOAD_BYTES_MAX:
            raise UsageError(f"payload of {len(self.payload)} bytes, at most {PAYLOAD_BYTES_MAX} are allowed")
        for name, value in self.attributes.items():
            check_value(check_name(name), value)
