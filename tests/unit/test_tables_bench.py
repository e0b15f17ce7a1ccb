"""The benchmark of large tables runs, and says what it measured."""

import pytest

pytest.importorskip("structlog", reason="a host logs with structlog")

from bench import tables


def test_it_runs_and_prints_a_line_for_each_case(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "warm_up", lambda: None)
    assert tables.main(["--subscriptions", "40"]) == 0
    printed = capsys.readouterr().out
    for case in ("told for the first time", "after a break", "after a restart"):
        assert case in printed
