"""What all tests share: the `spec` mark, the length of property runs, and the folder of real data.

Two environment variables are read here and nowhere else:

    TIDINGS_EXAMPLES   how many cases a property is tried on. Unset, it is a small number and every run tries the same
                       cases; set, the cases are drawn anew each time.
    TIDINGS_DATA       the folder of real data; by default ../shared/data beside the repository, if it exists.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent
EXAMPLES_DEFAULT = 60

examples_asked = os.environ.get("TIDINGS_EXAMPLES")
EXAMPLES = int(examples_asked or EXAMPLES_DEFAULT)

settings.register_profile(
    "tidings",
    max_examples=EXAMPLES,
    derandomize=examples_asked is None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("tidings")
if examples_asked is None:
    # Constants of the modules that happen to be loaded would be tried as well: other cases in each process.
    providers._get_local_constants = providers.Constants


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "spec(*ids): the numbered requirements that this test checks, such as T-24")


@pytest.fixture(scope="session")
def examples() -> int:
    """How many random cases to try, for properties that do not go through hypothesis."""
    return EXAMPLES


@pytest.fixture(scope="session")
def data_folder() -> Path:
    folder = Path(os.environ.get("TIDINGS_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("the folder of real data is absent; set TIDINGS_DATA to run this test")
    return folder


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """One session for all tests; a test stops the streams that it started, and never the session."""
    from tidings.spark.session import open_session

    folder = tmp_path_factory.mktemp("spark")
    # Quick to start rather than quick to run; benchmarks must not use this.
    java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    settings = {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "scratch"),
        # Tables of tests are small, and parts of a shuffle are files.
        "spark.sql.adaptive.coalescePartitions.initialPartitionNum": "4",
    }
    session = open_session("local[2,2]", java_options=java, settings=settings)
    yield session
    session.stop()
