"""The contract: timers, messages and transports as values (what RANS calls Event and Message)."""

import inspect
import re
from pathlib import Path

import msgspec
import pytest

from tests.worlds.desk import Desk
from tidings.machine import effects, inputs
from tidings.machine.effects import CancelTimer, Deliver, Effect, Send, SetTimer, Transport
from tidings.machine.inputs import Fired, Input, Received
from tidings.machine.message import Count, Message
from tidings.machine.node import Machine, Node
from tidings.machine.streams import random_stream
from tidings.model.event import Event
from tidings.protocols.teaching.gossip import Gossip, GossipParams
from tidings.protocols.teaching.ping import Ping, PingParams
from tidings.pubsub.requests import Publish
from tidings.wire import decode, encode


class Snooze(Message, frozen=True):
    seconds: Count


class Silence(Message, frozen=True):
    pass


class AlarmClock:
    """Rings ten seconds after its start, unless a message puts that off or stops it."""

    messages: tuple[type, ...] = (Snooze, Silence)

    def start(self, now: float) -> list[Effect]:
        return [SetTimer("ring", now + 10)]

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(_, Snooze(seconds), size_bytes):
                return [SetTimer("ring", now + seconds), Deliver(size_bytes)]
            case Received(_, Silence()):
                return [CancelTimer("ring")]
            case Fired("ring"):
                return [Deliver("rrring"), Send("b", Silence(), Transport.DATAGRAM)]
        return []

    def check(self) -> None:
        pass


def receive(desk: Desk[AlarmClock], at: float, message: Message) -> None:
    desk.now = at
    desk.handle(Received("b", message, len(msgspec.msgpack.encode(message))))


def run(desk: Desk[AlarmClock]) -> None:
    while desk.timers:
        desk.fire_next()


def others(desk: Desk[AlarmClock]) -> list[Effect]:
    return [effect for _, effect in desk.all if not isinstance(effect, SetTimer | CancelTimer)]


@pytest.mark.spec("P-1")
def test_a_timer_that_is_set_fires_once_at_its_time() -> None:
    desk = Desk(AlarmClock())
    run(desk)
    assert desk.now == 10
    assert others(desk) == [Deliver("rrring"), Send("b", Silence(), Transport.DATAGRAM)]


@pytest.mark.spec("P-1")
def test_a_timer_that_is_set_again_fires_once_at_the_last_time() -> None:
    desk = Desk(AlarmClock())
    receive(desk, 3.0, Snooze(60))
    receive(desk, 4.0, Snooze(5))
    run(desk)
    assert desk.now == 9.0
    assert others(desk).count(Deliver("rrring")) == 1


@pytest.mark.spec("P-1")
def test_a_timer_that_is_cancelled_never_fires() -> None:
    desk = Desk(AlarmClock())
    receive(desk, 9.0, Silence())
    run(desk)
    assert (desk.now, others(desk)) == (9.0, [])


@pytest.mark.spec("P-2")
def test_a_message_is_sent_by_naming_its_receiver_and_transport() -> None:
    sent = Send("b", Silence(), Transport.DATAGRAM)
    assert (sent.to, sent.message, sent.transport) == ("b", Silence(), Transport.DATAGRAM)
    assert Send("b", Silence()).transport is Transport.STREAM


@pytest.mark.spec("P-2")
def test_a_machine_is_told_who_sent_a_message_and_what_it_took_on_the_wire() -> None:
    desk = Desk(AlarmClock())
    receive(desk, 1.0, Snooze(5))
    assert others(desk) == [Deliver(2)]


@pytest.mark.parametrize("module", [inputs, effects])
def test_inputs_and_effects_are_frozen_values(module: object) -> None:
    structs = [kind for _, kind in inspect.getmembers(module, inspect.isclass) if issubclass(kind, msgspec.Struct)]
    assert len(structs) > 8
    assert [kind for kind in structs if not kind.__struct_config__.frozen] == []


def test_a_sent_message_cannot_be_changed() -> None:
    message = Snooze(5)
    with pytest.raises(AttributeError):
        message.seconds = 6  # type: ignore[misc]
    assert message == Snooze(5)
    assert hash(message) == hash(Snooze(5))


@pytest.mark.spec("P-16")
def test_a_node_runs_protocols_of_different_transports_side_by_side() -> None:
    ping = Ping(["b"], PingParams(transport=Transport.DATAGRAM), random_stream(1, "a", "ping"))
    gossip = Gossip(["b"], GossipParams(transport=Transport.STREAM), random_stream(1, "a", "gossip"))
    node: Machine = Node({"ping": ping, "gossip": gossip}, tells=ping.tells)
    other = Gossip(["a"], GossipParams(), random_stream(1, "b", "gossip"))
    node.start(0.0)
    node.handle(0.1, Publish(Event({"source": "/a", "id": "1"})))
    probes = node.handle(1.0, Fired(("ping", "round")))
    digests = node.handle(1.0, Fired(("gossip", "round")))
    assert [effect.transport for effect in probes if isinstance(effect, Send)] == [Transport.DATAGRAM]
    assert [effect.transport for effect in digests if isinstance(effect, Send)] == [Transport.STREAM]
    (digest,) = [effect.message for effect in digests if isinstance(effect, Send)]
    assert decode(encode(digest)) == digest
    assert other.handle(1.1, Received("a", digest)) != []


def test_the_snippets_of_the_tutorial_run(root: Path) -> None:
    page = root / "docs" / "guide" / "tutorial.md"
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 8
    exec(compile("\n".join(blocks), str(page), "exec"), {"__name__": "tutorial"})
