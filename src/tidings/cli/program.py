"""The commands of `tidings`, and what they have in common.

Answers go to stdout, problems to stderr. Every command takes `--json` for JSON instead of text. Exit codes:

    0   done; for a question, yes
    1   for a question, no; something was found wrong, or did not succeed
    2   called wrongly; the message says what to do
    3   no broker answers there
    4   a broker does not let us in, or not do this
    5   this machine refuses: a port that is taken, a file that cannot be used

A command is loaded when it is called: to publish an event, nobody waits for the simulator. So the list of commands
knows without them where each stands and how its help begins.
"""

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
import typer.core
import typer.main

from tidings.model.errors import UsageError


class CommandPlace(NamedTuple):
    module: str
    """Below `tidings.cli`."""
    name: str
    """Of the function, or of the group of commands."""
    help: str
    """How its help begins, for the list of commands."""


COMMANDS = {
    "broker": CommandPlace("brokers", "broker", "Run a broker until it is told to stop"),
    "up": CommandPlace("brokers", "up", "Start all brokers of a file, or so many, on this machine"),
    "pub": CommandPlace("pub", "pub", "Publish one event, or with --lines as many as come on stdin"),
    "sub": CommandPlace("sub", "sub", "Show events that match a filter as they come"),
    "top": CommandPlace("top", "top", "Show rates, queues and drops of all brokers"),
    "doctor": CommandPlace("top", "doctor", "Compare the tables of all brokers with what they should be"),
    "why": CommandPlace("top", "why", "Follow an event to a subscriber, hop by hop"),
    "drain": CommandPlace("drain", "drain", "Send the clients of a broker to others"),
    "undrain": CommandPlace("drain", "undrain", "Let a broker take clients again"),
    "watch": CommandPlace("watch", "watch", "Follow a network or the traces it writes, and show what changes"),
    "bench": CommandPlace("bench", "bench", "Measure throughput and latency of a broker"),
    "chaos": CommandPlace(
        "chaos", "chaos", "Kill, stop and starve real brokers on this machine, and judge every promise"
    ),
    "version": CommandPlace("version", "version", "Say which version this is"),
    "demo": CommandPlace("demo", "demo", "Start five brokers, publish real flights, kill a broker in the middle"),
    "config": CommandPlace("brokers", "config_commands", "Look at the settings of a broker"),
    "keys": CommandPlace("keys", "keys", "Make keys for tokens, and certificates for TLS"),
    "token": CommandPlace("keys", "tokens", "Sign a token"),
    "store": CommandPlace("store", "store", "Look after the data of a broker that is stopped"),
    "filter": CommandPlace("filters", "filters", "Explain and compare filters"),
    "sim": CommandPlace("sweep", "simulations", "Run protocols in a simulated network"),
    "trace": CommandPlace("traces", "traces", "Show what was recorded of a run"),
    "lab": CommandPlace("lab", "lab", "Run published experiments and compare with what was published"),
    "workload": CommandPlace(
        "workloads", "workloads", "Show what workloads publish and ask for, and write their tables"
    ),
    "feeds": CommandPlace("feeds", "feeds", "Read feeds together with others: one poll serves all"),
    "plan": CommandPlace("plans", "plans", "Plan a change of the network, step by step"),
    "collect": CommandPlace("collect", "collections", "Collect large files from many machines at one"),
    "spark": CommandPlace("spark", "spark", "Spark on other machines"),
}


def load(word: str) -> Any:
    """The command as typer makes it, or the group."""
    place = COMMANDS[word]
    found = getattr(import_module(f"tidings.cli.{place.module}"), place.name)
    if isinstance(found, typer.Typer):
        command: Any = typer.main.get_group(found)
    else:
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command()(found)
        command = typer.main.get_command(alone)
    command.name = word
    return command


class LoadedCommands(MutableMapping[str, Any]):
    """All commands by name; who asks for one has it loaded."""

    def __init__(self) -> None:
        self.loaded: dict[str, Any] = {}

    def __getitem__(self, word: str) -> Any:
        if word not in self.loaded:
            self.loaded[word] = load(word)
        return self.loaded[word]

    def __setitem__(self, word: str, command: Any) -> None:
        self.loaded[word] = command

    def __delitem__(self, word: str) -> None:
        raise UsageError(f"the command {word} cannot be taken away")

    def __contains__(self, word: object) -> bool:
        return word in COMMANDS

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class ProgramGroup(typer.core.TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = LoadedCommands()

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(word, f"{place.help}.") for word, place in COMMANDS.items()])


app = typer.Typer(
    name="tidings",
    cls=ProgramGroup,
    help="Content-based publish/subscribe: filters over the attributes of events.",
    epilog="Exit codes: 0 done or yes, 1 no, 2 called wrongly, 3 no broker answers, 4 not permitted, 5 port or file.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def program() -> None:
    """What stands before a command: nothing but --help."""


def run(arguments: list[str]) -> int:
    try:
        app(args=arguments, prog_name="tidings")
    except UsageError as problem:
        from tidings.cli.output import show
        from tidings.cli.reach import exit_code

        show(*f"tidings: {problem}".split("\n"), to_stderr=True)
        return exit_code(problem)
    except SystemExit as finished:
        return finished.code if isinstance(finished.code, int) else 0
    return 0
