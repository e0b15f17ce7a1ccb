"""With TLS: who answers is checked before anything is shown to him, and nobody is what his certificate does not say."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_settings", reason="a broker service needs the extra 'net'")

from tests.scenarios.services import make_service
from tests.unit.test_net_tls import Authority
from tests.worlds.loopback import connect, refusal
from tests.worlds.sockets import QUIET, BarePeer, play, puppet_host, until
from tidings import NotPermitted
from tidings.model.errors import UsageError
from tidings.net.broker.config import load_config
from tidings.net.broker.service import BrokerService
from tidings.net.certificates import DAY, new_authority, new_certificate
from tidings.net.errors import HostError
from tidings.net.keys import new_key, signer, write_token
from tidings.net.tls import Tls
from tidings.protocols.access.entrant import NAME_NOT_PROVED, NO_BROKER
from tidings.protocols.access.judge import Right
from tidings.protocols.access.messages import Attach, Attached, Rejected
from tidings.protocols.access.tokens import Claims, make_token
from tidings.wire.handshake import Heartbeat, Hello

HERE = ["127.0.0.1", "localhost"]


@pytest.fixture
def office(tmp_path: Path) -> Path:
    """A network: an authority for certificates and one for tokens, brokers m and z, the clients ann and mallory."""
    new_authority(tmp_path)
    for name in ("m", "z"):
        new_certificate(tmp_path, name, "broker", HERE, DAY)
    new_certificate(tmp_path, "elsewhere", "broker", ["elsewhere.example"], DAY)
    for name in ("ann", "mallory"):
        new_certificate(tmp_path, name, "client", [], DAY)
    private, _ = new_key(tmp_path / "office")
    roles: dict[str, Right] = {"ann": "client", "m": "broker", "z": "broker"}
    for name, role in roles.items():
        write_token(
            tmp_path / f"{name}.token", make_token(Claims(name, (role,), "", "", 4e9, "office"), signer(private))
        )
    brokers = "".join(f"[[principal]]\nname = '{name}'\nroles = ['broker']\n" for name in ("m", "z"))
    (tmp_path / "principals.toml").write_text(f"[[principal]]\nname = 'ann'\n{brokers}")
    return tmp_path


def files_of(office: Path, name: str) -> dict[str, Any]:
    pair = {"tls_certificate": office / f"{name}.pem", "tls_key": office / f"{name}.key"}
    return {**pair, "tls_authority": office / "authority.pem"}


def tls_of(office: Path, name: str) -> Tls:
    return Tls.from_files(office / f"{name}.pem", office / f"{name}.key", office / "authority.pem")


def url(service: BrokerService, host: str = "127.0.0.1", name: str = "") -> str:
    return f"tidingss://{name}{host}:{service.address[1]}"


@pytest.mark.parametrize("called", ["", "m@"])
@pytest.mark.parametrize("thief", ["mallory", "elsewhere", "loose"])
def test_who_answers_with_another_certificate_of_the_authority_hears_no_token(
    office: Path, thief: str, called: str
) -> None:
    """A client's, another broker's, and one that does not say for what it is; all signed by whom the victim trusts."""
    files = files_of(office, thief)
    if thief == "loose":
        authority = Authority(office, thief)
        pem, key = authority.files("mallory")
        files = {"tls_certificate": pem, "tls_key": key, "tls_authority": authority.file}
    words = "not for m" if called and thief != "mallory" else "TLS failed"

    async def scenario() -> None:
        async with make_service("m", **files, authorities=[str(office / "office.pub")]) as impostor:
            trusting = Tls.trusting(files["tls_authority"])
            await refusal(url(impostor, name=called), words, token=str(office / "ann.token"), tls=trusting)
            assert impostor.host.counts.stream_messages_received == 0

    play(scenario())


def test_a_server_certificate_and_a_token_are_enough(office: Path) -> None:
    settings = {**files_of(office, "m"), "authorities": [str(office / "office.pub")]}

    async def scenario() -> None:
        async with make_service("m", **settings) as service:
            trusting = Tls.trusting(office / "authority.pem")
            for host in HERE:
                async with connect(url(service, host), token=str(office / "ann.token"), tls=trusting) as ann:
                    await ann.advertise("TRUE")
                    await ann.publish({"n": 1}, receipt=True)
            async with connect(url(service, name="m@"), token=str(office / "ann.token"), tls=trusting) as ann:
                assert ann.broker == "m"
            with pytest.raises(NotPermitted, match="credentials are needed"):
                await connect(url(service), name="ann", tls=trusting)

    play(scenario())


def test_an_ordinary_server_certificate_will_do_and_no_authority_for_callers(office: Path) -> None:
    """As from a public authority: nothing in it is about nodes."""
    loose = Authority(office, "loose")
    pem, key = loose.files("localhost")
    settings = {"tls_certificate": pem, "tls_key": key, "authorities": [str(office / "office.pub")]}

    async def scenario() -> None:
        async with make_service("m", **settings) as service:
            trusting = Tls.trusting(loose.file)
            async with connect(url(service, "localhost"), token=str(office / "ann.token"), tls=trusting) as ann:
                await ann.advertise("TRUE")
                await ann.publish({"n": 1}, receipt=True)
            await refusal(url(service), "IP address mismatch", token=str(office / "ann.token"), tls=trusting)
            # The name of a broker is not proved by the name of a host.
            await refusal(url(service, "localhost", "m@"), "not for m", token=str(office / "ann.token"), tls=trusting)

    play(scenario())


def test_certificates_of_brokers_link_brokers(office: Path) -> None:
    async def scenario() -> None:
        principals = {"principals": office / "principals.toml"}
        async with (
            make_service("m", **files_of(office, "m"), **principals) as m,
            make_service("z", m, **files_of(office, "z"), **principals) as z,
        ):
            await until(lambda: "z" in m.node.access.entrants and m.node.access.entrants["z"].is_peer)
            assert z.node.access.entrants["m"].certified == ("broker",)

    play(scenario())


@pytest.mark.parametrize("is_open", [True, False])
def test_the_certificate_of_a_client_is_no_broker(office: Path, is_open: bool) -> None:
    rights = {} if is_open else {"principals": office / "principals.toml"}

    async def scenario() -> None:
        async with make_service("m", **files_of(office, "m"), **rights) as service:
            reader, writer = await asyncio.open_connection(*service.address, ssl=tls_of(office, "ann").client)
            peer = BarePeer(reader, writer)
            peer.say(Hello("ann", capabilities=("link",)))
            peer.say(Heartbeat())
            peer.say(Attach("broker", b""))
            assert isinstance(said := await peer.hear(Attached, Rejected), Rejected)
            assert said.reason == NO_BROKER or not is_open
            await peer.goodbye()

    play(scenario())


def test_a_name_on_the_list_that_no_certificate_proves_is_not_believed(office: Path) -> None:
    """Callers need no certificate where tokens are taken, and then the list alone lets nobody in."""
    lists = {"principals": office / "principals.toml", "authorities": [str(office / "office.pub")]}

    async def scenario() -> None:
        async with make_service("m", **files_of(office, "m"), **lists) as service:
            with pytest.raises(NotPermitted, match=NAME_NOT_PROVED):
                await connect(url(service), name="ann", tls=Tls.trusting(office / "authority.pem"))
            async with connect(url(service), name="ann", tls=tls_of(office, "ann")) as ann:
                await ann.advertise("TRUE")

    play(scenario())


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "broker.example:0"])
def test_a_broker_that_asks_nobody_does_not_leave_the_machine_with_tls_either(office: Path, listen: str) -> None:
    flags = {"name": "m", "listen": listen, **files_of(office, "m")}
    with pytest.raises(UsageError, match="anybody could come in, with TLS too; give principals or authorities"):
        BrokerService(load_config(None, flags), log=QUIET)
    for more in ({"insecure": True}, {"principals": office / "principals.toml"}):
        BrokerService(load_config(None, {**flags, **more}), log=QUIET)


def test_a_bearer_token_leaves_the_machine_over_tls_only(office: Path) -> None:
    token = str(office / "ann.token")
    with pytest.raises(HostError, match="could take the token; use TLS, or a token that is bound to a key"):
        connect("tidings://192.0.2.1:7411", token=token, insecure=True)
    connect("tidings://192.0.2.1:7411", token=token, key=office / "office.key", insecure=True)
    connect("tidingss://192.0.2.1:7411", token=token)
    flags = {"name": "m", "listen": "127.0.0.1:0", "links": ["192.0.2.1:7411"], "token": office / "m.token"}
    with pytest.raises(HostError, match="could take the token"):
        BrokerService(load_config(None, {**flags, "insecure": True}), log=QUIET)


def test_a_host_without_a_certificate_is_not_called_over_tls(office: Path) -> None:
    with pytest.raises(UsageError, match="whoever is called over TLS needs a certificate"):
        play(puppet_host("a", tls=Tls.trusting(office / "authority.pem")).start())
