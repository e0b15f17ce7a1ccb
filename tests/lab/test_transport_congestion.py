"""E18 to E25: the world of the congestion experiments, tiny; and what is measured of it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidings.lab.transport.congestion import e18, e19, e20, e21, e22, e23, e24, e25
from tidings.lab.transport.congestion.bottleneck import CONTROL, PLAIN, Flow, Plan, between, paced, plain, play
from tidings.lab.transport.congestion.spans import COUNTED, all_series, over_time, series, spans
from tidings.lab.transport.samples import Columns
from tidings.lab.transport.substrate import WARM_UP
from tidings.machine.streams import random_stream
from tidings.trace.record import Record
from tidings.trace.writers import RingBuffer, open_writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

numpy = pytest.importorskip("numpy", reason="figures need numpy; install tidings[lab]")

EVERYTHING = 1_000_000
NARROW = Plan(flows=(Flow(1, ((0.0, 800.0),), 0.5),), capacity=((0.0, 500e3),), seconds=8.0)


def tally_of(plan: Plan, is_paced: bool) -> dict[str, float]:
    tally = play(plan, paced() if is_paced else plain(), 1, RingBuffer(EVERYTHING, "run", 1))
    return {name: tally.total(name) for name in COUNTED}


def columns_of(records: list[Record], variant: str = "", **parameters: Any) -> Columns:
    """What `spans` selects from a trace."""
    rows = []
    for record in records:
        if record.kind == "note" and record.message == "span":
            said = json.loads(record.detail or "")
            rows.append((record.node, said["mode"], said["place"], *(float(said.get(name, 0)) for name in COUNTED)))
    columns = dict(zip(("node", "mode", "place", *COUNTED), map(numpy.array, zip(*rows, strict=True)), strict=True))
    return {**columns, "variant": numpy.array([variant]), "parameters": numpy.array([json.dumps(parameters)])}


def values(columns: Columns, module: Any) -> dict[tuple[str, str], float]:
    return {(name, group): value for name, group, value in module.measure(columns)}


def run(module: Any, variant: str = "", **parameters: Any) -> dict[tuple[str, str], float]:
    trace = RingBuffer(EVERYTHING, "run", 1)
    module.run(variant, parameters, 1, trace)
    return values(columns_of(trace.records(), variant, **parameters), module)


@pytest.fixture(scope="module")
def uncontrolled() -> dict[str, float]:
    return tally_of(NARROW, is_paced=False)


@pytest.fixture(scope="module")
def controlled() -> dict[str, float]:
    return tally_of(NARROW, is_paced=True)


def test_without_control_the_link_carries_what_it_can_and_drops_the_rest(uncontrolled: dict[str, float]) -> None:
    assert uncontrolled["delivered"] == pytest.approx(8 * 219 + 50, rel=0.02)
    assert uncontrolled["withheld"] == 0
    assert uncontrolled["wanted"] - uncontrolled["reached"] > 1000


def test_with_control_little_is_lost_and_the_rest_is_withheld(
    controlled: dict[str, float], uncontrolled: dict[str, float]
) -> None:
    assert controlled["wanted"] == uncontrolled["wanted"]
    missed = controlled["wanted"] - controlled["reached"] - controlled["withheld"]
    assert 0 <= missed < (uncontrolled["wanted"] - uncontrolled["reached"]) / 3
    assert controlled["feedback"] > 10
    assert controlled["travel"] / controlled["delivered"] < uncontrolled["travel"] / uncontrolled["delivered"]


def test_the_same_seed_gives_the_same_run(controlled: dict[str, float]) -> None:
    assert tally_of(NARROW, is_paced=True) == controlled


def test_a_flow_beside_tcp_leaves_it_some_of_the_link() -> None:
    plan = Plan(flows=NARROW.flows, capacity=NARROW.capacity, seconds=12.0, tcp_from=2.0)
    shares = {}
    for is_paced in (False, True):
        tally = play(plan, paced() if is_paced else plain(), 1, RingBuffer(EVERYTHING, "run", 1))
        tcp, content = tally.total("delivered", ["tcp"]), tally.total("delivered", ["s1"])
        shares[is_paced] = tcp / (tcp + content)
    assert shares[True] > shares[False] + 0.1


def test_a_longer_record_leaves_the_link_as_many_events() -> None:
    longer = NARROW.for_record(5)
    assert longer.event_bytes == 285 + 60
    assert longer.capacity[0][1] / longer.event_bytes == pytest.approx(500e3 / 285)
    few = Plan(flows=NARROW.flows, capacity=NARROW.capacity, seconds=4.0)
    short = play(few, plain(), 1, RingBuffer(EVERYTHING, "run", 1)).total("delivered")
    long = play(few.for_record(5), plain(record=5), 1, RingBuffer(EVERYTHING, "run", 1)).total("delivered")
    assert long == pytest.approx(short, rel=0.01)


def test_rates_go_in_straight_lines_from_point_to_point() -> None:
    points = ((0.0, 100.0), (10.0, 100.0), (20.0, 200.0))
    assert [between(points, at) for at in (0.0, 5.0, 10.0, 15.0, 20.0, 99.0)] == [100, 100, 100, 150, 200, 200]


def test_a_long_line_is_drawn_with_few_points() -> None:
    made = over_time("x", numpy.arange(1000.0), 0.5)
    assert len(made) == 125
    assert made[0] == ("x", "2", 3.5)


@pytest.mark.spec("T-114")
def test_control_cuts_the_losses_of_a_varying_load_and_still_uses_the_link() -> None:
    figures = run(e19, stretch=0.1, additions=False)
    assert figures["reduced", CONTROL] >= 10
    assert figures["received share", CONTROL] >= 0.93


@pytest.mark.spec("T-115")
def test_a_rate_follows_the_capacity_up_and_down() -> None:
    plan = Plan(flows=(Flow(1, ((0.0, 950.0),), 1.0),), capacity=e20.capacity(24.0, 8.0), seconds=24.0, span=e20.SPAN)
    trace = RingBuffer(EVERYTHING, "run", 1)
    play(plan, paced(), 1, trace)
    counted = all_series(columns_of(trace.records()), CONTROL, ["s1"], int(24.0 / e20.SPAN))
    made = {(name, group): value for name, group, value in e20.reactions(counted, plan.capacity[1:], 8.0)}
    assert made["time to follow", "up"] <= 5.0
    assert made["time to follow", "down"] <= 2.0


@pytest.mark.spec("T-116")
def test_three_flows_share_a_link_that_is_too_small_for_them() -> None:
    flows = tuple(Flow(pair, ((0.0, rate),), 1.0) for pair, rate in enumerate((400.0, 160.0, 140.0), 1))
    plan = Plan(flows=flows, capacity=((0.0, 1e6),), seconds=30.0)
    fairness = {}
    for mode in (plain(), paced()):
        trace = RingBuffer(EVERYTHING, "run", 1)
        play(plan, mode, 1, trace)
        columns = columns_of(trace.records())
        rates = [series(columns, mode.label, node, "delivered", 30)[8:].sum() for node in e21.SUBSCRIBERS]
        fairness[mode.label] = e21.jain(rates)
    assert fairness[CONTROL] >= 0.95
    assert fairness[PLAIN] < 0.9


def test_time_to_follow_a_change_is_found() -> None:
    steps = e20.capacity(6.0, 2.0)
    assert steps == ((0.0, 1e6), (2.0, 2e6), (4.0, 1e6))
    events = {bps: bps / (8 * 285) * e20.SPAN for bps in (1e6, 2e6)}
    delivered = numpy.full(24, events[1e6])
    delivered[12:16] = events[2e6]
    missed = numpy.zeros(24)
    missed[16:18] = 50
    made = {
        (name, group): value
        for name, group, value in e20.reactions({"delivered": delivered, "missed": missed}, steps[1:], 2.0)
    }
    assert made["time to follow", "up"] == 1.5
    assert made["time to follow", "down"] == 1.0


def test_jain_tells_equal_shares_from_unequal_ones() -> None:
    assert e21.jain([73.0, 73.0, 73.0]) == pytest.approx(1.0)
    assert e21.jain([1.0, 0.0, 0.0]) == pytest.approx(1 / 3)
    assert e21.jain([220.0, 110.0, 110.0]) < 0.95


def test_a_small_crowd_is_measured() -> None:
    figures = run(e23, "diameter 3", seconds=7.0, clients=4, rate=700.0, additions=False)
    assert figures["missed share", "diameter 3, plain"] > 0.1
    assert figures["used", "diameter 3"] <= 1.1
    assert figures["deliveries", "diameter 3"] > 0


def test_brokers_of_the_crowd_are_as_far_apart_as_the_sources_say() -> None:
    for variant, (topology, home, next_to) in e23.TREES.items():
        around = topology.neighbours()
        assert next_to in around[home]
        assert max(far(around, node) for node in topology.nodes) == int(variant.split()[-1])


def far(around: dict[str, list[str]], start: str) -> int:
    reached, ring, links = {start}, [start], 0
    while ring := [other for node in ring for other in around[node] if other not in reached]:
        reached.update(ring)
        links += 1
    return links


def test_interests_of_the_crowd_are_few_large_and_many_small_ones() -> None:
    rng = random_stream(1, "interests")
    interests = [e23.draw_interest(rng) for _ in range(300)]
    assert {len(interest) for interest in interests} == {1, 2, 3, 4, 5}
    frequent = sum(value == 0 for interest in interests for value in interest.values())
    assert frequent / sum(map(len, interests)) == pytest.approx(0.22, abs=0.04)


@pytest.mark.spec("T-97")
def test_the_flow_table_grows_less_than_the_subscribers_and_takes_little_memory() -> None:
    measured = e24.run("", {"subscribers_max": 400}, 1, RingBuffer(1, "run", 1))
    assert measured["memory|"] < 1.0
    assert measured["growth|"] < 0.7
    assert measured["rows|400 subscribers"] > measured["rows|50 subscribers"]


@pytest.mark.spec("T-119")
def test_recovery_and_control_together_lose_nearly_nothing_and_a_repair_helps_several() -> None:
    figures = run(e25, seconds=8.0, rate=60.0, narrow_bps=0.3e6, additions=False)
    assert figures["missed share", "both"] <= 0.05
    assert figures["recoveries for a repair", "both"] >= 1.5


def test_who_reads_less_of_a_record_believes_no_less_than_the_ideal() -> None:
    trace = RingBuffer(EVERYTHING, "run", 1)
    e18.run("", {"seconds": 12.0}, 1, trace)
    rows = [
        (record.node.split(":")[1], record.message, record.time - WARM_UP, json.loads(record.detail or "")["allowed"])
        for record in trace.records()
        if record.message in ("tick", "loss_event")
    ]
    names = ("node", "what", "at", "allowed")
    columns = dict(zip(names, map(numpy.array, zip(*rows, strict=True)), strict=True))
    columns["allowed"] = columns["allowed"].astype(float)
    columns["parameters"] = numpy.array([json.dumps({"seconds": 12.0})])
    figures = {(name, group): value for name, group, value in e18.measure(columns)}
    assert figures["loss events", "ideal"] > 0
    assert 0 <= figures["loss events seen", "k = 2"] <= 1.2


def test_shares_beside_tcp_are_measured_from_what_was_counted() -> None:
    length = 90
    rows = [("s1", CONTROL, place, 300.0 if place < 60 else 200.0) for place in range(length)]
    rows += [("tcp", CONTROL, place, 238.0) for place in range(60, length)]
    node, mode, place, delivered = map(numpy.array, zip(*rows, strict=True))
    nothing = {name: numpy.zeros(len(rows)) for name in COUNTED}
    columns = {**nothing, "wanted": delivered, "node": node, "mode": mode, "place": place, "delivered": delivered}
    columns["parameters"] = numpy.array([json.dumps({"seconds": length, "tcp": "cubic"})])
    figures = values(columns, e22)
    assert figures["share of tcp", f"{CONTROL}, cubic"] == pytest.approx(238 / 438)
    assert figures["content, largest lead", f"{CONTROL}, cubic"] < 0


@pytest.mark.spark
def test_spark_reads_the_spans_that_were_counted(spark: "SparkSession", tmp_path: Path) -> None:
    path, records = str(tmp_path / "trace.parquet"), RingBuffer(EVERYTHING, "run", 1)
    few = Plan(flows=NARROW.flows, capacity=NARROW.capacity, seconds=2.0)
    play(few, paced(), 1, records)
    with open_writer(path, "run", 1) as trace:
        for record in records.records():
            trace.write(record)
    columns = columns_of(records.records())
    names = ("node", "mode", "place", *COUNTED)
    counted = sorted(zip(*(columns[name].tolist() for name in names), strict=True))
    rows = spans(spark.read.parquet(path)).select(*names).collect()
    assert sorted(map(tuple, rows)) == counted
