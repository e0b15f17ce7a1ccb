"""What matching a filter may cost: its weight.

Comparing numbers and short lists costs next to nothing, whatever the event. Searching for a pattern costs the more the
longer the string is, and a stranger chooses both. `weight_of` adds up the patterns of a filter; its units for the
longest string that there is are what the filter costs at most, for one attribute of one event. Equal patterns count
once in a filter, because an index asks each once for all filters.

A filter that has no normal form (an *expression*) is evaluated as it is written, and weighs what all its parts do:
each function passes over strings, each comparison of two attributes may, each pattern is searched in what comes out.
What comes out may be longer than what went in: `CONCAT(a, a)` is twice as long, and letters change into up to three.
So the length of every string in it is followed as so many times the event and so many characters besides
(`TextLength`), up to the longest string that there is. What evaluating counts as work (`model/language/evaluation.py`)
is never more than that.
"""

from typing import NamedTuple

from tidings.model.bounds import STRING_BYTES_MAX
from tidings.model.filter import Filter
from tidings.model.language.evaluation import CONCATENATED_CHARS_MAX, PART_UNITS, compares_texts
from tidings.model.language.expression import Attribute, Call, Compare, Expression, In, Like, Literal, walk
from tidings.model.language.functions import find_function
from tidings.model.sets.patterns import FIND_CHARS, ROW_BITS, SearchWeight, search_weight
from tidings.model.values import text_of

NUMBER_CHARS_MAX = 32
"""No number is longer as text, and neither is a truth."""

TIMES_MAX = 16
"""Strings that may be more times as long as the event are taken for the longest that there are."""


class TextLength(NamedTuple):
    """At most so many times as many characters as the event has, and so many besides."""

    times: int
    chars: int

    def grown(self, growth: int) -> "TextLength":
        return TextLength(self.times * growth, self.chars * growth)

    def passed(self, passes: int, most: int = STRING_BYTES_MAX) -> SearchWeight:
        """What passing over it costs, `most` being the longest that it can be."""
        if self.times > TIMES_MAX:
            return SearchWeight(base=passes * (1 + most // FIND_CHARS))
        return SearchWeight(finds=passes * self.times, base=passes * (1 + min(self.chars, most) // FIND_CHARS))

    def searched(self, weight: SearchWeight) -> SearchWeight:
        """What searching it costs, where that weighs so much for a string as long as the event."""
        if self.times > TIMES_MAX:
            return SearchWeight(base=weight.units(STRING_BYTES_MAX))
        finds, tries, steps, _ = weight
        base = weight.units(min(self.chars, STRING_BYTES_MAX))
        return SearchWeight(finds * self.times, tries, steps * self.times, base)


def weight_of(filter: Filter) -> SearchWeight:
    texts = [each.text for conjunction in filter.conjunctions for each in conjunction if each.text is not None]
    patterns = dict.fromkeys(pattern for text in texts for pattern in (*text.likes, *text.unlikes))
    return total([search_weight(each) for each in patterns]).plus(
        SearchWeight() if filter.residual is None else expression_weight(filter.residual)
    )


def expression_weight(expression: Expression) -> SearchWeight:
    parts = list(walk(expression))
    weights = [SearchWeight(base=PART_UNITS * len(parts))]
    for part in parts:
        match part:
            case Like(operand, pattern):
                weights.append(length_of(operand).searched(search_weight(pattern)))
            case Call(name, arguments):
                function = find_function(name, len(arguments))
                if function is not None and function.passes:
                    weights.append(
                        sum_of(list(map(length_of, arguments))).passed(function.passes, CONCATENATED_CHARS_MAX)
                    )
            case Compare(_, left, right) if compares_texts(left, right):
                weights.append(compared(left))
            case In(operand, choices):
                weights += [compared(operand) for choice in choices if compares_texts(operand, choice)]
    return total(weights)


def compared(expression: Expression) -> SearchWeight:
    """With another string, of which no more is looked at than this one has."""
    times, chars = length_of(expression)
    if times > TIMES_MAX:
        times, chars = 0, STRING_BYTES_MAX
    return SearchWeight(steps=2 * times, base=2 * (1 + min(chars, STRING_BYTES_MAX) // ROW_BITS))


def length_of(expression: Expression) -> TextLength:
    """Of its value as text."""
    match expression:
        case Attribute():
            return TextLength(1, NUMBER_CHARS_MAX)
        case Literal(value):
            return TextLength(0, len(text_of(value)))
        case Call(name, arguments):
            function = find_function(name, len(arguments))
            if function is not None and arguments and isinstance(function.zero, str):
                lengths = [length_of(each) for each in arguments]
                if function.growth is not None:
                    return lengths[0].grown(function.growth)
                # The first may stand between all others.
                return sum_of([*lengths, *lengths[:1] * len(lengths)])
    return TextLength(0, NUMBER_CHARS_MAX)


def sum_of(lengths: list[TextLength]) -> TextLength:
    return TextLength(sum([each.times for each in lengths]), sum([each.chars for each in lengths]))


def total(weights: list[SearchWeight]) -> SearchWeight:
    added = SearchWeight()
    for weight in weights:
        added = added.plus(weight)
    return added


def units_at_most(filter: Filter) -> int:
    """For one attribute with the longest string that there is."""
    return weight_of(filter).units(STRING_BYTES_MAX)
