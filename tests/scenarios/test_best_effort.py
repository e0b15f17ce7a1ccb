"""Brokers that route by destination over all their links: what arrives, and what clients are told of it."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

pytest.importorskip("pydantic_settings", reason="brokers as services need the extra 'net'")

from bench.brokers.servers import free_port
from tests.scenarios import processes
from tests.scenarios.services import command, command_until, make_service, where
from tests.worlds.loopback import connect
from tests.worlds.sockets import play, until
from tidings.cli.output import NO, OK
from tidings.diagnosis.findings import MISSING, diagnose
from tidings.diagnosis.network import crawl
from tidings.net.addresses import address_text
from tidings.net.broker.service import BrokerService
from tidings.net.errors import Refused
from tidings.net.inspector import Inspector
from tidings.protocols.routing.destinations.router import DestinationRouter
from tidings.pubsub.rows import DestinationRow

KINDS = {"overlay": {"kind": "all-peers"}, "routing": {"kind": "destinations", "engine": "plain"}}


def url(service: BrokerService) -> str:
    return f"tidings://{address_text(service.address)}"


def knows(service: BrokerService, broker: str) -> bool:
    """Whether it has heard what the clients of that broker want."""
    assert isinstance(service.node.routing, DestinationRouter)
    return any(service.node.routing.knowledge.rows.get(broker, (0, ()))[1])


def test_on_a_ring_every_event_arrives_once_and_nobody_promises_it() -> None:
    async def scenario() -> None:
        async with (
            make_service("a", **KINDS) as a,
            make_service("b", a, **KINDS) as b,
            make_service("c", a, b, **KINDS) as c,
        ):
            await until(lambda: all(len(each.node.overlay.neighbours) == 2 for each in (a, b, c)))
            async with connect(url(c), name="ann") as ann, connect(url(a), name="pete") as pete:
                with pytest.raises(Refused, match="the guarantee 'none' and the policy 'drop oldest'"):
                    await ann.subscribe("x > 1")
                with pytest.raises(Refused, match="the policy 'drop oldest', 'drop newest' or 'disconnect'"):
                    await ann.subscribe("x > 1", guarantee="none")
                with pytest.raises(Refused, match="cannot be read at another; subscribe instead"):
                    await ann.marks("x > 1")
                wanted = await ann.subscribe("x > 1", guarantee="none", policy="drop oldest")
                assert (wanted.receipt.guarantee, wanted.receipt.brokers) == ("none", ("c",))
                await until(lambda: knows(a, "c"))
                for x in range(10):
                    await pete.publish({"x": x})
                with pytest.raises(
                    Refused, match="it was sent on, and nobody can say whether it arrived; publish without a"
                ):
                    await pete.publish({"x": 10}, receipt=True)
                got: list[object] = []
                while len(got) < 9:
                    got += [event.attributes["x"] for event in await wanted.take()]
                assert got == [2, 3, 4, 5, 6, 7, 8, 9, 10]

                network = await crawl([address_text(a.address)])
                assert {row.broker: row.hop for row in network.brokers["a"].destinations} == {
                    "a": "",
                    "b": "b",
                    "c": "c",
                }
                assert diagnose(network) == []
                assert await command("why", '{"x": 3}', "ann", *where(b)) == OK
                assert await command("why", '{"x": 1}', "ann", *where(b)) == NO

    play(scenario())


def test_the_doctor_finds_brokers_that_do_not_know_each_other() -> None:
    async def scenario() -> None:
        async with make_service("a", **KINDS) as a, make_service("b", a, **KINDS) as b:
            await until(lambda: b.node.overlay.neighbours == ["a"] and not a.node.why_not_ready())
            assert isinstance(a.node.routing, DestinationRouter)
            a.node.routing.knowledge.rows.pop("b")
            found = diagnose(await crawl([address_text(a.address)]))
            assert [(each.kind, each.broker, each.peer) for each in found] == [(MISSING, "a", "b")]

    play(scenario())


def test_a_network_of_a_file_routes_by_destination(tmp_path: Path) -> None:
    async def scenario() -> None:
        a, b, c = (f"127.0.0.1:{free_port()}" for _ in range(3))
        file = tmp_path / "network.toml"
        file.write_text(
            'links = [["a", "b"], ["b", "c"], ["a", "c"]]\n'
            '[settings]\nlog = "warning"\n[settings.overlay]\nkind = "all-peers"\n'
            '[settings.routing]\nkind = "destinations"\nengine = "plain"\n'
            f'[brokers.a]\nlisten = "{a}"\n[brokers.b]\nlisten = "{b}"\n[brokers.c]\nlisten = "{c}"\n'
        )
        async with processes.tidings("up", str(file), "--json") as up:
            assert [json.loads(await up.line())["started"] for _ in range(3)] == ["a", "b", "c"]
            asked = ["--guarantee", "none", "--policy", "drop-oldest", "--count", "1", "--json"]
            async with processes.tidings("sub", "x > 4", "--broker", c, "--name", "ann", *asked) as ann:
                assert "nothing is promised" in await ann.says("ann is subscribed at c since")
                async with Inspector(a) as inspector:
                    while True:
                        rows = await inspector.table("destinations", DestinationRow)
                        if any(row.broker == "c" and row.predicates for row in rows):
                            break
                        await asyncio.sleep(0.02)
                assert await command("pub", "x=3", "--broker", a) == OK
                assert await command("pub", "x=5", "--broker", a) == OK
                assert json.loads(await ann.line())["attributes"] == {"x": 5}
                assert await ann.end() == OK
            await command_until(OK, "doctor", "--broker", b)
            up.tell(signal.SIGINT)
            assert await up.end() == OK

    play(scenario())
