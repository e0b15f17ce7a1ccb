"""What tenants have of each broker, for `tidings top`: read from counters that are kept by tenant.

Connections, subscriptions and stored bytes are as they are now; events and bytes a second come from two looks at what
was accepted. Where a tenant has a bound it stands behind a slash.
"""

from collections.abc import Mapping, Sequence

import msgspec
from rich import box
from rich.table import Table

from tidings.cli.output import drawn
from tidings.pubsub.rows import CounterRow

TENANT_HEADER = ("tenant", "broker", "connections", "subs", "events/s", "kB/s", "stored MB", "refused")


class TenantLoad(msgspec.Struct, frozen=True):
    """One tenant at one broker over one period."""

    tenant: str
    broker: str
    connections: float = 0
    subscriptions: float = 0
    events_per_second: float = 0.0
    bytes_per_second: float = 0.0
    stored_bytes: float = 0
    bounds: dict[str, float] = {}
    """By what is bounded."""
    refused: float = 0
    """Connections, subscriptions and events, since the start of the broker."""


Counters = Mapping[str, Sequence[CounterRow]]


def tenant_loads(before: Counters, after: Counters, seconds: float) -> list[TenantLoad]:
    """By tenant and broker, sorted."""
    loads = []
    for broker, rows in after.items():
        old, new = by_tenant(before.get(broker, ()), "use"), by_tenant(rows, "use")
        bounds, refused = by_tenant(rows, "bound"), by_tenant(rows, "refusals")
        for tenant in sorted(new.keys() | bounds.keys()):
            had, has = old.get(tenant, {}), new.get(tenant, {})
            loads.append(
                TenantLoad(
                    tenant=tenant,
                    broker=broker,
                    connections=has.get("connections", 0),
                    subscriptions=has.get("subscriptions", 0),
                    events_per_second=rate(had, has, "events", seconds),
                    bytes_per_second=rate(had, has, "bytes", seconds),
                    stored_bytes=has.get("stored_bytes", 0),
                    bounds=bounds.get(tenant, {}),
                    refused=sum(refused.get(tenant, {}).values()),
                )
            )
    return sorted(loads, key=lambda load: (load.tenant, load.broker))


def rate(had: Mapping[str, float], has: Mapping[str, float], name: str, seconds: float) -> float:
    """Nothing where it was not counted before, and after a restart."""
    return max(0.0, has.get(name, 0) - had.get(name, has.get(name, 0))) / seconds


def by_tenant(rows: Sequence[CounterRow], kind: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if row.name == f"tidings_tenant_{kind}":
            found.setdefault(row.labels["tenant"], {})[row.labels["quota"]] = row.value
    return found


def tenant_cells(load: TenantLoad) -> list[str]:
    return [
        load.tenant,
        load.broker,
        bounded(load.connections, load.bounds.get("connections")),
        bounded(load.subscriptions, load.bounds.get("subscriptions")),
        bounded(load.events_per_second, load.bounds.get("events_per_second")),
        bounded(load.bytes_per_second, load.bounds.get("bytes_per_second"), 1000),
        bounded(load.stored_bytes, load.bounds.get("stored_bytes"), 1_000_000),
        f"{load.refused:,.0f}",
    ]


def bounded(value: float, bound: float | None, unit: int = 1) -> str:
    digits = 0 if unit == 1 else 1
    text = f"{value / unit:,.{digits}f}"
    return text if bound is None else f"{text}/{bound / unit:,.{digits}f}"


def draw_tenants(loads: Sequence[TenantLoad]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for name in TENANT_HEADER:
        table.add_column(name, justify="left" if name in ("tenant", "broker") else "right")
    for load in loads:
        table.add_row(*drawn(tenant_cells(load)))
    return table
