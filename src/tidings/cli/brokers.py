"""`tidings broker` and `tidings config`: run one broker, and see with which settings."""

import asyncio
import gc
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from tidings.cli.output import Json, print_json, table_lines
from tidings.net.addresses import address_text
from tidings.net.broker.config import DEFAULT, FIXED, KIND, SECTIONS, Config, kinds_of, load_config
from tidings.net.broker.service import BrokerService
from tidings.net.logs import run as run_loop

COLLECTED_AFTER = 20_000
"""Objects made beyond those given back, after which garbage is looked for. Messages leave none."""


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
    token: Token = None,
    token_key: TokenKey = None,
    log: Log = None,
    trace: Trace = None,
    config: ConfigFile = None,
    until_eof: Annotated[bool, typer.Option("--until-eof", hidden=True)] = False,
    json: Json = False,
) -> None:
    """Run a broker until it is told to stop: Ctrl-C, or SIGTERM.

    Prints one line when it is ready for clients; logs go to stderr. Every setting can also stand in the file of
    --config or in the environment (TIDINGS_BROKER_LISTEN, ...): `tidings config show` lists them all. Without tokens
    and principals it serves everybody, and therefore this machine only.

    \b
    Example:
      tidings broker --name b --listen 127.0.0.1:7412 --link 127.0.0.1:7411
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
    print("\n".join(table_lines(["setting", "value", *(["origin"] if origin else [])], rows)))


def flags_of(given: dict[str, Any]) -> dict[str, Any]:
    """The options that are settings and were given, under the names of these."""
    names = {"link": "links", "authority": "authorities"}
    others = ("config", "json", "until_eof")
    flags = {names.get(name, name): value for name, value in given.items() if name not in others}
    given_flags = {name: value for name, value in flags.items() if value not in (None, False, [])}
    return {name: {KIND: value} if name in SECTIONS else value for name, value in given_flags.items()}


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
        # What is loaded by now stays; to look through all of it for garbage again and again would stall the broker.
        gc.collect()
        gc.freeze()
        gc.set_threshold(COLLECTED_AFTER)
        announce(service, as_json)
        ended = loop.create_task(service.wait())
        asked = loop.create_task(stopped.wait())
        await asyncio.wait([ended, asked], return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if ended.done():
            ended.result()
        ended.cancel()


def announce(service: BrokerService, as_json: bool) -> None:
    listen, http = address_text(service.address), address_text(service.http_address) if service.http_address else ""
    if as_json:
        line = {"broker": service.config.name, "listen": listen, "http": http}
        print(msgspec.json.encode(line).decode(), flush=True)
    else:
        watched = f", http://{http}/metrics" if http else ""
        print(f"broker {service.config.name} is ready at {listen}{watched}", flush=True)
