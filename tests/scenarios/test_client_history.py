"""Reading a network's history by marks, and publishing under numbers of one's own, against brokers on loopback."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tidings
from tests.worlds.loopback import Broker, Cut, Relay, connect, url_of
from tests.worlds.sockets import play, until
from tidings import Client, Mark, NotPermitted, NotReachable, Refused, Stored, UsageError, blocking, parse
from tidings.machine.message import Contact
from tidings.model.identity import NodeId, name_of
from tidings.net.addresses import address_text
from tidings.protocols.access.judge import Verdict
from tidings.protocols.access.wanted import CONFIGURATION
from tidings.protocols.delivery.edge.questions import AT_MOST, FORGOTTEN
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.transport.headers import Data, encode_data
from tidings.protocols.transport.marks import Kind, mark
from tidings.pubsub.client import Fetched, MarksReply
from tidings.pubsub.publications import encode_head
from tidings.pubsub.signals import LinkWanted

LONG = 3600.0


def heads(*values: int) -> list[bytes]:
    return [encode_head({"x": value}) for value in values]


async def publish(client: Client, *values: int) -> None:
    for value in values:
        await client.publish({"x": value}, b"%d" % value)
    await client.flush()


async def read(client: Client, filter: str, publisher: str, **options: Any) -> list[Stored]:
    return [stored async for stored in client.history(filter, publisher, **options)]


def payloads(pages: list[Stored]) -> list[int]:
    return [int(payload) for stored in pages for payload in stored.payloads]


def in_line(a: Broker, b: Broker) -> Coroutine[Any, Any, None]:
    return until(
        lambda: (
            a.node.overlay.neighbours and a.node.routing.is_synchronised("b") and b.node.routing.is_synchronised("a")
        )
    )


def known(broker: Broker, publisher: str) -> Coroutine[Any, Any, None]:
    return until(lambda: publisher in broker.node.edge.fetching.of_publisher)


async def answered(ask: Callable[[], Coroutine[Any, Any, list[Stored]]]) -> list[Stored]:
    """A broker that waits for others only for a moment says that they do not answer; then it is asked again."""
    while True:
        with suppress(NotReachable):
            return await ask()


async def marks_of_all(client: Client) -> tuple[Mark, ...]:
    """Those of at least one publisher, and of all brokers."""
    while not (found := await client.marks("TRUE")).marks or found.unreachable:
        pass
    return found.marks


# Marks and pages.


def test_what_is_stored_is_read_between_two_marks() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client, connect(broker.url) as reader:
            await client.advertise("x >= 0")
            await publish(client, *range(1, 6))
            first = await reader.marks("x >= 2")
            assert (first.marks, first.offers) == ((Mark(client.name, 0, 5),), ("x >= 0",))
            assert (first.unreachable, first.brokers, first.absent) == ((), ("broker",), ())
            await publish(client, *range(6, 9))
            (mark,) = (await reader.marks("x >= 2")).marks
            assert mark == Mark(client.name, 0, 8)

            stored = await reader.fetch("x >= 2", client.name, through=5)
            assert stored.numbers == (2, 3, 4, 5) and stored.payloads == (b"2", b"3", b"4", b"5")
            assert (stored.publisher, stored.through, stored.has_more, stored.is_truncated) == (
                client.name,
                5,
                False,
                False,
            )
            assert [event.attributes["x"] for event in stored.events()] == [2, 3, 4, 5]
            later = await reader.fetch("x >= 2", client.name, after=5, through=mark.through, limit=2)
            assert (later.numbers, later.has_more, later.through) == ((6, 7), True, 7)
            since = await reader.fetch("TRUE", client.name, since=later.accepted_at[0], through=8)
            assert since.numbers == (6, 7, 8)
            assert broker.node.edge.subscriptions.all == {}

    play(scenario())


def test_pages_follow_each_other_until_everything_is_read() -> None:
    async def scenario() -> None:
        async with Broker(scanned_max=700) as broker, connect(broker.url) as client:
            await client.publish_encoded(heads(*range(5000)), [b"%d" % value for value in range(5000)])
            await client.flush()
            (mark,) = (await client.marks("TRUE")).marks
            pages = await read(client, "x != 17", client.name, after=0, through=mark.through)
            assert len(pages) > 5 and [page.has_more for page in pages] == [True] * (len(pages) - 1) + [False]
            assert payloads(pages) == [value for value in range(5000) if value != 17]
            again = await read(client, "x != 17", client.name, through=mark.through)
            assert [page.numbers for page in again] == [page.numbers for page in pages]
            assert await read(client, "x < 0", client.name, after=mark.through, through=mark.through)

    play(scenario())


def test_a_reading_that_nobody_waits_for_any_more_frees_its_place() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url, params=SessionParams(readings_max=1)) as reader:
            waiting = asyncio.ensure_future(reader.fetch("TRUE", "nobody", through=1))
            await until(lambda: reader.machine.session.readings.open)
            with pytest.raises(Refused, match="as many as are allowed"):
                await reader.marks("TRUE")
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert (await reader.marks("TRUE")).marks == ()

    play(scenario())


def test_history_that_is_left_early_asks_for_nothing_more() -> None:
    async def scenario() -> None:
        async with Broker(scanned_max=2) as broker, connect(broker.url) as client:
            await publish(client, *range(10))
            async for stored in (pages := client.history("TRUE", client.name, through=10)):
                assert stored.has_more
                break
            await pages.aclose()
            await until(lambda: not client.machine.session.readings.open)

    play(scenario())


def test_mistakes_are_named_at_once() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            with pytest.raises(UsageError, match="two beginnings"):
                await client.fetch("TRUE", "p", after=1, since=1.0, through=2)
            with pytest.raises(UsageError, match="limit=0"):
                await client.fetch("TRUE", "p", through=2, limit=0)
            with pytest.raises(tidings.FilterSyntaxError):
                await client.marks("x >")
            with pytest.raises(UsageError, match="as many of both"):
                await client.publish_encoded(heads(1), [])
        with pytest.raises(tidings.Closed):
            await client.marks("TRUE")

    play(scenario())


def test_the_blocking_client_reads_too() -> None:
    with blocking.connect("memory:") as client:
        client.publish_encoded(heads(1, 2, 3), [b"1", b"2", b"3"])
        client.flush()
        (mark,) = client.marks("x > 1").marks
        assert client.fetch("x > 1", mark.publisher, through=mark.through).numbers == (2, 3)
        pages = list(client.history("x > 1", mark.publisher, after=2, through=mark.through))
        assert payloads(pages) == [3]
        (bare,) = client.history("x > 1", mark.publisher, through=mark.through, payloads=False)
        assert (bare.numbers, bare.heads, bare.payloads) == ((2, 3), tuple(heads(2, 3)), (b"", b""))


def test_what_a_transport_wrote_is_taken_off_also_where_payloads_are_not_wanted() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            marked = mark(heads(1)[0], Kind.DATA)
            header = encode_data(Data(1, 1, 0.0))
            await client.publish_encoded([*heads(1), marked, marked], [b"1", header + b"2", b"no header"])
            await client.flush()
            (known,) = (await client.marks("TRUE")).marks
            for wanted in (True, False):
                (stored,) = await read(client, "TRUE", known.publisher, through=3, payloads=wanted)
                assert (stored.numbers, stored.heads) == ((1, 2), tuple(heads(1, 1)))

    play(scenario())


# What may be read.


def guarded(peer: NodeId, role: str, credentials: bytes, now: float) -> Verdict:
    return Verdict(peer, None, parse("x > 3") if peer.startswith("guest") else None)


def test_a_client_reads_only_what_it_may_subscribe_to() -> None:
    async def scenario() -> None:
        async with (
            Broker(judge=guarded) as broker,
            connect(broker.url, name="owner") as owner,
            connect(broker.url, name="guest") as guest,
        ):
            await owner.advertise("x >= 0")
            await publish(owner, *range(1, 8))
            (mark,) = (await guest.marks("x >= 0")).marks
            assert payloads(await read(guest, "TRUE", "owner", through=mark.through)) == [4, 5, 6, 7]
            with pytest.raises(NotPermitted):
                await guest.fetch("x < 2", "owner", through=mark.through)
            with pytest.raises(NotPermitted):
                await guest.marks("x < 2")

    play(scenario())


def test_who_asks_for_more_than_is_stored_hears_how_much_is_forgotten_also_of_one_who_left() -> None:
    async def scenario() -> None:
        options: dict[str, Any] = {"history_count_max": 5, "history_age": 0.2, "sweep_period": 0.05}
        async with Broker("a", **options) as a, Broker("b", [a.address]) as b, connect(b.url) as reader:
            await in_line(a, b)
            began = time.time()
            async with connect(a.url, name="p") as client:
                for number in range(25):
                    await client.publish({"x": number}, receipt=True)
            await until(lambda: a.node.edge.publishers.remembered)
            subscription = await reader.subscribe("TRUE", since=began - 60.0)
            await until(lambda: subscription.counts.missed.total())
            assert subscription.counts.missed == {FORGOTTEN: 25}
            narrow = await reader.subscribe("x = 3", since=began - 60.0)
            await until(lambda: narrow.counts.missed.total())
            assert narrow.counts.missed == {FORGOTTEN + AT_MOST: 25}

    play(scenario())


# Several brokers.


def test_publishers_elsewhere_are_read_through_our_own_broker() -> None:
    async def scenario() -> None:
        async with Broker("a") as a, Broker("b", [a.address]) as b:
            await in_line(a, b)
            async with connect(a.url, name="near") as near, connect(b.url, name="far") as far:
                for client in (near, far):
                    await client.advertise("x >= 0")
                    await publish(client, 1, 2, 3)
                found = await near.marks("x >= 0")
                assert [name_of(mark.publisher) for mark in found.marks] == ["far", "near"]
                assert found.unreachable == ()
                for mark in found.marks:
                    assert payloads(await read(near, "x >= 2", mark.publisher, through=mark.through)) == [2, 3]

    play(scenario())


def test_a_broker_that_is_gone_is_named_with_what_it_stored_also_by_one_further_away() -> None:
    async def scenario() -> None:
        async with Broker("a") as a, Broker("b", [a.address]) as b:
            await in_line(a, b)
            async with connect(a.url) as reader:
                async with Broker("c", [b.address]) as c, connect(c.url, name="far") as far:
                    await far.advertise("x >= 0")
                    await publish(far, 1, 2, 3)
                    await until(lambda: a.node.edge.fetching.known)
                    found = await reader.marks("x >= 0")
                    assert [name_of(mark.publisher) for mark in found.marks] == ["far"]
                    assert (found.brokers, found.absent) == (("a", "c"), ())
                await until(lambda: not a.node.edge.fetching.known)
                found = await reader.marks("x >= 0")
                assert (found.marks, found.absent) == ((), ("c",))
                assert [name_of(publisher) for publisher in found.unreachable] == ["far"]
                assert (await reader.marks("x < 0")).absent == ()

    play(scenario())


def test_a_publisher_that_moved_is_read_at_both_brokers() -> None:
    async def scenario() -> None:
        async with Broker("a", history_age=LONG) as a, Broker("b", [a.address], history_age=LONG) as b:
            await in_line(a, b)
            async with connect(a.url) as reader:
                async with connect(a.url, name="p", numbers_from=1) as client:
                    await client.advertise("x >= 0")
                    await publish(client, 1, 2, 3)
                async with connect(b.url, name="p", numbers_from=4) as client:
                    await client.advertise("x >= 0")
                    await publish(client, 4, 5)
                    (mark,) = (await reader.marks("TRUE")).marks
                    assert mark == Mark("p", 0, 5)
                    pages = await read(reader, "TRUE", "p", after=1, through=5)
                    assert payloads(pages) == [2, 3, 4, 5] and not any(page.is_truncated for page in pages)

    play(scenario())


def test_a_broker_that_is_gone_makes_a_fetch_fail_and_its_return_lets_it_go_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        options: dict[str, Any] = {"storage": tmp_path / "b.db", "history_age": LONG}
        async with Broker("a", reading_timeout=0.1) as a, connect(a.url) as reader:
            b = Broker("b", [a.address], **options)
            await b.start()
            await in_line(a, b)
            async with connect(b.url, name="p", numbers_from=1) as client:
                await client.advertise("x >= 0")
                await publish(client, *range(1, 101))
            await known(a, "p")
            (mark,) = await marks_of_all(reader)
            before = await answered(lambda: read(reader, "x > 50", "p", through=mark.through))
            await b.crash()
            await until(lambda: "p" not in a.node.edge.fetching.of_publisher)
            with pytest.raises(NotReachable, match="no publisher p is known"):
                await reader.fetch("x > 50", "p", through=mark.through)
            assert (await reader.marks("TRUE")).marks == ()
            async with Broker("b", [a.address], **options) as b:
                await known(a, "p")
                assert await marks_of_all(reader) == (Mark("p", 0, 100),)
                assert await answered(lambda: read(reader, "x > 50", "p", through=mark.through)) == before

    play(scenario())


def test_a_fetch_waits_for_a_publisher_that_is_about_to_be_known() -> None:
    async def scenario() -> None:
        async with Broker("a") as a, connect(a.url) as reader:
            waiting = asyncio.ensure_future(reader.fetch("TRUE", "p", through=2))
            await until(lambda: a.node.edge.readings.open)
            async with Broker("b") as b, connect(b.url, name="p", numbers_from=1) as client:
                await client.publish_encoded(heads(1, 2), [b"1", b"2"])
                await client.flush()
                # Only now: who is asked too early says how far it has come, and the reader would ask again.
                b.inject(LinkWanted(Contact("a", address_text(a.address)), CONFIGURATION))
                await in_line(a, b)
                assert (await waiting).numbers == (1, 2)

    play(scenario())


@pytest.mark.parametrize("message", [MarksReply, Fetched])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_reading_whose_answer_is_lost_with_the_link_is_asked_for_again(message: type, when: Any) -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            await publish(client, 1, 2, 3)
            async with (
                Relay(lambda: broker.address, Cut("to client", message, when)) as relay,
                connect(url_of(relay.address)) as reader,
            ):
                (mark,) = (await reader.marks("TRUE")).marks
                assert payloads(await read(reader, "TRUE", client.name, through=mark.through)) == [1, 2, 3]
                assert relay.has_cut.is_set()

    play(scenario())


def test_a_reading_goes_on_with_the_next_broker_when_ours_crashes() -> None:
    async def scenario() -> None:
        a = Broker("a")
        await a.start()
        async with Broker("b", [a.address]) as b:
            await in_line(a, b)
            async with connect(b.url, name="p") as client, connect(url_of(a.address, b.address)) as reader:
                assert reader.broker == "a"
                waiting = asyncio.ensure_future(reader.fetch("TRUE", "p", after=0, through=2**62))
                await until(lambda: a.node.edge.readings.open)
                await a.crash()
                await until(lambda: reader.broker == "b" and b.node.edge.readings.open)
                waiting.cancel()
                await publish(client, 1)
                (mark,) = (await reader.marks("TRUE")).marks
                assert payloads(await read(reader, "TRUE", "p", through=mark.through)) == [1]

    play(scenario())


# Numbers of the application.


def test_what_an_earlier_process_published_under_the_same_numbers_counts_as_accepted() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as reader:
            async with connect(broker.url, name="sink", numbers_from=1) as client:
                await client.publish_encoded(heads(*range(100)), [b"%d" % value for value in range(100)])
            async with connect(broker.url, name="sink", numbers_from=51) as client:
                await publish(client, *range(50, 60))
                await client.publish_encoded(heads(*range(60, 120)), [b"%d" % value for value in range(60, 120)])
                await client.flush()
            (mark,) = (await reader.marks("TRUE")).marks
            assert mark == Mark("sink", 0, 120)
            assert payloads(await read(reader, "TRUE", "sink", through=120)) == list(range(120))

    play(scenario())


def test_repeated_numbers_are_recognised_after_the_history_is_gone_and_the_broker_was_restarted(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        options: dict[str, Any] = {
            "storage": tmp_path / "a.db",
            "history_age": 0.05,
            "marks_age": 0.0,
            "sweep_period": 0.02,
        }
        async with Broker("a", **options) as a:
            async with connect(a.url, name="sink", numbers_from=1) as client:
                await publish(client, 1, 2, 3)
            await until(lambda: not a.node.edge.publishers.all)
        async with Broker("a", **options) as a, connect(a.url, name="sink", numbers_from=2) as client:
            await publish(client, 2, 3, 4)
            publisher = a.node.edge.publishers.all["sink"]
            assert publisher.through == 4
            assert sum(len(batch.numbers) for batch in publisher.history.batches) <= 1

    play(scenario())


def test_a_durable_broker_that_is_restarted_gives_the_same_pages(tmp_path: Path) -> None:
    async def scenario() -> None:
        options: dict[str, Any] = {"storage": tmp_path / "a.db", "history_age": LONG}
        a = Broker("a", **options)
        await a.start()
        async with connect(a.url, name="sink", numbers_from=1) as client:
            await client.publish_encoded(heads(*range(1000)), [b"%d" % value for value in range(1000)])
            await client.flush()
            found = await client.marks("TRUE")
            before = await read(client, "x >= 500", "sink", through=found.marks[0].through)
            await a.crash()
        async with Broker("a", **options) as a, connect(a.url) as reader:
            assert await reader.marks("TRUE") == found
            assert await read(reader, "x >= 500", "sink", through=found.marks[0].through) == before

    play(scenario())


def test_numbers_of_the_application_need_a_name() -> None:
    with pytest.raises(UsageError, match="give name="):
        connect("memory:", numbers_from=1)
    with pytest.raises(UsageError, match="numbers_from=0"):
        connect("memory:", name="sink", numbers_from=0)


def test_encoded_events_outside_the_advertisement_are_declined() -> None:
    async def scenario() -> None:
        async with Broker() as broker, connect(broker.url) as client:
            quakes = await client.advertise("x >= 10")
            everything = await client.advertise("TRUE")
            await client.publish_encoded(heads(5, 15, 25), [b""] * 3, quakes)
            with pytest.raises(Refused, match="declined 1"):
                await client.flush()
            await client.publish_encoded(heads(5, 15), [b""] * 2, everything)
            await client.flush()
            assert (await client.fetch("TRUE", client.name, through=5)).numbers == (2, 3, 4, 5)

    play(scenario())


def test_encoded_events_wait_for_room_in_the_window_and_keep_their_order() -> None:
    async def scenario() -> None:
        params = SessionParams(window_publications=10, window_bytes=200)
        async with Broker() as broker, connect(broker.url, params=params) as client:
            await client.publish({"x": 0}, b"0")
            await client.publish_encoded(heads(*range(1, 300)), [b"%d" % value for value in range(1, 300)])
            await client.publish({"x": 300}, b"300")
            await client.flush()
            assert payloads(await read(client, "TRUE", client.name, through=301)) == list(range(301))

    play(scenario())
