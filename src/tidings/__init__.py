"""Content-based publish/subscribe: events carry attributes, filters ask for them, brokers bring them together.

The names most programs need can be taken from here. Each is loaded on first use, so that `import tidings` stays quick
and a program pays only for what it touches.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidings import blocking, matching
    from tidings.matching.merging import merge
    from tidings.model.errors import FilterSyntaxError, UsageError
    from tidings.model.event import Event
    from tidings.model.filter import Filter
    from tidings.model.language.builder import attr
    from tidings.model.language.parser import parse
    from tidings.model.regions import Region
    from tidings.net.client.client import Client
    from tidings.net.client.connection import connect
    from tidings.net.client.history import Mark, Marks, Stored
    from tidings.net.client.requests import Reply
    from tidings.net.client.subscription import Delivered, Subscription
    from tidings.net.collect.collection import collect
    from tidings.net.errors import (
        ClientError,
        Closed,
        NamesakeWarning,
        NotAnswered,
        NotConfirmed,
        NotPermitted,
        NotReachable,
        Refused,
        TooSlow,
    )
    from tidings.protocols.transport.params import CongestionParams, OrderingParams, RecoveryParams, TransportParams
    from tidings.protocols.transport.signals import Quality
    from tidings.protocols.transport.views import TransportState

__version__ = "0.1.0"
__all__ = [
    "Client",
    "ClientError",
    "Closed",
    "CongestionParams",
    "Delivered",
    "Event",
    "Filter",
    "FilterSyntaxError",
    "Mark",
    "Marks",
    "NamesakeWarning",
    "NotAnswered",
    "NotConfirmed",
    "NotPermitted",
    "NotReachable",
    "OrderingParams",
    "Quality",
    "RecoveryParams",
    "Refused",
    "Region",
    "Reply",
    "Stored",
    "Subscription",
    "TooSlow",
    "TransportParams",
    "TransportState",
    "UsageError",
    "attr",
    "blocking",
    "collect",
    "connect",
    "matching",
    "merge",
    "parse",
]

MODULES = ("blocking", "matching")

HOMES = {
    "Client": "tidings.net.client.client",
    "ClientError": "tidings.net.errors",
    "Closed": "tidings.net.errors",
    "CongestionParams": "tidings.protocols.transport.params",
    "Delivered": "tidings.net.client.subscription",
    "Event": "tidings.model.event",
    "Filter": "tidings.model.filter",
    "FilterSyntaxError": "tidings.model.errors",
    "Mark": "tidings.net.client.history",
    "Marks": "tidings.net.client.history",
    "NamesakeWarning": "tidings.net.errors",
    "NotAnswered": "tidings.net.errors",
    "NotConfirmed": "tidings.net.errors",
    "NotPermitted": "tidings.net.errors",
    "NotReachable": "tidings.net.errors",
    "OrderingParams": "tidings.protocols.transport.params",
    "Quality": "tidings.protocols.transport.signals",
    "RecoveryParams": "tidings.protocols.transport.params",
    "Refused": "tidings.net.errors",
    "Region": "tidings.model.regions",
    "Reply": "tidings.net.client.requests",
    "Stored": "tidings.net.client.history",
    "Subscription": "tidings.net.client.subscription",
    "TooSlow": "tidings.net.errors",
    "TransportParams": "tidings.protocols.transport.params",
    "TransportState": "tidings.protocols.transport.views",
    "UsageError": "tidings.model.errors",
    "attr": "tidings.model.language.builder",
    "collect": "tidings.net.collect.collection",
    "connect": "tidings.net.client.connection",
    "merge": "tidings.matching.merging",
    "parse": "tidings.model.language.parser",
}


def __getattr__(name: str) -> object:
    if name in MODULES:
        return import_module(f"tidings.{name}")
    if name not in HOMES:
        raise AttributeError(f"module 'tidings' has no attribute {name!r}")
    value: object = getattr(import_module(HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
