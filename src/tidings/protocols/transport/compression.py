"""Records that say what is equal only once.

Streams repeat themselves: consecutive events often have the same attributes but for a value or two, so their Bloom rows
differ in a few bits. A compressed record is a row of runs, newest first:

    events in the run 1 | Bloom row | age of the newest 4 | for each further one, what it is older: 1 to 4 bytes

Differences of age are written seven bits at a time, the low ones first, the highest bit of a byte saying that more
follow. The row of a run has the bits of all its events, and may match more than it should, never less. So a record of
the same size in bytes tells of more events, at the price of some false alarms: whoever waits for one event of a run
waits for all of them (F-2a of the transport specification). Events are in one run while each differs from the newest in
no more than `DIFFERENT_BITS_MAX` bits, and the row of all of them is no fuller than `MERGED_FILL_MAX`.
"""

from collections.abc import Sequence
from itertools import pairwise

from tidings.matching.bloom import FILL_MAX
from tidings.protocols.transport.entries import MICROSECONDS, BadHeader, Entry

DIFFERENT_BITS_MAX = 16
"""Bits by which two rows of one run may differ: two values that are others, each with the bits of its tag in one row
and not in the other. More would make events alike that are not."""

MERGED_FILL_MAX = 0.4
"""Share of bits in the row of a run. With four bits for a tag, every 40th tag that is not there seems to be then."""

RUN_MAX = 255
VARINT_BYTES_MAX = 5


def compress(ages: Sequence[int], rows: Sequence[int], row_bytes: int) -> bytes:
    """The bytes of a record; ages (microseconds, ascending) and rows are those of its entries, newest first."""
    parts: list[bytes] = []
    place = 0
    while place < len(rows):
        end, bits = run_at(rows, place, MERGED_FILL_MAX * 8 * row_bytes)
        parts.append(bytes((end - place,)) + bits.to_bytes(row_bytes, "little") + ages[place].to_bytes(4))
        parts += [varint(older - newer) for newer, older in pairwise(ages[place:end])]
        place = end
    return b"".join(parts)


def run_at(rows: Sequence[int], place: int, bits_max: float) -> tuple[int, int]:
    """Where the run that begins here ends, and its row."""
    first = merged = rows[place]
    for end in range(place + 1, min(len(rows), place + RUN_MAX)):
        row = rows[end]
        if row == first:
            continue
        # A row of 0 says nothing of its event, and must not be lost in another.
        if not (row and first) or (row ^ first).bit_count() > DIFFERENT_BITS_MAX:
            return end, merged
        if (merged | row).bit_count() > bits_max:
            return end, merged
        merged |= row
    return min(len(rows), place + RUN_MAX), merged


def expand(record: bytes, entries: int, row_bytes: int, departed_us: int, sequence: int) -> tuple[Entry, ...]:
    """The entries of a compressed record of event `sequence`; those behind a mistake in it are not there."""
    found: list[Entry] = []
    place, fill_max = 0, FILL_MAX * 8 * row_bytes
    try:
        while place + 1 + row_bytes + 4 <= len(record) and len(found) < entries:
            count, place = record[place], place + 1
            bits = int.from_bytes(record[place : place + row_bytes], "little")
            if bits.bit_count() > fill_max:
                bits = 0
            place += row_bytes
            age = int.from_bytes(record[place : place + 4])
            place += 4
            for number in range(count):
                if number:
                    difference, place = read_varint(record, place)
                    age += difference
                sequence -= 1
                found.append(Entry(sequence, (departed_us - age) / MICROSECONDS, bits))
    except (IndexError, BadHeader):
        pass
    return tuple(found[:entries])


def varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def read_varint(data: bytes, place: int) -> tuple[int, int]:
    number = 0
    for shift in range(VARINT_BYTES_MAX):
        byte = data[place + shift]
        number |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return number, place + shift + 1
    raise BadHeader("a number of too many bytes")
