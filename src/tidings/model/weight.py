"""What matching a filter may cost: its weight.

Comparing numbers and short lists costs next to nothing, whatever the event. Searching for a pattern costs the more the
longer the string is, and a stranger chooses both. `weight_of` adds up the patterns of a filter; its units for the
longest string that there is are what the filter costs at most, for one attribute of one event. Equal patterns count
once in a filter, because an index asks each once for all filters.

A filter that has no normal form is evaluated as it is written: each function in it may pass over a string, and each
pattern is searched in what comes out.
"""

from tidings.model.bounds import STRING_BYTES_MAX
from tidings.model.filter import Filter
from tidings.model.language.expression import Call, Like, walk
from tidings.model.sets.patterns import SearchWeight, search_weight

CALL_PASSES = 4
"""Passes over a string that a function is taken for: some make a new one."""


def weight_of(filter: Filter) -> SearchWeight:
    texts = [each.text for conjunction in filter.conjunctions for each in conjunction if each.text is not None]
    weight = total(dict.fromkeys(pattern for text in texts for pattern in (*text.likes, *text.unlikes)))
    if filter.residual is None:
        return weight
    parts = list(walk(filter.residual))
    calls = len([part for part in parts if isinstance(part, Call)])
    return weight.plus(total([part.pattern for part in parts if isinstance(part, Like)])).plus(
        SearchWeight(finds=CALL_PASSES * calls, base=len(parts))
    )


def total(patterns: list[str] | dict[str, None]) -> SearchWeight:
    weight = SearchWeight()
    for pattern in patterns:
        weight = weight.plus(search_weight(pattern))
    return weight


def units_at_most(filter: Filter) -> int:
    """For one attribute with the longest string that there is."""
    return weight_of(filter).units(STRING_BYTES_MAX)
