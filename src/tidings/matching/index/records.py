"""A filter broken into records: conjunctions of intervals and atoms, all that an engine ever sees of it.

Each conjunction of the filter becomes one record or a few: an interval per attribute read as a number, the atoms that
must be satisfied, and those that must not (as ~atom). The filter matches when one of its records does.

    price > 100 AND symbol = 'IBM'        price in [100.00000000000001, inf], atom symbol is IBM
    size != 5                             size in [-inf, inf], not atom size is 5
    size < 3 OR size > 9                  two records

**Exactness.** Engines compare doubles. A bound that is a 64-bit integer with no exact double is widened to the next
double outside, and the filter is *doubtful*: an engine that finds it says so, and the index asks the filter itself.
The same is done for whatever a record cannot say: a residual expression, a number set of very many pieces, a
dimension too many.
"""

import math
from itertools import chain, product

from tidings.matching.index.vocabulary import AttributeTable, Vocabulary
from tidings.model.filter import Filter
from tidings.model.sets.constraint import Constraint, Interval, NumberSet
from tidings.model.sets.texts import TextSet
from tidings.model.values import Number, next_number, previous_number

RECORDS_MAX = 64
"""Records made of one filter; beyond it, number sets are taken by their hull and the filter is doubtful."""

POINTS_REFUSED_MAX = 16
"""Single numbers cut out of an interval that are refused as atoms; a set with more holes is taken in pieces."""

LIST_RECORDS_MAX = 64
"""Records made of short lists of strings, one for each way to pick a word of each. A longer list is one atom: cheap to
store, but each of its words then brings one more atom into every event that has it."""

EXACT_INTEGER_MAX = 2**53
"""Integers up to here are doubles."""

Record = tuple[tuple[int, ...], tuple[float, ...], tuple[int, ...]]
"""Dimensions; low and high of each, one after the other; atoms, with ~atom for one that must not be satisfied."""


class Breaker:
    """Breaks filters for one vocabulary. Every atom named in a record holds a reference until it is released."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.doubtful = False

    def break_filter(self, filter: Filter) -> tuple[list[Record], bool]:
        """The records, and whether a match of them is doubtful."""
        self.doubtful = filter.residual is not None
        records: list[Record] = []
        for conjunction in filter.conjunctions:
            record = self.plain_record(conjunction)
            if record is not None:
                records.append(record)
            else:
                room = RECORDS_MAX - len(records)
                records += self.several_records(conjunction, room)
        return records, self.doubtful

    def plain_record(self, conjunction: tuple[Constraint, ...]) -> Record | None:
        """The record of the usual conjunction: one interval or one list of strings per attribute. None if it is not."""
        dimensions: list[int] = []
        bounds: list[float] = []
        lists: list[tuple[AttributeTable, tuple[str, ...]]] = []
        known = self.vocabulary.attributes.get
        for constraint in conjunction:
            number, text = constraint.number, constraint.text
            attribute = known(constraint.name)
            if attribute is None or constraint.truth is not None:
                return None
            if text is None:
                if number is None or len(number.intervals) != 1 or attribute.dimension < 0:
                    return None
                low, high = number.intervals[0]
                if type(low) is int and not -EXACT_INTEGER_MAX <= low <= EXACT_INTEGER_MAX:
                    return None
                if low == high or (type(high) is int and not -EXACT_INTEGER_MAX <= high <= EXACT_INTEGER_MAX):
                    return None
                dimensions.append(attribute.dimension)
                bounds += (low, high)
            elif number is None and text.include and not is_short_list(text.include):
                lists.append((attribute, text.include))
            else:
                return None
        atoms = [self.vocabulary.texts_atom(attribute, texts) for attribute, texts in lists]
        return tuple(dimensions), tuple(bounds), tuple(atoms)

    def several_records(self, conjunction: tuple[Constraint, ...], room: int) -> list[Record]:
        if any(is_impossible(constraint) for constraint in conjunction):
            return []
        pieces_of: list[list[tuple[int, float, float]]] = []
        words_of: list[list[int]] = []
        atoms: list[int] = []
        for constraint in conjunction:
            attribute = self.vocabulary.attribute(constraint.name)
            words = words_alone(constraint, LIST_RECORDS_MAX // math.prod(map(len, words_of)))
            if words:
                words_of.append([self.vocabulary.texts_atom(attribute, (word,)) for word in words])
                room //= len(words)
                continue
            self.add_atoms(attribute, constraint, atoms)
            if constraint.number is not None:
                pieces = self.pieces(attribute, constraint.number, room, atoms)
                if pieces:
                    pieces_of.append(pieces)
                    room //= len(pieces)
        records = []
        for combination in product(*pieces_of):
            dimensions = tuple(dimension for dimension, _, _ in combination)
            bounds = tuple(bound for _, low, high in combination for bound in (low, high))
            records += [(dimensions, bounds, (*picked, *atoms)) for picked in product(*words_of)]
        self.hold_references(records, [*atoms, *chain.from_iterable(words_of)])
        return records

    def hold_references(self, records: list[Record], held: list[int]) -> None:
        """One reference for each time a record names an atom; those in `held` have been counted once."""
        references = self.vocabulary.references
        for atom in chain(*(record[2] for record in records)):
            references[atom if atom >= 0 else ~atom] += 1
        for atom in held:
            references[atom if atom >= 0 else ~atom] -= 1

    def add_atoms(self, attribute: AttributeTable, constraint: Constraint, atoms: list[int]) -> None:
        """Everything but the number condition."""
        vocabulary = self.vocabulary
        if not constraint.present:
            atoms.append(~vocabulary.atom(attribute, "exists"))
            return
        before = len(atoms)
        if constraint.text is not None:
            self.add_text_atoms(attribute, constraint.text, atoms)
        if constraint.truth is not None:
            atoms.append(vocabulary.atom(attribute, "truth", constraint.truth))
        if constraint.number is None and all(atom < 0 for atom in atoms[before:]):
            atoms.append(vocabulary.atom(attribute, "exists"))

    def add_text_atoms(self, attribute: AttributeTable, text: TextSet, atoms: list[int]) -> None:
        vocabulary = self.vocabulary
        if text.include is not None:
            atoms.append(vocabulary.texts_atom(attribute, text.include))
        if text.low or text.high is not None:
            atoms.append(vocabulary.atom(attribute, "range", (text.low, text.high)))
        atoms += [vocabulary.atom(attribute, "like", pattern) for pattern in text.likes]
        atoms += [~vocabulary.atom(attribute, "like", pattern) for pattern in text.unlikes]
        if text.exclude:
            atoms.append(~vocabulary.texts_atom(attribute, text.exclude))

    def pieces(
        self, attribute: AttributeTable, numbers: NumberSet, room: int, atoms: list[int]
    ) -> list[tuple[int, float, float]]:
        """The set as intervals of one dimension, any of which will do; empty if atoms say it all."""
        points = numbers.points()
        if points is not None:
            atoms.append(self.vocabulary.atom(attribute, "numbers", points))
            return []
        dimension = self.vocabulary.dimension_of(attribute)
        if dimension < 0:
            self.doubtful = True
            atoms.append(self.vocabulary.atom(attribute, "exists"))
            return []
        intervals, holes = without_holes(numbers.intervals)
        if len(holes) > POINTS_REFUSED_MAX:
            intervals, holes = list(numbers.intervals), []
        if holes:
            atoms.append(~self.vocabulary.atom(attribute, "numbers", tuple(holes)))
        if len(intervals) > max(room, 1):
            self.doubtful = True
            intervals = list(numbers.hull().intervals)
        return [(dimension, self.at_or_below(low), self.at_or_above(high)) for low, high in intervals]

    def at_or_below(self, number: Number) -> float:
        nearest = float(number)
        if nearest == number:
            return nearest
        self.doubtful = True
        return nearest if nearest < number else math.nextafter(nearest, -math.inf)

    def at_or_above(self, number: Number) -> float:
        nearest = float(number)
        if nearest == number:
            return nearest
        self.doubtful = True
        return nearest if nearest > number else math.nextafter(nearest, math.inf)


def is_short_list(texts: tuple[str, ...]) -> bool:
    return 1 < len(texts) <= LIST_RECORDS_MAX


def words_alone(constraint: Constraint, words_max: int) -> tuple[str, ...]:
    """The words of a constraint that is a list of at most so many strings and nothing else."""
    text = constraint.text
    if text is None or text.include is None or constraint.number is not None or constraint.truth is not None:
        return ()
    return text.include if len(text.include) <= words_max else ()


def is_impossible(constraint: Constraint) -> bool:
    return (constraint.number is not None and constraint.number.is_empty()) or (
        constraint.text is not None and constraint.text.include == ()
    )


def without_holes(intervals: tuple[Interval, ...]) -> tuple[list[Interval], list[Number]]:
    """The intervals joined across gaps of a single number, and those numbers."""
    joined: list[Interval] = [intervals[0]]
    holes: list[Number] = []
    for low, high in intervals[1:]:
        hole = next_number(joined[-1][1])
        if hole == previous_number(low):
            holes.append(hole)
            joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    return joined, holes
