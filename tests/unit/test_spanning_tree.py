"""The spanning tree, input by input, and in the simulator together with access."""

from functools import partial
from typing import Any

import pytest

from tests.worlds.puppets import Witness
from tidings.machine.effects import CancelTimer, Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received
from tidings.machine.node import Node
from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.protocols.access.access import Access
from tidings.protocols.access.judge import open_judge
from tidings.protocols.access.params import AccessParams
from tidings.protocols.overlay import spanning_tree as tree
from tidings.protocols.overlay.messages import Join, Joined, Leave, Left, RenewTree, Stay, TreeOffer
from tidings.protocols.overlay.spanning_tree import SpanningTree, SpanningTreeParams
from tidings.pubsub.signals import NeighbourDown, NeighbourUp, PeerDown, PeerUp
from tidings.sim.network.latency import Constant
from tidings.sim.network.rule import Fates, Rule, Wrapper
from tidings.sim.node import Draws
from tidings.sim.simulator import Simulator


def alone(name: str = "m", **params: Any) -> SpanningTree:
    machine = SpanningTree(name, SpanningTreeParams(**params))
    assert machine.start(0.0) == []
    return machine


def run(machine: SpanningTree, *inputs: Any) -> list[Effect]:
    """The effects of the last of these inputs."""
    effects: list[Effect] = []
    for input in inputs:
        effects = machine.handle(1.0, input)
        machine.check()
    return effects


def offers(peer: str, root: str, distance: int, sequence: int = 0) -> Received:
    return Received(peer, TreeOffer(0.0, root, sequence, distance))


def below(parent: str, name: str = "m", **params: Any) -> SpanningTree:
    """A broker that is below `parent`, the root."""
    machine = alone(name, **params)
    run(machine, PeerUp(parent, 1), offers(parent, parent, 0), Received(parent, Joined()))
    assert machine.neighbours == [parent]
    return machine


def test_a_new_peer_is_told_what_we_offer() -> None:
    assert run(alone(), PeerUp("a", 1)) == [Send("a", TreeOffer(0.0, "m", 0, 0))]


def test_a_broker_goes_below_a_lower_root_and_tells_all() -> None:
    machine = alone()
    assert run(machine, PeerUp("a", 1), PeerUp("z", 1), offers("a", "a", 0)) == [
        Send("a", Join()),
        Send("a", TreeOffer(0.0, "a", 0, 1)),
        Send("z", TreeOffer(0.0, "a", 0, 1)),
    ]
    assert run(machine, Received("a", Joined())) == [NeighbourUp("a", 1)]


def test_who_joins_is_a_neighbour_and_hears_the_answer_before_anything_else() -> None:
    assert run(alone(), PeerUp("z", 1), Received("z", Join())) == [Send("z", Joined()), NeighbourUp("z", 1)]


def test_who_offers_a_worse_root_is_left_alone() -> None:
    assert run(alone(), PeerUp("z", 1), offers("z", "z", 0)) == []
    younger = Received("a", TreeOffer(5.0, "a", 0, 0))
    assert run(alone(), PeerUp("a", 1), younger) == []


def test_the_older_of_two_is_the_root_whatever_their_names() -> None:
    machine = alone("a", clock_offset=100.0)
    assert run(machine, PeerUp("z", 1)) == [Send("z", TreeOffer(100.0, "a", 0, 0))]
    older = Received("z", TreeOffer(99.0, "z", 0, 0))
    assert run(machine, older) == [Send("z", Join()), Send("z", TreeOffer(99.0, "z", 0, 1))]


def test_a_broker_says_what_is_still_to_be_found_out() -> None:
    machine = alone()
    assert machine.why_unsettled() == ""
    run(machine, PeerUp("a", 1), PeerUp("z", 1))
    assert machine.why_unsettled() == "not yet in one tree with a, z"
    run(machine, offers("a", "a", 0))
    assert machine.why_unsettled() == "not yet in one tree with z"
    run(machine, offers("z", "a", 2))
    assert machine.why_unsettled() == "joining a"
    run(machine, Received("a", Joined()))
    assert machine.why_unsettled() == ""


def test_an_earlier_life_of_ours_is_no_root_for_us() -> None:
    machine = alone(clock_offset=100.0)
    assert run(machine, PeerUp("z", 1), Received("z", TreeOffer(50.0, "m", 3, 2))) == []


def test_a_better_root_elsewhere_is_joined_only_after_the_old_link_went_down() -> None:
    machine = below("b")
    run(machine, PeerUp("c", 1))
    assert run(machine, offers("c", "a", 3)) == [
        Send("b", TreeOffer(0.0, "a", 0, 4)),
        Send("c", TreeOffer(0.0, "a", 0, 4)),
        Send("b", Leave()),
    ]
    assert run(machine, Received("b", Left())) == [NeighbourDown("b", 1, tree.LEFT), Send("c", Join())]
    assert run(machine, Received("c", Joined())) == [NeighbourUp("c", 2)]


def test_a_lost_link_is_replaced_by_another_way_to_the_same_root() -> None:
    machine = alone()
    run(machine, PeerUp("b", 1), offers("b", "a", 3), Received("b", Joined()))
    run(machine, PeerUp("c", 1), offers("c", "a", 3))
    assert run(machine, PeerDown("b", 1, "gone")) == [NeighbourDown("b", 1, "gone"), Send("c", Join())]


def test_a_shorter_way_is_taken_only_if_it_saves_enough() -> None:
    machine = alone()
    run(machine, PeerUp("b", 1), offers("b", "a", 3), Received("b", Joined()), PeerUp("c", 1))
    assert run(machine, offers("c", "a", 2)) == []
    assert run(machine, offers("c", "a", 1))[-1] == Send("b", Leave())


def test_an_offer_that_may_be_our_own_is_not_taken_and_the_root_is_asked_to_renew() -> None:
    machine = below("a")
    run(machine, PeerUp("z", 1), offers("z", "a", 2))
    effects = run(machine, PeerDown("a", 1, "gone"))
    assert machine.root == (0.0, "m")
    assert effects == [
        NeighbourDown("a", 1, "gone"),
        Send("z", TreeOffer(0.0, "m", 0, 0)),
        Send("z", RenewTree(0.0, "a", 1)),
        SetTimer("renew", 1.5),
    ]
    assert run(machine, offers("z", "a", 2, sequence=1)) == [
        Send("z", Join()),
        Send("z", TreeOffer(0.0, "a", 1, 3)),
        CancelTimer("renew"),
    ]


def test_while_nobody_answers_the_root_is_asked_again_by_another_way() -> None:
    machine = below("a")
    run(machine, PeerUp("y", 1), offers("y", "a", 5), PeerUp("z", 1), offers("z", "a", 2))
    run(machine, PeerDown("a", 1, "gone"))
    assert run(machine, Fired("renew")) == [Send("y", RenewTree(0.0, "a", 1)), SetTimer("renew", 1.5)]
    assert run(machine, Fired("renew")) == [Send("z", RenewTree(0.0, "a", 1)), SetTimer("renew", 1.5)]
    assert run(machine, PeerDown("y", 1), offers("z", "z", 0)) == [CancelTimer("renew")]


def test_a_request_to_renew_goes_up_to_the_root_which_raises_its_sequence_once() -> None:
    machine = below("a")
    assert run(machine, Received("a", RenewTree(0.0, "a", 1))) == [Send("a", RenewTree(0.0, "a", 1))]
    root = alone("a")
    run(root, PeerUp("m", 1), PeerUp("n", 1))
    assert run(root, Received("m", RenewTree(0.0, "a", 1))) == [
        Send("m", TreeOffer(0.0, "a", 1, 0)),
        Send("n", TreeOffer(0.0, "a", 1, 0)),
    ]
    for sequence in (0, 1, 2 + tree.SEQUENCE_STEP_MAX):
        assert run(root, Received("n", RenewTree(0.0, "a", sequence))) == []
    for other in (RenewTree(0.0, "b", 9), RenewTree(-1.0, "a", 9)):
        assert run(root, Received("n", other)) == []


def test_when_the_way_to_the_root_turns_round_the_link_stays_up() -> None:
    """m is the root and z below it; then z hears of a, and m wants to be below z."""
    machine = alone()
    run(machine, PeerUp("z", 1), Received("z", Join()))
    assert run(machine, offers("z", "a", 1)) == [Send("z", Join()), Send("z", TreeOffer(0.0, "a", 0, 2))]
    assert run(machine, Received("z", Leave())) == []
    assert run(machine, Received("z", Joined())) == [Send("z", Left())]
    assert machine.neighbours == ["z"]


def test_who_leaves_for_a_root_that_is_worse_is_asked_to_stay_once() -> None:
    machine = below("a")
    run(machine, PeerUp("z", 1), offers("z", "b", 1), Received("z", Join()))
    assert run(machine, Received("z", Leave())) == [Send("z", Stay())]
    assert run(machine, Received("z", Leave())) == [NeighbourDown("z", 2, tree.LEFT), Send("z", Left())]


def test_who_is_asked_to_stay_keeps_its_claim() -> None:
    machine = below("b")
    run(machine, PeerUp("c", 1), offers("c", "a", 3))
    assert run(machine, offers("b", "a", 1), Received("b", Stay())) == []
    assert machine.neighbours == ["b"]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (TreeOffer(0.0, "b", 0, 0), tree.BAD_OFFER),
        (TreeOffer(0.0, "y", 0, 3), tree.BAD_OFFER),
        (TreeOffer(0.0, "b", 0, 10_000), tree.BAD_OFFER),
        (TreeOffer(0.0, "a", 2**63 - 1, 1), tree.BAD_OFFER),
        (Joined(), tree.NOT_ASKED),
        (Left(), tree.NOT_ASKED),
        (Stay(), tree.NOT_ASKED),
        (Leave(), tree.NOT_JOINED),
    ],
)
def test_what_makes_no_sense_is_dropped_with_a_reason(message: Any, reason: str) -> None:
    assert run(alone(), PeerUp("y", 1), Received("y", message)) == [Drop(message, reason)]
    assert run(alone(), Received("y", message)) == [Drop(message, tree.NOT_A_PEER)]


def test_joining_twice_is_dropped() -> None:
    machine = alone()
    run(machine, PeerUp("y", 1), Received("y", Join()))
    assert run(machine, Received("y", Join())) == [Drop(Join(), tree.JOINED_ALREADY)]


def test_a_root_too_far_away_is_not_joined() -> None:
    machine = alone(distance_max=3)
    assert run(machine, PeerUp("z", 1), offers("z", "a", 3)) == []
    assert run(machine, offers("z", "a", 2))[0] == Send("z", Join())


def test_only_so_many_roots_are_remembered() -> None:
    machine = alone(roots_max=2)
    run(machine, PeerUp("z", 1), *(offers("z", root, 1) for root in "lkjihg"))
    assert list(machine.told) == [(0.0, "h"), (0.0, "g")]


def test_a_restart_with_its_state_takes_the_neighbours_down() -> None:
    machine = below("a")
    assert machine.start(9.0) == [NeighbourDown("a", 1, tree.STARTED_AGAIN)]
    machine.check()


@pytest.mark.parametrize("name", ["distance_max", "gain_min", "renew_after", "roots_max"])
def test_parameters_that_make_no_sense_are_refused_by_name(name: str) -> None:
    with pytest.raises(UsageError, match=f"^{name}:"):
        SpanningTreeParams(**{name: 0})


# With access, in the simulator.


class Partition(Wrapper):
    """Nothing passes between two sides while it lasts."""

    def __init__(self, inner: Rule) -> None:
        super().__init__(inner)
        self.side: set[str] = set()

    def fate(self, now: float, sender: str, to: str, size_bytes: int, transport: Any) -> Fates:
        if (sender in self.side) != (to in self.side):
            return ()
        return self.inner.fate(now, sender, to, size_bytes, transport)


class Listener(Witness):
    """Writes down what the overlay tells, and when."""

    hears = (NeighbourUp, NeighbourDown)

    def __init__(self) -> None:
        self.up: dict[str, int] = {}
        self.changed_at = 0.0

    def see(self, now: float, input: Input) -> None:
        self.changed_at = now
        match input:
            case NeighbourUp(neighbour, epoch):
                assert neighbour not in self.up
                self.up[neighbour] = epoch
            case NeighbourDown(neighbour, epoch):
                assert self.up.pop(neighbour) == epoch


class TreeWorld:
    def __init__(self, names: list[str], edges: list[tuple[str, str]], seed: int) -> None:
        self.names, self.edges = names, edges
        self.network = Partition(Constant(0.02))
        self.simulator = Simulator(seed, self.network, checking=True)
        for name in names:
            links = tuple(other for one, other in edges if one == name)
            self.simulator.add(name, partial(self.broker, name, links))

    def broker(self, name: str, links: tuple[str, ...], draws: Draws) -> Node:
        access = Access(name, AccessParams(links=links), open_judge, draws("access"))
        overlay = SpanningTree(name, SpanningTreeParams())
        return Node({"access": access, "overlay": overlay, "routing": Listener()}, tells=access.tells)

    def listener(self, name: str) -> Listener:
        machine = self.simulator.nodes[name].machine
        assert isinstance(machine, Node)
        routing = machine.parts["routing"]
        assert isinstance(routing, Listener)
        return routing

    def judge(self, names: list[str] | None = None) -> None:
        """A spanning tree of these nodes, which are connected."""
        alive = names or self.names
        up = {name: sorted(self.listener(name).up) for name in alive}
        assert all(name in up[other] for name in alive for other in up[name]), "one end only"
        assert sum(map(len, up.values())) == 2 * (len(alive) - 1)
        reached, ahead = {alive[0]}, [alive[0]]
        while ahead:
            new = [other for other in up[ahead.pop()] if other not in reached]
            reached.update(new)
            ahead += new
        assert reached == set(alive)

    def links(self) -> set[tuple[str, ...]]:
        return {tuple(sorted((name, other))) for name in self.names for other in self.listener(name).up}

    def partition(self, side: set[str]) -> None:
        self.network.side = side
        for one, other in self.edges:
            if (one in side) != (other in side):
                self.simulator.break_link(one, other)


def shape(kind: str, size: int) -> tuple[list[str], list[tuple[str, str]]]:
    names = [f"b{number:02}" for number in range(size)]
    random_stream(size).shuffle(names)
    if kind == "ring":
        return names, [(name, names[(place + 1) % size]) for place, name in enumerate(names)]
    return names, [(one, other) for one in names for other in names if one < other]


@pytest.mark.spec("D-3")
@pytest.mark.parametrize(("kind", "size"), [("ring", 12), ("clique", 8)])
@pytest.mark.parametrize("seed", range(3))
def test_rings_and_cliques_are_trees_again_five_seconds_after_a_partition_heals(
    kind: str, size: int, seed: int
) -> None:
    world = TreeWorld(*shape(kind, size), seed)
    world.simulator.run(5.0)
    world.judge()
    half = set(world.names[: size // 2])
    world.partition(half)
    world.simulator.run(35.0)
    world.judge([name for name in world.names if name in half])
    world.judge([name for name in world.names if name not in half])
    world.partition(set())
    world.simulator.run(40.0)
    world.judge()
    world.simulator.run(60.0)
    assert max(world.listener(name).changed_at for name in world.names) <= 40.0


@pytest.mark.parametrize("seed", range(3))
def test_after_the_death_of_the_root_there_is_a_tree_and_its_return_only_adds_a_link(seed: int) -> None:
    world = TreeWorld(*shape("clique", 8), seed)
    world.simulator.run(5.0)
    root = min(world.names)
    world.simulator.crash(root)
    world.simulator.run(10.0)
    world.judge([name for name in world.names if name != root])
    tree = {link for link in world.links() if root not in link}
    world.simulator.restart(root, keep_state=False)
    world.simulator.run(15.0)
    world.judge()
    assert world.links() > tree, "a broker that came back turned over the tree"


def test_a_network_in_which_nothing_happens_is_silent() -> None:
    world = TreeWorld(*shape("ring", 6), seed=1)
    world.simulator.run(5.0)
    sent = world.simulator.counters().sent
    world.simulator.run(100.0)
    assert world.simulator.counters().sent == sent


def test_of_the_six_links_of_a_ring_five_carry_events() -> None:
    world = TreeWorld(*shape("ring", 6), seed=1)
    world.simulator.run(5.0)
    assert len(world.simulator.links.live) == 6
    assert len(world.links()) == 5


def test_a_link_that_nobody_configured_is_left_alone_unless_the_other_end_offers_it() -> None:
    tree = SpanningTree("b", SpanningTreeParams())
    tree.start(5.0)
    assert tree.handle(6.0, PeerUp("beside", 1, is_configured=False)) == []
    assert tree.why_unsettled() == "" and tree.neighbours == []
    # Where it is configured at the other end, that end begins.
    effects = tree.handle(6.0, PeerUp("a", 1, is_configured=False))
    assert effects == []
    effects = tree.handle(6.1, Received("a", TreeOffer(1.0, "a", 0, 0)))
    assert [effect.message for effect in effects if isinstance(effect, Send)][:2] == [TreeOffer(5.0, "b", 0, 0), Join()]
    assert {effect.to for effect in effects if isinstance(effect, Send)} == {"a"}, "nothing for the other one"
    tree.check()
