"""What the pages on simulation claim: their examples run, their tables name what there is."""

import re
from pathlib import Path

from tidings.sim.checkers import CHECKERS
from tidings.sim.faults import FAULTS_MAX, READERS, parse_plan
from tidings.sim.order import SHRINK_RUNS_MAX
from tidings.sim.scenario import run_scenario
from tidings.sim.scenario_file import define_file
from tidings.sim.topologies import SHAPES
from tidings.workloads.churn import ABSENCES_MAX


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_guide_run(root: Path) -> None:
    guide = root / "docs" / "guide" / "simulation.md"
    code = "\n".join(blocks(guide, "python"))
    names: dict[str, object] = {"__name__": "guide"}
    exec(compile(code, str(guide), "exec"), names)
    assert {"split_ring", "InTime"} <= set(names)
    (text,) = blocks(guide, "toml")
    result = run_scenario(define_file(text, "outage.toml").scenario({"topology.nodes": 40}), 1)
    assert result.passed
    assert result.nodes == 40


def test_every_fault_of_the_guide_can_be_written(root: Path) -> None:
    text = (root / "docs" / "guide" / "simulation.md").read_text()
    faults = re.findall(r"^\| `(\S+\.\.\S* [^`]+)` \|", text, re.MULTILINE)
    kinds = {fault.kind for fault in parse_plan(";".join(faults)).faults}
    assert kinds == set(READERS)


def test_the_tables_name_what_there_is(root: Path) -> None:
    text = (root / "docs" / "concepts" / "simulator.md").read_text()
    for name in [*CHECKERS, *SHAPES]:
        assert f"`{name}`" in text, name
    assert f"| absences of a plan; faults of a plan | {ABSENCES_MAX:,}; {FAULTS_MAX:,} |" in text
    assert f"| runs for making a failure smaller | {SHRINK_RUNS_MAX} |" in text
