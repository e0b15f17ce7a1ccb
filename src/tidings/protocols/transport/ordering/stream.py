"""One publisher at one receiver: each of its events is sorted in where it belongs.

An event whose number follows the highest one so far goes to the application at once, with hardly any work: nothing is
read but its times. Whatever else happens is sorted in:

- *ahead*: numbers are missing before it. The record of the event says which of them are for us. If none is, it goes
  out; else it is held for its latch (`rules.py`), measured from the latest of them that may still come. Numbers that
  no record tells of may be for us: then the earliest entry of the record stands for them.
- *behind*, but nothing later went out: it goes to its place, with a latch of its own, for still earlier ones may be
  missing (G-5: without this a dense stream loses most of what ordering can do).
- *late*: a later one has gone out. It is delivered as such, or dropped, as the application prefers.

What records tell is read in `records.py`; what is held and awaited, and when it goes, is on the shelf (`shelf.py`).

A digest is a record without an event. What it shows to be missing is waited for in the same way, each with a deadline
of its own; so losses are found also where nothing for us follows them (T-49).

A repair takes the place that the event would have had, if nothing later went out and something earlier may still come;
all others go out at once. They touch neither the delays nor the highest number (T-60).
"""

import math

from tidings.machine.effects import Deliver, Drop, Effect
from tidings.protocols.transport.headers import Data
from tidings.protocols.transport.ordering.records import RecordReader
from tidings.protocols.transport.ordering.rules import DelayDifferences, probability
from tidings.protocols.transport.ordering.shelf import Awaited, Held, Rules, Shelf
from tidings.protocols.transport.signals import (
    CarriedEvent,
    DigestHeard,
    GapSeen,
    Handed,
    Heard,
    Quality,
    Recovered,
    Way,
    event_key,
    publisher_text,
)
from tidings.pubsub.notes import Latched

TOO_LATE = "came after a later event of its publisher"
REPEATED = "received already"
TOO_OLD = "so far below the highest number that it may be a repetition"


class OrderedStream:
    """State for one stream, from its first event on."""

    def __init__(self, now: float, heard: Heard, rules: Rules) -> None:
        header, sequence = heard.header, heard.sequence
        self.stream, self.rules = heard.stream, rules
        self.base, self.departed, self.arrived, self.entries = sequence, header.departed, now, header.entries
        """The event with the highest number: that, its two times, the length of its record."""
        self.delays = DelayDifferences(rules.params.samples)
        self.shelf = Shelf(heard.stream, sequence, rules)
        self.folded = sequence
        """The shelf knows of all numbers up to here."""
        self.records = RecordReader(self.shelf, rules)
        self.joined: tuple[int, ...] = ()
        self.is_calm = True
        """Nothing is held or awaited, and nothing is known of numbers above `base`."""
        self.late = 0
        self.join(heard.content.subscriptions, sequence)

    def begin(self, now: float, header: Data, content: CarriedEvent) -> list[Effect]:
        """The first event goes out at once; unless what its record proves to be ours is missed too, and is not here."""
        if self.rules.params.joins == "listening" and self.rules.is_enhanced:
            effects: list[Effect] = []
            reference = self.shelf.handed = self.records.reach_back(now, header, self.base) - 1
            sent = self.records.read(header, self.base, header.entries, reference, effects)
            if self.shelf.awaited.missing:
                self.shelf.delivered = 0
                latch = self.rules.bounded(self.longest_latch - (header.departed - sent))
                effects += self.hold(now, self.base, content, latch, header.departed - sent)
                self.calm_down()
                return effects
            self.shelf.handed = self.base
        return [Deliver(Handed(content, self.stream, self.base))]

    # Events.

    def hear(self, now: float, heard: Heard) -> list[Effect]:
        sequence, header = heard.sequence, heard.header
        if self.is_calm and sequence == self.base + 1 and header.entries == self.entries:
            departed, content = header.departed, heard.content
            self.delays.push(now - self.arrived - (departed - self.departed))
            self.base, self.departed, self.arrived = sequence, departed, now
            if content.subscriptions != self.joined:
                self.join(content.subscriptions, sequence)
            return [Deliver(Handed(content, heard.stream, sequence))]
        self.fold()
        if sequence < self.shelf.numbers.origin:
            return [Drop(heard.content, TOO_OLD)]
        if self.shelf.numbers.is_received(sequence):
            return [Drop(heard.content, REPEATED)]
        self.delays.push(now - self.arrived - (header.departed - self.departed))
        self.join(heard.content.subscriptions, sequence)
        self.shelf.numbers.add(sequence)
        self.shelf.awaited.take(sequence)
        if sequence > self.base:
            effects = self.sort_in_ahead(now, sequence, header, heard.content)
        else:
            effects = self.sort_in_behind(now, sequence, header, heard.content)
        self.calm_down()
        return effects

    def fold(self) -> None:
        """Tell the shelf what came in order since."""
        run = self.base - self.folded
        if run:
            self.shelf.numbers.add_through(self.folded + 1, self.base)
            self.folded = self.base
            self.shelf.handed = max(self.shelf.handed, self.base)
            self.shelf.delivered += run

    def settle(self, now: float) -> list[Effect]:
        effects = self.shelf.settle(now)
        self.calm_down()
        return effects

    def calm_down(self) -> None:
        shelf = self.shelf
        is_waiting = shelf.pending or shelf.awaited.missing or shelf.asked
        self.is_calm = shelf.numbers.high <= self.base and not is_waiting

    def join(self, subscriptions: tuple[int, ...], sequence: int) -> None:
        """What was sent before a subscription's first event is not missing to it."""
        for subscription in subscriptions:
            if subscription in self.rules.interests.filters:
                self.records.since.setdefault(subscription, sequence)
        self.joined = subscriptions

    def sort_in_ahead(self, now: float, sequence: int, header: Data, content: CarriedEvent) -> list[Effect]:
        base, shelf = self.base, self.shelf
        effects = self.end_loss(sequence, content)
        sent = self.read_record(header, sequence, base, effects)
        latch = self.latch_of(header, base, sequence, sent)
        if sequence > base + 1:
            effects.append(self.gap(base, sequence))
        self.base, self.departed, self.arrived, self.entries = sequence, header.departed, now, header.entries
        self.folded = sequence
        if latch <= 0.0 and not shelf.pending and not shelf.awaited.missing and not shelf.asked:
            # The repair of a later one may have gone out.
            way: Way = "direct" if sequence > shelf.handed else "late"
            shelf.handed = max(shelf.handed, sequence)
            shelf.delivered += 1
            effects.append(Deliver(Handed(content, self.stream, sequence, way)))
            return effects
        return effects + self.hold(now, sequence, content, latch, header.departed - sent)

    def sort_in_behind(self, now: float, sequence: int, header: Data, content: CarriedEvent) -> list[Effect]:
        effects = self.end_loss(sequence, content)
        handed = self.shelf.handed
        sent = self.read_record(header, sequence, handed, effects)
        if sequence > handed:
            latch = self.latch_of(header, handed, sequence, sent)
            return effects + self.hold(now, sequence, content, latch, header.departed - sent)
        self.late += 1
        effects.append(Deliver(Quality("late", self.stream, sequence)))
        if self.rules.params.late_policy == "drop":
            effects.append(Drop(content, TOO_LATE))
        else:
            self.shelf.delivered += 1
            effects.append(Deliver(Handed(content, self.stream, sequence, "late")))
        return effects + self.shelf.settle(now)

    def end_loss(self, sequence: int, content: CarriedEvent) -> list[Effect]:
        """An event comes after it was given up: recovery need not ask for it any more."""
        if self.shelf.lost.pop(sequence, 0) is not None:
            return []
        self.shelf.asked.pop(sequence, None)
        effects: list[Effect] = [Recovered(self.stream, sequence, content, "late")]
        if sequence > self.shelf.handed or self.rules.params.late_policy == "deliver":
            effects.append(Deliver(Quality("recovered", self.stream, sequence)))
        return effects

    def hold(self, now: float, sequence: int, content: CarriedEvent, latch: float, delta: float) -> list[Effect]:
        """For nothing, perhaps; but those before it come first."""
        effects: list[Effect] = [self.latch_note(sequence, content, latch, delta)] if latch > 0.0 else []
        self.shelf.hold(sequence, Held(content, now, latch, now + latch))
        return effects + self.shelf.settle(now)

    def read_record(self, header: Data, sequence: int, reference: int, effects: list[Effect]) -> float:
        most = header.entries
        if sequence > self.base and most <= self.entries:
            # What an earlier record of the same length told need not be read again.
            most = min(most, sequence - self.base - 1)
        return self.records.read(header, sequence, most, reference, effects)

    def latch_of(self, header: Data, reference: int, sequence: int, sent: float) -> float:
        if self.shelf.numbers.are_settled(reference, sequence):
            return 0.0
        rules = self.rules
        if rules.is_static:
            return rules.params.static_latch
        return rules.bounded(rules.model(self.delays) - (header.departed - sent))

    def gap(self, base: int, sequence: int) -> GapSeen:
        missing = sequence - base - 1
        if not self.rules.is_enhanced:
            return GapSeen(self.stream, sequence, missing, missing, 0)
        shelf = self.shelf
        relevant = sum([base < number < sequence for number in shelf.awaited.missing])
        told = shelf.numbers.count_settled(base, sequence) + relevant
        given_up = sum([base < number < sequence for number in shelf.lost]) if shelf.lost else 0
        return GapSeen(self.stream, sequence, missing, missing - told, relevant + given_up)

    def latch_note(self, sequence: int, content: CarriedEvent, latch: float, delta: float) -> Latched:
        beta = self.delays.scale
        return Latched(
            key=event_key(self.stream, sequence, content),
            publisher=publisher_text(self.stream),
            number=sequence,
            latch=latch,
            delta=delta,
            beta=beta,
            violation=1.0 - probability(delta, beta) if beta else 0.0,
        )

    # Digests and repairs.

    def hear_digest(self, now: float, digest: DigestHeard) -> list[Effect]:
        if not self.rules.is_enhanced:
            return []
        self.fold()
        self.records.read_digest(now, digest.header, digest.sequence, self.longest_latch)
        return self.settle(now)

    @property
    def longest_latch(self) -> float:
        """For an event that was sent at the same time as the one that came; before anything was measured, a guess."""
        if self.rules.is_static or not self.delays.values:
            return self.rules.params.static_latch
        return self.rules.bounded(self.rules.model(self.delays))

    def recover(self, now: float, recovered: Recovered) -> list[Effect]:
        sequence, content, way, shelf = recovered.sequence, recovered.content, recovered.way, self.shelf
        self.fold()
        if shelf.numbers.is_received(sequence):
            return [Drop(content, REPEATED)]
        shelf.awaited.take(sequence)
        shelf.lost.pop(sequence, None)
        shelf.asked.pop(sequence, None)
        if sequence <= self.base + self.rules.window:
            # A repair comes from anybody; it must not make us forget what is not so far ahead.
            shelf.numbers.add(sequence)
        effects: list[Effect] = []
        if shelf.handed < sequence < self.base:
            shelf.hold(sequence, Held(content, now, 0.0, shelf.deadline_above(sequence), way))
        elif shelf.is_asked_below(sequence):
            shelf.hold(sequence, Held(content, now, 0.0, now, way))
        else:
            shelf.delivered += 1
            effects.append(Deliver(Handed(content, self.stream, sequence, way)))
            effects.append(Deliver(Quality("recovered", self.stream, sequence)))
        return effects + self.settle(now)

    def give_up(self, now: float, sequence: int) -> list[Effect]:
        """Nobody has it: what waits for it goes on."""
        self.fold()
        self.shelf.end_asking(sequence)
        return self.settle(now)

    # The rest.

    def fire(self, now: float) -> list[Effect]:
        self.fold()
        self.shelf.armed = math.inf
        return self.settle(now)

    def adopt(self, rules: Rules) -> None:
        """Other parameters from now on."""
        if rules.params.samples != self.delays.size:
            self.delays = self.delays.resized(rules.params.samples)
        self.rules = self.shelf.rules = self.records.rules = rules
        self.shelf.numbers.window = rules.window
        if not rules.is_enhanced:
            # Without records nothing is known to be for us.
            self.shelf.awaited = Awaited()

    @property
    def delivered(self) -> int:
        return self.shelf.delivered + self.base - self.folded

    def check(self) -> None:
        self.shelf.check()
        assert self.folded <= self.base, "more is known than came"
        assert len(self.delays.values) <= self.rules.params.samples, "more samples are kept than `samples` allows"
        is_calm = not self.shelf.pending and not self.shelf.awaited
        assert is_calm or not self.is_calm, "events would go out before others that are held"
