"""Caches that adapt: how many events each receiver keeps for others."""

from random import Random

import pytest

from tests.worlds.recovery import PUBLISHER, STREAM, UnpacedRecovery, event, heard, params_with
from tidings.machine.inputs import Fired
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.protocols.transport.messages import LossRepair, LossRequest
from tidings.protocols.transport.params import RecoveryParams, TransportParams
from tidings.protocols.transport.recovery.cache import CacheRoom, Ring, size_needed
from tidings.protocols.transport.recovery.recovery import Recovery
from tidings.protocols.transport.signals import CarriedEvent, Configure, Listen, Told

A: dict[str, Value] = {"a": 1}
PARAMS = RecoveryParams()
LARGE = CacheRoom(10**6, 10**9)


def ring_of(count: int, size: float) -> Ring:
    ring = Ring(LARGE, size)
    for number in range(count):
        ring.put(number, kept(number))
    return ring


def kept(number: int, payload: bytes = b"p"):  # type: ignore[no-untyped-def]
    header, head, bits = event(number, A)
    return header, CarriedEvent(head, payload), bits


@pytest.mark.spec("T-65")
@pytest.mark.parametrize(
    ("distance", "peer_distance", "rate", "size"),
    [(0.2, 0.1, 10, 10.0), (0.2, 0.1, 50, 46.0), (0.2, 0.1, 100, 91.0), (0.5, 0.5, 10, 26.0), (0.5, 0.5, 100, 251.0)],
)
def test_the_size_that_is_needed(distance: float, peer_distance: float, rate: float, size: float) -> None:
    c1 = c2 = 2.0
    assert size_needed((c1 + c2 / 2) * distance, distance, peer_distance, rate) == pytest.approx(size)


@pytest.mark.spec("T-65")
def test_an_active_repairer_takes_the_size_that_is_needed() -> None:
    ring = ring_of(5, 5)
    ring.rate, ring.heard = 50.0, 50  # as many as before
    ring.learn(0.6, 0.2, 0.1)
    ring.look_up(3)
    ring.sent_repair(9.0)
    ring.review(10.0, PARAMS)
    assert ring.size == pytest.approx(46.0)


@pytest.mark.spec("T-66")
@pytest.mark.parametrize("size", [5.0, 14.0, 33.3, 100.0])
def test_a_repairer_that_was_asked_for_what_it_had_overwritten_grows_by_a_tenth_at_least(size: float) -> None:
    ring = ring_of(200, size)
    ring.sent_repair(9.0)
    assert ring.look_up(199) is not None and ring.look_up(0) is None
    ring.review(10.0, PARAMS)
    assert ring.size >= 1.1 * size - 1e-9


@pytest.mark.spec("T-66")
@pytest.mark.parametrize("size", [14.0, 100.0, 300.0])
def test_all_others_shrink_by_a_tenth(size: float) -> None:
    idle = ring_of(10, size)
    idle.review(10.0, PARAMS)
    outrun = ring_of(10, size)
    outrun.sent_repair(9.0)
    for number in range(2):
        outrun.heard_repair(number, is_suppressed=True)
    outrun.review(10.0, PARAMS)
    retired = ring_of(10, size)
    retired.sent_repair(9.0)
    retired.review(19.1, PARAMS)
    assert [each.size for each in (idle, outrun, retired)] == [pytest.approx(0.9 * size)] * 3


def test_where_nobody_answers_whoever_had_the_event_begins_to_keep_more() -> None:
    ring, answered = ring_of(10, 5), ring_of(10, 5)
    for each in (ring, answered):
        assert each.look_up(0) is None
    answered.heard_repair(0, is_suppressed=False)
    ring.review(1.0, PARAMS)
    answered.review(1.0, PARAMS)
    assert ring.size == pytest.approx(5.5) and answered.size == 5.0


@pytest.mark.spec("T-67")
def test_the_size_stays_within_its_bounds_and_a_spike_takes_all_that_is_allowed() -> None:
    ring = ring_of(5, 5)
    for _ in range(50):
        ring.review(100.0, PARAMS)
        assert ring.size == 5.0
    ring.learn(3.0, 1.0, 1.0)
    ring.look_up(3)
    ring.sent_repair(100.0)
    ring.heard = 10_000
    ring.review(101.0, PARAMS)
    assert ring.size == 300.0


@pytest.mark.spec("T-68")
def test_growing_keeps_what_is_there_and_shrinking_drops_the_oldest() -> None:
    ring = ring_of(10, 8)
    assert list(ring.entries) == list(range(2, 10))
    ring.resize(20)
    assert list(ring.entries) == list(range(2, 10))
    ring.resize(3)
    assert list(ring.entries) == [7, 8, 9]
    ring.put(10, kept(10))
    assert list(ring.entries) == [8, 9, 10]
    ring.check()


def test_an_event_that_is_kept_already_is_not_kept_twice() -> None:
    ring = ring_of(3, 5)
    ring.put(1, kept(1, b"other"))
    assert len(ring.order) == 3 and ring.entries[1][1].payload == b"p"


def test_all_rings_together_keep_to_the_number_and_the_bytes_allowed() -> None:
    budget = CacheRoom(10, 1000)
    rings = [Ring(budget, 8) for _ in range(3)]
    for number in range(8):
        for ring in rings:
            ring.put(number, kept(number))
            assert budget.count <= 10
    assert all(ring.order for ring in rings)
    for number in range(100, 108):
        rings[0].put(number, kept(number, bytes(300)))
        assert budget.size_bytes <= 1000
    assert budget.count == sum(len(ring.order) for ring in rings)
    rings[0].put(200, kept(200, bytes(2000)))
    assert budget.count == budget.size_bytes == 0  # what does not fit at all is not kept


def machine_with(params: TransportParams) -> Recovery:
    machine = UnpacedRecovery(7, params, Random(1))
    machine.handle(0.0, Listen(1, parse("a = 1"), is_reliable=True))
    return machine


def test_sizes_are_reviewed_once_in_a_period() -> None:
    machine = machine_with(params_with(cache_min=2, cache_period=1.0))
    (timer,) = machine.handle(0.0, heard(0, A))
    assert (timer.key, timer.at) == ("review", 1.0)
    machine.handle(0.5, Configure(params_with(cache_min=10)))
    (again,) = machine.handle(1.0, Fired("review"))
    assert again.at == 2.0 and machine.streams[STREAM].ring.capacity == 10


def test_events_for_subscriptions_that_are_not_reliable_are_not_kept() -> None:
    machine = machine_with(params_with())
    machine.handle(0.0, Listen(1, parse("a = 1")))
    assert machine.handle(0.0, heard(0, A)) == []
    assert len(machine.streams) == 1


def test_what_requesters_claim_cannot_make_a_cache_grow_beyond_its_bound() -> None:
    machine = machine_with(params_with())
    for number in range(100):
        machine.handle(0.0, heard(number, A))
        message = LossRequest(8, PUBLISHER, number, 0.0, 3600.0, 3600.0, 0, 16)
        machine.handle(0.0, Told(message, CarriedEvent(b"", b""), STREAM, number))
        machine.handle(0.0, Fired(("repair", STREAM, number)))
    for second in range(1, 5):
        machine.handle(float(second), Fired("review"))
        machine.check()
        assert machine.streams[STREAM].ring.capacity <= 300


def test_a_repair_of_others_tells_that_somebody_keeps_enough() -> None:
    machine = machine_with(params_with())
    for number in range(10):
        machine.handle(0.0, heard(number, A))
    message = LossRequest(8, PUBLISHER, 0, 0.0, 0.3, 0.1, 0, 16)
    machine.handle(0.0, Told(message, CarriedEvent(b"", b""), STREAM, 0))
    header, head, _ = event(0, A)
    machine.handle(0.1, Told(LossRepair(9, 0.0, 8, 0.0, 0.0, header), CarriedEvent(head, b"p"), STREAM, 0))
    machine.handle(1.0, Fired("review"))
    assert machine.streams[STREAM].ring.capacity == 5
