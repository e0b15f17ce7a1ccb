"""Who is who.

A node is known by a name that is unique in its network and orders totally (ties between nodes are broken by it). A
process that comes back after losing its state is a new node: it takes a new incarnation.
"""

NodeId = str


def incarnation(name: str, number: int) -> NodeId:
    """The name of a node's n-th life: the first is the name itself."""
    return name if number == 0 else f"{name}~{number}"
