"""How the transport marks what it sends: reserved attributes.

The transport's header stands before the payload, where no broker looks. That it is there is said by one attribute,
`tidings_transport`, whose value says what kind of message it is; without this mark nobody could tell a header from a
payload that looks like one. Whoever receives a marked event takes mark and header off, whether or not it uses the
transport itself; so an application never sees either (T-16). What is not marked is as it would be without a transport
(T-17).

Messages that are not for everybody are addressed by content, like all others:

    tidings_to          the transport that it is for: feedback, echoes, repairs for one receiver
    tidings_of          the publisher that it is about: requests for a lost event, repairs of one, digests
    tidings_bit_N       bit N of the Bloom row of a lost event is set (recovery/requester.py)
    tidings_domain      the domain inside which a request stays

Application events must not use these names. Heads are MessagePack maps (`pubsub/publications.py`), so a mark is put
behind the last attribute and taken off there without reading the rest.

**Without a transport.** Marks and headers are taken off, and messages of the transport itself, repairs included, are
left out: an application sees what was published, byte for byte, and each event once (T-16). That anything is marked at
all is seen by one search in the heads of a whole batch.
"""

from collections.abc import Sequence
from enum import Enum

import msgspec

from tidings.model.bounds import ATTRIBUTES_MAX
from tidings.model.values import Value
from tidings.protocols.transport.headers import BASIC, COMPRESSED, DATA_FIRST, FURTHER, FURTHER_FLOW, HEADER_BYTES
from tidings.pubsub.publications import encode_head, names_announced

RESERVED = "tidings_"
"""How all reserved names begin."""

MARK = "tidings_transport"
TO = "tidings_to"
OF = "tidings_of"
DOMAIN = "tidings_domain"
BIT = "tidings_bit_"

SHORT_MAP, SHORT_MAP_LAST = 0x80, 0x8F
MAP_16 = 0xDE


class Kind(Enum):
    DATA = "data"
    REPAIR = "repair"
    REQUEST = "request"
    FEEDBACK = "feedback"
    ECHO_REQUEST = "echo_request"
    ECHO_REPLY = "echo_reply"
    DIGEST = "digest"
    ACKNOWLEDGEMENT = "acknowledgement"


encode = msgspec.msgpack.Encoder().encode
NAME_BYTES = encode(MARK)
OF_BYTES = encode(OF)
TAILS = {kind: NAME_BYTES + encode(kind.value) for kind in Kind}
KINDS = {tail: kind for kind, tail in TAILS.items()}
DATA_TAIL = TAILS[Kind.DATA]


def mark(head: bytes, kind: Kind) -> bytes:
    """The same attributes, and the mark. At least one place must be left among the attributes of the event."""
    return lengthened(head, TAILS[kind])


def mark_repair(head: bytes, publisher: int) -> bytes:
    """The mark, and before it whose event it was, so that its publisher hears of the repair; an event that has as many
    attributes as there may be goes without."""
    has_room = names_announced(head, 0) + 2 <= ATTRIBUTES_MAX
    return mark(lengthened(head, OF_BYTES + encode(publisher)) if has_room else head, Kind.REPAIR)


def without_publisher(head: bytes, publisher: int) -> bytes:
    """The head of a repair that was unmarked, as the application wrote it."""
    tail = OF_BYTES + encode(publisher)
    return shortened(head, len(tail)) if head.endswith(tail) else head


def lengthened(head: bytes, tail: bytes) -> bytes:
    """With a further attribute behind the last."""
    first = head[0]
    if SHORT_MAP <= first < SHORT_MAP_LAST:
        return bytes((first + 1,)) + head[1:] + tail
    if first == SHORT_MAP_LAST:
        return bytes((MAP_16, 0, 16)) + head[1:] + tail
    count = int.from_bytes(head[1:3]) + 1
    return bytes((MAP_16,)) + count.to_bytes(2) + head[3:] + tail


def unmark(head: bytes) -> tuple[bytes, Kind | None]:
    """The attributes without the mark, as the application wrote them; None where there is no mark."""
    if head.endswith(DATA_TAIL):
        return shortened(head, len(DATA_TAIL)), Kind.DATA
    place = head.rfind(NAME_BYTES)
    if place < 0:
        return head, None
    kind = KINDS.get(head[place:])
    return (head, None) if kind is None else (shortened(head, len(head) - place), kind)


def shortened(head: bytes, tail_bytes: int) -> bytes:
    """Without the last attribute. What is no map comes back unread, and is refused by whoever reads it."""
    first = head[0]
    if SHORT_MAP < first <= SHORT_MAP_LAST:
        return bytes((first - 1,)) + head[1:-tail_bytes]
    if first != MAP_16:
        return head
    count = int.from_bytes(head[1:3]) - 1
    if count <= SHORT_MAP_LAST - SHORT_MAP:
        return bytes((SHORT_MAP + count,)) + head[3:-tail_bytes]
    return bytes((MAP_16,)) + count.to_bytes(2) + head[3:-tail_bytes]


def is_event(head: bytes) -> bool:
    """Of an application, with a header or without; all others are messages of a transport."""
    return head.endswith(DATA_TAIL) or NAME_BYTES not in head


def head_of(attributes: dict[str, Value], kind: Kind) -> bytes:
    """The head of a message of the transport's own."""
    return mark(encode_head(attributes), kind)


def has_marks(joined_heads: bytes) -> bool:
    """Whether any of the heads that stand here one behind the other may be marked."""
    return NAME_BYTES in joined_heads


def take_off(heads: Sequence[bytes], payloads: Sequence[bytes]) -> tuple[list[int], list[bytes], list[bytes]]:
    """The places of what is for the application, with their heads and payloads as they were published."""
    places: list[int] = []
    bare_heads: list[bytes] = []
    bare_payloads: list[bytes] = []
    for place, (marked, payload) in enumerate(zip(heads, payloads, strict=True)):
        head, kind = unmark(marked)
        bare: bytes | None = payload
        if kind is not None:
            bare = body_of(payload) if kind is Kind.DATA else None
        if bare is None:
            continue
        places.append(place)
        bare_heads.append(head)
        bare_payloads.append(bare)
    return places, bare_heads, bare_payloads


def body_of(payload: bytes) -> bytes | None:
    """What stands behind the header; None where there is none. As `decode_data`, which reads the header as well and is
    stricter about what it says."""
    if len(payload) < HEADER_BYTES or payload[0] != DATA_FIRST:
        return None
    flags, entries, row_bytes = payload[1:4]
    end = HEADER_BYTES
    if flags & BASIC:
        end += 4
    elif entries and flags & COMPRESSED:
        end += 2 + int.from_bytes(payload[end : end + 2])
    elif entries:
        end += entries * (4 + row_bytes)
    if flags & FURTHER:
        if len(payload) <= end:
            return None
        end += 1 + payload[end] * FURTHER_FLOW.size
    return payload[end:] if len(payload) >= end else None
