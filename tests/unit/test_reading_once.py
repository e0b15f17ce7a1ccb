"""A process decodes a head once and parses a filter once, whoever looks at it."""

from collections import Counter

import pytest

from tidings.machine.inputs import Received
from tidings.model import filter as filters
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.language import parser
from tidings.model.language.parser import FILTER_CHARS_KEPT_MAX, parse
from tidings.protocols.routing.messages import AdvertisementAdded, SubscriptionAdded, SubscriptionRemoved, TablesBegun
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.router import Router
from tidings.pubsub import publications
from tidings.pubsub.publications import HEAD_KEPT_BYTES_MAX, HEADS_KEPT, Publications, encode_head, read_head
from tidings.pubsub.signals import Matched, NeighbourUp, Want


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Counter[bytes]:
    """How often each head is decoded."""
    counts: Counter[bytes] = Counter()
    event_of = publications.event_of

    def counting(head: bytes, payload: bytes) -> Event:
        counts[head] += 1
        return event_of(head, payload)

    monkeypatch.setattr(publications, "event_of", counting)
    monkeypatch.setattr(publications, "known_heads", {})
    return counts


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often each filter is written as text."""
    counts: Counter[int] = Counter()
    filter_text = filters.filter_text

    def counting(filter: Filter) -> str:
        counts[id(filter)] += 1
        return filter_text(filter)

    monkeypatch.setattr(filters, "filter_text", counting)
    return counts


def router() -> Router:
    made = Router("b", RoutingParams(engine="plain"))
    for neighbour in "pqr":
        made.handle(0.0, NeighbourUp(neighbour, 1))
        made.handle(0.0, Received(neighbour, TablesBegun(1, made.lives)))
    made.handle(0.0, Received("p", AdvertisementAdded(1, "pub/1", "pub", "TRUE", "p", 1)))
    return made


def test_a_head_is_decoded_once_for_all_tables_of_all_brokers_of_a_process(decoded: Counter[bytes]) -> None:
    heads = tuple(encode_head({"x": x}) for x in range(5))
    batch = Publications("pub", "pub/1", 1.0, 0, (1, 2, 3, 4, 5), heads, (b"",) * 5)
    for _ in range(2):
        made = router()
        made.handle(0.0, Received("q", SubscriptionAdded(1, "x > 1")))
        made.handle(0.0, Want(("c", 1), parse("x > 2")))
        assert any(isinstance(effect, Matched) for effect in made.handle(0.0, Received("p", batch)))
    assert decoded == Counter(heads)


def test_heads_that_are_remembered_are_bounded(decoded: Counter[bytes]) -> None:
    for x in range(HEADS_KEPT + 1):
        read_head(encode_head({"x": x}))
        assert len(publications.known_heads) <= HEADS_KEPT
    long = encode_head({"x": "a" * HEAD_KEPT_BYTES_MAX})
    assert read_head(long) == read_head(long) and decoded[long] == 2
    with pytest.raises(publications.BadPublication):
        read_head(b"nonsense")


@pytest.mark.parametrize("text", ["price > 17 AND symbol = 'IBM'", "symbol IN ({})"])
def test_a_filter_is_parsed_once_and_written_once_however_often_it_is_told(
    text: str, rendered: Counter[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ", ".join(f"'name{number:03}'" for number in range(FILTER_CHARS_KEPT_MAX // 8))
    canonical = parse(text.format(names)).text()
    parser.parse_once.cache_clear()
    parsed: Counter[str] = Counter()
    parse_expression = parser.parse_expression

    def counting(text: str) -> object:
        parsed[text] += 1
        return parse_expression(text)

    monkeypatch.setattr(parser, "parse_expression", counting)
    made = router()
    parsed.clear()
    rendered.clear()
    made.handle(0.0, Received("q", AdvertisementAdded(2, "q/1", "q", canonical, "q", 1)))
    assert parsed == {canonical: 1}
    parsed.clear()
    for neighbour in "qr":
        made.handle(0.0, Received(neighbour, SubscriptionAdded(3, canonical)))
    made.handle(0.0, Received("r", AdvertisementAdded(4, "r/1", "r", canonical, "r", 1)))
    made.handle(0.0, Received("q", SubscriptionRemoved(5, canonical)))
    assert not parsed and set(rendered.values()) <= {1}
    made.check()
