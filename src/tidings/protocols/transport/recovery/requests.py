"""Requests for lost events that reach those who should have them, through the network itself.

The problem. Whoever lost an event knows its number and, from the record of a later one, its Bloom row: not its
attributes. Those who have it are those whose filters match it, and nobody knows who they are. A request that copied
the requester's own filter would miss the others: Alice wants `team = 'Yankees'`, Bob `news = 'sport'`, Bob lost an
event that has both. A request with ordinary attributes would be taken for an event.

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
its own events, for everything that is `tidings_of` it. Whenever subscriptions or parameters change, only the difference
is asked or no longer asked.

Source: the transport specification, 3.5.3.
"""

from collections.abc import Hashable, Iterable, Iterator

from tidings.machine.effects import Effect
from tidings.matching.bloom import BloomProfile, filter_bits_cover
from tidings.model.filter import Filter
from tidings.model.language.lexer import quoted
from tidings.model.values import Value
from tidings.protocols.transport.marks import BIT, DOMAIN, MARK, OF, Kind, head_of
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.rows import rows_of_filter
from tidings.protocols.transport.signals import CarriedEvent, Listen, Unwatch, Watch
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

    def listen(self, request: Listen, params: TransportParams) -> list[Effect]:
        if not request.is_reliable:
            return self.stop(request.subscription, params)
        self.filters[request.subscription] = request.filter
        self.reliable.add(request.subscription)
        return self.changed(params)

    def stop(self, subscription: int, params: TransportParams) -> list[Effect]:
        if subscription not in self.reliable:
            return []
        del self.filters[subscription]
        self.reliable.discard(subscription)
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
        effects: list[Effect] = [Unwatch(key) for key in self.asked if key not in wanted]
        effects += [Watch(key, text) for key, text in wanted.items() if self.asked.get(key) != text]
        self.asked = wanted
        return effects
