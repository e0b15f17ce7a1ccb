"""Lost events from the history of the broker network.

The transport asks (`Recall`) for what a publisher published between two of its numbers and a subscription matches; here
that becomes pages to read from the session. At most `READINGS_MAX` recalls are read at a time, so that the application
can read too; up to `WAITING_MAX` wait, others are answered at once, with nothing. An answer has at most `PAGES_MAX`
pages: a stretch with more that matches is not one in which a few events were lost.
"""

from collections.abc import Iterator

import msgspec

from tidings.nodes.carried.items import Own
from tidings.protocols.transport.signals import Content, Recall, Recalled
from tidings.pubsub.client import PUBLISHERS_MAX, Fetched, ReadHistory

READINGS_MAX = 8
WAITING_MAX = 256
PAGES_MAX = 4
PAGE_PUBLICATIONS = 1024

TOO_MANY = "as much as is allowed is being read from history already"
NOTHING_THERE = "nothing was published between the two numbers"
NO_PUBLISHER = "the name of its publisher is not known"
NO_SUBSCRIPTION = "for a subscription that is not open"


class Reading(msgspec.Struct):
    filter: str
    through: int
    contents: list[Content]
    pages: int = 0
    is_begun: bool = False


class Recalls:
    def __init__(self) -> None:
        self.readings: dict[Recall, Reading] = {}
        self.highest: dict[str, int] = {}
        """The highest number that came of each publisher: no loss that is noticed lies above it."""

    def saw(self, publisher: str, number: int) -> None:
        highest = self.highest
        if number > highest.get(publisher, 0):
            highest[publisher] = number
            if len(highest) > PUBLISHERS_MAX:
                del highest[next(iter(highest))]

    def ask(self, recall: Recall, filter: str | None) -> str:
        """To be read as soon as possible; or why not."""
        publisher = recall.stream[0]
        through = recall.before - 1 if recall.before else self.highest.get(publisher, 0)
        if not publisher:
            return NO_PUBLISHER
        if filter is None:
            return NO_SUBSCRIPTION
        if through <= recall.after:
            return NOTHING_THERE
        if len(self.readings) >= WAITING_MAX:
            return TOO_MANY
        self.readings[recall] = Reading(filter, through, [])
        return ""

    def begin(self) -> Iterator[ReadHistory]:
        """What the session is to be asked now."""
        free = READINGS_MAX - sum(reading.is_begun for reading in self.readings.values())
        waiting = [(recall, reading) for recall, reading in self.readings.items() if not reading.is_begun]
        for recall, reading in waiting[: max(0, free)]:
            reading.is_begun = True
            yield self.request(recall, recall.after)

    def request(self, recall: Recall, after: int) -> ReadHistory:
        reading = self.readings[recall]
        asked = reading.filter, recall.stream[0], after, None, reading.through, PAGE_PUBLICATIONS
        return ReadHistory(Own("recall", recall), *asked)

    def read(self, recall: Recall, page: Fetched) -> Recalled | ReadHistory | None:
        """The answer, or the next page; None if nobody waits for it."""
        reading = self.readings.get(recall)
        if reading is None:
            return None
        reading.pages += 1
        columns = page.heads, page.payloads, page.numbers, page.accepted_at
        for head, payload, number, accepted_at in zip(*columns, strict=True):
            reading.contents.append(Content(head, payload, recall.stream[0], number, accepted_at))
        if page.has_more and reading.pages < PAGES_MAX and page.through < reading.through:
            return self.request(recall, page.through)
        del self.readings[recall]
        return Recalled(recall.stream, recall.sequence, tuple(reading.contents))

    def failed(self, recall: Recall, reason: str) -> Recalled | None:
        if self.readings.pop(recall, None) is None:
            return None
        return Recalled(recall.stream, recall.sequence, (), reason)

    def check(self) -> None:
        assert len(self.readings) <= WAITING_MAX, "more is to be read from history than is allowed"
        assert sum(reading.is_begun for reading in self.readings.values()) <= READINGS_MAX, "too much is read at once"
        assert len(self.highest) <= PUBLISHERS_MAX, "too many publishers are remembered"
