"""Workloads follow the distributions they promise (S-124). Seeds are fixed, so a test that passes keeps passing.

A test of goodness of fit gives the probability that a sample of the right distribution looks at least so odd. Ours fail
below one in a thousand; the first tests check that they do fail when a distribution is slightly wrong.
"""

import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from statistics import NormalDist, mean
from typing import Any

import numpy
import pytest

from tidings import Event, parse
from tidings.matching import Index
from tidings.planning.tree import path_between
from tidings.spark.workloads.tables import arrow, batch
from tidings.workloads.content import Decimals, Flag, Ranks, TypedContent, Whole, Words
from tidings.workloads.dependable import Geps, Itt, PopSub, Psdg, followers
from tidings.workloads.interests import Readership, SocialGraph
from tidings.workloads.machines import ADDED, DAY_US, REMOVED, Machines
from tidings.workloads.patterns import Patterns
from tidings.workloads.popularity import Drifting, StarPopularity
from tidings.workloads.quotes import Quotes
from tidings.workloads.schedule import Schedule, uniform_ranges, zipf
from tidings.workloads.table import CHUNK_ITEMS, Array, Table, stream
from tidings.workloads.topology_changes import TopologyChange
from tidings.workloads.transport import RareMatches, RisingLoad, SharedInterests

LIKELY = 0.001
EXPECTED_MIN = 8


def chi_square(counts: Array, shares: Array) -> float:
    """Probability of counts at least so far from these shares (Wilson and Hilferty's normal approximation). Rare
    outcomes at the end are taken together until they are frequent enough."""
    expected = shares / shares.sum() * counts.sum()
    kept = int(numpy.searchsorted(-expected, -EXPECTED_MIN)) if (numpy.diff(expected) <= 0).all() else len(expected)
    if kept < len(expected):
        counts = numpy.append(counts[:kept], counts[kept:].sum())
        expected = numpy.append(expected[:kept], expected[kept:].sum())
    freedom = len(expected) - 1
    statistic = float(((counts - expected) ** 2 / expected).sum())
    spread = 2 / (9 * freedom)
    return 1 - NormalDist().cdf(((statistic / freedom) ** (1 / 3) - (1 - spread)) / spread**0.5)


def kolmogorov(values: Array, distribution: Callable[[Array], Array]) -> float:
    """Probability of a sample at least so far from a continuous distribution (Kolmogorov and Smirnov)."""
    ordered, size = numpy.sort(values), len(values)
    below = distribution(ordered)
    steps = numpy.arange(size + 1) / size
    distance = max((steps[1:] - below).max(), (below - steps[:-1]).max())
    scaled = (size**0.5 + 0.12 + 0.11 / size**0.5) * distance
    terms = numpy.arange(1, 101)
    return float(min(1.0, 2 * ((-1.0) ** (terms - 1) * numpy.exp(-2 * (terms * scaled) ** 2)).sum()))


def zipf_law(count: int, exponent: float) -> Array:
    """Written out once more, since what is tested should not say what is expected."""
    weights = numpy.array([rank**-exponent for rank in range(1, count + 1)])
    return numpy.asarray(weights / sum(weights))


def normal(values: Array) -> Array:
    return numpy.array([NormalDist().cdf(value) for value in values])


def numbers_of(table: Any, column: str, size: int) -> Array:
    """How often each of `c0`, `c1`, ... stands in a column of names."""
    return numpy.bincount([int(name[1:]) for name in table[column].to_pylist()], minlength=size)


def bounds_of(filters: list[str], name: str) -> Array:
    """The two ends of the range that each filter asks for."""
    found = [re.search(rf"\b{name} >= (\S+) AND {name} <= (\S+)", text) for text in filters]
    return numpy.array([[float(match[1]), float(match[2])] for match in found if match])


def events_of(table: Table, count: int) -> list[Event]:
    rows = arrow(table).slice(0, count).to_pylist()
    return [Event({name: value for name, value in row.items() if name != "key" and value is not None}) for row in rows]


@pytest.mark.parametrize(("exponent", "fits"), [(1.0, True), (1.05, False), (0.95, False)])
def test_the_chi_square_test_tells_exponents_apart(exponent: float, fits: bool) -> None:
    counts = numpy.bincount(zipf(stream(1, "test"), 100_000, 100, exponent), minlength=100)
    assert (chi_square(counts, zipf_law(100, 1.0)) > LIKELY) is fits


@pytest.mark.parametrize(("largest", "fits"), [(1.0, True), (0.99, False), (1.01, False)])
def test_the_test_of_kolmogorov_tells_ranges_apart(largest: float, fits: bool) -> None:
    values = stream(1, "test").random(100_000) * largest
    assert (kolmogorov(values, lambda x: numpy.clip(x, 0, 1)) > LIKELY) is fits


def test_attributes_of_events_have_their_distributions() -> None:
    attributes = (Words("w", 500, 1.2), Ranks("r", 300, 0.8), Decimals("u", -5, 5), Whole("n", 3, 9), Flag("f", 0.1))
    table = arrow(TypedContent(event_count=200_000, attributes=attributes).events())
    assert chi_square(numbers_of(table, "w", 500), zipf_law(500, 1.2)) > LIKELY
    assert chi_square(numpy.bincount(table["r"].to_numpy(), minlength=301)[1:], zipf_law(300, 0.8)) > LIKELY
    assert kolmogorov(table["u"].to_numpy(), lambda x: (x + 5) / 10) > LIKELY
    assert chi_square(numpy.bincount(table["n"].to_numpy())[3:], numpy.ones(7)) > LIKELY
    flags = numpy.bincount(table["f"].to_numpy(zero_copy_only=False).astype(int))
    assert chi_square(flags, numpy.array([0.9, 0.1])) > LIKELY


@pytest.mark.parametrize(("rate", "value_share"), [(0.002, 0.7), (0.01, 0.7), (0.01, 0.0), (0.1, 0.0), (0.5, 0.0)])
def test_subscriptions_match_the_wanted_share_of_events(rate: float, value_share: float) -> None:
    workload = TypedContent(event_count=8000, subscription_count=3000, match_rate=rate, value_share=value_share, seed=5)
    index = Index()
    index.add_many(enumerate(map(parse, arrow(workload.subscriptions())["filter"].to_pylist())))
    [(_, offsets)] = index.match_slots(batch(workload.events(), 0).drop_columns(["key"]), 8000)
    assert offsets[-1] / 3000 / 8000 == pytest.approx(rate, rel=0.1)


def test_ends_of_a_uniform_range_are_the_smaller_and_the_larger_of_two_uniform_numbers() -> None:
    ends = uniform_ranges(stream(1, "ranges"), (50_000,), 0, 1000) / 1000
    assert kolmogorov(ends[:, 0], lambda x: 1 - (1 - x) ** 2) > LIKELY
    assert kolmogorov(ends[:, 1], lambda x: x**2) > LIKELY


@pytest.mark.spec("S-124")
def test_geps_has_zipf_classes_of_one_to_four_numbers_and_a_steady_rate() -> None:
    workload = Geps(leaves=20_000, duration=2.0, seed=3)
    shares = zipf_law(100, 1.0)
    assert chi_square(numbers_of(arrow(workload.advertisements()), "class", 100), shares) > LIKELY
    subscriptions = arrow(workload.subscriptions())
    assert chi_square(numbers_of(subscriptions, "class", 100), shares) > LIKELY
    assert Counter(subscriptions["place"].to_pylist()) == Counter(dict.fromkeys(range(20_000), 2))
    assert chi_square(numpy.bincount(Geps(classes=4000).number_counts())[1:], numpy.ones(4)) > LIKELY
    events = arrow(workload.events())
    assert len(events) == 20_000 * 4 * 2
    assert kolmogorov(events["x1"].to_numpy(), lambda x: x / 1000) > LIKELY
    assert numpy.diff(events["published_at"].to_numpy()[:8]) == pytest.approx(0.25)
    numbers = workload.number_counts()
    for row in events.slice(0, 500).to_pylist():
        present = [row[name] is not None for name in ("x1", "x2", "x3", "x4")]
        assert present == [place < numbers[int(row["class"][1:])] for place in range(4)]


@pytest.mark.spec("S-124")
def test_popsub_spreads_subscriptions_as_followers_are_spread() -> None:
    workload = PopSub(seed=2)
    subscriptions = arrow(workload.subscriptions())
    asked = Counter(re.findall(r"publisher = '(p\d+)'", " ".join(subscriptions["filter"].to_pylist())))
    accounts = stream(2, "w-pop/accounts").choice(81_306, 200, replace=False)
    exact = followers(81_306)[accounts] / followers(81_306)[accounts].sum() * 22_000
    assert max(abs(asked[f"p{place}"] - exact[place]) for place in range(200)) < 1
    assert sum(asked.values()) == len(subscriptions) == 22_000
    assert chi_square(numpy.bincount(subscriptions["place"].to_numpy(), minlength=200), numpy.ones(200)) > LIKELY
    assert set(numbers_of(arrow(workload.advertisements()), "class", 20)) == {10}
    ends = bounds_of(subscriptions["filter"].to_pylist(), "x2") / 1000
    assert kolmogorov(ends[:, 0], lambda x: 1 - (1 - x) ** 2) > LIKELY
    events = arrow(workload.events())
    assert len(events) == 200 * 10 * 60
    assert kolmogorov(events["x2"].to_numpy(), lambda x: x / 1000) > LIKELY


def test_followers_are_zipf_and_nobody_has_none() -> None:
    counts = followers(81_306)
    assert (counts[0], counts[1], counts[9], counts[-1]) == (81_306, 40_653, 8_130, 1)


def test_popsub_with_an_exponent_has_zipf_law() -> None:
    """E12: with exponent 1 most subscriptions are on few advertisements, with 0.05 they are spread."""
    steep, flat = (PopSub(zipf_exponent=exponent).subscriptions_per_publisher() for exponent in (1.0, 0.05))
    assert steep.sum() == flat.sum() == 22_000
    assert steep[:80].sum() / 22_000 > 0.78
    assert flat[:80].sum() / 22_000 < 0.45


@pytest.mark.spec("S-124")
def test_itt_has_zipf_classes_and_uniform_ranges() -> None:
    workload = Itt(subscribers=50_000, seed=4)
    subscriptions = arrow(workload.subscriptions())
    assert chi_square(numbers_of(subscriptions, "class", 10), zipf_law(10, 1.1)) > LIKELY
    assert chi_square(numbers_of(subscriptions, "class", 10), zipf_law(10, 1.0)) < LIKELY
    assert chi_square(numpy.bincount(subscriptions["place"].to_numpy(), minlength=30), numpy.ones(30)) > LIKELY
    ends = bounds_of(subscriptions["filter"].to_pylist(), "x1") / 1000
    assert kolmogorov(ends[:, 1], lambda x: x**2) > LIKELY
    events = arrow(Itt().events())
    assert len(events) == 20 * 5 * 600
    assert set(numbers_of(events, "class", 10)) == {6000}
    assert kolmogorov(events["x2"].to_numpy(), lambda x: x / 1000) > LIKELY


@pytest.mark.spec("S-124")
@pytest.mark.parametrize(("join_rate", "total"), [(5.0, 170), (10.0, 320), (15.0, 470)])
def test_psdg_subscribers_join_at_the_wanted_rate(join_rate: float, total: int) -> None:
    joins_at = arrow(Psdg(join_rate=join_rate).subscriptions())["joins_at"].to_numpy()
    assert len(joins_at) == total
    assert (joins_at == 0).sum() == 20
    per_second = numpy.bincount(numpy.ceil(joins_at[20:]).astype(int))[1:]
    assert per_second.tolist() == [join_rate] * 30


@pytest.mark.spec("S-124")
def test_psdg_has_zipf_classes_on_all_brokers_and_thirty_thousand_publications() -> None:
    subscriptions = arrow(Psdg(first_subscribers=30_000).subscriptions())
    assert chi_square(numbers_of(subscriptions, "class", 5), zipf_law(5, 1.0)) > LIKELY
    assert chi_square(numpy.bincount(subscriptions["place"].to_numpy(), minlength=6), numpy.ones(6)) > LIKELY
    events = arrow(Psdg().events())
    assert len(events) == 30_000
    assert kolmogorov(events["x1"].to_numpy(), lambda x: x / 1000) > LIKELY


def receivers(workload: Any, count: int) -> Array:
    """How many subscriptions match each of some events, taken from all over the table."""
    table = arrow(workload.events())
    index = Index()
    index.add_many(enumerate(map(parse, arrow(workload.subscriptions())["filter"].to_pylist())))
    sample = table.drop(["key", "published_at"]).take(stream(1, "sample").integers(0, len(table), count))
    [(_, offsets)] = index.match_slots(sample, count)
    return numpy.diff(offsets)


LARGE = RareMatches(publishers=10, subscribers=220, brokers=46, rate_max=250.0)


@pytest.mark.parametrize("workload", [RareMatches(), LARGE], ids=["small", "large"])
def test_recovery_has_the_two_facts_that_are_known_of_it(workload: RareMatches) -> None:
    """Transport E10: 80 % of the pairs match with less than 0.08, none with more than 0.1; half of the messages have at
    most two receivers."""
    probabilities = arrow(workload.pairs())["match_probability"].to_numpy()
    assert len(probabilities) == workload.publishers * workload.subscribers
    assert probabilities.max() <= 0.1
    assert 0.8 <= (probabilities < 0.08).mean() < 0.83
    assert 0.45 < (receivers(workload, 5000) <= 2).mean() < 0.62


def test_pairs_of_the_recovery_workload_tell_the_truth() -> None:
    workload = RareMatches()
    table = arrow(workload.events())
    topics = numbers_of(table, "topic", 137)
    pairs = arrow(workload.pairs()).to_pylist()
    for pair in pairs[:20]:
        assert topics[int(pair["topic"][1:])] / len(table) == pytest.approx(pair["match_probability"], rel=0.15)
    own = next(pair["topic"] for pair in pairs if (pair["publisher"], pair["subscription"]) == ("p2", "s7"))
    filter = arrow(workload.subscriptions())["filter"].to_pylist()[7]
    assert f"(publisher = 'p2' AND topic = '{own}')" in filter


def test_rates_of_the_recovery_workload_have_spikes_within_their_bounds() -> None:
    rates = numpy.diff(RareMatches().schedule().reached, axis=1)
    assert rates.min() >= 20
    assert 400 < rates.max() <= 500
    assert 0.05 < (rates > 100).mean() < 0.2


def test_ordering_has_ramps_intense_streams_and_the_receivers_of_the_source() -> None:
    """Transport E1 and E4: 1.5 to 25 a second, 1200 a second from 90 s and 190 s on, about 250,000 deliveries in the
    first 90 s and 30,000 a second near 200 s."""
    workload = RisingLoad()
    schedule = workload.schedule()
    per_publisher = numpy.diff(schedule.begins)
    assert per_publisher[:48] == pytest.approx((1.5 + 25) / 2 * 300, abs=1)
    assert per_publisher[48:] == pytest.approx([1200 * 210, 1200 * 110], abs=1)
    table = arrow(workload.events())
    at, publishers = table["published_at"].to_numpy(), numbers_of(table, "publisher", 50)
    assert publishers.tolist() == per_publisher.tolist()
    matched = receivers(workload, 5000).mean()
    assert matched * (at < 90).sum() == pytest.approx(250_000, rel=0.25)
    assert matched * ((at > 199) & (at < 201)).sum() / 2 == pytest.approx(30_000, rel=0.1)


def test_few_subscribers_of_the_congestion_workload_get_much_and_most_get_little() -> None:
    """Transport E23."""
    workload = SharedInterests(duration=1.0)
    filters = arrow(workload.subscriptions())["filter"].to_pylist()
    assert chi_square(numpy.bincount([text.count("=") for text in filters])[1:], numpy.ones(5)) > LIKELY
    events = events_of(workload.events(), 400)
    rates = numpy.array([sum(map(parse(text).matches, events)) / 400 for text in filters])
    assert numpy.median(rates) < 0.01
    assert rates.max() > 0.2
    assert (rates > 0.1).mean() < 0.2


@pytest.mark.spec("D-67")
@pytest.mark.parametrize(
    ("workload", "density"),
    [
        (Patterns(), 0.0988),
        (Patterns(subscriber_density=0.03), 0.0148),
        (Patterns(subscriber_density=1.0), 0.4941),
        (Patterns(symbols=400, event_symbols=40), 0.1013),
    ],
)
def test_patterns_reach_the_receiver_density_of_the_formula(workload: Patterns, density: float) -> None:
    """Equation 7.1, and the mean of a drawn workload within 3 %."""
    assert workload.receiver_density == pytest.approx(density, abs=0.00005)
    found = []
    for seed in range(12):
        drawn = Patterns(
            seed=seed,
            symbols=workload.symbols,
            event_symbols=workload.event_symbols,
            subscriber_density=workload.subscriber_density,
            duration=20.0,
        )
        wanted: dict[int, set[str]] = {}
        for row in arrow(drawn.subscriptions()).to_pylist():
            wanted.setdefault(row["place"], set()).add(row["pattern"])
        assert {len(patterns) for patterns in wanted.values()} == {7}
        events = [set(symbols) for symbols in arrow(drawn.events())["symbols"].to_pylist()]
        found += [sum(not own.isdisjoint(event) for own in wanted.values()) / 100 for event in events]
    assert numpy.mean(found) == pytest.approx(density, rel=0.03)


def test_a_pattern_matches_the_events_that_have_its_symbol() -> None:
    workload = Patterns(symbols=400)
    events = events_of(workload.events(), 300)
    for row in arrow(workload.subscriptions()).to_pylist()[:30]:
        filter = parse(row["filter"])
        assert [filter.matches(event) for event in events] == [
            row["pattern"] in str(event.attributes["symbols"]) for event in events
        ]


def best_friends_cover(workload: Readership, friends: int, sample: int) -> tuple[Array, Array]:
    """Some users with five journals or more: how many they read, and the share that their best friends read too."""
    reads = [set(re.findall(r"j\d+", text)) for text in arrow(workload.subscriptions())["filter"].to_pylist()]
    readers: dict[str, list[int]] = {}
    for user, journals in enumerate(reads):
        for journal in journals:
            readers.setdefault(journal, []).append(user)
    known = [numpy.array(users) for users in readers.values()]
    place = {journal: number for number, journal in enumerate(readers)}
    users = [user for user in range(workload.users) if len(reads[user]) >= 5][:sample]
    covered = []
    for user in users:
        left = set(reads[user])
        for _ in range(friends):
            if left:
                votes = numpy.bincount(numpy.concatenate([known[place[one]] for one in left]), minlength=workload.users)
                votes[user] = 0
                left -= reads[int(votes.argmax())]
        covered.append(1 - len(left) / len(reads[user]))
    return numpy.array([len(reads[user]) for user in users]), numpy.array(covered)


def test_six_best_friends_read_all_that_nine_of_ten_users_read() -> None:
    """Peer-to-peer E5, which the communities are tuned to; without them it is not so."""
    counts, covered = best_friends_cover(Readership(), 6, 600)
    assert (covered == 1).mean() >= 0.9
    by_count, by_cover = (numpy.argsort(numpy.argsort(values, kind="stable")) for values in (counts, covered))
    assert numpy.corrcoef(by_count, by_cover)[0, 1] >= -0.1
    _, without = best_friends_cover(Readership(locality=0.0), 6, 600)
    assert (without == 1).mean() < 0.8


def test_journals_outside_communities_have_zipf_popularity() -> None:
    """A user who reads one journal draws once, so nothing is drawn twice and the shares are exact."""
    workload = Readership(users=60_000, locality=0.0, read_max=1)
    table = arrow(workload.interests())
    assert chi_square(numbers_of(table, "journal", 4000), zipf_law(4000, 1.0)) > LIKELY


def test_followers_of_the_social_graph_fall_with_rank_as_wanted() -> None:
    table = arrow(SocialGraph(users=20_000).follows())
    counts = numpy.bincount(table["followee"].to_numpy(), minlength=20_000)
    assert counts.min() >= 1
    ranks = numpy.arange(20, 1000)
    slope = numpy.polyfit(numpy.log(ranks + 1), numpy.log(counts[ranks]), 1)[0]
    assert slope == pytest.approx(-1, abs=0.1)
    pairs = set(zip(table["follower"].to_pylist(), table["followee"].to_pylist(), strict=True))
    assert len(pairs) == len(table)
    assert not any(follower == followee for follower, followee in pairs)


def test_prices_walk_at_random_without_seams_between_chunks() -> None:
    workload = Quotes(event_count=3 * CHUNK_ITEMS, symbols=40, volatility=0.001)
    symbols, logarithms = [], []
    for chunk in range(3):
        random = stream(workload.seed, "quotes/events", chunk)
        symbols.append(zipf(random, CHUNK_ITEMS, 40, 1.0))
        logarithms.append(workload.walk(random, symbols[-1], chunk * CHUNK_ITEMS))
    owner, value = numpy.concatenate(symbols), numpy.concatenate(logarithms)
    at = numpy.arange(len(owner)) / workload.rate
    steps, seams = [], []
    for one in range(40):
        own = numpy.flatnonzero(owner == one)
        moved = numpy.diff(value[own]) / numpy.sqrt(numpy.diff(at[own])) / 0.001
        steps.append(moved)
        seams.append(moved[numpy.diff(own // CHUNK_ITEMS) == 1])
    assert kolmogorov(numpy.concatenate(steps), normal) > LIKELY
    assert kolmogorov(numpy.concatenate(seams), normal) > LIKELY
    table = arrow(workload.events())
    assert chi_square(numpy.bincount(owner, minlength=40), zipf_law(40, 1.0)) > LIKELY
    exact = workload.first_prices()[owner] * numpy.exp(value)
    assert numpy.abs(table["price"].to_numpy() - exact).max() <= 0.00501


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9])
def test_shares_move_from_one_snapshot_to_the_next(part: float) -> None:
    snapshots = Drifting(snapshot_count=3, drift=0.5, topics=200).snapshots()
    at = 600 * part
    topics = snapshots.draw(stream(1, "test"), numpy.full(100_000, at))
    shares = snapshots.shares_at(at)
    order = numpy.argsort(-shares)
    assert chi_square(numpy.bincount(topics, minlength=200)[order], shares[order]) > LIKELY
    other = snapshots.shares_at(600 - at if at != 300 else 0)
    assert chi_square(numpy.bincount(topics, minlength=200)[order], other[order]) < LIKELY


def test_between_snapshots_the_wanted_part_of_the_topics_changes_places() -> None:
    shares = Drifting(drift=0.2, topics=1000).snapshots().shares
    for before, after in pairwise(shares):
        assert 150 < (before != after).sum() <= 200
        assert sorted(before) == sorted(after)


def test_stars_change_as_they_did(data_folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_DATA", str(data_folder))
    snapshots = StarPopularity(duration=100.0).snapshots()
    assert snapshots.shares.shape[0] == len(snapshots.times) == 4
    assert snapshots.times[[0, -1]].tolist() == [0.0, 100.0]
    assert snapshots.shares.sum(axis=1) == pytest.approx(1)
    topics = snapshots.draw(stream(1, "test"), numpy.full(200_000, 40.0))
    shares = snapshots.shares_at(40.0)
    order = numpy.argsort(-shares, kind="stable")
    assert chi_square(numpy.bincount(topics, minlength=len(shares))[order], shares[order]) > LIKELY


def test_machines_fail_at_the_wanted_rate_for_the_wanted_time() -> None:
    workload = Machines(machines=20_000, changes=0.3)
    table = arrow(workload.machine_events())
    times, kinds = table["time_us"].to_numpy(), table["event_type"].to_numpy()
    removed = times[kinds == REMOVED]
    assert len(removed) / 20_000 == pytest.approx(0.7, rel=0.03)
    # A machine that is down cannot fail, and is down for about an hour in a month, so moments are all but uniform.
    assert kolmogorov(removed / (29 * DAY_US), lambda x: x) > LIKELY
    back = numpy.flatnonzero((kinds[:-1] == REMOVED) & (kinds[1:] == ADDED))
    minutes = (times[back + 1] - times[back]) / 60e6
    early = minutes[times[back] < 20 * DAY_US]
    assert kolmogorov(numpy.log(early / 20) / 1.5, normal) > LIKELY


def test_random_arrivals_are_a_poisson_process_along_the_line() -> None:
    """Numbers in spans of equal expectation vary as much as they are large, gaps are exponential, and the mean follows
    a rate that ramps."""
    reached = numpy.array([[0.0, 1000.0, 4000.0]])
    counts, gaps = [], []
    for seed in range(200):
        schedule = Schedule(numpy.array([0.0, 1.0, 2.0]), reached, seed, "poisson")
        _, _, times = schedule.rows(0, schedule.total)
        points = numpy.interp(times, [0.0, 1.0, 2.0], reached[0])
        counts.append(numpy.histogram(points, numpy.linspace(0, 4000, 41))[0])
        gaps.append(numpy.diff(points))
    spans = numpy.concatenate(counts)
    assert spans.mean() == pytest.approx(100, rel=0.01)
    assert spans.var() == pytest.approx(100, rel=0.06)
    assert kolmogorov(numpy.concatenate(gaps)[::40], lambda gap: 1 - numpy.exp(-gap)) > LIKELY


@pytest.mark.parametrize("is_balanced", [True, False])
def test_trees_that_change_have_the_wanted_degrees_shapes_and_shares_of_new_links(is_balanced: bool) -> None:
    depths, degrees = [], Counter[int]()
    for seed in range(1, 21):
        workload = TopologyChange(brokers=100, degree_max=6, is_balanced=is_balanced, change=0.2, seed=seed)
        today, goal = workload.today(), workload.goal()
        assert len(today.brokers) == 100 and today.brokers == goal.brokers
        assert len(set(today.links) - set(goal.links)) == 20
        around = today.neighbours()
        degrees.update(map(len, around.values()))
        depths.append(max(len(path_between(around, "b0", broker)) - 1 for broker in today.brokers))
        latencies = [row["latency"] for row in workload.links().rows()]
        assert len(latencies) == 99 + 20 and 0.010 <= min(latencies) < 0.014 and 0.046 < max(latencies) <= 0.050
    assert max(degrees) == 6
    # Up to six links, all numbers equally likely, and whoever joined late has its room left: most are leaves.
    assert degrees[1] > degrees[2] > 0 and all(degrees[count] > 0 for count in (3, 4, 5))
    assert (mean(depths) < 6) == is_balanced
