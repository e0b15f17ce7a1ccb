"""Both parts of the quick tests are run and shown, one behind the other, and either of them can fail the whole."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TESTS = """
import os, pathlib, time, pytest

@pytest.mark.spark
def test_with_spark():
    assert "spark" not in os.environ["FAILING"].split()

def test_without():
    assert "others" not in os.environ["FAILING"].split()

@pytest.mark.long
def test_long():
    assert False, "this is for make test-long"
"""

WAITING = """
import pathlib, subprocess, sys, time, pytest

def wait(name):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        pathlib.Path(__file__).with_name(name).write_text(str(child.pid))
        time.sleep(600)

@pytest.mark.spark
def test_with_spark():
    wait("spark")

def test_without():
    wait("others")
"""

INI = "[pytest]\nmarkers =\n    spark\n    long\n"


def command(root: Path, folder: Path, text: str) -> list[str]:
    (folder / "test_few.py").write_text(text)
    (folder / "pytest.ini").write_text(INI)
    where = ["-c", str(folder / "pytest.ini"), "--rootdir", str(folder), str(folder / "test_few.py")]
    return [sys.executable, str(root / "tools" / "run_tests.py"), "--workers", "0", "--", *where]


@pytest.mark.parametrize(("failing", "code"), [("", 0), ("others", 1), ("spark", 1)])
def test_what_fails_in_either_part_fails_the_whole(root: Path, tmp_path: Path, failing: str, code: int) -> None:
    environment = {**os.environ, "FAILING": failing}
    done = subprocess.run(command(root, tmp_path, TESTS), env=environment, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    others, spark = [line for line in done.stdout.splitlines() if " passed" in line or " failed" in line][-2:]
    assert ("1 failed" in others, "1 failed" in spark) == ("others" in failing, "spark" in failing)
    assert done.stdout.count("slowest 20 durations") == 2


def test_whoever_ends_it_ends_both_parts_and_what_they_started(root: Path, tmp_path: Path) -> None:
    with subprocess.Popen(
        command(root, tmp_path, WAITING), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        files = [tmp_path / "others", tmp_path / "spark"]
        while not all(file.exists() and file.read_text() for file in files):
            assert running.poll() is None
            time.sleep(0.05)
        running.send_signal(signal.SIGTERM)
        said, _ = running.communicate()
    assert running.returncode == pytest.ExitCode.INTERRUPTED
    assert said.count("KeyboardInterrupt") >= 2
    assert not any(Path("/proc", file.read_text()).exists() for file in files)
