"""The content of the filtered run: quotes, and a hundred subscribers who want one per cent of them each.

A third of them want a region and a range of prices, a third a range of prices and of sizes, a third a narrow range of
temperatures. So no single attribute could be cut into topics for all of them.
"""

from dataclasses import dataclass
from random import Random

from tidings.matching import Index
from tidings.matching.index.answers import Key
from tidings.model.event import Event
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.pubsub.publications import encode_head

EVENT_BYTES = 140
"""Attributes and payload of an event together."""

MARK = b"\xf5\xf6\xf7\xf8"
"""Ends each payload; bytes that occur in no UTF-8 text, so they are counted without decoding anything."""

REGIONS = 20
SUBJECTS = 100


@dataclass(frozen=True)
class Sample:
    """An event in pieces: what brokers read, what they do not, and the subject where one attribute was cut up."""

    head: bytes
    payload: bytes
    subject: int


@dataclass(frozen=True)
class Content:
    samples: list[Sample]
    filters: list[str]
    wanted: list[list[Key]]
    """For each sample the subscribers that want it."""


def filters_of(random: Random, count: int) -> list[str]:
    made = []
    for place in range(count):
        if place % 3 == 0:
            low = random.uniform(0.0, 80.0)
            region = random.randrange(REGIONS)
            made.append(f"region = 'r{region}' AND price >= {low:.3f} AND price < {low + 20.0:.3f}")
        elif place % 3 == 1:
            low, size = random.uniform(0.0, 90.0), random.randrange(900)
            made.append(f"price >= {low:.3f} AND price < {low + 10.0:.3f} AND size > {size} AND size <= {size + 100}")
        else:
            low = random.uniform(0.0, 99.0)
            made.append(f"temperature >= {low:.3f} AND temperature < {low + 1.0:.3f}")
    return made


def attributes_of(random: Random) -> dict[str, Value]:
    return {
        "price": random.uniform(0.0, 100.0),
        "region": f"r{random.randrange(REGIONS)}",
        "size": random.randrange(1000),
        "temperature": random.uniform(0.0, 100.0),
        "type": "quote",
    }


def sample_of(attributes: dict[str, Value]) -> Sample:
    head = encode_head(attributes)
    payload = b"x" * (EVENT_BYTES - len(head) - len(MARK)) + MARK
    number = attributes["temperature"]
    assert isinstance(number, float)
    return Sample(head, payload, int(number * SUBJECTS / 100.0))


def make_content(samples: int, subscribers: int, seed: int = 1) -> Content:
    random = Random(seed)
    texts = filters_of(random, subscribers)
    index = Index()
    index.add_many((place, parse(text)) for place, text in enumerate(texts))
    events = [attributes_of(random) for _ in range(samples)]
    wanted = [list(found) for found in index.match_batch([Event(attributes) for attributes in events])]
    return Content([sample_of(attributes) for attributes in events], texts, wanted)


def plain_samples(count: int, seed: int = 2) -> list[Sample]:
    """For plain forwarding: readings of a few places, with values in the payload, so that heads repeat."""
    random = Random(seed)
    heads = [
        encode_head({"place": f"p{place}", "sensor": "temperature", "type": "reading", "unit": "celsius"})
        for place in range(16)
    ]
    made = []
    for _ in range(count):
        head = random.choice(heads)
        filler = random.randbytes(EVENT_BYTES - len(head) - len(MARK)).replace(MARK[:1], b"x")
        made.append(Sample(head, filler + MARK, 0))
    return made
