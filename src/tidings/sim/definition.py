"""Definitions: how a scenario is found by name, and what may be set in it.

A definition makes a scenario from settings. One kind is a Python function whose parameters are the settings and whose
first sentence says what it is for; the other is a file in TOML (`scenario_file.py`), whose keys are. Both are asked for
in the same way, so commands need not know which it is:

    gossip                        one of the library
    path/to/outage.toml           a file
    path/to/mine.py:my_scenario   a function in a file of yours
"""

import importlib.util
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tidings.model.errors import UsageError
from tidings.sim.scenario import Scenario

Setting = bool | int | float | str
Settings = dict[str, Setting]


class Definition(msgspec.Struct, frozen=True):
    name: str
    """What it is asked for by."""

    summary: str
    settings: Settings
    """What may be set, with its default."""

    build: Callable[[Settings], Scenario]
    """From all settings, or from those that differ."""

    nodes_setting: str | None = None
    """The setting that says how many nodes there are, if there is one."""

    text: str | None = None
    """The text of a scenario file."""

    def scenario(self, settings: Mapping[str, Setting]) -> Scenario:
        for name in settings:
            if name not in self.settings:
                allowed = ", ".join(self.settings) or "nothing"
                raise UsageError(f"scenario {self.name} has no setting {name!r}; it has {allowed}")
        return self.build(dict(settings))

    def read(self, name: str, text: str) -> Setting:
        """The value of a setting as a person types it; it is of the type of the default."""
        default = self.settings.get(name)
        if isinstance(default, bool):
            if text not in ("true", "false"):
                raise UsageError(f"{name}: {text!r}; give true or false")
            return text == "true"
        for kind in (int, float):
            if isinstance(default, kind):
                try:
                    return kind(text)
                except ValueError:
                    raise UsageError(f"{name}: {text!r}; give {'an integer' if kind is int else 'a number'}") from None
        return text


def defined(function: Callable[..., Scenario], name: str | None = None) -> Definition:
    """The definition that this function is."""
    parameters = inspect.signature(function).parameters.values()
    for parameter in parameters:
        if not isinstance(parameter.default, bool | int | float | str):
            raise UsageError(f"scenario {function.__name__}: the parameter {parameter.name} needs a plain default")
    settings = {parameter.name: parameter.default for parameter in parameters}
    return Definition(
        name=name or function.__name__.replace("_", "-"),
        summary=(inspect.getdoc(function) or "").partition("\n")[0],
        settings=settings,
        build=lambda chosen: function(**chosen),
        nodes_setting="nodes" if "nodes" in settings else None,
    )


def load_function(name: str) -> Definition:
    """`path/to/file.py:function`"""
    path, _, function_name = name.rpartition(":")
    if not Path(path).is_file():
        raise UsageError(f"there is no file {path}; write a scenario of yours as path/to/file.py:function")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None, f"{path} is no Python file"
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, function_name, None)
    if function is None:
        raise UsageError(f"{path} has no function {function_name!r}")
    return defined(function, name)
