"""lpbcast: telling everybody in a group, of whom each knows a few.

The problem. Brokers that want the same are to tell each other what comes, without a tree, and without anybody who knows
all of them.

The idea. Each member knows some others, its *view*. Every `interval` seconds it tells `fanout` of them, drawn at
random, four things: what it heard since the last round, the numbers of all it has heard (the *digest*), some members it
knows of, itself among them, and some that left. Who hears that passes on what is new to it in its next round, asks for
what the digest names and it lacks, and mixes the members into its view, of which too many give way at random. So views
are random samples without anybody drawing them, and what is said reaches all in a number of rounds that grows with the
logarithm of the group.

Whoever is in few views is told seldom, and a member that everybody tells, as the source at first, knows only those it
heard of last. So telling alone leaves some out for long. But each tells others, itself: whoever hears from somebody who
lacks what has gone around for `answered_after` rounds answers with what it knows, once in a round, and is asked for the
rest. (Not in the source, where in a group of 150 one or two in a hundred heard nothing in thirty rounds.)

A member that leaves says so, and whoever hears it forgets it. If it comes back it has a higher *incarnation*, so that
old news of its leaving does not throw it out.

What is said are the publications of one publisher under one advertisement, named by their numbers.

State. `view`; `said`, to be told in the next round; `heard`, the numbers (below `floor` all count as heard); `kept`,
the last publications, for those who ask; `known` members and those that `left`. All of them are bounded.

This is a piece of a machine: `groups.py` has one for each group, and sends what it says.

Guaranteed: the view is no longer than `view_max` and never has the member itself. A publication is heard once. What is
said reaches every member with a probability that grows to one with the rounds, as long as somebody who keeps it is
heard by the others. Not guaranteed: order.

Source: Eugster and others, "Lightweight Probabilistic Broadcast" (2003); PopSub 2.2 and 5.4.3, specification 3.2.
"""

import math
from collections.abc import Iterable
from random import Random
from typing import Annotated, NamedTuple

import msgspec

from tidings.machine.message import Contact, Count, Message, Name
from tidings.model.bounds import GROUP_DIGEST_MAX, GROUP_MEMBERS_MAX, INTEGER_MAX
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.pubsub.gathered import GatheredPublications, taken_apart
from tidings.pubsub.publications import Head, Payload, Publications, pieces


class Member(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    contact: Contact
    incarnation: Count


Members = Annotated[tuple[Member, ...], msgspec.Meta(max_length=GROUP_MEMBERS_MAX)]
Leavers = Annotated[tuple[tuple[Name, Count], ...], msgspec.Meta(max_length=GROUP_MEMBERS_MAX)]
Digest = Annotated[tuple[Count, ...], msgspec.Meta(max_length=GROUP_DIGEST_MAX)]


class GroupGossip(Message, frozen=True):
    """What a member tells in a round."""

    group: Name
    members: Members
    left: Leavers
    """Names, and the incarnation that left."""
    digest: Digest
    said: Annotated[tuple[GatheredPublications, ...], msgspec.Meta(max_length=1)]
    floor: Count = 0
    """Numbers up to it count as heard."""


class GroupPull(Message, frozen=True):
    """I lack these."""

    group: Name
    numbers: Digest


class GroupPush(Message, frozen=True):
    """Here they are, as far as I have them."""

    group: Name
    said: GatheredPublications


class LpbcastParams(msgspec.Struct, frozen=True, kw_only=True):
    interval: float = 1.0
    """Seconds between two rounds. The source takes 10."""
    fanout: int = 2
    """Members that are told in a round."""
    linger_rounds: int = 6
    """Rounds for which a member stays when it has no reason to any more; the source stays twice as long."""
    answered_after: int = 2
    """Rounds after which everybody should have heard what was said; who lacks it, and says so, is answered."""
    answers_max: int = 10
    """Members that are answered between two rounds."""
    redirected_max: int = 500
    """Further ones that are told who else is there, and nothing of what was said: whoever all turn to, as the source at
    first, would otherwise bring it to all."""
    view_max: int = 10
    known_max: int = 30
    """Members that are told of in a round, and as many that left."""
    said_max: int = 500
    """Publications that wait for the next round; beyond it the oldest are left to those who ask."""
    heard_max: int = 5000
    """Numbers that are remembered; the lowest go first, and count as heard."""
    kept_max: int = 1000
    kept_bytes_max: int = 1024 * 1024
    """Publications that are kept for those who ask."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.interval) and self.interval > 0):
            raise UsageError(f"interval: {self.interval} is no span of time; give seconds above 0")
        for name in (
            "fanout",
            "linger_rounds",
            "answered_after",
            "answers_max",
            "redirected_max",
            "view_max",
            "known_max",
            "said_max",
            "heard_max",
            "kept_max",
            "kept_bytes_max",
        ):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: {getattr(self, name)} leaves no room; give at least 1")
        if self.known_max >= GROUP_MEMBERS_MAX:
            raise UsageError(
                f"known_max: {self.known_max} members do not fit a message; at most {GROUP_MEMBERS_MAX - 1}"
            )
        if self.fanout > self.view_max:
            raise UsageError(f"fanout: {self.fanout} is more than the view of {self.view_max}")


class KeptPublication(NamedTuple):
    accepted_at: float
    head: Head
    payload: Payload

    @property
    def size_bytes(self) -> int:
        return len(self.head) + len(self.payload)


class Lpbcast:
    """One member: `Lpbcast("g", "p", Contact("a"), 1, LpbcastParams(), rng)` of the group g for a publisher p. What is
    below `floor` was not said to this group, or long ago. `source`, who says everything first, stays in the view."""

    def __init__(
        self,
        group: str,
        publisher: str,
        own: Contact,
        incarnation: int,
        params: LpbcastParams,
        rng: Random,
        floor: int = 0,
        source: NodeId = "",
    ) -> None:
        self.group, self.publisher, self.own, self.params, self.rng = group, publisher, own, params, rng
        self.incarnation, self.source = incarnation, source
        self.view: dict[NodeId, Member] = {}
        self.known: dict[NodeId, Member] = {}
        self.left: dict[NodeId, int] = {}
        self.said: dict[int, None] = {}
        self.heard: dict[int, int] = {}
        """Numbers, and the round in which each was heard."""
        self.rounds = 0
        self.answered: dict[NodeId, None] = {}
        """In this round."""
        self.floor = floor
        self.kept: dict[int, KeptPublication] = {}
        self.kept_bytes = 0

    # Members.

    def meet(self, contacts: Iterable[Contact]) -> None:
        """Others that are in the group, as somebody says from outside of it."""
        self.learn(Member(contact, 0) for contact in contacts)

    def learn(self, members: Iterable[Member]) -> None:
        for member in members:
            node = member.contact.node
            if node == self.own.node or self.left.get(node, -1) >= member.incarnation > 0:
                continue
            self.left.pop(node, None)
            for those in (self.view, self.known):
                if node not in those or those[node].incarnation <= member.incarnation:
                    those[node] = member
        self.crowd_out(self.view, self.params.view_max)
        self.crowd_out(self.known, self.params.known_max)

    def forget(self, leavers: Iterable[tuple[NodeId, int]]) -> None:
        for node, incarnation in leavers:
            if node == self.own.node:
                continue
            known = self.view.get(node) or self.known.get(node)
            if known is not None and known.incarnation > incarnation:
                continue
            self.view.pop(node, None)
            self.known.pop(node, None)
            self.left[node] = max(incarnation, self.left.get(node, 0))
        while len(self.left) > self.params.known_max:
            del self.left[self.rng.choice(list(self.left))]

    def lose(self, node: NodeId) -> None:
        """It does not answer; others may tell of it again."""
        self.view.pop(node, None)

    def crowd_out(self, members: dict[NodeId, Member], most: int) -> None:
        while len(members) > most:
            del members[self.rng.choice([node for node in members if node != self.source] or list(members))]

    # What is said.

    def say(self, batch: Publications) -> list[Publications]:
        """Told in the next round; what of it was not heard before."""
        return self.hear_batches([batch])

    def hear_batches(self, batches: Iterable[Publications]) -> list[Publications]:
        new: list[Publications] = []
        for batch in batches:
            for place, number in enumerate(batch.numbers):
                if number <= self.floor or number in self.heard:
                    continue
                kept = KeptPublication(batch.accepted_at, batch.heads[place], batch.payloads[place])
                self.heard[number], self.said[number] = self.rounds, None
                self.kept[number] = kept
                self.kept_bytes += kept.size_bytes
                new.append(self.batch_of([number]).batch)
        self.keep_bounds()
        return new

    def keep_bounds(self) -> None:
        params = self.params
        if len(self.heard) > params.heard_max:
            numbers = sorted(self.heard)
            surplus = len(numbers) - params.heard_max
            self.floor = max(self.floor, numbers[surplus - 1])
            for number in numbers[:surplus]:
                del self.heard[number]
        while len(self.kept) > params.kept_max or self.kept_bytes > params.kept_bytes_max:
            oldest = next(iter(self.kept))
            self.kept_bytes -= self.kept.pop(oldest).size_bytes
            self.said.pop(oldest, None)
        while len(self.said) > params.said_max:
            del self.said[next(iter(self.said))]

    def batch_of(self, numbers: Iterable[int]) -> GatheredPublications:
        rows = [(number, self.kept[number]) for number in sorted(numbers)]
        times = tuple(kept.accepted_at for _, kept in rows)
        batch = Publications(
            self.publisher,
            self.group,
            max(times),
            0,
            tuple(number for number, _ in rows),
            tuple(kept.head for _, kept in rows),
            tuple(kept.payload for _, kept in rows),
        )
        return GatheredPublications(batch, times)

    def parts_of(self, numbers: Iterable[int]) -> list[GatheredPublications]:
        """In as few messages as their bounds allow."""
        ordered = sorted(numbers)
        sizes = [2 * self.kept[number].size_bytes for number in ordered]
        return [self.batch_of(ordered[part]) for part in pieces(sizes)]

    def digest(self) -> tuple[int, ...]:
        return tuple(sorted(self.heard)[-GROUP_DIGEST_MAX:])

    def gossip(self, said: tuple[GatheredPublications, ...] = ()) -> GroupGossip:
        members = (Member(self.own, self.incarnation), *self.known.values())
        return GroupGossip(self.group, members, tuple(self.left.items()), self.digest(), said, self.floor)

    # Rounds.

    def round(self, reached: Iterable[NodeId]) -> list[tuple[NodeId, GroupGossip]]:
        """What is told to whom; `reached` are those that can be told."""
        self.rounds += 1
        self.answered.clear()
        there = set(reached)
        targets = [node for node in self.view if node in there]
        chosen = self.rng.sample(targets, min(self.params.fanout, len(targets)))
        if not chosen:
            return []
        said = self.parts_of(self.said)
        self.said.clear()
        messages = [self.gossip((part,)) for part in said] or [self.gossip()]
        return [(node, message) for node in chosen for message in messages]

    def leave(self) -> GroupGossip:
        """The last word."""
        left = ((self.own.node, self.incarnation), *list(self.left.items())[: self.params.known_max])
        return GroupGossip(self.group, tuple(self.known.values()), left, self.digest(), (), self.floor)

    def hear(self, gossip: GroupGossip) -> tuple[list[Publications], GroupPull | None]:
        """What is new, and what to ask the sender for."""
        self.forget(gossip.left)
        self.learn(gossip.members)
        new = self.take(gossip.said)
        missing = tuple(
            number for number in dict.fromkeys(gossip.digest) if number > self.floor and number not in self.heard
        )
        return new, GroupPull(self.group, missing) if missing else None

    def answer(self, sender: NodeId, gossip: GroupGossip) -> GroupGossip | None:
        """What we know, for a member that lacks what went around long ago."""
        answers_max, is_leaving = self.params.answers_max, any(node == sender for node, _ in gossip.left)
        if is_leaving or sender in self.answered or len(self.answered) >= answers_max + self.params.redirected_max:
            return None
        digest = set(gossip.digest)
        # What is below a digest that is full may be in it or not.
        floor = max(gossip.floor, min(digest) if len(digest) >= GROUP_DIGEST_MAX else 0)
        since = self.rounds - self.params.answered_after
        heard = self.heard
        if not any(floor < number in heard and number not in digest and heard[number] <= since for number in self.kept):
            return None
        self.answered[sender] = None
        answer = self.gossip()
        return answer if len(self.answered) <= answers_max else msgspec.structs.replace(answer, digest=())

    def take(self, said: Iterable[GatheredPublications]) -> list[Publications]:
        """Of those that are about this group."""
        ours = [
            each for each in said if (each.batch.advertisement, each.batch.publisher) == (self.group, self.publisher)
        ]
        return self.hear_batches(part for each in ours for part in taken_apart(each))

    def give(self, pull: GroupPull) -> list[GroupPush]:
        asked = [number for number in dict.fromkeys(pull.numbers) if number in self.kept]
        return [GroupPush(self.group, part) for part in self.parts_of(asked)]

    def check(self) -> None:
        params = self.params
        assert len(self.view) <= params.view_max and self.own.node not in self.view, "the view is too long, or has us"
        assert len(self.known) <= params.known_max >= len(self.left) and self.own.node not in self.known
        assert len(self.said) <= params.said_max and len(self.heard) <= params.heard_max
        assert len(self.answered) <= params.answers_max + params.redirected_max
        assert self.said.keys() <= self.kept.keys() and len(self.kept) <= params.kept_max
        assert self.kept_bytes == sum(kept.size_bytes for kept in self.kept.values()) <= params.kept_bytes_max
        assert all(self.floor < number <= INTEGER_MAX for number in self.heard)
