"""The file of principals: who may come in, as what, and within which bounds.

    [[principal]]
    name = "ann"
    publish = "type = 'quake' AND region = 'north'"
    subscribe = "type = 'quake'"

    [[principal]]
    name = "north-1"
    roles = ["broker"]

`roles` is ["client"] where it is left out; with "admin" besides, it may look at the tables of a broker. `publish` and
`subscribe` are filters, and where one is left out there is no bound. Whatever else stands in the file is a mistake and
is refused, since a bound that is misspelt is no bound.
"""

import tomllib
from typing import Any

from tidings.model.errors import UsageError
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.protocols.access.judge import Principal

PRINCIPALS_MAX = 100_000
FIELDS = ("name", "roles", "publish", "subscribe")


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
    return Principal(name, tuple(roles), bound(entry, "publish"), bound(entry, "subscribe"))


def bound(entry: dict[str, Any], field: str) -> Filter | None:
    text = entry.get(field)
    if text is None:
        return None
    try:
        return parse(text)
    except (UsageError, TypeError, AttributeError) as problem:
        raise UsageError(f"principal {entry['name']}: {field} is no filter: {problem}") from None
