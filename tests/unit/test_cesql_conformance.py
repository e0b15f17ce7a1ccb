"""The conformance cases of CESQL, run against our parser and evaluator.

The cases come with the CloudEvents specification and lie in the folder of real data. Every deviation is listed here by
name, with the reason and what we answer instead.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tidings.model.errors import FilterSyntaxError
from tidings.model.language.evaluation import EvaluationOutcome, evaluate
from tidings.model.language.parser import parse_expression

CASES_EXPECTED = 275
"""What the folder holds; its README counts 257."""

DEVIATIONS = {
    "Integer builtin functions: ABS overflow": (
        "integers have 64 bit here and 32 bit in CESQL, so -2147483648 has an absolute value",
        EvaluationOutcome(2147483648),
    ),
}

ANY_EVENT = {"specversion": "1.0", "id": "1", "source": "/any", "type": "any"}


class PlainLoader(yaml.SafeLoader):
    """Timestamps stay the text they are in the file, as in the JSON form of an event."""


PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@pytest.fixture(scope="module")
def cases(data_folder: Path) -> dict[str, dict[str, Any]]:
    folder = data_folder / "filters" / "cesql_tck"
    if not folder.is_dir():
        pytest.skip("the conformance cases are absent; set TIDINGS_DATA to the folder of real data")
    found = {}
    for path in sorted(folder.glob("*.yaml")):
        suite = yaml.load(path.read_text(encoding="utf-8"), PlainLoader)
        for number, case in enumerate(suite["tests"]):
            name = f"{suite['name']}: {case['name']}"
            found[name if name not in found else f"{name} #{number}"] = case
    return found


def outcome_of(case: dict[str, Any]) -> EvaluationOutcome | str:
    attributes = case.get("event") or {**ANY_EVENT, **case.get("eventOverrides", {})}
    try:
        return evaluate(parse_expression(str(case["expression"])), attributes)
    except FilterSyntaxError:
        return "parse"


def expected_of(case: dict[str, Any]) -> EvaluationOutcome | str:
    return "parse" if case.get("error") == "parse" else EvaluationOutcome(case["result"], case.get("error"))


def is_same(outcome: EvaluationOutcome | str, expected: EvaluationOutcome | str) -> bool:
    if isinstance(outcome, str) or isinstance(expected, str):
        return outcome == expected
    return outcome == expected and type(outcome.value) is type(expected.value)


def test_all_cases_of_the_suite_were_found(cases: dict[str, dict[str, Any]]) -> None:
    assert len(cases) == CASES_EXPECTED


def test_every_case_gives_its_expected_value_and_error_except_the_listed_ones(
    cases: dict[str, dict[str, Any]],
) -> None:
    wrong = {
        name: (case["expression"], outcome_of(case), expected_of(case))
        for name, case in cases.items()
        if name not in DEVIATIONS and not is_same(outcome_of(case), expected_of(case))
    }
    assert wrong == {}


@pytest.mark.parametrize("name", sorted(DEVIATIONS))
def test_each_listed_deviation_is_real_and_gives_what_it_says(name: str, cases: dict[str, dict[str, Any]]) -> None:
    _, ours = DEVIATIONS[name]
    assert is_same(outcome_of(cases[name]), ours)
    assert not is_same(ours, expected_of(cases[name]))
