"""Whatever a peer says, in whatever order, a host of collections never raises."""

from random import Random
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from tidings.machine.effects import Compute, Effect, SetTimer
from tidings.machine.inputs import Computed, Fired, LinkDown, LinkUp, Received
from tidings.machine.message import Contact
from tidings.machine.streams import random_stream
from tidings.nodes.collector import CollectorNode, CollectorParams
from tidings.protocols.access.open_door import OpenDoorParams
from tidings.protocols.collect import messages
from tidings.protocols.collect.params import CollectParams
from tidings.protocols.collect.shelf import MemoryShelf
from tidings.protocols.collect.signals import ProceedCollection, StartCollection
from tidings.wire import REGISTRY, decode, encode

KINDS = [kind for kind in REGISTRY.types.values() if kind.__module__ == messages.__name__]
NAMES = ("me", "a", "b", "c", "ghost", "../x")
JOBS = ("job", "other", "mine")
NUMBERS = (0, 1, 2, 3, 7, 255, 4096, 2**22, 2**50)


def drawn(kind: Any, draws: Random, depth: int = 0) -> Any:
    """A value that the decoder takes, mostly one that makes sense somewhere."""
    kind = getattr(kind, "__value__", kind)
    if get_args(kind) and getattr(kind, "__metadata__", None) is not None:
        return drawn(get_args(kind)[0], draws, depth)
    if kind is str:
        return draws.choice((*NAMES, *JOBS, "f", "*", "planned", "direct"))
    if kind is bool:
        return draws.random() < 0.5
    if kind is int:
        return draws.choice(NUMBERS)
    if kind is float:
        return draws.choice((0.0, 1e-9, 0.5, 3.0, 30.0, 1e9, 1e15))
    if kind is bytes:
        return draws.choice((b"", b"x" * 16, b"y" * 1024, b"s" * 32))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind(*(drawn(each, draws, depth + 1) for each in get_type_hints(kind, include_extras=True).values()))
    inner = get_args(kind)
    if len(inner) == 2 and inner[1] is Ellipsis:
        return tuple(drawn(inner[0], draws, depth + 1) for _ in range(draws.choice((0, 1, 1, 2, 3))))
    return tuple(drawn(each, draws, depth + 1) for each in inner)


def hostile(draws: Random) -> Any:
    """A message as it comes off the wire; None where no frame could carry it."""
    message = drawn(draws.choice(KINDS), draws)
    try:
        return decode(encode(message))
    except Exception:
        return None


def node_of(seed: int) -> CollectorNode:
    shelf = MemoryShelf({"f": b"z" * 5000, "g": b""})
    params = CollectorParams(access=OpenDoorParams(), collect=CollectParams(block_bytes=1024, relay_bytes_max=8192))
    node = CollectorNode("me", params, shelf, random_stream(seed, "stranger"))
    return node


@pytest.mark.parametrize("seed", range(40))
def test_no_message_of_a_peer_raises(seed: int) -> None:
    draws, now = Random(seed), 0.0
    node = node_of(seed)
    waiting: list[Effect] = list(node.start(now))
    for peer in ("a", "b", "c"):
        waiting += node.handle(now, LinkUp(peer, 1))
    waiting += node.handle(now, Received("a", messages.MembersAsked()))
    for name in ("a", "b", "c"):
        waiting += node.handle(now, Received(name, messages.Enlisted(Contact(name), True)))
    waiting += node.handle(now, StartCollection("mine", ("*",)))
    for source in ("a", "b"):
        told = messages.FilesTold("mine", (messages.SharedFile("f", 3000), messages.SharedFile("e", 0)), True)
        waiting += node.handle(now, Received(source, told))
    waiting += node.handle(
        now, Received("c", messages.CollectionOpened("job", "a", 1024, (), 0, (messages.SharedFile("f", 5000),), True))
    )
    proceed_at = draws.randrange(30)
    for step in range(250):
        now += draws.choice((0.0, 0.1, 5.0))
        if step == proceed_at and "mine" in node.gatherer.jobs:
            waiting += node.handle(now, ProceedCollection("mine"))
        if waiting and draws.random() < 0.4:
            effect = waiting.pop(draws.randrange(len(waiting)))
            if isinstance(effect, SetTimer):
                waiting += node.handle(max(now, min(effect.at, now + 30)), Fired(effect.key))
            elif isinstance(effect, Compute):
                try:
                    result = Computed(effect.key, effect.job.run())
                except Exception as problem:
                    result = Computed(effect.key, error=str(problem))
                waiting += node.handle(now, result)
            continue
        if draws.random() < 0.02:
            peer = draws.choice("abc")
            waiting += node.handle(now, LinkDown(peer, 1))
            waiting += node.handle(now, LinkUp(peer, 2))
        message = hostile(draws)
        if message is not None:
            waiting += node.handle(now, Received(draws.choice("abc"), message))
            node.mover.check()
        kept: list[Effect] = [each for each in waiting if isinstance(each, SetTimer | Compute)]
        waiting = kept[-60:]
