"""Tables told in packets, and only as fast as a neighbour takes them."""

from random import Random

import pytest

from tests.worlds.routers import RoutingModel
from tidings.machine.effects import Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Received
from tidings.machine.message import Message
from tidings.model.bounds import CHANGES_PACKED_MAX
from tidings.model.errors import UsageError
from tidings.model.language.parser import parse
from tidings.protocols.routing.messages import (
    AdvertisementAdded,
    ChangesInstalled,
    ChangesNotInstalled,
    Installed,
    NotInstalled,
    SubscriptionAdded,
    SubscriptionRemoved,
    TableChanges,
    TablesBegun,
    TablesTaken,
    TablesTold,
)
from tidings.protocols.routing.packets import (
    PACKED_MIN,
    PACKET_BYTES,
    Change,
    changes_of,
    packed_answers,
    packets_of,
    size_of_told,
)
from tidings.protocols.routing.params import TABLES_NARROWEST_SHARE, RoutingParams
from tidings.protocols.routing.router import Router
from tidings.pubsub.signals import Known, NeighbourUp, Settled, Unwant, Want

MANY = 1000


def added(number: int) -> SubscriptionAdded:
    return SubscriptionAdded(number, f"x = {number}")


def router_with(filters: int, **params: object) -> Router:
    router = Router("me", RoutingParams("subscription", "plain", engine="plain", **params))  # type: ignore[arg-type]
    for number in range(filters):
        router.handle(0.0, Want(("c", number), parse(f"x = {number}")))
    return router


def begin(router: Router, neighbour: str = "n") -> list[Effect]:
    router.handle(0.0, NeighbourUp(neighbour, 1))
    return router.handle(0.0, Received(neighbour, TablesBegun(1, router.lives)))


def told(effects: list[Effect], to: str = "n") -> list[str]:
    """The filters that are told to the neighbour, packed or not."""
    messages = [effect.message for effect in effects if isinstance(effect, Send) and effect.to == to]
    changes = [each for message in messages for each in unpacked(message)]
    return [each.filter for each in changes if isinstance(each, SubscriptionAdded)]


def unpacked(message: object) -> list[object]:
    return list(changes_of(message)) if isinstance(message, TableChanges) else [message]


def test_a_few_changes_leave_one_by_one_and_many_are_packed() -> None:
    few = begin(router_with(PACKED_MIN - 1))
    assert [type(each.message) for each in few if isinstance(each, Send)] == [
        TablesBegun,
        *[SubscriptionAdded] * (PACKED_MIN - 1),
        TablesTold,
    ]
    many = begin(router_with(CHANGES_PACKED_MAX + 1))
    kinds = [type(each.message) for each in many if isinstance(each, Send)]
    assert kinds == [TablesBegun, TableChanges, TableChanges, TablesTold]
    assert len(told(many)) == CHANGES_PACKED_MAX + 1


def test_packets_keep_the_order_of_what_must_not_be_exchanged() -> None:
    changes: list[Change] = [
        *(added(number) for number in range(20)),
        SubscriptionRemoved(20, "x = 1"),
        SubscriptionAdded(21, "x = 1"),
        SubscriptionRemoved(22, "x = 1"),
        AdvertisementAdded(23, "p/1", "p", "x > 0", "b", 1),
    ]
    packets = packets_of(changes)
    assert [change for packet in packets for change in unpacked(packet)] == changes
    assert len(packets) == 3


def test_a_packet_is_bounded_in_changes_and_in_bytes() -> None:
    packets = packets_of([added(number) for number in range(100)])
    assert [len(unpacked(packet)) for packet in packets] == [32, 32, 32, 4]
    long = "x = '" + "a" * 4000 + "'"
    packets = packets_of([SubscriptionAdded(number, long) for number in range(32)])
    assert [len(unpacked(packet)) for packet in packets] == [2] * 16
    assert all(size_of_told(packet) < PACKET_BYTES + 5000 for packet in packets)


def test_a_large_table_is_told_in_turns_and_only_while_the_neighbour_takes_it() -> None:
    router = router_with(MANY, turn_entries=64, tables_window_bytes=8192 * TABLES_NARROWEST_SHARE)
    effects = begin(router)
    heard = told(effects)
    assert len(heard) <= 64 + CHANGES_PACKED_MAX and SetTimer("turn", router.params.turn_after) in effects
    while any(isinstance(effect, SetTimer) and effect.key == "turn" for effect in effects):
        effects = router.handle(0.0, Fired("turn"))
        router.check()
        heard += told(effects)
    assert 0 < len(heard) < MANY, "the window is full"
    assert router.handle(0.0, Fired("turn")) == []
    taken, rounds = 0, 0
    while len(heard) < MANY:
        taken = router.links["n"].flow.window.sent_bytes
        effects = router.handle(0.0, Received("n", TablesTaken(taken)))
        while any(isinstance(effect, SetTimer) and effect.key == "turn" for effect in effects):
            effects = router.handle(0.0, Fired("turn"))
            router.check()
            heard += told(effects)
        rounds += 1
    assert sorted(heard) == sorted(f"x = {number}" for number in range(MANY)) and rounds >= 3
    assert Send("n", TablesTold()) in effects


def test_what_is_on_its_way_stays_below_the_bound_and_what_waits_is_told_and_answered_later() -> None:
    router = router_with(0, changes_bytes_max=4096, tables_window_bytes=4096)
    begin(router)
    effects: list[Effect] = []
    for number in range(100):
        effects += router.handle(0.0, Want(("c", number), parse(f"x = {number}"), ticket=number))
        router.check()
    window = router.links["n"].flow.window
    assert window.sent_bytes < 2 * 4096 and len(told(effects)) < 20
    settled: list[object] = []
    for _ in range(100):
        for message in [each.message for each in effects if isinstance(each, Send)]:
            for change in unpacked(message):
                if isinstance(change, SubscriptionAdded):
                    answers = router.handle(0.0, Received("n", Installed(change.number, ("n",), 1)))
                    settled += [each for each in answers if isinstance(each, Settled)]
        effects = router.handle(0.0, Received("n", TablesTaken(window.sent_bytes)))
        effects = router.handle(0.0, Fired("turn"))
        router.check()
    assert sorted(settled, key=repr) == sorted((Settled(number, ("me", "n"), 2) for number in range(100)), key=repr), (
        "everybody was told, and everybody was answered"
    )


def test_an_advertisement_counts_when_the_filters_that_it_asks_for_were_told() -> None:
    router = Router("me", RoutingParams(engine="plain", turn_entries=64))
    for number in range(MANY):
        router.handle(0.0, Want(("c", number), parse(f"x = {number}")))
    begin(router)
    effects = router.handle(0.0, Received("n", AdvertisementAdded(1, "p/1", "p", "x >= 0", "n", 1)))
    heard = told(effects)
    assert not heard and router.hop_toward("p/1") is None, "the walk is another step's affair"
    while not any(isinstance(effect, Known) for effect in effects):
        assert not any(effect.message == Installed(1, ("me",), 1) for effect in effects if isinstance(effect, Send))
        router.handle(0.0, Received("n", TablesTaken(router.links["n"].flow.window.sent_bytes)))
        effects = router.handle(0.0, Fired("turn"))
        heard += told(effects)
        router.check()
    assert len(heard) == MANY and router.hop_toward("p/1") == "n"
    assert Send("n", Installed(1, ("me",), 1)) in effects


def test_answers_to_one_neighbour_that_say_the_same_are_packed() -> None:
    timer = SetTimer("x", 1.0)
    answers: list[Effect] = [
        Send("a", Installed(1, ("b",), 1)),
        Send("a", NotInstalled(2, "no")),
        timer,
        Send("a", Installed(3, ("b",), 1)),
        Send("b", Installed(4, ("b",), 1)),
        Send("a", NotInstalled(5, "no")),
    ]
    assert packed_answers(answers) == [
        Send("a", ChangesInstalled((1, 3), ("b",), 1)),
        Send("a", ChangesNotInstalled((2, 5), "no")),
        timer,
        Send("b", Installed(4, ("b",), 1)),
    ]


def test_a_packed_message_is_answered_by_a_packed_one() -> None:
    router = router_with(0)
    begin(router)
    packet = TableChanges(subscriptions_added=tuple(added(number) for number in range(1, 21)))
    effects = router.handle(0.0, Received("n", packet))
    assert [each.message for each in effects if isinstance(each, Send)] == [
        ChangesInstalled(tuple(range(1, 21)), ("me",), 1)
    ]


def test_a_chain_of_brokers_with_large_tables_ends_with_the_right_ones() -> None:
    model = RoutingModel(Random(1), "advertisement", "covering", 3, edges=[("b0", "b1"), ("b1", "b2")], turn_entries=16)
    model.world.rest()
    tickets = [model.want(("b0", number), "x = 3" if number else "x >= 2") for number in range(3)]
    model.offer("b2", "p", "x >= 0")
    for number in range(200):
        model.routers["b0"].handle(0.0, Want(("d", number), parse(f"z = {number}")))
    model.world.settle()
    assert all(ticket in model.settled for ticket in tickets)
    assert len(model.routers["b2"].tables.texts["b1"]) == 201


@pytest.mark.parametrize("bounds", [{"tables_window_bytes": 1}, {"changes_bytes_max": 1000}, {"turn_entries": 0}])
def test_bounds_that_let_nothing_through_are_refused(bounds: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=next(iter(bounds))):
        RoutingParams(**bounds)  # type: ignore[arg-type]


def test_where_a_table_is_taken_slowly_less_of_it_is_on_the_way() -> None:
    """A single change stands behind what is on the way: that is to be a moment, also where each filter is work."""
    router = router_with(5 * MANY)
    widest = router.params.tables_window_bytes
    now, taken_bytes = 0.0, 0
    waiting: list[Message] = []
    under_way: list[int] = []
    effects = begin(router)
    while not under_way or waiting:
        while any(isinstance(effect, SetTimer) and effect.key == "turn" for effect in effects):
            waiting += tables_in(effects)
            effects = router.handle(now, Fired("turn"))
        waiting += tables_in(effects)
        under_way.append(sum(map(size_of_told, waiting)))
        now += 0.010
        taken_bytes += size_of_told(waiting.pop(0))
        effects = router.handle(now, Received("n", TablesTaken(taken_bytes)))
    half, narrowest = len(under_way) // 2, widest // TABLES_NARROWEST_SHARE
    assert max(under_way) <= 4 * narrowest, "until it is known that it is slow"
    assert max(under_way[half:]) <= narrowest + 2 * PACKET_BYTES
    assert len(waiting) == 0 and min(under_way[half:-20]) > PACKET_BYTES, "it always has something to do"


def test_where_a_table_is_taken_soon_much_of_it_is_on_the_way() -> None:
    router = router_with(5 * MANY)
    now, most = 0.0, 0
    effects = begin(router)
    for _ in range(6):
        while any(isinstance(effect, SetTimer) and effect.key == "turn" for effect in effects):
            effects = router.handle(now, Fired("turn"))
        most = max(most, router.links["n"].flow.window.under_way_bytes)
        now += 0.1
        effects = router.handle(now, Received("n", TablesTaken(router.links["n"].flow.window.sent_bytes)))
    assert most > router.params.tables_window_bytes // 2, "on a link of 0.1 s"


def test_what_a_client_leaves_behind_does_not_stand_ahead_of_others() -> None:
    router = router_with(MANY)
    effects = begin(router)
    window = router.links["n"].flow.window
    for _ in range(20):
        take_all(router, effects)
        effects = router.handle(0.0, Received("n", TablesTaken(window.sent_bytes)))
    assert len(router.links["n"].filters) == MANY
    for number in range(MANY):
        effects = router.handle(10.0, Unwant(("c", number)))
    assert window.under_way_bytes <= 2 * router.params.tables_window_bytes // TABLES_NARROWEST_SHARE
    assert told(router.handle(10.0, Want(("d", 1), parse("x = 'other'"), ticket=1))) == ["x = 'other'"], "at once"
    for _ in range(20):
        take_all(router, router.handle(10.0, Received("n", TablesTaken(window.sent_bytes))))
        router.check()
    assert list(router.links["n"].filters) == ["x = 'other'"], "in the end all of it is taken back"


def take_all(router: Router, effects: list[Effect]) -> None:
    """Turns until there is no room, or nothing left."""
    while any(isinstance(effect, SetTimer) and effect.key == "turn" for effect in effects):
        effects = router.handle(0.0, Fired("turn"))


def tables_in(effects: list[Effect]) -> list[Message]:
    kinds = (SubscriptionAdded, TableChanges)
    return [each.message for each in effects if isinstance(each, Send) and isinstance(each.message, kinds)]
