"""What applications ask when they publish.

Every protocol has its own form of it (one event, a batch of encoded ones), and a trace shows each as a publication: it
knows them by their base.

Between a client and the network events move many at a time: as one request when they are published, as one item when
they are delivered. Whoever asks of a trace when an event was published, and when it arrived where, should not have to
know that. So everything that holds several is a `Bundle`, and says of each publication in it what its row in a trace is
to say; nobody else has to know how it is built.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from tidings.machine.inputs import Request
from tidings.model.event import Event


class PublishRequest(Request, frozen=True):
    """Base of the requests that make a `publish` row of a trace."""


class CapacityMeasured(Request, frozen=True):
    """From whoever runs a broker that goes by popularity: so many publications it can forward in a second."""

    units_per_second: float


class RatesForeseen(Request, frozen=True):
    """From whoever runs a broker that goes by popularity: what is expected from now on, in publications a second, of
    these advertisements or publishers, until this is said again. Of all others nothing is foreseen any more."""

    rates: tuple[tuple[str, float], ...]


class Publish(PublishRequest, frozen=True):
    """The application wants this event to reach whoever asked for it."""

    event: Event


class BundledEvent(NamedTuple):
    """One publication of a bundle."""

    head: bytes
    payload: bytes
    key: str | None = None
    """The name of the event where it has no id of its own."""
    about: Mapping[str, Any] | None = None
    """How it was delivered; None for what is published, of which its attributes are told."""


class Bundle(msgspec.Struct, frozen=True):
    """Base of requests and of delivered items that hold publications side by side."""

    def publications(self) -> Iterator[BundledEvent]:
        raise NotImplementedError
