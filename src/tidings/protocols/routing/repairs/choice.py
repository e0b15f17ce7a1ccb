"""The repairs by name, and which of them fit an overlay."""

from collections.abc import Callable

from tidings.model.errors import UsageError
from tidings.protocols.routing.params import RepairName
from tidings.protocols.routing.repairs.informed import InformedRepair
from tidings.protocols.routing.repairs.notified import NotifiedRepair
from tidings.protocols.routing.repairs.path import PathRepair
from tidings.protocols.routing.repairs.repair import Repair
from tidings.protocols.routing.repairs.strawman import Resuming, Strawman
from tidings.protocols.routing.repairs.timed import TimedRepair
from tidings.protocols.routing.subscriptions import RoutingSubscriptions
from tidings.pubsub.signals import Level

MakeRepair = Callable[[RoutingSubscriptions], Repair]

REPAIRS: dict[RepairName, type[Repair]] = {
    "strawman": Strawman,
    "resuming": Resuming,
    "timed": TimedRepair,
    "notified": NotifiedRepair,
    "informed": InformedRepair,
    "path": PathRepair,
}

TELLS = {
    Level.LINKS: "when neighbours come and go",
    Level.REPLACEMENTS: "which new link replaces which old one",
    Level.PATHS: "all brokers between an old link and the new one",
}


def check_level(repair: Repair, overlay: str, level: Level) -> None:
    """UsageError where the repair needs to know what the overlay of that name and level cannot tell (D-7)."""
    if repair.needs > level:
        fitting = ", ".join(name for name, known in REPAIRS.items() if known.needs <= level)
        name = next((name for name, known in REPAIRS.items() if known is type(repair)), type(repair).__name__)
        raise UsageError(
            f"repair: {name} needs to know {TELLS[repair.needs]} (level {repair.needs.name}), and "
            f"overlay {overlay} tells only {TELLS[level]} ({level.name}); with it use one of: {fitting}"
        )
