"""Better trees: figures are those of walking every way, and small proposals are nearly the best."""

from itertools import combinations, pairwise
from random import Random

import pytest

from tests.worlds.planned import random_tree, tree
from tidings.model.errors import UsageError
from tidings.planning.evaluators import Proposal, Wish, propose
from tidings.planning.planner import make_plan
from tidings.planning.traffic import Traffic, TrafficArrays, TrafficRow, traffic_of
from tidings.planning.tree import OverlayTree, is_tree, link, path_between


def random_traffic(rng: Random, brokers: tuple[str, ...]) -> Traffic:
    rows = [
        TrafficRow(a, b, rate=rng.choice([0.0, 0.0, rng.uniform(1, 50)]), latency=rng.uniform(0.005, 0.1))
        for a, b in combinations(brokers, 2)
    ]
    return traffic_of(rows)


def by_walking(of: OverlayTree, traffic: Traffic) -> tuple[float, float, dict[str, float]]:
    """Mean hops, mean latency and loads, event by event."""
    around, loads = of.neighbours(), dict.fromkeys(of.brokers, 0.0)
    hops = latency = 0.0
    for (a, b), rate in traffic.rates.items():
        way = path_between(around, a, b)
        hops += rate * (len(way) - 1)
        latency += rate * sum(traffic.latencies[link(x, y)] for x, y in pairwise(way))
        for broker in way:
            loads[broker] += rate
    return hops / traffic.rate, latency / traffic.rate, loads


def test_figures_are_those_of_walking_every_way(examples: int) -> None:
    rng = Random(1)
    for _ in range(min(examples, 60)):
        of = random_tree(rng, rng.randint(2, 12))
        traffic = random_traffic(rng, of.brokers)
        if not traffic.rates:
            continue
        found, (hops, latency, loads) = TrafficArrays(of.brokers, traffic).figures(of), by_walking(of, traffic)
        assert (found.hops, found.latency) == pytest.approx((hops, latency))
        assert found.load_max == pytest.approx(max(loads.values())) == pytest.approx(loads[found.busiest])
        assert found.load_mean == pytest.approx(sum(loads.values()) / len(loads))


def all_trees(brokers: tuple[str, ...]) -> list[OverlayTree]:
    pairs = list(combinations(brokers, 2))
    return [OverlayTree(brokers, links) for links in combinations(pairs, len(brokers) - 1) if is_tree(links, brokers)]


def test_with_time_to_change_everything_latency_and_load_are_near_the_least_possible() -> None:
    rng, over = Random(2), {"latency": list[float](), "load": list[float]()}
    for _ in range(12):
        today = random_tree(rng, 5)
        traffic = random_traffic(rng, today.brokers)
        every = [TrafficArrays(today.brokers, traffic).figures(each) for each in all_trees(today.brokers)]
        for name, field in (("latency", "latency"), ("load", "load_max")):
            proposal = propose(name, today, traffic, Wish(changes_max=4))
            least = min(getattr(each, field) for each in every)
            found = getattr(proposal.after, field)
            assert found >= least - 1e-9 and found <= getattr(proposal.before, field) + 1e-9
            over[name].append(found / least - 1)
    # Measured: 1.1 % and 3.5 % over the least on average; today's trees are 152 % and 22 % over it.
    assert sum(over["latency"]) / 12 < 0.05 and sum(over["load"]) / 12 < 0.08


def test_few_changes_are_kept_to_and_more_gain_more() -> None:
    rng = Random(3)
    today = random_tree(rng, 20)
    traffic = random_traffic(rng, today.brokers)
    gains = []
    for changes in (0, 1, 3, 8):
        proposal = propose("latency", today, traffic, Wish(changes_max=changes))
        assert proposal.changes <= changes
        gains.append(proposal.gain("latency"))
    assert gains == sorted(gains) and gains[0] == 0.0 < gains[1] < gains[-1]


def test_a_bound_of_links_holds_whatever_it_costs() -> None:
    rng = Random(4)
    star = tree(" ".join(f"hub-{number}" for number in range(9)))
    traffic = random_traffic(rng, star.brokers)
    proposal = propose("degree", star, traffic, Wish(degree_max=3))
    assert proposal.before.degree_max == 9 and proposal.after.degree_max <= 3
    assert make_plan(star, proposal.goal).plan.goal == proposal.goal
    with pytest.raises(UsageError, match="degree_max: say how many"):
        propose("degree", star, traffic, Wish())


def test_nothing_passes_through_a_drained_broker() -> None:
    rng = Random(5)
    today = random_tree(rng, 12)
    drained = max(today.brokers, key=lambda broker: len(today.neighbours()[broker]))
    other = next(broker for broker in today.neighbours()[drained] if len(today.neighbours()[broker]) > 1)
    proposal = propose("drain", today, random_traffic(rng, today.brokers), Wish(drained=(drained, other)))
    around = proposal.goal.neighbours()
    assert proposal.goal.brokers == today.brokers
    assert all(len(around[broker]) == 1 for broker in (drained, other))
    assert not {*around[drained], *around[other]} & {drained, other}
    with pytest.raises(UsageError, match="b99 is no broker of this tree"):
        propose("drain", today, Traffic({}, {}), Wish(drained=("b99",)))
    with pytest.raises(UsageError, match="nobody would be left"):
        propose("drain", today, Traffic({}, {}), Wish(drained=today.brokers))


def test_a_new_broker_goes_where_its_traffic_is() -> None:
    today = tree("a-b b-c c-d")
    traffic = traffic_of([TrafficRow("d", "new", rate=10.0), TrafficRow("a", "new", rate=1.0)])
    proposal = propose("grow", today, traffic, Wish(new=("new",)))
    assert ("d", "new") in proposal.goal.links and len(proposal.goal.links) == 4
    near = traffic_of([TrafficRow("b", "new", latency=0.001), TrafficRow("a", "new", latency=0.5)])
    assert ("b", "new") in propose("grow", today, near, Wish(new=("new",))).goal.links
    with pytest.raises(UsageError, match="not in the tree yet"):
        propose("grow", today, near, Wish(new=("a",)))


def test_an_evaluator_of_ones_own_is_asked_by_its_name() -> None:
    today, traffic = tree("a-b b-c"), traffic_of([TrafficRow("a", "c", rate=1.0)])

    def shorter(tree_today: OverlayTree, rates: Traffic, wish: Wish) -> OverlayTree:
        changed: OverlayTree = tree("a-b a-c")
        return changed

    found = propose("shorter", today, traffic, Wish(), {"shorter": shorter})
    assert isinstance(found, Proposal) and found.changes == 1 and found.gain("hops") == 0.5 and found.model
    with pytest.raises(
        UsageError, match="nothing evaluates 'prettier'; choose from latency, degree, load, drain, grow"
    ):
        propose("prettier", today, traffic, Wish())


def test_a_table_with_what_makes_no_sense_is_refused() -> None:
    for wrong in (float("nan"), -1.0, float("inf")):
        with pytest.raises(UsageError, match="the rate of a, b is"):
            traffic_of([TrafficRow("a", "b", rate=wrong)])
    with pytest.raises(UsageError, match="no rates between brokers"):
        propose("load", tree("a-b"), traffic_of([TrafficRow("a", "b", latency=0.1)]), Wish())
