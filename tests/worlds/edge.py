"""An edge on a desk: a test says what routing and clients do, and looks at what comes of it."""

from collections.abc import Iterable, Sequence
from typing import Any

from tests.worlds.desk import Desk, of, sent
from tidings.machine.effects import Effect, Send
from tidings.machine.inputs import Fired, Received
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.protocols.delivery.edge.advertisements import publisher_of
from tidings.protocols.delivery.edge.edge import Edge
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.messages import (
    Advertise,
    Delivery,
    History,
    MarksFar,
    PublishMessage,
    Reference,
    Subscribe,
    Taken,
)
from tidings.pubsub.publications import Publications, encode_head
from tidings.pubsub.signals import ClientDown, ClientUp, Forgotten, Forward, Known, Matched, NeighbourUp, Settled

C1 = (("c", 1),)
C2 = (("c", 2),)
"""Who wants a publication: a subscription of the client c."""


class Ways:
    """Routing as far as delivery reads it: the neighbour toward each advertisement."""

    def __init__(self) -> None:
        self.hops: dict[str, str] = {}

    def hop_toward(self, advertisement: str) -> str | None:
        return self.hops.get(advertisement)


class EdgeDesk(Desk[Edge]):
    """One edge, named "a" unless said otherwise. Routing is the test's own: see `settle`, `know`, `arrive`."""

    def __init__(
        self, params: EdgeParams | None = None, name: str = "a", start: bool = True, is_best_effort: bool = False
    ) -> None:
        self.ways = Ways()
        self.edge = Edge(name, params or EdgeParams(), self.ways, is_best_effort=is_best_effort)
        super().__init__(self.edge, start)

    def say(self, sender: str, message: Any) -> list[Effect]:
        return self.handle(Received(sender, message))

    def up(
        self, *clients: str, publish_bound: Filter | None = None, subscribe_bound: Filter | None = None
    ) -> list[Effect]:
        for client in clients:
            self.handle(ClientUp(client, client, publish_bound, subscribe_bound))
        return self.effects

    def down(self, client: str) -> list[Effect]:
        return self.handle(ClientDown(client))

    def neighbours(self, *names: str) -> None:
        for name in names:
            self.handle(NeighbourUp(name, 1))

    def settle(self, problem: str = "") -> list[Effect]:
        """The oldest request that is outstanding is carried out, or is not; publishers elsewhere have published nothing
        before."""
        self.begin()
        ticket = next(iter(self.edge.requests.waiting))
        return self.handle(Settled(ticket, () if problem else ("a", "b"), 0 if problem else 2, problem))

    def begin(self, **positions: int) -> list[Effect]:
        """The brokers of publishers elsewhere say how far these have come."""
        effects: list[Effect] = []
        while self.edge.beginnings.asked:
            question = next(iter(self.edge.beginnings.asked.values()))
            known = self.edge.fetching.of_publisher[question.publisher]
            marks = tuple((each, positions.get(question.publisher, 0), (), ()) for each in known)
            effects += self.say("b", MarksFar(question.reading, marks, (), ()))
        return effects

    def know(self, advertisement: str, filter: str = "x >= 0", hop: str | None = "b") -> list[Effect]:
        """Routing knows the advertisement, from now on or again."""
        id = named(advertisement, "a" if hop is None else "z")
        if hop is not None:
            self.ways.hops[id] = hop
        return self.handle(Known(id, publisher_of(id), parse(filter), hop))

    def forget(self, advertisement: str, is_lost: bool = False) -> list[Effect]:
        id = named(advertisement)
        self.ways.hops.pop(id, None)
        return self.handle(Forgotten(id, is_lost))

    def fire(self, key: Any, at: float) -> list[Effect]:
        self.now = at
        return self.handle(Fired(key))

    # The usual requests.

    def subscribe(self, client: str, number: int = 1, filter: str = "x >= 0", **options: Any) -> list[Effect]:
        return self.say(client, subscription(number, filter, **options))

    def installed(self, client: str, number: int = 1, filter: str = "x >= 0", **options: Any) -> list[Effect]:
        """Subscribe, and the network has it."""
        self.subscribe(client, number, filter, **options)
        return self.settle()

    def advertise(self, client: str, number: int = 1, filter: str = "x >= 0") -> list[Effect]:
        """Advertise, the network has it, and so has our routing."""
        self.say(client, Advertise(number, filter))
        self.settle()
        return self.know(f"{client}/{number}", filter, None)

    def publish(
        self, client: str, first: int, *values: Value, advertisement: int = 1, receipt: bool = False
    ) -> list[Effect]:
        heads = tuple(head(value) for value in values)
        payloads = tuple(b"%d" % number for number in range(first, first + len(values)))
        return self.say(client, PublishMessage(advertisement, first, receipt, heads, payloads))

    def arrive(
        self,
        publisher: str,
        numbers: Sequence[int],
        *wanted: tuple[tuple[str, int], ...],
        at: float | None = None,
        size: int = 0,
    ) -> list[Effect]:
        """Publications come from elsewhere; `wanted` says for each who wants it, or once for all."""
        each = list(wanted) if len(wanted) == len(numbers) else list(wanted) * len(numbers)
        return self.handle(Matched(batch(publisher, numbers, self.now if at is None else at, size), each))

    def take(self, client: str, count: int, number: int = 1) -> list[Effect]:
        return self.say(client, Taken(number, count))


def named(advertisement: str, broker: str = "z") -> str:
    """With the broker that offers it: z, far away, unless it is said."""
    return advertisement if "@" in advertisement else f"{advertisement}@{broker}"


def head(value: Value) -> bytes:
    return encode_head({"x": value})


def batch(publisher: str, numbers: Sequence[int], at: float = 0.0, size: int = 0) -> Publications:
    heads = tuple(head(number) for number in numbers)
    payloads = tuple(b"p" * size for _ in numbers)
    return Publications(publisher, named(f"{publisher}/1"), at, 0, tuple(numbers), heads, payloads)


def subscription(number: int = 1, filter: str = "x >= 0", **options: Any) -> Subscribe:
    """An installed subscription with plenty of room, unless told otherwise."""
    asked = {
        "guarantee": "installed",
        "since": None,
        "after": (),
        "is_continued": False,
        "group": "",
        "policy": "wait",
        "queue_max": 1000,
        "window": 1000,
    } | options
    return Subscribe(number, filter, **asked)


def forwarded(effects: Iterable[Effect]) -> list[tuple[int, ...]]:
    return [forward.batch.numbers for forward in of(Forward, effects)]


def received(effects: Iterable[Effect], client: str, number: int = 1) -> list[int]:
    """The numbers of the publications that leave for this subscription of a client."""
    numbers: list[int] = []
    for delivery in sent(effects, Delivery, client):
        matched = delivery.matched * len(delivery.numbers) if len(delivery.matched) == 1 else delivery.matched
        numbers += [each for each, who in zip(delivery.numbers, matched, strict=True) if number in who]
    return numbers


def asked(effects: list[Any]) -> list[tuple[str, tuple[tuple[str, int | None], ...], float | None]]:
    """The questions that leave: to whom, for what, since when."""
    return [
        (effect.to, tuple((id.removesuffix("@z"), after) for id, after in effect.message.wanted), effect.message.since)
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, Reference)
    ]


def answer(desk: EdgeDesk, publisher: str, *numbers: int, at: float = 0.0, **fields: Any) -> list[Any]:
    """What comes back for the latest question of c's subscription 1."""
    subscription = desk.edge.subscriptions.all["c", 1]
    known: dict[str, Any] = {
        "client": "c",
        "subscription": 1,
        "round": subscription.streams[publisher].round,
        "advertisement": named(f"{publisher}/1"),
        "publisher": publisher,
        "group_at": None,
        "begin": 0,
        "is_truncated": False,
        "missing": 0,
        "is_counted": False,
        "lacking": (),
        "held": (),
        "has_more": False,
        "through": max(numbers, default=0),
        "problem": "",
        "path": (),
        "accepted_at": (at,) * len(numbers),
        "numbers": numbers,
        "heads": tuple(head(number) for number in numbers),
        "payloads": (b"",) * len(numbers),
    } | fields
    return desk.say("b", History(**known))


def served(params: EdgeParams | None = None) -> EdgeDesk:
    """A client c here, a publisher p behind the neighbour b."""
    desk = EdgeDesk(params)
    desk.neighbours("b")
    desk.up("c")
    desk.know("p/1")
    return desk
