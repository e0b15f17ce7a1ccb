"""Conjunctions: constraints on distinct attributes that must all hold.

As a set of events a conjunction is a product: one set of values per attribute, and everything (absence included) for
the attributes it does not name. So set questions are answered attribute by attribute, and exactly so when the
constraints answer exactly: a product that is not empty lies inside another one just when each factor does.

`witness` finds an event that lies inside one filter and outside another. A wrong or missing "covers" is easiest to
believe by an example. Each attribute gets a few telling values: one that the inner constraint accepts, and for every
outer constraint on the attribute one that the inner accepts and the outer does not, with the ends of number intervals,
other spellings of a number, the two truths, and absence where nothing forbids it. Combinations are tried in turn, up to
a bound, and the caller's test has the last word; so an answer is always right, and only a missing answer may be a
search that gave up.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, product
from math import isfinite

from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.sets.constraint import EVERY_NUMBER, Constraint, NumberSet, values_spelled
from tidings.model.sets.patterns import filled, parts_of
from tidings.model.sets.texts import EVERY_TEXT, like
from tidings.model.values import Number, Value, next_number, previous_number, text_of
from tidings.model.work import WORK

Conjunction = tuple[Constraint, ...]
"""Constraints sorted by attribute name, one an attribute, none of them empty."""

PIECES_MAX = 64
"""Pieces a conjunction may fall into when others are subtracted from it; beyond it the answer is "not covered"."""

SUBTRACT_UNITS = 120
"""The work of taking one conjunction away from another."""


def intersection(left: Conjunction, right: Conjunction) -> Conjunction | None:
    """What both accept; None if that is provably nothing."""
    constraints = {constraint.name: constraint for constraint in left}
    for constraint in right:
        mine = constraints.get(constraint.name)
        both = constraint if mine is None else mine & constraint
        if both is None:
            return None
        constraints[constraint.name] = both
    return ordered(constraints)


def do_overlap(left: Conjunction, right: Conjunction) -> bool:
    """False only if no event is accepted by both: as `intersection`, which is not made."""
    constraints = {constraint.name: constraint for constraint in left}
    for constraint in right:
        mine = constraints.get(constraint.name)
        if mine is not None and not mine.overlaps(constraint):
            return False
    return True


def ordered(constraints: Mapping[str, Constraint]) -> Conjunction:
    return tuple(constraints[name] for name in sorted(constraints))


def covers_conjunction(wide: Conjunction, narrow: Conjunction) -> bool:
    """True only if every event `narrow` accepts is accepted by `wide`."""
    return all(is_implied(constraint, narrow) for constraint in wide)


def is_implied(constraint: Constraint, conjunction: Conjunction) -> bool:
    given = constraint_on(conjunction, constraint.name)
    return given is not None and constraint.covers(given)


def constraint_on(conjunction: Conjunction, name: str) -> Constraint | None:
    return next((constraint for constraint in conjunction if constraint.name == name), None)


def covered_by_union(narrow: Conjunction, wide: tuple[Conjunction, ...]) -> bool:
    """True only if every event `narrow` accepts is accepted by some conjunction of `wide`.

    Subtracts the conjunctions one after another. What is left of a product after taking another product away is a few
    products again, as long as the attributes in which they differ are constrained by number only (numbers have
    complements); a conjunction that differs otherwise is passed over. Where that takes too long (`model/work.py`) the
    answer is no.
    """
    pieces = [narrow]
    for conjunction in wide:
        rest: list[Conjunction] = []
        if len(wide) > 1 and WORK.is_over():
            break
        WORK.units += SUBTRACT_UNITS * len(pieces)
        for piece in pieces:
            left = subtract(piece, conjunction)
            rest.extend([piece] if left is None else left)
        pieces = rest
        if not pieces or len(pieces) > PIECES_MAX:
            break
    return not pieces


def subtract(piece: Conjunction, conjunction: Conjunction) -> list[Conjunction] | None:
    """The products that make up `piece` without `conjunction`; None if that cannot be said in products."""
    remaining: list[Conjunction] = []
    for constraint in conjunction:
        if is_implied(constraint, piece):
            continue
        given = constraint_on(piece, constraint.name)
        if given is None or not by_number_only(constraint) or given.number is None:
            return None
        assert constraint.number is not None
        outside = replace_number(given, constraint.number.complement())
        inside = replace_number(given, constraint.number)
        if outside is not None:
            remaining.append(with_constraint(piece, outside))
        if inside is None:
            break
        piece = with_constraint(piece, inside)
    return remaining


def by_number_only(constraint: Constraint) -> bool:
    return constraint.number is not None and constraint.text is None and constraint.truth is None


def replace_number(constraint: Constraint, number: NumberSet) -> Constraint | None:
    return constraint & Constraint(constraint.name, number=number)


def with_constraint(conjunction: Conjunction, constraint: Constraint) -> Conjunction:
    return tuple(constraint if old.name == constraint.name else old for old in conjunction)


def exact_union(left: Conjunction, right: Conjunction) -> Conjunction | None:
    """The conjunction that accepts exactly what either does (a perfect merge), where there is one."""
    if covers_conjunction(left, right):
        return left
    if covers_conjunction(right, left):
        return right
    mine = {constraint.name: constraint for constraint in left}
    theirs = {constraint.name: constraint for constraint in right}
    if mine.keys() != theirs.keys():
        return None
    differing = [name for name in mine if mine[name] != theirs[name]]
    if len(differing) != 1:
        return None
    name = differing[0]
    if is_either_way(mine[name], theirs[name]):
        del mine[name]
        return ordered(mine)
    joined = mine[name].union(theirs[name])
    return None if joined is None else ordered(mine | {name: joined})


def is_either_way(left: Constraint, right: Constraint) -> bool:
    """EXISTS x on one side and NOT EXISTS x on the other: together no constraint at all."""
    return left.present != right.present and {left, right} == {
        Constraint(left.name),
        Constraint(left.name, present=False),
    }


def hull(left: Conjunction, right: Conjunction) -> Conjunction:
    """A conjunction that covers both: what both constrain, widened."""
    theirs = {constraint.name: constraint for constraint in right}
    joined = {}
    for constraint in left:
        other = theirs.get(constraint.name)
        wide = None if other is None else constraint.hull(other)
        if wide is not None:
            joined[constraint.name] = wide
    return ordered(joined)


def unite(parts: Iterable[Conjunction]) -> list[Conjunction]:
    """The same events in fewer conjunctions: pairs that merge perfectly are merged until none is left."""
    united: list[Conjunction] = []
    for part in parts:
        while (pair := first_union(united, part)) is not None:
            other, part = pair
            united.remove(other)
        united.append(part)
    return united


def first_union(parts: list[Conjunction], part: Conjunction) -> tuple[Conjunction, Conjunction] | None:
    """The first of `parts` that merges perfectly with `part`, and the merged conjunction."""
    for other in parts:
        joined = exact_union(other, part)
        if joined is not None:
            return other, joined
    return None


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
