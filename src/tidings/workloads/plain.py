"""Laws in plain Python, for what is drawn one after the other, and for scenarios, which run without numpy.

**Random times** are a Poisson process, drawn as one goes: for a publisher whose rate is made up by an experiment.
(`Schedule` draws those of a workload, all at once.)

**Scattered** events come from random places at random times, and all differ.

**Rounds** are for the race that subscribers usually lose: somebody subscribes, and as soon as that is confirmed
somebody else publishes what is asked for. So each round is a subscription and an event that matches it. Subscriptions
of different rounds cover each other or overlap. Any workload with events and subscriptions can be played in rounds too:
its subscriptions by turns, each with the first event that it matches.
"""

import math
from collections.abc import Callable, Iterator
from itertools import cycle, islice

import msgspec

from tidings.machine.streams import RandomStream, random_stream
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.workloads.workload import Workload, require

EVENTS_MAX = 1_000_000
"""Events of one scenario."""

SEARCHED_MAX = 1_000
"""Events of a workload, and as many of its subscriptions, among which rounds are looked for."""

TOPICS, LEVELS = 3, 5


Points = tuple[tuple[float, float], ...]
"""Times, and what holds at each."""


def random_times(
    random: RandomStream, rate: float | Callable[[float], float], begin: float = 0.0, end: float = math.inf
) -> Iterator[float]:
    """At random, independently of each other, so many a second; a rate that changes holds until the next time."""
    at = begin
    while (at := at + random.expovariate(rate(at) if callable(rate) else rate)) < end:
        yield at


def along(points: Points, at: float) -> float:
    """On straight lines from point to point, and then as at the last."""
    before, after = points[0], points[-1]
    for point in points:
        if point[0] <= at:
            before = point
        else:
            after = point
            break
    if after[0] <= before[0]:
        return before[1]
    return before[1] + (after[1] - before[1]) * (at - before[0]) / (after[0] - before[0])


class Scattered(msgspec.Struct, frozen=True):
    """At `at`, at the place of this number, an event with these attributes and this payload."""

    at: float
    place: int
    attributes: dict[str, Value]
    payload: bytes


def scattered(seed: int, events: int, places: int, begin: float, end: float, payload_bytes: int) -> list[Scattered]:
    """In the order of time."""
    require(0 <= events <= EVENTS_MAX, f"events: {events}; give 0 to {EVENTS_MAX}")
    random = random_stream(seed, "workload")
    drawn = []
    for number in range(events):
        place, at = random.below(places), round(random.uniform(begin, end), 3)
        payload = bytes(random.below(256) for _ in range(payload_bytes))
        drawn.append(Scattered(at, place, {"id": f"e{number}", "type": "scenario", "number": number}, payload))
    return sorted(drawn, key=lambda each: each.at)


class Round(msgspec.Struct, frozen=True):
    wanted: str
    """The filter of the subscription."""
    advertised: str
    """By whoever publishes this event and no other."""
    attributes: dict[str, Value]
    """Of the event, which the subscription matches."""
    advertised_by_all: str = "TRUE"
    """By those who publish in any round."""


def round_at(seed: int, number: int) -> Round:
    topic = number % TOPICS
    level = random_stream(seed, "round", number).below(LEVELS)
    return Round(
        wanted=f"x >= {level} AND topic = {topic}",
        advertised=f"x >= 0 AND topic = {topic}",
        attributes={"x": LEVELS + number % 7, "topic": topic},
        advertised_by_all="x >= 0",
    )


def rounds_of(workload: Workload, count: int) -> Iterator[Round]:
    """Subscriptions that match none of the events are left out."""
    events = [each.attributes for each in islice(workload.planned_events(), SEARCHED_MAX)]
    rows = islice(workload.table("subscriptions").rows(), SEARCHED_MAX)
    found = (Round(row["filter"], "TRUE", event) for row in rows for event in matched(row["filter"], events))
    kept = list(islice(found, count))
    if not kept:
        raise UsageError("workload: none of its subscriptions matches one of its events; give one with more matches")
    return islice(cycle(kept), count)


def matched(text: str, events: list[dict[str, Value]]) -> Iterator[dict[str, Value]]:
    """The first event that the filter matches, if there is one."""
    filter = parse(text)
    return islice((event for event in events if filter.matches(Event(event))), 1)
