"""`tidings collect`: files from many machines to one, through each other.

`agent` runs on each machine and shares a folder; `get` fetches what matches from all of them; `plan` says what is to be
expected of a table of bandwidths.
"""

import asyncio
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

from tidings import UsageError
from tidings.cli.collect_plan import plan_table, write_picture
from tidings.cli.output import NO, Json, JsonLines, json_line, print_json, show, table_lines
from tidings.net.addresses import address_text, parse_address
from tidings.net.broker.config import load_config
from tidings.net.collect.collection import collect
from tidings.net.collect.service import CollectService
from tidings.net.collect.shelf import DiskShelf
from tidings.net.logs import run as run_loop
from tidings.protocols.collect.params import CollectParams
from tidings.protocols.collect.signals import CollectionEnded, CollectionListed, CollectionProgress

collections = typer.Typer(
    help="Collect large files from many machines at one, through each other.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

PORT_OF_AGENTS = 7500

Contact = Annotated[str, typer.Option(metavar="HOST:PORT", help="Any agent of the group, mostly the first one.")]
Listen = Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 takes any free one.")]
Rate = Annotated[
    str, typer.Option(metavar="RATE", help="At most so much: 20M is 20 million bits a second, 20MB bytes.")
]
Token = Annotated[Path | None, typer.Option(metavar="FILE", envvar="TIDINGS_TOKEN", help="The token that we show.")]
TokenKey = Annotated[Path | None, typer.Option(metavar="FILE", help="The key that the token is bound to.")]
Authority = Annotated[
    list[Path] | None, typer.Option("--authority", metavar="FILE.pub", help="Whose tokens are accepted.")
]
Principals = Annotated[Path | None, typer.Option(metavar="FILE", help="Who may come in (TOML); a host is a broker.")]
TlsCertificate = Annotated[Path | None, typer.Option(metavar="FILE", help="Our certificate, with our name in it.")]
TlsKey = Annotated[Path | None, typer.Option(metavar="FILE", help="Its private key.")]
TlsAuthority = Annotated[Path | None, typer.Option(metavar="FILE", help="The authority that signs for all.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="Plain text beyond this machine, and nobody is asked.")]
Public = Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where others reach us, if it is elsewhere.")]

RATE = re.compile(r"(\d+(?:\.\d+)?)([kMG]?)(B?)")
FACTORS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}


def read_rate(text: str, option: str) -> float:
    """Bits a second; empty is no limit."""
    if not text:
        return 0.0
    found = RATE.fullmatch(text.strip())
    if found is None or float(found[1]) <= 0:
        raise UsageError(f"{option} {text}: write 20M for 20 million bits a second, or 20MB for bytes")
    return float(found[1]) * FACTORS[found[2]] * (8 if found[3] else 1)


def flags_of(given: dict[str, Any]) -> dict[str, Any]:
    names = ("listen", "name", "public", "insecure", "tls_certificate", "tls_key", "tls_authority", "principals")
    flags = {name: given.get(name) for name in (*names, "token", "token_key")}
    flags["authorities"] = given.get("authority")
    return {name: value for name, value in flags.items() if value not in (None, False, [], "")}


@collections.command("agent")
def agent(
    share: Annotated[Path | None, typer.Option(metavar="DIR", help="The folder that others may read.")] = None,
    contact: Annotated[
        list[str] | None, typer.Option(metavar="HOST:PORT", help="An agent to enlist with; the first one has none.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Unique in the group; by default made of host and port.")] = None,
    listen: Listen = f"127.0.0.1:{PORT_OF_AGENTS}",
    public: Public = None,
    up: Rate = "",
    down: Rate = "",
    scratch: Annotated[Path | None, typer.Option(metavar="DIR", help="Where blocks of others are kept.")] = None,
    keep: Annotated[bool, typer.Option("--keep-replicas", help="Keep them until the end, against failures.")] = False,
    token: Token = None,
    token_key: TokenKey = None,
    authority: Authority = None,
    principals: Principals = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    tls_authority: TlsAuthority = None,
    insecure: Insecure = False,
    log: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "warning",
    json: Json = False,
) -> None:
    """Share a folder for reading, and help others to collect, until told to stop: Ctrl-C, or SIGTERM.

    Prints one line when it is ready. Without --share it passes on blocks and gives none of its own.

    \b
    Example:
      tidings collect agent --share /var/log --name web-1
      tidings collect agent --share /var/log --name web-2 --listen 127.0.0.1:7501 --contact 127.0.0.1:7500 --up 20M
    """
    given = locals()
    if share is not None and not share.is_dir():
        raise UsageError(f"--share {share}: there is no such folder; make it, or name another one")
    if scratch is not None and not scratch.is_dir():
        raise UsageError(f"--scratch {scratch}: there is no such folder; make it, or name another one")
    params = CollectParams(up_bps=read_rate(up, "--up"), down_bps=read_rate(down, "--down"), keeps_replicas=keep)
    config = load_config(None, {**flags_of(given), "links": list(contact or ()), "log": log})
    shelf = DiskShelf(config.name, share=share.resolve() if share else None, scratch=scratch)
    run_loop(serve(CollectService(config, shelf, params, has_files=share is not None), json))


async def serve(service: CollectService, json: bool) -> None:
    import signal

    async with service:
        name, address = service.config.name, service.address_text
        show(json_line({"name": name, "address": address}) if json else f"agent {name} is ready at {address}")
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for sign in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(sign, stopped.set)
        waiting = {asyncio.ensure_future(stopped.wait()), asyncio.ensure_future(service.wait())}
        done, rest = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for each in rest:
            each.cancel()
        for each in done:
            await each


@collections.command("get")
def get(
    patterns: Annotated[list[str], typer.Argument(help="Which files, as 'logs/*.gz'; ** is any folders.")],
    into: Annotated[Path, typer.Option(metavar="DIR", help="Where they go, below a folder for each source.")],
    contact: Contact = f"127.0.0.1:{PORT_OF_AGENTS}",
    from_: Annotated[str, typer.Option("--from", metavar="NAMES", help="Agents, with commas, or all.")] = "all",
    name: Annotated[str | None, typer.Option(help="What we are called; with tokens, as the token says.")] = None,
    listen: Listen = "127.0.0.1:0",
    public: Public = None,
    down: Rate = "",
    direct: Annotated[bool, typer.Option("--direct", help="Everybody straight to here, no relays.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what is in DIR already.")] = False,
    dry_run: Annotated[bool, typer.Option("--plan", help="Say what there is and how long it takes; no more.")] = False,
    block: Annotated[int, typer.Option(min=1, max=512, help="Kilobytes (1024) in a block.")] = 256,
    wait: Annotated[float, typer.Option(min=0.1, max=600, help="Seconds to wait for agents.")] = 10.0,
    measure: Annotated[
        float, typer.Option(min=0, max=600, help="Seconds to measure the paths to here first, for a better plan.")
    ] = 0.0,
    token: Token = None,
    token_key: TokenKey = None,
    authority: Authority = None,
    principals: Principals = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    tls_authority: TlsAuthority = None,
    insecure: Insecure = False,
    json: JsonLines = False,
) -> None:
    """Collect the files that match from agents, through each other where that is quicker.

    First says what there is and how long it is expected to take, then shows how far it is. Nothing that lies in DIR is
    written over; what was broken off goes on with --resume. Exit code 0 if every file is there, byte for byte, and 1 if
    any is not: each of those is named with the reason.

    \b
    Example:
      tidings collect get 'logs/*.gz' --from all --into ./here
      tidings collect get '**/*.parquet' --from web-1,web-2 --into ./here --resume --json
    """
    given = locals()
    sources = () if from_ == "all" else tuple(each.strip() for each in from_.split(",") if each.strip())
    flags = flags_of(given)
    params = CollectParams(block_bytes=block * 1024, down_bps=read_rate(down, "--down"), probe_period=0.0)
    contact = address_text(parse_address(contact, "--contact"))
    strategy = "direct" if direct else "planned"
    viewer = JsonView() if json else TextView()
    steps = collect(
        *patterns,
        contact=contact,
        into=into,
        sources=sources,
        resume=resume,
        strategy=strategy,
        params=params,
        wait=wait,
        measure=measure,
        approve=lambda listed: not dry_run,
        **flags,
    )
    ended = run_loop(watch(steps, viewer))
    if ended is None:
        return
    if not ended.is_complete:
        raise typer.Exit(NO)


async def watch(steps: Any, viewer: "TextView | JsonView") -> CollectionEnded | None:
    ended: CollectionEnded | None = None
    try:
        async for item in steps:
            viewer.show(item)
            if isinstance(item, CollectionEnded):
                ended = item
    finally:
        viewer.close()
    return ended


class JsonView:
    def show(self, item: CollectionListed | CollectionProgress | CollectionEnded) -> None:
        kind = {CollectionListed: "listed", CollectionProgress: "progress", CollectionEnded: "ended"}[type(item)]
        show(json_line({"kind": kind, **msgspec.to_builtins(item)}))

    def close(self) -> None:
        pass


def size_text(size_bytes: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size_bytes < 1000 or unit == "TB":
            return f"{size_bytes:.3g} {unit}"
        size_bytes /= 1000
    raise AssertionError


class TextView:
    """A plan, a bar, and what became of it."""

    def __init__(self) -> None:
        self.progress: Progress | None = None
        self.task: Any = None
        self.rows: dict[str, Any] = {}

    def show(self, item: CollectionListed | CollectionProgress | CollectionEnded) -> None:
        if isinstance(item, CollectionListed):
            self.listed(item)
        elif isinstance(item, CollectionProgress):
            self.move(item)
        else:
            self.close()
            self.ended(item)

    def listed(self, listed: CollectionListed) -> None:
        rows = [
            [each.node, str(len(each.files)), size_text(sum(file.size_bytes for file in each.files)), each.problem]
            for each in listed.sources
        ]
        show(*table_lines(["source", "files", "size", "problem"], rows))
        if listed.helpers:
            show(f"also passing on: {', '.join(listed.helpers)}")
        if listed.planned_seconds:
            says = (
                "by what was measured" if listed.is_measured else "not all paths are measured yet, so this is a guess"
            )
            show(f"expected: {listed.planned_seconds:.0f} s planned, {listed.direct_seconds:.0f} s direct ({says})")

    def move(self, moved: CollectionProgress) -> None:
        if self.progress is None:
            if not sys.stderr.isatty():
                return
            columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
            self.progress = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
            self.progress.start()
            self.task = self.progress.add_task("all", total=moved.size_bytes)
            for node, _, _ in moved.by_origin:
                self.rows[node] = self.progress.add_task(node, total=100)
        brought = dict(moved.by_sender)
        share = moved.arrived / max(1, moved.blocks)
        left = f", {moved.planned_seconds:.0f} s left" if moved.planned_seconds else ""
        self.progress.update(
            self.task, completed=share * moved.size_bytes, description=f"all (plan {moved.plan}{left})"
        )
        for node, arrived, blocks in moved.by_origin:
            carries = brought.get(node, 0) - arrived
            text = f"{node} (brings {carries} of others)" if carries > 0 else node
            self.progress.update(self.rows[node], completed=100 * arrived / max(1, blocks), description=text)

    def close(self) -> None:
        if self.progress is not None:
            self.progress.stop()
            self.progress = None

    def ended(self, ended: CollectionEnded) -> None:
        good = [file for file in ended.files if not file.problem]
        size = sum(file.size_bytes for file in good)
        rate = size / max(ended.seconds, 1e-9)
        show(f"{len(good)} files, {size_text(size)}, in {ended.seconds:.1f} s ({size_text(rate)}/s)")
        if ended.reason:
            show(f"given up: {ended.reason}", to_stderr=True)
        for file in ended.files:
            if file.problem not in ("", ended.reason):
                where = f"{file.origin}: {file.path}: " if file.path else f"{file.origin}: "
                show(f"{where}{file.problem}", to_stderr=True)
        if not ended.is_complete and not ended.reason:
            show("the rest is there; --resume tries again what is not", to_stderr=True)


@collections.command("plan")
def plan(
    table: Annotated[Path, typer.Argument(help="CSV with columns sender, receiver, and mbps (megabits a second).")],
    sink: Annotated[str, typer.Option(help="Who wants the files.")],
    size: Annotated[
        list[str] | None, typer.Option(metavar="HOST=MB", help="Megabytes that a host has; may be repeated.")
    ] = None,
    each: Annotated[float, typer.Option(min=0, help="Megabytes of every other host.")] = 100.0,
    access: Annotated[
        bool, typer.Option(help="Take the highest rate seen at a host for all that its access carries.")
    ] = True,
    picture: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the flows (.svg, .png).")] = None,
    json: Json = False,
) -> None:
    """Say how soon files could be collected, and by which ways, from a table of bandwidths alone.

    \b
    Example:
      tidings collect plan bandwidths.csv --sink web-1 --each 500 --picture flows.svg
    """
    found = plan_table(table, sink, size or (), each, access)
    if picture is not None:
        write_picture(found, picture)
    if json:
        print_json(found)
        return
    rows: Sequence[Sequence[str]] = [
        [share.sender, share.receiver, f"{share.megabytes:.0f}", f"{share.mbps:.1f}"] for share in found.shares
    ]
    show(*table_lines(["sender", "receiver", "MB", "Mbit/s"], rows))
    show(f"{found.seconds} s planned, {found.direct_seconds:.0f} s direct: {found.gain:.0%} sooner")
