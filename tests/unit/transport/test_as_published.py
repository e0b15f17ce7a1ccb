"""Where our rules differ from those of the sources, they can be switched back, one by one or all at once."""

import pytest

from tidings.protocols.transport.congestion.paced import FlowInterest, PacedFlow, PacedStream
from tidings.protocols.transport.congestion.rates import loss_rate_at
from tidings.protocols.transport.params import CongestionParams, TransportParams, as_published

ROUND_TRIP = 0.1


def stream(params: CongestionParams, received: int = 1000) -> PacedStream:
    """After ten seconds in which so many events came, without a loss."""
    made = PacedStream(("p", 1), 0.0, params)
    made.round_trip, made.meter.count = ROUND_TRIP, received
    made.intervals.open = float(received)
    made.last = received
    return made


def test_what_comes_late_takes_a_loss_event_back_unless_as_published() -> None:
    for takes_back, events in ((True, 0), (False, 1)):
        paced = stream(CongestionParams(takes_back=takes_back))
        assert paced.lose(10.0, sequence=999)
        paced.arrived(999, is_paced=True)
        assert len(paced.intervals.closed) == events


def test_the_first_interval_allows_half_of_what_came_as_published_and_else_up_to_all_of_it() -> None:
    half, whole = (1 / loss_rate_at(rate, ROUND_TRIP) for rate in (50.0, 100.0))
    published, ours = CongestionParams(first_interval="half"), CongestionParams()
    for params, expected in ((published, half), (ours, min(whole, 1000.0))):
        paced = stream(params)
        paced.lose(10.0, sequence=1001)
        assert paced.intervals.closed[0] == pytest.approx(expected)
    assert half < 1000.0


def test_quotas_of_overlapping_filters_are_together_what_is_allowed_as_published_and_else_count_events_twice() -> None:
    for scales, together in ((False, 1.0), (True, 2.0)):
        paced = stream(CongestionParams(scales_overlap=scales))
        for flow in (1, 2):
            row = paced.rows[flow] = PacedFlow(FlowInterest(flow, flow), 0.0)
            row.meter.count = 1000  # both want everything
        paced.intervals.closed.append(20.0)
        paced.intervals.event_at, paced.intervals.open = 9.0, 1.0
        allowed, total = paced.assess(10.0)
        assert allowed < total == pytest.approx(100.0)
        assert sum(row.quota for row in paced.rows.values()) == pytest.approx(together * allowed)


def test_as_published_differs_from_the_defaults_where_the_documents_say_and_takes_further_parameters() -> None:
    params, ours = as_published(is_reliable=True, record=2), TransportParams(is_reliable=True, record=2)
    assert (params.is_reliable, params.record) == (True, 2)
    assert (params.profile.bits, params.tells_ranges, params.ordering.quantile) == (128, False, "exact")
    assert (params.congestion.control_share, params.congestion.control_min) == (0.05, 2.0)
    assert not params.recovery.answers_alone and ours.recovery.answers_alone
    assert not params.recovery.uses_history and ours.recovery.uses_history
    assert params.recovery.rounds_max == 6 and params.digest_period == 0.0
