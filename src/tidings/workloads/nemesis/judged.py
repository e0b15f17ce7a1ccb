"""What a judge keeps: of each event, of each subscription, and what a reader was told; and how a promise was broken."""

from collections.abc import Hashable, Mapping
from typing import Any

import msgspec

from tidings.workloads.nemesis.wish import Wish

SubscriptionKey = Hashable

WriterLife = tuple[str, int]
"""A writer, and which of its processes."""

TENANT_MARK = "!"
"""Stands in the name of a client behind that of its tenant."""


def tenant_of(client: str) -> str:
    return client.rpartition(TENANT_MARK)[0]


class BrokenPromise(msgspec.Struct, frozen=True):
    """A promise that was broken: which, how, and by whom it was noticed."""

    promise: str
    text: str
    who: str


class JudgedEvent(msgspec.Struct):
    id: str
    writer: str
    place: int
    """It is the so-manieth of this writer, over all its lives."""
    life: int
    at: float
    attributes: Mapping[str, Any]
    payload: bytes
    is_offered: bool
    """Whether it lies within what its writer advertised."""
    is_accepted: bool = False
    is_declined: bool = False
    reason: str = ""
    """Why, as its writer was told."""
    is_confirmed: bool = False
    """Whether its writer was told that all who want it have it."""
    may_be_gone: bool = False
    """Whether the only broker that had it has lost its memory."""

    def is_settled(self) -> bool:
        return self.is_accepted or self.is_declined


class ToldMissed(msgspec.Struct):
    """What a reader was told to have missed of one writer."""

    count: int = 0
    is_at_least: bool = False
    """Whether there may be more: a number was not known."""
    is_at_most: bool = False
    """Whether there may be fewer: it was not known which of those that are gone match."""


class JudgedSubscription(msgspec.Struct):
    reader: str
    wish: Wish
    guarantee: str
    since: float | None = None
    """What is accepted from then on is promised; None is from the receipt on."""
    slack: float = 0.0
    """So many seconds after the receipt, where clocks say when that was."""
    is_dropping: bool = False
    """Whether its broker gives up what its reader is too slow for."""
    confirmed_at: float | None = None
    is_open: bool = True
    is_interrupted: bool = False
    arrived: dict[str, None] = {}
    last: dict[WriterLife, JudgedEvent] = {}
    """Of each life of a writer what arrived last: each has an order of its own."""
    told: dict[str, ToldMissed] = {}
    """By writer; under no name what concerns all."""
    group: str = ""
    begun: dict[WriterLife, int] = {}
    """Behind which places another member of its group had got something when this one asked: it gets the same."""

    def owes(self, event: JudgedEvent) -> bool:
        """Whether this event was promised, if it is wanted."""
        if self.guarantee == "none" or self.confirmed_at is None or not event.is_accepted or event.may_be_gone:
            return False
        begun = self.begun.get((event.writer, event.life))
        if begun is not None and event.place >= begun:
            return event.is_offered
        return event.is_offered and event.at >= (self.confirmed_at + self.slack if self.since is None else self.since)
