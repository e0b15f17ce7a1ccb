"""An entry of a publication record, and how times and mistakes are written."""

import msgspec

MICROSECONDS = 1_000_000
AGE_MAX_US = 2**32 - 1


class BadHeader(ValueError):
    """Bytes that are no message of the transport; the text says why."""


class Entry(msgspec.Struct, frozen=True):
    """One event that its publisher sent before: number, time of sending by the publisher's clock, Bloom row. A row of 0
    says nothing about the event: it had too many attributes for its size."""

    sequence: int
    departed: float
    bits: int


def to_us(seconds: float) -> int:
    return round(seconds * MICROSECONDS)
