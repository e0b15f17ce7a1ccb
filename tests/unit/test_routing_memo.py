"""Where a publication goes is remembered by its head, unless heads hardly repeat; either way it goes to the same."""

import pytest

from tidings.machine.effects import Drop, Send
from tidings.machine.inputs import Received
from tidings.model.language.parser import parse
from tidings.protocols.routing.messages import SubscriptionAdded, TablesBegun
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.router import Router
from tidings.pubsub.publications import Publications, encode_head
from tidings.pubsub.signals import Forward, Matched, NeighbourUp, Offer, Want

MEMO_MAX = 8


def make_router() -> Router:
    """Two neighbours and two local subscriptions that want parts of what a local publisher offers."""
    router = Router("a", RoutingParams(strategy="subscription", memo_max=MEMO_MAX))
    router.start(0.0)
    for neighbour, text in (("b", "x >= 5"), ("c", "x < 3")):
        router.handle(0.0, NeighbourUp(neighbour, 1))
        router.handle(0.0, Received(neighbour, TablesBegun(1, router.links[neighbour].life)))
        router.handle(0.0, Received(neighbour, SubscriptionAdded(1, text)))
    router.handle(0.0, Want(("k", 1), parse("x = 4 OR x = 2")))
    router.handle(0.0, Want(("l", 1), parse("x = 2")))
    router.handle(0.0, Offer("p/1", "p", parse("TRUE")))
    return router


def batch(first: int, *heads: bytes) -> Publications:
    numbers = tuple(range(first, first + len(heads)))
    return Publications("p", "p/1", 1.0, 0, numbers, heads, tuple(b"%d" % number for number in numbers))


def heads_of(*values: float) -> list[bytes]:
    return [encode_head({"x": value}) for value in values]


def outcome(router: Router, sent: Publications) -> dict[object, list[int]]:
    """Who got which numbers."""
    got: dict[object, list[int]] = {}
    for effect in router.handle(1.0, Forward(sent)):
        match effect:
            case Send(to, Publications() as part):
                got[to] = list(part.numbers)
            case Matched(part, wanted):
                assert len(part.numbers) == len(wanted)
                for number, keys in zip(part.numbers, wanted, strict=True):
                    for key in keys:
                        got.setdefault(key, []).append(number)
            case Drop(part, reason):
                got[reason] = list(part.numbers)
    return got


def forget_to_remember(router: Router) -> int:
    """Heads that never repeat, until the memo is left out; the next number."""
    number = 1
    while router.carrier.finder.is_remembering:
        router.handle(1.0, Forward(batch(number, *heads_of(number + 0.5))))
        number += 1
        assert number < 10 * MEMO_MAX, "the memo is kept though nothing repeats"
    return number


@pytest.mark.parametrize("values", [(1, 2, 3, 4, 5, 6), (2,), (3,), (2, 2, 2), (4, 3, 4)])
def test_publications_go_to_the_same_with_and_without_the_memo(values: tuple[int, ...]) -> None:
    with_memo, without = make_router(), make_router()
    number = forget_to_remember(without)
    sent = batch(number, *heads_of(*values), b"\xc0")
    expected = outcome(with_memo, sent)
    assert with_memo.carrier.finder.is_remembering and not without.carrier.finder.is_remembering
    assert outcome(without, sent) == expected
    assert "its attributes do not decode" in expected


def test_heads_that_repeat_stay_remembered() -> None:
    router = make_router()
    for number in range(1, 20 * MEMO_MAX):
        router.handle(1.0, Forward(batch(number, *heads_of(number % (MEMO_MAX - 2)))))
    assert router.carrier.finder.is_remembering and router.carrier.finder.size == MEMO_MAX - 2
    router.check()


def test_the_memo_is_tried_again_after_a_while_and_when_tables_change() -> None:
    router = make_router()
    number = forget_to_remember(router)
    router.handle(1.0, Want(("m", 1), parse("x = 1")))
    assert router.carrier.finder.is_remembering
    number = forget_to_remember(router) + number
    while not router.carrier.finder.is_remembering:
        router.handle(1.0, Forward(batch(number, *heads_of(number + 0.5))))
        number += 1
        assert number < 1000 * MEMO_MAX, "the memo is never tried again"
    router.check()
