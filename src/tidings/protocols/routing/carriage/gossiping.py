"""Gossip: what few want is told among the brokers of those few, by themselves.

The problem. A broker that is overloaded must get rid of work. Direct delivery makes it send one copy to each broker
that wants a publication.

The idea. For each advertisement with an unpopular stream there is a group of the brokers behind such links that want
something of it (`protocols/gossip`). The publisher's broker tells what is not popular to the group, some members at a
time, and they tell the others.

A group is opened along the tree: the first unpopular publication still goes that way, and beside it `GroupOpened`, with
some members, to all behind the link that want anything of the advertisement, whether they want this publication or not.
They join, and name themselves (`aside.py`). When all have, the stream leaves the tree. Somebody who comes later changes
what is told of interests: then the stream goes by the tree until the newcomer has joined. When a stream is popular
again, `GroupClosed` goes the same way ahead of its next publication, once, and those behind the link leave the group,
some rounds later, so that nothing that was told before is missed.

Instead of those that want something, `group_of="everybody"` has all brokers in every group: the straightforward variant
of the source, one group for all that is not popular, to compare with. (All that is different is who hears what; the
rounds are those of one group for each advertisement still.)

What is heard in a group is delivered to clients here that want it, and to nobody else.

State. `opened`: for which links each group is open. `joined`: groups that we are in for our clients. `group_views`:
some members of our publishers' groups. `through`: the last number that was told to each.

Guaranteed: a publication goes to the group or over the link, never both. Not guaranteed: order, and when it comes.

Source: PopSub 5.4.3 (Alg 5 and 6), specification 3.4.6, repairs G-25 to G-28.
"""

from collections.abc import Iterable
from typing import Annotated, ClassVar

from msgspec import Meta

from tidings.machine.effects import Drop, Effect, Send
from tidings.machine.inputs import Input, Signal
from tidings.machine.message import Contact, Count, Message, Name
from tidings.model.bounds import GROUP_MEMBERS_MAX
from tidings.model.identity import NodeId
from tidings.protocols.routing.carriage.aside import OTHER_WAY, AsideCarriage
from tidings.protocols.routing.carrier import BatchCarrier
from tidings.pubsub.publications import Publications
from tidings.pubsub.rows import Gauge
from tidings.pubsub.signals import AdvertisementId, GroupHeard, GroupJoined, GroupLeft, GroupSaid, GroupViewed


class GroupOpened(Message, frozen=True):
    """Join the group of this advertisement, you who want anything of it: these are in it. What has a number up to
    `through` was told before."""

    advertisement: Name
    members: Annotated[tuple[Contact, ...], Meta(max_length=GROUP_MEMBERS_MAX)]
    through: Count


class GroupClosed(Message, frozen=True):
    """Leave it: what you want comes by the tree again."""

    advertisement: Name


class GossipingCarriage(AsideCarriage):
    messages: ClassVar[tuple[type[Message], ...]] = (*AsideCarriage.messages, GroupOpened, GroupClosed)
    hears: ClassVar[tuple[type, ...]] = (*AsideCarriage.hears, GroupHeard, GroupViewed)
    tells: ClassVar[tuple[type[Signal], ...]] = (GroupJoined, GroupLeft, GroupSaid)

    def __init__(self, carrier: BatchCarrier) -> None:
        super().__init__(carrier)
        self.opened: dict[AdvertisementId, dict[NodeId, None]] = {}
        self.joined: dict[AdvertisementId, None] = {}
        self.group_views: dict[AdvertisementId, tuple[Contact, ...]] = {}
        self.through: dict[AdvertisementId, int] = {}
        self.said = 0
        self.interests.unwanted = self.unwanted

    def start(self) -> None:
        super().start()
        for known in (self.opened, self.joined, self.group_views, self.through):
            known.clear()

    # At the publisher's broker.

    def ask(self, neighbour: NodeId, advertisement: AdvertisementId) -> list[Effect]:
        """Open the group for this link; whoever joins names itself."""
        effects: list[Effect] = []
        chosen = self.carrier.tables.chosen(advertisement)
        assert chosen is not None
        members = self.group_views.get(advertisement) or (Contact(self.carrier.node_id, self.address()),)
        opened = GroupOpened(advertisement, members[:GROUP_MEMBERS_MAX], self.through.get(advertisement, 0))
        if advertisement not in self.opened:
            self.opened[advertisement] = {}
            effects.append(GroupJoined(advertisement, chosen[1].publisher))
            effects += [Send(other, opened) for other in self.others_in(advertisement, neighbour)]
        self.opened[advertisement][neighbour] = None
        return [*effects, Send(neighbour, opened)]

    def others_in(self, advertisement: AdvertisementId, *apart: NodeId) -> list[NodeId]:
        """Neighbours, other than these, that are in the group though nothing unpopular is behind them."""
        opened = self.opened.get(advertisement, {})
        return [each for each in self.carrier.links if each not in apart and each not in opened and self.has_all]

    @property
    def has_all(self) -> bool:
        return self.params.group_of == "everybody"

    def divert(self, now: float, neighbour: NodeId, parcel: Publications, effects: list[Effect]) -> bool:
        if self.everybody(now, neighbour, parcel.advertisement, effects) is None:
            return False
        self.through[parcel.advertisement] = max(parcel.numbers[-1], self.through.get(parcel.advertisement, 0))
        self.said += len(parcel.numbers)
        effects.append(GroupSaid(parcel))
        self.note(neighbour, parcel, "gossip", effects)
        return True

    @property
    def is_diverting(self) -> bool:
        return bool(self.opened)

    def overtake(self, now: float, neighbour: NodeId, parcel: Publications, effects: list[Effect]) -> None:
        key = neighbour, parcel.advertisement
        if neighbour in self.opened.get(parcel.advertisement, ()) and self.popularity.is_popular(key):
            effects.append(Send(neighbour, GroupClosed(parcel.advertisement)))
            self.forget(key, effects)
            self.close_for(neighbour, parcel.advertisement, effects)

    def close_for(self, neighbour: NodeId, advertisement: AdvertisementId, effects: list[Effect]) -> None:
        opened = self.opened.get(advertisement, {})
        opened.pop(neighbour, None)
        if advertisement in self.opened and not opened:
            effects += [Send(each, GroupClosed(advertisement)) for each in self.others_in(advertisement, neighbour)]
            del self.opened[advertisement]
            self.group_views.pop(advertisement, None)
            self.through.pop(advertisement, None)
            effects.append(GroupLeft(advertisement))

    def close(self, neighbour: NodeId) -> list[Effect]:
        effects: list[Effect] = []
        for advertisement in list(self.opened):
            self.close_for(neighbour, advertisement, effects)
        return effects + super().close(neighbour)

    def withdrawn(self, now: float, advertisement: AdvertisementId) -> list[Effect]:
        effects = super().withdrawn(now, advertisement)
        for neighbour in list(self.opened.get(advertisement, ())):
            effects.append(Send(neighbour, GroupClosed(advertisement)))
            self.forget((neighbour, advertisement), effects)
            self.close_for(neighbour, advertisement, effects)
        return effects

    # At the other brokers.

    def pass_down(self, now: float, sender: NodeId, message: Message) -> list[Effect]:
        if not isinstance(message, GroupOpened | GroupClosed):
            return super().pass_down(now, sender, message)
        advertisement = message.advertisement
        if self.hop_toward(advertisement) != (True, sender):
            return [Drop(message, OTHER_WAY)]
        on: list[Effect] = [
            Send(neighbour, message)
            for neighbour in self.carrier.links
            if neighbour != sender and (self.has_all or self.interests.interest(neighbour, advertisement).pairs)
        ]
        if isinstance(message, GroupClosed):
            return on + self.leave(advertisement)
        wants = bool(self.interests.wanted.get(advertisement))
        if not (wants or self.has_all):
            return on
        chosen = self.carrier.tables.chosen(advertisement)
        assert chosen is not None
        self.joined[advertisement] = None
        joined = GroupJoined(advertisement, chosen[1].publisher, message.members, message.through)
        return [*on, joined, *self.interests.name(sender, advertisement, self.address())]

    def unwanted(self, advertisement: AdvertisementId) -> list[Effect]:
        return [] if self.has_all else self.leave(advertisement)

    def leave(self, advertisement: AdvertisementId) -> list[Effect]:
        """It is closed, or nobody here wants anything of it any more (G-28)."""
        if advertisement not in self.joined:
            return []
        del self.joined[advertisement]
        return [GroupLeft(advertisement)]

    def hear(self, now: float, input: Input) -> list[Effect]:
        match input:
            case GroupViewed(advertisement, members):
                if advertisement in self.opened:
                    self.group_views[advertisement] = members
                return []
            case GroupHeard(batch):
                return self.take_aside(now, batch)
        return super().hear(now, input)

    # What others may look at.

    def gauges(self) -> Iterable[Gauge]:
        yield from super().gauges()
        yield Gauge("popularity_groups", "groups of advertisements of publishers here", len(self.opened))
        yield Gauge("popularity_groups_joined", "groups of advertisements that clients here want", len(self.joined))
        yield Gauge("popularity_gossiped", "publications that were told to groups", self.said)

    def check(self) -> None:
        super().check()
        assert all(self.opened.values()) and self.group_views.keys() <= self.opened.keys()
        for neighbour, advertisement in self.named:
            assert neighbour in self.opened.get(advertisement, ()), "asked without a group"
