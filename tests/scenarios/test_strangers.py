"""Identity first: what a stranger says of itself moves nobody who is in, however large the numbers that it names."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_settings", reason="a broker service needs the extra 'net'")

from tests.scenarios.services import make_service
from tests.worlds.loopback import connect
from tests.worlds.sockets import BarePeer, play, until
from tidings.model.bounds import EPOCH_MAX
from tidings.model.identity import is_visitor
from tidings.net.addresses import address_text
from tidings.net.broker.service import BrokerService
from tidings.net.keys import new_key, read_public, read_token_file, signer, write_token
from tidings.protocols.access.access import TOO_LATE, WRONG_PROOF
from tidings.protocols.access.judge import CREDENTIALS_NEEDED, Role
from tidings.protocols.access.messages import Attach, Attached, Challenge, Proof, Rejected
from tidings.protocols.access.tokens import Claims, make_token
from tidings.protocols.inspection.messages import Inspect
from tidings.wire.handshake import Goodbye, Heartbeat

LATER = 4e9


@pytest.fixture
def office(tmp_path: Path) -> Path:
    """Tokens that are bound to keys: of a client, and of brokers on both sides of "m" in the order of names."""
    private, _ = new_key(tmp_path / "office")
    roles: dict[str, Role] = {"ann": "client", "a": "broker", "m": "broker", "z": "broker"}
    for name, role in roles.items():
        new_key(tmp_path / name)
        claims = Claims(name, (role,), "", "", LATER, "office", read_public(tmp_path / f"{name}.pub"))
        write_token(tmp_path / f"{name}.token", make_token(claims, signer(private)))
    return tmp_path


def guarded(office: Path, name: str, *links: BrokerService | str, **more: Any) -> BrokerService:
    settings = {"authorities": [str(office / "office.pub")], "token": office / f"{name}.token"}
    return make_service(name, *links, **settings, token_key=office / f"{name}.key", **more)


def url(service: BrokerService) -> str:
    return f"tidings://{address_text(service.address)}"


def at_home(office: Path, service: BrokerService) -> Any:
    return connect(url(service), token=str(office / "ann.token"), key=office / "ann.key", name="ann")


NUMBERS = [1, 2, 9, EPOCH_MAX]


@pytest.mark.parametrize("epoch", NUMBERS)
@pytest.mark.parametrize("link", [True, False])
def test_a_stranger_who_takes_the_name_of_a_client_moves_nobody(office: Path, epoch: int, link: bool) -> None:
    async def scenario() -> None:
        async with guarded(office, "m") as service, at_home(office, service) as ann:
            streams, known = service.host.links.up, dict(service.host.links.epochs.last)
            before = streams["ann"]
            stranger = await BarePeer.introduced(service.address, "ann", epoch, link)
            # The stranger has the smaller name, and so it would be the one to decide.
            stranger.say(Heartbeat())
            stranger.say(Attach("client", b""))
            assert (await stranger.hear(Rejected)).reason == CREDENTIALS_NEEDED
            await stranger.close()
            await ann.advertise("TRUE")
            await ann.publish({"n": 1}, receipt=True)
            assert streams["ann"] is before
            assert service.host.links.epochs.last == known

    play(scenario())


@pytest.mark.parametrize("epoch", NUMBERS)
@pytest.mark.parametrize("name", ["a", "z"])
def test_a_stranger_who_takes_the_name_of_a_broker_does_not_cut_the_link(office: Path, name: str, epoch: int) -> None:
    async def scenario() -> None:
        async with guarded(office, "m") as service, guarded(office, name, service) as other:
            await until(lambda: name in service.node.access.entrants)
            before = service.host.links.up[name]
            stranger = await BarePeer.introduced(service.address, name, epoch)
            stranger.say(Heartbeat())
            stranger.say(Attach("broker", read_token_file(office / f"{name}.token")))
            assert isinstance(await stranger.hear(Rejected, Challenge, Goodbye), Rejected | Challenge)
            stranger.say(Proof(bytes(64)))
            await stranger.goodbye()
            assert service.host.links.up[name] is before
            assert other.host.links.up["m"].stage.value == "up"
            assert service.node.access.entrants[name].is_peer

    play(scenario())


def test_a_stolen_token_without_its_key_moves_nobody(office: Path) -> None:
    async def scenario() -> None:
        async with guarded(office, "m") as service, at_home(office, service):
            before = service.host.links.up["ann"]
            stranger = await BarePeer.introduced(service.address, "ann", EPOCH_MAX)
            stranger.say(Heartbeat())
            stranger.say(Attach("client", read_token_file(office / "ann.token")))
            await stranger.hear(Challenge)
            stranger.say(Proof(bytes(64)))
            assert (await stranger.hear(Rejected)).reason == WRONG_PROOF
            await stranger.goodbye()
            assert service.host.links.up["ann"] is before

    play(scenario())


def test_who_named_the_largest_epoch_locks_nobody_out_not_even_itself() -> None:
    async def scenario() -> None:
        async with make_service("m") as service:
            for _ in range(3):
                first = await BarePeer.introduced(service.address, "ann", EPOCH_MAX)
                first.say(Heartbeat())
                first.say(Attach("client", b""))
                await first.hear(Attached)
                await first.close()
                await until(lambda: "ann" not in service.node.access.entrants)
                async with connect(url(service), name="ann") as ann:
                    await ann.advertise("TRUE")
                    await ann.publish({"n": 1}, receipt=True)

    play(scenario())


@pytest.mark.parametrize("link", [True, False])
@pytest.mark.parametrize("name", ["ann", "zoe"])
def test_a_visitor_who_stays_silent_is_ended_link_or_not(name: str, link: bool) -> None:
    async def scenario() -> None:
        async with make_service("m", access={"attach_timeout": 0.05}) as service:
            stranger = await BarePeer.introduced(service.address, name, link=link)
            stranger.say(Heartbeat())
            assert await stranger.goodbye() == TOO_LATE
            assert not service.host.links.up

    play(scenario())


def test_a_visitor_may_say_who_it_is_and_nothing_else() -> None:
    async def scenario() -> None:
        async with make_service("m") as service:
            stranger = await BarePeer.introduced(service.address, "zoe")
            stranger.say(Inspect(1, "clients", "", 0))
            assert "before it is known who you are" in await stranger.goodbye()
            long = await BarePeer.introduced(service.address, "zoe")
            long.writer.write((9000).to_bytes(4, "big"))
            assert "at most 8192" in await long.goodbye()

    play(scenario())


@pytest.mark.parametrize("name", ["?1", "@here", "*"])
def test_nobody_has_the_name_of_a_visitor(name: str) -> None:
    async def scenario() -> None:
        async with make_service("m") as service:
            stranger = await BarePeer.introduced(service.address, name)
            assert "give that node" in await stranger.goodbye()

    play(scenario())


def test_a_visitor_that_sits_on_a_name_keeps_nobody_from_calling_its_owner(office: Path) -> None:
    """The broker wants a link to "z", and somebody who says that he is "z" is there first and says no more."""

    async def scenario() -> None:
        async with guarded(office, "z") as other, guarded(office, "m") as service:
            strangers = [await BarePeer.introduced(service.address, "z", EPOCH_MAX) for _ in range(3)]
            await until(lambda: sum(map(is_visitor, service.host.links.up)) == len(strangers))
            async with guarded(office, "a", service, other) as a:
                await until(lambda: {"m", "z"} <= set(a.node.access.entrants))
                assert all(a.node.access.entrants[name].is_peer for name in ("m", "z"))
            await asyncio.gather(*(each.close() for each in strangers))

    play(scenario())


@pytest.mark.parametrize("names", [("a", "m"), ("m", "a")])
def test_brokers_that_call_each_other_at_once_have_one_stream(office: Path, names: tuple[str, str]) -> None:
    async def scenario() -> None:
        async with guarded(office, names[0]) as one, guarded(office, names[1]) as other:
            addresses = [address_text(each.address) for each in (one, other)]
        for _ in range(3):
            one, other = (
                guarded(office, name, there, listen=here)
                for name, here, there in zip(names, addresses, reversed(addresses), strict=True)
            )
            await asyncio.gather(one.host.start(), other.host.start())
            await until(partial(are_settled, {names[1]: one, names[0]: other}))
            await asyncio.gather(one.stop(), other.stop())

    play(scenario())


def are_settled(by_peer: dict[str, BrokerService]) -> bool:
    """Each has its peer, and nothing besides."""
    return all(
        list(service.node.access.entrants) == list(service.host.links.up) == [peer]
        and service.node.access.entrants[peer].is_peer
        for peer, service in by_peer.items()
    )
