"""The commands as a person uses them: what they print, where, and with which exit code."""

import json
import shlex
from pathlib import Path

import pytest

pytest.importorskip("typer")

from tidings.cli.program import run


def test_list_names_every_scenario_and_its_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "list"]) == 0
    printed = capsys.readouterr().out
    assert "gossip-churn  Nodes come and go" in printed
    assert "nodes=12 topology=ring" in printed
    assert run(["sim", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {each["name"] for each in listed} >= {"ping", "gossip", "partition"}
    assert listed[0]["settings"]["nodes"] == 8


def test_run_prints_the_seed_the_faults_the_verdict_and_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "run", "gossip", "--seed", "7", "--set", "nodes=5", "--faults", "1..4 crash n2"]) == 0
    printed = capsys.readouterr().out
    assert "seed       7\n" in printed
    assert "  1..4 crash n2\n" in printed
    assert "verdict    passed\n" in printed
    assert printed.endswith("again      tidings sim run gossip --seed 7 --set nodes=5 --faults '1..4 crash n2'\n")


def test_run_as_json_holds_all_of_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    assert run(["sim", "run", "partition", "--seed", "2", "--trace", str(path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["order"]["seed"] == answer["result"]["seed"] == 2
    assert answer["result"]["passed"] is True
    assert answer["result"]["faults"] == ["5..25 partition n0,n1,n2,n3"]
    assert answer["result"]["counters"]["lost"]["cut off by a partition"] > 0
    assert answer["trace"] == str(path)
    assert path.is_file()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["run", "gosip"], "there is no scenario 'gosip'; built in are"),
        (["run", "gossip", "--set", "nodes"], "--set nodes: write it as NAME=VALUE"),
        (["run", "gossip", "--set", "nodes=many"], "nodes: 'many'; give an integer"),
        (["run", "gossip", "--set", "size=4"], "has no setting 'size'; it has nodes"),
        (["run", "gossip", "--set", "transport=pigeon"], "transport: there is no 'pigeon'; give stream or datagram"),
        (["run", "gossip", "--set", "topology=blob"], "there is no topology 'blob'; give chain, star, ring"),
        (["run", "ping", "--set", "period=-1"], "period: -1.0 is no span of time"),
        (["run", "gossip", "--faults", "boom"], "write a fault as in: 2.5..7.1 crash n3"),
        (["run", "gossip", "--faults", "1..2 crash n77"], "there is no node 'n77'; the nodes are n0 to n11"),
        (["run", "gossip", "--trace", "run.csv"], "end its name in .parquet or .jsonl"),
        (["run", "gossip", "--duration", "-1"], "duration: -1.0 must be above 0"),
        (["replay", "nowhere.jsonl"], "there is no such file"),
        (["hunt", "gossip", "--seeds", "0"], "--seeds"),
    ],
)
def test_called_wrongly_they_say_what_to_do(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sim", *arguments]) == 2
    captured = capsys.readouterr()
    assert problem in captured.err
    assert captured.out == ""


def test_hunt_prints_one_command_that_fails_again(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    name = f"{root / 'tests/scenarios/broken.py'}:gossip_that_forgets"
    assert run(["sim", "hunt", name, "--seeds", "20"]) == 1
    printed = capsys.readouterr().out
    assert "smallest   1 fault among" in printed
    command = next(line for line in printed.splitlines() if line.startswith("again")).removeprefix("again").strip()
    words = shlex.split(command)
    assert words[:3] == ["tidings", "sim", "run"]
    assert run(words[1:]) == 1
    assert "no duplicates: delivers event" in capsys.readouterr().out


def test_hunt_as_json_and_hunt_without_prey(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    name = f"{root / 'tests/scenarios/broken.py'}:gossip_that_asks_once"
    assert run(["sim", "hunt", name, "--seeds", "3", "--from", "5", "--all", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["tried"] == "seeds 5 to 7"
    assert answer["failures"][0]["smallest"]["faults"] == ""
    assert run(["sim", "hunt", "partition", "--seeds", "2"]) == 0
    assert (
        capsys.readouterr().out
        == "scenario   partition\ntried      seeds 0 to 1\njudged     2 faults\nfailed     none\n"
    )


def test_replay_tells_the_same_from_the_different(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    assert run(["sim", "run", "partition", "--trace", str(path)]) == 0
    capsys.readouterr()
    assert run(["sim", "replay", str(path)]) == 0
    assert "replay     the same, " in capsys.readouterr().out
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    assert run(["sim", "replay", str(path)]) == 1
    printed = capsys.readouterr().out
    assert "replay     DIFFERENT from row " in printed
    assert "recorded nothing more" in printed
    assert run(["sim", "replay", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["replay"]["is_same"] is False
