"""What a client without a transport does with events of publishers that have one.

Marks and headers are taken off, and messages of the transport itself, repairs included, are left out: an application
sees what was published, byte for byte, and each event once (T-16). That anything is marked at all is seen by one search
in the heads of a whole batch.
"""

from collections.abc import Sequence

from tidings.protocols.transport.codec import DATA_FIRST
from tidings.protocols.transport.formats import BASIC, COMPRESSED, FURTHER, FURTHER_FLOW, HEADER_BYTES
from tidings.protocols.transport.marking import NAME_BYTES, Kind, unmark


def has_marks(heads: Sequence[bytes]) -> bool:
    """Whether any of these may be marked."""
    return NAME_BYTES in b"".join(heads)


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
