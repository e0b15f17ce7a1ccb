"""Who is this, and what may it do? A judge answers, and is a pure function.

A judge gets the name of the node at the other end of the link, the role it asks for, what it shows, and the time of
day; it answers with a `Verdict` or with the reason why not. Three judges, which can be combined:

    open_judge             everybody, without bounds: for one's own machine, and for experiments
    NameJudge(principals)  the name of the node is the principal. Of use only where the link itself proves the name, as
                           a certificate does; access turns others away
    TokenJudge(...)        a signed token (`tokens.py`) says who it is and what it may do

A *principal* is somebody who is held responsible: a person, a service, a broker. It has roles, and two *bounds* that
are filters: what it may publish and what it may subscribe to. A client's node carries the name of its principal, or
that name, a plus sign and whatever tells several clients of one principal apart: `ann`, `ann+desk`. Otherwise one
principal could take the place of another: a broker knows the owner of a subscription, and the publisher of an event, by
the name of the node.

Where a token names the key of its holder, the verdict does so too, and whoever shows the token must sign a nonce with
that key before it is let in. A token without such a key is a bearer token: whoever has it, has its rights.

Principals are listed in a file: who may come in, as what, and within which bounds.

    [[principal]]
    name = "ann"
    publish = "type = 'quake' AND region = 'north'"
    subscribe = "type = 'quake'"

    [[principal]]
    name = "north-1"
    roles = ["broker"]

    [[principal]]
    name = "ann"
    tenant = "acme"

`roles` is ["client"] where it is left out; with "admin" besides, it may look at the tables of a broker. `publish` and
`subscribe` are filters, and where one is left out there is no bound. With a `tenant` it is another ann, who is called
`acme!ann` in the network (`tenancy.py`). Whatever else stands in the file is a mistake and
is refused, since a bound that is misspelt is no bound.
"""

import tomllib
from collections.abc import Mapping
from typing import Any, Literal, Protocol

import msgspec

from tidings.model.bounds import FILTER_TEXT_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.model.escapes import check_printable
from tidings.model.filter import Filter
from tidings.model.identity import TENANT_MARK, TENANT_SYNTAX, NodeId, in_tenant
from tidings.model.language.parser import parse
from tidings.pubsub.tenants import Tenant

Role = Literal["client", "broker"]
"""As what a node attaches."""

Right = Literal["client", "broker", "admin"]
"""What a principal may be: attach as one of the roles, and as a client besides look at the tables of a broker."""

RIGHTS: tuple[Right, ...] = ("client", "broker", "admin")

BEHIND_PRINCIPAL = "+"
"""Stands between the name of a principal, which has none in it, and what tells its clients apart."""

NOBODY_KNOWS_YOU = "this broker does not know that name; ask whoever runs it to add a principal"
WRONG_ROLE = "that role is not given to this principal"
WRONG_NAME = "the node is not named after its principal; call it like the principal, or that, '+' and what you like"
BOUND_TOO_LONG = "the bounds are too long when they are taken together; write them shorter"
CREDENTIALS_NEEDED = "credentials are needed here; show a token"


class Principal(msgspec.Struct, frozen=True):
    name: str
    roles: tuple[Right, ...] = ("client",)
    publish_bound: Filter | None = None
    """What it may publish; None is anything."""
    subscribe_bound: Filter | None = None

    def __post_init__(self) -> None:
        check_printable("principal", self.name)
        if BEHIND_PRINCIPAL in self.name:
            raise UsageError(f"name: {self.name!r} has a {BEHIND_PRINCIPAL!r}, which ends the name of a principal")
        tenant, mark, rest = self.name.partition(TENANT_MARK)
        if mark and not (TENANT_SYNTAX.fullmatch(tenant) and rest and TENANT_MARK not in rest):
            raise UsageError(f"name: {self.name!r} has a {TENANT_MARK!r}, which stands behind a tenant only")
        if mark and "broker" in self.roles:
            raise UsageError(f"roles: {self.name} is of a tenant, and brokers are of none; leave out tenant or broker")
        if not self.roles or any(role not in RIGHTS for role in self.roles):
            raise UsageError(f"roles: {self.roles!r} of {self.name}; give some of {', '.join(RIGHTS)}")
        for bound in (self.publish_bound, self.subscribe_bound):
            if not fits(bound):
                raise UsageError(f"bound of {self.name}: longer than {FILTER_TEXT_BYTES_MAX} bytes as text")


class Verdict(msgspec.Struct, frozen=True):
    """Come in, as this principal."""

    principal: str
    publish_bound: Filter | None = None
    subscribe_bound: Filter | None = None
    expires_at: float | None = None
    """Time of day at which it has to leave again."""
    holder_key: bytes = b""
    """Where it is not empty: only after a signature with this key."""
    roles: tuple[Right, ...] = ()
    """All that it may be."""
    by_name: bool = False
    """It rests on the name alone, and is worth nothing where the link does not prove that."""
    tenant: Tenant | None = None
    """Whose client it is; None where there are no tenants, and for brokers."""


class Judge(Protocol):
    def __call__(self, peer: NodeId, role: Role, credentials: bytes, now: float) -> Verdict | str: ...


class Signatures(Protocol):
    """Ed25519, which comes from outside: the core has no cryptography of its own."""

    def verify(self, public_key: bytes, signature: bytes, data: bytes) -> bool:
        """Never raises, whatever the bytes are."""
        ...


def open_judge(peer: NodeId, role: Role, credentials: bytes, now: float) -> Verdict | str:
    return Verdict(peer)


def closed_judge(peer: NodeId, role: Role, credentials: bytes, now: float) -> Verdict | str:
    return CREDENTIALS_NEEDED


class NameJudge:
    """The link has proved the name; `principals` says what it may do."""

    def __init__(self, principals: Mapping[str, Principal]) -> None:
        self.principals = principals

    def __call__(self, peer: NodeId, role: Role, credentials: bytes, now: float) -> Verdict | str:
        principal = self.principals.get(peer if role == "broker" else principal_of(peer))
        if principal is None:
            return NOBODY_KNOWS_YOU
        if role not in principal.roles:
            return WRONG_ROLE
        bounds = principal.publish_bound, principal.subscribe_bound
        return Verdict(principal.name, *bounds, roles=principal.roles, by_name=True)


def principal_of(node: NodeId) -> str:
    """A principal that is a broker is one node; one that is a client may be several."""
    return node.partition(BEHIND_PRINCIPAL)[0]


def both(one: Filter | None, other: Filter | None) -> Filter | None:
    """The bound that lies in both; None is no bound."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def fits(bound: Filter | None) -> bool:
    return bound is None or len(bound.text().encode()) <= FILTER_TEXT_BYTES_MAX


def bound_text(bound: Filter | None) -> str:
    return "" if bound is None else bound.text()


def statement(nonce: bytes, holder: NodeId, challenger: NodeId) -> bytes:
    """What the holder of a key signs. The names are in it so that a signature given to one broker is of no use at
    another, and the opening words so that it is of no use as anything else."""
    return msgspec.msgpack.encode(("tidings: I hold this key", nonce, holder, challenger))


PRINCIPALS_MAX = 100_000
FIELDS = ("name", "tenant", "roles", "publish", "subscribe")


def read_principals(text: str) -> dict[str, Principal]:
    """By name; UsageError says which entry is wrong and why."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise UsageError(f"principals: {problem}") from None
    entries = tables.pop("principal", [])
    if tables:
        raise UsageError(f"principals: {', '.join(tables)} is not known; every entry is a [[principal]]")
    if not isinstance(entries, list) or len(entries) > PRINCIPALS_MAX:
        raise UsageError(f"principals: give [[principal]] entries, at most {PRINCIPALS_MAX}")
    principals: dict[str, Principal] = {}
    for entry in entries:
        principal = read_entry(entry)
        if principal.name in principals:
            raise UsageError(f"principal {principal.name}: listed twice; list it once")
        principals[principal.name] = principal
    return principals


def read_entry(entry: dict[str, Any]) -> Principal:
    name = entry.get("name")
    if not isinstance(name, str):
        raise UsageError(f"principal {entry!r}: give its name as a text")
    unknown = [field for field in entry if field not in FIELDS]
    if unknown:
        raise UsageError(f"principal {name}: {unknown[0]!r} is not known; give {', '.join(FIELDS)}")
    roles = entry.get("roles", ["client"])
    if not isinstance(roles, list):
        raise UsageError(f"principal {name}: roles is a list, such as ['client']")
    tenant = entry.get("tenant", "")
    if not isinstance(tenant, str) or TENANT_MARK in name + tenant:
        raise UsageError(f"principal {name}: give name and tenant as texts without {TENANT_MARK!r}")
    return Principal(in_tenant(tenant, name), tuple(roles), bound(entry, "publish"), bound(entry, "subscribe"))


def bound(entry: dict[str, Any], field: str) -> Filter | None:
    text = entry.get(field)
    if text is None:
        return None
    try:
        return parse(text)
    except (UsageError, TypeError, AttributeError) as problem:
        raise UsageError(f"principal {entry['name']}: {field} is no filter: {problem}") from None
