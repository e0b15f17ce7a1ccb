"""`tidings sim`: run scenarios, hunt for seeds that fail, run a trace again."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer

from tidings.cli.output import Json, print_json, show
from tidings.model.errors import UsageError
from tidings.sim.library import built_in, find
from tidings.sim.order import HuntFinding, Replay, RunOrder, fulfil, hunt, replay, run_all, setting_text
from tidings.sim.scenario import Definition, Result, Setting
from tidings.trace.record import Record

FAILED = 1

FAULTS_SHOWN_MAX = 40
"""Of more faults the rest is counted."""

simulations = typer.Typer(
    help="Run protocols in a simulated network.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A built-in scenario, FILE.toml, or FILE.py:FUNCTION.")]
Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Another value for a setting; may be repeated.")
]
Duration = Annotated[float | None, typer.Option(help="Simulated seconds in which things happen, before settling.")]
CheckOption = Annotated[
    Literal["every", "sometimes", "never"],
    typer.Option(
        "--check", help="After which inputs the state of machines is checked. Every one may take most of the time."
    ),
]
FramesOption = Annotated[
    bool, typer.Option("--frames/--no-frames", help="Send every message through its bytes; takes twice the time.")
]


@simulations.command("list")
def list_command(json: Json = False) -> None:
    """List the built-in scenarios and what may be set in each.

    \b
    Example:
      tidings sim list
    """
    known = built_in().values()
    if json:
        print_json([{"name": each.name, "summary": each.summary, "settings": each.settings} for each in known])
        return
    width = max(len(each.name) for each in known)
    for each in known:
        show(f"{each.name:<{width}}  {each.summary}")
        show(f"{'':<{width}}    {' '.join(f'{name}={setting_text(value)}' for name, value in each.settings.items())}")


@simulations.command("run")
def run_command(
    name: Name,
    seed: Annotated[int, typer.Option(help="Decides everything that is left to chance.")] = 0,
    set: Sets = None,
    duration: Duration = None,
    faults: Annotated[
        str | None,
        typer.Option(help="Not the drawn faults but these: '2..5 crash n3; 4..9 pause n1'; '' for none."),
    ] = None,
    check: CheckOption = "sometimes",
    frames: FramesOption = True,
    trace: Annotated[Path | None, typer.Option(help="Write what happens to this file: .parquet or .jsonl.")] = None,
    json: Json = False,
) -> None:
    """Run a scenario once. The same seed gives the same run, to the byte of its trace.

    Exit code: 0 if every checker is content, 1 if one is not.

    \b
    Example:
      tidings sim run gossip --seed 7 --set topology=star --trace run.jsonl
    """
    definition = find(name)
    order = RunOrder(
        scenario=name,
        seed=seed,
        settings=read_settings(definition, set),
        duration=duration,
        faults=faults,
        check=check,
        frames=frames,
    )
    result = fulfil(order, definition, trace)
    if json:
        print_json({"order": order, "command": order.command(), "result": result, "trace": trace and str(trace)})
    else:
        show(*result_lines(order, definition, result, trace))
    if not result.passed:
        raise typer.Exit(FAILED)


@simulations.command("hunt")
def hunt_command(
    name: Name,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to try.")] = 200,
    first: Annotated[int, typer.Option("--from", help="The first of them.")] = 0,
    set: Sets = None,
    duration: Duration = None,
    check: CheckOption = "every",
    frames: FramesOption = True,
    all: Annotated[bool, typer.Option("--all", help="Go on after a failure.")] = False,
    shrink: Annotated[bool, typer.Option("--shrink/--no-shrink", help="Make failures smaller.")] = True,
    workers: Annotated[int, typer.Option(min=1, help="Processes that run seeds side by side.")] = 1,
    json: Json = False,
) -> None:
    """Run a scenario with many seeds; make the first failure as small as possible, and say how to have it again.

    Exit code: 0 if no seed failed, 1 if one did.

    \b
    Example:
      tidings sim hunt gossip-chaos --seeds 200
      tidings sim hunt nemesis --seeds 1000 --all --no-shrink --workers 2
    """
    definition = find(name)
    settings = read_settings(definition, set)
    orders = [
        RunOrder(scenario=name, seed=seed, settings=settings, duration=duration, check=check, frames=frames)
        for seed in range(first, first + seeds)
    ]
    judged: Counter[str] = Counter()
    with progress_bar(len(orders), judged) as progress, outcomes_of(definition, orders, workers) as outcomes:
        found = list(hunt(definition, outcomes, all, shrink, progress))
    last = found[-1].order.seed if found and not all else first + seeds - 1
    tried = f"seed {first}" if last == first else f"seeds {first} to {last}"
    if json:
        failures = [found_json(each) for each in found]
        print_json({"scenario": name, "tried": tried, "judged": judged, "failures": failures})
    else:
        show(*hunt_lines(definition, tried, judged, found))
    if found:
        raise typer.Exit(FAILED)


@contextmanager
def outcomes_of(
    definition: Definition, orders: list[RunOrder], workers: int
) -> Iterator[Iterable[tuple[RunOrder, Result]]]:
    """The runs of these orders, in their order, as they come."""
    if workers == 1:
        yield run_all(definition, orders)
        return
    import multiprocessing

    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield pool.imap(run_named, orders)


def run_named(order: RunOrder) -> tuple[RunOrder, Result]:
    """In a process that knows nothing but the order."""
    return order, fulfil(order, find(order.scenario))


@simulations.command("replay")
def replay_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A trace that `tidings sim run` wrote.")],
    json: Json = False,
) -> None:
    """Run again what a trace records, and compare the two traces to the last byte.

    Exit code: 0 if they are the same, 1 if they differ.

    \b
    Example:
      tidings sim replay run.jsonl
    """
    replayed = replay(file)
    if json:
        print_json({"command": replayed.order.command(), "replay": replayed})
    else:
        show(*replay_lines(file, replayed))
    if not replayed.is_same:
        raise typer.Exit(FAILED)


def read_settings(definition: Definition, given: list[str] | None) -> dict[str, Setting]:
    settings = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text}: write it as NAME=VALUE, such as nodes=20")
        settings[name] = definition.read(name, value)
    return settings


@contextmanager
def progress_bar(total: int, judged: Counter[str]) -> Iterator[Any]:
    """A bar on stderr, if that is a terminal; what was judged is added up in `judged`, and the faults with it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("hunting", total=total)

        def progress(order: RunOrder, result: Result, found: int) -> None:
            judged.update(result.judged)
            judged["faults"] += len(result.faults)
            if not result.passed:
                bar.console.print(f"failed: {order.command()}", highlight=False, soft_wrap=True)
            description = f"seed {order.seed}" + (f", {found} failed" if found else "")
            bar.update(task, advance=1, description=description)

        yield progress


def result_lines(order: RunOrder, definition: Definition, result: Result, trace: Path | None) -> list[str]:
    counters = result.counters
    lost = sum(counters.lost.values())
    lines = [
        f"scenario   {order.scenario}: {definition.summary}",
        f"seed       {order.seed}",
        f"network    {result.nodes} nodes, {result.edges} links",
        f"faults     {len(result.faults) or 'none'}",
        *[f"  {fault}" for fault in result.faults[:FAULTS_SHOWN_MAX]],
    ]
    if len(result.faults) > FAULTS_SHOWN_MAX:
        lines.append(f"  ... and {len(result.faults) - FAULTS_SHOWN_MAX} more; --json shows all")
    lines += [
        f"inputs     {result.inputs}, of which {counters.refused} found the node down",
        f"time       {result.ended_at:g} s simulated",
        f"messages   {counters.sent} sent, {counters.duplicated} duplicated, {counters.received} received, {lost} lost",
        *[f"  lost     {count} {reason}" for reason, count in counters.lost.items()],
        *[f"  dropped  {count} {reason}" for reason, count in counters.given_up.items()],
        f"delivered  {counters.delivered}",
    ]
    if result.judged:
        lines.append(f"judged     {judged_text(result.judged)}")
    if trace is not None:
        lines.append(f"trace      {trace}")
    return [*lines, *verdict_lines(result), f"again      {order.command()}"]


def verdict_lines(result: Result) -> list[str]:
    if result.passed:
        return ["verdict    passed"]
    more = result.problem_count - len(result.problems)
    return [
        "verdict    FAILED",
        *[f"  {problem}" for problem in result.problems],
        *([f"  ... and {more} more"] if more else []),
    ]


def judged_text(judged: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in judged.items())


def hunt_lines(definition: Definition, tried: str, judged: Mapping[str, int], found: list[HuntFinding]) -> list[str]:
    lines = [f"scenario   {definition.name}", f"tried      {tried}", f"judged     {judged_text(judged)}"]
    if not found:
        return [*lines, "failed     none"]
    for each in found:
        small, result = each.smallest, each.smallest_result
        lines += [
            f"failed     seed {each.order.seed}: {size_text(each.result)}",
            *([f"smallest   {size_text(result)}, found with {each.runs} more runs"] if each.runs else []),
            *[f"  {fault}" for fault in result.faults],
            *verdict_lines(result),
            f"again      {small.command()}",
        ]
    return lines


def size_text(result: Result) -> str:
    faults = "1 fault" if len(result.faults) == 1 else f"{len(result.faults) or 'no'} faults"
    return f"{faults} among {result.nodes} nodes"


def found_json(found: HuntFinding) -> dict[str, Any]:
    return {"command": found.smallest.command(), **msgspec.structs.asdict(found)}


def replay_lines(file: Path, replayed: Replay) -> list[str]:
    lines = [
        f"trace      {file}",
        f"order      {replayed.order.command()}",
        f"seed       {replayed.order.seed}",
        *verdict_lines(replayed.result),
    ]
    difference = replayed.difference
    if replayed.is_same:
        return [*lines, f"replay     the same, {replayed.rows} rows"]
    if difference is None:
        return [
            *lines,
            f"replay     the same {replayed.rows} rows in other bytes, perhaps by another version of pyarrow",
        ]
    return [
        *lines,
        f"replay     DIFFERENT from row {difference.row} on",
        f"  recorded {row_text(difference.recorded)}",
        f"  replayed {row_text(difference.replayed)}",
    ]


def row_text(record: Record | None) -> str:
    return "nothing more" if record is None else msgspec.json.encode(record).decode()
