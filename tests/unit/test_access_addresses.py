"""Access where brokers are known by their address alone: the link is asked for at the address, and goes by a name."""

from typing import Any

from tidings.machine.effects import Connect, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, LinkDown, LinkUp, Received
from tidings.machine.streams import random_stream
from tidings.model.identity import at
from tidings.protocols.access.access import Access
from tidings.protocols.access.guest import Guest
from tidings.protocols.access.judge import open_judge
from tidings.protocols.access.messages import Attach, Attached, Rejected
from tidings.protocols.access.params import AccessParams, GuestParams
from tidings.pubsub.signals import PeerDown, PeerUp, TurnedAway

X, Y = at("10.0.0.1", 7411), at("10.0.0.2", 7411)


def run(machine: Guest | Access, *inputs: Any, now: float = 1.0) -> list[Effect]:
    effects: list[Effect] = []
    for input in inputs:
        effects = machine.handle(now, input)
        machine.check()
    return effects


def guest() -> Guest:
    made = Guest("ann", GuestParams(brokers=(X, Y)), random_stream(1))
    assert made.start(0.0) == [Connect(X)]
    return made


def timers(effects: list[Effect]) -> list[Any]:
    return [effect.key for effect in effects if isinstance(effect, SetTimer)]


def test_a_guest_attaches_to_whoever_answers_at_the_address() -> None:
    it = guest()
    assert Send("x", Attach("client", b"", when_drained="goes")) in run(it, LinkUp("x", 1, X))
    assert PeerUp("x", 1, "a = 1") in run(it, Received("x", Attached("ann", "a = 1", "")))
    effects = run(it, LinkDown("x", 1, "broken"))
    assert PeerDown("x", 1, "broken") in effects
    assert run(it, Fired("connect")) == [Connect(Y)]
    run(it, LinkDown(Y, 0, "nobody there"))
    assert run(it, Fired("connect")) == [Connect(X)]


def test_a_guest_goes_back_to_a_broker_that_served_it_for_a_while_before_it_tries_another() -> None:
    it = guest()
    run(it, LinkUp("x", 1, X), Received("x", Attached("ann", "", "")))
    run(it, LinkDown("x", 1, "broken"), now=10.0)
    assert run(it, Fired("connect"), now=10.1) == [Connect(X)]
    run(it, LinkDown(X, 1, "nobody there"), now=10.2)
    assert run(it, Fired("connect"), now=10.3) == [Connect(Y)]


def test_a_guest_that_is_turned_away_at_an_address_does_not_call_there_again() -> None:
    it = guest()
    effects = run(it, LinkUp("x", 1, X), Received("x", Rejected("no")))
    assert TurnedAway("x", "no") in effects
    assert it.welcoming == [Y]


def test_a_broker_keeps_a_link_that_is_configured_by_its_address() -> None:
    access = Access("a", AccessParams(links=(X,)), open_judge, random_stream(1))
    assert access.start(0.0) == [Connect(X)]
    assert timers(run(access, LinkDown(X, 0, "nobody there"))) == [("connect", X)]
    assert run(access, Fired(("connect", X))) == [Connect(X)]
    assert Send("x", Attach("broker", b"")) in run(access, LinkUp("x", 1, X))
    assert run(access, Fired(("connect", X))) == []
    assert timers(run(access, LinkDown("x", 1, "broken"))) == [("connect", X)]


def test_an_address_at_which_another_broker_answers_now_is_that_one() -> None:
    access = Access("a", AccessParams(links=(X,)), open_judge, random_stream(1))
    access.start(0.0)
    run(access, LinkUp("x", 1, X), LinkDown("x", 1, "broken"), LinkUp("z", 1, X))
    assert access.wanted.names == {"z": X}
    assert timers(run(access, LinkUp("x", 2), LinkDown("x", 2, "broken"))) == []
