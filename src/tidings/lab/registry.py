"""Every experiment by its name, FAMILY/NUMBER: those that run, and those of the specifications that are not built yet.
Experiments of our own have a word in place of the number (transport/loss).

A family is a folder beside this file. Whatever has a TOML there is an experiment (`definition.py`): nothing has to be
listed. What is not built stands in `planned.toml`; a definition that comes takes its line there away, which a test asks
for.
"""

import sys
import tomllib
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path

from tidings.lab.experiment import Experiment, Planned
from tidings.model.errors import UsageError

FAMILIES = ("dependable", "transport", "dynamic-topologies", "peer-to-peer")
"""The families that have experiments, in the order in which they are listed."""

LAB = Path(__file__).parent
PLANNED = LAB / "planned.toml"

NEAR_MAX = 4
"""How many names are proposed for one that is not known."""


def built() -> dict[str, Experiment]:
    places = [path.relative_to(LAB) for family in FAMILIES for path in (LAB / family.replace("-", "_")).rglob("*.toml")]
    modules = [".".join(("tidings.lab", *place.with_suffix("").parts)) for place in places]
    found: list[Experiment] = [import_module(module).EXPERIMENT for module in modules]
    return {each.id: each for each in sorted(found, key=place)}


def planned() -> dict[str, Planned]:
    tables = tomllib.loads(PLANNED.read_text(encoding="utf-8"))
    needs = tables.pop("needs")
    return {
        f"{family}/{number}": Planned(
            id=f"{family}/{number}", title=line["title"], asks=line["asks"], needs=needs[line["needs"]]
        )
        for family, table in tables.items()
        for number, line in table.items()
    }


def entries() -> dict[str, Experiment | Planned]:
    """All, family by family, in the order of their numbers."""
    every: dict[str, Experiment | Planned] = {**planned(), **built()}
    return {each.id: each for each in sorted(every.values(), key=place)}


def place(entry: Experiment | Planned) -> tuple[int, str, int, str]:
    """Where an entry stands in the list: our own behind those of the specification."""
    family, _, number = entry.id.partition("/")
    at = int(number[1:]) if number[1:].isdigit() else sys.maxsize
    return (FAMILIES.index(family) if family in FAMILIES else len(FAMILIES)), family, at, number


def find(id: str) -> Experiment:
    known = entries()
    match known.get(id):
        case Experiment() as experiment:
            return experiment
        case Planned(title=title, needs=needs):
            raise UsageError(f"{id} ({title}) is not built yet; it waits for {needs}; {advice([*built()])}")
    raise UsageError(f"there is no experiment {id!r}; {advice(near(id, [*known]))}")


def near(id: str, known: list[str]) -> list[str]:
    lower = {each.lower(): each for each in known}
    alike = get_close_matches(id.lower(), lower, NEAR_MAX, cutoff=0.5)
    same_number = [each for each in lower if each.endswith("/" + id.lower())]
    return [lower[each] for each in dict.fromkeys([*same_number, *alike])]


def advice(names: list[str]) -> str:
    return (f"perhaps {', '.join(names)}; " if names else "") + "tidings lab list shows all"
