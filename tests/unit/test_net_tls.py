"""TLS between nodes: both ends are known by their certificates, and plain TCP does not leave the machine unasked."""

import asyncio
import gc
import socket
import ssl
import warnings
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.worlds.sockets import PATIENT, WAIT_MAX, BarePeer, heard, order, patient, play, puppet_host, until
from tidings.machine.effects import Connect, Send, Transport
from tidings.machine.inputs import LinkDown, LinkUp, Received
from tidings.net import Address, HostError, Tls
from tidings.net.tls import is_loopback
from tidings.net.tls_stream import is_whole
from tidings.protocols.delivery.messages import PublishMessage
from tidings.protocols.teaching.ping import Probe

pytest.importorskip("cryptography", reason="certificates are made with cryptography, of the extra 'net'")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


class Authority:
    """Signs certificates for nodes, in files below a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.file = folder / f"{name}.pem"
        certificate = (
            self.begin(self.subject, self.key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self.key, hashes.SHA256())
        )
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def begin(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
        )

    def files(self, node: str) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"node {node}")])
        certificate = (
            self.begin(subject, key.public_key())
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(node)]), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        certificate_file, key_file = self.folder / f"{self.name}-{node}.pem", self.folder / f"{self.name}-{node}.key"
        certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return certificate_file, key_file

    def tls(self, node: str) -> Tls:
        return Tls.from_files(*self.files(node), self.file)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


def test_nodes_with_certificates_of_one_authority_talk(authority: Authority) -> None:
    async def scenario() -> None:
        async with (
            puppet_host("b", tls=authority.tls("b")) as b,
            puppet_host("a", Connect("b"), tls=authority.tls("a"), peers={"b": b.address}) as a,
        ):
            await heard(a, LinkUp)
            order(a, *(Send("b", Probe(round)) for round in range(1000)))
            assert [(await heard(b, Received)).message.round for _ in range(1000)] == list(range(1000))
            encrypted = b.links.up["a"].transport.get_extra_info("ssl_object")
            assert encrypted.version() == "TLSv1.3"
        assert (await heard(b, LinkDown)).reason == "node a stops"

    play(scenario())


@pytest.mark.parametrize("inbox_max", [1, 10_000])
def test_long_messages_pass_whole_and_in_order_also_where_reading_pauses(authority: Authority, inbox_max: int) -> None:
    """Frames of many records, both ways at once."""
    count, size_bytes = 30, 200_000

    async def scenario() -> None:
        slow = patient(inbox_max=inbox_max)
        async with (
            puppet_host("b", tls=authority.tls("b"), params=slow) as b,
            puppet_host("a", Connect("b"), tls=authority.tls("a"), peers={"b": b.address}, params=slow) as a,
        ):
            await heard(a, LinkUp)
            await heard(b, LinkUp)
            for host, to in ((a, "b"), (b, "a")):
                payloads = [bytes([number]) * size_bytes for number in range(count)]
                order(host, *(Send(to, PublishMessage(1, 1, False, (b"\x80",), (each,))) for each in payloads))
            for host in (a, b):
                got = [(await heard(host, Received)).message.payloads[0] for _ in range(count)]
                assert got == [bytes([number]) * size_bytes for number in range(count)]

    play(scenario())


@pytest.mark.parametrize(
    ("opening", "answer"),
    [
        (b"", False),
        (b"\x16\x03\x01\x00", False),
        (b"\x16\x03\x01\x00\x02a", False),
        (b"\x16\x03\x01\x00\x02ab", True),
        (b"\x16\x03\x01\xff\xff", True),
        (b"GET / HTTP/1.1", True),
    ],
)
def test_openssl_begins_when_the_first_record_is_whole_or_is_none(opening: bytes, answer: bool) -> None:
    assert is_whole(opening) is answer


def test_a_certificate_for_another_name_is_refused(authority: Authority) -> None:
    async def scenario() -> None:
        async with (
            puppet_host("b", tls=authority.tls("b")) as b,
            puppet_host("a", Connect("b"), tls=authority.tls("mallory"), peers={"b": b.address}) as a,
        ):
            down = await heard(a, LinkDown)
            assert "the certificate is for mallory, node mallory, not for a" in down.reason
            assert b.links.up == {}

    play(scenario())


def test_who_calls_a_node_says_nothing_to_another_one_that_the_same_authority_knows(authority: Authority) -> None:
    async def scenario() -> None:
        came = asyncio.get_running_loop().create_future()

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            came.set_result(await reader.read())
            writer.close()

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.files("mallory"))
        server = await asyncio.start_server(listen, "127.0.0.1", 0, ssl=context)
        async with server:
            peers = {"b": server.sockets[0].getsockname()}
            async with puppet_host("a", Connect("b"), tls=authority.tls("a"), peers=peers) as a:
                down = await heard(a, LinkDown)
                assert "the certificate is for mallory, node mallory, not for b" in down.reason
                assert await came == b""

    play(scenario())


def test_a_certificate_of_another_authority_is_refused(authority: Authority, tmp_path: Path) -> None:
    strange = Authority(tmp_path, "strange")

    async def scenario() -> None:
        async with (
            puppet_host("b", tls=authority.tls("b")) as b,
            puppet_host("a", Connect("b"), tls=strange.tls("a"), peers={"b": b.address}) as a,
        ):
            down = await heard(a, LinkDown)
            assert "TLS failed: self-signed certificate in certificate chain" in down.reason
            assert b.links.up == {}

    play(scenario())


def test_a_caller_without_a_certificate_gets_nowhere(authority: Authority) -> None:
    async def scenario() -> None:
        async with puppet_host("b", tls=authority.tls("b")) as b:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
                peer = BarePeer(*await asyncio.open_connection(*b.address, ssl=context, server_hostname=""))
                try:
                    await peer.hear()
                finally:
                    await peer.close()
            assert b.links.up == {}

    play(scenario())


def test_a_node_without_tls_and_one_with_do_not_connect(authority: Authority) -> None:
    async def scenario() -> None:
        async with (
            puppet_host("b", tls=authority.tls("b")) as b,
            puppet_host("a", Connect("b"), peers={"b": b.address}) as a,
        ):
            await heard(a, LinkDown)
            assert a.links.up == b.links.up == {}

    play(scenario())


TURNS_MAX = 20
"""Of the loop; a handshake takes about ten."""


def test_a_host_that_stops_closes_the_handshakes_that_others_began_and_never_finish(authority: Authority) -> None:
    async def scenario() -> None:
        async with puppet_host("b", tls=authority.tls("b")) as b:
            calls = [await asyncio.open_connection(*b.address) for _ in range(3)]
            calls[1][1].write(b"\x16\x03\x01")
            # One of them is finished, so the others have been accepted as well.
            async with puppet_host("a", Connect("b"), tls=authority.tls("a"), peers={"b": b.address}) as a:
                await heard(a, LinkUp)
        for reader, writer in calls:
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()

    play(scenario())


@pytest.mark.parametrize("ending", ["caller first", "called first", "failure"])
@pytest.mark.parametrize("is_answered", [True, False])
@pytest.mark.parametrize("is_encrypted", [True, False])
def test_a_call_that_is_cut_off_leaves_nothing_open_however_far_it_came(
    authority: Authority, is_encrypted: bool, is_answered: bool, ending: str
) -> None:
    """Two hosts stop, or one and a peer that never says anything, each time one turn of the loop later."""
    tls = {name: authority.tls(name) if is_encrypted else None for name in "ab"}
    params = PATIENT if is_answered else patient(drain_timeout=0.01)

    async def scenario(silent: Address, turns: int) -> None:
        async with AsyncExitStack() as stack:
            b = puppet_host("b", tls=tls["b"], params=params)
            await b.start()
            address = b.address if is_answered else silent
            a = puppet_host("a", Connect("b"), tls=tls["a"], peers={"b": address}, params=params)
            await a.start()
            for host in (a, b) if ending == "called first" else (b, a):
                stack.push_async_callback(host.stop)
            for _ in range(turns):
                await asyncio.sleep(0)
            if ending == "failure":
                for host in (a, b):
                    host.fail(RuntimeError("failed by a test"))

    with socket.create_server(("127.0.0.1", 0)) as silent, warnings.catch_warnings(record=True) as leaks:
        warnings.simplefilter("always", ResourceWarning)
        for turns in range(TURNS_MAX):
            play(scenario(silent.getsockname(), turns))
        gc.collect()
    assert [str(leak.message) for leak in leaks] == []


def test_more_handshakes_than_the_bound_are_cut_off_at_once(authority: Authority) -> None:
    async def scenario() -> None:
        few = patient(strangers_max=3, stranger_patience=WAIT_MAX)
        async with puppet_host("b", tls=authority.tls("b"), params=few) as b:
            calls = [await asyncio.open_connection(*b.address) for _ in range(3)]
            await until(lambda: b.links.door.count == 3)
            reader, late = await asyncio.open_connection(*b.address)
            assert await reader.read() == b""
            assert b.links.door.count == 3
            for writer in [late, *[writer for _, writer in calls]]:
                writer.close()
                await writer.wait_closed()
            await until(lambda: not b.links.open)
            assert not b.links.door.callers and not b.links.door.count

    play(scenario())


def test_plain_tcp_outside_loopback_is_refused_unless_it_is_asked_for(authority: Authority) -> None:
    everywhere = ("0.0.0.0", 0)
    with pytest.raises(
        HostError, match=r"0.0.0.0:0 without TLS: anybody on the way could read and write; give certificates"
    ):
        play(puppet_host("a", listen=everywhere).start())
    with pytest.raises(HostError, match=r"192.0.2.7:7400 without TLS"):
        play(puppet_host("a", peers={"b": ("192.0.2.7", 7400)}).start())

    async def scenario() -> None:
        async with puppet_host("a", listen=everywhere, insecure=True) as open_to_all:
            assert open_to_all.datagrams is not None
        async with puppet_host("a", listen=everywhere, tls=authority.tls("a")) as encrypted:
            assert encrypted.datagrams is None
            order(encrypted, Send("b", Probe(1), Transport.DATAGRAM))
            await until(lambda: encrypted.counts.drops)
            assert encrypted.counts.drops == {"datagrams are off: they are not encrypted": 1}

    play(scenario())


@pytest.mark.parametrize(
    ("host", "answer"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("", False)],
)
def test_loopback_is_known(host: str, answer: bool) -> None:
    assert is_loopback(host) is answer


def test_files_that_cannot_be_used_are_named(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.files("a")
    other_certificate, _ = authority.files("b")
    with pytest.raises(HostError, match=r"cannot read .*nowhere.pem for TLS: No such file or directory"):
        Tls.from_files(tmp_path / "nowhere.pem", key, authority.file)
    with pytest.raises(HostError, match="a certificate and the private key that belongs to it are needed"):
        Tls.from_files(other_certificate, key, authority.file)
    with pytest.raises(HostError, match="is no certificate of an authority as PEM"):
        Tls.from_files(certificate, key, key)
