"""The commands around brokers, as far as they need none: what they read, what they refuse, and with which exit code."""

import json
import socket
from pathlib import Path

import pytest

pytest.importorskip("pydantic_settings", reason="these commands need the extra 'net'")

from tidings.cli.brokers import environment_of, plain_network, read_network
from tidings.cli.output import (
    MACHINE,
    NO,
    NOT_PERMITTED,
    NOT_REACHABLE,
    OK,
    USAGE,
    read_instant,
    read_span,
    table_lines,
)
from tidings.cli.program import run
from tidings.cli.pub import read_attributes, read_value
from tidings.cli.reach import exit_code
from tidings.cli.sub import read_positions
from tidings.cli.top import cells, measure
from tidings.diagnosis.network import Network, Reported, Unreached
from tidings.model.errors import UsageError
from tidings.net import errors
from tidings.net.inspector import NotInspected
from tidings.net.keys import principal_of_token, read_token_file
from tidings.protocols.access.tokens import read_token
from tidings.pubsub.rows import BrokerRow, CounterRow, LinkRow, QueueRow

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def closed_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_settings_are_shown_with_their_origin(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('name = "north"\n[delivery]\nhistory_age = 60\n')
    monkeypatch.setenv("TIDINGS_BROKER_LISTEN", "127.0.0.1:9")
    assert run(["config", "show", "--origin", "--changed", "--config", str(file)]) == OK
    shown = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    assert [[cell.strip() for cell in line if cell.strip()] for line in shown] == [
        ["setting", "value", "origin"],
        ["name", "north", f"file {file}"],
        ["listen", "127.0.0.1:9", "environment TIDINGS_BROKER_LISTEN"],
        ["delivery.history_age", "60.0", f"file {file}"],
    ]


def test_every_bound_on_what_others_send_can_be_set_and_seen(capsys: Captured) -> None:
    assert run(["config", "show", "--json"]) == OK
    shown = {each["name"]: each["value"] for each in json.loads(capsys.readouterr().out)}
    assert shown["delivery.subscriptions_max"] == 1000
    assert shown["delivery.pending_bytes_max"] == 16 * 1024 * 1024
    assert shown["host.handshake_timeout"] == 5.0
    assert shown["host.address_connections_max"] == 512
    assert shown["access.clients_max"] == 10_000
    assert (shown["fixed.frame_bytes_max"], shown["fixed.attributes_max"]) == (1024 * 1024, 128)
    assert shown["fixed.filter_text_bytes_max"] == 4096


def test_a_wrong_setting_ends_with_two(capsys: Captured, tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("nam = 'x'\n")
    assert run(["broker", "--config", str(file)]) == USAGE
    assert "did you mean name?" in capsys.readouterr().err


def test_a_port_that_is_taken_ends_with_five_and_says_what_to_do(capsys: Captured) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run(["broker", "--listen", f"127.0.0.1:{port}", "--log", "error"]) == MACHINE
    assert "another program uses that port" in capsys.readouterr().err


def test_beyond_this_machine_plain_text_must_be_asked_for(capsys: Captured) -> None:
    assert run(["broker", "--listen", "0.0.0.0:0", "--log", "error"]) == MACHINE
    assert "without TLS: anybody on the way could read and write" in capsys.readouterr().err
    assert run(["broker", "--listen", "127.0.0.1:0", "--join", "nonsense", "--log", "error"]) == MACHINE
    said = capsys.readouterr().err
    assert "nonsense:7411 without TLS" in said and "--tls-certificate" in said and "--insecure" in said


def test_principals_without_anything_that_proves_a_name_are_refused(capsys: Captured, tmp_path: Path) -> None:
    file = tmp_path / "principals.toml"
    file.write_text("[[principal]]\nname = 'ann'\n")
    assert run(["broker", "--principals", str(file), "--listen", "127.0.0.1:0"]) == USAGE
    assert "anybody may take any name" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["doctor"],
        ["why", '{"a": 1}', "ann"],
        ["top", "--once"],
        ["pub", "a=1"],
        ["sub", "TRUE"],
        ["bench"],
    ],
)
def test_no_broker_there_ends_with_three_and_says_what_to_do(
    arguments: list[str], capsys: Captured, closed_port: int
) -> None:
    assert run([*arguments, "--broker", f"127.0.0.1:{closed_port}", "--wait", "0.2"]) == NOT_REACHABLE
    answer = capsys.readouterr()
    assert answer.out == ""
    assert "Connection refused" in answer.err
    assert "is it running?" in answer.err or "is it started?" in answer.err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["sub", "price >"], "^"),
        (["sub", "TRUE", "--guarantee", "all"], "--guarantee all: give installed or none"),
        (["sub", "TRUE", "--policy", "shout"], "--policy shout: give wait"),
        (["sub", "TRUE", "--since", "yesterday"], "--since yesterday: give a span such as 5m"),
        (["sub", "TRUE", "--after", "7"], "--after 7: write it as PUBLISHER/NUMBER"),
        (["sub", "TRUE", "--broker", "a:b"], "is no address"),
        (["sub", "TRUE", "--tls-key", "x.pem"], "give --tls-certificate and --tls-key"),
        (["sub", "TRUE", "--broker", "192.0.2.1:1"], "without TLS"),
        (["pub"], "give attributes as NAME=VALUE"),
        (["pub", "price"], "write an attribute as NAME=VALUE"),
        (["pub", "a=1", "a=2"], "a is given twice"),
        (["pub", "a=1", "--lines"], "--lines: events come from stdin"),
        (["pub", "a=1", "--payload", "x", "--payload-file", "y"], "give one of them"),
        (["pub", "a=1", "--payload-file", "/nowhere"], "--payload-file /nowhere"),
        (["token", "ann", "--authority", "nowhere.key"], "cannot read nowhere.key"),
        (["up", "nowhere.toml"], "cannot read nowhere.toml"),
    ],
)
def test_called_wrongly_they_say_what_to_do(arguments: list[str], problem: str, capsys: Captured) -> None:
    assert run(arguments) in (USAGE, MACHINE)
    answer = capsys.readouterr()
    assert problem in answer.err
    assert answer.out == ""


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (UsageError(""), USAGE),
        (errors.HostError(""), MACHINE),
        (errors.NotReachable(""), NOT_REACHABLE),
        (errors.NotPermitted(""), NOT_PERMITTED),
        (errors.Refused(""), NO),
        (errors.NotConfirmed(""), NO),
        (NotInspected("", "", is_refused=True), NOT_PERMITTED),
        (NotInspected("", "", is_refused=False), NOT_REACHABLE),
    ],
)
def test_every_problem_has_its_exit_code(problem: UsageError, code: int) -> None:
    assert exit_code(problem) == code


def test_exit_codes_are_documented(root: Path) -> None:
    page = (root / "docs/reference/cli.md").read_text()
    for code in (OK, NO, USAGE, NOT_REACHABLE, NOT_PERMITTED, MACHINE):
        assert f"\n| {code} | " in page


def test_a_key_and_a_token_that_it_signs(capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["keys", "new", "office"]) == OK
    assert run(["keys", "new", "ann"]) == OK
    assert run(["keys", "new", "office"]) == MACHINE
    assert "office.key exists already" in capsys.readouterr().err
    arguments = ["token", "ann", "--authority", "office.key", "--subscribe", "price > 1", "--role", "admin"]
    assert run([*arguments, "--holder", "ann.pub", "--expires", "1h", "--json"]) == OK
    told = json.loads(capsys.readouterr().out)
    token = read_token_file(tmp_path / "ann.token")
    _, claims = read_token(token)
    assert (told["token"], told["roles"]) == ("ann.token", ["client", "admin"])
    assert principal_of_token(token) == "ann"
    assert (claims.subscribe, claims.authority, len(claims.holder_key)) == ("price > 1", "office", 32)
    assert run([*arguments, "--out", "bad.token", "--publish", "price >"]) == USAGE
    assert "^" in capsys.readouterr().err
    assert not (tmp_path / "bad.token").exists()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("5.5", 5.5),
        ("true", True),
        ("false", False),
        ("null", "null"),
        ("IBM", "IBM"),
        ('"5"', "5"),
        ("[1]", "[1]"),
        ("", ""),
        ("a=b", "a=b"),
    ],
)
def test_a_value_has_the_type_that_it_reads_as(text: str, value: object) -> None:
    found = read_value(text)
    assert (found, type(found)) == (value, type(value))


def test_attributes_may_hold_an_equals_sign() -> None:
    assert read_attributes(["query=a=b", "n=1"]) == {"query": "a=b", "n": 1}


def test_spans_and_instants() -> None:
    assert [read_span(text, "") for text in ("30s", "5m", "1.5h", "2d")] == [30, 300, 5400, 172800]
    assert read_instant("5m", "", 1000.0) == 700.0
    assert read_instant("12.5", "", 0.0) == 12.5
    assert read_instant("1970-01-01T00:01:00Z", "", 0.0) == read_instant("1970-01-01T00:01:00", "", 0.0) == 60.0
    assert read_instant("1970-01-01T01:00:00+01:00", "", 0.0) == 0.0


def test_positions_name_the_publisher_and_the_number() -> None:
    assert read_positions(["a/b/7", "c/1"]) == {"a/b": 7, "c": 1}


def test_columns_are_as_wide_as_they_need_to_be() -> None:
    assert table_lines(["a", "bb"], [["ccc", "d"], ["", "e"]]) == ["a    bb", "ccc  d", "     e"]


# A network from a file.

FILE = Path("network.toml")


def test_a_network_has_ports_and_links_from_its_file() -> None:
    tables = {
        "links": [["a", "b"], ["c", "b"]],
        "settings": {"log": "warning", "host": {"learned_max": 9}},
        "brokers": {"a": {}, "b": {"listen": "127.0.0.1:5", "http": "127.0.0.1:6"}, "c": {}},
    }
    a, b, c = read_network(tables, FILE)
    assert (a.name, a.listen, c.listen) == ("a", "127.0.0.1:7411", "127.0.0.1:7413")
    assert b.settings == {
        "log": "warning",
        "host": {"learned_max": 9},
        "listen": "127.0.0.1:5",
        "http": "127.0.0.1:6",
        "links": ["127.0.0.1:7411", "127.0.0.1:7413"],
    }
    assert environment_of(b) == {
        "TIDINGS_BROKER_NAME": "b",
        "TIDINGS_BROKER_LOG": "warning",
        "TIDINGS_BROKER_HOST__LEARNED_MAX": "9",
        "TIDINGS_BROKER_LISTEN": "127.0.0.1:5",
        "TIDINGS_BROKER_HTTP": "127.0.0.1:6",
        "TIDINGS_BROKER_LINKS": "127.0.0.1:7411,127.0.0.1:7413",
    }


@pytest.mark.parametrize(
    ("tables", "problem"),
    [
        ({}, "name 1 to 200 brokers"),
        ({"broker": {}}, "'broker' is not known"),
        ({"brokers": {"a": {}}, "links": [["a"]]}, "write two names of brokers"),
        ({"brokers": {"a": {}}, "links": [["a", "b"]]}, "write two names of brokers"),
    ],
)
def test_a_network_that_is_none_is_refused(tables: dict[str, object], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read_network(tables, FILE)


# Loads.


def sample(received: float, waiting: int) -> tuple[Network, dict[str, list[CounterRow]]]:
    reported = Reported(
        broker=BrokerRow(broker="a"),
        # That to d was let go by both ends: it is not down.
        links=(LinkRow(broker="b", is_up=True), LinkRow(broker="c", problem="refused"), LinkRow(broker="d")),
        queues=(QueueRow(client="x", number=1, waiting=waiting),),
    )
    counters = [
        CounterRow(name="tidings_stream_messages_received_total", value=received),
        CounterRow(name="tidings_drops_total", labels={"reason": "queue full"}, value=3),
    ]
    return Network([reported], [Unreached("h:1", "refused", "c", "a")]), {"a": counters}


def test_two_looks_give_rates_queues_and_drops() -> None:
    a, c = measure(sample(100, 0), sample(150, 7), 2.0)
    assert (a.received_per_second, a.waiting, a.links, a.links_down) == (25.0, 7, 1, 1)
    assert a.dropped == {"queue full": 3}
    assert (c.broker, c.problem) == ("c", "refused")
    assert cells(a)[:5] == ["a", "1 (1 down)", "0", "0", "25"]


def test_a_broker_that_started_anew_has_no_negative_rate() -> None:
    a, _ = measure(sample(100, 0), sample(50, 0), 1.0)
    assert a.received_per_second == 0.0


def test_brokers_of_a_network_on_the_air_hear_those_beside_them() -> None:
    network = plain_network(3, "witree")
    assert network["settings"] == {"overlay": {"kind": "witree"}}
    assert network["brokers"] == {
        "b1": {"hears": ["b2=127.0.0.1:7412"]},
        "b2": {"hears": ["b1=127.0.0.1:7411", "b3=127.0.0.1:7413"]},
        "b3": {"hears": ["b2=127.0.0.1:7412"]},
    }
    assert plain_network(2, "lstree")["brokers"] == {"b1": {}, "b2": {"join": ["127.0.0.1:7411"]}}
