"""A table cut into buckets by the hash of its entries' names: to walk through it, and to compare it with a copy.

A walk through a table that changes meanwhile needs places to go by: it goes from bucket to bucket, and where it is is
one number.

Two ends that hold a copy each compare them by digests. An entry is a name and what is said of it (the text of a filter
stands for itself; of an advertisement the publisher, filter and way are said). The digest of a bucket is the XOR of the
hashes of its entries, so each change keeps it up in one operation, and neighbouring buckets together have the XOR of
theirs. The holder of a copy sends a *summary*: the table in so many equal *parts*, about one for `ENTRIES_EACH`
entries, and the digest of each. The teller goes through its own table part by part, tells those that differ, and says
at the end of each that this was all of it (`PartTold`): what the holder has there and was not told is gone.

So a break in the middle costs the parts that were half told, and a copy that is right costs the summary. Two tables
that differ look alike by accident once in 2**64 parts.
"""

from collections.abc import Iterable, Iterator
from struct import pack, unpack

from xxhash import xxh3_64_intdigest

from tidings.model.bounds import TABLE_BUCKETS, TABLE_SUMMARY_BYTES_MAX

ENTRIES_EACH = 16
"""Entries for which a summary has one digest, up to one for each bucket."""

DIGEST_BYTES = TABLE_SUMMARY_BYTES_MAX // TABLE_BUCKETS

NOBODY: dict[str, int] = {}


def bucket_of(name: str) -> int:
    return xxh3_64_intdigest(name.encode()) % TABLE_BUCKETS


class TableBuckets:
    def __init__(self) -> None:
        self.entries: dict[int, dict[str, int]] = {}
        """In each bucket the names, and the hash of each entry."""
        self.digests: dict[int, int] = {}
        self.size = 0

    def put(self, name: str, said: str = "") -> None:
        hashed = xxh3_64_intdigest(name.encode())
        bucket = hashed % TABLE_BUCKETS
        entries = self.entries.setdefault(bucket, {})
        before = entries.get(name)
        if before is None:
            self.size, before = self.size + 1, 0
        entries[name] = xxh3_64_intdigest(said.encode(), hashed) if said else hashed
        self.digests[bucket] = self.digests.get(bucket, 0) ^ before ^ entries[name]

    def discard(self, name: str) -> None:
        bucket = bucket_of(name)
        entries = self.entries.get(bucket, NOBODY)
        if name in entries:
            self.size -= 1
            self.digests[bucket] ^= entries.pop(name)
            if not entries:
                del self.entries[bucket], self.digests[bucket]

    def names(self, *buckets: int) -> list[str]:
        return [name for bucket in buckets for name in self.entries.get(bucket, NOBODY)]

    def names_of_part(self, part: int, parts: int) -> list[str]:
        return self.names(*buckets_of(part, parts))

    def digest(self, part: int, parts: int) -> int:
        together = 0
        for bucket in buckets_of(part, parts):
            together ^= self.digests.get(bucket, 0)
        return together

    def summary(self) -> bytes:
        """Empty for an empty table."""
        if not self.size:
            return b""
        parts = 1
        while parts < TABLE_BUCKETS and parts * ENTRIES_EACH < self.size:
            parts *= 2
        digests = [0] * parts
        for bucket, digest in self.digests.items():
            digests[bucket * parts // TABLE_BUCKETS] ^= digest
        return pack(f"<{parts}Q", *digests)

    def check(self, names: Iterable[str]) -> None:
        held = self.names(*self.entries)
        assert sorted(held) == sorted(names) and self.size == len(held), "buckets hold something else than the table"
        assert self.digests.keys() == self.entries.keys()


def buckets_of(part: int, parts: int) -> range:
    width = TABLE_BUCKETS // parts
    return range(part * width, (part + 1) * width)


def is_part(part: int, parts: int) -> bool:
    """Whether a table can be cut so; what a neighbour tells may be anything."""
    return 0 <= part < parts <= TABLE_BUCKETS and TABLE_BUCKETS % parts == 0


class TableComparison:
    """Of a table with the summary of a copy, while a walk goes through it. A part that is not compared yet is not told:
    if something in it differs, all of it will be. What has to be told before, because somebody waits for it, makes the
    part differ."""

    def __init__(self, summary: bytes) -> None:
        parts, rest = divmod(len(summary), DIGEST_BYTES)
        is_summary = not rest and is_part(0, parts)
        self.digests = unpack(f"<{parts}Q", summary) if is_summary else ()
        self.parts = len(self.digests) or TABLE_BUCKETS
        self.passed = 0
        """Buckets, from the first on, that are compared."""
        self.told_ahead: set[int] = set()
        """Buckets of which something was told before they were compared: the summary does not hold there."""

    @property
    def is_over(self) -> bool:
        return self.passed >= TABLE_BUCKETS

    def is_ahead(self, name: str) -> bool:
        return bucket_of(name) >= self.passed

    def is_removal_ahead(self, name: str) -> bool:
        """Whether a name that goes need not be mentioned: it was not told since the summary was made."""
        return self.is_ahead(name) and bucket_of(name) not in self.told_ahead

    def tell_ahead(self, name: str) -> None:
        if self.is_ahead(name):
            self.told_ahead.add(bucket_of(name))

    def pass_until(self, bucket: int, mine: TableBuckets) -> Iterator[tuple[int, bool]]:
        """The parts below this bucket that differ, each with whether the copy has anything there."""
        width = TABLE_BUCKETS // self.parts
        while self.passed + width <= bucket:
            part = self.passed // width
            self.passed += width
            theirs = self.digests[part] if self.digests else 0
            is_changed = not self.told_ahead.isdisjoint(buckets_of(part, self.parts))
            if is_changed or mine.digest(part, self.parts) != theirs:
                yield part, is_changed or bool(theirs)
