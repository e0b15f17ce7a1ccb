"""Who is who.

A node is known by a name that is unique in its network and orders totally (ties between nodes are broken by it). A
process that comes back after losing its state is a new node: it takes a new incarnation.
"""

NodeId = str

ADDRESS_MARK = "@"


def at(host: str, port: int) -> NodeId:
    """Whoever answers there: how to ask for a link with a node of which only the address is known. When the link is up,
    its real name is told with it. No node has such a name."""
    return f"{ADDRESS_MARK}{host}:{port}"


def is_address(name: NodeId) -> bool:
    return name.startswith(ADDRESS_MARK)


def incarnation(name: str, number: int) -> NodeId:
    """The name of a node's n-th life: the first is the name itself."""
    return name if number == 0 else f"{name}~{number}"
