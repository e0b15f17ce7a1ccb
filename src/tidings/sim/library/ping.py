"""Ping among neighbours that crash: after all is over, exactly the dead are suspected."""

from tidings.machine.effects import Transport
from tidings.protocols.teaching.ping import PingParams
from tidings.sim.cast import cast
from tidings.sim.checkers import RightSuspicion
from tidings.sim.fault_mix import FaultMix, draw_faults
from tidings.sim.faults import FaultPlan, crashes_of, plan_of
from tidings.sim.ingredients import RoughNetwork
from tidings.sim.scenario import Scenario
from tidings.sim.topologies import Topology
from tidings.sim.topologies.named import make_topology
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
