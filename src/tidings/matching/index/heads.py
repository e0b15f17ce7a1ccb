"""Encoded events, decoded one by one where that is needed.

A broker has the attributes of an event as bytes, its *head*. The fast engine reads them as they are; what it cannot
read, and filters that have to be asked themselves, need the event. Whoever builds the index says how to decode a head,
because the encoding belongs to a layer that matching does not know.
"""

from collections.abc import Callable, Sequence
from typing import overload

from tidings.model.event import Event

Decode = Callable[[bytes], Event]
"""The event of a head; ValueError if the bytes are none."""


class LazyEvents(Sequence[Event]):
    """The events of a batch of heads, each made when it is asked for."""

    def __init__(self, heads: Sequence[bytes], decode: Decode) -> None:
        self.heads, self.decode = heads, decode

    def __len__(self) -> int:
        return len(self.heads)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        if isinstance(index, slice):
            return [self.decode(head) for head in self.heads[index]]
        return self.decode(self.heads[index])

    def event(self, row: int) -> Event | None:
        """The event, or None if the head is not valid."""
        try:
            return self[row]
        except ValueError:
            return None
