"""What popularity saves brokers, and what it costs them when nothing is diverted.

Seven brokers in a row, in this process: routing, codec and delivery to applications, each broker with its processor
time by itself; no sockets. The first has 40 publishers, each with events of its own, one at a time as they come.
Clients of the others want what is popular by a Zipf law: the r-th publisher has 1/r of the most subscriptions.

    python -m bench.diverted                  each way beside routing without popularity, in one run
    python -m bench.diverted --events 4000 --rounds 3

*Saved*: deliveries for each second of processor time of all brokers, and of the busiest, with `phi` such that a third
of the traffic is popular, against the same without popularity. *Idle*: the same with everything popular, which is what
popularity costs where there is nothing to divert. Rounds alternate between the ways, and ratios are of sums, so that a
machine that is busy with other things slows all of them alike.
"""

import argparse
from collections import deque
from heapq import heappop, heappush
from random import Random
from time import process_time
from typing import Any

from tidings.machine.effects import CancelTimer, Connect, Deliver, Send, SetTimer
from tidings.machine.inputs import Fired, LinkUp, Received
from tidings.machine.streams import random_stream
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.delivery.local import LocalParams
from tidings.protocols.overlay.scripted import ScriptedParams
from tidings.protocols.routing.params import RoutingParams
from tidings.pubsub.client import Arrived, OpenAdvertisement, OpenSubscription, PublishBatch
from tidings.pubsub.publications import encode_head
from tidings.wire import decode, encode

BROKERS, PUBLISHERS, MOST = 7, 40, 60
INTERVAL = 0.0005
"""Seconds between two events, as the brokers see it."""


class Row:
    """Brokers in a row; messages travel at once and in order."""

    def __init__(self, routing: RoutingParams) -> None:
        self.names = [f"b{place}" for place in range(BROKERS)]
        self.now = 0.0
        self.queue: deque[tuple[str, str, bytes]] = deque()
        self.timers: list[tuple[float, int, str, Any]] = []
        self.set: dict[tuple[str, Any], int] = {}
        self.tickets, self.delivered, self.epochs = 0, 0, 0
        self.spent: dict[str, float] = dict.fromkeys(self.names, 0.0)
        self.linked: set[frozenset[str]] = set()
        self.nodes = {}
        for place, name in enumerate(self.names):
            near = tuple(self.names[other] for other in (place - 1, place + 1) if 0 <= other < BROKERS)
            params = DispatcherParams(
                overlay=ScriptedParams(neighbours=near), routing=routing, delivery=LocalParams(is_many=True)
            )
            self.nodes[name] = Dispatcher(name, params, random_stream(place))
        started = {name: node.start(0.0) for name, node in self.nodes.items()}
        for name, effects in started.items():
            self.perform(name, effects)
        self.rest(0.0)

    def tell(self, name: str, input: Any) -> None:
        begun = process_time()
        effects = self.nodes[name].handle(self.now, input)
        # What is encoded here is work of the broker too.
        sent = [(effect, encode(effect.message)) for effect in effects if type(effect) is Send]
        self.spent[name] += process_time() - begun
        for send, data in sent:
            if send.to in self.nodes:
                self.queue.append((name, send.to, data))
        self.perform(name, [effect for effect in effects if type(effect) is not Send])

    def perform(self, name: str, effects: list[Any]) -> None:
        for effect in effects:
            kind = type(effect)
            if kind is SetTimer:
                self.tickets += 1
                self.set[name, effect.key] = self.tickets
                heappush(self.timers, (effect.at, self.tickets, name, effect.key))
            elif kind is CancelTimer:
                self.set.pop((name, effect.key), None)
            elif kind is Deliver and type(effect.item) is Arrived:
                self.delivered += len(effect.item.numbers)
            elif kind is Connect:
                self.link(name, effect.neighbour)
            elif kind is Send:
                self.queue.append((name, effect.to, encode(effect.message)))

    def link(self, one: str, other: str) -> None:
        if frozenset((one, other)) not in self.linked:
            self.linked.add(frozenset((one, other)))
            self.epochs += 1
            for near, far in ((one, other), (other, one)):
                self.tell(near, LinkUp(far, self.epochs))

    def rest(self, until: float) -> None:
        while True:
            while self.queue:
                sender, to, data = self.queue.popleft()
                begun = process_time()
                message = decode(data)
                self.spent[to] += process_time() - begun
                self.tell(to, Received(sender, message, len(data)))
            if not self.timers or self.timers[0][0] > until:
                break
            at, ticket, name, key = heappop(self.timers)
            if self.set.get((name, key)) == ticket:
                del self.set[name, key]
                self.now = max(self.now, at)
                self.tell(name, Fired(key))
        self.now = max(self.now, until)


def measured(routing: RoutingParams, events: int, seed: int) -> tuple[int, float, float]:
    """Deliveries, and processor seconds of all brokers and of the busiest, behind a second of warming up."""
    row, rng = Row(routing), Random(seed)
    for publisher in range(PUBLISHERS):
        row.tell("b0", OpenAdvertisement(None, f"publisher = {publisher}"))
    for publisher in range(PUBLISHERS):
        for _ in range(max(1, MOST // (publisher + 1))):
            low = rng.randrange(50)
            row.tell(rng.choice(row.names[1:]), OpenSubscription(None, f"publisher = {publisher} AND x > {low}"))
    row.rest(5.0)

    def publish(count: int) -> None:
        for _ in range(count):
            publisher = rng.randrange(PUBLISHERS)
            head = encode_head({"publisher": publisher, "x": rng.randrange(100)})
            row.tell("b0", PublishBatch(publisher + 1, (head,), (bytes(100),)))
            row.rest(row.now + INTERVAL)

    publish(events)
    row.spent = dict.fromkeys(row.names, 0.0)
    row.delivered = 0
    publish(events)
    row.rest(row.now + 5.0)
    return row.delivered, sum(row.spent.values()), max(row.spent.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--events", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    common: dict[str, Any] = {"acknowledges": False, "evaluated_every": 0.5, "batched_for": 0.5, "engine": "plain"}
    scarce: dict[str, Any] = {"capacity": 1 / INTERVAL, "phi": 1 / 3}
    ways = {
        "plain": RoutingParams(**common),
        "idle": RoutingParams(popularity="batching", phi=1.0, capacity=1e12, **common),
        "batching": RoutingParams(popularity="batching", **scarce, **common),
        "direct": RoutingParams(popularity="direct", aside_max=10_000, **scarce, **common),
    }
    sums = {way: [0.0, 0.0, 0.0] for way in ways}
    for seed in range(asked.rounds):
        for way, routing in ways.items():
            for place, value in enumerate(measured(routing, asked.events, seed)):
                sums[way][place] += value
    delivered, all_seconds, busiest = sums["plain"]
    print(
        f"{'way':10} {'deliveries':>10} {'CPU s':>8} {'per CPU s':>10} {'times plain':>12} {'busiest, times plain':>22}"
    )
    for way, (count, seconds, most) in sums.items():
        ratio, ours = (count / seconds) / (delivered / all_seconds), (count / most) / (delivered / busiest)
        print(f"{way:10} {count:10.0f} {seconds:8.2f} {count / seconds:10.0f} {ratio:12.2f} {ours:22.2f}")


if __name__ == "__main__":
    main()
