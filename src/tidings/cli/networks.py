"""`tidings up`: a whole network of brokers on this machine, from one file.

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
from tidings.cli.output import NO, JsonLines, json_line
from tidings.cli.top import draw, measure, sample
from tidings.net.addresses import PORT_DEFAULT
from tidings.net.broker.config import NESTED, PREFIX, read_file
from tidings.net.errors import HostError
from tidings.net.inspector import InspectorAccess, NotInspected

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
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The network, as TOML.")],
    logs: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the log of each broker to DIR/NAME.log, not to stderr.")
    ] = None,
    json: JsonLines = False,
) -> None:
    """Start all brokers of a file on this machine, show what they do, and stop them on Ctrl-C.

    The file names brokers and the links between them; [settings] holds for all, [brokers.NAME] for one, with the names
    that `tidings config show` lists. Ends with exit code 1 if a broker ends by itself.

    \b
    Example:
      tidings up network.toml
    """
    planned = read_network(read_file(file), file)
    if logs is not None:
        logs.mkdir(parents=True, exist_ok=True)
    code = asyncio.run(Fleet(planned, logs, json).run())
    if code:
        raise typer.Exit(code)


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
                print(json_line({"started": each.name, "listen": each.listen}) if self.as_json else line, flush=True)
            return await self.watch()
        finally:
            await self.stop()
            if self.as_json:
                print(json_line({"stopped": list(self.children)}), flush=True)

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
                print(f"tidings: broker {name} ended by itself, with {task.result()}; all are stopped", file=sys.stderr)
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
