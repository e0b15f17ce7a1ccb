"""Ordering: the events of each publisher in the order in which they were sent, and those that are lost.

The problem. Brokers work on several events at a time, and links drop some. So events of one publisher overtake each
other, and a receiver that sees a number missing cannot know whether the event is late, lost, or was never meant for it:
its filters let only a part of each stream through.

The idea. Every event carries a number, the time when it was sent, and a record of the few events before it: the time
and the Bloom row of each. From the record a receiver reads which of the missing numbers are for it; if none is, there
is nothing to wait for. Else it holds the event back, for as long as the missing one may reasonably take: that follows
from how much delays have differed lately (`rules.py`). What has not come by then is lost, and said so (`EventLost`),
which starts recovery and is what congestion control counts. Nothing is ever held back longer than `latch_max`, and
nothing waits for a repair, unless `patience` says so: then events stay behind a lost one until it is repaired or given
up, and order is strict.

Three modes. *Enhanced* is that. *Basic* has no record: every missing number is waited for, and nothing is ever called
lost. *Static* is the baseline: every event behind a gap is held for the same time.

State. For each publisher `OrderedStream` (`stream.py`); the filters of this node as Bloom rows (`rules.py`). Timer
("latch", stream): the next event that is held goes out, or the next missing one of a digest is given up.

Signals. Hears `Heard`, `DigestHeard`, `Recovered` (repaired, history), `StreamGone`. Tells `GapSeen` for each event
that comes with numbers missing just before it, `EventLost` once for each event that is given up, `Recovered` for one
that comes after all. Traces: a `latch` note for each event that is held, `loss_detected` for each loss.

Guaranteed: every event that is heard is delivered once, or dropped with a reason, `latch_max` after those before it at
the latest; but for late and repaired ones, which are flagged, events leave in the order of their numbers; a loss is
told once, and only for events whose row matches a filter of ours. Not guaranteed: that nothing is late (a share of
`violation` is meant to be); that every loss is found (the record of some later event, or a digest, must tell of it). A
publisher that lies about times or rows can make us wait or ask in vain for its own events, within the bounds.

Streams are bounded by the shim, which says when to forget one (`StreamGone`).

Source: the transport specification, 3.3, 3.4; X-1 to X-6, G-4 to G-9.
"""

from random import Random
from typing import cast

from tidings.machine.effects import CancelTimer, Deliver, Effect
from tidings.machine.inputs import Fired
from tidings.protocols.transport.ordering.rules import WantedRows
from tidings.protocols.transport.ordering.shelf import Rules
from tidings.protocols.transport.ordering.stream import OrderedStream
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.signals import (
    Configure,
    DigestHeard,
    EventLost,
    GapSeen,
    GivenUp,
    Handed,
    Heard,
    Listen,
    Quality,
    Recovered,
    StopListening,
    Stream,
    StreamGone,
    TransportPart,
)


class Ordering(TransportPart):
    """Part of `TransportNode`."""

    tells = (GapSeen, EventLost, Recovered)

    def __init__(self, node_id: int, params: TransportParams, rng: Random) -> None:
        self.params = params
        self.interests = WantedRows(params.profile, params.topic_attribute, params.tells_ranges)
        self.rules = Rules(params.ordering, self.interests)
        self.streams: dict[Stream, OrderedStream] = {}
        self.handlers = {
            Heard: self.hear,
            Fired: self.fire,
            DigestHeard: self.hear_digest,
            Recovered: self.recover,
            GivenUp: self.give_up,
            StreamGone: self.forget,
            Listen: self.listen,
            StopListening: self.listen,
            Configure: self.configure,
        }

    def hear(self, now: float, heard: Heard) -> list[Effect]:
        receiving = self.streams.get(heard.stream)
        if receiving is None:
            receiving = self.streams[heard.stream] = OrderedStream(now, heard, self.rules)
            return receiving.begin(now, heard.header, heard.content)
        return receiving.hear(now, heard)

    def hear_digest(self, now: float, digest: DigestHeard) -> list[Effect]:
        """Of a publisher that we never had an event from, nothing is known to be for us."""
        receiving = self.streams.get(digest.stream)
        return [] if receiving is None else receiving.hear_digest(now, digest)

    def recover(self, now: float, recovered: Recovered) -> list[Effect]:
        stream, sequence = recovered.stream, recovered.sequence
        receiving = self.streams.get(stream)
        if receiving is not None:
            return receiving.recover(now, recovered)
        handed = Handed(recovered.content, stream, sequence, recovered.way)
        return [Deliver(handed), Deliver(Quality("recovered", stream, sequence))]

    def give_up(self, now: float, given_up: GivenUp) -> list[Effect]:
        receiving = self.streams.get(given_up.stream)
        return [] if receiving is None else receiving.give_up(now, given_up.sequence)

    def fire(self, now: float, fired: Fired) -> list[Effect]:
        _, stream = cast(tuple[str, Stream], fired.key)
        receiving = self.streams.get(stream)
        return [] if receiving is None else receiving.fire(now)

    def forget(self, now: float, gone: StreamGone) -> list[Effect]:
        receiving = self.streams.pop(gone.stream, None)
        if receiving is None:
            return []
        return [*receiving.shelf.flush(now), CancelTimer(("latch", gone.stream))]

    # From above.

    def listen(self, now: float, request: Listen | StopListening) -> list[Effect]:
        subscription = request.subscription
        if isinstance(request, Listen) and request.is_ordered:
            is_news = self.interests.add(subscription, request.filter, now)
        else:
            is_news = self.interests.remove(subscription)
        if is_news:
            # What was sent before the filter's first event is not for it.
            for receiving in self.streams.values():
                receiving.records.since.pop(subscription, None)
                receiving.joined = ()
        return []

    def configure(self, now: float, request: Configure) -> list[Effect]:
        self.params = request.params
        self.interests.configure(self.params.profile, self.params.topic_attribute, self.params.tells_ranges)
        self.rules = Rules(self.params.ordering, self.interests)
        for receiving in self.streams.values():
            receiving.adopt(self.rules)
        return []

    def check(self) -> None:
        for receiving in self.streams.values():
            receiving.check()
