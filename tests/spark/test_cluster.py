"""The same on a cluster: one master and two workers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pyarrow.compute
import pyarrow.dataset
import pytest

from tests.lab.folders import read_table
from tests.spark.cluster import QUICK_JAVA, cluster
from tests.spark.live_world import ThreadBroker
from tidings.spark.session import LOOPBACK
from tidings.spark.sweeps import Run, run_here
from tidings.trace.reader import read_trace
from tidings.trace.record import COLUMNS

__all__ = ["cluster"]


@pytest.mark.spark
def test_a_sweep_on_a_cluster_gives_what_its_runs_give_here(cluster: str, tmp_path: Path, root: Path) -> None:
    folder = tmp_path / "out"
    words = ["sim", "sweep", "gossip", "--seeds", "3", "--set", "events=3", "--vary", "nodes=3,4"]
    done = subprocess.run(
        [sys.executable, "-m", "tidings", *words, "--folder", str(folder), "--master", cluster, "--json"],
        env={**os.environ, **QUICK_JAVA, "PYTHONPATH": str(root / "src"), "SPARK_LOCAL_IP": LOOPBACK},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert [(each["variant"], each["runs"]) for each in answer["variants"]] == [("nodes=3", 3), ("nodes=4", 3)]
    runs = [Run("gossip", f"nodes={n}", {"events": 3, "nodes": n}, seed) for n in (3, 4) for seed in range(3)]
    alone = {run.id: run_here(run, tmp_path / f"{run.id}.parquet") for run in runs}
    swept = read_table(folder).filter(pyarrow.compute.field("table") == "traces").select(COLUMNS)
    for run in runs:
        mine = swept.filter(pyarrow.compute.field("run") == run.id).to_pylist()
        assert mine == [msgspec.structs.asdict(record) for record in read_trace(tmp_path / f"{run.id}.parquet")]
    sent = [sum(alone[run.id].measures["sent"] for run in runs[begin : begin + 3]) / 3 for begin in (0, 3)]
    assert [each["measures"]["sent"] for each in answer["variants"]] == sent


@pytest.mark.spark
def test_a_stream_on_a_cluster_sees_and_publishes_each_event_once(cluster: str, tmp_path: Path, root: Path) -> None:
    numbers = range(1000)
    with ThreadBroker("source") as source, ThreadBroker("target") as target:
        source.publish("meter", [{"n": n, "amount": n / 4} for n in numbers])
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.live_query", source.url, target.url, str(tmp_path), cluster],
            env={
                **os.environ,
                **QUICK_JAVA,
                "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)]),
                "SPARK_LOCAL_IP": LOOPBACK,
            },
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        sent = target.stored()
    kept = pyarrow.dataset.dataset(tmp_path / "rows", exclude_invalid_files=True).to_table().column("n").to_pylist()
    assert sorted(kept) == sorted(sent) == list(numbers)
