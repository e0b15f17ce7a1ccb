"""One door: every connection is counted from its first moment, and no crowd of strangers keeps others out.

Nothing here rests on how fast a machine is: strangers say nothing at all, and the good ones are waited for.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_settings", reason="a broker service needs the extra 'net'")

from tests.scenarios.services import make_service
from tests.worlds.loopback import connect
from tests.worlds.sockets import WAIT_MAX, BarePeer, patient, play, puppet_host, until
from tidings.net import Address
from tidings.net.addresses import address_text
from tidings.net.broker.service import BrokerService
from tidings.net.certificates import DAY, new_authority, new_certificate
from tidings.net.door import network_of
from tidings.net.tls import Tls
from tidings.protocols.access.access import TOO_LATE
from tidings.wire.handshake import Heartbeat, Hello

PLACES = 8
FEW: dict[str, Any] = {"strangers_max": PLACES, "handshake_timeout": WAIT_MAX, "stranger_patience": 0.001}
LONG: dict[str, Any] = {"attach_timeout": WAIT_MAX}


async def call(address: Address, from_host: str) -> BarePeer:
    """As somebody with that address; all of 127.0.0.0/8 is this machine."""
    return BarePeer(*await asyncio.open_connection(*address, local_addr=(from_host, 0)))


@asynccontextmanager
async def crowd(address: Address, size: int, hello: Hello | None = None) -> AsyncIterator[list[BarePeer]]:
    """Strangers who call and then say nothing, or no more than their name."""
    peers = []
    for number in range(size):
        peers.append(await call(address, "127.0.0.1"))
        if hello is not None:
            peers[-1].say(Hello(f"{hello.node}{number}", capabilities=hello.capabilities, epoch=hello.epoch))
            peers[-1].say(Heartbeat())
    try:
        yield peers
    finally:
        await asyncio.gather(*(peer.close() for peer in peers))


def url(service: BrokerService) -> str:
    return f"tidings://{address_text(service.address)}"


async def is_served(service: BrokerService, name: str, **options: Any) -> None:
    async with connect(url(service), name=name, **options) as client:
        await client.advertise("TRUE")
        await client.publish({"n": 1}, receipt=True)


SAYINGS = {
    "nothing": None,
    "a name": Hello("x", capabilities=("link",)),
    "a name without a link": Hello("x"),
    "a smaller name": Hello("a", capabilities=("link",), epoch=2**53),
}


@pytest.mark.parametrize("said", SAYINGS)
def test_a_crowd_of_strangers_keeps_nobody_out_and_its_size_is_bounded(said: str) -> None:
    async def scenario() -> None:
        async with make_service("m", host=FEW, access=LONG) as service:
            async with (
                connect(url(service), name="ann") as ann,
                crowd(service.address, 5 * PLACES, hello=SAYINGS[said]),
            ):
                await until(lambda: service.host.links.door.count == PLACES)
                for each in range(3):
                    await is_served(service, f"ben{each}")
                await ann.advertise("TRUE")
                await ann.publish({"n": 1}, receipt=True)
                assert service.host.links.door.count <= PLACES
                assert len(service.node.access.entrants) <= PLACES + 1
            await until(lambda: not service.host.links.open)
            assert not service.host.links.door.callers and not service.host.links.visitors

    play(scenario())


def test_good_clients_get_in_beside_one_who_never_stops_calling() -> None:
    """He says nothing, keeps what he has for as long as he is let, and calls again."""

    async def flood(address: Address) -> None:
        peers: deque[BarePeer] = deque()
        try:
            while True:
                peers.append(await call(address, "127.0.0.1"))
                if len(peers) > 4 * PLACES:
                    await peers.popleft().close()
        finally:
            await asyncio.gather(*(peer.close() for peer in peers))

    async def scenario() -> None:
        async with make_service("m", host=FEW, access=LONG) as service, connect(url(service), name="ann") as ann:
            flooding = asyncio.create_task(flood(service.address))
            await until(lambda: service.host.counts.closings["too many connections"] > PLACES)
            for each in range(5):
                await is_served(service, f"ben{each}")
            await ann.advertise("TRUE")
            await ann.publish({"n": 1}, receipt=True)
            assert service.host.links.door.count <= PLACES
            flooding.cancel()
            await asyncio.gather(flooding, return_exceptions=True)

    play(scenario())


def test_strangers_take_no_place_of_those_who_are_in() -> None:
    access = {**LONG, "clients_max": 1, "peers_max": 1}

    async def scenario() -> None:
        async with (
            make_service("m", host={**FEW, "streams_max": 2}, access=access) as service,
            crowd(service.address, PLACES, SAYINGS["a name"]),
        ):
            await until(lambda: service.host.links.visitors == PLACES)
            await is_served(service, "ann")

    play(scenario())


def test_a_crowd_gives_way_to_callers_of_other_addresses_at_once() -> None:
    patience = {**FEW, "stranger_patience": WAIT_MAX}

    async def scenario() -> None:
        async with puppet_host("a", params=patient(**patience)) as a:
            other = await call(a.address, "127.0.0.2")
            await until(lambda: a.links.door.count == 1)
            async with crowd(a.address, 2 * PLACES) as peers:
                # Those of the crowd that found no place are told so; whoever came before is left alone.
                assert "not known yet who they are" in await peers[-1].goodbye()
                assert len(a.links.door.strangers["127.0.0.1"]) == PLACES - 1
                third = await call(a.address, "127.0.0.3")
                assert "others want to come in" in await peers[0].goodbye()
                for peer in (other, third):
                    peer.say(Hello(f"b{peer is other}", capabilities=("link",)))
                    await peer.accepted()
            for peer in (other, third):
                await peer.close()

    play(scenario())


def test_connections_of_one_address_are_counted_before_their_tls_handshake(tmp_path: Path) -> None:
    new_authority(tmp_path)
    pem, key = new_certificate(tmp_path, "a", "broker", ["127.0.0.1"], DAY)
    tls = Tls.from_files(pem, key, tmp_path / "authority.pem")

    async def scenario() -> None:
        few = patient(address_connections_max=3, stranger_patience=WAIT_MAX)
        async with puppet_host("a", tls=tls, params=few) as a:
            async with crowd(a.address, 6):
                await until(lambda: a.counts.closings["too many connections"] == 3)
                assert a.links.door.callers == {"127.0.0.1": 3}
            await until(lambda: not a.links.open)

    play(scenario())


def test_whoever_hangs_on_to_a_handshake_has_no_more_time_than_others(tmp_path: Path) -> None:
    new_authority(tmp_path)
    pem, key = new_certificate(tmp_path, "a", "broker", ["127.0.0.1"], DAY)
    tls = Tls.from_files(pem, key, tmp_path / "authority.pem")

    async def scenario() -> None:
        async with puppet_host("a", tls=tls, params=patient(handshake_timeout=0.05)) as a:
            stranger = await BarePeer.call(a.address)
            stranger.writer.write(b"\x16\x03\x01\x02\x00")
            assert await stranger.reader.read() == b""
            await stranger.close()
            await until(lambda: not a.links.open)

    play(scenario())


def test_a_frame_that_comes_byte_by_byte_gains_no_time() -> None:
    async def scenario() -> None:
        async with make_service("m", access={"attach_timeout": 0.2}) as service:
            stranger = await BarePeer.introduced(service.address, "zoe")
            stranger.writer.write((8000).to_bytes(4, "big"))
            dripping = asyncio.create_task(drip(stranger))
            assert await stranger.goodbye() == TOO_LATE
            dripping.cancel()

    play(scenario())


async def drip(stranger: BarePeer) -> None:
    while True:
        stranger.writer.write(b"\0")
        await asyncio.sleep(0.01)


def test_callers_of_ipv6_are_counted_by_their_network() -> None:
    assert network_of("2001:db8:1:2:3:4:5:6") == network_of("2001:db8:1:2::1") == "2001:db8:1:2::/64"
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1")
    assert network_of("fe80::1%eth0") == "fe80::/64"
    assert network_of("nowhere") == "nowhere"
