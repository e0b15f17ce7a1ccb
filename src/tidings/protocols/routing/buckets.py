"""A table cut into buckets by the hash of its entries' names.

A walk through a table that changes meanwhile needs places to go by: it goes from bucket to bucket, and where it is is
one number.
"""

from collections.abc import Iterable

from xxhash import xxh3_64_intdigest

from tidings.model.bounds import TABLE_BUCKETS

NOBODY: dict[str, None] = {}


def bucket_of(name: str) -> int:
    return xxh3_64_intdigest(name.encode()) % TABLE_BUCKETS


class TableBuckets:
    def __init__(self) -> None:
        self.entries: dict[int, dict[str, None]] = {}
        self.size = 0

    def put(self, name: str) -> None:
        entries = self.entries.setdefault(bucket_of(name), {})
        self.size += name not in entries
        entries[name] = None

    def discard(self, name: str) -> None:
        bucket = bucket_of(name)
        entries = self.entries.get(bucket, NOBODY)
        if name in entries:
            self.size -= 1
            del entries[name]
            if not entries:
                del self.entries[bucket]

    def names(self, bucket: int) -> Iterable[str]:
        return self.entries.get(bucket, NOBODY)

    def check(self, names: Iterable[str]) -> None:
        held = [name for entries in self.entries.values() for name in entries]
        assert sorted(held) == sorted(names) and self.size == len(held), "buckets hold something else than the table"
