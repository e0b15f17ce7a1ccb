"""Events as bytes, and many of them in one message.

What crosses a broker is a batch of publications. Each publication is an event in its encoded form, and stays in the
bytes it came in: a broker decodes it once to see whom it concerns, and passes on the same bytes. A batch on the wire is
an array of byte strings, so that cutting one apart and joining another from the pieces is a copy of memory and never an
encoding.

An encoded event is MessagePack: an array of two, the payload as a byte string, and the attributes as a map with its
names in ascending order. Bools, integers, floats and strings keep their types. The same event gives the same bytes in
every process. Decoding is strict about what a map could hide: a name that occurs twice is refused, and so is everything
that `Event` itself refuses (NaN, integers beyond 64 bit, too many attributes, a time that is none). The payload stands
first because then its length tells where the attributes begin, and too many bytes or names are refused unread.

This lies below the wire because protocols read publications; what encloses a message (code, frame) is `wire`'s affair.
"""

from collections.abc import Iterable
from typing import Annotated

import msgspec

from tidings.machine.message import Message
from tidings.model.bounds import ATTRIBUTES_MAX
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.values import Value

BATCH_BYTES_MAX = 1024 * 1024 - 1024
"""Publications of one batch together, with what precedes each: a frame less some room for what encloses the batch."""

PUBLICATION_HEAD_BYTES_MAX = 5
"""What precedes one publication in a batch: a mark and its length."""

PUBLICATION_BYTES_MAX = BATCH_BYTES_MAX - PUBLICATION_HEAD_BYTES_MAX
"""One encoded event: as much as fits a batch alone."""

ATTRIBUTES_BYTES_MAX = 256 * 1024
"""The attributes of one event, encoded. They are what filters read and are unpacked at every hop; one wide character
makes Python keep a string four times as large as its bytes. What is large belongs into the payload."""

PUBLICATIONS_MAX = 4096
"""Publications in one batch."""

Publication = Annotated[bytes, msgspec.Meta(min_length=1, max_length=PUBLICATION_BYTES_MAX)]
"""An encoded event."""

ARRAY_OF_TWO = 0x92
BYTES_HEADS = {0xC4: 1, 0xC5: 2, 0xC6: 4}
"""The marks of a byte string, and how many bytes of length follow each."""
MAP_HEADS = {0xDE: 2, 0xDF: 4}
SHORT_MAP, SHORT_MAP_END = 0x80, 0x90

encoder = msgspec.msgpack.Encoder(order="deterministic")
decoder = msgspec.msgpack.Decoder(tuple[bytes, Annotated[dict[str, Value], msgspec.Meta(max_length=ATTRIBUTES_MAX)]])


class BadPublication(ValueError):
    """Bytes that are no encoded event; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class PublicationBatch(Message, frozen=True):
    """At most `PUBLICATIONS_MAX` publications of together at most `BATCH_BYTES_MAX`; `batches` keeps to both."""

    publications: Annotated[tuple[Publication, ...], msgspec.Meta(max_length=PUBLICATIONS_MAX)]


def encode_event(event: Event) -> bytes:
    data = encoder.encode((event.payload, event.attributes))
    if len(data) > PUBLICATION_BYTES_MAX:
        raise UsageError(
            f"event of {len(data)} encoded bytes, at most {PUBLICATION_BYTES_MAX} can be published; "
            "publish the payload in pieces, or a reference to it"
        )
    if len(data) - len(event.payload) > ATTRIBUTES_BYTES_MAX:
        raise UsageError(
            f"attributes of about {len(data) - len(event.payload)} encoded bytes, "
            f"at most {ATTRIBUTES_BYTES_MAX} can be published; put what is large into the payload"
        )
    return data


def decode_event(data: bytes | memoryview) -> Event:
    """The event of these bytes, or BadPublication; nothing else is raised whatever the bytes are."""
    try:
        names = count_names(data)
        payload, attributes = decoder.decode(data)
        if len(attributes) != names:
            raise BadPublication("an attribute occurs twice")
        return Event(attributes, payload)
    except IndexError:
        raise BadPublication("cut short") from None
    except (ValueError, RecursionError, MemoryError) as problem:
        raise BadPublication(str(problem)) from None


def count_names(data: bytes | memoryview) -> int:
    """How many attributes are announced, found by stepping over the payload; refuses what is too long to be read."""
    if len(data) > PUBLICATION_BYTES_MAX:
        raise BadPublication(f"{len(data)} bytes, at most {PUBLICATION_BYTES_MAX} are allowed")
    if data[0] != ARRAY_OF_TWO or data[1] not in BYTES_HEADS:
        raise BadPublication("does not begin as an array of two with a payload")
    head = 2 + BYTES_HEADS[data[1]]
    place = head + int.from_bytes(data[2:head])
    if len(data) - place > ATTRIBUTES_BYTES_MAX:
        raise BadPublication(f"attributes of {len(data) - place} bytes, at most {ATTRIBUTES_BYTES_MAX} are allowed")
    mark = data[place]
    if SHORT_MAP <= mark < SHORT_MAP_END:
        return mark - SHORT_MAP
    if mark not in MAP_HEADS:
        raise BadPublication("its attributes are no map")
    return int.from_bytes(data[place + 1 : place + 1 + MAP_HEADS[mark]])


def batches(publications: Iterable[Publication]) -> list[PublicationBatch]:
    """The publications in their order, in as few batches as the bounds allow."""
    made: list[PublicationBatch] = []
    pending: list[Publication] = []
    room = BATCH_BYTES_MAX
    for publication in publications:
        size_bytes = len(publication) + PUBLICATION_HEAD_BYTES_MAX
        if pending and (size_bytes > room or len(pending) == PUBLICATIONS_MAX):
            made.append(PublicationBatch(tuple(pending)))
            pending, room = [], BATCH_BYTES_MAX
        pending.append(publication)
        room -= size_bytes
    if pending:
        made.append(PublicationBatch(tuple(pending)))
    return made
