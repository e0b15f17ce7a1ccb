"""Recovery among several nodes, over a network that routes requests and repairs by content and loses some."""

from collections.abc import Callable
from random import Random

import pytest

from tests.worlds.recovery import DELAY, PUBLISHER, STREAM, RecoveryNetwork, RecoveryWorld, event, params_with
from tidings.model.event import Event
from tidings.model.values import Value
from tidings.protocols.transport.marks import Kind, mark
from tidings.protocols.transport.messages import LossRepair, LossRequest, encode_control
from tidings.protocols.transport.recovery.requester import request_head
from tidings.protocols.transport.signals import Emit
from tidings.pubsub.notes import Suppressed
from tidings.pubsub.publications import event_of

A: dict[str, Value] = {"a": 1}


@pytest.mark.spec("T-56")
@pytest.mark.parametrize("seed", range(20))
def test_one_request_and_one_repair_serve_all_who_lost_the_event(seed: int) -> None:
    """Figure 4.1: A has m5, B and C lost it. C is nearer to the publisher, so it asks first; B hears that and sends
    nothing; A repairs; both deliver."""
    world = RecoveryWorld(seed)
    a, b, c = 1, 2, 3
    for node_id, distance in ((a, 0.05), (b, 0.2), (c, 0.05)):
        world.add(node_id, "a = 1")
        world.measure(node_id, distance)
    world.publish(4, A)
    world.publish(5, A, misses=(b, c))
    world.publish(6, A)
    world.miss(c, 5, A)
    world.miss(b, 5, A)
    world.run(10.0)
    assert [sender for _, sender, _ in world.sent(Kind.REQUEST)] == [c]
    assert [sender for _, sender, _ in world.sent(Kind.REPAIR)] == [a]
    assert sorted(world.recoveries()) == [(b, 5), (c, 5)]
    assert [who for who, _ in world.notes(Suppressed)] == [b]


def lossy(seed: int, share: float) -> Callable[[Kind, int, int], bool]:
    rng = Random(seed)
    return lambda kind, sender, receiver: rng.random() < share


@pytest.mark.spec("T-57")
@pytest.mark.parametrize("kind", [Kind.REQUEST, Kind.REPAIR])
def test_a_request_or_repair_that_is_lost_is_made_up_for_in_the_next_round(kind: Kind) -> None:
    world = RecoveryWorld(3)
    world.add(1, "a = 1")
    world.add(2, "a = 1")
    world.publish(0, A)
    world.publish(1, A, misses=(2,))
    lost_so_far: list[Kind] = []

    def lose_two(sent: Kind, sender: int, receiver: int) -> bool:
        if sent is kind and len(lost_so_far) < 2:
            lost_so_far.append(sent)
            return True
        return False

    world.faults = lose_two
    world.miss(2, 1, A)
    world.run(20.0)
    assert world.recoveries() == [(2, 1)]
    times = [at for at, _, _ in world.sent(Kind.REQUEST)]
    assert len(times) == 3 and times[2] - times[1] >= times[1] - times[0]


@pytest.mark.spec("T-58")
@pytest.mark.parametrize("share", [0.1, 0.3])
def test_with_a_publisher_that_answers_everything_is_recovered_once(share: float) -> None:
    """`RecoveryWorld` asserts that nothing is recovered twice, and nothing that a node has already."""
    world = RecoveryWorld(7, params_with())
    world.add(PUBLISHER)
    for node_id in range(1, 7):
        world.add(node_id, "a = 1" if node_id % 2 else "b = 2")
    world.faults = lossy(1, share)
    rng = Random(5)
    both: dict[str, Value] = {"a": 1, "b": 2}
    world.publish(0, both)
    for sequence in range(1, 101):
        misses = tuple(node_id for node_id in range(1, 7) if rng.random() < 0.2)
        world.publish(sequence, both, misses)
        world.run(world.now + 0.05)
        for node_id in misses:
            world.miss(node_id, sequence, both)
    world.run(world.now + 200.0)
    assert all(world.has[node_id] == set(range(101)) for node_id in range(1, 7))
    assert all(node.losses.given_up == 0 for node in world.nodes.values())


@pytest.mark.spec("T-69")
def test_when_nobody_has_the_event_the_asking_ends() -> None:
    world = RecoveryWorld(1, params_with(uses_history=False, publisher_repairs=False))
    for node_id in (1, 2, 3):
        world.add(node_id, "a = 1")
    world.publish(0, A)
    for node_id in (1, 2, 3):
        world.miss(node_id, 1, A)
    world.run(1000.0)
    assert world.recoveries() == []
    assert len(world.sent(Kind.REQUEST)) <= 3 * world.params.recovery.rounds_max
    assert [node.losses.given_up for node in world.nodes.values()] == [1, 1, 1]
    assert [key for _, key in world.timers if isinstance(key, tuple) and key[0] == "request"] == []


@pytest.mark.spec("T-63")
def test_a_request_stays_in_its_domain_even_where_only_others_have_the_event() -> None:
    world = RecoveryWorld(1)
    world.add(1, "a = 1", params_with(domain="north", uses_history=False))
    world.add(2, "a = 1", params_with(domain="south"))
    world.add(3, "a = 1")
    world.publish(0, A)
    world.publish(1, A, misses=(1,))
    world.miss(1, 1, A)
    world.run(100.0)
    assert world.recoveries() == [] and world.nodes[2].requests_heard == world.nodes[3].requests_heard == 0
    world.add(4, "a = 1", params_with(domain="north"))
    world.publish(2, A)
    world.publish(3, A, misses=(1,))
    world.miss(1, 3, A)
    world.run(200.0)
    assert world.recoveries() == [(1, 3)]


@pytest.mark.spec("T-64")
@pytest.mark.parametrize("seed", range(2))
def test_in_a_large_group_duplicates_converge_to_about_one_a_loss(seed: int) -> None:
    """Twenty receivers at similar distances lose the same events, ten others have them."""
    world, rng = RecoveryWorld(seed), Random(seed)
    losers, holders = range(1, 21), range(21, 31)
    for node_id in (*losers, *holders):
        world.add(node_id, "a = 1")
    distances = {node_id: rng.uniform(0.04, 0.06) for node_id in (*losers, *holders)}
    world.delay = lambda sender, receiver: (distances[sender] + distances[receiver]) / 2
    world.publish(0, A)
    for node_id, distance in distances.items():
        world.measure(node_id, distance)
    counts = []
    for sequence in range(1, 121):
        world.publish(sequence, A, tuple(losers))
        world.log.clear()
        for node_id in losers:
            world.miss(node_id, sequence, A)
        world.run(world.now + 5.0)
        counts.append((len(world.sent(Kind.REQUEST)), len(world.sent(Kind.REPAIR))))
    assert all(world.has[node_id] == set(range(121)) for node_id in losers)
    early, late = counts[:20], counts[-40:]
    print("first twenty", mean_of(early, 0), mean_of(early, 1), "last forty", mean_of(late, 0), mean_of(late, 1))
    assert mean_of(late, 0) - 1 <= 1.5 and mean_of(late, 1) - 1 <= 1.5, (mean_of(late, 0), mean_of(late, 1))
    assert mean_of(late, 0) < mean_of(early, 0)


def mean_of(counts: list[tuple[int, int]], place: int) -> float:
    return sum(each[place] for each in counts) / len(counts)


def test_caches_grow_where_they_are_needed_and_stay_small_elsewhere() -> None:
    """A hundred events a second; the requester is so far away that five events are never enough."""
    params = params_with(publisher_repairs=False)
    world = RecoveryWorld(2, params)
    for node_id in range(1, 6):
        world.add(node_id, "a = 1")
    world.publish(0, A)
    for sequence in range(1, 2001):
        is_lost = sequence % 10 == 0
        world.publish(sequence, A, (1,) if is_lost else ())
        world.run(world.now + 0.01)
        if is_lost:
            world.miss(1, sequence, A)
    world.run(world.now + 60.0)
    recovered_late = [sequence for _, sequence in world.recoveries() if sequence > 1000]
    assert len(recovered_late) >= 0.9 * 100
    sizes = [node.streams[STREAM].ring.capacity for node_id, node in world.nodes.items() if node_id > 1]
    assert min(sizes) <= 10


class Liar:
    """It sends whatever it likes, under as many names as it likes, and reads what comes back."""

    def __init__(self, world: RecoveryWorld, seed: int) -> None:
        self.world, self.rng = world, Random(seed)

    def request(self, sequence: int, requester: int) -> None:
        rng, bits = self.rng, event(sequence, A)[2]
        spans = rng.choice((0.0, 3600.0)), rng.choice((0.0, 1e-9, 3600.0))
        repairer, repair_sent = rng.choice((0, 1, 2)), rng.choice((0.0, self.world.now, 1e6))
        about = requester, PUBLISHER, sequence, rng.random()
        message = LossRequest(*about, *spans, bits, 32, rng.randrange(256), repairer, repair_sent, rng.random())
        head = request_head(PUBLISHER, bits)
        self.world.carry(666, Emit(head, encode_control(message), Kind.REQUEST))

    def repair(self, sequence: int) -> None:
        header, head, _ = event(sequence, A)
        message = LossRepair(self.rng.randrange(2**32), 0.0, self.rng.randrange(2**32), 0.0, self.rng.random(), header)
        payload = encode_control(message, b"forged")
        self.world.carry(666, Emit(mark(head, Kind.REPAIR), payload, Kind.REPAIR))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mode", ["republish", "unicast", "auto"])
def test_a_lying_requester_gets_no_more_repairs_than_is_allowed(seed: int, mode: str) -> None:
    rate, seconds = 20.0, 3
    world = RecoveryWorld(seed, params_with(repairs_per_second=rate, cache_min=300, repair_mode=mode))
    world.add(1, "a = 1")
    world.add(2, "a = 1")
    for sequence in range(300):
        world.publish(sequence, A)
    liar = Liar(world, seed)
    for _ in range(100 * seconds):
        for _ in range(10):
            names = liar.rng.choice((1, 10**6))
            liar.request(liar.rng.randrange(400), 10**6 + liar.rng.randrange(names))
        world.run(world.now + 0.01)
    for node_id in (1, 2):
        world.nodes[node_id].check()
        sent = [(at, message) for at, sender, message in world.sent(Kind.REPAIR) if sender == node_id]
        assert 0 < len(sent) <= rate * seconds + rate * 0.1
        last: dict[int, float] = {}
        for at, message in sent:
            shortest = 3 * 0.001  # claimed distances are clamped
            assert at - last.get(message.data.sequence, -1.0) >= shortest
            last[message.data.sequence] = at


def test_one_lying_requester_does_not_keep_others_from_being_repaired() -> None:
    world = RecoveryWorld(4, params_with(cache_min=300))
    for node_id in (1, 2):
        world.add(node_id, "a = 1")
    for sequence in range(200):
        world.publish(sequence, A, (2,) if sequence % 20 == 10 else ())
    liar = Liar(world, 1)
    for sequence in range(10, 200, 20):
        for _ in range(100):
            liar.request(liar.rng.randrange(200), 666)
        world.miss(2, sequence, A)
        world.run(world.now + 0.5)
    world.run(world.now + 30.0)
    assert world.has[2] == set(range(200))


def test_requests_for_numbers_that_nobody_heard_of_leave_nothing_behind() -> None:
    world = RecoveryWorld(5)
    machine = world.add(1, "a = 1")
    world.publish(0, A)
    liar = Liar(world, 2)
    for place in range(5_000):
        liar.request(10**6 + place, place)
    world.run(100.0)
    machine.check()
    assert world.sent(Kind.REPAIR) == []
    assert len(machine.losses.requester.overheard) <= 256 and len(machine.streams) == 2


def test_the_same_seed_gives_the_same_run() -> None:
    def run() -> list[object]:
        world = RecoveryWorld(9)
        for node_id in range(1, 8):
            world.add(node_id, "a = 1")
        world.faults = lossy(3, 0.2)
        world.publish(0, A)
        for sequence in range(1, 20):
            world.publish(sequence, A, (sequence % 7 + 1, 3))
            for node_id in (sequence % 7 + 1, 3):
                world.miss(node_id, sequence, A)
            world.run(world.now + DELAY)
        world.run(world.now + 30.0)
        return world.log  # type: ignore[return-value]

    assert run() == run()


@pytest.mark.spec("T-58")
@pytest.mark.parametrize(
    ("loss", "links", "share"), [(0.01, 4, 1.0), (0.05, 4, 1.0), (0.1, 4, 0.999), (0.2, 2, 0.99), (0.2, 4, 0.99)]
)
def test_what_links_lose_is_recovered_by_whole_transports(loss: float, links: int, share: float) -> None:
    """Of each event's receivers, those that follow the publisher by then; the carrier keeps no history."""
    network = RecoveryNetwork(1, loss, links, [f"a = {place % 2}" for place in range(8)])
    events = [Event({"a": number % 2, "n": number}, b"x" * 20) for number in range(300)]
    for number, event_ in enumerate(events):
        network.publish(number / 50, event_)
    network.run(6 + 100.0)
    wanted = received = 0
    for place, filter in network.filters.items():
        numbers = [number_of(event_of(handed.content.head, b"")) for handed in network.handed[place]]
        assert len(set(numbers)) == len(numbers), "delivered twice"
        assert all(handed.content.payload == b"x" * 20 for handed in network.handed[place])
        mine = {number_of(each) for each in events if filter.matches(each)}
        assert mine.issuperset(numbers)
        mine = {number for number in mine if number >= min(numbers)}
        wanted += len(mine)
        received += len(numbers)
    print(f"{loss:.0%} on each of {links} links: {received / wanted:.4%} of {wanted} delivered")
    assert received / wanted >= share


def number_of(event_: Event) -> int:
    number = event_.attributes["n"]
    assert isinstance(number, int)
    return number


@pytest.mark.spec("T-61")
def test_events_that_are_only_late_are_not_asked_for() -> None:
    """Ten a second, and jitter of milliseconds: whatever is missing arrives before its latch expires."""
    network = RecoveryNetwork(2, 0.0, 2, ["a = 1", "a = 1"])
    for number in range(100):
        network.publish(number / 10, Event({"a": 1, "n": number}))
        network.publish(number / 10 + 0.001, Event({"a": 1, "n": -number}))
    network.run(60.0)
    assert [len(network.handed[place]) for place in (1, 2)] == [200, 200]
    requests = [emit for _, emit in network.emitted if emit.kind is Kind.REQUEST]
    late = sum(handed.way != "direct" for place in (1, 2) for handed in network.handed[place])
    assert len(requests) == 0 and late <= 4
