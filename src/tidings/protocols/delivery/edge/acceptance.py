"""The publisher's side of an edge: publications are checked, numbered, stored, and handed to routing.

The problem. A client publishes, loses its connection, and does not know which of its publications the broker has. A
subscriber far away comes too late, or its way was broken, and wants what it missed.

The idea. The client numbers its publications and repeats what was not acknowledged; the broker remembers the highest
number it has taken (`through`), so a repetition is recognised, whatever was lost. Each batch gets the time of day at
which it was accepted; it ascends for each publisher even if the clock does not (G-54). Then it is stored (`history.py`)
and forwarded. `Accepted(through)` tells the client what it may forget. Where the edge is durable, that word waits until
the publications are on disk; forwarding does not wait, because a publication that is forwarded, lost in a crash and
repeated by the client has the same number, and the brokers of subscribers recognise it. It has a later time, by which
brokers on the way tell that it was accepted again, and let it pass again (`routing/passage.py`).

A publication must match the advertisement under which it is published; the advertisement was made over the same
connection, and narrowed to what the client may publish now, so that one test proves both. Short heads that passed are
remembered (`heads_max` of them) and not decoded again; many new ones at a time are left to a sieve. What fails is
declined with the reason, and has used up its number. Since that word may be lost with the link, `Accepted` names no
number behind the last that came over the same connection, and what is declined is declined again when it is repeated.

What a client of a tenant publishes is stamped with that when it arrives (`pubsub/tenants.py`), before anything else.

The numbers are those of one process. One that comes back under the name of another, or runs beside it, says which life
of the client it is (`PublisherLife`), and is a publisher of its own for the whole network, whatever its clock says and
whichever broker it comes to. So a number that is known is a repetition, and nothing that is accepted is taken for one.
Two lives at once are told of each other (`namesakes.py`).

State. What is known of each publisher, in memory and on disk, is in `publishers.py`.

Guaranteed. What `Accepted` names is stored, up to the bounds of the history, and was handed to routing. No publication
is taken twice. Not guaranteed, without durability: that a crash of this broker loses nothing that it had accepted.
"""

from collections.abc import Sequence
from itertools import filterfalse

from msgspec.structs import replace

from tidings.machine.effects import Drop, Effect, Send
from tidings.model.bounds import (
    BATCH_BYTES_MAX,
    INTEGER_MAX,
    PIECE_OVERHEAD_BYTES_MAX,
    PUBLICATION_BYTES_MAX,
    TEXT_CHARS_MAX,
)
from tidings.model.identity import life_of
from tidings.model.work import UNITS_PER_MS, WORK
from tidings.protocols.delivery.edge.advertisements import Advertised, Publisher
from tidings.protocols.delivery.edge.clients import NetworkRequest, Requests, ServedClient, read_filter
from tidings.protocols.delivery.edge.history import FEW_HEADS, NEVER, size_bytes
from tidings.protocols.delivery.edge.namesakes import Namesakes
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.publishers import Publishers
from tidings.protocols.delivery.messages import (
    ACCEPTED_ELSEWHERE,
    Advertise,
    PublisherLife,
    PublishMessage,
    Refusal,
    Unadvertise,
)
from tidings.pubsub.client import Accepted, Declined
from tidings.pubsub.notes import RequestRefused
from tidings.pubsub.publications import BadPublication, Publications, cut, pick, pieces, read_head
from tidings.pubsub.signals import Forward, Offer
from tidings.pubsub.tenants import REFUSED_HEADS, RESERVED_BYTES, stamped, widened

HEAD_BYTES_MAX = 512
"""Longer heads are looked at each time."""

TICK = 1e-6
"""By how much a batch is later than the one before it, if the clock did not advance."""

NO_ADVERTISEMENT = (
    "advertise before you publish: this advertisement was not made over this connection, or was withdrawn"
)
OUTSIDE = "not within the advertisement {filter}; advertise what you publish, within what you may publish"
TOO_LARGE = f"a publication takes at most {PUBLICATION_BYTES_MAX} bytes, head and payload; publish it in pieces"
DECLINED_BEFORE = "it was declined when it came first, over a connection that broke before you heard why"
MALFORMED = "the head is no encoded event: {problem}"
ONE_LIFE = "one connection is one life of a client"
NO_NUMBERS = "publishes nothing, or under numbers that there are not"


JUDGE_UNITS_MAX = 20 * UNITS_PER_MS
"""Work of comparing the publications of one message with their advertisement; those behind it are declined."""

TOO_DEAR = (
    "comparing what was published at once with its advertisement took {units} units of work, and {most} are allowed; "
    "publish fewer long strings at a time, or under an advertisement with fewer patterns"
)


class Acceptance:
    def __init__(self, params: EdgeParams, requests: Requests, publishers: Publishers, namesakes: Namesakes) -> None:
        self.params, self.requests, self.publishers, self.namesakes = params, requests, publishers, namesakes
        self.remembered = 0
        """Heads of which it is known that they lie within their advertisement."""

    # Advertisements.

    def live(self, now: float, client: ServedClient, told: PublisherLife) -> list[Effect]:
        """As whom the client publishes from now on."""
        if client.publisher != client.name:
            return [Drop(told, ONE_LIFE)]
        effects = self.publishers.leave(now, client)
        client.publisher = life_of(client.name, told.life)
        self.publishers.arrive(client)
        return effects

    def advertise(self, now: float, client: ServedClient, asked: Advertise) -> list[Effect]:
        filter = read_filter(asked.filter, client, client.publish_bound, "publish")
        was_known = client.publisher in self.publishers.all
        publisher = self.publishers.of(client)
        publisher.first = asked.first
        # Under the same advertisement it may have published elsewhere.
        began = publisher.next
        elsewhere = self.note_moved(now, publisher, asked)
        moved_at = asked.elsewhere if publisher.through == asked.elsewhere else 0
        known, effects = self.publishers.advertise(publisher, asked.number, filter, began, moved_at)
        effects += elsewhere
        known.client, known.latency = client, asked.latency
        ticket = self.requests.add(NetworkRequest("advertise", client, asked.number, client.shown(filter)))
        effects += self.namesakes.begin(client, was_known)
        return [*effects, Offer(known.id, publisher.name, filter, ticket, known.latency)]

    def note_moved(self, now: float, publisher: Publisher, asked: Advertise) -> list[Effect]:
        """What another broker has accepted is not here, and whoever asks because of this advertisement must hear so:
        the next publication would tell it too late."""
        if asked.elsewhere <= publisher.through:
            return []
        accepted_at = max(now + self.params.clock_offset, publisher.accepted_at + TICK)
        effects = self.note_elsewhere(publisher, asked.elsewhere + 1, accepted_at)
        publisher.through = asked.elsewhere
        return effects

    def unadvertise(self, client: ServedClient, asked: Unadvertise) -> tuple[list[Effect], bool]:
        """And whether the client is answered later, when the network has withdrawn it; now if that has to wait until
        what was published under it is forgotten, or there is nothing to withdraw."""
        publisher = self.publishers.all.get(client.publisher)
        known = None if publisher is None else publisher.advertisements.pop(asked.number, None)
        if known is None:
            return [], False
        if known.is_owed:
            return self.publishers.retire(known), False
        ticket = self.requests.add(NetworkRequest("unadvertise", client, asked.number))
        return self.publishers.retire(known, ticket), True

    # Publications.

    def publish(self, now: float, client: ServedClient, asked: PublishMessage) -> list[Effect]:
        if not asked.heads or asked.first + len(asked.heads) > INTEGER_MAX:
            return [Drop(asked, NO_NUMBERS)]
        if client.tenant_name or RESERVED_BYTES in b"".join(asked.heads):
            asked = replace(asked, heads=stamped(asked.heads, client.tenant_name))
        publisher = self.publishers.all.get(client.publisher)
        numbers = tuple(range(asked.first, asked.first + len(asked.heads)))
        advertised = None if publisher is None else publisher.advertisements.get(asked.advertisement)
        if advertised is not None and advertised.client is not client:
            # Made when this client was allowed something else, perhaps.
            advertised = None
        if publisher is None:
            # Nothing is remembered of a client that never advertised; it is told the same again if it repeats.
            return [*self.decline(client, asked, numbers, NO_ADVERTISEMENT), Send(client.name, Accepted(numbers[-1]))]
        effects: list[Effect] = []
        first = asked.first
        client.told_through = max(client.told_through, numbers[-1])
        if first <= publisher.through:
            asked, numbers, effects = self.set_aside_repeated(publisher, advertised, client, asked, numbers)
        if numbers:
            accepted_at = max(now + self.params.clock_offset, publisher.accepted_at + TICK)
            if publisher.through == 0 or asked.first > publisher.through + 1:
                effects += self.note_elsewhere(publisher, asked.first, accepted_at)
            publisher.through = numbers[-1]
            if client.tenant is not None:
                asked, numbers, held_back = self.hold_back(now, client, asked, numbers)
                effects += held_back
            if not numbers:
                pass
            elif advertised is None:
                effects += self.decline(client, asked, numbers, NO_ADVERTISEMENT)
            else:
                publisher.accepted_at = accepted_at
                effects += self.take(client, publisher, advertised, asked, numbers)
            effects += self.publishers.save_declined(publisher)
        saved_through = publisher.saved_through if publisher.saving else publisher.through
        if saved_through >= first:
            effects.append(Send(client.name, Accepted(min(saved_through, client.told_through))))
        return effects

    def hold_back(
        self, now: float, client: ServedClient, asked: PublishMessage, numbers: tuple[int, ...]
    ) -> tuple[PublishMessage, tuple[int, ...], list[Effect]]:
        """What of it the client's tenant may publish now; the rest is declined."""
        sizes = [len(head) + len(payload) for head, payload in zip(asked.heads, asked.payloads, strict=True)]
        count, reason = client.use.admit(now, sizes)
        if count == len(numbers):
            return asked, numbers, []
        note = RequestRefused(client.name, client.principal, "publish", reason)
        declined = self.decline(client, asked, numbers[count:], reason)
        asked = replace(asked, receipt=False, heads=asked.heads[:count], payloads=asked.payloads[:count])
        return asked, numbers[:count], [note, *declined]

    def note_elsewhere(self, publisher: Publisher, first: int, accepted_at: float) -> list[Effect]:
        """What the publisher has published since it was last here, if anything, must be looked for elsewhere."""
        history = publisher.history
        if publisher.through == 0:
            history.base = max(0, min(publisher.first, first) - 1)
            if first <= publisher.first:
                return []
            # Or it was here, before a crash: nobody knows when.
            history.skip(history.base, first - 1)
            history.forget(first - 1, accepted_at - TICK)
            return self.publishers.save_marks(publisher)
        begin = max(publisher.through, publisher.first - 1)
        if first == publisher.first or begin >= first - 1:
            return []
        history.skip(begin, first - 1)
        return self.publishers.save_marks(publisher)

    def set_aside_repeated(
        self,
        publisher: Publisher,
        advertised: Advertised | None,
        client: ServedClient,
        asked: PublishMessage,
        numbers: tuple[int, ...],
    ) -> tuple[PublishMessage, tuple[int, ...], list[Effect]]:
        """What of it is new, and what a repetition makes necessary: if a receipt is wanted, the publications go out
        once more, because only that tells whether they have arrived; whoever has them recognises the numbers."""
        count = min(publisher.through - asked.first + 1, len(numbers))
        first, heads, payloads = asked.first + count, asked.heads[count:], asked.payloads[count:]
        new = PublishMessage(asked.advertisement, first, asked.receipt, heads, payloads)
        effects: list[Effect] = []
        absent = publisher.history.absent(numbers[0], numbers[count - 1])
        declined = publisher.history.declined(absent, publisher.through)
        if declined:
            # The word was on its way when the link broke, perhaps.
            effects.append(Send(client.name, Declined(tuple(declined), DECLINED_BEFORE)))
        unknown = [number for number in absent if number not in declined]
        if unknown and advertised is not None:
            effects += self.judge_again(client, advertised, asked, unknown)
        if count < len(numbers) or not asked.receipt or advertised is None:
            return new, numbers[count:], effects
        verdicts = self.judge(advertised, asked)
        places = [place for place, verdict in enumerate(verdicts) if not verdict and numbers[place] not in declined]
        if not places:
            return new, (), effects + self.refuse_receipt(client, asked, numbers, verdicts[0] or DECLINED_BEFORE)
        if publisher.accepted_at == NEVER:
            # There is no time that it could have.
            return new, (), effects + self.refuse_receipt(client, asked, numbers, ACCEPTED_ELSEWHERE)
        ticket = self.requests.add(NetworkRequest("publish", client, numbers[-1]))
        batch = Publications(
            publisher.name, advertised.id, publisher.accepted_at, 0, numbers, asked.heads, asked.payloads
        )
        return new, (), [*effects, Forward(pick(batch, places, receipt=0), ticket)]

    def judge_again(
        self, client: ServedClient, advertised: Advertised, asked: PublishMessage, numbers: list[int]
    ) -> list[Effect]:
        """Whether these, which are repeated, were accepted or declined is forgotten: what would be declined now was."""
        places = [number - asked.first for number in numbers]
        heads, payloads = [tuple(map(parts.__getitem__, places)) for parts in (asked.heads, asked.payloads)]
        verdicts = self.judge(advertised, replace(asked, heads=heads, payloads=payloads))
        refused = by_reason(numbers, verdicts)
        return [Send(client.name, Declined(tuple(places), reason)) for reason, places in refused.items()]

    def take(
        self,
        client: ServedClient,
        publisher: Publisher,
        advertised: Advertised,
        asked: PublishMessage,
        numbers: tuple[int, ...],
    ) -> list[Effect]:
        effects: list[Effect] = []
        batch = Publications(
            publisher.name, advertised.id, publisher.accepted_at, 0, numbers, asked.heads, asked.payloads
        )
        # The usual cases need no look at each.
        is_everything = advertised.is_everything and REFUSED_HEADS.keys().isdisjoint(asked.heads)
        if not is_everything and not advertised.within.issuperset(asked.heads):
            kept = self.permitted(client, advertised, asked, numbers, effects)
            if kept is not None:
                if not kept:
                    return effects
                batch = pick(batch, kept, receipt=0)
        size = size_bytes(batch)
        parts = [(batch, size)]
        if size + PIECE_OVERHEAD_BYTES_MAX * len(batch.numbers) > BATCH_BYTES_MAX:
            parts = self.parts_of(client, batch, asked, effects)
        for part, size in parts:
            effects += self.publishers.keep(publisher, part, size)
            is_final = part is parts[-1][0]
            ticket = (
                self.requests.add(NetworkRequest("publish", client, numbers[-1]))
                if asked.receipt and is_final
                else None
            )
            effects.append(Forward(part, ticket))
        return effects

    def permitted(
        self,
        client: ServedClient,
        advertised: Advertised,
        asked: PublishMessage,
        numbers: tuple[int, ...],
        effects: list[Effect],
    ) -> list[int] | None:
        """The places of those that may be published; None for all. The others are declined."""
        verdicts = self.judge(advertised, asked)
        if not any(verdicts):
            return None
        for reason, places in by_reason(numbers, verdicts).items():
            note = RequestRefused(client.name, client.principal, "publish", reason)
            effects += [note, Send(client.name, Declined(tuple(places), reason))]
        kept = [place for place, verdict in enumerate(verdicts) if not verdict]
        if not kept:
            effects += self.refuse_receipt(client, asked, numbers, verdicts[0])
        return kept

    def judge(self, advertised: Advertised, asked: PublishMessage) -> list[str]:
        """For each publication why it is refused; empty where it is not."""
        verdicts = [""] * len(asked.heads)
        if advertised.is_everything and REFUSED_HEADS.keys().isdisjoint(asked.heads):
            return verdicts
        within = advertised.within
        unknown = list(filterfalse(within.__contains__, asked.heads)) if len(asked.heads) > FEW_HEADS else ()
        matching: set[bytes] = set()
        if len(unknown) > FEW_HEADS and advertised.sieve.is_indexed:
            matching.update([unknown[place] for place in advertised.sieve.places(unknown)])
        began = WORK.units
        for place, head in enumerate(asked.heads):
            if head in within:
                continue
            if WORK.units - began >= JUDGE_UNITS_MAX:
                verdicts[place] = TOO_DEAR.format(units=WORK.units - began, most=JUDGE_UNITS_MAX)
                continue
            if head in REFUSED_HEADS:
                verdicts[place] = REFUSED_HEADS[head]
                continue
            try:
                if head not in matching and not advertised.filter.matches(read_head(head)):
                    verdicts[place] = OUTSIDE.format(filter=widened(advertised.filter).text())[:TEXT_CHARS_MAX]
                    continue
            except BadPublication as problem:
                verdicts[place] = MALFORMED.format(problem=problem)[:TEXT_CHARS_MAX]
                continue
            if len(head) <= HEAD_BYTES_MAX:
                self.remembered += 1
                if self.remembered > self.params.heads_max:
                    self.remembered = 1
                    for each in self.publishers.offered.values():
                        each.within.clear()
                within.add(head)
        return verdicts

    def parts_of(
        self, client: ServedClient, batch: Publications, asked: PublishMessage, effects: list[Effect]
    ) -> list[tuple[Publications, int]]:
        """Several batches with their sizes, where the frame of a client held more than one between brokers may."""
        sizes = [len(head) + len(payload) for head, payload in zip(batch.heads, batch.payloads, strict=True)]
        too_large = tuple(
            number for number, size in zip(batch.numbers, sizes, strict=True) if size > PUBLICATION_BYTES_MAX
        )
        if too_large:
            effects.append(Send(client.name, Declined(too_large, TOO_LARGE)))
            places = [place for place, size in enumerate(sizes) if size <= PUBLICATION_BYTES_MAX]
            if not places:
                effects += self.refuse_receipt(client, asked, batch.numbers, TOO_LARGE)
                return []
            batch, sizes = pick(batch, places, receipt=0), [sizes[place] for place in places]
        return [(cut(batch, part, receipt=0), sum(sizes[part])) for part in pieces(sizes)]

    def decline(
        self, client: ServedClient, asked: PublishMessage, numbers: tuple[int, ...], reason: str
    ) -> list[Effect]:
        return [Send(client.name, Declined(numbers, reason)), *self.refuse_receipt(client, asked, numbers, reason)]

    def refuse_receipt(
        self, client: ServedClient, asked: PublishMessage, numbers: tuple[int, ...], reason: str
    ) -> list[Effect]:
        if not asked.receipt:
            return []
        return [Send(client.name, Refusal("publish", numbers[-1], reason, may_retry=False))]


def by_reason(numbers: Sequence[int], verdicts: Sequence[str]) -> dict[str, list[int]]:
    """The numbers of what is refused."""
    refused: dict[str, list[int]] = {}
    for number, verdict in zip(numbers, verdicts, strict=True):
        if verdict:
            refused.setdefault(verdict, []).append(number)
    return refused
