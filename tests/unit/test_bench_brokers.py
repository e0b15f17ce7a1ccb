"""The comparison of brokers, at a tiny size, with whatever is installed here."""

import socket

import pytest

from bench.brokers import libraries, measures, report
from bench.brokers.content import EVENT_BYTES, MARK, make_content, plain_samples
from bench.brokers.dialects import DIALECTS, EVERYTHING
from bench.brokers.load import Subscriber
from bench.brokers.measures import QUICK_PLAN
from bench.brokers.report import CONTENT, ONE, P50, PER_CPU, PER_SECOND, Figures
from bench.brokers.servers import MOSQUITTO, NATS, REDIS, TIDINGS, Missing, Server
from bench.report import BROKERS_SECTION, section_of, with_section
from tidings.model.event import Event
from tidings.model.language.parser import parse
from tidings.protocols.delivery.messages import PublishMessage
from tidings.pubsub.publications import decode_head
from tidings.wire.frames import FrameReader
from tidings.wire.registry import decode

BROKERS = (TIDINGS, NATS, MOSQUITTO, REDIS)


@pytest.fixture(autouse=True)
def plain_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled for a tiny measurement."""
    monkeypatch.setenv("TIDINGS_BROKER_ROUTING__ENGINE", "plain")


def skip_where_missing(broker: str) -> None:
    try:
        Server(broker)
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("broker", BROKERS)
def test_everything_that_is_sent_arrives(broker: str) -> None:
    skip_where_missing(broker)
    rates = measures.forward(broker, 2, QUICK_PLAN)
    assert rates.deliveries > 0 and rates.seconds > 0


@pytest.mark.parametrize("broker", [TIDINGS, NATS])
def test_the_filtered_run_delivers_what_is_wanted(broker: str) -> None:
    skip_where_missing(broker)
    assert measures.filter_everything(broker, measures.content_of(QUICK_PLAN), QUICK_PLAN).deliveries > 0


def test_single_events_come_back() -> None:
    middle, late = measures.one_by_one(TIDINGS, QUICK_PLAN)
    assert 0 < middle <= late


def test_a_client_library_receives_everything() -> None:
    assert libraries.receiving(TIDINGS, QUICK_PLAN) > 0


def test_events_have_the_size_that_is_said_and_one_mark_each() -> None:
    content = make_content(200, 9)
    for sample in [*content.samples, *plain_samples(200)]:
        body = sample.head + sample.payload
        assert len(body) == EVENT_BYTES and body.count(MARK) == 1


def test_the_wanted_are_those_whose_filter_matches() -> None:
    content = make_content(100, 9)
    filters = [parse(text) for text in content.filters]
    for sample, wanted in zip(content.samples, content.wanted, strict=True):
        event = Event(decode_head(sample.head))
        assert sorted(wanted) == [place for place, filter in enumerate(filters) if filter.matches(event)]  # type: ignore[type-var]


def test_a_chunk_of_ours_is_a_publish_frame_with_the_number_it_is_given() -> None:
    samples = plain_samples(3)
    chunk = DIALECTS[TIDINGS].chunk(samples, [EVERYTHING] * 3)
    for sent in (0, 5, 10**12):
        (body,) = FrameReader().feed(chunk(sent))
        heads, payloads = tuple(s.head for s in samples), tuple(s.payload for s in samples)
        assert decode(body) == PublishMessage(1, sent + 1, False, heads, payloads)


def test_marks_are_counted_also_when_they_arrive_in_pieces() -> None:
    near, far = socket.socketpair()
    with near, far:
        subscriber = Subscriber(near, DIALECTS[NATS])
        for byte in b"x" + MARK + b"yz" + MARK + MARK:
            far.sendall(bytes([byte]))
            subscriber.read()
    assert subscriber.count == 3


def test_the_section_replaces_the_one_before_and_leaves_the_rest() -> None:
    figures = Figures()
    for value in (100.0, 300.0, 200.0):
        figures.add(TIDINGS, CONTENT, PER_CPU, 10 * value)
        figures.add(NATS, CONTENT, PER_CPU, value)
    figures.add(TIDINGS, ONE, P50, 50.0)
    figures.missing[REDIS] = "redis-server is not installed"
    goals = report.targets(figures)
    (ours,) = [goal for goal in goals if "content" in goal.text and "NATS" in goal.text]
    assert (ours.measured, ours.reached) == (10.0, True)
    page = with_section("# Benchmarks\n\nBefore.\n", BROKERS_SECTION, report.section(figures, goals))
    again = with_section(page, BROKERS_SECTION, report.section(figures, goals))
    both = with_section(page, "## Others", "## Others\n\n1\n")
    assert with_section(both, BROKERS_SECTION, report.section(figures, goals)) == both
    assert with_section(both, "## Others", "## Others\n\n2\n") == both.removesuffix("1\n") + "2\n"
    assert section_of(both, "## Others") == "\n## Others\n\n1\n"
    assert page == again and page.startswith("# Benchmarks\n\nBefore.\n\n## Brokers\n")
    assert "2,000 (1,000 to 3,000)" in page and "Redis was not measured" in page
    assert figures.shown(TIDINGS, ONE, PER_SECOND) == "-"
