"""Attached clients, brokers of the tree and admins that send whatever fits the types of messages, against real brokers.

Nothing is raised, the invariants hold, clients that mean well get every event, and what the insider left behind is gone
some time after it left. A client is not believed anything about others. A broker is part of the network: what it says
of the publishers of others, their numbers above all, is believed, so there the good clients are those that come after
it, and publish what nobody offered before.
"""

from functools import partial
from random import Random
from typing import Any

import pytest

from tests.worlds.both import BROKERS, LATENCY, Draws
from tests.worlds.insiders import KINDS, Forger, Insider
from tidings.machine.node import Machine
from tidings.machine.streams import random_stream
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.nodes.client import ClientNode
from tidings.protocols.access.params import AccessParams, GuestParams
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.routing.params import RoutingParams
from tidings.pubsub.client import Arrived, Confirmed, OpenAdvertisement, OpenSubscription, PublishBatch
from tidings.pubsub.publications import encode_head, event_of
from tidings.sim.network.latency import Constant
from tidings.sim.simulator import Simulator
from tidings.wire import REGISTRY

BEGIN, PERIOD = 5.0, 0.05
EVENTS = 40

KEPT_MAX = 12_000
"""Things that a broker holds more than at its start, some time after an insider left, however much that one said. What
the good clients leave behind, histories above all, is 8,400 of them."""


def family(*firsts: int) -> tuple[type, ...]:
    return tuple(kind for code, kind in REGISTRY.types.items() if code >> 8 in firsts and kind in KINDS)


ROLES: dict[str, tuple[type, ...]] = {
    "client": family(0x02, 0x04),
    "broker": family(0x01, 0x03, 0x04, 0x06),
    "admin": family(0x05),
}


def make_broker(name: str, links: tuple[str, ...], draws: Draws) -> BrokerNode:
    params = BrokerParams(
        access=AccessParams(links=links), routing=RoutingParams(engine="plain"), delivery=EdgeParams()
    )
    return BrokerNode(name, params, draws("access"))


def make_client(name: str, broker: str, draws: Draws) -> ClientNode:
    return ClientNode(name, GuestParams(brokers=(broker,)), SessionParams(), draws("client"))


class Trouble:
    """Brokers a - b - c, ann at a and ben at c, and an insider at b."""

    def __init__(self, role: str, seed: int, count: int) -> None:
        self.simulator = Simulator(seed, Constant(LATENCY), checking=True)
        self.last_at = BEGIN + (count // 5 + 2) * PERIOD
        for name, links in BROKERS.items():
            self.simulator.add(name, partial(make_broker, name, links))
        self.good("ann", "a")
        self.good("ben", "c")

        def insider(draws: Draws) -> Machine:
            inner = make_broker("m", ("b",), draws) if role == "broker" else make_client("m", "b", draws)
            return Insider(inner, draws("forger"), "b", ROLES[role], count, BEGIN, PERIOD)

        self.simulator.add("m", insider)

    def good(self, name: str, broker: str, at: float | None = None) -> None:
        self.simulator.add(name, partial(make_client, name, broker), at)

    def broker(self, name: str) -> BrokerNode:
        machine = self.simulator.nodes[name].process.machine
        assert isinstance(machine, BrokerNode)
        return machine

    def publish(self, publisher: str, reader: str, begin: float, end: float) -> None:
        """A subscription, and behind it events that are spread over the time."""
        filter = f"by = '{publisher}'"
        self.simulator.inject(begin, publisher, OpenAdvertisement("advertise", filter))
        self.simulator.inject(begin, reader, OpenSubscription("subscribe", filter))
        for number in range(EVENTS):
            head = encode_head({"number": number, "by": publisher})
            at = begin + 1.0 + (end - begin) * number / EVENTS
            self.simulator.inject(at, publisher, PublishBatch(1, (head,), (b"payload",)))

    def got(self, reader: str, publisher: str) -> list[Any]:
        items = [each.item for each in self.simulator.delivered(reader) if isinstance(each.item, Arrived)]
        events = [event_of(head, b"") for item in items for head in item.heads]
        return [each.attributes["number"] for each in events if each.attributes.get("by") == publisher]


def weight(thing: Any, seen: set[int] | None = None) -> int:
    """How many things it holds, however deep."""
    seen = set() if seen is None else seen
    if id(thing) in seen or isinstance(thing, str | bytes | int | float | type | Random) or callable(thing):
        return 0
    seen.add(id(thing))
    if isinstance(thing, dict):
        return len(thing) + sum(weight(each, seen) for pair in thing.items() for each in pair)
    if isinstance(thing, list | tuple | set | frozenset) or type(thing).__name__ == "deque":
        return len(thing) + sum(weight(each, seen) for each in thing)
    fields = getattr(thing, "__dict__", None) or {
        name: getattr(thing, name, None) for name in getattr(type(thing), "__struct_fields__", ())
    }
    return sum(weight(each, seen) for each in fields.values())


def play(role: str, seed: int, count: int) -> None:
    trouble = Trouble(role, seed, count)
    simulator = trouble.simulator
    simulator.run(BEGIN - 1.0)
    quiet = {name: weight(trouble.broker(name)) for name in BROKERS}
    trouble.publish("ann", "ben", BEGIN, trouble.last_at)
    simulator.run(trouble.last_at + 10.0)
    insider = simulator.nodes["m"].process.machine
    assert isinstance(insider, Insider) and sum(insider.sent.values()) > count / 4, "hardly anything was sent"
    if role != "broker":
        assert trouble.got("ben", "ann") == list(range(EVENTS))
    simulator.crash("m")
    after = simulator.now + 120.0
    simulator.run(after)
    trouble.good("kim", "a", after)
    trouble.good("lou", "c", after)
    simulator.run(after + 5.0)
    trouble.publish("kim", "lou", after + 5.0, after + 15.0)
    simulator.run(after + 40.0)
    confirmed = [each for each in simulator.delivered("lou") if isinstance(each.item, Confirmed)]
    assert confirmed, "who comes after the insider is served"
    assert trouble.got("lou", "kim") == list(range(EVENTS))
    simulator.check()
    for name in BROKERS:
        left = weight(trouble.broker(name)) - quiet[name]
        assert left < KEPT_MAX, f"{name} keeps {left} things"


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("seed", range(3))
def test_an_insider_harms_nobody(role: str, seed: int) -> None:
    play(role, seed, 300)


@pytest.mark.parametrize(
    ("role", "seed", "count"),
    [("client", 100, 3000), ("client", 119, 3000), ("broker", 2, 300), ("broker", 14, 300)],
    ids=["no time", "no time forwarded", "no sequence beyond", "no sequence beyond, again"],
)
def test_what_insiders_did_once_they_do_no_more(role: str, seed: int, count: int) -> None:
    play(role, seed, count)


@pytest.mark.long
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("seed", range(100, 140))
def test_an_insider_harms_nobody_for_long(role: str, seed: int) -> None:
    play(role, seed, 5000)


def test_every_kind_of_message_is_forged() -> None:
    forger = Forger(random_stream(1, "forger"))
    made = {type(forger.message((kind,))) for kind in KINDS for _ in range(60)}
    assert set(KINDS) <= made
