"""Tags, what an event has and a filter asks for; and tags as a few bytes, Bloom filters that the whole network shares.

An event gets a tag for each attribute it has and one for each way the value can be read (`model/values.py`):

    depth = '05'       E|depth   V|depth|05   V|depth|5
    felt = TRUE        E|felt    V|felt|true  V|felt|1

A conjunction gets the tags that *every* event it accepts must have. So

    conjunction matches event          =>  its tags are among the event's tags
    conjunction A covers conjunction B  =>  A's tags are among B's tags       (B accepts something)

Neither holds backwards: ranges and patterns leave no tag but `E`, so tags sort out only a part of what does not match.
Both laws follow from one rule, that a constraint's tags are those common to all values it accepts. Where these values
are few they are tried one by one (a truth, a list of texts); a number condition with a single number has that number in
common; all other conditions leave values that have nothing in common. The rule is followed to the letter except
where one constraint mixes a number range with a text pattern that lets a single value through, such as `x < 10 AND
x LIKE '5_'`: there the second law may fail, never the first.

Attributes `tidings_bit_N` are flags that are there or not, and an event that asks for a lost one has dozens of them
(`protocols/transport/recovery/requester.py`). With tags like all others they would fill its Bloom row, and it would
seem to match everything. They get one tag, `B`, whatever their value, which `bloom.py` writes as a single bit. Both
laws hold: what a constraint accepts has the attribute.

Source: the transport specification, section 2.4 (tag scheme), widened by the readings of a value; G-15 for flags.

A Bloom filter is a row of M bits. Each tag sets `hashes` of them, at places computed from a hash of the tag; a set of
tags sets the bits of all its tags. More tags can only set more bits, so the laws of tags become laws of bits, with some
more false positives:

    a filter's conjunction matches a message  =>  its bits are a subset of the message's bits
    conjunction A covers conjunction B        =>  A's bits are a subset of B's bits

Mind the direction. A message has *more* bits than what matches it, and the wider of two filters has *fewer* bits. To
keep them apart each test has a name of its own; none is called `covers`.

A tag that is absent seems present with probability fill^hashes, fill being the share of bits that are set. Half full is
the best use of the space; a row that is nearly full says yes to everything, so one that comes from outside is refused
beyond `FILL_MAX`.

The places are independent of each other: a 128-bit hash of the tag (xxh3, keyed by the profile's seed) gives four, 32
bits each, modulo M; further ones come from further hashes with the next seeds. Double hashing, (h1 + i * h2) mod M, is
the common choice and was tried first, but so few bits leave it only M * M / 2 different patterns: at M = 256 and six
tags it gave eight times as many false positives as fill^hashes. The flags of an event  have one place each,
in a row from a place that the seed gives, so that no two of the first M share one: an event has dozens of them, and a
filter that asks for flags asks for several.

The same tags give the same bits in every process and on every machine. In memory a row is an int, bit i having the
value 2**i; on the wire it is M / 8 bytes, the lowest bits first.

Source: the transport specification, section 2.4.
"""

from collections.abc import Iterable

import msgspec
import xxhash

from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.sets.conjunction import Conjunction
from tidings.model.sets.constraint import Constraint
from tidings.model.values import Value, number_of, text_of, truth_of

Tags = tuple[str, ...]
"""Distinct tags in a fixed order: attributes as they come, `E` before `V`."""

FLAG_NAME = "tidings_bit_"
"""How the names of flags begin."""

FLAG_TAG = "B|"


def tags_of_event(event: Event) -> Tags:
    return tuple(tag for name, value in event.attributes.items() for tag in tags_of_attribute(name, value))


def tags_of_attribute(name: str, value: Value) -> Tags:
    return (flag_tag(name),) if name.startswith(FLAG_NAME) else (exists_tag(name), *tags_of_value(name, value))


def tags_of_filter(filter: Filter) -> tuple[Tags, ...]:
    """One set of tags a conjunction; an event may match when it has all the tags of any of them."""
    return tuple(tags_of_conjunction(conjunction) for conjunction in filter.conjunctions)


def tags_of_conjunction(conjunction: Conjunction) -> Tags:
    return tuple(tag for constraint in conjunction for tag in tags_of_constraint(constraint))


def tags_of_constraint(constraint: Constraint) -> Tags:
    if not constraint.present:
        return ()
    if constraint.name.startswith(FLAG_NAME):
        return (flag_tag(constraint.name),)
    return exists_tag(constraint.name), *common_tags(constraint)


def common_tags(constraint: Constraint) -> Tags:
    """The value tags of every value the constraint accepts; none if it accepts nothing."""
    members = constraint.members()
    if members is None:
        points = None if constraint.number is None else constraint.number.points()
        return (value_tag(constraint.name, points[0]),) if points is not None and len(points) == 1 else ()
    if not members:
        return ()
    common = list(tags_of_value(constraint.name, members[0]))
    for member in members[1:]:
        tags = tags_of_value(constraint.name, member)
        common = [tag for tag in common if tag in tags]
        if not common:
            break
    return tuple(common)


def tags_of_value(name: str, value: Value) -> Tags:
    """The value by each of its readings: its text first, then number and truth where they are spelled otherwise."""
    readings = (value, number_of(value), truth_of(value))
    return tuple(dict.fromkeys(value_tag(name, reading) for reading in readings if reading is not None))


def exists_tag(name: str) -> str:
    return f"E|{name}"


def flag_tag(name: str) -> str:
    return f"{FLAG_TAG}{name}"


def value_tag(name: str, reading: Value) -> str:
    """A name holds no bar, so the tag says without doubt where the name ends."""
    return f"V|{name}|{text_of(reading)}"


BITS_MAX = 64 * 1024
HASHES_MAX = 32
SEED_MAX = 2**64 - 1
PLACE_BITS = 32
PLACE_MASK = 2**PLACE_BITS - 1
PLACES_OF_DIGEST = 128 // PLACE_BITS
FLAG_DIGITS_MAX = 9
"""Longer numbers are hashed like words: a name of a stranger must not cost the reading of a huge number."""
FILL_MAX = 0.6
"""Share of set bits beyond which a row tells too little to be used."""


class BloomProfile(msgspec.Struct, frozen=True):
    """How tags become bits; all nodes of a network use the same one. The published sizes are 64, 128 and 256 bits."""

    bits: int = 256
    """M, a multiple of 8."""
    hashes: int = 4
    """Bits set by a tag; no more than there are bits."""
    seed: int = 0
    """Key of the hash, a 64-bit number."""

    def __post_init__(self) -> None:
        if not is_integer(self.bits) or self.bits % 8 or not 8 <= self.bits <= BITS_MAX:
            raise UsageError(f"bits: {self.bits!r} is not a multiple of 8 from 8 to {BITS_MAX}")
        if not is_integer(self.hashes) or not 1 <= self.hashes <= min(HASHES_MAX, self.bits):
            raise UsageError(f"hashes: {self.hashes!r} is not a number from 1 to {min(HASHES_MAX, self.bits)}")
        if not is_integer(self.seed) or not 0 <= self.seed <= SEED_MAX:
            raise UsageError(f"seed: {self.seed!r} is not an unsigned 64-bit number")

    @property
    def size_bytes(self) -> int:
        return self.bits // 8


def is_integer(value: object) -> bool:
    return type(value) is int


def bits_of_tags(tags: Iterable[str], profile: BloomProfile) -> int:
    row = 0
    for tag in tags:
        if tag.startswith(FLAG_TAG):
            row |= 1 << place_of_flag(tag, profile)
            continue
        text = tag.encode()
        for first in range(0, profile.hashes, PLACES_OF_DIGEST):
            digest = xxhash.xxh3_128_intdigest(text, (profile.seed + first) & SEED_MAX)
            for _ in range(first, min(first + PLACES_OF_DIGEST, profile.hashes)):
                row |= 1 << (digest & PLACE_MASK) % profile.bits
                digest >>= PLACE_BITS
    return row


def place_of_flag(tag: str, profile: BloomProfile) -> int:
    name, number = FLAG_TAG + FLAG_NAME, tag[len(FLAG_TAG) + len(FLAG_NAME) :]
    if not number.isdecimal() or len(number) > FLAG_DIGITS_MAX:
        return xxhash.xxh3_64_intdigest(tag.encode(), profile.seed) % profile.bits
    return (xxhash.xxh3_64_intdigest(name.encode(), profile.seed) + int(number)) % profile.bits


def bits_of_event(event: Event, profile: BloomProfile) -> int:
    return bits_of_tags(tags_of_event(event), profile)


def bits_of_conjunction(conjunction: Conjunction, profile: BloomProfile) -> int:
    return bits_of_tags(tags_of_conjunction(conjunction), profile)


def bits_superset(larger: int, smaller: int) -> bool:
    """Is every bit of `smaller` set in `larger` too?"""
    return larger & smaller == smaller


def message_bits_match_filter_bits(message_bits: int, filter_bits: int) -> bool:
    """May the message match? False is certain; True may be wrong."""
    return bits_superset(message_bits, filter_bits)


def filter_bits_cover(wide_bits: int, narrow_bits: int) -> bool:
    """May the filter of `wide_bits` accept all that the other accepts? False is certain; True may be wrong."""
    return bits_superset(narrow_bits, wide_bits)


def fill_of(row: int, profile: BloomProfile) -> float:
    return row.bit_count() / profile.bits


def row_to_bytes(row: int, profile: BloomProfile) -> bytes:
    """The row as it goes on the wire; refused where the receiver would refuse it."""
    if not 0 <= row < 1 << profile.bits:
        raise UsageError(f"row: it does not fit the profile's {profile.bits} bits")
    check_fill(row, profile)
    return row.to_bytes(profile.size_bytes, "little")


def row_from_bytes(data: bytes, profile: BloomProfile) -> int:
    """Read a row from a peer of the same profile; its length and fill are checked before anything else uses it."""
    if len(data) != profile.size_bytes:
        raise UsageError(f"row of {len(data)} bytes, but the profile has {profile.size_bytes}")
    row = int.from_bytes(data, "little")
    check_fill(row, profile)
    return row


def check_fill(row: int, profile: BloomProfile) -> None:
    if fill_of(row, profile) > FILL_MAX:
        raise UsageError(f"row filled to {fill_of(row, profile):.0%}, at most {FILL_MAX:.0%} is useful; use more bits")
