"""`tidings plan show`: the plan as text, as JSON and as a picture, and what it says to files that are wrong."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.worlds.planned import tree
from tidings.cli.program import run
from tidings.planning.checker import problem_in
from tidings.planning.operations import Action
from tidings.planning.plan import TopologyPlan

TODAY, GOAL = "1-2 1-3 2-4", "1-2 1-3 3-4"


def written(path: Path, links: str, brokers: str = "") -> str:
    pairs = [each.split("-") for each in links.split()]
    extra = f"brokers = {json.dumps(brokers.split())}\n" if brokers else ""
    path.write_text(f"links = {json.dumps(pairs)}\n{extra}", encoding="utf-8")
    return str(path)


@pytest.fixture
def today(tmp_path: Path) -> str:
    return written(tmp_path / "today.toml", TODAY)


@pytest.fixture
def goal(tmp_path: Path) -> str:
    return written(tmp_path / "goal.toml", GOAL)


def shown(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert run(["plan", "show", *options]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def answered(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(shown(capsys, *options, "--json"))
    return answer


def refused(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert run(["plan", "show", *options]) == 2
    return capsys.readouterr().err


def test_steps_and_actions_are_a_table(capsys: pytest.CaptureFixture[str], today: str, goal: str) -> None:
    assert shown(capsys, "--from", today, "--to", goal).splitlines() == [
        "today    4 brokers, 3 links, 1 of which go",
        "plan     2 steps, 2 actions, cost 2",
        "proven   no plan has fewer steps, and with as many none costs less (action set E)",
        "found    by integer program, seed 1",
        "takes    about 0.48 s and 117 messages; events are held for up to 80 ms where a link moves, "
        "if links take 10 ms (none is known: --traffic)",
        "",
        "step  action          goes   comes",
        "1     shift(4, 2, 1)  2 - 4  1 - 4",
        "2     shift(4, 1, 3)  1 - 4  3 - 4",
    ]


def test_as_json_it_is_a_plan_that_can_be_checked_again(
    capsys: pytest.CaptureFixture[str], today: str, goal: str
) -> None:
    answer = answered(capsys, "--from", today, "--to", goal)
    steps: dict[int, list[Action]] = {}
    for row in answer["actions"]:
        steps.setdefault(row["step"], []).append(Action(row["operation"], tuple(row["brokers"]), row["place"]))
    plan = TopologyPlan(tree(TODAY), tree(GOAL), tuple(map(tuple, steps.values())))
    assert problem_in(plan) == ""
    assert (answer["steps"], answer["steps_min"], answer["cost"], answer["cost_min"]) == (2, 2, 2, 2)


def test_without_time_the_quick_plan_is_shown_with_its_bounds(
    capsys: pytest.CaptureFixture[str], today: str, goal: str
) -> None:
    text = shown(capsys, "--from", today, "--to", goal, "--seconds", "0")
    assert "found    by downhill, seed 1" in text and "no plan has fewer than" not in text.split("proven")[0]


def test_the_picture_has_a_panel_for_each_state_with_links_that_stay_go_and_came(
    capsys: pytest.CaptureFixture[str], today: str, goal: str, tmp_path: Path
) -> None:
    picture = tmp_path / "plan.svg"
    shown(capsys, "--from", today, "--to", goal, "--svg", str(picture))
    root = ElementTree.parse(picture).getroot()
    panels = [each for each in root if each.tag.endswith("}g")]
    lines = [[line.get("class") for line in panel if line.tag.endswith("}line")] for panel in panels]
    assert [sorted(map(str, each)) for each in lines] == [
        ["goes", "kept", "kept"],
        ["goes", "kept", "kept"],
        ["came", "kept", "kept"],
    ]
    titles = [next(each.text for each in panel if each.tag.endswith("}text")) for panel in panels]
    assert titles == ["today", "after step 1", "after step 2: the goal"]


def test_a_broker_is_drained_and_another_comes(capsys: pytest.CaptureFixture[str], today: str) -> None:
    drained = answered(capsys, "--from", today, "--drain", "1")
    assert sum("1" in each for each in drained["goal"]["links"]) == 1 and drained["traffic"]["model"]
    grown = answered(capsys, "--from", today, "--add", "9")
    assert [row["operation"] for row in grown["actions"]] == ["append"]
    assert "new      9" in shown(capsys, "--from", today, "--add", "9")


def test_an_improvement_tells_hops_latency_and_load_before_and_after(
    capsys: pytest.CaptureFixture[str], today: str, tmp_path: Path
) -> None:
    table = tmp_path / "traffic.csv"
    table.write_text("a,b,rate,latency\n3,4,100,0.010\n1,2,1,0.010\n", encoding="utf-8")
    options = ("--from", today, "--improve", "latency", "--traffic", str(table), "--changes", "1")
    figures = answered(capsys, *options)["traffic"]
    assert figures["after"]["hops"] < figures["before"]["hops"]
    text = shown(capsys, *options)
    assert "hops" in text and "events/s of the busiest" in text and "model: events go along the tree" in text


@pytest.mark.parametrize(
    ("links", "brokers", "problem"),
    [
        ("1-2 3-4", "", "--to .*: no tree: 3, 4 cannot be reached from 1; add a link that joins them"),
        ("1-2 2-3 1-3", "", "go round in a circle; leave one of them out"),
        ("1-2 1-33", "1 2 3", "the link 1 - 33 names 33, which is no broker here; is it spelled right"),
        (" ".join(f"0-{n}" for n in range(1, 10_000)), "", "10000 brokers: at most 2000 .* plan region by region"),
    ],
)
def test_a_goal_that_is_none_is_refused_with_what_to_do(
    capsys: pytest.CaptureFixture[str], today: str, tmp_path: Path, links: str, brokers: str, problem: str
) -> None:
    error = refused(capsys, "--from", today, "--to", written(tmp_path / "wrong.toml", links, brokers))
    assert re.search(problem, error), error


def test_files_and_options_that_cannot_be_used_are_named(
    capsys: pytest.CaptureFixture[str], today: str, goal: str, tmp_path: Path
) -> None:
    assert "one of --to, --improve, --drain and --add" in refused(capsys, "--from", today)
    assert "one of --to, --improve, --drain and --add" in refused(capsys, "--from", today, "--to", goal, "--drain", "1")
    assert "cannot be read" in refused(capsys, "--from", today, "--to", str(tmp_path / "none.toml"))
    (tmp_path / "text.toml").write_text("links = [[1, 2]]", encoding="utf-8")
    assert 'write it as links = [["b1", "b2"]' in refused(capsys, "--from", str(tmp_path / "text.toml"), "--to", goal)
    assert "there is no action set 'X'" in refused(capsys, "--from", today, "--to", goal, "--actions", "x")
    assert "a plan is not made of 'jump'" in refused(capsys, "--from", today, "--to", goal, "--with", "jump")
    assert "b99 is no broker of this tree" in refused(capsys, "--from", today, "--drain", "b99")
    assert "choose from latency, degree, load" in refused(capsys, "--from", today, "--improve", "beauty")
    table = tmp_path / "traffic.csv"
    table.write_text("from,to\n1,2\n", encoding="utf-8")
    options = ("--from", today, "--improve", "load", "--traffic", str(table))
    assert "they are a,b,rate,latency" in refused(capsys, *options)
    table.write_text("a,b,rate\n1,2,many\n", encoding="utf-8")
    assert "line 2: write it as b1,b3,120,0.030" in refused(capsys, *options)
