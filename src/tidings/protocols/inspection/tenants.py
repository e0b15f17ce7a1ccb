"""What an admin of a tenant sees of a broker: the rows of that tenant, and as its clients see them.

Rows that belong to a client or a publisher are shown where that is one of the tenant, filters and events without the
mark of the tenant. A filter in a routing table may stand for several tenants; what is shown of it is the tenant's part.
So all tables fit together as they would in a network of its own, and `why` and `doctor` need not know. Brokers and the
links between them are everybody's. Of the counters those are shown that are kept by tenant, and of the settings none.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from tidings.model.errors import UsageError
from tidings.model.filter import Filter
from tidings.model.identity import tenant_of
from tidings.model.language.parser import parse
from tidings.pubsub.rows import (
    AdvertisementRow,
    BrokerRow,
    ClientRow,
    CounterRow,
    EventRow,
    LinkRow,
    Look,
    PopularityRow,
    PublisherRow,
    QueueRow,
    RouteRow,
    Row,
    SubscriptionRow,
    TransportRow,
)
from tidings.pubsub.tenants import TENANT_ATTRIBUTE, conjunct_of, widened


def rows_of(tenant: str, rows: Iterable[Look]) -> Iterator[Row]:
    """What of a table is the tenant's; everything for the admins of none."""
    for look in rows:
        row = shown(tenant, look if isinstance(look, Row) else look())
        if row is not None:
            yield row


def shown(tenant: str, row: Row) -> Row | None:
    match row:
        case BrokerRow() | LinkRow():
            return row
        case SubscriptionRow() if tenant_of(row.client) == tenant:
            return replace(row, filter=without_tenant(row.filter))
        case ClientRow() | QueueRow() | TransportRow() if tenant_of(row.client) == tenant:
            return row
        case AdvertisementRow() if tenant_of(row.publisher) == tenant:
            return replace(row, filter=without_tenant(row.filter))
        case EventRow() if tenant_of(row.publisher) == tenant:
            attributes = {name: value for name, value in row.attributes.items() if name != TENANT_ATTRIBUTE}
            return replace(row, attributes=attributes)
        case PopularityRow() if tenant_of(row.publisher) == tenant:
            return row
        case PublisherRow() if tenant_of(row.publisher) == tenant:
            return row
        case RouteRow():
            return part_of(tenant, row)
        case CounterRow() if row.labels.get("tenant") == tenant:
            return row
    return None


def without_tenant(text: str) -> str:
    filter = read(text)
    return text if filter is None else widened(filter).text()


def part_of(tenant: str, row: RouteRow) -> RouteRow | None:
    # Most of the rows are those of others, and a text is read slowly.
    if TENANT_ATTRIBUTE in row.filter and f"'{tenant}'" not in row.filter:
        return None
    filter = read(row.filter)
    if filter is None or not filter.overlaps(conjunct_of(tenant)):
        return None
    return replace(row, filter=widened(filter & conjunct_of(tenant)).text())


def read(text: str) -> Filter | None:
    try:
        return parse(text)
    except UsageError:
        return None
