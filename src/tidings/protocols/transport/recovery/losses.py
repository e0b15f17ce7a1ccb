"""The way of a loss: asked of others, then of the carrier's history, then given up.

Each ends in one of three ways, and no loss is forgotten: it is brought (by a repair, by the history, late by itself),
it is given up (`Quality("given_up")` for the application, and a drop with the reason), or nobody wants it any more.
"""

from random import Random

from tidings.machine.effects import CancelTimer, Deliver, Drop, Effect
from tidings.protocols.transport.formats import Data
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.recovery.asking import Asking, Key, Loss
from tidings.protocols.transport.recovery.history import History, events_in
from tidings.protocols.transport.recovery.streams import StreamState
from tidings.protocols.transport.signals import Content, GivenUp, Lost, Quality, Recalled, Stream

NOBODY_HAS_IT = "asked for as often as is allowed, and nobody had it"
TOO_MANY_LOSSES = "as many lost events as are allowed are asked for already"
NOT_IN_HISTORY = "the carrier's history does not have it"
STREAM_GONE = "its publisher has been silent for too long"
NOT_WANTED_ANY_MORE = "lost for subscriptions that are not there any more"

Brought = tuple[int, Data, Content]


class Losses:
    def __init__(self, node_id: int, params: TransportParams, rng: Random) -> None:
        self.params = params
        self.asking = Asking(node_id, params, rng)
        self.history = History()
        self.given_up = 0

    def __contains__(self, key: Key) -> bool:
        return key in self.asking.losses or key in self.history

    def configure(self, params: TransportParams) -> None:
        self.params = params
        self.asking.configure(params)

    def add(
        self, now: float, state: StreamState, lost: Lost, subscriptions: tuple[int, ...], distance: float
    ) -> list[Effect]:
        if (lost.stream, lost.sequence) in self:
            return []
        loss = Loss(now, lost.bits, subscriptions, *state.numbers_around(lost.sequence))
        if self.asking.is_full:
            return self.last_resort(now, lost.stream, lost.sequence, loss, TOO_MANY_LOSSES)
        return self.asking.lost(now, state, lost.sequence, loss, distance)

    def due(self, now: float, state: StreamState, sequence: int, distance: float) -> list[Effect]:
        loss = self.asking.losses.get((state.stream, sequence))
        if loss is None:
            return []
        asked = self.asking.due(now, state, sequence, distance)
        if asked is not None:
            return asked
        self.asking.end(state, sequence, distance)
        return self.last_resort(now, state.stream, sequence, loss, NOBODY_HAS_IT)

    def last_resort(self, now: float, stream: Stream, sequence: int, loss: Loss, reason: str) -> list[Effect]:
        """Nobody can be asked any more: the history is left, where there is one."""
        if self.params.recovery.uses_history and not self.history.is_full:
            return self.history.add(now, stream, sequence, loss)
        return self.give_up(stream, sequence, loss, reason)

    def give_up(self, stream: Stream, sequence: int, loss: Loss, reason: str) -> list[Effect]:
        self.given_up += 1
        quality = Quality("given_up", stream, sequence, subscriptions=loss.subscriptions)
        return [Drop(quality, reason), Deliver(quality), GivenUp(stream, sequence)]

    def end(self, state: StreamState, sequence: int, distance: float) -> list[Effect]:
        """It is here, or nobody wants it any more."""
        if (state.stream, sequence) in self.asking.losses:
            return self.asking.end(state, sequence, distance)
        self.history.drop(state.stream, sequence)
        return []

    def recalled(self, now: float, recalled: Recalled) -> tuple[list[Brought], list[Effect]]:
        """What the history brought of that which was lost; the rest of what this recall was for is given up."""
        losses = self.history.answered(recalled.stream, recalled.sequence)
        if losses is None:
            return [], []
        found = [each for each in events_in(recalled) if losses.pop(each[0], None) is not None]
        return found, [CancelTimer(("recall", recalled.stream)), *self.next_reading(now, recalled.stream, losses)]

    def unanswered(self, now: float, stream: Stream) -> list[Effect]:
        """The history is silent."""
        losses = self.history.answered(stream, None)
        return [] if losses is None else self.next_reading(now, stream, losses)

    def next_reading(self, now: float, stream: Stream, losses: dict[int, Loss]) -> list[Effect]:
        effects = list[Effect]()
        for sequence, loss in losses.items():
            effects += self.give_up(stream, sequence, loss, NOT_IN_HISTORY)
        return effects + self.history.read(now, stream)

    def forget(self, state: StreamState, distance: float) -> list[Effect]:
        stream, effects = state.stream, list[Effect]()
        for key, loss in [item for item in self.asking.losses.items() if item[0][0] == stream]:
            effects += self.asking.end(state, key[1], distance)
            effects += self.give_up(stream, key[1], loss, STREAM_GONE)
        losses, cancelled = self.history.forget(stream)
        effects += cancelled
        for sequence, loss in losses.items():
            effects += self.give_up(stream, sequence, loss, STREAM_GONE)
        return effects

    def unwanted(self, reliable: set[int]) -> list[Key]:
        """Those that no subscription is left for."""
        return [key for key, loss in self.asking.losses.items() if reliable.isdisjoint(loss.subscriptions)]

    def check(self) -> None:
        self.asking.check()
        self.history.check()
