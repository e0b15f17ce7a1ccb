"""The benchmark of reading judges by CPU time, and says what was reached."""

import pytest

from bench import live_report
from bench.live_reading import Spent

COUNT = 1_000_000
NAMES = (
    *("structs 14", "structs 3", "parquet 14", "parquet 3", "floor 14", "floor 3"),
    *("now 14", "now 3", "now pages", "before 14", "before 3"),
)


def test_rates_are_compared_by_the_cpu_time_of_all_processes_with_planning_and_without() -> None:
    spent = {name: Spent(0.1, 0.2, 0.3, wall=9.0) for name in NAMES}
    spent |= {f"{kind} nothing": Spent(0.0, 0.05, 0.05, wall=1.0) for kind in ("now", "before", "parquet")}
    spent["before 14"] = Spent(0.7, 0.5, 0.3, wall=1.0)
    reached: dict[str, object] = {
        target.text: (target.measured, target.reached) for target in live_report.targets(spent, COUNT)
    }
    assert reached["14 columns, rate now / before"] == (pytest.approx(1.5 / 0.6), True)
    assert reached["3 columns, rate now / before"] == (pytest.approx(1.0), False)
    assert reached["the same without planning: 14 columns, rate now / before"] == (pytest.approx(1.4 / 0.5), None)
    assert reached["broker, an event read"] == (pytest.approx(0.1), True)


def test_without_an_earlier_version_nothing_is_said_about_it() -> None:
    spent = {name: Spent(0.1, 0.2, 0.3, wall=9.0) for name in NAMES if "before" not in name}
    spent |= {f"{kind} nothing": Spent(0.0, 0.05, 0.05, wall=1.0) for kind in ("now", "parquet")}
    assert [it.reached for it in live_report.targets(spent, COUNT)][:2] == [None, None]
    shown = live_report.section([live_report.grid(spent, COUNT)], COUNT, rounds=3)
    assert shown.startswith("## Reading into Spark\n") and "| now 14 | 0.10 | 0.20 | 0.30 | 0.60 | 111,111 |" in shown
