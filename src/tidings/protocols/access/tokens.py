"""Tokens: what somebody may do, signed by whoever runs the network.

A token is the claims, and the signature of an authority over them. Who has the public key of the authority can check
it without asking anybody. The claims are

    principal        whose token it is; with its tenant, acme!ann, where it is of one (`tenancy.py`)
    roles            what it may be: client, broker, admin
    publish          what it may publish, a filter as text; nothing for no bound
    subscribe        what it may subscribe to
    expires_at       time of day from which it is worth nothing
    authority        the name of the key that signed it, so that keys can be changed one after the other
    holder_key       the public key of its holder, 32 bytes; nothing makes it a bearer token

A token with a holder's key is no secret: without the private key it opens nothing, since a broker asks for a signature
over a fresh nonce (`messages.Challenge`). A bearer token is one, and is sent as it is: only over TLS, or on loopback.

On the wire: MessagePack, an array of (claims as bytes, signature). The claims stay in the bytes that were signed, so
that there is nothing to encode again and no two readings of one signature. Reading is strict: every field has a bound,
and a token longer than an `Attach` may carry is refused unread.

A token is called back by its *id*, the digest of the claims that were signed: brokers are given a list of those that
are revoked, and refuse them. An entry says until when the token would have been good, and may be left out after that.
Or list the principals at the brokers, and take one off that list, with all tokens that it ever had. A principal that is
listed has the bounds of both, list and token.

    [[revoked]]
    id = "9f86d081884c7d659a2feaa0c55ad015"
    principal = "ann"
    expires_at = 1790000000.0
"""

import hashlib
import json
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any

import msgspec

from tidings.machine.message import Name
from tidings.model.bounds import (
    CREDENTIALS_BYTES_MAX,
    FILTER_TEXT_BYTES_MAX,
    PUBLIC_KEY_BYTES,
    SIGNATURE_BYTES,
    TIME_OF_DAY_MAX,
)
from tidings.model.errors import UsageError
from tidings.model.filter import Filter
from tidings.model.identity import NodeId, in_tenant, tenant_of
from tidings.model.language.parser import parse
from tidings.protocols.access.judge import (
    BOUND_TOO_LONG,
    NOBODY_KNOWS_YOU,
    RIGHTS,
    WRONG_NAME,
    WRONG_ROLE,
    Judge,
    Principal,
    Right,
    Role,
    Signatures,
    Verdict,
    both,
    closed_judge,
    fits,
    principal_of,
)

BOUNDS_REMEMBERED_MAX = 1024
"""Filters of tokens whose parsed form is kept: clients of one kind come with the same bounds."""

NO_TOKEN = "the credentials are no token"
UNKNOWN_AUTHORITY = "the token is signed by an authority that is not known here"
WRONG_SIGNATURE = "the signature of the token is wrong"
EXPIRED = "the token has expired; get a new one"
REVOKED = "the token was revoked; get a new one"
NOT_YOUR_TENANT = "this authority does not sign for that tenant, or for nobody in none; get a token from another"
BAD_PRINCIPAL = "nobody may be called so, or be that; get a token for another name or role"
BAD_BOUND = "a bound in the token is no filter"

ID_DIGITS = 32
REVOCATIONS_MAX = 100_000

BoundText = Annotated[str, msgspec.Meta(max_length=FILTER_TEXT_BYTES_MAX)]


class Claims(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    principal: Name
    roles: Annotated[tuple[Right, ...], msgspec.Meta(min_length=1, max_length=len(RIGHTS))]
    publish: BoundText
    subscribe: BoundText
    expires_at: Annotated[float, msgspec.Meta(ge=0, le=TIME_OF_DAY_MAX)]
    authority: Name
    holder_key: Annotated[bytes, msgspec.Meta(max_length=PUBLIC_KEY_BYTES)] = b""


class Token(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    claims: Annotated[bytes, msgspec.Meta(max_length=CREDENTIALS_BYTES_MAX)]
    signature: Annotated[bytes, msgspec.Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]


class BadToken(ValueError):
    """Bytes that are no token."""


token_decoder = msgspec.msgpack.Decoder(Token)
claims_decoder = msgspec.msgpack.Decoder(Claims)


def make_token(claims: Claims, sign: Callable[[bytes], bytes]) -> bytes:
    """`sign` signs as the authority that the claims name. Refuses what a broker would refuse."""
    for name in ("publish", "subscribe"):
        if text := getattr(claims, name):
            parse(text)
    Principal(claims.principal, claims.roles)
    if len(claims.holder_key) not in (0, PUBLIC_KEY_BYTES):
        raise UsageError(f"holder_key: {len(claims.holder_key)} bytes, a public key has {PUBLIC_KEY_BYTES}")
    data = msgspec.msgpack.encode(claims)
    try:
        claims_decoder.decode(data)
    except msgspec.ValidationError as problem:
        raise UsageError(f"claims: {problem}") from None
    token = msgspec.msgpack.encode(Token(data, sign(data)))
    if len(token) > CREDENTIALS_BYTES_MAX:
        raise UsageError(
            f"token of {len(token)} bytes, at most {CREDENTIALS_BYTES_MAX} are allowed; shorten the bounds"
        )
    return token


def read_token(token: bytes) -> tuple[Token, Claims]:
    """Without a look at the signature; BadToken if the bytes are none."""
    if len(token) > CREDENTIALS_BYTES_MAX:
        raise BadToken(NO_TOKEN)
    try:
        outer = token_decoder.decode(token)
        claims = claims_decoder.decode(outer.claims)
    except (ValueError, RecursionError):
        raise BadToken(NO_TOKEN) from None
    if len(claims.holder_key) not in (0, PUBLIC_KEY_BYTES):
        raise BadToken(NO_TOKEN)
    return outer, claims


def token_id(token: bytes) -> str:
    """By which it is called back; BadToken if the bytes are none."""
    return digest_of(read_token(token)[0].claims)


def digest_of(claims: bytes) -> str:
    return hashlib.sha256(claims).hexdigest()[:ID_DIGITS]


class Revocation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token that is called back; after `expires_at` nobody needs to know."""

    id: Annotated[str, msgspec.Meta(pattern=f"^[0-9a-f]{{{ID_DIGITS}}}$")]
    principal: str
    expires_at: float


def read_revocations(text: str) -> dict[str, Revocation]:
    """By id; UsageError says what is wrong."""
    try:
        tables: dict[str, Any] = tomllib.loads(text)
        if tables.keys() - {"revoked"}:
            raise UsageError("revoked: every entry is a [[revoked]]")
        entries = msgspec.convert(tables.get("revoked", []), list[Revocation])
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as problem:
        raise UsageError(f"revoked: {problem}") from None
    if len(entries) > REVOCATIONS_MAX:
        raise UsageError(f"revoked: at most {REVOCATIONS_MAX} entries; leave out those that have expired")
    return {entry.id: entry for entry in entries}


def revocations_text(revocations: Iterable[Revocation]) -> str:
    return "".join(
        f'[[revoked]]\nid = "{each.id}"\nprincipal = {toml_string(each.principal)}\nexpires_at = {each.expires_at!r}\n'
        for each in revocations
    )


def toml_string(text: str) -> str:
    """As JSON writes it, but for the one character that TOML wants escaped besides."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


class TokenJudge:
    """`authorities`: public keys by name. `principals`: who is let in at all, None for everybody with a token.
    `otherwise` judges whoever shows nothing; with mutual TLS a `NameJudge`. `revoked`: tokens that are refused, by
    id. `signs_for`: the tenants to which an authority is bound."""

    def __init__(
        self,
        signatures: Signatures,
        authorities: Mapping[str, bytes],
        principals: Mapping[str, Principal] | None = None,
        otherwise: Judge = closed_judge,
        revoked: Mapping[str, Revocation] | None = None,
        signs_for: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        self.signatures, self.authorities, self.principals = signatures, dict(authorities), principals
        self.otherwise, self.revoked = otherwise, {} if revoked is None else revoked
        self.signs_for = {} if signs_for is None else signs_for

    def __call__(self, peer: NodeId, role: Role, credentials: bytes, now: float) -> Verdict | str:
        if not credentials:
            return self.otherwise(peer, role, credentials, now)
        try:
            token, claims = read_token(credentials)
        except BadToken as problem:
            return str(problem)
        authority = self.authorities.get(claims.authority)
        if authority is None:
            return UNKNOWN_AUTHORITY
        if not self.signatures.verify(authority, token.signature, token.claims):
            return WRONG_SIGNATURE
        if now >= claims.expires_at:
            return EXPIRED
        if digest_of(token.claims) in self.revoked:
            return REVOKED
        tenants = self.signs_for.get(claims.authority)
        if tenants is not None and tenant_of(claims.principal) not in tenants:
            return NOT_YOUR_TENANT
        if role not in claims.roles:
            return WRONG_ROLE
        if not is_name_of(peer if role == "broker" else principal_of(peer), claims.principal):
            return WRONG_NAME
        return self.bounds_of(claims, role)

    def bounds_of(self, claims: Claims, role: Role) -> Verdict | str:
        try:
            # As much as anybody may be called, and be.
            listed = Principal(claims.principal, claims.roles)
        except UsageError:
            return BAD_PRINCIPAL
        if self.principals is not None:
            if claims.principal not in self.principals:
                return NOBODY_KNOWS_YOU
            listed = self.principals[claims.principal]
            if role not in listed.roles:
                return WRONG_ROLE
        try:
            publish_bound = both(bound_of(claims.publish), listed.publish_bound)
            subscribe_bound = both(bound_of(claims.subscribe), listed.subscribe_bound)
        except UsageError:
            return BAD_BOUND
        if not (fits(publish_bound) and fits(subscribe_bound)):
            return BOUND_TOO_LONG
        roles = tuple(each for each in claims.roles if each in listed.roles)
        return Verdict(claims.principal, publish_bound, subscribe_bound, claims.expires_at, claims.holder_key, roles)


def is_name_of(name: str, principal: str) -> bool:
    """Whether somebody of this name may be the principal: its tenant may be left out."""
    return principal in (name, in_tenant(tenant_of(principal), name))


def bound_of(text: str) -> Filter | None:
    return parse_remembered(text) if text else None


@lru_cache(BOUNDS_REMEMBERED_MAX)
def parse_remembered(text: str) -> Filter:
    return parse(text)
