"""History on demand: questions travel to the publishers' brokers, answers come back the same way.

The problem. A subscriber wants publications from a time on, or behind those it has, and only the brokers at which they
were accepted store them. Between the answer and what is published next there must be no gap and no overlap.

The idea. The question (`Reference`) follows the subscription, hop by hop on the same links, and writes down the brokers
it passes. Links keep order, so when the question arrives the subscription is installed on the whole way. The
publisher's broker answers in one step: everything stored so far that matches goes back along the way as `History`, and
everything it accepts later goes the same way behind it. No broker on the way keeps anything.

Answers are as long as the asker has room (`limit`), and no longer than a look at `scanned_max` publications. An answer
that had to stop says so, and up to which number it is complete; the asker asks again from there.

Groups. Members of a group get the same publications, wherever they are: the time of the first question of the group
that reaches a publisher's broker counts for all of them, for this publisher (G_r). It is forgotten when nobody of the
group has asked for as long as a history lasts; by then nothing is stored that a member could miss (G-53).

Source: PSDG 3.6.5, 3.6.6, repairs G-44, G-46, G-47, G-49, G-53, G-55. There the subscription itself carries the
question and covering must not stop it; here filters are gathered and covered freely, because the question is separate.
"""

from collections.abc import Iterator
from typing import Protocol

from msgspec.structs import replace

from tidings.machine.effects import Drop, Effect, Send
from tidings.model.errors import UsageError
from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.model.language.parser import parse
from tidings.protocols.delivery.edge.history import is_match
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.publishers import Publisher, Publishers, publisher_of
from tidings.protocols.delivery.messages import FetchedFar, History, MarksFar, Reference
from tidings.pubsub.publications import Publications, pieces
from tidings.pubsub.signals import AdvertisementId

PATH_MAX = 100
"""Brokers on the way of a question, so that the answer with its path fits a frame."""

NOT_A_NEIGHBOUR = "comes from a node that is no neighbour"
WRONG_PATH = "the path does not lead here, or is too long"
WRONG_FILTER = "the filter cannot be read"
NO_WAY = "no way to the publisher is known at the broker {broker}"
NO_WAY_BACK = "the way back is broken"

POSITION_BYTES_MAX = 2 * 9
"""What a number and a time take in an answer."""


class Routes(Protocol):
    """What delivery reads of routing."""

    def hop_toward(self, advertisement: AdvertisementId) -> NodeId | None:
        """The neighbour on whose side the publisher is; None if that is not known."""
        ...


class References:
    def __init__(self, node_id: NodeId, params: EdgeParams, routes: Routes, publishers: Publishers) -> None:
        self.node_id, self.params, self.routes, self.publishers = node_id, params, routes, publishers
        self.neighbours: dict[NodeId, None] = {}
        self.groups: dict[tuple[str, NodeId], tuple[float, float]] = {}
        """For each group and publisher since when its members get publications, and when a member last asked."""

    def pass_on(self, now: float, sender: NodeId, asked: Reference) -> list[Effect]:
        """A question of another broker: answered as far as the publishers are here, the rest goes further."""
        if sender not in self.neighbours:
            return [Drop(asked, NOT_A_NEIGHBOUR)]
        if len(asked.path) >= PATH_MAX or asked.path[-1:] != (sender,) or self.node_id in asked.path:
            return [Drop(asked, WRONG_PATH)]
        here = tuple(each for each in asked.wanted if each[0] in self.publishers.offered)
        back = asked.path[:-1]
        effects: list[Effect] = []
        if here:
            try:
                filter = parse(asked.filter)
            except UsageError:
                return [Drop(asked, WRONG_FILTER)]
            answers = self.answer(now, asked, filter, here)
            effects += [Send(sender, replace(answer, path=back)) for answer in answers]
        for hop, wanted in self.by_hop(asked, sender).items():
            if hop is not None:
                effects.append(Send(hop, replace(asked, wanted=tuple(wanted), path=(*asked.path, self.node_id))))
            else:
                problem = NO_WAY.format(broker=self.node_id)
                effects += [Send(sender, replace(lack(asked, each, problem), path=back)) for each, _ in wanted]
        return effects

    def by_hop(
        self, asked: Reference, sender: NodeId | None
    ) -> dict[NodeId | None, list[tuple[AdvertisementId, int | None]]]:
        """What is wanted of publishers elsewhere, by the neighbour to ask; None where there is none."""
        hops: dict[NodeId | None, list[tuple[AdvertisementId, int | None]]] = {}
        for each in asked.wanted:
            if each[0] not in self.publishers.offered:
                hop = self.routes.hop_toward(each[0])
                hops.setdefault(hop if hop in self.neighbours and hop != sender else None, []).append(each)
        return hops

    def come_back(self, sender: NodeId, answer: History | MarksFar | FetchedFar) -> list[Effect]:
        """An answer that is for another broker."""
        if sender not in self.neighbours:
            return [Drop(answer, NOT_A_NEIGHBOUR)]
        hop = answer.path[-1]
        if hop not in self.neighbours:
            return [Drop(answer, NO_WAY_BACK)]
        return [Send(hop, replace(answer, path=answer.path[:-1]))]

    # Answers.

    def answer(
        self, now: float, asked: Reference, filter: Filter, here: tuple[tuple[AdvertisementId, int | None], ...]
    ) -> list[History]:
        """What is stored here, publisher by publisher."""
        of_publisher: dict[NodeId, dict[AdvertisementId, int | None]] = {}
        for advertisement, after in here:
            publisher = self.publishers.offered[advertisement].publisher
            of_publisher.setdefault(publisher.name, {})[advertisement] = after
        return [
            history
            for name, wanted in of_publisher.items()
            for history in self.answer_for(now, asked, filter, self.publishers.all[name], wanted)
        ]

    def answer_for(
        self,
        now: float,
        asked: Reference,
        filter: Filter,
        publisher: Publisher,
        wanted: dict[AdvertisementId, int | None],
    ) -> list[History]:
        positions = [after for after in wanted.values() if after is not None]
        after = min(positions) if positions else None
        group_at = self.group_time(now, asked, publisher)
        since = asked.since if group_at is None else group_at
        stored = publisher.history
        if after is not None:
            batches, is_truncated = stored.behind(after), stored.lacks_behind(after)
        elif since is not None:
            batches, is_truncated = stored.since(since), stored.lacks_since(since)
        else:
            batches, is_truncated = iter(()), False
        found, has_more, through = self.search(batches, filter, wanted, after or 0, asked.limit)
        if not has_more:
            through = publisher.through
        return histories(asked, next(iter(wanted)), publisher.name, group_at, is_truncated, has_more, through, found)

    def search(
        self,
        batches: Iterator[Publications],
        filter: Filter,
        wanted: dict[AdvertisementId, int | None],
        after: int,
        limit: int,
    ) -> tuple[list["Found"], bool, int]:
        """What matches, whether there is more that was not looked at, and the number of the last that was."""
        found: list[Found] = []
        verdicts: dict[bytes, bool] = {}
        scanned, through = 0, after
        for batch in batches:
            if batch.advertisement not in wanted:
                continue
            for number, head, payload in zip(batch.numbers, batch.heads, batch.payloads, strict=True):
                if number <= after:
                    continue
                if len(found) >= limit or scanned >= self.params.scanned_max:
                    return found, True, through
                scanned, through = scanned + 1, number
                if head not in verdicts:
                    verdicts[head] = is_match(filter, head)
                if verdicts[head]:
                    found.append((batch.accepted_at, number, head, payload))
        return found, False, through

    def group_time(self, now: float, asked: Reference, publisher: Publisher) -> float | None:
        if not asked.group or asked.since is None:
            return None
        key = (asked.group, publisher.name)
        since = self.groups.pop(key, (asked.since, now))[0]
        if len(self.groups) >= self.params.groups_max:
            del self.groups[next(iter(self.groups))]
        self.groups[key] = (since, now)
        return since

    def sweep(self, now: float) -> None:
        # The one that asked last stands last.
        while self.groups:
            key = next(iter(self.groups))
            if now - self.groups[key][1] <= self.params.history_age:
                break
            del self.groups[key]

    def check(self) -> None:
        assert len(self.groups) <= self.params.groups_max, "more groups are remembered than groups_max allows"


Found = tuple[float, int, bytes, bytes]
"""A stored publication: when it was accepted, its number, head and payload."""


def histories(
    asked: Reference,
    advertisement: AdvertisementId,
    publisher: NodeId,
    group_at: float | None,
    is_truncated: bool,
    has_more: bool,
    through: int,
    found: list[Found],
) -> list[History]:
    """The answer in as many messages as it takes, at least one."""
    sizes = [len(head) + len(payload) + POSITION_BYTES_MAX for _, _, head, payload in found]
    parts = pieces(sizes) or [slice(0, 0)]
    made = []
    for part in parts:
        times, numbers, heads, payloads = zip(*found[part], strict=True) if found else ((), (), (), ())
        made.append(
            History(
                client=asked.client,
                subscription=asked.subscription,
                round=asked.round,
                advertisement=advertisement,
                publisher=publisher,
                group_at=group_at,
                is_truncated=is_truncated,
                is_last=part is parts[-1],
                has_more=has_more,
                through=through,
                problem="",
                path=(),
                accepted_at=times,
                numbers=numbers,
                heads=heads,
                payloads=payloads,
            )
        )
    return made


def lack(asked: Reference, advertisement: AdvertisementId, problem: str) -> History:
    """There is no answer."""
    publisher = publisher_of(advertisement)
    key = (asked.client, asked.subscription, asked.round, advertisement, publisher)
    return History(*key, None, False, True, False, 0, problem, (), (), (), (), ())
