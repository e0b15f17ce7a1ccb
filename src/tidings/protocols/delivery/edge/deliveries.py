"""What several subscriptions of one client get of one batch: each publication crosses the connection once.

Usually all of them want all of it, and then one entry says so for the whole batch. Otherwise each publication names the
subscriptions that it matches, and what would not fit a frame then becomes several messages.
"""

from collections.abc import Sequence

from tidings.protocols.delivery.edge.admission import ServedSubscription
from tidings.protocols.delivery.messages import Delivery
from tidings.pubsub.publications import Publications
from tidings.pubsub.signals import SubscriptionKey
from tidings.pubsub.tenants import unstamped

MIXED_PUBLICATIONS_MAX, MIXED_ENTRIES_MAX = 1000, 4000
"""Publications of a delivery that says for each which subscriptions match, and all entries of that, so that they fit
the frame beside a whole batch."""


def places_by_key(wanted: Sequence[tuple[SubscriptionKey, ...]]) -> dict[SubscriptionKey, list[int] | None]:
    """For each subscription the places of what it wants. Those that want the same get the same list."""
    places_of_keys: dict[tuple[SubscriptionKey, ...], list[int]] = {}
    for place, keys in enumerate(wanted):
        places_of_keys.setdefault(keys, []).append(place)
    found: dict[SubscriptionKey, list[int] | None] = {}
    for keys, places in places_of_keys.items():
        for key in keys:
            earlier = found.get(key)
            found[key] = places if earlier is None else sorted(earlier + places)
    return found


def joined(shares: list[tuple[ServedSubscription, Publications]]) -> list[Delivery]:
    """What several subscriptions of one client get of one batch, each publication once."""
    first, tenant = shares[0][1], shares[0][0].client.tenant_name
    if all(part is first for _, part in shares):
        matched = (tuple([subscription.number for subscription, _ in shares]),)
        heads = unstamped(first.heads, tenant)
        return [Delivery(first.publisher, first.accepted_at, first.numbers, heads, first.payloads, matched)]
    entries: dict[int, tuple[bytes, bytes, list[int]]] = {}
    for subscription, part in shares:
        for number, head, payload in zip(part.numbers, unstamped(part.heads, tenant), part.payloads, strict=True):
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
