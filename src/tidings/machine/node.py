"""The contract, and a node. A protocol is a machine: something happened (an input) at a time (`now`, in seconds); the
machine changes its state and answers with the list of effects to be carried out. It reads no clock, opens no socket,
sleeps never, shares nothing and draws randomness only from the generator it was given. So the same object runs on
sockets, in the simulator, under a property test and at a Python prompt, and a run is reproduced by its seed.

A node: several protocols behind one `handle`.

The node is wiring and decides nothing. An arrived message goes to the one protocol that names its type in `messages`; a
fired timer, a finished computation and a saved entry go back to the protocol that asked, because the node writes the
protocol's name into the key on the way out and takes it off on the way in. Everything else (links, signals, requests of
the application) goes to the protocols that name its type in `hears`, in their order. A request that nobody hears is a
mistake of whoever made it, and is refused.

A signal that a protocol emits becomes an input for the others at once, before the effects that follow it; signals may
answer signals, and a named bound stops two protocols that would talk to each other for ever. All protocols have started
before the first signal is heard. Each protocol names in `tells` what it may signal, and a node in which nobody hears
one of these is refused when it is built, unless the node itself `tells` it: then it goes out, to whatever is around. A
node is a part itself: a small one may live inside a larger one.

Every input and every effect of every node passes through here, so the way of each is chosen by its exact class: `match`
on class patterns would make the node itself eight times as dear.
"""

from collections import deque
from collections.abc import Callable, Mapping
from itertools import repeat
from typing import Any, Protocol, cast

from tidings.machine.effects import (
    CancelTimer,
    CancelTransfer,
    Compute,
    Drop,
    Effect,
    Load,
    Save,
    Send,
    SetTimer,
    Transfer,
)
from tidings.machine.inputs import (
    Computed,
    Fired,
    Input,
    Knocked,
    Loaded,
    Received,
    Request,
    Saved,
    Signal,
    TimerKey,
    Transferred,
)
from tidings.model.errors import UsageError


class Machine(Protocol):
    """What every protocol, and every node made of protocols, offers to the world."""

    def start(self, now: float) -> list[Effect]:
        """First timers, first messages. Called before any input, and again after a crash that left the state intact:
        then no timer is set and nothing is under way any more."""
        ...

    def handle(self, now: float, input: Input) -> list[Effect]:
        """Take one input and answer with all effects. Never raises on what a peer sent."""
        ...

    def check(self) -> None:
        """Assert the invariants of the state."""
        ...


SIGNALS_MAX = 1000
"""Signals in a row, each answering the one before, that one input may set off inside a node; more is a loop between two
protocols. How many there are side by side is not bounded: a lost link may make thousands of things known at once."""

NO_RECEIVER = "no protocol of this node receives it"


class Part(Machine, Protocol):
    """A protocol that can be part of a node."""

    @property
    def messages(self) -> tuple[type, ...]:
        """Types of message that it receives; each has one receiver in a node."""
        ...

    @property
    def hears(self) -> tuple[type, ...]:
        """Types of signals, of requests of the application, and of links coming and going, that it wants to know of."""
        ...

    @property
    def tells(self) -> tuple[type[Signal], ...]:
        """Types of signals that it may emit."""
        ...


Hearers = tuple[tuple[str, Part], ...]


class Node:
    """`Node({"ping": Ping(...), "gossip": Gossip(...)})`; the names keep the parts' timers apart."""

    def __init__(self, parts: Mapping[str, Part], tells: tuple[type[Signal], ...] = ()) -> None:
        self.parts, self.tells = dict(parts), tells
        self.receivers: dict[type, tuple[str, Part]] = {}
        self.hearers: dict[type, Hearers] = {}
        for name, part in self.parts.items():
            if not name or "/" in name:
                raise UsageError(f"part {name!r}: a name is a word without '/', which separates it from what it saves")
            for message in part.messages:
                if message in self.receivers:
                    other, _ = self.receivers[message]
                    raise UsageError(f"{message.__name__} is received by both {other!r} and {name!r}")
                self.receivers[message] = name, part
            for kind in part.hears:
                self.hearers[kind] = (*self.hearers.get(kind, ()), (name, part))
        self.messages, self.hears = tuple(self.receivers), tuple(self.hearers)
        for name, part in self.parts.items():
            for signal in part.tells:
                self.check_heard(name, signal)

    def check_heard(self, name: str, signal: type[Signal]) -> None:
        if signal not in self.tells and not any(other != name for other, _ in self.hearers.get(signal, ())):
            raise UsageError(
                f"{name!r} tells {signal.__name__}, which no other part of this node hears; "
                f"add a part that hears it, or name it in `tells` of the node"
            )

    def start(self, now: float) -> list[Effect]:
        started = [(name, part.start(now)) for name, part in self.parts.items()]
        return [effect for name, effects in started for effect in self.settle(now, name, effects)]

    def handle(self, now: float, input: Input) -> list[Effect]:
        if type(input) is Received:
            receiver = self.receivers.get(type(input.message))
            if receiver is None:
                return [Drop(input.message, NO_RECEIVER)]
            name, part = receiver
            return self.settle(now, name, part.handle(now, input))
        if type(input) is Fired:
            name, key = cast(tuple[str, TimerKey], input.key)
            return self.settle(now, name, self.parts[name].handle(now, Fired(key)))
        kind = type(input)
        if kind in RETURNS:
            name, returned = RETURNS[kind](input)
            return self.settle(now, name, self.parts[name].handle(now, returned))
        hearing = self.hearers.get(kind, ())
        if not hearing and issubclass(kind, Request):
            raise UsageError(f"no part of this node hears the request {kind.__name__}; it has {', '.join(self.parts)}")
        effects: list[Effect] = []
        for name, part in hearing:
            effects += self.settle(now, name, part.handle(now, input))
        return effects

    def settle(self, now: float, name: str, effects: list[Effect]) -> list[Effect]:
        """The effects for the world; signals among them have been heard, and their effects are in place."""
        outgoing: list[Effect] = []
        for effect in effects:
            if type(effect) is Send:
                outgoing.append(effect)
            elif type(effect) is SetTimer:
                outgoing.append(SetTimer((name, effect.key), effect.at))
            elif type(effect) in ADDRESSES:
                outgoing.append(ADDRESSES[type(effect)](name, effect))
            elif isinstance(effect, Signal):
                return outgoing + self.settle_signals(now, name, effects[len(outgoing) :])
            else:
                outgoing.append(effect)
        return outgoing

    def settle_signals(self, now: float, name: str, effects: list[Effect]) -> list[Effect]:
        outgoing: list[Effect] = []
        pending: deque[tuple[str, Effect, int]] = deque(zip(repeat(name), effects, repeat(1)))
        while pending:
            source, effect, depth = pending.popleft()
            if type(effect) is Send:
                outgoing.append(effect)
                continue
            if not isinstance(effect, Signal):
                outgoing += self.settle(now, source, [effect])
                continue
            assert depth <= SIGNALS_MAX, f"protocols of one node keep signalling each other: {effect}"
            kind = type(effect)
            if kind in self.tells:
                outgoing.append(effect)
            elif kind not in self.hearers:
                self.check_heard(source, kind)
            answers: list[tuple[str, Effect, int]] = []
            for other, part in self.hearers.get(kind, ()):
                if other != source:
                    answers += zip(repeat(other), part.handle(now, effect), repeat(depth + 1))
            pending.extendleft(reversed(answers))
        return outgoing

    def check(self) -> None:
        for part in self.parts.values():
            part.check()


def visitor_messages(machine: Machine) -> tuple[type, ...]:
    """All that a visitor (`Knocked`) may say to this machine: what its parts take that hear of visitors. Nothing where
    none does, and then there are no visitors."""
    if isinstance(machine, Node):
        return tuple(message for _, part in machine.hearers.get(Knocked, ()) for message in part.messages)
    return tuple(getattr(machine, "messages", ())) if Knocked in getattr(machine, "hears", ()) else ()


ADDRESSES: dict[type, Callable[[str, Any], Effect]] = {
    CancelTimer: lambda name, effect: CancelTimer((name, effect.key)),
    Compute: lambda name, effect: Compute((name, effect.key), effect.job),
    Transfer: lambda name, effect: Transfer((name, effect.key), effect.to, effect.message, effect.size_bytes),
    CancelTransfer: lambda name, effect: CancelTransfer((name, effect.key)),
    Save: lambda name, effect: Save(f"{name}/{effect.name}", effect.data),
    Load: lambda name, effect: Load(f"{name}/{effect.prefix}"),
}
"""How a part's name is written into an effect, so that what comes back finds its way."""


def returned_computed(input: Computed) -> tuple[str, Input]:
    name, key = cast(tuple[str, TimerKey], input.key)
    return name, Computed(key, input.result, input.error)


def returned_transferred(input: Transferred) -> tuple[str, Input]:
    name, key = cast(tuple[str, TimerKey], input.key)
    return name, Transferred(key, input.error)


def returned_saved(input: Saved) -> tuple[str, Input]:
    name, _, rest = input.name.partition("/")
    return name, Saved(rest, input.error)


def returned_loaded(input: Loaded) -> tuple[str, Input]:
    name, _, rest = input.prefix.partition("/")
    entries = tuple((path.partition("/")[2], data) for path, data in input.entries)
    return name, Loaded(rest, entries, input.error)


RETURNS: dict[type, Callable[[Any], tuple[str, Input]]] = {
    Computed: returned_computed,
    Transferred: returned_transferred,
    Saved: returned_saved,
    Loaded: returned_loaded,
}
"""How the part's name is read and taken off again."""
