"""The guarantees of delivery against an oracle, under random interleavings of everything that clients and links do.

A world of brokers on a random tree, each with routing and an edge; clients are played by the test, which keeps what
every client published and got. Whatever the order of events, each subscription must get what its guarantee says.
"""

from collections import Counter
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.properties.message_strategies import of_message
from tests.worlds.brokers import BrokerWorld, random_tree
from tests.worlds.edge import head
from tidings.machine.effects import Send
from tidings.machine.inputs import Loaded, Received
from tidings.machine.node import Machine, Node
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.protocols.delivery.edge.edge import Edge
from tidings.protocols.delivery.edge.namesakes import TOLD_MAX
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.messages import (
    Advertise,
    Delivery,
    PublisherLife,
    PublishMessage,
    Refusal,
    Subscribe,
    Taken,
    Unadvertise,
    Unsubscribe,
)
from tidings.protocols.routing.params import ReductionName, RoutingParams
from tidings.protocols.routing.router import Router
from tidings.pubsub.client import Missed, Namesake, Receipt
from tidings.pubsub.publications import event_of
from tidings.pubsub.signals import ClientUp, Forward, Known, Matched, NeighbourUp
from tidings.wire import decode, encode

seeds = st.integers(0, 2**48)
FILTERS = ("x >= 0", "x >= 3", "x < 6", "x >= 3 AND x < 6", "x = 4", "x >= 7")
PARSED = {text: parse(text) for text in FILTERS}
FOR_EVER = 1e9


class Publication(msgspec.Struct, frozen=True):
    publisher: str
    number: int
    x: int
    accepted_at: float
    moment: int
    """In the order of everything that happened."""


class Subscriber(msgspec.Struct, dict=True):
    """What a client knows of one subscription."""

    broker: str
    asked: Subscribe
    begun_at: float
    known: frozenset[str] = frozenset()
    """The publishers that its broker knew when it came."""
    confirmed: int | None = None
    ended: int | None = None
    got: list[tuple[str, int]] = []
    told: dict[str, int] = {}
    """How many it was told to have missed at most, by publisher."""

    @property
    def filter(self) -> Filter:
        return PARSED[self.asked.filter]


class Guarantees:
    def __init__(
        self, seed: int, reduction: ReductionName = "covering", brokers: int = 4, checks: bool = False
    ) -> None:
        self.rng = Random(seed)
        self.has_broken = False
        """Whether links broke: publishers may have been unknown for a while."""
        names = [f"b{number}" for number in range(brokers)]
        self.edges: dict[str, Edge] = {}
        nodes = {name: self.node(name, reduction) for name in names}
        self.world = BrokerWorld(nodes, self.rng, checks=checks)
        self.world.watch = self.watch
        self.links = random_tree(names, self.rng)
        self.moment = 0
        self.published: list[Publication] = []
        self.numbers: dict[str, int] = {}
        self.subscribers: dict[tuple[str, int], Subscriber] = {}
        self.receipts: dict[tuple[str, int], int] = {}
        """Publications with a receipt, and the moment at which that came."""
        self.groups = 0
        for first, second in self.links:
            self.world.link(first, second)
        for name in names:
            self.say(name, ClientUp(f"c-{name}", "somebody"))
            self.say(name, ClientUp(f"p-{name}", "somebody"))

    def node(self, name: str, reduction: ReductionName) -> Machine:
        router = Router(name, RoutingParams(reduction=reduction, engine="plain"))
        edge = self.edges[name] = Edge(name, EdgeParams(history_age=FOR_EVER), router)
        return Node({"routing": router, "delivery": edge})

    def say(self, broker: str, input: Any) -> None:
        self.moment += 1
        self.world.tell(broker, input)

    def watch(self, broker: str, to: str, message: Any) -> None:
        """What a client receives; it takes publications at once, and repeats what was refused for now."""
        match message:
            case Delivery():
                for place, number in enumerate(message.numbers):
                    for each in message.matched[place if len(message.matched) > 1 else 0]:
                        self.arrive(to, each, message.publisher, number, message.heads[place])
            case Receipt("subscribe", number):
                if self.subscribers[to, number].confirmed is None:
                    self.subscribers[to, number].confirmed = self.moment
            case Missed(number, publisher, count):
                told = self.subscribers[to, number].told
                told[publisher] = told.get(publisher, 0) + count
            case Receipt("publish", number):
                self.receipts[to, number] = self.moment

    def arrive(self, client: str, number: int, publisher: str, publication: int, head: bytes) -> None:
        subscriber = self.subscribers[client, number]
        assert subscriber.ended is None, "delivered after unsubscribing"
        assert subscriber.filter.matches(event_of(head, b"")), "delivered without a match"
        assert subscriber.asked.guarantee != "installed" or subscriber.confirmed is not None, "before the receipt"
        assert all(known < publication for name, known in subscriber.got if name == publisher), "twice, or not in order"
        subscriber.got.append((publisher, publication))

    # What clients do.

    def advertise(self) -> None:
        broker = self.rng.choice(list(self.edges))
        self.say(broker, Received(f"p-{broker}", Advertise(self.rng.choice([1, 2]), "x >= 0")))
        self.numbers.setdefault(f"p-{broker}", 0)

    def publish(self, receipt: bool = False) -> None:
        if not self.numbers:
            return
        publisher = self.rng.choice(list(self.numbers))
        broker = publisher.removeprefix("p-")
        known = list(self.edges[broker].publishers.all[publisher].advertisements)
        if not known:
            return
        values = [self.rng.randrange(10) for _ in range(self.rng.choice([1, 1, 1, 3]))]
        first = self.numbers[publisher] + 1
        self.numbers[publisher] += len(values)
        moment = self.moment + 1
        heads = tuple(head(value) for value in values)
        message = PublishMessage(self.rng.choice(known), first, receipt, heads, (b"",) * len(values))
        self.say(broker, Received(publisher, message))
        accepted_at = self.edges[broker].publishers.all[publisher].accepted_at
        for place, value in enumerate(values):
            self.published.append(Publication(publisher, first + place, value, accepted_at, moment))

    def publish_and_withdraw(self) -> None:
        """Without waiting for anything between; other advertisements of the publisher may stay."""
        broker = self.rng.choice(list(self.edges))
        publisher, number = f"p-{broker}", self.rng.choice([1, 2])
        self.say(broker, Received(publisher, Advertise(number, "x >= 0")))
        self.numbers.setdefault(publisher, 0)
        for _ in range(self.rng.choice([1, 3])):
            self.publish()
        self.say(broker, Received(publisher, Unadvertise(number)))

    def subscribe(self, **options: Any) -> Subscriber:
        broker = self.rng.choice(list(self.edges))
        client = f"c-{broker}"
        number = len(self.subscribers) + 1
        fields = {
            "filter": self.rng.choice(FILTERS),
            "guarantee": "installed",
            "since": None,
            "after": (),
            "is_continued": False,
            "group": "",
            "policy": "wait",
            "queue_max": 10**6,
            "window": 10**4,
        } | options
        asked = Subscribe(number, **fields)
        known = frozenset(self.edges[broker].fetching.of_publisher)
        subscriber = self.subscribers[client, number] = Subscriber(broker, asked, self.world.now, known)
        self.say(broker, Received(client, asked))
        return subscriber

    def refer(self) -> None:
        """A subscription by reference: since it arrives, since a time, or behind publications."""
        match self.rng.choice(["arrival", "past", "future", "after"]):
            case "arrival":
                self.subscribe(guarantee="reference")
            case "past":
                self.subscribe(guarantee="reference", since=self.world.now - self.rng.uniform(0, 10))
            case "future":
                self.subscribe(guarantee="reference", since=self.world.now + self.rng.uniform(0, 10))
            case "after":
                named = {
                    name: self.rng.randint(0, last) for name, last in self.numbers.items() if self.rng.random() < 0.7
                }
                self.subscribe(guarantee="reference", after=tuple(named.items()))

    def refer_together(self, guarantee: str = "reference") -> None:
        """Twins at different brokers, perhaps at different times."""
        self.groups += 1
        filter = self.rng.choice(FILTERS)
        for _ in range(2):
            self.subscribe(guarantee=guarantee, filter=filter, group=f"g{self.groups}")
            self.pass_time()
            for _ in range(self.rng.choice([0, 0, 3])):
                self.publish()

    def join(self) -> None:
        """One more member of a group that there is."""
        members = [each.asked for each in self.subscribers.values() if each.asked.group]
        if members:
            asked = self.rng.choice(members)
            self.subscribe(guarantee=asked.guarantee, filter=asked.filter, group=asked.group)

    def unsubscribe(self) -> None:
        alive = [key for key, each in self.subscribers.items() if each.ended is None]
        if alive:
            client, number = self.rng.choice(alive)
            subscriber = self.subscribers[client, number]
            self.say(subscriber.broker, Received(client, Unsubscribe(number)))
            subscriber.ended = self.moment

    def pass_time(self) -> None:
        self.world.now += self.rng.choice([0.0, 0.0, 0.1, 1.0])
        self.world.run(self.rng.choice([0, 1, 2, 5, 20]))

    def flap(self) -> None:
        """A link breaks, and comes back later."""
        self.has_broken = True
        first, second = self.rng.choice(self.links)
        self.world.cut(first, second)
        for _ in range(self.rng.choice([0, 1, 3])):
            self.publish()
            self.pass_time()
        self.world.link(first, second)

    def play(self, steps: int, *actions: Any) -> None:
        for _ in range(steps):
            self.rng.choice(actions)()
            self.pass_time()
        self.world.rest()

    # What must have come of it.

    def got(self, subscriber: Subscriber) -> set[tuple[str, int]]:
        return set(subscriber.got)

    def matching(self, subscriber: Subscriber) -> list[Publication]:
        return [each for each in self.published if subscriber.filter.matches(event_of(head(each.x), b""))]

    def owed(self, subscriber: Subscriber) -> set[tuple[str, int]]:
        """What a subscription by reference gets, exactly; without a time it may get more of publishers that were not
        known, when it came or later."""
        asked, after = subscriber.asked, dict(subscriber.asked.after)
        since = subscriber.begun_at if asked.since is None else asked.since
        return {
            (each.publisher, each.number)
            for each in self.matching(subscriber)
            if (each.number > after[each.publisher] if each.publisher in after else each.accepted_at >= since)
        }

    def judge(self) -> None:
        for key, subscriber in self.subscribers.items():
            if subscriber.ended is not None:
                continue
            got = self.got(subscriber)
            if subscriber.asked.guarantee == "reference" and not subscriber.asked.group:
                owed = self.owed(subscriber)
                assert owed <= got, f"{key} misses {sorted(owed - got)}"
                is_exact = subscriber.asked.since is not None
                known = set() if self.has_broken else subscriber.known
                more = {name for name, _ in got - owed if is_exact or name in known}
                assert not more, f"{key} gets what it did not ask for of {sorted(more)}"
            if subscriber.asked.guarantee == "installed":
                assert subscriber.confirmed is not None, f"{key} has no receipt"
                after = {
                    (each.publisher, each.number)
                    for each in self.matching(subscriber)
                    if each.moment > subscriber.confirmed
                }
                assert after <= got, f"{key} misses {sorted(after - got)}"
        self.judge_groups()
        assert not any(edge.requests.waiting for edge in self.edges.values()), "something is outstanding at rest"

    def judge_groups(self) -> None:
        for number in range(1, self.groups + 1):
            members = [each for each in self.subscribers.values() if each.asked.group == f"g{number}"]
            members = [each for each in members if each.ended is None]
            assert len({frozenset(each.got) for each in members}) <= 1, "members of a group differ"
            for member in [each for each in members if each.asked.guarantee == "reference"][:1]:
                latest = {
                    (each.publisher, each.number)
                    for each in self.matching(member)
                    if each.accepted_at >= max(other.begun_at for other in members)
                }
                assert latest <= self.got(member), "a group misses what came after all its members"
        self.judge_told()

    def judge_told(self) -> None:
        """Whatever a member of a group lacks of what came after its receipt it was told of."""
        for subscriber in self.subscribers.values():
            if subscriber.asked.group and subscriber.ended is None and subscriber.confirmed is not None:
                late = [each for each in self.matching(subscriber) if each.moment > subscriber.confirmed]
                absent = Counter(each.publisher for each in late if (each.publisher, each.number) not in subscriber.got)
                assert all(subscriber.told.get(name, 0) >= n for name, n in absent.items()), "lost, and nobody was told"


@pytest.mark.spec("S-99", "S-104", "S-105", "S-108", "S-110", "S-112", "S-116")
@given(seeds, st.sampled_from(["plain", "covering", "merging"]))
def test_every_guarantee_holds_in_any_order_of_events(seed: int, reduction: ReductionName) -> None:
    play = Guarantees(seed, reduction, checks=True)
    play.advertise()
    play.play(
        30,
        play.advertise,
        *[play.publish] * 5,
        *[play.subscribe] * 2,
        *[play.refer] * 3,
        lambda: play.subscribe(guarantee="none"),
        play.unsubscribe,
    )
    play.judge()


class Lives(Guarantees):
    """Processes of one name at every broker, at once and one after the other; each begins with whatever number its
    clock gives it."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, checks=True)
        self.lives = 0
        self.running: dict[str, str] = {}
        for broker in self.edges:
            self.begin(broker)

    def begin(self, broker: str) -> None:
        """A process takes the place of the one that is there, if any."""
        self.lives += 1
        self.running[broker] = f"p~{self.lives}"
        self.numbers[self.running[broker]] = self.rng.choice([0, 5, 1000])
        self.say(broker, ClientUp("p", "somebody"))
        self.say(broker, Received("p", PublisherLife(str(self.lives))))
        first = self.numbers[self.running[broker]] + 1
        self.say(broker, Received("p", Advertise(1, "x >= 0", first)))

    def begin_again(self) -> None:
        self.begin(self.rng.choice(list(self.edges)))

    def publish(self, receipt: bool = False) -> None:
        broker = self.rng.choice(list(self.edges))
        life = self.running[broker]
        self.numbers[life] += 1
        number, value, moment = self.numbers[life], self.rng.randrange(10), self.moment + 1
        self.say(broker, Received("p", PublishMessage(1, number, receipt, (head(value),), (b"",))))
        accepted_at = self.edges[broker].publishers.all[life].accepted_at
        self.published.append(Publication(life, number, value, accepted_at, moment))


@given(seeds)
def test_processes_of_one_name_at_several_brokers_lose_nothing_and_hear_of_each_other(seed: int) -> None:
    play = Lives(seed)
    warned: set[tuple[str, str]] = set()

    def watch(broker: str, to: str, message: Any) -> None:
        if isinstance(message, Namesake):
            warned.add((broker, message.publisher))
        play.watch(broker, to, message)

    play.world.watch = watch
    play.play(12, *[play.publish] * 2, play.subscribe, play.refer, play.begin_again)
    play.play(20, *[play.publish] * 5, play.begin_again, play.flap)
    play.judge()
    for broker in play.running:
        others = {life for other, life in play.running.items() if other != broker}
        told = {life for name, life in warned if name == broker}
        assert others <= told or len(told) >= TOLD_MAX


@pytest.mark.spec("S-107")
@given(seeds)
@example(1708)
def test_members_of_a_group_get_the_same_wherever_they_are(seed: int) -> None:
    play = Guarantees(seed)
    play.advertise()
    play.play(20, play.advertise, *[play.publish] * 5, play.refer_together, play.subscribe)
    play.judge()


@given(seeds)
@example(seed=1185)
def test_a_member_of_a_group_that_was_cut_off_loses_nothing_that_it_is_not_told(seed: int) -> None:
    """Publishers come while a link is broken, and members at the other end of it that are heard first."""
    play = Guarantees(seed)
    twins = [lambda: play.refer_together("installed"), play.refer_together]
    for _ in range(3):
        first, second = play.rng.choice(play.links)
        play.play(5, play.publish, *twins)
        play.world.cut(first, second)
        play.play(10, play.advertise, play.publish, play.join)
        play.world.link(first, second)
        play.play(5, play.publish)
    play.judge_told()


@given(seeds)
def test_members_of_a_group_get_the_same_with_any_guarantee(seed: int) -> None:
    play = Guarantees(seed)
    for _ in range(3):
        play.advertise()
    play.world.rest()
    twins = [lambda: play.refer_together("installed"), play.refer_together]
    play.play(20, *[play.publish] * 5, *twins, play.subscribe)
    play.judge()


@pytest.mark.spec("S-115")
@given(seeds)
def test_a_receipt_for_a_publication_comes_when_all_who_are_owed_it_have_it(seed: int) -> None:
    play = Guarantees(seed)
    play.advertise()
    early: list[str] = []

    def watch(broker: str, to: str, message: Any) -> None:
        if isinstance(message, Receipt) and message.kind == "publish":
            published = [each for each in play.published if each.publisher == to and each.number == message.number]
            early.extend(missing(play, published))
        play.watch(broker, to, message)

    play.world.watch = watch
    play.play(6, play.advertise)
    play.play(20, *[lambda: play.publish(receipt=True)] * 3, play.subscribe)
    assert not early
    assert {(name, last) for name, last in play.numbers.items() if last} <= play.receipts.keys()


def missing(play: Guarantees, published: list[Publication]) -> list[str]:
    return [
        f"{key} lacks {each}"
        for each in published
        for key, subscriber in play.subscribers.items()
        if subscriber.confirmed is not None and subscriber.confirmed < each.moment
        if each in play.matching(subscriber) and (each.publisher, each.number) not in subscriber.got
    ]


@pytest.mark.spec("S-110")
@given(seeds, st.booleans(), st.sampled_from([0.0, 0.05, 0.5, 1000.0]))
def test_nothing_that_was_promised_is_lost_when_links_break_however_far_clocks_are_apart(
    seed: int, withdraws: bool, error: float
) -> None:
    play = Guarantees(seed)
    for edge in play.edges.values():
        set_clock(edge, play.rng.uniform(-error, error))
    refused: list[tuple[str, str, int]] = []

    def watch(broker: str, to: str, message: Any) -> None:
        if isinstance(message, Refusal) and message.kind == "subscribe":
            refused.append((broker, to, message.number))
        play.watch(broker, to, message)

    play.world.watch = watch
    play.advertise()
    actions = [play.advertise, play.subscribe, play.flap, play.unsubscribe, *[play.publish] * 5]
    if not error:
        # A time is compared across two clocks.
        actions.append(play.refer)
    if withdraws:
        actions += [play.publish_and_withdraw] * 4
    play.play(25, *actions)
    while refused:
        broker, client, number = refused.pop(0)
        subscriber = play.subscribers[client, number]
        if subscriber.asked.guarantee == "installed" and subscriber.ended is None:
            play.say(broker, Received(client, subscriber.asked))
            play.world.rest()
    play.play(10, play.publish)
    play.judge()


def set_clock(edge: Edge, offset: float) -> None:
    params = msgspec.structs.replace(edge.params, clock_offset=offset)
    for part in (edge, edge.acceptance, edge.publishers, edge.references, edge.subscriptions, edge.fetching):
        part.params = params


@pytest.mark.spec("S-106")
@given(seeds, st.sampled_from([0.0, 0.005, 0.05]))
def test_clocks_that_are_off_shift_the_beginning_by_no_more_than_twice_their_error(seed: int, error: float) -> None:
    play = Guarantees(seed)
    for edge in play.edges.values():
        set_clock(edge, play.rng.uniform(-error, error))
    play.advertise()
    play.play(10, play.publish, play.advertise)
    true_times: dict[tuple[str, int], float] = {}

    def publish() -> None:
        at = play.world.now
        count = len(play.published)
        play.publish()
        true_times.update({(each.publisher, each.number): at for each in play.published[count:]})
        play.world.now += 0.01

    play.play(25, publish, publish, publish, lambda: play.subscribe(guarantee="reference"))
    for subscriber in play.subscribers.values():
        got = play.got(subscriber)
        for each in play.matching(subscriber):
            at = true_times.get((each.publisher, each.number))
            if at is not None and at >= subscriber.begun_at + 2 * error + 1e-4:
                assert (each.publisher, each.number) in got
            if at is not None and at < subscriber.begun_at - 2 * error:
                assert (each.publisher, each.number) not in got


@given(seeds, st.integers(1, 8), st.integers(0, 8))
def test_a_slow_client_that_waits_gets_everything_in_the_end(seed: int, window: int, queue_max: int) -> None:
    play = Guarantees(seed, brokers=3)
    play.advertise()
    slow = {"window": window, "queue_max": queue_max}

    def take() -> None:
        for (client, number), subscriber in play.subscribers.items():
            if subscriber.ended is None:
                play.say(subscriber.broker, Received(client, Taken(number, play.rng.randint(0, window))))

    actions: list[Any] = [play.advertise, *[play.publish] * 6, take]
    actions += [lambda: play.subscribe(**slow), lambda: play.subscribe(guarantee="reference", **slow)]
    play.play(25, *actions)
    while any(is_behind(edge) for edge in play.edges.values()):
        for (client, number), subscriber in play.subscribers.items():
            play.say(subscriber.broker, Received(client, Taken(number, window)))
        play.world.rest()
    play.judge()


def is_behind(edge: Edge) -> bool:
    return any(each.outlet.under_way or each.lagging for each in edge.subscriptions.all.values())


edge_messages = st.one_of([of_message(kind) for kind in Edge.messages])


class Nobody:
    def hop_toward(self, advertisement: str) -> str | None:
        return "b" if advertisement else None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["c", "p", "b", "stranger"]), st.one_of([of_message(kind) for kind in Edge.messages])
        ),
        max_size=20,
    ),
    st.booleans(),
)
def test_no_message_of_anybody_raises(messages: list[tuple[str, Any]], is_durable: bool) -> None:
    edge = Edge("a", EdgeParams(is_durable=is_durable, subscriptions_max=3), Nobody())
    edge.start(0.0)
    if is_durable:
        edge.handle(0.0, Loaded(""))
    for input in (NeighbourUp("b", 1), ClientUp("c", "c"), ClientUp("p", "p", parse("x >= 0"), parse("x >= 0"))):
        edge.handle(0.0, input)
    edge.handle(0.0, Received("p", Advertise(1, "x >= 0")))
    edge.handle(0.0, Known("p/1@a", "p", parse("x >= 0"), None))
    for place, (sender, message) in enumerate(messages):
        for effect in edge.handle(float(place), Received(sender, message)):
            if isinstance(effect, Send):
                decode(encode(effect.message))
            if isinstance(effect, Forward):
                encode(effect.batch)
                wanted = tuple(edge.subscriptions.all)
                edge.handle(float(place), Matched(effect.batch, [wanted] * len(effect.batch.numbers)))
        edge.check()
