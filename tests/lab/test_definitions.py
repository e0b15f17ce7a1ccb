"""The definitions of experiments: the list is whole, and each is complete before anything is run."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tidings.lab.definition import LAB, claim_of, id_of, read_part, scale_of
from tidings.lab.experiment import Band, Claim, Experiment, Planned, Scale
from tidings.lab.registry import built, entries, find, planned
from tidings.model.errors import UsageError

NUMBERS = {"dependable": 25, "transport": 25, "dynamic-topologies": 34, "peer-to-peer": 41}
"""How many experiments each specification has."""

OWN = (
    *("dependable/groups", "dependable/guessed", "dependable/measures", "transport/friendliness", "transport/loss"),
    *("dynamic-topologies/ends", "dynamic-topologies/patience"),
)
"""Those that are in none."""


def test_every_experiment_of_the_specifications_is_in_the_list_once() -> None:
    specified = [id for id in entries() if id not in OWN]
    assert specified == [f"{family}/E{n}" for family, last in NUMBERS.items() for n in range(1, last + 1)]
    assert set(OWN) <= built().keys()
    assert not built().keys() & planned().keys(), "take the line of what is built out of planned.toml"


def test_what_is_not_built_says_what_it_waits_for() -> None:
    for each in planned().values():
        assert isinstance(each, Planned)
        assert each.title and each.asks and each.needs


@pytest.mark.parametrize("experiment", built().values(), ids=built().keys())
def test_a_definition_is_complete(experiment: Experiment) -> None:
    module, _, function = experiment.run.partition(":")
    assert callable(getattr(import_module(module), function))
    assert {"small", "paper"} <= experiment.scales.keys()
    assert all(scale.seeds >= 5 for scale in experiment.scales.values()), "an interval of fewer says nothing"
    assert all(claim.band is None or claim.band.has_both_ends for claim in experiment.claims)
    assert all((claim.band is None) == bool(claim.not_judged) for claim in experiment.claims)
    names = [variant.name for variant in experiment.variants]
    assert len(set(names)) == len(names)
    assert experiment.title and experiment.question and experiment.source and experiment.claims


LINE: dict[str, Any] = {"figure": "missed", "says": "missed at all", "published": "none"}
BOTH = {"low": 0, "below": 1}


def test_a_claim_is_read_with_its_band_and_its_reason() -> None:
    line = {**LINE, "groups": ["12 brokers"], "unit": "share", **BOTH, "requirement": "T-4", "reason": "few"}
    line |= {"good": "less", "better": "many", "most": 2}
    assert claim_of(Path("e1.toml"), 1, line, {"few": "too few", "many": "so many"}) == Claim(
        figure="missed",
        says="missed at all",
        published="none",
        groups=("12 brokers",),
        unit="share",
        band=Band(low=0.0, below=1.0),
        good="less",
        requirement="T-4",
        reason="too few",
        better="so many",
        most=2.0,
    )
    plain = claim_of(Path("e1.toml"), 1, {**LINE, "not_judged": "curves only"}, {})
    assert (plain.band, plain.not_judged) == (None, "curves only")


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ({"bellow": 1}, r"unknown field `bellow`"),
        ({"unit": "percent"}, r"Invalid enum value 'percent' - at `\$.unit`"),
        ({"low": "much"}, r"Expected `float \| null`, got `str` - at `\$.low`"),
        ({}, r"give it a band with two ends, or say why not: not_judged"),
        ({**BOTH, "not_judged": "curves only"}, r"give it a band with two ends, or say why not"),
        ({"low": 1}, r"a band has two ends, one of low and above, one of high and below"),
        ({"low": 1, "above": 2, "high": 3}, r"a band has two ends"),
        ({"not_judged": "curves only", "requirement": "T-4"}, r"has no requirement, no good side and no reason"),
        ({**BOTH, "requirement": "four"}, r"the requirement four is none, they are called such as S-118"),
        ({**BOTH, "reason": "few"}, r"the reason few is not in \[reasons\]"),
        ({**BOTH, "good": "more", "better": "few"}, r"the reason few is not in \[reasons\]"),
        ({**BOTH, "better": "few"}, r"says on which side: good = 'less' or good = 'more'"),
    ],
)
def test_a_claim_that_is_wrong_is_refused_with_its_file_its_place_and_its_figure(
    added: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=rf"e1\.toml, claim 7 \(missed\): .*{message}"):
        claim_of(Path("e1.toml"), 7, {**LINE, **added}, {})


def test_a_file_with_an_unknown_name_or_without_a_title_or_broken_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "e1.toml"
    for text, message in (("tittle = 1", "unknown field `tittle`"), ("", "missing required field `title`"), ("=", "")):
        path.write_text(text)
        with pytest.raises(UsageError, match=rf"e1\.toml: .*{message}"):
            read_part(path)


def test_a_scale_says_how_many_seeds_and_its_parameters_keep_their_kind() -> None:
    scale = scale_of(Path("e1.toml"), "small", {"seeds": 5, "seconds": 24.0, "brokers": 12, "is_alike": True})
    assert scale == Scale({"seconds": 24.0, "brokers": 12, "is_alike": True}, 5)
    assert [type(value) for value in scale.parameters.values()] == [float, int, bool]
    for seeds in ({}, {"seeds": 4}):
        with pytest.raises(UsageError, match=r"e1\.toml, scale small: say how many seeds, at least seeds = 5"):
            scale_of(Path("e1.toml"), "small", {"seconds": 24.0, **seeds})


def test_an_experiment_is_called_after_its_place() -> None:
    assert id_of(LAB / "transport" / "recovery" / "e12.toml") == "transport/E12"
    assert id_of(LAB / "transport" / "recovery" / "loss.toml") == "transport/loss"


def test_the_requirements_on_guarantees_are_judged() -> None:
    for id, requirement in (("E23", "S-118"), ("E24", "S-119"), ("E25", "S-120")):
        assert {claim.requirement for claim in find(f"dependable/{id}").claims} - {None} == {requirement}


@pytest.mark.parametrize(
    ("asked", "proposed"),
    [("E23", "dependable/E23"), ("dependible/E23", "dependable/E23"), ("DEPENDABLE/e24", "dependable/E24")],
)
def test_for_a_name_that_is_not_known_near_ones_are_proposed(asked: str, proposed: str) -> None:
    with pytest.raises(UsageError, match=f"perhaps .*{proposed}.*tidings lab list"):
        find(asked)


def test_a_planned_experiment_says_that_it_cannot_run_yet() -> None:
    with pytest.raises(UsageError, match=r"peer-to-peer/E29 .* is not built yet; it waits for"):
        find("peer-to-peer/E29")


def test_a_scale_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="--scale huge: dependable/E23 has the scales small, paper"):
        find("dependable/E23").scale("huge")


def test_neither_spark_nor_matplotlib_is_loaded_to_list_experiments_or_to_show_help() -> None:
    program = (
        "import sys; from tidings.cli.program import run; code = run(sys.argv[1:]); "
        "sys.exit(code or ','.join(sorted({'pyspark', 'matplotlib', 'pandas'} & sys.modules.keys())) or 0)"
    )
    for arguments in (["--help"], ["lab", "list"], ["lab", "run", "--help"]):
        asked = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True)
        assert (asked.returncode, asked.stderr) == (0, ""), arguments
