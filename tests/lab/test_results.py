"""What is kept of the lab's results: pages say what the kept figures and the definitions say, and nothing else."""

from pathlib import Path

import pytest

from tests.unit.test_documents import ROOT
from tidings.lab.experiment import Measured
from tidings.lab.registry import built
from tidings.model.errors import UsageError
from tools import keep_results
from tools.keep_results import (
    PAGE,
    PICTURES,
    RESULTS,
    Kept,
    all_kept,
    filled,
    names_of_pictures,
    page,
    pages,
    picture,
)

REWRITE = "python tools/keep_results.py"


def test_the_page_of_results_is_that_of_the_kept_figures() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(all_kept()), f"it is older than figures or definitions: {REWRITE}"


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_tables_of_results_in_other_pages_are_those_of_the_kept_figures(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text == filled(text, all_kept()), f"it is older than figures or definitions: {REWRITE}"


def test_pictures_of_results_in_pages_are_those_of_the_kept_figures() -> None:
    found = {kept.name: kept for kept in all_kept()}
    for name in names_of_pictures():
        assert name in found, f"a page shows {name}, of which nothing is kept"
        drawn = (PICTURES / f"{name}.svg").read_bytes()
        assert drawn == picture(found[name]), f"{name} is older than figures or definitions: {REWRITE}"


def test_what_is_kept_has_enough_runs_and_says_what_it_was_made_with() -> None:
    for kept in all_kept():
        assert kept.commit and kept.made_on, kept.experiment.id
        assert kept.scale in kept.experiment.scales
        judged = [each for each in kept.judgements if each.verdict != "not judged"]
        assert judged and all(each.runs >= 5 for each in judged), kept.experiment.id


def test_a_changed_figure_or_band_changes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = RESULTS / "transport-E24-small.csv"
    copy = tmp_path / source.name
    copy.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(keep_results, "RESULTS", tmp_path)
    before = page(all_kept())
    assert "| reproduced |" in before
    lines = copy.read_text(encoding="utf-8").splitlines()
    changed = [
        "memory,,2.5,2.4,2.6" + line[line.index(",5,") :] if line.startswith("memory") else line for line in lines
    ]
    copy.write_text("\n".join(changed) + "\n", encoding="utf-8")
    assert "| 2.50 (2.40 to 2.60) | 5 | more than 0, less than 1 (T-97) | missed: " in page(all_kept())
    [kept] = all_kept()
    assert kept.measured[0] == Measured("memory", "", 2.5, 2.4, 2.6, 5)


def test_a_page_that_names_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(UsageError, match="no experiment 'transport/E99'"):
        filled("<!-- results transport/E99 -->\n<!-- end of results -->", [])


def test_what_is_not_kept_is_told_with_the_command_that_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_results, "RESULTS", tmp_path)
    text = page(all_kept())
    for id in built():
        assert f"not kept: `tidings lab run {id}`" in text
        assert f"not kept: `tidings lab run {id} --scale paper`" in text
    assert "not kept: `tidings lab run transport/E6`" in filled(
        "<!-- results transport/E6 -->\n<!-- end of results -->", []
    )


def test_kept_names_its_experiment_and_scale() -> None:
    kept = Kept(RESULTS / "peer-to-peer-E8-small.csv")
    assert (kept.experiment.id, kept.scale) == ("peer-to-peer/E8", "small")
