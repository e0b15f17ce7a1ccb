"""`python -m bench.brokers`: compare the brokers, and write their section of docs/benchmarks.md.

python -m bench.brokers --quick              some seconds; writes nothing
python -m bench.brokers --only tidings,NATS  some of the brokers; writes nothing
python -m bench.brokers --json               the figures and targets as JSON on stdout
"""

import argparse
import json
import sys
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from bench.brokers import libraries, measures, report
from bench.brokers.content import Content
from bench.brokers.load import Rates
from bench.brokers.measures import FULL_PLAN, QUICK_PLAN, Plan
from bench.brokers.report import CONTENT, ONE, P50, P99, PER_CPU, PER_SECOND, RECEIVE, SUBJECTS, TEN, Figures, at_once
from bench.brokers.servers import BROKERS, NATS, TIDINGS, ZENOH, Missing, Server
from bench.report import BROKERS_SECTION, machine, print_grid, target_grid, with_section
from bench.targets import Target

PAGE = Path(__file__).parent.parent.parent / "docs" / "benchmarks.md"
TABLE_CHARS = 200
LIBRARIES = {TIDINGS: "tidings", NATS: "nats", ZENOH: "zenoh"}
"""Brokers whose client library is measured, and its package."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.brokers", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="short runs with few subscribers")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--only", default=",".join(BROKERS), help=f"brokers, separated by commas: {', '.join(BROKERS)}")
    arguments = parser.parse_args()
    brokers = arguments.only.split(",")
    for broker in brokers:
        if broker not in BROKERS:
            parser.error(f"--only: {broker!r} is not compared; choose from {', '.join(BROKERS)}")
    figures = measure(brokers, QUICK_PLAN if arguments.quick else FULL_PLAN)
    goals = report.targets(figures)
    if arguments.json:
        rows = [
            {"broker": broker, "run": run, "what": what, "values": values}
            for (broker, run, what), values in figures.values.items()
        ]
        reached = [{**asdict(goal), "reached": goal.reached} for goal in goals]
        print(json.dumps({"machine": machine(), "missing": figures.missing, "figures": rows, "targets": reached}))
    else:
        show(figures, goals)
    if not arguments.quick and brokers == list(BROKERS):
        section = report.section(figures, goals)
        PAGE.write_text(with_section(PAGE.read_text(), BROKERS_SECTION, section), encoding="utf-8")
    return 0


def show(figures: Figures, goals: list[Target]) -> None:
    console = Console(width=None if sys.stdout.isatty() else TABLE_CHARS)
    for grid in (*report.grids(figures), target_grid(goals)):
        print_grid(console, grid)
    for broker, why in figures.missing.items():
        console.print(f"{broker} was not measured: {why}")
    console.print(machine())


def measure(brokers: list[str], plan: Plan) -> Figures:
    """Interleaved: every broker takes its turn in every round."""
    figures, content = Figures(), measures.content_of(plan)
    present = []
    for broker in brokers:
        try:
            Server(broker)
            present.append(broker)
        except Missing as missing:
            figures.missing[broker] = str(missing)
    for turn in range(plan.rounds):
        for broker in present:
            print(f"round {turn + 1} of {plan.rounds}: {broker}", file=sys.stderr, flush=True)
            measure_broker(broker, content, plan, figures)
    return figures


def measure_broker(broker: str, content: Content, plan: Plan, figures: Figures) -> None:
    def note(run: str, rates: Rates) -> None:
        figures.add(broker, run, PER_CPU, rates.per_cpu_second)
        figures.add(broker, run, PER_SECOND, rates.per_second)

    if broker == ZENOH:
        note(ONE, libraries.forward_zenoh(1, plan))
        note(TEN, libraries.forward_zenoh(plan.subscribers, plan))
    else:
        note(ONE, measures.forward(broker, 1, plan))
        note(TEN, measures.forward(broker, plan.subscribers, plan))
        middle, late = measures.one_by_one(broker, plan)
        figures.add(broker, ONE, P50, middle)
        figures.add(broker, ONE, P99, late)
        note(CONTENT, measures.filter_everything(broker, content, plan))
    if broker == NATS:
        note(SUBJECTS, measures.filter_by_subject(broker, content, plan))
    if broker in (TIDINGS, NATS):
        for size in plan.other_chunks:
            other = replace(plan, chunk_events=size)
            note(at_once(ONE, size), measures.forward(broker, 1, other))
            note(at_once(CONTENT, size), measures.filter_everything(broker, content, other))
    if broker in LIBRARIES:
        measure_library(broker, plan, figures)


def measure_library(broker: str, plan: Plan, figures: Figures) -> None:
    if find_spec(LIBRARIES[broker]) is None:
        figures.missing[f"the client library of {broker}"] = f"the package {LIBRARIES[broker]} is not installed"
    else:
        figures.add(broker, ONE, RECEIVE, libraries.receiving(broker, plan))


if __name__ == "__main__":
    sys.exit(main())
