"""Whom a broker knows of its own group, and how that view is kept fresh (dependable.md 3.3.2, 3.3.3, algorithm 1).

Brokers at about the same depth of the tree are *siblings*. Each keeps a view of at most `size` of them, the most
similar ones that live, with the cycle in which each was last heard of and its vector. In every cycle it asks all of
them whether they are there, and tells those that answered whom it knows. Who does not answer is suspected: it goes out
of the view and into `failures`. News of failures and recoveries travels with the views; numbers of cycles, which run
ahead to the highest that is heard (as Lamport's clocks do), say which is newer.

The printed algorithm leaves cases open, and each is settled here as dependable.md 5.2 says:

    G-10  the second operand of the merge is the view of the sender
    G-11  `cycle` is the maximum of what was heard
    G-12  the sender's own vector comes with its view
    G-13  a stale failure does not undo a newer recovery; a newer failure removes the recovery
    G-14  we never record ourselves; whoever is said to be failed, and is us, is told as recovered
    G-15  recoveries are forgotten after `RECORDS_KEPT` cycles; so are failures, since nobody decommissions brokers here

Three more rules, since anybody may lie. Our own evidence counts more than what others say: a member that answered us
in the cycle that is named, or in the one before it, or has only just become one, is not evicted because somebody says
so; our next question decides. So a forged failure evicts nobody who lives, and a true one is believed at most one cycle
later. Who is told as a member, and recorded as failed, is asked too when it is its turn. And members that have answered
us give at most half of the places to those of whom one sender tells, until these have answered too: whoever invents
siblings that are just like us does not empty the view of real ones.

Guaranteed (GE-3): never ourselves, never more than `size`, nobody who is recorded as failed.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from tidings.machine.message import Contact
from tidings.model.bounds import CYCLE_AHEAD_MAX, FAILURES_TOLD_MAX, VERSION_MAX
from tidings.model.identity import NodeId
from tidings.protocols.gossip.failover.messages import SiblingMember, SiblingView
from tidings.protocols.gossip.failover.similarity import Vector

RECORDS_KEPT = 20
"""Cycles for which a failure or a recovery is told."""

Ranking = Callable[[Vector], int]


class SiblingViews:
    def __init__(self, own: NodeId, size: int, rank: Ranking) -> None:
        self.own, self.size, self.rank = own, size, rank
        self.cycle = 0
        self.begun = 0
        """Our last one. A number that was heard meanwhile is the one of our next: else each broker would count on from
        every other, and a cycle would be no span of time."""
        self.members: dict[NodeId, SiblingMember] = {}
        self.gone: dict[NodeId, Contact] = {}
        """Members that failed, while they are recorded so: one is asked again now and then."""
        self.failures: dict[NodeId, int] = {}
        self.recoveries: dict[NodeId, int] = {}
        self.heard: dict[NodeId, int] = {}
        """The cycle in which a member last answered us, or told us anything."""
        self.since: dict[NodeId, int] = {}
        """The cycle in which it became a member."""
        self.told_by: dict[NodeId, NodeId] = {}
        """Of whom we know a member that has not answered us yet."""

    def hear_cycle(self, cycle: int) -> bool:
        """False where nobody can have come so far."""
        if cycle > (self.cycle + CYCLE_AHEAD_MAX if self.cycle else VERSION_MAX):
            return False
        self.cycle = max(self.cycle, cycle)
        return True

    def introduce(self, contacts: Iterable[Contact]) -> None:
        """Brokers of our group, of which we know nothing else; as many as there is room for."""
        for contact in contacts:
            if len(self.members) >= self.size:
                return
            if contact.node not in (self.own, *self.members, *self.failures):
                self.members[contact.node] = SiblingMember(contact, 0, ())
                self.since[contact.node] = self.cycle

    def clear(self) -> None:
        """We are in another group now."""
        for table in (self.members, self.failures, self.gone, self.recoveries, self.heard, self.since, self.told_by):
            table.clear()

    def remove(self, node: NodeId) -> None:
        """It is alive, and no sibling of ours any more."""
        for table in (self.members, self.heard, self.since, self.told_by):
            table.pop(node, None)

    # A cycle.

    def begin_cycle(self) -> list[NodeId]:
        """Whom to ask."""
        self.cycle = self.begun = max(self.cycle, self.begun + 1)
        self.recoveries = {node: at for node, at in self.recoveries.items() if at > self.cycle - RECORDS_KEPT}
        self.failures = {node: at for node, at in self.failures.items() if at > self.cycle - RECORDS_KEPT}
        return list(self.members)

    def next_gone(self) -> Contact | None:
        """Who is asked again: the one whose turn was longest ago."""
        self.gone = {node: contact for node, contact in self.gone.items() if node in self.failures}
        if not self.gone:
            return None
        node = next(iter(self.gone))
        contact = self.gone[node] = self.gone.pop(node)
        return contact

    def answered(self, node: NodeId) -> None:
        if node in self.failures:
            del self.failures[node]
            self.recoveries[node] = self.cycle
            self.introduce([self.gone.get(node, Contact(node))])
        self.listen(node)

    def listen(self, node: NodeId) -> None:
        """It lives: it has just told us something."""
        if node in self.members:
            self.heard[node] = self.cycle
            self.told_by.pop(node, None)

    def finish_cycle(self, silent: Collection[NodeId]) -> list[NodeId]:
        """These did not answer; who of them was a member."""
        suspected = [node for node in self.members if node in silent]
        for node in suspected:
            self.suspect(node)
        for node, member in self.members.items():
            if self.heard.get(node) == self.cycle:
                self.members[node] = SiblingMember(member.contact, self.cycle, member.vector)
        return suspected

    def suspect(self, node: NodeId) -> None:
        if node in self.members:
            self.gone[node] = self.members[node].contact
        self.remove(node)
        self.failures[node] = self.cycle
        self.recoveries.pop(node, None)
        self.bound()

    def told_to(self, receiver: NodeId) -> tuple[SiblingMember, ...]:
        """Our view as that member is told it: without itself."""
        return tuple(member for node, member in self.members.items() if node != receiver)

    # Algorithm 1.

    def merge(self, sender: Contact, view: SiblingView) -> None:
        for node, at in view.failures:
            self.hear_failure(node, min(at, self.cycle))
        if sender.node in self.failures:
            del self.failures[sender.node]
            self.recoveries[sender.node] = self.cycle
        for node, at in view.recoveries:
            self.hear_recovery(node, min(at, self.cycle))
        told = [member for member in view.members if member.contact.node != self.own]
        for member in told:
            node, heard = member.contact.node, min(member.heard, self.cycle)
            if self.failures.get(node, heard) < heard:
                del self.failures[node]
                self.recoveries[node] = heard
            elif node in self.failures:
                self.gone.setdefault(node, member.contact)
        self.rebuild([*told, SiblingMember(sender, self.cycle, view.vector)], sender.node)
        self.listen(sender.node)
        self.bound()

    def hear_failure(self, node: NodeId, at: int) -> None:
        if node == self.own:
            self.recoveries[node] = self.cycle
            return
        known = max(self.heard.get(node, -2), self.since.get(node, -2))
        if self.recoveries.get(node, -1) >= at or known >= at - 1:
            return
        if node in self.members:
            self.gone[node] = self.members[node].contact
        self.failures[node] = max(self.failures.get(node, at), at)
        self.recoveries.pop(node, None)
        self.remove(node)

    def hear_recovery(self, node: NodeId, at: int) -> None:
        if node == self.own:
            return
        if self.failures.get(node, at + 1) <= at:
            del self.failures[node]
        self.recoveries[node] = max(self.recoveries.get(node, at), at)

    def rebuild(self, told: Iterable[SiblingMember], sender: NodeId | None = None) -> None:
        """The most similar of those that we had and that we were told of."""
        pool = dict(self.members)
        for member in told:
            node = member.contact.node
            known = pool.get(node)
            if known is None or known.heard < member.heard or not known.vector:
                address = member.contact.address or (known.contact.address if known is not None else "")
                heard = min(member.heard, self.cycle)
                pool[node] = SiblingMember(Contact(node, address), heard, member.vector)
            if known is None and sender is not None and node != sender:
                self.told_by[node] = sender
        living = [member for node, member in pool.items() if node != self.own and node not in self.failures]
        living.sort(key=lambda member: (-self.rank(member.vector), -member.heard, member.contact.node))
        chosen = self.choose(living)
        self.members = {member.contact.node: member for member in chosen}
        self.heard = {node: at for node, at in self.heard.items() if node in self.members}
        self.since = {node: self.since.get(node, self.cycle) for node in self.members}
        self.told_by = {node: teller for node, teller in self.told_by.items() if node in self.members}

    def choose(self, ranked: Sequence[SiblingMember]) -> list[SiblingMember]:
        """The first of these; but who has answered us gives way to no more than its share of what one sender tells."""
        first, answered = ranked[: self.size], [each for each in ranked[self.size :] if each.contact.node in self.heard]
        if not answered or not self.told_by:
            return list(first)
        share, told = max(1, self.size // 2), dict.fromkeys(self.told_by.values(), 0)
        kept: list[SiblingMember] = []
        beyond: list[SiblingMember] = []
        for member in first:
            teller = self.told_by.get(member.contact.node)
            if teller is not None:
                told[teller] += 1
            (beyond if teller is not None and told[teller] > share else kept).append(member)
        return kept + answered[: len(beyond)] + beyond[: max(0, len(beyond) - len(answered))]

    def resize(self, size: int) -> None:
        self.size = size
        self.rebuild(())

    def bound(self) -> None:
        """Of too many records the oldest go."""
        self.gone = {node: contact for node, contact in self.gone.items() if node in self.failures}
        for records in (self.failures, self.recoveries):
            if len(records) > FAILURES_TOLD_MAX:
                kept = sorted(records, key=lambda node: (-records[node], node))[:FAILURES_TOLD_MAX]
                for node in [node for node in records if node not in set(kept)]:
                    del records[node]

    def check(self) -> None:
        assert len(self.members) <= self.size, "GE-3: the view is larger than its bound"
        assert self.own not in self.members and self.own not in self.failures, "GE-3: knows itself"
        assert not self.members.keys() & self.failures.keys(), "GE-3: somebody who failed is a member"
        assert len(self.failures) <= FAILURES_TOLD_MAX and len(self.recoveries) <= FAILURES_TOLD_MAX
        assert self.heard.keys() <= self.members.keys() and self.told_by.keys() <= self.members.keys()
        assert self.since.keys() == self.members.keys()
