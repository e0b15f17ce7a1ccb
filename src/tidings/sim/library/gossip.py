"""The teaching protocols as scenarios.

- Ping among neighbours that crash: after all is over, exactly the dead are suspected.
- Gossip under trouble: nothing false and nothing twice while it lasts; once it is over, everybody has everything.
- Gossip among people who walk: nobody has neighbours, everybody speaks to whoever is near.
"""

from tidings.machine.effects import BROADCAST, Transport
from tidings.model.errors import UsageError
from tidings.protocols.teaching.gossip import Gossip, GossipParams
from tidings.protocols.teaching.ping import PingParams
from tidings.sim.cast import Churn, RandomPublications, RoughNetwork, Span, cast
from tidings.sim.checkers import Checker, Convergence, NoDuplicates, NothingFalse, RightSuspicion
from tidings.sim.fault_schedule import FaultMix, draw_faults
from tidings.sim.faults import FaultPlan, crashes_of, plan_of
from tidings.sim.network.radio import Radio, RadioParams, RandomWaypoint, WaypointParams
from tidings.sim.node import Draws
from tidings.sim.scenario import Scenario
from tidings.sim.topologies import Topology, clique
from tidings.sim.topologies.shapes import make_topology
from tidings.workloads.churn import mass_failure


def ping(
    nodes: int = 8,
    topology: str = "clique",
    dead: int = 2,
    crashes: int = 4,
    loss: float = 0.05,
    period: float = 1.0,
    misses: int = 3,
) -> Scenario:
    """Failure detection among nodes that crash, pause and are cut off; in the end exactly the dead are suspected."""
    params = PingParams(period=period, misses=misses, transport=Transport.DATAGRAM)
    network = RoughNetwork(latency=0.05, jitter=0.05, loss=loss, duplication=loss, reordering=loss)

    mix = FaultMix(
        crashes=crashes, crashes_forgetting=crashes, pauses=2, partitions=2, one_way_partitions=1, swizzles=1
    )

    def faults(made: Topology, until: float, seed: int) -> FaultPlan:
        drawn = draw_faults(mix.before(until), made.nodes, seed)
        share = min(dead, len(made.nodes)) / len(made.nodes)
        dying = crashes_of(mass_failure(made.nodes, share, round(until * 0.9, 3), seed))
        return plan_of([*drawn.faults, *dying])

    return Scenario(
        name="ping",
        topology=lambda seed: make_topology(topology, nodes, seed),
        roles=lambda made: cast("ping", params, made),
        workload=lambda made, seed: [],
        network=network.rules,
        faults=faults,
        checkers=lambda made: [RightSuspicion(made)],
        duration=60.0,
        settling=(misses + 3) * period,
    )


DURATION = 60.0

SETTLING_PERIODS_PER_NODE = 8
"""On a chain an event takes a step in two to three periods; a star waits until its middle has drawn every leaf."""


def gossip(
    nodes: int = 12,
    topology: str = "ring",
    events: int = 20,
    loss: float = 0.1,
    transport: str = "datagram",
) -> Scenario:
    """Events spread through loss, duplication, reordering, crashes and partitions; in the end all have all."""
    mix = FaultMix(crashes=3, pauses=2, partitions=2, one_way_partitions=1)
    return spreading("gossip", topology, nodes, events, loss, transport, mix)


def gossip_churn(
    nodes: int = 16,
    topology: str = "scale_free",
    events: int = 20,
    session: float = 20.0,
    absence: float = 10.0,
    churn: bool = True,
) -> Scenario:
    """Nodes come and go in Weibull sessions and lose their state; whoever is up in the end has what is left."""
    sessions = Churn(
        kind="sessions" if churn else "off",
        forgetting=True,
        there=Span("weibull", session, 0.6),
        away=Span("exponential", absence),
    )
    return spreading("gossip-churn", topology, nodes, events, 0.05, "stream", FaultMix(), sessions)


def gossip_chaos(
    nodes: int = 10, topology: str = "random_tree", events: int = 20, loss: float = 0.1, transport: str = "stream"
) -> Scenario:
    """Every kind of fault at once: also swizzled links, skewed clocks, slow disks and corrupt frames."""
    mix = FaultMix(
        crashes=2,
        crashes_forgetting=2,
        pauses=2,
        partitions=2,
        one_way_partitions=2,
        swizzles=2,
        skewed_clocks=2,
        slow_disks=2,
        corruptions=3,
    )
    return spreading("gossip-chaos", topology, nodes, events, loss, transport, mix)


def spreading(
    name: str,
    topology: str,
    nodes: int,
    events: int,
    loss: float,
    transport: str,
    mix: FaultMix,
    churn: Churn = Churn(),  # noqa: B008 - a frozen value
) -> Scenario:
    params = GossipParams(period=1.0, transport=transport_named(transport))
    # A map has as many nodes as it has, whatever number is asked for.
    count = len(make_topology(topology, nodes, 0).nodes)
    network = RoughNetwork(latency=0.05, jitter=0.05, loss=loss, duplication=loss, reordering=loss)
    workload = RandomPublications(events=events, end=DURATION)

    def faults(made: Topology, until: float, seed: int) -> FaultPlan:
        drawn = draw_faults(mix.before(until), made.nodes, seed)
        return plan_of([*drawn.faults, *churn.crashes(made.nodes, until, seed)])

    return Scenario(
        name=name,
        topology=lambda seed: make_topology(topology, nodes, seed),
        roles=lambda made: cast("gossip", params, made),
        workload=lambda made, seed: workload.inputs(made.nodes, seed),
        network=network.rules,
        faults=faults,
        checkers=what_gossip_promises,
        duration=DURATION,
        settling=30 + SETTLING_PERIODS_PER_NODE * count * params.period,
    )


def transport_named(name: str) -> Transport:
    if name not in TRANSPORTS:
        raise UsageError(f"transport: there is no {name!r}; give {' or '.join(TRANSPORTS)}")
    return TRANSPORTS[name]


TRANSPORTS = {transport.value: transport for transport in Transport}


def what_gossip_promises(topology: Topology) -> list[Checker]:
    return [NothingFalse(), NoDuplicates(), Convergence(topology)]


def gossip_radio(
    nodes: int = 12, side: float = 300.0, reach: float = 80.0, speed: float = 3.0, events: int = 10
) -> Scenario:
    """Events spread by short-range radio among walkers, who tell whoever hears them; in the end all have all."""
    params = GossipParams(transport=Transport.DATAGRAM)
    walking = WaypointParams(width=side, height=side, speed_min=speed / 3, speed_max=speed, pause_max=10.0)
    radio = RadioParams(reach=reach, sense_reach=2 * reach)
    mix = FaultMix(crashes=3, pauses=2)

    def make(draws: Draws) -> Gossip:
        return Gossip([BROADCAST], params, draws("gossip"))

    return Scenario(
        name="gossip-radio",
        # Whoever walks long enough meets everybody, so in the long run all are neighbours.
        topology=lambda seed: clique(nodes),
        roles=lambda made: dict.fromkeys(made.nodes, make),
        workload=lambda made, seed: RandomPublications(events=events, end=60.0).inputs(made.nodes, seed),
        network=lambda made, calm_at, seed: Radio(made.nodes, RandomWaypoint(walking, seed).position, radio),
        faults=lambda made, until, seed: draw_faults(mix.before(until), made.nodes, seed),
        checkers=what_gossip_promises,
        duration=60.0,
        settling=240.0,
    )
