"""The format "tidings" in sessions that nobody prepared for it."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.spark.live_world import ThreadBroker
from tidings.spark.session import LOOPBACK, find_java

QUOTES = [{"symbol": "IBM" if n % 2 else "ACME", "price": 90.0 + n} for n in range(30)]
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def play(root: Path, folder: Path, *more: str) -> None:
    home = find_java()
    with ThreadBroker() as broker:
        broker.publish("desk", QUOTES, "price > 0 AND EXISTS symbol")
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.plain_session", broker.url, str(folder), *more],
            env={
                **os.environ,
                **({} if home is None else {"JAVA_HOME": str(home)}),
                # As in an environment that is activated.
                "PYSPARK_PYTHON": sys.executable,
                "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)]),
                "SPARK_LOCAL_IP": LOOPBACK,
                "JAVA_TOOL_OPTIONS": QUICK,
            },
            cwd=folder,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "all": [30, 119.0],
        "high": [10, 119.0],
        "pushed at first": False,
        "high, pushed": [10, 119.0],
        "pushed": True,
        "table": [19, 119.0],
        "table, read otherwise": [9, 119.0],
        "view of a table": [19, 119.0],
        "view": [30, 119.0],
        "inserted": [20, 120.5],
        "stream": [31, 120.5],
    }
    assert "statically registered" not in done.stderr


@pytest.mark.spark
def test_a_plain_session_reads_and_writes_with_no_setting_of_ours(root: Path, tmp_path: Path) -> None:
    play(root, tmp_path)


@pytest.mark.spark
@pytest.mark.skipif(find_spec("grpc") is None, reason="Spark Connect is not installed: pip install 'pyspark[connect]'")
def test_so_does_a_remote_one(root: Path, tmp_path: Path) -> None:
    play(root, tmp_path, "local[2]")
