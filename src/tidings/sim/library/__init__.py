"""The scenarios that come with the program."""

from functools import cache
from importlib import resources
from pathlib import Path

import msgspec

from tidings.model.errors import UsageError
from tidings.sim.library.brokers import brokers
from tidings.sim.library.feeds import feeds
from tidings.sim.library.gossip import gossip, gossip_chaos, gossip_churn, gossip_radio, ping
from tidings.sim.library.nemesis import nemesis
from tidings.sim.library.trees import trees
from tidings.sim.scenario import Definition, defined, load_function
from tidings.sim.scenario_file import define_file

FUNCTIONS = (ping, gossip, gossip_churn, gossip_chaos, gossip_radio, brokers, nemesis, trees, feeds)


@cache
def built_in() -> dict[str, Definition]:
    """By name, functions before files."""
    found = [defined(function) for function in FUNCTIONS]
    for entry in sorted(resources.files(__name__).iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".toml"):
            definition = define_file(entry.read_text(), entry.name.removesuffix(".toml"))
            # Known by its name, so that traces need not carry its text.
            found.append(msgspec.structs.replace(definition, text=None))
    return {definition.name: definition for definition in found}


def find(name: str) -> Definition:
    """The scenario of this name: built in, a TOML file, or a function of a Python file."""
    if name.endswith(".toml"):
        if not Path(name).is_file():
            raise UsageError(f"there is no file {name}")
        return define_file(Path(name).read_text(), name)
    if ".py:" in name:
        return load_function(name)
    known = built_in()
    if name not in known:
        raise UsageError(
            f"there is no scenario {name!r}; built in are {', '.join(known)}; "
            "for your own give a file: outage.toml, or mine.py:function"
        )
    return known[name]
