"""What this node asks of the network in order to hear the requests of others.

The rows of all reliable subscriptions, each once, and, as a publisher who answers for its own events, everything that
is `tidings_of` it. Whenever subscriptions or parameters change, only the difference is asked or no longer asked.
"""

from collections.abc import Hashable

from tidings.machine.effects import Effect
from tidings.model.filter import Filter
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.recovery.requests import publisher_filter, request_filter, rows_of
from tidings.protocols.transport.signals import Ask, Content, Listen, Unask
from tidings.pubsub.publications import BadPublication, event_of


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

    def wanted_by(self, content: Content) -> tuple[int, ...]:
        """The reliable subscriptions that an event is for: those that it came for, else those that match it."""
        caught = tuple(number for number in content.subscriptions if number in self.reliable)
        if caught:
            return caught
        try:
            event = event_of(content.head, b"")
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
        effects: list[Effect] = [Unask(key) for key in self.asked if key not in wanted]
        effects += [Ask(key, text) for key, text in wanted.items() if self.asked.get(key) != text]
        self.asked = wanted
        return effects
