"""How a broker gets to be below another one: the search that is under way, and what becomes of it.

A search begins when the one above is lost, when a broker is new, and, at a root, when it looks for other trees. It ends
below somebody, or with nobody left to ask: then the broker is a root. While it lasts our place does not change, since
each request carries it (L-INV3). One candidate is asked at a time. The link to it is asked of access, the request is
sent when it is up, and again if it breaks and comes back; what does not come to an answer in time is given up.

Contacts that are known by their address alone (`identity.at`) have no name that could be asked for: links to them are
kept, under a user of their own, until we are below somebody; who turns up there is a candidate. A broker that nobody is
below keeps waiting for them, so that it does not matter which of the first brokers of a network starts first.

Source: dynamic-topologies.md 3.9.5 to 3.9.7.
"""

import math

from tidings.machine.effects import CancelTimer, Drop, Effect, Send, SetTimer
from tidings.machine.message import Contact
from tidings.machine.streams import RandomStream
from tidings.model.identity import ADDRESS_MARK, NodeId, is_address
from tidings.protocols.overlay.lstree.caches import LOST_LATELY
from tidings.protocols.overlay.lstree.exchange import LOST_PROBES, ContactExchange
from tidings.protocols.overlay.lstree.kinship import Kinship, Relative, TreeMode, link_name
from tidings.protocols.overlay.lstree.messages import ChildLeave, MergeHint, ParentAccept, ParentRefuse, ParentRequest
from tidings.protocols.overlay.lstree.order import BrokerPlace, Colour, comes_before, may_be_below
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.protocols.overlay.lstree.search import STRATEGY_NAMES, AskedCandidate, ParentSearch, Patience
from tidings.pubsub.notes import Reattached, RootElected
from tidings.pubsub.signals import LinkUnwanted, LinkWanted, NeighbourReplaced

JOIN_USER = "join"
"""Under which name links to the contacts of the beginning are asked for that are known by their address."""

NUMBERS = 2**40
"""Requests are counted from a random number below this, so that those of another life are not taken for ours."""

NOT_VALID = "accepts what may not be"


class Seeker:
    def __init__(self, params: LsTreeParams, kin: Kinship, exchange: ContactExchange, rng: RandomStream) -> None:
        self.params, self.kin, self.exchange, self.rng = params, kin, exchange, rng
        self.node_id = kin.node_id
        self.number = rng.below(NUMBERS)
        self.search: ParentSearch | None = None
        self.waiting: tuple[Contact, str] | None = None
        """Who was busy and is asked again when the timer fires."""
        self.lost: Relative | None = None
        """The link above that broke, while nothing has taken its place."""
        self.lost_at = -math.inf
        self.joining: dict[NodeId, str | None] = {}
        """Addresses to which links are wanted; why the last attempt failed, empty if a link came, None while nothing
        was heard."""
        self.patience = Patience(params.patience_min, params.request_timeout)
        self.merge_wait = params.merge_first
        self.repairs = self.elections = 0

    @property
    def asked(self) -> AskedCandidate | None:
        return None if self.search is None else self.search.asked

    @property
    def is_linking(self) -> bool:
        """The link to the one whose turn it is has not come yet."""
        return self.asked is not None and not self.asked.is_sent

    def is_asked(self, node: NodeId) -> bool:
        return self.asked is not None and self.asked.contact.node == node

    # Links.

    def peer_came(self, now: float, contact: Contact, address: NodeId) -> list[Effect]:
        """Perhaps at an address at which we asked for whoever is there."""
        effects: list[Effect] = []
        if self.asked is not None and self.is_asked(contact.node):
            self.patience.learn(now - self.asked.since)
            effects = self.send_request(now, self.asked)
        elif self.asked is not None and self.is_linking and self.asked.strategy not in "mM":
            assert self.search is not None
            if contact.node in self.search.ahead and contact.node not in self.search.tried:
                self.search.postpone()
                effects = self.proceed(now)
        if address not in self.joining:
            return effects
        self.joining[address] = ""
        return [*effects, *self.exchange.learn(now, (contact,)), *self.offer(now, contact)]

    def why_alone(self) -> str:
        """Why none of those whom we were told to join has come, where we stand alone for that."""
        if self.kin.neighbours:
            return ""
        return "; ".join(
            f"{name.removeprefix(ADDRESS_MARK)}: {reason}" for name, reason in self.joining.items() if reason
        )

    def peer_went(self, node: NodeId) -> None:
        if self.asked is not None and self.is_asked(node):
            # Access asks for the link again, and then the request is sent again.
            self.asked.is_sent = False

    def lose(self, now: float, reason: str) -> list[Effect]:
        """The one above."""
        self.lost, self.lost_at = self.kin.above, now
        return [*self.kin.lose_above(reason), *self.begin(now)]

    def link_failed(self, now: float, node: NodeId, reason: str) -> list[Effect]:
        if self.is_asked(node):
            return self.give_up_candidate(now)
        if self.search is not None and self.search.ahead.pop(node, None) is not None:
            self.search.take_out(node)
        if node not in self.joining:
            return self.let_go(node)
        self.joining[node] = reason
        return self.proceed(now)

    # The search.

    def begin(self, now: float) -> list[Effect]:
        """For somebody above: after the one that was lost, or for the first time."""
        regional, lost = self.kin.regional, self.lost
        gone = "" if lost is None else lost.contact.node
        round_trips = self.exchange.round_trips if self.params.is_near else {}
        known = self.exchange.cache.draw(self.params.contacts_kept)
        anybody = sorted(known, key=lambda contact: round_trips.get(contact.node, math.inf))
        self.search = ParentSearch(
            self.params,
            self.rng,
            ancestors=[contact for contact in regional.ancestors if contact.node != gone],
            siblings=regional.siblings,
            # Perhaps only the link broke: it is asked when nobody else is left.
            anybody=[*(it for it in anybody if it.node != gone), *([] if lost is None else [lost.contact])],
            is_first=not self.kin.place.colour,
            round_trips=round_trips,
        )
        regional.clear()
        return [*self.kin.tell_region(), *self.join(now), *self.proceed(now)]

    def join(self, now: float) -> list[Effect]:
        """Ask for links to contacts of which we know the address alone."""
        asked = [name for name in self.params.contacts if is_address(name) and name not in self.joining]
        self.joining |= dict.fromkeys(asked, None)
        if not asked:
            return []
        wanted: list[Effect] = [LinkWanted(Contact(name), JOIN_USER) for name in asked]
        return [*wanted, SetTimer("join", now + self.params.request_timeout)]

    def stop_joining(self) -> list[Effect]:
        names, self.joining = list(self.joining), {}
        stopped: list[Effect] = [LinkUnwanted(name, JOIN_USER) for name in names]
        return [CancelTimer("join"), *stopped] if stopped else []

    def is_excluded(self, node: NodeId) -> bool:
        return node == self.node_id or node in self.kin.below

    def proceed(self, now: float) -> list[Effect]:
        """Ask the next candidate, wait for one that was busy, or give up."""
        search = self.search
        if search is None or search.asked is not None:
            return []
        chosen = self.pick_linked(search) or search.pick(self.is_excluded)
        if chosen is not None:
            return self.ask(now, *chosen)
        if self.waiting is not None or None in self.joining.values():
            return []
        self.waiting = search.pick_busy(self.is_excluded)
        if self.waiting is None:
            return self.give_up(now)
        # Each has its own time, so that several that are busy are not waited for one after the other.
        said_at = search.busy_at.get(self.waiting[0].node, now)
        again_at = said_at + self.params.busy_wait * (0.5 + self.rng.random())
        return [SetTimer("busy", again_at)] if again_at > now else self.ask_busy(now)

    def pick_linked(self, search: ParentSearch) -> tuple[Contact, str] | None:
        """One whose link was asked for ahead, and is up; of several, the one whose strategy comes first."""
        linked = [
            (search.strategies.find(search.letter_of(node)), node)
            for node in search.ahead
            if node in self.kin.peers and node not in search.tried and not self.is_excluded(node)
        ]
        if not linked:
            return None
        _, node = min(linked, key=lambda each: each[0])
        return search.ahead[node], search.take_out(node)

    def dial_ahead(self, now: float, search: ParentSearch) -> list[Effect]:
        if not search.is_hurried:
            return []
        room = self.params.ahead_max - sum(node not in search.tried for node in search.ahead)
        known = (contact for contact in search.others() if contact.node not in search.ahead)
        ahead = [contact for contact in known if not self.is_excluded(contact.node)][: max(0, room)]
        search.ahead |= {contact.node: contact for contact in ahead}
        search.ahead_at |= {contact.node: now for contact in ahead}
        return [effect for contact in ahead for effect in self.kin.want(contact)]

    def end_search(self, found: NodeId = "") -> list[Effect]:
        """Links that were asked for ahead are let go, but for that to the one that was found."""
        ahead = [] if self.search is None else [node for node in self.search.ahead if node != found]
        self.search = self.waiting = self.lost = None
        return [effect for node in ahead for effect in self.let_go(node)]

    def ask(self, now: float, contact: Contact, strategy: str) -> list[Effect]:
        assert self.search is not None
        self.number += 1
        asked = self.search.ask(now, contact, strategy, self.number)
        wanted = self.kin.want(contact)
        if contact.node in self.kin.peers:
            return [*wanted, *self.send_request(now, asked)]
        # Asked for ahead, it has been waited for since: of many that are dead each takes no time of its own.
        since = self.search.ahead_at.get(contact.node, now)
        return [*wanted, SetTimer("request", max(now, since + self.patience.seconds))]

    def send_request(self, now: float, asked: AskedCandidate) -> list[Effect]:
        asked.is_sent, asked.since = True, now
        place, is_root = self.kin.place, self.kin.mode is TreeMode.MERGING
        breaks_max, breaks_min = asked.strategy == "M", asked.strategy in "mM"
        replaces = "" if self.lost is None else self.lost.link
        request = ParentRequest(
            asked.number, place.colour, place.depth, breaks_max, breaks_min, is_root=is_root, replaces=replaces
        )
        return [Send(asked.contact.node, request), SetTimer("request", now + self.patience.seconds)]

    def ask_busy(self, now: float) -> list[Effect]:
        waiting, self.waiting = self.waiting, None
        if self.search is None or waiting is None:
            return []
        if self.search.asked is not None:
            # Somebody else turned up meanwhile.
            self.search.busy[waiting[0].node] = waiting
            return []
        return self.ask(now, *waiting)

    def give_up_candidate(self, now: float) -> list[Effect]:
        """It does not answer."""
        assert self.search is not None and self.search.asked is not None
        contact = self.search.asked.contact
        self.search.unanswered()
        self.search.ahead.pop(contact.node, None)
        known = [*self.exchange.failed(now, contact), *self.dial_ahead(now, self.search)]
        return [CancelTimer("request"), *known, *self.proceed(now), *self.let_go(contact.node)]

    def refused(self, now: float, sender: NodeId, message: ParentRefuse) -> list[Effect]:
        assert self.search is not None and self.search.asked is not None
        self.patience.learn(now - self.search.asked.since)
        self.search.busy_at[sender] = now
        self.search.refused(message.reason, message.contacts)
        if sender in self.exchange.cache.former:
            self.exchange.cache.add((self.kin.peers[sender],))
        # The next request may be for the same one: then the link is kept.
        return [CancelTimer("request"), *self.dial_ahead(now, self.search), *self.proceed(now), *self.let_go(sender)]

    def accepted(self, now: float, sender: NodeId, message: ParentAccept) -> list[Effect]:
        search, lost = self.search, self.lost
        assert search is not None and search.asked is not None
        if not self.is_valid(sender, message):
            leave = ChildLeave(link_name(self.kin.node_id, message.number))
            return [Drop(message, NOT_VALID), Send(sender, leave), *self.give_up_candidate(now)]
        self.patience.learn(now - search.asked.since)
        strategy, requests = search.asked.strategy, search.requests
        parted = self.end_search(found=sender)
        timers = [CancelTimer(key) for key in ("request", "busy", "merge", "redistribute")]
        effects = [*timers, *self.attach(now, sender, message, lost)]
        if lost is not None:
            self.repairs += 1
            effects.append(Reattached(now - self.lost_at, STRATEGY_NAMES[strategy], requests))
        self.merge_wait = self.params.merge_first
        return [*effects, *parted, *self.stop_joining()]

    def is_valid(self, sender: NodeId, message: ParentAccept) -> bool:
        kin, offered = self.kin, BrokerPlace(message.colour, message.depth)
        is_above_us = sender not in kin.below and may_be_below(kin.place, offered)
        return is_above_us and not kin.is_beyond(message.colour, message.depth)

    def attach(self, now: float, sender: NodeId, message: ParentAccept, lost: Relative | None) -> list[Effect]:
        """Below the one who accepted; routing hears in the place of which link."""
        kin, link = self.kin, link_name(self.node_id, message.number)
        relative = Relative(kin.peers[sender], kin.next_epoch(), link, message.depth)
        effects = kin.take_above(relative, "" if lost is None else lost.link)
        if lost is not None:
            effects.append(NeighbourReplaced(lost.link, lost.contact.node, self.node_id, sender))
        if kin.place.colour != message.colour:
            kin.adopt(message.colour, message.depth)
            effects += kin.tell_colour()
        kin.take_region(sender, message.ancestors, message.siblings)
        kin.follow_depth()
        return [*effects, *kin.tell_region(), *self.exchange.save_soon(now)]

    def give_up(self, now: float) -> list[Effect]:
        """There is nobody to be below: we are a root, or stay one."""
        effects = self.end_search()
        if self.kin.mode is TreeMode.MERGING:
            self.kin.mode = TreeMode.ROOT
        else:
            effects += self.kin.become_root()
            self.elections += 1
            effects.append(RootElected(self.kin.place.colour.length))
            effects.append(SetTimer("redistribute", now + self.params.redistribute_after))
        if self.kin.below:
            # Others are below us and we will look again; who is alone waits for its contacts.
            effects += self.stop_joining()
        return [*effects, self.next_merge(now)]

    def next_merge(self, now: float) -> Effect:
        # Whoever was lost lately is perhaps only out of reach.
        most = self.params.merge_soon if self.exchange.cache.has_lost_lately(now) else self.params.merge_period
        wait = min(self.merge_wait, most) * (0.8 + 0.4 * self.rng.random())
        self.merge_wait = min(self.params.merge_period, 2 * self.merge_wait)
        return SetTimer("merge", now + wait)

    def whom_to_merge_with(self, now: float) -> list[Contact]:
        is_lost = self.merge_wait > self.params.merge_soon and self.exchange.cache.has_lost_lately(now)
        if is_lost:
            return self.exchange.probes(0, LOST_PROBES)
        return self.exchange.probes(self.params.merge_probes)

    def met(self, now: float, contact: Contact, place: BrokerPlace) -> list[Effect]:
        """Somebody asked us while we are looking ourselves, and could not be below us. We can be below him, then, as he
        is: nobody is a better candidate, and without this both of us may end as roots."""
        if self.search is None or not may_be_below(self.kin.place, place):
            return []
        self.search.learn_first(now, contact, self.params.candidates_max)
        return self.proceed(now)

    def is_of_our_tree(self, node: NodeId) -> None:
        """A root that looks for other trees need not ask this one."""
        if self.search is not None and self.kin.mode is TreeMode.MERGING and not self.is_asked(node):
            self.search.take_out(node)

    # Roots.

    def offer(self, now: float, contact: Contact) -> list[Effect]:
        """A contact of the beginning answers: if we are still looking, or stand alone, it is the next to be asked."""
        if self.kin.mode is TreeMode.ROOT:
            return self.begin_merge(now, [contact])
        if self.search is None:
            return []
        self.search.learn("G", (contact,), self.params.candidates_max)
        return self.proceed(now)

    def begin_merge(self, now: float, anybody: list[Contact]) -> list[Effect]:
        kin, joining = self.kin, self.join(now)
        if not (anybody or joining) or (kin.has_led and not self.params.has_global):
            return [*joining, self.next_merge(now)]
        # Where brokers died lately many of those whom we know are dead, and many others are roots for the moment.
        is_urgent = kin.has_led and (self.lost_at > now - LOST_LATELY or self.exchange.cache.has_lost_lately(now))
        self.search = ParentSearch(
            self.params, self.rng, anybody=anybody, is_first=not kin.has_led, is_urgent=is_urgent
        )
        kin.mode = TreeMode.MERGING
        if not kin.has_led:
            kin.start_over()
        # Each says at once of which tree it is, and if that is another one then to its root, too.
        pinged = self.exchange.measure(now, anybody) if is_urgent else []
        return [CancelTimer("merge"), *joining, *pinged, *self.dial_ahead(now, self.search), *self.proceed(now)]

    def hinted(self, now: float, root: Contact, colour: Colour) -> list[Effect]:
        """There is a tree below which ours may go: its root is asked by ours."""
        kin = self.kin
        if kin.above is not None:
            return [Send(kin.above.contact.node, MergeHint(root, colour))]
        if not comes_before(kin.place.colour, colour) or root.node == self.node_id:
            return []
        if kin.mode is TreeMode.ROOT:
            return self.begin_merge(now, [root])
        if kin.mode is TreeMode.MERGING and self.search is not None:
            return self.kin.want(root) if self.search.learn_first(now, root, self.params.candidates_max) else []
        return []

    def let_go(self, node: NodeId) -> list[Effect]:
        """Of the link, if nothing needs it any more."""
        is_ahead = self.search is not None and self.search.is_kept(node)
        is_needed = is_ahead or self.is_asked(node) or node in self.exchange.pinged
        return [] if is_needed else self.kin.unwant(node)

    def fired(self, now: float, timer: str) -> list[Effect]:
        match timer:
            case "request" if self.asked is not None:
                return self.give_up_candidate(now)
            case "busy" if self.waiting is not None:
                return self.ask_busy(now)
            case "join":
                self.joining = {name: reason or "" for name, reason in self.joining.items()}
                return self.proceed(now)
            case "merge" if self.kin.mode is TreeMode.ROOT:
                return self.begin_merge(now, self.whom_to_merge_with(now))
        return []

    def check(self) -> None:
        is_open = self.kin.mode in (TreeMode.SEARCHING, TreeMode.MERGING)
        assert self.search is None or is_open, "a search by one that has its place"
        assert self.search is None or len(self.search.tried) <= self.params.candidates_max, "too many candidates"
