"""Turns: whoever gives a node much to do waits for others, and nobody waits long for him.

The problem. Inputs are handled one at a time, each to its end, and a read from a socket may bring thousands. A peer
that sends dear requests one behind the other would keep the loop from all other sockets and from its own signs of life.

The idea. The time that the machine takes for a peer's messages is its *debt*. A debt shrinks as time goes by, by a
small share of it (`SHARE`), so whoever asks for little has none and is served at once, as if there were no turns.
Messages of a peer that owes more than `turn` wait. In each round of the loop those who wait are served one after the
other, all together for one `turn`: each may use up a small quantum, and what a message takes beyond it is made up for
by being passed over later (deficit round robin: Shreedhar and Varghese, 1995). Between two rounds the loop reads
sockets, sends what was answered, fires timers and looks for signs of life.

Many peers that owe nothing may come at once, and each may take a `turn`. So what they take together in a round is
bounded as well (`ROUND_TURNS`); those who come behind that wait for the next one, like the others.

So a peer that asks for little waits for a few turns at most, and for the end of the one step that is being taken; how
long a step may take is the machine's affair. Nothing is slower for lack of others: rounds follow each other at once.

Bounds. While a message of a peer waits nothing more is read from it, so no more than one read waits, and the peer's own
queue fills. When its link goes down what waits is given up, as is everything on its way. The order of a peer's messages
is kept; the order among peers is nobody's promise.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from tidings.machine.inputs import Input, LinkDown, LinkUp, Received
from tidings.model.identity import NodeId
from tidings.net.counts import LINK_DOWN, HostCounts

SHARE = 0.1
"""Of the time that goes by, what a peer may take without ever having to wait."""

QUANTUM_SHARE = 0.2
"""Of a turn, what a peer that waits gets before the next one."""

ROUND_TURNS = 3
"""What all who owe nothing may take in one round of the loop, in turns."""

DEBT_TURNS_MAX = 10
"""A debt grows no larger than so many turns, so that a peer that becomes quiet is soon served at once again."""

DEBTS_MAX = 4096
"""Peers whose debt is remembered; of more, all are forgiven."""

NO_DEBT = 0.0, 0.0


class Reading(Protocol):
    """How reading from a peer is stopped and goes on."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class WaitingPeer:
    __slots__ = ("credit", "inputs", "name")

    def __init__(self, name: NodeId) -> None:
        self.name = name
        """How it is called now: a visitor is admitted under its own."""
        self.credit = 0.0
        self.inputs: deque[Received] = deque()


class Turns:
    """`step` takes an input to the machine, and `counts` say how long that took; `soon` calls a function in the next
    round of the loop. `reading` finds what is read from a peer; `is_paused` says whether nobody is served for now, and
    `serve` is called when that is over."""

    def __init__(
        self,
        turn: float,
        clock: Callable[[], float],
        counts: HostCounts,
        step: Callable[[Input], None],
        give_up: Callable[[object, str], None],
        soon: Callable[[Callable[[], None]], object],
        reading: Callable[[NodeId], Reading | None],
        is_paused: Callable[[], bool],
    ) -> None:
        self.turn, self.clock, self.counts, self.step, self.give_up = turn, clock, counts, step, give_up
        self.soon, self.reading, self.is_paused = soon, reading, is_paused
        self.debt_max = DEBT_TURNS_MAX * turn
        self.debts: dict[NodeId, tuple[float, float]] = {}
        """What a peer owed, and when."""
        self.waiting: dict[NodeId, WaitingPeer] = {}
        """In the order in which they are served."""
        self.is_serving = False
        self.round_max, self.taken_in_round, self.is_round_timed = ROUND_TURNS * turn, 0.0, False
        """By those who did not wait, in this round and, less than a turn of it, in those before."""
        self.served: WaitingPeer | None = None
        """Whose turn it is at this moment."""

    def take(self, input: Input) -> None:
        if type(input) is Received:
            sender = input.sender
            peer = self.waiting.get(sender)
            if peer is not None:
                if peer is self.served and not peer.inputs and peer.credit > 0:
                    self.serve_input(peer, input)
                else:
                    self.put(input)
                return
            now = self.clock()
            debt = self.debt(sender, now)
            if debt <= self.turn and self.taken_in_round < self.round_max:
                took = self.timed_step(input)
                self.owe(sender, now, debt + took)
                self.taken_in_round += took
                if self.taken_in_round >= self.turn and not self.is_round_timed:
                    self.is_round_timed = True
                    self.soon(self.begin_round)
            else:
                self.put(input)
            return
        if type(input) is LinkDown:
            self.forget(input.neighbour)
        elif type(input) is LinkUp and input.visitor:
            self.rename(input.visitor, input.neighbour)
        self.step(input)

    def begin_round(self) -> None:
        self.taken_in_round, self.is_round_timed = 0.0, False

    def debt(self, sender: NodeId, now: float) -> float:
        owed, at = self.debts.get(sender, NO_DEBT)
        return owed - SHARE * (now - at) if owed > SHARE * (now - at) else 0.0

    def owe(self, sender: NodeId, now: float, debt: float) -> None:
        if len(self.debts) >= DEBTS_MAX and sender not in self.debts:
            self.debts.clear()
        self.debts[sender] = debt if debt < self.debt_max else self.debt_max, now

    def timed_step(self, input: Received) -> float:
        before = self.counts.step_seconds
        self.step(input)
        return self.counts.step_seconds - before

    def serve_input(self, peer: WaitingPeer, input: Received) -> None:
        before = self.counts.step_seconds
        self.step(input)
        peer.credit -= self.counts.step_seconds - before

    def put(self, input: Received) -> None:
        peer = self.waiting.get(input.sender)
        if peer is None:
            peer = self.waiting[input.sender] = WaitingPeer(input.sender)
        peer.inputs.append(input)
        self.counts.inputs_waited += 1
        reading = self.reading(input.sender)
        if reading is not None:
            reading.pause_reading()
        self.serve_soon()

    def serve_soon(self) -> None:
        if self.waiting and not self.is_serving:
            self.is_serving = True
            self.soon(self.serve)

    def serve(self) -> None:
        """A round: a turn for all who wait."""
        self.is_serving = False
        began = self.clock()
        while self.waiting and not self.is_paused():
            sender = next(iter(self.waiting))
            peer = self.waiting.pop(sender)
            self.waiting[sender] = peer
            peer.credit += QUANTUM_SHARE * self.turn
            self.serve_peer(peer)
            if self.clock() - began >= self.turn:
                break
        if not self.is_paused():
            self.serve_soon()

    def serve_peer(self, peer: WaitingPeer) -> None:
        self.served, credit, began = peer, peer.credit, self.clock()
        while peer.inputs and peer.credit > 0 and not self.is_paused():
            self.serve_input(peer, peer.inputs.popleft())
        reading = self.reading(peer.name)
        if reading is not None and not peer.inputs and peer.credit > 0 and not self.is_paused():
            # What was read before is taken at once, as far as the credit goes; the rest of it waits as bytes.
            reading.resume_reading()
        self.served = None
        if self.waiting.get(peer.name) is peer:
            # What it took is its debt, reckoned once for all of it.
            self.owe(peer.name, began, self.debt(peer.name, began) + credit - peer.credit)
            if not peer.inputs and peer.credit > 0:
                del self.waiting[peer.name]

    def rename(self, visitor: NodeId, name: NodeId) -> None:
        """What waits of a visitor that was admitted is of whom it proved to be."""
        self.debts.pop(visitor, None)
        peer = self.waiting.pop(visitor, None)
        if peer is not None:
            peer.name = name
            peer.inputs = deque(Received(name, each.message, each.size_bytes) for each in peer.inputs)
            self.waiting[name] = peer

    def forget(self, sender: NodeId) -> None:
        """Its link is down."""
        self.debts.pop(sender, None)
        peer = self.waiting.pop(sender, None)
        if peer is not None:
            inputs, peer.inputs = peer.inputs, deque()
            for input in inputs:
                self.give_up(input.message, LINK_DOWN)
