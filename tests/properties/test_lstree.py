"""Trees that find and mend themselves, under everything that may happen to their brokers.

`TreeWorld` asserts after every step that places rise and that there is no circle; here things are done to it.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.message_strategies import of_message
from tests.worlds.trees import TreeWorld, internet
from tidings.machine.effects import Effect, Send, SetTimer, Transport
from tidings.machine.inputs import Fired, Input, Received
from tidings.machine.message import Contact, Message
from tidings.machine.streams import RandomStream, random_stream
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.nodes.dispatcher import Dispatcher
from tidings.protocols.overlay.lstree.lstree import LsTree
from tidings.protocols.overlay.lstree.messages import (
    ColourUpdate,
    DepthsSpent,
    GlobalUpdate,
    MergeHint,
    ParentAccept,
    ParentRefuse,
    ParentRequest,
    RegionalUpdate,
)
from tidings.protocols.overlay.lstree.order import BrokerPlace, Colour, comes_before, may_be_below
from tidings.protocols.overlay.lstree.params import INSTANCES, LsTreeParams
from tidings.protocols.routing.params import RoutingParams
from tidings.pubsub.client import Arrived, OpenAdvertisement, OpenSubscription
from tidings.pubsub.requests import Publish
from tidings.sim.network.latency import Drawn, Pareto
from tidings.sim.network.loss import STREAM_GIVEN_UP
from tidings.sim.network.rule import Fates, Wrapper
from tidings.sim.node import SimulatedNode
from tidings.sim.observers import Observer
from tidings.wire import decode, encode

COLOURS = st.builds(Colour, st.integers(0, 3), st.sampled_from(["a", "b", "c"]))
PLACES = st.builds(BrokerPlace, COLOURS, st.sampled_from([0.0, 0.5, 1.0, 1.5]))


@pytest.mark.spec("D-71")
@given(COLOURS, COLOURS, COLOURS)
def test_colours_are_strictly_and_totally_ordered(one: Colour, other: Colour, third: Colour) -> None:
    assert (one == other) + comes_before(one, other) + comes_before(other, one) == 1
    assert not (comes_before(one, other) and comes_before(other, third)) or comes_before(one, third)


@pytest.mark.spec("D-71")
@given(PLACES, PLACES, PLACES)
def test_places_are_strictly_and_weakly_ordered(one: BrokerPlace, other: BrokerPlace, third: BrokerPlace) -> None:
    assert not may_be_below(one, one)
    assert not (may_be_below(one, other) and may_be_below(other, one))
    assert not (may_be_below(one, other) and may_be_below(other, third)) or may_be_below(one, third)
    # Those that are not ordered are equally high: as to any third, too.
    if not may_be_below(one, other) and not may_be_below(other, one):
        assert may_be_below(one, third) == may_be_below(other, third)


@pytest.mark.spec("D-3")
@pytest.mark.spec("D-72")
@pytest.mark.spec("D-73")
@pytest.mark.spec("D-74")
@pytest.mark.spec("D-75")
@pytest.mark.spec("D-81")
@pytest.mark.parametrize("seed", range(6))
def test_brokers_that_come_and_go_end_in_one_tree_and_never_make_a_circle(seed: int) -> None:
    """Any delays: those of the network have no upper end."""
    draw = random_stream(seed, "churn")
    instance = draw.choice(INSTANCES)
    params = LsTreeParams(
        instance=instance, request_timeout=draw.choice([0.2, 0.5]), merge_period=5.0, gossip_period=10.0
    )
    world = TreeWorld(seed, 20, params, network=Drawn(Pareto(0.01, 1.3)))
    for number in range(40):
        world.run(draw.uniform(0.0, 2.0))
        away = [name for name, node in world.simulator.nodes.items() if node.process is None]
        match draw.below(5):
            case 0:
                world.add(f"n{number}")
            case 1 | 2 if len(world.names) > 10:
                world.crash(*draw.sample(world.names, 1 + draw.below(3)), is_silent=draw.random() < 0.3)
            case 3 if away:
                # What knows nobody but those who are gone could find nobody.
                world.simulator.restart(draw.choice(away), keep_state=True)
            case _ if links := world.links():
                world.simulator.break_link(*draw.choice(links), noticed_after=draw.random())
    world.run(300.0)
    # Some may know nobody any more but those who are gone; all others are one tree.
    world.assert_trees(len(world.acquainted()))


@pytest.mark.parametrize("seed", range(4))
def test_depths_of_hops_keep_the_same_promises(seed: int) -> None:
    draw = random_stream(seed, "hops")
    world = TreeWorld(seed, 25, LsTreeParams(instance="DUmRGM", is_integer=True, request_timeout=0.5, merge_period=5.0))
    world.run(10.0)
    for _ in range(6):
        world.crash(*draw.sample(world.names, 2))
        world.run(draw.uniform(0.0, 3.0))
    world.run(60.0)
    world.assert_one_tree()
    for child, parent in world.links():
        assert world.trees[child].kin.place.depth == world.trees[parent].kin.place.depth + 1


@pytest.mark.spec("D-94")
@pytest.mark.parametrize("seed", range(5))
def test_a_broker_that_fails_costs_a_link_for_each_below_it_and_one_that_joins_a_link(seed: int) -> None:
    world = TreeWorld(seed, 30)
    world.run(10.0)
    world.assert_one_tree()
    before = set(world.links())
    world.add("new")
    world.run(5.0)
    (joined,) = set(world.links()) - before
    assert joined[0] == "new"
    inner = [name for name in world.names if world.trees[name].kin.below and name not in world.roots]
    failing = world.draws.choice(inner)
    children = set(world.trees[failing].kin.below)
    before = set(world.links())
    world.crash(failing)
    world.run(20.0)
    world.assert_one_tree()
    assert {child for child, _ in set(world.links()) - before} == children


@pytest.mark.spec("D-95")
@pytest.mark.parametrize("seed", range(5))
def test_one_of_the_children_of_a_root_that_fails_becomes_the_root(seed: int) -> None:
    world = TreeWorld(seed, 25)
    world.run(10.0)
    (root,) = world.roots
    children = set(world.trees[root].kin.below)
    untouched = {(child, parent) for child, parent in world.links() if parent != root}
    world.crash(root)
    world.run(30.0)
    world.assert_one_tree()
    assert world.roots[0] in children
    assert untouched <= set(world.links())


class DegreeWatcher(Observer):
    """The most neighbours that anybody ever had, counting the one above that a broker looks for."""

    def __init__(self) -> None:
        self.top = 0

    def on_step(self, now: float, node: SimulatedNode) -> None:
        machine = node.machine
        assert isinstance(machine, Dispatcher) and isinstance(machine.overlay, LsTree)
        self.top = max(self.top, len(machine.overlay.neighbours) + (machine.overlay.seeker.lost is not None))


@pytest.mark.spec("D-91")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("nearer_period", [0.0, 2.0])
def test_where_there_is_one_tree_rdgm_never_takes_more_than_it_may(seed: int, nearer_period: float) -> None:
    """At no moment, while brokers other than the root die and others come; also where they move."""
    watcher, params = DegreeWatcher(), LsTreeParams(nearer_first=0.5, nearer_period=nearer_period, nearer_least=0.0)
    world = TreeWorld(seed, 40, params, observers=[watcher], is_watched=True)
    world.run(10.0)
    for number in range(12):
        (root,) = world.roots
        inner = [name for name in world.names if world.trees[name].kin.below and name != root]
        world.crash(world.draws.choice(inner))
        world.add(f"n{number}")
        world.run(world.draws.uniform(3.0, 6.0))
    world.run(10.0)
    assert len(world.roots) == 1 and watcher.top == params.degree_max


@pytest.mark.spec("D-96")
@pytest.mark.parametrize("seed", range(5))
def test_two_trees_whose_roots_know_anybody_of_the_other_become_one(seed: int) -> None:
    world = TreeWorld(seed)
    for side in "ab":
        world.add(f"{side}0", contacts=())
        for number in range(1, 12):
            world.add(f"{side}{number}", contacts=(f"{side}{number - 1}",), at=number * 0.2)
    world.run(10.0)
    assert len(world.roots) == 2
    first, second = world.roots
    winner = max(world.roots, key=lambda name: (world.trees[name].kin.place.colour.length, name == "a0"))
    loser = second if winner == first else first
    # Each knows one of the other tree: the one that has to go below hears of it, whichever of them asks.
    world.trees[first].exchange.cache.add([Contact(f"{second[0]}7")])
    world.trees[second].exchange.cache.add([Contact(f"{first[0]}7")])
    world.run(120.0)
    world.assert_one_tree()
    above = world.trees[loser].kin.above
    assert above is not None and above.contact.node[0] == winner[0]


@pytest.mark.spec("D-145")
@pytest.mark.parametrize("seed", range(5))
def test_survivors_whose_contacts_connect_them_end_in_one_tree(seed: int) -> None:
    world = TreeWorld(seed, 40)
    world.run(15.0)
    world.crash(*world.draws.sample(world.names, 10 + world.draws.below(25)))
    circles = world.acquainted()
    world.run(300.0)
    world.assert_trees(len(circles))


@pytest.mark.spec("D-82")
def test_new_depths_leave_everybody_below_the_one_above() -> None:
    world = TreeWorld(3, 40)
    world.run(10.0)
    (root,) = world.roots
    before = world.trees[root].kin.place.colour
    world.simulator.inject(world.simulator.now, root, Fired(("overlay", "redistribute")))
    world.run(5.0)
    world.assert_one_tree()
    assert world.trees[root].kin.place.colour.length == before.length + 1
    for child, parent in world.links():
        assert world.trees[child].kin.place.depth > world.trees[parent].kin.place.depth


@pytest.mark.spec("D-89")
@pytest.mark.parametrize("seed", range(3))
def test_caches_full_of_nonsense_break_nothing(seed: int) -> None:
    """Whoever a broker believes to be around it: below itself, above itself, or nobody at all."""
    draw = random_stream(seed, "nonsense")
    world = TreeWorld(seed, 25)
    world.run(10.0)
    for _ in range(20):
        tree = world.trees[draw.choice(world.names)]
        others = [Contact(name) for name in draw.sample(world.names, 4)]
        tree.kin.regional.ancestors = tuple(others[:3])
        tree.kin.regional.siblings = (Contact("nobody"), Contact(tree.node_id), *others[3:])
        world.crash(draw.choice([name for name in world.names if name != tree.node_id]))
        world.run(draw.uniform(0.0, 1.0))
        if len(world.names) < 12:
            break
    world.run(300.0)
    # Whom they know by now may not connect them all; the watcher has seen every step.
    world.assert_trees(len(world.acquainted()))


LIES = (ParentAccept, ParentRefuse, ParentRequest, ColourUpdate, RegionalUpdate, GlobalUpdate)


@given(st.data())
def test_a_liar_makes_no_circle_among_the_others_no_phantom_and_nothing_unbounded(data: st.DataObject) -> None:
    """A peer of everybody that says anything at any time, also as the one above or below."""
    world = TreeWorld(data.draw(st.integers(0, 1000)), 8, LsTreeParams(request_timeout=0.3, degree_max=3))
    world.simulator.add("liar", lambda draws: Liar(draws("lies")), at=0.0)
    for number in range(4):
        world.add(f"n{number}", contacts=("liar", f"d{number}"), at=1.0)
    world.run(2.0)
    for _ in range(data.draw(st.integers(1, 12))):
        name = data.draw(st.sampled_from([name for name in world.names if name != "liar"]))
        lie = data.draw(st.one_of([of_message(kind) for kind in LIES]))
        world.simulator.inject(world.simulator.now, name, Received("liar", decode(encode(lie))))
        world.run(0.5)
    world.crash("liar")
    world.run(20.0)
    for name in world.names:
        tree = world.trees[name]
        tree.check()
        assert "liar" not in tree.neighbours
        assert set(tree.neighbours) <= set(world.names), "a neighbour that is not there"
    world.assert_symmetric()


class Liar:
    """Accepts whoever asks, under a place that changes with its mood, and claims to be below whoever it meets."""

    def __init__(self, rng: RandomStream) -> None:
        self.rng, self.met = rng, list[str]()

    def start(self, now: float) -> list[Effect]:
        return [SetTimer("mood", now + 0.3)]

    def handle(self, now: float, input: Input) -> list[Effect]:
        colour = Colour(self.rng.below(6), self.rng.choice(["a", "d1", "liar", "z"]))
        depth = self.rng.uniform(-5.0, 5.0)
        names = tuple(map(Contact, ("liar", "d0", "d3", "nobody")))
        match input:
            case Received(sender, ParentRequest(number)):
                self.met.append(sender)
                return [Send(sender, ParentAccept(number, colour, depth, names, names))]
            case Fired("mood"):
                again: Effect = SetTimer("mood", now + 0.3)
                if not self.met:
                    return [again]
                other = self.rng.choice(self.met)
                told: list[Message] = [
                    ColourUpdate(colour, depth),
                    RegionalUpdate(names, names, depth),
                    ParentRequest(1, colour, depth, True, True, self.rng.random() < 0.5, "x/1"),
                    MergeHint(Contact("d5"), colour),
                    DepthsSpent(),
                    GlobalUpdate(names),
                ]
                return [Send(other, self.rng.choice(told)), again]
        return []

    def check(self) -> None:
        pass


REPAIRED = [
    *(RoutingParams(engine="plain", repair=name) for name in ("strawman", "resuming", "timed", "notified", "informed")),
    RoutingParams(engine="plain", repair="informed", activation="siblings"),
]


@pytest.mark.parametrize("routing", REPAIRED, ids=lambda each: f"{each.repair}, {each.activation}")
def test_routing_is_right_again_after_the_tree_has_mended_itself(routing: RoutingParams) -> None:
    """Routing hears of the tree by signals alone, whichever way it repairs its tables."""
    for seed in (1, 2):
        world = TreeWorld(seed, 24, is_watched=False, routing=routing)
        simulator, draw = world.simulator, random_stream(seed, "events")
        world.run(10.0)
        wants = {name: draw.below(4) for name in world.names}
        for name, number in wants.items():
            simulator.inject(simulator.now, name, OpenAdvertisement("a", "TRUE"))
            simulator.inject(simulator.now, name, OpenSubscription("s", f"x = {number}"))
        world.run(10.0)
        for _ in range(4):
            world.crash(*draw.sample(world.names, 2))
            world.run(draw.uniform(0.2, 3.0))
        world.run(30.0)
        world.assert_one_tree()
        published = [(name, draw.below(4)) for name in draw.sample(world.names, 8)]
        for name, number in published:
            simulator.inject(simulator.now, name, Publish(Event({"x": number})))
        world.run(10.0)
        for name in world.names:
            came = [each for each in simulator.delivered(name) if isinstance(each.item, Arrived)]
            assert len(came) == sum(number == wants[name] for _, number in published), (routing, seed, name)


def test_many_that_know_one_contact_are_a_tree_of_small_degree_within_five_seconds() -> None:
    """200 at once, all from the same one; tables are those of the oracle then."""
    world = TreeWorld(5, params=LsTreeParams(degree_max=8), is_watched=False)
    world.add("d0", contacts=())
    for number in range(1, 200):
        world.add(f"d{number}", contacts=("d0",), at=0.0)
    wants = {name: place % 10 for place, name in enumerate(world.simulator.nodes)}
    for name, number in wants.items():
        world.simulator.inject(0.1, name, OpenAdvertisement("a", "TRUE"))
        world.simulator.inject(0.1, name, OpenSubscription("s", f"x = {number}"))
    world.run(5.0)
    world.assert_one_tree()
    assert max(world.degrees().values()) <= 8
    for number in range(10):
        world.simulator.inject(world.simulator.now, f"d{number * 19}", Publish(Event({"x": number})))
    world.run(5.0)
    for name in wants:
        came = [each for each in world.simulator.delivered(name) if isinstance(each.item, Arrived)]
        assert len(came) == 1, name


def test_what_is_kept_of_brokers_that_left_for_good_does_not_grow_with_their_number() -> None:
    world = TreeWorld(6, 10, LsTreeParams(gossip_period=20.0), is_watched=False)
    world.run(10.0)
    stayed = list(world.names)
    for number in range(400):
        world.add(f"guest{number}", contacts=("d0", "d1"))
        world.run(1.0)
        if number >= 5:
            world.crash(f"guest{number - 5}")
    world.run(60.0)
    for name in stayed:
        exchange, access = world.trees[name].exchange, world.simulator.nodes[name].machine
        assert len(exchange.cache.entries) <= 10 and len(exchange.cache.former) <= 30
        assert isinstance(access, Dispatcher) and len(access.door.wanted.users) <= 20
        assert len(access.door.wanted.failures) <= 20


class Divided(Wrapper):
    """While it is divided, nothing passes between nodes of even and of odd numbers."""

    is_divided = False

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        is_lost = self.is_divided and int(sender[1:]) % 2 != int(to[1:]) % 2
        return STREAM_GIVEN_UP if is_lost else self.inner.fate(now, sender, to, size_bytes, transport)


@pytest.mark.parametrize("seed", range(3))
def test_halves_that_were_apart_for_longer_than_contacts_are_kept_find_together_again(seed: int) -> None:
    network = Divided(internet())
    world = TreeWorld(seed, 24, network=network)
    world.run(300.0)
    world.assert_one_tree()
    network.is_divided = True
    for child, parent in world.links():
        if int(child[1:]) % 2 != int(parent[1:]) % 2:
            world.simulator.break_link(child, parent, "cut")
    world.run(800.0)
    world.assert_trees(2)
    network.is_divided = False
    world.run(300.0)
    world.assert_one_tree()


@pytest.mark.parametrize("seed", range(1, 5))
def test_both_ends_agree_over_links_that_somebody_else_keeps(seed: int) -> None:
    """Brokers that stand still answer many requests of a newcomer late and at once, and no link breaks in between."""
    draw = random_stream(seed, "kept")
    world = TreeWorld(seed, 4, bootstrap=2, routing=RoutingParams(engine="plain", failover="gossip"))
    world.run(10.0)
    for _ in range(8):
        name = draw.choice(world.names)
        standing = [other for other in world.names if other != name]
        world.crash(name)
        world.run(draw.uniform(0.0, 1.0))
        world.simulator.restart(name, keep_state=False)
        world.run(draw.uniform(0.0, 0.5))
        for other in standing:
            world.simulator.pause(other)
        world.run(draw.uniform(0.5, 8.0))
        for other in standing:
            world.simulator.resume(other)
        world.run(30.0)
        world.assert_one_tree()
