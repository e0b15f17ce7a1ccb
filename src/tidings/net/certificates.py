"""Certificates for a network: a small authority in a folder, and what it signs for brokers and clients.

    new_authority(Path("authority"))                                     # authority/authority.pem and .key
    new_certificate(Path("authority"), "north-1", "broker", ["north.example", "127.0.0.1"], 365 * DAY)

The certificate of the authority goes to every node (`tls_authority`); its key stays where it was made, for whoever has
it can be anybody. A certificate says three things of its node, and each is checked by whoever is at the other end:

    URI tidings://broker/NAME or tidings://client/NAME    who it is and as what; no client can pass for a broker
    DNS names and IP addresses                            where a broker is reached, for those who call it by that
    purposes                                              a broker is called and calls; a client only calls

NAME is percent-encoded in the URI, and is the common name too. Keys are of the curve P-256 and unencrypted, so every
private file is its owner's only from its first byte on. Nothing is overwritten, and there is no list of certificates
that were called back: take the principal off the list of the brokers instead, or let certificates live briefly.
"""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from tidings.model.errors import UsageError
from tidings.net.errors import HostError
from tidings.net.keys import EVERYBODY, KEY_FILE_BYTES_MAX, OWNER_ONLY, read_bytes, write_new

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError as problem:
    raise HostError("certificates need the package cryptography: pip install 'tidings[net]'") from problem

CertifiedRole = Literal["broker", "client"]

DAY = 86400.0
CLOCKS_APART = timedelta(minutes=10)
"""A certificate is good a little before it is made, since clocks differ."""

COMMON_NAME_CHARS_MAX = 64
"""A certificate holds no more (X.520), and a name cut short could be another's."""

HOSTS_MAX = 100
AUTHORITY = "authority"
"""The files of an authority are called that, in its folder."""


def new_authority(folder: Path, name: str = "tidings", seconds: float = 3650 * DAY) -> tuple[Path, Path]:
    """The certificate of a new authority, and its key."""
    make_folder(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = common_name(name)
    usage = x509.KeyUsage(**{**NO_USAGE, "key_cert_sign": True, "crl_sign": True})
    certificate = (
        begin(subject, subject, key.public_key(), seconds)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return write_pair(folder / AUTHORITY, certificate, key)


def new_certificate(
    authority: Path, name: str, role: CertifiedRole, hosts: list[str], seconds: float, folder: Path | None = None
) -> tuple[Path, Path]:
    """NAME.pem and NAME.key, signed by the authority of that folder; in the same folder unless another is given."""
    if not 1 <= len(name) <= COMMON_NAME_CHARS_MAX or not name.isprintable() or "/" in name:
        raise UsageError(
            f"name: {name!r} is no name for a certificate; give 1 to {COMMON_NAME_CHARS_MAX} printable characters "
            "without a slash"
        )
    if role == "broker" and not hosts:
        raise UsageError("host: a broker is reached somewhere; name its hosts, such as --host north.example")
    if role == "client" and hosts:
        raise UsageError("host: a client is reached nowhere; leave its hosts out")
    if len(hosts) > HOSTS_MAX:
        raise UsageError(f"host: {len(hosts)} hosts, at most {HOSTS_MAX} fit a certificate")
    issuer, issuer_key = read_authority(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(node_uri(name, role)), *map(host_name, hosts)]
    calls: list[x509.ObjectIdentifier] = [ExtendedKeyUsageOID.CLIENT_AUTH]
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, *calls] if role == "broker" else calls
    certificate = (
        begin(common_name(name), issuer.subject, key.public_key(), seconds)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**{**NO_USAGE, "digital_signature": True}), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
        .sign(issuer_key, hashes.SHA256())
    )
    if folder is not None:
        make_folder(folder)
    return write_pair((folder or authority) / name, certificate, key)


def node_uri(name: str, role: CertifiedRole) -> str:
    """How a certificate names a node."""
    return f"tidings://{role}/{quote(name, safe='')}"


def read_authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    pem, private = folder / f"{AUTHORITY}.pem", folder / f"{AUTHORITY}.key"
    advice = f"make an authority: tidings keys authority {folder}"
    data = read_bytes(pem, KEY_FILE_BYTES_MAX), read_bytes(private, KEY_FILE_BYTES_MAX)
    if private.stat().st_mode & EVERYBODY:
        raise HostError(f"{private} is a private key that others may read; run: chmod 600 {private}")
    try:
        certificate, key = x509.load_pem_x509_certificate(data[0]), load_pem_private_key(data[1], password=None)
    except (ValueError, TypeError):
        raise HostError(f"{pem} and {private} are no certificate and key as PEM; {advice}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise HostError(f"{private} is not the key of {pem}; {advice}")
    return certificate, key


NO_USAGE = dict.fromkeys(
    (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
        *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    ),
    False,
)


def begin(subject: x509.Name, issuer: x509.Name, key: Any, seconds: float) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_APART)
        .not_valid_after(now + timedelta(seconds=seconds))
    )


def common_name(name: str) -> x509.Name:
    try:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    except ValueError:
        raise UsageError(f"name: {name!r} cannot stand in a certificate; give 1 to 64 characters") from None


def host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host.encode("idna").decode())
    except (UnicodeError, ValueError):
        raise UsageError(f"host: {host!r} is no name of a host and no IP address") from None


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as problem:
        raise HostError(f"cannot make {folder}: {problem.strerror}; name another folder") from None


def write_pair(path: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> tuple[Path, Path]:
    pem, private = path.with_name(path.name + ".pem"), path.with_name(path.name + ".key")
    if pem.exists():
        raise HostError(f"{pem} exists already; remove it first, or give another name")
    write_new(private, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), OWNER_ONLY)
    write_new(pem, certificate.public_bytes(Encoding.PEM), 0o644)
    return pem, private
