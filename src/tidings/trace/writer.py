"""What every writer of a trace does: collect what happens, make rows of it, and store them many at a time.

Nothing is done one by one, because the loop of a simulator pays for it. Things are collected as they come, until there
are `THINGS_MAX` of them, then become rows; rows are kept until there are `rows_max` of them, then are stored. Memory
stays bounded however long the run is.

`record` collects one thing. A loop in which every tenth of a microsecond counts does in place what `record` does for
sends and receives, which are most of a trace:

    things = writer.things                                              # always the same list
    things.extend((now, node, SEND, to, message, None))
    things.extend((now, node, RECEIVE, sender, message, size_bytes or None))
    if len(things) >= writer.things_full:                               # once for each step of the loop
        writer.convert()

Collecting is not copying: nobody may change a message, an input or an effect afterwards, as everywhere.

A trace holds one run. Its name and its seed are given to the writer and hold for each row.
"""

from types import TracebackType
from typing import Any, Self

from tidings.machine.effects import Send
from tidings.machine.inputs import Received
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.trace.record import Record, Rows
from tidings.trace.things import RECEIVE, SEND, THING_WIDTH, add_things, is_recorded, records_of

THINGS_MAX = 8192
"""Things that are kept, with the messages in them, until they become rows."""

SEED_MIN, SEED_MAX = -(2**63), 2**63 - 1


class Writer:
    """A subclass says how rows are stored."""

    def __init__(self, run: str, seed: int, rows_max: int) -> None:
        if not SEED_MIN <= seed <= SEED_MAX:
            raise UsageError(f"seed {seed} does not fit into 64 bits; give one between {SEED_MIN} and {SEED_MAX}")
        self.run, self.seed, self.rows_max = run, seed, rows_max
        self.things: list[Any] = []
        """What has no row yet: the cells of one thing after those of the other. Always the same list."""
        self.others: list[int] = []
        """Which of them are no sends and no receives."""
        self.things_full = min(rows_max, THINGS_MAX) * THING_WIDTH
        self.rows = Rows()
        """Those not yet stored."""
        self.stored = 0
        self.closed = False

    def record(self, now: float, node: NodeId, thing: Any) -> None:
        """An input, an effect or a loss (see `recording`) at this node."""
        kind = type(thing)
        if kind is Received:
            self.things.extend((now, node, RECEIVE, thing.sender, thing.message, thing.size_bytes or None))
        elif kind is Send:
            self.things.extend((now, node, SEND, thing.to, thing.message, None))
        elif (records := records_of(now, node, thing)) is not None:
            for record in records:
                self.record(now, node, record)
        elif is_recorded(kind):
            self.others.append(len(self.things) // THING_WIDTH)
            self.things.extend((now, node, None, None, thing, None))
        if len(self.things) >= self.things_full:
            self.convert()

    def write(self, record: Record) -> None:
        """A finished record. One that names no run belongs to ours."""
        if (record.run != self.run or record.seed != self.seed) and (record.run or record.seed):
            self.adopt(record)
        self.record(record.time, record.node, record)

    def adopt(self, record: Record) -> None:
        """A writer that was opened without a run takes that of its first record."""
        if self.run or self.seed or self.stored or self.rows or self.things:
            raise UsageError(
                f"a record of run {record.run!r}, seed {record.seed}, for the trace of run {self.run!r}, seed "
                f"{self.seed}: a trace holds one run; open a writer for each"
            )
        self.run, self.seed = record.run, record.seed

    def convert(self) -> None:
        """Make rows of what is waiting, and store them if there are enough."""
        if self.closed:
            self.forget()
            raise UsageError("this trace is closed; open a new writer to record more")
        add_things(self.rows, self.things, self.others)
        self.forget()
        if len(self.rows) >= self.rows_max:
            self.save()

    def flush(self) -> None:
        """Store everything that was recorded so far."""
        self.convert()
        if self.rows:
            self.save()

    def save(self) -> None:
        self.store(self.rows)
        self.stored += len(self.rows)
        self.rows = Rows()

    def store(self, rows: Rows) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Store the rest. What is recorded later is refused."""
        if not self.closed:
            self.flush()
            self.end()

    def end(self) -> None:
        self.closed, self.things_full = True, 0
        self.forget()
        self.rows = Rows()

    def forget(self) -> None:
        self.things.clear()
        self.others.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # The trace of a run that failed is the one most wanted, so it is finished in that case too.
        self.close()
