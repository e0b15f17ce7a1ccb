"""A run and what came of it: two values, each a row of a table.

A run is all that decides one simulation. `experiment` says what is run (`performer.py`), `parameters` and `seed` are
handed to it, and `variant` is what a reader calls this choice of parameters; it is handed over too, and runs of one
variant are averaged over their seeds.

Each run has an identity made of all of that: text that is the same everywhere and always, and safe as the name of a
folder. Runs that differ in anything, if only in 1 and 1.0, have different ones.

What came of a run is one row of the table `results`. The columns are those of the run, and: `status`, "ok" or "failed";
`error`, empty if there was none; `replay`, a command that performs this run again; `seconds` of wall time, the one
column that chance has a part in; `measures`, numbers by name (a run that failed has none); `traced`, whether its trace
was kept; and what it was made with (`provenance.py`).
"""

import re
import shlex
from collections.abc import Iterable
from math import isfinite
from typing import Any, Literal, get_args

import msgspec
import xxhash

from tidings.model.errors import UsageError
from tidings.spark.sweeps.provenance import Provenance
from tidings.trace.writer import SEED_MAX, SEED_MIN

Parameter = bool | int | float | str

DIGEST_CHARS = 12
"""48 bits of the hash: among a million runs two are alike once in five hundred times, and then the sweep says so."""

SWEEP_NAME_CHARS_MAX = 40
"""Of experiment and variant in an identity; what is cut off still counts in the hash."""

REPLAY = ("python", "-m", "tidings.spark.sweeps.replay")


class Run(msgspec.Struct, frozen=True):
    experiment: str
    variant: str = ""
    parameters: dict[str, Parameter] = {}
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.experiment:
            raise UsageError("a run without an experiment; name a scenario, or a function as package.module:function")
        if type(self.seed) is not int or not SEED_MIN <= self.seed <= SEED_MAX:
            raise UsageError(f"seed {self.seed!r}: give an integer between {SEED_MIN} and {SEED_MAX}")
        for name, value in self.parameters.items():
            is_plain = type(value) in (bool, int, float, str)
            if not is_plain or (isinstance(value, float) and not isfinite(value)):
                raise UsageError(f"parameter {name} is {value!r}; give true or false, a finite number, or text")

    @property
    def id(self) -> str:
        digest = xxhash.xxh3_64_hexdigest(self.text().encode())[:DIGEST_CHARS]
        names = [name_part(self.experiment), name_part(self.variant)]
        return "-".join([*filter(None, names), digest, str(self.seed)])

    @property
    def parameters_text(self) -> str:
        return msgspec.json.encode(self.parameters, order="deterministic").decode()

    @property
    def replay(self) -> str:
        """The command that performs this run alone, to be typed in the folder in which the sweep was started."""
        return shlex.join([*REPLAY, self.text()])

    def text(self) -> str:
        return msgspec.json.encode(self, order="deterministic").decode()


def name_part(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")[-SWEEP_NAME_CHARS_MAX:].strip("-")


def parse_run(text: str) -> Run:
    """From the text of a run."""
    try:
        return msgspec.json.decode(text, type=Run)
    except msgspec.DecodeError as problem:
        raise UsageError(f"{text!r} is no run: {problem}") from None


def run_of_row(experiment: str, variant: str | None, parameters: str | None, seed: int) -> Run:
    """From a row of a table, in which the parameters are a JSON object."""
    try:
        decoded = msgspec.json.decode(parameters or "{}", type=dict[str, Parameter])
    except msgspec.DecodeError as problem:
        raise UsageError(f"parameters {parameters!r}: {problem}; give a JSON object of plain values") from None
    return Run(experiment, variant or "", decoded, seed)


def distinct_runs(runs: Iterable[Run]) -> dict[str, Run]:
    """By identity, in the order given; what comes twice is one run."""
    found: dict[str, Run] = {}
    for run in runs:
        if found.setdefault(run.id, run) != run:
            raise UsageError(f"two runs have the identity {run.id}: {found[run.id]} and {run}; rename a variant")
    return found


Status = Literal["ok", "failed"]
OK: Status
FAILED: Status
OK, FAILED = get_args(Status)

ERROR_CHARS_MAX = 4000
"""What is longer loses its middle."""

RESULT_COLUMNS = {
    "run": "string",
    "experiment": "string",
    "variant": "string",
    "parameters": "string",
    "seed": "bigint",
    "status": "string",
    "error": "string",
    "replay": "string",
    "seconds": "double",
    "measures": "map<string, double>",
    "traced": "boolean",
    **dict.fromkeys(Provenance.__struct_fields__, "string"),
}
"""With the types that Spark has for them."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    run: str
    experiment: str
    variant: str
    parameters: str
    seed: int
    status: Status
    error: str
    replay: str
    seconds: float
    measures: dict[str, float]
    traced: bool
    definition: str
    version: str
    commit: str
    pyspark: str
    numpy: str

    def cells(self) -> dict[str, Any]:
        """As Arrow takes a row."""
        return {**msgspec.structs.asdict(self), "measures": sorted(self.measures.items())}


class Finished(msgspec.Struct, frozen=True):
    """How a run ended."""

    seconds: float
    measures: dict[str, float] = {}
    error: str = ""
    """If there is one, the run has failed."""


def outcome_of(run: Run, finished: Finished, made_with: Provenance, traced: bool) -> Outcome:
    return Outcome(
        run=run.id,
        experiment=run.experiment,
        variant=run.variant,
        parameters=run.parameters_text,
        seed=run.seed,
        status=FAILED if finished.error else OK,
        error=shortened(finished.error),
        replay=run.replay,
        seconds=finished.seconds,
        measures={} if finished.error else finished.measures,
        traced=traced,
        **msgspec.structs.asdict(made_with),
    )


def shortened(text: str) -> str:
    if len(text) <= ERROR_CHARS_MAX:
        return text
    half = ERROR_CHARS_MAX // 2
    return f"{text[:half]} ... {text[-half:]}"
