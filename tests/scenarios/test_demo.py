"""`tidings demo` as a newcomer runs it, only shorter: real brokers, one of them killed."""

import json
import os

import pytest

from tidings.cli.program import run


def test_the_demo_kills_a_broker_and_proves_that_nothing_was_lost(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--seconds", "3", "--flights", "600", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["published"], summary["lost"], summary["wrong"], summary["twins_differ"]) == (600, 0, 0, False)
    assert all(each["received"] >= each["promised"] for each in summary["subscribers"])
    assert sum(each["promised"] > 0 for each in summary["subscribers"]) >= 5
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_the_demo_ends_with_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--seconds", "2", "--flights", "300"]) == 0
    text = capsys.readouterr().out
    assert "hub is killed" in text
    assert "nothing was lost after a receipt" in text
    assert "\x1b" not in text
