"""SHIFT: one link takes the place of another while events flow, and none is lost, doubled or overtaken.

The problem. A plan replaces a link between `mover` and `old` by one between `mover` and `new`, where `old` and `new`
are neighbours. To cut the one and make the other would lose what is on its way, and everybody behind would have to hear
that something may be lost, and ask for it.

The idea. Make before break, and hold still for a moment in between.

    opening     the new link comes and both ends tell each other their tables over it, as over any link. It is *shut*:
                no publication goes there, and nobody chooses it as the way to a publisher. At the mover, what comes
                from `old` is not told to `new` nor the other way round: they know it of each other. So although there
                are three links between three brokers, what is told goes round nowhere, and neither do acknowledgements.
    draining    the three hold what comes from elsewhere (`held.py`). A word ("turn") goes behind the last publication
                from the mover to `old`, and from `new` to `old`; and when `old` has both, from it to both. Whoever has
                heard it knows that nothing is on its way any more by the old link.
    switching   the mover decides, alone: the old link counts no more, the new one is open. Then `new`, then `old` do
                the same. Both know already what the mover's side wants and offers, so nothing is told, and nobody
                behind hears of it: names of ways stay as they are.
    resumed     what was held goes on, in its order, by the new way.
    loosening   the old link is let go when everything that was asked over it is answered: receipts that were pending
                are not lost, and nobody waits for them with events held back.

How long it takes. Tables are told while events flow. They are held for about four times the way between two of the
three brokers, whatever the size of the tables. For the sake of bounds the mover gives up after `timeout`.

When something breaks. Before the mover has decided everything is as it was: what is held goes its old way, and the new
link is let go. Whoever has said that all is drained goes on holding until the mover says what holds, or the link to it
is lost. From then on it goes forward: a broker that is lost is lost as at any other time, and the ways that had been
changed silently are announced, so that whoever was promised something asks for what it may lack. One broker decides,
and the two others follow; so there is no state in which nobody knows what holds.

Where no plan is carried out this is `resuming`.

State: the `shift` that this broker takes part in, one at a time, with what was heard and said; `former` neighbours that
still have to answer. Words: `ShiftWord`. Timers: ("shift", name) while one is under way,
("loosen", neighbour), ("withheld",) for what is withdrawn and has to go behind what was held.

Guaranteed, while the three links live: every publication reaches everybody who wants it once and in the order of its
publisher; a request that waits is answered. Needs links that keep their order. Batches are sent before they are full.

Source: dependable.md 3.5.5 (drain, switch, resume; IT-5, IT-6, IT-7), 3.8; what it moves as a delta of tables is told
ahead here, because a delta would be told while events wait.
"""

from typing import ClassVar

import msgspec

from tidings.machine.effects import Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Input, Signal, TimerKey
from tidings.machine.message import Message
from tidings.model.identity import NodeId
from tidings.protocols.routing.held import HeldPublications
from tidings.protocols.routing.links import NeighbourLink
from tidings.protocols.routing.packets import packed_answers
from tidings.protocols.routing.repairs.messages import ShiftStage, ShiftWord
from tidings.protocols.routing.repairs.strawman import Resuming
from tidings.protocols.routing.subscriptions import RoutingSubscriptions
from tidings.pubsub.notes import Shifted
from tidings.pubsub.signals import (
    Level,
    NeighbourUnwanted,
    ReconfigurationId,
    ShiftBegun,
    ShiftDecided,
    ShiftOver,
    ShiftStopped,
)

TIMER, LOOSEN, WITHHELD = "shift", "loosen", "withheld"

LOOK_AFTER = 0.005
"""Seconds after which it is looked again whether the next stage can begin: for what others do not tell."""

NAME = "shift:"
"""With what the names of shifts begin, so that a link which comes for one that is off is left shut."""

NOT_SHIFTED = "is about a shift in which the two take no part"
TOO_LONG = "was not done in time"
GIVEN_UP = "was given up by another"
BUSY = "takes part in another shift"


class LinkShift(msgspec.Struct):
    """One shift, as one of its three brokers sees it."""

    name: ReconfigurationId
    mover: NodeId
    old: NodeId
    new: NodeId
    ends_at: float
    """When it is given up."""
    heard: dict[tuple[NodeId, ShiftStage], None] = {}
    said: dict[tuple[NodeId, ShiftStage], None] = {}
    is_switched: bool = False
    queue_before: int = 0

    @property
    def brokers(self) -> tuple[NodeId, NodeId, NodeId]:
        return self.mover, self.old, self.new


class ShiftRepair(Resuming):
    needs: ClassVar[Level] = Level.PATHS
    messages: ClassVar[tuple[type[Message], ...]] = (ShiftWord,)
    hears: ClassVar[tuple[type, ...]] = (ShiftBegun, ShiftStopped)
    tells: ClassVar[tuple[type[Signal], ...]] = (ShiftDecided, ShiftOver, NeighbourUnwanted)

    def __init__(self, subscriptions: RoutingSubscriptions) -> None:
        super().__init__(subscriptions)
        self.state = subscriptions.state
        self.tables, self.links, self.ledger = self.state.tables, self.state.links, self.state.ledger
        self.shift: LinkShift | None = None
        self.former: dict[NodeId, NeighbourLink] = {}
        """Neighbours whose links have given way to others, until all is answered."""
        self.loose: dict[NodeId, set[str]] = {}
        """Which end of those has said that nothing is to be answered any more: "heard", "said"."""
        self.unwanted_after: dict[NodeId, ReconfigurationId] = {}
        """Those whose link we let go when it is loose: we were the mover."""

    # What the node says.

    def hear(self, now: float, input: Input) -> list[Effect]:
        effects: list[Effect] = []
        match input:
            case ShiftBegun(name, mover, old, new, timeout):
                if self.shift is not None:
                    return [ShiftOver(name, False, f"{BUSY}: {self.shift.name}")]
                self.shift = LinkShift(name, mover, old, new, now + timeout, heard={}, said={})
                effects.append(SetTimer((TIMER, name), now + LOOK_AFTER))
            case ShiftStopped(name, reason) if self.shift is not None and self.shift.name == name:
                if not self.is_bound(self.shift):
                    self.give_up(now, self.shift, reason, effects)
        return effects

    def is_bound(self, shift: LinkShift) -> bool:
        """Whether it is not for us any more to give it up."""
        me = self.state.node_id
        return shift.is_switched or (
            me != shift.mover and any(word in ("turn", "drained") and to != shift.new for to, word in shift.said)
        )

    # Links that come and go.

    def up(self, now: float, link: NeighbourLink) -> list[Effect]:
        self.tables.shut.pop(link.neighbour, None)
        shift = self.shift
        if link.reconfiguration.startswith(NAME):
            self.tables.shut[link.neighbour] = None
            if shift is not None and shift.name == link.reconfiguration and self.state.node_id == shift.mover:
                self.tables.apart.update({shift.old: shift.new, shift.new: shift.old})
        self.state.tables_changed()
        return []

    def parted(self, now: float, neighbour: NodeId) -> list[Effect]:
        effects: list[Effect] = []
        if neighbour in self.former:
            self.end_loosening(now, neighbour, effects)
        shift = self.shift
        if shift is None or neighbour not in shift.brokers:
            return effects
        me, reason = self.state.node_id, f"the link to {neighbour} was lost"
        if me == shift.mover and shift.is_switched:
            if neighbour == shift.old:
                self.state_loudly(now, shift, effects)
            self.note(shift, neighbour, "switched")
            self.go_on(now, shift, effects)
        elif me == shift.mover or neighbour == shift.mover or not self.is_bound(shift):
            if me != shift.mover and shift.is_switched:
                self.resume(now, shift, effects)
            else:
                self.give_up(now, shift, reason, effects)
        return effects

    def state_loudly(self, now: float, shift: LinkShift, effects: list[Effect]) -> None:
        """The old neighbour was lost while it held publications: they may be lost with it."""
        if shift.new in self.links:
            self.subscriptions.advertisements.renew_ways(now, shift.new, effects)

    def stands_in(self, neighbour: NodeId) -> NeighbourLink | None:
        return self.former.get(neighbour)

    # Words.

    def receive(self, now: float, sender: NodeId, message: Message) -> list[Effect]:
        assert isinstance(message, ShiftWord)
        effects: list[Effect] = []
        if message.word == "loose" and sender in self.former:
            self.loose[sender].add("heard")
            self.look_at_loose(now, sender, effects)
            return effects
        shift = self.shift
        if shift is None or shift.name != message.shift or sender not in shift.brokers:
            # A mover that believes us to be ready hears at once that we are not any more.
            is_begun = message.word in ("told", "hold") and sender in self.links
            told: list[Effect] = [Send(sender, ShiftWord(message.shift, "off"))] if is_begun else []
            return [Drop(message, NOT_SHIFTED), *told]
        self.note(shift, sender, message.word)
        if message.word == "off" and not shift.is_switched and (sender == shift.mover or not self.is_bound(shift)):
            self.give_up(now, shift, GIVEN_UP, effects)
        else:
            self.go_on(now, shift, effects)
        return effects

    def note(self, shift: LinkShift, sender: NodeId, word: ShiftStage) -> None:
        shift.heard[sender, word] = None

    def say(self, shift: LinkShift, to: NodeId, word: ShiftStage, effects: list[Effect]) -> None:
        """Behind everything that was told; once."""
        if (to, word) not in shift.said:
            shift.said[to, word] = None
            effects += self.state.outbox.take()
            effects.append(Send(to, ShiftWord(shift.name, word)))

    # Stages.

    def fired(self, now: float, key: TimerKey) -> list[Effect]:
        effects: list[Effect] = []
        match key:
            case (kind, str(name)) if kind == TIMER and self.shift is not None and self.shift.name == name:
                shift = self.shift
                if now >= shift.ends_at and not self.is_bound(shift):
                    self.give_up(now, shift, TOO_LONG, effects)
                else:
                    self.go_on(now, shift, effects)
                if self.shift is shift:
                    effects.append(SetTimer((TIMER, name), now + LOOK_AFTER))
            case (kind,) if kind == WITHHELD:
                effects += self.subscriptions.advertisements.end_withheld(now)
            case (kind, str(neighbour)) if kind == LOOSEN and neighbour in self.former:
                self.look_at_loose(now, neighbour, effects)
        return effects

    def go_on(self, now: float, shift: LinkShift, effects: list[Effect]) -> None:
        """As far as what was heard, and what is on its way from here, allows it."""
        me = self.state.node_id
        if me == shift.mover:
            self.go_on_as_mover(now, shift, effects)
        elif me == shift.old:
            self.go_on_as_old(now, shift, effects)
        else:
            self.go_on_as_new(now, shift, effects)

    def go_on_as_mover(self, now: float, shift: LinkShift, effects: list[Effect]) -> None:
        old, new, heard, said = shift.old, shift.new, shift.heard, shift.said
        if not shift.is_switched:
            if not self.is_even(new) or not self.is_even(old):
                return
            self.say(shift, new, "told", effects)
            if (new, "told") not in heard:
                return
            self.hold(shift)
            self.say(shift, old, "hold", effects)
            self.say(shift, new, "hold", effects)
            if self.is_drained(old, effects):
                self.say(shift, old, "turn", effects)
            is_drained = (old, "turn") in said and (old, "turn") in heard and (new, "drained") in heard
            if not is_drained or self.state.carrier.heavy.waiting:
                return
            shift.is_switched = True
            effects.append(ShiftDecided(shift.name, old, new))
            self.open(now, old, new, effects)
            self.let_go(now, self.links[old], effects, is_former=True)
            self.unwanted_after[old] = shift.name
            self.say(shift, new, "switch", effects)
        if (new, "switched") in heard:
            self.say(shift, old, "switch", effects)
        if (old, "switched") in heard and (new, "switched") in heard:
            self.say(shift, new, "resume", effects)
            self.say(shift, old, "resume", effects)
            self.resume(now, shift, effects)

    def go_on_as_old(self, now: float, shift: LinkShift, effects: list[Effect]) -> None:
        mover, new, heard, said = shift.mover, shift.new, shift.heard, shift.said
        if (new, "sweep") in heard and self.is_even(new):
            self.say(shift, new, "swept", effects)
        if (mover, "hold") in heard:
            self.hold(shift)
            is_quiet = (mover, "turn") in heard and (new, "turn") in heard and not self.state.carrier.heavy.waiting
            if is_quiet and (mover, "turn") not in said:
                is_drained = [self.is_drained(each, effects) for each in (mover, new)]
                if all(is_drained):
                    self.say(shift, mover, "turn", effects)
                    self.say(shift, new, "turn", effects)
        if (mover, "switch") in heard and not shift.is_switched:
            shift.is_switched = True
            if mover in self.links:
                self.let_go(now, self.links[mover], effects, is_former=True)
            self.say(shift, mover, "switched", effects)
        if (mover, "resume") in heard:
            self.resume(now, shift, effects)

    def go_on_as_new(self, now: float, shift: LinkShift, effects: list[Effect]) -> None:
        mover, old, heard, said = shift.mover, shift.old, shift.heard, shift.said
        if (mover, "told") in heard and self.is_even(mover) and self.is_even(old):
            self.say(shift, old, "sweep", effects)
            if (old, "swept") in heard:
                self.say(shift, mover, "told", effects)
        if (mover, "hold") in heard:
            self.hold(shift)
            if self.is_drained(old, effects):
                self.say(shift, old, "turn", effects)
            if (old, "turn") in said and (old, "turn") in heard and not self.state.carrier.heavy.waiting:
                self.say(shift, mover, "drained", effects)
        if (mover, "switch") in heard and not shift.is_switched:
            shift.is_switched = True
            if mover in self.links:
                self.open(now, old, mover, effects)
            self.say(shift, mover, "switched", effects)
        if (mover, "resume") in heard:
            self.resume(now, shift, effects)

    def is_even(self, neighbour: NodeId) -> bool:
        return neighbour in self.links and self.links[neighbour].is_even

    def is_drained(self, neighbour: NodeId, effects: list[Effect]) -> bool:
        """Whether every publication that goes there has left."""
        drained, sent = self.state.carrier.carriage.drain(neighbour)
        effects += sent
        return drained and not self.state.carrier.heavy.waiting

    # What is done.

    def hold(self, shift: LinkShift) -> None:
        if self.state.carrier.held is None:
            shift.queue_before = self.count_waiting()
            self.state.carrier.held = HeldPublications(shift.brokers)

    def count_waiting(self) -> int:
        carrier = self.state.carrier
        return carrier.carriage.count_waiting() + (0 if carrier.held is None else carrier.held.count)

    def open(self, now: float, old: NodeId, new: NodeId, effects: list[Effect]) -> None:
        """What went to the old neighbour goes to the new one, and comes from it."""
        self.tables.shut.pop(new, None)
        self.subscriptions.advertisements.hand_over(now, old, new, effects)
        self.state.tables_changed()

    def let_go(self, now: float, link: NeighbourLink, effects: list[Effect], is_former: bool) -> None:
        """The link counts no more; another stands for it, so nothing is lost with it."""
        neighbour, asker = link.neighbour, link.asker
        effects += link.loosen()
        del self.links[neighbour]
        effects += link.close()
        if is_former:
            asker.is_gone, link.asker = False, asker
            # Not so that two shifts beside each other wait for each other's answers.
            effects += packed_answers(self.ledger.answer_changes(asker))
            self.former[neighbour], self.loose[neighbour] = link, set()
            effects.append(SetTimer((LOOSEN, neighbour), now + LOOK_AFTER))
        else:
            effects += packed_answers(self.ledger.forgive(neighbour))
        effects += self.state.carrier.carriage.close(neighbour)
        self.tables.apart.clear()
        self.tables.shut.pop(neighbour, None)
        self.subscriptions.advertisements.part_with(now, neighbour, effects)
        self.subscriptions.withdraw(now, neighbour, effects)
        if self.state.census is not None:
            effects += self.state.census.lost(now, neighbour)
        if neighbour not in self.tables.absent:
            self.tables.remove_neighbour(neighbour)
        self.state.tables_changed()

    def resume(self, now: float, shift: LinkShift, effects: list[Effect]) -> None:
        effects.append(Shifted(shift.queue_before, self.count_waiting()))
        self.end(now, shift, effects)
        effects.append(ShiftOver(shift.name, True))

    def give_up(self, now: float, shift: LinkShift, problem: str, effects: list[Effect]) -> None:
        """It has not been decided, and everything is as it was."""
        me = self.state.node_id
        other = shift.new if me == shift.mover else shift.mover
        for broker in shift.brokers if me == shift.mover else (shift.mover,):
            if broker != me and (broker in self.links or me != shift.mover) and (broker, "off") not in shift.heard:
                self.say(shift, broker, "off", effects)
        if me != shift.old:
            if other in self.links and self.links[other].reconfiguration == shift.name:
                self.let_go(now, self.links[other], effects, is_former=False)
            self.tables.apart.clear()
        if me == shift.mover:
            effects.append(NeighbourUnwanted(shift.new, shift.name))
        self.end(now, shift, effects)
        effects.append(ShiftOver(shift.name, False, problem))

    def end(self, now: float, shift: LinkShift, effects: list[Effect]) -> None:
        self.shift = None
        effects += self.state.carrier.release(now)
        if self.subscriptions.advertisements.withheld:
            # Behind what was held.
            effects.append(SetTimer((WITHHELD,), now))

    # The old link, afterwards.

    def look_at_loose(self, now: float, neighbour: NodeId, effects: list[Effect]) -> None:
        ends = self.loose[neighbour]
        if "said" not in ends and not self.ledger.unanswered.get(neighbour) and self.shift is None:
            ends.add("said")
            effects.append(Send(neighbour, ShiftWord(NAME, "loose")))
        if len(ends) == 2:
            self.end_loosening(now, neighbour, effects)
        else:
            effects.append(SetTimer((LOOSEN, neighbour), now + 10 * LOOK_AFTER))

    def end_loosening(self, now: float, neighbour: NodeId, effects: list[Effect]) -> None:
        """It may go, or is gone."""
        link = self.former.pop(neighbour)
        del self.loose[neighbour]
        link.asker.is_gone = True
        effects += packed_answers(self.ledger.lose(neighbour))
        shift = self.unwanted_after.pop(neighbour, None)
        if shift is not None:
            effects.append(NeighbourUnwanted(neighbour, shift))

    def check(self) -> None:
        super().check()
        assert not self.former.keys() & self.links.keys() and self.former.keys() == self.loose.keys()
        assert self.unwanted_after.keys() <= self.former.keys()
        assert self.shift is not None or (self.state.carrier.held is None and not self.tables.apart)
