"""Bloom rows of events and filters, as the transport uses them.

An event that is too rich for its row gets 0, which says nothing: a nearly full row would seem to be for everybody. The
`id` is in no row: every event has another one, so hardly anybody asks for it, and it would take the room of others.

Networks of topics (T-42). Where events are told apart by one attribute only, the name of a topic, records can tell of
topics instead of events: `topic_attribute` in the parameters names it. Then a row holds the tags of this attribute
alone, on both sides: one topic, one pattern of bits, so 64 bits tell as much of a topic as 256 do of ten attributes.
What else filters ask for is not seen in the record, which can only make more seem to be for us.

**Ranges of numbers, and lists of values.** A Bloom row tells whether an attribute has this value, and nothing about its
size: `price > 100` leaves no more in a row than that there is a price. In a record every event with a price would then
seem to be for whoever wants some of them, and each that did not come would seem lost. So rows can also tell about how
large numbers are.

Numbers are sorted into *steps*: each power of two is an octave, cut into `STEPS` equal parts. An event has two tags for
each number in it, its octave and its step. A filter cannot have the tags of all steps in its range, since an event has
only one of them; so a range is kept as the list of its steps, and a row may match if it has the tags of *any* of them.

    an event matches a range   =>   its step is one of the range's   =>   the row has the tags of some step of the range

Lists, such as `symbol IN ('AMD', 'IBM')`, are looked at in the same way: the row must have the tags of any of the
values. For those the row of an event needs nothing more.

Octaves that no real data reaches are one step each, for whatever is so small or so large. Looking through a list is
slower than one comparison of bits, but what a row means is remembered. False alarms grow with the number of steps in
the range: with 4 places for a tag and a row that is a quarter full, a step seems to be there by chance once in 65,000
looks, so an open range of some 300 steps sees half a percent; at half full it is two thirds, and rows should be larger.

All who use the transport on one network agree on whether rows tell ranges (`TransportParams.tells_ranges`).

Source: the transport specification, 2.4, 3.3.6.
"""

import math
from collections.abc import Iterable, Sequence

from tidings.matching.bloom import (
    FILL_MAX,
    BloomProfile,
    bits_of_tags,
    exists_tag,
    fill_of,
    tags_of_event,
    tags_of_filter,
    tags_of_value,
    value_tag,
)
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.sets.conjunction import Conjunction
from tidings.model.sets.constraint import Constraint, NumberSet
from tidings.model.values import Number, Value, number_of

OCTAVE_MIN, OCTAVE_MAX = -13, 44
"""From about a ten thousandth up to some ten million millions, on either side of 0."""

STEPS = 8
"""Parts of an octave: 4 to 8 is cut at 4.5, 5, ..."""

Step = tuple[int, int, int]
"""Sign, octave, part of it. An octave just outside the bounds holds all that is beyond."""

ZERO: Step = (0, 0, 0)

MEMBERS_MAX = 256
"""Values of a list that are looked at; a longer one lets everything pass that has the attribute."""

Masks = tuple[tuple[int, tuple[int, ...]], ...]
"""Octaves of a range, each with those of its steps that are in it: as bits that a row must have. A list is one octave
without bits, and its values are the steps."""


def step_of(number: Number) -> Step:
    if not number:
        return ZERO
    sign, size = (1, number) if number > 0 else (-1, -number)
    fraction, octave = math.frexp(size)
    if octave < OCTAVE_MIN:
        return sign, OCTAVE_MIN - 1, 0
    if octave > OCTAVE_MAX:
        return sign, OCTAVE_MAX + 1, 0
    return sign, octave, int((fraction - 0.5) * 2 * STEPS)


def bounds_of(step: Step) -> tuple[float, float]:
    """The numbers of a step; the end that is further from 0 does not belong to it."""
    sign, octave, part = step
    if not sign:
        return 0.0, 0.0
    if octave < OCTAVE_MIN:
        low, high = 0.0, math.ldexp(0.5, OCTAVE_MIN)
    elif octave > OCTAVE_MAX:
        low, high = math.ldexp(1.0, OCTAVE_MAX), math.inf
    else:
        low = math.ldexp(0.5 + part / (2 * STEPS), octave)
        high = math.ldexp(0.5 + (part + 1) / (2 * STEPS), octave)
    return (low, high) if sign > 0 else (-high, -low)


def all_steps() -> tuple[Step, ...]:
    """Octave by octave, those of one octave side by side."""
    found = [ZERO]
    for sign in (-1, 1):
        found.append((sign, OCTAVE_MIN - 1, 0))
        found += [(sign, octave, part) for octave in range(OCTAVE_MIN, OCTAVE_MAX + 1) for part in range(STEPS)]
        found.append((sign, OCTAVE_MAX + 1, 0))
    return tuple(found)


ALL_STEPS = all_steps()


def octave_tag(name: str, step: Step) -> str:
    return f"O|{name}|{step[0]} {step[1]}"


def step_tag(name: str, step: Step) -> str:
    return f"S|{name}|{step[0]} {step[1]} {step[2]}"


def range_tags(event: Event) -> list[str]:
    """What an event's row has besides."""
    tags = []
    for name, value in event.attributes.items():
        number = number_of(value)
        if number is not None:
            step = step_of(number)
            tags += [octave_tag(name, step), step_tag(name, step)]
    return tags


def range_masks(conjunction: Conjunction, profile: BloomProfile) -> tuple[Masks, ...]:
    """One for each range or list of the conjunction. What accepts a single value needs none: its tags are in the row of
    the filter."""
    found = [masks_of_constraint(constraint, profile) for constraint in conjunction if constraint.present]
    return tuple(masks for masks in found if masks)


def masks_of_constraint(constraint: Constraint, profile: BloomProfile) -> Masks:
    values: Sequence[Value] | None = constraint.members()
    if values is None and constraint.number is not None and constraint.text is None:
        values = constraint.number.points()
    if values is None:
        return () if constraint.number is None else masks_of(constraint.name, constraint.number, profile)
    if not 1 < len(values) <= MEMBERS_MAX:
        return ()
    rows = [bits_of_tags(tags_of_value(constraint.name, value), profile) for value in values]
    return ((0, tuple(dict.fromkeys(rows))),)


def masks_of(name: str, numbers: NumberSet, profile: BloomProfile) -> Masks:
    octaves: dict[tuple[int, int], list[Step]] = {}
    for step in ALL_STEPS:
        if any(is_met(step, *interval) for interval in numbers.intervals):
            octaves.setdefault(step[:2], []).append(step)
    return tuple(
        (
            bits_of_tags([octave_tag(name, steps[0])], profile),
            tuple(bits_of_tags([step_tag(name, step)], profile) for step in steps),
        )
        for steps in octaves.values()
    )


def is_met(step: Step, first: Number, last: Number) -> bool:
    """Whether some number of the step is between the two."""
    low, high = bounds_of(step)
    if not step[0]:
        return first <= 0 <= last
    return (first < high and low <= last) if step[0] > 0 else (first <= high and low < last)


def may_be_in(bits: int, masks: Masks) -> bool:
    """Whether the row has the tags of some step of the range."""
    return any(bits & octave == octave and any(bits & step == step for step in steps) for octave, steps in masks)


EXISTS_ID, VALUE_ID = exists_tag("id"), value_tag("id", "")


def rows_of_filter(filter: Filter, profile: BloomProfile, topic_attribute: str = "") -> tuple[int, ...]:
    """One row for each conjunction, none twice."""
    rows = (bits_of_tags(kept(tags, topic_attribute), profile) for tags in tags_of_filter(filter))
    return tuple(dict.fromkeys(rows))


def row_of_event(event: Event, profile: BloomProfile, topic_attribute: str = "", tells_ranges: bool = False) -> int:
    """0 where the row would be too full to say anything."""
    row = bits_of_tags(kept(tags_of_event(event), topic_attribute), profile)
    if tells_ranges:
        row |= bits_of_tags(range_tags(event), profile)
    return row if fill_of(row, profile) <= FILL_MAX else 0


def kept(tags: Iterable[str], topic_attribute: str) -> Iterable[str]:
    """All of them but those of the id or, with a topic, those of its attribute."""
    if not topic_attribute:
        return [tag for tag in tags if not (tag == EXISTS_ID or tag.startswith(VALUE_ID))]
    begin = value_tag(topic_attribute, "")
    return [tag for tag in tags if tag == exists_tag(topic_attribute) or tag.startswith(begin)]
