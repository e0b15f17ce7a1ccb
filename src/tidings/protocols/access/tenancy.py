"""Whose client is this? The judge of a network that several tenants share.

A principal of the tenant acme is called `acme!ann` in the whole network, and its clients `acme!ann`, `acme!ann+desk`.
So the name of the node, which the other judges have proved, says the tenant too, and two tenants may each have an ann.
`TenantJudge` asks another judge who it is and adds the tenant with its bounds. A tenant that is not configured is not
let in. Brokers are above tenants, and are judged as ever.

An authority may be bound to tenants: then it signs tokens for their principals only, and for nobody else. That is what
lets a tenant issue tokens itself.

Where no tenants are configured nobody attaches under a name with the mark (`is_named_after`): otherwise a stranger at
such a broker could pass for a publisher of a tenant elsewhere in the network.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from tidings.model.errors import UsageError
from tidings.model.identity import TENANT_MARK, NodeId, tenant_of
from tidings.protocols.access.judge import Judge, Role, Verdict
from tidings.pubsub.tenants import TENANTS_MAX, Tenant

UNKNOWN_TENANT = "there is no such tenant here; ask whoever runs the broker to add it"
WRONG_TENANT = "the name is that of a tenant, and you are not of it; take a name without '!'"
FULL_TENANT = "the tenant {tenant} has its {count} connections already; close one, or have connections_max raised"


class TenantJudge:
    """`tenants` by name; whoever is in none of them belongs to `default`."""

    def __init__(self, judge: Judge, tenants: Mapping[str, Tenant]) -> None:
        if len(tenants) > TENANTS_MAX:
            raise UsageError(f"tenants: {len(tenants)} of them, at most {TENANTS_MAX} are allowed")
        self.judge, self.tenants = judge, tenants
        self.default = Tenant()

    def __call__(self, peer: NodeId, role: Role, credentials: bytes, now: float) -> Verdict | str:
        verdict = self.judge(peer, role, credentials, now)
        if isinstance(verdict, str) or role == "broker":
            return verdict
        name = tenant_of(verdict.principal)
        tenant = self.tenants.get(name) if name else self.default
        return UNKNOWN_TENANT if tenant is None else replace(verdict, tenant=tenant)


def is_full(connections: int, tenant: Tenant) -> bool:
    return tenant.connections_max is not None and connections >= tenant.connections_max


def is_named_after(node: NodeId, tenant: Tenant | None) -> bool:
    """Whether a node of this tenant may have this name."""
    name = "" if tenant is None else tenant.name
    return node.startswith(f"{name}{TENANT_MARK}") if name else TENANT_MARK not in node
