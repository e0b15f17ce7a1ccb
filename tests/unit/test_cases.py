"""Every run of a property tries the same cases, whatever else was loaded by the process that runs it."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from tests.conftest import examples_asked


@pytest.mark.skipif(examples_asked is not None, reason="cases are drawn anew")
def test_cases_do_not_depend_on_which_modules_are_loaded(tmp_path: Path) -> None:
    seen: list[tuple[int, str]] = []

    @settings(max_examples=300)
    @given(some.integers(), some.text())
    def tries(number: int, text: str) -> None:
        seen.append((number, text))

    tries()
    before = list(seen)
    seen.clear()
    file = tmp_path / "full_of_constants.py"
    file.write_text("\n".join(f"C{k} = {k * 7919 + 100_003}, 'word{k}'" for k in range(100)))
    spec = spec_from_file_location("full_of_constants", file)
    assert spec is not None and spec.loader is not None
    module = sys.modules["full_of_constants"] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        tries()
    finally:
        del sys.modules["full_of_constants"]
    assert seen == before
