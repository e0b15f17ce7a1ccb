"""The list of all messages: codes for ever, bytes for ever."""

import importlib
import os
import pkgutil
import subprocess
import sys
from typing import Any

import pytest

import tidings
from tidings.machine.message import Message
from tidings.machine.publications import PublicationBatch
from tidings.model.event import Event
from tidings.protocols.teaching.gossip import Digest, Repair, Request
from tidings.protocols.teaching.ping import Echo, Probe
from tidings.wire import REGISTRY, decode, encode
from tidings.wire.handshake import Goodbye, Heartbeat, Hello

# A line is added for a new message; none is ever changed.
CODES = {
    0x0001: "Hello",
    0x0002: "Goodbye",
    0x0003: "Heartbeat",
    0x0100: "PublicationBatch",
    0x0F00: "Probe",
    0x0F01: "Echo",
    0x0F10: "Digest",
    0x0F11: "Request",
    0x0F12: "Repair",
}

EXAMPLES: list[tuple[Message, str]] = [
    (Hello("a", 1, 1, 2, ("batch",), 3, 4096), "000197a16101010291a5626174636803cd1000"),
    (Goodbye("bye"), "000291a3627965"),
    (Heartbeat(), "000390"),
    (PublicationBatch((b"one", b"two")), "01009192c4036f6e65c40374776f"),
    (Probe(7), "0f009107"),
    (Echo(300), "0f0191cd012c"),
    (Digest((("/a", "1"), ("/a", "2"))), "0f10919292a22f61a13192a22f61a132"),
    (Request((("/a", "1"),)), "0f11919192a22f61a131"),
    (Repair(Event({"x": 1.5, "id": "1"}, b"p")), "0f1292c4017082a26964a131a178cb3ff8000000000000"),
]


def test_codes_are_unique_and_stay_what_they_were() -> None:
    assert {code: type.__name__ for code, type in REGISTRY.types.items()} == CODES
    assert len(set(REGISTRY.types.values())) == len(CODES)


@pytest.mark.parametrize(("message", "data"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_the_bytes_of_a_message_stay_what_they_were(message: Message, data: str) -> None:
    assert encode(message).hex() == data
    assert decode(bytes.fromhex(data)) == message


def test_there_is_an_example_of_every_message() -> None:
    assert {type(message) for message, _ in EXAMPLES} == set(REGISTRY.types.values())


def test_every_message_that_is_defined_is_listed() -> None:
    for module in pkgutil.walk_packages(tidings.__path__, "tidings."):
        if module.name.split(".")[1] in ("machine", "nodes", "protocols", "wire"):
            importlib.import_module(module.name)
    assert {kind for kind in subclasses(Message) if kind.__module__.startswith("tidings.")} == set(
        REGISTRY.types.values()
    )


def subclasses(kind: type) -> set[type]:
    below: set[type] = set()
    child: type
    for child in kind.__subclasses__():
        below |= {child} | subclasses(child)
    return below


def test_bytes_are_the_same_under_every_hash_seed() -> None:
    program = (
        "from tidings.model.event import Event; from tidings.wire import encode;"
        "from tidings.wire.handshake import hello; from tidings.protocols.teaching.gossip import Repair;"
        "print(encode(hello('a', capabilities=set('hgfedcba'))).hex(),"
        "encode(Repair(Event({name: 1 for name in set('hgfedcba')}))).hex())"
    )
    answers: set[Any] = set()
    for seed in ("0", "1", "12345"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        answers.add(
            subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True).stdout
        )
    assert len(answers) == 1
