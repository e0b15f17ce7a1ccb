"""How one run is performed, with Spark and without: the same code, the same files.

Whatever comes out of the experiment, an exception or the wish to exit, is what came of this run, and no trouble of the
sweep's. What this code raises itself is: a folder that cannot be written to from here would lose every run.
"""

import socket
import tempfile
import time
import traceback
from pathlib import Path

import msgspec

from tidings.model.errors import UsageError
from tidings.spark.sweeps.experiments import Nowhere, RunFailed, checked_measures, find_experiment
from tidings.spark.sweeps.folder import RESULT, TRACE, Folder, open_folder, put
from tidings.spark.sweeps.outcome import Outcome, outcome_of
from tidings.spark.sweeps.run import Run
from tidings.trace.writers import open_writer


class RunPlace(msgspec.Struct, frozen=True):
    """Where runs are performed."""

    folder: Folder
    base: Path
    """Where the sweep was started."""
    traces: bool
    """Whether they are kept."""


def run_here(run: Run, folder: str | Path, *, traces: bool = True) -> Outcome:
    """Perform one run in this process, into the same files as a sweep."""
    return perform(run, RunPlace(open_folder(folder), Path.cwd(), traces))


def perform(run: Run, place: RunPlace) -> Outcome:
    folder = place.folder
    try:
        with tempfile.TemporaryDirectory(prefix=f"{run.id}.", dir=folder.drafts) as draft:
            trace = Path(draft, TRACE)
            outcome = attempt(run, place.base, trace if place.traces else None)
            if trace.exists():
                put(trace, folder.trace(run.id))
            record(outcome, folder, Path(draft))
    except OSError as problem:
        raise UsageError(
            f"cannot write to the folder {folder.path} on {socket.gethostname()}: {problem.strerror}; name one that is "
            "yours and that every machine of the cluster shares"
        ) from problem
    return outcome


def record(outcome: Outcome, folder: Folder, draft: Path) -> None:
    outcome.save(draft / RESULT)
    put(draft / RESULT, folder.result(outcome.run))


def attempt(run: Run, base: Path, trace: Path | None) -> Outcome:
    begun = time.perf_counter()
    measures, error = {}, ""
    try:
        with open_writer(trace, run.id, run.seed) if trace is not None else Nowhere(run.id, run.seed) as writer:
            experiment = find_experiment(run.experiment, base)
            # Sorted, so that an experiment cannot depend on the order in which somebody wrote them.
            parameters = dict(sorted(run.parameters.items()))
            measures = checked_measures(experiment(run.variant, parameters, run.seed, writer))
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        error = describe(problem)
    return outcome_of(run, time.perf_counter() - begun, measures, error)


def describe(problem: BaseException) -> str:
    """What went wrong, and where if that is not said."""
    if isinstance(problem, RunFailed | UsageError):
        return str(problem) or type(problem).__name__
    place = traceback.extract_tb(problem.__traceback__)[-1]
    where = f"{Path(place.filename).name}, line {place.lineno}, in {place.name}"
    notes = "".join(f", {note}" for note in getattr(problem, "__notes__", ()))
    return f"{type(problem).__name__}: {problem}{notes} ({where})"
