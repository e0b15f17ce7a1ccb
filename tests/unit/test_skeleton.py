"""The package as it is installed and imported, and the setup of a working copy."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import tidings

EXTRAS_ONLY = ("numpy", "numba", "pyarrow", "pandas", "scipy", "typer", "rich", "pyspark")


@pytest.fixture(scope="module")
def project(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text())


def run_python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


def test_the_core_loads_no_extra() -> None:
    program = f"""
import sys, tidings
for name in tidings.__all__:
    getattr(tidings, name)
index = tidings.matching.Index(engine="plain")
index.add("key", tidings.parse("price > 100 AND symbol LIKE 'I%'"))
assert index.match(tidings.Event({{"price": 104.5, "symbol": "IBM"}})) == ["key"]
print([name for name in {EXTRAS_ONLY} if name in sys.modules])
"""
    done = run_python(program)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_importing_the_package_loads_none_of_its_parts() -> None:
    done = run_python("import sys, tidings; print(sorted(name for name in sys.modules if name.startswith('tidings')))")
    assert done.stdout.strip() == "['tidings']"


def test_every_exported_name_can_be_had_and_is_listed() -> None:
    assert all(getattr(tidings, name) is not None for name in tidings.__all__)
    assert set(tidings.__all__) <= set(dir(tidings))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = tidings.nonsense


def test_the_version_is_stated_the_same_in_both_places(project: dict[str, Any]) -> None:
    assert project["project"]["version"] == tidings.__version__


def test_both_ways_to_start_the_program_are_one(project: dict[str, Any]) -> None:
    assert project["project"]["scripts"] == {"tidings": "tidings.__main__:main"}
    done = subprocess.run([sys.executable, "-m", "tidings", "version"], capture_output=True, text=True)
    assert done.stdout == f"tidings {tidings.__version__}\n"


def test_without_the_command_line_extra_the_program_says_what_to_install() -> None:
    done = run_python("import sys; sys.modules['typer'] = None; from tidings.__main__ import main; sys.exit(main())")
    assert done.returncode == 2
    assert done.stderr == "tidings: the command line needs typer; install it with: pip install 'tidings[cli]'\n"


def test_the_extras_are_those_of_the_design(project: dict[str, Any]) -> None:
    extras = project["project"]["optional-dependencies"]
    assert set(extras) >= {"fast", "cli", "net", "feeds", "web", "plan", "spark", "lab", "dev", "all"}
    assert extras["all"] == ["tidings[fast,cli,net,feeds,web,plan,spark,lab]"]


def test_constraints_hold_exact_versions_and_nothing_else(root: Path) -> None:
    lines = [line for line in (root / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert [
        line for line in lines if not re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*( ; python_version .*)?", line)
    ] == []


def test_no_python_to_come_is_shut_out(root: Path, project: dict[str, Any]) -> None:
    assert project["project"]["requires-python"] == ">=3.11"
    marked = [line.split(" ; ") for line in (root / "constraints.txt").read_text().splitlines() if " ; " in line]
    for package in {pin.split("==")[0] for pin, _ in marked}:
        marks = {mark for pin, mark in marked if pin.split("==")[0] == package}
        assert marks == {'python_version < "3.15"', 'python_version >= "3.15"'}, package


def test_every_dependency_has_a_pinned_version(root: Path, project: dict[str, Any]) -> None:
    pinned = {line.split("==")[0] for line in (root / "constraints.txt").read_text().splitlines()}
    optional = project["project"]["optional-dependencies"].values()
    wanted = [*project["project"]["dependencies"], *(line for extra in optional for line in extra)]
    names = [re.split(r"[<>=\[]", line)[0].lower() for line in wanted]
    assert [name for name in names if name not in pinned and name != "tidings"] == []


def run_setup(root: Path, python: str, folder: Path) -> subprocess.CompletedProcess[str]:
    arguments = ["sh", str(root / "tools" / "setup.sh"), python, str(folder / ".venv"), "dev"]
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("version", ["2.7", "3.9", "3.10"])
def test_setup_with_an_unsupported_python_says_so_in_one_sentence(root: Path, tmp_path: Path, version: str) -> None:
    python = tmp_path / "python3"
    python.write_text(f"#!/bin/sh\necho {version}\n")
    python.chmod(0o755)
    done = run_setup(root, "python3", tmp_path)
    assert done.returncode != 0
    assert done.stderr.startswith(f"tidings: 'python3' is Python {version}, but 3.11 or later is needed")
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize("version", ["3.11", "3.14", "3.20"])
def test_setup_refuses_no_later_python(root: Path, tmp_path: Path, version: str) -> None:
    python = tmp_path / "python3"
    python.write_text(f"#!/bin/sh\necho {version}\n")
    python.chmod(0o755)
    done = run_setup(root, "python3", tmp_path)
    assert done.stdout.splitlines()[0] == f"making {tmp_path / '.venv'} with Python {version}"


def test_setup_without_python_says_so_in_one_sentence(root: Path, tmp_path: Path) -> None:
    done = run_setup(root, "python-that-does-not-exist", tmp_path)
    assert done.returncode != 0
    assert done.stderr.startswith("tidings: no 'python-that-does-not-exist' found; install Python 3.11")
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
