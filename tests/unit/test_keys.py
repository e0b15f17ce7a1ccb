"""Keys and tokens in files, with real signatures."""

import stat
from pathlib import Path
from random import SystemRandom

import pytest

pytest.importorskip("cryptography", reason="signatures come from cryptography, of the extra 'net'")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.worlds.sockets import PATIENT, QUIET, play, until
from tidings.machine.effects import Effect, Send
from tidings.machine.inputs import LinkUp, Received
from tidings.machine.message import Message
from tidings.machine.node import Node
from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.net import Host
from tidings.net.client.connection import connect
from tidings.net.errors import HostError
from tidings.net.keys import (
    new_key,
    principal_of_token,
    read_authorities,
    read_principals_file,
    read_private,
    read_public,
    read_token_file,
    signature_check,
    signer,
    token_of_text,
    write_token,
)
from tidings.protocols.access.access import Access
from tidings.protocols.access.guest import Guest
from tidings.protocols.access.judge import Verdict
from tidings.protocols.access.messages import Attached
from tidings.protocols.access.params import AccessParams, GuestParams
from tidings.protocols.access.tokens import WRONG_SIGNATURE, Claims, TokenJudge, make_token
from tidings.protocols.overlay.spanning_tree import SpanningTree, SpanningTreeParams
from tidings.pubsub.signals import ClientUp


@pytest.fixture
def office(tmp_path: Path) -> Path:
    private, _ = new_key(tmp_path / "office")
    return private


def claims(**changes: object) -> Claims:
    fields = {"publish": "", "subscribe": "a = 1", "expires_at": 100.0, "authority": "office", **changes}
    return Claims("ann", ("client",), **fields)  # type: ignore[arg-type]


def test_a_private_key_is_its_owners_only_and_is_never_overwritten(tmp_path: Path) -> None:
    private, public = new_key(tmp_path / "ann")
    assert (private.name, public.name) == ("ann.key", "ann.pub")
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert read_private(private).public_key().public_bytes_raw() == read_public(public)
    with pytest.raises(HostError, match="exists already"):
        new_key(tmp_path / "ann")


def test_a_private_key_that_others_may_read_is_refused(office: Path) -> None:
    office.chmod(0o640)
    with pytest.raises(HostError, match="chmod 600"):
        read_private(office)


def test_a_token_goes_through_its_file_and_is_judged_by_the_public_key(tmp_path: Path, office: Path) -> None:
    file = tmp_path / "ann.token"
    write_token(file, make_token(claims(), signer(office)))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token = read_token_file(file)
    assert token_of_text(file.read_text()) == token
    assert principal_of_token(token) == "ann"
    judge = TokenJudge(signature_check, read_authorities([tmp_path / "office.pub"]))
    verdict = judge("ann", "client", token, 0.0)
    assert isinstance(verdict, Verdict)
    assert verdict.principal == "ann"


def test_every_changed_byte_of_a_token_is_found(tmp_path: Path, office: Path) -> None:
    token = make_token(claims(), signer(office))
    judge = TokenJudge(signature_check, read_authorities([tmp_path / "office.pub"]))
    for place in range(len(token)):
        changed = token[:place] + bytes([token[place] ^ 1]) + token[place + 1 :]
        assert isinstance(judge("ann", "client", changed, 0.0), str)


def test_a_signature_of_another_authority_is_wrong(tmp_path: Path, office: Path) -> None:
    new_key(tmp_path / "other")
    judge = TokenJudge(signature_check, {"office": read_public(tmp_path / "other.pub")})
    assert judge("ann", "client", make_token(claims(), signer(office)), 0.0) == WRONG_SIGNATURE


def test_nothing_that_is_given_as_a_key_or_signature_raises() -> None:
    assert not signature_check.verify(b"", b"", b"")
    assert not signature_check.verify(bytes(32), bytes(64), b"data")
    assert not signature_check.verify(bytes([255] * 32), bytes(3), b"data")


def test_a_guest_with_the_key_of_its_token_is_let_in_by_a_broker(tmp_path: Path, office: Path) -> None:
    private, public = new_key(tmp_path / "ann")
    token = make_token(claims(holder_key=read_public(public)), signer(office))
    judge = TokenJudge(signature_check, read_authorities([tmp_path / "office.pub"]))
    broker = Access("b", AccessParams(), judge, random_stream(1), signature_check)
    guest = Guest("ann", GuestParams(brokers=("b",), credentials=token), random_stream(2), signer(private))
    guest.start(0.0)
    broker.handle(0.0, LinkUp("ann", 1))
    said = sends(guest.handle(0.0, LinkUp("b", 1)))
    said = sends(broker.handle(0.0, Received("ann", said[0])))
    said = sends(guest.handle(0.0, Received("b", said[0])))
    effects = broker.handle(0.0, Received("ann", said[0]))
    assert sends(effects) == [Attached("ann", "", "a = 1")]
    assert [effect.client for effect in effects if isinstance(effect, ClientUp)] == ["ann"]


def test_on_sockets_brokers_prove_their_keys_to_each_other_and_a_thief_of_a_token_is_turned_away(
    tmp_path: Path, office: Path
) -> None:
    tokens, keys = {}, {}
    for name, role in (("a", "broker"), ("b", "broker"), ("ann", "client")):
        keys[name], public = new_key(tmp_path / name)
        made = Claims(name, (role,), "", "", 2.0**52, "office", read_public(public))  # type: ignore[arg-type]
        tokens[name] = make_token(made, signer(office))
    judge = TokenJudge(signature_check, read_authorities([tmp_path / "office.pub"]))

    def broker(name: str, *links: str) -> Host:
        params = AccessParams(links=links, credentials=tokens[name])
        access = Access(name, params, judge, SystemRandom(), signature_check, signer(keys[name]))
        overlay = SpanningTree(name, SpanningTreeParams())
        node = Node({"access": access, "overlay": overlay}, tells=(*access.tells, *overlay.tells))
        return Host(name, node, params=PATIENT, log=QUIET)

    def client(name: str, token: str, key: str) -> tuple[Host, Guest]:
        params = GuestParams(brokers=("b",), credentials=tokens[token])
        guest = Guest(name, params, SystemRandom(), signer(keys[key]))
        return Host(name, guest, params=PATIENT, log=QUIET), guest

    async def scenario() -> None:
        a, b = broker("a", "b"), broker("b")
        (honest, ann), (thief, mallory) = client("ann", "ann", "ann"), client("ann+evil", "ann", "a")
        async with b:
            async with a:
                await a.learn("b", b.address)
                await until(lambda: neighbours(a) == ["b"] and neighbours(b) == ["a"])
                async with honest, thief:
                    await honest.learn("b", b.address)
                    await thief.learn("b", b.address)
                    await until(lambda: ann.is_attached and not mallory.welcoming)
                    assert not mallory.is_attached
            await until(lambda: neighbours(b) == [])

    play(scenario())


def neighbours(host: Host) -> list[str]:
    node = host.machine
    assert isinstance(node, Node)
    overlay = node.parts["overlay"]
    assert isinstance(overlay, SpanningTree)
    return overlay.neighbours


def sends(effects: list[Effect]) -> list[Message]:
    return [effect.message for effect in effects if isinstance(effect, Send)]


def test_files_that_hold_something_else_are_refused_with_the_next_step(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_bytes(b"\xff\x00 no key")
    wrong.chmod(0o600)
    for read in (read_private, read_public, read_token_file, read_principals_file):
        with pytest.raises(HostError):
            read(wrong)
        with pytest.raises(HostError, match="cannot read"):
            read(tmp_path / "absent")
    with pytest.raises(HostError, match="another kind"):
        read_private(rsa_key(tmp_path))
    with pytest.raises(HostError):
        principal_of_token(b"none")
    with pytest.raises(HostError):
        token_of_text("no token")


def rsa_key(folder: Path) -> Path:
    from cryptography.hazmat.primitives.asymmetric import ec

    file = folder / "curve.key"
    key = ec.generate_private_key(ec.SECP256R1())
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    file.chmod(0o600)
    return file


def test_two_authorities_of_one_name_are_refused(tmp_path: Path, office: Path) -> None:
    with pytest.raises(HostError, match="office"):
        read_authorities([tmp_path / "office.pub", tmp_path / "office.pub"])


def test_a_token_longer_than_an_attach_may_carry_is_not_made() -> None:
    sign = Ed25519PrivateKey.generate().sign
    long = " OR ".join(f"attribute_number_{number} = {number}" for number in range(100))
    with pytest.raises(UsageError, match="shorten the bounds"):
        make_token(claims(publish=long, subscribe=long), sign)


def test_a_file_of_principals_is_read(tmp_path: Path) -> None:
    file = tmp_path / "principals.toml"
    file.write_text("[[principal]]\nname = 'ann'\nsubscribe = 'a = 1'\n")
    assert list(read_principals_file(file)) == ["ann"]


def test_the_text_of_a_long_token_is_no_name_of_a_file() -> None:
    with pytest.raises(UsageError) as refused:
        connect("tidings://localhost", token="secret" * 200)
    assert "secret" * 20 not in str(refused.value)
