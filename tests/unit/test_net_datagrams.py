"""One message, one datagram: bounded, and only from peers that are known."""

import socket

import pytest

from tests.worlds.sockets import acquaint, heard, order, play, puppet_host, until
from tidings.machine.effects import BROADCAST, Send, Transport
from tidings.machine.inputs import Received
from tidings.protocols.teaching.gossip import GossipRequest
from tidings.protocols.teaching.ping import Probe
from tidings.wire import encode
from tidings.wire.handshake import Goodbye

DATAGRAM = Transport.DATAGRAM


def test_a_datagram_arrives_as_a_message_of_the_peer_with_its_size() -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a, puppet_host("b") as b:
            await acquaint(a, b)
            order(a, Send("b", Probe(7), DATAGRAM))
            assert await heard(b, Received) == Received("a", Probe(7), len(encode(Probe(7))))
            assert (a.counts.datagrams_sent, b.counts.datagrams_received) == (1, 1)
            assert not a.links.open

    play(scenario())


def test_a_message_that_is_too_large_is_dropped_with_the_reason() -> None:
    large = GossipRequest(tuple((f"{number:0250d}", "x") for number in range(20)))

    async def scenario() -> None:
        async with puppet_host("a") as a, puppet_host("b") as b:
            await acquaint(a, b)
            order(a, Send("b", large, DATAGRAM), Send("b", Probe(1), DATAGRAM), Send("c", Probe(1), DATAGRAM))
            assert (await heard(b, Received)).message == Probe(1)
            assert a.counts.drops == {"too large for a datagram": 1, "no address is known": 1}

    play(scenario())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "datagram that is no message"),
        (b"nonsense", "datagram that is no message"),
        (encode(Goodbye("go away")), "datagram that is no message"),
        (encode(Probe(1)) + bytes(2000), "too large for a datagram"),
    ],
)
def test_what_is_no_message_is_dropped_and_counted(data: bytes, reason: str) -> None:
    async def scenario() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as known:
            known.bind(("127.0.0.1", 0))
            async with puppet_host("a", peers={"b": known.getsockname()}) as a:
                known.sendto(data, a.address)
                await until(lambda: a.counts.drops)
                assert a.counts.drops == {reason: 1}
                known.sendto(encode(Probe(1)), a.address)
                await heard(a, Received)

    play(scenario())


def test_a_datagram_of_an_unknown_sender_is_dropped_and_counted() -> None:
    async def scenario() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            async with puppet_host("a") as a:
                stranger.sendto(encode(Probe(1)), a.address)
                await until(lambda: a.counts.drops)
                assert a.counts.drops == {"datagram of an unknown sender": 1}
                assert a.machine.heard == []

    play(scenario())


def test_a_peer_that_moved_is_known_at_its_new_address_only() -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a, puppet_host("b") as old, puppet_host("b") as new:
            for host in (old, new):
                await host.learn("a", a.address)
            await a.learn("b", old.address)
            order(old, Send("a", Probe(1), DATAGRAM))
            await heard(a, Received)
            await a.learn("b", new.address)
            order(old, Send("a", Probe(2), DATAGRAM))
            await until(lambda: a.counts.drops)
            order(new, Send("a", Probe(3), DATAGRAM))
            assert (await heard(a, Received)).message == Probe(3)

    play(scenario())


def test_a_datagram_to_nobody_does_not_disturb_the_next() -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a, puppet_host("b") as b:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
                gone.bind(("127.0.0.1", 0))
                nowhere = gone.getsockname()
            await acquaint(a, b)
            await a.learn("c", nowhere)
            for round in range(10):
                order(a, Send("c", Probe(round), DATAGRAM))
            order(b, Send("a", Probe(99), DATAGRAM))
            assert (await heard(a, Received)).message == Probe(99)

    play(scenario())


def test_a_broadcast_goes_once_to_every_peer_whose_address_is_known() -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a, puppet_host("b") as b, puppet_host("c") as c:
            order(a, Send(BROADCAST, Probe(1), DATAGRAM))
            assert a.counts.drops == {"nobody hears it": 1}
            await acquaint(a, b, c)
            order(a, Send(BROADCAST, Probe(2), DATAGRAM))
            for host in (b, c):
                assert await heard(host, Received) == Received("a", Probe(2), len(encode(Probe(2))))
            assert a.counts.datagrams_sent == 2
            order(a, Send(BROADCAST, Probe(3)))
            assert a.counts.drops["a stream has one receiver"] == 1
            assert a.machine.heard == []
            assert not a.links.open

    play(scenario())


def test_a_peer_that_moves_away_from_a_shared_address_leaves_it_to_the_other() -> None:
    async def scenario() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as shared:
            shared.bind(("127.0.0.1", 0))
            async with puppet_host("a", peers={"b": shared.getsockname()}) as a:
                await a.learn("c", shared.getsockname())
                await a.learn("b", ("127.0.0.1", 1))
                shared.sendto(encode(Probe(1)), a.address)
                assert (await heard(a, Received)).sender == "c"

    play(scenario())
