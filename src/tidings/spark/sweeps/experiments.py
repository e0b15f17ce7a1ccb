"""What a run runs, found by its name in the worker that runs it.

    package.module:function       a function of yours
    gossip                        a scenario of the library (`tidings sim list`)
    path/to/outage.toml           a scenario in a file
    path/to/mine.py:my_scenario   a scenario that a function in a file makes

A function is called with variant, parameters, seed and a writer for its trace, and answers with its measures, numbers
by name. Whatever it raises makes the run a failed one. A scenario is given the parameters as its settings; its measures
are what the simulator counted, and it fails if a checker finds something.

Modules and files are looked for in the folder in which the sweep was started too, wherever the worker is.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any

from tidings.model.errors import UsageError
from tidings.sim.library import find
from tidings.sim.order import RunOrder, run_ordered, write_order
from tidings.sim.simulator import Counters
from tidings.trace.rows import Rows
from tidings.trace.writer import Writer

Experiment = Callable[[str, Mapping[str, Any], int, Writer], Mapping[str, float]]

FILE_ENDING, FUNCTION_IN_FILE = ".toml", ".py:"


class RunFailed(Exception):
    """What was run judges that it failed; the message says why."""


class Nowhere(Writer):
    """For runs without a trace: takes everything, and keeps nothing."""

    def __init__(self, run: str, seed: int) -> None:
        super().__init__(run, seed, 1)

    def convert(self) -> None:
        self.forget()

    def store(self, rows: Rows) -> None:
        """There never are any."""


def find_experiment(name: str, base: Path) -> Experiment:
    """`base` is where the sweep was started."""
    if ":" in name and FUNCTION_IN_FILE not in name:
        return import_function(name, base)
    return partial(run_scenario, name, base)


def import_function(name: str, base: Path) -> Experiment:
    module_name, _, function_name = name.partition(":")
    if str(base) not in sys.path:
        sys.path.append(str(base))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as problem:
        if problem.name is None or not f"{module_name}.".startswith(f"{problem.name}."):
            raise
        raise UsageError(
            f"there is no module {problem.name!r} for the experiment {name}; install it wherever runs are performed, "
            "or start in the folder that it is in"
        ) from None
    function: Experiment | None = getattr(module, function_name, None)
    if not callable(function):
        raise UsageError(f"the module {module_name} has no function {function_name!r} for the experiment {name}")
    return function


def run_scenario(
    name: str, base: Path, variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer
) -> dict[str, float]:
    is_file = name.endswith(FILE_ENDING) or FUNCTION_IN_FILE in name
    definition = find(str(base / name) if is_file else name)
    order = RunOrder(scenario=name, seed=seed, settings=dict(parameters))
    scenario = definition.scenario(order.settings)
    # The simulator is quicker without a trace than with one that nobody keeps.
    kept = None if isinstance(trace, Nowhere) else trace
    if kept is not None:
        write_order(order, definition, kept)
    result = run_ordered(order, scenario, kept)
    if not result.passed:
        raise RunFailed(str(result.problems[0]))
    return measures_of(result.counters)


def measures_of(counters: Counters) -> dict[str, float]:
    """Counts by reason are measures of their own, beside their sum."""
    return {
        "sent": counters.sent,
        "duplicated": counters.duplicated,
        "received": counters.received,
        "lost": sum(counters.lost.values()),
        **{f"lost: {reason}": count for reason, count in counters.lost.items()},
        "in_flight": counters.in_flight,
        "fired": counters.fired,
        "delivered": counters.delivered,
        "given_up": sum(counters.given_up.values()),
        **{f"given_up: {reason}": count for reason, count in counters.given_up.items()},
        "refused": counters.refused,
    }


def checked_measures(answer: Any) -> dict[str, float]:
    """What an experiment answered, sorted by name."""
    if not isinstance(answer, Mapping):
        raise UsageError(f"an experiment answers with numbers by name, this one with {answer!r}")
    for name, value in answer.items():
        if not isinstance(name, str) or not isinstance(value, Real):
            raise UsageError(f"measure {name!r} is {value!r}; a measure has a name and is a number")
    return {name: float(answer[name]) for name in sorted(answer)}
