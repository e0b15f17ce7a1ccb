"""Random streams: one seed, many independent generators.

Each node and each purpose draws from its own generator, made from the run's seed and a name. So adding a node, or one
more draw somewhere, disturbs no other stream, and a run is reproduced by its seed on every platform.

Python promises only that `random()` gives the same numbers for the same seed in every version. What protocols draw
with (`uniform`, `choice`, `sample`, ...) is therefore written here in terms of it. A draw among n is
`int(random() * n)`, whose bias is below n / 2**53.
"""

import math
from collections.abc import MutableSequence, Sequence
from random import Random
from typing import Any, TypeVar

import xxhash

from tidings.model.errors import UsageError

Item = TypeVar("Item")


class RandomStream(Random):
    """A generator whose draws are the same in every Python version."""

    def below(self, count: int) -> int:
        """An integer from 0 up to, and without, `count`."""
        if count < 1:
            raise UsageError(f"below({count}): there is nothing to draw from; give a count of at least 1")
        return int(self.random() * count)

    def uniform(self, a: float, b: float) -> float:
        return a + (b - a) * self.random()

    def choice(self, seq: Sequence[Item]) -> Item:  # type: ignore[override]
        return seq[self.below(len(seq))]

    def randint(self, a: int, b: int) -> int:
        return a + self.below(b - a + 1)

    def shuffle(self, x: MutableSequence[Any]) -> None:
        for last in range(len(x) - 1, 0, -1):
            other = self.below(last + 1)
            x[last], x[other] = x[other], x[last]

    def sample(self, population: Sequence[Item], k: int) -> list[Item]:  # type: ignore[override]
        """`k` distinct members in random order; all of them, shuffled, when there are fewer."""
        pool = list(population)
        count = min(k, len(pool))
        for place in range(count):
            other = place + self.below(len(pool) - place)
            pool[place], pool[other] = pool[other], pool[place]
        return pool[:count]

    def expovariate(self, lambd: float = 1.0) -> float:
        return -math.log(1.0 - self.random()) / lambd


def random_stream(seed: int, *names: object) -> RandomStream:
    """The generator of this seed for the thing so named, such as `random_stream(7, "node", "b3", "gossip")`."""
    text = "\x1f".join([str(seed), *(str(name) for name in names)])
    return RandomStream(xxhash.xxh3_128_intdigest(text.encode()))
