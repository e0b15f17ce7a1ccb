"""Matching events as they come off the wire: what the scan reads, what it learns, and what it leaves to the decoder."""

from typing import Any

import msgspec
import pytest

from tidings.matching import Index, IndexParams
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.pubsub.publications import encode_head, event_of, read_head

ENGINES = ("fast", "plain")


class Decoder:
    """Counts what the index could not read by itself."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, head: bytes) -> Event:
        self.calls += 1
        return event_of(head, b"")


def make_index(engine: Any, **filters: str) -> tuple[Index, Decoder]:
    decoder = Decoder()
    index = Index(engine, decode=decoder)
    for key, text in filters.items():
        index.add(key, parse(text), f"to {key}")
    return index, decoder


def in_order(answers: list[Any]) -> list[Any]:
    """The order of keys is the engine's affair."""
    return [None if keys is None else tuple(sorted(keys)) for keys in answers]


def head_of(**attributes: Value) -> bytes:
    return encode_head(attributes)


@pytest.mark.parametrize("engine", ENGINES)
def test_heads_are_matched_as_their_events_are(engine: str) -> None:
    index, _ = make_index(engine, ibm="symbol = 'IBM'", dear="price >= 100", urgent="urgent = TRUE", any="EXISTS note")
    heads = [
        head_of(symbol="IBM", price=120.5),
        head_of(symbol="SAP", price=99),
        head_of(urgent=True, note="grün"),
        head_of(symbol="IBM", urgent=False),
    ]
    assert in_order(index.match_heads(heads)) == [("dear", "ibm"), (), ("any", "urgent"), ("ibm",)]
    assert index.match_heads_links(heads) == [("to ibm", "to dear"), (), ("to urgent", "to any"), ("to ibm",)]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_head_that_is_not_valid_has_no_answer(engine: str) -> None:
    index, _ = make_index(engine, all="TRUE")
    twice = b"\x82" + 2 * (msgspec.msgpack.encode("a") + b"\x01")
    bad = [b"", b"\x81", b"\xc0", twice, b"\x81\xa1a\xc0", b"\x81\xa11\x01", b"\x81\xa2id\x05", head_of(a=1) + b"\x00"]
    answers = index.match_heads([*bad, head_of(a=1)])
    assert answers == [None] * len(bad) + [("all",)]
    assert index.match_heads_links([bad[0], head_of(a=1)]) == [None, ("to all",)]


@pytest.mark.parametrize("engine", ENGINES)
def test_of_too_many_matches_the_first_events_are_answered_for(engine: str) -> None:
    index, _ = make_index(engine, **{f"f{number}": f"a != {number}" for number in range(20)}, odd="LENGTH(b) > 1")
    heads = [head_of(a=n - 5, b="long") for n in range(30)] + [head_of(a=2**60)] * 3
    for _ in range(2):
        for pairs_max in (0, 1, 21, 100, 500, 10_000):
            answers, places = index.match_heads(heads, pairs_max), index.find_heads(heads, pairs_max)
            assert in_order(answers) == in_order(index.match_heads(heads))[: len(answers)]
            assert len(answers) == 1 or sum(len(keys or ()) for keys in answers) <= pairs_max
            assert len(answers) == len(heads) or sum(len(keys or ()) for keys in answers) > pairs_max - 100
            wanted = index.find_heads(heads[: places.looked_at])
            assert {key: rows for key, rows in places.places.items() if rows} == wanted.places


@pytest.mark.parametrize("engine", ENGINES)
def test_the_places_say_the_same_as_the_answers(engine: str) -> None:
    index, _ = make_index(engine, low="a < 5", high="a >= 3", name="b = 'x'")
    heads = [head_of(a=1), head_of(a=4, b="x"), b"\xc0", head_of(b="x"), head_of(a=2**60), head_of(c=1)]
    places, bad, _ = index.find_heads(heads)
    assert places == {"low": [0, 1], "high": [1, 4], "name": [1, 3]}
    assert bad == [2]
    links, bad, _ = index.find_heads_links(heads)
    assert links == {"to low": [0, 1], "to high": [1, 4], "to name": [1, 3]}
    assert bad == [2]
    assert index.find_heads([]) == ({}, [], 0) == index.find_heads_links([])


def test_usual_heads_are_read_without_decoding() -> None:
    index, decoder = make_index("fast", ibm="symbol = 'IBM'", dear="price >= 100", times="type = 'quote'")
    heads = [
        encode_head({"type": "quote", "time": "2026-11-15T20:45:00.5Z", "price": float(n), "symbol": f"S{n}", "n": n})
        for n in range(200)
    ]
    index.match_heads(heads)
    index.match_heads(heads)
    assert decoder.calls == 0


def test_what_is_unusual_is_decoded() -> None:
    index, decoder = make_index("fast", large="n > 5", texts="s LIKE 'a%'")
    heads = [head_of(n=2**60), head_of(time="2026-02-29T20:45:00Z"), head_of(time="2024-02-29t20:45:00+01:00")]
    assert index.match_heads(heads) == [("large",), None, ()]
    assert decoder.calls == 3
    assert index.match_heads([head_of(s="a" * 1000)]) == [("texts",)]
    assert decoder.calls == 4


def test_filters_that_come_later_are_seen_by_heads() -> None:
    index, _ = make_index("fast", first="a = 'x'")
    heads = [head_of(a="x"), head_of(a="y", b=5), head_of(b="5"), head_of(a=7)]
    assert index.match_heads(heads) == [("first",), (), (), ()]
    index.add("second", parse("a = 'y'"))
    index.add("third", parse("b = 5"))
    index.add("fourth", parse("a = '7'"))
    assert in_order(index.match_heads(heads)) == [("first",), ("second", "third"), ("third",), ("fourth",)]
    index.discard("first")
    index.add("fifth", parse("a LIKE '_'"))
    answers = in_order(index.match_heads(heads))
    assert answers == [("fifth",), ("fifth", "second", "third"), ("third",), ("fifth", "fourth")]
    index.discard("fifth")
    index.discard("third")
    assert index.match_heads(heads) == [(), ("second",), (), ("fourth",)]


def test_an_attribute_with_many_listed_values_is_learned_from_its_misses() -> None:
    index, decoder = make_index("fast")
    index.add_many((n, parse(f"word = 'w{n}'")) for n in range(300))
    for begin in range(0, 1200, 100):
        heads = [head_of(word=f"w{n}") for n in range(begin, begin + 100)]
        expected = [(n,) if n < 300 else () for n in range(begin, begin + 100)]
        assert index.match_heads(heads) == expected
    entries = index.engine.reader.entries
    assert index.match_heads([head_of(word=f"v{n}") for n in range(500)]) == [()] * 500
    assert index.engine.reader.entries == entries, "what is not listed is not entered any more"
    assert decoder.calls == 0


def test_what_strangers_send_does_not_make_the_lexicon_grow() -> None:
    index = Index("fast", IndexParams(memo_strings=16), read_head)
    index.add("pattern", parse("word LIKE 'w1%'"))
    for begin in range(0, 3000, 100):
        heads = [encode_head({"word": f"w{n}", f"name{n}": 1}) for n in range(begin, begin + 100)]
        expected = [("pattern",) if str(n).startswith("1") else () for n in range(begin, begin + 100)]
        assert index.match_heads(heads) == expected
    reader = index.engine.reader
    assert reader.entries <= 16 + 100 and reader.names_on_demand <= 1024 + 100
    assert reader.places == 64


def test_heads_need_an_index_that_can_decode_them() -> None:
    with pytest.raises(UsageError, match="decode"):
        Index().match_heads([b"\x80"])
    assert Index().match_heads([]) == []
