"""What can be set of a broker: the settings themselves, and a section for each of its parts.

The sections are made from the parameters of the parts, so that a new parameter is a new setting without a further word.
`config.py` says where values come from.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from tidings.net.addresses import PORT_DEFAULT
from tidings.net.errors import HostError
from tidings.net.params import HostParams
from tidings.protocols.access.params import AccessParams
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.inspection.inspection import InspectionParams
from tidings.protocols.overlay.spanning_tree import SpanningTreeParams
from tidings.protocols.routing.params import RoutingParams

try:
    from pydantic import BaseModel, ConfigDict, create_model, field_validator
    from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict
except ImportError as problem:
    raise HostError("settings need the package pydantic-settings: pip install 'tidings[net]'") from problem

PREFIX, NESTED = "TIDINGS_BROKER_", "__"
"""How a setting is called in the environment."""

SECTIONS: dict[str, tuple[type[msgspec.Struct], tuple[str, ...]]] = {
    "host": (HostParams, ()),
    "access": (AccessParams, ("links", "credentials", "clock_offset")),
    "overlay": (SpanningTreeParams, ("clock_offset",)),
    "routing": (RoutingParams, ()),
    "delivery": (EdgeParams, ("clock_offset", "is_durable")),
    "inspection": (InspectionParams, ()),
}
"""The parts of a broker: their parameters, less those that follow from other settings."""

DEFAULTS = {"host": {"backoff_first": 0.05, "backoff_max": 1.0}}
"""Where a broker wants another default than its part has. Access waits between two attempts for a link, and would wait
in vain while the host does so too."""


def section_model(name: str) -> type[BaseModel]:
    params, left_out = SECTIONS[name]
    fields: dict[str, Any] = {
        field.name: (field.type, DEFAULTS.get(name, {}).get(field.name, field.default))
        for field in msgspec.structs.fields(params)
        if field.name not in left_out
    }
    return create_model(f"{name}_section", __config__=ConfigDict(extra="forbid"), **fields)


class Settings(BaseSettings):
    """Everything but the sections."""

    model_config = SettingsConfigDict(extra="forbid", env_prefix=PREFIX, env_nested_delimiter=NESTED)

    name: str = ""
    """Unique in the network, and the name in the certificate where there is TLS; by default made of host and port."""
    listen: str = f"127.0.0.1:{PORT_DEFAULT}"
    public: str = ""
    """Where others reach us, if that is not what we listen on."""
    links: Annotated[tuple[str, ...], NoDecode] = ()
    """Addresses of brokers to be linked with. One end of a link is enough."""
    data: Path | None = None
    """The folder for what must survive a crash; without one nothing does."""
    http: str = ""
    """Where /metrics, /healthz and /readyz are; nowhere if it is empty."""
    insecure: bool = False
    """Plain text, and no question who you are, beyond this machine."""
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_authority: Path | None = None
    authorities: Annotated[tuple[Path, ...], NoDecode] = ()
    """Public keys of those whose tokens are accepted; with one, everybody needs a token or is known by name."""
    principals: Path | None = None
    """The file that lists who may come in."""
    token: Path | None = None
    """What we show to other brokers."""
    token_key: Path | None = None
    """The private key to which that token is bound."""
    log: Literal["debug", "info", "warning", "error"] = "info"
    trace: Path | None = None
    """The file for a record of everything that happens here, ending in .parquet or .jsonl; it grows without a bound."""
    uvloop: bool = False

    @classmethod
    def settings_customise_sources(  # type: ignore[override]
        cls, settings_cls: Any, init_settings: Any, **others: Any
    ) -> Any:
        # Where values come from is this module's affair, since it has to remember it.
        return (init_settings,)

    @field_validator("links", "authorities", mode="before")
    @classmethod
    def split(cls, value: Any) -> Any:
        """In the environment: separated by commas."""
        return [each.strip() for each in value.split(",") if each.strip()] if isinstance(value, str) else value


sections: dict[str, Any] = {name: (model, model()) for name in SECTIONS for model in [section_model(name)]}
BrokerSettings: type[Settings] = create_model("BrokerSettings", __base__=Settings, **sections)
"""All settings, the sections included."""


def leaves(settings: Settings) -> Iterator[tuple[str, Any]]:
    """Every setting with its value; those of a section under `section.name`."""
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if name in SECTIONS:
            yield from ((f"{name}.{inner}", getattr(value, inner)) for inner in type(value).model_fields)
        else:
            yield name, value
