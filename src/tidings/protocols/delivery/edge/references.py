"""History on demand: questions travel to the publishers' brokers, answers come back the same way.

The problem. A subscriber wants publications from a time on, or behind those it has, and only the brokers at which they
were accepted store them. Between the answer and what is published next there must be no gap and no overlap.

The idea. The question (`Reference`) follows the subscription, hop by hop on the same links, and writes down the brokers
it passes. Links keep order, so when the question arrives the subscription is installed on the whole way. The
publisher's broker answers in one step: everything stored so far that matches goes back along the way as `History`, and
everything it accepts later goes the same way, before it or behind it: the asker keeps what comes until it has the
answer. No broker on the way keeps anything.

An answer is about the publisher, not about the advertisements that the question names: these show the way only. One of
them may be known to the asker later than another, or by another way, and the numbers ascend over all.

An answer is a page: no longer than the asker has room (`limit`, `limit_bytes`), than `page_bytes`, or than a look at
`scanned_max` publications. If there is more it says so, and up to which number it is complete; the asker asks again
from there. Questions and answers leave as the next broker takes them (`flows.py`); an answer is made when it can leave.

Where a question names no number, it begins at a time, with what comes from now on, or with what was advertised; if it
is that of a group, where the group begins (`groups.py`).

Source: PSDG 3.6.5, 3.6.6, repairs G-44, G-46, G-47, G-49, G-53, G-55. There the subscription itself carries the
question and covering must not stop it; here filters are gathered and covered freely, because the question is separate.
"""

from collections.abc import Iterator
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from tidings.machine.effects import Drop, Effect
from tidings.model.bounds import PATH_BYTES_MAX, PUBLICATIONS_MAX, REFERENCE_HOPS_MAX
from tidings.model.errors import UsageError
from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.model.language.parser import parse
from tidings.model.work import WORK
from tidings.protocols.delivery.edge.advertisements import Publisher, publisher_of
from tidings.protocols.delivery.edge.flows import HistoryFlows, identity_of
from tidings.protocols.delivery.edge.groups import GroupKey, Groups
from tidings.protocols.delivery.edge.history import SCAN_UNITS_MAX, is_match
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.publishers import Publishers
from tidings.protocols.delivery.edge.stretches import Found, SharedLook
from tidings.protocols.delivery.messages import (
    FetchedFar,
    History,
    MarksFar,
    PackedReferences,
    Reference,
    ReplySettledFar,
)
from tidings.pubsub.publications import Publications
from tidings.pubsub.signals import AdvertisementId

NOT_A_NEIGHBOUR = "comes from a node that is no neighbour"
WRONG_PATH = "the path does not lead here"
TOO_FAR = (
    "a broker of the publisher is further away than a question for its history may go, so nobody knows what is missing"
)
ANSWER_UNITS, FOUND_UNITS = 500, 50
"""The work of an answer, and of passing on what was found, for each publication."""

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
    def __init__(
        self, node_id: NodeId, params: EdgeParams, routes: Routes, publishers: Publishers, flows: HistoryFlows
    ) -> None:
        self.node_id, self.params, self.routes, self.publishers = node_id, params, routes, publishers
        self.flows, self.neighbours = flows, flows.links
        self.groups = Groups(params)
        self.unsaved: list[Effect] = []
        """What answers that were made in this step have changed of groups."""

    def pass_on_all(self, now: float, sender: NodeId, packed: PackedReferences) -> list[Effect]:
        look = SharedLook()
        return [effect for each in packed.questions for effect in self.pass_on(now, sender, each, look)]

    def pass_on(self, now: float, sender: NodeId, asked: Reference, look: SharedLook | None = None) -> list[Effect]:
        """A question of another broker: answered as far as the publishers are here, the rest goes further."""
        origin = self.flows.origin_of(sender, asked)
        problem, here = self.why_not(sender, asked), self.wanted_here(asked)
        if problem:
            return [Drop(asked, problem), *self.flows.release(origin)]
        effects: list[Effect] = []
        if here:
            try:
                filter = parse(asked.filter)
            except UsageError:
                return [Drop(asked, WRONG_FILTER), *self.flows.release(origin)]
            if look is not None:
                look.add(asked.filter, filter)
            for name, mine in here.items():
                make = partial(self.answer_back, now, asked, filter, name, mine, look)
                effects += self.flows.put_later(sender, asked, make, (identity_of(asked), name))
        for hop, wanted in self.by_hop(asked, sender).items():
            path = lengthened(asked.path, self.node_id)
            if hop is not None and path is not None:
                effects += self.flows.put(hop, replace(asked, wanted=tuple(wanted), path=path), origin)
                origin = None
                continue
            problem = TOO_FAR if hop is not None else NO_WAY.format(broker=self.node_id)
            for each, _ in wanted:
                effects += self.flows.put(sender, replace(lack(asked, each, problem), path=asked.path[:-1]))
        return effects + self.flows.release(origin)

    def why_not(self, sender: NodeId, asked: Reference) -> str:
        if sender not in self.neighbours:
            return NOT_A_NEIGHBOUR
        return WRONG_PATH if asked.path[-1:] != (sender,) or self.node_id in asked.path else ""

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

    def come_back(self, sender: NodeId, answer: History | MarksFar | FetchedFar | ReplySettledFar) -> list[Effect]:
        """An answer that is for another broker."""
        origin, hop = self.flows.origin_of(sender, answer), answer.path[-1]
        if sender not in self.neighbours:
            return [Drop(answer, NOT_A_NEIGHBOUR), *self.flows.release(origin)]
        if hop not in self.neighbours:
            return [Drop(answer, NO_WAY_BACK), *self.flows.release(origin)]
        return self.flows.put(hop, replace(answer, path=answer.path[:-1]), origin)

    # Answers.

    def wanted_here(self, asked: Reference) -> dict[NodeId, dict[AdvertisementId, int | None]]:
        """What is wanted of publishers at this broker."""
        of_publisher: dict[NodeId, dict[AdvertisementId, int | None]] = {}
        for advertisement, after in asked.wanted:
            offered = self.publishers.offered.get(advertisement)
            if offered is not None:
                of_publisher.setdefault(offered.publisher.name, {})[advertisement] = after
        return of_publisher

    def answer(self, now: float, asked: Reference, filter: Filter) -> list[History]:
        """What is stored here, publisher by publisher, for a client of this broker."""
        here = self.wanted_here(asked)
        return [self.page(now, asked, filter, self.publishers.all[name], wanted) for name, wanted in here.items()]

    def answer_back(
        self,
        now: float,
        asked: Reference,
        filter: Filter,
        name: NodeId,
        wanted: dict[AdvertisementId, int | None],
        look: SharedLook | None,
    ) -> History | None:
        """The answer for a broker elsewhere; `now` is when it asked. None if nothing of that is offered any more."""
        publisher = self.publishers.all.get(name)
        wanted = {each: after for each, after in wanted.items() if each in self.publishers.offered}
        if publisher is None or not wanted:
            return None
        return replace(self.page(now, asked, filter, publisher, wanted, look), path=asked.path[:-1])

    def page(
        self,
        now: float,
        asked: Reference,
        filter: Filter,
        publisher: Publisher,
        wanted: dict[AdvertisementId, int | None],
        look: SharedLook | None = None,
    ) -> History:
        WORK.units += ANSWER_UNITS
        positions = [after for after in wanted.values() if after is not None]
        after = min(positions) if positions else None
        stored, group_at, begun_late = publisher.history, None, 0
        missing, is_counted = 0, True
        if after is not None:
            begin, missing = after, stored.lacks_behind(after)
        elif asked.since is not None:
            begin = publisher.number_before(asked.since)
            missing, is_counted = stored.lacks_since(asked.since)
        elif asked.is_from_now:
            begin = publisher.last
        else:
            offered = (*publisher.advertisements.values(), *publisher.retired.values())
            begin = min(each.began for each in offered) - 1
            missing = stored.lacks_behind(begin)
        key = GroupKey(asked.principal, asked.group, publisher.name)
        if asked.group and after is not None:
            # It began elsewhere, before the publisher moved here: whoever comes later gets what this member gets, also
            # where another question was heard here before it was known how far back that is.
            _, effects = self.groups.begin(now, key, after, self.groups.since(key), is_owed=True)
            self.unsaved += effects
        elif asked.group:
            is_owed = asked.since is None and not asked.is_from_now
            named = None if asked.is_from_now else asked.since
            group, effects = self.groups.begin(now, key, begin, named, is_owed)
            self.unsaved += effects
            if group.number != begin:
                missing, is_counted = stored.lacks_behind(group.number), True
            if asked.is_late:
                begun_late = max(0, group.number - max(begin, stored.base or 0))
            begin, group_at = group.number, group.since
        is_counted &= stored.has_all_numbers and missing > 0
        if missing:
            missing += stored.skips_behind(begin)
        is_shaken = stored.is_shaken(begin, asked.since if after is None else None, asked.is_from_now)
        if look is not None and look.answers(asked.filter):
            found, has_more, through = self.search_together(publisher, begin, asked, look)
        else:
            found, has_more, through = self.search(stored.behind(begin), filter, begin, asked)
        if not has_more:
            through = publisher.through
        times, numbers, heads, payloads = zip(*found, strict=True) if found else ((), (), (), ())
        return History(
            client=asked.client,
            subscription=asked.subscription,
            round=asked.round,
            advertisement=next(iter(wanted)),
            publisher=publisher.name,
            group_at=group_at,
            begin=begin,
            is_truncated=missing > 0 or is_shaken,
            missing=0 if is_shaken else missing,
            is_counted=is_counted and not is_shaken and self.is_all_of(filter, publisher),
            lacking=tuple(stored.lacking()),
            held=tuple(stored.held(publisher.reach)),
            has_more=has_more,
            through=through,
            problem="",
            path=(),
            accepted_at=times,
            numbers=numbers,
            heads=heads,
            payloads=payloads,
            begun_late=begun_late,
        )

    def is_all_of(self, filter: Filter, publisher: Publisher) -> bool:
        """Whether the filter matches all that the publisher may have published."""
        offered = (*publisher.advertisements.values(), *publisher.retired.values())
        return all(filter.covers(each.filter) for each in offered)

    def search(
        self,
        batches: Iterator[Publications],
        filter: Filter,
        after: int,
        asked: Reference,
    ) -> tuple[list[Found], bool, int]:
        """What matches, whether there is more that was not looked at, and the number of the last that was."""
        found: list[Found] = []
        limit, room_bytes = min(asked.limit, PUBLICATIONS_MAX), min(asked.limit_bytes, self.params.page_bytes)
        verdicts: dict[bytes, bool] = {}
        scanned, through, began = 0, after, WORK.units
        for batch in batches:
            for number, head, payload in zip(batch.numbers, batch.heads, batch.payloads, strict=True):
                if number <= after:
                    continue
                if len(found) >= limit or scanned >= self.params.scanned_max:
                    return found, True, through
                if scanned and WORK.units - began >= SCAN_UNITS_MAX:
                    return found, True, through
                if head not in verdicts:
                    verdicts[head] = is_match(filter, head)
                if verdicts[head]:
                    room_bytes -= len(head) + len(payload)
                    if found and room_bytes < 0:
                        return found, True, through
                    found.append((batch.accepted_at, number, head, payload))
                    WORK.units += FOUND_UNITS
                scanned, through = scanned + 1, number
        return found, False, through

    def search_together(
        self, publisher: Publisher, begin: int, asked: Reference, look: SharedLook
    ) -> tuple[list[Found], bool, int]:
        """The same, with what was looked at for other questions."""
        found: list[Found] = []
        limit, room_bytes = min(asked.limit, PUBLICATIONS_MAX), min(asked.limit_bytes, self.params.page_bytes)
        through, began, stored = begin, WORK.units, publisher.history
        for stretch in look.stretches(publisher.name, stored, begin):
            for row in stretch.found(asked.filter, max(begin, stored.forgotten_through)):
                room_bytes -= len(row[2]) + len(row[3])
                if len(found) >= limit or (found and room_bytes < 0):
                    return found, True, through
                found.append(row)
                through = row[1]
                WORK.units += FOUND_UNITS
            through = stretch.through
            if WORK.units - began >= SCAN_UNITS_MAX:
                return found, True, through
        return found, False, through

    def check(self) -> None:
        self.groups.check()
        assert not self.unsaved, "a change of groups is not saved"


def lengthened(path: tuple[NodeId, ...], broker: NodeId) -> tuple[NodeId, ...] | None:
    """The way of a question that this broker passes on; None if it is too long for that."""
    longer = (*path, broker)
    is_too_long = len(longer) > REFERENCE_HOPS_MAX or sum(len(each.encode()) for each in longer) > PATH_BYTES_MAX
    return None if is_too_long else longer


def lack(asked: Reference, advertisement: AdvertisementId, problem: str) -> History:
    """There is no answer."""
    publisher = publisher_of(advertisement)
    key = (asked.client, asked.subscription, asked.round, advertisement, publisher)
    return History(*key, None, 0, False, 0, False, (), (), False, 0, problem, (), (), (), (), ())
