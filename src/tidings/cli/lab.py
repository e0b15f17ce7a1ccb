"""`tidings lab`: run published experiments, judge them, and show them on one page.

Spark and matplotlib are loaded when an experiment is run or judged, not before.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from tidings.cli.output import NO, Json, print_json, show, table_lines
from tidings.cli.sweep import progress_bar
from tidings.model.errors import UsageError
from tidings.spark.session import LOCAL, open_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from tidings.lab.experiment import Experiment, Parameter
    from tidings.lab.run import Judged
    from tidings.lab.verdicts import ClaimJudgement
    from tidings.spark.sweeps.provenance import Provenance

lab = typer.Typer(
    help="Run published experiments and compare with what was published.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

ERRORS_SHOWN_MAX = 5
DIGITS_SHOWN = 12
"""Of a digest."""

Master = Annotated[str, typer.Option(metavar="URL", help="The Spark cluster; local[*] is this machine.")]
Folder = Annotated[
    str,
    typer.Option(help="Where everything is written, and what was run before is found: a folder, or a URL (s3a://...)."),
]


@lab.command("list")
def list_command(json: Json = False) -> None:
    """List the published experiments: those that run here, and those that wait for a part that is not built.

    \b
    Example:
      tidings lab list
    """
    from tidings.lab.experiment import Experiment
    from tidings.lab.registry import entries

    known = entries()
    if json:
        print_json([entry_json(each) for each in known.values()])
        return
    runs = [each for each in known.values() if isinstance(each, Experiment)]
    waits = [each for each in known.values() if not isinstance(each, Experiment)]
    rows = [[each.id, each.title, ", ".join(each.scales)] for each in runs]
    show(*table_lines(["runs here", "", "scales"], rows))
    show()
    show(*table_lines(["not built yet", "", "waits for"], [[each.id, each.title, each.needs] for each in waits]))


@lab.command("run")
def run_command(
    experiments: Annotated[list[str], typer.Argument(metavar="FAMILY/EXPERIMENT...", help="Such as dependable/E23.")],
    scale: Annotated[str, typer.Option(help="small: a minute or two; paper: as published, long.")] = "small",
    seeds: Annotated[int | None, typer.Option(min=1, help="How many; each experiment has its own number.")] = None,
    master: Master = LOCAL,
    folder: Folder = "lab-results",
    json: Json = False,
) -> None:
    """Run experiments as Spark sweeps, and judge each against what was published.

    Runs that are finished in the folder are not run again, unless the experiment has been changed since. Exit code: 0
    if everything ran, also where a band was missed; 1 if a run failed.

    \b
    Example:
      tidings lab run dependable/E23 --scale small --seeds 5
    """
    from tidings.lab.registry import find
    from tidings.lab.run import order_of, run_experiment

    chosen = [find(id) for id in dict.fromkeys(experiments)]
    orders = [order_of(each, scale, seeds) for each in chosen]
    spark = open_spark(master)
    done = []
    for experiment, order in zip(chosen, orders, strict=True):
        with progress_bar() as progress:
            judged = run_experiment(spark, experiment, order, folder, progress)
        done.append(judged)
        if not json:
            show(*judged_lines(judged, experiment))
    if json:
        print_json([judged_json(each) for each in done])
    if any(each.failed for each in done):
        raise typer.Exit(NO)


@lab.command("report")
def report_command(folder: Folder = "lab-results", master: Master = LOCAL, json: Json = False) -> None:
    """Judge everything in the folder anew, from its Parquet, and write one page: FOLDER/index.html.

    \b
    Example:
      tidings lab report
    """
    from tidings.lab.report import write_report
    from tidings.lab.run import judge_folder

    every = judge_folder(open_spark(master), folder)
    page = write_report(folder, every)
    if json:
        print_json({"page": str(page), "experiments": [judged_json(each) for each in every]})
        return
    rows = [
        [
            each.order.experiment,
            each.order.scale,
            summary(each) + ("" if each.is_current else " (of an older definition)"),
        ]
        for each in every
    ]
    show(*table_lines(["experiment", "scale", "verdicts"], rows))
    show(f"page  {page}")


def open_spark(master: str) -> "SparkSession":
    if find_spec("matplotlib") is None:
        raise UsageError("the lab draws with matplotlib, which is not installed: pip install 'tidings[lab]'")
    return open_session(master)


def judged_lines(judged: "Judged", experiment: "Experiment") -> list[str]:
    order, failed = judged.order, judged.failed
    with_what = order.parameters(experiment)
    return [
        f"{order.experiment}  {experiment.title}",
        f"scale {order.scale}, seeds 1 to {order.seeds}, {len(judged.performed)} runs"
        + (f", {len(failed)} FAILED" if failed else ""),
        "",
        *table_lines(["parameter", ""], [[name, values_text(values)] for name, values in with_what.items()]),
        "",
        *table_lines(["", "published", "measured (95 %)", "n", "verdict"], table_rows(judged.judgements)),
        "",
        f"verdicts   {summary(judged)}",
        *[f"  {verdict}  {says}: {why}" for (verdict, says), why in reasons(judged).items()],
        *[f"  failed  {each.error.splitlines()[0]}\n          {each.replay}" for each in failed[:ERRORS_SHOWN_MAX]],
        *[f"made with  {made_with_text(each)}" for each in judged.made_with],
        *(
            []
            if judged.is_current
            else ["           the experiment has been changed since; run it to judge it as it is"]
        ),
        f"written    {judged.place}",
        f"again      {order.command()}",
        "",
    ]


def values_text(values: "Sequence[Parameter]") -> str:
    return ", ".join(str(each) if each != "" else "none" for each in values)


def remark(judged: "Judged") -> str:
    return "" if judged.is_current else " (of an older definition)"


def made_with_text(made: "Provenance") -> str:
    commit = f" ({made.commit})" if made.commit else ""
    return f"tidings {made.version}{commit}, definition {made.definition[:DIGITS_SHOWN]}"


def table_rows(judgements: "list[ClaimJudgement]") -> list[list[str]]:
    """What a claim says, and its band, stand above the lines of its groups."""
    rows, last = [], ("", "")
    for each in judgements:
        if (each.says, each.band) != last:
            last = each.says, each.band
            rows.append([each.says, each.published, "", "", each.band])
        rows.append([f"  {each.group}", "", each.measured, str(each.runs), each.verdict])
    return rows


def summary(judged: "Judged") -> str:
    from tidings.lab.experiment import VERDICTS

    counts = [(judged.count(verdict), verdict) for verdict in VERDICTS]
    return ", ".join(f"{count} {verdict}" for count, verdict in counts if count)


def reasons(judged: "Judged") -> dict[tuple[str, str], str]:
    """Why something is missed, better or not judged; of what is undecided the interval says it."""
    told = [each for each in judged.judgements if each.verdict not in ("reproduced", "undecided")]
    return {(each.verdict, each.says): each.why for each in told}


def entry_json(entry: Any) -> dict[str, Any]:
    from tidings.lab.experiment import Experiment

    if not isinstance(entry, Experiment):
        return {"is_built": False, **msgspec.structs.asdict(entry)}
    return {
        "is_built": True,
        "id": entry.id,
        "title": entry.title,
        "question": entry.question,
        "source": entry.source,
        "variants": [each.name for each in entry.variants],
        "scales": {name: msgspec.structs.asdict(each) for name, each in entry.scales.items()},
        "claims": [msgspec.structs.asdict(each) for each in entry.claims],
    }


def judged_json(judged: "Judged") -> dict[str, Any]:
    from tidings.lab.tables import row_of

    return {
        "order": judged.order,
        "command": judged.order.command(),
        "folder": str(judged.place),
        "runs": len(judged.performed),
        "missing": judged.missing,
        "made_with": judged.made_with,
        "is_current": judged.is_current,
        "table": [row_of(judged.order.experiment, each, judged.made_with) for each in judged.judgements],
        "failed": judged.failed,
    }
