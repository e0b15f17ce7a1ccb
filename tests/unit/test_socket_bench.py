"""The benchmark of the sockets runs, and its contenders carry what they say."""

import asyncio

import pytest

pytest.importorskip("structlog", reason="a host logs with structlog")

from bench.sockets import BURST, between_hosts, contenders, floods, main


def test_it_runs_and_prints_a_figure_for_each_contender(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scale", "0.002"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in contenders(1.0))
    assert "rally: two hosts carry" in printed
    assert "flood: two hosts carry" in printed


def test_a_flood_counts_every_message_down_to_zero() -> None:
    rounds = [[echo.round for echo in burst] for burst in floods(2 * BURST + 1)]
    assert [len(burst) for burst in rounds] == [BURST, BURST, 1]
    assert [round for burst in rounds for round in burst] == list(range(2 * BURST, -1, -1))
    assert asyncio.run(between_hosts(floods(3))) > 0
