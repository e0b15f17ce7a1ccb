"""The commands as an engineer uses them: real processes, real sockets, and nothing left behind."""

import json
import os
import shlex
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_settings", reason="these commands need the extra 'net'")

from bench.brokers.servers import free_port
from tests.scenarios.processes import broker, is_alive, tidings
from tests.scenarios.services import chain, command, command_until, make_service, where
from tests.worlds.loopback import connect
from tests.worlds.sockets import play, until
from tidings.cli.output import NO, NOT_PERMITTED, NOT_REACHABLE, OK
from tidings.net.addresses import address_text
from tidings.net.certificates import DAY, new_authority, new_certificate

Captured = pytest.CaptureFixture[str]

QUAKES = "type = 'quake' AND magnitude >= 4.5"


def test_three_brokers_a_subscriber_a_publisher_and_the_loss_of_the_one_in_the_middle(capsys: Captured) -> None:
    async def scenario() -> None:
        async with broker("a") as a, broker("b", a.address) as b, broker("c", b.address) as c:
            at_a, at_b = ["--broker", a.address], ["--broker", b.address]
            subscriber = tidings("sub", QUAKES, "--broker", c.address, "--name", "ann", "--count", "1", "--json")
            watcher = tidings("sub", "TRUE", *at_b, "--name", "bob")
            client = connect(f"tidings://{c.address}", name="carol")
            async with subscriber as ann, watcher as bob, client as carol:
                everything = await carol.subscribe("type = 'quake'")
                assert "ann is subscribed at" in await ann.says("since")
                await bob.says("bob is subscribed at")
                assert await command("pub", "type=quake", "magnitude=3", *at_a, "--name", "pete") == OK
                await command_until(OK, "doctor", *at_a)
                assert "nothing is wrong" in capsys.readouterr().out
                assert await command("why", '{"type": "quake", "magnitude": 3}', "ann", *at_b) == NO
                assert "magnitude >= 4.5 fails: magnitude is 3" in capsys.readouterr().out
                assert await command("why", '{"type": "quake", "magnitude": 5}', "ann", *at_b) == OK
                assert "goes on to c" in capsys.readouterr().out
                assert await command("pub", "type=quake", "magnitude=5.5", *at_a, "--name", "mary", "--receipt") == OK
                assert json.loads(await ann.line())["attributes"] == {"magnitude": 5.5, "type": "quake"}
                assert await ann.end() == OK

                b.tell(signal.SIGKILL)
                await bob.says("broker b is lost")
                assert await command("doctor", *at_a, "--settle", "0.1") == NO
                assert f"broker b at {b.address}, linked with a, is not reachable" in capsys.readouterr().out
                assert [event.attributes["magnitude"] for event in await everything.take()] == [3, 5.5]
                assert await command("pub", "type=quake", "magnitude=7", *at_a) == OK
                async with broker("b", a.address, listen=b.address):
                    await bob.says("broker b serves us; the subscription continues where it was")
                    assert [event.attributes["magnitude"] for event in await everything.take()] == [7]
                bob.tell(signal.SIGINT)
                assert await bob.end() == OK
            for each in (a, c):
                each.tell(signal.SIGTERM)
                assert await each.end() == OK

    play(scenario())


@pytest.mark.parametrize("is_joined", [False, True], ids=["linked", "joined"])
def test_the_commands_of_the_guide_do_what_it_says(is_joined: bool, root: Path, capsys: Captured) -> None:
    async def scenario() -> None:
        text = (root / "docs/guide/broker.md").read_text()
        for number in range(3):
            text = text.replace(f"127.0.0.1:{7411 + number}", f"127.0.0.1:{free_port()}")
        lines = [shlex.split(line)[1:] for line in text.splitlines() if line.startswith("    tidings ")]
        started = [line for line in lines if line[0] == "broker" and "--listen" in line]
        brokers = [line for line in started if ("--join" in line or "--overlay" in line) == is_joined]
        assert len(brokers) == 3
        (sub,) = [line for line in lines if line[0] == "sub" and "ann" in line]
        (why,) = [line for line in lines if line[0] == "why"]
        async with AsyncExitStack() as stack:
            for line in brokers:
                program = await stack.enter_async_context(tidings(*line))
                assert f"broker {line[2]} is ready at {line[4]}" == await program.line()
            ann = await stack.enter_async_context(tidings(*sub, "--json"))
            await ann.says("ann is subscribed at c")
            for line in lines:
                if line[0] == "pub":
                    assert await command(*line) == OK
            assert json.loads(await ann.line())["attributes"]["place"] == "off Chile"
            capsys.readouterr()
            assert await command(*why) == NO
            told = capsys.readouterr().out.splitlines()[-1]
            assert told in text
            await command_until(OK, "doctor", "--broker", brokers[0][4])

    play(scenario())


def test_a_network_from_a_file_comes_up_and_leaves_no_process(tmp_path: Path) -> None:
    async def scenario() -> None:
        ports = [free_port(), free_port()]
        file = tmp_path / "network.toml"
        file.write_text(
            'links = [["a", "b"]]\n[settings]\nlog = "warning"\n'
            f'[brokers.a]\nlisten = "127.0.0.1:{ports[0]}"\n[brokers.b]\nlisten = "127.0.0.1:{ports[1]}"\n'
        )
        async with tidings("up", str(file), "--json") as up:
            assert [json.loads(await up.line())["started"] for _ in range(2)] == ["a", "b"]
            children = up.children
            assert len(children) == 2
            await command_until(OK, "doctor", "--broker", f"127.0.0.1:{ports[1]}")
            up.tell(signal.SIGINT)
            assert await up.end() == OK
            assert not any(map(is_alive, children))
        file.write_text(f'[brokers.a]\nlisten = "127.0.0.1:{ports[0]}"\n')
        async with tidings("up", str(file), "--json", "--logs", str(tmp_path / "logs")) as up:
            await up.line()
            children = up.children
            up.tell(signal.SIGKILL)
            await up.end()
            await until(lambda: not any(map(is_alive, children)))
            assert (tmp_path / "logs" / "a.log").exists()

    play(scenario())


def test_a_network_ends_when_one_of_its_brokers_does(tmp_path: Path) -> None:
    async def scenario() -> None:
        address = f"127.0.0.1:{free_port()}"
        file = tmp_path / "network.toml"
        file.write_text(f'[brokers.a]\nlisten = "{address}"\n')
        async with tidings("up", str(file)) as up:
            assert f"broker a is ready at {address}" in await up.line()
            children = up.children
            os.kill(children[0], signal.SIGKILL)
            assert await up.end() == NO
            assert any("ended by itself" in line for line in up.said)
            assert not any(map(is_alive, children))

    play(scenario())


def test_a_network_that_cannot_start_says_why_and_stops_what_did(tmp_path: Path) -> None:
    async def scenario() -> None:
        address = f"127.0.0.1:{free_port()}"
        file = tmp_path / "network.toml"
        file.write_text(f'[brokers.a]\nlisten = "{address}"\n[brokers.b]\nlisten = "{address}"\n')
        async with tidings("up", str(file)) as up:
            assert await up.end() == 5
            assert any("another program uses that port" in line for line in up.said)
            assert any("broker b did not start" in line for line in up.said)

    play(scenario())


def test_events_from_a_pipe_reach_a_subscriber(capsys: Captured) -> None:
    lines = b'{"n": 1}\n\n{"n": 2, "s": "x"}\n'

    async def scenario() -> None:
        async with make_service("a") as a, connect(f"tidings://{address_text(a.address)}") as client:
            subscription = await client.subscribe("n > 0")
            async with tidings(
                "pub", "--lines", "--receipt", "--name", "pipe", "--json", *where(a), stdin=lines
            ) as pub:
                assert await pub.end() == OK
            assert [event.attributes for event in await subscription.take()] == [{"n": 1}, {"n": 2, "s": "x"}]
            async with tidings("pub", "--lines", *where(a), stdin=b'{"n": 1}\n[3]\n') as pub:
                assert await pub.end() == 2
                assert "line 2 of stdin is no event" in pub.said[-1]

    play(scenario())


def test_a_subscriber_may_ask_for_what_was_published_before(capsys: Captured) -> None:
    async def scenario() -> None:
        async with chain("a", "b") as brokers:
            for n in (1, 2, 3):
                pub = await command("pub", f"n={n}", "--payload", "text", "--name", f"p{n}", *where(brokers["a"]))
                assert pub == OK
            capsys.readouterr()
            since = await command("sub", "n > 1", "--since", "5m", "--count", "2", "--json", *where(brokers["b"]))
            assert since == OK
            shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
            assert sorted(each["attributes"]["n"] for each in shown) == [2, 3]
            assert {each["payload"] for each in shown} == {"text"}
            number = next(each["number"] for each in shown if each["publisher"] == "p3")
            assert await command("why", f"p3/{number}", "nobody", *where(brokers["b"])) == NO
            assert "nobody called nobody subscribes at a, b" in capsys.readouterr().out
            assert await command("why", "p3/99", "nobody", *where(brokers["b"])) == 2
            assert "no broker stores it any more" in capsys.readouterr().err

    play(scenario())


def test_a_stored_event_is_followed_by_its_name(capsys: Captured) -> None:
    async def scenario() -> None:
        async with chain("a", "b") as brokers:
            url = f"tidings://{address_text(brokers['b'].address)}"
            async with connect(url, name="ann") as ann:
                subscription = await ann.subscribe("n > 1")
                assert await command("pub", "n=7", "--name", "pete", "--receipt", *where(brokers["a"])) == OK
                (event,) = await subscription.take()
                capsys.readouterr()
                name = f"pete/{event.number}"
                assert await command("why", name, "ann", "--json", *where(brokers["b"])) == OK
                (way,) = json.loads(capsys.readouterr().out)
                assert way["arrives"] is True
                assert [step["broker"] for step in way["steps"]] == ["a", "a", "b"]

    play(scenario())


def test_a_subscriber_that_gets_less_than_it_waits_for_ends_with_one(capsys: Captured) -> None:
    async def scenario() -> None:
        async with make_service("a") as a:
            assert await command("sub", "TRUE", "--count", "1", "--timeout", "0.2", *where(a)) == NO
            assert await command("sub", "TRUE", "--timeout", "0.2", *where(a)) == OK

    play(scenario())
    assert "0 events" in capsys.readouterr().err


def test_top_shows_every_broker_once(capsys: Captured) -> None:
    async def scenario() -> None:
        async with chain("a", "b") as brokers:
            assert await command("top", "--once", "--json", "--period", "0.2", *where(brokers["a"])) == OK
            shown = json.loads(capsys.readouterr().out)
            assert [each["broker"] for each in shown["brokers"]] == ["a", "b"]
            assert all(each["links"] == 1 and each["problem"] == "" for each in shown["brokers"])
            assert shown["brokers"][0]["received_per_second"] > 0
            assert await command("top", "--once", "--period", "0.1", *where(brokers["a"])) == OK
            assert capsys.readouterr().out.splitlines()[0].startswith("broker  links  clients")

    play(scenario())


def test_top_shows_the_transports_of_clients(capsys: Captured) -> None:
    async def scenario() -> None:
        async with make_service("a") as a:
            url = f"tidings://{address_text(a.address)}"
            async with connect(url, name="ann", ordered=True, reliable=True, paced=True) as ann:
                subscription = await ann.subscribe("n >= 0")
                assert await command("pub", "n=7", "--name", "pete", "--reliable", "--paced", *where(a)) == OK
                await subscription.take()
                capsys.readouterr()
                shown: dict[str, Any] = {"transport": []}
                while not any(row["kind"] == "stream" for row in shown["transport"]):
                    assert await command("top", "--once", "--json", "--period", "0.1", *where(a)) == OK
                    shown = json.loads(capsys.readouterr().out)
                (stream,) = [row for row in shown["transport"] if row["kind"] == "stream"]
                assert (stream["client"], stream["publisher"], stream["delivered"]) == ("ann", "pete", 1)
                assert await command("top", "--once", "--period", "0.1", *where(a)) == OK
                lines = capsys.readouterr().out.splitlines()
                assert any(line.startswith("client  publisher or flow  hold") for line in lines)
                assert any(line.startswith("ann") and "ordered reliable paced" in line for line in lines)
                assert any("pete" in line and " ms" in line for line in lines)

    play(scenario())


def test_a_publisher_and_a_subscriber_may_use_the_transport(capsys: Captured) -> None:
    async def scenario() -> None:
        async with make_service("a") as a:
            options = ["--ordered", "--reliable", "--paced", "--json", *where(a)]
            assert await command("pub", "n=1", "--payload", "hello", *options) == OK
            capsys.readouterr()
            for more in (options, ["--json", *where(a)]):
                assert await command("sub", "TRUE", "--since", "10m", "--count", "1", *more) == OK
                shown = json.loads(capsys.readouterr().out)
                assert (shown["attributes"], shown["payload"]) == ({"n": 1}, "hello")

    play(scenario())


def test_the_bench_measures_an_embedded_broker_and_a_running_one(capsys: Captured) -> None:
    async def scenario() -> None:
        few = ["--events", "200", "--singles", "10", "--json"]
        assert await command("bench", "--embedded", *few) == OK
        assert json.loads(capsys.readouterr().out)["events_per_second"] > 0
        async with make_service("a") as a:
            assert await command("bench", *few, *where(a)) == OK
            assert json.loads(capsys.readouterr().out)["broker"] == "a"

    play(scenario())


def test_without_a_token_one_is_turned_away_and_with_one_held_to_its_bounds(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def scenario() -> None:
        assert await command("keys", "new", "office") == OK
        assert await command("keys", "new", "ann") == OK
        bounds = ["--publish", "n < 5", "--subscribe", "n < 9", "--holder", "ann.pub"]
        assert await command("token", "ann", "--authority", "office.key", *bounds) == OK
        assert await command("token", "root", "--authority", "office.key", "--role", "admin") == OK
        async with make_service("a", authorities=[tmp_path / "office.pub"]) as a:
            as_ann = ["--token", "ann.token", "--token-key", "ann.key", *where(a)]
            capsys.readouterr()
            for arguments in (["sub", "TRUE"], ["pub", "n=1"], ["doctor"], ["top", "--once"]):
                assert await command(*arguments, *where(a)) == NOT_PERMITTED
                assert "credentials are needed" in capsys.readouterr().err
            assert await command("doctor", *as_ann) == NOT_PERMITTED
            assert "role admin" in capsys.readouterr().err
            assert await command("sub", "n > 1", "--timeout", "0.1", *as_ann) == OK
            assert "narrowed to what you may have: n > 1 AND n < 9" in capsys.readouterr().err
            assert await command("sub", "n > 20", *as_ann) == NOT_PERMITTED
            assert "you may subscribe to only n < 9" in capsys.readouterr().err
            assert await command("pub", "n=1", *as_ann) == OK
            assert await command("pub", "n=7", "--advertise", "n < 5", *as_ann) in (NO, NOT_PERMITTED)
            await command_until(OK, "doctor", "--token", "root.token", *where(a))

    play(scenario())


def test_over_tls_the_certificate_says_who_we_are(capsys: Captured, tmp_path: Path) -> None:
    authority, _ = new_authority(tmp_path)
    for name in ("a", "b"):
        new_certificate(tmp_path, name, "broker", ["127.0.0.1"], DAY)
    for name in ("ann", "root", "eve"):
        new_certificate(tmp_path, name, "client", [], DAY)

    def files(name: str) -> dict[str, str]:
        certificate, key = tmp_path / f"{name}.pem", tmp_path / f"{name}.key"
        return {"tls_certificate": str(certificate), "tls_key": str(key), "tls_authority": str(authority)}

    def options(name: str) -> list[str]:
        return [word for key, value in files(name).items() for word in (f"--{key.replace('_', '-')}", value)]

    principals = tmp_path / "principals.toml"
    principals.write_text(
        "[[principal]]\nname = 'a'\nroles = ['broker']\n[[principal]]\nname = 'b'\nroles = ['broker']\n"
        "[[principal]]\nname = 'ann'\nsubscribe = 'n < 5'\n"
        "[[principal]]\nname = 'root'\nroles = ['client', 'admin']\n"
    )

    async def scenario() -> None:
        first = make_service("a", **files("a"), principals=principals)
        async with first as a, make_service("b", a, **files("b"), principals=principals) as b:
            await until(lambda: b.node.overlay.neighbours == ["a"])
            await command_until(OK, "doctor", *where(b), *options("root"))
            assert "asked a, b" in capsys.readouterr().out
            assert await command("doctor", *where(b), *options("ann")) == NOT_PERMITTED
            assert await command("sub", "n > 1", "--timeout", "0.1", *where(b), *options("ann")) == OK
            assert "narrowed to what you may have" in capsys.readouterr().err
            assert await command("sub", "n > 1", *where(b), *options("eve")) == NOT_PERMITTED
            assert await command("sub", "n > 1", "--wait", "0.3", *where(b)) == NOT_REACHABLE

    play(scenario())


def test_words_can_be_completed_in_a_shell() -> None:
    async def scenario() -> None:
        variables = {"_TIDINGS_COMPLETE": "complete_bash", "COMP_WORDS": "tidings do", "COMP_CWORD": "1"}
        async with tidings(variables=variables) as completion:
            assert await completion.line() == "doctor"
            assert await completion.end() == OK

    play(scenario())


def test_a_broker_that_is_told_to_stop_while_it_starts_ends_too() -> None:
    async def scenario() -> None:
        async with tidings("broker", "--listen", "127.0.0.1:0", "--link", "127.0.0.1:9", "--log", "info") as starting:
            await starting.says("started")
            starting.tell(signal.SIGTERM)
            assert await starting.end() == OK

    play(scenario())
