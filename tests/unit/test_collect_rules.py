"""Collections, rule by rule: what the source says of directives, budgets, rates, estimates, handbacks and purging."""

from collections import Counter
from random import Random

import pytest

from tidings.machine.effects import Compute, Effect, Send, SetTimer, Transfer
from tidings.machine.inputs import Computed, Fired, Input, Received
from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.protocols.collect.coordinator import Coordinator
from tidings.protocols.collect.directory import assigned_peers
from tidings.protocols.collect.estimates import updated_capacity
from tidings.protocols.collect.limits import TokenBucket
from tidings.protocols.collect.messages import (
    BlockAck,
    BlockRefused,
    BlockSent,
    BlocksReclaimed,
    CollectionOpened,
    CollectionReady,
    CollectRequest,
    DirectedShare,
    Directive,
    FilesAsked,
    FilesTold,
    HoldingsAsked,
    HoldingsTold,
    ReplicasTaken,
    ReplicatedBlocks,
    SharedFile,
    StatusRequest,
    StatusUpdate,
    TransferComplete,
)
from tidings.protocols.collect.mover import NOBODY_ASKED, BlockMover
from tidings.protocols.collect.params import CollectParams
from tidings.protocols.collect.rates import AckRate, PeakRate
from tidings.protocols.collect.runs import is_among, numbers_in, runs_of
from tidings.protocols.collect.shelf import BlockTable, MemoryShelf, digest_of_block
from tidings.protocols.collect.signals import BlockArrived, CollectionExpected
from tidings.pubsub.signals import PeerDown, PeerUp

BLOCK = 1024


class MoverDesk:
    """A mover on a desk: what it sends can be looked at."""

    def __init__(self, blocks: int = 0, node: str = "x", **params: object) -> None:
        self.params = CollectParams(block_bytes=BLOCK, **params)  # type: ignore[arg-type]
        self.content = Random(7).randbytes(blocks * BLOCK)
        self.shelf = MemoryShelf({"f": self.content} if blocks else {})
        self.mover = BlockMover(node, self.params, self.shelf, random_stream(1, "mover"))
        self.mover.start(0.0)
        self.sent: list[Effect] = []
        for peer in ("t", "y", "z", "c"):
            self.hear(0.0, PeerUp(peer, 1))
        files = (SharedFile("f", blocks * BLOCK),) if blocks else ()
        self.say(0.0, "t", CollectionOpened("job", "c", BLOCK, (), 0, files, True))

    def hear(self, now: float, input: Input) -> list[Effect]:
        effects = self.mover.handle(now, input)
        self.mover.check()
        self.sent += effects
        return effects

    def say(self, now: float, sender: str, message: object) -> list[Effect]:
        return self.hear(now, Received(sender, message))  # type: ignore[arg-type]

    def direct(
        self,
        now: float,
        plan: int,
        *shares: tuple[str, int, float],
        final: bool = False,
        back: tuple[tuple[str, int], ...] = (),
    ) -> list[Effect]:
        told = tuple(DirectedShare(*share) for share in shares)
        return self.say(now, "c", Directive("job", plan, told, final, back))

    def blocks(self, effects: list[Effect]) -> list[tuple[str, str, int]]:
        return [(each.to, each.message.origin, each.message.seq) for each in effects if isinstance(each, Transfer)]

    def foreign(self, now: float, seq: int, sender: str = "z", origin: str = "z") -> list[Effect]:
        data = bytes([seq % 256]) * BLOCK
        return self.say(now, sender, BlockSent("job", origin, seq, digest_of_block(data), data))

    def status(self, now: float) -> StatusUpdate:
        (answer,) = self.say(now, "c", StatusRequest("job", 1))
        assert isinstance(answer, Send) and isinstance(answer.message, StatusUpdate)
        return answer.message


@pytest.mark.spec("P-96")
def test_everybody_has_ten_peers_at_random_and_is_the_peer_of_ten() -> None:
    names = [f"h{number}" for number in range(50)]
    peers = assigned_peers(names, 10, random_stream(3, "peers"))
    assert all(len(set(each)) == 10 and name not in each for name, each in peers.items())
    assert set(Counter(peer for each in peers.values() for peer in each).values()) == {10}
    both = sum(name in peers[peer] for name, each in peers.items() for peer in each)
    assert both < 500, "who is my peer need not have me as one"
    assert peers != assigned_peers(names, 10, random_stream(4, "peers"))
    assert assigned_peers(["a", "b"], 10, random_stream(1)) == {"a": ("b",), "b": ("a",)}


@pytest.mark.spec("P-100")
def test_a_directive_says_how_many_blocks_go_to_whom_and_no_more_go() -> None:
    desk = MoverDesk(blocks=10)
    sent = desk.blocks(desk.direct(0.0, 1, ("y", 3, 100.0), ("t", 2, 100.0)))
    assert Counter(to for to, _, _ in sent) == {"y": 3, "t": 2}
    for to, origin, seq in sent:
        assert desk.blocks(desk.say(0.1, to, BlockAck("job", origin, seq))) == []
    assert desk.mover.jobs["job"].budgets == {"y": 0, "t": 0} and len(desk.mover.jobs["job"].own) == 5


@pytest.mark.spec("P-101")
def test_a_block_that_comes_is_assigned_by_chance_in_proportion_of_what_is_to_be_given() -> None:
    """Golden: 30 and 10 left, so 0.75 of what comes first goes to y."""
    chosen: Counter[str] = Counter()
    for seed in range(2000):
        desk = MoverDesk()
        desk.mover.rng = random_stream(seed, "case")
        desk.mover.params = desk.params
        desk.direct(0.0, 1, ("y", 30, 1000.0), ("c", 10, 1000.0))
        ((to, _, _),) = desk.blocks(desk.foreign(0.1, 0))
        chosen[to] += 1
    assert 0.72 <= chosen["y"] / 2000 <= 0.78


@pytest.mark.spec("P-102")
def test_blocks_go_to_all_receivers_at_once() -> None:
    desk = MoverDesk(blocks=12)
    sent = desk.blocks(desk.direct(0.0, 1, ("y", 4, 2.0), ("t", 4, 2.0), ("z", 4, 2.0)))
    assert [to for to, _, _ in sent] == ["y", "t", "z", "y", "t", "z"], "in turns, up to a window each"


@pytest.mark.spec("P-103")
def test_at_most_a_second_of_what_is_planned_is_on_the_way() -> None:
    desk = MoverDesk(blocks=50)
    sent = desk.blocks(desk.direct(0.0, 1, ("t", 50, 3.5), ("y", 5, 0.2)))
    assert Counter(to for to, _, _ in sent) == {"t": 4, "y": 1}, "3.5 a second is 4 blocks, and 0.2 is still one"
    assert desk.blocks(desk.say(1.0, "t", BlockAck("job", "x", sent[0][2])))[0][0] == "t"
    desk.direct(2.0, 2, ("t", 45, 1.0))
    flying = len(desk.mover.jobs["job"].in_flight["t"])
    first = next(iter(desk.mover.jobs["job"].in_flight["t"]))
    assert flying == 4 and desk.blocks(desk.say(2.1, "t", BlockAck("job", *first))) == [], "a window that shrank drains"


@pytest.mark.spec("P-104")
def test_a_rate_is_that_of_the_last_five_seconds_and_stands_still_when_nothing_is_to_be_sent() -> None:
    rate = AckRate(5.0, 0.0)
    for tick in range(1, 41):
        rate.acknowledge(tick * 0.5)
    assert rate.rate(20.0) == pytest.approx(2.0)
    for tick in range(1, 21):
        rate.acknowledge(20.0 + tick)
    assert rate.rate(40.0) == pytest.approx(1.0), "what was before the last five seconds counts no more"
    rate.freeze(40.0)
    rate.acknowledge(40.001)
    assert rate.rate(1000.0) == pytest.approx(1.0)
    rate.thaw(1000.0)
    assert rate.rate(1000.5) is None
    # A mover freezes it with its budget, and thaws it with the next directive.
    desk = MoverDesk(blocks=30)
    desk.direct(0.0, 1, ("t", 10, 2.0))
    for tick in range(1, 11):
        flying = next(iter(desk.mover.jobs["job"].in_flight["t"]))
        desk.say(tick * 0.5, "t", BlockAck("job", *flying))
    assert dict(desk.status(6.0).rates) == dict(desk.status(60.0).rates) == {"t": pytest.approx(2.0)}
    desk.direct(61.0, 2, ("t", 10, 2.0))
    assert dict(desk.status(61.1).rates) == {}, "nothing can be said of it yet"


@pytest.mark.spec("P-106")
@pytest.mark.parametrize(("reached", "capacity"), [(7.7, 10), (12, 12), (7, 7), (3, 5)])
def test_what_was_reached_changes_what_is_believed(reached: float, capacity: float) -> None:
    """Golden: c = 10, f* = 8, slack 5 %."""
    assert updated_capacity(10, 8, reached, 0.05) == capacity


@pytest.mark.spec("P-107")
def test_a_path_that_was_not_used_is_worth_what_it_was() -> None:
    assert updated_capacity(10, 0, 0, 0.05) == updated_capacity(10, 0, 3, 0.05) == 10
    assert updated_capacity(10, 8, None, 0.05) == 10, "nor one of which nothing was measured"


def request(job: str = "job", **more: object) -> CollectRequest:
    counts = (("x", 100), ("y", 100))
    return CollectRequest(job, BLOCK, counts, counts, (), **more)  # type: ignore[arg-type]


class CoordinatorDesk:
    def __init__(self, **params: object) -> None:
        self.coordinator = Coordinator("c", CollectParams(block_bytes=BLOCK, **params), random_stream(1))  # type: ignore[arg-type]
        self.coordinator.start(0.0)
        for peer in ("x", "y", "t"):
            self.coordinator.handle(0.0, PeerUp(peer, 1))

    def say(self, now: float, sender: str, message: object) -> list[Effect]:
        return self.coordinator.handle(now, Received(sender, message))  # type: ignore[arg-type]

    def solve(self, now: float, effects: list[Effect]) -> list[Effect]:
        (job,) = [each for each in effects if isinstance(each, Compute)]
        return self.coordinator.handle(now, Computed(job.key, job.job.run()))

    def begin(self) -> dict[str, Directive]:
        return directives(self.solve(0.1, self.say(0.0, "t", request())))


def directives(effects: list[Effect]) -> dict[str, Directive]:
    return {each.to: each.message for each in effects if isinstance(each, Send) and isinstance(each.message, Directive)}


def status(held: int, plan: int = 1, rates: tuple[tuple[str, float], ...] = (), node: str = "x") -> StatusUpdate:
    return StatusUpdate("job", plan, ((node, held),), rates)


@pytest.mark.spec("P-108")
def test_there_is_no_new_plan_before_all_have_answered_or_are_out_of_time() -> None:
    desk = CoordinatorDesk()
    desk.begin()
    asked = desk.coordinator.handle(15.1, Fired(("period", "job")))
    assert {each.to for each in asked if isinstance(each, Send)} == {"x", "y"}
    assert desk.say(15.2, "x", status(50)) == []
    assert any(isinstance(each, Compute) for each in desk.say(15.3, "y", status(40, node="y")))
    late = CoordinatorDesk()
    late.begin()
    late.coordinator.handle(15.1, Fired(("period", "job")))
    assert late.say(15.2, "x", status(50)) == []
    planned = late.coordinator.handle(20.1, Fired(("status", "job")))
    (job,) = [each for each in planned if isinstance(each, Compute)]
    assert {name: host.blocks for name, host in job.job.graph.hosts.items()} == {"x": 50, "y": 0, "t": 0}


@pytest.mark.spec("P-109")
@pytest.mark.parametrize(("rate_bps", "is_final"), [(BLOCK * 8 * 100 / 15, True), (BLOCK * 8 * 100 / 16, False)])
def test_a_plan_is_final_if_it_ends_before_the_next(rate_bps: float, is_final: bool) -> None:
    desk = CoordinatorDesk(rate_unknown_bps=rate_bps)
    told = desk.begin()
    assert {each.is_final for each in told.values()} == {is_final}
    assert {each.horizon for each in told.values()} == {15 if is_final else 16}
    # What is left over then goes to the sink, and waits otherwise.
    mover = MoverDesk()
    mover.direct(0.0, 1, final=is_final)
    assert [to for to, _, _ in mover.blocks(mover.foreign(0.1, 3))] == (["t"] if is_final else [])


@pytest.mark.spec("P-105")
def test_every_fifteen_seconds_status_is_asked_for_and_a_new_plan_made() -> None:
    desk = CoordinatorDesk()
    effects = desk.solve(0.1, desk.say(0.0, "t", request()))
    assert SetTimer(("period", "job"), 15.1) in effects
    desk.coordinator.handle(15.1, Fired(("period", "job")))
    before = desk.coordinator.estimates.path("x", "t")
    desk.say(15.2, "x", status(50, rates=(("t", 0.001),)))
    again = desk.solve(15.4, desk.say(15.3, "y", status(40, node="y")))
    assert desk.coordinator.estimates.path("x", "t") == pytest.approx(before / 2)
    assert {each.plan for each in directives(again).values()} == {2} and SetTimer(("period", "job"), 30.4) in again


@pytest.mark.spec("P-111")
def test_blocks_are_counted_by_origin_and_all_counts_are_all_that_is_held() -> None:
    desk = MoverDesk(blocks=4)
    for seq in range(3):
        desk.foreign(0.1, seq)
    desk.foreign(0.1, 0, sender="y", origin="y")
    held = dict(desk.status(1.0).held)
    assert held == {"x": 4, "z": 3, "y": 1}
    moved = desk.mover.jobs["job"]
    assert sum(held.values()) == len(moved.own) + len(list(moved.unsent_of_others()))


@pytest.mark.spec("P-112")
def test_who_passed_a_block_on_deletes_it_and_its_origin_keeps_it() -> None:
    desk = MoverDesk(blocks=1)
    desk.direct(0.0, 1, ("t", 2, 10.0))
    desk.foreign(0.1, 5)
    assert ("job", "z", 5) in desk.shelf.held
    desk.say(0.2, "t", BlockAck("job", "z", 5))
    assert not desk.shelf.held and desk.mover.relay_bytes == 0
    desk.say(0.2, "t", BlockAck("job", "x", 0))
    assert desk.shelf.read("job", "x", 0, is_own=True).data == desk.content


@pytest.mark.spec("P-117")
def test_lazily_it_keeps_what_it_passed_on_and_can_send_it_again() -> None:
    desk = MoverDesk(keeps_replicas=True, relay_bytes_max=2 * BLOCK)
    desk.direct(0.0, 1, ("t", 9, 10.0))
    desk.foreign(0.1, 5)
    desk.say(0.2, "t", BlockAck("job", "z", 5))
    assert ("job", "z", 5) in desk.shelf.held
    (told, last) = [each.message for each in desk.say(0.3, "c", HoldingsAsked("job", 1)) if isinstance(each, Send)]
    assert told == HoldingsTold("job", 1, "z", (), ((5, 1),), False) and last.is_last
    assert desk.blocks(desk.say(0.4, "c", BlocksReclaimed("job", "z", ((5, 1),)))) == [("t", "z", 5)]
    desk.say(0.5, "t", BlockAck("job", "z", 5))
    for seq in (6, 7):
        desk.foreign(0.6, seq)
    assert {seq for _, _, seq in desk.shelf.held} == {6, 7}, "there is room for two: what is not needed gives way"


@pytest.mark.spec("P-113")
def test_what_a_host_holds_of_another_may_be_handed_back_in_the_next_plan() -> None:
    desk = CoordinatorDesk()
    desk.begin()
    desk.coordinator.handle(15.1, Fired(("period", "job")))
    desk.say(15.2, "x", status(50))
    held = StatusUpdate("job", 1, (("y", 40), ("x", 7)), ())
    (compute,) = [each for each in desk.say(15.3, "y", held) if isinstance(each, Compute)]
    graph = compute.job.graph
    assert [(each.holder, each.origin, each.blocks) for each in graph.handbacks] == [("y", "x", 7)]
    assert {name: host.blocks for name, host in graph.hosts.items()} == {"x": 50, "y": 47, "t": 0}


@pytest.mark.spec("P-114")
def test_the_first_blocks_are_handed_back_by_number_and_their_origin_answers_for_them() -> None:
    holder = MoverDesk()
    for seq in (9, 2, 4):
        holder.foreign(0.1, seq)
    (told,) = holder.direct(0.2, 1, back=(("z", 2),))
    assert told == Send("z", ReplicatedBlocks("job", ((2, 1), (4, 1))))
    assert dict(holder.status(0.3).held) == {"z": 1}, "it answers for the third alone"
    assert len(holder.shelf.held) == 3, "and keeps them until the origin has said so"
    holder.say(0.4, "z", ReplicasTaken("job", ((2, 1), (4, 1))))
    assert [seq for _, _, seq in holder.shelf.held] == [9]
    more = MoverDesk()
    more.foreign(0.1, 1)
    (told,) = more.direct(0.2, 1, back=(("z", 50),))
    assert told.message.runs == ((1, 1),), "no more than there are"
    # At the origin.
    origin = MoverDesk(blocks=3)
    sent = origin.blocks(origin.direct(0.0, 1, ("y", 3, 10.0)))
    for to, name, seq in sent:
        origin.say(0.1, to, BlockAck("job", name, seq))
    assert dict(origin.status(0.2).held) == {}
    (taken,) = origin.say(0.3, "y", ReplicatedBlocks("job", ((1, 2), (77, 5))))
    assert isinstance(taken.message, ReplicasTaken) and dict(origin.status(0.4).held) == {"x": 2}


def test_a_holder_whose_origin_went_away_answers_for_its_blocks_again() -> None:
    holder = MoverDesk()
    holder.foreign(0.1, 2)
    holder.direct(0.2, 1, back=(("z", 1),))
    assert dict(holder.status(0.3).held) == {}
    holder.hear(0.4, PeerDown("z", 1))
    assert dict(holder.status(0.5).held) == {"z": 1}


@pytest.mark.spec("P-110")
def test_when_it_is_over_everybody_stops_waiting_and_forgets() -> None:
    desk = MoverDesk(blocks=3)
    desk.foreign(0.1, 2)
    desk.direct(0.2, 1, ("t", 9, 1.0))
    desk.say(0.3, "t", TransferComplete("job"))
    assert not desk.mover.jobs and not desk.shelf.held and desk.mover.relay_bytes == 0
    assert desk.blocks(desk.direct(0.4, 2, ("t", 9, 1.0))) == []


def test_a_link_that_breaks_gives_back_what_was_on_its_way() -> None:
    desk = MoverDesk(blocks=4)
    desk.direct(0.0, 1, ("t", 4, 2.0))
    assert len(desk.mover.jobs["job"].own) == 2
    desk.hear(0.1, PeerDown("t", 1))
    assert sorted(desk.mover.jobs["job"].own) == [0, 1, 2, 3] and desk.mover.jobs["job"].budgets == {"t": 4}
    assert len(desk.blocks(desk.hear(0.2, PeerUp("t", 2)))) == 2


def test_a_block_that_nobody_asked_for_is_refused() -> None:
    desk = MoverDesk(blocks=2)
    stranger = desk.say(0.1, "z", BlockSent("other", "z", 1, 0, b"x"))
    assert stranger[-1] == Send("z", BlockRefused("other", "z", 1, NOBODY_ASKED))
    assert desk.say(0.1, "z", BlockSent("job", "x", 1, 0, b"x"))[-1].message.reason == NOBODY_ASKED
    lied = desk.say(0.1, "z", BlockSent("job", "z", 1, 12345, b"x"))
    assert "digest" in lied[-1].message.reason and not desk.shelf.held
    (dropped,) = desk.say(0.2, "nobody", BlockSent("job", "z", 1, 12345, b"x"))
    assert dropped.reason == "comes from a host that is no peer"


def test_only_who_is_in_charge_directs() -> None:
    desk = MoverDesk(blocks=3)
    (dropped,) = desk.say(0.1, "y", Directive("job", 1, (DirectedShare("y", 3, 1.0),), False))
    assert dropped.reason == "comes from a host that is not in charge of this collection"
    desk.direct(0.2, 5, ("t", 1, 1.0))
    assert desk.blocks(desk.direct(0.3, 4, ("t", 1, 1.0))) == [], "an older plan changes nothing"


def test_room_for_blocks_of_others_is_bounded() -> None:
    desk = MoverDesk(relay_bytes_max=2 * BLOCK)
    desk.foreign(0.1, 0)
    desk.foreign(0.1, 1)
    (refused,) = desk.foreign(0.1, 2)
    assert isinstance(refused.message, BlockRefused) and desk.mover.relay_bytes == 2 * BLOCK


def test_a_refusal_gives_the_block_back_and_asks_no_more_of_that_receiver() -> None:
    desk = MoverDesk(blocks=3)
    sent = desk.blocks(desk.direct(0.0, 1, ("y", 3, 1.0)))
    assert desk.blocks(desk.say(0.1, "y", BlockRefused("job", "x", sent[0][2], "full"))) == []
    assert len(desk.mover.jobs["job"].own) == 3


def test_a_sink_counts_a_block_once() -> None:
    mover = BlockMover("t", CollectParams(block_bytes=BLOCK), MemoryShelf(), random_stream(1))
    mover.handle(0.0, PeerUp("x", 1))
    mover.shelf.receive("job", {"x": BlockTable((SharedFile("f", 2 * BLOCK),), BLOCK)})
    mover.handle(0.0, CollectionExpected("job", BLOCK, (("x", 2),), (("x", ()),)))
    data = b"a" * BLOCK
    block = BlockSent("job", "x", 0, digest_of_block(data), data)
    first, second = (mover.handle(0.1, Received("x", block)) for _ in range(2))
    assert [type(each) for each in first] == [BlockArrived, Send] and [type(each) for each in second] == [Send]
    beyond = mover.handle(0.2, Received("x", BlockSent("job", "x", 2, 0, b"")))
    assert isinstance(beyond[-1].message, BlockRefused)


def test_files_are_told_in_as_many_messages_as_it_takes() -> None:
    shelf = MemoryShelf(sizes={f"f{number:04}": 1 for number in range(600)})
    mover = BlockMover("x", CollectParams(), shelf, random_stream(1))
    mover.handle(0.0, PeerUp("t", 1))
    told = [each.message for each in mover.handle(0.0, Received("t", FilesAsked("job", ("f*",))))]
    assert [len(each.files) for each in told if isinstance(each, FilesTold)] == [256, 256, 88]
    assert [each.is_last for each in told] == [False, False, True]
    files = [file for each in told for file in each.files]
    opened = [
        CollectionOpened("job", "t", BLOCK, (), begin, tuple(files[begin : begin + 256]), begin == 512)
        for begin in (0, 256, 512)
    ]
    answers = [mover.handle(0.0, Received("t", each)) for each in opened]
    assert answers[:2] == [[], []] and answers[2] == [Send("t", CollectionReady("job", 600))]


def test_an_uplink_is_kept_to() -> None:
    bucket = TokenBucket(1000.0)
    assert bucket.wait(0.0) == 0.0
    bucket.spend(500)
    assert bucket.wait(0.0) == pytest.approx(0.5) and bucket.wait(0.25) == pytest.approx(0.25)
    assert bucket.wait(0.6) == 0.0 and TokenBucket(0).wait(0.0) == 0.0
    desk = MoverDesk(blocks=9, up_bps=BLOCK * 8.0)
    first = desk.direct(0.0, 1, ("t", 9, 100.0))
    assert len(desk.blocks(first)) == 1 and SetTimer(("pump", "job"), 1.0) in first
    assert len(desk.blocks(desk.hear(1.0, Fired(("pump", "job"))))) == 1


def test_a_downlink_is_kept_to_by_acknowledging_later() -> None:
    desk = MoverDesk(down_bps=BLOCK * 8.0)
    assert [type(each) for each in desk.foreign(0.0, 0)] == [SetTimer]
    assert desk.hear(0.5, Fired("acks"))[-1] == SetTimer("acks", 1.0)
    assert Send("z", BlockAck("job", "z", 0)) in desk.hear(1.0, Fired("acks"))


def test_an_access_is_worth_the_highest_average_that_passed_it() -> None:
    peak = PeakRate(5.0)
    for tick in range(60):
        peak.add(tick * 0.5, 100.0 if tick < 30 else 50.0)
    assert peak.peak == pytest.approx(220, rel=0.1), "two a half-second apart, eleven in five seconds"


def test_runs_say_the_same_as_the_numbers() -> None:
    draws = Random(5)
    for _ in range(50):
        numbers = {draws.randrange(40) for _ in range(draws.randrange(30))}
        runs = runs_of(numbers)
        assert set(numbers_in(runs, 40)) == numbers and all(
            is_among(each, runs) == (each in numbers) for each in range(45)
        )
    assert list(numbers_in(((5, 2**29),), 7)) == [5, 6], "a long run is as long as there are blocks"


def test_a_block_has_its_place_in_a_file() -> None:
    files = (SharedFile("a", 0), SharedFile("b", 2500), SharedFile("c", 0), SharedFile("d", 1000), SharedFile("e", 0))
    table = BlockTable(files, 1000)
    assert table.count == 4 and [len(table.of_file(number)) for number in range(5)] == [0, 3, 0, 1, 0]
    places = [(each.file, each.offset, each.size_bytes) for each in map(table.place, range(4))]
    assert places == [(1, 0, 1000), (1, 1000, 1000), (1, 2000, 500), (3, 0, 1000)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"block_bytes": 10},
        {"block_bytes": 2**30},
        {"slack": 1.0},
        {"window_seconds": 0.0},
        {"period": -1.0},
        {"peers": 0},
        {"probe_blocks": 1},
        {"rate_unknown_bps": 0.0},
        {"window_bytes_max": 1},
    ],
)
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        CollectParams(**wrong)  # type: ignore[arg-type]


def test_nobody_relays_over_a_path_of_which_nothing_is_known() -> None:
    desk = CoordinatorDesk()
    assert {(to, share.receiver) for to, told in desk.begin().items() for share in told.shares} == {
        ("x", "t"),
        ("y", "t"),
    }
    desk.coordinator.estimates.paths = {("x", "y"): 1e9, ("x", "t"): 1e6, ("y", "t"): 1e9}
    work = desk.coordinator.jobs["job"]
    assert set(work.pairs(desk.coordinator.estimates, ["x", "y", "t"], 10)) == {("x", "y"), ("x", "t"), ("y", "t")}
