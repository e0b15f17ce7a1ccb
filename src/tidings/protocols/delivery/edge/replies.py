"""Replies to an event, back to whoever published it.

The problem. A subscriber wants to answer the publisher of one event, and does not know it: publishers have names of
their own choice, drawn at random where they choose none, and no address. A subscription for answers would make state at
all brokers for each of them, and whoever may neither publish nor subscribe such a thing could not reply.

The idea. A publisher's advertisement is known at all brokers, with the neighbour from whose side it came. A reply takes
that way, hop by hop, and so goes back on the way on which the event came; the broker at its end hands it to its client.
What became of it returns on the same way, and the replier gets a receipt or hears why there is none. No broker on the
way keeps anything. An event that may be replied to carries a word drawn at random (`REPLY_ATTRIBUTE`), and a reply
names it: who has not got the event cannot reply to it.

A publisher that moved is advertised by several brokers for a while: all are tried, and one success is enough; one that
becomes known while others are asked is tried when they have failed. A client
that does not take what is sent to it gets replies up to a window of bytes; beyond it they are refused, and may be tried
again. A reply that is not settled in `reading_timeout` is refused: it may have arrived all the same. Whoever repeats it
uses the same word for it, so that it can be told from another; `client.request` takes the first, and no other.

State. The replies of clients here that are not settled, oldest first: at most `readings_max` for each client.

Source: dynamic-topologies.md 2.2, D-21.
"""

from collections.abc import Callable

from msgspec.structs import replace

from tidings.machine.effects import Drop, Effect, Send, SetTimer
from tidings.model.bounds import PUBLICATION_BYTES_MAX, TEXT_CHARS_MAX
from tidings.model.identity import NodeId, name_of
from tidings.protocols.delivery.edge.advertisements import one_at_each_broker, publisher_of
from tidings.protocols.delivery.edge.clients import BadRequest, Forbidden, ServedClient, refused
from tidings.protocols.delivery.edge.namesakes import Namesakes
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.questions import Fetching
from tidings.protocols.delivery.edge.references import (
    NO_WAY,
    NOT_A_NEIGHBOUR,
    TOO_FAR,
    WRONG_PATH,
    References,
    lengthened,
)
from tidings.protocols.delivery.messages import Refusal, ReplyFar, ReplyMessage, ReplySettledFar
from tidings.protocols.delivery.sizes import size_of
from tidings.pubsub.client import Receipt, Replied
from tidings.pubsub.publications import BadPublication, read_head
from tidings.pubsub.signals import AdvertisementId

OTHER_TENANT = "not permitted: {publisher} is no publisher of your tenant"
UNKNOWN = "not reachable: the publisher of the event is not known here any more; it cannot be replied to"
GONE = "not reachable: the publisher of the event has left its broker; it may come back, try again"
TOO_SLOW = "the publisher of the event does not take what is sent to it; try again later"
UNSETTLED = "not reachable: the broker of the publisher did not answer; the reply may have arrived all the same"
TOO_LARGE = "a reply of {size} bytes, at most {most} are allowed; reply with a reference to what is large"
TOO_MANY = "a client has at most {most} replies under way; wait for one"
OLD_ANSWER = "settles a reply that nobody waits for any more"


class OpenReply:
    """`awaited` are the advertisements whose brokers have not said what became of it, `tried` all by which it went."""

    def __init__(self, client: ServedClient, asked: ReplyMessage, ends_at: float) -> None:
        self.client, self.asked, self.number, self.ends_at = client, asked, asked.number, ends_at
        self.awaited: dict[AdvertisementId, None] = {}
        self.tried: set[AdvertisementId] = set()
        self.problem = UNKNOWN


class Replies:
    """`number()` makes a number that no question of this broker has had."""

    def __init__(
        self,
        node_id: NodeId,
        params: EdgeParams,
        fetching: Fetching,
        namesakes: Namesakes,
        number: Callable[[], int],
    ) -> None:
        self.node_id, self.params, self.fetching, self.namesakes = node_id, params, fetching, namesakes
        self.references: References = fetching.references
        self.flows, self.number = fetching.references.flows, number
        self.open: dict[int, OpenReply] = {}
        self.is_timed = False

    def start(self) -> None:
        self.open.clear()
        self.is_timed = False

    # A client replies.

    def reply(self, now: float, client: ServedClient, asked: ReplyMessage) -> list[Effect]:
        try:
            self.admit(now, client, asked)
        except BadRequest as problem:
            return refused(client, "reply", asked.number, problem)
        id, open_reply = self.number(), OpenReply(client, asked, now + self.params.reading_timeout)
        self.open[id] = open_reply
        return [*self.attempt(now, id, open_reply), *self.arm()]

    def attempt(self, now: float, id: int, open_reply: OpenReply) -> list[Effect]:
        """By all ways that were not tried yet, those that end here first; and an answer to the client, where it is
        settled by that."""
        asked, effects = open_reply.asked, list[Effect]()
        known = self.fetching.of_publisher.get(asked.publisher, {})
        offered = self.references.publishers.offered
        ways = [each for each in one_at_each_broker(known) if each not in open_reply.tried]
        for advertisement in sorted(ways, key=lambda each: each not in offered):
            open_reply.tried.add(advertisement)
            far = ReplyFar(id, advertisement, asked.word, asked.reply, asked.head, asked.payload, (self.node_id,))
            hop = self.hop_toward(advertisement)
            if advertisement in offered:
                open_reply.problem, handed = self.hand_over(far)
                effects += handed
                if not open_reply.problem:
                    return [*effects, *self.finish(now, id, open_reply)]
            elif hop is None:
                open_reply.problem = NO_WAY.format(broker=self.node_id)
            else:
                open_reply.awaited[advertisement] = None
                effects += self.flows.put(hop, far)
        return [*effects, *self.finish(now, id, open_reply)]

    def admit(self, now: float, client: ServedClient, asked: ReplyMessage) -> None:
        if not client.is_of(asked.publisher):
            raise Forbidden(OTHER_TENANT.format(publisher=asked.publisher))
        if sum(each.client is client for each in self.open.values()) >= self.params.readings_max:
            raise BadRequest(TOO_MANY.format(most=self.params.readings_max))
        size = len(asked.head) + len(asked.payload)
        if size > PUBLICATION_BYTES_MAX:
            raise BadRequest(TOO_LARGE.format(size=size, most=PUBLICATION_BYTES_MAX))
        try:
            read_head(asked.head)
        except BadPublication as problem:
            raise BadRequest(f"the attributes of the reply cannot be read: {problem}") from None
        _, reason = client.use.admit(now, [size])
        if reason:
            raise Forbidden(reason)

    def finish(self, now: float, id: int, open_reply: OpenReply) -> list[Effect]:
        """Answer if everybody has said what became of it, or somebody that it arrived."""
        if open_reply.awaited and open_reply.problem:
            return []
        del self.open[id]
        if open_reply.problem:
            may_retry = open_reply.problem != UNKNOWN
            return [Send(open_reply.client.name, Refusal("reply", open_reply.number, open_reply.problem, may_retry))]
        at = now + self.params.clock_offset
        return open_reply.client.put(Receipt("reply", open_reply.number, (self.node_id,), 1, at, ""))

    # On the way.

    def pass_on(self, sender: NodeId, message: ReplyFar) -> list[Effect]:
        origin, path = self.flows.origin_of(sender, message), message.path
        if sender not in self.references.neighbours:
            return [Drop(message, NOT_A_NEIGHBOUR), *self.flows.release(origin)]
        if path[-1:] != (sender,) or self.node_id in path:
            return [Drop(message, WRONG_PATH), *self.flows.release(origin)]
        if message.advertisement in self.references.publishers.offered:
            problem, handed = self.hand_over(message)
            return [*handed, *self.settle_back(sender, message, problem), *self.flows.release(origin)]
        hop, longer = self.hop_toward(message.advertisement), lengthened(path, self.node_id)
        if hop is None or hop == sender or longer is None:
            problem = TOO_FAR if longer is None else NO_WAY.format(broker=self.node_id)
            return [*self.settle_back(sender, message, problem), *self.flows.release(origin)]
        return self.flows.put(hop, replace(message, path=longer), origin)

    def settle_back(self, sender: NodeId, message: ReplyFar, problem: str) -> list[Effect]:
        settled = ReplySettledFar(message.replying, message.advertisement, problem[:TEXT_CHARS_MAX], message.path[:-1])
        return self.flows.put(sender, settled)

    def hop_toward(self, advertisement: AdvertisementId) -> NodeId | None:
        hop = self.references.routes.hop_toward(advertisement)
        return hop if hop in self.references.neighbours else None

    # At its end.

    def hand_over(self, message: ReplyFar) -> tuple[str, list[Effect]]:
        """To the publisher, which is here; otherwise why not."""
        publisher = publisher_of(message.advertisement)
        client = self.namesakes.serving.get(name_of(publisher))
        if client is None or client.publisher != publisher:
            return GONE, []
        if sum(map(size_of, client.answers)) > self.params.client_window_bytes:
            return TOO_SLOW, []
        return "", client.put(Replied(message.word, message.reply, message.head, message.payload))

    def hear(self, now: float, message: ReplySettledFar) -> list[Effect]:
        open_reply = self.open.get(message.replying)
        if open_reply is None or message.advertisement not in open_reply.awaited:
            return [Drop(message, OLD_ANSWER)]
        del open_reply.awaited[message.advertisement]
        open_reply.problem = message.problem
        if open_reply.problem and not open_reply.awaited:
            # The publisher may have moved meanwhile, and its new broker be known.
            return self.attempt(now, message.replying, open_reply)
        return self.finish(now, message.replying, open_reply)

    # Time, and the end.

    def expire(self, now: float) -> list[Effect]:
        self.is_timed = False
        effects: list[Effect] = []
        for id, open_reply in list(self.open.items()):
            if open_reply.ends_at > now:
                break
            open_reply.awaited.clear()
            open_reply.problem = UNSETTLED
            effects += self.finish(now, id, open_reply)
        return effects + self.arm()

    def arm(self) -> list[Effect]:
        if self.is_timed or not self.open:
            return []
        self.is_timed = True
        return [SetTimer("reply", next(iter(self.open.values())).ends_at)]

    def leave(self, client: ServedClient) -> None:
        self.open = {id: each for id, each in self.open.items() if each.client is not client}

    def check(self) -> None:
        assert self.is_timed or not self.open, "a reply may wait for ever"
        assert all(each.awaited for each in self.open.values()), "a reply waits for nothing"
