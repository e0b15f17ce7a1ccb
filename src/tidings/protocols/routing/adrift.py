"""Advertisements adrift: nobody withdrew them, and the way to their publishers is lost.

The problem. When a broker fails, everybody behind it hears that publishers on the other side cannot be reached, and who
stands behind which filter is forgotten there: it was told for the sake of these advertisements alone. If somebody then
brings an event around the failure, it comes to a part of the tree in which nobody knows any more who wants it.

The idea. Where something may come around a failure (`rescue_window`), an advertisement of which the way is lost goes
*adrift*: it is unknown to all but to the question which filters concern a neighbour, so that filters stay told where
they were. It ends when the advertisement is known again, on whatever way, when it is withdrawn, or after `rest_for`
seconds, for which lost neighbours are remembered, too.

Bound: `advertisements_max`, the one that is adrift for longest goes first. Timer: "adrift".
"""

from collections.abc import Callable
from typing import NamedTuple

from tidings.machine.effects import Effect, SetTimer
from tidings.model.identity import NodeId
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.tables import LiveHop, Offered, Tables
from tidings.pubsub.signals import AdvertisementId

TIMER = "adrift"

LookAgain = Callable[[float, NodeId, list[Effect]], None]
"""Other filters than before may concern this neighbour, if it is one."""


class AdriftOffer(NamedTuple):
    hop: LiveHop
    offered: Offered
    ends_at: float


class AdriftOffers:
    """Those of a broker; `Tables.adrift` is what tables know of them."""

    def __init__(self, tables: Tables, params: RoutingParams, follows_offers: bool, look_again: LookAgain) -> None:
        self.tables, self.look_again = tables, look_again
        self.kept_for, self.most = params.rest_for, params.advertisements_max
        self.is_kept = params.rescue_window > 0 and follows_offers
        """Whether anything comes around failures, and filters follow advertisements."""
        self.of: dict[AdvertisementId, AdriftOffer] = {}
        """The one that is adrift for longest first."""
        self.is_timed = False

    def put(
        self, now: float, advertisement: AdvertisementId, hop: LiveHop, offered: Offered | None, effects: list[Effect]
    ) -> None:
        """The way to it is lost; `hop` is on whose side it was."""
        if not self.is_kept or offered is None or self.tables.chosen(advertisement) is not None:
            return
        self.of.pop(advertisement, None)
        self.of[advertisement] = AdriftOffer(hop, offered, now + self.kept_for)
        self.tables.set_adrift(advertisement, hop, offered)
        if len(self.of) > self.most:
            self.end(now, next(iter(self.of)), effects)
        if not self.is_timed:
            self.is_timed = True
            effects.append(SetTimer(TIMER, now + self.kept_for))

    def end(self, now: float, advertisement: AdvertisementId, effects: list[Effect]) -> None:
        """It is known again, was withdrawn, or is not waited for any more."""
        gone = self.of.pop(advertisement, None)
        if gone is not None:
            self.tables.unset_adrift(advertisement)
            if gone.hop is not None:
                self.look_again(now, gone.hop, effects)

    def was_behind(self, hop: LiveHop, advertisement: AdvertisementId) -> bool:
        """Whether it is adrift, and was on that side."""
        return advertisement in self.of and self.of[advertisement].hop == hop

    def fired(self, now: float) -> tuple[list[AdvertisementId], list[Effect]]:
        """Those for which the time is over."""
        over = [advertisement for advertisement, adrift in self.of.items() if adrift.ends_at <= now]
        effects: list[Effect] = []
        for advertisement in over:
            self.end(now, advertisement, effects)
        self.is_timed = bool(self.of)
        if self.of:
            effects.append(SetTimer(TIMER, next(iter(self.of.values())).ends_at))
        return over, effects

    def start(self, now: float) -> list[Effect]:
        """There is no timer any more."""
        self.is_timed = bool(self.of)
        return [SetTimer(TIMER, now + self.kept_for)] if self.of else []

    def check(self) -> None:
        assert len(self.of) <= self.most and (self.is_timed or not self.of)
        assert self.of.keys() == self.tables.adrift.keys()
        assert not self.of.keys() & self.tables.offers.keys(), "known, and adrift at once"
