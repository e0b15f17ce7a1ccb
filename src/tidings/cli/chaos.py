"""`tidings chaos`: real brokers are killed, stopped, run out of disk and have their clocks set wrong, and every promise
is held against what applications see.

The nemesis of the simulator (`tidings sim hunt nemesis`) on real processes: the same campaigns, the same judge. It is
played in rounds, one after the other, each with brokers of its own and a seed of its own, the next number; so a round
that failed is played again by its seed alone.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from tidings.cli.chaos_round import ChaosRound, RoundOutcome, add_up
from tidings.cli.output import NO, Json, print_json, show
from tidings.workloads.nemesis.campaign import CampaignParams

BROKEN_SHOWN_MAX = 10
"""Broken promises of a round that are shown; of more the rest is counted."""


def chaos(
    seed: Annotated[int, typer.Option(help="Decides what is drawn in the first round; the next has the next.")] = 0,
    duration: Annotated[
        float, typer.Option(min=0, help="Seconds after which no further round begins; 0 plays a single one.")
    ] = 60.0,
    span: Annotated[float, typer.Option(min=1, max=600, help="Seconds of a round in which things happen.")] = 15.0,
    faults: Annotated[int, typer.Option(min=1, max=100, help="Faults of a round, at most.")] = 6,
    brokers: Annotated[int, typer.Option(min=0, max=20, help="Brokers of a round; 0 is drawn.")] = 0,
    join: Annotated[
        bool, typer.Option("--join", help="Draw no links: brokers find their tree by themselves (lstree).")
    ] = False,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep logs and stores there; else they are removed.")
    ] = None,
    json: Json = False,
) -> None:
    """Kill, stop and starve real brokers on this machine, and judge every promise by what applications see.

    All processes are ended. Exit code: 0 if every promise was kept, 1 if one was not.

    \b
    Example:
      tidings chaos --seed 7 --duration 1800
    """
    params = CampaignParams(brokers=brokers, span=span, scale="usual", has_tenants=False, has_readings=False)
    outcomes: list[RoundOutcome] = []
    ends_at = time.monotonic() + duration
    with progress_bar(duration) as progress:
        while not outcomes or time.monotonic() < ends_at:
            outcomes.append(play_round(seed + len(outcomes), params, faults, folder, join))
            progress(outcomes, duration - max(0.0, ends_at - time.monotonic()))
    if json:
        judged, kinds = add_up(outcomes)
        failed = [{"command": each.command(), "round": each} for each in outcomes if each.broken]
        print_json({"rounds": len(outcomes), "seed": seed, "faults": kinds, "judged": judged, "failed": failed})
    else:
        show(*report_lines(seed, outcomes))
    if any(outcome.broken for outcome in outcomes):
        raise typer.Exit(NO)


def play_round(seed: int, params: CampaignParams, faults: int, folder: Path | None, joins: bool) -> RoundOutcome:
    with nullcontext(folder / f"{seed}") if folder else tempfile.TemporaryDirectory(prefix="tidings-chaos-") as place:
        home = Path(place)
        home.mkdir(parents=True, exist_ok=True)
        return asyncio.run(ChaosRound(seed, params, faults, home, joins).play())


@contextmanager
def progress_bar(duration: float) -> Iterator[Any]:
    """A bar on stderr, if that is a terminal; rounds that failed are told there at once."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("chaos", total=duration)

        def progress(outcomes: list[RoundOutcome], done: float) -> None:
            last, failed = outcomes[-1], sum(bool(outcome.broken) for outcome in outcomes)
            if last.broken:
                bar.console.print(f"failed: {last.command()}: {last.broken[0].text}", highlight=False, soft_wrap=True)
            bar.update(task, completed=done, description=f"{len(outcomes)} rounds, {failed} failed")

        yield progress


def report_lines(seed: int, outcomes: list[RoundOutcome]) -> list[str]:
    judged, kinds = add_up(outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    failed = [outcome for outcome in outcomes if outcome.broken]
    lines = [
        f"seed       {seed}",
        f"rounds     {len(outcomes)}, {sum(outcome.brokers for outcome in outcomes)} brokers, {seconds:.0f} s",
        f"faults     {', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))}",
        f"judged     {', '.join(f'{count} {what}' for what, count in judged.items())}",
        f"failed     {len(failed) or 'none'}",
    ]
    for outcome in failed:
        lines += [f"round      {outcome.command()}", *(f"  {fault}" for fault in outcome.faults)]
        lines += [f"  {each.promise}: {each.text} ({each.who})" for each in outcome.broken[:BROKEN_SHOWN_MAX]]
        if len(outcome.broken) > BROKEN_SHOWN_MAX:
            lines.append(f"  ... and {len(outcome.broken) - BROKEN_SHOWN_MAX} more")
    return lines
