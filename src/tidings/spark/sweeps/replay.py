"""`python -m tidings.spark.sweeps.replay RUN`: perform one run of a sweep again, in this process and without Spark.

RUN is the text of the run, as the command in the column `replay` of the results has it. To be typed in the folder in
which the sweep was started. Nothing is kept, except a trace if one is asked for; one that ends in .jsonl survives, up
to its last block, whatever kills the process. Exit code: 0 if the run is ok, 1 if it failed.
"""

import argparse
import sys
from pathlib import Path

from tidings.model.errors import UsageError
from tidings.spark.sweeps.performer import run_here
from tidings.spark.sweeps.run import OK, REPLAY, Outcome, parse_run

FAILED_CODE, USAGE_CODE = 1, 2


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog=" ".join(REPLAY), description="Perform one run of a sweep again.")
    parser.add_argument("run", metavar="RUN", help="the text of the run")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write what happens here: .parquet or .jsonl")
    given = parser.parse_args(arguments)
    try:
        outcome = run_here(parse_run(given.run), given.trace)
    except UsageError as problem:
        print(problem, file=sys.stderr)
        return USAGE_CODE
    print("\n".join(lines(outcome)))
    return 0 if outcome.status == OK else FAILED_CODE


def lines(outcome: Outcome) -> list[str]:
    return [
        f"run        {outcome.run}",
        f"experiment {outcome.experiment} {outcome.variant}".rstrip(),
        f"parameters {outcome.parameters}",
        f"seed       {outcome.seed}",
        f"seconds    {outcome.seconds:.3f}",
        f"status     {outcome.status}",
        *([f"error      {outcome.error}"] if outcome.error else []),
        *[f"  {name} = {value}" for name, value in outcome.measures.items()],
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
