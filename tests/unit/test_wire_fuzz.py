"""The tool that throws damaged bytes at the wire."""

from pathlib import Path

import pytest

from tidings.wire import encode, frame
from tidings.wire.handshake import Heartbeat
from tools import fuzz_wire


def test_the_same_seed_gives_the_same_outcomes(capsys: pytest.CaptureFixture[str]) -> None:
    reports = set()
    for _ in range(2):
        assert fuzz_wire.main(["--plain", "--runs", "300", "--seed", "5"]) == 0
        printed = capsys.readouterr().out
        reports.add("".join(line for line in printed.splitlines(keepends=True) if line.startswith("  ")))
        assert "300 runs without a failure" in printed
    assert len(reports) == 1


def test_a_failure_keeps_its_bytes_and_says_how_to_try_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Fragile(fuzz_wire.Judge):
        def try_message(self, body: bytes) -> None:
            raise KeyError("planted")

    monkeypatch.chdir(tmp_path)
    data = frame(encode(Heartbeat()))
    assert not fuzz_wire.holds(Fragile(), data, 7)
    printed = capsys.readouterr().err
    assert "KeyError: 'planted'" in printed
    assert "--try fuzz_wire.failure --piece 7" in printed
    assert (tmp_path / "fuzz_wire.failure").read_bytes() == data
    assert fuzz_wire.main(["--try", "fuzz_wire.failure", "--piece", "7"]) == 0
    assert capsys.readouterr().out == "{'messages': 1}\n"
