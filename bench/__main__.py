"""`python -m bench`: measure everything and write docs/benchmarks.md.

python -m bench --quick                two minutes, up to 10,000 filters; writes nothing
python -m bench --only match,links     some of the sections; writes nothing
python -m bench --json                 the figures and targets as JSON on stdout
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench.measures import FULL_PLAN, QUICK_PLAN, SECTIONS, Figure, Plan, warm_up
from bench.report import (
    OTHERS,
    document,
    grids,
    machine,
    print_grid,
    section_of,
    setting,
    shown,
    target_grid,
)
from bench.targets import targets

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
TABLE_CHARS = 200


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes and short runs")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--only", default=",".join(SECTIONS), help=f"sections, separated by commas: {', '.join(SECTIONS)}"
    )
    arguments = parser.parse_args()
    sections = arguments.only.split(",")
    for section in sections:
        if section not in SECTIONS:
            parser.error(f"--only: there is no section {section!r}; choose from {', '.join(SECTIONS)}")
    figures = measure(sections, QUICK_PLAN if arguments.quick else FULL_PLAN)
    goals = targets([figure for part in figures.values() for figure in part])
    if arguments.json:
        answer = {
            "machine": machine(),
            "figures": [{"section": name, **asdict(figure)} for name, part in figures.items() for figure in part],
            "targets": [{**asdict(goal), "reached": goal.reached} for goal in goals],
        }
        print(json.dumps(answer, indent=1))
    else:
        console = Console(width=None if sys.stdout.isatty() else TABLE_CHARS)
        for grid in (*grids(figures), target_grid(goals)):
            print_grid(console, grid)
        console.print(machine())
    if not arguments.quick and sections == list(SECTIONS):
        PAGE.parent.mkdir(exist_ok=True)
        page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        others = "".join(section_of(page, heading) for heading in OTHERS)
        PAGE.write_text(document(figures, goals) + others, encoding="utf-8")
    return 0


def measure(sections: list[str], plan: Plan) -> dict[str, list[Figure]]:
    figures: dict[str, list[Figure]] = {section: [] for section in sections}
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("warming up")
        warm_up()
        for section in sections:
            progress.update(task, description=section)
            for figure in SECTIONS[section](plan):
                figures[section].append(figure)
                done = f"{section}: {figure.who}, {figure.what}, {setting(figure)}: {shown(figure.value)}"
                progress.update(task, description=done)
                if not console.is_terminal:
                    console.print(done, soft_wrap=True)
    return figures


if __name__ == "__main__":
    sys.exit(main())
