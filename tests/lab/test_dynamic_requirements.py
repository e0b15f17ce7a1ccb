"""What the requirements of dynamic-topologies.md ask of its experiments: set-ups, sizes, and what is printed."""

import os
import re
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidings.cli.lab import judged_lines
from tidings.lab.dynamic_topologies.lstree import e17
from tidings.lab.dynamic_topologies.peers import e25
from tidings.lab.dynamic_topologies.peers.peer_traffic import PeerSetting, PeerSurvey
from tidings.lab.dynamic_topologies.repairs import e7
from tidings.lab.dynamic_topologies.repairs.rewired import Setting
from tidings.lab.dynamic_topologies.witree.walkers import WalkSetting
from tidings.lab.experiment import Experiment, Measured
from tidings.lab.registry import built
from tidings.lab.run import Judged, order_of
from tidings.lab.verdicts import judge
from tidings.machine.message import Contact, Message
from tidings.protocols.overlay.lstree.messages import ColourUpdate, GlobalUpdate, ParentAccept
from tidings.protocols.overlay.lstree.order import Colour
from tidings.protocols.routing.messages import SubscriptionAdded, SubscriptionRemoved, TableChanges
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.repairs.messages import Activate
from tidings.pubsub.publications import Publications
from tidings.spark.place import place_of

EXPERIMENTS = {id: each for id, each in built().items() if id.startswith("dynamic-topologies/")}
STATISTICAL = (39, 49, *range(98, 107), 110, 113, *range(122, 141))
"""Requirements that the lab judges, by the kind (S) that the specification gives them; D-67 and D-118 have tests of
their own, and so have those that are looked at here."""


def test_whatever_the_lab_has_to_judge_is_claimed() -> None:
    claimed = {claim.requirement for each in EXPERIMENTS.values() for claim in each.claims}
    assert {f"D-{number}" for number in STATISTICAL} <= claimed


def test_these_are_the_statistical_requirements_of_the_specification(root: Path) -> None:
    folder = Path(os.environ.get("TIDINGS_SPEC", root.parent / "shared" / "spec"))
    if not folder.is_dir():
        pytest.skip("the folder of the specification is absent; set TIDINGS_SPEC to run this test")
    text = (folder / "dynamic-topologies.md").read_text(encoding="utf-8")
    found = {int(number) for number in re.findall(r"^- D-(\d+) \(S", text, re.MULTILINE)}
    assert found == {*STATISTICAL, 118, 141, 142}


@pytest.mark.spec("D-141")
def test_waits_are_those_of_each_setting_and_news_is_off_where_the_source_has_none() -> None:
    scripted, peers, walkers = Setting(), PeerSetting(), WalkSetting(repair="timed")
    routing = walkers.params().routing
    assert isinstance(routing, RoutingParams)
    times = [(each.unsubscribe_after, each.subscribe_after) for each in (scripted.routing(), peers.routing(), routing)]
    assert times == [(0.15, 0.15), (1.5, 1.5), (2.0, 2.0)]
    assert [each.flush for each in (scripted.routing(), peers.routing(), routing)] == ["flood", "none", "none"]
    # And no experiment says otherwise, but those that vary the times.
    varied = {"E8", "E9", "E12", "patience"}
    for id, experiment in EXPERIMENTS.items():
        given = dict.fromkeys(chain.from_iterable(each.parameters for each in experiment.variants))
        given |= dict.fromkeys(chain.from_iterable(each.parameters for each in experiment.scales.values()))
        is_varied = not given.keys().isdisjoint({"unsubscribe_after", "subscribe_after", "has_flush"})
        assert is_varied == (id.rpartition("/")[2] in varied), id


@pytest.mark.spec("D-70")
def test_a_filter_and_an_event_weigh_thirty_bytes_a_node_four_and_each_has_a_header() -> None:
    def weighed(*messages: Message) -> Counter[str]:
        survey = PeerSurvey()
        for message in messages:
            survey.count(0.0, message)
        return survey.bytes

    told = SubscriptionAdded(0, "x = 1"), SubscriptionRemoved(0, "x = 2")
    assert weighed(*told) == {"routing": 2 * (40 + 30)}
    assert weighed(TableChanges(subscriptions_added=told[:1], subscriptions_removed=told[1:])) == weighed(*told)
    assert weighed(Activate("r", "a", bytes(16), bytes(8))) == {"routing": 40 + 3 * 30}
    batch = Publications("a", "a", 1.0, 0, (1, 2), (b"", b""), (b"", b""))
    assert weighed(batch) == {"events": 2 * (40 + 30)}
    nodes = tuple(map(Contact, "abc"))
    assert weighed(GlobalUpdate(nodes)) == {"overlay": 40 + 3 * 4}
    colour = Colour(1, "r")
    assert weighed(ColourUpdate(colour, 0.5)) == {"overlay": 40 + 4}
    assert weighed(ParentAccept(1, colour, 0.5, nodes, nodes[:1])) == {"overlay": 40 + 4 + 3 * 4 + 4}


@pytest.mark.spec("D-142")
@pytest.mark.parametrize("id", EXPERIMENTS)
def test_a_run_prints_its_parameters_its_seeds_and_how_far_it_is_from_what_was_published(id: str) -> None:
    experiment = EXPERIMENTS[id]
    lines = judged_lines(judged(experiment), experiment)
    order = order_of(experiment, "small", None)
    assert f"scale small, seeds 1 to {order.seeds}, 0 runs" in lines
    first = next(place for place, line in enumerate(lines) if line.startswith("parameter")) + 1
    table = lines[first : lines.index("", first)]
    told = {name: text.split(", ") for name, text in (line.split(maxsplit=1) for line in table)}
    for run in order.runs(experiment):
        for name, value in {**experiment.defaults, **run.parameters}.items():
            assert str(value) in told[name], name
    for claim in experiment.claims:
        assert any(line.startswith(claim.says) and claim.published in line for line in lines), claim
    judgements = judge(experiment.claims, measured(experiment))
    verdicts = Counter(each.verdict for each in judgements)
    (summary,) = [line for line in lines if line.startswith("verdicts ")]
    assert summary.split(maxsplit=1)[1].split(", ") == [
        f"{verdicts[each]} {each}"
        for each in ("reproduced", "better", "missed", "undecided", "not judged")
        if verdicts[each]
    ]


def measured(experiment: Experiment) -> list[Measured]:
    return [
        Measured(claim.figure, group, value, value - 0.1, value + 0.1, 5)
        for claim in experiment.claims
        for group in claim.groups or ("",)
        for value in (max(0.5, claim.least or 0.0),)
    ]


def judged(experiment: Experiment) -> Judged:
    order, place = order_of(experiment, "small", None), place_of("somewhere")
    return Judged(
        order=order,
        place=place,
        swept=place,
        made_with=[],
        is_current=True,
        judgements=judge(experiment.claims, measured(experiment)),
        measured=measured(experiment),
        performed=[],
        missing=0,
    )


@pytest.mark.spark
def test_where_costs_are_highest_is_said_seed_by_seed(spark: SparkSession) -> None:
    shape = "seed int, group string, sides map<string,map<string,double>>"
    costs = {"1.0": 5.0, "10.0": 8.0, "400.0": 4.0}
    rows = [(1, rate, {name: {"cost_per_reconfiguration": cost} for name in e7.SHOWN}) for rate, cost in costs.items()]
    (row,) = e7.hills(spark.createDataFrame(rows, shape)).collect()
    assert row["strawman"] == row["informed"] == pytest.approx(8.0 / 5.0)
    runs = [
        (f"r{place}", 1, f'{{"repair": "strawman", "density": {density}}}', {"cost": cost})
        for place, (density, cost) in enumerate({0.05: 2.0, 0.4: 6.0, 1.0: 3.0}.items())
    ]
    results = spark.createDataFrame(runs, "run string, seed int, parameters string, measures map<string,double>")
    found = {row.group: row.value for row in e25.hill(results).collect()}
    assert found == {"0.4 beside 0.05": pytest.approx(3.0), "0.4 beside 1": pytest.approx(2.0)}
    two = {"RDGM": 0.3, "RUmDGM": 0.2, "DUmRGM": 0.15}
    runs = [
        (name, 1, f'{{"instance": "{name}", "scenario": "churn"}}', {"degree two": share})
        for name, share in two.items()
    ]
    results = spark.createDataFrame(runs, "run string, seed int, parameters string, measures map<string,double>")
    figures = {row.figure: row.value for row in e17.with_two(results).collect()}
    assert figures == {
        "fewer with two, RUmDGM": pytest.approx(0.1),
        "fewer with two, DUmRGM": pytest.approx(0.15),
        "fewer still, DUmRGM": pytest.approx(0.05),
    }
