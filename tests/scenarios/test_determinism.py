"""The same seed gives the same run to the byte, in every process; another seed gives another."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidings.sim.library import built_in, find
from tidings.sim.order import RunOrder, fulfil

HASH_SEEDS = ("0", "1", "4711")


def run_command(root: Path, hash_seed: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(root / "src")}
    command = [sys.executable, "-m", "tidings", "sim", *arguments]
    return subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True)


@pytest.mark.spec("P-7", "S-12", "D-9")
@pytest.mark.parametrize(("name", "ending"), [("gossip-chaos", "jsonl"), ("ping", "parquet"), ("brokers", "jsonl")])
def test_the_command_writes_the_same_bytes_under_three_hash_seeds(
    name: str, ending: str, root: Path, tmp_path: Path
) -> None:
    pytest.importorskip("typer")
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    traces, outputs = set(), set()
    for hash_seed in HASH_SEEDS:
        path = tmp_path / f"run.{ending}"
        finished = run_command(root, hash_seed, "run", name, "--seed", "7", "--trace", str(path))
        assert finished.returncode == 0, finished.stderr
        traces.add(path.read_bytes())
        outputs.add(finished.stdout)
    assert len(traces) == len(outputs) == 1
    assert len(traces.pop()) > 10_000


@pytest.mark.spec("P-7", "S-12", "D-9")
@pytest.mark.parametrize("name", sorted(set(built_in()) - {"backbone"}))
def test_the_same_seed_gives_the_same_log_and_another_seed_another(name: str, tmp_path: Path) -> None:
    logs = []
    for run, seed in enumerate((3, 3, 4)):
        path = tmp_path / f"{run}.jsonl"
        fulfil(RunOrder(scenario=name, seed=seed), find(name), path)
        logs.append(path.read_bytes().replace(b'"seed":4,', b'"seed":3,'))
    assert logs[0] == logs[1]
    assert logs[0] != logs[2]


def test_a_trace_written_under_one_hash_seed_is_replayed_under_another(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("typer")
    path = str(tmp_path / "run.jsonl")
    assert run_command(root, "0", "run", "gossip", "--seed", "9", "--trace", path).returncode == 0
    finished = run_command(root, "1", "replay", path)
    assert finished.returncode == 0
    assert "the same, " in finished.stdout
