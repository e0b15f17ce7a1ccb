"""`tidings sim sweep`: a scenario with many seeds and settings at once, on all cores or on a cluster."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from statistics import fmean
from typing import Annotated, Any

import msgspec
import typer

from tidings.cli.output import NO, Json, print_json, show, table_lines
from tidings.cli.simulations import Name, Sets, read_settings, simulations
from tidings.model.errors import UsageError
from tidings.sim.library import find
from tidings.sim.order import setting_text
from tidings.sim.scenario import Definition, Setting
from tidings.spark.session import LOCAL, QUICK_JAVA, open_session
from tidings.spark.sweeps import Outcome, Progress, Run
from tidings.spark.sweeps import sweep as perform_sweep
from tidings.spark.sweeps.run import FAILED
from tidings.spark.sweeps.table import PARQUET

FAILURES_SHOWN_MAX = 20

BY_REASON = ": "
"""In the name of a measure; such measures are too many for a table."""

Settings = dict[str, Setting]


class SweepSummary(msgspec.Struct, frozen=True):
    scenario: str
    summary: str
    first_seed: int
    last_seed: int
    folder: str
    skipped: int
    outdated: int
    variants: list["SweepVariant"]
    failures: list[Outcome]


class SweepVariant(msgspec.Struct, frozen=True):
    variant: str
    runs: int
    failed: int
    measures: dict[str, float]
    """Means over the runs that did not fail."""


@simulations.command()
def sweep(
    name: Name,
    folder: Annotated[
        str,
        typer.Option(help="Where results and traces go, a folder or a URL; what is finished there is not repeated."),
    ],
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to run.")] = 20,
    first: Annotated[int, typer.Option("--from", help="The first of them.")] = 0,
    set: Sets = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=A,B,...", help="Run with each of these values; several of these: with every pair."),
    ] = None,
    format: Annotated[str, typer.Option(help="As what they are written: parquet, or what your Spark knows.")] = PARQUET,
    traces: Annotated[bool, typer.Option("--traces/--no-traces", help="Keep what happened in each run.")] = True,
    master: Annotated[str, typer.Option(metavar="URL", help="Where Spark runs it: spark://host:7077 is a cluster.")] = (
        LOCAL
    ),
    json: Json = False,
) -> None:
    """Run a scenario with many seeds, and with every combination of settings, on all cores or on a cluster.

    Printed are the means of what was counted, for each combination. Results and traces are one table that Spark writes.
    A sweep that was interrupted goes on where it was when it is started again; runs that failed are tried again, and so
    are runs of a scenario that has been changed since.

    Exit code: 0 if all runs passed, 1 if one failed.

    \b
    Example:
      tidings sim sweep gossip --seeds 20 --vary nodes=10,20 --vary loss=0,0.1 --folder out
    """
    definition = find(name)
    variants = combinations(definition, read_settings(definition, set), vary or [])
    runs = [Run(name, variant, dict(chosen), first + place) for variant, chosen in variants for place in range(seeds)]
    spark = open_session(master, java_options=QUICK_JAVA)
    with progress_bar() as progress:
        done = perform_sweep(spark, runs, folder, traces=traces, format=format, progress=progress)
    outcomes = [msgspec.convert(row.asDict(), Outcome) for row in done.results.collect()]
    answer = SweepSummary(
        scenario=name,
        summary=definition.summary,
        first_seed=first,
        last_seed=first + seeds - 1,
        folder=str(folder),
        skipped=done.skipped,
        outdated=done.outdated,
        variants=[summarise(variant, outcomes) for variant, _ in variants],
        failures=[outcome for outcome in outcomes if outcome.status == FAILED],
    )
    if json:
        print_json(answer)
    else:
        show(*answer_lines(answer))
    if answer.failures:
        raise typer.Exit(NO)


def combinations(definition: Definition, fixed: Settings, vary: list[str]) -> list[tuple[str, Settings]]:
    """Each with the name of the variant, which says what differs. Whatever cannot be run is refused here."""
    varied: dict[str, list[Setting]] = {}
    for text in vary:
        name, equals, values = text.partition("=")
        if not equals:
            raise UsageError(f"--vary {text}: write it as NAME=VALUE,VALUE, such as nodes=10,20")
        if name in fixed or name in varied:
            raise UsageError(f"--vary {text}: {name} is given twice; give all its values to one --vary")
        varied[name] = list(dict.fromkeys(definition.read(name, value) for value in values.split(",")))
    found = []
    for choice in product(*varied.values()):
        chosen: Settings = dict(zip(varied, choice, strict=True))
        definition.scenario(fixed | chosen)
        variant = " ".join(f"{name}={setting_text(value)}" for name, value in chosen.items())
        found.append((variant, fixed | chosen))
    return found


def summarise(variant: str, outcomes: list[Outcome]) -> SweepVariant:
    ours = [outcome for outcome in outcomes if outcome.variant == variant]
    passed = [outcome.measures for outcome in ours if outcome.status != FAILED]
    names = sorted({name for measures in passed for name in measures})
    # What a run did not count did not happen in it.
    means = {name: fmean(measures.get(name, 0.0) for measures in passed) for name in names}
    return SweepVariant(variant, len(ours), len(ours) - len(passed), means)


def answer_lines(answer: SweepSummary) -> list[str]:
    runs = sum(each.runs for each in answer.variants)
    before = f", {answer.skipped} finished before" if answer.skipped else ""
    before += f", {answer.outdated} anew because the scenario has been changed" if answer.outdated else ""
    names = sorted({name for each in answer.variants for name in each.measures if BY_REASON not in name})
    rows = [
        [each.variant or "-", str(each.runs), str(each.failed), *[f"{each.measures.get(name, 0):g}" for name in names]]
        for each in answer.variants
    ]
    lines = [
        f"scenario   {answer.scenario}: {answer.summary}",
        f"seeds      {answer.first_seed} to {answer.last_seed}",
        f"runs       {runs}, {len(answer.failures) or 'none'} failed{before}",
        f"folder     {answer.folder}",
        "",
        *table_lines(["variant", "runs", "failed", *names], rows),
    ]
    for each in answer.failures[:FAILURES_SHOWN_MAX]:
        lines += ["", f"failed     {each.variant} seed {each.seed}: {each.error}", f"again      {each.replay}"]
    more = len(answer.failures) - FAILURES_SHOWN_MAX
    return [*lines, "", f"... and {more} more failed; --json shows all"] if more > 0 else lines


@contextmanager
def progress_bar() -> Iterator[Callable[[Progress], None]]:
    """A bar on stderr, if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns: tuple[Any, ...] = (
        *(TextColumn("runs"), BarColumn(), MofNCompleteColumn()),
        TextColumn("{task.fields[failed]} failed, {task.fields[left]}"),
    )
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None, failed=0, left="starting")

        def show(told: Progress) -> None:
            bar.update(task, total=told.total, completed=told.done, failed=told.failed, left=left_text(told))

        yield show


def left_text(told: Progress) -> str:
    if told.seconds_left is None:
        return "starting"
    minutes, seconds = divmod(round(told.seconds_left), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02} left"
