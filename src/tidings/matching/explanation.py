"""Why a filter matches an event or does not, and what it costs to ask.

For each conjunction of the normal form: its constraints, the cost class of each, and its Bloom tags; given an event,
which constraints refuse it and the value they saw. A constraint's cost class says what an index can do with it:

    equality   the value is one of a few known ones: a table look-up
    range      the value lies between ends in a sorted order: a search
    pattern    the text has to be read: LIKE, or anything but some strings
    residual   no normal form: the whole expression is evaluated for each event that the rest lets through

They are listed from the cheapest to the dearest. A filter is as dear as its dearest part.
"""

import msgspec

from tidings.matching.bloom import tags_of_filter
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.language.evaluation import evaluate
from tidings.model.language.expression import Attribute, Exists, constraint_text, expression_text, walk
from tidings.model.sets.constraint import Constraint
from tidings.model.values import Value

COST_CLASSES = ("equality", "range", "pattern", "residual")


class ExplainedConstraint(msgspec.Struct, frozen=True):
    attribute: str
    text: str
    cost: str


class ExplainedConjunction(msgspec.Struct, frozen=True):
    constraints: tuple[ExplainedConstraint, ...]
    tags: tuple[str, ...]


class Explanation(msgspec.Struct, frozen=True):
    """`residual` is the expression that has no normal form, as text; `attributes` is everything the filter reads."""

    text: str
    conjunctions: tuple[ExplainedConjunction, ...]
    residual: str | None
    attributes: tuple[str, ...]
    cost: str


class FailedConstraint(msgspec.Struct, frozen=True):
    """A constraint that does not hold, and the value it saw; None is an absent attribute."""

    constraint: str
    attribute: str
    value: Value | None


class ConjunctionVerdict(msgspec.Struct, frozen=True):
    """How a filter answers one event: for each conjunction what refuses it, and what the residual expression gives."""

    matches: bool
    refusals: tuple[tuple[FailedConstraint, ...], ...]
    residual_value: Value | None = None
    residual_error: str | None = None


def explain(filter: Filter) -> Explanation:
    tags = tags_of_filter(filter)
    conjunctions = tuple(
        ExplainedConjunction(
            tuple(ExplainedConstraint(each.name, constraint_text(each), cost_class(each)) for each in conjunction),
            tags_of_part,
        )
        for conjunction, tags_of_part in zip(filter.conjunctions, tags, strict=True)
    )
    costs = [each.cost for conjunction in conjunctions for each in conjunction.constraints]
    if filter.residual is not None:
        costs.append("residual")
    return Explanation(
        text=filter.text(),
        conjunctions=conjunctions,
        residual=None if filter.residual is None else expression_text(filter.residual),
        attributes=attributes_read(filter),
        cost=max(costs, key=COST_CLASSES.index, default=COST_CLASSES[0]),
    )


def cost_class(constraint: Constraint) -> str:
    text, number = constraint.text, constraint.number
    if text is not None and text.include is None and (text.likes or text.unlikes or text.exclude):
        return "pattern"
    is_range = (text is not None and text.include is None) or (number is not None and number.points() is None)
    return "range" if is_range else "equality"


def attributes_read(filter: Filter) -> tuple[str, ...]:
    names = {constraint.name for conjunction in filter.conjunctions for constraint in conjunction}
    if filter.residual is not None:
        names |= {node.name for node in walk(filter.residual) if isinstance(node, Attribute | Exists)}
    return tuple(sorted(names))


def judge(filter: Filter, event: Event) -> ConjunctionVerdict:
    """Agrees with `filter.matches(event)`, and says why."""
    attributes = event.attributes
    refusals = tuple(
        tuple(
            FailedConstraint(constraint_text(each), each.name, attributes.get(each.name))
            for each in conjunction
            if not each.accepts(attributes.get(each.name))
        )
        for conjunction in filter.conjunctions
    )
    if filter.residual is None:
        return ConjunctionVerdict(filter.matches(event), refusals)
    outcome = evaluate(filter.residual, attributes)
    return ConjunctionVerdict(filter.matches(event), refusals, outcome.value, outcome.error)
