"""The plainest matcher: ask every filter about every event.

It is slow and obviously right, so it is the oracle that the index is tested against, the baseline in the benchmarks,
and a fair choice below a few dozen filters. It answers in the order in which its keys were last added.

A filter may be added for a *link* (the neighbour behind which its subscriber lives). A broker that only forwards does
not need the keys, only the links on which somebody wants the event: `match_links` stops at the first match per link.
"""

from collections.abc import Hashable, Iterable

from tidings.model.event import Event
from tidings.model.filter import Filter

Key = Hashable
Link = Hashable


class LinearScan:
    """Filters by key, in the order added; adding a key again replaces its filter and moves it to the end."""

    def __init__(self) -> None:
        self.filters: dict[Key, Filter] = {}
        self.link_of_key: dict[Key, Link] = {}
        self.keys_of_link: dict[Link, dict[Key, None]] = {}

    def __len__(self) -> int:
        return len(self.filters)

    def __contains__(self, key: Key) -> bool:
        return key in self.filters

    def add(self, key: Key, filter: Filter, link: Link | None = None) -> None:
        self.discard(key)
        self.filters[key] = filter
        if link is not None:
            self.link_of_key[key] = link
            self.keys_of_link.setdefault(link, {})[key] = None

    def add_many(self, entries: Iterable[tuple[Key, Filter]]) -> None:
        for key, filter in entries:
            self.add(key, filter)

    def discard(self, key: Key) -> bool:
        """Forget a key; False if it was not there."""
        if key not in self.filters:
            return False
        del self.filters[key]
        if key in self.link_of_key:
            link = self.link_of_key.pop(key)
            del self.keys_of_link[link][key]
            if not self.keys_of_link[link]:
                del self.keys_of_link[link]
        return True

    def match(self, event: Event) -> list[Key]:
        return [key for key, filter in self.filters.items() if filter.matches(event)]

    def match_batch(self, events: Iterable[Event]) -> list[list[Key]]:
        return [self.match(event) for event in events]

    def match_links(self, events: Iterable[Event]) -> list[list[Link]]:
        """For each event the links that have a matching filter, in the order in which the links were first added."""
        return [[link for link in self.keys_of_link if self.wants(link, event)] for event in events]

    def wants(self, link: Link, event: Event) -> bool:
        return any(self.filters[key].matches(event) for key in self.keys_of_link[link])
