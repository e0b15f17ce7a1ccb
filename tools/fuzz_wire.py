"""Throw damaged bytes at the wire and see that nothing but its own errors comes out.

    python tools/fuzz_wire.py --runs 1000000 --seed 1

Each run takes valid frames of all message types, damages them (flipped bits, spans cut, doubled or moved, hostile
lengths, deep nesting, NaN, bad UTF-8, doubled names) and feeds them, in pieces, through the reader and the decoders. A
run fails if anything but BadMessage or BadPublication is raised, if a message that was accepted does not
survive its own bytes, or if reading takes more than twice the bound of a frame in memory. The first failure ends the
search: its bytes are kept in a file, and the command is printed that tries them again.

If atheris is installed it steers the damage by what the Python code did; the loop here needs nothing but a seed, gives
the same cases for the same seed, and is chosen by --plain.
"""

import argparse
import importlib.util
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from tidings.machine.streams import random_stream
from tidings.model.event import Event
from tidings.protocols.teaching.gossip import Digest, GossipRepair, GossipRequest
from tidings.protocols.teaching.ping import Echo, Probe
from tidings.pubsub.publications import (
    BadPublication,
    Publications,
    decode_event,
    encode_event,
    encode_head,
    event_of,
)
from tidings.wire import FRAME_BYTES_MAX, BadMessage, FrameReader, decode, encode, frame
from tidings.wire.handshake import Goodbye, Heartbeat, hello

MEMORY_BYTES_MAX = 2 * FRAME_BYTES_MAX
DAMAGES_MAX = 5
PROGRESS_EVERY = 50_000
LARGE_EVERY = 500
"""How often a case is filled up to about the size of the largest frame."""

EVENTS = [
    Event({"id": "1", "source": "/a", "price": 10, "share": 0.5, "urgent": True, "name": "é\U0001f600"}, b"payload"),
    Event({}, b""),
    Event({f"attribute{number}": number for number in range(20)}, bytes(300)),
]
MESSAGES = [
    hello("node", 3, ["batch", "history", "tls"], 7),
    Goodbye("the other end went away"),
    Heartbeat(),
    Publications(
        "publisher",
        "publisher/1",
        0.5,
        3,
        (1, 2, 2**40),
        tuple(encode_head(event.attributes) for event in EVENTS),
        tuple(event.payload for event in EVENTS),
    ),
    Probe(7),
    Echo(2**40),
    Digest((("/a", "1"), ("/b", "é"))),
    GossipRequest((("/a", "1"),)),
    *[GossipRepair(event) for event in EVENTS],
]
HOSTILE = [
    b"\x00\x00\x00\x00",
    b"\xff\xff\xff\xff",
    (FRAME_BYTES_MAX + 1).to_bytes(4),
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xdb\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\xc9\xff\xff\xff\xff\x01",
    b"\xde\x00\x81",
    b"\xdc\xff\xff",
    b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00",
    b"\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00",
    b"\xca\x7f\xc0\x00\x00",
    b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xa2\xff\xfe",
    b"\xa3\xed\xa0\x80",
    b"\xa4\xf0\x9f\x98\x80",
    b"\xd6\xff\x00\x00\x00\x01",
    b"\xc1",
    b"\x82\xa1a\x01\xa1a\x02",
    b"\x91" * 64,
    b"\x91" * 100_000,
    b"\x81\xa1a" * 5_000,
]


class Judge:
    """Reads bytes as a node would, and counts how that ended."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.peak_bytes = 0

    def try_stream(self, data: bytes, piece_bytes: int) -> None:
        before_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        reader = FrameReader()
        for at in range(0, len(data), piece_bytes):
            bodies = reader.feed(data[at : at + piece_bytes])
            while bodies:
                self.try_message(bodies.pop(0))
            if reader.problem is not None:
                self.outcomes["bad frames"] += 1
                break
        _, peak_bytes = tracemalloc.get_traced_memory()
        self.peak_bytes = max(self.peak_bytes, peak_bytes - before_bytes)
        assert self.peak_bytes <= MEMORY_BYTES_MAX, f"reading took {self.peak_bytes} bytes"

    def try_message(self, body: bytes) -> None:
        try:
            message = decode(body)
        except BadMessage:
            self.outcomes["bad messages"] += 1
            return
        self.outcomes["messages"] += 1
        assert decode(encode(message)) == message, f"{message!r:.200} does not survive its own bytes"
        if type(message) is Publications:
            for head, payload in zip(message.heads, message.payloads, strict=True):
                self.try_event(head, payload)

    def try_event(self, head: bytes, payload: bytes) -> None:
        try:
            event = event_of(head, payload)
        except BadPublication:
            self.outcomes["bad publications"] += 1
            return
        self.outcomes["publications"] += 1
        assert decode_event(encode_event(event)) == event, f"{event!r:.200} does not survive its own bytes"


def damaged(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """One damage of a kind drawn at random."""
    at = int(rng.random() * (len(data) + 1))
    end = at + int(rng.random() * 9)
    match int(rng.random() * 8):
        case 0:
            changed = bytes(byte ^ (1 << int(rng.random() * 8)) for byte in data[at : at + 1])
            return data[:at] + changed + data[at + 1 :]
        case 1:
            return data[:at] + bytes([int(rng.random() * 256)]) + data[at + 1 :]
        case 2:
            return data[:at]
        case 3:
            return data[:at] + data[end:]
        case 4:
            return data[:end] + data[at:]
        case 5:
            return data[:at] + HOSTILE[int(rng.random() * len(HOSTILE))] + data[end:]
        case 6:
            other = others[int(rng.random() * len(others))]
            return data[:at] + other[int(rng.random() * len(other)) :]
        case _:
            return data[:at] + bytes(int(rng.random() * 256) for _ in range(end - at)) + data[end:]


def make_case(rng: Random, seeds: Sequence[bytes], number: int) -> bytes:
    """A stream of one to three frames: bodies damaged behind a right length, or the whole stream damaged."""
    stream = b""
    for _ in range(1 + int(rng.random() * 3)):
        body = seeds[int(rng.random() * len(seeds))]
        for _ in range(int(rng.random() * DAMAGES_MAX)):
            body = damaged(rng, body, seeds)
        if number % LARGE_EVERY == 0:
            filler = HOSTILE[int(rng.random() * len(HOSTILE))]
            body = (body + filler * (1 + FRAME_BYTES_MAX // len(filler)))[:FRAME_BYTES_MAX]
        stream += frame(body[:FRAME_BYTES_MAX]) if body else b""
    return damaged(rng, stream, seeds) if rng.random() < 0.25 else stream


def fuzz_plainly(judge: Judge, runs: int, seed: int) -> bool:
    rng = random_stream(seed, "fuzz", "wire")
    seeds = [encode(message) for message in MESSAGES]
    for number in range(1, runs + 1):
        data = make_case(rng, seeds, number)
        piece_bytes = 65_536 if rng.random() < 0.5 else 1 + len(data) // 1000 + int(rng.random() * 100)
        if not holds(judge, data, piece_bytes):
            return False
        tell_progress(judge, number)
    return True


def holds(judge: Judge, data: bytes, piece_bytes: int) -> bool:
    try:
        judge.try_stream(data, piece_bytes)
    except Exception as problem:
        Path("fuzz_wire.failure").write_bytes(data)
        print(f"{type(problem).__name__}: {problem}\n{data[:200].hex()}", file=sys.stderr)
        print(f"again: python tools/fuzz_wire.py --try fuzz_wire.failure --piece {piece_bytes}", file=sys.stderr)
        return False
    return True


def fuzz_with_atheris(atheris: Any, judge: Judge, runs: int, seed: int) -> None:
    """Does not return: the engine ends the process, with a status that says whether a case failed."""
    done = 0

    def one_input(data: bytes) -> None:
        nonlocal done
        done += 1
        judge.try_stream(data[1:], 1 + data[0] if data else 1)
        tell_progress(judge, done)
        if done == runs:
            report(judge, done)

    with tempfile.TemporaryDirectory() as corpus:
        for number, message in enumerate(MESSAGES):
            (Path(corpus) / str(number)).write_bytes(b"\xff" + frame(encode(message)))
        options = [f"-atheris_runs={runs}", f"-seed={seed}", "-max_len=2048", "-len_control=0", "-verbosity=0"]
        atheris.Setup([sys.argv[0], *options, corpus], one_input)
        atheris.Fuzz()


def tell_progress(judge: Judge, runs: int) -> None:
    if runs % PROGRESS_EVERY == 0:
        print(f"{runs} runs, {sum(judge.outcomes.values())} readings", file=sys.stderr, flush=True)


def report(judge: Judge, runs: int) -> None:
    print(f"{runs} runs without a failure; at most {judge.peak_bytes} bytes of {MEMORY_BYTES_MAX} taken by one of them")
    for outcome, count in sorted(judge.outcomes.items()):
        print(f"  {count:>9} {outcome}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Throw damaged bytes at the wire.")
    parser.add_argument("--runs", type=int, default=100_000, metavar="N", help="cases to try (100000)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the same seed gives the same cases (1)")
    parser.add_argument("--plain", action="store_true", help="do not use atheris, even if it is installed")
    parser.add_argument("--try", dest="case", type=Path, metavar="FILE", help="try the bytes of one case")
    parser.add_argument("--piece", type=int, default=65_536, metavar="BYTES", help="in pieces of this length (65536)")
    asked = parser.parse_args(arguments)

    tracemalloc.start()
    judge, began_at = Judge(), time.perf_counter()
    try:
        if asked.case is not None:
            judge.try_stream(asked.case.read_bytes(), asked.piece)
            print(dict(judge.outcomes))
            return 0
        if not asked.plain and importlib.util.find_spec("atheris") is not None:
            atheris = importlib.import_module("atheris")
            atheris.instrument_all()
            print(f"atheris, seed {asked.seed}")
            fuzz_with_atheris(atheris, judge, asked.runs, asked.seed)
        print(f"plain loop, seed {asked.seed}")
        if not fuzz_plainly(judge, asked.runs, asked.seed):
            return 1
        report(judge, asked.runs)
        print(f"{time.perf_counter() - began_at:.0f} s")
    finally:
        tracemalloc.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
