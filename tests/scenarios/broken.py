"""Protocols that are wrong on purpose, to see that a hunt finds it and makes it small."""

from tidings.machine.effects import Effect, Transport
from tidings.model.identity import NodeId
from tidings.protocols.teaching.gossip import Gossip, GossipParams
from tidings.sim.cast import RandomPublications, RoughNetwork
from tidings.sim.fault_schedule import FaultMix, draw_faults
from tidings.sim.library.gossip import what_gossip_promises
from tidings.sim.node import Draws, Make
from tidings.sim.scenario import Scenario
from tidings.sim.topologies import SHAPES, Topology


class Amnesiac(Gossip):
    """Forgets at every start what it has delivered, although its state was kept."""

    def start(self, now: float) -> list[Effect]:
        self.seen.clear()
        self.held.clear()
        return super().start(now)


class Proud(Gossip):
    """Asks for an event once, and never again."""

    def forget_old_questions(self, now: float) -> None:
        pass


def gossip_that_forgets(nodes: int = 8) -> Scenario:
    """Delivers twice after a crash that keeps the state."""
    return broken(Amnesiac, nodes, loss=0.0)


def gossip_that_asks_once(nodes: int = 8) -> Scenario:
    """Never gets what was lost once."""
    return broken(Proud, nodes, loss=0.3)


def broken(machine: type[Gossip], nodes: int, loss: float) -> Scenario:
    params = GossipParams(transport=Transport.DATAGRAM)
    mix = FaultMix(end=40.0, crashes=4, pauses=3, partitions=2, swizzles=1)

    def role(neighbours: list[NodeId]) -> Make:
        def make(draws: Draws) -> Gossip:
            return machine(neighbours, params, draws("gossip"))

        return make

    def roles(made: Topology) -> dict[NodeId, Make]:
        return {node: role(neighbours) for node, neighbours in made.neighbours().items()}

    return Scenario(
        name="broken",
        topology=lambda seed: SHAPES["clique"](nodes),
        roles=roles,
        workload=lambda made, seed: RandomPublications(events=10, end=40.0).inputs(made.nodes, seed),
        network=RoughNetwork(loss=loss).rules,
        faults=lambda made, until, seed: draw_faults(mix.before(until), made.nodes, seed),
        checkers=what_gossip_promises,
        duration=40.0,
        settling=60.0,
    )
