"""The sections of a broker's settings: one for each of its parts, made from the parameters of that part.

So a new parameter is a new setting without a further word. A part that can be of several kinds has a setting `kind`
that chooses, and the rest of its section are the parameters of that kind. What has parameters inside a part, as the
ring under a dhtree, is written flat: `overlay.ring_period` is `DhTreeParams(ring=RingParams(period=...))`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

import msgspec

from tidings.net.errors import HostError
from tidings.net.params import HostParams
from tidings.nodes.choices import AnyRoutingParams, OverlayParams, kind_of
from tidings.protocols.access.params import AccessParams
from tidings.protocols.coordination.params import CoordinationParams
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.gossip.failover.params import FailoverParams
from tidings.protocols.gossip.lpbcast import LpbcastParams
from tidings.protocols.inspection.inspection import InspectionParams
from tidings.protocols.presence.params import PresenceParams

try:
    from pydantic import BaseModel, ConfigDict, create_model
except ImportError as problem:
    raise HostError("settings need the package pydantic-settings: pip install 'tidings[net]'") from problem

SECTIONS: dict[str, tuple[type[msgspec.Struct], ...]] = {
    "host": (HostParams,),
    "access": (AccessParams,),
    "overlay": get_args(OverlayParams),
    "routing": get_args(AnyRoutingParams),
    "delivery": (EdgeParams,),
    "inspection": (InspectionParams,),
    "presence": (PresenceParams,),
    "failover": (FailoverParams,),
    "groups": (LpbcastParams,),
    "coordination": (CoordinationParams,),
}
"""The parts of a broker: the parameters of each kind that there is, the usual one first."""

LEFT_OUT = ("links", "contacts", "credentials", "clock_offset", "is_durable", "profile")
"""Parameters that follow from other settings, or that are the same in every network."""

KIND = "kind"
"""The setting that chooses."""

DEFAULTS = {"host": {"backoff_first": 0.05, "backoff_max": 1.0, "streams_max": 10_256, "strangers_max": 512}}
"""Where a broker wants another default than its part has. Access waits between two attempts for a link, and would wait
in vain while the host does so too. There is a stream for each client and each peer that access serves."""


def kinds_of(section: str) -> dict[str, type[msgspec.Struct]]:
    """By their name, the usual one first; only one, without a name, where there is nothing to choose."""
    kinds = SECTIONS[section]
    return {kind_of(params): params for params in kinds} if len(kinds) > 1 else {"": kinds[0]}


def section_model(section: str, kind: str) -> type[BaseModel]:
    kinds = kinds_of(section)
    fields: dict[str, Any] = {KIND: (Literal[tuple(kinds)], kind)} if kind else {}
    for name, field in named_fields(kinds[kind]):
        fields[name] = field.type, DEFAULTS.get(section, {}).get(name, field.default)
    return create_model(f"{section}_section", __config__=ConfigDict(extra="forbid"), **fields)


def named_fields(params: type[msgspec.Struct]) -> Iterator[tuple[str, msgspec.structs.FieldInfo]]:
    """What can be set of a part, by the name of the setting: parameters of something inside it, as `ring` of a dhtree,
    are settings `ring_period` and the like."""
    for field in msgspec.structs.fields(params):
        if field.name in LEFT_OUT:
            continue
        if is_inside(field):
            yield from ((f"{field.name}_{name}", inner) for name, inner in named_fields(field.type))
        else:
            yield field.name, field


def is_inside(field: msgspec.structs.FieldInfo) -> bool:
    return isinstance(field.type, type) and issubclass(field.type, msgspec.Struct)


def made_of(params: type[msgspec.Struct], chosen: Mapping[str, Any]) -> msgspec.Struct:
    """The other way round: parameters from settings."""
    given = dict(chosen)
    for field in msgspec.structs.fields(params):
        if field.name not in LEFT_OUT and is_inside(field):
            names = [name for name, _ in named_fields(field.type)]
            given[field.name] = made_of(field.type, {name: given.pop(f"{field.name}_{name}") for name in names})
    return params(**given)
