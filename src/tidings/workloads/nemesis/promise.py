"""Who judges a network by what its applications see: what they published, what they were told, and what arrived.

A judge knows nothing of brokers, links and protocols. It is told what each application did and what its client handed
to it, in the order in which that happened, and holds it against the promises of `docs/concepts/promises.md`. Whether an
event is wanted it decides by itself (`wish.py`). So the same judge serves simulated networks and real processes.

Some promises are broken by a single delivery; then `arrived` answers with what is wrong, at once. The others are judged
when all faults are over and the network had time to mend what was broken (`at_end`):

    lost          what was accepted, is wanted and was promised has arrived, or its reader was told that it missed it
    numbers       whoever is told a number of missed events misses at least as many as promised, and no more than there
                  are; where no number is told, something is missing
    publications  whatever a writer that lives published is accepted or declined; declined is what lies outside of what
                  it advertised, and nothing else
    answers       every request was answered
    readings      what was accepted is found by whoever reads what is stored, or the reader is told (`readings.py`)

What is not owed: events published before the receipt (or before the time that a reader named, less what clocks differ),
events that nobody told their writer to be accepted before its process ended, and events whose broker stores nothing on
disk and has lost its memory (`forgot`). Subscriptions that were closed, or whose reader's process ended, are judged by
what came to them only.

Members of a group get the same: whatever one of them gets is owed, from there on, to those who ask later. Clients of
different tenants share nothing, not even a word of what somebody missed.
"""

from collections.abc import Collection, Hashable, Mapping
from typing import Any

from tidings.workloads.nemesis.judged import (
    BrokenPromise,
    JudgedEvent,
    JudgedSubscription,
    SubscriptionKey,
    ToldMissed,
    WriterLife,
    tenant_of,
)
from tidings.workloads.nemesis.readings import ReadingJudge
from tidings.workloads.nemesis.wish import Wish, is_wanted

FINDINGS_MAX = 50
"""Of one promise, for one subscription or writer; more say nothing new."""

AT_MOST = "at most"
"""Stands in the reason of a number that is an upper bound."""


class PromiseJudge:
    """One for a run. `writer` and `reader` are names of clients. `may_forget` is whether brokers store less than what
    is published."""

    def __init__(self, may_forget: bool = False) -> None:
        self.may_forget = may_forget
        self.events: dict[str, JudgedEvent] = {}
        self.of_writer: dict[str, list[JudgedEvent]] = {}
        self.lives: dict[str, int] = {}
        """Of each writer the life it is in; those that left for good have none."""
        self.subscriptions: dict[SubscriptionKey, JudgedSubscription] = {}
        self.waiting: dict[Hashable, str] = {}
        """Requests that were not answered yet, and by whom they were made."""
        self.deliveries = 0
        self.readings = ReadingJudge(self.events, self.of_writer)
        self.groups: dict[tuple[str, str], dict[WriterLife, int]] = {}
        """By tenant and name: where the members have begun."""
        self.shaken: set[str] = set()
        """Writers whose broker has lost its memory, and with it where groups began."""

    # What writers do.

    def begun(self, writer: str, life: int) -> None:
        """A writer's process begins."""
        self.lives[writer] = life

    def gone(self, client: str) -> None:
        """A client's process has ended: nobody waits for what it asked for, or for what it had not handed over."""
        self.lives.pop(client, None)
        self.waiting = {request: who for request, who in self.waiting.items() if who != client}

    def published(
        self, id: str, writer: str, at: float, attributes: Mapping[str, Any], payload: bytes, offer: Wish
    ) -> None:
        mine = self.of_writer.setdefault(writer, [])
        event = JudgedEvent(
            id, writer, len(mine), self.lives[writer], at, attributes, payload, is_wanted(offer, attributes)
        )
        self.events[id] = event
        mine.append(event)

    def retracted(self, id: str) -> None:
        """It was not published after all: its client would not take it."""
        event = self.events.pop(id)
        self.of_writer[event.writer].remove(event)

    def accepted(self, id: str) -> None:
        self.events[id].is_accepted = True

    def declined(self, id: str, reason: str) -> None:
        self.events[id].is_declined, self.events[id].reason = True, reason

    def reached(self, id: str) -> None:
        self.events[id].is_confirmed = True

    def forgot(self, writers: list[str]) -> None:
        """A broker without a store, by which these are served, loses its memory now."""
        for writer in writers:
            for event in self.of_writer.get(writer, ()):
                event.may_be_gone = True
        self.shake(writers)

    def shake(self, writers: Collection[str]) -> None:
        """Where groups begin at their brokers may be forgotten."""
        self.shaken.update(writers)
        for begun in (*self.groups.values(), *(each.begun for each in self.subscriptions.values())):
            for pair in [pair for pair in begun if pair[0] in self.shaken]:
                del begun[pair]

    # Requests that want an answer.

    def asked(self, request: Hashable, who: str) -> None:
        self.waiting[request] = who

    def answered(self, request: Hashable) -> None:
        self.waiting.pop(request, None)

    # What readers see.

    def subscribed(
        self,
        key: SubscriptionKey,
        reader: str,
        wish: Wish,
        guarantee: str,
        since: float | None = None,
        is_dropping: bool = False,
        group: str = "",
        unsure: Collection[str] = (),
        slack: float = 0.0,
    ) -> None:
        """`unsure` are writers of whom nobody may be able to say where the group has begun."""
        made = JudgedSubscription(reader, wish, guarantee, since, slack, is_dropping)
        self.subscriptions[key] = made
        if group:
            made.group, begun = group, self.groups.get((tenant_of(reader), group), {})
            made.begun = {pair: place for pair, place in begun.items() if pair[0] not in unsure}

    def confirmed(self, key: SubscriptionKey, at: float) -> None:
        self.subscriptions[key].confirmed_at = at

    def closed(self, key: SubscriptionKey) -> None:
        self.subscriptions[key].is_open = False

    def missed(self, key: SubscriptionKey, writer: str, count: int, reason: str) -> None:
        """0 is a number that is not known; the reason says where a number is an upper bound."""
        told = self.subscriptions[key].told.setdefault(writer, ToldMissed())
        told.count += count
        told.is_at_least |= not count
        told.is_at_most |= AT_MOST in reason

    def interrupted(self, reader: str) -> None:
        """Its connection broke: what was given up for a slow reader may come from history after all."""
        for subscription in self.subscriptions.values():
            if subscription.reader == reader and subscription.is_dropping:
                subscription.is_interrupted = True

    def arrived(
        self, key: SubscriptionKey, writer: str, attributes: Mapping[str, Any], payload: bytes
    ) -> BrokenPromise | None:
        self.deliveries += 1
        subscription = self.subscriptions[key]
        event = self.events.get(str(attributes.get("id")))
        broken = None if event is None else self.broken_by(subscription, event, writer, attributes, payload)
        if event is None:
            broken = "nothing false", "which nobody published"
        if broken is not None:
            return BrokenPromise(broken[0], f"{dict(attributes)} of {writer} arrives, {broken[1]}", subscription.reader)
        assert event is not None
        subscription.arrived[event.id] = None
        subscription.last[event.writer, event.life] = event
        if subscription.group and not self.may_forget and writer not in self.shaken:
            begun = self.groups.setdefault((tenant_of(subscription.reader), subscription.group), {})
            begun.setdefault((event.writer, event.life), event.place)
        return None

    def broken_by(
        self,
        subscription: JudgedSubscription,
        event: JudgedEvent,
        writer: str,
        attributes: Mapping[str, Any],
        payload: bytes,
    ) -> tuple[str, str] | None:
        """The promise that this delivery breaks, and how."""
        if (writer, attributes, payload) != (event.writer, event.attributes, event.payload):
            return "nothing false", f"which {event.writer} published otherwise"
        if tenant_of(writer) != tenant_of(subscription.reader):
            return "tenants", "which is of another tenant"
        if not is_wanted(subscription.wish, attributes):
            return "nothing unwanted", f"which {subscription.wish.text()} does not match"
        if event.is_declined or not event.is_offered:
            return "nothing false", "which lies outside of what its publisher advertised"
        if event.id in subscription.arrived:
            return "nothing twice", "a second time"
        last = subscription.last.get((event.writer, event.life))
        if last is not None and last.place > event.place and subscription.guarantee != "none":
            return "order", f"behind {last.id}, which was published later"
        if subscription.confirmed_at is None and subscription.guarantee == "installed":
            return "receipt first", "before the receipt"
        return None

    # The end.

    def at_end(self) -> list[BrokenPromise]:
        findings = [
            BrokenPromise("answers", f"{request} was not answered", who) for request, who in list(self.waiting.items())
        ][:FINDINGS_MAX]
        for writer, events in self.of_writer.items():
            findings += self.judge_writer(writer, events)[:FINDINGS_MAX]
        for subscription in self.subscriptions.values():
            if subscription.is_open:
                for writer, events in self.of_writer.items():
                    findings += self.judge_reader(subscription, writer, events)[:FINDINGS_MAX]
        return findings + self.readings.at_end()[:FINDINGS_MAX]

    def judge_writer(self, writer: str, events: list[JudgedEvent]) -> list[BrokenPromise]:
        found: list[str] = []
        for event in events:
            if self.lives.get(writer) == event.life and not event.is_settled():
                found.append(f"{event.id} was neither accepted nor declined")
            elif event.is_declined and event.is_offered:
                found.append(f"{event.id} was declined, though it was advertised: {event.reason}")
            elif event.is_accepted and not event.is_offered and not event.is_declined:
                found.append(f"{event.id} is not advertised, and was not declined")
        return [BrokenPromise("publications", text, writer) for text in found]

    def judge_reader(
        self, subscription: JudgedSubscription, writer: str, events: list[JudgedEvent]
    ) -> list[BrokenPromise]:
        if tenant_of(writer) != tenant_of(subscription.reader):
            heard = f"told of what it missed of {writer}, which is of another tenant"
            return [BrokenPromise("tenants", heard, subscription.reader)] if writer in subscription.told else []
        absent = [
            event
            for event in events
            if event.id not in subscription.arrived and is_wanted(subscription.wish, event.attributes)
        ]
        owed = [event for event in absent if subscription.owes(event)]
        named, unnamed = subscription.told.get(writer), subscription.told.get("")
        if named is None and unnamed is None:
            return [
                BrokenPromise(
                    "nothing lost", f"{event.id} is missing, published at {event.at:.3f}", subscription.reader
                )
                for event in owed
            ]
        if named is None or subscription.guarantee == "none":
            return []
        possible = [event for event in absent if event.is_offered]
        bound = ("at least " if named.is_at_least else "") + ("at most " if named.is_at_most else "")
        told = f"told {bound}{named.count} missed of {writer}"
        # Whether what is forgotten would have been wanted, nobody can know; and "at most" includes none.
        may_forget = self.may_forget or any(event.may_be_gone for event in events)
        is_bound = named.is_at_most or (may_forget and not named.count)
        if (named.count > len(possible) or not possible) and not (is_bound or subscription.is_interrupted):
            return [BrokenPromise("numbers", f"{told}, of {len(possible)} that did not arrive", subscription.reader)]
        if not named.is_at_least and unnamed is None and named.count < len(owed):
            return [BrokenPromise("numbers", f"{told}, but {len(owed)} are missing", subscription.reader)]
        return []

    def figures(self) -> dict[str, int]:
        """What was judged."""
        events, told = self.events.values(), [each for it in self.subscriptions.values() for each in it.told.values()]
        return {
            "deliveries": self.deliveries,
            "publications": len(self.events),
            "accepted": sum(event.is_accepted for event in events),
            "declined": sum(event.is_declined for event in events),
            "receipts of publications": sum(event.is_confirmed for event in events),
            "subscriptions": len(self.subscriptions),
            "told missed": len(told),
            "events read": self.readings.count,
        }
