"""What nodes say to each other to know where they are."""

from typing import Annotated

from msgspec import Meta

from tidings.machine.message import Count, Message, Place
from tidings.model.bounds import PLACE_ERROR_MAX

PlaceError = Annotated[float, Meta(ge=0.0, le=PLACE_ERROR_MAX)]


class CoordinateProbe(Message, frozen=True):
    """Where are you? The time until the answer is the round trip."""

    round: Count


class CoordinateEcho(Message, frozen=True):
    round: Count
    place: Place
    error: PlaceError
