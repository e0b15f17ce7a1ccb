"""Scenarios: as values, as files, by name; what checkers find; what a result says."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidings.machine.effects import Deliver, Effect, Transport
from tidings.machine.inputs import Input
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.nodes.broker import BrokerNode
from tidings.nodes.transport_client import TransportClient
from tidings.protocols.teaching.gossip import GossipParams
from tidings.pubsub.client import Arrived
from tidings.pubsub.publications import event_of
from tidings.pubsub.requests import Bundle, Publish
from tidings.sim.cast import Churn, RandomPublications, RoughNetwork, TimedInput, cast
from tidings.sim.checkers import (
    CHECKERS,
    Arrival,
    Checker,
    Convergence,
    NoDuplicates,
    NothingFalse,
    Problem,
    RightSuspicion,
)
from tidings.sim.faults import FaultPlan, parse_plan
from tidings.sim.library import built_in, find
from tidings.sim.library.gossip import gossip, ping
from tidings.sim.network.latency import Constant
from tidings.sim.node import Make
from tidings.sim.scenario import Scenario, ScenarioRun, defined, run_scenario
from tidings.sim.scenario_file import define_file
from tidings.sim.topologies import Topology, chain, ring
from tidings.workloads.registry import make

EVENT = Event({"source": "n0", "id": "e0"})
OTHER = Event({"source": "n0", "id": "e0", "price": 5})


class Scripted:
    """Delivers what it is told to, once for each publication that it takes."""

    def __init__(self, deliveries: list[Any]) -> None:
        self.deliveries = deliveries

    def start(self, now: float) -> list[Effect]:
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        return [Deliver(item) for item in self.deliveries] if isinstance(input, Publish) else []

    def check(self) -> None:
        if "unsound" in self.deliveries:
            raise AssertionError("the state is unsound")


def scripted(checker: Checker, deliveries: dict[str, list[Any]], publish_at: tuple[str, ...] = ("n0",)) -> Scenario:
    """Nodes in a chain that deliver at a publication what is listed for them; only some nodes take it."""

    def role(node: str) -> Make:
        return lambda draws: Scripted(deliveries[node])

    return Scenario(
        name="scripted",
        topology=lambda seed: chain(len(deliveries)),
        roles=lambda made: {node: role(node) for node in made.nodes},
        workload=lambda made, seed: [TimedInput(1.0, node, Publish(EVENT)) for node in publish_at],
        network=lambda made, calm_at, seed: Constant(0.1),
        faults=lambda made, until, seed: FaultPlan(),
        checkers=lambda made: [checker],
        duration=5.0,
        settling=1.0,
    )


def problems_of(checker: Checker, deliveries: dict[str, list[Any]], faults: str = "", **more: Any) -> list[str]:
    result = run_scenario(scripted(checker, deliveries, **more), 0, parse_plan(faults))
    assert result.passed == (not result.problems)
    return [problem.text for problem in result.problems]


def test_something_false_is_found_at_once() -> None:
    assert problems_of(NothingFalse(), {"n0": [EVENT]}) == []
    assert problems_of(NothingFalse(), {"n0": [OTHER]}) == ["delivers event e0 of n0, which was published otherwise"]
    stranger = Event({"source": "x", "id": "1"})
    assert problems_of(NothingFalse(), {"n0": [stranger]}) == ["delivers event 1 of x, which was published by nobody"]


def test_a_violation_of_safety_ends_the_run() -> None:
    result = run_scenario(scripted(NothingFalse(), {"n0": [OTHER]}), 0)
    assert result.ended_at == 1.0
    assert result.problems == [
        Problem("nothing false", "delivers event e0 of n0, which was published otherwise", "n0", 1.0)
    ]


def test_a_duplicate_is_found_within_one_memory() -> None:
    assert problems_of(NoDuplicates(), {"n0": [EVENT]}) == []
    assert problems_of(NoDuplicates(), {"n0": [EVENT, EVENT]}) == ["delivers event e0 of n0 a second time"]


@pytest.mark.parametrize(("crash", "problems"), [("2..3 crash n0", 1), ("2..3 crash n0 forgetting", 0)])
def test_a_node_that_forgot_may_deliver_again(crash: str, problems: int) -> None:
    again = (TimedInput(1.0, "n0", Publish(EVENT)), TimedInput(4.0, "n0", Publish(EVENT)))
    scenario = msgspec.structs.replace(
        scripted(NoDuplicates(), {"n0": [EVENT]}), workload=lambda made, seed: list(again)
    )
    assert len(run_scenario(scenario, 0, parse_plan(crash)).problems) == problems


def test_an_unsound_state_is_found_after_the_step_or_now_and_then_or_never() -> None:
    unsound = scripted(NoDuplicates(), {"n0": ["unsound"]})
    at_once, at_end, never = (run_scenario(unsound, 0, check=check) for check in ("every", "sometimes", "never"))
    assert at_once.problems == [Problem("invariants", "the state is unsound", "n0", 1.0)]
    assert at_end.problems == [Problem("invariants", "the state is unsound", "n0", 6.0)]
    assert never.passed


def test_what_did_not_arrive_is_found_at_the_end() -> None:
    everything, nothing = {"n0": [EVENT], "n1": [EVENT]}, {"n0": [EVENT], "n1": []}
    assert problems_of(Arrival(), everything, publish_at=("n0", "n1")) == []
    assert problems_of(Arrival(), nothing, publish_at=("n0", "n1")) == [
        "event e0 of n0 was published and did not arrive"
    ]
    convergence = Convergence(chain(2))
    assert problems_of(convergence, nothing) == ["event e0 of n0 is held elsewhere and did not arrive"]


def test_convergence_is_judged_within_what_is_connected() -> None:
    deliveries: dict[str, list[Any]] = {"n0": [EVENT], "n1": [], "n2": []}
    assert len(problems_of(Convergence(chain(3)), deliveries)) == 2
    assert problems_of(Convergence(chain(3)), deliveries, faults="2.. crash n1") == []


def test_who_is_down_at_the_end_owes_nothing() -> None:
    assert problems_of(Arrival(), {"n0": [EVENT], "n1": []}, faults="2.. crash n1") == []


def test_wrong_suspicion_is_found() -> None:
    scenario = ping(nodes=4, crashes=0, dead=0, loss=0.0)
    assert run_scenario(scenario, 1, parse_plan("5.. crash n2")).passed
    too_soon = msgspec.structs.replace(scenario, settling=0.5)
    result = run_scenario(too_soon, 1, parse_plan("59.9.. crash n2"))
    assert {problem.text for problem in result.problems} == {"n2 is down, and judged wrongly"}
    assert result.problem_count == 3
    assert isinstance(scenario.checkers(ring(4))[0], RightSuspicion)


def test_an_exception_in_a_machine_is_a_problem_with_its_place() -> None:
    class Clumsy(Scripted):
        def handle(self, now: float, input: Input) -> list[Effect]:
            raise KeyError("oops")

    scenario = msgspec.structs.replace(
        scripted(NoDuplicates(), {"n0": []}), roles=lambda made: {"n0": lambda draws: Clumsy([])}
    )
    result = run_scenario(scenario, 0)
    (problem,) = result.problems
    assert problem.checker == "machine"
    assert problem.time == 1.0
    assert "KeyError: 'oops', in node 'n0' at 1.0" in problem.text
    assert "test_scenario.py, line" in problem.text


def test_the_end_is_settling_after_the_last_fault() -> None:
    scenario = scripted(NoDuplicates(), {"n0": []})
    assert run_scenario(scenario, 0).ended_at == 6.0
    assert run_scenario(scenario, 0, parse_plan("1..9 pause n0")).ended_at == 10.0
    assert run_scenario(scenario, 0, parse_plan("1.. crash n0")).ended_at == 6.0
    assert run_scenario(scenario, 0, duration=0.5).ended_at == 1.5
    assert run_scenario(scenario, 0, duration=0.5).inputs == 0


def test_plans_that_do_not_fit_are_refused() -> None:
    scenario = gossip(nodes=4)
    with pytest.raises(UsageError, match="there is no node 'n4'; the nodes are n0 to n3"):
        run_scenario(scenario, 0, parse_plan("1..2 crash n4"))
    with pytest.raises(UsageError, match="only where messages travel as frames"):
        run_scenario(scenario, 0, parse_plan("1..2 corrupt n1 probability=1"), frames=False)
    with pytest.raises(UsageError, match="duration"):
        run_scenario(scenario, 0, duration=0)


def test_frames_and_checks_change_nothing_of_what_happens() -> None:
    plain = run_scenario(gossip(nodes=6), 5, check="never", frames=False)
    assert run_scenario(gossip(nodes=6), 5, check="every", frames=True).counters == plain.counters


def test_a_network_is_rough_until_it_is_calm() -> None:
    network = RoughNetwork(latency=0.1, loss=1.0).rules(ring(3), 10.0, 1)
    network.begin(1)
    assert network.fate(9.9, "n0", "n1", 0, Transport.DATAGRAM) == ()
    assert network.fate(10.0, "n0", "n1", 0, Transport.DATAGRAM) == (0.1,)


def test_publications_are_drawn_from_the_seed() -> None:
    publications = RandomPublications(events=50, begin=2.0, end=9.0)
    inputs = publications.inputs(("a", "b", "c"), 7)
    assert inputs == publications.inputs(("a", "b", "c"), 7) != publications.inputs(("a", "b", "c"), 8)
    assert len({each.input.event.key for each in inputs}) == 50
    assert all(2.0 <= each.at <= 9.0 and each.input.event.source == each.node for each in inputs)
    assert [each.at for each in inputs] == sorted(each.at for each in inputs)


FILE = """
summary = "A chain, cut for a while."
duration = 20.0
settling = 60.0
checkers = ["nothing_false", "no_duplicates", "arrival"]

[topology]
kind = "chain"
nodes = 4

[[role]]
protocol = "gossip"
nodes = ["n0"]
params = { period = 0.25 }

[[role]]
protocol = "gossip"
params = { period = 0.5, transport = "datagram" }

[workload]
events = 5

[[publish]]
at = 3.0
node = "n2"
attributes = { price = 12.5 }

[network]
loss = 0.1

[faults]
pauses = 2
exempt = ["n0"]
plan = ["2..9 partition n0,n1"]
"""


def test_a_scenario_file_may_name_a_workload() -> None:
    text = """
duration = 20.0
settling = 30.0
checkers = ["nothing_false", "no_duplicates"]
[topology]
kind = "ring"
nodes = 4
[[role]]
protocol = "gossip"
[workload]
law = "w-psdg"
events = 30
begin = 2.0
end = 12.0
[workload.parameters]
rate = 5.0
duration = 10.0
"""
    scenario = define_file(text, "named").scenario({"workload.parameters.rate": 0.5})
    made = scenario.workload(ring(4), 7)
    assert len(made) == 30
    drawn = list(make("w-psdg", {"seed": 7, "rate": 0.5, "duration": 10.0}).planned_events())[:30]
    assert [each.at for each in made] == [2.0 + publication.at for publication in drawn if publication.at is not None]
    published = [each.input.event.attributes for each in made if isinstance(each.input, Publish)]
    assert [(each["publisher"], each["x1"]) for each in published] == [
        (publication.publisher, publication.attributes["x1"]) for publication in drawn
    ]
    homes = {each["publisher"]: each["source"] for each in published}
    assert sorted(homes.values()) == ["n0", "n0", "n0", "n1", "n1", "n1", "n2", "n2", "n3", "n3"]
    assert run_scenario(scenario, 7).passed


def test_events_of_a_workload_without_times_are_spread_evenly() -> None:
    publications = RandomPublications(events=4, begin=1.0, end=9.0, law="content", parameters={"event_count": 100})
    made = publications.inputs(("a", "b", "c"), 1)
    assert [(each.at, each.node) for each in made] == [(1.0, "a"), (3.0, "b"), (5.0, "c"), (7.0, "a")]


def test_a_workload_that_is_not_there_is_said_when_a_scenario_is_built() -> None:
    with pytest.raises(UsageError, match="there is no workload 'nothing'"):
        RandomPublications(law="nothing")


def test_nodes_may_fail_as_machines_of_a_cluster_did() -> None:
    nodes = tuple(f"n{place}" for place in range(60))
    absences = Churn(kind="machines", exempt=("n0",)).absences(nodes, 30.0, 3)
    assert absences == Churn(kind="machines", exempt=("n0",)).absences(nodes, 30.0, 3)
    assert 20 < len(absences) < 80
    assert all(each.node != "n0" and 0 <= each.begin < each.end <= 30.0 for each in absences)


def test_a_scenario_file_is_a_scenario() -> None:
    definition = define_file(FILE, "cut.toml")
    result = run_scenario(definition.scenario({}), 4)
    assert result.passed
    assert (result.nodes, result.edges, result.scenario) == (4, 3, "cut.toml")
    assert "2..9 partition n0,n1" in result.faults
    assert 1 <= result.inputs <= 6
    assert definition.summary == "A chain, cut for a while."
    assert definition.nodes_setting == "topology.nodes"
    larger = run_scenario(definition.scenario({"topology.nodes": 6, "network.loss": 0.0}), 4)
    assert larger.nodes == 6
    assert definition.settings["network.loss"] == 0.1


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("loss = 0.1", "los = 0.1", "network.los: there is no such key; allowed here are latency, jitter, loss"),
        ("loss = 0.1", "loss = 'much'", "network.loss: Expected `float`, got `str`"),
        ("loss = 0.1", "loss = 1.5", "network: loss: 1.5 is no probability"),
        ('kind = "chain"', 'kind = "blob"', "there is no topology 'blob'"),
        ('kind = "chain"\n', "", "topology.kind: it is missing; required are kind"),
        ("duration = 20.0\n", "", "duration: it is missing; required are topology, duration, settling, checkers"),
        ("duration = 20.0", "duration = -1.0", "duration: -1.0 must be above 0"),
        ('"arrival"]', '"arival"]', r"checkers\[2\]: there is no 'arival'; allowed are nothing_false"),
        ('protocol = "gossip"\nnodes', 'protocol = "gosip"\nnodes', r"role\[0\].protocol: there is no 'gosip'"),
        ("period = 0.25", "perod = 0.25", r"role\[0\].params.perod: there is no such key; allowed here are period"),
        ("period = 0.25", "period = -1.0", r"role\[0\].params: period: -1.0 is no span of time"),
        ("pauses = 2", "pauzes = 2", "faults.pauzes: there is no such key; allowed here are begin, end"),
        ("2..9 partition", "9..2 partition", "ends after that"),
        ("2..9 partition", "2..9 portition", "there is no 'portition'; the kinds are crash"),
        ("at = 3.0", "at = 'soon'", r"publish\[0\].at: Expected `float`"),
        ('node = "n2"', 'node = "x2"', "input at 3.0: there is no node 'x2'; the nodes are n0 to n3"),
        ("price = 12.5", "price = [1]", r"publish\[0\].attributes: attribute 'price'"),
        ('nodes = ["n0"]\nparams', 'nodes = ["x"]\nparams', "role.nodes: the topology has no node 'x'"),
        ("[network]", "[network", "is no TOML"),
        ("[network]", "deep = " + "[" * 20_000, "is no TOML"),
        ("[workload]", "[workload]\nevents = 3", "is no TOML"),
        ('exempt = ["n0"]', "exempt = [0]", "faults.exempt: write a list of strings"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_key(old: str, new: str, problem: str) -> None:
    assert old in FILE
    with pytest.raises(UsageError, match=problem) as raised:
        definition = define_file(FILE.replace(old, new), "cut.toml")
        run_scenario(definition.scenario({}), 0)
    if old != 'kind = "chain"' and "node" not in old:
        assert "cut.toml" in str(raised.value)


def test_churn_in_a_file_is_a_plan_of_crashes() -> None:
    text = FILE + '[churn]\nkind = "sessions"\nexempt = ["n1"]\nthere = { kind = "weibull", mean = 5.0, shape = 0.6 }\n'
    result = run_scenario(define_file(text, "cut.toml").scenario({}), 4)
    crashed = [fault.split()[2] for fault in result.faults if " crash " in fault]
    assert crashed
    assert "n1" not in crashed
    wrong = text.replace('"weibull"', '"bell"')
    with pytest.raises(UsageError, match=r"churn.there.kind: Invalid enum value 'bell'"):
        define_file(wrong, "cut.toml")


def test_scenarios_are_found_by_name_by_file_and_by_function(tmp_path: Path, root: Path) -> None:
    (tmp_path / "cut.toml").write_text(FILE)
    assert find(str(tmp_path / "cut.toml")).text == FILE
    assert find("gossip").settings["nodes"] == 12
    assert find("partition").text is None
    function = find(f"{root / 'tests/scenarios/broken.py'}:gossip_that_forgets")
    assert function.settings == {"nodes": 8}
    for name, problem in (
        ("nowhere.toml", "there is no file nowhere.toml"),
        ("nowhere.py:f", "there is no file nowhere.py"),
        (f"{root / 'tests/scenarios/broken.py'}:nothing", "has no function 'nothing'"),
        ("gosip", "there is no scenario 'gosip'; built in are ping, gossip"),
    ):
        with pytest.raises(UsageError, match=problem):
            find(name)


def test_settings_are_read_as_the_type_of_their_default() -> None:
    definition = find("gossip-churn")
    assert definition.read("nodes", "5") == 5
    assert definition.read("session", "2.5") == 2.5
    assert definition.read("churn", "false") is False
    assert definition.read("topology", "5") == "5"
    for name, text in (("nodes", "2.5"), ("session", "x"), ("churn", "no")):
        with pytest.raises(UsageError, match=name):
            definition.read(name, text)
    with pytest.raises(UsageError, match="has no setting 'node'; it has nodes, topology"):
        definition.scenario({"node": 3})


def test_a_scenario_function_needs_defaults() -> None:
    def unset(nodes: int) -> Scenario:
        return gossip(nodes)

    with pytest.raises(UsageError, match="the parameter nodes needs a plain default"):
        defined(unset)


def test_built_in_scenarios_say_what_they_are() -> None:
    known = built_in()
    gossip = ["gossip", "gossip-churn", "gossip-chaos", "gossip-radio"]
    built = ["ping", *gossip, "brokers", "nemesis", "trees", "feeds", "backbone", "partition"]
    assert list(known) == built
    assert all(definition.summary.endswith(".") for definition in known.values())


def test_every_checker_can_be_named_in_a_file() -> None:
    topology: Topology = ring(4)
    names = {type(make(topology)).__name__ for make in CHECKERS.values()}
    assert len(names) == len(CHECKERS)


def test_only_known_protocols_are_cast() -> None:
    assert list(cast("gossip", GossipParams(), ring(4), ["n1"])) == ["n1"]
    with pytest.raises(UsageError, match="there is no protocol 'rumour'; there are ping, gossip, broker, client, tra"):
        cast("rumour", None, ring(4))


EXAMPLE = Path(__file__).parents[2] / "examples" / "three-brokers-two-clients.toml"


@pytest.mark.parametrize(
    ("overlay", "routing"), [("spanning-tree", "tables"), ("lstree", "tables"), ("all-peers", "destinations")]
)
def test_a_file_starts_brokers_and_clients_and_what_is_wanted_arrives(overlay: str, routing: str) -> None:
    text = EXAMPLE.read_text()
    params = f'params = {{ overlay = {{ kind = "{overlay}" }}, routing = {{ kind = "{routing}" }} }}'
    text = re.sub("(?m)^params = .*$", params, text)
    if routing == "destinations":
        text = text.replace("[[subscribe]]", '[[subscribe]]\nguarantee = "none"\npolicy = "drop oldest"')
    scenario = define_file(text, "example.toml").scenario({})
    run = ScenarioRun(scenario, 1, check="every")
    assert run.perform() == []
    arrived = [item for _, item in run.simulator.delivered("n4") if isinstance(item, Arrived)]
    assert [event_of(head, b"").attributes["price"] for each in arrived for head in each.heads] == [120]
    broker = run.simulator.nodes["n2"].machine
    assert isinstance(broker, BrokerNode)
    assert (broker.row().overlay, broker.row().routing) == (overlay, routing)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            '"spanning-tree"',
            '"tree"',
            r"role\[1\].params.overlay.kind: there is no 'tree'; allowed are spanning-tree, all-peers",
        ),
        ('reduction = "merging"', "reductions = 1", r"role\[1\].params.routing.reductions: there is no such key"),
        ('filter = "price > 100"', 'filter = "price >"', r"subscribe\[0\].filter: .*ends too early"),
        ('kind = "chain"', 'kind = "star"', "the client 'n4' is linked with no broker"),
    ],
)
def test_what_is_wrong_with_brokers_and_clients_is_said_with_its_key(old: str, new: str, problem: str) -> None:
    text = EXAMPLE.read_text()
    assert old in text
    with pytest.raises(UsageError, match=problem):
        run_scenario(define_file(text.replace(old, new), "example.toml").scenario({}), 0)


def test_a_client_with_a_transport_is_served_as_well() -> None:
    text = EXAMPLE.read_text().replace('protocol = "client"', 'protocol = "transport-client"')
    run = ScenarioRun(define_file(text, "example.toml").scenario({}), 1, check="every")
    assert run.perform() == []
    assert isinstance(run.simulator.nodes["n4"].machine, TransportClient)
    arrived = [item for _, item in run.simulator.delivered("n4") if isinstance(item, Bundle)]
    assert sum(len(list(each.publications())) for each in arrived) == 1


def test_dispatchers_in_a_row_are_linked_and_deliver() -> None:
    text = EXAMPLE.read_text().replace("[[subscribe]]", '[[subscribe]]\nguarantee = "none"\npolicy = "drop oldest"')
    roles = text[text.index("[[role]]") : text.index("[[advertise]]")]
    text = text.replace(roles, '[[role]]\nprotocol = "dispatcher"\n\n')
    run = ScenarioRun(define_file(text, "example.toml").scenario({}), 1, check="every")
    assert run.perform() == []
    arrived = [item for _, item in run.simulator.delivered("n4") if isinstance(item, Arrived)]
    assert [event_of(head, b"").attributes["price"] for each in arrived for head in each.heads] == [120]


@pytest.mark.parametrize("seed", range(3))
def test_brokers_on_the_air_are_a_tree_without_a_configured_link(seed: int) -> None:
    text = (EXAMPLE.parent / "brokers-on-the-air.toml").read_text()
    run = ScenarioRun(define_file(text, "example.toml").scenario({}), seed, check="every")
    assert run.perform() == []
    arrived = [item for _, item in run.simulator.delivered("n3") if isinstance(item, Arrived)]
    assert [event_of(head, b"").attributes["price"] for each in arrived for head in each.heads] == [120, 130]
