"""The matchers under test, by name, and the ways to put events to each of them."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from bench.baselines import NaiveLoop, NumpyCounting, NumpyNarrowCounting, PythonCounting, RoaringAnd
from bench.timing import Contender
from bench.workload import Array, Workload
from tidings.matching.index import Index
from tidings.matching.linear import LinearScan
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.values import Value

BATCH_EVENTS, ARROW_EVENTS = 512, 4096
PEER_CHUNK_EVENTS = 8
CHECKED_EVENTS = 24

FAST, PLAIN, SCAN = "Index", "Index, plain engine", "LinearScan"
NAIVE, COUNTING, NUMPY, NARROW, ROARING = (
    "naive loop",
    "Python counting",
    "numpy counting",
    "numpy counting, narrowed",
    "pyroaring",
)
ARROW, LISTS, SINGLE = "Arrow batches", "lists of Event", "one Event at a time"


class Prepared:
    """A workload in every form that somebody takes, made when first asked for."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload

    @cached_property
    def filters(self) -> list[Filter]:
        return list(self.workload.filters())

    @cached_property
    def events(self) -> list[Event]:
        return self.workload.events()

    @cached_property
    def dicts(self) -> list[dict[str, Value]]:
        return self.workload.dicts()

    @cached_property
    def batches(self) -> list[Any]:
        return self.workload.batches(ARROW_EVENTS)

    def make_all(self) -> int:
        """Make every form now, so that none is made while something is measured."""
        return len(self.filters) + len(self.events) + len(self.dicts) + len(self.batches)


def has_fast_engine() -> bool:
    return find_spec("numba") is not None


def build(matcher: str, prepared: Prepared) -> Any:
    """A matcher that holds the filters of the workload, under their numbers."""
    peers: dict[str, Callable[[Workload], Any]] = {
        NAIVE: NaiveLoop,
        COUNTING: PythonCounting,
        NUMPY: NumpyCounting,
        NARROW: NumpyNarrowCounting,
        ROARING: RoaringAnd,
    }
    if matcher in peers:
        return peers[matcher](prepared.workload)
    table = LinearScan() if matcher == SCAN else Index(engine="fast" if matcher == FAST else "plain")
    table.add_many(enumerate(prepared.filters))
    return table


def contenders(matcher: str, table: Any, prepared: Prepared) -> Iterator[Contender]:
    """The ways to ask this matcher. Ours answers Arrow batches with flat arrays of keys, lists with lists of keys."""
    if matcher in (FAST, PLAIN):
        if matcher == FAST:
            yield Contender(f"{matcher}: {ARROW}", prepared.batches, lambda batch: table.match_batch(batch))
        yield Contender(
            f"{matcher}: {LISTS}", chunked(prepared.events, BATCH_EVENTS), lambda chunk: list(table.match_batch(chunk))
        )
    elif matcher == SCAN:
        yield Contender(matcher, chunked(prepared.events, PEER_CHUNK_EVENTS), table.match_batch)
    else:
        events: Sequence[Any] = list(prepared.workload.rows)
        if matcher == NAIVE:
            events = prepared.dicts
        elif matcher == COUNTING:
            events = prepared.workload.rows.tolist()
        yield Contender(
            matcher, chunked(events, PEER_CHUNK_EVENTS), lambda chunk: [table.match(event) for event in chunk]
        )


def chunked(events: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [events[begin : begin + size] for begin in range(0, len(events), size)]


def check_answers(contender: Contender, workload: Workload) -> None:
    """Nobody is timed before it gave the answers of brute force."""
    checked = 0
    for chunk in contender.chunks:
        for answer in contender.ask(chunk):
            found: list[int] | Array = answer if isinstance(answer, list) else list(answer)
            expected = workload.matching(checked)
            if sorted(map(int, found)) != expected:
                raise AssertionError(
                    f"{contender.name}: event {checked} has {len(expected)} matches, found {len(found)}"
                )
            checked += 1
            if checked == CHECKED_EVENTS:
                return
