"""Batches of publications, cut and measured without being decoded."""

from collections.abc import Sequence
from operator import itemgetter

from tidings.pubsub.publications import Publications


def size_bytes(batch: Publications) -> int:
    """Heads and payloads together."""
    return sum(map(len, batch.heads)) + sum(map(len, batch.payloads))


def pick(batch: Publications, places: Sequence[int]) -> Publications:
    """Those at the given places, in that order; at least one."""
    numbers, heads, payloads = batch.numbers, batch.heads, batch.payloads
    if len(places) == 1:
        place = places[0]
        numbers, heads, payloads = (numbers[place],), (heads[place],), (payloads[place],)
    else:
        get = itemgetter(*places)
        numbers, heads, payloads = get(numbers), get(heads), get(payloads)
    return Publications(batch.publisher, batch.advertisement, batch.accepted_at, 0, numbers, heads, payloads)


def cut(batch: Publications, begin: int, end: int | None = None) -> Publications:
    """Neighbouring ones."""
    part = slice(begin, end)
    return Publications(
        batch.publisher,
        batch.advertisement,
        batch.accepted_at,
        0,
        batch.numbers[part],
        batch.heads[part],
        batch.payloads[part],
    )


def behind(batch: Publications, position: int) -> Publications | None:
    """Those whose number is above `position`; numbers ascend."""
    begin = next((place for place, number in enumerate(batch.numbers) if number > position), None)
    return None if begin is None else cut(batch, begin)


def fitting(batch: Publications, room_bytes: int) -> int:
    """How many of the first ones fit."""
    for place, (head, payload) in enumerate(zip(batch.heads, batch.payloads, strict=True)):
        room_bytes -= len(head) + len(payload)
        if room_bytes < 0:
            return place
    return len(batch.numbers)
