"""Pages of history to Arrow columns.

A page is six runs of bytes (`pubsub/pages.py`). What the network says of an event lies in its arrays as Arrow wants it:
numbers and payloads are looked at where they lie, and payloads only where a column asks for them. Attributes are read
out of the heads, MessagePack maps one behind the other; only those are read that a column asks for.

Two steps make a column of an attribute:

    read      heads -> a text, an integer, a double or a truth for each event, or null (`Column.kind`)
    finish    that array -> the column's own type (a time of the text, say)

**Twins.** The plain reading decodes head after head (`readings.py`). The compiled one scans the bytes of a whole page,
many times as fast (`scan.py`), and asks the plain one about every head that is unusual. Both give the same, which a
property test checks with bytes of any kind.

**Serve first, be fast soon.** Loading the kernel takes some tenths of a second, and compiling it, once on a machine,
some seconds: longer than a task works that reads a few thousand events. So a process begins with the plain reading,
and a thread makes the kernel ready for all its decoders.
"""

import gc
import logging
import threading
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Literal

import numpy
import pyarrow
from pyarrow import compute
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tidings.model.identity import name_of
from tidings.pubsub.pages import StoredPage
from tidings.spark.live.columns import ACCEPTED_AT, NUMBER, PAYLOAD, PUBLISHER, TIME, columns_of
from tidings.spark.live.readings import MICROSECONDS, MILLION, PlainReader

if TYPE_CHECKING:
    from tidings.spark.live.scan import PageScan

DecodingEngine = Literal["soon", "compiled", "plain"]
"""Which reading is used: the compiled one as soon as it is ready, at once and in any case, or never."""

log = logging.getLogger("tidings.spark.live")


class Decoder:
    """Pages to record batches of one schema."""

    def __init__(self, schema: StructType, fails_on_type: bool = False, engine: DecodingEngine = "soon") -> None:
        self.columns = columns_of(schema)
        self.schema = to_arrow_schema(schema, timezone="UTC")
        self.engine = engine
        self.wanted = {it.name: it.kind for it in self.columns if it.kind is not None}
        if any(it.name == TIME for it in self.columns):
            self.wanted[TIME] = datetime
        self.plain = PlainReader(self.wanted, fails_on_type)
        self.scan: PageScan | None = None

    @property
    def needs_payloads(self) -> bool:
        """Whether a column is made of them: one that neither the head nor the network tells."""
        told = (PUBLISHER, NUMBER, ACCEPTED_AT, *self.wanted)
        return any(it.name not in told for it in self.columns)

    @property
    def misread(self) -> int:
        """How many values had another type than their column."""
        return self.plain.misread

    def batch(self, publisher: str, page: StoredPage) -> pyarrow.RecordBatch:
        """The columns of a page of this publisher."""
        read = self.read(page) if self.wanted else {}
        made = [self.column(it.name, publisher, page, read) for it in self.columns]
        return pyarrow.RecordBatch.from_arrays(made, schema=self.schema)

    def read(self, page: StoredPage) -> dict[str, pyarrow.Array]:
        if self.scan is None and (self.engine == "compiled" or (self.engine == "soon" and is_kernel_ready())):
            from tidings.spark.live.scan import PageScan

            self.scan = PageScan(self.wanted)
        return self.plain.read(page.heads) if self.scan is None else self.scan.read(page, self.plain)

    def column(self, name: str, publisher: str, page: StoredPage, read: dict[str, pyarrow.Array]) -> pyarrow.Array:
        if name == PUBLISHER:
            return repeated(publisher, page)
        if name == NUMBER:
            return numbers_of(page)
        if name == ACCEPTED_AT:
            return instants_of(page)
        if name == PAYLOAD:
            return payloads_of(page)
        if name == "id":
            # An event that has none is named by its number and its publisher.
            return filled(read[name], lambda: numbers_of(page).cast(pyarrow.string()))
        if name == "source":
            return filled(read[name], lambda: repeated(name_of(publisher), page))
        return read[name]


# The kernel.

kernel_ready, kernel_begun = threading.Event(), threading.Lock()


def is_kernel_ready() -> bool:
    """Whether it is; the first who asks has a thread make it ready."""
    if not kernel_ready.is_set() and kernel_begun.acquire(blocking=False):
        # Not a daemon: a process that ends in the middle of compiling would tear it down under the compiler's feet.
        threading.Thread(target=make_kernel_ready, name="kernel").start()
    return kernel_ready.is_set()


def make_kernel_ready() -> None:
    try:
        from tidings.spark.live.scan import prepare

        prepare()
        # PySpark's workers look for garbage after each task, and would look at all that belongs to numba each time.
        gc.collect()
        gc.freeze()
    except Exception:
        log.exception("events are read the plain way, since the kernel cannot be made ready")
        return
    kernel_ready.set()


# What the network says of events.


def repeated(text: str, page: StoredPage) -> pyarrow.Array:
    return pyarrow.repeat(pyarrow.scalar(text, pyarrow.string()), len(page))


def numbers_of(page: StoredPage) -> pyarrow.Array:
    return pyarrow.array(numpy.frombuffer(page.raw_numbers, "<i8").astype(numpy.int64, copy=False))


def instants_of(page: StoredPage) -> pyarrow.Array:
    micros = numpy.rint(numpy.frombuffer(page.raw_times, "<f8") * MILLION).astype(numpy.int64)
    return pyarrow.array(micros).view(MICROSECONDS)


def payloads_of(page: StoredPage) -> pyarrow.Array:
    """The payloads where they lie."""
    ends = numpy.zeros(len(page) + 1, numpy.int32)
    numpy.cumsum(numpy.frombuffer(page.raw_payload_lengths, "<u4"), out=ends[1:])
    buffers = [None, pyarrow.py_buffer(ends), pyarrow.py_buffer(page.raw_payloads)]
    return pyarrow.Array.from_buffers(pyarrow.binary(), len(page), buffers)


def filled(array: pyarrow.Array, instead: Callable[[], pyarrow.Array]) -> pyarrow.Array:
    return compute.coalesce(array, instead()) if array.null_count else array
