"""Slots of each event in ascending order.

In which order a search finds slots depends on what the index has learned so far. Whoever needs the same answer in every
process sorts them here: a bit is set for each slot of an event, and the bits are then read off from the lowest on. A
second row with a bit for each word of the first leads past the words that are empty.
"""

from typing import Any

from tidings.matching.index.kernels.layout import Array, compiled, integer, trailing_zeros

WORD_BITS = 64


@compiled
def order_slots(slots: Array, offsets: Array, bits: Array, used: Array) -> Any:
    """Sort the slots of each event in place. `bits` and `used` are all zero before and after."""
    for event in range(offsets.size - 1):
        at, end = offsets[event], offsets[event + 1]
        if end - at < 2:
            continue
        # Word `slot >> 6` of `bits` and bit `slot & 63` in it stand for a slot; the same one step higher says in `used`
        # that the word is not empty.
        for i in range(at, end):
            slot = integer(slots[i])
            bits[slot >> 6] |= integer(1) << (slot & 63)
            used[slot >> 12] |= integer(1) << ((slot >> 6) & 63)
        # `x &= x - 1` clears the lowest bit of x. So each loop runs once for each bit that is set, from the lowest on.
        # All slots were read before the first is written back, and as many are written as were read, since the slots of
        # an event differ. What is read is cleared, which leaves both rows empty for the next event.
        for group in range(used.size):
            words = used[group]
            while words != 0:
                word = group * 64 + trailing_zeros(words)
                left = bits[word]
                while left != 0:
                    slots[at] = word * 64 + trailing_zeros(left)
                    at += 1
                    left &= left - 1
                bits[word] = 0
                words &= words - 1
            used[group] = 0
