"""From answers to batches, and from batches to what a client receives."""

from itertools import groupby

from tidings.protocols.delivery.edge.streams import ServedSubscription
from tidings.protocols.delivery.messages import Delivery, History
from tidings.pubsub.publications import Publications

MIXED_PUBLICATIONS_MAX, MIXED_ENTRIES_MAX = 1000, 4000
"""Publications of a delivery that says for each which subscriptions match, and all entries of that, so that they fit
the frame beside a whole batch."""


def merged(answers: list[History], early: list[Publications], through: int) -> list[Publications]:
    """What is stored of a publisher at one or several brokers, and what came behind that, in the order of numbers and
    each once, up to a number. Those that were accepted at the same time are a batch."""
    found: dict[int, tuple[float, bytes, bytes]] = {}
    for each in answers:
        columns = zip(each.numbers, each.accepted_at, each.heads, each.payloads, strict=True)
        found |= {number: (at, head, payload) for number, at, head, payload in columns if number <= through}
    for batch in early:
        rows = zip(batch.numbers, batch.heads, batch.payloads, strict=True)
        found |= {number: (batch.accepted_at, head, payload) for number, head, payload in rows if number <= through}
    made = []
    for at, run in groupby(sorted(found), key=lambda number: found[number][0]):
        numbers = tuple(run)
        _, heads, payloads = zip(*[found[number] for number in numbers], strict=True)
        made.append(Publications(answers[0].publisher, answers[0].advertisement, at, 0, numbers, heads, payloads))
    return made


def joined(shares: list[tuple[ServedSubscription, Publications]]) -> list[Delivery]:
    """What several subscriptions of one client get of one batch, each publication once."""
    first = shares[0][1]
    if all(part is first for _, part in shares):
        matched = (tuple([subscription.number for subscription, _ in shares]),)
        return [Delivery(first.publisher, first.accepted_at, first.numbers, first.heads, first.payloads, matched)]
    entries: dict[int, tuple[bytes, bytes, list[int]]] = {}
    for subscription, part in shares:
        for number, head, payload in zip(part.numbers, part.heads, part.payloads, strict=True):
            entries.setdefault(number, (head, payload, []))[2].append(subscription.number)
    made: list[Delivery] = []
    run: list[int] = []
    count = 0
    for number in sorted(entries):
        mentions = len(entries[number][2])
        if run and (len(run) == MIXED_PUBLICATIONS_MAX or count + mentions > MIXED_ENTRIES_MAX):
            made.append(delivery_of(first, run, entries))
            run, count = [], 0
        run.append(number)
        count += mentions
    return [*made, delivery_of(first, run, entries)]


def delivery_of(
    batch: Publications, numbers: list[int], entries: dict[int, tuple[bytes, bytes, list[int]]]
) -> Delivery:
    heads, payloads, matched = zip(*[entries[number] for number in numbers], strict=True)
    return Delivery(
        batch.publisher, batch.accepted_at, tuple(numbers), heads, payloads, tuple([tuple(each) for each in matched])
    )
