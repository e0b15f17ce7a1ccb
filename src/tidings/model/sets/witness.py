"""Finding an event that lies inside one filter and outside another.

A wrong or missing "covers" is easiest to believe by an example. Each attribute gets a few telling values: one that the
inner constraint accepts, and for every outer constraint on the attribute one that the inner accepts and the outer does
not, with the ends of number intervals, other spellings of a number, the two truths, and absence where nothing forbids
it. Combinations are tried in turn, up to a bound, and the caller's test has the last word; so an answer is always
right, and only a missing answer may be a search that gave up.
"""

from collections.abc import Callable, Iterator
from itertools import islice, product
from math import isfinite

from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.sets.conjunction import Conjunction, constraint_on
from tidings.model.sets.constraint import Constraint, values_spelled
from tidings.model.sets.numbers import EVERY_NUMBER, NumberSet
from tidings.model.sets.patterns import filled, parts_of
from tidings.model.sets.texts import EVERY_TEXT, like
from tidings.model.values import Number, Value, next_number, previous_number, text_of

COMBINATIONS_MAX = 4096
"""Events tried for one inner conjunction."""

EXAMPLES_MAX = 40
"""Members of a finite set, or intervals of a number set, that are looked at."""


def find_witness(
    inside: tuple[Conjunction, ...], outside: tuple[Conjunction, ...], is_witness: Callable[[Event], bool]
) -> Event | None:
    for conjunction in inside:
        names = sorted({constraint.name for each in (conjunction, *outside) for constraint in each})
        choices = [telling_values(name, conjunction, outside) for name in names]
        for values in islice(product(*choices), COMBINATIONS_MAX):
            try:
                event = Event({name: value for name, value in zip(names, values, strict=True) if value is not None})
            except UsageError:  # a context attribute, such as `time`, may not have every value
                continue
            if is_witness(event):
                return event
    return None


def telling_values(name: str, inside: Conjunction, outside: tuple[Conjunction, ...]) -> list[Value | None]:
    """Values the inner conjunction accepts for `name` (None: absent), such that the outer ones tell them apart."""
    inner = constraint_on(inside, name)
    outer = [constraint for each in outside if (constraint := constraint_on(each, name)) is not None]
    candidates: list[Value | None] = [None, *member_examples(inner or Constraint(name))]
    for constraint in outer:
        candidates.extend(difference_examples(inner or Constraint(name), constraint))
    accepted = [value for value in candidates if inner is None or inner.accepts(value)]
    verdicts: dict[tuple[bool, ...], Value | None] = {}
    for value in accepted:
        verdicts.setdefault(tuple(constraint.accepts(value) for constraint in outer), value)
    return sorted(verdicts.values(), key=lambda value: sum(constraint.accepts(value) for constraint in outer))


def member_examples(constraint: Constraint) -> Iterator[Value]:
    yield from (constraint.members() or ())[:EXAMPLES_MAX]
    if constraint.number is not None:
        for number in near_ends(constraint.number):
            yield from spellings(number)
    if constraint.text is not None:
        for likely in (EVERY_TEXT, like("%x%"), like("%a%")):  # the last two read as no number
            if (text := (constraint.text & likely).example()) is not None:
                yield text
    yield from (1, True, False, "x")


def difference_examples(inner: Constraint, outer: Constraint) -> Iterator[Value]:
    numbers = inner.number or EVERY_NUMBER
    for number in near_ends(numbers & (outer.number or EVERY_NUMBER).complement()):
        yield from spellings(number)
    if outer.text is not None:
        if (text := (inner.text or EVERY_TEXT).example_outside(outer.text)) is not None:
            yield from values_spelled(text)
        for number, pattern in product(near_ends(numbers), outer.text.unlikes):
            for run in (text_of(number), f"{text_of(number)}."):
                yield filled(parts_of(pattern), "0", run)
    yield from member_examples(outer)


def near_ends(numbers: NumberSet) -> Iterator[Number]:
    for interval in numbers.intervals[:EXAMPLES_MAX]:
        yield NumberSet((interval,)).example()
        for end in interval:
            yield from (near for near in (end, next_number(end), previous_number(end)) if isfinite(near))


def spellings(number: Number) -> Iterator[Value]:
    """The number itself and strings that read as it."""
    yield number
    yield text_of(number)
    yield f"+{text_of(number)}" if number >= 0 else f"-0{text_of(number)[1:]}"
    yield f"{number:.16e}"
    if number in (0, 1):
        yield bool(number)
