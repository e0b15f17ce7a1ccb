"""One search for a broker to be below: who is asked next, and what is learned from each refusal.

The strategies, a letter each; the first of the instance that has somebody to offer is the one that is followed:

    R  Regional         those above the broker that was lost, and its other children: repairs stay near
    A  ancestors        those above alone, the nearest first; the baseline Overcast
    D  Downstream       children of whoever refused because it has enough neighbours
    U  Upstream         who is above whoever refused because it has too few
    m  BreakMinDegree   whoever refused because it has too few, asked to do it all the same
    M  BreakMaxDegree   whoever refused because it has enough, asked to do it all the same
    G  Global           anybody

Nobody is asked twice, except by m and M, and except for those who were busy: when nobody else is left they are asked
again, a few times. All that is learned is forgotten with the search.

Source: dynamic-topologies.md 3.9.5 (Fig. 10.1, section 10.3 of its source); D-83 to D-87.
"""

import math
from collections.abc import Callable, Iterable, Mapping

from tidings.machine.message import Contact
from tidings.machine.streams import RandomStream
from tidings.model.identity import NodeId
from tidings.protocols.overlay.lstree.messages import RefusalReason
from tidings.protocols.overlay.lstree.params import LsTreeParams

STRATEGY_NAMES = {
    "R": "regional",
    "A": "ancestors",
    "D": "downstream",
    "U": "upstream",
    "m": "break min degree",
    "M": "break max degree",
    "G": "global",
}


class AskedCandidate:
    """A candidate of whom an answer is awaited."""

    __slots__ = ("contact", "is_sent", "number", "since", "strategy")

    def __init__(self, contact: Contact, strategy: str, number: int, since: float) -> None:
        self.contact, self.strategy, self.number = contact, strategy, number
        self.since = since
        """When the link was asked for, or the request sent."""
        self.is_sent = False
        """The link to it is up, and the request on its way."""


class Patience:
    """How long to wait for an answer, from how long others took: their mean and four times how much they vary, as TCP
    does it (RFC 6298), between two bounds."""

    def __init__(self, least: float, most: float) -> None:
        self.least, self.most = least, most
        self.mean: float | None = None
        self.spread = 0.0

    def learn(self, seconds: float) -> None:
        if self.mean is None:
            self.mean, self.spread = seconds, seconds / 2
            return
        self.spread += (abs(seconds - self.mean) - self.spread) / 4
        self.mean += (seconds - self.mean) / 8

    @property
    def seconds(self) -> float:
        return self.most if self.mean is None else min(self.most, max(self.least, self.mean + 4 * self.spread))


class ParentSearch:
    """Made when the search begins, with whoever is known then."""

    def __init__(
        self,
        params: LsTreeParams,
        rng: RandomStream,
        ancestors: Iterable[Contact] = (),
        siblings: Iterable[Contact] = (),
        anybody: Iterable[Contact] = (),
        is_first: bool = False,
        round_trips: Mapping[NodeId, float] | None = None,
        is_urgent: bool = False,
    ) -> None:
        self.params, self.rng, self.is_urgent = params, rng, is_urgent
        self.round_trips = round_trips or {}
        """To those that were measured. Of those beside the nearest comes first."""
        # Whoever is new has nobody but its contacts, also where they are no strategy later.
        self.strategies = params.strategies + ("G" if is_first and "G" not in params.strategies else "")
        self.ancestors, self.siblings = list(ancestors), list(siblings)
        self.offers: dict[str, dict[NodeId, Contact]] = {letter: {} for letter in "DUmMG"}
        """What D, U, m, M and G have to offer, the newest last."""
        self.offers["G"] = {contact.node: contact for contact in anybody}
        self.tried: set[NodeId] = set()
        self.busy: dict[NodeId, tuple[Contact, str]] = {}
        """Who was and may be asked again, with the strategy that led to it."""
        self.busy_at: dict[NodeId, float] = {}
        """When each said so."""
        self.retries: dict[NodeId, int] = {}
        self.asked: AskedCandidate | None = None
        self.requests = self.vain_count = 0
        self.ahead: dict[NodeId, Contact] = {}
        """Candidates whose links were asked for before it is their turn."""
        self.ahead_at: dict[NodeId, float] = {}
        """When that was."""

    @property
    def is_hurried(self) -> bool:
        """So many candidates came to nothing, or may be expected to, that links to the others are asked for ahead."""
        return self.params.ahead_after > 0 and (self.is_urgent or self.params.ahead_after <= self.vain_count)

    def pick(self, is_excluded: Callable[[NodeId], bool]) -> tuple[Contact, str] | None:
        """The next candidate, and by which strategy. It is taken out of the cache that it came from."""
        for letter in self.strategies:
            while (contact := self.take(letter)) is not None:
                node = contact.node
                is_again = letter in "mM"
                if is_excluded(node) or (not is_again and (node in self.tried or self.is_exhausted)):
                    continue
                self.tried.add(node)
                return contact, letter
        return None

    @property
    def is_exhausted(self) -> bool:
        return len(self.tried) >= self.params.candidates_max

    def take(self, letter: str) -> Contact | None:
        match letter:
            case "A":
                return self.ancestors.pop(0) if self.ancestors else None
            case "R":
                return self.take_regional()
            case "G":
                # The oldest first: who was tried last, or is known to be lost, stands at the end.
                offers = self.offers["G"]
                return offers.pop(next(iter(offers))) if offers else None
            case _:
                # The newest first, so that a search goes down the tree and does not sweep a whole level of it.
                return self.offers[letter].popitem()[1] if self.offers[letter] else None

    def take_regional(self) -> Contact | None:
        if not self.ancestors and not self.siblings:
            return None
        is_ancestor = self.rng.random() < self.params.ancestor_share
        if self.ancestors and (is_ancestor or not self.siblings):
            return self.ancestors.pop(0)
        nearest = min(self.siblings, key=self.distance)
        if self.distance(nearest) < math.inf:
            self.siblings.remove(nearest)
            return nearest
        return self.siblings.pop(self.rng.below(len(self.siblings)))

    def distance(self, contact: Contact) -> float:
        return self.round_trips.get(contact.node, math.inf)

    def ask(self, now: float, contact: Contact, strategy: str, number: int) -> AskedCandidate:
        self.asked = AskedCandidate(contact, strategy, number, now)
        self.requests += 1
        return self.asked

    def refused(self, reason: RefusalReason, contacts: Iterable[Contact]) -> None:
        """By the one that was asked."""
        assert self.asked is not None
        asked, self.asked = self.asked, None
        self.vain_count += 1
        contact, room = asked.contact, self.params.candidates_max
        match reason:
            case RefusalReason.MAXDEGREE if asked.strategy != "M":
                self.offers["M"][contact.node] = contact
                self.learn("D", contacts, room)
            case RefusalReason.MINDEGREE if asked.strategy not in "mM":
                self.offers["m"][contact.node] = contact
                self.learn("U", contacts, room)
            case RefusalReason.BUSY:
                if self.retries.get(contact.node, 0) < self.params.busy_retries:
                    self.busy[contact.node] = contact, asked.strategy

    def learn(self, letter: str, contacts: Iterable[Contact], room: int) -> None:
        offers = self.offers[letter]
        for contact in contacts:
            if contact.node not in self.tried and len(offers) < room:
                offers[contact.node] = contact

    def learn_first(self, now: float, contact: Contact, room: int) -> bool:
        """Before all others that the Global cache has to offer, and linked ahead. Whether it is new."""
        node, offers = contact.node, self.offers["G"]
        is_new = node not in self.tried and (node in offers or len(offers) < room)
        if is_new:
            self.offers["G"] = {node: contact, **offers}
            self.ahead = {node: contact, **self.ahead}
            self.ahead_at.setdefault(node, now)
        return is_new

    def unanswered(self) -> None:
        self.asked = None
        self.vain_count += 1

    def others(self) -> list[Contact]:
        """Whom the region, those who refused and the Global cache have to offer still."""
        offers = self.offers
        downstream = reversed(offers["D"].values())
        known = (*self.ancestors, *self.siblings, *downstream, *offers["U"].values(), *offers["G"].values())
        return [contact for contact in {each.node: each for each in known}.values() if contact.node not in self.tried]

    def letter_of(self, node: NodeId) -> str:
        """The first strategy that knows it."""
        if any(contact.node == node for contact in (*self.ancestors, *self.siblings)):
            return "R" if "R" in self.strategies else "A"
        return next((letter for letter in "DU" if node in self.offers[letter]), "G")

    def take_out(self, node: NodeId) -> str:
        """The turn of this one comes out of order; or never, where it is dead. The strategy that knows it."""
        letter = self.letter_of(node)
        self.ancestors = [contact for contact in self.ancestors if contact.node != node]
        self.siblings = [contact for contact in self.siblings if contact.node != node]
        for offered in "DUG":
            self.offers[offered].pop(node, None)
        self.tried.add(node)
        return letter

    def postpone(self) -> None:
        """Another one is linked sooner than the one whose turn it was."""
        assert self.asked is not None
        asked, self.asked = self.asked, None
        contact = asked.contact
        self.tried.discard(contact.node)
        letter = asked.strategy if asked.strategy in "DU" else "G"
        self.offers[letter][contact.node] = self.ahead[contact.node] = contact
        self.ahead_at[contact.node] = asked.since

    def is_kept(self, node: NodeId) -> bool:
        """The link to it was asked for ahead, and it may be asked yet, or once more."""
        may_be_asked = node not in self.tried or node in self.busy or node in self.offers["M"]
        return node in self.ahead and may_be_asked

    def pick_busy(self, is_excluded: Callable[[NodeId], bool]) -> tuple[Contact, str] | None:
        """Nobody else is left: who was busy and may be asked once more, the first of them."""
        while self.busy:
            node = next(iter(self.busy))
            contact, strategy = self.busy.pop(node)
            if not is_excluded(node):
                self.retries[node] = self.retries.get(node, 0) + 1
                return contact, strategy
        return None
