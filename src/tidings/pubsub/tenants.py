"""Tenants: several networks in one, of which none can tell that the others are there.

The problem. Two firms, or two teams, share the brokers of one network. Neither may see what the other publishes, asks
for or stores, whatever filters it writes, and neither may use up what the other needs.

The idea. A tenant is one more condition. Every event of a tenant carries the attribute `tidings.tenant`, and every
filter of its clients, what they advertise as well as what they ask for, has the conjunct `tidings.tenant = 'acme'`.
The broker of the client adds both when it hears them and takes them away again from what it hands to a client, and no
client can write or ask for that attribute itself. So separation is nothing that brokers on the way have to know of: two
filters of different tenants do not overlap, and that is proved by the same algebra that routes everything else. Clients
of no tenant have the conjunct `NOT EXISTS tidings.tenant`, where there are tenants at all.

Names. A client of a tenant is called `acme!ann` in the network (`model/identity.py`), and so is the publisher of an
event. Whoever attaches under such a name is a principal of that tenant, or is turned away. That makes a second wall: a
broker passes nothing on to a client whose tenant is not that of the publisher, also where filters say nothing because
no tenants are configured there.

Stamps. The attribute stands in front of the others in an encoded head, so that putting it in and taking it out is a cut
and no encoding. What was malformed before is malformed with it.
"""

from functools import lru_cache
from typing import NamedTuple

import msgspec

from tidings.model.bounds import ATTRIBUTES_MAX
from tidings.model.errors import UsageError
from tidings.model.filter import Filter, canonical_filter, conditions_of
from tidings.model.identity import TENANT_SYNTAX
from tidings.model.language.expression import Attribute, Exists, Expression, all_of, filter_expression, walk
from tidings.model.language.parser import parse
from tidings.pubsub.publications import MAP_HEADS, SHORT_MAP, BadPublication, encoder, names_announced, read_head

TENANT_ATTRIBUTE = "tidings.tenant"
RESERVED_BYTES = TENANT_ATTRIBUTE.encode()
SHORT_NAMES_MAX, MAP_16 = 15, b"\xde"
"""Attributes that the shortest form of a map holds, and the mark of the next."""

TENANTS_MAX = 1000
"""Tenants of one network: each is a row in the metrics."""

SET_BY_BROKERS = f"the attribute {TENANT_ATTRIBUTE} is set by brokers; leave it out"
ASKS_RESERVED = f"the attribute {TENANT_ATTRIBUTE} is not for filters: you see what is yours anyway; leave it out"
TOO_MANY_ATTRIBUTES = f"in a tenant an event has at most {ATTRIBUTES_MAX - 1} attributes; put some into the payload"
NO_MAP = "the head is no encoded event: its attributes are no map"
TOO_WIDE = "the filter is too long to be kept apart from those of other tenants; use a shorter one, or several"


class Tenant(msgspec.Struct, frozen=True):
    """A tenant, and how much its clients may have of one broker, all together; None is no bound of its own. The one
    without a name is that of everybody who is in none, where there are tenants."""

    name: str = ""
    connections_max: int | None = None
    subscriptions_max: int | None = None
    publishers_max: int | None = None
    """Clients that publish, those included that left and of which something is stored."""
    events_per_second_max: float | None = None
    """Publications that are accepted; after a pause as many as a second allows come at once."""
    bytes_per_second_max: float | None = None
    """Heads and payloads of these."""
    stored_bytes_max: int | None = None
    """Heads and payloads in history; beyond it the oldest of the tenant are forgotten."""

    def __post_init__(self) -> None:
        if self.name and not TENANT_SYNTAX.fullmatch(self.name):
            raise UsageError(
                f"tenant {self.name!r:.80}: use ASCII letters, digits, - and _, a letter first, at most 64 in all"
            )
        for field in QUOTAS:
            bound = getattr(self, field)
            if bound is not None and not 0 < bound < float("inf"):
                raise UsageError(f"tenant {self.name}: {field} is {bound}; give more than 0, or leave it out")


QUOTAS = tuple(field for field in Tenant.__struct_fields__ if field != "name")


@lru_cache(TENANTS_MAX)
def conjunct_of(tenant: str) -> Filter:
    """What all events of the tenant match, and no others."""
    return parse(f"{TENANT_ATTRIBUTE} = '{tenant}'" if tenant else f"NOT EXISTS {TENANT_ATTRIBUTE}")


def narrowed(filter: Filter, tenant: str) -> Filter:
    """What of it lies in the tenant; UsageError where that cannot be told from what lies in others."""
    conjunct = conjunct_of(tenant)
    narrow = conjunct & filter
    own = conjunct.conjunctions[0][0]
    if not all(own in conjunction for conjunction in narrow.conjunctions):
        raise UsageError(TOO_WIDE)
    return narrow


def widened(filter: Filter) -> Filter:
    """The filter without its tenant, as a client may see it."""
    conjunctions = [
        tuple(constraint for constraint in conjunction if constraint.name != TENANT_ATTRIBUTE)
        for conjunction in filter.conjunctions
    ]
    if filter.residual is None:
        return canonical_filter(conjunctions, None)
    conditions = [each for each in conditions_of(filter.residual) if not asks_for_tenant(each)]
    return canonical_filter(conjunctions, all_of(conditions))


def is_reserved(filter: Filter) -> bool:
    """Whether it asks for what only brokers may."""
    return asks_for_tenant(filter_expression(filter))


def asks_for_tenant(expression: Expression) -> bool:
    return any(isinstance(part, Attribute | Exists) and part.name == TENANT_ATTRIBUTE for part in walk(expression))


def stamped(heads: tuple[bytes, ...], tenant: str) -> tuple[bytes, ...]:
    """The heads as they travel, marked as of the tenant; in place of one that must not travel one of REFUSED_HEADS. Of
    no tenant they stay as they are."""
    if RESERVED_BYTES in b"".join(heads):
        heads = tuple([FORGED if forges(head) else head for head in heads])
    if not tenant:
        return heads
    longer, pair = openings(tenant).longer, pair_of(tenant)
    found = [longer.get(head[:1]) for head in heads]
    return tuple(
        [with_pair(head, pair) if begin is None else begin + head[1:] for begin, head in zip(found, heads, strict=True)]
    )


def unstamped(heads: tuple[bytes, ...], tenant: str) -> tuple[bytes, ...]:
    """The heads as they were written."""
    if not tenant:
        return heads
    shorter, pair = openings(tenant).shorter, pair_of(tenant)
    length = 1 + len(pair)
    found = [shorter.get(head[:length]) for head in heads]
    return tuple(
        [
            without_pair(head, pair) if begin is None else begin + head[length:]
            for begin, head in zip(found, heads, strict=True)
        ]
    )


class Openings(NamedTuple):
    """The usual case, a map of few attributes, looked up instead of worked out."""

    longer: dict[bytes, bytes]
    """The mark of a map: that of one with the stamp, and the stamp."""
    shorter: dict[bytes, bytes]
    """The other way round."""


@lru_cache(TENANTS_MAX)
def openings(tenant: str) -> Openings:
    pair, counts = pair_of(tenant), range(SHORT_NAMES_MAX)
    longer = {map_mark(count): map_mark(count + 1) + pair for count in counts}
    return Openings(longer, {begin: mark for mark, begin in longer.items()})


@lru_cache(TENANTS_MAX)
def pair_of(tenant: str) -> bytes:
    """What all heads of a tenant begin with, behind the count of attributes."""
    return encoder.encode(TENANT_ATTRIBUTE) + encoder.encode(tenant)


def with_pair(head: bytes, pair: bytes) -> bytes:
    if head in REFUSED_HEADS:
        return head
    if len(head) < mark_bytes(head):
        return MALFORMED
    try:
        count = names_announced(head, 0)
    except BadPublication:
        return MALFORMED
    if count >= ATTRIBUTES_MAX:
        return CROWDED
    return map_mark(count + 1) + pair + head[mark_bytes(head) :]


def without_pair(head: bytes, pair: bytes) -> bytes:
    begin = mark_bytes(head)
    if not head.startswith(pair, begin):
        return head
    return map_mark(names_announced(head, 0) - 1) + head[begin + len(pair) :]


def mark_bytes(head: bytes) -> int:
    """How long the mark of the map is."""
    return 1 + MAP_HEADS.get(head[0], 0) if head else 1


def map_mark(count: int) -> bytes:
    return bytes((SHORT_MAP + count,)) if count <= SHORT_NAMES_MAX else MAP_16 + count.to_bytes(2)


def forges(head: bytes) -> bool:
    """Whether somebody wrote the reserved attribute into a head."""
    if RESERVED_BYTES not in head:
        return False
    try:
        return TENANT_ATTRIBUTE in read_head(head).attributes
    except BadPublication:
        return False


# Bytes that begin no map, and are longer than nothing.
FORGED, CROWDED, MALFORMED = b"\xc1 forged", b"\xc1 crowded", b"\xc1 malformed"
REFUSED_HEADS = {FORGED: SET_BY_BROKERS, CROWDED: TOO_MANY_ATTRIBUTES, MALFORMED: NO_MAP}
"""What stands for a head that must not travel, and why it must not."""
