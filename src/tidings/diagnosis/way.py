"""Why does this event reach that subscriber, or not?

An event goes from the broker of its publisher along the tree, over each link whose far end told a filter that matches
it, and then to the clients whose subscription matches. `trace_event` walks that way over the tables that brokers
reported, one hop at a time, and says at which link or constraint it ends. It asks about the tables as they are now: an
event of yesterday may have met others.

Brokers that route by destination look at an event only where it begins and where it ends; between them it follows the
way that each broker knows to the subscriber's.

Where routing goes by popularity, the broker of the publisher says which way the stream goes now: what few want may wait
for a batch, or pass the tree.

Where it ends and the subscription matches, a table is wrong (or just being changed) and `tidings doctor` finds it too.
"""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from tidings.diagnosis.findings import FLOODING, HIERARCHICAL
from tidings.diagnosis.network import DESTINATIONS, Network
from tidings.matching.explanation import ConjunctionVerdict, judge
from tidings.model.event import Event
from tidings.model.identity import name_of
from tidings.model.values import Value
from tidings.pubsub.rows import AdvertisementRow, PopularityRow, QueueRow, SubscriptionRow


class Step(msgspec.Struct, frozen=True):
    """What happens at one broker."""

    broker: str
    text: str
    is_passed: bool


class Way(msgspec.Struct, frozen=True):
    """The way of one event to one subscription. `refusals` are the constraints that do not hold, if it does not match;
    where it does, `steps` end at the subscriber or where the event stops."""

    client: str
    subscription: int
    filter: str
    steps: tuple[Step, ...]
    arrives: bool
    reason: str
    """In one sentence: why it arrives, or why not."""
    refusals: tuple[str, ...] = ()


def trace_event(network: Network, event: Event, subscriber: str, publisher: str = "") -> list[Way]:
    """One way for each subscription of the subscriber (`client`, or `client/number`) and each broker where the event
    may begin: those with a publisher, or the given one, that offers such events. Empty if there is no such subscriber.
    """
    client, _, number = subscriber.partition("/")
    found = [
        (name, row)
        for name, reported in network.brokers.items()
        for row in reported.subscriptions
        if row.client == client and number in ("", str(row.number))
    ]
    begins = origins(network, event, publisher)
    ways = []
    for owner, row in found:
        refusals = refusal_texts(judge(network.filter(row.filter), event))
        for begin, offer in begins:
            ways.append(walk(network, event, begin, owner, offer, row, refusals))
        if not begins:
            reason = f"nobody offers such an event: {nearest_offer(network, event, publisher)}"
            ways.append(Way(row.client, row.number, row.filter, (), False, reason, refusals))
    return ways


def origins(network: Network, event: Event, publisher: str) -> list[tuple[str, AdvertisementRow]]:
    """Brokers at which the event may be published, each with the first advertisement that allows it."""
    found: dict[str, AdvertisementRow] = {}
    for name, reported in network.brokers.items():
        for row in reported.advertisements:
            is_of_it = publisher in ("", row.publisher, name_of(row.publisher))
            if not row.hop and is_of_it and network.filter(row.filter).matches(event):
                found.setdefault(name, row)
    return list(found.items())


def nearest_offer(network: Network, event: Event, publisher: str) -> str:
    """The advertisement that refuses the event with the fewest constraints, and these."""
    best: tuple[int, str] | None = None
    for reported in network.brokers.values():
        for row in reported.advertisements:
            if row.hop or publisher not in ("", row.publisher, name_of(row.publisher)):
                continue
            refusals = refusal_texts(judge(network.filter(row.filter), event))
            if refusals and (best is None or len(refusals) < best[0]):
                best = len(refusals), f"nearest is {row.advertisement}, {row.filter}, where {'; '.join(refusals)}"
    if best is not None:
        return best[1]
    return f"{publisher} advertises nothing" if publisher else "there is no advertisement at all"


def walk(
    network: Network,
    event: Event,
    begin: str,
    owner: str,
    offer: AdvertisementRow,
    row: SubscriptionRow,
    refusals: tuple[str, ...],
) -> Way:
    steps = [Step(begin, f"published by {offer.publisher} under {offer.advertisement}: {offer.filter}", True)]

    def end(broker: str, text: str, arrives: bool, reason: str = "") -> Way:
        steps.append(Step(broker, text, arrives))
        return Way(row.client, row.number, row.filter, tuple(steps), arrives, reason or text, refusals)

    is_directed = network.brokers[begin].broker.routing == DESTINATIONS
    if is_directed and refusals and begin != owner:
        text = f"is not sent to {owner}, or for nothing: predicates may let through what nobody there wants"
        return end(begin, text, False, f"{row.client} does not want it: {'; '.join(refusals)}")
    way = directed_way(network, begin, owner) if is_directed else network.way(begin, owner)
    if not way:
        return end(begin, f"there is no way from {begin} to {owner}: {broken_links(network, begin)}", False)
    beside = way_beside(network, way, offer)
    if beside and not refusals:
        steps.append(Step(begin, beside, True))
        return end(owner, f"is passed to {row.client}{queue_text(network, owner, row)}", True)
    for near, far in pairwise(way):
        passing = f"{owner} is a destination" if is_directed else passing_filter(network, event, near, far)
        if not passing and refusals:
            text = f"goes no further: nothing that {far} told {near} matches it"
            return end(near, text, False, f"{row.client} does not want it: {'; '.join(refusals)}")
        if not passing:
            text = f"goes no further: {near} has no filter from {far} that matches it, though {row.client} wants it"
            return end(near, text, False)
        gathered = batch_text(network, way, offer) if near == begin else ""
        steps.append(Step(near, f"goes on to {far}{gathered}: {passing}", True))
    if way[-1] != owner:
        return end(way[-1], f"goes no further: {way[-1]} knows no way to {owner}", False)
    if refusals:
        text = f"arrives, but {row.client} does not want it"
        return end(owner, text, False, f"{row.client} does not want it: {'; '.join(refusals)}")
    return end(owner, f"is passed to {row.client}{queue_text(network, owner, row)}", True)


def stream_of(network: Network, way: Sequence[str], offer: AdvertisementRow) -> PopularityRow | None:
    """What the broker of its publisher thinks of it, where routing goes by popularity."""
    streams = network.brokers[way[0]].streams if len(way) > 1 else ()
    mine = (row for row in streams if row.is_here and row.advertisement == offer.advertisement)
    return next((row for row in mine if row.neighbour == way[1]), None)


def way_beside(network: Network, way: Sequence[str], offer: AdvertisementRow) -> str:
    """How it gets to the subscriber's broker, where that is not along the tree."""
    stream = stream_of(network, way, offer)
    if stream is None or stream.way not in BESIDE:
        return ""
    return f"{BESIDE[stream.way].format(broker=way[-1])}, past the tree: {few_text(stream)}"


def batch_text(network: Network, way: Sequence[str], offer: AdvertisementRow) -> str:
    stream = stream_of(network, way, offer)
    return "" if stream is None or stream.way != "batching" else f" when its batch is full, for {few_text(stream)}"


def few_text(stream: PopularityRow) -> str:
    subscriptions = f"{stream.subscriptions} subscriptions" if stream.subscriptions != 1 else "1 subscription"
    asked = f", {stream.latency} latency asked for" if stream.latency == "low" else ""
    asked = ", asked to be cheap" if stream.latency == "cheap" else asked
    return (
        f"not popular behind {stream.neighbour} ({subscriptions} {stream.hops:.1f} hops away, gain {stream.gain:.2g}, "
        f"{stream.rate:.3g} a second{asked})"
    )


BESIDE = {"direct": "goes directly to {broker}", "gossip": "is told to the group of {broker}"}


def directed_way(network: Network, begin: str, owner: str) -> tuple[str, ...]:
    """From hop to hop as each broker says, as far as one is known."""
    way = [begin]
    while way[-1] != owner:
        known = network.destinations(way[-1]).get(owner)
        if known is None or known.hop not in network.brokers or known.hop in way:
            break
        way.append(known.hop)
    return tuple(way)


def passing_filter(network: Network, event: Event, near: str, far: str) -> str:
    """Why an event goes over this link; empty if it does not."""
    strategy = network.brokers[near].broker.strategy
    if strategy == FLOODING:
        return "every event goes everywhere"
    if strategy == HIERARCHICAL and network.brokers[near].broker.parent == far:
        return "every event goes up to the parent"
    for text in network.heard_from(near, far):
        if network.filter(text).matches(event):
            return f"{far} told {text}"
    return ""


def broken_links(network: Network, begin: str) -> str:
    """The links at the edge of the part in which the event begins."""
    part = network.side(begin)
    down = [
        f"the link from {name} to {link.broker or link.address} is down"
        + (f" ({link.problem})" if link.problem else "")
        for name in part
        for link in network.brokers[name].links
        if not link.is_up and link.broker not in part
    ]
    return "; ".join(down) or "no link leads there"


def queue_text(network: Network, owner: str, row: SubscriptionRow) -> str:
    queues = [each for each in network.brokers[owner].queues if (each.client, each.number) == (row.client, row.number)]
    return "".join(map(one_queue_text, queues))


def one_queue_text(queue: QueueRow) -> str:
    parts = [] if queue.is_connected else ["which is not connected"]
    if queue.waiting:
        parts.append(f"behind {queue.waiting} that wait in its queue of {queue.waiting_max}")
    parts += [f"{count} were dropped: {reason}" for reason, count in sorted(queue.dropped.items())]
    return "".join(f", {part}" for part in parts)


def refusal_texts(judgement: ConjunctionVerdict) -> tuple[str, ...]:
    """The constraints that refuse an event, of the conjunction that refuses with the fewest; none if it matches."""
    if judgement.matches:
        return ()
    fewest = min(judgement.refusals, key=len, default=())
    if fewest:
        return tuple(f"{each.constraint} fails: {each.attribute} {value_text(each.value)}" for each in fewest)
    if judgement.residual_error:
        return (f"its expression gives an error: {judgement.residual_error}",)
    if judgement.refusals:
        return (f"its expression {value_text(judgement.residual_value)}",)
    return ("it matches nothing",)


def value_text(value: Value | None) -> str:
    return "is absent" if value is None else f"is {msgspec.json.encode(value).decode()}"
