"""`python -m bench.sweeps`: how much a second core gives to a sweep, and what Spark costs for each run.

The same runs of the scenario `gossip`, each of a second or more, are performed three times over: in one process
without Spark, by Spark on one core, and by Spark on two. Each is a process of its own, which first performs a few other
runs, so that Java, Spark and the workers have started. Rounds alternate between the three, and the medians count; a
machine on which others work gives no figure worth having.

- *overhead* is what Spark takes beyond the runs: cores times the time of the sweep, less the time inside of runs, for
  each run. It holds the end of the sweep too, when one core has nothing left to do.
- *useful cores* is the time inside of runs by the time of the sweep.
- *CPU overhead* is the CPU time of all processes beyond that of the same runs without Spark, for each run. Others on
  the machine hardly change it, while they lengthen everything that is measured by the clock.

The three must give the same measures, which is checked. The session is opened as `tidings sim sweep` opens it.

`--tiny` performs a thousand runs of some milliseconds instead, without Spark and on two cores: what counts is the
overhead. `--page` writes it into docs/benchmarks.md.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from bench.report import SWEEPS_SECTION, Grid, machine, markdown, target_grid, with_section
from bench.targets import Target
from bench.watch import Watch
from tidings.spark.session import QUICK_JAVA, TRIES_MAX, open_session
from tidings.spark.sweeps import Outcome, Run, sweep
from tidings.spark.sweeps.performer import attempt
from tidings.spark.sweeps.provenance import provenance_of
from tidings.spark.sweeps.run import outcome_of
from tidings.trace.writer import Writer
from tidings.trace.writers import open_writer

SCENARIO = "gossip"
NODES, NODES_TINY = 40, 3
RUNS, ROUNDS = 24, 3
RUNS_TINY, ROUNDS_TINY = 1000, 1
OVERHEAD_TINY_GOAL = 0.025
"""Seconds of two cores for each tiny run."""
RUNS_QUICK, ROUNDS_QUICK = 4, 1
WARM_UP_RUNS = 4

HERE = 0
"""Cores of Spark: none."""
CORES, CORES_TINY = (HERE, 1, 2), (HERE, 2)
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
CAPTION = """\
Written by `python -m bench.sweeps --tiny --page`. {runs:,} runs of `{scenario}` with {nodes} nodes, with traces, in
one process without Spark and as a sweep on two cores. *Overhead* is two cores for as long as the sweep takes, less the
time inside of runs, for each run; *CPU overhead* is the CPU time of all processes beyond that without Spark, for each
run, which others on the machine hardly change."""
RATIO_GOAL = 1.8
SECONDS_EACH_MIN = 1.0
"""Of a run, for the ratio to count."""


class Measured(msgspec.Struct):
    """One sweep."""

    wall_seconds: float
    cpu_seconds: float
    run_seconds: list[float]
    measures: list[dict[str, float]]

    def overhead_seconds(self, cores: int) -> float:
        return (max(cores, 1) * self.wall_seconds - sum(self.run_seconds)) / len(self.run_seconds)

    def useful_cores(self) -> float:
        return sum(self.run_seconds) / self.wall_seconds


def make_runs(nodes: int, count: int, first: int = 0) -> list[Run]:
    return [Run(SCENARIO, "bench", {"nodes": nodes}, seed) for seed in range(first, first + count)]


def perform(cores: int, runs: list[Run], folder: str) -> list[Outcome]:
    if cores == HERE:
        base, made_with = Path.cwd(), provenance_of(SCENARIO, Path.cwd())
        return [outcome_of(run, attempt(run, base, keeper(run, folder)), made_with, traced=True) for run in runs]
    done = sweep(open_session(f"local[{cores},{TRIES_MAX}]", java_options=QUICK_JAVA), runs, folder)
    return [msgspec.convert(row.asDict(), Outcome) for row in done.results.collect()]


def keeper(run: Run, folder: str) -> Writer:
    return open_writer(Path(folder, f"{run.id}.parquet"), run.id, run.seed)


def measure_here(cores: int, nodes: int, count: int) -> Measured:
    """In this process, which does nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        perform(cores, make_runs(nodes, WARM_UP_RUNS, count), folder)
        with Watch() as watch:
            outcomes = perform(cores, make_runs(nodes, count), folder)
    assert all(outcome.status == "ok" for outcome in outcomes), "a run failed; look at it with tidings sim run"
    in_order = sorted(outcomes, key=lambda outcome: outcome.seed)
    return Measured(
        watch.seconds,
        watch.cpu_seconds,
        [outcome.seconds for outcome in in_order],
        [outcome.measures for outcome in in_order],
    )


def measure(cores: int, nodes: int, count: int) -> Measured:
    """In a process of its own."""
    given = ["--cores", str(cores), "--nodes", str(nodes), "--runs", str(count)]
    command = [sys.executable, "-m", "bench.sweeps", *given]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1]).stdout
    return msgspec.json.decode(told, type=Measured)


def measure_all(nodes: int, count: int, rounds: int, every: tuple[int, ...]) -> dict[int, list[Measured]]:
    found: dict[int, list[Measured]] = {cores: [] for cores in every}
    for _ in range(rounds):
        for cores in every:
            found[cores].append(measure(cores, nodes, count))
    for rounds_of_one in found.values():
        for each in rounds_of_one:
            assert each.measures == found[HERE][0].measures, "a sweep gave other measures than its runs alone"
    return found


def summary(found: dict[int, list[Measured]]) -> dict[str, Any]:
    alone, runs = median(each.cpu_seconds for each in found[HERE]), len(found[HERE][0].run_seconds)
    rows = [
        {
            "cores": cores,
            "sweep_seconds": median(each.wall_seconds for each in rounds),
            "seconds_each_run": median(seconds for each in rounds for seconds in each.run_seconds),
            "overhead_seconds_each_run": median(each.overhead_seconds(cores) for each in rounds),
            "cpu_overhead_seconds_each_run": (median(each.cpu_seconds for each in rounds) - alone) / runs,
            "useful_cores": median(each.useful_cores() for each in rounds),
        }
        for cores, rounds in found.items()
    ]
    walls = {row["cores"]: row["sweep_seconds"] for row in rows}
    ratio = walls[1] / walls[2] if 1 in walls else None
    return {"rows": rows, "ratio": ratio, "shortest_run_seconds": shortest(found)}


def shortest(found: dict[int, list[Measured]]) -> float:
    return min(seconds for rounds in found.values() for each in rounds for seconds in each.run_seconds)


def print_summary(answer: dict[str, Any], nodes: int, runs: int, rounds: int) -> None:
    print(f"{runs} runs of {SCENARIO} with {nodes} nodes, {rounds} rounds")
    print(f"{'':<14}{'sweep s':>10}{'a run s':>10}{'overhead s':>12}{'CPU overhead s':>16}{'useful cores':>14}")
    for row in answer["rows"]:
        name = "without Spark" if row["cores"] == HERE else f"local[{row['cores']}]"
        print(
            f"{name:<14}{row['sweep_seconds']:>10.1f}{row['seconds_each_run']:>10.2f}"
            f"{row['overhead_seconds_each_run']:>12.3f}{row['cpu_overhead_seconds_each_run']:>16.3f}"
            f"{row['useful_cores']:>14.2f}"
        )
    if nodes == NODES_TINY:
        print(markdown(target_grid(targets(answer))))
        return
    verdict = "reached" if answer["ratio"] >= RATIO_GOAL else "missed"
    print(f"two cores against one: {answer['ratio']:.2f}, goal >= {RATIO_GOAL:g}: {verdict}")
    if answer["shortest_run_seconds"] < SECONDS_EACH_MIN:
        print(f"shortest run: {answer['shortest_run_seconds']:.2f} s; the goal is for {SECONDS_EACH_MIN:g} s and more")


def targets(answer: dict[str, Any]) -> list[Target]:
    row, limit = answer["rows"][-1], OVERHEAD_TINY_GOAL * 1000
    return [
        Target("overhead of a tiny run on two cores", limit, False, row["overhead_seconds_each_run"] * 1000, "ms"),
        Target("the same in CPU time", limit, False, row["cpu_overhead_seconds_each_run"] * 1000, "ms"),
    ]


def section(answer: dict[str, Any], runs: int) -> str:
    names = ("sweep_seconds", "seconds_each_run", "overhead_seconds_each_run", "cpu_overhead_seconds_each_run")
    cells = [[f"{row[name]:.3f}" for name in names] for row in answer["rows"]]
    columns = ["sweep, s", "a run, s", "overhead, s", "CPU overhead, s"]
    grid = Grid("", columns, [[name, *row] for name, row in zip(("without Spark", "local[2]"), cells, strict=True)])
    caption = CAPTION.format(runs=runs, scenario=SCENARIO, nodes=NODES_TINY)
    parts = [SWEEPS_SECTION, caption, machine(), markdown(grid), markdown(target_grid(targets(answer)))]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.sweeps", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=f"{ROUNDS_QUICK} round of {RUNS_QUICK} runs")
    parser.add_argument("--tiny", action="store_true", help=f"{RUNS_TINY} runs of some milliseconds")
    parser.add_argument("--page", action="store_true", help="of tiny runs: write docs/benchmarks.md")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--cores", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--nodes", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--runs", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cores is not None:
        print(msgspec.json.encode(measure_here(arguments.cores, arguments.nodes, arguments.runs)).decode())
        return 0
    nodes = NODES_TINY if arguments.tiny else NODES
    runs, rounds = (RUNS_QUICK, ROUNDS_QUICK) if arguments.quick else (RUNS, ROUNDS)
    if arguments.tiny:
        runs, rounds = RUNS_TINY, ROUNDS_TINY
    answer = summary(measure_all(nodes, runs, rounds, CORES_TINY if arguments.tiny else CORES))
    if arguments.json:
        print(json.dumps(answer, indent=1))
    else:
        print_summary(answer, nodes, runs, rounds)
    if arguments.page and arguments.tiny:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(with_section(page, SWEEPS_SECTION, section(answer, runs)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
