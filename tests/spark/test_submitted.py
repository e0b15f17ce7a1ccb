"""`spark-submit --archives` with the archive that `tidings spark package` makes, as the guide says it, where nothing of
ours is installed: neither where it is submitted nor where it runs."""

import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from pyspark.sql.types import StringType

from tests.spark.cluster import SPARK, bare_cluster, bare_environment
from tests.spark.live_world import ThreadBroker
from tests.spark.test_live_casts import read, schema_of
from tidings.cli.program import run

__all__ = ["bare_cluster"]

pytestmark = [pytest.mark.spark, pytest.mark.long]

QUOTES = [{"symbol": "IBM", "price": 90.0 + n} for n in range(30)]
SUBMIT_MAX = 600
"""Seconds; some forty are usual."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("archive") / "tidings.tar.gz"
    assert run(["spark", "package", str(path)]) == 0
    return path


def submit(archive: Path, folder: Path, master: str) -> None:
    """In a folder with nothing but the archive and the job."""
    here = folder / "here"
    with tarfile.open(archive) as packed:
        packed.extractall(here / "tidings", filter="data")
    shutil.copy(archive, here / "tidings.tar.gz")
    shutil.copy(Path(__file__).with_name("submitted_job.py"), here / "job.py")
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    bare = subprocess.run(
        [python, "-c", "import tidings"], env=bare_environment(), cwd=here / "tidings", capture_output=True
    )
    assert b"No module named 'tidings'" in bare.stderr
    with ThreadBroker() as broker:
        broker.publish("desk", QUOTES)
        done = subprocess.run(
            [
                *(SPARK / "bin" / "spark-submit", "--master", master, "--archives", "tidings.tar.gz#tidings"),
                *("--conf", "spark.pyspark.python=./tidings/bin/python", "--conf", "spark.ui.enabled=false"),
                *("job.py", broker.url, str(folder)),
            ],
            # Spark looks for formats with the Python of its environment, not with that of its settings.
            env={**bare_environment(), "PYSPARK_PYTHON": "./tidings/bin/python"},
            cwd=here,
            capture_output=True,
            text=True,
            timeout=SUBMIT_MAX,
        )
        assert done.returncode == 0, done.stdout + done.stderr[-2000:]
        symbols = [row["symbol"] for row in read(broker, schema_of(symbol=StringType()))]
    assert sorted(symbols) == ["IBM"] * 30 + ["SUM"]
    told = json.loads((folder / "told.json").read_text())
    assert (told["total"], told["streamed"]) == (sum(90.0 + n for n in range(30)), 30)
    assert (told["trace"], told["brokers"]) == ("run", "broker")
    assert Path(told["driver"]).is_relative_to(here / "tidings")
    unpacked = {Path(place).parts[-4:-1] for place in told["executors"]}
    assert unpacked == {("tidings", "lib", "tidings"), ("tidings", "lib", "msgspec")}
    if master.startswith("spark:"):
        assert not any(Path(place).is_relative_to(here) for place in told["executors"]), "they have unpacked it"


@pytest.mark.timeout(1200)
def test_a_job_takes_us_along_on_one_machine(archive: Path, tmp_path: Path) -> None:
    submit(archive, tmp_path, "local[2]")


@pytest.mark.timeout(1200)
def test_a_job_takes_us_along_to_a_cluster(archive: Path, tmp_path: Path, bare_cluster: str) -> None:
    submit(archive, tmp_path, bare_cluster)
