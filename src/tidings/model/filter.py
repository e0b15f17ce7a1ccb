"""A filter: which events a subscriber wants.

The normal form is a disjunction of conjunctions: an event matches when, in at least one conjunction, every constraint
accepts the event's value for its attribute. No conjunction at all matches nothing; a conjunction without constraints
matches everything.

Some expressions have no such form (`LENGTH(name) > 3`, `hop < ttl`, or one whose normal form would be too large).
They are kept whole in `residual` and evaluated exactly; `conjunctions` then holds a normal form that is at least as
wide, by which routing and the index find candidates. An event matches when both agree.
"""

import msgspec

from tidings.model.constraint import Constraint
from tidings.model.expression import Expression

Conjunction = tuple[Constraint, ...]
"""Constraints on distinct attributes, sorted by name; all must hold."""


class Filter(msgspec.Struct, frozen=True):
    """Build with `parse` or `attr`; both give the canonical form, so equal filters compare and hash equal."""

    conjunctions: tuple[Conjunction, ...]
    residual: Expression | None = None
