"""Nemesis: everything goes wrong at once, and whatever a broker promises is held against it.

One scenario draws all that a network can be given from the seed: brokers and how they are linked, with disks and
without, clocks that differ, readers and writers and all they do (`workloads/nemesis/campaign.py`), a network that is
slow, narrow or loses packets, and faults of every kind, of brokers and of clients. A judge that sees what applications
see, and decides by itself what matches, holds the outcome against every promise (`workloads/nemesis/promise.py`).

Three runs out of four are small, and take a tenth of a second; one in ten is busy, one in sixteen has many brokers, one
in twenty large events, three in a hundred have a crowd of publishers, one in a hundred large tables; the campaign says
how large each can be. Among 1,000 seeds all is drawn up to its bound; `tests/scenarios/test_nemesis.py` counts.

Half of the runs repair routing as brokers do by default, the others in the other ways, each on an overlay that tells
enough for it (`nemesis_overlays.py`). Where tables go by advertisements, half of the runs go by popularity too.

In some runs names are claims, as on sockets, and strangers say those of others (`nemesis_strangers.py`).

The applications are played by `NemesisConductor` (`nemesis_conductor.py`). A broker that starts again has another
clock: somebody set it, forward or back, while the broker was down.

What a broker without a disk loses when it crashes was never promised to stay: the judge is told which writers that
broker may have served. Nothing else is excused.
"""

from collections.abc import Mapping
from functools import partial
from typing import Literal

from msgspec.structs import replace

from tidings.machine.node import Machine
from tidings.machine.streams import RandomStream, random_stream
from tidings.model.identity import NodeId
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.nodes.client import ClientNode
from tidings.protocols.access.drain import Drain, Undrain
from tidings.protocols.access.judge import Judge, open_judge
from tidings.protocols.access.params import AccessParams, GuestParams
from tidings.protocols.access.tenancy import TenantJudge
from tidings.protocols.coordination.messages import CarryOut
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.overlay.spanning_tree import SpanningTreeParams
from tidings.protocols.routing.params import (
    FailoverChoice,
    PopularityName,
    ReductionName,
    RepairName,
    RoutingParams,
    StrategyName,
)
from tidings.pubsub.tenants import Tenant
from tidings.sim.cast import TimedInput, Until
from tidings.sim.checkers import Checker
from tidings.sim.fault_schedule import FaultMix, draw_faults, draw_span
from tidings.sim.faults import Break, Crash, Fault, FaultPlan, Pause, plan_of
from tidings.sim.library.nemesis_conductor import NemesisConductor
from tidings.sim.library.nemesis_overlays import DrawnRepair, draw_repair, draw_rewirings, make_overlays, tree_of
from tidings.sim.library.nemesis_plans import COORDINATION, PlansOver, draw_plans
from tidings.sim.library.nemesis_strangers import Stranger, StrangerPlan, draw_strangers, secret_judge, secret_of
from tidings.sim.network.bandwidth import Bandwidth
from tidings.sim.network.latency import Constant, Jittered
from tidings.sim.network.loss import Loss
from tidings.sim.network.rule import Rule
from tidings.sim.node import Draws, Make
from tidings.sim.scenario import Scenario
from tidings.sim.topologies import Topology
from tidings.sim.topologies.shapes import make_topology
from tidings.workloads.churn import FOR_EVER
from tidings.workloads.nemesis.campaign import (
    BEGIN,
    Campaign,
    CampaignBroker,
    CampaignParams,
    CampaignReader,
    CampaignWriter,
    draw_campaign,
)
from tidings.workloads.substitutions import Pair

SETTLING = 200.0
"""Links that vanished are noticed after 20 s, questions asked again after 30 s, receipts given up after 30 s; and
readers that take one event at a time need some round trips for each."""

STRATEGIES: tuple[StrategyName, ...] = ("advertisement", "advertisement", "advertisement", "subscription", "flooding")
LATENCIES, LOSSES, RATES_BPS = (0.0, 0.002, 0.02, 0.1), (0.0, 0.01, 0.1), (0.0, 20e6, 100e6, 1e9)
"""Of links: seconds one way, the share of packets lost while faults last, and how much fits through; 0 is all."""
DrawnPopularity = PopularityName | Literal["any"]
POPULARITIES: tuple[PopularityName, ...] = ("off", "off", "off", "batching", "direct", "gossip")
CAPACITIES = (1.0, 50.0)
"""Publications a second that a broker believes to be able to forward."""
DrawnFailover = FailoverChoice | Literal["any"]
FAILOVERS: tuple[FailoverChoice, ...] = ("none", "gossip")
FAILOVER_REPAIRS: tuple[RepairName, ...] = ("resuming", "timed", "notified", "informed")
REDUCTIONS: tuple[ReductionName, ...] = ("covering", "merging", "plain")


class Stage(Topology, frozen=True):
    """Brokers and their links, clients, and the campaign that is played on them."""

    campaign: Campaign
    strangers: tuple[StrangerPlan, ...] | None
    """None where every name is its node's own."""
    repair: RepairName
    popularity: DrawnPopularity
    failover: DrawnFailover

    @property
    def brokers(self) -> list[NodeId]:
        return [broker.name for broker in self.campaign.brokers]

    @property
    def links(self) -> list[Pair]:
        return [(edge.a, edge.b) for edge in self.edges]


def nemesis(
    brokers: int = 0,
    writers_max: int = 10_000,
    scale: str = "",
    bulk: bool = True,
    tables: bool = True,
    clock_error_max: float = 60.0,
    short_history: bool = True,
    groups: bool = True,
    tenants: bool = True,
    readings: bool = True,
    faults: int = 4,
    restarts: int = 2,
    writer_restarts: bool = True,
    repair: DrawnRepair = "any",
    popularity: DrawnPopularity = "any",
    failover: DrawnFailover = "any",
    drains: int = 2,
) -> Scenario:
    """Everything that can be drawn is drawn, everything that can fail fails, and every promise is judged."""
    params = CampaignParams(
        brokers=brokers,
        writers_max=writers_max,
        is_bulk=bulk,
        has_tables=tables,
        clock_error_max=clock_error_max,
        has_short_history=short_history,
        has_groups=groups,
        has_tenants=tenants,
        has_readings=readings,
        scale=scale,
    )
    return Scenario(
        name="nemesis",
        topology=lambda seed: make_stage(draw_campaign(params, seed), draw_repair(repair, seed), popularity, failover),
        roles=lambda stage: cast_stage(as_stage(stage)),
        workload=lambda stage, seed: [*script_of(as_stage(stage)), *draw_drains(as_stage(stage), drains)],
        network=lambda stage, until, seed: draw_network(random_stream(seed, "nemesis network"), until),
        faults=lambda stage, until, seed: draw_trouble(as_stage(stage), until, seed, faults, restarts, writer_restarts),
        checkers=lambda stage: checkers_of(as_stage(stage)),
        claims=claims_of,
        duration=BEGIN + params.span,
        settling=SETTLING,
    )


def as_stage(topology: Topology) -> Stage:
    assert isinstance(topology, Stage)
    return topology


def make_stage(
    campaign: Campaign, repair: RepairName, popularity: DrawnPopularity = "off", failover: DrawnFailover = "none"
) -> Stage:
    linked = make_topology(campaign.shape, len(campaign.brokers), campaign.seed)
    clients = tuple(client.name for client in campaign.clients)
    assert linked.nodes == tuple(broker.name for broker in campaign.brokers)
    strangers = draw_strangers(campaign)
    called = tuple(stranger.name for stranger in strangers or ())
    return Stage(
        "nemesis", linked.nodes + clients + called, linked.edges, campaign, strangers, repair, popularity, failover
    )


def claims_of(stage: Topology) -> Mapping[NodeId, NodeId] | None:
    strangers = as_stage(stage).strangers
    return None if strangers is None else {stranger.name: stranger.claims for stranger in strangers}


def checkers_of(stage: Stage) -> list[Checker]:
    conductor = NemesisConductor(stage.campaign)
    if stage.repair != "shift":
        return [conductor]
    plans = [each.input.plan for each in script_of(stage) if isinstance(each.input, CarryOut)]
    return [conductor, PlansOver(stage.brokers, plans)]


def script_of(stage: Stage) -> list[TimedInput]:
    if stage.repair == "shift":
        links = tree_of(stage.brokers, stage.links)
        return draw_plans(stage.brokers, links, stage.campaign.until, stage.campaign.seed)
    if stage.repair != "path":
        return []
    return draw_rewirings(stage.brokers, stage.links, stage.campaign.until, stage.campaign.seed)


def draw_drains(stage: Stage, most: int) -> list[TimedInput]:
    """Brokers that are drained for a while, up to `most` times in half of the runs; all serve again in the end."""
    rng = random_stream(stage.campaign.seed, "nemesis drains")
    script: list[TimedInput] = []
    for _ in range(rng.below(most + 1) if rng.random() < 0.5 else 0):
        broker, begin = rng.choice(stage.brokers), rng.uniform(0.0, stage.campaign.until)
        end = rng.uniform(begin, stage.campaign.until)
        script += [TimedInput(round(begin, 3), broker, Drain()), TimedInput(round(end, 3), broker, Undrain())]
    return script


def cast_stage(stage: Stage) -> Mapping[NodeId, Make]:
    campaign = stage.campaign
    routing = draw_routing(random_stream(campaign.seed, "nemesis routing"), stage.repair)
    routing = draw_popularity(random_stream(campaign.seed, "nemesis popularity"), routing, stage.popularity)
    routing = draw_failover(random_stream(campaign.seed, "nemesis failover"), routing, stage.failover)
    overlays = make_overlays(stage.repair, stage.brokers, stage.links)
    delivery = EdgeParams(history_age=campaign.history_age, history_count_max=campaign.history_count_max)
    roles: dict[NodeId, Make] = {client.name: partial(make_stage_client, client) for client in campaign.clients}
    for stranger in stage.strangers or ():
        roles[stranger.name] = partial(make_stranger, stranger)
    for broker in campaign.brokers:
        overlay = overlays[broker.name]
        # Other overlays ask for the links that they need.
        is_linked = isinstance(overlay, SpanningTreeParams)
        links = tuple(b for a, b in stage.links if a == broker.name and is_linked)
        params = BrokerParams(
            access=AccessParams(links=links, credentials=secret_of(broker.name)),
            overlay=overlay,
            routing=routing,
            delivery=replace(delivery, is_durable=broker.is_durable),
            coordination=COORDINATION,
        )
        judge = open_judge if stage.strangers is None else secret_judge
        roles[broker.name] = partial(make_stage_broker, broker, params, campaign, judge)
    return roles


def draw_routing(rng: RandomStream, repair: RepairName) -> RoutingParams:
    strategy = rng.choice(STRATEGIES)
    if repair == "shift" and strategy == "flooding":
        strategy = "subscription"
    return RoutingParams(strategy=strategy, reduction=rng.choice(REDUCTIONS), repair=repair)


def draw_failover(rng: RandomStream, routing: RoutingParams, failover: DrawnFailover) -> RoutingParams:
    """Where it fits, gossip goes around failed brokers in half of the runs."""
    way = rng.choice(FAILOVERS) if failover == "any" else failover
    fits = routing.strategy == "advertisement" and routing.repair in FAILOVER_REPAIRS
    return replace(routing, failover="gossip") if fits and way == "gossip" else routing


def draw_popularity(rng: RandomStream, routing: RoutingParams, popularity: DrawnPopularity) -> RoutingParams:
    """Where tables go by advertisements, half of the runs divert what is not popular, and nearly nothing is."""
    way = rng.choice(POPULARITIES) if popularity == "any" else popularity
    if routing.strategy != "advertisement" or way == "off":
        return routing
    way = "batching" if routing.repair == "shift" else way
    return replace(
        routing,
        popularity=way,
        phi=0.05,
        capacity=rng.choice(CAPACITIES),
        evaluated_every=rng.choice((0.1, 2.0)),
        batched_for=rng.choice((0.1, 3.0)),
    )


def make_stage_client(client: CampaignReader | CampaignWriter, draws: Draws) -> Machine:
    access = GuestParams(brokers=client.brokers, credentials=secret_of(client.name))
    life = f"{draws('life').getrandbits(40):x}"
    return ClientNode(client.name, access, SessionParams(), draws("access"), life=life)


def make_stranger(plan: StrangerPlan, draws: Draws) -> Machine:
    return Stranger(plan)


def make_stage_broker(
    broker: CampaignBroker, params: BrokerParams, campaign: Campaign, judge: Judge, draws: Draws
) -> Machine:
    offset = round(draws("clock").uniform(-campaign.clock_error, campaign.clock_error), 3)
    params = replace(
        params,
        access=replace(params.access, clock_offset=offset),
        delivery=replace(params.delivery, clock_offset=offset),
    )
    tenants = {name: Tenant(name) for name in campaign.tenants if name}
    return BrokerNode(broker.name, params, draws("access"), TenantJudge(judge, tenants) if tenants else judge)


def draw_network(rng: RandomStream, calm_at: float) -> Rule:
    latency = rng.choice(LATENCIES)
    calm: Rule = Jittered(Constant(latency), latency / 5) if latency else Constant(0.0)
    rough = Loss(calm, rng.choice(LOSSES))
    network: Rule = Until(calm_at, rough, calm)
    rate_bps = rng.choice(RATES_BPS)
    return Bandwidth(network, rate_bps) if rate_bps else network


def draw_trouble(stage: Stage, until: float, seed: int, most: int, restarts: int, writer_restarts: bool) -> FaultPlan:
    """Of each kind as many as drawn, up to `most`, of brokers and of their links; and of clients `restarts`."""
    campaign = stage.campaign
    end = max(until, BEGIN + 1.0)
    rng = random_stream(seed, "nemesis trouble")
    # In one run out of five everything is well, so that mistakes which faults would hide are seen.
    most = most if rng.random() < 0.8 else 0
    mix = FaultMix(
        begin=0.0,
        end=end,
        length_max=rng.choice((1.0, 5.0, 15.0)),
        crashes_forgetting=most if stage.repair != "path" else 0,
        pauses=most // 2 if stage.repair != "path" else 0,
        partitions=most // 2,
        one_way_partitions=most // 4,
        swizzles=most // 4,
        skewed_clocks=most // 4 if campaign.clock_error else 0,
        slow_disks=most // 2,
        full_disks=most // 4,
        corruptions=most // 4,
        corruption_max=0.1,
    )
    drawn: list[Fault] = list(draw_faults(mix, [broker.name for broker in campaign.brokers], seed).faults)
    for _ in range(rng.below(2 * most + 1)):
        drawn.append(draw_break(rng, mix, stage))
    struck = [client.name for client in (campaign.clients if writer_restarts else campaign.readers)[:20]]
    for _ in range(rng.below(restarts + 1) if most else 0):
        drawn.append(Crash(*draw_span(rng, mix), rng.choice(struck), True, rng.random() < 0.5))
    for _ in range(rng.below(restarts + 1) if most else 0):
        drawn.append(Pause(*draw_span(rng, mix), rng.choice(struck)))
    for writer in campaign.writers[:20]:
        if rng.random() < 0.1:
            drawn.append(Crash(round(rng.uniform(BEGIN, end), 3), FOR_EVER, writer.name, True))
    return plan_of(drawn)


def draw_break(rng: RandomStream, mix: FaultMix, stage: Stage) -> Fault:
    if stage.edges and rng.random() < 0.5:
        edge = rng.choice(stage.edges)
        return Break(*draw_span(rng, mix), edge.a, edge.b)
    client = rng.choice(stage.campaign.clients)
    return Break(*draw_span(rng, mix), client.name, rng.choice(client.brokers))
