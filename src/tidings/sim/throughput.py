"""A broker that forwards so much in a second: whatever is more waits.

The model of PopSub's evaluation (5.5.1, 5.5.2; specification 3.4.6). A broker has `units` for each second. Forwarding
one publication on one link costs one unit, a batch of n costs `1 + batch_cost * (n - 1)`. When the units of a second
are used up, what carries publications waits in a queue, first in, first out, until the next second begins. Whenever
something has to wait the length of the queue is noted (`Queued`). Everything else, tables and answers, passes by.

`ThroughputMachine(broker, units)` stands around any machine of a broker; nothing inside knows of it.
"""

from collections import deque

from tidings.machine.effects import Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input
from tidings.machine.message import Message
from tidings.machine.node import Machine
from tidings.protocols.gossip.lpbcast import GroupGossip, GroupPush
from tidings.protocols.routing.carriage.direct import DirectPublications
from tidings.pubsub.gathered import GatheredPublications
from tidings.pubsub.notes import Queued
from tidings.pubsub.publications import Publications

TIMER = "throughput"


def publications_in(message: Message) -> int:
    """How many publications it carries."""
    match message:
        case Publications(numbers=numbers):
            return len(numbers)
        case GatheredPublications(batch) | DirectPublications(batch):
            return len(batch.numbers)
        case GroupGossip(said=said):
            return sum(len(each.batch.numbers) for each in said)
        case GroupPush(said=part):
            return len(part.batch.numbers)
    return 0


class ThroughputMachine:
    def __init__(self, machine: Machine, units: float, batch_cost: float = 0.15) -> None:
        self.machine, self.units, self.batch_cost = machine, units, batch_cost
        self.second, self.left = -1, 0.0
        self.waiting: deque[Send] = deque()
        self.is_timed = False

    def start(self, now: float) -> list[Effect]:
        self.waiting.clear()
        self.is_timed = False
        return self.pass_through(now, self.machine.start(now))

    def handle(self, now: float, input: Input) -> list[Effect]:
        if type(input) is Fired and input.key == TIMER:
            self.is_timed = False
            return self.release(now)
        return self.pass_through(now, self.machine.handle(now, input))

    def pass_through(self, now: float, effects: list[Effect]) -> list[Effect]:
        passed: list[Effect] = []
        for effect in effects:
            count = publications_in(effect.message) if type(effect) is Send else 0
            if not count:
                passed.append(effect)
                continue
            assert isinstance(effect, Send)
            if self.waiting or not self.pay(now, count):
                self.waiting.append(effect)
                passed.append(Queued(len(self.waiting)))
            else:
                passed.append(effect)
        return passed + self.arm()

    def pay(self, now: float, count: int) -> bool:
        """A unit that is left is enough, whatever the message costs: so a large one does not wait for ever."""
        second = int(now)
        if second != self.second:
            # What was used beyond the last second is used of this one.
            passed = second - self.second if self.second >= 0 else 1
            self.left = min(self.units, self.left + passed * self.units)
            self.second = second
        if self.left <= 0:
            return False
        cost = 1 + self.batch_cost * (count - 1)
        self.left -= cost
        return True

    def release(self, now: float) -> list[Effect]:
        released: list[Effect] = []
        while self.waiting and self.pay(now, publications_in(self.waiting[0].message)):
            released.append(self.waiting.popleft())
        return released + self.arm()

    def arm(self) -> list[Effect]:
        if self.is_timed or not self.waiting:
            return []
        self.is_timed = True
        return [SetTimer(TIMER, float(self.second + 1))]

    def check(self) -> None:
        self.machine.check()
        assert self.is_timed or not self.waiting, "something waits for no second"
