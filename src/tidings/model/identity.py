"""Who is who.

A node is known by a name that is unique in its network and orders totally (ties between nodes are broken by it).

Where several tenants share a network, the name of a client says whose it is: `acme!ann` is the client ann of the tenant
acme. A name without the mark belongs to no tenant.

A client may come back under its name as another process, which knows nothing of the numbers that the earlier one gave
its publications; or two processes may use one name at once. So each such *life* of a publisher is a publisher of its
own in the network: its name, a mark, and a word that is drawn at random. Nobody is called so by himself.
"""

import re

NodeId = str

ADDRESS_MARK = "@"

LIFE_MARK = "~"

TENANT_MARK = "!"
"""Stands between the name of a tenant and that of its client or principal."""

TENANT_SYNTAX = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}", re.ASCII)


def at(host: str, port: int) -> NodeId:
    """Whoever answers there: how to ask for a link with a node of which only the address is known. When the link is up,
    its real name is told with it. No node has such a name."""
    return f"{ADDRESS_MARK}{host}:{port}"


def is_address(name: NodeId) -> bool:
    return name.startswith(ADDRESS_MARK)


VISITOR_MARK = "?"


def visitor(number: int) -> NodeId:
    """How the n-th stranger is called until it is known who that is. No node has such a name."""
    return f"{VISITOR_MARK}{number}"


def is_visitor(name: NodeId) -> bool:
    return name.startswith(VISITOR_MARK)


def tenant_of(name: str) -> str:
    """The tenant whose client, publisher or principal has this name; empty where it is of none."""
    tenant, mark, _ = name.partition(TENANT_MARK)
    return tenant if mark else ""


def in_tenant(tenant: str, name: str) -> str:
    """What the client or principal is called in the whole network."""
    return f"{tenant}{TENANT_MARK}{name}" if tenant else name


def life_of(name: NodeId, life: str) -> NodeId:
    """This life of the publisher `name`; without one it is the name itself."""
    return f"{name}{LIFE_MARK}{life}" if life else name


def name_of(publisher: NodeId) -> NodeId:
    """The client whose life it is."""
    return publisher.partition(LIFE_MARK)[0]
