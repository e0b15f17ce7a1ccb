"""The options of a table in SQL, which Spark does not hand to a source in Python.

    CREATE TABLE quotes USING tidings OPTIONS (url 'tidings://localhost:7411', filter 'price > 100')
    SELECT symbol, max(price) FROM quotes GROUP BY symbol

Spark (4.3) gives a source the options of a table when it asks for its schema, as the table is created, and never again:
whoever reads the table later gets what `WITH (...)` says there, and nothing else. But it keeps the schema, with the
metadata of columns, and hands it over at each read. So the schema that we answer with carries the options, in the
metadata of its columns; what is said at a read comes before them.

Only a table without columns of its own asks us for a schema. Of one that has them Spark drops the options before we
hear of it, and a read of it says so.

Writers do not look here. Rows that were read from such a table bring its schema along, and where they go is to be said
by whoever writes them. Nor do we keep a token: whoever may list tables would see it.
"""

from collections.abc import Mapping

import msgspec
from pyspark.sql.types import StructField, StructType

from tidings.model.errors import UsageError

PROVIDER = "provider"
"""What says that a table is being created."""

OPTION = "option."
"""How its options are called then, once more."""

KEPT = "tidings.options"
"""In the metadata of a column."""

SECRETS = frozenset({"token"})

NO_SECRETS = (
    "CREATE TABLE: option {name} would stand in the catalog for everybody to see; say it in the environment "
    "(TIDINGS_TOKEN), or where the table is read: SELECT * FROM name WITH (`{name}` = '...')"
)


def is_table(given: Mapping[str, str]) -> bool:
    return PROVIDER in given


def table_options(given: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """What is said of a table that is being created, among much that Spark and the catalog say of it; `known` are our
    names, by their lower case. Names behind OPTION are meant for us, whatever they are."""
    said = {name: value for name, value in given.items() if name.lower() in known}
    return said | {name.removeprefix(OPTION): value for name, value in given.items() if name.startswith(OPTION)}


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """In every column, because a table may lose any of them."""
    for name in options:
        if name.lower() in SECRETS:
            raise UsageError(NO_SECRETS.format(name=name))
    kept = msgspec.json.encode(dict(options), order="sorted").decode()
    return StructType(
        [StructField(it.name, it.dataType, it.nullable, {**(it.metadata or {}), KEPT: kept}) for it in schema.fields]
    )


def kept_options(schema: StructType) -> dict[str, str]:
    """Those with which the table was created of which this is the schema."""
    for field in schema.fields:
        if kept := (field.metadata or {}).get(KEPT):
            return msgspec.json.decode(kept, type=dict[str, str])
    return {}


def without_options(schema: StructType) -> StructType:
    """As it would be had nobody created a table: what a stream reads is the same, wherever its options stand."""
    return StructType(
        [
            StructField(it.name, it.dataType, it.nullable, {k: v for k, v in (it.metadata or {}).items() if k != KEPT})
            for it in schema.fields
        ]
    )
