"""The benchmark measures what it says: right match rates, the same data in every form, baselines that are right."""

from typing import Any

import pytest

from bench.matchers import (
    COUNTING,
    NAIVE,
    NARROW,
    NUMPY,
    PLAIN,
    ROARING,
    SCAN,
    Prepared,
    build,
    check_answers,
    contenders,
)
from bench.measures import ADD, EVENTS_PER_SECOND, Figure
from bench.report import document, grid_of
from bench.targets import Figures, Target, targets
from bench.timing import Contender, percentile
from bench.workload import NAMES, VARIANTS, make_workload
from tidings.model.event import Event


@pytest.fixture(scope="module", params=VARIANTS)
def prepared(request: Any) -> Prepared:
    return Prepared(make_workload(400, 0.01, events=32, variant=request.param))


@pytest.mark.parametrize("matcher", [SCAN, PLAIN, NAIVE, COUNTING, NUMPY, NARROW, ROARING])
def test_every_matcher_answers_as_brute_force_does(prepared: Prepared, matcher: str) -> None:
    if matcher == ROARING:
        pytest.importorskip("pyroaring")
    for contender in contenders(matcher, build(matcher, prepared), prepared):
        check_answers(contender, prepared.workload)


def test_a_wrong_answer_is_noticed(prepared: Prepared) -> None:
    wrong = Contender("wrong", [[0]], lambda chunk: [[*prepared.workload.matching(0), 399_999]])
    with pytest.raises(AssertionError, match="wrong"):
        check_answers(wrong, prepared.workload)


@pytest.mark.parametrize(("variant", "rate"), [*((name, 0.01) for name in VARIANTS), ("uniform", 0.1)])
def test_the_match_rate_is_the_wanted_one(variant: str, rate: float) -> None:
    workload = make_workload(4000, rate, events=200, variant=variant)
    assert workload.predicates.matches(workload.rows).mean() == pytest.approx(rate, rel=0.2)


def test_the_same_seed_gives_the_same_workload() -> None:
    one, other, third = (make_workload(100, 0.01, events=8, seed=seed) for seed in (1, 1, 2))
    assert list(one.filters()) == list(other.filters()) != list(third.filters())
    assert one.events() == other.events() != third.events()


def test_a_part_of_the_filters_is_that_part() -> None:
    workload = make_workload(50, 0.01, events=1)
    assert list(workload.filters(10, 20)) == list(workload.filters())[10:20]


def test_arrow_batches_hold_the_events(prepared: Prepared) -> None:
    pytest.importorskip("pyarrow")
    events = [Event(row) for batch in prepared.workload.batches(10) for row in batch.to_pylist()]
    assert events == prepared.events
    assert set(NAMES) == set(events[0].attributes)


def test_targets_are_judged_from_the_figures_of_the_run() -> None:
    figures = [
        Figure("Index: Arrow batches", EVENTS_PER_SECOND, 100_000, 0.001, "uniform", 50_000),
        Figure("numpy counting", EVENTS_PER_SECOND, 100_000, 0.001, "uniform", 1000),
    ]
    rows = {target.text: target for target in targets(figures)}
    reached = rows["100k, 0.1 %: Arrow batches / numpy counting"]
    assert (reached.measured, reached.reached) == (50, True)
    assert rows["100k, 0.1 %: Arrow batches / pyroaring"].reached is None
    assert Target("x", 5, False, 6, "us").reached is False
    assert Figures([]).worst_variant() is None


def test_the_page_shows_each_figure_in_its_row_and_column() -> None:
    figures = [
        Figure("Index", ADD, 1000, 0.001, "uniform", 12.34),
        Figure("Index", ADD, 1_000_000, 0.01, "zipf", 1234.5),
    ]
    grid = grid_of("updates", figures)
    assert grid.columns == ["1k 0.1%", "1M 1.0% zipf"]
    assert grid.rows == [["Index, us an add", "12.3", "1,234"]]
    page = document({"updates": figures}, targets(figures))
    assert "| Index, us an add | 12.3 | 1,234 |" in page


def test_a_percentile_is_one_of_the_values() -> None:
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile([1.0] * 99 + [7.0], 0.99) == 7.0
