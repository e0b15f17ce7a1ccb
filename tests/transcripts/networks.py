"""Tiny networks, each run once and told line by line.

A transcript is what a run says of itself, as text that a person reads. A changed line in review is a changed
behaviour; when the change is meant, `python -m tests.transcripts.networks` writes the texts anew.
"""

from collections.abc import Callable
from functools import partial
from inspect import cleandoc
from pathlib import Path

from tests.transcripts import rewired_networks
from tests.transcripts.broker_networks import (
    history_fills_what_a_break_lost,
    lost_link_is_replaced,
    receipt_across_three_brokers,
    tree_finds_another_root,
    tree_mends_itself,
    two_flows,
    wide_filter_covers_a_narrow_one,
)
from tidings.machine.effects import Connect, Disconnect, Effect, Send
from tidings.machine.inputs import Input, LinkUp, Signal
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.protocols.teaching.gossip import Gossip, GossipParams
from tidings.protocols.teaching.ping import Ping, PingParams, Probe
from tidings.pubsub.requests import Publish
from tidings.sim.network.latency import Constant, Matrix
from tidings.sim.network.loss import Loss
from tidings.sim.node import Draws
from tidings.sim.simulator import Simulator
from tidings.trace.record import Record
from tidings.trace.sequence import sequence_lines
from tidings.trace.writers import RingBuffer

FOLDER = Path(__file__).parent
RECORDS_MAX = 1000


def make_ping(neighbours: list[NodeId], draws: Draws) -> Ping:
    return Ping(neighbours, PingParams(period=1.0, misses=2), draws("ping"))


def make_gossip(neighbours: list[NodeId], draws: Draws) -> Gossip:
    return Gossip(neighbours, GossipParams(period=1.0), draws("gossip"))


class Hang(Signal, frozen=True):
    """Asks a `Caller` to hang up."""

    up: str


class Caller:
    """Connects, says three things as soon as the link is up, and hangs up when it is told to."""

    def __init__(self, other: NodeId, draws: Draws) -> None:
        self.other = other

    def start(self, now: float) -> list[Effect]:
        return [Connect(self.other)]

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case LinkUp(other, epoch):
                return [Send(other, Probe(10 * epoch + number)) for number in range(3)]
            case Hang(other):
                return [Send(other, Probe(99)), Disconnect(other, "bye")]
        return []

    def check(self) -> None:
        pass


class Listener(Caller):
    """Takes what comes."""

    def start(self, now: float) -> list[Effect]:
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        return []


def crash_is_suspected(trace: RingBuffer) -> None:
    """Two nodes ping each other; b crashes and comes back without its state."""
    simulator = Simulator(7, Constant(0.05), checking=True, trace=trace)
    simulator.add("a", partial(make_ping, ["b"]))
    simulator.add("b", partial(make_ping, ["a"]))
    simulator.call_at(2.5, lambda: simulator.crash("b"))
    simulator.call_at(5.5, lambda: simulator.restart("b", keep_state=False))
    simulator.run(8.0)


def event_spreads(trace: RingBuffer) -> None:
    """Three nodes in a row gossip; one message in four is lost on the way and sent again."""
    simulator = Simulator(3, Loss(Matrix({}, default=0.02), 0.25), checking=True, trace=trace)
    simulator.add("a", partial(make_gossip, ["b"]))
    simulator.add("b", partial(make_gossip, ["a", "c"]))
    simulator.add("c", partial(make_gossip, ["b"]))
    simulator.inject(0.1, "a", Publish(Event({"source": "a", "id": "e1", "magnitude": 5.1})))
    simulator.run(4.0)


def link_breaks(trace: RingBuffer) -> None:
    """a connects to b and speaks; the link breaks with three messages under way, comes again, and is closed."""
    simulator = Simulator(1, Constant(0.5), checking=True, trace=trace)
    simulator.add("b", partial(Listener, "a"))
    simulator.add("a", partial(Caller, "b"))
    simulator.call_at(1.2, lambda: simulator.break_link("a", "b", "cable cut", noticed_after=0.1))
    simulator.call_at(2.0, lambda: simulator.crash("a"))
    simulator.call_at(2.1, lambda: simulator.restart("a", keep_state=True))
    simulator.inject(4.0, "a", Hang("b"))
    simulator.run(6.0)


NETWORKS: dict[str, Callable[[RingBuffer], None]] = {
    "crash-is-suspected": crash_is_suspected,
    "event-spreads": event_spreads,
    "link-breaks": link_breaks,
}

BROKER_NETWORKS: dict[str, Callable[[], list[Record]]] = {
    "receipt-across-three-brokers": receipt_across_three_brokers,
    "wide-filter-covers-a-narrow-one": wide_filter_covers_a_narrow_one,
    "tree-finds-another-root": tree_finds_another_root,
    "history-fills-what-a-break-lost": history_fills_what_a_break_lost,
    "lost-link-is-replaced": lost_link_is_replaced,
    "tree-mends-itself": tree_mends_itself,
    "two-flows": two_flows,
    "timed-repair-of-a-line": rewired_networks.timed_repair_of_a_line,
    "informed-repair": rewired_networks.informed_repair,
    "repair-along-a-path": rewired_networks.repair_along_a_path,
    "notified-repair-of-a-star": rewired_networks.notified_repair_of_a_star,
}

NAMES = [*NETWORKS, *BROKER_NETWORKS]


def transcript(name: str) -> str:
    if name in BROKER_NETWORKS:
        title, lines = BROKER_NETWORKS[name].__doc__, sequence_lines(BROKER_NETWORKS[name](), whole=False)
    else:
        trace = RingBuffer(RECORDS_MAX)
        NETWORKS[name](trace)
        title, lines = NETWORKS[name].__doc__, sequence_lines(trace.records())
    return "\n".join([cleandoc(title or ""), "", *lines]) + "\n"


if __name__ == "__main__":
    for name in NAMES:
        (FOLDER / f"{name}.txt").write_text(transcript(name), encoding="utf-8")
