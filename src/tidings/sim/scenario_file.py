"""Scenarios as files in TOML, for people who would rather not write Python.

    summary = "A ring is cut in two and joined again."
    duration = 30.0
    settling = 60.0
    checkers = ["nothing_false", "no_duplicates", "convergence"]

    [topology]
    kind = "ring"                 # see sim/topologies/shapes.py
    nodes = 8

    [[role]]
    protocol = "gossip"           # see sim/cast.py; without `nodes` it is for all nodes that no other role names
    params = { period = 0.5 }     # of a broker also: overlay = { kind = "all-peers" }, routing = { ... }, ...

    [workload]                    # Publications, or [[publish]] with at, node and attributes
    events = 10                   # law = "w-psdg" takes those of a workload, with [workload.parameters]

    # What clients ask for: [[advertise]] and [[subscribe]], each with at, node and filter.

    [network]                     # RoughNetwork
    loss = 0.1

    [faults]                      # FaultMix, and: plan (faults as text), exempt (nodes)
    plan = ["5..20 partition n0,n1,n2"]

    [churn]                       # Churn
    kind = "off"

Each table becomes the value that is named beside it; what its fields mean stands there. Whatever is wrong is said with
the path of the key, and with what is allowed in its place. Every plain value of the file may be set otherwise for a
run, by its path: `--set topology.nodes=20`; the duration by `--duration`.
"""

import tomllib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from tidings.machine.inputs import Request
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.model.language.parser import parse
from tidings.pubsub.client import Guarantee, Latency, OpenAdvertisement, OpenSubscription, Policy, PublishBatch
from tidings.pubsub.publications import encode_head
from tidings.pubsub.requests import Publish
from tidings.sim.cast import APPLICATIONS, KINDS, Churn, RandomPublications, Roles, RoughNetwork, TimedInput, cast_all
from tidings.sim.checkers import CHECKERS
from tidings.sim.fault_schedule import FaultMix, draw_faults
from tidings.sim.faults import FaultPlan, parse_plan, plan_of
from tidings.sim.network.rule import check_positive
from tidings.sim.scenario import Definition, Scenario, Setting, Settings
from tidings.sim.topologies import Topology
from tidings.sim.topologies.shapes import make_topology

FILE_CHARS_MAX = 64 * 1024

NOT_SETTINGS = ("summary", "duration")
"""The first changes nothing; the second has an option of its own."""

Value = TypeVar("Value")
Table = dict[str, Any]


class TopologyTable(msgspec.Struct, frozen=True):
    kind: str
    nodes: int = 10
    degree: int | None = None
    edges_each: int | None = None

    def make(self, seed: int) -> Topology:
        optional = {"degree": self.degree, "edges_each": self.edges_each}
        given = {name: value for name, value in optional.items() if value is not None}
        return make_topology(self.kind, self.nodes, seed, **given)


class RoleTable(msgspec.Struct, frozen=True):
    protocol: str
    nodes: tuple[NodeId, ...] = ()
    params: dict[str, Any] = {}


class PublishTable(msgspec.Struct, frozen=True):
    at: float
    node: NodeId
    attributes: dict[str, Any] = {}
    advertisement: int = 1
    """Of a client: the number of the advertisement that it is published under."""


class AdvertiseTable(msgspec.Struct, frozen=True):
    at: float
    node: NodeId
    filter: str
    latency: Latency = "any"

    def request(self, place: int) -> Request:
        return OpenAdvertisement(("advertise", place), self.filter, self.latency)


class SubscribeTable(msgspec.Struct, frozen=True):
    at: float
    node: NodeId
    filter: str
    guarantee: Guarantee = "installed"
    policy: Policy = "wait"

    def request(self, place: int) -> Request:
        return OpenSubscription(("subscribe", place), self.filter, self.guarantee, policy=self.policy)


class ScenarioTable(msgspec.Struct, frozen=True):
    topology: Table
    duration: float
    settling: float
    checkers: tuple[str, ...]
    summary: str = ""
    role: tuple[Table, ...] = ()
    workload: Table = {}
    publish: tuple[Table, ...] = ()
    advertise: tuple[Table, ...] = ()
    subscribe: tuple[Table, ...] = ()
    network: Table = {}
    faults: Table = {}
    churn: Table = {}


def define_file(text: str, name: str) -> Definition:
    """The definition that this text is. What is wrong with it is found now, not in the middle of a run."""
    if len(text) > FILE_CHARS_MAX:
        raise UsageError(f"{name}: {len(text)} characters, at most {FILE_CHARS_MAX} are read")
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise UsageError(f"{name} is no TOML: {problem}") from None

    def build(settings: Settings) -> Scenario:
        return make_scenario(with_settings(table, settings), name)

    scenario = build({})
    settings = plain_values(table)
    nodes_setting = "topology.nodes" if "topology.nodes" in settings else None
    return Definition(name, scenario.summary, settings, build, nodes_setting, text)


def make_scenario(table: Table, name: str) -> Scenario:
    try:
        whole = convert(table, ScenarioTable, "")
        check_positive("duration", whole.duration)
        topology = convert(whole.topology, TopologyTable, "topology")
        network = convert(whole.network, RoughNetwork, "network")
        workload = (
            convert(whole.workload, RandomPublications, "workload") if whole.workload else RandomPublications(events=0)
        )
        churn = convert(whole.churn, Churn, "churn")
        publish = tuple(convert(each, PublishTable, f"publish[{i}]") for i, each in enumerate(whole.publish))
        check_events(publish)
        asked = requests("advertise", whole.advertise, AdvertiseTable)
        asked += requests("subscribe", whole.subscribe, SubscribeTable)
        roles = read_roles(whole.role)

        def inputs(made: Topology, seed: int) -> list[TimedInput]:
            clients = {node for node, (kind, _) in roles(made).items() if kind in APPLICATIONS}
            given = [*asked, *publications(publish, clients)]
            return sorted([*given, *workload.inputs(made.nodes, seed)], key=lambda each: each.at)

        return Scenario(
            name=name,
            summary=whole.summary,
            topology=topology.make,
            roles=lambda made: cast_all(roles(made), made),
            workload=inputs,
            network=network.rules,
            faults=read_faults(whole.faults, churn, whole.duration),
            checkers=read_checkers(whole.checkers),
            duration=whole.duration,
            settling=whole.settling,
        )
    except UsageError as problem:
        raise UsageError(f"{name}: {problem}") from None


def convert(table: Table, kind: type[Value], path: str) -> Value:
    """The table as a value of this kind; errors name the key and what is allowed."""
    hints = {name: hint for name, hint in get_type_hints(kind).items() if name in kind.__struct_fields__}  # type: ignore[attr-defined]
    fields = {}
    for key, entry in table.items():
        if key not in hints:
            raise UsageError(f"{join(path, key)}: there is no such key; allowed here are {', '.join(hints)}")
        chosen, rest = chosen_kind(hints[key], entry, join(path, key))
        if isinstance(chosen, type) and issubclass(chosen, msgspec.Struct) and isinstance(rest, dict):
            fields[key] = convert(rest, chosen, join(path, key))
            continue
        try:
            fields[key] = msgspec.convert(entry, hints[key])
        except msgspec.ValidationError as problem:
            raise UsageError(f"{join(path, key)}: {str(problem).partition(' - at')[0]}") from None
    try:
        return kind(**fields)
    except TypeError:
        missing = [name for name in required(kind) if name not in table]
        raise UsageError(f"{join(path, missing[0])}: it is missing; required are {', '.join(required(kind))}") from None
    except UsageError as problem:
        raise UsageError(f"{path}: {problem}" if path else str(problem)) from None


def chosen_kind(hint: Any, entry: Any, path: str) -> tuple[Any, Any]:
    """Where there are several kinds of a thing, the one that the entry names, and the rest of the entry."""
    kinds = {each.__struct_config__.tag: each for each in get_args(hint) if hasattr(each, "__struct_config__")}
    if not kinds or None in kinds or not isinstance(entry, dict):
        return hint, entry
    rest = dict(entry)
    if (name := rest.pop("kind", next(iter(kinds)))) not in kinds:
        raise UsageError(f"{path}.kind: there is no {name!r}; allowed are {', '.join(kinds)}")
    return kinds[name], rest


def required(kind: type[Any]) -> list[str]:
    return [field.name for field in msgspec.structs.fields(kind) if field.required]


def join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def read_roles(tables: tuple[Table, ...]) -> Callable[[Topology], Roles]:
    roles = []
    for place, table in enumerate(tables):
        path = f"role[{place}]"
        role = convert(table, RoleTable, path)
        if role.protocol not in KINDS:
            raise UsageError(f"{path}.protocol: there is no {role.protocol!r}; allowed are {', '.join(KINDS)}")
        roles.append((role, convert(role.params, KINDS[role.protocol].params, f"{path}.params")))
    if not roles:
        raise UsageError("role: it is missing; write [[role]] with a protocol")

    def make(topology: Topology) -> Roles:
        given: dict[NodeId, tuple[str, Any]] = {}
        for role, params in roles:
            unknown = [node for node in role.nodes if node not in topology.nodes]
            if unknown:
                raise UsageError(f"role.nodes: the topology has no node {unknown[0]!r}")
            nodes = role.nodes or [node for node in topology.nodes if node not in given]
            given |= dict.fromkeys(nodes, (role.protocol, params))
        return {node: given[node] for node in topology.nodes if node in given}

    return make


def publications(tables: tuple[PublishTable, ...], clients: set[NodeId]) -> list[TimedInput]:
    """A client publishes under an advertisement; every other node is given the event itself."""
    made = []
    for number, table in enumerate(tables):
        head = encode_head({"id": f"p{number}", **table.attributes}) if table.node in clients else b""
        batch = PublishBatch(table.advertisement, (head,), (b"",))
        made.append(TimedInput(table.at, table.node, batch if head else Publish(event_at(number, table))))
    return made


def check_events(tables: tuple[PublishTable, ...]) -> None:
    for number, table in enumerate(tables):
        try:
            event_at(number, table)
        except UsageError as problem:
            raise UsageError(f"publish[{number}].attributes: {problem}") from None


def event_at(number: int, table: PublishTable) -> Event:
    return Event({"source": table.node, "id": f"p{number}", **table.attributes})


def requests(name: str, tables: tuple[Table, ...], kind: type[AdvertiseTable | SubscribeTable]) -> list[TimedInput]:
    made = []
    for place, table in enumerate(tables):
        asked = convert(table, kind, f"{name}[{place}]")
        try:
            parse(asked.filter)
        except UsageError as problem:
            raise UsageError(f"{name}[{place}].filter: {problem}") from None
        made.append(TimedInput(asked.at, asked.node, asked.request(place)))
    return made


def read_faults(table: Table, churn: Churn, duration: float) -> Callable[[Topology, float, int], FaultPlan]:
    rest = dict(table)
    try:
        given = parse_plan("\n".join(msgspec.convert(rest.pop("plan", []), list[str])))
        exempt = msgspec.convert(rest.pop("exempt", []), list[str])
    except msgspec.ValidationError:
        raise UsageError("faults.plan, faults.exempt: write a list of strings") from None
    mix = convert({"end": duration, **rest}, FaultMix, "faults")

    def faults(topology: Topology, until: float, seed: int) -> FaultPlan:
        drawn = draw_faults(mix.before(until), topology.nodes, seed, exempt)
        return plan_of([*given.faults, *drawn.faults, *churn.crashes(topology.nodes, until, seed)])

    return faults


def read_checkers(names: tuple[str, ...]) -> Callable[[Topology], list[Any]]:
    for place, name in enumerate(names):
        if name not in CHECKERS:
            raise UsageError(f"checkers[{place}]: there is no {name!r}; allowed are {', '.join(CHECKERS)}")
    return lambda topology: [CHECKERS[name](topology) for name in names]


def plain_values(table: Table, path: str = "") -> Settings:
    """Every key that holds one plain value, by its path."""
    found: Settings = {}
    for key, entry in table.items():
        if isinstance(entry, dict):
            found |= plain_values(entry, join(path, key))
        elif isinstance(entry, bool | int | float | str) and key not in NOT_SETTINGS:
            found[join(path, key)] = entry
    return found


def with_settings(table: Table, settings: Mapping[str, Setting]) -> Table:
    """A copy of the table in which these paths have other values."""
    changed = {key: with_settings(entry, {}) if isinstance(entry, dict) else entry for key, entry in table.items()}
    for path, setting in settings.items():
        first, _, rest = path.partition(".")
        changed[first] = with_settings(changed.get(first, {}), {rest: setting}) if rest else setting
    return changed
