"""Links with nodes of which only the address is known, on real sockets."""

import pytest

from tests.worlds.sockets import PATIENT, BarePeer, heard, order, play, puppet_host, until
from tidings.machine.effects import Connect, Disconnect, Send
from tidings.machine.inputs import LinkDown, LinkUp, Received
from tidings.model.errors import UsageError
from tidings.model.identity import at, is_address
from tidings.net import Host
from tidings.protocols.teaching.ping import Probe
from tidings.wire.handshake import HandshakeRefusal, Hello, agree, hello


def test_an_address_is_a_name_that_no_node_has() -> None:
    assert is_address(at("127.0.0.1", 7411))
    assert not is_address("broker")
    with pytest.raises(UsageError, match="an address and no name"):
        hello("@127.0.0.1:7411")
    outcome = agree(hello("a"), Hello("@127.0.0.1:7411"))
    assert isinstance(outcome, HandshakeRefusal)
    assert "an address and no name" in outcome.reason


def test_whoever_answers_at_an_address_is_called_by_its_name_from_then_on() -> None:
    async def scenario() -> None:
        async with puppet_host("b") as b:
            there = at(*b.address)
            async with puppet_host("a", Connect(there), peers={there: b.address}, listen=None) as a:
                up = await heard(a, LinkUp)
                assert (up.neighbour, up.asked) == ("b", there)
                assert (await heard(b, LinkUp)).neighbour == "a"
                order(a, Send("b", Probe(1)))
                assert (await heard(b, Received)).message == Probe(1)
                order(b, Send("a", Probe(2)))
                received = await heard(a, Received)
                assert (received.sender, received.message) == ("b", Probe(2))
                order(a, Disconnect("b"))
                assert (await heard(a, LinkDown)).neighbour == "b"
                order(a, Connect(there))
                again = await heard(a, LinkUp)
                assert (again.neighbour, again.asked) == ("b", there)
                assert again.epoch > up.epoch

    play(scenario())


def test_nobody_at_an_address_is_told_under_the_address() -> None:
    async def scenario() -> None:
        async with puppet_host("b") as b:
            gone = b.address
        there = at(*gone)
        async with puppet_host("a", Connect(there), peers={there: gone}) as a:
            down = await heard(a, LinkDown)
            assert down.neighbour == there
            assert "cannot connect" in down.reason

    play(scenario())


def test_two_who_call_each_other_by_address_have_one_link() -> None:
    async def scenario() -> None:
        a, b = puppet_host("a"), puppet_host("b")
        async with a, b:
            a_there, b_there = at(*a.address), at(*b.address)
            await a.learn(b_there, b.address)
            await b.learn(a_there, a.address)
            order(a, Connect(b_there))
            order(b, Connect(a_there))
            assert (await heard(a, LinkUp)).neighbour == "b"
            assert (await heard(b, LinkUp)).neighbour == "a"
            await until(lambda: not a.links.rivals.waiting and not b.links.rivals.waiting and len(a.links.open) == 1)
            assert (list(a.links.up), list(b.links.up)) == (["b"], ["a"])
            order(a, Connect(b_there))
            assert (await heard(a, LinkUp, asked=b_there)).neighbour == "b"

    play(scenario())


def test_two_addresses_of_one_node_lead_to_one_link() -> None:
    async def scenario() -> None:
        async with puppet_host("b") as b:
            _, port = b.address
            one, other = at("127.0.0.1", port), at("localhost", port)
            peers = {one: ("127.0.0.1", port), other: ("localhost", port)}
            async with puppet_host("a", Connect(one), Connect(other), peers=peers) as a:
                ups = [await heard(a, LinkUp), await heard(a, LinkUp)]
                assert [up.neighbour for up in ups] == ["b", "b"]
                assert {up.asked for up in ups} == {one, other}
                assert list(a.links.up) == ["b"]

    play(scenario())


def test_another_node_that_answers_there_later_goes_by_its_own_name() -> None:
    async def scenario() -> None:
        async with puppet_host("b") as b:
            address, there = b.address, at(*b.address)
            a = puppet_host("a", Connect(there), peers={there: address})
            await a.start()
            assert (await heard(a, LinkUp)).neighbour == "b"
        assert (await heard(a, LinkDown)).neighbour == "b"
        async with puppet_host("c", listen=address):
            order(a, Connect(there))
            assert (await heard(a, LinkUp)).neighbour == "c"
            await a.stop()

    play(scenario())


def test_a_host_that_listens_nowhere_cannot_be_called() -> None:
    async def scenario() -> None:
        async with Host("a", puppet_host("x").machine, listen=None, params=PATIENT) as host:
            assert host.address == ("", 0)
            assert host.links.door.server is None
            with pytest.raises(OSError):
                await BarePeer.call(host.address)

    play(scenario())
