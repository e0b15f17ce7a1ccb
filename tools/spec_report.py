"""Which numbered requirements are tested, by which tests, and with what outcome.

The specification lists requirements as lines like `- T-24 A timer that ...`, in four families: T (transport),
S (dependable), D (dynamic topologies), P (peer to peer). A test says what it checks with `@pytest.mark.spec("T-24")`.
This tool runs the marked tests and prints every requirement with its tests and a verdict:

    passed     at least one test passed and none failed
    failed     a test failed, or could not be run
    judged     no test checks it; the lab has judged what it measured, and that is kept in docs/results
    untested   neither

What the lab says of a requirement stands below its tests, reproduced or missed, also where there are tests.

    python tools/spec_report.py             a table, then totals per family
    python tools/spec_report.py --json      the same as one JSON object

The specification is read from the folder TIDINGS_SPEC (by default ../shared/spec beside the repository). Without it
only the requirements that tests cite are reported. Exit code 1: a test failed, or cites a requirement that does not
exist; 0 otherwise.
"""

import argparse
import contextlib
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # also where it is run as a script

from tools.keep_results import Kept  # noqa: E402

REQUIREMENT = re.compile(r"^- ([TSDP]-[0-9]+[a-z]?)\b", re.MULTILINE)
ID_PARTS = re.compile(r"([A-Z]+)-([0-9]+)([a-z]?)")
VERDICTS = ("passed", "failed", "judged", "untested")
RESULTS = ROOT / "docs" / "results"


class Row(NamedTuple):
    id: str
    tests: tuple[str, ...]
    verdict: str
    lab: tuple[str, ...] = ()
    """What the lab says, an experiment a line."""


class Recorder:
    """A pytest plugin that notes which requirements each test cites and how it ended."""

    def __init__(self) -> None:
        self.cited: dict[str, tuple[str, ...]] = {}
        self.outcomes: dict[str, str] = {}

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        ids = [id for mark in item.iter_markers("spec") for id in mark.args]
        if ids:
            self.cited[item.nodeid] = tuple(dict.fromkeys(ids))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A test reports three times (setup, call, teardown); the worst of them counts, a pass only from the call.
        if report.failed:
            self.outcomes[report.nodeid] = "failed"
        elif report.skipped or report.when == "call":
            self.outcomes.setdefault(report.nodeid, "skipped" if report.skipped else "passed")


def requirement_ids(texts: Iterable[str]) -> list[str]:
    """All requirements, by family and number."""
    return sorted({id for text in texts for id in REQUIREMENT.findall(text)}, key=order_of)


def order_of(id: str) -> tuple[str, int, str]:
    parts = ID_PARTS.fullmatch(id)
    return (parts[1], int(parts[2]), parts[3]) if parts else (id, 0, "")


def lab_verdicts(folder: Path) -> dict[str, tuple[str, ...]]:
    """What was kept of the lab's runs, judged anew, by the requirements from which the bands come."""
    lines: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.csv")):
        counts: dict[str, Counter[str]] = {}
        for judgement in Kept(path).judgements:
            if judgement.requirement:
                counts.setdefault(judgement.requirement, Counter())[judgement.verdict] += 1
        for id, found in counts.items():
            said = ", ".join(f"{count} {verdict}" for verdict, count in sorted(found.items()))
            lines.setdefault(id, []).append(f"{path.stem}: {said}")
    return {id: tuple(said) for id, said in lines.items()}


def report_rows(
    known: Iterable[str],
    cited: Mapping[str, tuple[str, ...]],
    outcomes: Mapping[str, str],
    lab: Mapping[str, tuple[str, ...]],
) -> list[Row]:
    """One row for each requirement that is known, cited, or judged by the lab."""
    tests_of: dict[str, list[str]] = {id: [] for id in (*known, *lab)}
    for test, ids in cited.items():
        for id in ids:
            tests_of.setdefault(id, []).append(test)
    return [
        Row(id, tuple(tests), verdict_of([outcomes.get(test, "skipped") for test in tests], id in lab), lab.get(id, ()))
        for id, tests in sorted(tests_of.items(), key=lambda entry: order_of(entry[0]))
    ]


def verdict_of(outcomes: list[str], is_judged: bool) -> str:
    if "failed" in outcomes:
        return "failed"
    if "passed" in outcomes:
        return "passed"
    return "judged" if is_judged else "untested"


def totals(rows: Iterable[Row]) -> dict[str, dict[str, int]]:
    """How many requirements of each family have each verdict."""
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        family = counts.setdefault(order_of(row.id)[0], dict.fromkeys(VERDICTS, 0))
        family[row.verdict] += 1
    return counts


def run_marked_tests(folder: Path) -> tuple[Recorder, int]:
    recorder = Recorder()
    with contextlib.redirect_stdout(sys.stderr):  # the report alone goes to stdout
        code = pytest.main(["-q", "-m", "spec", "--no-header", str(folder)], plugins=[recorder])
    return recorder, int(code)


def print_table(rows: Iterable[Row], counts: Mapping[str, Mapping[str, int]]) -> None:
    for row in rows:
        names = [*short_names(row.tests), *(f"lab: {line}" for line in row.lab)] or [""]
        print(f"{row.id:<7} {row.verdict:<9} {names[0]}".rstrip())
        for name in names[1:]:
            print(f"{'':<17} {name}")
    print(f"\n{'family':<7} {' '.join(f'{verdict:>8}' for verdict in VERDICTS)} {'all':>5}")
    for family, count in counts.items():
        found = " ".join(f"{count[verdict]:>8}" for verdict in VERDICTS)
        print(f"{family:<7} {found} {sum(count.values()):>5}")


def short_names(tests: Iterable[str]) -> list[str]:
    """Each test function once, with the number of its cases where it has several."""
    cases = Counter(test.removeprefix("tests/").split("[")[0] for test in tests)
    return [name if count == 1 else f"{name} ({count} cases)" for name, count in cases.items()]


def main() -> int:
    parser = argparse.ArgumentParser(description="Which numbered requirements are tested, and with what outcome.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--tests", type=Path, default=ROOT / "tests", help="the folder of tests")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder of what the lab measured")
    options = parser.parse_args()

    spec = Path(os.environ.get("TIDINGS_SPEC", ROOT.parent / "shared" / "spec"))
    known = requirement_ids(path.read_text() for path in sorted(spec.glob("*.md")))
    recorder, code = run_marked_tests(options.tests)
    rows = report_rows(known, recorder.cited, recorder.outcomes, lab_verdicts(options.results))
    counts = totals(rows)
    unknown = [row for row in rows if known and row.id not in known]
    if options.json:
        found = {"requirements": [row._asdict() for row in rows], "totals": counts, "spec_found": bool(known)}
        print(json.dumps({**found, "unknown": [row.id for row in unknown]}, indent=2))
    else:
        print_table(rows, counts)
    if not known:
        print("no specification found: only cited requirements are shown; set TIDINGS_SPEC", file=sys.stderr)
    for row in unknown:
        cited = ", ".join((*row.tests, *row.lab))
        print(f"{row.id} is not in the specification, but cited by {cited}", file=sys.stderr)
    tests_ran = code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    return 0 if tests_ran and not unknown else 1


if __name__ == "__main__":
    sys.exit(main())
