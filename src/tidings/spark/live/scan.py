"""Attributes out of the heads of a whole page, by the kernel.

The kernel (`kernel.py`) writes a word for each event and wanted attribute, and says which heads it asks about. Here its
memory is laid out and its columns become Arrow arrays: numbers and instants as they lie, texts copied together, truths
as bits. The heads that it asks about are read the plain way (`readings.py`) and put in their places.

Importing this module loads numba; `decoder.py` does so beside its work.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import numpy
import pyarrow
from pyarrow import compute

from tidings.matching.index.kernels.letters import PADDING
from tidings.model.event import CONTEXT_NAMES
from tidings.pubsub.pages import StoredPage, page_of
from tidings.pubsub.publications import encode_head
from tidings.spark.live import kernel
from tidings.spark.live.readings import ARROW_TYPES, PlainReader, Wanted

WANTED_AS = {str: kernel.TEXT, int: kernel.WHOLE, float: kernel.REAL, bool: kernel.TRUTH, datetime: kernel.INSTANT}


class PageScan:
    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.names = table_of(wanted)

    def read(self, page: StoredPage, plain: PlainReader) -> dict[str, pyarrow.Array]:
        """An array for each wanted attribute, an entry for each event."""
        count = len(page)
        data = padded(page.raw_heads)
        ends = numpy.cumsum(numpy.frombuffer(page.raw_head_lengths, "<u4"), dtype=numpy.int64)
        columns = kernel.ReadColumns(
            words=numpy.empty((len(self.wanted), count), numpy.int64),
            present=numpy.zeros((len(self.wanted), count), numpy.uint8),
            states=numpy.empty(count, numpy.uint8),
            seen=kernel.nothing_seen(),
        )
        asked = kernel.read_heads(self.names, data, ends, columns)
        made = {
            name: array_of(kind, data, columns.words[line], columns.present[line])
            for line, (name, kind) in enumerate(self.wanted.items())
        }
        return completed(made, columns.states == kernel.ASKED, page, plain) if asked else made


def completed(
    made: dict[str, pyarrow.Array], is_asked: Any, page: StoredPage, plain: PlainReader
) -> dict[str, pyarrow.Array]:
    heads, mask = page.heads, pyarrow.array(is_asked)
    instead = plain.read([heads[place] for place in numpy.flatnonzero(is_asked)])
    return {name: compute.replace_with_mask(array, mask, instead[name]) for name, array in made.items()}


def table_of(wanted: Wanted) -> kernel.WantedNames:
    """The wanted names, whose places are those of their columns; and those that CloudEvents defines, which are checked
    in any case."""
    names = [*wanted, *(name for name in CONTEXT_NAMES if name not in wanted)]
    table = numpy.zeros((kernel.NAME_LINES, len(names)), numpy.int64)
    at = 0
    for place, name in enumerate(names):
        kind = WANTED_AS[wanted[name]] if name in wanted else kernel.UNWANTED
        table[:, place] = at, len(name), kind, name in CONTEXT_NAMES, name == "time"
        at += len(name)
    return kernel.WantedNames(padded("".join(names).encode()), table)


def padded(data: bytes) -> Any:
    return numpy.frombuffer(data + bytes(PADDING), numpy.uint8)


def array_of(kind: type, data: Any, words: Any, present: Any) -> pyarrow.Array:
    count = len(words)
    absent = count - numpy.count_nonzero(present)
    validity = bits_of(present) if absent else None
    if kind is str:
        offsets = numpy.empty(count + 1, numpy.int32)
        size_bytes = kernel.measure_texts(words, present, offsets)
        texts = numpy.empty(size_bytes + PADDING, numpy.uint8)
        kernel.copy_texts(data, words, present, offsets, texts)
        buffers = [validity, pyarrow.py_buffer(offsets), pyarrow.py_buffer(texts[:size_bytes])]
    elif kind is bool:
        buffers = [validity, bits_of(words != 0)]
    else:
        buffers = [validity, pyarrow.py_buffer(words)]
    return pyarrow.Array.from_buffers(ARROW_TYPES[kind], count, buffers, absent)


def bits_of(truths: Any) -> pyarrow.Buffer:
    return pyarrow.py_buffer(numpy.packbits(truths, bitorder="little"))


def prepare() -> None:
    """Load the kernel, or compile it, by reading a page of one event."""
    wanted: dict[str, type] = {"symbol": str, "price": float}
    heads: Iterable[bytes] = [encode_head({"symbol": "IBM", "price": 1.5})]
    PageScan(wanted).read(page_of([0.0], [1], list(heads), [b""]), PlainReader(wanted, fails_on_type=True))
