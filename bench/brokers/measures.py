"""The runs: each starts a broker, loads it, and answers with figures."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from bench.brokers.content import SUBJECTS, Content, Sample, make_content, plain_samples
from bench.brokers.dialects import DIALECTS, EVERYTHING
from bench.brokers.load import Blast, Load, Rates, latencies
from bench.brokers.servers import Server

FORWARDED_SAMPLES = 2048
FILTERED_SAMPLES = 131_072
"""More than a broker remembers, so that each event of the filtered run is new to it."""


@dataclass(frozen=True)
class Plan:
    """How long, how often, how many."""

    seconds: float = 2.0
    warm_up: float = 1.5
    rounds: int = 3
    subscribers: int = 10
    filtering: int = 100
    """Subscribers of the filtered run."""
    chunk_events: int = 256
    """Events that the publisher writes at once."""
    other_chunks: tuple[int, ...] = (64, 1024)
    """Other sizes for which ours and NATS are compared."""
    single_events: int = 2000
    received: int = 200_000
    """Events that a client library receives."""


FULL_PLAN = Plan()
QUICK_PLAN = Plan(
    seconds=0.2, warm_up=0.1, rounds=1, subscribers=2, filtering=9, single_events=50, received=2000, other_chunks=()
)


@contextmanager
def blasting(broker: str, server: Server, topics: Sequence[str], filters: Sequence[str]) -> Iterator[Blast]:
    dialect = DIALECTS[broker]
    subscribers = [
        dialect.subscriber(server.port, f"subscriber-{place}", topic, filter)
        for place, (topic, filter) in enumerate(zip(topics, filters, strict=True))
    ]
    blast = Blast(dialect, dialect.publisher(server.port), subscribers)
    try:
        yield blast
    finally:
        blast.close()


def load_of(
    broker: str, samples: Sequence[Sample], topics: Sequence[str], fan_out: Sequence[int], window: int, plan: Plan
) -> Load:
    dialect, size = DIALECTS[broker], plan.chunk_events
    parts = [slice(begin, begin + size) for begin in range(0, len(samples), size)]
    return Load(
        [dialect.chunk(samples[part], topics[part]) for part in parts],
        [len(samples[part]) for part in parts],
        [sum(fan_out[part]) for part in parts],
        window,
    )


def forward(broker: str, subscribers: int, plan: Plan) -> Rates:
    """Everybody wants everything."""
    samples = plain_samples(FORWARDED_SAMPLES)
    fan_out = [subscribers] * len(samples)
    load = load_of(broker, samples, [EVERYTHING] * len(samples), fan_out, 16_384 * subscribers, plan)
    with (
        Server(broker) as server,
        blasting(broker, server, [EVERYTHING] * subscribers, ["type = 'reading'"] * subscribers) as blast,
    ):
        return blast.run(load, server, plan.warm_up, plan.seconds)


def one_by_one(broker: str, plan: Plan) -> tuple[float, float]:
    """The latency of single events, p50 and p99, in microseconds."""
    samples = plain_samples(1)
    chunk = DIALECTS[broker].chunk(samples, [EVERYTHING])
    with Server(broker) as server, blasting(broker, server, [EVERYTHING], ["type = 'reading'"]) as blast:
        latencies(blast, chunk, max(plan.single_events // 10, 2))
        return latencies(blast, chunk, plan.single_events)


def content_of(plan: Plan) -> Content:
    return make_content(FILTERED_SAMPLES if plan.filtering >= SUBJECTS else plan.chunk_events, plan.filtering)


def filter_everything(broker: str, content: Content, plan: Plan) -> Rates:
    """Ours sends what is wanted; the others send everything to everybody. Useful deliveries count."""
    samples, subscribers = content.samples, len(content.filters)
    useful = [len(wanted) for wanted in content.wanted]
    is_ours = broker == "tidings"
    fan_out = useful if is_ours else [subscribers] * len(samples)
    window = 16_384 if is_ours else 1024 * subscribers
    load = load_of(broker, samples, [EVERYTHING] * len(samples), fan_out, window, plan)
    with (
        Server(broker) as server,
        blasting(broker, server, [EVERYTHING] * subscribers, content.filters) as blast,
    ):
        rates = blast.run(load, server, plan.warm_up, plan.seconds)
    share = 1.0 if is_ours else sum(useful) / (len(samples) * subscribers)
    return Rates(round(rates.deliveries * share), rates.seconds, rates.cpu_seconds)


def filter_by_subject(broker: str, content: Content, plan: Plan) -> Rates:
    """One attribute was cut into as many subjects as there are subscribers, and each wants exactly one of them."""
    samples, subscribers = content.samples, len(content.filters)
    topics = [f"{EVERYTHING}.{sample.subject * subscribers // SUBJECTS}" for sample in samples]
    load = load_of(broker, samples, topics, [1] * len(samples), 16_384, plan)
    wanted = [f"{EVERYTHING}.{place}" for place in range(subscribers)]
    with Server(broker) as server, blasting(broker, server, wanted, [""] * subscribers) as blast:
        return blast.run(load, server, plan.warm_up, plan.seconds)
