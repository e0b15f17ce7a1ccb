"""Publications that were accepted at different times, in one message.

A batch (`Publications`) is what was accepted at once, and has one time. Whoever gathers what comes for a while (popular
routing, groups of brokers) makes one batch of many, which is matched once and forwarded once. The time of each goes
beside it: whoever asked for publications since a time gets just these. Where it reaches clients it is taken apart
again, into runs that were accepted at the same time.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, groupby
from typing import Annotated

import msgspec

from tidings.machine.message import Message, Real
from tidings.model.bounds import PUBLICATIONS_MAX
from tidings.pubsub.publications import Publications, cut

UNEVEN_TIMES = "as many times as publications are needed"


class GatheredPublications(Message, frozen=True):
    batch: Publications
    """Its `accepted_at` is the latest of all times."""
    times: Annotated[tuple[Real, ...], msgspec.Meta(max_length=PUBLICATIONS_MAX)]
    """When each was accepted."""

    def __post_init__(self) -> None:
        if len(self.times) != len(self.batch.numbers):
            raise ValueError(UNEVEN_TIMES)


def join(batches: Sequence[Publications]) -> GatheredPublications:
    """Batches of one publisher and advertisement, in ascending order of numbers; no receipts."""
    first = batches[0]
    latest = max(batch.accepted_at for batch in batches)
    joined = Publications(
        first.publisher,
        first.advertisement,
        latest,
        0,
        tuple(chain.from_iterable(batch.numbers for batch in batches)),
        tuple(chain.from_iterable(batch.heads for batch in batches)),
        tuple(chain.from_iterable(batch.payloads for batch in batches)),
    )
    return GatheredPublications(
        joined, tuple(chain.from_iterable([batch.accepted_at] * len(batch.numbers) for batch in batches))
    )


def with_times(batch: Publications, times: Mapping[int, float]) -> GatheredPublications:
    """A part of what was gathered, with the times of its publications, by their numbers."""
    return GatheredPublications(batch, tuple([times[number] for number in batch.numbers]))


def runs_of(times: Iterable[float]) -> list[slice]:
    """Neighbours that were accepted at the same time."""
    runs: list[slice] = []
    begin = 0
    for _, run in groupby(times):
        end = begin + sum(1 for _ in run)
        runs.append(slice(begin, end))
        begin = end
    return runs


def taken_apart(gathered: GatheredPublications) -> list[Publications]:
    """As they were accepted."""
    return [
        msgspec.structs.replace(cut(gathered.batch, run, 0), accepted_at=gathered.times[run.start])
        for run in runs_of(gathered.times)
    ]
