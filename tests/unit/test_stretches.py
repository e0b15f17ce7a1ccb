"""Questions that came in one message look at history together, and are answered as if each had looked alone."""

from random import Random
from typing import Any

import pytest

from tests.worlds.desk import sent
from tests.worlds.edge import EdgeDesk, batch, named
from tidings.model.language.parser import parse
from tidings.model.work import UNITS_PER_MS, WORK
from tidings.protocols.delivery.edge.history import HistoryStore, PublisherHistory
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.stretches import KEPT_MAX, STRETCH_MAX, SharedLook
from tidings.protocols.delivery.messages import History, PackedReferences, PublishMessage, Reference
from tidings.pubsub.publications import Publications, encode_head

FILTERS = (
    "x = {n}",
    "x > {n}",
    "x IN ({n}, 3, 5)",
    "EXISTS y",
    "word LIKE '%a{n}%'",
    "LENGTH(word) = {n}",
    "y = {n} OR x < 4",
)


def publishing(count: int, params: EdgeParams | None = None) -> EdgeDesk:
    """A publisher p here that has published so much; b is a neighbour."""
    desk = EdgeDesk(params or EdgeParams(history_window_bytes=100_000_000))
    desk.neighbours("b")
    desk.up("p")
    desk.advertise("p", filter="EXISTS x OR EXISTS y OR EXISTS word")
    publish(desk, range(1, count + 1))
    return desk


def publish(desk: EdgeDesk, numbers: range) -> None:
    desk.is_checked = False
    for number in numbers:
        known: dict[str, Any] = {"x": number % 50, "y": number % 7, "word": f"a{number % 9}b"}
        chosen = dict(list(known.items())[number % 3 :])
        desk.say("p", PublishMessage(1, number, False, (encode_head(chosen),), (b"payload",)))


def asking(rng: Random, number: int, most: int) -> Reference:
    filter = rng.choice(FILTERS).format(n=rng.randint(0, 9))
    after = rng.choice((0, 0, most // 2, most - 3, None))
    limit, limit_bytes = rng.choice((1000, 1000, 3, 0)), rng.choice((1_000_000, 60))
    wanted = ((named("p/1", "a"), after),)
    return Reference("c", number, number, filter, wanted, 0.0, False, "", "", limit, limit_bytes, ("b",))


def answered(desk: EdgeDesk, message: Any) -> list[History]:
    answers = sent(desk.say("b", message), History)
    while desk.edge.flows.held:
        desk.now += desk.edge.params.held_for
        answers += sent(desk.fire("answers", desk.now), History)
    return answers


@pytest.mark.parametrize("seed", range(4))
def test_they_find_what_each_would_find_alone(seed: int) -> None:
    rng = Random(seed)
    count = rng.choice((7, 100, STRETCH_MAX, STRETCH_MAX + 1))
    questions = [asking(rng, number, count) for number in range(40)]
    together = answered(publishing(count), PackedReferences(tuple(questions)))
    desk = publishing(count)
    alone = [answer for each in questions for answer in answered(desk, each)]
    assert len(together) == len(alone) == len(questions)
    for one, other in zip(together, alone, strict=True):
        assert one.numbers == other.numbers[: len(one.numbers)]
        assert one.heads == other.heads[: len(one.heads)]
        if not one.has_more:
            assert one.numbers == other.numbers or other.has_more
        behind = [number for number in other.numbers if number not in one.numbers]
        assert all(number > one.through for number in behind), "what is not in the answer lies behind its end"


def test_what_is_published_between_two_answers_is_in_the_second() -> None:
    desk, look = publishing(10), SharedLook()
    publisher = desk.edge.publishers.all["p"]
    for text in ("x = 1", "x > 0"):
        look.add(text, parse(text))
    first = [row[1] for each in look.stretches("p", publisher.history, 0) for row in each.found("x > 0", 0)]
    publish(desk, range(11, 21))
    second = [row[1] for each in look.stretches("p", publisher.history, 0) for row in each.found("x > 0", 0)]
    assert second[: len(first)] == first
    assert max(second) > 10


def test_eight_thousand_questions_and_a_thousand_publications_are_no_eight_million_comparisons() -> None:
    desk = publishing(1000)
    before = WORK.units
    answers = []
    for place in range(0, 8000, 400):
        numbers = range(place, place + 400)
        wanted = ((named("p/1", "a"), 0),)
        pack = [Reference("c", n, n, f"x = {n}", wanted, 0.0, False, "", "", 10, 10_000, ("b",)) for n in numbers]
        answers += answered(desk, PackedReferences(tuple(pack)))
    assert len(answers) == 8000
    assert sum(len(each.numbers) for each in answers) > 0
    assert WORK.units - before < 500 * UNITS_PER_MS


def test_no_more_is_kept_than_allowed() -> None:
    history, count = PublisherHistory(HistoryStore(EdgeParams())), 2 * KEPT_MAX
    history.append(batch("p", range(1, count + 1)), 0)
    look = SharedLook()
    seen = [row[1] for each in look.stretches("p", history, 0) for row in each.rows]
    assert seen == list(range(1, count + 1))
    assert sum(len(each.rows) for each in look.looked["p"].stretches) <= KEPT_MAX


def test_large_heads_make_short_stretches() -> None:
    history = PublisherHistory(HistoryStore(EdgeParams()))
    heads = (encode_head({"text": "a" * 10_000}),) * 20
    history.append(Publications("p", "p/1@a", 1.0, 0, tuple(range(1, 21)), heads, (b"",) * 20), 0)
    lengths = [len(each.rows) for each in SharedLook().stretches("p", history, 0)]
    assert lengths == [7, 7, 6]
