"""Keys and tokens in files: Ed25519, from the package `cryptography`.

A key pair is two PEM files: `NAME.key`, the private key, readable by its owner only, and `NAME.pub`. The same kind of
pair serves an authority, which signs tokens, and a holder, whose public key a token names. A token is a file too: its
bytes in base64, one line.

    new_key(Path("ann"))                                                  # ann.key and ann.pub
    claims = Claims("ann", ("client",), "", "type = 'quake'", expires_at, "office", read_public(Path("ann.pub")))
    write_token(Path("ann.token"), make_token(claims, signer(Path("office.key"))))

`signature_check` is what `TokenJudge` and `Access` are given to check signatures with. A key that is secret never goes
into a message of an error or a log.
"""

import base64
import binascii
import os
from collections.abc import Callable
from pathlib import Path

from tidings.model.bounds import CREDENTIALS_BYTES_MAX
from tidings.net.errors import HostError
from tidings.protocols.access.judge import Principal, read_principals
from tidings.protocols.access.tokens import (
    BadToken,
    Revocation,
    read_revocations,
    read_token,
    revocations_text,
)

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
        load_pem_private_key,
        load_pem_public_key,
    )
except ImportError as problem:
    raise HostError("keys and tokens need the package cryptography: pip install 'tidings[net]'") from problem

OWNER_ONLY = 0o600
EVERYBODY = 0o077
"""The rights of others in the mode of a file."""

KEY_FILE_BYTES_MAX = 16 * 1024
PRINCIPALS_FILE_BYTES_MAX = 64 * 1024 * 1024


class SignatureCheck:
    """The `Signatures` of access."""

    def verify(self, public_key: bytes, signature: bytes, data: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(public_key).verify(signature, data)
        except (InvalidSignature, ValueError):
            return False
        return True


signature_check = SignatureCheck()


def new_key(path: Path) -> tuple[Path, Path]:
    """Make a pair and write `path`.key and `path`.pub; a key that is there already is never overwritten."""
    private, public = beside(path, ".key"), beside(path, ".pub")
    key = Ed25519PrivateKey.generate()
    write_new(private, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), OWNER_ONLY)
    write_new(public, key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo), 0o644)
    return private, public


def read_private(path: Path) -> Ed25519PrivateKey:
    """HostError where the file is no such key, or where others may read it."""
    data = read_bytes(path, KEY_FILE_BYTES_MAX)
    if path.stat().st_mode & EVERYBODY:
        raise HostError(f"{path} is a private key that others may read; run: chmod 600 {path}")
    try:
        key = load_pem_private_key(data, password=None)
    except (ValueError, TypeError):
        raise HostError(
            f"{path} is no private key as PEM without a password; make one: tidings keys new NAME"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise HostError(f"{path} is a key of another kind than Ed25519; make one: tidings keys new NAME")
    return key


def read_public(path: Path) -> bytes:
    """The 32 bytes of a public key."""
    data = read_bytes(path, KEY_FILE_BYTES_MAX)
    try:
        key = load_pem_public_key(data)
    except ValueError:
        raise HostError(f"{path} is no public key as PEM; name the .pub file of a pair") from None
    if not isinstance(key, Ed25519PublicKey):
        raise HostError(f"{path} is a key of another kind than Ed25519; name the .pub file of a pair")
    return key.public_bytes_raw()


def read_authorities(paths: list[Path]) -> dict[str, bytes]:
    """Public keys by the names of their files: `office.pub` is the authority `office`."""
    authorities: dict[str, bytes] = {}
    for path in paths:
        if path.stem in authorities:
            raise HostError(f"two authorities are called {path.stem}; give their files different names")
        authorities[path.stem] = read_public(path)
    return authorities


def signer(path: Path) -> Callable[[bytes], bytes]:
    """Signs with the private key of that file: as an authority for `make_token`, as a holder for access."""
    return read_private(path).sign


def write_token(path: Path, token: bytes) -> None:
    """A bearer token is as good as a password, so the file is its owner's only."""
    write_new(path, base64.b64encode(token) + b"\n", OWNER_ONLY)


def read_token_file(path: Path) -> bytes:
    return token_of_text(read_bytes(path, 2 * CREDENTIALS_BYTES_MAX).decode("ascii", "replace"), str(path))


def token_of_text(text: str, where: str = "token") -> bytes:
    """A token as it stands in a file or in the environment."""
    try:
        token = base64.b64decode(text.strip(), validate=True)
        read_token(token)
    except (BadToken, binascii.Error, ValueError):
        raise HostError(f"{where}: no token; make one: tidings token") from None
    return token


def principal_of_token(token: bytes) -> str:
    """Whose token it is, by its own word: after whom a client that shows it has to be named."""
    try:
        return read_token(token)[1].principal
    except BadToken as problem:
        raise HostError(f"token: {problem}") from None


def read_principals_file(path: Path) -> dict[str, Principal]:
    try:
        return read_principals(read_bytes(path, PRINCIPALS_FILE_BYTES_MAX).decode())
    except UnicodeDecodeError:
        raise HostError(f"{path} is no text in UTF-8") from None


def read_revocations_file(path: Path) -> dict[str, Revocation]:
    try:
        return read_revocations(read_bytes(path, PRINCIPALS_FILE_BYTES_MAX).decode())
    except UnicodeDecodeError:
        raise HostError(f"{path} is no text in UTF-8") from None


def revoke(path: Path, revocations: list[Revocation], now: float) -> list[Revocation]:
    """Add to the list of that file, which is made if it is not there; entries of tokens that have expired are left out.
    It is replaced in one step, so that whoever reads it sees the old list or the new one."""
    known = read_revocations_file(path) if path.exists() else {}
    known |= {each.id: each for each in revocations}
    kept = [each for each in known.values() if each.expires_at > now]
    temporary = beside(path, f".{os.getpid()}")
    write_new(temporary, revocations_text(kept).encode(), 0o644)
    try:
        os.replace(temporary, path)
    except OSError as problem:
        temporary.unlink()
        raise HostError(f"cannot write {path}: {problem.strerror}") from None
    return kept


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def read_bytes(path: Path, bytes_max: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(bytes_max + 1)
    except OSError as problem:
        raise HostError(f"cannot read {path}: {problem.strerror}; check the name and its rights") from None
    if len(data) > bytes_max:
        raise HostError(f"{path} has more than {bytes_max} bytes; is it the right file?")
    return data


def write_new(path: Path, data: bytes, mode: int) -> None:
    """The rights are those from the first byte on, and nothing that exists is overwritten."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise HostError(f"{path} exists already; remove it first, or give another name") from None
    except OSError as problem:
        raise HostError(f"cannot write {path}: {problem.strerror}") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
