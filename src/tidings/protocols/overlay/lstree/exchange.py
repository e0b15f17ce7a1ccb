"""How the Global cache is kept: contacts are passed on now and then, tried now and then, and stored where there is a
store.

Every period a broker sends all contacts it has, and some of its region, to a few neighbours; whoever hears of them
takes them in and may pass them on at once. Every period, too, it tries contacts of its own: it asks access for a link,
which proves who is there, says `ContactPing`, hears `ContactPong`, and lets go. Who does not answer is not kept, but is
tried again now and then. Both say the colour of their tree: that of another tree is told to the root. A broker that
takes another one below it tells it at once whom it knows, so that a newcomer does not hang on one contact.

The times of all brokers are spread, since each begins at a random moment.

Source: dynamic-topologies.md 3.9.9, section 15.1 of its source; D-90.
"""

import msgspec

from tidings.machine.effects import Effect, Load, Save, Send, SetTimer
from tidings.machine.message import Contact
from tidings.machine.streams import RandomStream
from tidings.model.bounds import CONTACTS_MAX
from tidings.model.identity import NodeId, is_address
from tidings.protocols.overlay.lstree.caches import GlobalCache
from tidings.protocols.overlay.lstree.kinship import Kinship
from tidings.protocols.overlay.lstree.messages import ContactList, ContactPing, GlobalUpdate
from tidings.protocols.overlay.lstree.params import LsTreeParams

STORED = "contacts"
"""Under which name they are stored."""

FORMER_PROBES = 2
"""Contacts out of reach that are tried each time, and asked by a root."""

LOST_PROBES = 4
"""Of those who fell silent lately, asked by a root that looks for them."""

ROUND_TRIPS_MAX = 64
"""Brokers of which it is remembered how near they are."""

SAVE_WAIT = 2.0
"""Seconds between a change and its being stored; many come at once."""


class ContactExchange:
    def __init__(self, kin: Kinship, params: LsTreeParams, rng: RandomStream) -> None:
        self.kin, self.params, self.rng = kin, params, rng
        self.cache = GlobalCache(kin.node_id, params.contacts_kept, rng)
        self.pinged: dict[NodeId, Contact] = {}
        """Of whom an answer is awaited."""
        self.pinged_at: dict[NodeId, float] = {}
        """When each was asked that is linked."""
        self.round_trips: dict[NodeId, float] = {}
        """Seconds, of those that answered last."""
        self.is_saving = False

    def start(self, now: float) -> list[Effect]:
        self.pinged.clear()
        self.pinged_at.clear()
        self.is_saving = False
        if not self.params.has_global:
            return []
        first = SetTimer("gossip", now + self.rng.random() * self.params.gossip_period)
        return [first, Load(STORED)] if self.params.is_durable else [first]

    def learn(self, now: float, contacts: tuple[Contact, ...]) -> list[Effect]:
        return self.save_soon(now) if self.cache.add(contacts) else []

    # Passing on.

    def tell_all(self) -> GlobalUpdate:
        """The whole cache, and whoever is near as far as there is room."""
        near = [relative.contact for relative in self.kin.below.values()]
        if self.kin.above is not None:
            near.append(self.kin.above.contact)
        chosen = {contact.node: contact for contact in self.cache.entries.values()}
        for contact in self.rng.sample([*near, *self.kin.regional.siblings], CONTACTS_MAX):
            if len(chosen) < CONTACTS_MAX:
                chosen.setdefault(contact.node, contact)
        return GlobalUpdate(tuple(chosen.values()))

    def pass_on(self, but: NodeId = "") -> list[Effect]:
        others = [node for node in self.kin.neighbours if node != but]
        return [Send(node, self.tell_all()) for node in self.rng.sample(others, self.params.gossip_fanout)]

    def hear(self, now: float, sender: NodeId, contacts: tuple[Contact, ...]) -> list[Effect]:
        effects = self.learn(now, contacts)
        return effects + self.pass_on(sender) if self.rng.random() < self.params.gossip_again else effects

    def run_round(self, now: float) -> list[Effect]:
        effects = self.pass_on()
        self.cache.forget_former(now)
        self.forget_round_trips()
        for contact in self.probes(self.params.pings):
            if not self.kin.is_neighbour(contact.node):
                effects += self.ping(now, contact)
        if self.pinged:
            effects.append(SetTimer("pinged", now + self.params.request_timeout))
        return [*effects, SetTimer("gossip", now + self.params.gossip_period)]

    # Trying.

    def ping(self, now: float, contact: Contact) -> list[Effect]:
        if contact.node in self.pinged:
            return []
        self.pinged[contact.node] = contact
        effects = self.kin.want(contact)
        if contact.node in self.kin.peers:
            effects += self.peer_came(now, contact.node)
        return effects

    def peer_came(self, now: float, node: NodeId) -> list[Effect]:
        if node not in self.pinged:
            return []
        self.pinged_at[node] = now
        return [Send(node, ContactPing(self.kin.place.colour))]

    def measure(self, now: float, contacts: list[Contact]) -> list[Effect]:
        """How long each takes to answer. When the timer fires all have had their time."""
        effects = [effect for contact in contacts for effect in self.ping(now, contact)]
        return [*effects, SetTimer("pinged", now + self.params.request_timeout)]

    def forget_round_trips(self) -> None:
        """To those of whom we know no more than that."""
        known = self.cache.entries.keys() | self.kin.regional.names() | set(self.kin.neighbours)
        self.round_trips = {node: seconds for node, seconds in self.round_trips.items() if node in known}

    def answered(self, now: float, node: NodeId) -> list[Effect]:
        del self.pinged[node]
        took = now - self.pinged_at.pop(node)
        # What is too long passes, what is short is true: a broker that is busy answers late, and none answers early.
        before = self.round_trips.pop(node, took)
        self.round_trips[node] = min(took, (took + before) / 2)
        if len(self.round_trips) > ROUND_TRIPS_MAX:
            del self.round_trips[next(iter(self.round_trips))]
        return self.learn(now, (self.kin.peers[node],))

    def failed(self, now: float, contact: Contact) -> list[Effect]:
        """It does not answer."""
        self.pinged.pop(contact.node, None)
        self.pinged_at.pop(contact.node, None)
        self.round_trips.pop(contact.node, None)
        if self.kin.is_neighbour(contact.node):
            # Whether that one is gone is for its link to say.
            return []
        was_kept = contact.node in self.cache
        self.cache.silent(now, contact)
        return self.save_soon(now) if was_kept else []

    def probes(self, count: int, former: int = FORMER_PROBES) -> list[Contact]:
        """So many contacts, some of whom nothing was heard lately, and one of those of the beginning."""
        chosen = self.cache.draw(count) + self.cache.draw_former(former)
        chosen += self.rng.sample([Contact(name) for name in self.params.contacts if not is_address(name)], 1)
        others = {contact.node: contact for contact in reversed(chosen) if contact.node != self.kin.node_id}
        return list(reversed(others.values()))

    # Storing.

    def save_soon(self, now: float) -> list[Effect]:
        if not self.params.is_durable or self.is_saving:
            return []
        self.is_saving = True
        return [SetTimer("save", now + SAVE_WAIT)]

    def save(self) -> list[Effect]:
        """The cache, and those around us, who are the likeliest to be there again."""
        self.is_saving = False
        return [Save(STORED, msgspec.msgpack.encode(self.tell_all().contacts))]

    def loaded(self, data: bytes) -> tuple[Contact, ...]:
        try:
            return msgspec.msgpack.decode(data, type=ContactList)
        except msgspec.MsgspecError:
            return ()

    def check(self) -> None:
        assert len(self.cache.entries) <= self.params.contacts_kept, "more contacts than are kept"
        most = self.params.pings + self.params.merge_probes + 2 * (FORMER_PROBES + 1) + LOST_PROBES
        most += self.params.nearer_probes + 1 if self.params.is_near else 0
        assert len(self.pinged) <= most, "more contacts are tried than may be"
        assert self.pinged_at.keys() <= self.pinged.keys(), "an answer is timed that is not awaited"
        assert len(self.round_trips) <= ROUND_TRIPS_MAX, "more round trips than are remembered"
        assert self.kin.node_id not in self.cache, "a contact of itself"
