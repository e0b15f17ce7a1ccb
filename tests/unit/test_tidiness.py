"""What keeps the house one that a new reader can hold in the head: names, sizes, bounds, and signals that meet."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import cast

import pytest

import tidings
from tidings.machine.inputs import Signal
from tidings.machine.node import Part
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.transport import TransportNode

SOURCES = Path(tidings.__file__).parent

PAIRS = {
    "Advertisement": "async and blocking",
    "Client": "async and blocking",
    "Subscription": "async and blocking",
}
"""Class names that stand for two classes, and why."""

NOUNS = {"batching", "blocking", "covering", "gossiping", "merging", "ordering", "ping", "ring"}
"""Modules whose names end in -ing and are nouns all the same."""

GLOSSARY = Path(__file__).parents[2] / "docs/reference/glossary.md"
ENDINGS = ("", "s", "es", "d", "ing")
"""What may follow a word of the glossary in the name of a module."""

LINES_MAX = 450
SMALL_LINES, SMALL_FILES_MAX = 40, 60

UNTOLD = {"Stranded", "Placed", "NeighboursKept"}
UNHEARD = {"Rescued", "PeerSuspected", "PeerRecovered"}
"""Signals that a router tells and hears only where a window for what is rescued is set, and an overlay only where
somebody asks for places, or neighbours are to survive a crash; or of the teaching protocols, which run alone."""


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(SOURCES.rglob("*.py")):
        yield path.relative_to(SOURCES), ast.parse(path.read_text(encoding="utf-8"))


def test_a_class_name_stands_for_one_class() -> None:
    places: dict[str, list[str]] = {}
    for path, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{path}:{node.lineno}")
    twice = {name: where for name, where in places.items() if len(where) > 1 and name not in PAIRS}
    assert not twice, "say which: " + "; ".join(f"{name} at {', '.join(where)}" for name, where in twice.items())
    assert all(len(places.get(name, ())) == 2 for name in PAIRS), "a listed pair is none any more; take it off the list"


def test_a_module_is_a_noun() -> None:
    gerunds = [str(path) for path, _ in modules() if path.stem.endswith("ing") and path.stem not in NOUNS]
    assert not gerunds, f"name these for what they hold: {', '.join(gerunds)}"


def test_the_words_of_modules_are_in_the_glossary() -> None:
    heading, *entries = re.findall(r"^\| ([a-z ]+) \|", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    assert heading == "word"
    forms = {word + ending for entry in entries for word in entry.split() for ending in ENDINGS}
    forms |= {word[:-1] + "ies" for entry in entries for word in entry.split() if word.endswith("y")}
    names = {path: path.stem.split("_") for path, _ in modules() if path.parts[0] in ("machine", "protocols", "pubsub")}
    missing = [
        f"{word} ({path})" for path, words in names.items() for word in words if word and word not in forms | {"init"}
    ]
    assert not missing, f"a new word enters docs/reference/glossary.md first: {', '.join(missing)}"
    assert entries == sorted(entries), "the glossary is in the order of its words"
    assert len(entries) == len(set(entries)), "a word has one entry"


def test_files_are_neither_drawers_for_one_spoon_nor_one_big_drawer() -> None:
    lines = {str(path): (SOURCES / path).read_text(encoding="utf-8").count("\n") for path, _ in modules()}
    too_long = {path: count for path, count in lines.items() if count > LINES_MAX}
    assert not too_long, f"longer than {LINES_MAX} lines: {too_long}"
    small = [path for path, count in lines.items() if count < SMALL_LINES and not path.endswith("__init__.py")]
    assert len(small) <= SMALL_FILES_MAX, f"{len(small)} files below {SMALL_LINES} lines: {', '.join(small)}"


def test_whatever_a_stranger_may_send_is_bounded_in_one_place() -> None:
    """The lengths and sizes in the types of messages are names of model/bounds.py, or so small that they say all."""
    strays: list[str] = []
    for path, tree in modules():
        bounds = {
            name.asname or name.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "tidings.model.bounds"
            for name in node.names
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Meta"):
                strays += [
                    f"{path}:{node.lineno} {keyword.arg}={ast.unparse(keyword.value)}"
                    for keyword in node.keywords
                    if keyword.arg in ("max_length", "le", "lt") and not is_bound(keyword.value, bounds)
                ]
    assert not strays, "bounds that are not in model/bounds.py: " + "; ".join(strays)


def is_bound(value: ast.expr, bounds: set[str]) -> bool:
    match value:
        case ast.Name(name):
            return name in bounds
        case ast.Constant(float() | int() as number):
            return number <= 255
    return "float_info" in ast.unparse(value) or "len(" in ast.unparse(value)


def parts() -> Iterator[Part]:
    """Everything in the package that says what it hears and tells; the transport's parts say it by what they handle."""
    yield from TransportNode(1, TransportParams(), Random(1)).parts.values()
    for module in pkgutil.walk_packages(tidings.__path__, "tidings."):
        if module.name.split(".")[1] in ("protocols", "nodes"):
            for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
                is_ours = kind.__module__ == module.name and isinstance(kind.__dict__.get("hears"), tuple)
                if is_ours and isinstance(getattr(kind, "tells", None), tuple):
                    yield cast(Part, kind)


def test_every_signal_is_told_by_somebody_and_heard_by_somebody() -> None:
    told = {signal for part in parts() for signal in part.tells}
    heard = {kind for part in parts() for kind in part.hears if issubclass(kind, Signal)}
    for module in pkgutil.walk_packages(tidings.__path__, "tidings."):
        if module.name.split(".")[1] == "pubsub":
            importlib.import_module(module.name)
    defined = {kind for kind in subclasses(Signal) if kind.__module__.startswith("tidings.")}
    assert {kind.__name__ for kind in defined - told} == UNTOLD, "signals that nobody tells"
    assert {kind.__name__ for kind in defined - heard} == UNHEARD, "signals that nobody hears"


def subclasses(kind: type) -> Iterator[type]:
    child: type
    for child in kind.__subclasses__():
        yield child
        yield from subclasses(child)


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_a_pair_has_an_asynchronous_and_a_blocking_half(name: str) -> None:
    blocking = importlib.import_module("tidings.net.client.blocking")
    assert inspect.isclass(getattr(blocking, name))
