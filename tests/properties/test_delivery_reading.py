"""Reading by marks and pages against an oracle, while the publisher moves, links break, brokers crash and forget.

A world of brokers on a random tree, each with routing and an edge, some with a disk. One client publishes, at one
broker after another, and repeats what was not accepted, as a session does. Readers everywhere look for marks and read
from one number to another, page by page. Whatever the order of events: the pages together are exactly what was
published between the numbers and matches, or a page says that something is no longer stored.
"""

from collections import deque
from random import Random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.brokers import BrokerWorld, random_tree
from tests.worlds.edge import head
from tidings.machine.effects import Effect, Load, Save
from tidings.machine.inputs import Input, Loaded, Received, Saved
from tidings.machine.node import Machine, Node
from tidings.model.language.parser import parse
from tidings.protocols.delivery.edge.edge import Edge
from tidings.protocols.delivery.edge.history import Sieve, within, without
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.messages import Advertise, Fetch, Look, PublishMessage, Refusal
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.router import Router
from tidings.pubsub.client import Accepted, Fetched, MarksReply
from tidings.pubsub.publications import decode_head, encode_head
from tidings.pubsub.signals import ClientDown, ClientUp

seeds = st.integers(0, 2**48)
FILTERS = ("x >= 0", "x >= 3", "x = 4", "x < 6")
PARSED = {text: parse(text) for text in FILTERS}
FOR_EVER = 1e9


class DiskWorld(BrokerWorld):
    """Brokers that save. What is on its way to the disk is written, and confirmed, some time later, or lost in a
    crash."""

    def __init__(self, nodes: dict[str, Machine], rng: Random, checks: bool) -> None:
        self.disks: dict[str, dict[str, bytes]] = {name: {} for name in nodes}
        self.unsaved: dict[str, deque[Save]] = {name: deque() for name in nodes}
        super().__init__(nodes, rng, checks=checks)

    def perform(self, name: str, effects: Any) -> None:
        others: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Save):
                self.unsaved[name].append(effect)
                self.news[name].append(Saved(effect.name))
            elif isinstance(effect, Load):
                entries = sorted(self.disks[name].items())
                self.news[name].appendleft(Loaded(effect.prefix, tuple(entries)))
            else:
                others.append(effect)
        super().perform(name, others)

    def tell(self, name: str, input: Input) -> list[Effect]:
        if isinstance(input, Saved):
            save = self.unsaved[name].popleft()
            if save.data is None:
                self.disks[name].pop(save.name, None)
            else:
                self.disks[name][save.name] = save.data
        return super().tell(name, input)

    def crash(self, name: str, node: Machine) -> None:
        """The broker dies, and another begins with what is on the disk."""
        self.now += 1.0
        near = [edge for edge in self.epochs if name in edge]
        self.unsaved[name].clear()
        super().crash(name, node)
        for edge in near:
            self.link(*edge)


class Job(msgspec.Struct, dict=True):
    """A reader's way from one number to another."""

    number: int
    filter: str
    after: int
    through: int
    limit: int
    broker: str = ""
    position: int = 0
    got: list[tuple[int, int]] = []
    is_truncated: bool = False
    is_done: bool = False


class ReadingPlay:
    def __init__(self, seed: int, *, is_durable: bool, keeps: int, brokers: int = 3) -> None:
        self.rng = Random(seed)
        self.names = [f"b{number}" for number in range(brokers)]
        self.params = EdgeParams(
            history_age=FOR_EVER,
            is_durable=is_durable,
            history_count_max=keeps,
            scanned_max=self.rng.choice([2, 1000]),
        )
        self.world = DiskWorld({name: self.node(name) for name in self.names}, self.rng, checks=True)
        self.world.watch = self.watch
        self.links = random_tree(self.names, self.rng)
        self.values: list[int] = []
        """What is published under the number of its place, which begins with 1."""
        self.accepted = 0
        self.home = self.names[0]
        self.marks: list[tuple[int, int]] = []
        self.jobs: list[Job] = []
        self.todo: deque[Job] = deque()
        self.looks = 0
        for first, second in self.links:
            self.world.link(first, second)
        self.world.rest()
        for name in self.names:
            self.world.tell(name, ClientUp(f"r-{name}", "reader"))
        self.arrive(self.home)

    def node(self, name: str) -> Machine:
        router = Router(name, RoutingParams(engine="plain"))
        return Node({"routing": router, "delivery": Edge(name, self.params, router)})

    def watch(self, broker: str, to: str, message: Any) -> None:
        match message:
            case Accepted(through) if to == "p" and broker == self.home:
                self.accepted = max(self.accepted, through)
            case MarksReply():
                for publisher, forgotten, through in message.marks:
                    assert publisher == "p" and 0 <= forgotten <= through <= len(self.values)
                    self.marks.append((forgotten, through))
            case Fetched():
                self.turn(self.jobs[message.number - 1], message)
            case Refusal("read"):
                assert message.may_retry, message.reason
                self.todo.append(self.jobs[message.number - 1])

    def turn(self, job: Job, page: Fetched) -> None:
        assert not job.is_done
        stored = page.page
        assert len(stored) <= job.limit
        assert page.through <= job.through and page.has_more == (page.through < job.through)
        rows = [(number, decode_head(each)["x"]) for number, each in zip(stored.numbers, stored.heads, strict=True)]
        assert all(job.position < number <= page.through for number in stored.numbers)
        job.got += rows  # type: ignore[arg-type]
        job.is_truncated |= page.is_truncated
        job.position = max(job.position, page.through)
        job.is_done = not page.has_more
        if not job.is_done:
            self.todo.append(job)

    # What happens.

    def arrive(self, broker: str) -> None:
        self.home = broker
        self.world.tell(broker, ClientUp("p", "publisher"))
        self.world.tell(broker, Received("p", Advertise(1, "x >= 0", 1)))
        self.send(self.accepted + 1)

    def send(self, first: int) -> None:
        heads = tuple(head(value) for value in self.values[first - 1 :])
        if heads:
            self.world.tell(self.home, Received("p", PublishMessage(1, first, False, heads, (b"",) * len(heads))))

    def publish(self) -> None:
        first = len(self.values) + 1
        self.values += [self.rng.randrange(10) for _ in range(self.rng.choice([1, 1, 4]))]
        self.send(first)

    def move(self) -> None:
        self.world.tell(self.home, ClientDown("p"))
        self.arrive(self.rng.choice(self.names))

    def look(self) -> None:
        self.looks += 1
        broker = self.rng.choice(self.names)
        self.world.tell(broker, Received(f"r-{broker}", Look(self.looks, self.rng.choice(FILTERS))))

    def read(self) -> None:
        if self.marks:
            through = self.rng.choice(self.marks)[1]
            after = self.rng.randint(0, through)
            number = len(self.jobs) + 1
            job = Job(number, self.rng.choice(FILTERS), after, through, self.rng.choice([1, 2, 1000]), position=after)
            self.jobs.append(job)
            self.ask(job)

    def ask(self, job: Job) -> None:
        job.broker = self.rng.choice(self.names)
        fields = job.filter, "p", job.position, None, job.through, job.limit
        self.world.tell(job.broker, Received(f"r-{job.broker}", Fetch(job.number, *fields)))

    def flap(self) -> None:
        first, second = self.rng.choice(self.links)
        self.world.cut(first, second)
        for _ in range(self.rng.choice([0, 1, 3])):
            self.publish()
            self.pass_time()
        self.world.link(first, second)

    def crash(self) -> None:
        broker = self.rng.choice(self.names)
        self.world.crash(broker, self.node(broker))
        self.world.tell(broker, ClientUp(f"r-{broker}", "reader"))
        if self.home == broker:
            self.arrive(broker)
        # A session asks the next broker when its own is gone.
        waiting = [each for each in self.jobs if each.broker == broker and not each.is_done and each not in self.todo]
        self.todo += waiting

    def pass_time(self) -> None:
        self.world.now += self.rng.choice([0.0, 0.1, 1.0])
        self.world.run(self.rng.choice([0, 1, 2, 5, 20]))
        for _ in range(len(self.todo)):
            self.ask(self.todo.popleft())

    def play(self, steps: int, *actions: Any) -> None:
        for _ in range(steps):
            self.rng.choice(actions)()
            self.pass_time()
        self.finish()

    def finish(self) -> None:
        """Until every reader has its answer."""
        for _ in range(10_000):
            self.world.rest()
            if self.todo:
                self.pass_time()
            elif all(job.is_done for job in self.jobs):
                return
            else:
                # Publishers go on, and so whoever was told of publications that a crash lost hears of the loss.
                self.publish()
                self.world.fire()
        raise AssertionError("a reading never ends")

    # What must have come of it.

    def wanted(self, job: Job) -> list[tuple[int, int]]:
        rows = [(number, self.values[number - 1]) for number in range(job.after + 1, job.through + 1)]
        return [row for row in rows if Sieve(PARSED[job.filter], "plain").places([head(row[1])])]

    def judge(self) -> None:
        for job in self.jobs:
            wanted = self.wanted(job)
            assert job.got == sorted(set(job.got)), "twice, or not in order"
            assert set(job.got) <= set(wanted), "something that was not asked for"
            assert job.is_truncated or job.got == wanted, "something is missing and nobody says so"

    def repeat(self) -> None:
        """Read everything again."""
        before = list(self.jobs)
        for job in before:
            fields = job.filter, job.after, job.through, job.limit
            again = Job(len(self.jobs) + 1, *fields, position=job.after)
            self.jobs.append(again)
            self.ask(again)
        self.finish()
        for job, again in zip(before, self.jobs[len(before) :], strict=True):
            assert again.is_truncated or job.is_truncated or again.got == job.got


@given(seeds, st.booleans(), st.sampled_from([3, 1000]))
def test_pages_are_exactly_what_was_published_or_say_that_something_is_gone(
    seed: int, is_durable: bool, keeps: int
) -> None:
    play = ReadingPlay(seed, is_durable=is_durable, keeps=keeps)
    actions = play.publish, play.publish, play.look, play.look, play.read, play.read, play.move, play.flap, play.crash
    play.play(40, *actions)
    play.repeat()
    play.judge()


@given(seeds, st.booleans())
def test_nothing_is_called_lost_that_some_broker_has(seed: int, is_durable: bool) -> None:
    """No history is too long, and whoever crashes has a disk."""
    play = ReadingPlay(seed, is_durable=is_durable, keeps=1000)
    actions = [play.publish, play.publish, play.look, play.look, play.read, play.read, play.move]
    play.play(40, *actions, *([play.crash] if is_durable else []))
    play.judge()
    assert not any(job.is_truncated for job in play.jobs)


# The pieces.

extents = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=5)


def numbers_of(some: list[tuple[int, int]]) -> set[int]:
    return {number for begin, end in some for number in range(begin + 1, end + 1)}


@given(extents, extents, st.integers(0, 12), st.integers(0, 12))
def test_extents_are_sets_of_numbers(some: Any, others: Any, begin: int, end: int) -> None:
    assert numbers_of(without(some, others)) == numbers_of(some) - numbers_of(others)
    assert numbers_of(within(some, begin, end)) == numbers_of(some) & numbers_of([(begin, end)])


values = st.one_of(st.integers(-3, 9), st.floats(-3, 9), st.sampled_from(["", "a", "4"]), st.booleans())


@given(st.sampled_from([*FILTERS, "x = 'a' OR y < 3", "LENGTH(x) > 0", "TRUE"]), st.lists(values, max_size=200))
def test_a_fast_sieve_lets_through_what_a_plain_one_does(text: str, drawn: list[Any]) -> None:
    heads = [encode_head({"x": value}) for value in drawn]
    heads[5:5] = [b"\xc1", b"\x81\xa1x"]
    filter = parse(text)
    assert list(Sieve(filter, "fast").places(heads)) == Sieve(filter, "plain").places(heads)
