"""Where do the publications of a batch go?

A head (the encoded attributes of an event) decides it, and heads repeat: streams of readings differ in the payload, and
even where they do not, a batch is matched in one pass. So there is a memo from head to *route*: the links on which the
event goes on and the local subscriptions that want it. Equal routes are one object, and most batches have one route:
then the batch is passed on as it is. Otherwise it is cut into picks, one for each set of destinations that occurs.

Where heads hardly repeat, the memo costs more than it saves. Then it is left out for a while, and so are the routes:
the indexes are asked which publications go to each destination.

The memo is kept for each hop that events come from, since an event does not go back to where it came from. Everything
is forgotten when a table changes.

Much that is wanted by many takes long: 4,000 publications, each for 1,000 subscriptions, take seconds. So only the
first of a batch are found, where it would be too much for one step; whoever asks comes back for the rest (`heavy.py`).
"""

from collections.abc import Sequence
from itertools import chain, filterfalse, takewhile
from typing import Any

from tidings.matching.index.answers import MatchedPlaces
from tidings.model.identity import NodeId
from tidings.protocols.routing.tables import LiveHop, Tables
from tidings.pubsub.publications import Publications, pick
from tidings.pubsub.signals import SubscriptionKey

Keys = tuple[SubscriptionKey, ...]

PAIRS_MAX = 8000
"""Publications, each times the local subscriptions that want it, that are carried in one step: some 8 ms of work. A
single publication may go to more."""

REPEATED_MIN = 1.25
"""A memo that was filled up without having been asked so many times as often as it has heads is no use."""

UNREMEMBERED = 16
"""Then so many times as many events as it holds are matched without it, before it is tried again."""


class Route:
    """Compared by identity: equal routes are the same object until the tables change."""

    __slots__ = ("is_bad", "keys", "links")

    def __init__(self, links: tuple[NodeId, ...], keys: Keys, is_bad: bool = False) -> None:
        self.links, self.keys, self.is_bad = links, keys, is_bad


class Finder:
    """The memo and the routes in it."""

    def __init__(self, tables: Tables, memo_max: int) -> None:
        self.tables, self.memo_max = tables, memo_max
        self.always: tuple[NodeId, ...] = ()
        """Neighbours that get every event."""
        self.memos: dict[LiveHop, dict[bytes, Route]] = {}
        self.size = self.asked = self.unremembered = 0
        self.is_remembering = True
        self.routes: dict[tuple[tuple[NodeId, ...], Keys], Route] = {}
        self.bad = Route((), (), is_bad=True)

    def forget(self) -> None:
        """The tables changed."""
        self.memos.clear()
        self.routes.clear()
        self.size = self.asked = self.unremembered = 0
        self.is_remembering = True

    def find_places(self, heads: Sequence[bytes]) -> tuple[MatchedPlaces, MatchedPlaces]:
        """Which of these go where, on links and to clients, without the memo and without a route for each; of the first
        of them, as `keys.looked_at` says."""
        self.unremembered -= len(heads)
        self.is_remembering = self.unremembered <= 0
        link_index, local_index = self.tables.link_index, self.tables.local_index
        links = keys = MatchedPlaces({}, [], len(heads))
        if local_index.slots:
            keys = local_index.find_heads(heads, PAIRS_MAX)
        if link_index.slots or not local_index.slots:
            # One of them always looks, because a head may be none.
            links = link_index.find_heads_links(heads[: keys.looked_at])
        return links, keys

    def find(self, source: LiveHop, heads: Sequence[bytes]) -> list[Route]:
        """The routes of these, or of the first of them where they go to very many."""
        routes = self.find_all(source, heads)
        most = max([len(route.keys) for route in routes])
        if most * len(routes) <= PAIRS_MAX:
            return routes
        pairs = 0
        for place, route in enumerate(routes):
            pairs += len(route.keys)
            if place and pairs > PAIRS_MAX:
                return routes[:place]
        return routes

    def find_all(self, source: LiveHop, heads: Sequence[bytes]) -> list[Route]:
        self.asked += len(heads)
        memo = self.memos.get(source)
        if memo is None:
            memo = self.memos[source] = {}
        try:
            return list(map(memo.__getitem__, heads))
        except KeyError:
            return self.find_new(source, heads)

    def find_new(self, source: LiveHop, heads: Sequence[bytes]) -> list[Route]:
        memo = self.memos[source]
        new = list(filterfalse(memo.__contains__, dict.fromkeys(heads)))
        if self.size + len(new) > self.memo_max:
            is_worth_it = self.asked > REPEATED_MIN * self.size
            self.forget()
            if not is_worth_it:
                self.unremembered = UNREMEMBERED * self.memo_max
                self.is_remembering = bool(self.always)
            memo, new = self.memos.setdefault(source, {}), list(dict.fromkeys(heads))
            if len(new) > self.memo_max:
                return self.routes_of(source, heads)
        routes = self.routes_of(source, new)
        memo.update(zip(new, routes, strict=False))
        self.size += len(routes)
        if len(routes) < len(new):
            return list(map(memo.__getitem__, takewhile(memo.__contains__, heads)))
        return list(map(memo.__getitem__, heads))

    def routes_of(self, source: LiveHop, heads: Sequence[bytes]) -> list[Route]:
        """Without the memo: the links and the local subscriptions that want each of these, or the first of them."""
        if len(self.routes) > self.memo_max:
            self.routes.clear()
        link_index, local_index = self.tables.link_index, self.tables.local_index
        all_links: Sequence[Any] = [()] * len(heads)
        all_keys: Sequence[Any] = all_links
        if local_index.slots:
            all_keys = local_index.match_heads(heads, PAIRS_MAX)
            heads, all_links = heads[: len(all_keys)], all_links[: len(all_keys)]
        if link_index.slots or not local_index.slots:
            all_links = link_index.match_heads_links(heads)
        routes: list[Route] = []
        for links, keys in zip(all_links, all_keys, strict=True):
            if links is None or keys is None:
                routes.append(self.bad)
                continue
            if self.always:
                links = tuple(dict.fromkeys(self.always + links))
            if self.tables.absent or self.tables.shut:
                away = {*self.tables.absent, *self.tables.shut}
                links = tuple(link for link in links if link not in away)
            if source in links:
                links = tuple(link for link in links if link != source)
            route = self.routes.get((links, keys))
            if route is None:
                route = self.routes[links, keys] = Route(links, keys)
            routes.append(route)
        return routes


class Picks:
    """A batch cut up by its routes. The same choice of publications is one object, whoever asks for it."""

    def __init__(self, batch: Publications, routes: list[Route]) -> None:
        self.batch = batch
        places: dict[Route, list[int]] = {}
        for place, route in enumerate(routes):
            found = places.get(route)
            if found is None:
                places[route] = [place]
            else:
                found.append(place)
        self.places = places
        self.made: dict[tuple[int, ...], Publications] = {}

    def pick(self, chosen: Sequence[Route]) -> Publications:
        """The publications that have one of these routes, in their order."""
        name = tuple(map(id, chosen))
        made = self.made.get(name)
        if made is None:
            made = self.made[name] = pick(self.batch, self.places_of(chosen), self.batch.receipt)
        return made

    def places_of(self, chosen: Sequence[Route]) -> list[int]:
        if len(chosen) == 1:
            return self.places[chosen[0]]
        return sorted(chain.from_iterable(self.places[route] for route in chosen))

    def by_link(self) -> dict[NodeId, list[Route]]:
        links: dict[NodeId, list[Route]] = {}
        for route in self.places:
            for link in route.links:
                links.setdefault(link, []).append(route)
        return links
