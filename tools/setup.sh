#!/bin/sh
# Prepare the virtual environment: tools/setup.sh PYTHON VENV EXTRAS
#
# Needs a Python that the project supports and a package index as pip is configured on this machine; touches nothing
# outside VENV. A VENV made by another Python version is made anew.
set -eu

python=$1
venv=$2
extras=$3

fail() {
    echo "tidings: $1" >&2
    exit 1
}

command -v "$python" >/dev/null 2>&1 ||
    fail "no '$python' found; install Python 3.11 or later, or name one: make setup PYTHON=/path/to/python"
# Written so that Python 2 can read it too.
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) ||
    fail "'$python' does not run; name a working Python 3.11 or later: make setup PYTHON=/path/to/python"
case $version in
    [0-2].* | 3.[0-9] | 3.10)
        fail "'$python' is Python $version, but 3.11 or later is needed; name one: make setup PYTHON=python3.12" ;;
esac

if [ "$("$venv/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" != "$version" ]; then
    echo "making $venv with Python $version"
    "$python" -m venv --clear "$venv" ||
        fail "'$python' cannot make a virtual environment; on Debian and Ubuntu install the package python3-venv"
fi
# Spark runs on Java 17 or later; where there is none, one that comes as a Python package takes its place.
case ,$extras, in
    *,spark,*)
        java=${JAVA_HOME:+$JAVA_HOME/bin/}java
        found=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')
        [ "${found:-0}" -ge 17 ] || extras=$extras,spark-jre
        ;;
esac
echo "installing tidings[$extras] and what it needs into $venv (two to four minutes the first time; Spark is large)"
"$venv/bin/python" -m pip install --quiet --quiet --disable-pip-version-check \
    --constraint constraints.txt --editable ".[$extras]" ||
    fail "pip could not install; it needs a package index, as configured for pip on this machine"
