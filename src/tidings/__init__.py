"""Content-based publish/subscribe: events carry attributes, filters ask for them, an index brings them together.

The names most programs need can be taken from here. Each is loaded on first use, so that `import tidings` stays quick
and a program pays only for what it touches.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidings.matching.merging import merge
    from tidings.model.errors import FilterSyntaxError, UsageError
    from tidings.model.event import Event
    from tidings.model.filter import Filter
    from tidings.model.language.builder import attr
    from tidings.model.language.parser import parse

__version__ = "0.1.0"
__all__ = ["Event", "Filter", "FilterSyntaxError", "UsageError", "attr", "matching", "merge", "parse"]

HOMES = {
    "Event": "tidings.model.event",
    "Filter": "tidings.model.filter",
    "FilterSyntaxError": "tidings.model.errors",
    "UsageError": "tidings.model.errors",
    "attr": "tidings.model.language.builder",
    "merge": "tidings.matching.merging",
    "parse": "tidings.model.language.parser",
}


def __getattr__(name: str) -> object:
    if name == "matching":
        return import_module("tidings.matching")
    if name not in HOMES:
        raise AttributeError(f"module 'tidings' has no attribute {name!r}")
    value: object = getattr(import_module(HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
