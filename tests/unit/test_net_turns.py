"""Who gives a node much to do waits for the others; who asks for little does not wait."""

import asyncio
from collections import deque
from collections.abc import Callable

import pytest

from tests.worlds.puppets import Puppet
from tests.worlds.sockets import QUIET, acquaint, order, patient, play, puppet_host, until
from tidings.machine.effects import Connect, Effect, Send
from tidings.machine.inputs import Fired, Input, LinkDown, LinkUp, Received
from tidings.net import Host
from tidings.net.counts import LINK_DOWN, HostCounts
from tidings.net.turns import Turns
from tidings.protocols.teaching.ping import Probe

TURN = 0.005


class Stretch:
    """What was read from a peer and not taken yet; `take` is called with it while reading goes on."""

    def __init__(self, take: Callable[[Input], None]) -> None:
        self.take, self.unread, self.is_paused = take, deque[Input](), False

    def read(self, *inputs: Input) -> None:
        self.unread.extend(inputs)
        while self.unread and not self.is_paused:
            self.take(self.unread.popleft())

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False
        self.read()


class Loop:
    """A machine whose steps take as long as their messages say (in ms, by their size), and rounds of a loop."""

    def __init__(self) -> None:
        self.now, self.is_paused = 0.0, False
        self.handled: list[tuple[str, int]] = []
        self.given_up: list[str] = []
        self.soon: deque[Callable[[], None]] = deque()
        self.counts = HostCounts()
        self.turns = Turns(
            TURN,
            clock=lambda: self.now,
            counts=self.counts,
            step=self.step,
            give_up=lambda message, reason: self.given_up.append(reason),
            soon=self.soon.append,
            reading=lambda peer: self.peers[peer],
            is_paused=lambda: self.is_paused,
        )
        self.peers = {name: Stretch(self.turns.take) for name in "abc"}

    def step(self, input: Input) -> None:
        if isinstance(input, Received):
            self.now += input.size_bytes / 1000
            self.counts.step_seconds += input.size_bytes / 1000
            self.handled.append((input.sender, len([1 for name, _ in self.handled if name == input.sender]) + 1))

    def send(self, name: str, count: int, ms: int) -> None:
        self.peers[name].read(*(Received(name, Probe(number), ms) for number in range(count)))

    def round(self) -> float:
        """The next one; how long it took."""
        began = self.now
        for _ in range(len(self.soon)):
            self.soon.popleft()()
        return self.now - began


def test_who_asks_for_little_is_served_at_once() -> None:
    loop = Loop()
    for _ in range(100):
        loop.send("a", 1, ms=1)
        loop.now += 0.02
        loop.round()
    assert len(loop.handled) == 100
    assert not loop.soon and loop.counts.inputs_waited == 0


def test_many_who_come_at_once_and_owe_nothing_take_several_rounds() -> None:
    loop = Loop()
    loop.peers = {f"p{number}": Stretch(loop.turns.take) for number in range(40)}
    began = loop.now
    for name in loop.peers:
        loop.send(name, 4, ms=1)
    rounds = [loop.now - began]
    while loop.soon:
        rounds.append(loop.round())
    assert len(loop.handled) == 160
    assert rounds[0] == pytest.approx(0.015, abs=0.0011), "before, all of them took 160 ms without a break"
    assert max(rounds[1:]) <= 0.0061
    assert not loop.turns.waiting and not any(peer.is_paused for peer in loop.peers.values())


def test_little_in_each_of_many_rounds_makes_nobody_wait() -> None:
    loop = Loop()
    for _ in range(100):
        for name in "abc":
            loop.send(name, 1, ms=1)
        loop.now += 0.02
        loop.round()
    assert len(loop.handled) == 300 and loop.counts.inputs_waited == 0


def test_what_waits_of_a_visitor_is_of_whom_it_proved_to_be_and_reading_goes_on() -> None:
    loop = Loop()
    visitor = loop.peers["?1"] = Stretch(loop.turns.take)
    visitor.read(Received("?1", Probe(1), 9), Received("?1", Probe(2), 1))
    assert loop.handled == [("?1", 1)] and visitor.is_paused
    # It is admitted: its stream, and what was read from it and not handed over yet, goes by another name.
    loop.peers["ann"] = loop.peers.pop("?1")
    loop.turns.take(LinkUp("ann", 1, visitor="?1"))
    visitor.unread.append(Received("ann", Probe(3), 1))
    while loop.soon:
        loop.round()
    assert loop.handled == [("?1", 1), ("ann", 1), ("ann", 2)]
    assert not visitor.is_paused and not loop.turns.waiting


def test_a_visitor_that_is_admitted_in_its_turn_is_read_on() -> None:
    loop = Loop()
    visitor = loop.peers["?1"] = Stretch(loop.turns.take)

    def step(input: Input) -> None:
        Loop.step(loop, input)
        if isinstance(input, Received) and input.message == Probe(2):
            loop.peers["ann"] = loop.peers.pop("?1")
            loop.turns.take(LinkUp("ann", 1, visitor="?1"))
            visitor.unread.append(Received("ann", Probe(3), 1))

    loop.turns.step = step
    visitor.read(Received("?1", Probe(1), 9), Received("?1", Probe(2), 1))
    while loop.soon:
        loop.round()
    assert loop.handled == [("?1", 1), ("?1", 2), ("ann", 1)]
    assert not visitor.is_paused and not loop.turns.waiting


def test_a_burst_is_cut_into_rounds_of_one_turn() -> None:
    loop = Loop()
    loop.send("a", 100, ms=1)
    assert 5 <= len(loop.handled) <= 7
    while loop.soon:
        assert loop.round() <= TURN + 0.0011
    assert loop.handled == [("a", number) for number in range(1, 101)]


def test_what_was_read_is_taken_in_pieces_as_large_as_a_turn_allows() -> None:
    """Messages that cost little are not handed over one by one: each time costs as much as several of them."""
    loop = Loop()
    resumed = 0

    class Counting(Stretch):
        def resume_reading(self) -> None:
            nonlocal resumed
            resumed += 1
            super().resume_reading()

    loop.peers["a"] = Counting(loop.turns.take)
    loop.send("a", 1, ms=50)
    loop.send("a", 100, ms=1)
    while loop.soon:
        loop.round()
    assert loop.handled == [("a", number) for number in range(1, 102)]
    assert resumed <= 60


def test_those_who_wait_get_equal_time_and_others_none_of_their_wait() -> None:
    loop = Loop()
    loop.send("a", 50, ms=20)
    loop.send("b", 1000, ms=1)
    for _ in range(40):
        loop.round()
        before = len(loop.handled)
        loop.send("c", 1, ms=0)
        assert loop.handled[before][0] == "c"
    dear = 20 * len([1 for name, _ in loop.handled if name == "a"])
    cheap = len([1 for name, _ in loop.handled if name == "b"])
    assert abs(dear - cheap) <= 2 * 20


def test_while_a_message_waits_nothing_more_is_read_from_its_sender() -> None:
    loop = Loop()
    loop.send("a", 100, ms=10)
    assert loop.peers["a"].is_paused
    assert len(loop.turns.waiting["a"].inputs) == 1
    while loop.soon:
        loop.round()
    assert not loop.peers["a"].is_paused
    assert not loop.turns.waiting


def test_a_debt_is_forgiven_in_time() -> None:
    loop = Loop()
    loop.send("a", 30, ms=10)
    while loop.soon:
        loop.round()
    loop.now += 1.0
    loop.send("a", 1, ms=1)
    assert len(loop.handled) == 31


def test_what_waits_is_given_up_when_the_link_goes_down() -> None:
    loop = Loop()
    loop.send("a", 3, ms=10)
    loop.turns.take(LinkDown("a", 1))
    assert loop.given_up == [LINK_DOWN]
    loop.peers["a"].unread.clear()
    while loop.soon:
        loop.round()
    assert [name for name, _ in loop.handled] == ["a"]


def test_timers_and_whatever_else_happens_do_not_wait() -> None:
    loop = Loop()
    loop.send("a", 10, ms=10)
    seen: list[Input] = []
    loop.turns.step = seen.append
    loop.turns.take(Fired("now"))
    assert seen == [Fired("now")]


def test_nobody_is_served_while_the_inbox_is_full() -> None:
    loop = Loop()
    loop.send("a", 10, ms=10)
    loop.is_paused, before = True, len(loop.handled)
    while loop.soon:
        loop.round()
    assert len(loop.handled) == before
    loop.is_paused = False
    loop.turns.serve_soon()
    while loop.soon:
        loop.round()
    assert len(loop.handled) == 10


class Slow(Puppet):
    """Each message takes a while."""

    def handle(self, now: float, input: Input) -> list[Effect]:
        if isinstance(input, Received) and input.sender == "many":
            deadline = asyncio.get_running_loop().time() + 0.002
            while asyncio.get_running_loop().time() < deadline:
                pass
        return super().handle(now, input)


def test_on_sockets_a_peer_that_asks_for_little_is_not_behind_one_that_asks_for_much() -> None:
    async def scenario() -> None:
        slow = Slow()
        async with (
            Host("slow", slow, params=patient(turn=0.001), log=QUIET) as host,
            puppet_host("many") as many,
            puppet_host("few") as few,
        ):
            await acquaint(host, many, few)
            for each in (many, few):
                order(each, Connect("slow"))
            await until(lambda: {"many", "few"} <= host.links.up.keys())
            order(many, *(Send("slow", Probe(number)) for number in range(500)))
            await until(lambda: host.counts.inputs_waited > 0)
            order(few, Send("slow", Probe(1)))
            await until(lambda: len(slow.numbers()) == 501)
            senders = [input.sender for input in slow.heard if isinstance(input, Received)]
            assert senders.index("few") < 400

    play(scenario())
