"""A filter: which events a subscriber wants.

The normal form is a disjunction of conjunctions: an event matches when, in at least one conjunction, every constraint
accepts the event's value for its attribute. No conjunction at all matches nothing; a conjunction without constraints
matches everything.

Some expressions have no such form (`LENGTH(name) > 3`, `hop < ttl`, or one whose normal form would be too large).
They are kept whole in `residual` and evaluated exactly; `conjunctions` then holds a normal form that is at least as
wide, by which routing and the index find candidates. An event matches when both agree.

Filters compare as values: equal normal forms, equal filters. `covers` and `overlaps` err on the safe side only:
`covers` says yes only when it is so, `overlaps` says no only when it is so. Between single conjunctions both are exact
within the limits that `constraint.py`, `texts.py` and `work.py` state; a union is compared exactly where its parts
differ in numbers (`conjunction.covered_by_union`), otherwise part by part.
"""

from collections.abc import Iterable
from functools import cached_property

import msgspec
import xxhash

from tidings.model.event import Event
from tidings.model.language.evaluation import evaluate
from tidings.model.language.expression import And, Expression, conjunction_text, filter_text
from tidings.model.sets.conjunction import (
    Conjunction,
    covered_by_union,
    covers_conjunction,
    do_overlap,
    find_witness,
    unite,
)
from tidings.model.work import WORK

COVER_UNITS = 40
"""The work of comparing one conjunction with another, where no patterns meet."""


class Filter(msgspec.Struct, frozen=True, dict=True):
    """Build with `parse` or `attr`; both give the canonical form, so equal filters compare and hash equal. Its text and
    hash are made once, when they are first asked for."""

    conjunctions: tuple[Conjunction, ...]
    residual: Expression | None = None

    def matches(self, event: Event) -> bool:
        attributes = event.attributes
        for conjunction in self.conjunctions:
            for constraint in conjunction:
                if not constraint.accepts(attributes.get(constraint.name)):
                    break
            else:
                if self.residual is None:
                    return True
                outcome = evaluate(self.residual, attributes)
                return outcome.value is True and outcome.error is None
        return False

    def covers(self, other: "Filter") -> bool:
        """True only if every event that `other` matches is matched here."""
        WORK.units += COVER_UNITS * (1 + len(self.conjunctions) * len(other.conjunctions))
        if self.residual is not None:
            return all(is_given(condition, wide, other) for condition, wide in self.condition_forms)
        return all(
            any(covers_conjunction(wide, narrow) for wide in self.conjunctions)
            or covered_by_union(narrow, self.conjunctions)
            for narrow in other.conjunctions
        )

    def overlaps(self, other: "Filter") -> bool:
        """False only if no event is matched by both."""
        return any(do_overlap(mine, theirs) for mine in self.conjunctions for theirs in other.conjunctions)

    def counterexample(self, other: "Filter") -> Event | None:
        """An event that `other` matches and this filter does not, which disproves `self.covers(other)`.

        None if there is none, or none was found within the bounds of the search.
        """
        return find_witness(
            inside=other.conjunctions,
            outside=self.conjunctions,
            is_witness=lambda event: other.matches(event) and not self.matches(event),
        )

    def simplify(self) -> "Filter":
        """The same filter in fewer parts: what another part covers is dropped, what merges perfectly is merged. A
        residual says what the parts are, so one with a residual stays as it is."""
        from tidings.model.language.normal_form import is_sayable

        if self.residual is not None:
            return self
        simple = canonical_filter(unite(self.conjunctions), None)
        return simple if is_sayable(simple) else self

    def text(self) -> str:
        """The filter as text; `parse` gives it back."""
        return self.canonical_text

    @cached_property
    def canonical_text(self) -> str:
        return filter_text(self)

    def digest(self) -> bytes:
        """16 bytes that are the same for equal filters in every process and on every platform."""
        return xxhash.xxh3_128_digest(self.canonical_text.encode())

    @cached_property
    def hash_of_text(self) -> int:
        return int.from_bytes(self.digest()[:8], "little") >> 4  # below the modulus of Python hashes

    @cached_property
    def condition_forms(self) -> "tuple[tuple[Expression, Filter], ...]":
        """The conditions of the residual, each with its normal form; many filters are compared with it."""
        from tidings.model.language.normal_form import normal_form

        return tuple((each, normal_form(each)) for each in conditions_of(self.residual)) if self.residual else ()

    def __hash__(self) -> int:
        return self.hash_of_text

    def __bool__(self) -> bool:
        raise TypeError("a filter is neither true nor false: combine filters with & | ~ and ask filter.matches(event)")

    def __and__(self, other: "Filter") -> "Filter":
        from tidings.model.language.normal_form import conjunction_of

        return conjunction_of(self, other)

    def __or__(self, other: "Filter") -> "Filter":
        from tidings.model.language.normal_form import disjunction_of

        return disjunction_of(self, other)

    def __invert__(self) -> "Filter":
        from tidings.model.language.normal_form import negation_of

        return negation_of(self)


def canonical_filter(conjunctions: Iterable[Conjunction], residual: Expression | None) -> Filter:
    """A filter whose parts stand in the one order that equality needs, each once."""
    by_text = {conjunction_text(conjunction): conjunction for conjunction in conjunctions}
    return Filter(tuple(by_text[text] for text in sorted(by_text)), residual)


def conditions_of(expression: Expression) -> tuple[Expression, ...]:
    return expression.operands if isinstance(expression, And) else (expression,)


def is_given(condition: Expression, wide: Filter, narrow: Filter) -> bool:
    """True only if `condition`, whose normal form is `wide`, holds for every event that `narrow` matches."""
    if narrow.residual is not None and condition in conditions_of(narrow.residual):
        return True
    return wide.residual is None and wide.covers(narrow)
