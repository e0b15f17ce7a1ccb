"""A scenario: everything that a run consists of, as one frozen value; and what came of the run.

A scenario says who is linked to whom, which machine runs where, what the applications ask for, what the network does to
packets, what goes wrong, what is judged, and how long it takes. Everything that is drawn is drawn from the seed of the
run, so a scenario and a seed are a run.

    duration             applications ask, packets get lost, faults strike
    + settling           nothing more goes wrong; machines mend what was broken
    = end                liveness is judged; safety was, all the time

How often the state of machines is checked (`Check`) is a choice of whoever runs a scenario, since it may take most of
the time; and so is whether messages travel as bytes (`frames.py`).

If a fault of a given plan lasts beyond the duration, settling begins when it is over. Faults that last for ever (nodes
that stay down) are simply how the network is at the end.

How a scenario is found by name, and what may be set in it, is its definition. A definition makes a scenario from
settings. One kind is a Python function whose parameters are the settings and whose first sentence says what it is for;
the other is a file in TOML (`scenario_file.py`), whose keys are. Both are asked for in the same way, so commands need
not know which it is:

    gossip                        one of the library
    path/to/outage.toml           a file
    path/to/mine.py:my_scenario   a function in a file of yours
"""

import importlib.util
import inspect
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.sim.cast import TimedInput
from tidings.sim.checkers import PROBLEMS_MAX, Checker, CheckFailed, Judges, Problem
from tidings.sim.fault_schedule import Disturbed, FaultSchedule, first_starts
from tidings.sim.faults import Corrupt, FaultPlan
from tidings.sim.frames import CorruptibleFrames
from tidings.sim.network.rule import Rule, check_positive
from tidings.sim.node import Make
from tidings.sim.observers import InvariantBroken, Invariants, Observer
from tidings.sim.simulator import Counters, Simulator, SimulatorParams
from tidings.sim.topologies import Topology
from tidings.trace.record import TraceError
from tidings.trace.writer import Writer

MACHINE, INVARIANTS = "machine", "invariants"
"""The names under which an exception out of a machine, and a state that its `check` refuses, are reported."""

Check = Literal["every", "sometimes", "never"]
"""How often the state of a machine is checked: after every input that it takes, now and then, or not at all."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """What is a function here is called once for each run."""

    name: str
    summary: str = ""
    topology: Callable[[int], Topology]
    """From the seed."""

    roles: Callable[[Topology], Mapping[NodeId, Make]]
    """How the machine of each node is made."""

    workload: Callable[[Topology, int], list[TimedInput]]
    """What the applications ask for; from the seed."""

    network: Callable[[Topology, float, int], Rule]
    """The rules; trouble in them ends at the given time. The seed is for what is not drawn by the rules themselves."""

    faults: Callable[[Topology, float, int], FaultPlan]
    """What goes wrong up to the given time; from the seed."""

    checkers: Callable[[Topology], list[Checker]]
    claims: Callable[[Topology], Mapping[NodeId, NodeId] | None] = lambda topology: None
    """Who says another name than its own, and which; None where every name is believed (`visits.py`)."""

    duration: float
    settling: float

    def __post_init__(self) -> None:
        check_positive("duration", self.duration)
        check_positive("settling", self.settling)


class Result(msgspec.Struct, frozen=True):
    """What came of a run."""

    scenario: str
    seed: int
    passed: bool
    problems: list[Problem]
    problem_count: int
    """`problems` holds the first of them."""

    nodes: int
    edges: int
    inputs: int
    faults: list[str]
    ended_at: float
    """Simulated seconds; before the planned end if safety was violated."""

    counters: Counters
    judged: dict[str, int] = {}
    """How much of what the checkers judged, where they say so."""


def run_scenario(
    scenario: Scenario,
    seed: int,
    plan: FaultPlan | None = None,
    duration: float | None = None,
    check: Check = "sometimes",
    frames: bool = True,
    trace: Writer | None = None,
) -> Result:
    """One run. `plan` and `duration` take the place of the scenario's own; they are how a failure is made smaller."""
    run = ScenarioRun(scenario, seed, plan, duration, check, frames, trace)
    problems = run.perform()
    return Result(
        scenario=scenario.name,
        seed=seed,
        passed=not problems,
        problems=problems[:PROBLEMS_MAX],
        problem_count=len(problems),
        nodes=len(run.topology.nodes),
        edges=len(run.topology.edges),
        inputs=len(run.inputs),
        faults=[str(fault) for fault in run.plan.faults],
        ended_at=run.simulator.now,
        counters=run.simulator.counters(),
        judged={what: count for checker in run.checkers for what, count in checker.figures().items()},
    )


class ScenarioRun:
    """A scenario made ready with a seed."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        plan: FaultPlan | None = None,
        duration: float | None = None,
        check: Check = "sometimes",
        frames: bool = True,
        trace: Writer | None = None,
    ) -> None:
        self.scenario, self.seed, self.check = scenario, seed, check
        self.duration = scenario.duration if duration is None else duration
        check_positive("duration", self.duration)
        self.topology = scenario.topology(seed)
        self.plan = scenario.faults(self.topology, self.duration, seed) if plan is None else plan
        self.roles = scenario.roles(self.topology)
        self.ends_at = max(self.duration, self.plan.over_at) + scenario.settling
        self.inputs = [each for each in scenario.workload(self.topology, seed) if each.at <= self.duration]
        self.refuse_strangers(frames)
        self.checkers = scenario.checkers(self.topology)
        self.claims = scenario.claims(self.topology)
        observers: list[Observer] = [Judges(self.checkers)]
        if check != "never":
            observers.append(Invariants(is_rare=check == "sometimes"))
        self.simulator = Simulator(
            seed,
            Disturbed(scenario.network(self.topology, self.duration, seed), self.plan),
            trace=trace,
            params=SimulatorParams(has_visitors=self.claims is not None),
            observers=observers,
            frames=CorruptibleFrames(self.plan, seed) if frames else None,
        )
        self.populate()

    def refuse_strangers(self, frames: bool) -> None:
        """Faults and inputs are for nodes that exist."""
        named = [(f"fault '{fault}'", node) for fault in self.plan.faults for node in fault.nodes]
        named += [(f"input at {each.at}", each.node) for each in self.inputs]
        for what, node in named:
            if node not in self.roles:
                nodes = list(self.roles)
                raise UsageError(f"{what}: there is no node {node!r}; the nodes are {nodes[0]} to {nodes[-1]}")
        if not frames and any(isinstance(fault, Corrupt) for fault in self.plan.faults):
            raise UsageError("frames can be corrupted only where messages travel as frames; leave them on")

    def populate(self) -> None:
        FaultSchedule(self.simulator, self.plan).schedule()
        starts = first_starts(self.plan)
        for node, make in self.roles.items():
            # Who is down all the time is due after the end.
            made = self.simulator.add(node, make, at=min(starts.get(node, 0.0), self.ends_at + 1))
            made.claims = (self.claims or {}).get(node, "")
        for each in self.inputs:
            self.simulator.inject(each.at, each.node, each.input)

    def perform(self) -> list[Problem]:
        try:
            self.simulator.run(self.ends_at)
            if self.check != "never":
                self.simulator.check()
        except CheckFailed as failed:
            return [failed.problem]
        except InvariantBroken as broken:
            return [Problem(INVARIANTS, str(broken), broken.node, broken.time)]
        except TraceError:
            raise
        except Exception as problem:
            # Whatever comes out of a machine is what the run was made to find.
            return [Problem(MACHINE, describe(problem), time=self.simulator.now)]
        return [problem for checker in self.checkers for problem in checker.at_end(self.simulator)]


def describe(problem: Exception) -> str:
    """The exception, what was noted with it, and where it came from."""
    place = traceback.extract_tb(problem.__traceback__)[-1]
    where = f"{place.filename.rpartition('/')[2]}, line {place.lineno}, in {place.name}"
    notes = "".join(f", {note}" for note in getattr(problem, "__notes__", ()))
    return f"{type(problem).__name__}: {problem}{notes} ({where})"


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
