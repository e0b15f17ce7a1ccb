"""`tidings broker`, `tidings config` and `tidings up`: brokers, one by one and as a network.

The first two run one broker, and show with which settings; `up` runs a network on this machine, from one file:

    links = [["a", "b"], ["b", "c"]]

    [settings]                      # of all brokers, as in the file of `tidings broker --config`
    log = "warning"

    [brokers.a]                     # of one
    listen = "127.0.0.1:7411"
    http = "127.0.0.1:9411"

    [brokers.b]
    [brokers.c]

Each broker is a process of its own. Where none says where it listens, ports are counted up from 7411. Every child holds
the other end of a pipe of ours and ends when that closes, so nothing is left behind, whatever becomes of this process.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.live import Live

from tidings import UsageError
from tidings.cli.output import NO, Json, JsonLines, json_line, print_json, show, table_lines
from tidings.cli.top import draw, measure, sample
from tidings.net.addresses import PORT_DEFAULT, address_text
from tidings.net.broker.config import (
    DEFAULT,
    FIXED,
    NESTED,
    PREFIX,
    Config,
    load_config,
    read_file,
)
from tidings.net.broker.garbage import SteppedCollection
from tidings.net.broker.sections import KIND, SECTIONS, kinds_of
from tidings.net.broker.service import BrokerService
from tidings.net.errors import HostError
from tidings.net.inspector import InspectorAccess, NotInspected
from tidings.net.logs import run as run_loop


def words(section: str) -> str:
    """The kinds of a part, the usual one first."""
    return ", ".join(kinds_of(section))


config_commands = typer.Typer(
    help="Look at the settings of a broker.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

ConfigFile = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings as TOML.")]
Name = Annotated[str | None, typer.Option(help="Unique in the network; by default made of host and port.")]
Listen = Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 takes any free one.")]
Links = Annotated[
    list[str] | None, typer.Option("--link", metavar="HOST:PORT", help="A broker to be linked with; may be repeated.")
]
Join = Annotated[
    list[str] | None,
    typer.Option(
        metavar="HOST:PORT",
        help="A broker of the network to join; may be repeated, any one that is up is enough. The first broker of a "
        "network joins itself.",
    ),
]
Hears = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=HOST:PORT", help="A broker that is on the air with us (witree); may be repeated."),
]
DegreeMax = Annotated[
    int | None,
    typer.Option(min=2, metavar="N", help="Neighbours to take at most, in a tree that finds itself (lstree)."),
]
Data = Annotated[Path | None, typer.Option(metavar="DIR", help="Keep what was accepted here, over restarts.")]
Http = Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Serve /metrics, /healthz and /readyz here.")]
Public = Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where others reach us, if it is elsewhere.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="Plain text beyond this machine, as it is asked for here.")]
TlsCertificate = Annotated[Path | None, typer.Option(metavar="FILE", help="Our certificate, with our name in it.")]
TlsKey = Annotated[Path | None, typer.Option(metavar="FILE", help="Its private key.")]
TlsAuthority = Annotated[Path | None, typer.Option(metavar="FILE", help="The authority that signs for all nodes.")]
Authorities = Annotated[
    list[Path] | None,
    typer.Option("--authority", metavar="FILE.pub", help="Whose tokens are accepted; then everybody needs one."),
]
Principals = Annotated[Path | None, typer.Option(metavar="FILE", help="Who may come in, with which bounds (TOML).")]
Revoked = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Tokens that are called back (tidings token revoke).")
]
Audit = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write who comes in or is refused here, not to stderr.")
]
Token = Annotated[Path | None, typer.Option(metavar="FILE", help="What we show to other brokers.")]
TokenKey = Annotated[Path | None, typer.Option(metavar="FILE", help="The key that our token is bound to.")]
OverlayKind = Annotated[str | None, typer.Option(metavar="KIND", help=f"Which links carry events: {words('overlay')}.")]
RoutingKind = Annotated[
    str | None, typer.Option(metavar="KIND", help=f"How events find their way: {words('routing')}.")
]
Log = Annotated[str | None, typer.Option(help="debug, info, warning or error.")]
Trace = Annotated[Path | None, typer.Option(metavar="FILE", help="Record what happens here (.parquet or .jsonl).")]


def broker(
    name: Name = None,
    listen: Listen = None,
    link: Links = None,
    join: Join = None,
    hears: Hears = None,
    degree_max: DegreeMax = None,
    overlay: OverlayKind = None,
    routing: RoutingKind = None,
    data: Data = None,
    http: Http = None,
    public: Public = None,
    insecure: Insecure = False,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    tls_authority: TlsAuthority = None,
    authority: Authorities = None,
    principals: Principals = None,
    revoked: Revoked = None,
    audit: Audit = None,
    token: Token = None,
    token_key: TokenKey = None,
    log: Log = None,
    trace: Trace = None,
    config: ConfigFile = None,
    until_eof: Annotated[bool, typer.Option("--until-eof", hidden=True)] = False,
    json: Json = False,
) -> None:
    """Run a broker until it is told to stop: Ctrl-C, or SIGTERM.

    Prints one line when it is ready for clients; logs go to stderr. Principals and revoked tokens are read again when
    their files change, and on SIGHUP. Every setting can also stand in the file of
    --config or in the environment (TIDINGS_BROKER_LISTEN, ...): `tidings config show` lists them all. Without tokens
    and principals it serves everybody, and therefore this machine only.

    \b
    Example:
      tidings broker --join 127.0.0.1:7411
      tidings broker --join 127.0.0.1:7411 --listen 127.0.0.1:7412
    """
    flags = flags_of(locals())
    settings = load_config(config, flags)
    run_loop(serve(settings, json, until_eof), settings.settings.uvloop)


@config_commands.command("show")
def show_command(
    origin: Annotated[bool, typer.Option("--origin", help="Say where each value comes from.")] = False,
    changed: Annotated[bool, typer.Option("--changed", help="Only what is not the default.")] = False,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Show every setting with which `tidings broker` would run here, its bounds and time-outs included.

    A flag beats the environment (TIDINGS_BROKER_...), which beats the file, which beats the default.

    \b
    Example:
      tidings config show --origin --config broker.toml
    """
    shown = [each for each in load_config(config).show() if not changed or each.origin not in (DEFAULT, FIXED)]
    if json:
        print_json(shown)
        return
    rows = [[each.name, value_text(each.value), *([each.origin] if origin else [])] for each in shown]
    show(*table_lines(["setting", "value", *(["origin"] if origin else [])], rows))


def flags_of(given: dict[str, Any]) -> dict[str, Any]:
    """The options that are settings and were given, under the names of these."""
    names = {"link": "links", "authority": "authorities"}
    others = ("config", "json", "until_eof", "degree_max")
    flags = {names.get(name, name): value for name, value in given.items() if name not in others}
    given_flags = {name: value for name, value in flags.items() if value not in (None, False, [])}
    settings = {name: {KIND: value} if name in SECTIONS else value for name, value in given_flags.items()}
    if given.get("degree_max") is not None:
        settings.setdefault("overlay", {})["degree_max"] = given["degree_max"]
    return settings


def value_text(value: Any) -> str:
    if value is None or value in ("", []):
        return "-"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


async def serve(config: Config, as_json: bool, until_eof: bool) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    if until_eof:
        # Whoever started us holds the other end, and cannot leave us behind whatever becomes of it.
        loop.add_reader(sys.stdin.fileno(), stopped.set)
    async with BrokerService(config) as service:
        reloads: set[asyncio.Task[None]] = set()

        def reload() -> None:
            task = loop.create_task(service.reload_rights())
            reloads.add(task)
            task.add_done_callback(reloads.discard)

        loop.add_signal_handler(signal.SIGHUP, reload)
        with SteppedCollection(lambda: service.host.counts.handle_seconds, loop.time) as collection:
            collecting = loop.create_task(collection.keep_looking())
            announce(service, as_json)
            ended = loop.create_task(service.wait())
            asked = loop.create_task(stopped.wait())
            await asyncio.wait([ended, asked], return_when=asyncio.FIRST_COMPLETED)
            asked.cancel()
            collecting.cancel()
            if ended.done():
                ended.result()
            ended.cancel()


def announce(service: BrokerService, as_json: bool) -> None:
    listen, http = address_text(service.address), address_text(service.http_address) if service.http_address else ""
    if as_json:
        line = {"broker": service.config.name, "listen": listen, "http": http}
        show(json_line(line))
    else:
        watched = f", http://{http}/metrics" if http else ""
        show(f"broker {service.config.name} is ready at {listen}{watched}")


READY_TIMEOUT = 180.0
"""Seconds for a broker to say that it is ready; the first on a machine compiles its index before."""

STOP_TIMEOUT = 15.0
"""Seconds for a broker to end when it is asked to, before it is ended."""

BROKERS_MAX = 200
REFRESH_PERIOD = 1.0


class PlannedBroker(msgspec.Struct, frozen=True):
    """A broker to be started."""

    name: str
    listen: str
    settings: dict[str, Any]


def up(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="The network, as TOML.")] = None,
    brokers: Annotated[
        int | None, typer.Option(min=1, max=BROKERS_MAX, metavar="N", help="So many brokers, without a file.")
    ] = None,
    overlay: OverlayKind = None,
    logs: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the log of each broker to DIR/NAME.log, not to stderr.")
    ] = None,
    json: JsonLines = False,
) -> None:
    """Start all brokers of a file, or so many, on this machine, show what they do, and stop them on Ctrl-C.

    The file names brokers and the links between them; [settings] holds for all, [brokers.NAME] for one, with the names
    that `tidings config show` lists. Ends with exit code 1 if a broker ends by itself.

    \b
    Example:
      tidings up network.toml
      tidings up --brokers 12 --overlay lstree
    """
    if (file is None) == (brokers is None):
        raise UsageError("name a FILE, or say how many --brokers there are to be")
    if file is not None and overlay is not None:
        raise UsageError(f"--overlay: the file says which; write it into {file}, under [settings.overlay]")
    tables = read_file(file) if file is not None else plain_network(brokers or 1, overlay or "lstree")
    planned = read_network(tables, file or Path("--brokers"))
    if logs is not None:
        logs.mkdir(parents=True, exist_ok=True)
    code = asyncio.run(Fleet(planned, logs, json).run())
    if code:
        raise typer.Exit(code)


def plain_network(count: int, overlay: str) -> dict[str, Any]:
    """Every broker but the first begins with the first, however the overlay goes on from there; on the air each hears
    the one before it and the one after it."""
    places = {f"b{number}": f"127.0.0.1:{PORT_DEFAULT + number - 1}" for number in range(1, count + 1)}
    names = list(places)
    brokers: dict[str, Any] = {name: {"join": [places["b1"]]} if name != "b1" else {} for name in names}
    if overlay == "witree":
        near = {name: names[max(0, at - 1) : at] + names[at + 1 : at + 2] for at, name in enumerate(names)}
        brokers = {name: {"hears": [f"{other}={places[other]}" for other in near[name]]} for name in names}
    return {"settings": {"overlay": {KIND: overlay}}, "brokers": brokers}


def read_network(tables: Mapping[str, Any], file: Path) -> list[PlannedBroker]:
    unknown = [name for name in tables if name not in ("links", "settings", "brokers")]
    if unknown:
        raise UsageError(f"{file}: {unknown[0]!r} is not known; there are links, [settings] and [brokers.NAME]")
    brokers = tables.get("brokers", {})
    if not isinstance(brokers, dict) or not 1 <= len(brokers) <= BROKERS_MAX:
        raise UsageError(f"{file}: name 1 to {BROKERS_MAX} brokers, each as [brokers.NAME]")
    listen = {
        name: str(own.get("listen", f"127.0.0.1:{PORT_DEFAULT + n}")) for n, (name, own) in enumerate(brokers.items())
    }
    links: dict[str, list[str]] = {name: [] for name in brokers}
    for link in tables.get("links", []):
        if not isinstance(link, list) or len(link) != 2 or any(end not in brokers for end in link):
            raise UsageError(f"{file}: link {link!r}: write two names of brokers, such as ['a', 'b']")
        # One end is enough; the later one, since the earlier is there first.
        links[link[1]].append(listen[link[0]])
    return [
        PlannedBroker(
            name, listen[name], {**tables.get("settings", {}), **own, "listen": listen[name], "links": links[name]}
        )
        for name, own in brokers.items()
    ]


def environment_of(planned: PlannedBroker) -> dict[str, str]:
    """The settings as variables: what the file says beats what is in the environment here."""
    variables = {}
    for name, value in {**planned.settings, "name": planned.name}.items():
        inner = (
            {f"{name}{NESTED}{key}": each for key, each in value.items()} if isinstance(value, dict) else {name: value}
        )
        for key, each in inner.items():
            variables[f"{PREFIX}{key.upper()}"] = ",".join(map(str, each)) if isinstance(each, list) else str(each)
    return variables


class Fleet:
    """The children, from the first to the last."""

    def __init__(self, planned: Sequence[PlannedBroker], logs: Path | None, as_json: bool) -> None:
        self.planned, self.logs, self.as_json = planned, logs, as_json
        self.children: dict[str, asyncio.subprocess.Process] = {}
        self.stopped = asyncio.Event()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stopped.set)
        try:
            for each in self.planned:
                line = await self.start(each)
                show(json_line({"started": each.name, "listen": each.listen}) if self.as_json else line)
            return await self.watch()
        finally:
            await self.stop()
            if self.as_json:
                show(json_line({"stopped": list(self.children)}))

    async def start(self, planned: PlannedBroker) -> str:
        """Returns what the broker says when it is ready."""
        log: Any = None
        if self.logs is not None:
            log = (self.logs / f"{planned.name}.log").open("wb")
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tidings", "broker", "--until-eof"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env={**os.environ, **environment_of(planned)},
            # Ctrl-C in a terminal goes to us alone, and we stop the children one by one.
            start_new_session=True,
        )
        if log is not None:
            log.close()
        self.children[planned.name] = child
        assert child.stdout is not None
        try:
            async with asyncio.timeout(READY_TIMEOUT):
                line = (await child.stdout.readline()).decode().strip()
        except TimeoutError:
            raise HostError(f"broker {planned.name} was not ready within {READY_TIMEOUT:g} s; see its log") from None
        if not line:
            raise HostError(f"broker {planned.name} did not start; its log says why")
        return line

    async def watch(self) -> int:
        """Show what they do until we are told to stop, or one of them ends."""
        loop = asyncio.get_running_loop()
        ends = {name: loop.create_task(child.wait()) for name, child in self.children.items()}
        asked = loop.create_task(self.stopped.wait())
        shown = loop.create_task(self.show())
        done, _ = await asyncio.wait([asked, *ends.values()], return_when=asyncio.FIRST_COMPLETED)
        shown.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await shown
        asked.cancel()
        for name, task in ends.items():
            if task in done and not self.stopped.is_set():
                show(f"tidings: broker {name} ended by itself, with {task.result()}; all are stopped", to_stderr=True)
                return NO
        return 0

    async def show(self) -> None:
        """A live table on a terminal; nothing elsewhere."""
        console = Console()
        if self.as_json or not console.is_terminal:
            return
        addresses = [each.listen for each in self.planned]
        before = await sample(addresses, InspectorAccess())
        with Live(console=console, auto_refresh=False) as live:
            while True:
                await asyncio.sleep(REFRESH_PERIOD)
                with contextlib.suppress(NotInspected):
                    after = await sample(addresses, InspectorAccess())
                    live.update(draw(measure(before, after, REFRESH_PERIOD)), refresh=True)
                    before = after

    async def stop(self) -> None:
        """Ask all to end; end those that do not."""
        for child in self.children.values():
            if child.returncode is None:
                child.terminate()
        for child in self.children.values():
            try:
                async with asyncio.timeout(STOP_TIMEOUT):
                    await child.wait()
            except TimeoutError:
                child.kill()
                await child.wait()
