"""The world of E2 and E3: a chain of brokers, and one publisher whose events everybody on the way wants.

The publisher is at the first broker; one subscriber at each broker, so a single run has pairs that are 1, 2, 3, ...
brokers apart. Links take 50 ms, and nothing is lost. Brokers are idle enough that no message waits for a worker, so
delays differ by handling times alone.

Brokers are *alike*, or every fifth (the third, the eighth, ...) takes five times as long over a message as the others.
The source says nothing of how its brokers differ; but it finds that delays over several brokers are no gamma
distribution, and with brokers that are alike they would be one (`fits.py`).
"""

from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Any

from tidings.lab.transport.networks import DispatcherNetwork
from tidings.lab.transport.samples import subscriber_name
from tidings.lab.transport.substrate import WARM_UP, SubstrateParams, named
from tidings.machine.streams import random_stream
from tidings.model.identity import NodeId
from tidings.sim.topologies import shapes
from tidings.trace.writer import Writer
from tidings.workloads.plain import random_times

PARAMS = SubstrateParams(workers=32, handling=0.002, wander=0.0, link_rate_bps=100e6)
"""Links are fast: the source limits them in other experiments only."""

PUBLISHER: NodeId = "p"
RATE = 100.0
"""Events a second, at random times."""

SLOW_EVERY, SLOW_PLACE, SLOW_FACTOR = 5, 2, 5.0

SETTLE = 10.0


def subscriber(brokers: int) -> NodeId:
    """The one so many brokers from the publisher, in whose name is that of its broker."""
    return subscriber_name(f"n{brokers - 1}", 1)


def brokers_of(subscriber: NodeId) -> int:
    return int(subscriber[1:].partition(".")[0]) + 1


def constant_delay(brokers: int) -> float:
    """What the links between so many brokers take."""
    return (brokers - 1) * PARAMS.link_delay


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: length of the chain, messages, and whether brokers are alike."""
    topology = shapes.chain(parameters["brokers"])
    factors = {} if parameters["alike"] else dict.fromkeys(topology.nodes[SLOW_PLACE::SLOW_EVERY], SLOW_FACTOR)
    wants, publishers = dict.fromkeys(topology.nodes, ("TRUE",)), {PUBLISHER: topology.nodes[0]}
    network = DispatcherNetwork(seed, trace, topology, PARAMS, publishers, wants, factors)
    at, times = WARM_UP, random_times(random_stream(seed, "publisher"), RATE, begin=WARM_UP)
    for number, at in enumerate(islice(times, parameters["messages"])):
        network.simulator.call_at(at, partial(network.publish, named(PUBLISHER, number, {"kind": "sample"})))
    network.simulator.run(at + SETTLE)
    return {"delivered": network.simulator.counters().delivered}
