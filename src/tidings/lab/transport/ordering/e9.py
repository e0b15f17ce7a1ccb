"""E9: how probable it is that a loss is seen, by the formula and by trying.

A subscriber learns that it lost an event when it receives one of the next R events of the publisher, whose record then
tells of it. It receives each of them with probability P_match (1 - P_loss), so

    P_detect = 1 - (1 - P_match + P_match P_loss)^R                                      (MT 4.1)

*Tried with the machine*: the transport's part `Ordering` gets an event, then one is lost, and of the next R events
those that match and are not lost reach it; the loss is seen if `Ordering` says so. Where none of the R events comes,
one more does, whose record no longer reaches back to the loss: nothing may be said of it.

*Shared losses*: it is enough that one of those who lost an event sees it. Beside the node, k others want each event of
the node's with probability 0.5, and have the same P_match in all; what each receives is lost for each alone. If all
that were independent it would be 1 - (1 - q)(1 - q / 2)^k with q = P_detect. It is not, since what matches one matches
another more often than by chance. With x = P_match / 2 / (1 - P_match) for the probability that another wants an event
that the node does not want, and B for how many of the others wanted the lost event (binomial, k and 1/2),

    P_shared = 1 - E[(P_match P_loss (1/2 + P_loss/2)^B + (1 - P_match)(1 - x + x P_loss)^B)^R]

Measured in the run: what is tried are single machines without a network, which leave no trace for a metric to read.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import msgspec

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, Measured, Variant
from tidings.lab.figures import measured_in_runs
from tidings.lab.plots import COLOURS
from tidings.lab.transport.substrate import PUBLISHED_ROWS
from tidings.machine.effects import Effect
from tidings.machine.streams import RandomStream, random_stream
from tidings.model.language.parser import parse
from tidings.protocols.transport.headers import ENTRY_AGE, Data
from tidings.protocols.transport.ordering.ordering import Ordering
from tidings.protocols.transport.sequences import Departures
from tidings.protocols.transport.signals import CarriedEvent, EventLost, Heard, Listen, StreamGone
from tidings.pubsub.publications import encode_head
from tidings.trace.writer import Writer

MATCHES = (0.001, 0.01, 0.05, 0.1, 0.5)
RECORDS = (1, 2, 5, 10, 20, 25, 50, 100)
LOSSES = (0.01, 0.1)
SHARED_MATCHES = (0.01, 0.05)
SHARERS = (0, 1, 2, 4)
OVERLAP = 0.5

DERIVED = {
    "P_match 0.01, 1 other": 0.138,
    "P_match 0.01, 2 others": 0.178,
    "P_match 0.01, 4 others": 0.254,
    "P_match 0.05, 1 other": 0.518,
    "P_match 0.05, 2 others": 0.614,
    "P_match 0.05, 4 others": 0.752,
}
"""At R = 10, by the formula (specification, 3.4)."""

SUBSCRIPTION = 1

SIGMA_MIN = 1e-5
"""Where nearly all losses are seen, a single one that is not would be many standard deviations."""


def detection(match: float, loss: float, record: int) -> float:
    return 1.0 - (1.0 - match + match * loss) ** record


def shared_detection(match: float, loss: float, record: int, others: int) -> float:
    """As above; `OVERLAP` is a half."""
    elsewhere, unseen = match * (1 - OVERLAP) / (1 - match), 0.0
    for wanting in range(others + 1):
        weight = math.comb(others, wanting) * OVERLAP**wanting * (1 - OVERLAP) ** (others - wanting)
        of_node = match * loss * (1 - OVERLAP * (1 - loss)) ** wanting
        of_others = (1 - match) * (1 - elsewhere * (1 - loss)) ** wanting
        unseen += weight * (of_node + of_others) ** record
    return 1.0 - unseen


def distance(share: float, expected: float, count: int) -> float:
    """In standard deviations of a share of so many trials."""
    sigma = math.sqrt(expected * (1 - expected) / count)
    return abs(share - expected) / sigma if sigma > SIGMA_MIN else 0.0


# Tried with the machine.


class Trials:
    """One receiver, and a publisher whose every trial is a new stream; events are a second apart."""

    def __init__(self, record: int) -> None:
        params = msgspec.structs.replace(PUBLISHED_ROWS, record=record)
        self.record, self.row_bytes = record, params.profile.size_bytes
        self.ordering = Ordering(2, params, Random(0))
        self.ordering.handle(0.0, Listen(SUBSCRIPTION, parse("wanted = 1")))
        rows = [Departures(1, params).bits_of(encode_head({"wanted": value})) for value in (0, 1)]
        self.rows = [ENTRY_AGE.pack(0) + row.to_bytes(self.row_bytes, "little") for row in rows]
        self.made = 0

    def seen(self, matching: Sequence[bool], received: int | None) -> bool:
        """Whether the loss of event 1 is seen. `matching` says of the events from 2 on whether they are wanted;
        `received` is the first that comes."""
        stream = ("p", self.made)
        self.made += 1
        wanted = [True, True, *matching]
        self.hear(stream, 0, wanted)
        last = len(wanted) if received is None else received
        told = self.hear(stream, last, [*wanted, True])
        self.ordering.handle(float(last), StreamGone(stream))
        return any(type(effect) is EventLost and effect.sequence == 1 for effect in told)

    def hear(self, stream: tuple[str, int], number: int, wanted: Sequence[bool]) -> list[Effect]:
        before = [self.rows[is_wanted] for is_wanted in reversed(wanted[max(0, number - self.record) : number])]
        row_bytes = self.row_bytes if before else 0
        header = Data(
            stream[1], number, float(number), entries=len(before), row_bytes=row_bytes, record=b"".join(before)
        )
        content = CarriedEvent(b"", b"", stream[0], number, 0.0, (SUBSCRIPTION,))
        return self.ordering.handle(float(number), Heard(stream, number, header, content))


def share_seen(trials: Trials, match: float, loss: float, count: int, rng: RandomStream) -> tuple[float, int]:
    """The share of losses seen, and how many were seen that no record told of."""
    seen = beyond = 0
    for _ in range(count):
        matching = [rng.random() < match for _ in range(trials.record)]
        came = [place + 2 for place, is_wanted in enumerate(matching) if is_wanted and rng.random() >= loss]
        if came:
            seen += trials.seen(matching, came[0])
        else:
            beyond += trials.seen(matching, None)
    return seen / count, beyond


def try_machine(seed: int, count: int) -> dict[str, float]:
    made, beyond = dict[str, float](), 0
    for loss in LOSSES:
        worst = dict.fromkeys(MATCHES, 0.0)
        for record in RECORDS:
            trials = Trials(record)
            for match in MATCHES:
                rng = random_stream(seed, "detection", loss, record, match)
                share, more = share_seen(trials, match, loss, count, rng)
                worst[match] = max(worst[match], distance(share, detection(match, loss, record), count))
                beyond += more
                if loss == LOSSES[0]:
                    made[f"seen, P_match {match}|R = {record}"] = share
        made |= {f"deviation, P_loss {loss}|P_match {match}": value for match, value in worst.items()}
    return {**made, "beyond the record|": beyond}


# Shared losses.


def named(others: int) -> str:
    return f"{others} other{'s' * (others != 1)}"


def try_sharing(seed: int, count: int) -> dict[str, float]:
    made = {
        f"shared, P_match {match}, {named(others)}|R = {record}": share
        for match in SHARED_MATCHES
        for others in SHARERS
        for record, share in zip(RECORDS, shares_shared(seed, match, others, count), strict=True)
    }

    def at(match: float, others: int, record: int) -> float:
        return made[f"shared, P_match {match}, {named(others)}|R = {record}"]

    made["deviation, shared|"] = max(
        distance(at(match, others, record), shared_detection(match, LOSSES[0], record, others), count)
        for match in SHARED_MATCHES
        for others in SHARERS
        for record in RECORDS
    )
    for name in DERIVED:
        made[f"shared at 10|{name}"] = made[f"shared, {name}|R = 10"]
    by_others = [
        at(match, more, record) - at(match, fewer, record)
        for match in SHARED_MATCHES
        for record in RECORDS
        for fewer, more in pairwise(SHARERS)
    ]
    by_record = [
        at(match, others, more) - at(match, others, fewer)
        for match in SHARED_MATCHES
        for others in SHARERS
        for fewer, more in pairwise(RECORDS)
    ]
    return {**made, "grows with sharers|": min(by_others), "grows with the record|": min(by_record)}


def shares_shared(seed: int, match: float, others: int, count: int) -> list[float]:
    """For each size of the record, the share of shared losses that somebody sees."""
    import numpy as np

    # The same draws for every number of others, so that more of them can only see more.
    random = np.random.default_rng([seed, round(match * 1000)])
    loss, most = LOSSES[0], max(SHARERS) + 1
    chances = random.random((count, RECORDS[-1], most), dtype=np.float32)
    lost = random.random((count, RECORDS[-1], most), dtype=np.float32) < loss
    interested = random.random((count, most)) < OVERLAP
    interested[:, 0] = True
    elsewhere = match * (1 - OVERLAP) / (1 - match)
    by_node = chances[:, :, :1] < match
    by_others = np.where(by_node, chances[:, :, 1:] < OVERLAP, chances[:, :, 1:] < elsewhere)
    wanted = np.concatenate([by_node, by_others], axis=2)
    received: Any = wanted & ~lost & interested[:, None, :]
    by_event = received[:, :, : others + 1].any(axis=2)
    return [float(by_event[:, :record].any(axis=1).mean()) for record in RECORDS]


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: trials with the machine, and of shared losses, for each point."""
    return {**try_machine(seed, parameters["trials"]), **try_sharing(seed, parameters["shared_trials"])}


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    left, right = canvas.subplots(1, 2)
    steps = range(1, RECORDS[-1] + 1)
    for colour, match in zip(COLOURS, MATCHES, strict=False):
        left.plot(steps, [detection(match, LOSSES[0], record) for record in steps], color=colour, label=f"{match}")
        dots(left, measured, f"seen, P_match {match}", colour)
    for colour, others in zip(COLOURS, SHARERS, strict=False):
        name = named(others)
        right.plot(
            steps, [shared_detection(0.05, LOSSES[0], record, others) for record in steps], color=colour, label=name
        )
        dots(right, measured, f"shared, P_match 0.05, {name}", colour)
    left.set_title("one receiver, by P_match")
    right.set_title("shared losses, P_match 0.05")
    for axes in (left, right):
        axes.set(xlabel="events in the record", ylabel="share of losses seen")
        axes.set_xscale("log")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3)


def dots(axes: Any, measured: Sequence[Measured], figure: str, colour: str) -> None:
    """Lines are by formula, dots are tried."""
    points = [(int(each.group.split()[-1]), each.value) for each in measured if each.figure == figure]
    axes.plot([at for at, _ in points], [value for _, value in points], "o", color=colour)


EXPERIMENT = define(__file__, run=run, variants=(Variant("tried"),), figures=measured_in_runs, plot=plot)
