"""Links off the tree: to whom they are kept, and what waits for one.

Members of views are linked for as long as they are members, so that an event can leave at once. To others a link is
asked for when something is to be sent, and let go when it has not been used for a while. Nothing here is sent again,
and what waits for a link that does not come is dropped and said to be.

A link that the tree has come to use is kept while the tree does: to let go of it would cut the tree.
"""

from collections.abc import Iterable

from tidings.machine.effects import Drop, Effect, Send
from tidings.machine.message import Contact, Message
from tidings.model.identity import NodeId
from tidings.pubsub.signals import LinkUnwanted, LinkWanted

USER = "failover"
"""Under which name access is asked for links."""

NOT_LINKED = "there is no link to the broker that could have brought it around"
NO_ROOM = "too much waits for a link to this broker"


class SideLinks:
    def __init__(self, waiting_max: int) -> None:
        self.waiting_max = waiting_max
        self.peers: dict[NodeId, str] = {}
        """Who is linked, and where each listens."""
        self.neighbours: dict[NodeId, None] = {}
        """Those of the tree."""
        self.wanted: dict[NodeId, None] = {}
        self.kept: dict[NodeId, None] = {}
        """Those that are members of views."""
        self.waiting: dict[NodeId, list[Message]] = {}
        self.used: dict[NodeId, int] = {}
        """Links that are wanted for a while, with the cycle in which each was used last."""

    def contact(self, node: NodeId) -> Contact:
        return Contact(node, self.peers.get(node, ""))

    def came(self, node: NodeId, address: str) -> list[Effect]:
        self.peers[node] = address
        return [Send(node, message) for message in self.waiting.pop(node, ())]

    def went(self, node: NodeId) -> None:
        self.peers.pop(node, None)

    def failed(self, node: NodeId) -> list[Effect]:
        """It did not come."""
        effects: list[Effect] = [Drop(message, NOT_LINKED) for message in self.waiting.pop(node, ())]
        return effects + (self.unwant(node) if node not in self.kept else [])

    def send(self, cycle: int, contact: Contact, message: Message) -> list[Effect]:
        node = contact.node
        if node not in self.kept and node not in self.neighbours:
            self.used[node] = cycle
        if node in self.peers:
            return [Send(node, message)]
        waiting = self.waiting.setdefault(node, [])
        if len(waiting) >= self.waiting_max:
            return [Drop(message, NO_ROOM)]
        waiting.append(message)
        return self.want(contact)

    def want(self, contact: Contact) -> list[Effect]:
        if contact.node in self.wanted:
            return []
        self.wanted[contact.node] = None
        return [LinkWanted(contact, USER)]

    def unwant(self, node: NodeId) -> list[Effect]:
        self.used.pop(node, None)
        if node not in self.wanted or node in self.neighbours:
            return []
        del self.wanted[node]
        dropped: list[Effect] = [Drop(message, NOT_LINKED) for message in self.waiting.pop(node, ())]
        return [*dropped, LinkUnwanted(node, USER)]

    def keep(self, cycle: int, contacts: Iterable[Contact], idle: int) -> list[Effect]:
        """These are the members of views; who was one is linked for a little longer, in case that it is again."""
        kept = {contact.node: contact for contact in contacts}
        effects: list[Effect] = []
        for node in self.kept:
            if node not in kept:
                self.used[node] = cycle
        self.kept = dict.fromkeys(kept)
        for node, contact in kept.items():
            self.used.pop(node, None)
            effects += self.want(contact)
        for node in [node for node, used in self.used.items() if used <= cycle - idle]:
            effects += self.unwant(node)
        for node in [node for node in self.wanted if node not in self.kept and node not in self.used]:
            effects += self.unwant(node)
        return effects

    def restart(self) -> list[Effect]:
        """Nothing is linked; what is wanted is asked for again by whoever needs it."""
        effects: list[Effect] = [LinkUnwanted(node, USER) for node in self.wanted]
        effects += [Drop(message, NOT_LINKED) for messages in self.waiting.values() for message in messages]
        for table in (self.peers, self.neighbours, self.wanted, self.kept, self.waiting, self.used):
            table.clear()
        return effects

    def check(self) -> None:
        assert self.kept.keys() <= self.wanted.keys(), "a member to whom no link is wanted"
        assert self.waiting.keys() <= self.wanted.keys() and not self.waiting.keys() & self.peers.keys()
        assert all(len(messages) <= self.waiting_max for messages in self.waiting.values())
