"""Which actions of a step are carried out at once."""

from random import Random

from tests.worlds.brokers import side_of
from tests.worlds.planned import random_tree, tree
from tidings.planning.concurrency import TreeSides, waves
from tidings.planning.operations import Action, shift
from tidings.planning.plan import TopologyPlan
from tidings.protocols.coordination.deployer import Deployer
from tidings.protocols.coordination.messages import ActionOrder, ActionReported, CarryOut, Engaged
from tidings.protocols.coordination.params import CoordinationParams

TWO_STARS = tree("a-b b-c c-d d-e e-f")


def test_shifts_whose_movers_are_on_each_others_side_face_each_other() -> None:
    sides = TreeSides(TWO_STARS.links)
    assert sides.are_facing(shift("c", "b", "a"), shift("d", "e", "f"))
    assert not sides.are_facing(shift("a", "b", "c"), shift("d", "e", "f"))
    assert not sides.are_facing(shift("a", "b", "c"), shift("f", "e", "d"))
    assert sides.do_fit(shift("a", "b", "c"), shift("f", "e", "d"))
    assert not sides.do_fit(shift("a", "b", "c"), shift("d", "c", "b")), "they share two brokers"


def test_the_sides_of_a_link_are_those_that_are_apart_without_it() -> None:
    rng = Random(1)
    for _ in range(30):
        drawn = random_tree(rng, rng.randint(2, 12))
        sides = TreeSides(drawn.links)
        for a, b in drawn.links:
            left = [each for each in drawn.links if each != (a, b)]
            for near, far in ((a, b), (b, a)):
                beside = {broker for broker in drawn.brokers if sides.is_beside(broker, near, far)}
                assert beside == set(side_of(left, near))


def test_actions_that_wait_for_each_other_make_more_waves() -> None:
    goal = tree("a-b b-c b-d c-e e-f")
    facing = TopologyPlan(tree("a-b b-c c-d d-e e-f"), goal, ((shift("c", "b", "a"), shift("d", "e", "f")),))
    assert waves(facing) == [[shift("c", "b", "a")], [shift("d", "e", "f")]]
    apart = TopologyPlan(TWO_STARS, goal, ((shift("a", "b", "c"), shift("f", "e", "d")),))
    assert waves(apart) == [[shift("a", "b", "c"), shift("f", "e", "d")]]


def deployer_of(plan: TopologyPlan) -> tuple[Deployer, list[str]]:
    """One that has just begun, and what it has ordered first."""
    deployer = Deployer("a", CoordinationParams())
    assert deployer.carry_out(0.0, CarryOut(plan, name="p"))[0] == ""
    near, ordered = plan.initial.neighbours(), list[str]()
    for name in plan.initial.brokers:
        deployer.peer_up(name)
    for name in plan.initial.brokers:
        ordered += orders_in(deployer.hear_engaged(0.0, name, Engaged("p", tuple(near[name]), "")))
    return deployer, ordered


def orders_in(effects: object) -> list[str]:
    sent = [each.message for each in effects if isinstance(getattr(each, "message", None), ActionOrder)]
    return list(dict.fromkeys(f"{each.operation}({', '.join(one.node for one in each.brokers)})" for each in sent))


def test_the_deployer_has_those_at_once_that_fit_and_the_others_behind_them() -> None:
    """shift(g, a, b) shares a broker with the first, and shift(d, c, h) faces it."""
    initial = tree("a-g a-b b-c c-d c-h d-e e-f")
    goal = tree("a-b b-g b-c c-h d-h d-e d-f")
    plan = TopologyPlan(initial, goal, ((shift("g", "a", "b"), shift("d", "c", "h"), shift("f", "e", "d")),))
    deployer, ordered = deployer_of(plan)
    assert ordered == ["shift(g, a, b)", "shift(d, c, h)"]
    more = [orders_in(deployer.hear_report(1.0, name, ActionReported("p", 1, True, ""))) for name in ("d", "c", "h")]
    assert more == [[], [], ["shift(f, e, d)"]]


def test_brokers_that_are_no_part_of_the_tree_yet_are_in_nobodys_way() -> None:
    sides = TreeSides(TWO_STARS.links)
    assert sides.do_fit(Action("append", ("x", "a")), shift("d", "e", "f"))
    assert not sides.do_fit(Action("append", ("x", "d")), shift("d", "e", "f"))
