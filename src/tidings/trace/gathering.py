"""What every writer of a trace does: take what happens, make rows of it, and store them many at a time.

Nothing is done one by one, because the loop of a simulator pays for it. Things are kept as they came until there are
`THINGS_MAX` of them, then become rows; rows are kept until there are `rows_max` of them, then are stored. Both are flat
lists of cells: adding to one is a single `list.extend`, nothing is allocated that the collector would have to look at,
and column `i` of the rows is the slice `cells[i::WIDTH]`. Memory stays bounded however long the run is.

The cheapest way from a loop into the trace is `record`, or its two lines in place:

    writer.things.extend((now, node, effect))
    if len(writer.things) >= writer.things_full:
        writer.convert()

A trace holds one run. Its name and its seed are given to the writer and hold for each row.
"""

from types import TracebackType
from typing import Any, Self

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.trace.record import ROW_COLUMNS, Record
from tidings.trace.recording import add_rows

THINGS_MAX = 256
"""Messages are kept alive until they become rows; with this few, even the largest do not fill the memory."""

THING_WIDTH, WIDTH = 3, len(ROW_COLUMNS)
SEED_MIN, SEED_MAX = -(2**63), 2**63 - 1


class Writer:
    """A subclass says how rows are stored."""

    def __init__(self, run: str, seed: int, rows_max: int) -> None:
        if not SEED_MIN <= seed <= SEED_MAX:
            raise UsageError(f"seed {seed} does not fit into 64 bits; give one between {SEED_MIN} and {SEED_MAX}")
        self.run, self.seed, self.rows_max = run, seed, rows_max
        self.things: list[Any] = []
        """Time, node and thing by turns: what has no row yet. Always the same list."""
        self.things_full = THINGS_MAX * THING_WIDTH
        self.cells: list[Any] = []
        """The rows not yet stored."""
        self.stored = 0
        self.closed = False

    def record(self, now: float, node: NodeId, thing: Any) -> None:
        """An input, an effect or a loss (see `recording`) at this node."""
        self.things.extend((now, node, thing))
        if len(self.things) >= self.things_full:
            self.convert()

    def write(self, record: Record) -> None:
        """A finished record. One that names no run belongs to ours."""
        if (record.run != self.run or record.seed != self.seed) and (record.run or record.seed):
            self.adopt(record)
        self.record(record.time, record.node, record)

    def adopt(self, record: Record) -> None:
        """A writer that was opened without a run takes that of its first record."""
        if self.run or self.seed or self.stored or self.cells or self.things:
            raise UsageError(
                f"a record of run {record.run!r}, seed {record.seed}, for the trace of run {self.run!r}, seed "
                f"{self.seed}: a trace holds one run; open a writer for each"
            )
        self.run, self.seed = record.run, record.seed

    def convert(self) -> None:
        """Make rows of what is waiting, and store them if there are enough."""
        if self.closed:
            self.things.clear()
            raise UsageError("this trace is closed; open a new writer to record more")
        add_rows(self.cells, self.things)
        self.things.clear()
        if len(self.cells) >= self.rows_max * WIDTH:
            self.save()

    def flush(self) -> None:
        """Store everything that was recorded so far."""
        self.convert()
        if self.cells:
            self.save()

    def save(self) -> None:
        self.store(self.cells)
        self.stored += len(self.cells) // WIDTH
        self.cells.clear()

    def store(self, cells: list[Any]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Store the rest. What is recorded later is refused."""
        if not self.closed:
            self.flush()
            self.end()

    def end(self) -> None:
        self.closed, self.things_full = True, 0
        self.things.clear()
        self.cells.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # The trace of a run that failed is the one most wanted, so it is finished in that case too.
        self.close()
