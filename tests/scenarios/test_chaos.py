"""Chaos on real processes, in short: `tidings chaos --duration 1800` is the long one."""

import json
from itertools import pairwise

import pytest

from tidings.cli.chaos import report_lines
from tidings.cli.chaos_round import ChaosFault, RoundOutcome, add_up, draw_chaos
from tidings.cli.program import run
from tidings.machine.streams import random_stream
from tidings.workloads.nemesis.campaign import CampaignParams, draw_campaign
from tidings.workloads.nemesis.judged import BrokenPromise


@pytest.mark.parametrize("links", [[], ["--join"]], ids=["drawn", "joined"])
def test_promises_are_kept_by_brokers_that_are_killed_and_stopped(
    links: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    # The seed draws a kill and a stop, of durable brokers.
    options = ["--duration", "0", "--span", "3", "--brokers", "2", "--faults", "3", "--json"]
    code = run(["chaos", "--seed", "4", *options, *links])
    report = json.loads(capsys.readouterr().out)
    assert report["failed"] == []
    assert code == 0
    assert report["faults"] == {"kill": 1, "stop": 1}
    assert report["judged"]["publications"] == report["judged"]["accepted"] > 0
    assert report["judged"]["deliveries"] > 0


def test_faults_of_a_round_are_a_matter_of_its_seed_and_strike_a_node_one_after_the_other() -> None:
    for seed in range(50):
        campaign = draw_campaign(CampaignParams(span=10.0), seed)
        faults = draw_chaos(random_stream(seed, "chaos"), campaign, 20)
        assert faults == draw_chaos(random_stream(seed, "chaos"), campaign, 20)
        for node in {fault.node for fault in faults}:
            mine = [fault for fault in faults if fault.node == node]
            assert all(earlier.until < later.at for earlier, later in pairwise(mine))


def test_a_report_says_how_to_play_a_failed_round_again() -> None:
    kill = ChaosFault(2.5, 4.0, "kill", "n1")
    assert str(ChaosFault(1.0, 2.0, "clock", "n1", 0.4)) == "1..2 clock n1 shift=0.4"
    broken = [BrokenPromise("nothing lost", f"e{number} is missing", "r0") for number in range(12)]
    good = RoundOutcome(7, 3, [str(kill)], [], {"deliveries": 5}, 10.0)
    bad = RoundOutcome(8, 2, [str(kill)], broken, {"deliveries": 4}, 20.0)
    judged, kinds = add_up([good, bad])
    assert (judged["deliveries"], kinds["kill"]) == (9, 2)
    joined = RoundOutcome(9, 2, [], broken, {}, 1.0, joins=True)
    assert joined.command() == "tidings chaos --seed 9 --duration 0 --join"
    lines = report_lines(7, [good, bad])
    assert lines[:5] == [
        "seed       7",
        "rounds     2, 5 brokers, 30 s",
        "faults     2 kill",
        "judged     9 deliveries",
        "failed     1",
    ]
    assert lines[5:7] == ["round      tidings chaos --seed 8 --duration 0", "  2.5..4 kill n1"]
    assert lines[-1] == "  ... and 2 more"
