"""Events as bytes, and many of them in one message.

What crosses a broker is a batch of publications of one publisher. Each publication has a *head*, its encoded
attributes, which brokers read, and a payload, which nobody but the receiver reads. Both stay in the bytes they came in:
a broker looks at a head once to see whom it concerns, and passes on the same bytes. On the wire a batch is three arrays
side by side (numbers, heads, payloads), so that cutting one apart and joining another from the pieces is a copy of
memory and never an encoding, and equal heads are recognised without being decoded.

A head is MessagePack: a map with its names in ascending order. Bools, integers, floats and strings keep their types.
The same attributes give the same bytes in every process. Decoding is strict about what a map could hide: a name that
occurs twice is refused, and so is everything that `Event` itself refuses (NaN, integers beyond 64 bit, too many
attributes, a time that is none).

A whole event on its own is an array of two, the payload as a byte string and then its head. The payload stands first
because then its length tells where the attributes begin, and too many bytes or names are refused unread.

This lies below the wire because protocols read publications; what encloses a message (code, frame) is `wire`'s affair.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Annotated

import msgspec

from tidings.machine.message import Count, Message, Name, Real
from tidings.model.bounds import (
    ATTRIBUTES_BYTES_MAX,
    ATTRIBUTES_MAX,
    BATCH_BYTES_MAX,
    PIECE_OVERHEAD_BYTES_MAX,
    PUBLICATION_BYTES_MAX,
    PUBLICATIONS_MAX,
)
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.values import Value

HEADS_KEPT, HEAD_KEPT_BYTES_MAX = 1024, 4096
"""Heads that a process has read and remembers, and how long one may be; when there are more, all are forgotten."""

Head = Annotated[bytes, msgspec.Meta(min_length=1, max_length=ATTRIBUTES_BYTES_MAX)]
"""The encoded attributes of an event."""

Payload = Annotated[bytes, msgspec.Meta(max_length=PUBLICATION_BYTES_MAX)]

Heads = Annotated[tuple[Head, ...], msgspec.Meta(max_length=PUBLICATIONS_MAX)]
Payloads = Annotated[tuple[Payload, ...], msgspec.Meta(max_length=PUBLICATIONS_MAX)]
Numbers = Annotated[tuple[Count, ...], msgspec.Meta(max_length=PUBLICATIONS_MAX)]

ARRAY_OF_TWO = 0x92
BYTES_HEADS = {0xC4: 1, 0xC5: 2, 0xC6: 4}
"""The marks of a byte string, and how many bytes of length follow each."""
MAP_HEADS = {0xDE: 2, 0xDF: 4}
SHORT_MAP, SHORT_MAP_END = 0x80, 0x90

encoder = msgspec.msgpack.Encoder(order="deterministic")
Attributes = Annotated[dict[str, Value], msgspec.Meta(max_length=ATTRIBUTES_MAX)]
decoder = msgspec.msgpack.Decoder(tuple[bytes, Attributes])
head_decoder = msgspec.msgpack.Decoder(Attributes)


UNEVEN = "as many numbers, heads and payloads are needed"
"""What stands side by side is equally many."""


class BadPublication(ValueError):
    """Bytes that are no encoded event; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Publications(Message, frozen=True):
    """Publications of one publisher under one advertisement, in its order. The broker that accepted them from the
    publisher fills in `accepted_at`, the time of day there. Nobody on the way changes any of it; a broker only picks
    those that the next one wants."""

    publisher: Name
    advertisement: Name
    accepted_at: Real
    receipt: Count
    """Where it is not 0, the sender wants to hear `Reached(receipt)` when all these are where they are wanted."""
    numbers: Numbers
    """The publisher's own numbers of them, ascending, with holes where others were not wanted here."""
    heads: Heads
    payloads: Payloads

    def __post_init__(self) -> None:
        # A ValueError, since the bytes may come from anybody.
        if not len(self.numbers) == len(self.heads) == len(self.payloads):
            raise ValueError(UNEVEN)


class PublicationsAround(Publications, frozen=True):
    """The same, of which some had to go around a failure: they may come on any way and in any order, and again by the
    way on which they are missing."""


def encode_head(attributes: dict[str, Value]) -> bytes:
    """The attributes of an event that was checked."""
    data = encoder.encode(attributes)
    if len(data) > ATTRIBUTES_BYTES_MAX:
        raise UsageError(
            f"attributes of {len(data)} encoded bytes, at most {ATTRIBUTES_BYTES_MAX} can be published; "
            "put what is large into the payload"
        )
    return data


known_heads: dict[bytes, Event] = {}


def read_head(head: bytes) -> Event:
    """The event of a head, without its payload, or BadPublication whatever the bytes are. The parts of a broker look at
    a head one after the other; so the last ones are remembered, and a process decodes each once. For reading only: an
    application, which might change what it gets, is given an event of its own (`event_of`)."""
    event = known_heads.get(head)
    if event is None:
        event = event_of(head, b"")
        if len(head) <= HEAD_KEPT_BYTES_MAX:
            if len(known_heads) >= HEADS_KEPT:
                known_heads.clear()
            known_heads[head] = event
    return event


def decode_head(head: bytes) -> dict[str, Value]:
    """The attributes, checked as `Event` checks them, or BadPublication whatever the bytes are."""
    return event_of(head, b"").attributes


def event_of(head: bytes, payload: bytes) -> Event:
    """The event of these bytes, or BadPublication."""
    try:
        if len(head) > ATTRIBUTES_BYTES_MAX:
            raise BadPublication(f"attributes of {len(head)} bytes, at most {ATTRIBUTES_BYTES_MAX} are allowed")
        attributes = head_decoder.decode(head)
        if len(attributes) != names_announced(head, 0):
            raise BadPublication("an attribute occurs twice")
        return Event(attributes, payload)
    except IndexError:
        raise BadPublication("cut short") from None
    except (ValueError, RecursionError, MemoryError) as problem:
        raise BadPublication(str(problem)) from None


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
    return names_announced(data, place)


def names_announced(data: bytes | memoryview, place: int) -> int:
    mark = data[place]
    if SHORT_MAP <= mark < SHORT_MAP_END:
        return mark - SHORT_MAP
    if mark not in MAP_HEADS:
        raise BadPublication("its attributes are no map")
    return int.from_bytes(data[place + 1 : place + 1 + MAP_HEADS[mark]])


def pick(batch: Publications, places: Sequence[int], receipt: int) -> Publications:
    """Those at these places, at least one, ascending, under this receipt (0 for none); the batch itself if that is
    all of it."""
    if len(places) == len(batch.numbers) and receipt == batch.receipt:
        return batch
    if len(places) == 1:
        place = places[0]
        numbers, heads, payloads = (batch.numbers[place],), (batch.heads[place],), (batch.payloads[place],)
    else:
        get = itemgetter(*places)
        numbers, heads, payloads = get(batch.numbers), get(batch.heads), get(batch.payloads)
    kind = type(batch)
    return kind(batch.publisher, batch.advertisement, batch.accepted_at, receipt, numbers, heads, payloads)


def cut(batch: Publications, part: slice, receipt: int) -> Publications:
    """Neighbouring ones, under this receipt."""
    return type(batch)(
        batch.publisher,
        batch.advertisement,
        batch.accepted_at,
        receipt,
        batch.numbers[part],
        batch.heads[part],
        batch.payloads[part],
    )


def pieces(sizes_bytes: Iterable[int]) -> list[slice]:
    """Which neighbouring publications of these sizes (head and payload together) go into one batch: as few batches as
    the bounds allow, every publication in one."""
    made: list[slice] = []
    begin, room, place = 0, BATCH_BYTES_MAX, 0
    for place, size_bytes in enumerate(sizes_bytes):
        taken = size_bytes + PIECE_OVERHEAD_BYTES_MAX
        if place > begin and (taken > room or place - begin == PUBLICATIONS_MAX):
            made.append(slice(begin, place))
            begin, room = place, BATCH_BYTES_MAX
        room -= taken
    if room < BATCH_BYTES_MAX:
        made.append(slice(begin, place + 1))
    return made
