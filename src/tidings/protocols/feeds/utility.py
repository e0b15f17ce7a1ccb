"""How good a set of friends is: near, alike, and together covering what we read.

    U(i, F) = sum over j in F of (1 / d_ij) * (base_j + bonus_j)
      base_j  = |B_i & B_j| / |B_i | B_j|                        what we have in common, of all that either reads
      bonus_j = |bits of B_i & B_j that no other friend has| / |B_i|

The base is not the plain overlap, since then those who read everything would be everybody's friends. The bonus is for
a friend who alone reads what few do. `d` is a round trip in seconds, at least `DISTANCE_MIN`; its unit does not matter
for decisions.

Two simpler laws stand beside it as baselines: by interest alone, where everybody is equally far, and by nearness alone.

Source: peer-to-peer.md 3C.1 (P-31, P-32, erratum X-2; E18 for the baselines).
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

DISTANCE_MIN = 0.001

Law = Literal["both", "interest", "nearness"]


class Reader(NamedTuple):
    """A friend, or somebody who may become one."""

    interests: int
    distance: float


def pair_utility(own: int, reader: Reader) -> float:
    return overlap(own, reader.interests) / max(reader.distance, DISTANCE_MIN)


def overlap(own: int, other: int) -> float:
    either = (own | other).bit_count()
    return (own & other).bit_count() / either if either else 0.0


def set_utility(own: int, friends: Sequence[Reader], law: Law = "both") -> float:
    size = own.bit_count()
    if law == "nearness":
        return sum(1 / max(friend.distance, DISTANCE_MIN) for friend in friends)
    if not size:
        return 0.0
    once = twice = 0
    for friend in friends:
        twice |= once & friend.interests
        once |= friend.interests
    unique = once & ~twice & own
    total = 0.0
    for friend in friends:
        worth = overlap(own, friend.interests) + (friend.interests & unique).bit_count() / size
        total += worth if law == "interest" else worth / max(friend.distance, DISTANCE_MIN)
    return total
