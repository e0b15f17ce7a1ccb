"""`python -m bench.hostile.watched FILE broker --name a ...`: the program `tidings`, and how long its loop is away.

A broker has one loop. Whoever asks for little waits for the end of the *round* that the loop is in: everything between
two looks at its sockets. How long rounds take is measured by the processor time of the thread, so that whatever else
runs on the machine does not count. SIGUSR1 begins anew. When the program ends, FILE says in seconds

    rounds       how long somebody waits who comes while the loop is busy: the rest of that round and the next one,
                 in 50, 99 and 100 of 100 moments
    steps        the longest step for each kind of input, and the processor time of all
    collections  the longest pauses of the garbage collector, by generation
    places       where in the program long rounds were, as a sample finds it
"""

import asyncio
import gc
import json
import selectors
import signal
import sys
from collections import Counter, defaultdict
from pathlib import Path
from time import thread_time
from types import FrameType
from typing import Any

from bench.hostile.first import go_first
from tidings.machine.inputs import Fired, Received
from tidings.nodes.broker import BrokerNode

SAMPLE_PERIOD, LONG_ROUND, PLACES_SHOWN, PLACE_DEPTH = 0.002, 0.010, 12, 7

ROUNDS_MAX = 1_000_000
"""Rounds that are remembered; later ones only count for the longest."""


class Watch:
    def __init__(self) -> None:
        self.rounds: list[float] = []
        self.steps: dict[str, list[float]] = defaultdict(list)
        self.collections: dict[int, list[float]] = defaultdict(list)
        self.places: Counter[str] = Counter()
        self.collecting_since = self.round_since = 0.0

    def sample(self, number: int, frame: FrameType | None) -> None:
        if thread_time() - self.round_since < LONG_ROUND:
            return
        names: list[str] = []
        while frame is not None and len(names) < PLACE_DEPTH:
            names.append(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}")
            frame = frame.f_back
        self.places[" < ".join(names)] += 1

    def collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self.collecting_since = thread_time()
        else:
            self.collections[info["generation"]].append(thread_time() - self.collecting_since)

    def clear(self) -> None:
        """What came before, while the program started, is not of interest."""
        for each in (self.rounds, self.steps, self.collections, self.places):
            each.clear()

    def report(self) -> dict[str, Any]:
        return {
            "rounds": waits(self.rounds),
            "busy": sum(self.rounds),
            "steps": {kind: [max(took), sum(took), len(took)] for kind, took in self.steps.items()},
            "places": self.places.most_common(PLACES_SHOWN),
            "collections": {kind: [max(took), sum(took), len(took)] for kind, took in self.collections.items()},
        }


def waits(rounds: list[float]) -> list[float]:
    """What somebody waits who comes at a moment in which the loop is busy, in 50, 99 and 100 of 100 such moments: on
    the average half the round and the whole of the next one."""
    waited = sorted((one / 2 + following, one) for one, following in zip(rounds, [*rounds[1:], 0.0], strict=True))
    total, passed, shares = sum(rounds), 0.0, [0.5, 0.99]
    answers: list[float] = []
    for wait, weight in waited:
        passed += weight
        while shares and passed >= shares[0] * total:
            answers.append(wait)
            shares.pop(0)
    return [*answers, max(rounds, default=0.0)]


class WatchedSelector(selectors.DefaultSelector):
    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def select(self, timeout: float | None = None) -> Any:
        if len(self.watch.rounds) < ROUNDS_MAX:
            self.watch.rounds.append(thread_time() - self.watch.round_since)
        ready = super().select(timeout)
        self.watch.round_since = thread_time()
        return ready


def watch_steps(watch: Watch) -> None:
    handle = BrokerNode.handle

    def watched(self: BrokerNode, now: float, input: Any) -> Any:
        began = thread_time()
        effects = handle(self, now, input)
        watch.steps[kind_of(input)].append(thread_time() - began)
        return effects

    BrokerNode.handle = watched  # type: ignore[method-assign]


def kind_of(input: Any) -> str:
    match input:
        case Received(_, message):
            return type(message).__name__
        case Fired(key):
            return f"timer {key[0] if isinstance(key, tuple) else key}"
    return type(input).__name__


def main(file: str, *arguments: str) -> None:
    from tidings.__main__ import main as tidings

    go_first()
    watch = Watch()
    watch_steps(watch)
    gc.callbacks.append(watch.collected)
    signal.signal(signal.SIGPROF, watch.sample)
    signal.setitimer(signal.ITIMER_PROF, SAMPLE_PERIOD, SAMPLE_PERIOD)

    class Policy(asyncio.DefaultEventLoopPolicy):
        def new_event_loop(self) -> asyncio.AbstractEventLoop:
            loop = asyncio.SelectorEventLoop(WatchedSelector(watch))
            loop.add_signal_handler(signal.SIGUSR1, watch.clear)
            return loop

    asyncio.set_event_loop_policy(Policy())
    sys.argv = ["tidings", *arguments]
    try:
        tidings()
    finally:
        Path(file).write_text(json.dumps(watch.report()))


if __name__ == "__main__":
    main(*sys.argv[1:])
