"""What a message counts in a window: both ends of a link come to the same number from the message alone.

Windows keep what waits for a link below its queue, so a message counts at least as much as its bytes take, about; and
each at least `MESSAGE_BYTES`, so that a window bounds messages as well as bytes.
"""

from collections.abc import Iterable
from typing import Any

from tidings.protocols.delivery.messages import (
    Beginning,
    Delivery,
    FetchedFar,
    FetchFar,
    History,
    LookFar,
    MarksFar,
    PackedReferences,
    Reference,
    ReplyFar,
    ReplySettledFar,
)
from tidings.pubsub.client import Fetched, MarksReply, Receipt, Replied
from tidings.pubsub.pages import StoredPage

MESSAGE_BYTES = 512
"""What the smallest message counts."""

ROW_BYTES = 32
"""What a publication takes besides its head and payload, and a name besides its letters: numbers, times, lengths."""

NUMBER_BYTES, EXTENT_BYTES = 3, 18

TAKEN_STEP_BYTES = 64 * 1024
"""A client tells its broker whenever so much more has arrived."""

HistoryMessage = (
    Reference | PackedReferences | History | LookFar | MarksFar | FetchFar | FetchedFar | ReplyFar | ReplySettledFar
)
"""What brokers say to each other about the past, and replies, which share its window."""


def size_of(message: Any) -> int:
    """Of a message that goes through a window."""
    match message:
        case PackedReferences(questions):
            return sum(map(size_of, questions))
        case Reference():
            named = names_bytes(each for each, _ in message.wanted)
            return MESSAGE_BYTES + len(message.filter) + named + names_bytes(message.path)
        case LookFar():
            return MESSAGE_BYTES + names_bytes(message.wanted) + names_bytes(message.path)
        case MarksFar():
            extents = sum(len(lacking) + len(held) for _, _, lacking, held in message.marks)
            named = names_bytes(each for each, *_ in message.marks) + names_bytes(message.missing)
            return MESSAGE_BYTES + named + EXTENT_BYTES * extents + names_bytes(message.path)
        case FetchFar():
            return MESSAGE_BYTES + len(message.filter) + names_bytes(message.path)
        case ReplyFar():
            return MESSAGE_BYTES + len(message.head) + len(message.payload) + names_bytes(message.path)
        case ReplySettledFar():
            return MESSAGE_BYTES + names_bytes(message.path)
        case Replied():
            return MESSAGE_BYTES + len(message.head) + len(message.payload)
        case Delivery():
            return MESSAGE_BYTES + columns_bytes(message) + NUMBER_BYTES * sum(map(len, message.matched))
        case Beginning():
            return MESSAGE_BYTES + names_bytes(each for each, _ in message.positions)
        case Receipt():
            return MESSAGE_BYTES + len(message.filter) + names_bytes(message.brokers)
        case Fetched():
            return MESSAGE_BYTES + page_bytes(message.page)
        case MarksReply():
            named = names_bytes(each for each, *_ in message.marks) + names_bytes(message.unreachable)
            brokers = names_bytes(message.brokers) + names_bytes(message.absent)
            return MESSAGE_BYTES + named + brokers + names_bytes(message.offers)
        case History() | FetchedFar():
            extents_bytes = EXTENT_BYTES * (len(message.lacking) + len(message.held))
            rows_bytes = columns_bytes(message) if isinstance(message, History) else page_bytes(message.page)
            return MESSAGE_BYTES + rows_bytes + names_bytes(message.path) + extents_bytes
    raise AssertionError(f"{type(message).__name__} goes through no window")


def columns_bytes(message: Any) -> int:
    return sum(map(len, message.heads)) + sum(map(len, message.payloads)) + ROW_BYTES * len(message.heads)


def page_bytes(page: StoredPage) -> int:
    return page.size_bytes + ROW_BYTES * len(page)


def names_bytes(names: Iterable[str]) -> int:
    return sum(len(name) + ROW_BYTES for name in names)
