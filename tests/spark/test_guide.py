"""The guide to Spark: its examples run."""

import re
from pathlib import Path
from tempfile import mkdtemp

import pytest
from pyspark.sql import SparkSession

from tests.spark.live_world import ThreadBroker, patiently

FOLDERS = ("checkpoint", "quotes", "workload", "out")
ADDRESS = "tidings://localhost:7411"


@pytest.mark.spark
def test_the_examples_of_the_guide_run(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    text = (root / "docs" / "guide" / "spark.md").read_text()
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    assert ADDRESS in code
    folder = patiently(lambda: follow(code, Path(mkdtemp(dir=tmp_path))))
    assert spark.read.parquet(str(folder / "quotes")).count() == 19
    assert spark.read.parquet(str(folder / "workload" / "events")).count() == 10_000


def follow(code: str, folder: Path) -> Path:
    """Run the examples in a folder of their own."""
    # Spark has been started elsewhere, and takes names of files from there.
    for name in FOLDERS:
        assert f'"{name}"' in code
        code = code.replace(f'"{name}"', f'"{folder / name}"')
    names: dict[str, object] = {"__name__": "guide"}
    with ThreadBroker() as broker:
        quotes = [{"type": "quote", "symbol": "IBM", "price": 90.0 + n, "volume": n} for n in range(30)]
        broker.publish("exchange", quotes)
        exec(compile(code.replace(ADDRESS, broker.url), "spark.md", "exec"), names)
    return folder
