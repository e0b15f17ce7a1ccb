"""Nodes that are met at run time, on real sockets: what a machine learns of them, and links with them."""

from tests.scenarios.services import make_service
from tests.worlds.sockets import heard, order, patient, play, puppet_host, until
from tidings.machine.effects import Connect, Know, Send, Transport
from tidings.machine.inputs import LinkDown, LinkUp, Received
from tidings.machine.message import Contact
from tidings.net import Address, Host
from tidings.net.addresses import address_text
from tidings.net.broker.service import BrokerService
from tidings.protocols.teaching.ping import Probe
from tidings.pubsub.signals import LinkUnwanted, LinkWanted

DATAGRAM = Transport.DATAGRAM
FREE: Address = ("127.0.0.1", 9)
"""Nobody answers there."""


def knows(host: Host, node: str) -> Address | None:
    return host.directory.learned.get(node)


def contact(service: BrokerService, broker: str) -> Contact:
    """What this broker knows of another one."""
    links = service.node.inspection.others.links
    return Contact(broker, links[broker].address)


def is_linked(service: BrokerService, broker: str) -> bool:
    links = service.node.inspection.others.links
    return broker in links and links[broker].is_up


def test_a_broker_that_was_met_at_another_is_linked_for_as_long_as_it_is_wanted() -> None:
    async def scenario() -> None:
        plain = {"routing": {"engine": "plain"}}
        async with (
            make_service("b", **plain) as b,
            make_service("a", b, **plain) as a,
            make_service("c", b, **plain) as c,
        ):
            await until(lambda: is_linked(b, "a") and is_linked(b, "c"))
            met = contact(b, "c")
            assert met.address == address_text(c.address)
            assert not is_linked(a, "c")
            a.host.inject(LinkWanted(met, "test"))
            await until(lambda: is_linked(a, "c") and is_linked(c, "a"))
            assert knows(a.host, "c") == c.address
            assert contact(c, "a") == Contact("a", address_text(a.address))

            # It comes back after a break, and is let go when nobody wants it; the configured links stay.
            a.host.links.up["c"].transport.abort()
            await until(lambda: not is_linked(a, "c"))
            await until(lambda: is_linked(a, "c") and is_linked(c, "a"))
            a.host.inject(LinkUnwanted("c", "test"))
            await until(lambda: not is_linked(a, "c") and not is_linked(c, "a"))
            assert is_linked(a, "b") and is_linked(c, "b")
            await until(lambda: "c" not in a.host.links.up)
            assert not a.node.access.wanted.dialled

    play(scenario())


def test_what_is_learned_serves_links_and_datagrams() -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a, puppet_host("b") as b:
            order(a, Know("b", address_text(b.address)))
            order(b, Know("a", address_text(a.address)))
            await until(lambda: a.datagrams and "b" in a.datagrams.addresses and b.datagrams and b.datagrams.names)
            order(a, Send("b", Probe(1), DATAGRAM))
            assert (await heard(b, Received)).message == Probe(1)
            order(a, Connect("b"))
            assert (await heard(a, LinkUp)).neighbour == "b"

    play(scenario())


def test_what_is_learned_replaces_what_was_learned_and_nothing_that_was_configured() -> None:
    async def scenario() -> None:
        async with puppet_host("b") as b, puppet_host("c") as c, puppet_host("a", peers={"b": b.address}) as a:
            order(a, Know("b", address_text(FREE)), Know("c", address_text(FREE)), Know("c", address_text(c.address)))
            assert a.directory.learned == {"c": c.address}
            # Nor is a datagram from a configured address taken for somebody else's.
            order(a, Know("d", address_text(b.address)))
            await until(lambda: not a.directory.lookups)
            assert a.datagrams is not None and a.datagrams.names[b.address] == "b"
            await b.learn("a", a.address)
            order(b, Send("a", Probe(1), DATAGRAM))
            assert (await heard(a, Received)).sender == "b"
            for name in ("b", "c"):
                order(a, Connect(name))
                assert (await heard(a, LinkUp)).neighbour == name

    play(scenario())


def test_what_was_learned_longest_ago_gives_way_unless_it_is_in_use() -> None:
    async def scenario() -> None:
        async with puppet_host("b") as b, puppet_host("a", params=patient(learned_max=2)) as a:
            order(a, Know("b", address_text(b.address)), Connect("b"))
            await heard(a, LinkUp)
            order(a, *(Know(name, address_text(FREE)) for name in ("c", "d", "e", "d")))
            assert list(a.directory.learned) == ["b", "d"]
            order(a, Connect("c"))
            assert "no address is known" in (await heard(a, LinkDown)).reason
            await until(lambda: not a.directory.lookups)
            assert a.datagrams is not None and list(a.datagrams.addresses) == ["b", "d"]

    play(scenario())


def test_an_address_that_is_none_or_leaves_the_machine_in_plain_text_is_not_learned() -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a:
            order(a, Know("b", "nonsense:x"), Know("b", ":1"), Know("b", "192.0.2.1:7411"), Know("a", "127.0.0.1:1"))
            assert a.directory.learned == {}
            assert a.counts.drops == {"an address that cannot, or may not, be called": 4}

    play(scenario())
