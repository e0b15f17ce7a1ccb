"""What publication records tell of the numbers that are missing in a stream.

Each entry of a record speaks of one event that was sent before. If its number is not settled yet, its Bloom row decides
(`rules.py`): an event that is not for us is settled; one that may be ours is awaited; and a row that says nothing
leaves its number open, as if the record did not reach so far.

An entry counts for a subscription only after its first event, or digest, from this publisher: what was sent before that
was not sent to us (G-6). Or, where `joins` says so, from when we began to listen (`reach_back`): an entry tells how
long before its event it was sent, and we know how long we have listened; no common clock is needed.
"""

from tidings.machine.effects import Effect
from tidings.protocols.transport.headers import ENTRY_AGE, MICROSECONDS, Data
from tidings.protocols.transport.ordering.shelf import Missing, Rules, Shelf

JOIN_MARGIN = 1.0
"""Seconds that a subscription may take to be known everywhere, and an event to come here."""


class RecordReader:
    """For one stream; `shelf` is told what is found."""

    __slots__ = ("has_reached_back", "rules", "shelf", "since")

    def __init__(self, shelf: Shelf, rules: Rules) -> None:
        self.shelf, self.rules = shelf, rules
        self.since: dict[int, int] = {}
        """For each subscription its first number."""
        self.has_reached_back = False
        """Whether a digest told of what was before our first event."""

    def read(self, header: Data, sequence: int, most: int, reference: int, effects: list[Effect]) -> float:
        """Learn what the newest `most` entries tell. The answer is when the latest event above `reference` that may
        still come was sent, as far as the record says; it means nothing where none is missing."""
        if not self.rules.is_enhanced or not header.entries:
            return sent_before(header, sequence)
        shelf, numbers = self.shelf, self.shelf.numbers
        if not shelf.awaited.missing and self.rules.interests.is_passed_over(header, most):
            numbers.settle_through(sequence - most, sequence - 1)
            return departure(header, most)
        is_foreign = self.is_foreign(header)
        latest, earliest = None, header.departed
        overdue: list[int] = []
        """A later event has gone out already."""
        for entry in header.read_record(sequence, most):
            number, earliest = entry.sequence, entry.departed
            if numbers.is_settled(number):
                continue
            if number not in shelf.awaited.missing:
                bits = 0 if is_foreign else entry.bits
                wanted = self.wanted_by(number, bits)
                if wanted is not None and not wanted:
                    numbers.settle(number)
                    continue
                if wanted:
                    shelf.expect(number, Missing(bits, entry.departed, wanted))
                    if number < shelf.handed:
                        overdue.append(number)
                        continue
            if latest is None and number > reference:
                latest = entry.departed
        for number in reversed(overdue):
            effects += shelf.lose(number)
        return earliest if latest is None else latest

    def read_digest(self, now: float, header: Data, sequence: int, latch: float) -> None:
        """Whatever is missing of what a digest tells has a deadline of its own: `latch` for what was sent just before
        the digest, less for older events."""
        if self.rules.params.joins == "listening" and not self.has_reached_back:
            self.has_reached_back = True
            self.reach_back(now, header, sequence)
        for subscription in self.rules.interests.filters:
            self.since.setdefault(subscription, sequence - 1)
        self.expect(now, header, sequence, max(latch, self.rules.params.digest_latch))

    def reach_back(self, now: float, header: Data, sequence: int) -> int:
        """Entries of events that were certainly sent after a subscription was made are for it. The lowest of their
        numbers, else that of the event or digest."""
        lowest = sequence
        if self.is_foreign(header):
            return lowest
        for subscription, listening in self.rules.interests.listening.items():
            span = now - listening - JOIN_MARGIN
            since = self.since.get(subscription, sequence)
            for entry in header.read_record(sequence):
                if header.departed - entry.departed >= span:
                    break
                if entry.sequence <= since:
                    self.since[subscription] = entry.sequence - 1
                    self.shelf.numbers.reopen(entry.sequence)
                    lowest = min(lowest, entry.sequence)
        return lowest

    def expect(self, now: float, header: Data, sequence: int, latch: float) -> None:
        rules, shelf, numbers = self.rules, self.shelf, self.shelf.numbers
        numbers.reach(sequence - 1)
        if self.is_foreign(header) or numbers.are_settled(sequence - header.entries - 1, sequence):
            return
        for entry in header.read_record(sequence):
            number = entry.sequence
            if number in shelf.awaited.missing or numbers.is_settled(number):
                continue
            wanted = self.wanted_by(number, entry.bits)
            if wanted:
                deadline = now + rules.bounded(latch - (header.departed - entry.departed))
                shelf.expect(number, Missing(entry.bits, entry.departed, wanted, deadline))
            elif wanted is not None:
                numbers.settle(number)

    def is_foreign(self, header: Data) -> bool:
        """Rows of another size cannot be compared with ours."""
        return header.row_bytes != self.rules.interests.profile.size_bytes

    def wanted_by(self, number: int, bits: int) -> tuple[int, ...] | None:
        """None where the row does not say."""
        matching = self.rules.interests.matching(bits)
        if not matching:
            return matching
        since = self.since
        return tuple([one for one in matching if since.get(one, number) < number])


def departure(header: Data, place: int) -> float:
    """Of the event at this place of the record, counted from 1; the record is not compressed."""
    if not place:
        return header.departed
    (age,) = ENTRY_AGE.unpack_from(header.record, (place - 1) * (ENTRY_AGE.size + header.row_bytes))
    return header.departed - float(age) / MICROSECONDS


def sent_before(header: Data, sequence: int) -> float:
    """When the event before this one was sent."""
    if header.previous is not None:
        return header.previous
    entries = header.read_record(sequence, 1)
    return entries[0].departed if entries else header.departed
