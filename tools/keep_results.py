"""Keeps what the lab measured: `python tools/keep_results.py LAB_RESULTS COMMIT "WHAT IT RAN ON"`.

For each experiment in the folder it judges the figures (`figures.parquet`) by the definition as it is now, and writes
`docs/results/FAMILY-EXPERIMENT-SCALE.csv`, with every line and what it was made with; then `docs/results/index.md` anew
from all tables that are kept there: the judged lines, with n, interval, verdict and reason. Traces are not kept.
"""

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from tidings.lab.experiment import Measured
from tidings.lab.registry import find, place
from tidings.lab.verdicts import judge

RESULTS = Path(__file__).parents[1] / "docs" / "results"
COLUMNS = ("says", "group", "published", "measured", "runs", "band", "verdict", "why", "commit", "made_on")
HEADER = """# Results

What the lab measured, by the definitions as they are: `tidings lab run` with at least five seeds each, kept by
`tools/keep_results.py`. Lines that are not judged are in the tables beside this page (`FAMILY-EXPERIMENT-SCALE.csv`),
with those that are, the commit and the machine. n is the number of runs; the interval is that of the mean, at 95 %; a
verdict is about the whole interval ([the lab](../guide/lab.md)).
"""


def keep(folder: Path, commit: str, made_on: str) -> None:
    from pyarrow import parquet

    for order_path in sorted(folder.glob("*/*/*/order.json")):
        figures = order_path.with_name("figures.parquet")
        if not figures.exists():
            continue
        order = json.loads(order_path.read_text())
        measured = [Measured(**row) for row in parquet.read_table(figures, partitioning=None).to_pylist()]
        name = f"{order['experiment'].replace('/', '-')}-{order['scale']}.csv"
        with (RESULTS / name).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            for line in judge(find(order["experiment"]).claims, measured):
                about = (line.says, line.group, line.published, line.measured, line.runs, line.band)
                writer.writerow((*about, line.verdict, line.why, commit, made_on))


def page() -> Iterator[str]:
    yield HEADER
    tables = [(find(experiment), scale, path) for path in RESULTS.glob("*.csv") for experiment, scale in [named(path)]]
    for experiment, scale, path in sorted(tables, key=lambda each: (place(each[0]), each[1])):
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        yield f"## {experiment.id}: {experiment.title}\n"
        yield f"Scale {scale}; commit {rows[0]['commit']}; {rows[0]['made_on']}.\n"
        yield "| | published | measured | n | band | verdict |\n|---|---|---|---:|---|---|"
        for row in rows:
            if row["verdict"] != "not judged":
                says = f"{row['says']} ({row['group']})" if row["group"] else row["says"]
                verdict = f"{row['verdict']}: {row['why']}" if row["why"] else row["verdict"]
                cells = (says, row["published"], row["measured"], row["runs"], row["band"], verdict)
                yield f"| {' | '.join(cells)} |"
        yield ""


def named(path: Path) -> tuple[str, str]:
    """Experiment and scale of a table."""
    family, number, scale = path.stem.rsplit("-", 2)
    return f"{family}/{number}", scale


if __name__ == "__main__":
    RESULTS.mkdir(exist_ok=True)
    keep(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
    (RESULTS / "index.md").write_text("\n".join(page()), encoding="utf-8")
