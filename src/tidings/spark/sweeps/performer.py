"""How one run is performed, with Spark and without: the same code, the same rows.

What it runs is found by its name, in the worker that runs it:

    package.module:function       a function of yours
    gossip                        a scenario of the library (`tidings sim list`)
    path/to/outage.toml           a scenario in a file
    path/to/mine.py:my_scenario   a scenario that a function in a file makes

A function is called with variant, parameters, seed and a writer for its trace, and answers with its measures, numbers
by name. Whatever it raises makes the run a failed one. A scenario is given the parameters as its settings; its measures
are what the simulator counted, and it fails if a checker finds something.

Modules and files are looked for in the folder in which the sweep was started too, wherever the worker is.

Whatever comes out of the experiment, an exception or the wish to exit, is what came of this run, and no trouble of the
sweep's. A worker writes nothing: what came of its runs are rows, which it hands to Spark.
"""

import importlib
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any

import msgspec

from tidings.model.errors import UsageError
from tidings.sim.library import find
from tidings.sim.order import RunOrder, run_ordered, write_order
from tidings.sim.simulator import Counters
from tidings.spark.sweeps.provenance import FILE_ENDING, FUNCTION_IN_FILE, Provenance, provenance_of
from tidings.spark.sweeps.run import RESULT_COLUMNS, Finished, Outcome, Run, outcome_of
from tidings.spark.sweeps.table import RESULTS, TRACES, row_schema
from tidings.trace.record import Rows, arrow_schema
from tidings.trace.writer import Writer
from tidings.trace.writers import arrow_table, open_writer

Experiment = Callable[[str, Mapping[str, Any], int, Writer], Mapping[str, float]]

KEPT_ROWS = 16 * 1024
"""Of a batch that a worker hands to Spark."""


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


class Keeper(Writer):
    """Keeps a trace until its run has ended, in a file without a name: it may be larger than the memory of a worker."""

    def __init__(self, run: str, seed: int) -> None:
        super().__init__(run, seed, KEPT_ROWS)
        self.file = tempfile.TemporaryFile(prefix="tidings-trace-")  # noqa: SIM115 - closed by `batches`
        self.sink: Any = None

    def store(self, rows: Rows) -> None:
        import pyarrow

        table = arrow_table(rows, self.run, self.seed)
        if self.sink is None:
            self.sink = pyarrow.ipc.new_stream(self.file, table.schema)
        self.sink.write_table(table)

    def batches(self) -> Iterator[Any]:
        """What was stored, with the columns of a trace. Once, and after `close`."""
        import pyarrow

        with self.file:
            if self.sink is None:
                return
            self.sink.close()
            self.file.seek(0)
            for batch in pyarrow.ipc.open_stream(self.file):
                yield batch.cast(arrow_schema())


class Task(msgspec.Struct, frozen=True):
    """What workers must know beside their runs."""

    base: Path
    """Where the sweep was started."""
    traces: bool
    """Whether they are kept."""
    made_with: dict[str, Provenance]
    """By experiment."""


def run_here(run: Run, trace: str | Path | None = None) -> Outcome:
    """Perform one run in this process, as a sweep does, and keep its trace if a file is named."""
    base = Path.cwd()
    writer = open_writer(trace, run.id, run.seed) if trace is not None else Nowhere(run.id, run.seed)
    return outcome_of(run, attempt(run, base, writer), provenance_of(run.experiment, base), trace is not None)


def rows_of(runs: Iterable[Run], task: Task) -> Iterator[Any]:
    """In a worker: perform runs, and give their rows for the table of the sweep, the results of all of them last."""
    outcomes = []
    for run in runs:
        writer = Keeper(run.id, run.seed) if task.traces else Nowhere(run.id, run.seed)
        finished = attempt(run, task.base, writer)
        outcomes.append(outcome_of(run, finished, task.made_with[run.experiment], task.traces))
        if isinstance(writer, Keeper):
            for batch in writer.batches():
                yield table_rows(TRACES, batch)
    if outcomes:
        yield result_rows(outcomes)


def result_rows(outcomes: Sequence[Outcome]) -> Any:
    import pyarrow

    schema = pyarrow.schema([row_schema().field(name) for name in RESULT_COLUMNS])
    return table_rows(RESULTS, pyarrow.RecordBatch.from_pylist([each.cells() for each in outcomes], schema))


def table_rows(table: str, batch: Any) -> Any:
    """With all columns of the table of a sweep, those that this one lacks empty."""
    import pyarrow

    own = {**dict(zip(batch.schema.names, batch.columns, strict=True)), "table": pyarrow.repeat(table, len(batch))}
    schema = row_schema()
    columns = [own[each.name] if each.name in own else pyarrow.nulls(len(batch), each.type) for each in schema]
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)


def attempt(run: Run, base: Path, writer: Writer) -> Finished:
    begun = time.perf_counter()
    measures, error = {}, ""
    try:
        with writer:
            experiment = find_experiment(run.experiment, base)
            # Sorted, so that an experiment cannot depend on the order in which somebody wrote them.
            parameters = dict(sorted(run.parameters.items()))
            measures = checked_measures(experiment(run.variant, parameters, run.seed, writer))
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        error = describe(problem)
    return Finished(time.perf_counter() - begun, measures, error)


def describe(problem: BaseException) -> str:
    """What went wrong, and where if that is not said."""
    if isinstance(problem, RunFailed | UsageError):
        return str(problem) or type(problem).__name__
    place = traceback.extract_tb(problem.__traceback__)[-1]
    where = f"{Path(place.filename).name}, line {place.lineno}, in {place.name}"
    notes = "".join(f", {note}" for note in getattr(problem, "__notes__", ()))
    return f"{type(problem).__name__}: {problem}{notes} ({where})"
