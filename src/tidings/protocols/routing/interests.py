"""Interests: who is behind a link that a publisher's broker would have to reach if it left the tree.

The problem. What is not popular is taken to the brokers of its subscribers by other ways than the tree. The publisher's
broker then has to know these brokers, all of them; and which of their subscriptions were promised something, since the
promise rests on the order of the tree. Tables name no subscribers, and a list of all brokers at each would be as large
as the network.

The idea. Beside the counts of the census each broker tells the neighbour on the way to a publisher three things that
add up over the tree, as counts do (`Interested`):

    pairs      how many different pairs of a broker and a filter there are on its side
    digest     the sum of the hashes of these pairs
    is_sure    whether a promise was given to any of their subscriptions

Who they are the publisher's broker asks when it needs to know (`InterestAsked`, down the tree to those who want
something; `InterestNamed`, back up). It knows all of them when the pairs that were named have the digest that was told.
Whenever somebody comes or goes the digest is another one, and it asks again. Nobody on the way keeps a name.

In time. Counts may come a little late; this may not. A change is told at once, on the links and in the order in which
the subscription travels, so it is there before any question for history that comes behind the subscription, and before
`Known` makes somebody ask. So what a publisher's broker diverts was diverted before such a question was answered, and
is in the answer.

With `names_filters` a pair is a broker and a filter, for carriages that take each publication to those who want it;
otherwise the filter is left empty, and a broker is named once.

State. `wanted`: for each advertisement our clients' filters, and how many of them are sure. `stated`,
`told_interests`: what each neighbour said and was told.

Guaranteed, at rest on a tree: pairs and digests are as if computed by one who sees everything.
"""

from collections import Counter
from collections.abc import Callable
from typing import Annotated, NamedTuple

from msgspec import Meta
from xxhash import xxh64_intdigest

from tidings.machine.effects import Drop, Effect, Send
from tidings.machine.message import AddressText, Contact, Count, FilterText, Message, Name
from tidings.model.bounds import INTEGER_MAX, INTEREST_FILTERS_MAX
from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.protocols.routing.census import TOO_MANY_COUNTED, Census
from tidings.protocols.routing.links import NeighbourLink
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.tables import Offered, Tables
from tidings.pubsub.signals import AdvertisementId

MASK = 2**48 - 1
"""Digests are sums modulo this and one."""

Pair = tuple[NodeId, str]


class Interest(NamedTuple):
    pairs: int = 0
    digest: int = 0
    is_sure: bool = False


INDIFFERENT = Interest()


class Interested(Message, frozen=True):
    """On the sender's side there are so many different pairs of broker and filter that want something of it."""

    advertisement: Name
    pairs: Count
    digest: Count
    is_sure: bool


class InterestAsked(Message, frozen=True):
    """Who on your side wants something of it?"""

    advertisement: Name


class InterestNamed(Message, frozen=True):
    """This broker, for these filters."""

    advertisement: Name
    broker: Name
    address: AddressText
    filters: Annotated[tuple[FilterText, ...], Meta(max_length=INTEREST_FILTERS_MAX)]


def digest_of(broker: NodeId, text: str) -> int:
    return xxh64_intdigest(f"{broker}\n{text}".encode()) & MASK


class InterestCensus(Census):
    """A census that tells interests as well."""

    def __init__(
        self,
        node_id: NodeId,
        params: RoutingParams,
        tables: Tables,
        links: dict[NodeId, NeighbourLink],
        names_filters: bool,
    ) -> None:
        super().__init__(params, tables, links)
        self.node_id, self.names_filters = node_id, names_filters
        self.wanted: dict[AdvertisementId, Counter[str]] = {}
        self.sure: Counter[AdvertisementId] = Counter()
        self.stated: dict[NodeId, dict[AdvertisementId, Interest]] = {}
        self.told_interests: dict[NodeId, dict[AdvertisementId, Interest]] = {}
        self.unwanted: Callable[[AdvertisementId], list[Effect]] = lambda advertisement: []
        """Our clients want nothing of it (any more); for the carriage."""

    # What others ask.

    def interest(self, neighbour: NodeId, advertisement: AdvertisementId) -> Interest:
        return self.stated.get(neighbour, {}).get(advertisement, INDIFFERENT)

    def own_pairs(self, advertisement: AdvertisementId) -> list[str]:
        """The filters of our own clients, or an empty one where filters are not named."""
        texts = self.wanted.get(advertisement)
        if not texts:
            return []
        return list(texts) if self.names_filters else [""]

    def own(self, advertisement: AdvertisementId) -> Interest:
        pairs = self.own_pairs(advertisement)
        digest = sum(digest_of(self.node_id, text) for text in pairs) & MASK
        return Interest(len(pairs), digest, self.sure[advertisement] > 0)

    # What happens.

    def local_changed(self, now: float, text: str, filter: Filter, change: int, is_sure: bool = False) -> list[Effect]:
        effects = super().local_changed(now, text, filter, change, is_sure)
        for advertisement, (offered, _) in self.local.items():
            chosen = self.tables.chosen(advertisement)
            if chosen is None or not self.tables.do_overlap(text, filter, offered, chosen[1].filter):
                continue
            texts = self.wanted.setdefault(advertisement, Counter())
            texts[text] += change
            if texts[text] <= 0:
                del texts[text]
            if is_sure:
                self.sure[advertisement] += change
            effects += self.tell_interest(advertisement)
        return effects

    def offers_changed(self, now: float, advertisement: AdvertisementId) -> list[Effect]:
        effects = super().offers_changed(now, advertisement)
        chosen = self.tables.chosen(advertisement)
        self.sure.pop(advertisement, None)
        if chosen is None:
            self.wanted.pop(advertisement, None)
        else:
            self.wanted[advertisement] = self.texts_wanted(chosen[1])
            self.sure[advertisement] = sum(
                1 for key in self.tables.sure if self.do_meet(self.tables.local[key], chosen[1])
            )
        return effects + self.tell_interest(advertisement)

    def do_meet(self, text: str, offered: Offered) -> bool:
        return self.tables.do_overlap(text, self.tables.filters[text], offered.text, offered.filter)

    def texts_wanted(self, offered: Offered) -> Counter[str]:
        counts = self.tables.local_counts
        return Counter({text: count for text, count in counts.items() if self.do_meet(text, offered)})

    def interested(self, now: float, link: NeighbourLink, message: Interested) -> list[Effect]:
        stated = self.stated.setdefault(link.neighbour, {})
        if message.advertisement not in stated and len(stated) >= self.params.advertisements_max:
            return [Drop(message, TOO_MANY_COUNTED)]
        interest = Interest(message.pairs, message.digest & MASK, message.is_sure)
        if interest == INDIFFERENT:
            stated.pop(message.advertisement, None)
        else:
            stated[message.advertisement] = interest
        return self.tell_interest(message.advertisement)

    def lost(self, now: float, neighbour: NodeId) -> list[Effect]:
        self.told_interests.pop(neighbour, None)
        effects = super().lost(now, neighbour)
        for advertisement in self.stated.pop(neighbour, {}):
            effects += self.tell_interest(advertisement)
        return effects

    def tell_interest(self, advertisement: AdvertisementId) -> list[Effect]:
        """At once."""
        effects: list[Effect] = [] if self.wanted.get(advertisement) else self.unwanted(advertisement)
        chosen = self.tables.chosen(advertisement)
        for link in self.links.values():
            is_way = chosen is not None and chosen[0] == link.neighbour
            due = self.due_interest(advertisement, link.neighbour) if is_way else INDIFFERENT
            told = self.told_interests.setdefault(link.neighbour, {})
            if due != told.get(advertisement, INDIFFERENT):
                if due == INDIFFERENT:
                    del told[advertisement]
                else:
                    told[advertisement] = due
                effects.append(Send(link.neighbour, Interested(advertisement, *due)))
        return effects

    def due_interest(self, advertisement: AdvertisementId, neighbour: NodeId) -> Interest:
        sides = [self.own(advertisement)]
        sides += [
            stated[advertisement]
            for other, stated in self.stated.items()
            if other != neighbour and advertisement in stated
        ]
        return Interest(
            min(sum(side.pairs for side in sides), INTEGER_MAX),
            sum(side.digest for side in sides) & MASK,
            any(side.is_sure for side in sides),
        )

    # Names.

    def asked(self, sender: NodeId, message: InterestAsked, address: str) -> list[Effect]:
        """From the neighbour on the way to the publisher, or from here."""
        return [*self.ask(message.advertisement, sender), *self.name(sender, message.advertisement, address)]

    def ask(self, advertisement: AdvertisementId, sender: NodeId | None) -> list[Effect]:
        """All behind whom somebody wants something of it."""
        return [
            Send(neighbour, InterestAsked(advertisement))
            for neighbour, stated in self.stated.items()
            if neighbour != sender and advertisement in stated
        ]

    def name(self, to: NodeId, advertisement: AdvertisementId, address: str) -> list[Effect]:
        texts = self.own_pairs(advertisement) if self.names_filters else []
        if not self.wanted.get(advertisement):
            return []
        parts = [texts[begin : begin + INTEREST_FILTERS_MAX] for begin in range(0, len(texts), INTEREST_FILTERS_MAX)]
        return [Send(to, InterestNamed(advertisement, self.node_id, address, tuple(part))) for part in parts or [[]]]

    def check(self) -> None:
        super().check()
        assert self.stated.keys() | self.told_interests.keys() <= self.links.keys()
        for advertisement, texts in self.wanted.items():
            assert sum(texts.values()) == self.local[advertisement][1], "other filters are wanted than counted"
            assert all(count > 0 for count in texts.values())


def named_contact(named: InterestNamed) -> Contact:
    return Contact(named.broker, named.address)
