"""What the parts of the transport tell each other, and what goes in and out of it.

    above       the application (or the client library around it)       Listen, Publish, ... / Handed, Quality
    parts       shim, ordering, recovery, round trips, receiver, sender  Heard, GapSeen, EventLost, Recovered, ...
    below       a best-effort network that publishes and subscribes     Emit, Watch, Unwatch, Recall / Caught, Recalled

The network below is a black box (`carrier` in these pages): our brokers, B-DRP, an MQTT server. What it must do is
carry what `Emit` says to those whose `Watch` matches, perhaps late, twice, in another order or never.

The parts never see each other. The shim reads what comes from below and tells `Heard` for each event that is new, once,
and `Told` for messages of the transport itself. Ordering answers with `GapSeen` (numbers are missing) and `EventLost`
(one that we want is given up as late); recovery with `Recovered`. What leaves goes through `Leaving`: congestion
control lets it through as `Admitted`, at once when it is off.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Any, ClassVar, Literal

import msgspec

from tidings.machine.effects import Effect
from tidings.machine.inputs import Fired, Input, Request, Signal
from tidings.model.filter import Filter
from tidings.protocols.transport.headers import BadHeader, Data, FlowMark, decode_data
from tidings.protocols.transport.marks import Kind, unmark
from tidings.protocols.transport.messages import Control
from tidings.protocols.transport.params import TransportParams
from tidings.pubsub.requests import Bundle, BundledEvent, PublishRequest

Stream = tuple[str, int]
"""Events of one publisher: what the carrier calls it ("" where it does not say), and its id in the headers."""

Way = Literal["direct", "late", "repaired", "history"]
"""How an event came: in order; after a later one; from the cache of another receiver; from the history of a broker."""

Ticket = Hashable


class CarriedEvent(msgspec.Struct, frozen=True):
    """An event as the application knows it, with what the carrier says of it. `subscriptions` are those of the
    application that it came for."""

    head: bytes
    payload: bytes
    source: str = ""
    number: int = 0
    accepted_at: float = 0.0
    subscriptions: tuple[int, ...] = ()

    def to(self, subscriptions: tuple[int, ...]) -> "CarriedEvent":
        """The same event for these."""
        return CarriedEvent(self.head, self.payload, self.source, self.number, self.accepted_at, subscriptions)

    def bare(self, head: bytes, payload: bytes) -> "CarriedEvent":
        """The same event without its mark and header."""
        return CarriedEvent(head, payload, self.source, self.number, self.accepted_at, self.subscriptions)


# From above.


class Listen(Request, frozen=True):
    """A subscription of the application is in place. Without `is_ordered` the transport only takes headers off."""

    subscription: int
    filter: Filter
    is_ordered: bool = True
    is_reliable: bool = False
    is_paced: bool = False
    priority: float = 1.0
    """Weight of this filter when the rate that we can take is divided among ours."""


class StopListening(Request, frozen=True):
    """To the parts the same as a `Listen` without any mode."""

    subscription: int
    is_ordered: ClassVar[bool] = False
    is_reliable: ClassVar[bool] = False
    is_paced: ClassVar[bool] = False


class PublishEvent(PublishRequest, frozen=True):
    """An event as bytes; with a ticket, `Emit` carries it on."""

    head: bytes
    payload: bytes
    ticket: Ticket | None = None


class Configure(Request, frozen=True):
    """Other parameters from now on; the parts that run stay (T-102)."""

    params: TransportParams


# To above, inside `Deliver`.


class Handed(msgspec.Struct, frozen=True):
    """An event for the application. `latch` is how long it was to be held back, `held` how long it was."""

    content: CarriedEvent
    stream: Stream
    sequence: int
    way: Way = "direct"
    latch: float = 0.0
    held: float = 0.0


class Quality(msgspec.Struct, frozen=True):
    """Something that an application may want to know: a loss, its end, a withheld event, a rate."""

    what: Literal["lost", "recovered", "given_up", "late", "withheld", "rate"]
    stream: Stream | None
    sequence: int = 0
    value: float = 0.0
    subscriptions: tuple[int, ...] = ()
    """Of losses, where that is known: those that the event was for."""


# From and to below.


class Emit(Signal, frozen=True):
    """Publish this. `kind` and `ticket` are for whoever carries it and are not sent."""

    head: bytes
    payload: bytes
    kind: Kind
    ticket: Ticket | None = None


class Watch(Signal, frozen=True):
    """The transport itself wants what matches; the same key again replaces the filter."""

    key: Hashable
    filter: str


class Unwatch(Signal, frozen=True):
    key: Hashable


class Recall(Signal, frozen=True):
    """Read what the carrier has stored of this publisher between two of its numbers, both exclusive (0: no bound), for
    a subscription of the application. Answered by `Recalled`, by carriers that have a history."""

    stream: Stream
    sequence: int
    subscription: int
    after: int
    before: int


class Caught(Signal, frozen=True):
    """The carrier brought this for the application's subscriptions `content.subscriptions` (or for what the transport
    asked); head and payload as they came, mark and header included."""

    content: CarriedEvent


class Recalled(Signal, frozen=True):
    """Head and payload of each are as they were published. Empty, with a reason, if nothing could be read."""

    stream: Stream
    sequence: int
    contents: tuple[CarriedEvent, ...] = ()
    problem: str = ""


# Between the parts.


class Heard(Signal, frozen=True):
    """An event with a header, for the first time. `sequence` is the whole number, `header.sequence` its last bits."""

    stream: Stream
    sequence: int
    header: Data
    content: CarriedEvent


class DigestHeard(Signal, frozen=True):
    """A publisher tells what it sent up to `sequence` (exclusive), without an event."""

    stream: Stream
    sequence: int
    header: Data


class Told(Signal, frozen=True):
    """A message of the transport itself. For a repair `content` is the event that it brings, `content.subscriptions`
    those of ours that caught it, if any."""

    message: Control
    content: CarriedEvent
    stream: Stream | None = None
    """Of a repair or a request: the stream of the event, found by the publisher's id among those that we follow; None
    where we follow none of this id (it may be our own: `message.publisher == node_id`)."""
    sequence: int = 0
    """Of a repair or a request: the whole number of the event."""
    is_new: bool = False
    """Of a repair: whether we have not seen that event yet."""


class GapSeen(Signal, frozen=True):
    """Event `sequence` came, and `missing` numbers just before it did not. No record tells what `uncovered` of them
    were; `relevant` of the others are for us."""

    stream: Stream
    sequence: int
    missing: int
    uncovered: int
    relevant: int


class EventLost(Signal, frozen=True):
    """An event that is for us, by its Bloom row, has not come in time."""

    stream: Stream
    sequence: int
    bits: int
    departed: float
    subscriptions: tuple[int, ...] = ()
    """Those whose filter it seems to match."""


class Recovered(Signal, frozen=True):
    """An event that was `EventLost` is here after all. From recovery (repaired, history): ordering delivers it. From
    ordering (late): recovery stops asking."""

    stream: Stream
    sequence: int
    content: CarriedEvent
    way: Way


class FoundLosses(Signal, frozen=True):
    """The carrier itself found that these were lost, and has them."""

    recovered: tuple[Recovered, ...]


class GivenUp(Signal, frozen=True):
    """An event that was `EventLost` will not come any more: nobody had it."""

    stream: Stream
    sequence: int


class RoundTrip(Signal, frozen=True):
    """The way to this publisher and back takes so many seconds, smoothed."""

    stream: Stream
    seconds: float


WRITTEN_LATE = frozenset({Kind.REQUEST, Kind.REPAIR})
"""What is written when it may leave, by recovery: it says when it was sent, and may be needless by then."""


class Leaving(Signal, Bundle, frozen=True):
    """Something wants to leave. Events of the application come from the shim, with their bits. Feedback, echoes and the
    like pass at once. Requests and repairs have the bits of the event that they are about (T-99), and no bytes yet:
    they are known by their ticket until they may leave."""

    kind: Kind
    head: bytes = b""
    payload: bytes = b""
    """Events of the application: theirs. Others: all of it, header included."""
    bits: int = 0
    ticket: Ticket | None = None

    def publications(self) -> Iterator[BundledEvent]:
        yield BundledEvent(self.head, self.payload)


class Admitted(Signal, frozen=True):
    """It may leave now. `flows` are those that the event belongs to, for its header."""

    outgoing: Leaving
    flows: tuple[FlowMark, ...] = ()


class NotAdmitted(Signal, frozen=True):
    """A request or repair will not leave: too many wait."""

    outgoing: Leaving


class Unneeded(Signal, frozen=True):
    """A request or repair that waits need not leave any more."""

    kind: Kind
    ticket: Ticket


class Departed(Signal, frozen=True):
    """An event of ours has left under this number; the publisher's own cache keeps it."""

    sequence: int
    header: Data
    head: bytes
    payload: bytes
    bits: int


class StreamGone(Signal, frozen=True):
    """Nothing came of it for so long that its state is forgotten."""

    stream: Stream


def publisher_text(stream: Stream) -> str:
    """What a publisher is called in traces and tables."""
    return stream[0] or str(stream[1])


def event_key(stream: Stream, sequence: int, content: CarriedEvent | None = None) -> str:
    """As the carrier calls it, where it has names and numbers for events; else as its header does."""
    if content is not None and content.source and content.number:
        return f"{content.source} {content.number}"
    return f"{stream[1]} {sequence}"


def opened(content: CarriedEvent) -> tuple[Data | None, CarriedEvent]:
    """The header of an event that came as it was published, and the event without it; None for what has none."""
    head, kind = unmark(content.head)
    if kind is not Kind.DATA:
        return None, content
    try:
        header, payload = decode_data(content.payload)
    except BadHeader:
        return None, content
    return header, content.bare(head, payload)


class TransportPart:
    """What all parts have in common: each takes an input by its type, and hears what it has a handler for."""

    messages: tuple[type, ...] = ()
    tells: tuple[type[Signal], ...] = ()
    handlers: dict[type, Callable[[float, Any], list[Effect]]]

    @property
    def hears(self) -> tuple[type, ...]:
        return tuple(kind for kind in self.handlers if kind is not Fired)

    def start(self, now: float) -> list[Effect]:
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        handler = self.handlers.get(type(input))
        return [] if handler is None else handler(now, input)

    def check(self) -> None:
        """Whatever a part has to assert, it does here."""
