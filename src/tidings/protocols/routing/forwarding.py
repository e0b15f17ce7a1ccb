"""Where do the publications of a batch go?

A head (the encoded attributes of an event) decides it, and heads repeat: streams of readings differ in the payload, and
even where they do not, a batch is matched in one pass. So there is a memo from head to *route*: the links on which the
event goes on and the local subscriptions that want it. Equal routes are one object, and most batches have one route:
then the batch is passed on as it is. Otherwise it is cut into picks, one for each set of destinations that occurs.

The memo is kept for each hop that events come from, since an event does not go back to where it came from. Everything
is forgotten when a table changes.
"""

from collections.abc import Sequence
from itertools import chain
from operator import itemgetter
from typing import cast

from tidings.machine.publications import Publications
from tidings.machine.signals import SubscriptionKey
from tidings.model.identity import NodeId
from tidings.protocols.routing.tables import Hop, Tables

Keys = tuple[SubscriptionKey, ...]


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
        self.memos: dict[Hop, dict[bytes, Route]] = {}
        self.size = 0
        self.routes: dict[tuple[tuple[NodeId, ...], Keys], Route] = {}
        self.bad = Route((), (), is_bad=True)

    def forget(self) -> None:
        """The tables changed."""
        if self.size:
            self.memos.clear()
            self.routes.clear()
            self.size = 0

    def find(self, source: Hop, heads: Sequence[bytes]) -> list[Route]:
        memo = self.memos.get(source)
        if memo is None:
            memo = self.memos[source] = {}
        try:
            return list(map(memo.__getitem__, heads))
        except KeyError:
            return self.find_new(source, heads)

    def find_new(self, source: Hop, heads: Sequence[bytes]) -> list[Route]:
        memo = self.memos[source]
        new = [head for head in dict.fromkeys(heads) if head not in memo]
        if self.size + len(new) > self.memo_max:
            self.forget()
            memo, new = self.memos.setdefault(source, {}), list(dict.fromkeys(heads))
        for head, links, keys in zip(new, *self.match(new), strict=True):
            if links is None or keys is None:
                memo[head] = self.bad
                continue
            if self.always:
                links = tuple(dict.fromkeys(self.always + links))
            if source in links:
                links = tuple(link for link in links if link != source)
            route = self.routes.get((links, keys))
            if route is None:
                route = self.routes[links, keys] = Route(links, keys)
            memo[head] = route
        self.size += len(new)
        return list(map(memo.__getitem__, heads))

    def match(self, heads: Sequence[bytes]) -> tuple[list[tuple[NodeId, ...] | None], list[Keys | None]]:
        """The links and the local subscriptions that want each of these; None for one that is no head."""
        links = self.tables.link_index.match_heads_links(heads)
        keys = self.tables.local_index.match_heads(heads) if len(self.tables.local_index) else [()] * len(heads)
        return cast(tuple[list[tuple[NodeId, ...] | None], list[Keys | None]], (links, keys))


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
            made = self.made[name] = pick(self.batch, self.places_of(chosen))
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


def pick(batch: Publications, places: Sequence[int]) -> Publications:
    """The publications at these places of the batch; the batch itself if that is all."""
    if len(places) == len(batch.numbers):
        return batch
    if len(places) == 1:
        place = places[0]
        numbers, heads, payloads = (batch.numbers[place],), (batch.heads[place],), (batch.payloads[place],)
    else:
        get = itemgetter(*places)
        numbers, heads, payloads = get(batch.numbers), get(batch.heads), get(batch.payloads)
    return with_parts(batch, numbers, heads, payloads)


def cut(batch: Publications, places: slice) -> Publications:
    return with_parts(batch, batch.numbers[places], batch.heads[places], batch.payloads[places])


def with_parts(
    batch: Publications, numbers: tuple[int, ...], heads: tuple[bytes, ...], payloads: tuple[bytes, ...]
) -> Publications:
    return Publications(
        batch.publisher, batch.advertisement, batch.accepted_at, batch.receipt, numbers, heads, payloads
    )
