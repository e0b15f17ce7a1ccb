"""The publisher's flow table: which reports matter, and what they change (transport 3.7.4, 3.7.5, 3.12)."""

import tracemalloc
from random import Random
from typing import Literal

import pytest

from tidings.matching.bloom import BloomProfile
from tidings.model.language.parser import parse
from tidings.protocols.transport.congestion.flows import TABLE_FULL, Change, FlowTable, ReceiverClaim
from tidings.protocols.transport.congestion.paced import flow_of, interests_of
from tidings.protocols.transport.messages import FlowReport
from tidings.protocols.transport.params import CongestionParams, TransportParams

PROFILE = BloomProfile(bits=256)
S1, S2, S3, S4 = 1, 2, 3, 4
EVERYTHING = "TRUE"
SPORT, TEAM, BOTH = "news = 'sport'", "team = 'Y'", "news = 'sport' AND team = 'Y'"


def table(covering: Literal["bits", "exact"] = "bits", flows_max: int = 4096) -> FlowTable:
    congestion = CongestionParams(covering=covering, flows_max=flows_max)
    return FlowTable(TransportParams(is_paced=True, profile=PROFILE, congestion=congestion))


def report_of(text: str, quota: float, is_exact: bool = False) -> FlowReport:
    (interest,) = interests_of(parse(text), PROFILE, is_exact=is_exact)
    return FlowReport(interest.flow, quota, interest.bits, interest.text)


def tell(flows: FlowTable, who: int, text: str, quota: float, now: float = 0.0) -> list[str]:
    report = report_of(text, quota, flows.is_exact)
    changes = flows.report(now, ReceiverClaim(who, who, 0.0, 0.1), report, quota)
    assert not isinstance(changes, str)
    return [change.what for change in changes]


def rows(flows: FlowTable) -> list[tuple[int, float]]:
    """Limiting receiver and quota of each row, in the order in which they came."""
    return [(row.limiting, row.quota) for row in flows.rows.values()]


@pytest.mark.spec("T-98c")
def test_the_worked_example_of_the_flow_table() -> None:
    flows = table()
    assert tell(flows, S1, SPORT, 50.0) == ["add"]
    assert tell(flows, S2, BOTH, 80.0) == []
    assert tell(flows, S3, TEAM, 30.0) == ["add"]
    event_bits = report_of(BOTH, 0.0).bits
    assert [row.limiting for row in flows.rows.values() if event_bits & row.bits == row.bits] == [S1, S3]
    assert tell(flows, S4, EVERYTHING, 40.0) == ["add", "remove"]
    assert rows(flows) == [(S3, 30.0), (S4, 40.0)]
    assert tell(flows, S1, SPORT, 45.0) == []
    assert tell(flows, S1, SPORT, 20.0) == ["add"]
    assert rows(flows) == [(S3, 30.0), (S4, 40.0), (S1, 20.0)]


@pytest.mark.spec("T-82")
def test_the_limiting_receiver_moves_its_quota_up_and_down() -> None:
    flows = table()
    tell(flows, S1, SPORT, 50.0)
    assert tell(flows, S1, SPORT, 80.0, now=1.0) == ["update"]
    assert rows(flows) == [(S1, 80.0)]
    assert tell(flows, S1, SPORT, 10.0, now=2.0) == ["update"]
    assert rows(flows) == [(S1, 10.0)]
    assert next(iter(flows.rows.values())).feedback_at == 2.0


@pytest.mark.spec("T-83", "T-93")
def test_a_flow_inside_one_that_is_limited_to_less_adds_no_row() -> None:
    flows = table()
    tell(flows, S1, SPORT, 50.0)
    assert tell(flows, S2, BOTH, 50.0) == []
    assert tell(flows, S2, BOTH, 51.0) == []
    assert rows(flows) == [(S1, 50.0)]


@pytest.mark.spec("T-84")
def test_rows_inside_a_flow_with_a_lower_quota_go() -> None:
    flows = table()
    tell(flows, S1, BOTH, 50.0)
    tell(flows, S2, SPORT + " AND league = 1", 60.0)
    tell(flows, S3, TEAM + " AND player = 1", 5.0)
    assert tell(flows, S4, SPORT, 20.0) == ["add", "remove", "remove"]
    assert rows(flows) == [(S3, 5.0), (S4, 20.0)]


@pytest.mark.spec("T-84")
def test_a_row_that_falls_below_those_that_it_covers_removes_them() -> None:
    flows = table()
    tell(flows, S1, SPORT, 100.0)
    tell(flows, S2, BOTH, 50.0)
    assert tell(flows, S1, SPORT, 40.0) == ["update", "remove"]
    assert rows(flows) == [(S1, 40.0)]


@pytest.mark.spec("T-83")
def test_a_row_that_rises_above_one_that_covers_it_goes() -> None:
    flows = table()
    tell(flows, S1, SPORT, 40.0)
    tell(flows, S2, BOTH, 20.0)
    assert tell(flows, S2, BOTH, 41.0) == ["update", "remove"]
    assert rows(flows) == [(S1, 40.0)]


@pytest.mark.spec("T-85", "T-86")
def test_an_equal_filter_with_a_lower_quota_changes_the_limiting_receiver() -> None:
    flows = table()
    tell(flows, S1, SPORT, 50.0)
    assert tell(flows, S2, SPORT, 49.0) == ["switch"]
    assert rows(flows) == [(S2, 49.0)]


@pytest.mark.spec("T-86")
def test_an_equal_filter_with_an_equal_quota_changes_nothing() -> None:
    flows = table()
    tell(flows, S1, SPORT, 50.0)
    assert tell(flows, S2, SPORT, 50.0) == []
    assert rows(flows) == [(S1, 50.0)]


@pytest.mark.spec("T-87")
def test_only_the_limiting_receiver_can_raise_a_rate() -> None:
    flows = table()
    tell(flows, S1, SPORT, 50.0)
    assert tell(flows, S2, SPORT, 500.0) == []
    assert tell(flows, S3, EVERYTHING, 500.0) == ["add"]
    assert rows(flows) == [(S1, 50.0), (S3, 500.0)]


@pytest.mark.spec("T-87")
def test_who_borrows_the_number_of_the_limiting_receiver_cannot_raise_its_rate() -> None:
    flows = table()
    report = report_of(SPORT, 50.0)
    flows.report(0.0, ReceiverClaim(S1, "alice", 0.0, 0.1), report, 50.0)
    assert flows.report(0.0, ReceiverClaim(S1, "mallory", 0.0, 0.1), report, 500.0) == []
    assert rows(flows) == [(S1, 50.0)]


@pytest.mark.spec("T-96")
def test_bits_take_two_ranges_for_one_flow_and_filters_do_not() -> None:
    by_bits, exactly = table(), table("exact")
    for flows in (by_bits, exactly):
        tell(flows, S1, "price < 100", 50.0)
        tell(flows, S2, "price < 200", 60.0)
    assert rows(by_bits) == [(S1, 50.0)]
    assert rows(exactly) == [(S1, 50.0), (S2, 60.0)]
    assert tell(exactly, S2, "price < 200", 40.0) == ["update", "remove"]
    assert rows(exactly) == [(S2, 40.0)]


@pytest.mark.spec("T-92")
def test_a_row_that_nobody_confirms_goes_after_the_time_out() -> None:
    flows = table()
    tell(flows, S1, SPORT, 50.0, now=1.0)
    tell(flows, S2, TEAM, 50.0, now=3.0)
    assert flows.expiry_at() == 6.0
    assert flows.expire(5.9) == []
    assert [change.what for change in flows.expire(6.0)] == ["remove"]
    assert rows(flows) == [(S2, 50.0)]


def test_a_released_row_goes_at_once_and_only_by_its_limiting_receiver() -> None:
    flows = table()
    tell(flows, S1, SPORT, 50.0)
    report = report_of(SPORT, 0.0)
    assert flows.release(ReceiverClaim(S2, S2, 0.0, 0.1), report) == []
    assert [change.what for change in flows.release(ReceiverClaim(S1, S1, 0.0, 0.1), report)] == ["remove"]


def test_a_full_table_takes_a_row_from_whoever_has_most() -> None:
    flows = table(flows_max=3)
    for place in range(3):
        tell(flows, S1, f"a = {place}", 50.0, now=float(place))
    assert tell(flows, S2, "b = 1", 50.0, now=5.0) == ["remove", "add"]
    assert [row.limiting for row in flows.rows.values()] == [S1, S1, S2]
    report = report_of("c = 1", 1.0)
    assert flows.report(6.0, ReceiverClaim(S2, S2, 0.0, 0.1), report, 1.0) == TABLE_FULL


@pytest.mark.spec("T-97")
def test_two_thousand_rows_of_256_bits_take_less_than_a_megabyte() -> None:
    rng = Random(1)
    flows = table()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    added = 0
    while len(flows.rows) < 2000:
        bits = 0
        for _ in range(16):
            bits |= 1 << rng.randrange(256)
        added += 1
        report = FlowReport(flow_of(bits, "", 32), 100.0 + added * 0.5, bits)
        flows.report(added * 0.1, ReceiverClaim(10**6 + added, 10**6 + added, added * 0.01, 0.05), report, report.quota)
        del report
    size_bytes = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert size_bytes < 1_000_000


def test_a_change_names_its_row() -> None:
    flows = table()
    changes = flows.report(0.0, ReceiverClaim(S1, S1, 0.0, 0.1), report_of(SPORT, 5.0), 5.0)
    assert changes == [Change("add", next(iter(flows.rows.values())))]
