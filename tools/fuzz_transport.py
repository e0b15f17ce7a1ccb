"""Throw damaged bytes at the transport and see that it answers with a reason, whatever they are.

    python -m tools.fuzz_transport --runs 1000000 --seed 1

Each run takes valid messages of all types, damages their head, their payload or both, and gives them to the decoders
and to a whole transport that listens and publishes. A run fails if a decoder raises anything but BadHeader, if the
transport raises anything at all, if its state contradicts itself, or if it keeps more streams than it may. The first
failure ends the search: its bytes are kept in a file, and the command is printed that tries them again.

If atheris is installed it steers the damage by what the Python code did; the loop here needs nothing but a seed, gives
the same cases for the same seed, and is chosen by --plain.
"""

import argparse
import importlib.util
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from tidings.machine.effects import Deliver, Drop, SetTimer
from tidings.machine.inputs import Fired, TimerKey
from tidings.machine.streams import random_stream
from tidings.matching.bloom import bits_of_event
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.protocols.transport.congestion.paced import flow_of
from tidings.protocols.transport.headers import DIGEST, BadHeader, Data, FlowMark, decode_data, encode_data
from tidings.protocols.transport.marks import OF, TO, Kind, head_of, mark
from tidings.protocols.transport.messages import (
    Acknowledgement,
    EchoReply,
    EchoRequest,
    Feedback,
    FlowReport,
    LossRepair,
    LossRequest,
    decode_control,
    encode_control,
)
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.signals import CarriedEvent, Caught, Listen, PublishEvent
from tidings.protocols.transport.transport import TransportNode
from tidings.pubsub.publications import encode_head, event_of
from tools.fuzz_wire import damaged

OURS, THEIRS, OTHER = 7, 8, 9
STREAMS_MAX = 20
DAMAGES_MAX = 4
LIFE = 500
"""Cases that one transport lives through, so that its state grows strange as well."""

PROGRESS_EVERY = 20_000
SEPARATOR = b"\xc1\xc1"
"""Between head and payload of a case; 0xC1 never occurs in MessagePack."""

HEAD = encode_head({"price": 5, "symbol": "AMD"})
PROFILE = TransportParams().profile
ROW = bits_of_event(event_of(HEAD, b""), PROFILE)
ROW_BYTES = PROFILE.size_bytes


class Maker:
    """Valid messages of every type, with numbers and times that go on and now and then jump."""

    def __init__(self, rng: Random) -> None:
        self.rng, self.sequence, self.now = rng, 0, 10.0

    def cases(self) -> list[bytes]:
        """One of each, as one would catch them."""
        rng = self.rng
        self.now += rng.random() * 0.1
        self.sequence += int(rng.random() * 4)
        if rng.random() < 0.01:
            self.sequence = rng.getrandbits(32)
        sequence, now = max(0, self.sequence - int(rng.random() * 9)), self.now
        row = rng.getrandbits(PROFILE.bits) & ROW if rng.random() < 0.5 else ROW
        report = FlowReport(flow_of(row, "", ROW_BYTES), rng.random() * 100, row)
        flows = (FlowMark(report.flow, OURS, 0.1), FlowMark(rng.getrandbits(32), OTHER, 9.0))[: int(rng.random() * 3)]
        record = b"".join(bytes((0, 0, age, 1)) + ROW.to_bytes(ROW_BYTES, "little") for age in range(5))
        recorded = bool(flows), flows, None, 5, ROW_BYTES, record
        header = Data(THEIRS, sequence, now, 100.0, *recorded)
        digest = Data(THEIRS, sequence, now, 100.0, *recorded, kind=DIGEST)
        request = LossRequest(
            THEIRS, (OURS, OTHER)[int(rng.random() * 2)], int(rng.random() * 50), now, 0.1, 0.1, ROW, ROW_BYTES
        )
        inside = HEAD if rng.random() < 0.5 else b""
        messages: list[tuple[dict[str, Value], Kind, bytes]] = [
            ({OF: THEIRS}, Kind.DIGEST, encode_data(digest)),
            ({OF: OURS}, Kind.REQUEST, encode_control(request)),
            ({TO: OURS}, Kind.FEEDBACK, encode_control(Feedback(THEIRS, OURS, now, 0.05, (report,), ROW_BYTES))),
            ({TO: OURS}, Kind.ECHO_REQUEST, encode_control(EchoRequest(THEIRS, OURS, 1, now))),
            ({TO: OURS}, Kind.ECHO_REPLY, encode_control(EchoReply(OURS, THEIRS, 1, now, 0.1, now))),
            (
                {TO: OURS},
                Kind.ACKNOWLEDGEMENT,
                encode_control(Acknowledgement(THEIRS, OURS, report.flow, 9, 5, 3, now)),
            ),
        ]
        made = [(head_of(attributes, kind), payload) for attributes, kind, payload in messages]
        made += [
            (mark(HEAD, Kind.DATA), encode_data(header) + b"payload"),
            (mark(HEAD, Kind.DATA), encode_data(Data(OTHER, sequence, now, previous=now - 1.0)) + b"payload"),
            (
                mark(HEAD, Kind.REPAIR),
                encode_control(LossRepair(OTHER, now, OURS, 9.0, 0.1, header, inside), b"payload"),
            ),
            (HEAD, b"payload"),
        ]
        return [head + SEPARATOR + payload for head, payload in made]


class Judge:
    """Gives cases to a transport as its carrier would, with time going on and timers firing."""

    def __init__(self, seed: int) -> None:
        self.rng = random_stream(seed, "fuzz", "judge")
        self.outcomes: Counter[str] = Counter()
        self.lived = LIFE

    def begin(self) -> None:
        params = TransportParams(is_reliable=True, is_paced=True, streams_max=STREAMS_MAX)
        self.transport = TransportNode(OURS, params, Random(self.rng.getrandbits(32)))
        self.now, self.lived = 10.0, 0
        self.timers: dict[TimerKey, float] = {}
        self.carry_out(self.transport.start(self.now))
        for number, text in enumerate(("price > 1", "symbol = 'AMD'", "TRUE")):
            listen = Listen(number, parse(text), is_reliable=True, is_paced=True)
            self.carry_out(self.transport.handle(self.now, listen))

    def try_case(self, data: bytes) -> None:
        head, _, payload = data.partition(SEPARATOR)
        self.decode(payload)
        if self.lived >= LIFE:
            self.begin()
        self.lived += 1
        self.now += self.rng.random() * 0.1
        for key in [key for key, at in self.timers.items() if at <= self.now]:
            del self.timers[key]
            self.carry_out(self.transport.handle(self.now, Fired(key)))
        if self.lived % 10 == 0:
            self.carry_out(self.transport.handle(self.now, PublishEvent(HEAD, b"ours")))
        subscriptions = ((), (0,), (0, 1, 2))[int(self.rng.random() * 3)]
        source = ("", "s", "t")[int(self.rng.random() * 3)]
        caught = Caught(CarriedEvent(head, payload, source, 0, 0.0, subscriptions))
        self.carry_out(self.transport.handle(self.now, caught))
        self.transport.check()
        assert len(self.transport.shim.streams.all) <= STREAMS_MAX

    def decode(self, payload: bytes) -> None:
        for decode in (decode_data, decode_control):
            try:
                message, _ = decode(payload)
            except BadHeader:
                self.outcomes["refused by a decoder"] += 1
                continue
            self.outcomes[f"read as {type(message).__name__}"] += 1
            if isinstance(message, Data):
                message.read_record(10)

    def carry_out(self, effects: Sequence[Any]) -> None:
        for effect in effects:
            if isinstance(effect, SetTimer):
                self.timers[effect.key] = effect.at
            elif isinstance(effect, Drop):
                self.outcomes[f"dropped: {effect.reason}"] += 1
            elif isinstance(effect, Deliver):
                self.outcomes[f"delivered: {type(effect.item).__name__}"] += 1


def make_case(rng: Random, maker: Maker) -> bytes:
    seeds = maker.cases()
    data = seeds[int(rng.random() * len(seeds))]
    head, separator, payload = data.partition(SEPARATOR)
    for _ in range(int(rng.random() * DAMAGES_MAX)):
        payload = damaged(rng, payload, seeds)
    if rng.random() < 0.2:
        head = damaged(rng, head, seeds)
    return head + separator + payload


def fuzz_plainly(judge: Judge, runs: int, seed: int) -> bool:
    rng = random_stream(seed, "fuzz", "transport")
    maker = Maker(rng)
    for number in range(1, runs + 1):
        if not holds(judge, make_case(rng, maker)):
            return False
        if number % PROGRESS_EVERY == 0:
            print(f"{number} runs", file=sys.stderr, flush=True)
    return True


def holds(judge: Judge, data: bytes) -> bool:
    try:
        judge.try_case(data)
    except Exception as problem:
        Path("fuzz_transport.failure").write_bytes(data)
        print(f"{type(problem).__name__}: {problem}\n{data[:200].hex()}", file=sys.stderr)
        print("again: python -m tools.fuzz_transport --try fuzz_transport.failure", file=sys.stderr)
        return False
    return True


def fuzz_with_atheris(atheris: Any, judge: Judge, runs: int, seed: int) -> None:
    """Does not return: the engine ends the process, with a status that says whether a case failed."""
    done = 0

    def one_input(data: bytes) -> None:
        nonlocal done
        done += 1
        judge.try_case(data)
        if done == runs:
            report(judge, done)

    with tempfile.TemporaryDirectory() as corpus:
        for number, case in enumerate(Maker(Random(seed)).cases()):
            (Path(corpus) / str(number)).write_bytes(case)
        options = [f"-atheris_runs={runs}", f"-seed={seed}", "-max_len=1024", "-len_control=0", "-verbosity=0"]
        atheris.Setup([sys.argv[0], *options, corpus], one_input)
        atheris.Fuzz()


def report(judge: Judge, runs: int) -> None:
    print(f"{runs} runs without a failure")
    for outcome, count in sorted(judge.outcomes.items()):
        print(f"  {count:>9} {outcome}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Throw damaged bytes at the transport.")
    parser.add_argument("--runs", type=int, default=100_000, metavar="N", help="cases to try (100000)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the same seed gives the same cases (1)")
    parser.add_argument("--plain", action="store_true", help="do not use atheris, even if it is installed")
    parser.add_argument("--try", dest="case", type=Path, metavar="FILE", help="try the bytes of one case")
    asked = parser.parse_args(arguments)

    judge, began_at = Judge(asked.seed), time.perf_counter()
    if asked.case is not None:
        judge.try_case(asked.case.read_bytes())
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
    return 0


if __name__ == "__main__":
    sys.exit(main())
