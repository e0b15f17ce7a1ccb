"""`tidings drain` and `tidings undrain`: before a broker is stopped, and when it is needed again.

The broker is found by its name: whoever is asked first names its neighbours, these theirs, and so on. Then it is asked
to send its clients away, and its row of the table "drain" says how far it is, until it is safe to stop.
"""

import asyncio
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Annotated

import msgspec
import typer

from tidings import UsageError
from tidings.cli.output import NO, Json, JsonLines, json_line, print_json, show
from tidings.cli.reach import Reach, reaching
from tidings.net.inspector import Inspector, NotDrained, NotInspected
from tidings.pubsub.rows import DrainRow, LinkRow

BrokerName = Annotated[str, typer.Argument(metavar="BROKER", help="The name of the broker, or where it listens.")]

LOOK_PERIOD = 0.2
"""Seconds between two looks at how far it is."""

SILENCE_MAX = 60.0
"""Seconds for which a broker that is drained may leave us without an answer."""

ASKED_MAX = 10_000
"""Brokers that are asked for one by its name."""

SAFE = "safe to stop"


class DrainStep(msgspec.Struct, frozen=True):
    """A line of `tidings drain --json`."""

    broker: str
    address: str
    row: DrainRow


@reaching
def drain(
    node: BrokerName,
    timeout: Annotated[
        float | None, typer.Option(min=0, help="Give up waiting after so many seconds; the broker stays drained.")
    ] = None,
    json: JsonLines = False,
    *,
    reach: Reach,
) -> None:
    """Send the clients of a broker to others, take no new ones, and say when it is safe to stop.

    Its clients are told a few at a time where else they could go. They are let in there first and lose nothing; those
    that do not go within 15 seconds lose their connection. It is safe to stop when all have gone, at most one link of
    the tree is left, and nothing passes through it any more. Ctrl-C ends the waiting, not the draining: `tidings
    undrain`. Exit code: 0 when it is safe to stop, 1 if it is not by the time-out, 3 if no broker answers, 4 if
    that needs a token with the role admin.

    \b
    Example:
      tidings drain b7 --broker 127.0.0.1:7411
    """
    told = print_line if json else DrainProgress()
    if not asyncio.run(drained(node, reach, timeout, told)):
        raise typer.Exit(NO)


@reaching
def undrain(node: BrokerName, json: Json = False, *, reach: Reach) -> None:
    """Let a broker take clients again. Those that have gone stay where they are.

    \b
    Example:
      tidings undrain b7 --broker 127.0.0.1:7411
    """
    asyncio.run(ended(node, reach))
    if json:
        print_json({"broker": node, "state": "serving"})
    else:
        show(f"{node} takes clients again")


Told = Callable[[DrainStep], None]


async def drained(broker: str, reach: Reach, timeout: float | None, told: Told) -> bool:
    """Whether it is safe to stop; `told` hears of each change. A broker that has much to do may be slow to answer."""
    address = await find(broker, reach)
    watch = DrainWatch(address, told)
    deadline = None if timeout is None else time.monotonic() + timeout
    while not watch.is_safe:
        try:
            async with Inspector(address, reach.access) as inspector:
                if watch.row is None:
                    await inspector.drain(True)
                while not await watch.look(inspector):
                    if deadline is not None and time.monotonic() >= deadline:
                        waits_for = "an answer" if watch.row is None else watch.row.waits_for
                        show(f"{broker} is not safe to stop yet: it waits for {waits_for}", to_stderr=True)
                        return False
                    await asyncio.sleep(LOOK_PERIOD)
        except NotInspected as problem:
            if watch.row is None or problem.is_refused or time.monotonic() > watch.seen_at + SILENCE_MAX:
                raise
            await asyncio.sleep(LOOK_PERIOD)
    return True


class DrainWatch:
    """How far a broker is, as it was last seen."""

    def __init__(self, address: str, told: Told) -> None:
        self.address, self.told = address, told
        self.row: DrainRow | None = None
        self.seen_at = 0.0

    @property
    def is_safe(self) -> bool:
        return self.row is not None and self.row.state == SAFE

    async def look(self, inspector: Inspector) -> bool:
        before, (row,) = self.row, await inspector.table("drain", DrainRow)
        self.row, self.seen_at = row, time.monotonic()
        if row.state == "serving":
            raise NotDrained(f"{inspector.broker} takes clients again: somebody has undrained or restarted it")
        if before is None or msgspec.structs.replace(row, seconds=before.seconds) != before:
            self.told(DrainStep(inspector.broker, self.address, row))
        return self.is_safe


async def ended(broker: str, reach: Reach) -> None:
    async with Inspector(await find(broker, reach), reach.access) as inspector:
        await inspector.drain(False)


async def find(broker: str, reach: Reach) -> str:
    """Where the broker listens: each broker that is asked names those that it is linked with."""
    if ":" in broker:
        return broker
    asked: dict[str, str] = {}
    ahead, problems = deque([reach.broker]), dict[str, str]()
    while ahead and len(asked) < ASKED_MAX:
        address = ahead.popleft()
        try:
            async with Inspector(address, reach.access) as inspector:
                links = await inspector.table("links", LinkRow)
                asked[address] = inspector.broker
        except NotInspected as problem:
            if not asked:
                raise
            asked[address], problems[address] = "", str(problem)
            continue
        if inspector.broker == broker:
            return address
        for link in links:
            if link.address and link.address not in asked and link.address not in ahead:
                (ahead.appendleft if link.broker == broker else ahead.append)(link.address)
    known = ", ".join(sorted(filter(None, asked.values())))
    silent = "".join(f"; {problem}" for problem in problems.values())
    raise UsageError(f"no broker of the network of {reach.broker} is called {broker!r}; there are {known}{silent}")


def print_line(step: DrainStep) -> None:
    print(json_line(step), flush=True)


class DrainProgress:
    """A line for each change; where people look on, one that changes."""

    def __init__(self) -> None:
        self.is_live = sys.stdout.isatty()

    def __call__(self, step: DrainStep) -> None:
        row = step.row
        text = safe_text(step) if row.state == SAFE else progress_text(step.broker, row)
        if self.is_live and row.state != SAFE:
            print(f"\r\x1b[K{text[:120]}", end="", flush=True)
        elif self.is_live:
            print("\r\x1b[K", end="")
            show(*text.split("\n"))
        else:
            show(*text.split("\n"))


def progress_text(broker: str, row: DrainRow) -> str:
    counts = [f"{row.moved} went"]
    counts += [f"{row.unable} found no other broker ({row.problem})"] if row.unable else []
    counts += [f"{row.let_go} let go"] if row.let_go else []
    return f"{broker}: {', '.join(counts)}; {len(row.neighbours)} links; waits for {row.waits_for}"


def safe_text(step: DrainStep) -> str:
    row = step.row
    lines = [f"{step.broker} is safe to stop: {row.moved} clients went elsewhere in {row.seconds:.1f} s, none is left"]
    if row.let_go:
        lines.append(f"  {row.let_go} of them did not go by themselves and were let go: {row.problem or 'too slow'}")
    if row.stored:
        lines.append(
            f"  {row.stored} events are stored here; without --data they are gone when it stops, and until it is back "
            "nobody can read them"
        )
    if row.neighbours:
        lines.append(f"  it is a leaf of the tree, below {', '.join(row.neighbours)}")
    lines.append(f"  tidings undrain {step.broker} --broker {step.address}   if it is to stay after all")
    return "\n".join(lines)
