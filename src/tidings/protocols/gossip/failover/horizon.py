"""What a broker knows of the tree around it: its own place, and the brokers of the levels above and below.

It comes from the reports of the broker above and of those below (`levels.py`), and from three other sources where these
are silent. What a broker below told last that has failed is kept for a while, for nobody knows better who is similar to
it; so is what the one above told, until another one is there. Members of a view answer for their level where nobody
reports (`fallback`). And a newcomer knows at first only those of whom the one above told it (`introduced`).
"""

from collections.abc import Mapping, Sequence

import msgspec

from tidings.machine.message import Contact
from tidings.model.bounds import VIEW_MEMBERS_MAX
from tidings.model.identity import NodeId
from tidings.protocols.gossip.failover.levels import (
    NOTHING,
    choose_level,
    group_of,
    merge_reports,
    most_similar,
    names_beyond,
)
from tidings.protocols.gossip.failover.links import SideLinks
from tidings.protocols.gossip.failover.messages import (
    GossipPublications,
    LevelMember,
    LevelReport,
    LevelView,
    ViewAnswer,
)
from tidings.protocols.gossip.failover.params import FailoverParams

LOST_CYCLES = 15
"""For which it is remembered what a neighbour told that was lost."""


class HorizonPlace(msgspec.Struct, frozen=True):
    above: NodeId | None
    depth: int


class TreeHorizon:
    def __init__(self, own: NodeId, params: FailoverParams, links: SideLinks) -> None:
        self.own, self.params, self.links = own, params, links
        self.place: HorizonPlace | None = None
        self.reports: dict[NodeId, LevelReport] = {}
        """Of neighbours, of those that were lost lately, and of the one above until there is another."""
        self.lost: dict[NodeId, int] = {}
        """Neighbours that were lost, and in which cycle."""
        self.beside: tuple[Contact, ...] = ()
        """The others below the broker above, as it said last."""
        self.fallback: dict[bool, tuple[LevelMember, ...]] = {}
        """Views of the groups below and above ours, put together from what their members answered."""
        self.answers: dict[bool, list[tuple[LevelMember, ...]]] = {}
        self.introduced: dict[int, tuple[Contact, ...]] = {}
        """By depth: of whom we were told, for want of better."""
        self.known: dict[bool, list[LevelView]] = {}
        """What follows from all that, until it changes."""

    # Where we are.

    @property
    def depth(self) -> int:
        return 0 if self.place is None else self.place.depth

    @property
    def group(self) -> int:
        return group_of(self.depth, self.params.merged_levels)

    def is_above(self, node: NodeId) -> bool:
        return self.place is not None and self.place.above == node

    @property
    def below(self) -> list[NodeId]:
        return [node for node in self.links.neighbours if not self.is_above(node)]

    def depth_below(self, above: NodeId | None, told: int | None) -> int:
        """How deep we are, where the overlay says so, or else where the one above says how deep it is."""
        if above is None or told is not None:
            return told or 0
        return self.reports[above].depth + 1 if above in self.reports else self.depth

    def move(self, place: HorizonPlace) -> bool:
        """Whether the group is another one."""
        group, self.place = self.group, place
        self.known.clear()
        near = range(place.depth - self.params.levels, place.depth + self.params.levels + 1)
        self.introduced = {depth: contacts for depth, contacts in self.introduced.items() if depth in near}
        if group == self.group:
            return False
        self.fallback.clear()
        return True

    def candidates(self) -> list[Contact]:
        """Brokers of our group of whom we were told, the nearest level first."""
        merged = self.params.merged_levels
        depths = sorted(self.introduced, key=lambda depth: (abs(depth - self.depth), depth))
        return [each for depth in depths if group_of(depth, merged) == self.group for each in self.introduced[depth]]

    # Neighbours.

    def came(self, node: NodeId) -> None:
        self.lost.pop(node, None)
        self.known.clear()

    def went(self, node: NodeId, cycle: int) -> None:
        self.lost[node] = cycle
        self.known.clear()

    def hear_report(self, sender: NodeId, report: LevelReport) -> None:
        self.reports.pop(sender, None)
        self.reports[sender] = report
        self.known.clear()

    def hear_introductions(self, report: LevelReport) -> None:
        """Of the broker above."""
        if report.introduced:
            beside, *levels = report.introduced
            self.beside = tuple(contact for contact in beside if contact.node != self.own)
            for place, contacts in enumerate(levels[: self.params.levels]):
                named = tuple(contact for contact in contacts if contact.node != self.own)
                self.introduced[self.depth + place] = named
        self.introduced[self.depth] = (*self.beside, *self.introduced.get(self.depth, ()))[:VIEW_MEMBERS_MAX]

    def hear_answer(self, sender: NodeId, answer: ViewAnswer) -> bool:
        """Whether it is one of those who were asked."""
        for is_down in (True, False):
            if any(sender == member.contact.node for member in self.view_of(is_down)):
                # Whoever answers is of that level itself.
                own = LevelMember(self.links.contact(sender), 0)
                self.answers.setdefault(is_down, []).append((own, *answer.members))
                return abs(answer.group - self.group) <= 1
        return False

    def take_answers(self) -> None:
        for is_down, answered in self.answers.items():
            self.fallback[is_down] = most_similar(answered, self.params.level_members)
        self.answers = {}
        self.known.clear()

    def is_told_of(self, is_down: bool) -> bool:
        """Whether a neighbour tells us of the levels on that side."""
        return any(node in self.links.neighbours and self.is_above(node) != is_down for node in self.reports)

    def forget_lost(self, cycle: int) -> None:
        """Neighbours that are lost for so long that they do not come back."""
        over = [node for node, at in self.lost.items() if at <= cycle - LOST_CYCLES]
        over += list(self.lost)[: max(0, len(self.lost) - VIEW_MEMBERS_MAX)]
        for node in over:
            self.lost.pop(node, None)
        kept = {*self.links.neighbours, *self.lost}
        for node in [node for node in self.reports if node not in kept and not self.is_above(node)]:
            del self.reports[node]

    # Views of other levels.

    def levels_beyond(self, is_down: bool) -> list[LevelView]:
        """Level by level: those of the brokers below, or of the one above."""
        known = self.known.get(is_down)
        if known is None:
            known = self.known[is_down] = self.find_levels(is_down)
        return known

    def find_levels(self, is_down: bool) -> list[LevelView]:
        # What those below told who have failed is the best that is known of brokers that are similar to them.
        told = [
            self.reports[node] for node in self.reports if self.is_above(node) != is_down and self.counts(node, is_down)
        ]
        levels = merge_reports(told, self.params.level_members, self.params.levels)
        first = levels[0] if levels else NOTHING
        if not first.members and (answered := self.fallback.get(is_down)):
            first = LevelView(first.names, answered, first.failures)
            levels = [first, *levels[1:]]
        elif not first.members and not is_down and self.place is not None and self.place.above in self.reports:
            # It failed, and what it told last is the best we have.
            levels = merge_reports([self.reports[self.place.above]], self.params.level_members, self.params.levels)
        return levels

    def counts(self, node: NodeId, is_down: bool) -> bool:
        return node in self.links.neighbours or (is_down and node in self.lost)

    def view_of(self, is_down: bool) -> tuple[LevelMember, ...]:
        levels = self.levels_beyond(is_down)
        members = levels[0].members if levels else ()
        if not members and is_down:
            known = self.introduced.get(self.depth + 1, ())
            members = tuple(LevelMember(contact, 0) for contact in known[: self.params.level_members])
        return tuple(member for member in members if member.contact.node != self.own)

    def recipients(self, is_down: bool) -> list[Contact]:
        """Who is told of what cannot go over a neighbour."""
        chosen = {member.contact.node: member.contact for member in self.view_of(is_down)}
        if not is_down:
            chosen |= {contact.node: contact for contact in self.beside if contact.node not in chosen}
        return list(chosen.values())

    def beyond(self, failed: NodeId) -> tuple[tuple[NodeId, ...], ...]:
        """Those behind a neighbour that failed, level by level."""
        return names_beyond(self.reports.get(failed))

    def onward(self, message: GossipPublications, failures: Mapping[NodeId, int]) -> list[Contact]:
        """To whom we tell on what somebody told us."""
        levels = self.levels_beyond(message.is_down)
        place = choose_level(message.beyond, levels, failures, self.params.skip) if levels else 0
        members = levels[place].members if levels else ()
        if not place:
            members = self.view_of(message.is_down)
        return [member.contact for member in members]

    def introductions(self, node: NodeId, down: Sequence[LevelView]) -> tuple[tuple[Contact, ...], ...]:
        """For a broker below: who is beside it, and then of its level and of those further down whom we know."""
        beside = [self.links.contact(other) for other in self.below if other != node]
        levels = [[member.contact for member in level.members] for level in down]
        for place in range(self.params.levels):
            known = self.introduced.get(self.depth + 1 + place, ())
            if place < len(levels):
                levels[place] += known
            elif known:
                levels += [[] for _ in range(place - len(levels))] + [list(known)]
        told = [tuple(beside[:VIEW_MEMBERS_MAX])]
        for contacts in levels[: self.params.levels]:
            named = {contact.node: contact for contact in contacts if contact.node != node}
            told.append(tuple(list(named.values())[: self.params.siblings]))
        return tuple(told)

    def check(self) -> None:
        assert all(len(contacts) <= VIEW_MEMBERS_MAX for contacts in self.introduced.values())
        assert len(self.introduced) <= 3 * self.params.levels + 3
