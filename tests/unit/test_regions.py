"""Regions as attributes and filters."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.language.parser import parse
from tidings.model.regions import Region

GRID = 6
spans = st.tuples(st.integers(0, GRID), st.integers(0, GRID)).map(lambda span: (min(span), max(span)))
regions = st.builds(
    lambda across, along: Region(west=across[0], east=across[1], south=along[0], north=along[1]), spans, spans
)


def points(region: Region) -> set[tuple[int, int]]:
    across = range(int(region.west), int(region.east) + 1)
    return {(x, y) for x in across for y in range(int(region.south), int(region.north) + 1)}


@pytest.mark.spec("D-22")
@given(regions, regions)
def test_an_event_is_wanted_exactly_where_the_regions_have_a_point_in_common(mine: Region, theirs: Region) -> None:
    event = Event({"type": "quake", **theirs.attributes()})
    assert mine.touching().matches(event) == bool(points(mine) & points(theirs))


@pytest.mark.spec("D-22")
def test_a_region_narrows_any_other_filter() -> None:
    berlin = Region(west=13.1, south=52.3, east=13.8, north=52.7)
    wanted = parse("type = 'quake'") & berlin.touching()
    assert wanted.matches(Event({"type": "quake", **Region.point(13.4, 52.5).attributes()}))
    assert not wanted.matches(Event({"type": "flood", **Region.point(13.4, 52.5).attributes()}))
    assert not wanted.matches(Event({"type": "quake", **Region.point(2.3, 48.9).attributes()}))
    assert not wanted.matches(Event({"type": "quake"}))
    assert parse(wanted.text()) == wanted


@given(regions, regions)
def test_a_region_inside_another_is_covered_by_it(inner: Region, outer: Region) -> None:
    if points(inner) <= points(outer):
        assert outer.touching().covers(inner.touching())


@pytest.mark.parametrize(
    ("west", "south", "east", "north", "name"),
    [(2, 0, 1, 1, "west"), (0, 2, 1, 1, "south"), (0, 0, math.inf, 1, "east"), (0, 0, 1, math.nan, "north")],
)
def test_what_is_no_region_is_refused(west: float, south: float, east: float, north: float, name: str) -> None:
    with pytest.raises(UsageError, match=f"^{name}:"):
        Region(west=west, south=south, east=east, north=north)
