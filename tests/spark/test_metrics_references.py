"""The references of metrics, on traces small enough to be counted by hand. No Spark is needed here."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spark.references.families import reference
from tests.spark.references.values import cut, jain, millionths, percentile
from tidings.machine.effects import Note
from tidings.pubsub.client import Arrived
from tidings.pubsub.notes import (
    Acknowledged,
    BlockStored,
    CoverageCounted,
    JobStarted,
    LinkChanged,
    Misrouted,
    NeighboursCounted,
    PathMeasured,
    Promised,
    ReceiptAsked,
    Released,
    RepairRequested,
    RepairSent,
    RoundTripMeasured,
    Twin,
)
from tidings.spark.metrics.registry import FAMILIES, METRICS
from tidings.trace.record import Record
from tidings.trace.things import of_effect

Due = Sequence[tuple[str, str, str]]


def publish(time: float, node: str, key: str) -> Record:
    return Record(run="r", time=time, node=node, kind="publish", message="Event", key=key, size_bytes=100)


def deliver(time: float, node: str, key: str, detail: str = "{}") -> Record:
    return Record(
        run="r", time=time, node=node, kind="deliver", message="Event", key=key, size_bytes=100, detail=detail
    )


def note(time: float, node: str, written: Note) -> Record:
    record = of_effect(time, node, written)
    assert record is not None
    return msgspec.structs.replace(record, run="r")


def arrival(time: float, node: str, subscription: int, publisher: str, number: int, accepted_at: float = 0.0) -> Record:
    [record] = Arrived(subscription, publisher, accepted_at, (number,), (b"\x80",), (b"",)).publications()
    return deliver(time, node, str(record.key), json.dumps(record.about))


def move(kind: Any, time: float, node: str, message: str, detail: str | None = None) -> Record:
    return Record(run="r", time=time, node=node, kind=kind, message=message, detail=detail)


def only(name: str, records: Sequence[Record], expected: Due = ()) -> dict[str, Any]:
    [row] = reference(METRICS[name], records, expected)
    return row


def test_each_metric_says_what_it_is_in_one_sentence_and_no_two_columns_of_a_family_share_a_name() -> None:
    for family in FAMILIES.values():
        columns = [column for metric in family.metrics for column in metric.values]
        assert len(columns) == len(set(columns))
    for metric in METRICS.values():
        assert metric.about.endswith(".") and ". " not in metric.about


def test_the_delivery_ratio_is_of_what_the_workload_owes() -> None:
    records = [publish(0, "p", "1"), deliver(1, "a", "1"), deliver(2, "x", "1")]
    due = [("r", "1", "a"), ("r", "1", "b"), ("r", "2", "a"), ("r", "2", "b")]
    assert only("delivery_ratio", records, due)["delivery_ratio"] == 0.25
    assert only("false_negatives", records, due)["false_negatives"] == 3
    assert only("false_positives", records, due)["false_positives"] == 1


@pytest.mark.spec("S-44")
def test_the_delivery_ratio_of_the_example() -> None:
    """4.6.2 (X-7): of the first publication both subscribers got it, of the second one of three."""
    records = [publish(0, "p", "p1"), publish(0, "p", "p2")]
    records += [deliver(1, "a", "p1"), deliver(1, "b", "p1"), deliver(1, "c", "p2")]
    due = [("r", "p1", "a"), ("r", "p1", "b"), ("r", "p2", "c"), ("r", "p2", "d"), ("r", "p2", "e")]
    assert only("delivery_ratio", records, due)["delivery_ratio"] == 0.6


def test_two_subscriptions_of_a_client_are_no_repeat_and_the_same_one_twice_is() -> None:
    one, two = '{"subscription":1}', '{"subscription":2}'
    records = [deliver(1, "a", "1", one), deliver(2, "a", "1", two), deliver(3, "a", "1", two)]
    row = only("deliveries", records)
    assert (row["delivered"], row["deliveries"], row["repeated"], row["unpublished"]) == (1, 3, 1, 1)


def test_latency_is_from_the_publication_of_the_key_to_the_first_delivery() -> None:
    records = [publish(1, "p", "1"), deliver(1.5, "a", "1"), deliver(9, "a", "1"), deliver(2, "b", "1")]
    row = only("latency", records)
    assert (row["latency_mean"], row["latency_p50"], row["latency_max"]) == (0.75, 0.75, 1.0)


def test_a_repair_counts_as_recovery_only_if_no_other_copy_came() -> None:
    repaired = '{"repaired":true}'
    records = [
        publish(1, "p", "1"),
        deliver(3, "a", "1", repaired),
        deliver(3, "b", "1", repaired),
        deliver(2, "b", "1"),
    ]
    row = only("recovery_delay", records)
    assert (row["recoveries"], row["recovery_delay_mean"]) == (1, 2.0)


def test_an_event_after_a_later_one_violates_order_and_equal_times_do_not() -> None:
    in_order = [arrival(time, "a", 1, "p", number) for time, number in ((1, 1), (2, 3), (2, 2), (3, 4))]
    again = [arrival(time, "a", 1, "p", number) for time, number in ((4, 1), (5, 3))]
    assert only("fifo_violations", in_order)["fifo_violations"] == 0
    assert only("fifo_violations", in_order + again)["fifo_violations"] == 2


def test_what_was_held_back_came_earlier_than_it_was_handed_over() -> None:
    def handed(time: float, number: int, hold: float) -> Record:
        return deliver(time, "a", str(number), f'{{"publisher":"p","number":{number},"hold":{hold}}}')

    row = only("fifo_violations", [handed(1, 1, 0), handed(3, 2, 0), handed(3, 3, 1), handed(3, 4, 0.5)])
    assert (row["fifo_violations"], row["arrival_violations"]) == (0, 1)


def test_extra_delay_is_averaged_for_each_pair_and_then_over_pairs() -> None:
    def held(node: str, latch: float) -> Record:
        return deliver(1, node, "1", f'{{"publisher":"p","number":1,"latch":{latch},"hold":0.01}}')

    row = only("extra_delay", [held("a", 0.02), held("a", 0.04), held("b", 0.09)])
    assert (row["extra_delay_mean"], row["extra_delay_max"], row["hold_mean"]) == (0.06, 0.09, 0.01)


def test_requests_beyond_the_first_of_an_event_are_duplicates_and_a_repair_answers_all() -> None:
    records = [
        *(note(time, "a", RepairRequested("1", 0)) for time in (1.0, 1.5, 2.0)),
        note(3.0, "a", RepairRequested("2", 0)),
        note(2.2, "b", RepairSent("1", "unicast")),
    ]
    assert only("recovery_traffic", records)["duplicate_requests"] == 2
    assert only("hit_ratio", records)["network_hit_ratio"] == 0.75
    assert only("request_repair_delay", records)["request_repair_delay_mean"] == 1.2


def test_jain_is_one_when_all_have_the_same_and_one_of_n_when_one_has_everything() -> None:
    assert jain([7, 7, 7]) == 1.0
    assert jain([9, 0, 0]) == pytest.approx(1 / 3)
    assert jain([]) is None


def test_publications_in_memory_are_sampled_at_full_seconds() -> None:
    records = [
        note(0.5, "p", ReceiptAsked(1, 1)),
        note(2.5, "p", Acknowledged(1)),
        note(1.5, "p", ReceiptAsked(2, 4)),
        note(3.0, "p", Acknowledged(2)),
        note(3.5, "p", ReceiptAsked(5, 5)),
        note(3.75, "p", Released(5)),
        note(4.0, "p", ReceiptAsked(6, 6)),
    ]
    # At 1: number 1; at 2: numbers 1 to 4; at 3: none, since they are gone; at 4: number 6.
    assert only("publications_in_memory", records)["publications_in_memory"] == 1.5
    row = only("acknowledgement_time", records)
    assert (row["acknowledged"], row["acknowledgement_mean"]) == (2, 1.75)


def test_what_comes_before_the_promise_is_premature() -> None:
    records = [note(2, "a", Promised(1, "installed")), *(arrival(time, "a", 1, "p", 1) for time in (1, 2, 3))]
    row = only("premature_deliveries", [*records, arrival(1, "a", 2, "p", 1), arrival(1, "b", 1, "p", 1)])
    assert (row["premature"], row["premature_share"], row["premature_clients_share"]) == (1, 1 / 3, 1.0)


def test_what_is_older_than_was_asked_for_is_premature() -> None:
    asked = [
        note(0, "a", Promised(1, "reference", since=5.0)),
        note(0, "a", Promised(1, "reference", publisher="p", number=3)),
    ]
    after = [arrival(1, "a", 1, "p", number, accepted_at=4.0) for number in (2, 3, 4)]
    since = [arrival(1, "a", 1, "q", 1, accepted_at=at) for at in (4.9, 5.0, 5.1)]
    before = [arrival(0, "a", 1, "p", 3, accepted_at=4.0)]
    assert only("premature_deliveries", asked + after + before)["premature"] == 1
    assert only("premature_deliveries", asked + after + since)["premature"] == 2


def test_the_difference_of_twins_is_what_one_received_and_the_other_did_not() -> None:
    twins = [note(0, "a", Twin(1, "g")), note(0, "b", Twin(2, "g"))]
    received = [arrival(1, "a", 1, "p", 1), arrival(1, "b", 2, "p", 1), arrival(2, "b", 2, "p", 2)]
    row = only("group_difference", [*twins, *received, arrival(3, "b", 1, "p", 3)])
    assert (row["differing_group_share"], row["group_difference_mean"]) == (1.0, 1.0)


@pytest.mark.spec("D-66")
def test_messages_of_a_reconfiguration_weigh_one_a_tenth_or_their_patterns() -> None:
    caused = '{"reconfiguration":"x","patterns":26}'
    weights = {"SubscriptionAdded": 1.0, "SubscriptionRemoved": 1.0, "Flush": 0.1, "PathEdited": 0.1}
    for message, weight in {**weights, "Activate": 26.0, "PathEdit": 26.0}.items():
        assert (
            only("reconfiguration_cost", [move("send", 1, "a", message, caused)])["cost_per_reconfiguration"] == weight
        )
    misrouted = note(1, "a", Misrouted("x"))
    assert only("reconfiguration_cost", [misrouted])["cost_per_reconfiguration"] == 1.0


@pytest.mark.spec("D-68")
def test_what_clients_ask_for_is_not_overhead_of_a_reconfiguration() -> None:
    caused = move("send", 1, "a", "SubscriptionAdded", '{"reconfiguration":"x"}')
    asked = move("send", 1, "a", "SubscriptionAdded", '{"filter":"price > 1"}')
    assert only("reconfiguration_cost", [caused, asked])["cost_per_reconfiguration"] == 1.0


@pytest.mark.spec("D-69")
def test_who_sees_only_signals_or_misrouted_events_is_not_involved() -> None:
    caused = '{"reconfiguration":"x"}'
    records = [
        note(1, "end", LinkChanged("x")),
        move("receive", 1, "changed", "SubscriptionAdded", caused),
        move("receive", 1, "signalled", "Flush", caused),
        note(1, "misled", Misrouted("x")),
    ]
    assert only("involved_dispatchers", records)["involved_mean"] == 2.0


@pytest.mark.spec("P-125")
def test_metrics_of_feeds_follow_their_definitions() -> None:
    trips = [note(0, "a", RoundTripMeasured("p", 0.2)), note(5, "a", RoundTripMeasured("p", 0.4))]
    assert (
        only("measured_stretch", [*trips, publish(1, "p", "1"), deliver(1.3, "a", "1")])["measured_stretch_p50"] == 2.0
    )
    path = note(1, "a", PathMeasured(path=3.0, direct=2.5))
    assert only("coordinate_stretch", [path])["coordinate_stretch_mean"] == 1.2
    coverage = [note(1, node, CoverageCounted(feeds=4, covered=n)) for node, n in (("a", 4), ("b", 2))]
    assert only("subscription_coverage", coverage) == {"run": "r", "coverage_mean": 0.75, "coverage_full_share": 0.5}
    roles = note(1, "a", NeighboursCounted(roles=6, distinct=4))
    assert only("neighbour_overlap", [roles])["overlap_mean"] == 1.5
    updates = [Record(run="r", time=1, node=node, kind="receive", message="Update", key="1") for node in "ab"]
    assert only("noise", updates, [("r", "1", "a")])["noise"] == 1
    control = [move("send", 0, "a", "Ping"), move("receive", 10, "a", "PingAck"), move("send", 5, "a", "Update")]
    assert only("control_bandwidth", control)["control_per_second_mean"] == 0.2
    assert only("control_bandwidth", control)["control_bytes_per_second_mean"] == 10.0
    assert only("data_traffic", control)["data_mean"] == 1.0
    job = [note(2, "t", JobStarted("j")), *(note(time, "t", BlockStored("j", 64)) for time in (5, 9))]
    row = only("completion_time", job)
    assert (row["completion_mean"], row["block_bytes"]) == (7.0, 128)


@given(st.integers(-(10**15), 10**15))
def test_cutting_keeps_four_digits_and_loses_at_most_a_thousandth(value: int) -> None:
    assert abs(value) * 0.999 <= abs(cut(value)) <= abs(value)
    assert len(str(abs(cut(value))).rstrip("0")) <= 4


@given(st.lists(st.integers(0, 9999), min_size=1), st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 1.0]))
def test_a_percentile_is_that_of_numpy_rounded(values: list[int], share: float) -> None:
    numpy = pytest.importorskip("numpy", reason="numpy comes with the extra fast")
    found = percentile(values, share)
    assert found is not None and abs(found - numpy.percentile(values, share * 100)) <= 0.5 + 1e-6


def test_microseconds_are_rounded_to_the_nearest() -> None:
    assert [millionths(time) for time in (0.0, 0.1, 1.0000004, 1.0000006)] == [0, 100_000, 1_000_000, 1_000_001]
