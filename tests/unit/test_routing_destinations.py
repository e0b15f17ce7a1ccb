"""Routing by destination, input by input."""

from functools import partial
from typing import Any

import pytest

from tests.worlds.puppets import Witness
from tidings.machine.effects import CancelTimer, Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.machine.node import Node
from tidings.matching.bloom import BloomProfile, message_bits_match_filter_bits
from tidings.model.bounds import DESTINATIONS_MAX, NEIGHBOURS_MAX
from tidings.model.errors import UsageError
from tidings.model.language.parser import parse
from tidings.protocols.access.access import Access
from tidings.protocols.access.judge import open_judge
from tidings.protocols.access.params import AccessParams
from tidings.protocols.overlay.overlay import AllPeers
from tidings.protocols.routing.destinations import knowledge as drp_knowledge
from tidings.protocols.routing.destinations import router as destinations
from tidings.protocols.routing.destinations import router as drp_queues
from tidings.protocols.routing.destinations.knowledge import EVERYTHING, rows_of
from tidings.protocols.routing.destinations.messages import Directed, LinkState, Predicates
from tidings.protocols.routing.destinations.params import DestinationParams
from tidings.protocols.routing.destinations.router import DestinationRouter
from tidings.pubsub.publications import Publications, encode_head
from tidings.pubsub.signals import (
    ClientDown,
    ClientUp,
    Forgotten,
    Forward,
    Known,
    LinkFailed,
    Matched,
    NeighbourDown,
    NeighbourUp,
    Offer,
    PeerDown,
    PeerUp,
    Settled,
    Unoffer,
    Unwant,
    Want,
)
from tidings.sim.network.latency import Constant
from tidings.sim.node import Draws
from tidings.sim.simulator import Simulator

A1 = parse("a = 1")
PROFILE = BloomProfile()


def batch(*values: int, first: int = 1) -> Publications:
    heads = tuple(encode_head({"a": value}) for value in values)
    numbers = tuple(range(first, first + len(values)))
    return Publications("p", "p/1", 0.0, 0, numbers, heads, tuple(b"" for _ in values))


def router(*neighbours: str, **params: Any) -> DestinationRouter:
    made = DestinationRouter("m", DestinationParams(**params))
    made.start(0.0)
    run(made, *(NeighbourUp(name, 1) for name in neighbours))
    return made


def run(machine: DestinationRouter, *inputs: Any, now: float = 1.0) -> list[Effect]:
    effects: list[Effect] = []
    for input in inputs:
        effects = machine.handle(now, input)
        machine.check()
    return effects


def wants(broker: str, *texts: str, version: int = 1) -> Predicates:
    rows = rows_of([parse(text) for text in texts], PROFILE, 100)
    data = b"".join(row.to_bytes(PROFILE.size_bytes, "little") for row in rows)
    return Predicates(broker, version, PROFILE.bits, PROFILE.hashes, PROFILE.seed, data)


def star(*rays: str, texts: tuple[str, ...] = ("a = 1",), **params: Any) -> DestinationRouter:
    """m in the middle, each ray a broker that wants these."""
    middle = router(*rays, **params)
    for ray in rays:
        run(middle, Received(ray, LinkState(ray, 1, ("m",))), Received(ray, wants(ray, *texts)))
    return middle


def directed(effects: list[Effect]) -> list[Send]:
    return [effect for effect in effects if isinstance(effect, Send) and isinstance(effect.message, Directed)]


def test_what_clients_want_is_flooded_once_for_all_changes_in_a_while() -> None:
    machine = router("b", "c")
    assert run(machine, Want(("x", 1), A1)) == [SetTimer("announce", 1.05)]
    assert run(machine, Want(("x", 2), parse("b = 2"))) == []
    told = wants("m", "a = 1", "b = 2")
    assert run(machine, Fired("announce")) == [Send("b", told), Send("c", told)]
    run(machine, Unwant(("x", 1)), Want(("x", 1), A1))
    assert run(machine, Fired("announce")) == []


def test_requests_are_settled_at_once_by_this_broker_alone() -> None:
    machine = router()
    assert run(machine, Want(("x", 1), A1, ticket=1))[-1] == Settled(1, ("m",), 1)
    assert run(machine, Unwant(("x", 1), ticket=2))[-1] == Settled(2, ("m",), 1)
    assert run(machine, Offer("p/1", "p", A1, ticket=3)) == [Known("p/1", "p", A1, None), Settled(3, ("m",), 1)]
    assert run(machine, Unoffer("p/1", ticket=4)) == [Forgotten("p/1"), Settled(4, ("m",), 1)]
    assert run(machine, Unoffer("p/1")) == []


def test_who_asks_whether_its_publications_arrived_is_told_that_nobody_can_say() -> None:
    assert run(router(), Forward(batch(1), ticket=5)) == [Settled(5, problem=destinations.NO_RECEIPTS)]


@pytest.mark.spec("T-12")
def test_clients_of_the_home_and_of_a_destination_get_what_matches_exactly() -> None:
    machine = router("b")
    run(machine, Want(("x", 1), A1), Want(("y", 1), parse("a < 3")))
    assert run(machine, Forward(batch(1, 2, 3))) == [Matched(batch(1, 2), [(("x", 1), ("y", 1)), (("y", 1),)])]
    assert run(machine, Received("b", Directed(("m",), 3, batch(2, 3)))) == [Matched(batch(2), [(("y", 1),)])]


@pytest.mark.spec("T-11")
def test_where_ways_part_each_copy_takes_the_destinations_on_its_side() -> None:
    machine = star("b", "c")
    run(machine, Received("b", LinkState("d", 1, ("b",))), Received("b", LinkState("b", 2, ("m", "d"))))
    run(machine, Received("b", wants("d", "a = 1")))
    assert directed(run(machine, Forward(batch(1)))) == [
        Send("b", Directed(("b", "d"), 255, batch(1))),
        Send("c", Directed(("c",), 255, batch(1))),
    ]
    assert run(machine, Received("c", Directed(("d", "m", "b"), 7, batch(1))), now=2.0) == [
        Send("b", Directed(("b", "d"), 6, batch(1)))
    ]


def test_publications_with_the_same_destinations_travel_together() -> None:
    machine = star("b")
    run(machine, NeighbourUp("c", 2), Received("c", LinkState("c", 1, ("m",))), Received("c", wants("c", "a = 2")))
    assert directed(run(machine, Forward(batch(1, 2, 1, 3)))) == [
        Send("b", Directed(("b",), 255, Publications("p", "p/1", 0.0, 0, (1, 3), *[(one, one) for one in cells(1)]))),
        Send("c", Directed(("c",), 255, batch(2, first=2))),
    ]


def cells(value: int) -> tuple[bytes, bytes]:
    return encode_head({"a": value}), b""


def test_many_destinations_behind_one_hop_are_split_over_several_messages() -> None:
    machine = router("b", brokers_max=500)
    others = tuple(f"x{number:03}" for number in range(150))
    run(machine, Received("b", LinkState("b", 1, ("m", *others))))
    for name in others:
        run(machine, Received("b", LinkState(name, 1, ("b",))), Received("b", wants(name, "a = 1")))
    sent = run(machine, Forward(batch(1)), now=9.0)
    rest = run(machine, Fired(("serve", "b")), now=10.0)
    counts = [len(send.message.destinations) for send in directed(sent) + directed(rest)]
    assert counts == [DESTINATIONS_MAX, 50]


@pytest.mark.spec("T-13")
def test_what_does_not_fit_the_queue_is_dropped_and_nobody_is_told() -> None:
    machine = star("b", rate_max=1.0, queue_max=2)
    assert directed(run(machine, Forward(batch(1)))) != []
    assert run(machine, Forward(batch(1))) == [SetTimer(("serve", "b"), 2.0)]
    assert run(machine, Forward(batch(1))) == []
    (drop,) = run(machine, Forward(batch(1)))
    assert (drop.item, drop.reason) == (Directed(("b",), 255, batch(1)), drp_queues.QUEUE_FULL)
    served = run(machine, Fired(("serve", "b")), now=2.0)
    assert served == [Send("b", Directed(("b",), 255, batch(1))), SetTimer(("serve", "b"), 3.0)]


def test_what_waits_for_a_neighbour_that_goes_is_dropped() -> None:
    machine = star("b", rate_max=1.0)
    run(machine, Forward(batch(1)), Forward(batch(1)))
    cancelled, drop = run(machine, NeighbourDown("b", 1))
    assert cancelled == CancelTimer(("serve", "b"))
    assert drop.reason == drp_queues.NEIGHBOUR_GONE


def test_a_destination_that_cannot_be_reached_and_a_way_that_is_too_long_are_dropped() -> None:
    machine = star("b")
    (lost,) = run(machine, Received("b", Directed(("nowhere",), 3, batch(1))))
    assert lost.reason == destinations.NO_ROUTE
    (tired,) = run(machine, Received("b", Directed(("b",), 0, batch(1))))
    assert tired.reason == destinations.TOO_MANY_HOPS


def test_a_link_counts_when_both_ends_tell_of_it() -> None:
    machine = router("b")
    run(machine, Received("b", LinkState("b", 1, ("m", "c"))))
    assert list(machine.knowledge.topology.routes()) == ["b"]
    run(machine, Received("b", LinkState("c", 1, ("b",))))
    assert machine.knowledge.topology.routes() == {"b": "b", "c": "b"}


def test_news_is_passed_on_and_what_is_old_is_answered_with_the_newer() -> None:
    machine = router("b", "c")
    new, old = LinkState("x", 2, ("y",)), LinkState("x", 1, ())
    assert run(machine, Received("b", new)) == [Send("c", new)]
    assert run(machine, Received("c", new)) == []
    assert run(machine, Received("c", old)) == [Send("c", new)]
    assert run(machine, Received("b", wants("x", "a = 1", version=2))) == [Send("c", wants("x", "a = 1", version=2))]
    assert run(machine, Received("b", wants("x", version=1))) == [Send("b", wants("x", "a = 1", version=2))]


def test_a_new_neighbour_is_told_everything() -> None:
    machine = star("b")
    effects = run(machine, NeighbourUp("c", 1))
    told = [effect.message for effect in effects if effect.to == "c"]
    assert {(type(message).__name__, message.broker) for message in told} == {
        *(("LinkState", name) for name in ("m", "b")),
        *(("Predicates", name) for name in ("m", "b")),
    }


def test_what_an_earlier_life_of_ours_told_is_overruled() -> None:
    machine = router("b")
    (links,) = run(machine, Received("b", LinkState("m", 9, ("x",))))
    assert links == Send("b", LinkState("m", 10, ("b",)))
    (rows,) = run(machine, Received("b", wants("m", "a = 1", version=9)))
    assert rows == Send("b", wants("m", version=10))
    assert run(machine, Received("b", wants("m", version=10))) == []


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Predicates("x", 1, 128, 4, 0, bytes(16)), drp_knowledge.OTHER_PROFILE),
        (Predicates("x", 1, 256, 4, 0, bytes(33)), drp_knowledge.BAD_ROWS),
        (Predicates("x", 1, 256, 4, 0, b"\xff" * 32), drp_knowledge.BAD_ROWS),
    ],
)
def test_rows_that_cannot_be_used_are_dropped_with_a_reason(message: Predicates, reason: str) -> None:
    assert run(router("b"), Received("b", message)) == [Drop(message, reason)]


def test_strangers_are_not_heard() -> None:
    message = LinkState("x", 1, ())
    assert run(router("b"), Received("s", message)) == [Drop(message, destinations.NOT_A_NEIGHBOUR)]


def test_a_head_that_cannot_be_read_is_dropped_and_the_others_go_on() -> None:
    broken = Publications("p", "p/1", 0.0, 0, (1, 2), (b"\xc1", encode_head({"a": 1})), (b"", b""))
    drop, sent = run(star("b"), Forward(broken))
    assert drop.reason == destinations.BAD_HEAD
    assert sent.message.batch.numbers == (2,)
    machine = star("b")
    run(machine, Want(("x", 1), A1))
    (drop,) = run(machine, Received("b", Directed(("m",), 1, broken)))
    assert drop.reason == destinations.BAD_HEAD


def test_when_too_many_brokers_are_known_one_that_cannot_be_reached_makes_room() -> None:
    machine = star("b", brokers_max=3)
    run(machine, Received("b", LinkState("lost", 1, ())))
    new = LinkState("new", 1, ("b",))
    assert run(machine, Received("b", new)) == []
    assert "lost" not in machine.knowledge.topology.lists
    run(machine, Received("b", LinkState("b", 2, ("m", "new"))))
    more = LinkState("more", 1, ())
    assert run(machine, Received("b", more)) == [Drop(more, drp_knowledge.TOO_MANY_BROKERS)]
    assert run(machine, Received("b", wants("new", "a = 1"))) == []
    one = wants("one", "a = 1")
    assert run(machine, Received("b", one)) == [Drop(one, drp_knowledge.TOO_MANY_BROKERS)]


def test_more_neighbours_than_can_be_told_of_are_refused() -> None:
    machine = router(*(f"n{number}" for number in range(NEIGHBOURS_MAX)))
    assert run(machine, NeighbourUp("more", 1)) == [Drop("more", destinations.TOO_MANY_NEIGHBOURS)]


def test_the_memo_of_destinations_is_bounded() -> None:
    machine = star("b", memo_max=2)
    for value in range(5):
        run(machine, Forward(batch(value)))
    assert len(machine.memo) <= 2


def test_rows_keep_to_their_bounds_and_never_lose_a_match() -> None:
    assert rows_of([parse(f"a = {number}") for number in range(20)], PROFILE, rows_max=5) == EVERYTHING
    narrow, wide = parse("a = 1 AND b = 2"), parse("EXISTS a")
    assert rows_of([narrow, wide], PROFILE, 10) == rows_of([wide], PROFILE, 10)
    small = BloomProfile(bits=8, hashes=4)
    (row,) = rows_of([parse("a = 1 AND b = 2 AND c = 3 AND d = 4")], small, 10)
    assert message_bits_match_filter_bits(0xFF, row)
    assert row.bit_count() <= 4


def test_a_restart_with_its_state_begins_without_neighbours() -> None:
    machine = star("b")
    machine.start(2.0)
    machine.check()
    assert machine.neighbours == []


def test_every_peer_is_a_neighbour_of_the_plainest_overlay() -> None:
    overlay = AllPeers("m")
    assert overlay.start(0.0) == []
    assert overlay.handle(0.0, PeerUp("b", 3)) == [NeighbourUp("b", 3)]
    assert overlay.handle(0.0, PeerUp("b", 3)) == []
    assert overlay.neighbours == ["b"]
    assert overlay.handle(0.0, PeerDown("b", 3, "gone")) == [NeighbourDown("b", 3, "gone")]
    assert overlay.handle(0.0, PeerDown("b", 3, "gone")) == []
    overlay.handle(0.0, PeerUp("b", 4))
    assert overlay.start(1.0) == [NeighbourDown("b", 4, "started again")]
    overlay.check()


UNHEARD: tuple[type[Signal], ...] = (ClientUp, ClientDown, LinkFailed, Settled, Known, Forgotten)


class Home(Witness):
    """In the place of delivery: writes down what the clients of this broker get."""

    hears = (Matched,)

    def __init__(self) -> None:
        self.got: list[tuple[str, int]] = []

    def see(self, now: float, input: Input) -> None:
        if isinstance(input, Matched):
            self.got += [(input.batch.publisher, number) for number in input.batch.numbers]


def broker(name: str, links: tuple[str, ...], draws: Draws) -> Node:
    access = Access(name, AccessParams(links=links), open_judge, draws("access"))
    routing = DestinationRouter(name, DestinationParams())
    return Node({"access": access, "overlay": AllPeers("m"), "routing": routing, "delivery": Home()}, tells=UNHEARD)


@pytest.mark.spec("T-10")
def test_a_ring_of_whole_nodes_carries_every_event_once_and_goes_round_a_broker_that_died() -> None:
    names = [f"b{number}" for number in range(8)]
    simulator = Simulator(1, Constant(0.01), checking=True)
    for place, name in enumerate(names):
        simulator.add(name, partial(broker, name, (names[(place + 1) % len(names)],)))
    for name in names[::2]:
        simulator.inject(1.0, name, Want(("c", 1), A1))
    for number in range(10):
        simulator.inject(2.0 + number, "b1", Forward(batch(1, first=number)))
    simulator.call_at(6.5, lambda: simulator.crash("b2"))
    simulator.run(15.0)
    homes = {name: home_of(simulator, name) for name in names}
    everything = [("p", number) for number in range(10)]
    assert [homes[name].got for name in names if name != "b2"] == [
        everything if name in names[::2] else [] for name in names if name != "b2"
    ]
    assert homes["b2"].got == everything[:5]


def home_of(simulator: Simulator, name: str) -> Home:
    machine = simulator.nodes[name].machine
    assert isinstance(machine, Node)
    home = machine.parts["delivery"]
    assert isinstance(home, Home)
    return home


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"rows_max": 0}, "rows_max"),
        ({"rows_max": 100_000}, "rows_max"),
        ({"announce_after": 0.0}, "announce_after"),
        ({"rate_max": float("inf")}, "rate_max"),
        ({"queue_max": 0}, "queue_max"),
        ({"brokers_max": 0}, "brokers_max"),
        ({"memo_max": 0}, "memo_max"),
    ],
)
def test_parameters_that_make_no_sense_are_refused_by_name(params: dict[str, Any], name: str) -> None:
    with pytest.raises(UsageError, match=f"^{name}:"):
        DestinationParams(**params)
