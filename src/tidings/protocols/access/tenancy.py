"""Whose client is this? The judge of a network that several tenants share.

A principal of the tenant acme is called `acme!ann` in the whole network, and its clients `acme!ann`, `acme!ann+desk`.
So the name of a node says the tenant too, and two tenants may each have an ann. Who says only `ann`, and shows a token
of `acme!ann`, is called that from then on.
`TenantJudge` asks another judge who it is and adds the tenant with its bounds. A tenant that is not configured is not
let in. Brokers are above tenants, and are judged as ever.

An authority may be bound to tenants: then it signs tokens for their principals only, and for nobody else. That is what
lets a tenant issue tokens itself.

Nobody attaches under the name of a tenant that is not his, and of none where no tenants are configured (`called_in`):
otherwise a stranger could pass for a publisher of a tenant elsewhere in the network. And nobody becomes somebody of a
tenant by a name without it: a token that was meant for another ann would become hers when a tenant lists one.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from tidings.model.errors import UsageError
from tidings.model.identity import TENANT_MARK, NodeId, in_tenant, tenant_of
from tidings.protocols.access.judge import Judge, Role, Verdict
from tidings.pubsub.rows import Gauge, tenant_refusals, tenant_use
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


class TenantConnections:
    """How many clients of each tenant are in, and how often one more was not let in."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.kept_out: Counter[str] = Counter()

    def enter(self, tenant: Tenant | None) -> str:
        """Counts it, or says why it may not."""
        if tenant is None:
            return ""
        if tenant.connections_max is not None and self.counts[tenant.name] >= tenant.connections_max:
            self.kept_out[tenant.name] += 1
            return FULL_TENANT.format(tenant=tenant.name, count=tenant.connections_max)
        self.counts[tenant.name] += 1
        return ""

    def leave(self, tenant: Tenant | None) -> None:
        if tenant is not None:
            self.counts[tenant.name] -= 1

    def gauges(self) -> Iterator[Gauge]:
        for tenant, count in self.counts.items():
            yield tenant_use(tenant, "connections", count)
        for tenant, count in self.kept_out.items():
            yield tenant_refusals(tenant, "connections", count)


def called_in(node: NodeId, tenant: Tenant | None) -> NodeId:
    """What a node of this tenant that says this name is called in the network; empty if it must not say it."""
    name = "" if tenant is None else tenant.name
    if TENANT_MARK not in node:
        return in_tenant(name, node)
    return node if name and node.startswith(f"{name}{TENANT_MARK}") else ""
