"""Compiling the fast engine before it is needed.

The kernels are compiled when they are first called, and kept in a cache on disk. On a machine that has never done so
that takes half a minute, in which the process does nothing else: no time to be told so by the first subscriber. A
program that serves others calls `prepare` before it opens its doors. With a full cache it costs about a second.
"""

import msgspec

from tidings.matching.index.index import Index, best_engine
from tidings.matching.index.params import IndexParams
from tidings.model.event import Event
from tidings.model.language.parser import parse

TINY = IndexParams(
    chunk_records=64,
    direct_records=2,
    block_records=64,
    link_filters=2,
    own_links_max=2,
    learning_records=2,
    learning_events=2,
)
"""With these everything that an index ever does happens among a hundred filters."""

TEXTS = ("number > {n}", "word = 'w{n}' AND number < {n}", "word LIKE 'w%{n}' OR truth")
ROUNDS = 40


def prepare(engine: str | None = None) -> None:
    """Compile what an index of this engine needs; nothing for the plain one."""
    if (engine or best_engine()) != "fast":
        return
    index = Index("fast", TINY, decode=lambda head: Event(msgspec.msgpack.decode(head)))
    filters = [parse(text.format(n=number)) for number in range(ROUNDS) for text in TEXTS]
    index.add_many((key, filter, f"link{key % 3}") for key, filter in enumerate(filters))
    events = [Event({"number": number, "truth": number % 2 == 0, "word": f"w{number}"}) for number in range(8)]
    heads = [msgspec.msgpack.encode(event.attributes, order="deterministic") for event in events]
    for _ in range(3):
        index.match(events[0])
        index.match_batch(events)
        list(index.match_slots(events, len(events)))
        index.match_links(events)
        index.find_heads(heads)
        index.find_heads_links(heads)
    for key in range(len(filters)):
        index.discard(key)
