"""The report of tested requirements: what it reads, how it judges, and one whole run on a small example."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.spec_report import Row, lab_verdicts, report_rows, requirement_ids, short_names, totals

SPEC = """## 7. Checklist of testable requirements
- T-1 The first requirement. See also T-7, which is not a requirement line.
- T-2 The second.
- T-10b One with a suffix.
- D-3 (U, section 3) Another family.
| D-9 | a row of a table is no requirement |
"""

TESTS = """
import pytest

@pytest.mark.spec("T-1")
def test_that_passes(): assert True

@pytest.mark.spec("T-1", "T-2")
def test_that_fails(): assert False

@pytest.mark.spec("D-3")
def test_that_passes_too(): assert True

@pytest.mark.spec("T-10b")
def test_that_is_skipped(): pytest.skip("not here")

def test_without_a_mark(): assert False
"""


def run_report(folder: Path, *, spec: str | None, tests: str, arguments: tuple[str, ...] = ()) -> tuple[int, str, str]:
    (folder / "spec").mkdir()
    (folder / "tests").mkdir()
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = spec\n")
    (folder / "tests" / "test_example.py").write_text(tests)
    if spec is not None:
        (folder / "spec" / "example.md").write_text(spec)
    tool = Path(__file__).parents[2] / "tools" / "spec_report.py"
    done = subprocess.run(
        [sys.executable, str(tool), "--tests", str(folder / "tests"), "--results", str(folder), *arguments],
        env={**os.environ, "TIDINGS_SPEC": str(folder / "spec"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout, done.stderr


def test_requirements_are_read_from_list_items_and_ordered_by_number() -> None:
    assert requirement_ids([SPEC, "- T-9 From another file\n"]) == ["D-3", "T-1", "T-2", "T-9", "T-10b"]


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ({"a": "passed", "b": "passed"}, "passed"),
        ({"a": "passed", "b": "failed"}, "failed"),
        ({"a": "passed", "b": "skipped"}, "passed"),
        ({"a": "skipped", "b": "skipped"}, "untested"),
        ({}, "untested"),
    ],
)
def test_one_failure_fails_a_requirement_and_skipping_does_not_test_it(outcomes: dict[str, str], verdict: str) -> None:
    rows = report_rows(["T-1"], {"a": ("T-1",), "b": ("T-1",)}, outcomes, {})
    assert rows == [Row("T-1", ("a", "b"), verdict)]


def test_what_the_lab_judged_counts_where_no_test_does(tmp_path: Path) -> None:
    lines = (
        "figure,group,value,low,high,runs,commit,made_on",
        'repairs not duplicated,"12 brokers, R = 10",0.8,0.78,0.82,5,c0ffee,two cores',
        'repairs not duplicated,"46 brokers, R = 10",0.3,0.28,0.32,5,c0ffee,two cores',
    )
    (tmp_path / "transport-E14-small.csv").write_text("\n".join(lines) + "\n")
    lab = lab_verdicts(tmp_path)
    ((id, (said,)),) = lab.items()
    assert id == "T-110" and said.startswith("transport-E14-small: ")
    assert "1 missed" in said and "1 reproduced" in said
    rows = report_rows(["T-1", "T-110"], {"a": ("T-1",)}, {"a": "passed"}, lab)
    assert rows == [Row("T-1", ("a",), "passed"), Row("T-110", (), "judged", lab["T-110"])]
    (failed,) = report_rows(["T-110"], {"a": ("T-110",)}, {"a": "failed"}, lab)
    assert (failed.verdict, failed.lab) == ("failed", lab["T-110"])


def test_totals_count_verdicts_per_family() -> None:
    rows = [Row("T-1", ("a",), "passed"), Row("T-2", (), "untested"), Row("S-1", ("b",), "failed")]
    assert totals(rows) == {
        "T": {"passed": 1, "failed": 0, "judged": 0, "untested": 1},
        "S": {"passed": 0, "failed": 1, "judged": 0, "untested": 0},
    }


def test_the_cases_of_one_test_are_named_once() -> None:
    tests = ["tests/unit/test_a.py::test_x[1]", "tests/unit/test_a.py::test_x[2]", "tests/unit/test_b.py::test_y"]
    assert short_names(tests) == ["unit/test_a.py::test_x (2 cases)", "unit/test_b.py::test_y"]


def test_a_whole_run_reports_real_outcomes_and_fails_with_a_failing_test(tmp_path: Path) -> None:
    code, out, _ = run_report(tmp_path, spec=SPEC, tests=TESTS, arguments=("--json",))
    report = json.loads(out)
    verdicts = {row["id"]: (len(row["tests"]), row["verdict"]) for row in report["requirements"]}
    assert verdicts == {
        "D-3": (1, "passed"),
        "T-1": (2, "failed"),
        "T-2": (1, "failed"),
        "T-10b": (1, "untested"),
    }
    assert (code, report["unknown"]) == (1, [])


def test_citing_a_requirement_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    tests = 'import pytest\n@pytest.mark.spec("T-999")\ndef test_it(): pass\n'
    code, _, problem = run_report(tmp_path, spec=SPEC, tests=tests)
    assert code == 1
    assert "T-999 is not in the specification, but cited by tests/test_example.py::test_it" in problem


def test_without_a_specification_only_cited_requirements_are_reported(tmp_path: Path) -> None:
    tests = 'import pytest\n@pytest.mark.spec("T-5")\ndef test_it(): pass\n'
    code, out, _ = run_report(tmp_path, spec=None, tests=tests)
    assert code == 0
    assert out.splitlines()[0].split() == ["T-5", "passed", "test_example.py::test_it"]
