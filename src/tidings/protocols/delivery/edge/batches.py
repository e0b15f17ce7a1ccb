"""Batches of publications, measured without being decoded."""

from tidings.pubsub.publications import Publications, cut


def size_bytes(batch: Publications) -> int:
    """Heads and payloads together."""
    return sum(map(len, batch.heads)) + sum(map(len, batch.payloads))


def behind(batch: Publications, position: int) -> Publications | None:
    """Those whose number is above `position`; numbers ascend."""
    begin = next((place for place, number in enumerate(batch.numbers) if number > position), None)
    return None if begin is None else cut(batch, slice(begin, None), receipt=0)


def fitting(batch: Publications, room_bytes: int) -> int:
    """How many of the first ones fit."""
    for place, (head, payload) in enumerate(zip(batch.heads, batch.payloads, strict=True)):
        room_bytes -= len(head) + len(payload)
        if room_bytes < 0:
            return place
    return len(batch.numbers)
