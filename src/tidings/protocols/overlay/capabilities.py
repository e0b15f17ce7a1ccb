"""Which ways of repairing routing tables an overlay can serve.

When the overlay changes, routing repairs its tables, and the published ways to do so need to be told different things.
An overlay has a level, a strategy asks for one; a pair that does not fit is refused when the node is built, since it
would not fail at once but lose events at the first change of a link.

Source: the specification of dynamic topologies, 2.3 (levels) and 3.8 (what each strategy needs); requirement D-7.
"""

from enum import Enum, IntEnum

from tidings.model.errors import UsageError


class Level(IntEnum):
    LINKS = 0
    """L0: a neighbour came, a neighbour went; nothing says that the two have to do with each other."""
    REPLACEMENTS = 1
    """L1: besides, which new link replaces which old one; the loss of the old is told before the gain of the new."""
    PATHS = 2
    """L2: besides, all brokers on the path between the old link and the new."""


class Overlay(Enum):
    """The overlays that are named in the literature, those that are built here, and what they tell."""

    SPANNING_TREE = "spanning tree", Level.LINKS
    ALL_PEERS = "all peers", Level.LINKS
    LSTREE = "LSTree", Level.REPLACEMENTS
    WITREE = "WiTree", Level.REPLACEMENTS
    DHTREE = "DHTree", Level.LINKS
    SCRIPTED = "scripted", Level.PATHS

    def __init__(self, title: str, level: Level) -> None:
        self.title, self.level = title, level


class Strategy(Enum):
    STRAWMAN = "STRAWMAN", Level.LINKS
    TIMED = "TIMED DEFERRED UNSUBSCRIPTION", Level.LINKS
    NOTIFIED = "NOTIFIED DEFERRED UNSUBSCRIPTION", Level.REPLACEMENTS
    INFORMED = "INFORMED LINK ACTIVATION", Level.REPLACEMENTS
    PATH = "RECONFIGURATION PATH", Level.PATHS

    def __init__(self, title: str, level: Level) -> None:
        self.title, self.level = title, level


NEEDS = {
    Level.LINKS: "when neighbours come and go",
    Level.REPLACEMENTS: "which new link replaces which old one",
    Level.PATHS: "all brokers between an old link and the new one",
}


def check(strategy: Strategy, overlay: Overlay) -> None:
    """UsageError where the strategy needs to know what the overlay cannot tell."""
    if strategy.level > overlay.level:
        fitting = ", ".join(other.title for other in Strategy if other.level <= overlay.level)
        raise UsageError(
            f"{strategy.title} needs to know {NEEDS[strategy.level]}, which {overlay.title} does not tell; "
            f"with it use one of: {fitting}"
        )
