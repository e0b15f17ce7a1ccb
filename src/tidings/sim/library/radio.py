"""Gossip among people who walk: nobody has neighbours, everybody speaks to whoever is near."""

from tidings.machine.effects import BROADCAST, Transport
from tidings.protocols.teaching.gossip import Gossip, GossipParams
from tidings.sim.fault_mix import FaultMix, draw_faults
from tidings.sim.ingredients import RandomPublications
from tidings.sim.library.gossip import what_gossip_promises
from tidings.sim.mobility import RandomWaypoint, WaypointParams
from tidings.sim.network.radio import Radio, RadioParams
from tidings.sim.node import Draws
from tidings.sim.scenario import Scenario
from tidings.sim.topologies import clique


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
