"""A network of brokers and clients in both worlds: the same requests, the same events, the same tables in the end."""

from functools import partial
from typing import Any

import pytest

from tests.worlds.both import (
    BROKERS,
    CLIENTS,
    Draws,
    brokers_of,
    confirmed,
    host_of,
    make_broker,
    simulator_of,
    started,
)
from tests.worlds.sockets import play, until
from tidings.machine.node import Machine
from tidings.model.identity import NodeId
from tidings.net import Host
from tidings.nodes.broker import BrokerNode
from tidings.nodes.client import ClientNode
from tidings.protocols.access.params import GuestParams
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.routing.router import Router
from tidings.pubsub.client import (
    Arrived,
    CloseSubscription,
    OpenAdvertisement,
    OpenSubscription,
    PublishBatch,
)
from tidings.pubsub.publications import encode_head

STEP = 1.0
"""Simulated seconds from one request to the next; all of them are settled by then."""

HEADS = tuple(encode_head({"x": x}) for x in range(10))
REQUESTS: list[tuple[NodeId, Any]] = [
    ("ann", OpenAdvertisement("offer", "x >= 0")),
    ("ben", OpenSubscription("wide", "x >= 5")),
    ("cat", OpenSubscription("band", "x >= 2 AND x < 8")),
    ("ben", OpenSubscription("narrow", "x = 9")),
    ("ann", PublishBatch(1, HEADS, (b"first",) * 10, "published")),
    ("ben", CloseSubscription("closed", 1)),
    ("ann", PublishBatch(1, HEADS, (b"second",) * 10, "published again")),
]

Outcome = tuple[dict[NodeId, list[tuple[int, int]]], dict[NodeId, Any]]


def make(name: NodeId, draws: Draws) -> Machine:
    if name in BROKERS:
        return make_broker(name, draws)
    return ClientNode(name, GuestParams(brokers=(CLIENTS[name],)), SessionParams(), draws("access"))


def tables_of(broker: BrokerNode) -> Any:
    assert isinstance(broker.routing, Router)
    tables = broker.routing.tables
    return (
        {hop: sorted(texts) for hop, texts in tables.texts.items()},
        {advertisement: sorted(map(str, hops)) for advertisement, hops in tables.offers.items()},
    )


def events_of(items: list[Any]) -> list[tuple[int, int]]:
    arrived = [item for item in items if isinstance(item, Arrived)]
    return sorted((item.subscription, number) for item in arrived for number in item.numbers)


def in_the_simulator() -> Outcome:
    simulator = simulator_of(5, [*BROKERS, *CLIENTS], make)
    for number, (client, request) in enumerate(REQUESTS):
        simulator.inject(5.0 + STEP * number, client, request)
    simulator.run(until=5.0 + STEP * len(REQUESTS))
    machines: dict[NodeId, Any] = {name: simulator.nodes[name].machine for name in BROKERS}
    events = {name: events_of([it.item for it in simulator.delivered(name)]) for name in CLIENTS}
    return events, {name: tables_of(machine) for name, machine in machines.items()}


def on_sockets() -> Outcome:
    async def scenario() -> Outcome:
        hosts = await started(host_of(5, name, make) for name in [*BROKERS, *CLIENTS])
        items = await confirmed(hosts, REQUESTS)
        # Events have reached the brokers of all who want them; the last hop is to the clients.
        await until(partial(all_taken, hosts, items))
        tables = {name: tables_of(machine) for name, machine in brokers_of(hosts).items()}
        for host in hosts.values():
            await host.stop()
        return {name: events_of(items[name]) for name in CLIENTS}, tables

    return play(scenario())


def all_taken(hosts: dict[NodeId, Host], items: dict[NodeId, list[Any]]) -> bool:
    for name in CLIENTS:
        items[name] += hosts[name].items.take_all()
    return sum(len(events_of(each)) for each in items.values()) >= 5 + 2 * 6 + 2


@pytest.mark.spec("S-11", "D-8")
def test_brokers_deliver_the_same_events_and_end_with_the_same_tables_in_both_worlds() -> None:
    simulated, real = in_the_simulator(), on_sockets()
    assert simulated == real
    events, tables = simulated
    assert events["ben"] == [*((1, number) for number in range(6, 11)), (2, 10), (2, 20)]
    assert events["cat"] == [(1, number) for number in (*range(3, 9), *range(13, 19))]
    assert tables["a"][0]["b"] == ["x = 9", "x >= 2 AND x < 8"]
