"""Who plays the applications of a nemesis (`nemesis.py`), and tells the judge what they see.

The script is the campaign: who subscribes, advertises, publishes and reads what, and when. A client whose process ended
and began anew opens again what its script has open at that time; what it was to publish while it was down is not
published. A client that may not publish now, because too much of what it published waits to be accepted, tries again a
little later, as a program would. Events of one moment and one offer are published together.

Whoever reads what is stored asks for marks, and then for one page after the other of each publisher (`PlayedReading`).
"""

from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import Any

import msgspec

from tidings.machine.inputs import Input
from tidings.machine.node import Machine
from tidings.model.identity import NodeId, is_visitor, name_of
from tidings.nodes.broker import BrokerNode
from tidings.nodes.client import ClientNode
from tidings.protocols.access.access import Access
from tidings.protocols.delivery.session.session import TOO_SLOW
from tidings.pubsub.client import (
    Accepted,
    Arrived,
    Begun,
    CloseAdvertisement,
    CloseSubscription,
    Confirmed,
    Declined,
    Ended,
    Failed,
    HistoryRead,
    MarksRead,
    Missed,
    OpenAdvertisement,
    OpenSubscription,
    PublishBatch,
    ReadHistory,
    ReadMarks,
    Took,
)
from tidings.pubsub.publications import decode_head, encode_head
from tidings.pubsub.signals import PeerDown, PeerUp
from tidings.sim.checkers import Checker, Problem
from tidings.sim.library.nemesis_strangers import LetIn
from tidings.sim.node import SimulatedNode
from tidings.sim.simulator import Simulator
from tidings.workloads.nemesis.campaign import Campaign, ReadLater, WantedLater, WrittenLater, payload_of
from tidings.workloads.nemesis.judged import BrokenPromise
from tidings.workloads.nemesis.promise import PromiseJudge

TRY_AGAIN = 0.25
"""Seconds after which a client that could not publish tries again."""

PUBLISHERS_READ_MAX = 60
"""Of so many the pages are read: one after the other, and the run ends."""

MENDED_AFTER = 50.0
"""Seconds behind the last fault in which the network is whole again: a link that vanished is noticed after 20 s, and
what was asked over it is asked again 30 s later."""

SKEW_MAX = 5.0
"""What faults may add to a clock."""


class PlayedReading(msgspec.Struct):
    """What a client reads of what is stored: which publishers are left, each with what is asked for next."""

    key: Any
    read: ReadLater
    left: list[tuple[str, int, int]] = []
    """Publisher, behind which number, up to which; the next one last."""


class NemesisConductor(Checker):
    """Plays the applications of a campaign, and tells the judge what they see."""

    name = "nemesis"

    def __init__(self, campaign: Campaign) -> None:
        self.campaign, self.judge = campaign, PromiseJudge(campaign.may_forget)
        self.readers = {reader.name: reader for reader in campaign.readers}
        self.writers = {writer.name: writer for writer in campaign.writers}
        self.forgetful = {broker.name for broker in campaign.brokers if not broker.is_durable}
        self.served = {writer.name: {*writer.brokers} for writer in campaign.writers}
        """The brokers that each writer may have been served by: one that is drained sends it to others."""
        self.moves = 0
        """How often a client was let in by another broker because its own was drained."""
        self.machines: dict[NodeId, Machine] = {}
        """Of each node the machine that it was last seen with: another one is another life."""
        self.numbers: dict[tuple[NodeId, Any], int] = {}
        """What a client calls the subscription or offer of a ticket."""
        self.subscriptions: dict[tuple[NodeId, int], tuple[Any, WantedLater]] = {}
        """Of the present lives, by the client's number: the judge's key, and what it is."""
        self.sent: dict[NodeId, dict[int, str]] = {}
        """What writers published in their present lives and was not accepted, by number."""
        self.tickets: dict[tuple[NodeId, Any], list[str]] = {}
        """Publications whose receipts are waited for."""
        self.counts: dict[NodeId, int] = {}
        self.readings: dict[Any, PlayedReading] = {}
        """By ticket, those of the present lives."""

    # The script.

    def requested(self, now: float, node: SimulatedNode, input: Input) -> None:
        """Whatever happens to a node may be the first in its life."""
        self.notice_life(now, node)

    def notice_life(self, now: float, node: SimulatedNode) -> None:
        machine = node.machine
        assert machine is not None
        known = self.machines.get(node.id)
        if known is machine:
            return
        self.machines[node.id] = machine
        if node.id in self.forgetful and known is not None:
            served = [writer.name for writer in self.campaign.writers if node.id in self.served[writer.name]]
            self.judge.forgot(served)
        elif node.id in self.readers or node.id in self.writers:
            self.begin_life(now, node, is_first=known is None)

    def begin_life(self, now: float, node: SimulatedNode, is_first: bool) -> None:
        name, life = node.id, node.lives
        for number in [number for client, number in self.subscriptions if client == name]:
            self.judge.closed(self.subscriptions.pop((name, number))[0])
        self.sent[name] = {}
        self.judge.gone(name)
        world = node.world
        if name in self.readers:
            for place, wanted in enumerate(self.readers[name].wanted):
                if wanted.until is None or wanted.until > now:
                    self.at(world, max(now, wanted.at), name, life, partial(self.subscribe, place, wanted))
                    self.at(world, wanted.until, name, life, partial(self.unsubscribe, place))
            for place, read in enumerate(self.readers[name].read):
                if read.at > now:
                    self.at(world, read.at, name, life, partial(self.look, place, read))
            return
        self.judge.begun(name, life)
        for place, offer in enumerate(self.writers[name].offers):
            if offer.until is None or offer.until > now:
                self.at(world, max(now, offer.at), name, life, partial(self.advertise, place))
                self.at(world, offer.until, name, life, partial(self.withdraw, place))
        for (at, _), together in groupby(self.writers[name].written, key=lambda each: (each.at, each.offer)):
            if at >= now:
                self.at(world, at, name, life, partial(self.publish, list(together)))

    def at(
        self,
        world: Simulator,
        time: float | None,
        name: NodeId,
        life: int,
        act: Callable[[float, SimulatedNode, int], None],
    ) -> None:
        """Act at this time if the client is still in this life then."""
        if time is None:
            return
        node = world.node(name)

        def call() -> None:
            if node.process is not None and node.lives == life:
                act(world.now, node, life)

        world.call_at(time, call)

    def subscribe(self, place: int, wanted: WantedLater, now: float, node: SimulatedNode, life: int) -> None:
        key = (node.id, "subscribe", life, place)
        since = None if wanted.since is None else wanted.since
        # Each of two clocks, and what a fault adds to them, may be off.
        apart = 2 * self.campaign.clock_error + SKEW_MAX
        promised = None if since is None else since + apart
        is_dropping, group = wanted.policy != "wait", wanted.group
        # Members begin alike, when the request of the first of them arrived; clocks say when that is.
        slack = apart if group and wanted.guarantee == "reference" and self.campaign.clock_error else 0.0
        # While links are broken, one of the two brokers of a writer may not be asked.
        unsure = self.campaign.movers if now < self.campaign.until + MENDED_AFTER else ()
        self.judge.subscribed(key, node.id, wanted.wish, wanted.guarantee, promised, is_dropping, group, unsure, slack)
        self.judge.asked(key, node.id)
        node.inject(
            now,
            OpenSubscription(
                ticket=key,
                filter=wanted.wish.text(),
                guarantee=wanted.guarantee,
                since=since,
                group=wanted.group,
                policy=wanted.policy,
                queue_max=wanted.queue_max,
                window=wanted.window,
            ),
        )

    def unsubscribe(self, place: int, now: float, node: SimulatedNode, life: int) -> None:
        key = (node.id, "subscribe", life, place)
        number = self.numbers.get((node.id, key))
        if number is None or (node.id, number) not in self.subscriptions:
            return
        self.judge.closed(key)
        self.ask_to_close(now, node, CloseSubscription((node.id, "unsubscribe", life, place), number))

    def ask_to_close(self, now: float, node: SimulatedNode, request: CloseSubscription | CloseAdvertisement) -> None:
        self.judge.asked(request.ticket, node.id)
        node.inject(now, request)

    def advertise(self, place: int, now: float, node: SimulatedNode, life: int) -> None:
        key = (node.id, "advertise", life, place)
        self.judge.asked(key, node.id)
        node.inject(now, OpenAdvertisement(key, self.writers[node.id].offers[place].wish.text()))

    def withdraw(self, place: int, now: float, node: SimulatedNode, life: int) -> None:
        number = self.numbers.get((node.id, (node.id, "advertise", life, place)))
        if number is not None:
            self.ask_to_close(now, node, CloseAdvertisement((node.id, "withdraw", life, place), number))

    def publish(self, together: list[WrittenLater], now: float, node: SimulatedNode, life: int) -> None:
        name, machine, process = node.id, node.machine, node.process
        assert isinstance(machine, ClientNode) and process is not None
        first = together[0]
        offer = self.writers[name].offers[first.offer]
        number = self.numbers.get((name, (name, "advertise", life, first.offer)))
        if offer.until is not None and offer.until <= now:
            return
        again = partial(self.at, node.world, now + TRY_AGAIN, name, life, partial(self.publish, together))
        if number is None or not process.is_running:
            again()
            return
        count = self.counts.get(name, 0)
        ids = [f"{name}:{count + place}" for place in range(len(together))]
        events = [{"id": id, **each.attributes} for id, each in zip(ids, together, strict=True)]
        payloads = [payload_of(id, each.payload_bytes) for id, each in zip(ids, together, strict=True)]
        ticket = (name, "publish", life, count) if first.wants_receipt else None
        request = PublishBatch(number, tuple(map(encode_head, events)), tuple(payloads), ticket)
        if not machine.takes(request):
            again()
            return
        self.counts[name] = count + len(ids)
        for place, (id, attributes, payload) in enumerate(zip(ids, events, payloads, strict=True)):
            self.sent[name][machine.window.next + place] = id
            self.judge.published(id, name, now, attributes, payload, offer.wish)
        if ticket is not None:
            self.judge.asked(ticket, name)
            self.tickets[name, ticket] = ids
        node.inject(now, request)

    # Reading what is stored.

    def look(self, place: int, read: ReadLater, now: float, node: SimulatedNode, life: int) -> None:
        key = (node.id, "read", life, place)
        self.judge.readings.begun(key, node.id, read.wish, read.at > self.campaign.until)
        self.ask_to_read(now, node, PlayedReading(key, read), ReadMarks((*key, 0), read.wish.text()))

    def ask_to_read(
        self, now: float, node: SimulatedNode, reading: PlayedReading, request: ReadMarks | ReadHistory
    ) -> None:
        self.readings[request.ticket] = reading
        self.judge.asked(request.ticket, node.id)
        node.inject(now, request)

    def looked(self, now: float, node: SimulatedNode, item: MarksRead) -> None:
        self.judge.answered(item.ticket)
        reading = self.readings.pop(item.ticket)
        for part in item.parts:
            for publisher in part.unreachable:
                self.judge.readings.lacks(reading.key, name_of(publisher))
            for publisher, forgotten, through in part.marks:
                is_read = len(reading.left) < PUBLISHERS_READ_MAX
                if is_read:
                    reading.left.append((publisher, forgotten, through))
                if forgotten or not is_read:
                    self.judge.readings.lacks(reading.key, name_of(publisher))
        self.turn_page(now, node, reading)

    def turn_page(self, now: float, node: SimulatedNode, reading: PlayedReading) -> None:
        if not reading.left:
            self.judge.readings.over(reading.key)
            return
        publisher, after, through = reading.left[-1]
        ticket = (*reading.key, publisher, after)
        asked = ReadHistory(ticket, reading.read.wish.text(), publisher, after, None, through, reading.read.limit)
        self.ask_to_read(now, node, reading, asked)

    def has_read(self, now: float, node: SimulatedNode, item: HistoryRead) -> None:
        self.judge.answered(item.ticket)
        reading, fetched = self.readings.pop(item.ticket), item.page
        publisher, _, through = reading.left.pop()
        if fetched.is_truncated:
            self.judge.readings.lacks(reading.key, name_of(publisher))
        for head, payload in zip(fetched.page.heads, fetched.page.payloads, strict=True):
            finding = self.judge.readings.read(reading.key, name_of(publisher), decode_head(head), payload)
            if finding is not None:
                raise self.fail(now, node.id, f"{finding.promise}: {finding.text}")
        if fetched.has_more:
            reading.left.append((publisher, fetched.through, through))
        self.turn_page(now, node, reading)

    def read_failed(self, now: float, node: SimulatedNode, reading: PlayedReading) -> None:
        """Of this publisher nothing more is read, and its reader knows."""
        if reading.left:
            self.judge.readings.lacks(reading.key, name_of(reading.left.pop()[0]))
            self.turn_page(now, node, reading)

    # What clients hand to their applications.

    def delivered(self, now: float, node: SimulatedNode, item: Any) -> None:
        if isinstance(item, LetIn):
            raise self.fail(now, node.id, f"strangers: one that says it is {node.claims} is believed")
        if node.id not in self.readers and node.id not in self.writers:
            return
        self.notice_life(now, node)
        match item:
            case Begun(ticket, number):
                self.begun(node.id, ticket, number)
            case Confirmed(ticket, _):
                self.judge.answered(ticket)
                if ticket in self.judge.subscriptions:
                    self.judge.confirmed(ticket, now)
                elif (node.id, ticket) in self.tickets:
                    for id in self.tickets.pop((node.id, ticket)):
                        self.judge.reached(id)
            case Failed(ticket, reason):
                self.failed(now, node, ticket, reason)
            case Ended(kind, number, reason):
                self.ended(now, node.id, kind, number, reason)
            case MarksRead():
                self.looked(now, node, item)
            case HistoryRead():
                self.has_read(now, node, item)
            case Accepted(through):
                mine = self.sent[node.id]
                for number in [number for number in mine if number <= through]:
                    self.judge.accepted(mine.pop(number))
            case Declined(numbers, reason):
                for number in numbers:
                    if number in self.sent[node.id]:
                        self.judge.declined(self.sent[node.id][number], reason)
            case Missed(number, publisher, count, reason) if (node.id, number) in self.subscriptions:
                self.judge.missed(self.subscriptions[node.id, number][0], name_of(publisher), count, reason)
            case PeerDown():
                self.judge.interrupted(node.id)
            case PeerUp(broker):
                self.moves += bool(item.leaving)
                self.judge.interrupted(node.id)
                self.served.get(node.id, set()).add(broker)
            case Arrived():
                self.arrived(now, node, item)

    def begun(self, name: NodeId, ticket: Any, number: int) -> None:
        self.numbers[name, ticket] = number
        if ticket in self.judge.subscriptions:
            place = ticket[3]
            self.subscriptions[name, number] = ticket, self.readers[name].wanted[place]

    def failed(self, now: float, node: SimulatedNode, ticket: Any, reason: str) -> None:
        """A receipt may be lost with its link, and whoever reads may not reach a broker; nothing else that is asked for
        here may be refused."""
        name = node.id
        self.judge.answered(ticket)
        self.tickets.pop((name, ticket), None)
        if ticket in self.readings:
            self.read_failed(now, node, self.readings.pop(ticket))
        elif ticket[1] == "subscribe" and ticket in self.judge.subscriptions:
            if self.is_too_slow(ticket, reason):
                self.judge.closed(ticket)
            elif self.judge.subscriptions[ticket].is_open:
                raise self.fail(now, name, f"{ticket} failed: {reason}")
        elif ticket[1] == "advertise" and not reason.startswith("closed by"):
            raise self.fail(now, name, f"{ticket} failed: {reason}")

    def ended(self, now: float, name: NodeId, kind: str, number: int, reason: str) -> None:
        key, _ = self.subscriptions.get((name, number), (None, None))
        if kind != "subscribe" or not self.is_too_slow(key, reason):
            raise self.fail(now, name, f"the {kind} of number {number} ended: {reason}")
        self.judge.closed(key)

    def is_too_slow(self, key: Any, reason: str) -> bool:
        """Only what its reader is too slow for ends, if that was asked for, and the reader knows what it missed."""
        wanted = self.readers[key[0]].wanted[key[3]]
        is_told = bool(self.judge.subscriptions[key].told)
        return wanted.policy == "disconnect" and reason.startswith(TOO_SLOW) and is_told

    def arrived(self, now: float, node: SimulatedNode, item: Arrived) -> None:
        key, wanted = self.subscriptions.get((node.id, item.subscription), (None, None))
        if key is None or wanted is None:
            raise self.fail(now, node.id, f"{item!r:.200} arrives for no subscription")
        for head, payload in zip(item.heads, item.payloads, strict=True):
            finding = self.judge.arrived(key, name_of(item.publisher), decode_head(head), payload)
            if finding is not None:
                raise self.fail(now, node.id, f"{finding.promise}: {finding.text}")
        took = Took(item.subscription, len(item.numbers))
        taken_at = now + (wanted.pause * len(item.numbers) if now < self.campaign.until else 0.0)
        self.at(node.world, taken_at, node.id, node.lives, lambda at, client, life: client.inject(at, took))

    def at_end(self, world: Simulator) -> list[Problem]:
        for client in self.campaign.clients:
            if world.nodes[client.name].process is None:
                self.judge.gone(client.name)
        return [*self.visitors_left(world), *(self.problem(finding, world.now) for finding in self.judge.at_end())]

    def visitors_left(self, world: Simulator) -> list[Problem]:
        """Nothing of a stranger is remembered when it is gone, and nobody is at a door for longer than he may. A root
        that looks for other trees knocks again and again, so the end of a run may find a visitor who has just come."""
        found = []
        for broker in self.campaign.brokers:
            node = world.nodes[broker.name]
            access = node.machine.parts["access"] if isinstance(node.machine, BrokerNode) else None
            if not isinstance(access, Access):
                continue
            reading = world.now if node.clock is None else node.clock.read(world.now)
            left = [name for name, it in access.entrants.items() if is_visitor(name) and it.attach_by <= reading]
            if left:
                text = f"{len(left)} visitors are still at the door: {', '.join(left[:5])}"
                found.append(Problem(f"{self.name}: strangers", text, broker.name, world.now))
        return found

    def figures(self) -> dict[str, int]:
        return {**self.judge.figures(), "moves": self.moves}

    def problem(self, finding: BrokenPromise, now: float) -> Problem:
        return Problem(f"{self.name}: {finding.promise}", finding.text, finding.who, now)
