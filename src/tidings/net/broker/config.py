"""The settings of a broker: where each comes from, and what it may be.

A flag of the command beats the environment, which beats a TOML file, which beats the default:

    tidings broker --listen 127.0.0.1:7412                    a flag
    TIDINGS_BROKER_LISTEN=127.0.0.1:7412                      the environment
    listen = "127.0.0.1:7412"                                 a line in the file of --config

What belongs to one part of the broker stands in a section of its own, and is simply the parameters of that part, under
their names there; so every bound and every time-out can be set and is shown by `tidings config show`:

    TIDINGS_BROKER_HOST__STREAMS_MAX=100                      in the file: [host], streams_max = 100

The overlay and the routing are of a kind that is chosen in their section; the rest of it are the settings of that kind:

    TIDINGS_BROKER_OVERLAY__KIND=all-peers                    in the file: [overlay], kind = "all-peers"

A name that is not known is refused, wherever it stands: a bound that is misspelt is no bound.
The sections are made from the parameters of the parts (`sections.py`).
"""

import difflib
import os
import socket
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from tidings.model import bounds
from tidings.model.bounds import FRAME_BYTES_MAX, PUBLICATION_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.net.addresses import PORT_DEFAULT, address_text, default_name, parse_address, parse_named_address
from tidings.net.broker.sections import KIND, SECTIONS, kinds_of, made_of, named_fields, section_model
from tidings.net.broker.tenants import ConfiguredTenants
from tidings.net.errors import HostError
from tidings.net.params import check_places, check_windows
from tidings.net.storage import OWNER_FOLDER
from tidings.net.tls import Address, Tls, is_loopback
from tidings.nodes.broker import BrokerParams
from tidings.nodes.choices import kind_of

try:
    from pydantic import BaseModel, ValidationError, create_model, field_validator
    from pydantic_settings import BaseSettings, EnvSettingsSource, NoDecode, SettingsConfigDict
except ImportError as problem:
    raise HostError("settings need the package pydantic-settings: pip install 'tidings[net]'") from problem

PREFIX, NESTED = "TIDINGS_BROKER_", "__"
"""How a setting is called in the environment."""

IMPLIED = {"join": "lstree", "hears": "witree"}
"""Settings that an overlay of this kind is meant for."""

REMEMBERING = ("lstree",)
"""Overlays that keep whom they met, and so need nobody to be named when they start again."""


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
    join: Annotated[tuple[str, ...], NoDecode] = ()
    """Addresses of brokers of the network to join; any one that answers is enough. The overlay is an LSTree then."""
    hears: Annotated[tuple[str, ...], NoDecode] = ()
    """Brokers on the air, as NAME=HOST:PORT: they and we hear each other, and nobody else. The overlay is a WiTree."""
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
    """The file that lists who may come in. It is read again when it changes, and on SIGHUP."""
    revoked: Path | None = None
    """The file that lists the tokens that are called back; read again as well."""
    audit: Path | None = None
    """The file for a line on each who comes in, is refused, or has other rights; stderr where there is none."""
    tenants: dict[str, dict[str, Any]] = {}
    """Those who share the network, each with a table [tenants.NAME] of bounds (`tenants.py`); read again as well."""
    token: Path | None = None
    """What we show to other brokers."""
    token_key: Path | None = None
    """The private key to which that token is bound."""
    log: Literal["debug", "info", "warning", "error"] = "info"
    trace: Path | None = None
    """The file for a record of everything that happens here, ending in .parquet or .jsonl; it grows without a bound."""
    clock_shift: float = 0.0
    """Seconds by which this broker takes its time of day to be wrong; `tidings chaos` tries clocks that differ."""
    uvloop: bool = False

    @classmethod
    def settings_customise_sources(  # type: ignore[override]
        cls, settings_cls: Any, init_settings: Any, **others: Any
    ) -> Any:
        # Where values come from is this module's affair, since it has to remember it.
        return (init_settings,)

    @field_validator("links", "join", "hears", "authorities", mode="before")
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
            yield name, list(value) if name == "tenants" else value


DEFAULT, FIXED = "default", "fixed"
"""Where a value comes from that nobody has given."""

FIXED_BOUNDS = {
    "frame_bytes_max": FRAME_BYTES_MAX,
    "publication_bytes_max": PUBLICATION_BYTES_MAX,
    "attributes_max": bounds.ATTRIBUTES_MAX,
    "attribute_name_chars_max": bounds.NAME_CHARS_MAX,
    "string_bytes_max": bounds.STRING_BYTES_MAX,
    "filter_text_bytes_max": bounds.FILTER_TEXT_BYTES_MAX,
    "filter_constraints_max": bounds.CONSTRAINTS_MAX,
}
"""They hold in the whole network, and two nodes must not differ in them: shown, and not to be set."""

FILE, FILE_BYTES_MAX = "file", 1024 * 1024
STORAGE_NAME = "broker.sqlite"
OVERLAY_NAME, OVERLAY_CHARS_MAX = "overlay", 64
"""The file in the data folder that says on which overlay its broker was, so that who joined a network is back in it
without a word."""


class ConfigSetting(msgspec.Struct, frozen=True):
    """One line of `tidings config show`."""

    name: str
    value: Any
    origin: str


class Config:
    """Settings that were checked. `settings.links` and the like are as given; `params("host")` is a part's."""

    def __init__(self, settings: Settings, origins: Mapping[str, str], file: Path | None = None) -> None:
        self.settings, self.origins, self.file = settings, dict(origins), file
        self.listen = parse_address(settings.listen, "listen")
        self.http = parse_address(settings.http, "http") if settings.http else None
        self.links = tuple(parse_address(each, "links", is_called=True) for each in settings.links)
        own = {self.listen, parse_address(settings.public, "public") if settings.public else self.listen}
        # All brokers may be given one list, each of them in it: the first one finds nobody, and begins.
        named = (parse_address(text, "join", is_called=True) for text in settings.join)
        self.join = tuple(each for each in named if each not in own)
        self.hears = dict(parse_named_address(each, "hears") for each in settings.hears)
        self.check_links()
        self.name = settings.name or default_name(self.listen)
        self.built = {name: self.build(name) for name in SECTIONS}
        broker = BrokerParams(routing=self.built["routing"], delivery=self.built["delivery"])
        check_windows(self.built["host"], broker.windows)
        check_places(self.built["host"], self.built["access"])
        self.tenants = ConfiguredTenants(settings.tenants)
        if self.tenants.by_name and self.is_open:
            raise UsageError(
                "tenants: without principals or authorities anybody may take any name; give principals or authorities"
            )

    def check_links(self) -> None:
        """Whom a broker is to be linked with is said in one way, and the overlay has a use for it."""
        if self.hears and self.settings.join:
            raise UsageError(
                "join, hears: a broker joins a network, or is on the air with those it hears; give one of them"
            )
        overlay = kinds_of("overlay")[getattr(self.section("overlay"), KIND)]
        if self.links and "contacts" in overlay.__struct_fields__:
            raise UsageError(
                f"links: overlay {kind_of(overlay)} finds its links by itself, and takes none that are drawn; name "
                "brokers with join (--join), or choose overlay spanning-tree"
            )

    def build(self, section: str, **more: Any) -> Any:
        """The parameters of a part, with what follows from elsewhere where its kind has such a parameter."""
        chosen = {name: getattr(self.section(section), name) for name in type(self.section(section)).model_fields}
        params = kinds_of(section)[chosen.pop(KIND, "")]
        more = {name: value for name, value in more.items() if name in params.__struct_fields__}
        try:
            return made_of(params, {**chosen, **more})
        except UsageError as problem:
            raise UsageError(f"[{section}] {problem}") from None

    def section(self, name: str) -> BaseModel:
        section: BaseModel = getattr(self.settings, name)
        return section

    @property
    def tenants_file(self) -> Path | None:
        """Where tenants are read from, if it is a file."""
        is_file = self.origins.get("tenants", FILE).startswith(FILE)
        return self.file if is_file else None

    def read_tenants(self) -> ConfiguredTenants:
        """As the file of settings names them now."""
        if self.tenants_file is None:
            return self.tenants
        tables = read_file(self.tenants_file).get("tenants", {})
        if not isinstance(tables, dict):
            raise UsageError(f"{self.tenants_file}: tenants are tables; write [tenants.NAME]")
        return ConfiguredTenants(tables)

    def public_for(self, listening: Address) -> str:
        """The address that we tell to others, when we listen on this one."""
        if self.settings.public:
            return address_text(parse_address(self.settings.public, "public"))
        host, port = listening
        return address_text((socket.gethostname() if host in ("", "0.0.0.0", "::") else host, port))

    @property
    def tls(self) -> Tls | None:
        """With an authority for tokens, callers need no certificate."""
        settings = self.settings
        if not any((settings.tls_certificate, settings.tls_key, settings.tls_authority)):
            return None
        if settings.tls_certificate is None or settings.tls_key is None:
            raise UsageError("TLS needs tls_certificate and tls_key, and tls_authority for certificates of others")
        return Tls.from_files(
            settings.tls_certificate,
            settings.tls_key,
            settings.tls_authority,
            callers="anybody" if settings.authorities else "certified",
        )

    def check_asking(self) -> None:
        """A broker that asks nobody who he is stays on its machine, unless somebody insists; TLS alone, with which
        everybody has a certificate, is no question."""
        if self.tls is not None and self.is_open and not self.is_local and not self.settings.insecure:
            raise UsageError(
                f"listen: at {self.settings.listen} anybody could come in, with TLS too; give principals or "
                "authorities, listen on 127.0.0.1, or say insecure (--insecure)"
            )

    @property
    def storage(self) -> Path | None:
        """The file in the data folder, which is made if it is not there. What clients published is in it, so the folder
        is nobody else's, whoever made it."""
        if self.settings.data is None:
            return None
        try:
            self.settings.data.mkdir(parents=True, exist_ok=True, mode=OWNER_FOLDER)
            self.settings.data.chmod(OWNER_FOLDER)
        except OSError as problem:
            why = f"cannot make {self.settings.data}: {problem.strerror}"
            raise HostError(f"data: {why}; name another folder") from None
        return self.settings.data / STORAGE_NAME

    def keep_overlay(self) -> None:
        """For the next start on this folder (`kept_overlay`)."""
        if self.settings.data is None:
            return
        file, kind = self.settings.data / OVERLAY_NAME, getattr(self.section("overlay"), KIND)
        if kind in REMEMBERING:
            file.write_text(kind)
        else:
            file.unlink(missing_ok=True)

    @property
    def is_open(self) -> bool:
        """Whether nobody is asked who he is."""
        return not self.settings.authorities and self.settings.principals is None

    @property
    def is_local(self) -> bool:
        return is_loopback(self.listen[0])

    def show(self) -> list[ConfigSetting]:
        """Every setting, in the order of the documentation, and the bounds that are the same everywhere."""
        chosen = [
            ConfigSetting(name, plain(value), self.origins.get(name, DEFAULT)) for name, value in leaves(self.settings)
        ]
        tenants = self.origins.get("tenants", DEFAULT)
        chosen += [ConfigSetting(name, plain(value), tenants) for name, value in self.tenants.rows()]
        return [*chosen, *(ConfigSetting(f"fixed.{name}", value, FIXED) for name, value in FIXED_BOUNDS.items())]


def load_config(file: Path | None = None, flags: Mapping[str, Any] | None = None) -> Config:
    """From a file, the environment, and flags (those that are None were not given)."""
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    sources = [
        (f"{FILE} {file}", read_file(file) if file is not None else {}),
        ("environment", EnvSettingsSource(settings_of({}))()),
        ("flag", given),
    ]
    model = settings_of(choose_kinds(sources))
    known = {name for name, _ in leaves(model())}
    check_environment(known)
    merged: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for source, values in sources:
        check_known(source, values, known)
        for name, value in walk(values):
            put(merged, name, value)
            origins[name] = origin_text(source, name)
    try:
        settings = model(**merged)
    except ValidationError as problem:
        raise UsageError("; ".join(explain(error, origins) for error in problem.errors())) from None
    return Config(settings, origins, file)


def read_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise UsageError(f"{path}: more than {FILE_BYTES_MAX} bytes; is it the right file?")
        return tomllib.loads(data.decode())
    except OSError as problem:
        raise UsageError(f"cannot read {path}: {problem.strerror}; check the name and its rights") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise UsageError(f"{path} is no TOML: {problem}") from None


def choose_kinds(sources: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, str]:
    """Of which kind each part is that can be of several; what comes later counts."""
    chosen: dict[str, str] = {}
    for source, values in sources:
        for name, value in walk(values):
            section, _, inner = name.partition(".")
            if inner == KIND and (kinds := kinds_of(section)).keys() != {""}:
                if value not in kinds:
                    raise UsageError(
                        f"{origin_text(source, name)}: {value!r} is no {section}; choose {' or '.join(kinds)}"
                    )
                chosen[section] = value
    given = {name: value for _, values in sources for name, value in walk(values)}
    implied = [kind for name, kind in IMPLIED.items() if given.get(name)]
    if not implied and not given.get("links") and (data := given.get("data")):
        implied = [kept] if (kept := kept_overlay(Path(data))) else []
    return {"overlay": implied[0], **chosen} if implied else chosen


def kept_overlay(data: Path) -> str:
    """Which overlay found its links by itself when a broker last ran on this folder, and finds them again."""
    try:
        kind = (data / OVERLAY_NAME).read_text()[:OVERLAY_CHARS_MAX].strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return kind if kind in kinds_of("overlay") else ""


def check_environment(known: set[str]) -> None:
    """Files and folders of tests are named otherwise."""
    variables = {f"{PREFIX}{name.replace('.', NESTED)}".upper(): name for name in known}
    for variable in sorted(os.environ):
        name = variable.upper()
        if name.startswith(PREFIX) and name not in variables:
            setting = name.removeprefix(PREFIX).replace(NESTED, ".").lower()
            why = of_another_kind(setting) or did_you_mean(name, set(variables))
            raise UsageError(f"environment: there is no setting {variable}{why}")


def check_known(source: str, values: Mapping[str, Any], known: set[str]) -> None:
    for name, value in walk(values):
        if name in SECTIONS and not isinstance(value, dict):
            raise UsageError(f"{source}: {name} is a section; write [{name}] above its settings")
        if name not in known:
            why = of_another_kind(name) or did_you_mean(name, known)
            raise UsageError(f"{source}: there is no setting {name!r}{why}")


def of_another_kind(name: str) -> str:
    """Whose setting it would be, if the part were of another kind."""
    section, _, inner = name.partition(".")
    kinds = (
        [kind for kind, params in kinds_of(section).items() if kind and inner in dict(named_fields(params))]
        if section in SECTIONS
        else []
    )
    return f" here; it belongs to {section}.{KIND} = {' or '.join(kinds)}" if kinds else ""


def did_you_mean(name: str, known: set[str]) -> str:
    nearest = difflib.get_close_matches(name, sorted(known), 1)
    return f"; did you mean {nearest[0]}?" if nearest else "; 'tidings config show' lists all"


def walk(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict) and name in SECTIONS:
            yield from ((f"{name}.{inner}", each) for inner, each in value.items())
        else:
            yield name, value


def put(merged: dict[str, Any], name: str, value: Any) -> None:
    section, dot, inner = name.partition(".")
    if dot:
        merged.setdefault(section, {})[inner] = value
    else:
        merged[name] = value


def origin_text(source: str, name: str) -> str:
    if source == "environment":
        return f"environment {PREFIX}{name.replace('.', NESTED).upper()}"
    return f"flag --{name.removesuffix(f'.{KIND}').replace('_', '-')}" if source == "flag" else source


def explain(error: Any, origins: Mapping[str, str]) -> str:
    name = ".".join(str(each) for each in error["loc"] if isinstance(each, str))
    return f"{origins.get(name, name)}: {name} = {error['input']!r}: {error['msg'].lower()}"


def plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value
