"""The import contracts: they are complete, and they notice a breach, also in folders that come later."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    program = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    return subprocess.run(
        [sys.executable, "-c", program, "--no-cache", "--config", str(folder / "pyproject.toml")],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
    )


def small_package(root: Path, folder: Path, imports: dict[str, str]) -> Path:
    """A package with our contracts, in which each module named consists of one line."""
    (folder / "pyproject.toml").write_text((root / "pyproject.toml").read_text())
    for module, line in {"model.event": "", "matching.index": "", **imports}.items():
        path = folder.joinpath("src", "tidings", *module.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(line + "\n")
        for parent in path.relative_to(folder / "src").parents[:-1]:
            (folder / "src" / parent / "__init__.py").touch()
    return folder


def test_a_small_package_that_keeps_the_direction_passes(root: Path, tmp_path: Path) -> None:
    keeps = {
        "matching.index": "import tidings.model.event",
        "net.host": "import asyncio, tidings.matching.index",
        "cli.program": "import time, tidings.net.host",
    }
    done = lint_imports(small_package(root, tmp_path, keeps))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("model.event", "import tidings.matching.index"),
        ("matching.index", "import tidings.cli"),
        ("machine.effects", "import tidings.matching.index"),
        ("sim.kernel", "import tidings.net.host"),
        ("nodes.broker", "import tidings.wire.codec"),
        ("protocols.gossip.views", "import tidings.protocols.routing.tables"),
        ("model.event", "import time"),
        ("matching.index", "from threading import Lock"),
        ("wire.codec", "from asyncio import sleep"),
        ("protocols.gossip.views", "import uuid"),
    ],
)
def test_a_breach_is_noticed(root: Path, tmp_path: Path, module: str, line: str) -> None:
    others = {
        "cli.program": "",
        "net.host": "",
        "wire.codec": "",
        "protocols.routing.tables": "",
    }
    done = lint_imports(small_package(root, tmp_path, {**others, module: line}))
    assert done.returncode == 1
    assert "1 broken" in done.stdout


def test_the_layers_name_every_folder(root: Path) -> None:
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    known = {name.strip(" ()") for layer in contracts[0]["layers"] for name in layer.split("|")}
    assert {path.parent.name for path in root.glob("src/tidings/*/__init__.py")} <= known
