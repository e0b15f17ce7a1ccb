"""A small authority and its certificates: what they say, who may read them, and that TLS believes them."""

import asyncio
import json
import ssl
import stat
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="certificates are made with cryptography, of the extra 'net'")

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.worlds.sockets import play
from tidings.cli.output import MACHINE, OK, USAGE
from tidings.cli.program import run

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    folder = tmp_path / "pki"
    assert run(["keys", "authority", str(folder)]) == OK
    return folder


def sign(pki: Path, *arguments: str) -> int:
    return run(["keys", "certificate", *arguments, "--authority", str(pki)])


def mode_of(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_a_certificate_of_a_broker_says_who_it_is_and_where_it_is_reached(pki: Path, capsys: Captured) -> None:
    hosts = ["--host", "north.example", "--host", "127.0.0.1", "--host", "::1"]
    capsys.readouterr()
    assert sign(pki, "north 1", "--broker", *hosts, "--json") == OK
    told = json.loads(capsys.readouterr().out)
    assert told == {
        "certificate": str(pki / "north 1.pem"),
        "private": str(pki / "north 1.key"),
        "name": "north 1",
        "role": "broker",
    }
    made = x509.load_pem_x509_certificate(Path(told["certificate"]).read_bytes())
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["tidings://broker/north%201"]
    assert names.get_values_for_type(x509.DNSName) == ["north.example"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_a_certificate_of_a_client_is_of_no_use_to_be_called(pki: Path) -> None:
    assert sign(pki, "ann", "--client") == OK
    made = x509.load_pem_x509_certificate((pki / "ann.pem").read_bytes())
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["tidings://client/ann"]
    purposes = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_private_files_are_their_owners_only_and_nothing_is_overwritten(pki: Path, capsys: Captured) -> None:
    assert sign(pki, "ann", "--client") == OK
    assert mode_of(pki) == 0o700
    assert mode_of(pki / "authority.key") == mode_of(pki / "ann.key") == 0o600
    before = (pki / "authority.pem").read_bytes(), (pki / "ann.pem").read_bytes()
    assert run(["keys", "authority", str(pki)]) == MACHINE
    assert sign(pki, "ann", "--client") == MACHINE
    assert "exists already" in capsys.readouterr().err
    assert before == ((pki / "authority.pem").read_bytes(), (pki / "ann.pem").read_bytes())


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["ann"], "--broker or --client"),
        (["ann", "--broker", "--client"], "--broker or --client"),
        (["b", "--broker"], "name its hosts"),
        (["ann", "--client", "--host", "a.example"], "reached nowhere"),
        (["b", "--broker", "--host", "a..example"], "no name of a host"),
        (["../ann", "--client"], "no name for a certificate"),
        (["ann\x1b[2J", "--client"], "no name for a certificate"),
    ],
)
def test_what_makes_no_certificate_is_refused(pki: Path, capsys: Captured, arguments: list[str], why: str) -> None:
    assert sign(pki, *arguments) == USAGE
    assert why in capsys.readouterr().err
    assert sorted(file.name for file in pki.iterdir()) == ["authority.key", "authority.pem"]


def test_an_authority_whose_key_others_may_read_does_not_sign(pki: Path, capsys: Captured) -> None:
    (pki / "authority.key").chmod(0o644)
    assert sign(pki, "ann", "--client") == MACHINE
    assert "chmod 600" in capsys.readouterr().err


def test_a_folder_without_an_authority_says_what_is_missing(tmp_path: Path, capsys: Captured) -> None:
    assert sign(tmp_path, "ann", "--client") == MACHINE
    assert "authority.pem" in capsys.readouterr().err


def shake_hands(pki: Path, server: str, host: str) -> str:
    """What becomes of a call of this host, where `server` answers with its certificate."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(pki / f"{server}.pem", pki / f"{server}.key")
    calling = ssl.create_default_context(cafile=str(pki / "authority.pem"))

    async def scenario() -> str:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        listening = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=serving)
        async with listening:
            port = listening.sockets[0].getsockname()[1]
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=calling, server_hostname=host)
            except ssl.SSLCertVerificationError as problem:
                return problem.verify_message
            writer.close()
            return ""

    return play(scenario())


def test_whoever_calls_a_broker_by_its_host_believes_it_and_nobody_else(pki: Path) -> None:
    assert sign(pki, "north", "--broker", "--host", "north.example", "--host", "127.0.0.1") == OK
    assert sign(pki, "ann", "--client") == OK
    assert shake_hands(pki, "north", "north.example") == ""
    assert shake_hands(pki, "north", "127.0.0.1") == ""
    assert "mismatch" in shake_hands(pki, "north", "south.example")
    assert shake_hands(pki, "ann", "north.example")
