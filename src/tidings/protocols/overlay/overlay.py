"""What an overlay is to the node around it.

An overlay decides which brokers are neighbours, and tells routing by signals when one comes and when one goes. How it
decides is its own affair: by a tree that it builds (`spanning_tree.py`), by taking every link as it is
(`all_peers.py`), or as somebody says (`scripted.py`). Two things about it are known before it runs, because routing
that needs more is refused when a node is built: how much it tells of a change (`level`), and whether its neighbours
form a tree (`is_tree`).
"""

from typing import Protocol

from tidings.machine.node import Part
from tidings.model.identity import NodeId
from tidings.pubsub.signals import Level


class Overlay(Part, Protocol):
    @property
    def level(self) -> Level:
        """How much it tells of a change; with what it tells comes that promise."""
        ...

    @property
    def is_tree(self) -> bool:
        """Whether the neighbours of all brokers are, when nothing changes, the links of a tree."""
        ...

    @property
    def neighbours(self) -> list[NodeId]: ...

    def why_unsettled(self) -> str:
        """What is still to be found out before the neighbours are those that there will be; empty when nothing is."""
        ...
