"""Publications that take longer to match than one step may."""

from collections.abc import Iterator

import pytest

from tests.worlds.desk import Desk, drops, of, sent
from tidings.machine.effects import Effect
from tidings.machine.inputs import Received
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.model.work import WORK
from tidings.protocols.routing.finder import PAIRS_MAX
from tidings.protocols.routing.heavy import STEP_UNITS_MAX
from tidings.protocols.routing.messages import (
    PublicationsSkipped,
    Reached,
    SubscriptionAdded,
    TablesBegun,
)
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.parcels import LEFT_OUT
from tidings.protocols.routing.router import Router
from tidings.pubsub.publications import Publications, encode_head
from tidings.pubsub.signals import Forward, Matched, NeighbourUp, Offer, Settled, Skipped, Unwant, Want

LONG = "abc" * 21_000
PATTERNS = [f"a LIKE '%{'a__' * ones}b%'" for ones in range(1, 101)]
"""None is in it, and all are if a b follows."""


class RouterDesk(Desk[Router]):
    """A broker whose clients ask for many patterns, and its neighbour q for what ends with b. `costs` are those of its
    steps."""

    def __init__(self, engine: str = "plain") -> None:
        self.costs: list[int] = []
        super().__init__(Router("b", RoutingParams(engine=engine)))  # type: ignore[arg-type]
        self.handle(NeighbourUp("q", 1))
        self.handle(Received("q", TablesBegun(1, self.machine.lives)))
        self.handle(Received("q", SubscriptionAdded(1, "a LIKE '%b' OR x = 1")))
        for number, text in enumerate(PATTERNS):
            self.handle(Want(("c", number), parse(text)))
        self.handle(Want(("c", 1000), parse("EXISTS a")))
        self.handle(Want(("c", 1001), parse("x = 1")))
        for publisher in "hop":
            self.handle(Offer(f"{publisher}/1", publisher, parse("TRUE")))
        self.costs.clear()

    def handle(self, input: object) -> list[Effect]:
        before = WORK.units
        effects = super().handle(input)  # type: ignore[arg-type]
        self.costs.append(WORK.units - before)
        return effects

    def publish(self, publisher: str, first: int, *events: dict[str, Value], ticket: int | None = None) -> list[Effect]:
        numbers = tuple(range(first, first + len(events)))
        heads, payloads = tuple(encode_head(each) for each in events), (b"",) * len(events)
        batch = Publications(publisher, f"{publisher}/1", 1.0, 0, numbers, heads, payloads)
        return self.handle(Forward(batch, ticket))


def matched(effects: list[Effect]) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """Publisher, number, and the subscriptions that want it."""
    for each in of(Matched, effects):
        for number, keys in zip(each.batch.numbers, each.wanted, strict=True):
            yield each.batch.publisher, number, tuple(sorted(key[1] for key in keys))


@pytest.mark.parametrize("engine", ["plain", "fast"])
def test_a_heavy_batch_is_matched_in_several_steps_of_which_none_is_long(engine: str) -> None:
    desk = RouterDesk(engine)
    assert not of(Matched, desk.publish("h", 1, {"a": LONG}, {"a": LONG + "b"}, {"a": "short"}))
    effects = desk.advance(10.0)
    assert list(matched(effects)) == [("h", 1, (1000,)), ("h", 2, (*range(100), 1000)), ("h", 3, (1000,))]
    assert [number for parcel in sent(effects, Publications, "q") for number in parcel.numbers] == [2]
    assert len(desk.costs) > 5
    assert max(desk.costs) < 1.5 * STEP_UNITS_MAX


@pytest.mark.parametrize("engine", ["plain", "fast"])
def test_filters_without_a_normal_form_are_asked_a_few_at_a_time(engine: str) -> None:
    desk = RouterDesk(engine)
    for number, text in enumerate(PATTERNS):
        desk.handle(Unwant(("c", number)))
        desk.handle(Want(("e", number), parse(text.replace("a LIKE", "LOWER(a) LIKE"))))
    desk.costs.clear()
    assert not of(Matched, desk.publish("h", 1, {"a": LONG.upper()}, {"a": LONG + "B"}, {"a": "short"}))
    effects = desk.advance(10.0)
    assert list(matched(effects)) == [("h", 1, (1000,)), ("h", 2, (*range(100), 1000)), ("h", 3, (1000,))]
    assert len(desk.costs) > 5
    assert max(desk.costs) < 1.5 * STEP_UNITS_MAX


def test_what_only_seems_heavy_passes_by_those_that_are() -> None:
    desk = RouterDesk()
    for number in range(2000):
        desk.handle(Want(("e", number), parse(f"LOWER(a) LIKE '%b_c{number}%' AND LENGTH(a) > {number}")))
    desk.publish("h", 1, {"a": LONG + "b"})
    desk.fire_next()
    desk.costs.clear()
    assert desk.machine.carrier.heavy.units_of("x", (encode_head({"x": 1}),))[0] > STEP_UNITS_MAX, (
        "make it seem heavier"
    )
    assert list(matched(desk.publish("o", 1, {"x": 1}))) == [("o", 1, (1001,))]
    assert max(desk.costs) < STEP_UNITS_MAX
    ((_, _, wanted),) = matched(desk.advance(10.0))
    assert wanted[:100] == tuple(range(100))


@pytest.mark.parametrize("engine", ["plain", "fast"])
@pytest.mark.parametrize("memo_max", [4, 10_000])
def test_what_very_many_want_is_carried_a_part_at_a_time(engine: str, memo_max: int) -> None:
    desk = Desk(Router("b", RoutingParams(engine=engine, memo_max=memo_max)))  # type: ignore[arg-type]
    desk.handle(NeighbourUp("q", 1))
    desk.handle(Received("q", TablesBegun(1, desk.machine.lives)))
    desk.handle(Received("q", SubscriptionAdded(1, "n >= 0")))
    for number in range(1000):
        desk.handle(Want(("c", number), parse(f"n != {-number - 1}")))
    desk.handle(Offer("h/1", "h", parse("TRUE")))
    numbers = tuple(range(1, 201))
    # The first are wanted by hardly anybody, which must not make us believe that of the others.
    heads = tuple(encode_head({"x": 1} if n < 50 else {"n": n % 7}) for n in numbers)
    batch = Publications("h", "h/1", 1.0, 0, numbers, heads, (b"",) * len(heads))
    steps = [desk.handle(Forward(batch, 5))]
    while desk.machine.carrier.heavy.waiting:
        steps.append(desk.fire_next())
        desk.machine.check()
    carried = [list(matched(step)) for step in steps]
    assert max(sum(len(keys) for *_, keys in each) for each in carried) <= PAIRS_MAX
    assert [number for each in carried for _, number, keys in each if len(keys) == 1000] == list(numbers[49:])
    parcels = [parcel for step in steps for parcel in sent(step, Publications, "q")]
    assert [number for parcel in parcels for number in parcel.numbers] == list(numbers[49:])
    answers = [of(Settled, desk.handle(Received("q", Reached(parcel.receipt)))) for parcel in parcels]
    assert answers == [[]] * (len(parcels) - 1) + [[Settled(5)]]


def test_the_order_of_a_publisher_is_kept_and_others_pass_by() -> None:
    desk = RouterDesk()
    desk.publish("h", 1, {"a": LONG})
    assert not of(Matched, desk.publish("h", 2, {"x": 1}))
    assert list(matched(desk.publish("o", 1, {"x": 1}))) == [("o", 1, (1001,))]
    assert [number for _, number, _ in matched(desk.advance(10.0))] == [1, 2]
    assert list(matched(desk.publish("h", 3, {"x": 1}))) == [("h", 3, (1001,))]


def test_publishers_of_heavy_batches_take_turns() -> None:
    desk = RouterDesk()
    for number in range(1, 4):
        for publisher in "hp":
            desk.publish(publisher, number, {"a": LONG + str(number) + publisher})
    assert [each[:2] for each in matched(desk.advance(10.0))] == [
        (publisher, number) for number in range(1, 4) for publisher in "hp"
    ]


def test_filters_that_come_and_go_meanwhile_are_heeded() -> None:
    desk = RouterDesk()
    desk.publish("h", 1, {"a": LONG + "b"})
    for _ in range(3):
        desk.fire_next()
    desk.handle(Want(("c", 2000), parse("a LIKE '%cb%'")))
    desk.handle(Want(("c", 2001), parse("a LIKE '%bb%'")))
    desk.handle(Unwant(("c", 1)))
    ((_, _, wanted),) = matched(desk.advance(10.0))
    assert 2000 in wanted and 2001 not in wanted and 1 not in wanted and 0 in wanted


def test_a_receipt_is_given_when_the_last_part_has_arrived() -> None:
    desk = RouterDesk()
    events: list[dict[str, Value]] = [{"a": LONG + f"{number}b"} for number in range(3)]
    desk.publish("h", 1, *events, ticket=7)
    parcels = sent(desk.advance(1.0), Publications, "q")
    assert [parcel.numbers for parcel in parcels] == [(1,), (2,), (3,)]
    answers = [of(Settled, desk.handle(Received("q", Reached(parcel.receipt)))) for parcel in parcels]
    assert answers == [[], [], [Settled(7)]]


def test_what_there_is_no_room_for_is_left_out_and_marked() -> None:
    desk = RouterDesk()
    effects: list[Effect] = []
    for number in range(1, 50):
        effects += desk.publish("h", number, {"a": LONG + str(number)})
    assert LEFT_OUT in drops(effects)
    left_out = [each.through for each in of(Skipped, effects)]
    assert left_out == [mark.through for mark in sent(effects, PublicationsSkipped, "q")] != []
    assert {(each.publisher, each.advertisement) for each in of(Skipped, effects)} == {("h", "h/1")}
    carried = [number for _, number, _ in matched(desk.advance(100.0))]
    assert sorted(carried + left_out) == list(range(1, 50))
