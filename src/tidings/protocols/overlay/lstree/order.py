"""The order that keeps a tree free of circles: colours and depths.

Every broker has a *place*: a colour and a depth, a real number. A broker may be below another one only if its own place
comes before that of the other: `may_be_below`. Along the way from a broker to the root places then only rise, so the
way never comes back to where it began.

A *colour* belongs to a tree, and to one root of it: how many roots there were before, and the name of this one. A
longer colour comes after a shorter one, and of two that are equally long the one of the smaller name comes last. Who
has been in no tree yet has no colour, comes before everybody and may go below anybody. Within one colour depths decide.

What makes it hold for ever, whatever messages are late: the place of a broker only rises. Its colour changes to a
later one alone, and its depth grows only together with that. So a broker that knows an old place of the one above it
knows one that is too low, which is on the safe side.

Why depths are real: between two real numbers there is always a third. A broker whose depth is too great to be above
another one can take a smaller one, as long as that is greater than the depth of who is above it, and tells nobody below
(`lowered`). The published colour is the whole sequence of roots; its length and its last name order the colours of one
broker in the same way, since each is longer than the one before, and take no more room as time goes by.

Source: dynamic-topologies.md 3.9.2 (L-INV1 to L-INV3); D-71 to D-79.
"""

from typing import Annotated

import msgspec

from tidings.machine.message import OptionalName
from tidings.model.bounds import COLOUR_LENGTH_MAX, DEPTH_MAX
from tidings.model.identity import NodeId

Depth = Annotated[float, msgspec.Meta(ge=-DEPTH_MAX, le=DEPTH_MAX)]

GAP_MIN = 1e-9
"""Depths nearer to each other than this have nothing in between; then the root gives all of them out anew."""

STEP_MIN = 1e-6
"""How much deeper than the one above a broker is at least that takes a new depth."""

LOWERED_SHARE = 0.75
"""Where between the one above and the one who asks a broker goes that lowers its depth: nearer to who asks, so that it
can do so again for others."""


class Colour(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Without a length there is none."""

    length: Annotated[int, msgspec.Meta(ge=0, le=COLOUR_LENGTH_MAX)] = 0
    root: OptionalName = ""

    def __bool__(self) -> bool:
        return self.length > 0

    def of_new_root(self, root: NodeId) -> "Colour":
        return Colour(self.length + 1, root)


NO_COLOUR = Colour()


def comes_before(one: Colour, other: Colour) -> bool:
    """A tree of the first colour may go below one of the second."""
    if one.length != other.length:
        return one.length < other.length
    return one.root > other.root


class BrokerPlace(msgspec.Struct, frozen=True):
    colour: Colour = NO_COLOUR
    depth: float = 0.0


def may_be_below(place: BrokerPlace, above: BrokerPlace) -> bool:
    if place.colour == above.colour:
        return place.depth > above.depth
    return comes_before(place.colour, above.colour)


def lowered(above_depth: float, asking_depth: float) -> float | None:
    """A depth between the two, for a broker that takes one below it; None where there is no room."""
    if asking_depth - above_depth <= GAP_MIN:
        return None
    found = above_depth + LOWERED_SHARE * (asking_depth - above_depth)
    # Far from 0 floats are so far apart that there may be none in between.
    return found if above_depth < found < asking_depth else None
