"""The tool that throws damaged bytes at the transport."""

from pathlib import Path
from random import Random

import pytest

from tools import fuzz_transport


@pytest.mark.spec("T-22")
def test_the_same_seed_gives_the_same_outcomes(capsys: pytest.CaptureFixture[str]) -> None:
    reports = set()
    for _ in range(2):
        assert fuzz_transport.main(["--plain", "--runs", "1500", "--seed", "5"]) == 0
        printed = capsys.readouterr().out
        reports.add("".join(line for line in printed.splitlines(keepends=True) if line.startswith("  ")))
        assert "1500 runs without a failure" in printed
    assert len(reports) == 1


def test_a_failure_keeps_its_bytes_and_says_how_to_try_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Fragile(fuzz_transport.Judge):
        def try_case(self, data: bytes) -> None:
            raise KeyError("planted")

    monkeypatch.chdir(tmp_path)
    data = fuzz_transport.Maker(Random(1)).cases()[6]
    assert not fuzz_transport.holds(Fragile(1), data)
    printed = capsys.readouterr().err
    assert "KeyError: 'planted'" in printed
    assert "--try fuzz_transport.failure" in printed
    assert (tmp_path / "fuzz_transport.failure").read_bytes() == data
    assert fuzz_transport.main(["--try", "fuzz_transport.failure"]) == 0
    assert "read as Data" in capsys.readouterr().out
