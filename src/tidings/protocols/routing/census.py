"""The census: how many subscriptions there are behind each neighbour for each advertisement, and how far away.

The problem. Tables name filters and not subscribers, and fewer filters than are wanted (`reductions.py`). That keeps
them small, but whoever wants to know which publishers are popular, and where, cannot read it from them.

The idea. A count needs no names, and counts of a tree add up. Each broker tells the neighbour on the way to a publisher
how many subscriptions on its own side overlap the advertisement, and the sum of the hops to them:

    count = that of our own clients + those told by all other neighbours
    hop_sum = the sum of theirs + count             each is one hop further from there

It is the one rule again: when something changes, compute what each neighbour ought to have been told, compare it with
what it was told, and send the difference. Changes are gathered for `census_after` seconds, so one message on a link for
an advertisement tells of all of them.

State. `local`: the subscriptions of our clients for each advertisement. `heard` and `told`: for each neighbour what it
told and what it was told; nothing is zero. Both live as long as the link. Message: `Counted`. Timer: "census".

Guaranteed: at rest, on a tree, every count and sum is as if computed by one who sees everything, for every link but the
one towards the publisher, where it is zero. Until then they are of some moments in between.
"""

from typing import NamedTuple

from tidings.machine.effects import Drop, Effect, Send, SetTimer
from tidings.model.bounds import INTEGER_MAX
from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.protocols.routing.links import NeighbourLink
from tidings.protocols.routing.messages import Counted
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.tables import LiveHop, Offered, Tables
from tidings.pubsub.signals import AdvertisementId

TIMER = "census"
TOO_MANY_COUNTED = "counts more advertisements than a neighbour may tell of"


class Tally(NamedTuple):
    subscriptions: int = 0
    """How many overlap an advertisement."""
    hop_sum: int = 0
    """Hops from here to the broker of each of them, added up."""


NOBODY = Tally()


class Census:
    def __init__(self, params: RoutingParams, tables: Tables, links: dict[NodeId, NeighbourLink]) -> None:
        self.params, self.tables, self.links = params, tables, links
        self.local: dict[AdvertisementId, tuple[str, int]] = {}
        """The text of its filter, and how many subscriptions of our clients overlap that."""
        self.heard: dict[NodeId, dict[AdvertisementId, Tally]] = {}
        self.told: dict[NodeId, dict[AdvertisementId, Tally]] = {}
        self.kept: dict[NodeId, dict[AdvertisementId, Tally]] = {}
        """What neighbours told that are lost and may come back, where events may come around a failure."""
        self.changed: dict[AdvertisementId, None] = {}
        self.is_timed = False

    # What others ask.

    def behind(self, advertisement: AdvertisementId) -> dict[LiveHop, Tally]:
        """For our own clients (None) and for each neighbour behind which there are any."""
        _, count = self.local.get(advertisement, ("", 0))
        tallies: dict[LiveHop, Tally] = {None: Tally(count)} if count else {}
        for neighbour, heard in self.heard.items():
            if advertisement in heard:
                tallies[neighbour] = heard[advertisement]
        return tallies

    def toward(self, neighbour: NodeId, advertisement: AdvertisementId) -> Tally:
        return self.heard.get(neighbour, {}).get(advertisement, NOBODY)

    def counts(self) -> dict[AdvertisementId, int]:
        """How many subscriptions passed here, for each advertisement: those behind lost neighbours are kept, since they
        are there still, and so are those for publishers that cannot be reached just now."""
        counts = {advertisement: count for advertisement, (_, count) in self.local.items() if count}
        for heard in (*self.heard.values(), *self.kept.values()):
            for advertisement, tally in heard.items():
                counts[advertisement] = counts.get(advertisement, 0) + tally.subscriptions
        return counts

    # What happens.

    def local_changed(self, now: float, text: str, filter: Filter, change: int, is_sure: bool = False) -> list[Effect]:
        """One subscription more of our clients for which this filter stands, or one less."""
        for advertisement, (offered, count) in self.local.items():
            known = self.tables.known_way(advertisement)
            if known is not None and self.tables.do_overlap(text, filter, offered, known[1].filter):
                self.local[advertisement] = offered, count + change
                self.changed[advertisement] = None
        return self.gather(now)

    def offers_changed(self, now: float, advertisement: AdvertisementId) -> list[Effect]:
        """It is known, or is not any more, or on another way, or with another filter. One that is adrift is counted as
        before."""
        known = self.tables.known_way(advertisement)
        if known is None:
            self.local.pop(advertisement, None)
        elif self.local.get(advertisement, ("", 0))[0] != known[1].text:
            self.local[advertisement] = known[1].text, self.count_local(known[1])
        self.changed[advertisement] = None
        return self.gather(now)

    def count_local(self, offered: Offered) -> int:
        tables = self.tables
        return sum(
            count
            for text, count in tables.local_counts.items()
            if tables.do_overlap(text, tables.filters[text], offered.text, offered.filter)
        )

    def counted(self, now: float, link: NeighbourLink, message: Counted) -> list[Effect]:
        heard = self.heard.setdefault(link.neighbour, {})
        self.kept.pop(link.neighbour, None)
        if message.advertisement not in heard and len(heard) >= self.params.advertisements_max:
            return [Drop(message, TOO_MANY_COUNTED)]
        put(heard, message.advertisement, Tally(message.count, message.hop_sum))
        self.changed[message.advertisement] = None
        return self.gather(now)

    def lost(self, now: float, neighbour: NodeId) -> list[Effect]:
        self.told.pop(neighbour, None)
        heard = self.heard.pop(neighbour, {})
        if self.params.rescue_window and heard:
            self.kept[neighbour] = heard
            if len(self.kept) > self.params.resting_max:
                del self.kept[next(iter(self.kept))]
        self.changed.update(dict.fromkeys(heard))
        return self.gather(now)

    def start(self) -> None:
        """There is nobody to tell, and no timer any more."""
        self.changed.clear()
        self.is_timed = False

    def gather(self, now: float) -> list[Effect]:
        if self.is_timed or not self.changed:
            return []
        self.is_timed = True
        return [SetTimer(TIMER, now + self.params.census_after)]

    def tell(self) -> list[Effect]:
        """The time is over: tell what has changed."""
        effects: list[Effect] = []
        for advertisement in self.changed:
            known = self.tables.known_way(advertisement)
            for link in self.links.values():
                is_way = known is not None and known[0] == link.neighbour
                due = self.due(advertisement, link.neighbour) if is_way else NOBODY
                told = self.told.setdefault(link.neighbour, {})
                if due != told.get(advertisement, NOBODY):
                    put(told, advertisement, due)
                    effects.append(Send(link.neighbour, Counted(advertisement, *due)))
        self.changed.clear()
        self.is_timed = False
        return effects

    def due(self, advertisement: AdvertisementId, neighbour: NodeId) -> Tally:
        """What this neighbour ought to have been told."""
        others = [tally for hop, tally in self.behind(advertisement).items() if hop != neighbour]
        count = sum(tally.subscriptions for tally in others)
        return Tally(count, min(count + sum(tally.hop_sum for tally in others), INTEGER_MAX))

    def check(self) -> None:
        known = self.tables.offers.keys() | self.tables.adrift.keys()
        assert self.local.keys() == known, "others than the known advertisements are counted"
        assert self.heard.keys() | self.told.keys() <= self.links.keys()
        assert len(self.kept) <= self.params.resting_max and not self.kept.keys() & self.heard.keys()
        assert self.is_timed or not self.changed
        for tallies in (*self.heard.values(), *self.told.values()):
            assert NOBODY not in tallies.values()


def put(tallies: dict[AdvertisementId, Tally], advertisement: AdvertisementId, tally: Tally) -> None:
    if tally == NOBODY:
        tallies.pop(advertisement, None)
    else:
        tallies[advertisement] = tally
