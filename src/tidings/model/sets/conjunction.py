"""Conjunctions: constraints on distinct attributes that must all hold.

As a set of events a conjunction is a product: one set of values per attribute, and everything (absence included) for
the attributes it does not name. So set questions are answered attribute by attribute, and exactly so when the
constraints answer exactly: a product that is not empty lies inside another one just when each factor does.
"""

from collections.abc import Iterable, Mapping

from tidings.model.sets.constraint import Constraint
from tidings.model.sets.numbers import NumberSet

Conjunction = tuple[Constraint, ...]
"""Constraints sorted by attribute name, one an attribute, none of them empty."""

PIECES_MAX = 64
"""Pieces a conjunction may fall into when others are subtracted from it; beyond it the answer is "not covered"."""


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
    complements); a conjunction that differs otherwise is passed over.
    """
    pieces = [narrow]
    for conjunction in wide:
        rest: list[Conjunction] = []
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
