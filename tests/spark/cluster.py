"""A small Spark cluster of its own on this machine, for tests: one master and two workers, on loopback.

    from tests.spark.cluster import cluster          # the fixture; its value is the URL of the master

    def test_on_a_cluster(cluster: str) -> None:
        open_session(cluster)                        # in a process of its own: one session for a process

Each is a Java process that comes with PySpark. Ports are chosen by the system and read from what the processes say, as
is that they are ready. Whoever runs on the cluster finds our sources; of a `bare_cluster` nobody does, nor any other
package: its executors have the Python that ours is made of, and what a job takes along.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import Queue

import pyspark
import pytest

from tests.scenarios.processes import become_child
from tidings.spark.session import LOOPBACK, find_java

ROOT = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent

MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
WORKERS, CORES, MEMORY = 2, 1, "1g"

READY_MAX = 300.0
"""Seconds until a process says that it is ready; some ten are usual on a busy machine."""
END_MAX = 60.0

QUICK_JAVA = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Quick to start rather than quick to run: for every Java of the cluster, and of whoever runs on it."""

ENDED = ""
"""In place of a line."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as master:
        yield master


@pytest.fixture(scope="module")
def bare_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_cluster(tmp_path_factory.mktemp("bare"), bare_environment()) as master:
        yield master


def bare_environment() -> dict[str, str]:
    """That of a machine on which Spark, Java and Python are, and none of our packages."""
    home = find_java()
    path = os.pathsep.join([str(Path(sys.base_prefix, "bin")), os.defpath])
    packaged = {name: os.environ[name] for name in ("TIDINGS_PACKAGED_JAVA", "HOME") if name in os.environ}
    java = {} if home is None else {"JAVA_HOME": str(home)}
    if home is None:
        path = os.pathsep.join([path, os.environ["PATH"]])
    return {"PATH": path, **packaged, **java, "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": LOOPBACK, **QUICK_JAVA}


@contextmanager
def running_cluster(folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """`environment` is that of its processes, if not ours with our sources."""
    environment = our_environment() if environment is None else environment
    with ExitStack() as running:
        lines = running.enter_context(
            daemon(environment, MASTER, "--host", LOOPBACK, "--port", "0", "--webui-port", "0")
        )
        master = f"spark://{LOOPBACK}:{wait_for(lines, 'sparkMaster', ' on port ').rstrip('.')}"
        wait_for(lines, "New state: ALIVE")
        workers = [
            running.enter_context(
                daemon(
                    environment,
                    *(WORKER, "--host", LOOPBACK, "--port", "0", "--webui-port", "0"),
                    *(
                        "--cores",
                        str(CORES),
                        "--memory",
                        MEMORY,
                        "--work-dir",
                        str(folder / f"worker-{number}"),
                        master,
                    ),
                )
            )
            for number in range(WORKERS)
        ]
        for lines in workers:
            wait_for(lines, "Successfully registered with master")
        yield master


def our_environment() -> dict[str, str]:
    home = find_java()
    return {
        **os.environ,
        **({} if home is None else {"JAVA_HOME": str(home)}),
        **QUICK_JAVA,
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": LOOPBACK,
        "PYTHONPATH": f"{ROOT / 'src'}",
    }


@contextmanager
def daemon(environment: Mapping[str, str], *words: str) -> Iterator["Queue[str]"]:
    """What it says, line by line, until it is ended."""
    process = subprocess.Popen(
        [SPARK / "bin" / "spark-class", *words],
        env={**environment, "SPARK_DAEMON_MEMORY": "512m"},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=become_child,
    )
    lines: Queue[str] = Queue()
    listening = threading.Thread(target=listen, args=(process, lines))
    listening.start()
    try:
        yield lines
    finally:
        process.terminate()
        try:
            process.wait(END_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        listening.join()


def listen(process: "subprocess.Popen[str]", lines: "Queue[str]") -> None:
    assert process.stderr is not None
    with process.stderr:
        for line in process.stderr:
            lines.put(line.rstrip("\n"))
    lines.put(ENDED)


def wait_for(lines: "Queue[str]", words: str, before: str = "") -> str:
    """The rest of the first line with these words, behind those that come before it."""
    said = []
    while words not in (line := lines.get(timeout=READY_MAX)):
        said.append(line)
        if line == ENDED:
            pytest.fail("\n".join(["a process of the cluster ended:", *said]))
    return line.partition(before)[2] if before else line
