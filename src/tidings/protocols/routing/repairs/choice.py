"""The repairs by name, and which of them fit an overlay."""

import warnings
from collections.abc import Callable

from tidings.model.errors import UsageError
from tidings.protocols.routing.params import RepairName, RoutingParams
from tidings.protocols.routing.repairs.informed import InformedRepair
from tidings.protocols.routing.repairs.notified import NotifiedRepair
from tidings.protocols.routing.repairs.path import PathRepair
from tidings.protocols.routing.repairs.repair import Repair
from tidings.protocols.routing.repairs.shift import ShiftRepair
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
    "shift": ShiftRepair,
}

TELLS = {
    Level.LINKS: "when neighbours come and go",
    Level.REPLACEMENTS: "which new link replaces which old one",
    Level.PATHS: "all brokers between an old link and the new one",
}


class TimesWarning(UserWarning):
    """The times of a repair do not fit each other: it is right all the same, and saves nothing."""


def warn_of_times(params: RoutingParams) -> None:
    """Where eq. 6.1 does not hold (`informed.py`); the time in which filters spread is taken for nothing."""
    released_at = params.subscribe_after + params.reconnect_after
    if params.repair == "informed" and params.reconnect_after and params.unsubscribe_after >= released_at:
        warnings.warn(
            f"unsubscribe_after: {params.unsubscribe_after} s is not less than subscribe_after and reconnect_after "
            f"together ({released_at:g} s), so filters are told before old routes are gone; raise subscribe_after",
            TimesWarning,
            stacklevel=2,
        )


def check_level(repair: Repair, overlay: str, level: Level) -> None:
    """UsageError where the repair needs to know what the overlay of that name and level cannot tell (D-7); a warning
    where its times do not fit."""
    if isinstance(repair, InformedRepair):
        warn_of_times(repair.params)
    if repair.needs > level:
        fitting = ", ".join(name for name, known in REPAIRS.items() if known.needs <= level)
        name = next((name for name, known in REPAIRS.items() if known is type(repair)), type(repair).__name__)
        raise UsageError(
            f"repair: {name} needs to know {TELLS[repair.needs]} (level {repair.needs.name}), and "
            f"overlay {overlay} tells only {TELLS[level]} ({level.name}); with it use one of: {fitting}"
        )
