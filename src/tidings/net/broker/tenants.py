"""The tenants of a broker, as its settings name them.

    [tenants.acme]
    connections_max = 100
    subscriptions_max = 5000
    publishers_max = 200
    events_per_second_max = 1000
    bytes_per_second_max = 1_000_000
    stored_bytes_max = 100_000_000
    authorities = ["acme-office"]

    [tenants.zeta]

Every tenant has its table, an empty one where it has no bounds of its own. `authorities` are the names of those that
sign tokens for the principals of this tenant, and for nobody else; one that no tenant names signs for everybody.

All brokers of a network name the same tenants. The table is read again with the principals: whoever is of a tenant that
is gone is turned away, and whoever is of one with other bounds comes back and is held to them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from tidings.model.errors import UsageError
from tidings.model.identity import tenant_of
from tidings.pubsub.rows import Gauge, tenant_bound
from tidings.pubsub.tenants import QUOTAS, TENANTS_MAX, Tenant


class TenantTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stands under the name of a tenant; `Tenant` says what it means."""

    connections_max: int | None = None
    subscriptions_max: int | None = None
    publishers_max: int | None = None
    events_per_second_max: float | None = None
    bytes_per_second_max: float | None = None
    stored_bytes_max: int | None = None
    authorities: tuple[str, ...] = ()


class ConfiguredTenants:
    """`ConfiguredTenants({"acme": {"connections_max": 100}})`; UsageError says which tenant is wrong and why."""

    def __init__(self, tables: Mapping[str, Any]) -> None:
        if len(tables) > TENANTS_MAX:
            raise UsageError(f"tenants: {len(tables)} of them, at most {TENANTS_MAX} are allowed")
        self.by_name: dict[str, Tenant] = {}
        self.signs_for: dict[str, set[str]] = {}
        """Authorities that are bound, with their tenants."""
        for name, given in tables.items():
            try:
                table = msgspec.convert(given, TenantTable)
            except msgspec.ValidationError as problem:
                raise UsageError(f"[tenants.{name}] {problem}") from None
            if not name:
                raise UsageError("tenants: a tenant has a name; write [tenants.acme]")
            self.by_name[name] = Tenant(name, **{quota: getattr(table, quota) for quota in QUOTAS})
            for authority in table.authorities:
                self.signs_for.setdefault(authority, set()).add(name)

    def check(self, authorities: Collection[str], principals: Iterable[str]) -> None:
        """UsageError where an authority is named that there is not, or a principal is of a tenant that there is not."""
        for authority in self.signs_for:
            if authority not in authorities:
                raise UsageError(
                    f"tenants: there is no authority {authority!r} here; add {authority}.pub to the authorities"
                )
        for principal in principals:
            if (tenant := tenant_of(principal)) and tenant not in self.by_name:
                raise UsageError(f"principals: there is no tenant {tenant!r}; add [tenants.{tenant}] to the settings")

    def rows(self) -> Iterator[tuple[str, Any]]:
        """What is set, one by one."""
        for name, tenant in self.by_name.items():
            for quota in QUOTAS:
                if (value := getattr(tenant, quota)) is not None:
                    yield f"tenants.{name}.{quota}", value
            if authorities := [each for each, tenants in self.signs_for.items() if name in tenants]:
                yield f"tenants.{name}.authorities", authorities

    def gauges(self) -> Iterator[Gauge]:
        for name, tenant in self.by_name.items():
            for quota in QUOTAS:
                if (value := getattr(tenant, quota)) is not None:
                    yield tenant_bound(name, quota.removesuffix("_max"), value)
