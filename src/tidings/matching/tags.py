"""Tags: what an event has and a filter asks for, in words that can be compared without reading either.

An event gets a tag for each attribute it has and one for each way the value can be read (`values.py`):

    depth = '05'       E|depth   V|depth|05   V|depth|5
    felt = TRUE        E|felt    V|felt|true  V|felt|1

A conjunction gets the tags that *every* event it accepts must have. So

    conjunction matches event          =>  its tags are among the event's tags
    conjunction A covers conjunction B  =>  A's tags are among B's tags       (B accepts something)

Neither holds backwards: ranges and patterns leave no tag but `E`, so tags sort out only a part of what does not match.
Both laws follow from one rule, that a constraint's tags are those common to all values it accepts. Where these values
are few they are tried one by one (a truth, a list of texts); a number condition with a single number has that number in
common; all other conditions leave values that have nothing in common. The rule is followed to the letter except
where one constraint mixes a number range with a text pattern that lets a single value through, such as `x < 10 AND
x LIKE '5_'`: there the second law may fail, never the first.

Attributes `tidings_bit_N` are flags that are there or not, and an event that asks for a lost one has dozens of them
(`protocols/transport/recovery/requests.py`). With tags like all others they would fill its Bloom row, and it would seem
to match everything. They get one tag, `B`, whatever their value, which `bloom.py` writes as a single bit. Both laws
hold: what a constraint accepts has the attribute.

Source: the transport specification, section 2.4 (tag scheme), widened by the readings of a value; G-15 for flags.
"""

from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.sets.conjunction import Conjunction
from tidings.model.sets.constraint import Constraint
from tidings.model.values import Value, number_of, text_of, truth_of

Tags = tuple[str, ...]
"""Distinct tags in a fixed order: attributes as they come, `E` before `V`."""

FLAG_NAME = "tidings_bit_"
"""How the names of flags begin."""

FLAG_TAG = "B|"


def tags_of_event(event: Event) -> Tags:
    return tuple(tag for name, value in event.attributes.items() for tag in tags_of_attribute(name, value))


def tags_of_attribute(name: str, value: Value) -> Tags:
    return (flag_tag(name),) if name.startswith(FLAG_NAME) else (exists_tag(name), *tags_of_value(name, value))


def tags_of_filter(filter: Filter) -> tuple[Tags, ...]:
    """One set of tags a conjunction; an event may match when it has all the tags of any of them."""
    return tuple(tags_of_conjunction(conjunction) for conjunction in filter.conjunctions)


def tags_of_conjunction(conjunction: Conjunction) -> Tags:
    return tuple(tag for constraint in conjunction for tag in tags_of_constraint(constraint))


def tags_of_constraint(constraint: Constraint) -> Tags:
    if not constraint.present:
        return ()
    if constraint.name.startswith(FLAG_NAME):
        return (flag_tag(constraint.name),)
    return exists_tag(constraint.name), *common_tags(constraint)


def common_tags(constraint: Constraint) -> Tags:
    """The value tags of every value the constraint accepts; none if it accepts nothing."""
    members = constraint.members()
    if members is None:
        points = None if constraint.number is None else constraint.number.points()
        return (value_tag(constraint.name, points[0]),) if points is not None and len(points) == 1 else ()
    if not members:
        return ()
    common = list(tags_of_value(constraint.name, members[0]))
    for member in members[1:]:
        tags = tags_of_value(constraint.name, member)
        common = [tag for tag in common if tag in tags]
        if not common:
            break
    return tuple(common)


def tags_of_value(name: str, value: Value) -> Tags:
    """The value by each of its readings: its text first, then number and truth where they are spelled otherwise."""
    readings = (value, number_of(value), truth_of(value))
    return tuple(dict.fromkeys(value_tag(name, reading) for reading in readings if reading is not None))


def exists_tag(name: str) -> str:
    return f"E|{name}"


def flag_tag(name: str) -> str:
    return f"{FLAG_TAG}{name}"


def value_tag(name: str, reading: Value) -> str:
    """A name holds no bar, so the tag says without doubt where the name ends."""
    return f"V|{name}|{text_of(reading)}"
