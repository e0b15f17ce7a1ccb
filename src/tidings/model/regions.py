"""Regions: events that happen somewhere, and subscribers who want what happens near them.

An event carries the rectangle it concerns as four attributes; a point is a rectangle without width and height. A
subscriber gives its own rectangle, and gets the events whose rectangle touches it, sides and corners included:

    berlin = Region(west=13.1, south=52.3, east=13.8, north=52.7)
    await client.publish({"type": "quake"}, region=Region.point(13.4, 52.5))
    await client.subscribe("type = 'quake'", region=berlin)

Both are ordinary attributes and an ordinary filter of four ranges, so covering, merging, bounds of principals and the
index know what to do with them; an event without a region matches no region. Degrees or metres, it does not matter as
long as all use the same. A region across the date line is two: `east.touching() | west.touching()`.

Source: the specification of dynamic topologies, 2.2 (publish and subscribe with a region), requirement D-22.
"""

import math

import msgspec

from tidings.model.errors import UsageError
from tidings.model.filter import Filter
from tidings.model.language.builder import attr


class Region(msgspec.Struct, frozen=True, kw_only=True):
    west: float
    south: float
    east: float
    north: float

    def __post_init__(self) -> None:
        for name in ("west", "south", "east", "north"):
            if not math.isfinite(getattr(self, name)):
                raise UsageError(f"{name}: {getattr(self, name)} is no place; give a finite number")
        if self.west > self.east:
            raise UsageError(
                f"west: {self.west} lies east of {self.east}; make two regions of one across the date line"
            )
        if self.south > self.north:
            raise UsageError(f"south: {self.south} lies north of {self.north}; exchange them")

    @classmethod
    def point(cls, x: float, y: float) -> "Region":
        return cls(west=x, south=y, east=x, north=y)

    def attributes(self) -> dict[str, float]:
        """What an event in this region carries."""
        return {"west": self.west, "south": self.south, "east": self.east, "north": self.north}

    def touching(self) -> Filter:
        """Events whose region has a point in common with this one."""
        in_width = (attr.west <= self.east) & (attr.east >= self.west)
        return in_width & (attr.south <= self.north) & (attr.north >= self.south)
