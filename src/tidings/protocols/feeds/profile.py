"""What a peer says of itself: which feeds it reads, as a Bloom filter, and where it is.

A Bloom filter of 1024 bits in which each feed sets three. Whether a peer reads a feed can be asked of it without the
peer: yes is right in all but some cases (1.6 % of those not read, of one who reads a hundred feeds), no always. And it
compares: how much two peers have in common is how many bits. What matters is asked of the peer itself in the end.

A filter forgets nothing, so when a feed is given up it is built anew, and its version grows. Content never changes
without the version.

Source: peer-to-peer.md 3B.1 (P-21 to P-23).
"""

from collections.abc import Iterable

import msgspec
import xxhash

from tidings.machine.message import Place
from tidings.model.bounds import PROFILE_BYTES
from tidings.pubsub.feeds import FeedId, Versions

BITS, HASHES = PROFILE_BYTES * 8, 3
WORD_BITS = 32
WORD = 2**WORD_BITS - 1


def bits_of(feed: FeedId) -> int:
    """Three bits, by three words of one hash of 128 bits, which do not depend on each other."""
    hash = xxhash.xxh3_128_intdigest(feed.encode())
    bits = 0
    for place in range(HASHES):
        bits |= 1 << (hash >> WORD_BITS * place & WORD) % BITS
    return bits


def interests_of(feeds: Iterable[FeedId]) -> int:
    interests = 0
    for feed in feeds:
        interests |= bits_of(feed)
    return interests


def may_read(interests: int, feed: FeedId) -> bool:
    bits = bits_of(feed)
    return interests & bits == bits


class Profile(msgspec.Struct, frozen=True):
    interests: int
    place: Place
    versions: Versions


def to_bytes(interests: int) -> bytes:
    return interests.to_bytes(PROFILE_BYTES, "little")


def from_bytes(data: bytes) -> int:
    return int.from_bytes(data, "little")
