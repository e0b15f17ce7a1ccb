"""A broker as a service: when it is ready, what it shows, who may look, and how it leaves."""

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("pydantic_settings", reason="a broker service needs the extra 'net'")

from bench.brokers.servers import free_port
from tests.scenarios.services import chain, make_service
from tests.unit.test_health import exchange, get
from tests.worlds.loopback import connect
from tests.worlds.sockets import WAIT_MAX, play, until
from tidings.diagnosis.findings import diagnose
from tidings.diagnosis.network import crawl
from tidings.model.identity import name_of
from tidings.net.addresses import address_text
from tidings.net.errors import HostError, NotPermitted
from tidings.net.inspector import Inspector, InspectorAccess, NotInspected
from tidings.net.keys import new_key, signer, token_of_text, write_token
from tidings.protocols.access.tokens import Claims, make_token
from tidings.protocols.routing.router import Router
from tidings.pubsub.rows import (
    BrokerRow,
    CounterRow,
    EventRow,
    LinkRow,
    PublisherRow,
    QueueRow,
    SettingRow,
)
from tidings.trace.reader import read_trace
from tidings.trace.writers import open_writer

LATER = 4e9
"""A time of day far ahead."""


def test_three_brokers_find_each_other_and_every_table_can_be_read() -> None:
    async def scenario() -> None:
        async with chain("a", "b", "c", routing={"engine": "fast"}) as brokers:
            url = f"tidings://{address_text(brokers['c'].address)}"
            async with (
                connect(url, name="ann") as ann,
                connect(f"tidings://{address_text(brokers['a'].address)}", name="pete") as pete,
            ):
                subscription = await ann.subscribe("n > 1")
                await pete.advertise("n > 0")
                await pete.publish({"n": 5}, receipt=True)
                (event,) = await subscription.take(1)
                assert event.attributes == {"n": 5}
                network = await crawl([address_text(brokers["b"].address)])
                assert list(network.brokers) == ["a", "b", "c"]
                assert network.neighbours == {"a": ("b",), "b": ("a", "c"), "c": ("b",)}
                assert diagnose(network) == []
                assert [row.client for row in network.brokers["c"].subscriptions] == ["ann"]
                (queue,) = network.brokers["c"].queues
                (publisher,) = network.brokers["a"].publishers
                life = publisher.publisher
                assert (name_of(life), publisher.stored) == ("pete", 1)
                assert (queue.client, queue.sent, queue.positions) == ("ann", 1, {life: event.number})
                async with Inspector(address_text(brokers["a"].address)) as inspector:
                    (stored,) = await inspector.table("event", EventRow, f"{life}/{event.number}")
                    assert stored.attributes == {"n": 5}
                    assert await inspector.table("event", EventRow, f"{life}/1") == []
                    settings = await inspector.table("settings", SettingRow)
                    assert {each.name for each in settings} > {"listen", "delivery.subscriptions_max"}

    play(scenario())


def test_ready_only_when_every_configured_link_was_heard_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.net.broker.service.READY_TIMEOUT", WAIT_MAX)

    async def scenario() -> None:
        async with make_service("a", http="127.0.0.1:0") as a:
            b = make_service("b", a, http="127.0.0.1:0")
            assert b.why_not_ready().startswith("waiting for a first answer of 127.0.0.1:")
            async with b:
                assert b.why_not_ready() == ""
                assert b.node.overlay.neighbours == ["a"]
                assert b.health is not None
                assert await exchange(b.health, get("/readyz")) == (200, b"ok\n")
                assert isinstance(b.node.routing, Router)
                b.node.routing.links["a"].is_told = False
                assert await exchange(b.health, get("/readyz")) == (503, b"waiting for the tables of a\n")
                assert await exchange(b.health, get("/healthz")) == (200, b"ok\n")

    play(scenario())


def test_a_broker_whose_link_leads_nowhere_is_ready_all_the_same() -> None:
    async def scenario() -> None:
        nowhere = f"127.0.0.1:{free_port()}"
        async with make_service("b", nowhere) as b:
            assert b.why_not_ready() == ""
            (link,) = b.node.inspection.others.rows()
            assert (link.address, link.is_configured, link.is_up) == (nowhere, True, False)
            assert "Connection refused" in link.problem

    play(scenario())


def test_metrics_show_clients_stores_bounds_and_readiness() -> None:
    async def scenario() -> None:
        async with make_service("a", http="127.0.0.1:0") as a:
            assert a.health is not None
            async with connect(f"tidings://{address_text(a.address)}", name="ann") as ann:
                await ann.subscribe("n > 1")
                await ann.publish({"n": 1})
                await ann.flush()
                _, content = await exchange(a.health, get("/metrics"))
                shown = content.decode().splitlines()
                assert 'tidings_ready{node="a"} 1.0' in shown
                assert 'tidings_clients{node="a"} 1.0' in shown
                assert 'tidings_subscriptions{node="a"} 1.0' in shown
                assert 'tidings_setting{name="delivery.subscriptions_max",node="a"} 1000.0' in shown
                assert 'tidings_setting{name="host.handshake_timeout",node="a"} 5.0' in shown
                assert 'tidings_setting{name="fixed.attributes_max",node="a"} 128.0' in shown
                assert any(line.startswith("tidings_handle_seconds_sum") for line in shown)
                async with Inspector(address_text(a.address)) as inspector:
                    rows = await inspector.table("counters", CounterRow)
                    assert {row.name for row in rows} >= {"tidings_clients", "tidings_stream_messages_sent_total"}

    play(scenario())


def test_where_tokens_are_needed_only_an_admin_may_look(tmp_path: Path) -> None:
    private, public = new_key(tmp_path / "office")

    def token(principal: str, *roles: str) -> bytes:
        claims = Claims(principal, roles, "", "n > 5", LATER, "office")  # type: ignore[arg-type]
        made = make_token(claims, signer(private))
        write_token(tmp_path / f"{principal}.token", made)
        return made

    root, ann = token("root", "client", "admin"), token("ann", "client")

    async def scenario() -> None:
        async with make_service("a", authorities=[public]) as a:
            address = address_text(a.address)
            async with Inspector(address, InspectorAccess(token=root)) as inspector:
                (own,) = await inspector.table("broker", BrokerRow)
                assert (own.broker, own.listen, own.not_ready) == ("a", address, "")
            async with Inspector(address, InspectorAccess(token=ann)) as inspector:
                with pytest.raises(NotInspected, match="role admin") as refused:
                    await inspector.table("broker", BrokerRow)
                assert refused.value.is_refused
            with pytest.raises(NotInspected, match="credentials are needed"):
                async with Inspector(address):
                    pass
            async with connect(f"tidings://{address}", token=tmp_path / "ann.token") as client:
                receipt = (await client.subscribe("n > 1")).receipt
                assert (receipt.filter, receipt.is_narrowed) == ("n > 5", True)
            with pytest.raises(NotPermitted):
                async with connect(f"tidings://{address}"):
                    pass

    play(scenario())
    assert token_of_text((tmp_path / "ann.token").read_text()) == ann


def test_a_broker_that_leaves_says_goodbye_and_is_remembered_with_the_reason() -> None:
    async def scenario() -> None:
        async with make_service("a") as a:
            async with make_service("b", a):
                await until(lambda: a.node.routing.is_synchronised("b"))
            await until(lambda: not a.node.overlay.neighbours)
            (link,) = a.node.inspection.others.rows()
            assert (link.broker, link.is_up, link.problem) == ("b", False, "node b stops")

    play(scenario())


def test_what_was_accepted_is_there_again_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            make_service("a", data=tmp_path / "a") as a,
            connect(f"tidings://{address_text(a.address)}", name="pete") as pete,
        ):
            await pete.publish({"n": 1})
            await pete.flush()
        async with (
            make_service("a", data=tmp_path / "a") as again,
            Inspector(address_text(again.address)) as inspector,
        ):
            (publisher,) = await inspector.table("publishers", PublisherRow)
            assert (name_of(publisher.publisher), publisher.stored, publisher.is_connected) == ("pete", 1, False)

    play(scenario())


def test_two_brokers_that_are_both_told_to_link_have_one_link() -> None:
    async def scenario() -> None:
        async with make_service("a") as a:
            port = a.address[1]
            async with make_service("b", a) as b:
                there = address_text(b.address)
        first = make_service("b", f"127.0.0.1:{port}", listen=there)
        async with first as b, make_service("a", b, listen=f"127.0.0.1:{port}") as a:
            await until(lambda: b.node.routing.is_synchronised("a") and a.node.routing.is_synchronised("b"))
            async with Inspector(address_text(a.address)) as inspector:
                (link,) = await inspector.table("links", LinkRow)
            assert (link.broker, link.is_configured, link.is_neighbour) == ("b", True, True)
            await until(lambda: [list(each.host.links.up) for each in (a, b)] == [["b"], ["a"]])

    play(scenario())


def test_a_ring_of_brokers_routes_over_a_tree_and_the_spare_link_takes_over() -> None:
    async def scenario() -> None:
        async with chain("a", "b") as brokers:
            a, b = brokers["a"], brokers["b"]
            async with make_service("c", a, b) as c:
                await until(lambda: sum(len(each.node.overlay.neighbours) for each in (a, b, c)) == 4)
                network = await crawl([address_text(a.address)])
                assert diagnose(network) == []
                assert all(sum(link.is_up for link in each.links) == 2 for each in network.brokers.values())
                async with connect(f"tidings://{address_text(c.address)}") as client:
                    subscription = await client.subscribe("n > 0")
                    async with connect(f"tidings://{address_text(b.address)}") as publisher:
                        await publisher.publish({"n": 1}, receipt=True)
                        assert [event.attributes["n"] for event in await subscription.take()] == [1]
                        await a.stop()
                        await until(lambda: "c" in b.node.overlay.neighbours and b.node.routing.is_synchronised("c"))
                        await publisher.publish({"n": 2})
                        assert [event.attributes["n"] for event in await subscription.take()] == [2]

    play(scenario())


def test_a_slow_client_is_seen_in_the_queues() -> None:
    async def scenario() -> None:
        async with make_service("a") as a, connect(f"tidings://{address_text(a.address)}", name="slow") as slow:
            subscription = await slow.subscribe("n >= 0", policy="drop oldest", queue_max=5, window=1)
            for n in range(20):
                await slow.publish({"n": n})
            await slow.flush()
            async with Inspector(address_text(a.address)) as inspector:
                (queue,) = await inspector.table("queues", QueueRow)
            assert (queue.waiting, queue.waiting_max, queue.under_way) == (5, 5, 1)
            assert sum(queue.dropped.values()) == 14
            assert (await subscription.take(1))[0].attributes == {"n": 0}

    play(scenario())


def test_an_address_that_cannot_be_called_is_told_of_and_the_crawl_goes_on() -> None:
    async def scenario() -> None:
        async with make_service("a") as a, make_service("b", a, public="192.0.2.1:7"):
            await until(lambda: a.node.inspection.others.links["b"].address)
            network = await crawl([address_text(a.address)])
            assert list(network.brokers) == ["a"]
            (unreached,) = network.unreached
            assert (unreached.broker, unreached.told_by) == ("b", "a")
            assert "without TLS" in unreached.problem

    play(scenario())


def test_a_health_port_that_is_taken_leaves_no_broker_behind() -> None:
    async def scenario() -> None:
        async with make_service("a", http="127.0.0.1:0") as a:
            assert a.http_address is not None
            b = make_service("b", http=address_text(a.http_address))
            with pytest.raises(HostError, match="another program uses that port"):
                await b.start()
            assert not b.host.is_running

    play(scenario())


def test_a_crawl_that_is_cancelled_leaves_nothing_open() -> None:
    async def scenario() -> None:
        async with make_service("a") as a:
            crawling = asyncio.create_task(crawl([address_text(a.address)]))
            # Every turn of the loop is looked at: a crawl that is quick would be over between two looks.
            while not a.host.links.open:
                await asyncio.sleep(0)
            crawling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await crawling
            await until(lambda: not a.host.links.open)

    play(scenario())


def test_a_broker_and_a_client_record_what_happens_to_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with make_service("a", trace=str(tmp_path / "a.jsonl")) as service:
            with open_writer(tmp_path / "client.jsonl") as trace:
                url = f"tidings://{address_text(service.address)}"
                async with connect(url, name="c", trace=trace) as client:
                    subscription = await client.subscribe("x > 1")
                    await client.publish({"id": "one", "x": 5}, b"payload")
                    [event] = await subscription.take()
                    assert event.id == "one"

    play(scenario())
    at_client = [(row.kind, row.key) for row in read_trace(tmp_path / "client.jsonl") if row.message == "Event"]
    assert at_client == [("publish", "one"), ("deliver", "one")]
    at_broker = [row for row in read_trace(tmp_path / "a.jsonl") if row.message == "Delivery"]
    assert [(row.node, row.kind, row.peer) for row in at_broker] == [("a", "send", "c")]
