"""Brokers that store and forward: nothing is lost or overtakes, and whoever is too fast waits."""

from functools import partial
from typing import Any

import pytest

from tidings.lab.transport.network.store_and_forward import (
    PUBLISHER_BLOCKED,
    PatientPublisher,
    StoreAndForward,
    StoreAndForwardNetwork,
    StoreParams,
)
from tidings.lab.transport.substrate import SubstrateParams, named
from tidings.machine.effects import Drop, Send, SetTimer
from tidings.machine.inputs import Fired, Received
from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.protocols.routing.destinations.messages import Directed, LinkState
from tidings.pubsub.client import Accepted
from tidings.pubsub.publications import Publications, encode_head
from tidings.pubsub.requests import Publish
from tidings.pubsub.signals import NeighbourUp
from tidings.sim.topologies.shapes import chain
from tidings.trace.writers import RingBuffer

EVERYTHING = 1_000_000


def batch(number: int) -> Publications:
    return Publications("p", "p", 0.0, 0, (number,), (encode_head({"a": 1}),), (b"",))


def for_b(number: int) -> Directed:
    return Directed(("b",), 5, batch(number))


def broker(store_max: int = 2, window: int = 1) -> StoreAndForward:
    """It stands between `a`, which sends, and `b`, which it sends to."""
    made = StoreAndForward("m", StoreParams(0.01, store_max, window), random_stream(1, "work"))
    made.start(0.0)
    for neighbour in ("a", "b"):
        made.handle(0.0, NeighbourUp(neighbour, 1))
        made.handle(0.0, Received(neighbour, LinkState(neighbour, 1, ("m",))))
    return made


def sends(effects: list[Any]) -> list[tuple[str, Any]]:
    return [(effect.to, effect.message) for effect in effects if isinstance(effect, Send)]


def test_a_message_is_acknowledged_when_it_is_stored_and_goes_on_when_it_was_handled() -> None:
    machine = broker()
    stored = machine.handle(1.0, Received("a", for_b(1)))
    assert sends(stored) == [("a", Accepted(1))]
    assert [effect.key for effect in stored if isinstance(effect, SetTimer)] == ["work"]
    assert sends(machine.handle(1.01, Fired("work"))) == [("b", Directed(("b",), 4, batch(1)))]
    machine.check()


def test_with_a_full_window_the_worker_waits_until_the_next_broker_accepts() -> None:
    machine = broker(window=1)
    for number in (1, 2):
        machine.handle(1.0, Received("a", for_b(number)))
    machine.handle(1.1, Fired("work"))
    assert sends(machine.handle(1.2, Fired("work"))) == []
    assert sends(machine.handle(1.3, Received("b", Accepted(1)))) == [("b", Directed(("b",), 4, batch(2)))]
    machine.check()


def test_what_finds_the_store_full_is_not_acknowledged_until_a_place_is_free() -> None:
    machine = broker(store_max=2)
    acknowledged = [sends(machine.handle(1.0, Received("a", for_b(number)))) for number in (1, 2, 3)]
    assert acknowledged == [[("a", Accepted(1))], [("a", Accepted(2))], []]
    assert ("a", Accepted(3)) in sends(machine.handle(1.1, Fired("work")))
    machine.check()


def test_a_publisher_that_was_not_acknowledged_publishes_nothing() -> None:
    client = PatientPublisher("p", "m")
    first, second = named("p", 1, {"a": 1}), named("p", 2, {"a": 1})
    assert [to for to, _ in sends(client.handle(0.0, Publish(first)))] == ["m"]
    assert client.handle(0.1, Publish(second)) == [Drop(second, PUBLISHER_BLOCKED)]
    client.handle(0.2, Received("m", Accepted(1)))
    assert [to for to, _ in sends(client.handle(0.3, Publish(second)))] == ["m"]


def test_parameters_must_be_above_zero() -> None:
    with pytest.raises(UsageError, match="window"):
        StoreParams(0.01, 10, 0)


def test_an_overloaded_network_loses_nothing_and_keeps_the_order() -> None:
    """Thirty times as much as brokers can handle, for a short while."""
    trace = RingBuffer(EVERYTHING, "run", 1)
    params = SubstrateParams(workers=1, handling=0.05)
    network = StoreAndForwardNetwork(1, trace, chain(3), params, {"p": "n0"}, {"n2": ["a = 1"]})
    for number in range(60):
        network.simulator.call_at(20.0 + number / 600, partial(network.publish, named("p", number, {"a": 1})))
    network.simulator.run(200.0)
    network.simulator.check()
    records = trace.records()
    withheld = [record for record in records if record.kind == "drop"]
    delivered = [int((record.key or "").split()[1]) for record in records if record.kind == "deliver"]
    assert {record.reason for record in withheld} <= {PUBLISHER_BLOCKED}
    assert len(delivered) + len(withheld) == 60
    assert delivered == sorted(delivered)


def test_two_brokers_with_full_stores_and_messages_for_each_other_stand_still() -> None:
    """The lock-up: a message each, under way to the other, would free both."""
    params = StoreParams(0.01, store_max=1, window=1)
    machines = {name: StoreAndForward(name, params, random_stream(1, name)) for name in ("a", "b")}
    for name, other in (("a", "b"), ("b", "a")):
        machines[name].start(0.0)
        machines[name].handle(0.0, NeighbourUp(other, 1))
        machines[name].handle(0.0, Received(other, LinkState(other, 1, (name,))))
    for name, other in (("a", "b"), ("b", "a")):
        machine = machines[name]
        # One is under way and not accepted, one is handled and waits for its turn, one waits at the door.
        for number in (1, 2):
            machine.handle(1.0, Received(f"client of {name}", Directed((other,), 5, batch(number))))
            machine.handle(1.1, Fired("work"))
        assert sends(machine.handle(1.2, Received(other, Directed((name,), 4, batch(1))))) == []
        assert machine.is_handled
        machine.check()
