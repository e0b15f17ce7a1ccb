"""What holders of stranded publications tell each other."""

from typing import Annotated

from msgspec import Meta

from tidings.machine.message import Count, Message, Name, Real
from tidings.model.bounds import STRANDED_NAMES_MAX, STRANDED_SECONDS_MAX
from tidings.pubsub.publications import Head, Payload

StrandedName = tuple[Name, Count]
"""An advertisement, and the publisher's number."""

StrandedNames = Annotated[tuple[StrandedName, ...], Meta(max_length=STRANDED_NAMES_MAX)]


class StrandedDigest(Message, frozen=True):
    """These I hold."""

    names: StrandedNames
    is_answer: bool = False
    """Whether it answers another one, and is not answered itself."""


class StrandedRequest(Message, frozen=True):
    """I have not seen these."""

    names: StrandedNames


class StrandedPublication(Message, frozen=True):
    """One of those that were asked for."""

    publisher: Name
    advertisement: Name
    accepted_at: Real
    number: Count
    head: Head
    payload: Payload
    left: Annotated[float, Meta(ge=0, le=STRANDED_SECONDS_MAX)]
    """Seconds for which it is held still, by whomever."""
