"""What a limiting receiver acknowledges, and what the publisher learns from it: exactly which events were lost (F-3a).

A receiver finds losses by the publication record and misses those that no record tells of. The publisher does not miss
any, if it knows what came: it has the numbers of all events of the flow that it sent. So the limiting receiver of a
flow, and only that one, tells for each event of the flow the highest number it has, which of the 32 before that it has
not (of whatever flow: the publisher knows which are of this one), and how many of the flow it has got altogether.

`Ledger` is the publisher's book of one flow. An event is lost when three later ones of its flow have come (they may
overtake each other) or when the time for an answer is over. What is too far back for the 32 bits, because many
acknowledgements were lost, is told by the number of those that came: as many as it says have come, the oldest first.
"""

from collections import deque

from tidings.protocols.transport.formats import WRAP, Acknowledgement, unwrap

OVERTAKEN_BY = 3
"""Later events of the flow that must have come before one counts as lost."""

SENT_MAX = 4096
"""Events of one flow that may be on their way; the oldest is forgotten as lost."""

MISSING_BITS = 32


class Ledger:
    __slots__ = ("arrived", "asked_at", "received_base", "sent")

    def __init__(self) -> None:
        self.sent: dict[int, float] = {}
        """Events on their way: number and time of sending, oldest first."""
        self.arrived: deque[int] = deque(maxlen=OVERTAKEN_BY)
        """The highest numbers of the flow that came, highest last."""
        self.received_base: int | None = None
        """What the receiver had counted before us, modulo 2 ** 32."""
        self.asked_at = 0.0

    def departed(self, sequence: int, now: float) -> int:
        """An event of the flow was sent; returns how many were forgotten."""
        self.sent[sequence] = now
        if len(self.sent) <= SENT_MAX:
            return 0
        del self.sent[next(iter(self.sent))]
        return 1

    def acknowledge(self, message: Acknowledgement) -> tuple[list[tuple[int, float]], list[int]]:
        """Events that came (number and time of sending) and events that are lost, since the last one."""
        if not self.sent:
            return [], []
        newest = next(reversed(self.sent))
        through = unwrap(message.through, newest)
        if through > newest:
            return [], []
        arrived, behind = [], 0
        for sequence, sent_at in self.sent.items():
            back = through - 1 - sequence
            if sequence == through or (0 <= back < MISSING_BITS and not message.missing >> back & 1):
                arrived.append((sequence, sent_at))
            elif back >= MISSING_BITS:
                behind += 1
        if behind:
            arrived = self.count_behind(message, arrived, behind)
        self.note_count(message, len(arrived))
        for sequence, _ in arrived:
            del self.sent[sequence]
            if not self.arrived or sequence > self.arrived[-1]:
                self.arrived.append(sequence)
        if len(self.arrived) < OVERTAKEN_BY:
            return arrived, []
        lost = [sequence for sequence in self.sent if sequence < self.arrived[0]]
        for sequence in lost:
            del self.sent[sequence]
        return arrived, lost

    def count_behind(
        self, message: Acknowledgement, arrived: list[tuple[int, float]], behind: int
    ) -> list[tuple[int, float]]:
        """Of those too far back, as many came as the receiver has counted beyond the others."""
        if self.received_base is None:
            return arrived
        told = (message.received - self.received_base) % WRAP - len(arrived)
        if told <= 0 or told > behind:
            told = 0
        oldest = [(sequence, self.sent[sequence]) for sequence in list(self.sent)[:told]]
        return oldest + arrived

    def note_count(self, message: Acknowledgement, arrived: int) -> None:
        if self.received_base is None:
            self.received_base = message.received
        else:
            self.received_base = (self.received_base + arrived) % WRAP

    def give_up(self) -> int:
        """Nothing was answered for too long: all that is on its way is lost."""
        count = len(self.sent)
        self.sent.clear()
        self.arrived.clear()
        self.received_base = None
        return count
