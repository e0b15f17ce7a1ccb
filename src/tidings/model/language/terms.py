"""Disjunctions of conjunctions while they are being worked out, at a bounded cost.

A *term* is a conjunction (constraints by attribute name) with a note whether it says exactly what it stands for, or
more. AND multiplies terms and OR adds them up, so a short text can ask for a very long normal form
(`(a OR b) AND (c OR d) AND ...`). Every step is therefore paid for out of `Work`, and where it runs out, or the terms
become too many, several terms are joined into one that covers them all and is no longer exact. What comes out always
accepts every event that the expression accepts.

Two things that the set algebra of `sets/constraint.py` does are left out here because they search: whether
contradicting patterns leave any text at all, and exact unions of patterns.
"""

from collections.abc import Callable, Iterable
from itertools import chain
from typing import TypeAlias, TypeVar

from tidings.model.bounds import CONSTRAINTS_MAX
from tidings.model.sets.constraint import Constraint, NumberSet, may_spell_number, number_set
from tidings.model.sets.text_conditions import PAIRWISE_MAX
from tidings.model.sets.text_unions import common_hull
from tidings.model.sets.texts import TextSet, intersection, one_of, text_set

Term: TypeAlias = tuple[dict[str, Constraint], bool]
"""Constraints by attribute name, and whether the term is exact."""

TRUE: Term = ({}, True)
ANYTHING: Term = ({}, False)
""""Always", and "perhaps always, perhaps never": the widest approximation."""

STEPS_MAX, JOIN_STEPS_MAX = 1300, 400
"""What working out one normal form may cost; a step is combining two number constraints, some 2 microseconds.
Joining terms into wider ones has its own share, for it is needed most when the other is used up."""

TEXT_STEPS, HULL_STEPS, TRUTH_STEPS = 16, 24, 16
"""Putting a set of texts into canonical form; finding one that covers two others; trying all spellings of a truth."""

TERMS_MAX = 128
"""Terms at any time on the way to a normal form."""


class Work:
    """The steps that are left. Once one cannot be paid, no later one can: what follows is rough and quick."""

    def __init__(self) -> None:
        self.steps_left, self.join_steps_left = STEPS_MAX, JOIN_STEPS_MAX

    def can_pay(self, steps: int) -> bool:
        self.steps_left = max(0, self.steps_left - steps)
        return self.steps_left > 0

    def can_pay_join(self, steps: int) -> bool:
        self.join_steps_left = max(0, self.join_steps_left - steps)
        return self.join_steps_left > 0


def both(operands: list[list[Term]], work: Work) -> list[Term]:
    """AND: every way to pick one term of each operand."""
    if not all(operands):
        return []
    single = [terms[0] for terms in operands if len(terms) == 1]
    product = [] if (start := met(single, work)) is None else [start]
    for terms in sorted((terms for terms in operands if len(terms) > 1), key=len):
        if not work.can_pay(pairing_steps(product, terms)):
            terms, product = joined(terms, work), joined(product, work)
        if len(product) * len(terms) > TERMS_MAX:
            terms = joined(terms, work)
        pairs = (met([one, other], work) for one in product for other in terms)
        product = distinct([term for term in pairs if term is not None])
    return product


def met(terms: list[Term], work: Work) -> Term | None:
    """The term that all of these together make; None if they contradict each other."""
    largest = max(terms, key=lambda term: len(term[0]), default=TRUE)
    result, exact = dict(largest[0]), largest[1]
    shared: dict[str, list[Constraint]] = {}
    for term in terms:
        if term is largest:
            continue
        exact = exact and term[1]
        for name, constraint in term[0].items():
            if name not in result:
                result[name] = constraint
            elif name in shared:
                shared[name].append(constraint)
            elif constraint != result[name]:
                shared[name] = [result[name], constraint]
    for name, constraints in shared.items():
        if not work.can_pay(meeting_steps(constraints)):
            exact = False
            continue
        meeting = intersected(constraints)
        if meeting is None:
            return None
        result[name] = meeting
    return result, exact


def intersected(constraints: list[Constraint]) -> Constraint | None:
    """The values that all accept; None if there are evidently none."""
    first = constraints[0]
    truths = [constraint.truth for constraint in constraints if constraint.truth is not None]
    if any(constraint.present != first.present for constraint in constraints) or len(set(truths)) > 1:
        return None
    numbers = [constraint.number for constraint in constraints if constraint.number is not None]
    texts = [constraint.text for constraint in constraints if constraint.text is not None]
    meeting = Constraint(
        first.name,
        first.present,
        number=balanced(NumberSet.__and__, numbers) if numbers else None,
        text=(intersection(texts) if len(texts) > 1 else texts[0]) if texts else None,
        truth=truths[0] if truths else None,
    )
    return None if is_evidently_empty(meeting) else meeting


def is_evidently_empty(constraint: Constraint) -> bool:
    number, text = constraint.number, constraint.text
    if number is not None and number.is_empty():
        return True
    if text is not None and text.include is None and constraint.truth is None:
        if number is None or may_spell_number(text):
            return False
        return not constraint.accepts(True) and not constraint.accepts(False)
    return (number is not None or text is not None) and constraint.is_empty()


def either(operands: list[list[Term]], work: Work) -> list[Term]:
    """OR: the terms of all operands; conditions on one attribute alone become one condition where they can."""
    terms = distinct(chain.from_iterable(operands))
    is_paid = work.can_pay(sum(size(constraints) + 1 for constraints, _ in terms))
    if is_paid:
        terms = united(terms)
    return terms if is_paid and len(terms) <= TERMS_MAX else joined(terms, work)


def united(terms: list[Term]) -> list[Term]:
    """`x = 1 OR x = 2` as one constraint, and likewise lists of texts: their unions are exact."""
    groups: dict[tuple[str, str], list[Constraint]] = {}
    others: list[Term] = []
    for term in terms:
        constraints, exact = term
        if exact and not constraints:
            return [term]
        kind = listing_kind(constraints) if exact and len(constraints) == 1 else None
        if kind is None:
            others.append(term)
        else:
            (constraint,) = constraints.values()
            groups.setdefault((constraint.name, kind), []).append(constraint)
    return others + [({name: union_of(group)}, True) for (name, _), group in groups.items()]


def listing_kind(constraints: dict[str, Constraint]) -> str | None:
    (constraint,) = constraints.values()
    if constraint.truth is None and constraint.text is None and constraint.number is not None:
        return "number"
    if constraint.truth is None and constraint.number is None and constraint.text is not None:
        return "text" if constraint.text.include is not None else None
    return None


def union_of(group: list[Constraint]) -> Constraint:
    """The union of constraints that are all number sets, or all lists of texts."""
    first = group[0]
    if len(group) == 1:
        return first
    if first.number is not None:
        return Constraint(first.name, number=number_set(chain.from_iterable(intervals_of(each) for each in group)))
    return Constraint(first.name, text=one_of(chain.from_iterable(texts_of(each) for each in group)))


def intervals_of(constraint: Constraint) -> tuple[tuple[float, float], ...]:
    return () if constraint.number is None else constraint.number.intervals


def texts_of(constraint: Constraint) -> tuple[str, ...]:
    return () if constraint.text is None else constraint.text.include or ()


def distinct(terms: Iterable[Term]) -> list[Term]:
    """Each term once, in the order given; an exact one stands for those like it."""
    terms = list(terms)
    if len(terms) < 2:
        return terms
    seen: dict[frozenset[Constraint], Term] = {}
    for term in terms:
        key = frozenset(term[0].values())
        if key not in seen or term[1]:
            seen[key] = term
    return list(seen.values())


def joined(terms: list[Term], work: Work) -> list[Term]:
    """At most one term, which covers all of these: what they all constrain, widened."""
    if len(terms) < 2:
        return terms
    return [balanced(lambda one, other: (hull(one[0], other[0], work), False), terms)]


def hull(one: dict[str, Constraint], other: dict[str, Constraint], work: Work) -> dict[str, Constraint]:
    result: dict[str, Constraint] = {}
    if not work.can_pay_join(size(one)):
        return result
    for name, mine in one.items():
        theirs = other.get(name)
        if theirs is not None and theirs.present == mine.present:
            result[name] = mine if mine == theirs else constraint_hull(mine, theirs, work)
    return result


def constraint_hull(one: Constraint, other: Constraint, work: Work) -> Constraint:
    return Constraint(
        one.name,
        one.present,
        number=None if one.number is None or other.number is None else one.number | other.number,
        text=None if one.text is None or other.text is None else text_hull(one.text, other.text, work),
        truth=one.truth if one.truth is other.truth else None,
    )


def text_hull(one: TextSet, other: TextSet, work: Work) -> TextSet | None:
    if one == other:
        return one
    if one.include is not None and other.include is not None:
        return one_of(one.include + other.include)
    size = text_patterns(one) + text_patterns(other) + len(one.include or ()) + len(other.include or ())
    if not work.can_pay_join(HULL_STEPS + size * (3 * size + (pattern_chars(one) + pattern_chars(other)) // 16)):
        return None
    found = text_set(common_hull(one.form(), other.form()))
    return None if found.is_everything() else found


def fitted(terms: list[Term], work: Work) -> list[Term]:
    """The terms themselves if they keep the bound on constraints, else fewer and wider ones that do."""
    if sum(map(weight, terms)) <= CONSTRAINTS_MAX:
        return terms
    if len(terms) > 1:
        groups: dict[tuple[str, ...], list[Term]] = {}
        for term in terms:
            groups.setdefault(tuple(sorted(term[0])), []).append(term)
        terms = [term for group in groups.values() for term in joined(group, work)]
    if sum(map(weight, terms)) > CONSTRAINTS_MAX:
        terms = [lightened(term) for term in joined(terms, work)]
    return terms


def lightened(term: Term) -> Term:
    """A term with the first constraints by name that fit into the bound."""
    kept: dict[str, Constraint] = {}
    room = CONSTRAINTS_MAX
    for name in sorted(term[0]):
        room -= constraint_weight(term[0][name])
        if room < 0:
            return kept, False
        kept[name] = term[0][name]
    return term


def weight(term: Term) -> int:
    return sum(map(constraint_weight, term[0].values()))


def constraint_weight(constraint: Constraint) -> int:
    """One, but as many as it has patterns."""
    return 1 if constraint.text is None else max(1, text_patterns(constraint.text))


def size(constraints: dict[str, Constraint]) -> int:
    """Its constraints, where a set of many numbers counts for its intervals."""
    return sum(1 if each.number is None else len(each.number.intervals) for each in constraints.values())


def pairing_steps(one: list[Term], other: list[Term]) -> int:
    """What it costs to put each of these terms together with each of those, apart from the constraints they share."""
    sizes = [sum(len(constraints) + 1 for constraints, _ in terms) for terms in (one, other)]
    return (sizes[0] * len(other) + sizes[1] * len(one)) // 2


def meeting_steps(constraints: list[Constraint]) -> int:
    """What `intersected` costs: number sets are merged, the canonical form of texts compares patterns pairwise."""
    steps, texts = len(constraints), []
    for constraint in constraints:
        if constraint.number is not None:
            steps += len(constraint.number.intervals)
        if constraint.truth is not None:
            steps += TRUTH_STEPS
        if constraint.text is not None:
            texts.append(constraint.text)
    if len(texts) < 2 or any(text.include is not None for text in texts):
        return steps
    patterns = sum(map(text_patterns, texts))
    return steps + TEXT_STEPS + (2 * patterns + sum(map(pattern_chars, texts)) // 16) * min(patterns, PAIRWISE_MAX)


def text_patterns(texts: TextSet) -> int:
    return len(texts.likes) + len(texts.unlikes)


def pattern_chars(texts: TextSet) -> int:
    return sum(map(len, texts.likes)) + sum(map(len, texts.unlikes))


Item = TypeVar("Item")


def balanced(combine: Callable[[Item, Item], Item], items: list[Item]) -> Item:
    """All items combined, in pairs and then pairs of pairs: sets that grow with each step grow only log(n) times."""
    while len(items) > 1:
        paired = [combine(one, other) for one, other in zip(items[::2], items[1::2], strict=False)]
        items = paired + items[len(items) - len(items) % 2 :]
    return items[0]
