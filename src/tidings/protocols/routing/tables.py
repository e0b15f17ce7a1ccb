"""The two tables of a broker: who wants what, and who offers what.

*Who wants what* (PRT, or SubTab). A pair of a hop and a filter: somebody behind that hop wants what the filter matches.
A *hop* is a neighbour, None for the clients of this broker, or a *ghost*: a neighbour that was lost and whose wishes
are remembered for a while, because another link may be about to take its place (`repairs/`). Neighbours tell filters
without saying whose they are, so one pair stands for any number of subscribers. The clients' own subscriptions are kept
by key beside them.

*Who offers what* (SRT). An advertisement and the hops from which it came. On a tree that is one hop; while the tree
changes there may be two for a moment. The *chosen* one is our own client, or else the one that told first: the way back
to the publisher leads there, and its publications are taken from there only. So a publication that comes round a ring
is recognised, and a change of the way is a definite moment.

Filters are named by their canonical text, which is the same in all brokers; dictionaries of texts are much cheaper than
dictionaries of filters. Two indexes answer which links, and which local subscriptions, want an event.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Literal, NamedTuple

from tidings.matching import Index, IndexParams
from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.protocols.routing.buckets import TableBuckets
from tidings.pubsub.publications import read_head
from tidings.pubsub.signals import AdvertisementId, ReconfigurationId, SubscriptionKey


class Ghost(NamedTuple):
    """What is left of a neighbour whose loss is not settled yet."""

    lost: NodeId
    reconfiguration: ReconfigurationId
    """The overlay's name for the change; made up here where it has none."""


Hop = NodeId | Ghost | None
"""A neighbour, one that was lost, or None for the clients of this broker."""

LiveHop = NodeId | None
"""Where something can come from: ways to publishers have no ghosts, a lost one is forgotten at once."""

Way = tuple[NodeId, int]
"""Names one announcement of an advertisement: who began it, and his number for it. A broker that finds a new way to a
publisher begins a new one, so that everybody behind it hears of the change, and hears of it once."""

OVERLAPS_MAX = 100_000
"""Pairs of filters of which it is remembered whether they overlap; when there are more, all are forgotten."""

NO_OVERLAPS: dict[str, bool] = {}
NO_OFFERS: dict[str, dict[AdvertisementId, Filter]] = {}


SMALL_CHUNKS = IndexParams(direct_records=4)
"""A broker has few filters beside an index of a whole network: rows of bits then pay sooner."""


class Offered(NamedTuple):
    """What one hop told about an advertisement. `version` grows with everything that is told here."""

    publisher: str
    text: str
    filter: Filter
    way: Way
    version: int


def said_of(publisher: str, text: str, way: Way) -> str:
    """What an advertisement is compared by, beside its name."""
    return f"{publisher}\n{text}\n{way[0]}\n{way[1]}"


class Tables:
    def __init__(self, engine: Literal["fast", "plain"] | None = None, finds_ghosts: bool = False) -> None:
        self.link_index, self.local_index = (Index(engine, SMALL_CHUNKS, read_head) for _ in range(2))
        self.ghost_index = Index("plain", decode=read_head) if finds_ghosts else None
        """Which lost neighbours would want an event, where somebody may bring it to them."""
        self.filters: dict[str, Filter] = {}
        self.filter_buckets, self.offer_buckets = TableBuckets(), TableBuckets()
        """The names of all filters that are wanted, and of all advertisements that are known, for walks."""
        self.heard_filters: dict[NodeId, TableBuckets] = {}
        self.heard_offers: dict[NodeId, TableBuckets] = {}
        """What each neighbour told, to be compared with what it has to tell when it comes back."""
        self.absent: dict[NodeId, None] = {}
        """Neighbours that are lost for now: what they want stays told, as that of ghosts, and nothing goes there."""
        self.shut: dict[NodeId, None] = {}
        """Neighbours that tell their tables and are told ours, and nothing goes there yet: a link that is to take the
        place of another (`repairs/shift.py`). What they offer is chosen by nobody."""
        self.apart: dict[NodeId, NodeId] = {}
        """Pairs of neighbours, each under both: what comes from the one is not told to the other, for they have each
        other's tables by another way."""
        self.hops: dict[str, dict[Hop, None]] = {}
        self.texts: dict[Hop, dict[str, None]] = {None: {}}
        self.ghosts: dict[Ghost, None] = {}
        """Those that are lost, oldest first."""
        self.parting: dict[NodeId, Ghost] = {}
        """Absent neighbours whose wishes are becoming a ghost's (`departures.py`)."""
        self.local: dict[SubscriptionKey, str] = {}
        self.local_counts: dict[str, int] = {}
        self.sure: dict[SubscriptionKey, None] = {}
        """Those of the clients' subscriptions that were promised something."""
        self.offers: dict[AdvertisementId, dict[LiveHop, Offered]] = {}
        self.offers_of: dict[LiveHop, dict[AdvertisementId, Offered]] = {None: {}}
        self.offered: dict[LiveHop, dict[str, dict[AdvertisementId, Filter]]] = {None: {}}
        self.adrift: dict[AdvertisementId, tuple[LiveHop, Offered]] = {}
        """Those to which the way is lost, with the side on which it was (`adrift.py`)."""
        self.adrift_texts: dict[LiveHop, dict[str, dict[AdvertisementId, Filter]]] = {}
        self.version = 0
        self.overlaps: dict[str, dict[str, bool]] = {}
        """By text, and the text of what is offered; `overlap_count` answers in all."""
        self.overlap_count = 0

    # Who wants what.

    def add_neighbour(self, neighbour: NodeId) -> None:
        self.texts[neighbour], self.offers_of[neighbour], self.offered[neighbour] = {}, {}, {}
        self.heard_filters[neighbour], self.heard_offers[neighbour] = TableBuckets(), TableBuckets()

    def add_wanted(self, neighbour: NodeId, text: str, filter: Filter) -> bool:
        """Whether it is new from there."""
        if text in self.texts[neighbour]:
            return False
        self.link_index.add((neighbour, text), filter, neighbour)
        self.heard_filters[neighbour].put(text)
        self.enter(neighbour, text, filter)
        return True

    def remove_wanted(self, neighbour: NodeId, text: str) -> bool:
        if text not in self.texts[neighbour]:
            return False
        self.link_index.discard((neighbour, text))
        self.heard_filters[neighbour].discard(text)
        self.leave(neighbour, text)
        return True

    def add_ghost(self, ghost: Ghost) -> None:
        """Everything that the lost neighbour wants is the ghost's from now on; no event goes there any more."""
        self.ghosts[ghost] = None
        texts = self.texts.setdefault(ghost, {})
        for text in list(self.texts[ghost.lost]):
            if text not in texts:
                self.enter(ghost, text, self.filters[text])
                if self.ghost_index is not None:
                    self.ghost_index.add((ghost, text), self.filters[text], ghost.lost)
            self.remove_wanted(ghost.lost, text)

    def begin_parting(self, ghost: Ghost) -> None:
        """The same, a piece at a time: `part`. Until then what it wants is as a ghost's."""
        self.ghosts[ghost] = None
        self.texts.setdefault(ghost, {})
        self.absent[ghost.lost] = None
        self.parting[ghost.lost] = ghost

    def part(self, neighbour: NodeId, count: int | None) -> bool:
        """So many become the ghost's, or all; whether those were the last."""
        ghost = self.parting[neighbour]
        texts, own = self.texts[ghost], self.texts[neighbour]
        for text in list(islice(own, count)):
            if text not in texts:
                self.enter(ghost, text, self.filters[text])
            self.remove_wanted(neighbour, text)
        if own:
            return False
        del self.parting[neighbour]
        return True

    def haunted(self, ghost: Ghost) -> Iterator[str]:
        """What the lost neighbour wanted, whether the ghost has it already or not."""
        yield from self.texts.get(ghost, ())
        if self.parting.get(ghost.lost) == ghost:
            yield from (text for text in self.texts[ghost.lost] if text not in self.texts[ghost])

    def count_haunted(self, ghost: Ghost) -> int:
        """At most."""
        parting = self.texts[ghost.lost] if self.parting.get(ghost.lost) == ghost else ()
        return len(self.texts[ghost]) + len(parting)

    def is_live(self, hop: Hop) -> bool:
        """Whether it is a client or a neighbour that is there."""
        return not isinstance(hop, Ghost) and hop not in self.absent

    def is_haunted(self, ghost: Ghost, text: str) -> bool:
        hops = self.hops[text]
        return ghost in hops or (self.parting.get(ghost.lost) == ghost and ghost.lost in hops)

    def thin_ghost(self, ghost: Ghost, count: int) -> list[str]:
        """So many are not the ghost's any more."""
        texts = list(islice(self.texts[ghost], count))
        for text in texts:
            self.leave(ghost, text)
            if self.ghost_index is not None:
                self.ghost_index.discard((ghost, text))
        return texts

    def remove_ghost(self, ghost: Ghost) -> list[str]:
        """What it wanted."""
        texts = self.thin_ghost(ghost, len(self.texts[ghost]))
        del self.ghosts[ghost], self.texts[ghost]
        return texts

    def add_local(self, key: SubscriptionKey, text: str, filter: Filter) -> None:
        self.remove_local(key)
        self.local_index.add(key, filter)
        self.local[key] = text
        self.local_counts[text] = self.local_counts.get(text, 0) + 1
        if text not in self.texts[None]:
            self.enter(None, text, filter)

    def remove_local(self, key: SubscriptionKey) -> str | None:
        """The text that stood for it, None if there was none."""
        text = self.local.pop(key, None)
        self.sure.pop(key, None)
        if text is None:
            return None
        self.local_index.discard(key)
        self.local_counts[text] -= 1
        if not self.local_counts[text]:
            del self.local_counts[text]
            self.leave(None, text)
        return text

    def enter(self, hop: Hop, text: str, filter: Filter) -> None:
        self.texts[hop][text] = None
        if text not in self.filters:
            self.filters[text], self.hops[text] = filter, {}
            self.filter_buckets.put(text)
        self.hops[text][hop] = None

    def leave(self, hop: Hop, text: str) -> None:
        del self.texts[hop][text]
        hops = self.hops[text]
        del hops[hop]
        if not hops:
            del self.hops[text], self.filters[text]
            self.filter_buckets.discard(text)

    def find_filter(self, text: str) -> Filter | None:
        """The filter of this canonical text, if somebody wants or offers it."""
        if text in self.filters:
            return self.filters[text]
        offers = next((offered[text] for offered in self.offered.values() if text in offered), {})
        return next(iter(offers.values()), None)

    def wants_beside(self, text: str, neighbour: NodeId) -> bool:
        """Does anybody but this neighbour want it, so that it has to be told? Ghosts and who is absent want nothing
        new."""
        if not self.ghosts and not self.absent:
            return self.keeps_beside(text, neighbour)
        hops, absent, other = self.hops.get(text, ()), self.absent, self.apart.get(neighbour, neighbour)
        return any(
            hop != neighbour and hop != other and not isinstance(hop, Ghost) and hop not in absent for hop in hops
        )

    def keeps_beside(self, text: str, neighbour: NodeId) -> bool:
        """Is there anybody but this neighbour for whom it stays told if it was? Ghosts count, and so does who
        is absent."""
        hops = self.hops.get(text)
        if hops is None:
            return False
        if self.apart and neighbour in self.apart:
            return any(hop != neighbour and hop != self.apart[neighbour] for hop in hops)
        return len(hops) > 1 or neighbour not in hops

    # Who offers what.

    def add_offer(
        self, hop: LiveHop, advertisement: AdvertisementId, publisher: str, text: str, filter: Filter, way: Way
    ) -> bool:
        """Whether anything of it is new. It is known here, and counts, from `choose_offer` on."""
        before = self.offers_of[hop].get(advertisement)
        if before is not None and before[:2] == (publisher, text) and before.way == way:
            return False
        self.version += 1
        offered = Offered(publisher, text, filter, way, self.version)
        if before is not None:
            self.forget_offered(hop, advertisement, before.text)
            del self.offers_of[hop][advertisement]  # the newest stand last
        self.offered[hop].setdefault(text, {})[advertisement] = filter
        self.offers_of[hop][advertisement] = offered
        if hop is not None:
            self.heard_offers[hop].put(advertisement, said_of(publisher, text, way))
        return True

    def choose_offer(self, hop: LiveHop, advertisement: AdvertisementId) -> None:
        """What that hop told about it counts from now on."""
        if advertisement not in self.offers:
            self.offers[advertisement] = {}
            self.offer_buckets.put(advertisement)
        self.offers[advertisement][hop] = self.offers_of[hop][advertisement]

    def unchoose_offer(self, hop: LiveHop, advertisement: AdvertisementId) -> None:
        """It does not count for now, and is not forgotten."""
        hops = self.offers.get(advertisement, {})
        if hops.pop(hop, None) is not None and not hops:
            del self.offers[advertisement]
            self.offer_buckets.discard(advertisement)

    def remove_offer(self, hop: LiveHop, advertisement: AdvertisementId) -> Offered | None:
        offered = self.offers_of[hop].pop(advertisement, None)
        if offered is not None:
            self.forget_offered(hop, advertisement, offered.text)
            self.unchoose_offer(hop, advertisement)
            if hop is not None:
                self.heard_offers[hop].discard(advertisement)
        return offered

    def forget_offered(self, hop: LiveHop, advertisement: AdvertisementId, text: str) -> None:
        offered = self.offered[hop]
        del offered[text][advertisement]
        if not offered[text]:
            del offered[text]

    def chosen(self, advertisement: AdvertisementId) -> tuple[LiveHop, Offered] | None:
        hops = self.offers.get(advertisement)
        if hops is None:
            return None
        if None in hops:
            return None, hops[None]
        if self.shut:
            return next(((hop, offered) for hop, offered in hops.items() if hop not in self.shut), None)
        return next(iter(hops.items()))

    def chosen_beside(self, advertisement: AdvertisementId, neighbour: NodeId) -> tuple[LiveHop, Offered] | None:
        """Our own client, or the first to tell but for this neighbour."""
        hops = self.offers.get(advertisement)
        if hops is None:
            return None
        if None in hops:
            return None, hops[None]
        beside = (neighbour, self.apart.get(neighbour, neighbour))
        return next(((hop, offered) for hop, offered in hops.items() if hop not in beside), None)

    def prefer_offer(self, hop: LiveHop, advertisement: AdvertisementId) -> None:
        """What that hop told goes before what others did."""
        hops = self.offers[advertisement]
        self.offers[advertisement] = {hop: hops.pop(hop), **hops}

    def offers_newer_than(self, hop: LiveHop, version: int) -> Iterator[Offered]:
        for offered in reversed(self.offers_of[hop].values()):
            if offered.version <= version:
                return
            yield offered

    def is_offered(self, hop: LiveHop, text: str, filter: Filter) -> bool:
        """Does an advertisement of that hop, adrift or not, overlap the filter?"""
        known = self.overlaps.get(text, NO_OVERLAPS)
        for offers in (self.offered[hop], self.adrift_texts.get(hop, NO_OFFERS)):
            for offered, advertisements in offers.items():
                answer = known.get(offered)
                if answer or (
                    answer is None and self.do_overlap(text, filter, offered, next(iter(advertisements.values())))
                ):
                    return True
        return False

    def do_overlap(self, text: str, filter: Filter, other_text: str, other: Filter) -> bool:
        answer = self.overlaps.get(text, NO_OVERLAPS).get(other_text)
        if answer is None:
            if self.overlap_count >= OVERLAPS_MAX:
                self.overlaps.clear()
                self.overlap_count = 0
            answer = self.overlaps.setdefault(text, {})[other_text] = filter.overlaps(other)
            self.overlap_count += 1
        return answer

    def known_way(self, advertisement: AdvertisementId) -> tuple[LiveHop, Offered] | None:
        """The chosen one, or how it was when the way was lost."""
        return self.chosen(advertisement) or self.adrift.get(advertisement)

    def set_adrift(self, advertisement: AdvertisementId, hop: LiveHop, offered: Offered) -> None:
        self.unset_adrift(advertisement)
        self.adrift[advertisement] = hop, offered
        self.adrift_texts.setdefault(hop, {}).setdefault(offered.text, {})[advertisement] = offered.filter

    def unset_adrift(self, advertisement: AdvertisementId) -> None:
        if advertisement in self.adrift:
            hop, gone = self.adrift.pop(advertisement)
            texts = self.adrift_texts[hop]
            del texts[gone.text][advertisement]
            if not texts[gone.text]:
                del texts[gone.text]
            if not texts:
                del self.adrift_texts[hop]

    def remove_neighbour(self, neighbour: NodeId) -> None:
        """Forget the neighbour; everything from it was removed before."""
        assert not self.texts[neighbour] and not self.offers_of[neighbour]
        del self.texts[neighbour], self.offers_of[neighbour], self.offered[neighbour]
        del self.heard_filters[neighbour], self.heard_offers[neighbour]
        self.absent.pop(neighbour, None)
        self.shut.pop(neighbour, None)

    def check(self) -> None:
        pairs = [(text, hop) for hop, texts in self.texts.items() for text in texts]
        assert sorted(pairs, key=repr) == sorted(
            ((text, hop) for text, hops in self.hops.items() for hop in hops), key=repr
        ), "the two sides of who wants what differ"
        assert self.filters.keys() == self.hops.keys()
        assert len(self.link_index) == sum(len(texts) for hop, texts in self.texts.items() if isinstance(hop, str))
        assert [hop for hop in self.texts if isinstance(hop, Ghost)] == list(self.ghosts)
        assert self.ghost_index is None or len(self.ghost_index) == sum(len(self.texts[it]) for it in self.ghosts)
        assert len(self.local_index) == len(self.local) and self.local_counts.keys() == self.texts[None].keys()
        for hop, offers in self.offers_of.items():
            versions = [offered.version for offered in offers.values()]
            assert versions == sorted(versions), "offers do not stand in the order in which they were told"
            assert sum(map(len, self.offered[hop].values())) == len(offers)
        assert all(advertisement in self.offers_of[hop] for advertisement, hops in self.offers.items() for hop in hops)
        assert all(self.offers.values()), "an advertisement is known from nowhere"
        assert self.absent.keys() | self.shut.keys() <= self.heard_filters.keys()
        assert all(self.chosen(advertisement) is not None for advertisement in self.offers), "known, and not chosen"
        for neighbour, heard in self.heard_filters.items():
            heard.check(self.texts[neighbour])
            self.heard_offers[neighbour].check(self.offers_of[neighbour])
        self.filter_buckets.check(self.filters)
        self.offer_buckets.check(self.offers)
