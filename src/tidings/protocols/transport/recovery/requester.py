"""Asking for what was lost, one loss at a time.

    waiting   a random time, so that of many who lost it one asks; when another is heard asking, twice as long again
    leaving   until congestion control lets the request leave; it is written then
    asked     twice as long each round, until the event comes or `rounds_max` requests were in vain

Before we have asked, hearing another's request restarts the timer with a doubled interval; for half of that interval
further ones count as duplicates only, and after `rounds_max` restarts we ask in any case: a peer that repeats its
request for ever cannot keep us quiet. A request that was overheard just before we noticed the loss ourselves counts as
well. Timer ("request", stream, sequence).

Those who answer listen to `requests_per_second` requests of one node. We keep to that ourselves: what is more waits for
its turn, and a request whose turn would come too late is left out, which costs its loss a round.

Doubt. A filter that asks for a range (`price > 100`) has a Bloom row that every event with a price matches; then nearly
all that seems lost is not for us. Where most repairs of a publisher showed that, its events are asked of the publisher
alone, and in a form that it answers to us alone (`repairer.py`): that costs two messages which nobody else gets, and
the answer says whether the event is for us. After `ALONE_ROUNDS` such rounds in vain everybody is asked.

What became of it is told to the stream's `Tuner`: how many first requests there were beyond one, and how long it took
until the first.

**Requests that reach those who have it**, through the network itself. The problem. Whoever lost an event knows its
number and, from the record of a later one, its Bloom row: not its attributes. Those who have it are those whose filters
match it, and nobody knows who they are. A request that copied the requester's own filter would miss the others: Alice
wants `team = 'Yankees'`, Bob `news = 'sport'`, Bob lost an event that has both. A request with ordinary attributes
would be taken for an event.

The idea. A filter matches an event only if the bits of its row are among the event's (`matching/bloom.py`). So bits
become attributes. A volunteer asks, for each conjunction of its filter, for requests that have the bits of its row; a
request has those of the lost event:

    volunteer   tidings_transport = 'request' AND EXISTS tidings_bit_3 AND EXISTS tidings_bit_70 AND ...
    request     tidings_transport: request, tidings_of: 4711, tidings_bit_3: true, tidings_bit_70: true, ...

Every volunteer whose filter matches the event gets the request; some others do by chance. Publishers, who have all of
their events, ask for `tidings_of` alone.

Bounds. An event has at most 128 attributes: a row with more than `REQUEST_BITS_MAX` bits, and one that is unknown (0),
is asked for by its publisher's name alone, and then the publisher answers, and those who want everything. A filter is
shortened to `FILTER_BITS_MAX` bits, which lets more requests through and none less. What is told by a wider row is not
asked for twice, and beyond `FILTERS_MAX` rows a node hears all requests.

Domains. Where one is set, requests carry it and volunteers ask for it; where none is, volunteers ask for requests
without one. So requests never leave their domain.

Volunteers. A node asks for the rows of all its reliable subscriptions, each once, and, as a publisher who answers for
its own events, for every request and every repair that is `tidings_of` it. Whenever subscriptions or parameters change,
only the difference is asked or no longer asked.

Source: the transport specification, 3.5.3, 3.5.4.
"""

from collections.abc import Hashable, Iterable, Iterator
from random import Random

import msgspec

from tidings.machine.effects import CancelTimer, Effect, SetTimer
from tidings.matching.bloom import BloomProfile, filter_bits_cover
from tidings.model.filter import Filter
from tidings.model.language.lexer import quoted
from tidings.model.values import Value
from tidings.protocols.transport.headers import WRAP
from tidings.protocols.transport.limits import Bucket
from tidings.protocols.transport.marks import BIT, DOMAIN, MARK, OF, Kind, head_of
from tidings.protocols.transport.messages import LossRequest, encode_control
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.recovery.streams import FARTHER, REQUEST_FIRST_MAX, RecoveryStream, clamped
from tidings.protocols.transport.rows import rows_of_filter
from tidings.protocols.transport.signals import (
    CarriedEvent,
    Emit,
    Leaving,
    Listen,
    StopListening,
    Stream,
    Unneeded,
    Unwatch,
    Watch,
    event_key,
)
from tidings.pubsub.notes import RepairRequested, Suppressed
from tidings.pubsub.publications import BadPublication, read_head

REQUEST_BITS_MAX = 120
"""Bits of a request: with the other attributes they are an event's 128."""

FILTER_BITS_MAX = 100
"""Bits of a request filter: its text must stay within what brokers parse."""

FILTERS_MAX = 64
"""Request filters of one node."""

REQUESTS = f"{MARK} = '{Kind.REQUEST.value}'"
EVERYTHING = (0,)


def rows_of(filters: Iterable[Filter], profile: BloomProfile, topic_attribute: str = "") -> tuple[int, ...]:
    """The rows to ask for; without those that a wider one includes."""
    rows = {row for filter in filters for row in rows_of_filter(filter, profile, topic_attribute)}
    needed: list[int] = []
    for row in sorted(rows, key=lambda row: (row.bit_count(), row)):
        if not any(filter_bits_cover(wide, row) for wide in needed):
            needed.append(row)
            if len(needed) > FILTERS_MAX:
                return EVERYTHING
    return tuple(needed)


def bits_in(row: int) -> Iterator[int]:
    """The places that are set, ascending."""
    while row:
        lowest = row & -row
        yield lowest.bit_length() - 1
        row ^= lowest


def request_filter(row: int, domain: str = "") -> str:
    """What a volunteer with this row asks for."""
    places = list(bits_in(row))[:FILTER_BITS_MAX]
    return " AND ".join((REQUESTS, *(f"EXISTS {BIT}{place}" for place in places), domain_condition(domain)))


def publisher_filter(publisher: int, domain: str = "") -> str:
    """What a publisher asks for, who answers for its own events."""
    return f"{REQUESTS} AND {OF} = {publisher} AND {domain_condition(domain)}"


def own_repairs_filter(publisher: int) -> str:
    """What it asks for besides, so that it is quiet where another has answered."""
    return f"{MARK} = '{Kind.REPAIR.value}' AND {OF} = {publisher}"


def domain_condition(domain: str) -> str:
    return f"{DOMAIN} = {quoted(domain)}" if domain else f"NOT EXISTS {DOMAIN}"


def request_head(publisher: int, bits: int, domain: str = "") -> bytes:
    attributes: dict[str, Value] = {OF: publisher}
    if domain:
        attributes[DOMAIN] = domain
    if bits.bit_count() <= REQUEST_BITS_MAX:
        attributes |= {f"{BIT}{place}": True for place in bits_in(bits)}
    return head_of(attributes, Kind.REQUEST)


class Volunteering:
    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.filters: dict[int, Filter] = {}
        self.reliable: set[int] = set()
        """The subscriptions in `filters`; for membership only."""
        self.asked: dict[Hashable, str] = {}
        self.is_publisher = False

    def listen(self, request: Listen | StopListening, params: TransportParams) -> list[Effect]:
        subscription = request.subscription
        if isinstance(request, Listen) and request.is_reliable:
            self.filters[subscription] = request.filter
            self.reliable.add(subscription)
        elif self.filters.pop(subscription, None) is not None:
            self.reliable.discard(subscription)
        else:
            return []
        return self.changed(params)

    def wanted_by(self, content: CarriedEvent) -> tuple[int, ...]:
        """The reliable subscriptions that an event is for: those that it came for, else those that match it."""
        caught = tuple(number for number in content.subscriptions if number in self.reliable)
        if caught:
            return caught
        try:
            event = read_head(content.head)
        except BadPublication:
            return ()
        return tuple(number for number, filter in self.filters.items() if filter.matches(event))

    def again(self, params: TransportParams) -> list[Effect]:
        """Everything, to a network that may know nothing of us."""
        self.asked.clear()
        return self.changed(params)

    def changed(self, params: TransportParams) -> list[Effect]:
        domain = params.recovery.domain
        rows = rows_of(self.filters.values(), params.profile, params.topic_attribute)
        wanted: dict[Hashable, str] = {("requests", row): request_filter(row, domain) for row in rows}
        self.is_publisher = params.is_reliable and params.recovery.publisher_repairs
        if self.is_publisher:
            wanted["own requests"] = publisher_filter(self.node_id, domain)
            wanted["own repairs"] = own_repairs_filter(self.node_id)
        effects: list[Effect] = [Unwatch(key) for key in self.asked if key not in wanted]
        effects += [Watch(key, text) for key, text in wanted.items() if self.asked.get(key) != text]
        self.asked = wanted
        return effects


WAIT_MAX = 4.0
"""Seconds up to which waits double: what is lost again and again is not kept for long by those who have it."""

TURN_MAX = 5.0
"""Seconds that a request waits for its turn."""

BURST = 0.5
"""Seconds' worth of requests that may leave at once."""

ALONE_ROUNDS = 2
ALONE_ROUND = 1
"""The round that such a request claims: a publisher answers odd ones by unicast."""

OVERHEARD_MAX = 256
"""Requests of others for what we have not missed yet; beyond it the oldest is forgotten."""

OVERHEARD_SECONDS = 2.0
"""How long such a request makes us wait longer when we notice the loss."""

Key = tuple[Stream, int]


class LostEvent(msgspec.Struct):
    lost_at: float
    bits: int
    subscriptions: tuple[int, ...]
    after: int
    before: int
    """The carrier's numbers around it."""
    round: int = 0
    """Requests that we sent."""
    backoffs: int = 0
    quiet_until: float = 0.0
    has_turn: bool = False
    """Whether the request that is due next is counted against our rate already."""
    is_leaving: bool = False
    """Whether a request waits for leave."""
    first_at: float | None = None
    """When the first request for it was sent, by whoever."""
    seen: int = 0
    """First requests for it, ours included."""


class Requester:
    def __init__(self, node_id: int, params: TransportParams, rng: Random) -> None:
        self.node_id, self.params, self.rng = node_id, params, rng
        self.losses: dict[Key, LostEvent] = {}
        self.overheard: dict[Key, float] = {}
        self.sent = 0
        self.configure(params)

    @property
    def is_full(self) -> bool:
        return len(self.losses) >= self.params.recovery.requests_max

    def configure(self, params: TransportParams) -> None:
        self.params, rate = params, params.recovery.requests_per_second
        self.bucket = Bucket(0.0, rate, rate * BURST)

    def lost(self, now: float, state: RecoveryStream, sequence: int, loss: LostEvent) -> list[Effect]:
        key = state.stream, sequence
        self.losses[key] = loss
        state.requests.adapt(REQUEST_FIRST_MAX, state.group_size)
        heard_at = self.overheard.pop(key, None)
        if heard_at is None or now - heard_at > OVERHEARD_SECONDS:
            return [SetTimer(("request", *key), now + self.interval(state, loss))]
        loss.seen, loss.first_at = 1, now
        return self.back_off(now, state, sequence, loss)

    def interval(self, state: RecoveryStream, loss: LostEvent) -> float:
        doublings = min(self.params.recovery.rounds_max, loss.round + loss.backoffs)
        once = state.requests.draw(self.rng, state.distance)
        return max(once, min(WAIT_MAX, self.params.recovery.backoff**doublings * once))

    def back_off(self, now: float, state: RecoveryStream, sequence: int, loss: LostEvent) -> list[Effect]:
        loss.backoffs += 1
        wait = self.interval(state, loss)
        loss.quiet_until = now + wait / 2
        return [
            *self.take_back((state.stream, sequence), loss),
            SetTimer(("request", state.stream, sequence), now + wait),
            Suppressed(fact_key(state.stream, sequence)),
        ]

    def heard(self, now: float, state: RecoveryStream, sequence: int, request: LossRequest) -> list[Effect]:
        """Another asks for what we lost as well."""
        loss = self.losses[state.stream, sequence]
        loss.first_at = now if loss.first_at is None else loss.first_at
        if request.round == 0:
            loss.seen += 1
            if loss.round and clamped(request.distance) > FARTHER * state.distance:
                state.requests.outran()
        if loss.round or now < loss.quiet_until or loss.backoffs >= self.params.recovery.rounds_max:
            return []
        return self.back_off(now, state, sequence, loss)

    def overhear(self, now: float, key: Key) -> None:
        """Another asks for what we have neither got nor missed."""
        self.overheard.pop(key, None)
        self.overheard[key] = now
        if len(self.overheard) > OVERHEARD_MAX:
            del self.overheard[next(iter(self.overheard))]

    def due(self, now: float, state: RecoveryStream, sequence: int) -> list[Effect] | None:
        """Ask for leave to ask; None when that was done often enough."""
        loss = self.losses[state.stream, sequence]
        if loss.round >= self.params.recovery.rounds_max:
            return None
        if not loss.has_turn:
            wait = self.bucket.book(now, TURN_MAX)
            if wait is None:
                loss.round += 1
                return [SetTimer(("request", state.stream, sequence), now + WAIT_MAX)]
            if wait:
                loss.has_turn = True
                return [SetTimer(("request", state.stream, sequence), now + wait)]
        loss.has_turn, loss.is_leaving = False, True
        return [Leaving(Kind.REQUEST, bits=loss.bits, ticket=(state.stream, sequence))]

    def ask(self, now: float, state: RecoveryStream, sequence: int) -> list[Effect]:
        """The request leaves now."""
        loss = self.losses[state.stream, sequence]
        loss.is_leaving = False
        effects = self.request(now, state, sequence, loss)
        if loss.round == 0:
            loss.seen += 1
            if loss.first_at is None:
                state.requests.sent_first()
                loss.first_at = now
        loss.round += 1
        wait = self.interval(state, loss)
        if self.params.recovery.awaits_answers:
            wait = max(wait, (2.0 + state.repairs.longest) * state.distance)
        return [*effects, SetTimer(("request", state.stream, sequence), now + wait)]

    def not_admitted(self, now: float, key: Key) -> list[Effect]:
        """It costs the loss a round."""
        loss = self.losses[key]
        loss.is_leaving = False
        loss.round += 1
        return [SetTimer(("request", *key), now + WAIT_MAX)]

    def take_back(self, key: Key, loss: LostEvent) -> list[Effect]:
        if not loss.is_leaving:
            return []
        loss.is_leaving = False
        return [Unneeded(Kind.REQUEST, key)]

    def request(self, now: float, state: RecoveryStream, sequence: int, loss: LostEvent) -> list[Effect]:
        self.sent += 1
        publisher, is_alone = state.stream[1], state.is_doubtful and loss.round < ALONE_ROUNDS
        row_bytes = max(self.params.profile.size_bytes, (loss.bits.bit_length() + 7) // 8)
        message = LossRequest(
            self.node_id,
            publisher,
            sequence % WRAP,
            now,
            state.requests.mean * state.distance,
            state.distance,
            loss.bits,
            row_bytes,
            ALONE_ROUND if is_alone else loss.round,
            *state.echo(now),
        )
        head = request_head(publisher, 0 if is_alone else loss.bits, self.params.recovery.domain)
        return [
            Emit(head, encode_control(message), Kind.REQUEST),
            RepairRequested(fact_key(state.stream, sequence), loss.round),
        ]

    def end(self, state: RecoveryStream, sequence: int) -> list[Effect]:
        """It came, or will not."""
        key = state.stream, sequence
        loss = self.losses.pop(key)
        if loss.first_at is not None:
            state.requests.ended(max(0, loss.seen - 1), (loss.first_at - loss.lost_at) / state.distance)
        return [CancelTimer(("request", *key)), *self.take_back(key, loss)]

    def check(self) -> None:
        assert len(self.losses) <= self.params.recovery.requests_max, "more losses are asked for than requests_max"
        assert len(self.overheard) <= OVERHEARD_MAX, "more requests are remembered than OVERHEARD_MAX"
        for loss in self.losses.values():
            assert loss.round <= self.params.recovery.rounds_max, "asked more often than rounds_max"


def fact_key(stream: Stream, sequence: int) -> str:
    """By what a request says of the event: all who ask and answer call it the same."""
    return event_key(("", stream[1]), sequence)
