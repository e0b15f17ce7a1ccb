"""The archive that Spark takes to other machines."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tidings.model.errors import UsageError
from tidings.spark.archive import EXTRAS, PACKAGES, needed, pack


def test_an_archive_holds_us_and_what_we_ask_for_and_its_python_imports_it(tmp_path: Path) -> None:
    made = pack(tmp_path / "tidings.tar.gz", extras=())
    assert "msgspec" in made.distributions and "numba" not in made.distributions
    with tarfile.open(tmp_path / "tidings.tar.gz") as archive:
        archive.extractall(tmp_path / "tidings", filter="data")
    asked = "import msgspec, tidings, sys; print(tidings.__file__, msgspec.__file__, sys.version_info[:2])"
    environment = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    told = subprocess.run(
        # Without the packages of the Python that is there.
        [tmp_path / "tidings" / "bin" / "python", "-S", "-c", asked],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    ours, theirs = told.stdout.split()[:2]
    assert Path(ours).is_relative_to(tmp_path / "tidings") and Path(theirs).is_relative_to(tmp_path / "tidings")


def test_what_spark_needs_is_found_through_extras_of_extras() -> None:
    pytest.importorskip("pyspark")
    names = needed(EXTRAS).keys()
    assert {"tidings", "pyspark", "pyarrow", "numba", "numpy", "cryptography", "msgspec"} <= names
    assert "pytest" not in names


def test_all_our_packages_are_taken_along(root: Path) -> None:
    assert set(PACKAGES) == {each.parent.name for each in (root / "src").glob("*/__init__.py")}


def test_another_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"call it something.tar.gz"):
        pack(tmp_path / "tidings.zip")
