"""What is written is read, in both formats, and the same records give the same bytes in every process."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.machine.effects import Deliver, Drop, Send, SetTimer
from tidings.machine.inputs import Fired, LinkDown, Received
from tidings.machine.message import Count, Message
from tidings.model.event import Event
from tidings.trace.reader import read_trace
from tidings.trace.record import DETAIL_CHARS_MAX, KEY_CHARS_MAX, KINDS, Record, Rows
from tidings.trace.sequence import pair
from tidings.trace.things import THING_WIDTH, of_thing
from tidings.trace.writer import Writer
from tidings.trace.writers import RingBuffer, open_writer

INT64 = st.integers(-(2**63), 2**63 - 1)
TIMES = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(max_size=KEY_CHARS_MAX)


@st.composite
def traces(draw: st.DrawFn) -> list[Record]:
    run, seed = draw(st.text(min_size=1, max_size=20)), draw(INT64)
    record = st.builds(
        Record,
        run=st.just(run),
        seed=st.just(seed),
        time=TIMES,
        node=TEXTS,
        kind=st.sampled_from(KINDS),
        peer=st.none() | TEXTS,
        message=st.none() | TEXTS,
        key=st.none() | TEXTS,
        size_bytes=st.none() | INT64,
        reason=st.none() | TEXTS,
        detail=st.none() | st.text(max_size=DETAIL_CHARS_MAX),
    )
    return draw(st.lists(record, max_size=30))


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
@given(records=traces(), rows_max=st.integers(1, 40))
def test_a_trace_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, ending: str, records: list[Record], rows_max: int
) -> None:
    path = tmp_path_factory.mktemp("trace") / f"t.{ending}"
    with open_writer(path) as writer:
        writer.rows_max = rows_max
        for record in records:
            writer.write(record)
            writer.flush()
    assert list(read_trace(path)) == records


@given(records=traces(), size=st.integers(1, 40))
def test_a_ring_holds_the_end_of_what_was_written(records: list[Record], size: int) -> None:
    ring = RingBuffer(size)
    for record in records:
        ring.write(record)
    assert ring.records() == records[-size:]


@given(records=traces())
def test_every_send_and_receive_belongs_to_one_arrow(records: list[Record]) -> None:
    arrows = pair(records)
    ends = [(place, record.kind) for place, record in enumerate(records) if record.peer is not None]
    assert sorted(arrow.send for arrow in arrows if arrow.send is not None and not arrow.is_duplicate) == [
        place for place, kind in ends if kind == "send"
    ]
    assert sorted(arrow.receive for arrow in arrows if arrow.receive is not None) == [
        place for place, kind in ends if kind == "receive"
    ]


class Counting(Writer):
    """Stores nothing, and sees how much it is given at once."""

    def __init__(self, rows_max: int, things_max: int) -> None:
        super().__init__("", 0, rows_max)
        self.things_full = things_max * THING_WIDTH
        self.sizes: list[int] = []

    def store(self, rows: Rows) -> None:
        self.sizes.append(len(rows))


@given(count=st.integers(0, 3000), rows_max=st.integers(1, 1000), things_max=st.integers(1, 300))
def test_rows_are_stored_in_pieces_of_bounded_size(count: int, rows_max: int, things_max: int) -> None:
    record = Record(time=0.0, node="a", kind="note")
    with Counting(rows_max, things_max) as writer:
        for _ in range(count):
            writer.write(record)
            assert len(writer.things) < things_max * THING_WIDTH
            assert len(writer.rows) < rows_max
    assert sum(writer.sizes) == count
    assert all(rows_max <= size < rows_max + things_max for size in writer.sizes[:-1])


class Ping(Message, frozen=True):
    round: Count
    words: tuple[str, ...]


class Forward(Message, frozen=True):
    event: Event
    hops: Count


class Probe(Message, frozen=True):
    round: Count
    word: str | None


class Hello(Message, frozen=True):
    """Nothing to say."""


class Reading(Message, frozen=True):
    value: float


SMALL_MESSAGES = st.builds(Probe, st.integers(0, 2), st.sampled_from(["a", None])) | st.builds(Hello)
MESSAGES = st.one_of(
    SMALL_MESSAGES,
    st.builds(Reading, st.sampled_from([0.0, -0.0, 1.0])),
    st.builds(Ping, st.integers(0, 9), st.lists(st.text(), max_size=3).map(tuple)),
    st.builds(Ping, st.integers(0, 9), st.just(("x" * 2000,))),
    st.builds(Forward, st.builds(Event, st.fixed_dictionaries({"id": st.sampled_from("abc")})), st.integers(0, 9)),
    st.text(),
)
NODES = st.sampled_from("abc")


@st.composite
def collected(draw: st.DrawFn) -> list[tuple[float, str, object]]:
    """Things that happen, where the same message, or an equal one, may be in several of them."""
    all_messages = draw(st.sampled_from([MESSAGES, SMALL_MESSAGES]))
    messages = st.sampled_from(draw(st.lists(all_messages, min_size=1, max_size=5)))
    thing = st.one_of(
        st.builds(Send, NODES, messages),
        st.builds(Received, NODES, messages, st.integers(0, 99)),
        st.builds(Deliver, messages),
        st.builds(Drop, messages, st.sampled_from(["late", "full"])),
        st.builds(Fired, NODES),
        st.builds(SetTimer, NODES, TIMES),
        st.builds(LinkDown, NODES, st.integers(0, 3), st.sampled_from(["", "reset"])),
    )
    return draw(st.lists(st.tuples(TIMES, NODES, thing), max_size=30))


@given(things=collected(), things_max=st.integers(1, 40))
def test_many_things_at_once_give_the_records_that_each_gives_alone(
    things: list[tuple[float, str, object]], things_max: int
) -> None:
    ring = RingBuffer(1000)
    ring.things_full = things_max * THING_WIDTH
    for now, node, thing in things:
        ring.record(now, node, thing)
    alone = [of_thing(now, node, thing) for now, node, thing in things]
    assert ring.records() == [record for record in alone if record is not None]


PROGRAM = """
import sys
from tidings.machine.effects import Deliver, Drop, Note, Send
from tidings.machine.inputs import Fired, LinkUp, Received
from tidings.machine.message import Count, Message
from tidings.model.event import Event
from tidings.trace.writers import open_writer

class Ping(Message, frozen=True):
    round: Count
    seen: frozenset[str]

class Seen(Note, frozen=True):
    words: object

with open_writer(sys.argv[1], run="r", seed=7) as writer:
    for number in range(3000):
        words = {f"w{number + each}" for each in range(9)}
        event = Event({"id": str(number), "source": "s"})
        ping = Ping(number, frozenset(words))
        for thing in (
            Send("b", ping), Received("b", ping, 20), Fired(("ping", frozenset(words))), LinkUp("b", number),
            Deliver(event), Drop(ping, "late"), Seen({word: {word, 3} for word in words} | {"o": object()}),
        ):
            writer.record(number * 0.1, "a", thing)
"""


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_the_same_records_give_the_same_bytes_under_every_hash_seed(root: Path, tmp_path: Path, ending: str) -> None:
    digests = set()
    for hash_seed in ("0", "1", "2"):
        path = tmp_path / f"{hash_seed}.{ending}"
        environment = {**os.environ, "PYTHONPATH": str(root / "src"), "PYTHONHASHSEED": hash_seed}
        subprocess.run([sys.executable, "-c", PROGRAM, str(path)], env=environment, check=True)
        digests.add(hashlib.sha256(path.read_bytes()).hexdigest())
    assert len(digests) == 1
