"""When waiting for a lost neighbour ends by itself (`repairs/patience.py`, `rest_patience.py`)."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_deferred_repairs import GHOST, LOST, TAKEN_BACK, came, told_to
from tests.unit.test_routing_repairs import changes_told, router_with_neighbours
from tidings.machine.effects import CancelTimer, Effect, SetTimer
from tidings.machine.inputs import Fired, Received
from tidings.model.bounds import WATCHED_FILTERS_MAX, WATCHED_LOSSES_MAX
from tidings.protocols.routing.messages import SubscriptionAdded, SubscriptionRemoved
from tidings.protocols.routing.repairs.informed import InformedRepair, digests_of
from tidings.protocols.routing.repairs.messages import Activate
from tidings.protocols.routing.repairs.patience import RepairPatience
from tidings.protocols.routing.repairs.strawman import Resuming
from tidings.protocols.routing.repairs.timed import TimedRepair
from tidings.protocols.routing.router import Router
from tidings.protocols.routing.tables import Ghost
from tidings.pubsub.publications import Publications, encode_head
from tidings.pubsub.signals import NeighbourDown, NeighbourUp


def event_from(router: Router, now: float, neighbour: str, number: int, x: int) -> list[Effect]:
    head = encode_head({"x": x})
    return router.handle(now, Received(neighbour, Publications("p", "p/1@p", now, 0, (number,), (head,), (b"",))))


def waiting_router(is_tuned: bool = True) -> Router:
    router = router_with_neighbours(TimedRepair, advertises=False, is_tuned=is_tuned)
    router.handle(1.0, LOST)
    return router


def test_an_event_in_vain_does_not_end_the_waiting_before_anything_has_come_back() -> None:
    router = waiting_router()
    assert GHOST in router.tables.ghosts
    event_from(router, 1.05, "k", 1, 1)
    assert GHOST in router.tables.ghosts


def test_waiting_ends_with_the_first_event_in_vain_once_the_new_link_has_made_up_for_the_old_one() -> None:
    router = waiting_router()
    router.handle(1.1, Received("k", SubscriptionAdded(7, "x = 1")))
    event_from(router, 1.12, "m", 1, 99)
    assert GHOST in router.tables.ghosts, "more may be about to come"
    effects = event_from(router, 1.13, "m", 2, 99)
    assert GHOST not in router.tables.ghosts and CancelTimer(("unsubscribe", GHOST)) in effects
    gone = TAKEN_BACK - Counter([each for each in TAKEN_BACK if each[0] == "m" and each[2] == "x = 1"])
    assert changes_told(effects) == gone


def test_without_an_event_in_vain_and_where_the_time_is_fixed_waiting_lasts_as_long_as_it_may() -> None:
    for router in (waiting_router(), waiting_router(is_tuned=False)):
        router.handle(1.1, Received("k", SubscriptionAdded(7, "x = 1")))
        if not router.params.is_tuned:
            event_from(router, 2.0, "m", 1, 99)
        event_from(router, 2.0, "m", 2, 4)
        assert GHOST in router.tables.ghosts


def test_where_nothing_comes_back_it_is_waited_as_long_as_it_took_before() -> None:
    times = RepairPatience(1.5)
    for number in range(20):
        ghost = Ghost("n", f"r{number}")
        times.watch(2.0 * number, ghost, ["x = 1"])
        times.came_back(2.0 * number + 0.1, "x = 1")
    dead = Ghost("n", "dead")
    times.watch(100.0, dead, ["x = 1"])
    assert times.usual() == pytest.approx(0.1, rel=0.05)
    assert dead not in times.past(100.09) and dead in times.past(100.2)


def test_a_neighbour_of_which_nothing_comes_back_teaches_nothing() -> None:
    times = RepairPatience(1.5)
    times.watch(0.0, GHOST, ["x = 1"])
    times.came_back(1.0, "x = 2")
    times.learn(5.0)
    assert times.mean is None and times.usual() == 1.5 and not times.watched


Step = tuple[float, str, int, int]
steps: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(st.floats(0, 3), st.sampled_from(["lose", "come"]), st.integers(0, 90), st.integers(0, 200)), max_size=60
)


@given(steps)
def test_it_is_never_waited_longer_than_allowed_and_little_is_remembered(
    played: list[Step],
) -> None:
    times, now = RepairPatience(1.5), 0.0
    for passed, step, name, size in played:
        now += passed
        if step == "lose":
            times.watch(now, Ghost(f"n{name}", "r"), [f"x = {number}" for number in range(size)])
        else:
            times.came_back(now, f"x = {size}")
        times.check()
        assert 0 <= times.usual() <= 1.5
        late = [ghost for ghost, each in times.watched.items() if now - each.lost_at >= 1.5]
        assert set(late) <= set(times.past(now))
        assert len(times.watched) <= WATCHED_LOSSES_MAX
        assert all(len(each.texts) <= WATCHED_FILTERS_MAX for each in times.watched.values())


# The same for neighbours that rest.


def resting_router(is_tuned: bool = True) -> Router:
    """n is lost. It wanted four filters, and was told the six that others want."""
    router = router_with_neighbours(Resuming, advertises=False, is_tuned=is_tuned)
    router.handle(1.0, LOST)
    assert list(router.resting.links) == ["n"]
    router.check()
    return router


def test_a_neighbour_that_rests_is_forgotten_when_as_many_events_came_in_vain_as_filters_are_at_stake() -> None:
    router = resting_router()
    for number in range(1, 10):
        assert changes_told(event_from(router, 2.0, "k", number, 1)) == Counter()
    effects = event_from(router, 2.0, "k", 10, 1)
    assert not router.resting.links and CancelTimer(("rest", "n")) in effects
    assert changes_told(effects) + changes_told(turns(router)) == TAKEN_BACK
    router.check()


def test_it_is_forgotten_with_the_first_event_in_vain_once_another_link_has_taken_its_place() -> None:
    router = resting_router()
    router.handle(1.1, Received("k", SubscriptionAdded(7, "x = 1")))
    event_from(router, 1.12, "m", 1, 99)
    assert router.resting.links, "more may be about to come"
    event_from(router, 1.13, "m", 2, 99)
    assert not router.resting.links
    router.check()


def test_events_that_somebody_wants_and_a_fixed_time_keep_it() -> None:
    for router in (resting_router(), resting_router(is_tuned=False)):
        for number in range(1, 50):
            event_from(router, 2.0, "k", number, 7 if router.params.is_tuned else 1)
        assert router.resting.links
        router.handle(3.0, NeighbourUp("n", 2))
        assert not router.resting.links and not router.resting.patience.watched
        router.check()


def test_where_events_are_brought_around_a_failure_nobody_is_forgotten_for_them() -> None:
    router = router_with_neighbours(Resuming, advertises=False, rescue_window=100)
    router.handle(1.0, LOST)
    for number in range(1, 50):
        event_from(router, 2.0, "k", number, 1)
    assert list(router.resting.links) == ["n"]


def turns(router: Router) -> list[Effect]:
    """What is left to be forgotten."""
    effects: list[Effect] = []
    while router.departures.is_under_way:
        effects += router.handle(2.0, Fired("turn"))
    return effects


# How long the end of a new link holds filters back.


def holding_router(is_tuned: bool = True) -> Router:
    """new has taken the place of a link; x = 1 and x = 2, which n and k want, are held back from it since 2.1."""
    router = router_with_neighbours(InformedRepair, advertises=False, is_tuned=is_tuned)
    came(router, "new", "r1")
    router.handle(2.1, Received("a", Activate("r1", "new", digests_of(["x = 1", "x = 2"]))))
    return router


def test_holding_back_ends_soon_after_the_other_end_has_begun_to_take_back() -> None:
    router, timer = holding_router(), ("subscribe", "new", "r1")
    effects = router.handle(2.3, Received("n", SubscriptionRemoved(9, "x = 2")))
    (armed,) = [each for each in effects if isinstance(each, SetTimer) and each.key == timer]
    assert armed.at == pytest.approx(2.35)
    # k wants x = 2 still, and n wants x = 1: so both were really wanted.
    assert told_to(router.handle(2.35, Fired(timer)), "new") == {"x = 1", "x = 2"}
    router.check()


def test_what_is_not_held_back_and_a_fixed_time_end_nothing() -> None:
    for router, text in ((holding_router(), "x = 3"), (holding_router(is_tuned=False), "x = 2")):
        effects = router.handle(2.3, Received("n", SubscriptionRemoved(9, text)))
        assert not [each for each in effects if isinstance(each, SetTimer) and each.key == ("subscribe", "new", "r1")]
        router.handle(2.4, NeighbourDown("new", 1))
        router.check()
