"""`tidings` as processes of their own, for tests: started, listened to, and never left behind."""

import asyncio
import ctypes
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

LIBC, PR_SET_PDEATHSIG = ctypes.CDLL(None), 1

SOURCE = Path(__file__).parents[2] / "src"

ENVIRONMENT = {"PYTHONPATH": str(SOURCE), "TIDINGS_BROKER_ROUTING__ENGINE": "plain"}
"""Loading the compiled engine takes a second, and tests start many brokers."""


class Program:
    """One process. `said` is what it has written to stderr so far, line by line; `address` is where a broker is."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.address = ""
        self.said: list[str] = []
        self.heard = asyncio.Condition()
        self.listening = asyncio.create_task(self.listen())

    async def listen(self) -> None:
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            async with self.heard:
                self.said.append(line.decode().rstrip("\n"))
                self.heard.notify_all()

    async def line(self) -> str:
        """The next line of stdout."""
        assert self.process.stdout is not None
        line = (await self.process.stdout.readline()).decode()
        assert line, f"it ended: {self.said}"
        return line.rstrip("\n")

    async def says(self, words: str) -> str:
        """Wait for a line with these words on stderr."""
        async with self.heard:
            while not any(words in line for line in self.said):
                await self.heard.wait()
        return next(line for line in self.said if words in line)

    def tell(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def end(self) -> int:
        """Wait for it to end; the exit code."""
        code = await self.process.wait()
        await self.listening
        return code

    @property
    def children(self) -> list[int]:
        """Processes that it started, by number."""
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == self.process.pid and fields[0] != "Z":
                found.append(int(path.parent.name))
        return found


def become_child() -> None:
    """In a new process, before its program: it does not outlive us, even if we are killed."""
    if sys.platform == "linux":
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # Tests that are run in the background have Ctrl-C ignored, and so would every process that they start.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@asynccontextmanager
async def python(*words: str, **how: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process of this Python that is gone afterwards, whatever the test did. Its stdout can be read."""
    pipe = {"stdout": asyncio.subprocess.PIPE, **how}
    process = await asyncio.create_subprocess_exec(sys.executable, *words, preexec_fn=become_child, **pipe)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def tidings(
    *arguments: str, stdin: bytes | None = None, variables: dict[str, str] | None = None
) -> AsyncIterator[Program]:
    async with python(
        *("-m", "tidings", *arguments),
        stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **ENVIRONMENT, **(variables or {})},
    ) as process:
        program = Program(process)
        if stdin is not None:
            assert process.stdin is not None
            process.stdin.write(stdin)
            process.stdin.close()
        yield program
    await program.listening


@asynccontextmanager
async def broker(name: str, *links: str, listen: str = "127.0.0.1:0", **options: str) -> AsyncIterator[Program]:
    """A broker that is ready."""
    more = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", value)]
    linked = [word for link in links for word in ("--link", link)]
    arguments = ["broker", "--name", name, "--listen", listen, "--json", "--log", "warning", *linked, *more]
    async with tidings(*arguments) as program:
        ready = json.loads(await program.line())
        assert ready["broker"] == name
        program.address = ready["listen"]
        yield program


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
