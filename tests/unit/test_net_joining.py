"""Publications that a client sent one after the other, and that have arrived together, are handed over as one batch."""

import asyncio
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.sockets import play
from tidings.net.connection import Connection, ConnectionStage, Owner
from tidings.net.params import HostParams
from tidings.protocols.delivery.messages import PublishMessage, Taken, joined
from tidings.wire.registry import encode


def publish(first: int, count: int = 1, advertisement: int = 1, receipt: bool = False) -> PublishMessage:
    payloads = tuple(b"%d" % number for number in range(first, first + count))
    return PublishMessage(advertisement, first, receipt, (b"\x80",) * count, payloads)


class Taker:
    """Takes messages, and pauses the connection after the one whose place is given."""

    def __init__(self, joins: bool, pause_after: int | None) -> None:
        self.joins, self.pause_after = joins, pause_after
        self.messages: list[Any] = []
        self.sizes: list[int] = []
        self.connection: Connection

    def received(self, sender: str, message: Any, size_bytes: int) -> None:
        self.messages.append(message)
        self.sizes.append(size_bytes)
        if len(self.messages) == self.pause_after:
            self.connection.is_reading_paused = True


def taken(messages: list[Any], joins: bool = True, pause_after: int | None = None) -> Taker:
    """What the owner of a stream gets of these when they arrive together, and read on if it paused."""

    async def scenario() -> Taker:
        taker = Taker(joins, pause_after)
        loop = asyncio.get_running_loop()
        connection = Connection(loop, loop.time, HostParams(), cast(Owner, taker), None, memoryview(bytearray(1)))
        taker.connection, connection.stage, connection.peer = connection, ConnectionStage.UP, "client"
        connection.take([encode(message) for message in messages])
        if connection.is_reading_paused:
            connection.is_reading_paused = False
            unread, connection.unread = connection.unread, []
            connection.take(unread)
        return taker

    return play(scenario())


def test_a_run_of_publications_is_one_message() -> None:
    taker = taken([publish(1, 2), publish(3), publish(4, 3)])
    assert taker.messages == [publish(1, 6)]
    bodies = [encode(publish(1, 2)), encode(publish(3)), encode(publish(4, 3))]
    assert taker.sizes == [sum(map(len, bodies)) + 2 * 4], "heads of frames are counted but for the first"


def test_a_run_ends_where_the_next_does_not_continue_it() -> None:
    other = [publish(1), publish(3), publish(4, advertisement=2), publish(5, receipt=True), publish(6), Taken(1, 5)]
    assert taken([*other, publish(7)]).messages == [*other, publish(7)]


def test_nothing_is_joined_where_each_message_has_to_be_seen() -> None:
    messages = [publish(1), publish(2), publish(3)]
    assert taken(messages, joins=False).messages == messages


@given(
    counts=st.lists(st.integers(1, 3), min_size=1, max_size=12),
    taken_at=st.sets(st.integers(0, 11)),
    receipts=st.sets(st.integers(0, 11), max_size=2),
    pause_after=st.one_of(st.none(), st.integers(1, 4)),
)
def test_whatever_is_joined_the_publications_and_their_order_stay(
    counts: list[int], taken_at: set[int], receipts: set[int], pause_after: int | None
) -> None:
    messages: list[Any] = []
    number = 1
    for place, count in enumerate(counts):
        messages.append(publish(number, count, receipt=place in receipts))
        number += count
        if place in taken_at:
            messages.append(Taken(1, place))
    got = taken(messages, pause_after=pause_after).messages
    assert flat(got) == flat(messages)
    assert len(got) <= len(messages)


def flat(messages: list[Any]) -> list[Any]:
    """Every publication with its number; a receipt stands behind the last one of its message."""
    events: list[Any] = []
    for message in messages:
        if type(message) is PublishMessage:
            events += zip(range(message.first, message.first + len(message.payloads)), message.payloads, strict=True)
            events += ["receipt"] if message.receipt else []
        else:
            events.append(message)
    return events


def test_joined_is_the_message_that_the_client_could_have_sent() -> None:
    run = [publish(5, 2), publish(7), publish(8, 4)]
    assert run[1].continues(run[0]) and run[2].continues(run[1])
    assert joined(run) == publish(5, 7)
