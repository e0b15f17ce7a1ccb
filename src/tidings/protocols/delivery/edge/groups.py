"""Groups: members anywhere in the network get the same of each publisher.

The idea. The first question of a group that reaches a publisher's broker says where the group begins: behind which
number of the publisher, and since which time if a time was asked for. That counts for all members that come later,
with whatever guarantee (G_r). Of a publisher that moved each of its brokers knows another beginning; the first member
is told the earliest, and goes on from there, which is how the others hear of it: the beginning moves back. A member
whose subscription is older than the publisher is owed everything of it: its question moves the beginning back, for
those who come after it. With `reference` members get the same before all else: one that was there before the publisher
became known to it, and is heard when the group has begun with another, is told how many it may miss.

Whose group it is belongs to its key: a stranger who uses the same name has a group of its own, and takes nothing. A
broker that asks nobody who he is knows no strangers: there a group is everybody's who names it (principal ""). Where
there are more groups than are remembered, the principal that has most of them loses its oldest.

A group is forgotten when nobody of it has asked for as long as a history lasts (G-53). A durable broker finds its
groups again after a restart.

On disk. `group/<key>` is where a group begins.

Source: PSDG 3.6.5, repairs G-49, G-53.
"""

from collections import Counter
from typing import NamedTuple

import msgspec

from tidings.machine.effects import Drop, Effect, Save
from tidings.model.identity import NodeId
from tidings.protocols.delivery.edge.params import EdgeParams

UNREADABLE = "a group was saved and cannot be read any more"


class GroupKey(NamedTuple):
    principal: str
    group: str
    publisher: NodeId


class GroupBeginning(msgspec.Struct, frozen=True, array_like=True):
    principal: str
    group: str
    publisher: str
    number: int
    """Members get what is behind it,"""
    since: float | None
    """and was accepted at this time or later."""


encoder = msgspec.msgpack.Encoder()
decoder = msgspec.msgpack.Decoder(GroupBeginning)
key_decoder = msgspec.msgpack.Decoder(GroupKey)

SHELF = "group/"


class Groups:
    def __init__(self, params: EdgeParams) -> None:
        self.params = params
        self.all: dict[GroupKey, tuple[GroupBeginning, float]] = {}
        """Each with the time at which a member last asked; the one that asked last stands last."""
        self.counts: Counter[str] = Counter()
        """By principal."""

    def begin(
        self, now: float, key: GroupKey, number: int, since: float | None, is_owed: bool
    ) -> tuple[GroupBeginning, list[Effect]]:
        """Where the group begins, if a member that asks now would begin there by itself; `is_owed` if it must."""
        known = self.all.pop(key, None)
        if known is not None and not (is_owed and number < known[0].number):
            self.all[key] = (known[0], now)
            return known[0], []
        beginning = GroupBeginning(*key, number, since)
        effects: list[Effect] = []
        if known is None:
            effects += self.make_room()
            self.counts[key.principal] += 1
        self.all[key] = (beginning, now)
        return beginning, [*effects, *self.save(key, encoder.encode(beginning))]

    def since(self, key: GroupKey) -> float | None:
        known = self.all.get(key)
        return known[0].since if known is not None else None

    def make_room(self) -> list[Effect]:
        if len(self.all) < self.params.groups_max:
            return []
        principal, _ = max(self.counts.items(), key=lambda count: count[1])
        return self.forget(next(key for key in self.all if key.principal == principal))

    def forget(self, key: GroupKey) -> list[Effect]:
        del self.all[key]
        self.counts[key.principal] -= 1
        if not self.counts[key.principal]:
            del self.counts[key.principal]
        return self.save(key, None)

    def save(self, key: GroupKey, data: bytes | None) -> list[Effect]:
        # The names may contain whatever stands between them.
        return [Save(f"{SHELF}{encoder.encode(key).hex()}", data)] if self.params.is_durable else []

    def save_again(self, name: str) -> list[Effect]:
        """As it is now: it could not be saved."""
        key = key_decoder.decode(bytes.fromhex(name.removeprefix(SHELF)))
        return self.save(key, encoder.encode(self.all[key][0]) if key in self.all else None)

    def load(self, now: float, entries: tuple[tuple[str, bytes], ...]) -> list[Effect]:
        """What was there before a restart."""
        effects: list[Effect] = []
        self.all.clear()
        self.counts.clear()
        for name, data in entries:
            if not name.startswith(SHELF):
                continue
            try:
                saved = decoder.decode(data)
            except msgspec.MsgspecError:
                effects.append(Drop(name, UNREADABLE))
                continue
            key = GroupKey(saved.principal, saved.group, saved.publisher)
            effects += self.make_room()
            self.all[key] = (saved, now)
            self.counts[key.principal] += 1
        return effects

    def sweep(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        while self.all:
            key, (_, asked_at) = next(iter(self.all.items()))
            if now - asked_at <= self.params.history_age:
                break
            effects += self.forget(key)
        return effects

    def check(self) -> None:
        assert len(self.all) <= self.params.groups_max, "more groups are remembered than groups_max allows"
        assert self.counts == Counter(key.principal for key in self.all), "groups are counted wrongly"
