"""Ordering under any loss, delay, repetition and lie: against a plain model, and against what it promises."""

import math
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.ordering import OTHERS, OURS, STREAM, OrderingDesk, Publisher, content_of, params_of
from tidings.machine.effects import Drop
from tidings.protocols.transport.headers import Data
from tidings.protocols.transport.ordering.rules import latch_factor
from tidings.protocols.transport.ordering.shelf import NumberStates
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.signals import CarriedEvent, DigestHeard, EventLost, Heard, Recovered

EVENTS_MAX = 60
LATCH_MAX = 0.25

modes = st.sampled_from(["basic", "enhanced", "static"])
fates = st.lists(
    st.tuples(
        st.booleans(),  # for us
        st.sampled_from([0.0, 0.0, 0.001, 0.002, 0.02]),  # after the one before
        st.lists(st.floats(0.05, 0.25), max_size=2),  # delays: none is a loss, two a repetition
        st.sampled_from([0.0] * 9 + [0.01]),  # a digest that much later
    ),
    min_size=1,
    max_size=EVENTS_MAX,
)


class PlainStream:
    """3.3.9 and 3.3.10 as they are written: sets of numbers, and the whole record of every event."""

    def __init__(self, params: TransportParams) -> None:
        self.params, self.ordering = params, params.ordering
        self.factor = latch_factor(self.ordering.violation, self.ordering.quantile)
        self.base: tuple[int, float, float] | None = None
        self.samples: list[float] = []
        self.received: set[int] = set()
        self.settled: set[int] = set()
        self.waiting: set[int] = set()
        self.pending: dict[int, tuple[float, float]] = {}
        self.handed = self.first = 0
        self.out: list[tuple[int, float, str]] = []
        self.lost: list[tuple[int, float]] = []

    def hear(self, now: float, publisher: Publisher, sequence: int) -> None:
        departed = publisher.sent[sequence - publisher.first].departed
        if sequence in self.received:
            return
        self.received.add(sequence)
        self.settled.add(sequence)
        self.waiting.discard(sequence)
        if self.base is None:
            self.base, self.handed, self.first = (sequence, departed, now), sequence, sequence
            self.out.append((sequence, now, "direct"))
            return
        self.samples = [*self.samples, abs(now - self.base[2] - (departed - self.base[1]))][-self.ordering.samples :]
        entries = publisher.sent[: sequence - publisher.first][::-1][: self.params.record]
        if self.ordering.mode == "enhanced":
            for entry in entries:
                if entry.sequence in self.settled:
                    continue
                if entry.sequence <= self.first or entry.bits != publisher.sent[0].bits:
                    self.settled.add(entry.sequence)
                else:
                    self.waiting.add(entry.sequence)
            for number in sorted(self.waiting):
                if number < self.handed:
                    self.lose(now, number)
        if sequence <= self.handed:
            self.out.append((sequence, now, "late"))
            return
        reference = self.base[0] if sequence > self.base[0] else self.handed
        latch = self.latch(departed, sequence, reference, entries)
        if sequence > self.base[0]:
            self.base = sequence, departed, now
        self.pending[sequence] = now, now + latch
        self.drain(now)

    def latch(self, departed: float, sequence: int, reference: int, entries: list[Any]) -> float:
        if all(number in self.settled for number in range(reference + 1, sequence)):
            return 0.0
        if self.ordering.mode == "static":
            return self.ordering.static_latch
        scale = 2 / (3 * len(self.samples)) * sum(self.samples)
        sent: float
        if self.ordering.mode == "basic":
            sent = entries[0].departed
        else:
            missing = [one for one in entries if one.sequence in self.waiting and one.sequence > reference]
            sent = missing[0].departed if missing else entries[-1].departed
        return min(max(self.factor * scale - (departed - sent), 0.0), self.ordering.latch_max)

    def drain(self, now: float) -> None:
        while self.pending:
            head = min(self.pending)
            is_closed = all(number in self.settled for number in range(self.handed + 1, head))
            if not is_closed and self.pending[head][1] > now:
                break
            for number in sorted(self.waiting):
                if number < head:
                    self.lose(now, number)
            del self.pending[head]
            self.handed = head
            self.out.append((head, now, "direct"))

    def lose(self, now: float, number: int) -> None:
        self.waiting.remove(number)
        self.settled.add(number)
        self.lost.append((number, now))

    def until(self, now: float) -> None:
        while self.pending and self.pending[min(self.pending)][1] <= now:
            self.drain(self.pending[min(self.pending)][1])


def played(
    params: TransportParams, events: list[tuple[bool, float, list[float], float]], has_digests: bool
) -> tuple[Publisher, list[tuple[float, int, int]]]:
    """A publisher, and what arrives when: time, order, number; 0 for a digest of all before that place."""
    publisher, time, arrivals = Publisher(params), 0.0, []
    for place, (is_ours, after, delays, digest) in enumerate(events):
        time += after
        number = publisher.send(time, OURS if is_ours or not place else OTHERS)
        arrivals += [(time + delay, place, number) for delay in delays if is_ours or not place]
        if digest and has_digests:
            arrivals.append((time + 0.1 + digest, place, 0))
    return publisher, sorted(arrivals)


@pytest.mark.spec("T-27", "T-29", "T-30", "T-31", "T-33", "T-43", "T-44")
@given(modes, st.sampled_from(["exact", "appendix"]), st.integers(1, 8), fates)
def test_it_does_what_the_plain_model_does(mode: str, quantile: str, record: int, events: list[Any]) -> None:
    params = params_of(record, mode=mode, quantile=quantile, latch_max=LATCH_MAX)
    publisher, arrivals = played(params, events, has_digests=False)
    receiver, plain = OrderingDesk(params), PlainStream(params)
    for time, _, number in arrivals:
        receiver.at(time, publisher.heard(number))
        plain.until(time)
        plain.hear(time, publisher, number)
    receiver.advance(100.0)
    plain.until(100.0)
    handed = [(item.sequence, item.way) for _, item in receiver.handed()]
    assert handed == [(number, way) for number, _, way in plain.out]
    for (time, _), (_, expected, _) in zip(receiver.handed(), plain.out, strict=True):
        assert time == pytest.approx(expected, abs=2e-6)
    assert [lost.sequence for lost in receiver.told(EventLost)] == [number for number, _ in plain.lost]


@pytest.mark.spec("T-33", "T-35", "T-39", "T-43", "T-44", "T-45")
@given(modes, st.integers(1, 8), fates, st.sampled_from(["deliver", "drop"]), st.integers(1, 5), st.booleans())
def test_it_keeps_its_promises(
    mode: str, record: int, events: list[Any], late_policy: str, pending_max: int, has_repairs: bool
) -> None:
    params = params_of(record, mode=mode, late_policy=late_policy, pending_max=pending_max * 10, latch_max=LATCH_MAX)
    publisher, arrivals = played(params, events, has_digests=True)
    receiver = OrderingDesk(params)
    came: dict[int, float] = {}
    told_of: set[int] = set()
    for time, place, number in arrivals:
        if number:
            receiver.at(time, publisher.heard(number))
            came.setdefault(number, time)
            told_of.update(range(number - record, number))
        else:
            before = Publisher(params)
            before.sent = publisher.sent[: place + 1]
            receiver.at(time, before.digest(before.sent[-1].departed + 0.005))
            told_of.update(range(1, place + 2))
        if has_repairs:
            for lost in receiver.told(EventLost)[-1:]:
                receiver.at(time, Recovered(STREAM, lost.sequence, content_of(lost.sequence), "repaired"))
    receiver.advance(100.0)
    receiver.ordering.check()

    handed = receiver.handed()
    times = Counter(item.sequence for _, item in handed)
    assert set(times.values()) <= {1}, "delivered twice"
    dropped = {int(drop.item.payload) for drop in receiver.told(Drop)}
    assert set(came) <= set(times) | dropped
    in_order = [item.sequence for _, item in handed if item.way == "direct"]
    assert in_order == sorted(in_order)
    losses = [lost.sequence for lost in receiver.told(EventLost)]
    assert len(losses) == len(set(losses)), "told twice"
    first = arrivals[0][2] if arrivals else 0
    for number, time in receiver.lost().items():
        assert mode == "enhanced"
        assert publisher.sent[number - 1].bits == publisher.sent[0].bits, "not for us"
        assert number in told_of, "nothing told of it"
        assert came.get(number, math.inf) >= time - 1e-6, "it was here"
        assert number > first or not first
    highest = 0.0
    for time, item in sorted(handed, key=lambda one: one[1].sequence):
        if item.way == "direct" and item.sequence in came:
            highest = max(highest, came[item.sequence])
            assert time <= highest + LATCH_MAX + 1e-9, "held too long"
    assert receiver.timers == {} or max(receiver.timers.values()) > receiver.now


@given(st.data())
def test_nothing_that_strangers_send_raises(data: st.DataObject) -> None:
    params = params_of(3, pending_max=20, window=300)
    receiver, rng = OrderingDesk(params), Random(data.draw(st.integers(0, 2**32)))
    numbers = st.one_of(st.integers(0, 40), st.integers(0, 2**33), st.sampled_from([255, 256, 600, 601, 2**31]))
    for _ in range(data.draw(st.integers(1, 40))):
        sequence, entries = data.draw(numbers), data.draw(st.sampled_from([0, 1, 3, 5, 255]))
        row_bytes = data.draw(st.sampled_from([16, 16, 16, 8, 255]))
        record = (
            rng.randbytes(entries * (4 + row_bytes)) if data.draw(st.booleans()) else bytes(entries * (4 + row_bytes))
        )
        departed = data.draw(st.sampled_from([0.0, 0.001, 1.0, 1e6, 9e12]))
        previous = data.draw(st.sampled_from([None, None, -4000.0, 1e6]))
        is_compressed = data.draw(st.booleans())
        header = Data(
            7, sequence % 2**32, departed, 1.0, False, (), previous, entries, row_bytes, record, is_compressed
        )
        content = CarriedEvent(b"", b"", subscriptions=data.draw(st.sampled_from([(1,), (), (1, 9), (9,)])))
        happened: Any = data.draw(
            st.sampled_from(
                [
                    Heard(STREAM, sequence, header, content),
                    DigestHeard(STREAM, sequence, header),
                    Recovered(STREAM, sequence, content, "repaired"),
                ]
            )
        )
        receiver.at(receiver.now + data.draw(st.sampled_from([0.0, 0.001, 3.0])), happened)
    receiver.advance(receiver.now + 10.0)
    assert not any(one.shelf.pending or one.shelf.awaited for one in receiver.ordering.streams.values())


class PlainNumbers:
    def __init__(self, first: int) -> None:
        self.received = {first}
        self.settled = set(range(first + 1))


@given(st.integers(0, 50), st.lists(st.tuples(st.sampled_from(["add", "settle", "run", "pass"]), st.integers(1, 40))))
def test_numbers_are_two_sets(first: int, steps: list[tuple[str, int]]) -> None:
    numbers, plain, high = NumberStates(first, 20), PlainNumbers(first), first
    for step, ahead in steps:
        number = max(0, high - 25 + ahead)
        match step:
            case "add":
                numbers.add(number)
                plain.received.add(number)
                plain.settled.add(number)
            case "settle":
                numbers.settle(number)
                plain.settled.add(number)
            case "run":
                numbers.add_through(number, number + 5)
                plain.received.update(range(number, number + 6))
                plain.settled.update(range(number, number + 6))
                number += 5
            case "pass":
                numbers.settle_through(number, number + 5)
                plain.settled.update(range(number, number + 6))
                number += 5
        high = max(high, number)
        numbers.check()
        assert numbers.high == high
        assert numbers.origin >= high - 2 * 20
        for one in range(numbers.origin, high + 3):
            assert numbers.is_received(one) == (one in plain.received)
            assert numbers.is_settled(one) == (one in plain.settled)
        for low in range(numbers.origin - 1, high, 7):
            between = range(low + 1, high)
            assert numbers.are_settled(low, high) == all(one in plain.settled for one in between)
            assert numbers.count_settled(low, high) == sum(one in plain.settled for one in between)
