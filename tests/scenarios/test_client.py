"""The client against real brokers on loopback sockets."""

import asyncio
import gc
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

import tidings
from tests.worlds.loopback import Broker, connect, refusal, url_of
from tests.worlds.sockets import play, until
from tidings import (
    Closed,
    Event,
    FilterSyntaxError,
    NotPermitted,
    NotReachable,
    Refused,
    Subscription,
    TooSlow,
    UsageError,
    attr,
    parse,
)
from tidings.matching.index.index import prepare
from tidings.net.client import connection
from tidings.net.client.outbound import OutgoingBatch
from tidings.protocols.access.judge import Verdict
from tidings.protocols.delivery.session.params import SessionParams


def numbers(events: list[tidings.Delivered]) -> list[Any]:
    return [event.attributes["number"] for event in events]


async def take(subscription: Subscription, count: int) -> list[Any]:
    """So many events, as soon as they are there."""
    taken: list[Any] = []
    while len(taken) < count:
        taken += numbers(await subscription.take(count - len(taken)))
    return taken


# The everyday path.


@pytest.mark.parametrize("engine", ["plain", "fast"])
def test_an_event_reaches_whoever_asked_and_nobody_else(engine: Literal["plain", "fast"]) -> None:
    prepare(engine)

    async def scenario() -> None:
        async with Broker(engine=engine) as broker, connect(broker.url) as client, connect(broker.url) as publisher:
            strong = await client.subscribe("magnitude >= 4.5")
            weak = await client.subscribe(attr.magnitude < 4.5)
            await publisher.publish({"type": "quake", "magnitude": 5.1}, b"near")
            await publisher.publish({"type": "quake", "magnitude": 2.0}, b"far")
            event = await anext(strong)
            assert event.event == Event({"type": "quake", "magnitude": 5.1}, b"near")
            assert (event.publisher, event.payload) == (publisher.name, b"near")
            assert (event.source, event.id) == (publisher.name, str(event.number))
            assert abs(event.accepted_at - time.time()) < 60
            assert (await anext(weak)).payload == b"far"
            assert (strong.counts.delivered, strong.counts.waiting) == (1, 0)

    play(scenario())


def test_an_event_of_its_own_id_and_source_keeps_them() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            subscription = await client.subscribe("TRUE")
            await client.publish(Event({"id": "7", "source": "/seismo", "type": "quake"}))
            event = await anext(subscription)
            assert (event.id, event.source) == ("7", "/seismo")

    play(scenario())


def test_a_receipt_names_the_brokers_and_the_moment() -> None:
    async def scenario() -> None:
        async with Broker("a") as a, Broker("b", [a.address]) as b:
            await until(lambda: a.node.overlay.neighbours and a.node.routing.is_synchronised("b"))
            async with connect(a.url) as client, connect(b.url) as publisher:
                await publisher.advertise("number >= 0")
                subscription = await client.subscribe("number > 5")
                receipt = subscription.receipt
                assert (sorted(receipt.brokers), receipt.brokers_count) == (["a", "b"], 2)
                assert abs(receipt.at - time.time()) < 60
                assert (parse(receipt.filter), receipt.is_narrowed) == (parse("number > 5"), False)

    play(scenario())


def test_iterating_and_taking_see_the_same_stream() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            subscription = await client.subscribe("number >= 0", window=64)
            for number in range(500):
                await client.publish({"number": number})
            received = []
            async for event in subscription:
                received.append(event.attributes["number"])
                assert subscription.positions == {client.name: event.number}
                if len(received) == 70:
                    break
            received += await take(subscription, 429)
            received += numbers(await subscription.take())
            assert received == list(range(500))
            assert subscription.take_now() == []

    play(scenario())


def test_a_receipt_for_which_nobody_waits_any_more_fails_without_a_word() -> None:
    async def scenario() -> None:
        loop, heard = asyncio.get_running_loop(), list[Any]()
        loop.set_exception_handler(lambda loop, context: heard.append(context))
        batch, answer = OutgoingBatch(1), loop.create_future()
        batch.receipt = loop.create_future()
        batch.answer(answer)
        waiting = asyncio.create_task(batch.confirmed(0))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        answer.set_exception(Closed("closed meanwhile"))
        await asyncio.sleep(0)
        assert batch.receipt.done()
        del batch, answer, waiting
        gc.collect()
        assert heard == []

    play(scenario())


def test_many_wait_for_the_same_subscription_and_share_its_events() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            subscription = await client.subscribe("number >= 0")
            takers = [asyncio.create_task(take(subscription, 1)) for _ in range(3)]
            impatient = asyncio.create_task(take(subscription, 1))
            await asyncio.sleep(0)
            impatient.cancel()
            for number in range(3):
                await client.publish({"number": number}, receipt=True)
            assert sorted(taken[0] for taken in await asyncio.gather(*takers)) == [0, 1, 2]

    play(scenario())


# Guarantees.


@pytest.mark.spec("S-99")
def test_an_installed_subscription_gets_nothing_from_before_and_everything_after() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            await client.publish({"number": 0}, receipt=True)
            subscription = await client.subscribe("number >= 0")
            await client.publish({"number": 1})
            assert await take(subscription, 1) == [1]

    play(scenario())


@pytest.mark.parametrize("as_datetime", [False, True])
def test_since_a_time_brings_what_was_published_before(as_datetime: bool) -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            await client.publish({"number": 0}, receipt=True)
            first = await client.subscribe("number >= 0")
            mark = first.receipt.at
            await client.publish({"number": 1}, receipt=True)
            since = datetime.fromtimestamp(mark, UTC) if as_datetime else mark
            later = await client.subscribe("number >= 0", since=since)
            await client.publish({"number": 2})
            assert await take(later, 2) == [1, 2]

    play(scenario())


def test_after_positions_another_client_continues_where_one_stopped() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as publisher:
            async with connect(broker.url) as first:
                subscription = await first.subscribe("number >= 0")
                for number in range(10):
                    await publisher.publish({"number": number})
                assert await take(subscription, 4) == [0, 1, 2, 3]
                positions = subscription.positions
            await publisher.publish({"number": 10}, receipt=True)
            async with connect(broker.url) as second:
                subscription = await second.subscribe("number >= 0", after=positions)
                assert await take(subscription, 7) == [4, 5, 6, 7, 8, 9, 10]

    play(scenario())


def test_without_a_guarantee_events_come_once_the_subscription_is_there() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            subscription = await client.subscribe("number >= 0", guarantee="none")
            await client.publish({"number": 1})
            assert await take(subscription, 1) == [1]
            with pytest.raises(UsageError, match="policy='drop_oldest'; give one of 'wait', 'drop oldest'"):
                await client.subscribe("TRUE", policy="drop_oldest")  # type: ignore[arg-type]
            with pytest.raises(UsageError, match="promises nothing"):
                await client.subscribe("number >= 0", guarantee="none", since=0.0)

    play(scenario())


@pytest.mark.spec("S-107")
def test_members_of_a_group_get_the_same_events() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as one, connect(broker.url) as other:
            await one.publish({"number": 0}, receipt=True)
            first = await one.subscribe("number >= 0", group="twins", since=time.time() - 60)
            await one.publish({"number": 1}, receipt=True)
            second = await other.subscribe("number >= 0", group="twins", since=time.time() + 60)
            await one.publish({"number": 2})
            assert await take(first, 3) == await take(second, 3) == [0, 1, 2]

    play(scenario())


# Slow consumers.

FEW: dict[str, Any] = {"window": 4, "queue_max": 4}


def test_one_who_waits_gets_everything_however_slow() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client, connect(broker.url) as publisher:
            subscription = await client.subscribe("number >= 0", policy="wait", **FEW)
            for number in range(100):
                await publisher.publish({"number": number})
            await publisher.flush()
            assert await take(subscription, 100) == list(range(100))
            assert not subscription.counts.missed

    play(scenario())


@pytest.mark.parametrize(("policy", "kept"), [("drop newest", [4, 5, 6, 7]), ("drop oldest", [36, 37, 38, 39])])
def test_one_who_drops_is_told_what_at_both_ends(policy: Any, kept: list[int]) -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client, connect(broker.url) as publisher:
            subscription = await client.subscribe("number >= 0", policy=policy, **FEW)
            for number in range(40):
                await publisher.publish({"number": number}, receipt=True)
            await until(lambda: subscription.counts.waiting == 4)
            assert await take(subscription, 8) == [0, 1, 2, 3, *kept]
            await client.publish({"number": -1})
            await until(lambda: subscription.counts.missed.total() == 32)
            (there,) = broker.node.edge.subscriptions.all.values()
            assert (sum(there.dropped.values()), there.delivered) == (32, 8)

    play(scenario())


def test_one_who_is_to_be_turned_out_hears_it_and_the_rest_goes_on() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client, connect(broker.url) as publisher:
            slow = await client.subscribe("number >= 0", policy="disconnect", **FEW)
            other = await client.subscribe("number >= 30")
            for number in range(40):
                await publisher.publish({"number": number}, receipt=True)
            received = []
            with pytest.raises(TooSlow, match="queue is full"):
                async for event in slow:
                    received.append(event.attributes["number"])
                    await until(lambda: slow.is_ended)
            assert received == [0, 1, 2, 3]
            assert await take(other, 10) == list(range(30, 40))
            with pytest.raises(Closed):
                await slow.unsubscribe()

    play(scenario())


# Publishing.


def test_trying_says_no_at_once_when_the_window_is_full() -> None:
    async def scenario() -> None:
        few = SessionParams(window_publications=3)
        async with Broker() as broker, connect(broker.url, params=few) as client:
            assert not client.try_publish({"number": 0})
            await client.advertise("number >= 0")
            assert [client.try_publish({"number": number}) for number in range(4)] == [True, True, True, False]
            await client.flush()
            assert client.try_publish({"number": 4})

    play(scenario())


def test_publishing_waits_for_credit_and_loses_nothing() -> None:
    async def scenario() -> None:
        few = SessionParams(window_publications=3)
        async with Broker() as broker, connect(broker.url, params=few) as client:
            subscription = await client.subscribe("number >= 0")
            await asyncio.gather(*(client.publish({"number": number}) for number in range(50)))
            assert await take(subscription, 50) == list(range(50))

    play(scenario())


def test_values_that_compare_equal_keep_their_types() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            subscription = await client.subscribe("TRUE")
            for value in (1, True, 1.0, "1"):
                await client.publish({"value": value})
            received = [(await anext(subscription)).attributes["value"] for _ in range(4)]
            assert [(type(value), value) for value in received] == [(int, 1), (bool, True), (float, 1.0), (str, "1")]

    play(scenario())


def test_what_is_no_event_is_refused_by_name() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            await client.advertise("TRUE")
            for wrong in ({"x": float("nan")}, {"x": 2**63}, {"x": None}, {"x": [1]}, {1: 2}):
                with pytest.raises(UsageError):
                    await client.publish(wrong)  # type: ignore[arg-type]
            with pytest.raises(UsageError, match="in pieces"):
                await client.publish({"x": 1}, bytes(1024 * 1024))
            assert broker.node.edge.publishers.all[client.name].through == 0

    play(scenario())


def test_an_event_outside_the_advertisements_is_refused() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            quakes = await client.advertise("type = 'quake'")
            storms = await client.advertise("type = 'storm'")
            subscription = await client.subscribe("TRUE")
            await client.publish({"type": "storm", "number": 1})
            await client.publish({"type": "quake", "number": 2})
            assert await take(subscription, 2) == [1, 2]
            with pytest.raises(Refused, match="advertise"):
                await client.publish({"type": "flood"})
            await storms.unadvertise()
            with pytest.raises(Refused, match="advertise"):
                await client.publish({"type": "storm"})
            with pytest.raises(Closed):
                await storms.unadvertise()
            assert quakes.receipt.brokers == ("broker",)

    play(scenario())


def test_what_the_broker_declines_is_told_to_whoever_waits() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            advertisement = await client.advertise("number >= 0")
            advertisement.filter = parse("TRUE")
            outcomes = await asyncio.gather(
                client.publish({"number": -1}, receipt=True),
                client.publish({"number": 1}, receipt=True),
                return_exceptions=True,
            )
            assert isinstance(outcomes[0], Refused)
            with pytest.raises(Refused, match="declined 1 event"):
                await client.flush()
            await client.flush()

    play(scenario())


# Permission.


def bounded_judge(peer: str, role: str, credentials: bytes, now: float) -> Verdict | str:
    if peer == "stranger":
        return "nobody knows you"
    return Verdict(peer, parse("type = 'quake'"), parse("magnitude > 3"))


def test_a_subscription_is_narrowed_to_its_bound_and_the_receipt_says_so() -> None:
    async def scenario() -> None:
        async with Broker(judge=bounded_judge) as broker, connect(broker.url) as client:
            subscription = await client.subscribe("magnitude > 1")
            assert subscription.receipt.is_narrowed
            await client.publish({"type": "quake", "magnitude": 2})
            await client.publish({"type": "quake", "magnitude": 4, "number": 4})
            assert await take(subscription, 1) == [4]
            with pytest.raises(NotPermitted, match="magnitude > 3"):
                await client.subscribe("magnitude < 2")
            with pytest.raises(Refused):
                await client.publish({"type": "storm"})

    play(scenario())


def test_whoever_is_turned_away_hears_why() -> None:
    async def scenario() -> None:
        async with Broker(judge=bounded_judge) as broker:
            with pytest.raises(NotPermitted, match="nobody knows you"):
                await connect(broker.url, name="stranger")

    play(scenario())


def test_a_token_lets_in_as_text_as_bytes_and_as_a_file(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="signatures come from cryptography, of the extra 'net'")
    from tidings.net.keys import new_key, read_authorities, read_token_file, signature_check, signer, write_token
    from tidings.protocols.access.tokens import Claims, TokenJudge, make_token

    private, public = new_key(tmp_path / "office")
    claims = Claims("ann", ("client",), "", "magnitude > 3", time.time() + 600, "office")
    path = tmp_path / "ann.token"
    write_token(path, make_token(claims, signer(private)))
    judge = TokenJudge(signature_check, read_authorities([public]))

    async def scenario() -> None:
        async with Broker(judge=judge) as broker:
            for token in (path, str(path), path.read_text(), read_token_file(path)):
                async with connect(broker.url, token=token) as client:
                    assert client.name.startswith("ann+")
                    assert (await client.subscribe("TRUE")).receipt.is_narrowed
            with pytest.raises(NotPermitted):
                await connect(broker.url)

    play(scenario())


def test_over_tls_a_client_is_known_by_its_certificate(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="certificates are made with cryptography, of the extra 'net'")
    from tests.unit.test_net_tls import Authority

    authority = Authority(tmp_path, "authority")

    async def scenario() -> None:
        async with Broker("b", tls=authority.tls("b")) as broker:
            # Its certificate names the broker, and no host.
            url, tls = broker.url.replace("tidings://", "tidingss://b@"), authority.tls("ann")
            for name in ("ann", "ann+laptop"):
                async with connect(url, name=name, tls=tls) as client:
                    subscription = await client.subscribe("number >= 0")
                    await client.publish({"number": 1})
                    assert await take(subscription, 1) == [1]
            await refusal(url, "certificate is for ann", name="bob", tls=tls)
            with pytest.raises(UsageError, match="give name="):
                connect(url, tls=tls)

    play(scenario())


# Finding a broker.


def test_no_broker_is_told_with_the_next_step() -> None:
    async def scenario() -> None:
        async with Broker() as broker:
            pass
        await refusal(broker.url, "is it running")

    play(scenario())


def test_a_broker_that_is_named_must_be_the_one_that_answers() -> None:
    async def scenario() -> None:
        async with Broker("a") as broker:
            host, port = broker.address
            async with connect(f"tidings://a@{host}:{port}") as client:
                assert client.broker == "a"
            await refusal(f"tidings://b@{host}:{port}", "a answered")

    play(scenario())


@pytest.mark.parametrize(
    "url", ["http://localhost", "tidings://localhost:port", "tidings://a b@localhost", "tidingss://localhost:port"]
)
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        connect(url)


def test_plain_text_beyond_this_machine_must_be_asked_for() -> None:
    async def scenario() -> None:
        with pytest.raises(UsageError, match="insecure"):
            await connect("tidings://192.0.2.1:7411")

    play(scenario())


# The end.


def test_a_closed_client_says_so_and_its_iterations_end() -> None:
    async def scenario() -> None:
        async with Broker() as broker:
            async with connect(broker.url) as client:
                subscription = await client.subscribe("number >= 0")
                await client.publish({"number": 1}, receipt=True)
                waiting = asyncio.create_task(take(await client.subscribe("number > 1"), 1))
            assert [event.attributes["number"] async for event in subscription] == [1]
            assert await subscription.take() == []
            waiting.cancel()
            with pytest.raises(Closed, match="connect"):
                await client.subscribe("TRUE")
            with pytest.raises(Closed, match="connect"):
                await client.publish({"number": 1})
            with pytest.raises(Closed, match="connect"):
                await client.flush()
            await client.close()
            await until(lambda: not broker.node.edge.clients)

    play(scenario())


def test_giving_up_a_subscription_that_is_being_made_leaves_nothing() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            making = asyncio.create_task(client.subscribe("number >= 0"))
            await asyncio.sleep(0)
            making.cancel()
            with pytest.raises(asyncio.CancelledError):
                await making
            await (await client.subscribe("number < 0")).unsubscribe()
            assert not broker.node.edge.subscriptions.all
            assert not client.subscriptions

    play(scenario())


def test_a_filter_that_is_wrong_is_refused_before_anybody_is_asked() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            with pytest.raises(FilterSyntaxError):
                await client.subscribe("number >")

    play(scenario())


def test_a_client_of_the_same_name_is_another_life_of_it() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as reader:
            subscription = await reader.subscribe("number >= 0")
            for number in range(3):
                async with connect(broker.url, name="sensor") as client:
                    await client.publish({"number": number}, receipt=True)
            events = [await anext(subscription) for _ in range(3)]
            assert numbers(events) == [0, 1, 2]
            assert [event.publisher for event in events] == ["sensor"] * 3
            assert list(subscription.positions) == [event.life for event in events]
            again = await reader.subscribe("number >= 0", after={"sensor": events[0].number})
            assert await take(again, 2) == [1, 2], "a name without a life means all lives of it"

    play(scenario())


@pytest.mark.parametrize("elsewhere", [False, True], ids=["at the same broker", "at another broker"])
def test_a_client_whose_clock_went_back_is_heard_and_does_not_hang(
    elsewhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = 1_800_000_000_000_000_000
    clock = iter([day, day - 60_000_000_000])
    monkeypatch.setattr(connection, "time", SimpleNamespace(time_ns=lambda: next(clock)))

    async def scenario() -> None:
        async with Broker("a") as a, Broker("b", [a.address]) as b, connect(a.url) as reader:
            subscription = await reader.subscribe("number >= 0")
            async with connect(a.url, name="sensor") as client:
                await client.publish({"number": 1}, receipt=True)
            async with connect((b if elsewhere else a).url, name="sensor") as client:
                await client.publish({"number": 2}, receipt=True)
                await client.flush()
            first, second = [await anext(subscription) for _ in range(2)]
            assert numbers([first, second]) == [1, 2] and second.number < first.number
            assert first.publisher == second.publisher == "sensor"

    play(scenario())


@pytest.mark.filterwarnings("ignore::tidings.NamesakeWarning")
def test_two_processes_of_one_name_at_two_brokers_are_both_heard_and_both_told() -> None:
    async def scenario() -> None:
        async with Broker("a") as a, Broker("b", [a.address]) as b, connect(a.url) as reader:
            subscription = await reader.subscribe("number >= 0")
            async with connect(a.url, name="sensor") as one, connect(b.url, name="sensor") as two:
                for number in range(50):
                    await one.publish({"number": number}, receipt=True)
                    await two.publish({"number": 100 + number}, receipt=True)
                await until(lambda: one.namesakes and two.namesakes)
                assert list(one.namesakes.values()) == ["b"] and list(two.namesakes.values()) == ["a"]
            got = await take(subscription, 100)
            assert sorted(got) == [*range(50), *range(100, 150)]

    play(scenario())


def test_two_processes_of_one_name_at_one_broker_are_both_heard_and_both_told() -> None:
    async def scenario() -> None:
        async with Broker("a") as a, connect(a.url) as reader:
            subscription = await reader.subscribe("number >= 0")
            with pytest.warns(tidings.NamesakeWarning, match="another process publishes as sensor"):
                one = await connect(a.url, name="sensor")
                await one.publish({"number": 1})
                # It takes the place of the first, which comes back and takes that of the second.
                two = await connect(a.url, name="sensor")
                await two.publish({"number": 2})
                await until(lambda: one.namesakes and two.namesakes)
                await asyncio.sleep(0)
            assert sorted(await take(subscription, 2)) == [1, 2]
            assert set(one.namesakes.values()) == set(two.namesakes.values()) == {"a"}
            await two.leave()
            await one.leave()

    play(scenario())


def test_a_name_with_the_mark_of_a_life_is_refused() -> None:
    with pytest.raises(UsageError, match="life"):
        connect("tidings://localhost", name="sensor~1")


# Inside the process.


def test_memory_is_a_broker_of_its_own() -> None:
    async def scenario() -> None:
        async with connect("memory:") as one, connect("memory:") as other:
            subscription = await one.subscribe("number >= 0")
            await other.publish({"number": 1}, receipt=True)
            await one.publish({"number": 2}, receipt=True)
            assert await take(subscription, 1) == [2]

    play(scenario())


def test_memory_with_a_name_is_shared_also_with_blocking_clients() -> None:
    async def scenario() -> None:
        async with connect("memory:office") as client:
            subscription = await client.subscribe("number >= 0")

            def work() -> None:
                with tidings.blocking.connect("memory:office") as blocking:
                    blocking.publish({"number": 1}, receipt=True)

            await asyncio.to_thread(work)
            assert await take(subscription, 1) == [1]

    play(scenario())


def test_the_blocking_twin_does_the_same_without_a_loop() -> None:
    with tidings.blocking.connect("memory:") as client:
        subscription = client.subscribe("number >= 0")
        assert subscription.receipt.brokers_count == 1
        advertisement = client.advertise("number >= 0")
        assert client.try_publish({"number": 0})
        for number in range(1, 300):
            client.publish({"number": number})
        client.flush()
        received = []
        for event in subscription:
            received.append(event.attributes["number"])
            if len(received) == 200:
                break
        while len(received) < 300:
            received += numbers(subscription.take(50))
        assert received == list(range(300))
        assert (subscription.counts.delivered, subscription.positions) == (300, {client.name: 300})
        with pytest.raises(TimeoutError):
            subscription.take(timeout=0.01)
        advertisement.unadvertise()
        subscription.unsubscribe()
        assert list(subscription) == []
    with pytest.raises(Closed):
        client.publish({"number": 1})
    client.close()


def test_a_blocking_client_without_a_broker_ends_its_thread() -> None:
    with pytest.raises(NotReachable):
        tidings.blocking.connect(url_of(("127.0.0.1", 1)), timeout=0.2)
