"""Groups: brokers that want what is published under an advertisement, and tell it each other.

Routing says which groups this broker is in, and what its clients publish there (`GroupJoined`, `GroupLeft`,
`GroupSaid`); each group is one lpbcast (`lpbcast.py`). What is heard in one is told to routing (`GroupHeard`), which
delivers it to the clients here that want it: a group tells all to all, wanted or not.

Links to members are made on demand (`LinkWanted`) and kept while a member is in a view. Only who is linked is told.
Views change with every message, and links follow once in a round: in a large group every new link would else be an
occasion to tell somebody, which changes views again.

A broker that joins tells those it knows at once, up to the first that is linked, and is told what it lacks; so it does
not wait for a round.

Messages: `GroupGossip`, `GroupPull`, `GroupPush`; they come from anybody, and what is not about a group that this
broker is in is dropped. Timer: ("round", group).

Bounds: `GROUPS_MAX` groups, and those of each. A link that is refused is not asked for again; the member is out of the
view then.
"""

from collections.abc import Callable, Iterable, Sequence
from random import Random

from tidings.machine.effects import CancelTimer, Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.machine.message import Contact
from tidings.machine.streams import random_stream
from tidings.model.bounds import GROUPS_MAX
from tidings.model.identity import NodeId
from tidings.protocols.gossip.lpbcast import GroupGossip, GroupPull, GroupPush, Lpbcast, LpbcastParams
from tidings.pubsub.publications import Publications
from tidings.pubsub.signals import (
    AdvertisementId,
    GroupHeard,
    GroupJoined,
    GroupLeft,
    GroupSaid,
    GroupViewed,
    LinkFailed,
    LinkUnwanted,
    LinkWanted,
    PeerDown,
    PeerUp,
)

ROUND = "round"
USER = "group"
NOT_IN_GROUP = "of a group that this broker is not in"
TOO_MANY_GROUPS = "this broker is in as many groups as it may be"


class GossipGroups:
    """`GossipGroups("a", LpbcastParams(), rng)`; `address()` is where this broker listens."""

    messages: tuple[type, ...] = (GroupGossip, GroupPull, GroupPush)
    hears: tuple[type, ...] = (GroupJoined, GroupLeft, GroupSaid, PeerUp, PeerDown, LinkFailed)
    tells: tuple[type[Signal], ...] = (GroupHeard, GroupViewed, LinkWanted, LinkUnwanted)

    def __init__(
        self, node_id: NodeId, params: LpbcastParams, rng: Random, address: Callable[[], str] = lambda: ""
    ) -> None:
        self.node_id, self.params, self.address = node_id, params, address
        self.rng = random_stream(rng.getrandbits(64), "groups")
        self.groups: dict[AdvertisementId, Lpbcast] = {}
        self.peers: dict[NodeId, None] = {}
        self.wanted: dict[NodeId, None] = {}
        """Links that we asked for."""
        self.leaving: dict[AdvertisementId, int] = {}
        """Groups that we are about to leave, and the rounds that are left: what was told before is still on its way."""
        self.introduced: dict[AdvertisementId, None] = {}
        """Groups in which somebody was told that we are there."""
        self.incarnation = 0
        self.heard = 0
        """Publications."""

    def start(self, now: float) -> list[Effect]:
        # Routing joins anew.
        self.groups.clear()
        self.leaving.clear()
        self.introduced.clear()
        self.peers.clear()
        self.wanted.clear()
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(sender, (GroupGossip() | GroupPull() | GroupPush()) as message):
                return self.receive(now, sender, message)
            case GroupSaid(batch):
                return self.say(batch)
            case Fired((kind, str(name))) if kind == ROUND and name in self.groups:
                return self.go_round(now, self.groups[name])
            case GroupJoined():
                return self.join(now, input)
            case GroupLeft(advertisement) if advertisement in self.groups:
                # Who says everything first is the last to go.
                rounds = self.params.linger_rounds * (2 if self.is_source(advertisement) else 1)
                self.leaving.setdefault(advertisement, rounds)
            case PeerUp(broker):
                return self.peer_up(broker)
            case PeerDown(broker):
                self.peers.pop(broker, None)
                return self.link()
            case LinkFailed(broker, _, is_refused) if is_refused and broker in self.wanted:
                del self.wanted[broker]
                for group in self.groups.values():
                    group.lose(broker)
        return []

    # Coming and going.

    def join(self, now: float, joined: GroupJoined) -> list[Effect]:
        group = self.groups.get(joined.advertisement)
        self.leaving.pop(joined.advertisement, None)
        effects: list[Effect] = []
        if group is None:
            if len(self.groups) >= GROUPS_MAX:
                return [Drop(joined, TOO_MANY_GROUPS)]
            # Higher than in any life before, as long as the clock goes on.
            self.incarnation = max(self.incarnation + 1, int(now * 1000))
            group = Lpbcast(
                group=joined.advertisement,
                publisher=joined.publisher,
                own=Contact(self.node_id, self.address()),
                incarnation=self.incarnation,
                params=self.params,
                rng=self.rng,
                floor=joined.through,
                source=source_of(joined.advertisement),
            )
            self.groups[joined.advertisement] = group
            at = now + self.params.interval * self.rng.uniform(0.5, 1.0)
            effects.append(SetTimer((ROUND, joined.advertisement), at))
        group.meet(joined.members)
        told = self.introduce([group], [each.node for each in joined.members if each.node in self.peers])
        return [*effects, *self.link(), *told, self.viewed(group)]

    def is_source(self, advertisement: AdvertisementId) -> bool:
        return source_of(advertisement) == self.node_id

    def leave(self, advertisement: AdvertisementId) -> list[Effect]:
        group = self.groups.pop(advertisement)
        self.leaving.pop(advertisement, None)
        self.introduced.pop(advertisement, None)
        last = group.leave()
        told = [Send(node, last) for node in list(group.view)[: self.params.fanout] if node in self.peers]
        return [CancelTimer((ROUND, advertisement)), *told, *self.link()]

    def link(self) -> list[Effect]:
        """Links to all members in a view, and to nobody else; one that is there already is others' concern."""
        contacts = {node: member.contact for group in self.groups.values() for node, member in group.view.items()}
        effects: list[Effect] = []
        for node in [node for node in self.wanted if node not in contacts]:
            del self.wanted[node]
            effects.append(LinkUnwanted(node, USER))
        for node, contact in contacts.items():
            if node not in self.wanted and node not in self.peers:
                self.wanted[node] = None
                effects.append(LinkWanted(contact, USER))
        return effects

    def peer_up(self, broker: NodeId) -> list[Effect]:
        """Whoever has waited for it is introduced at once."""
        self.peers[broker] = None
        mine = [group for group in self.groups.values() if broker in group.view and group.group not in self.introduced]
        return self.introduce(mine, [broker])

    def introduce(self, groups: Iterable[Lpbcast], brokers: Sequence[NodeId]) -> list[Effect]:
        told: list[Effect] = []
        for group in groups:
            told += [Send(broker, group.gossip()) for broker in brokers]
            if brokers:
                self.introduced[group.group] = None
        return told

    def viewed(self, group: Lpbcast) -> GroupViewed:
        others = tuple(member.contact for member in group.view.values())
        return GroupViewed(group.group, (group.own, *others))

    # What is said.

    def say(self, batch: Publications) -> list[Effect]:
        group = self.groups.get(batch.advertisement)
        if group is None:
            return [Drop(batch, NOT_IN_GROUP)]
        group.say(batch)
        return []

    def go_round(self, now: float, group: Lpbcast) -> list[Effect]:
        told: list[Effect] = [Send(node, gossip) for node, gossip in group.round(self.peers)]
        if group.group in self.leaving:
            self.leaving[group.group] -= 1
            if self.leaving[group.group] <= 0:
                return [*told, *self.leave(group.group)]
        return [*told, *self.link(), SetTimer((ROUND, group.group), now + self.params.interval)]

    def receive(self, now: float, sender: NodeId, message: GroupGossip | GroupPull | GroupPush) -> list[Effect]:
        group = self.groups.get(message.group)
        if group is None or sender not in self.peers:
            return [Drop(message, NOT_IN_GROUP)]
        match message:
            case GroupGossip():
                before = list(group.view)
                new, pull = group.hear(message)
                effects = self.told(new)
                if pull is not None:
                    effects.append(Send(sender, pull))
                answer = group.answer(sender, message)
                if answer is not None:
                    effects.append(Send(sender, answer))
                if list(group.view) != before:
                    effects.append(self.viewed(group))
                return effects
            case GroupPull():
                return [Send(sender, push) for push in group.give(message)]
            case GroupPush(_, said):
                return self.told(group.take([said]))

    def told(self, batches: list[Publications]) -> list[Effect]:
        self.heard += sum(len(batch.numbers) for batch in batches)
        return [GroupHeard(batch) for batch in batches]

    def check(self) -> None:
        assert self.leaving.keys() | self.introduced.keys() <= self.groups.keys()
        assert len(self.groups) <= GROUPS_MAX
        for name, group in self.groups.items():
            assert group.group == name
            group.check()


def source_of(advertisement: AdvertisementId) -> NodeId:
    """The broker of its publisher, by the name of the advertisement."""
    return advertisement.rpartition("@")[2]
