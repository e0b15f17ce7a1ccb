"""Routing: every event reaches the brokers whose clients want it, and no others.

The problem. Clients of many brokers publish events and want events, by content. Sending everything everywhere would do,
and cost a message on every link for every event.

The idea. The brokers form a tree. Each remembers for each neighbour what somebody behind it wants (`tables.py`), and
tells each neighbour what somebody on this side wants: all of it, or fewer filters that cover it (`reductions.py`).
Which filters a neighbour must hear of is a matter of strategy (`strategies.py`): by default those that overlap an
advertisement that came from it, for only there can such events come from. An event then goes to the neighbours with a
matching filter, except back (`carrier.py`), and from broker to broker until it is everywhere where it is wanted.

One rule does all the work. Whenever anything changes (a client subscribes, a neighbour tells something, a link comes
or goes), compute what each neighbour ought to have been told, compare it with what it was told, and send the
difference, additions first. So the order in which things happen does not matter: when nothing is under way any more,
every table is right for the tree as it is then.

Acknowledgements. Each change is answered with `Installed` by the neighbour when everybody behind it whom it concerns
has carried it out, with `NotInstalled` when that failed or took too long. A request of our own clients is answered by
`Settled` in the same way. Publications that carry a receipt are answered with `Reached`. (`requests.py`) A broker may
be set to acknowledge nothing; then tables and deliveries are the same, and nobody can say when something is installed.
Large tables are told a piece at a time (`walks.py`), packed, as fast as the neighbour takes them (`packets.py`).

When links change. A new neighbour is told everything (`links.py`). What becomes of the wishes of a lost one is a matter
of the repair (`repairs/`): by default they are remembered for a while, and if it comes back only what has changed is
told (`rests.py`). When a publisher is reached on another way than before, everybody behind us hears of it by a new
announcement of its advertisement, and `Known` tells delivery that something may have been lost.

Twice is once. Publications are taken only from the neighbour on the way to their publisher, and only with numbers above
the last that passed. So an event that comes round a ring while the tree changes is dropped, at the price of one number
for each publisher. The order of a publisher's events is kept. Where somebody brings publications around a failure
(`Rescued`), a window of numbers takes the place of the one (`carrier.py`), and the order is theirs.
Counting, where it is wanted: how many subscriptions there are behind each neighbour (`census.py`).

Messages: those of `messages.py`, publications, and those of the repair and of the carriage, which alone may come from
nodes that are no neighbours. Timers: "unanswered", "turn", "census", and theirs.

Guaranteed, on a tree with links that keep order: at rest every table is as if computed by one who sees everything; an
event that is published when nothing is under way reaches everybody who wants it once, in the order of its publisher; an
acknowledged subscription gets every event accepted later from the publishers known to its broker. Not guaranteed: what
is on its way over a link that breaks. Delivery fetches that from history.

Source: dependable.md 3.1 and 3.6, dynamic-topologies.md 3.1 to 3.3.
"""

from collections.abc import Callable, Iterator
from typing import Any

from tidings.machine.effects import Drop, Effect, Send
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.machine.message import Message
from tidings.machine.window import TakenBytes
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.protocols.routing.adrift import TIMER as ADRIFT_TIMER
from tidings.protocols.routing.advertisements import RoutingAdvertisements
from tidings.protocols.routing.buckets import is_part
from tidings.protocols.routing.carrier import MakeCarriage
from tidings.protocols.routing.census import TIMER as CENSUS_TIMER
from tidings.protocols.routing.departures import TableDepartures
from tidings.protocols.routing.heavy import TIMER as HEAVY_TIMER
from tidings.protocols.routing.links import NeighbourLink
from tidings.protocols.routing.messages import (
    AdvertisementAdded,
    AdvertisementRemoved,
    ChangesInstalled,
    ChangesNotInstalled,
    Counted,
    Installed,
    NotInstalled,
    NotReached,
    PartTold,
    PublicationsSkipped,
    PublicationsTaken,
    Reached,
    SubscriptionAdded,
    SubscriptionRemoved,
    TableChanges,
    TablesBegun,
    TablesTaken,
    TablesTold,
)
from tidings.protocols.routing.packets import answers_of, changes_of, packed_answers, size_of_told
from tidings.protocols.routing.params import TABLES_TAKEN_STEPS, TAKEN_STEPS, RoutingParams
from tidings.protocols.routing.repairs.choice import REPAIRS, MakeRepair, check_level
from tidings.protocols.routing.repairs.repair import Repair
from tidings.protocols.routing.requests import TIMER
from tidings.protocols.routing.rests import TIMER as REST_TIMER
from tidings.protocols.routing.rests import RestingLinks
from tidings.protocols.routing.state import NO_NEIGHBOUR, NO_SUCH_PART, State
from tidings.protocols.routing.subscriptions import RoutingSubscriptions
from tidings.protocols.routing.tables import Ghost
from tidings.protocols.routing.walks import TIMER as TURN_TIMER
from tidings.protocols.routing.walks import Walker
from tidings.pubsub.publications import Publications, PublicationsAround
from tidings.pubsub.rows import Gauge, RouteRow, View
from tidings.pubsub.signals import (
    AdvertisementId,
    Forgotten,
    Forward,
    Known,
    Level,
    Matched,
    NeighbourDown,
    NeighbourReplaced,
    NeighbourUp,
    Offer,
    ReconfigurationId,
    Rescued,
    Settled,
    Skipped,
    Stranded,
    Unoffer,
    Unwant,
    Want,
)

ANSWERS = frozenset((Installed, NotInstalled, ChangesInstalled, ChangesNotInstalled, Reached, NotReached))

OnInput = Callable[[float, Any], list[Effect]]
OnMessage = Callable[[float, NeighbourLink, Any], list[Effect]]
OnMessageFromAnybody = Callable[[float, NodeId, Any], list[Effect]]


class Router:
    """`Router("b1", RoutingParams())`."""

    messages: tuple[type, ...] = (
        *(Publications, PublicationsTaken, PublicationsSkipped, PublicationsAround, Reached, NotReached, Counted),
        *(SubscriptionAdded, SubscriptionRemoved, AdvertisementAdded, AdvertisementRemoved),
        *(TablesBegun, TablesTold, PartTold, TableChanges, TablesTaken),
        *(Installed, NotInstalled, ChangesInstalled, ChangesNotInstalled),
    )
    hears: tuple[type, ...] = (
        *(Forward, Want, Unwant, Offer, Unoffer),
        *(NeighbourUp, NeighbourDown, NeighbourReplaced),
    )
    tells: tuple[type[Signal], ...] = (Settled, Known, Forgotten, Matched, Skipped)

    def __init__(
        self,
        node_id: NodeId,
        params: RoutingParams | None = None,
        make_repair: MakeRepair | None = None,
        make_carriage: MakeCarriage | None = None,
    ) -> None:
        self.node_id, self.params = node_id, params or RoutingParams()
        self.state = State(node_id, self.params, make_carriage)
        self.tables, self.ledger, self.links = self.state.tables, self.state.ledger, self.state.links
        self.carrier, self.census = self.state.carrier, self.state.census
        self.subscriptions = RoutingSubscriptions(self.state)
        self.departures = TableDepartures(self.state, self.subscriptions)
        self.advertisements = RoutingAdvertisements(self.state, self.subscriptions)
        self.repair: Repair = (make_repair or REPAIRS[self.params.repair])(self.subscriptions)
        self.resting = RestingLinks(self.state, self.departures, self.advertisements, self.repair.rests)
        self.walks = Walker(self.state, self.subscriptions, self.advertisements, self.departures, self.repair.told)
        carriage = self.carrier.carriage
        self.from_anybody: dict[type, OnMessageFromAnybody] = {
            **dict.fromkeys(self.repair.messages, self.repair.receive),
            **dict.fromkeys(carriage.messages, carriage.receive),
        }
        """Who takes what may come from nodes that are no neighbours, too."""
        self.messages = (*Router.messages, *self.from_anybody)
        self.hears = (*Router.hears, *carriage.hears, *self.repair.hears)
        self.tells = (*Router.tells, *carriage.tells, *self.repair.tells)
        self.is_best_effort, self.overtakes = self.params.is_best_effort, self.params.overtakes
        self.lives = 0
        self.on_input: dict[type, OnInput] = {
            Forward: self.carrier.forward,
            Want: self.subscriptions.want,
            Unwant: self.subscriptions.unwant,
            Offer: self.offer,
            Unoffer: self.advertisements.unoffer,
            NeighbourUp: self.neighbour_up,
            NeighbourDown: self.neighbour_down,
            NeighbourReplaced: self.repair.replaced,
            **dict.fromkeys(carriage.hears, carriage.hear),
            **dict.fromkeys(self.repair.hears, self.repair.hear),
        }
        self.on_change: dict[type, OnMessage] = {
            SubscriptionAdded: self.subscriptions.added,
            SubscriptionRemoved: self.subscriptions.removed,
            AdvertisementAdded: self.advertisements.added,
            AdvertisementRemoved: self.advertisements.removed,
            PartTold: self.part_told,
        }
        self.on_message: dict[type, OnMessage] = {
            Publications: self.carrier.receive,
            **dict.fromkeys((*self.on_change, TableChanges), self.changed),
            TablesTaken: self.tables_taken,
            TablesTold: self.tables_told,
            Installed: self.answered,
            NotInstalled: self.answered,
            ChangesInstalled: self.answered_many,
            ChangesNotInstalled: self.answered_many,
            Reached: self.answered,
            NotReached: self.answered,
            PublicationsTaken: self.carrier.taken,
            PublicationsSkipped: self.carrier.skipped,
            PublicationsAround: self.carrier.around.receive,
        }
        if self.census is not None:
            self.on_message[Counted] = self.census.counted
        if self.params.rescue_window:
            self.hears, self.tells = (*self.hears, Rescued), (*self.tells, Stranded)
            self.on_input[Rescued] = self.carrier.around.rescue

    # What others may look at.

    def check_overlay(self, overlay: str, level: Level, is_tree: bool) -> None:
        """UsageError where the overlay of that name does not do for tables, or tells too little for the repair."""
        if not is_tree:
            raise UsageError(
                f"routing tables needs links that form a tree, and overlay {overlay} takes every link; choose overlay "
                "spanning-tree, or routing destinations"
            )
        check_level(self.repair, overlay, level)

    def is_synchronised(self, neighbour: NodeId) -> bool:
        """Whether it has told its tables."""
        return neighbour in self.links and self.links[neighbour].is_told

    def why_unsettled(self) -> str:
        waiting = [name for name, link in self.links.items() if not link.is_told]
        return f"waiting for the tables of {', '.join(waiting)}" if waiting else ""

    def hop_toward(self, advertisement: AdvertisementId) -> NodeId | None:
        """The neighbour on the way to its publisher; None for our own client, and if it is not known."""
        chosen = self.tables.chosen(advertisement)
        return chosen[0] if chosen is not None else None

    def views(self) -> dict[str, View]:
        return {"routes": lambda _: self.route_rows(), **self.carrier.carriage.views()}

    def route_rows(self) -> Iterator[RouteRow]:
        return (row for link in self.links.values() for row in link.rows(self.tables.texts[link.neighbour]))

    def gauges(self) -> Iterator[Gauge]:
        yield Gauge("neighbours", "brokers over which events are routed", len(self.links))
        meaning = "filters that a neighbour told, or was told"
        for neighbour, link in self.links.items():
            for direction, filters in (("out", link.filters), ("in", self.tables.texts[neighbour])):
                yield Gauge("routes", meaning, len(filters), {"neighbour": neighbour, "direction": direction})
        yield from self.carrier.carriage.gauges()

    # Inputs.

    def start(self, now: float) -> list[Effect]:
        # After a crash that left the state intact every link is gone; the overlay will name the neighbours anew.
        effects: list[Effect] = []
        for link in list(self.links.values()):
            effects += self.neighbour_down(now, NeighbourDown(link.neighbour, link.epoch))
        for ghost in list(self.tables.ghosts):
            self.subscriptions.release(now, ghost, effects)
        effects += self.resting.start(now) + self.walks.start(now) + self.advertisements.adrift.start(now)
        self.carrier.heavy.start()
        self.carrier.carriage.start()
        if self.census is not None:
            self.census.start()
        return self.state.outbox.take() + effects

    def handle(self, now: float, input: Input) -> list[Effect]:
        # What was published under it must not come behind the word that it is withdrawn.
        ahead = self.carrier.carriage.withdrawn(now, input.advertisement) if type(input) is Unoffer else []
        outbox = self.state.outbox.at(now)
        effects = self.take(now, input)
        return ahead + outbox.take() + effects if outbox.flows or outbox.sends else ahead + effects

    def offer(self, now: float, offer: Offer) -> list[Effect]:
        effects = self.advertisements.offer(now, offer)
        if offer.advertisement in self.tables.offers_of[None]:
            self.carrier.carriage.offered(offer.advertisement, offer.latency)
        return effects

    def take(self, now: float, input: Input) -> list[Effect]:
        if type(input) is Received:
            heard, link = self.on_message.get(type(input.message)), self.links.get(input.sender)
            if heard is None or link is None or not link.is_heard:
                return self.received_early(now, input.sender, input.message, link)
            return heard(now, link, input.message)
        if (handler := self.on_input.get(type(input))) is not None:
            return handler(now, input)
        if type(input) is Fired:
            if input.key == TIMER:
                return packed_answers(self.ledger.expire(now))
            if input.key == TURN_TIMER:
                return self.walks.fired(now)
            if input.key == HEAVY_TIMER:
                return self.carrier.heavy.fired(now)
            if self.census is not None and input.key == CENSUS_TIMER:
                return self.census.tell()
            if input.key == ADRIFT_TIMER:
                return self.advertisements.adrift_over(now)
            if type(input.key) is tuple and input.key[0] == REST_TIMER:
                return self.resting.fired(now, input.key)
            return self.repair.fired(now, input.key) + self.carrier.carriage.fired(now, input.key)
        return []

    def received_early(self, now: float, sender: NodeId, message: Message, link: NeighbourLink | None) -> list[Effect]:
        """What may come before a neighbour has begun to tell its tables, or from nodes that are none."""
        if type(message) is TablesBegun and link is not None:
            return self.tables_begun(now, link, message)
        if type(message) in self.from_anybody:
            return self.from_anybody[type(message)](now, sender, message)
        if (former := self.repair.stands_in(sender)) is not None:
            if type(message) in ANSWERS:
                return self.on_message[type(message)](now, former, message)
            if type(message) in (*self.on_change, TableChanges):
                return self.state.answer_at_once(former, message)
        return [Drop(message, NO_NEIGHBOUR)]

    def changed(self, now: float, link: NeighbourLink, told: Any) -> list[Effect]:
        """Changes of tables: one, or many packed."""
        effects: list[Effect] = []
        for change in changes_of(told) if type(told) is TableChanges else (told,):
            effects += self.on_change[type(change)](now, link, change)
        taken_bytes = link.tables_taken.take(size_of_told(told))
        if taken_bytes is not None:
            effects.append(Send(link.neighbour, TablesTaken(taken_bytes)))
        return packed_answers(effects)

    def tables_taken(self, now: float, link: NeighbourLink, taken: TablesTaken) -> list[Effect]:
        link.flow.window.hear(now, taken.total_bytes)
        return self.walks.arm(now)

    def answered_many(self, now: float, link: NeighbourLink, answers: Any) -> list[Effect]:
        return packed_answers([each for one in answers_of(answers) for each in self.answered(now, link, one)])

    def answered(self, now: float, link: NeighbourLink, answer: Any) -> list[Effect]:
        neighbour, kind = link.neighbour, type(answer)
        is_batch = kind is Reached or kind is NotReached
        number = answer.receipt if is_batch else answer.number
        if not self.ledger.is_expected(neighbour, number, is_batch):
            return []
        if kind is Installed:
            return self.ledger.succeed(neighbour, number, answer.brokers, answer.brokers_count)
        if kind is Reached:
            return self.ledger.succeed(neighbour, number, (), 0)
        return self.ledger.fail(neighbour, number, answer.reason)

    def neighbour_up(self, now: float, up: NeighbourUp) -> list[Effect]:
        effects: list[Effect] = []
        if up.neighbour in self.links or self.repair.stands_in(up.neighbour) is not None:
            effects += self.neighbour_down(now, NeighbourDown(up.neighbour, up.epoch))
        self.lives += 1
        flow = self.state.make_flow(up.neighbour)
        if not self.repair.rests:
            self.departures.settle(now, up.neighbour, effects)
        link, woken = self.resting.wake(up.neighbour)
        effects += woken
        if link is None:
            link = NeighbourLink(
                *(up.neighbour, up.epoch, up.reconfiguration, self.lives, self.tables, self.ledger), flow
            )
            if up.neighbour not in self.tables.texts:
                self.tables.add_neighbour(up.neighbour)
        link.resume(up.epoch, up.reconfiguration, self.lives, flow)
        self.links[up.neighbour] = link
        link.begin()
        return effects + self.repair.up(now, link)

    def neighbour_down(self, now: float, down: NeighbourDown) -> list[Effect]:
        link = self.links.get(down.neighbour)
        if link is not None and down.epoch < link.epoch:
            return []
        effects = self.repair.parted(now, down.neighbour)
        link = self.links.get(down.neighbour)
        if link is None:
            return effects
        del self.links[down.neighbour]
        if self.repair.rests:
            return effects + self.resting.rest(now, link)
        effects += self.lose(now, link, down.reconfiguration)
        if down.neighbour not in self.tables.absent:
            self.tables.remove_neighbour(down.neighbour)
        return effects

    def lose(self, now: float, link: NeighbourLink, reconfiguration: ReconfigurationId) -> list[Effect]:
        """It is as if the neighbour had never been told anything; what it wanted is the repair's affair."""
        effects = [
            *link.close(),
            *packed_answers(self.ledger.lose(link.neighbour)),
            *self.carrier.carriage.close(link.neighbour),
        ]
        self.repair.lost(now, Ghost(link.neighbour, reconfiguration or f"life {link.life}"), effects)
        self.advertisements.withdraw(now, link.neighbour, effects)
        if self.census is not None:
            effects += self.census.lost(now, link.neighbour)
        self.state.tables_changed()
        return effects

    def tables_begun(self, now: float, link: NeighbourLink, begun: TablesBegun) -> list[Effect]:
        effects: list[Effect] = []
        if begun.life != link.life_heard:
            if link.reduction is not None:
                if self.repair.rests and link.is_heard:
                    # What it tells now may hold for what we had when this life began: we have other things since.
                    self.lives += 1
                    link.life = self.lives
                effects += self.resting.suspend(now, link) if self.repair.rests else self.lose(now, link, "")
            link.open(begun, self.state.make_reduction, self.state.make_flow(link.neighbour))
            effects += self.carrier.carriage.open(link.neighbour)
            self.tables.absent.pop(link.neighbour, None)
            self.state.tables_changed()
            link.begin()
            self.walks.open(now, link, effects)
            self.walks.look_at_others(now, link, effects)
        if begun.answers == link.life and not link.is_heard:
            link.is_heard = True
            link.is_confirming = True
            link.tables_taken = TakenBytes(self.params.tables_window_bytes // TABLES_TAKEN_STEPS)
            link.publications_taken = TakenBytes(self.params.publications_window_bytes // TAKEN_STEPS)
        return effects

    def tables_told(self, now: float, link: NeighbourLink, told: TablesTold) -> list[Effect]:
        link.is_told = True
        effects: list[Effect] = []
        if link.is_confirming:
            # What was not told again is as it was, and counts again.
            link.is_confirming, link.confirmed_filters, link.confirmed_offers = False, {}, {}
            for advertisement in self.tables.offers_of[link.neighbour]:
                if link.neighbour not in self.tables.offers.get(advertisement, ()):
                    link.news.append((link.filters_walk.target, advertisement, self.state.request(None, None)))
            self.walks.go(now, link, effects)
        return effects

    def part_told(self, now: float, link: NeighbourLink, told: PartTold) -> list[Effect]:
        """What we have of this part from an earlier life, and were not told again, is gone."""
        effects: list[Effect] = []
        if not link.is_confirming or not is_part(told.part, told.parts):
            return [Drop(told, NO_SUCH_PART)]
        if told.is_filters:
            names = self.tables.heard_filters[link.neighbour].names_of_part(told.part, told.parts)
            gone = [text for text in names if text not in link.confirmed_filters]
            self.subscriptions.withdraw_some(now, link.neighbour, gone, effects)
            return effects
        for advertisement in self.tables.heard_offers[link.neighbour].names_of_part(told.part, told.parts):
            if advertisement not in link.confirmed_offers:
                effects += self.advertisements.unoffered(now, link, advertisement, self.state.request(None, None))
        return effects

    def check(self) -> None:
        """Assert the invariants; INV-R1 in `subscriptions.py`, what was told and acknowledged in `links.py`."""
        self.state.check()
        self.subscriptions.check()
        self.advertisements.check()
        self.repair.check()
        self.walks.check()
        self.resting.check()
        self.departures.check()
        assert self.tables.texts.keys() == {None, *self.links, *self.tables.absent, *self.tables.ghosts}
