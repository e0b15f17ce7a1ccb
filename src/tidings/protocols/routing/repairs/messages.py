"""What repairs tell each other, beside the changes of tables that are told anyway."""

from typing import Annotated, Literal

from msgspec import Meta

from tidings.machine.message import Count, FilterText, Message, Name
from tidings.model.bounds import PATH_BROKERS_MAX, PATH_FILTERS_MAX, PATTERN_DIGESTS_BYTES_MAX, RADIO_PATH_MAX

Digests = Annotated[bytes, Meta(max_length=PATTERN_DIGESTS_BYTES_MAX)]
"""Filters, each by the hash of its canonical text."""

RadioPath = Annotated[tuple[Name, ...], Meta(max_length=RADIO_PATH_MAX)]

PathFilters = Annotated[tuple[FilterText, ...], Meta(max_length=PATH_FILTERS_MAX)]


class Flush(Message, frozen=True):
    """Everything that the new link has changed where you are has happened (FLUSH)."""

    reconfiguration: Name
    origin: Name
    """The end of the new link that began it."""


class Activate(Message, frozen=True):
    """Begin to tell your neighbour `far` what you want, but hold these back (ACTIVATE)."""

    reconfiguration: Name
    far: Name
    held_back: Digests
    onward: Digests | None = None
    """What `far` should hold back, to be passed on to it; None where somebody else tells it."""
    way: RadioPath = ()
    """Brokers that have yet to pass it on to the end of the new link, where only neighbours can be reached."""


class PathEdit(Message, frozen=True):
    """Edit your table and pass it on along the path (REC)."""

    reconfiguration: Name
    path: Annotated[tuple[Name, ...], Meta(min_length=2, max_length=PATH_BROKERS_MAX)]
    """From one end of the old link by way of the new one to its other end."""
    near: Count
    """The place in it of the first end of the new link."""
    added: PathFilters
    """What I take you to want from now on."""
    removed: PathFilters
    """What I do not want any more, of what I told you."""


class PathEdited(Message, frozen=True):
    """I have edited my table, and what I say from here on I say knowing that (RECACK)."""

    reconfiguration: Name
    is_refused: bool
    """Whether it was not passed on."""


ShiftStage = Literal[
    "told", "sweep", "swept", "hold", "turn", "drained", "switch", "switched", "resume", "loose", "off"
]


class ShiftWord(Message, frozen=True):
    """How far a shift is (`shift.py`). Each stands behind the changes of tables that were told before; "turn" behind
    all publications too."""

    shift: Name
    word: ShiftStage
