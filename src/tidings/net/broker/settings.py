"""What can be set of a broker: the settings themselves, and a section for each of its parts.

The sections are made from the parameters of the parts, so that a new parameter is a new setting without a further word.
Where a part can be of several kinds (`nodes/choices.py`), its section has the setting `kind` besides, and the settings
of that kind. `config.py` says where values come from.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec

from tidings.net.addresses import PORT_DEFAULT
from tidings.net.errors import HostError
from tidings.net.params import HostParams
from tidings.nodes.choices import AnyRoutingParams, OverlayParams, kind_of
from tidings.protocols.access.params import AccessParams
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.inspection.inspection import InspectionParams

try:
    from pydantic import BaseModel, ConfigDict, create_model, field_validator
    from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict
except ImportError as problem:
    raise HostError("settings need the package pydantic-settings: pip install 'tidings[net]'") from problem

PREFIX, NESTED = "TIDINGS_BROKER_", "__"
"""How a setting is called in the environment."""

SECTIONS: dict[str, tuple[type[msgspec.Struct], ...]] = {
    "host": (HostParams,),
    "access": (AccessParams,),
    "overlay": get_args(OverlayParams),
    "routing": get_args(AnyRoutingParams),
    "delivery": (EdgeParams,),
    "inspection": (InspectionParams,),
}
"""The parts of a broker: the parameters of each kind that there is, the usual one first."""

LEFT_OUT = ("links", "credentials", "clock_offset", "is_durable", "profile")
"""Parameters that follow from other settings, or that are the same in every network."""

KIND = "kind"
"""The setting that chooses."""

DEFAULTS = {"host": {"backoff_first": 0.05, "backoff_max": 1.0}}
"""Where a broker wants another default than its part has. Access waits between two attempts for a link, and would wait
in vain while the host does so too."""


def kinds_of(section: str) -> dict[str, type[msgspec.Struct]]:
    """By their name, the usual one first; only one, without a name, where there is nothing to choose."""
    kinds = SECTIONS[section]
    return {kind_of(params): params for params in kinds} if len(kinds) > 1 else {"": kinds[0]}


def section_model(section: str, kind: str) -> type[BaseModel]:
    kinds = kinds_of(section)
    fields: dict[str, Any] = {KIND: (Literal[tuple(kinds)], kind)} if kind else {}
    for field in msgspec.structs.fields(kinds[kind]):
        if field.name not in LEFT_OUT:
            fields[field.name] = field.type, DEFAULTS.get(section, {}).get(field.name, field.default)
    return create_model(f"{section}_section", __config__=ConfigDict(extra="forbid"), **fields)


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


def settings_of(kinds: Mapping[str, str]) -> type[Settings]:
    """All settings, the sections included, of a broker whose parts are of these kinds; the usual ones where none is
    given."""
    return settings_model(tuple(kinds.get(section, next(iter(kinds_of(section)))) for section in SECTIONS))


@lru_cache(32)
def settings_model(kinds: tuple[str, ...]) -> type[Settings]:
    models = {section: section_model(section, kind) for section, kind in zip(SECTIONS, kinds, strict=True)}
    sections: dict[str, Any] = {section: (model, model()) for section, model in models.items()}
    return create_model("BrokerSettings", __base__=Settings, **sections)


def leaves(settings: Settings) -> Iterator[tuple[str, Any]]:
    """Every setting with its value; those of a section under `section.name`."""
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if name in SECTIONS:
            yield from ((f"{name}.{inner}", getattr(value, inner)) for inner in type(value).model_fields)
        else:
            yield name, value
