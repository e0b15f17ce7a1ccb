"""Shim: puts headers on what leaves, takes them off what arrives, and tells the other parts what came.

The problem. The network below knows nothing of a transport, and the application above should not have to either. What
the transport needs to say (numbers, times, records) travels where the network does not look, and must be gone before
anybody else sees the event.

The idea. Going down, an event of the application is offered to congestion control (`Leaving`); once it may leave
(`Admitted`) it gets its number and header (`sequences.py`), is marked (`marks.py`), and goes to the carrier. Coming
up, a marked event is taken apart. One that we have seen already ends here; every other is told once to the other parts
(`Heard`), as whole numbers, with what the carrier says of it. Subscriptions that want no order get it at once. Events
without a mark come from publishers without a transport, and pass as they are.

State. `publishing`: our numbers and record. `streams`: for each publisher which numbers we saw and when we last heard
of it. `subscriptions`: what the application listens to.

Timers. "digest": a publisher whose events shall be recovered tells every `digest_period` what it sent, also when
nothing more is sent: then at growing distances, `digests_after` times. "expiry": streams that were silent for
`session_timeout` are forgotten, and the other parts told (`StreamGone`).

Guaranteed: `Heard` comes once for each event within the window of numbers; what the application published is what it
receives, byte for byte (T-16); whatever bytes come, nothing is raised (T-22), and what is dropped has a reason.
"""

from random import Random
from typing import Any

from tidings.machine.effects import Deliver, Drop, Effect, SetTimer
from tidings.machine.inputs import Fired
from tidings.protocols.transport.headers import DATA, DIGEST, BadHeader, Data, decode_data
from tidings.protocols.transport.marks import MARK, OF, TO, Kind, head_of, mark, unmark, without_publisher
from tidings.protocols.transport.messages import (
    Acknowledgement,
    EchoReply,
    EchoRequest,
    Feedback,
    LossRepair,
    LossRequest,
    decode_control,
)
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.sequences import Departures, FollowedStreams
from tidings.protocols.transport.signals import (
    WRITTEN_LATE,
    Admitted,
    CarriedEvent,
    Caught,
    Configure,
    Departed,
    DigestHeard,
    Emit,
    Handed,
    Heard,
    Leaving,
    Listen,
    PublishEvent,
    Recovered,
    StopListening,
    Stream,
    StreamGone,
    Told,
    TransportPart,
    Unwatch,
    Watch,
)
from tidings.pubsub.publications import BadPublication

BAD_HEADER = "its transport header cannot be read"
BAD_EVENT = "no event that can be published"
REPEATED = "received already"
NOT_ASKED = "for no subscription that is open"
TOO_MANY_STREAMS = "as many publishers as are allowed are followed; the one that was silent longest is forgotten"
OWN = "our own message came back"

TYPES: dict[Kind, object] = {
    Kind.DATA: DATA,
    Kind.DIGEST: DIGEST,
    Kind.REPAIR: LossRepair,
    Kind.REQUEST: LossRequest,
    Kind.FEEDBACK: Feedback,
    Kind.ECHO_REQUEST: EchoRequest,
    Kind.ECHO_REPLY: EchoReply,
    Kind.ACKNOWLEDGEMENT: Acknowledgement,
}
"""What must stand inside a message whose mark says this."""

NO_STREAM: Stream = ("", 0)
DIGEST_GROWTH = 1.5
"""The last events of a publisher are found missing by these digests alone; over half a minute some of ten arrive."""


class Shim(TransportPart):
    """Part of `TransportNode`; `node_id` is our number in headers."""

    tells = (Heard, DigestHeard, Told, Leaving, Departed, StreamGone, Emit, Watch, Unwatch)

    def __init__(self, node_id: int, params: TransportParams, rng: Random) -> None:
        self.node_id, self.params = node_id, params
        self.publishing = Departures(node_id, params)
        self.streams = FollowedStreams(params)
        self.subscriptions: dict[int, Listen] = {}
        self.digests_left = 0
        self.digest_wait = 0.0
        self.has_news = False
        """Whether anything left since the last digest."""
        self.is_digesting = self.is_expiring = False
        self.handlers = {
            Caught: self.caught,
            PublishEvent: self.publish,
            Admitted: self.admitted,
            Recovered: self.recovered,
            Listen: self.listen,
            StopListening: self.listen,
            Configure: self.configure,
            Fired: self.fired,
        }

    def start(self, now: float) -> list[Effect]:
        inbox = f"{MARK} != '{Kind.DATA.value}' AND {TO} = {self.node_id}"
        effects: list[Effect] = [Watch("inbox", inbox)]
        self.is_digesting = self.is_expiring = False
        return effects + self.digest_soon(now) + self.expire_later(now)

    # Down.

    def publish(self, now: float, request: PublishEvent) -> list[Effect]:
        if not self.params.is_ordered:
            return [Emit(request.head, request.payload, Kind.DATA, request.ticket)]
        leaving = self.outgoing(request)
        return [Drop(request, BAD_EVENT)] if leaving is None else [leaving]

    def outgoing(self, request: PublishEvent) -> Leaving | None:
        """As it asks for leave; None for what needs none, or is no event."""
        try:
            bits = self.publishing.bits_of(request.head)
        except BadPublication:
            return None
        return Leaving(Kind.DATA, request.head, request.payload, bits, request.ticket)

    def admitted(self, now: float, admitted: Admitted) -> list[Effect]:
        leaving = admitted.outgoing
        if leaving.kind in WRITTEN_LATE:
            return []
        if leaving.kind is not Kind.DATA:
            return [Emit(leaving.head, leaving.payload, leaving.kind, leaving.ticket)]
        head, payload, bits = leaving.head, leaving.payload, leaving.bits
        sequence, header, encoded = self.publishing.depart(now, bits, admitted.flows)
        effects: list[Effect] = [Emit(mark(head, Kind.DATA), encoded + payload, Kind.DATA, leaving.ticket)]
        if self.tells_departures:
            effects.append(Departed(sequence, header, head, payload, bits))
        if self.params.is_reliable:
            self.digests_left, self.digest_wait = self.params.digests_after, self.params.digest_period
            self.has_news = True
            if not self.is_digesting:
                effects += self.digest_soon(now)
        return effects

    @property
    def tells_departures(self) -> bool:
        """Recovery keeps what left; windows and acknowledgements count it."""
        congestion = self.params.congestion
        return self.params.is_reliable or congestion.control == "window" or congestion.acknowledgements

    def digest_soon(self, now: float) -> list[Effect]:
        if self.is_digesting or not self.digests_left or self.digest_wait <= 0:
            return []
        self.is_digesting = True
        return [SetTimer("digest", now + self.digest_wait)]

    def send_digest(self, now: float) -> list[Effect]:
        self.is_digesting = False
        if not self.digests_left:
            return []
        self.digests_left -= 1
        if not self.has_news:
            self.digest_wait *= DIGEST_GROWTH
        self.has_news = False
        head = head_of({OF: self.node_id}, Kind.DIGEST)
        return [Emit(head, self.publishing.digest(now), Kind.DIGEST), *self.digest_soon(now)]

    # Up.

    def caught(self, now: float, caught: Caught) -> list[Effect]:
        content = caught.content
        head, kind = unmark(content.head)
        if kind is None:
            return [Deliver(Handed(content, NO_STREAM, 0))] if content.subscriptions else [Drop(content, NOT_ASKED)]
        try:
            if kind is Kind.DATA or kind is Kind.DIGEST:
                header, payload = decode_data(content.payload)
                if header.kind != TYPES[kind]:
                    return [Drop(content, BAD_HEADER)]
                inner = CarriedEvent(
                    head, payload, content.source, content.number, content.accepted_at, content.subscriptions
                )
                return self.event(now, header, inner) if kind is Kind.DATA else self.digest(now, header, inner)
            message, payload = decode_control(content.payload)
        except BadHeader:
            return [Drop(content, BAD_HEADER)]
        if type(message) is not TYPES[kind]:
            return [Drop(content, BAD_HEADER)]
        if isinstance(message, LossRepair):
            head = message.head or without_publisher(head, message.data.publisher)
        return self.told(message, content.bare(head, payload))

    def event(self, now: float, header: Data, content: CarriedEvent) -> list[Effect]:
        wanted = content.subscriptions
        if not wanted:
            return [Drop(content, NOT_ASKED)]
        ordered = tuple([number for number in wanted if number in self.subscriptions])
        effects: list[Effect] = []
        if len(ordered) < len(wanted):
            others = tuple([number for number in wanted if number not in self.subscriptions])
            effects.append(Deliver(Handed(content.to(others), NO_STREAM, 0)))
            if not ordered:
                return effects
            content = content.to(ordered)
        stream = content.source, header.publisher
        following = self.streams.all.get(stream)
        if following is None:
            sequence, is_new = header.sequence, True
            effects += self.follow(now, stream, sequence)
        else:
            sequence, is_new = following.take(now, header.sequence)
        if not is_new:
            return [*effects, Drop(content, REPEATED)]
        effects.append(Heard(stream, sequence, header, content))
        return effects

    def follow(self, now: float, stream: Stream, sequence: int) -> list[Effect]:
        effects: list[Effect] = []
        gone = self.streams.open(now, stream, sequence)
        if gone is not None:
            effects += [Drop(gone, TOO_MANY_STREAMS), *self.forget(gone)]
        if self.wants_digests:
            effects.append(self.ask_for_digests(stream))
        return effects + self.expire_later(now)

    @property
    def wants_digests(self) -> bool:
        return any(listen.is_reliable for listen in self.subscriptions.values())

    def ask_for_digests(self, stream: Stream) -> Watch:
        return Watch(("digests", stream), f"{MARK} = '{Kind.DIGEST.value}' AND {OF} = {stream[1]}")

    def digest(self, now: float, header: Data, content: CarriedEvent) -> list[Effect]:
        stream = content.source, header.publisher
        following = self.streams.all.get(stream)
        if following is None:
            return [Drop(content, NOT_ASKED)]
        return [DigestHeard(stream, following.whole(header.sequence), header)]

    def told(self, message: Any, content: CarriedEvent) -> list[Effect]:
        if sender_of(message) == self.node_id:
            return [Drop(content, OWN)]
        if isinstance(message, LossRepair):
            if message.data.publisher == self.node_id:
                return [Told(message, content, None, self.publishing.whole(message.data.sequence))]
            stream, sequence, is_new = self.streams.find(message.data.publisher, message.data.sequence)
            return [Told(message, content, stream, sequence, is_new)]
        if isinstance(message, LossRequest):
            if message.publisher == self.node_id:
                return [Told(message, content, None, self.publishing.whole(message.sequence))]
            stream, sequence, _ = self.streams.find(message.publisher, message.sequence, is_lacking=False)
            return [Told(message, content, stream, sequence)]
        return [Told(message, content)]

    def recovered(self, now: float, recovered: Recovered) -> list[Effect]:
        following = self.streams.all.get(recovered.stream)
        if following is not None and recovered.sequence <= following.seen.high + self.params.ordering.window:
            # A repair comes from anybody; an absurd number must not make us take all others for old ones.
            following.seen.add(recovered.sequence)
        return []

    # What the application asks for.

    def listen(self, now: float, request: Listen | StopListening) -> list[Effect]:
        had_digests = self.wants_digests
        if isinstance(request, Listen) and request.is_ordered:
            self.subscriptions[request.subscription] = request
        else:
            self.subscriptions.pop(request.subscription, None)
        if had_digests == self.wants_digests:
            return []
        if had_digests:
            return [Unwatch(("digests", stream)) for stream in self.streams.all]
        return [self.ask_for_digests(stream) for stream in self.streams.all]

    def configure(self, now: float, request: Configure) -> list[Effect]:
        self.params = self.streams.params = request.params
        self.publishing.configure(request.params)
        return []

    def fired(self, now: float, fired: Fired) -> list[Effect]:
        if fired.key == "digest":
            return self.send_digest(now)
        self.is_expiring = False
        gone = self.streams.silent(now)
        return [effect for stream in gone for effect in self.forget(stream)] + self.expire_later(now)

    def forget(self, stream: Stream) -> list[Effect]:
        self.streams.forget(stream)
        told: list[Effect] = [StreamGone(stream)]
        return [Unwatch(("digests", stream)), *told] if self.wants_digests else told

    def expire_later(self, now: float) -> list[Effect]:
        if self.is_expiring or not self.streams.all:
            return []
        self.is_expiring = True
        return [SetTimer("expiry", now + self.params.session_timeout)]

    # What is asked of it.

    def whole(self, stream: Stream, wrapped: int) -> int:
        """The number of an event of this stream, from its last 32 bits."""
        following = self.streams.all.get(stream)
        return wrapped if following is None else following.whole(wrapped)

    def lacks(self, stream: Stream, wrapped: int) -> int | None:
        """The number of the event, if we follow its stream and have not seen it."""
        following = self.streams.all.get(stream)
        if following is None:
            return None
        sequence = following.whole(wrapped)
        return None if sequence in following.seen else sequence

    def check(self) -> None:
        assert self.publishing.next >= len(self.publishing.records), "the record holds what was not sent"
        self.streams.check()


def sender_of(message: Any) -> int:
    """The transport that sent a message of its own."""
    match message:
        case LossRequest(requester):
            return requester
        case LossRepair(repairer):
            return repairer
        case EchoReply(_, publisher):
            return publisher
        case Acknowledgement(subscriber):
            return subscriber
    return int(message.subscriber)
