"""The union of two sets of strings where it is one again, and a set around both where it is not.

An intersection of conditions has a union of the same kind only in special cases. `joined` knows these:

    a list and a set that excludes just those strings     {'m'} with s != 'm' AND s != 'n'    s != 'n'
    the same patterns on ranges that meet                 s < 'm' with s >= 'm'               everything
                                                          LIKE 'ab%' with LIKE 'ac%'          'ab' <= s < 'ad'
    the same but for one pattern that one set asks for    LIKE '%x%' with NOT LIKE '%x%'      everything
    and the other forbids

`common_hull` keeps what both sets are seen to imply: the range from the lower low to the higher high, patterns of one
that the other implies, a common end, and exclusions that neither set holds. It covers both, never less.
"""

from collections.abc import Iterable
from functools import reduce

from tidings.model.sets.patterns import (
    escape,
    is_prefix_pattern,
    literal_runs,
    literal_suffix,
    pattern_covers,
    pattern_matches,
    patterns_exclude,
)
from tidings.model.sets.text_conditions import (
    Few,
    Form,
    TextConditions,
    common_beginning,
    greater_end,
    known_beginning,
    lesser_end,
    may_begin_in,
    without_trailing_zeros,
)
from tidings.model.values import number_from_text


def joined(one: Form, other: Form) -> TextConditions | None:
    """The exact union of two sets that are not both finite, or None."""
    if isinstance(one, Few):
        return None if isinstance(other, Few) else with_texts(other, one.texts)
    if isinstance(other, Few):
        return with_texts(one, other.texts)
    return with_joined_ranges(one, other) or without_opposed_pattern(one, other)


def with_texts(conditions: TextConditions, texts: tuple[str, ...]) -> TextConditions | None:
    """The set and these strings as well, if its exclusions and range ends give way to them."""
    missing = [text for text in texts if not conditions.hold_for(text)]
    low, passed_over = without_trailing_zeros(conditions.low)
    exclude = tuple(text for text in (*passed_over, *conditions.exclude) if text not in missing)
    high = conditions.high
    while high is not None and high in missing:
        high += "\0"
    wider = conditions._replace(low=low, high=high, exclude=exclude)
    return wider if all(wider.hold_for(text) for text in missing) else None


def with_joined_ranges(one: TextConditions, other: TextConditions) -> TextConditions | None:
    likes = proper_patterns(one)
    if likes != proper_patterns(other) or one.unlikes != other.unlikes:
        return None
    (low, passed_over), (other_low, other_passed_over) = map(own_low, (one, other))
    high, other_high = (form._replace(likes=prefix_patterns(form)).range()[1] for form in (one, other))
    least_high = lesser_end(high, other_high)
    if least_high is not None and max(low, other_low) > least_high:
        return None
    exclude = (*passed_over, *other_passed_over, *one.exclude, *other.exclude)
    return TextConditions(
        min(low, other_low), greater_end(high, other_high), likes, one.unlikes, outside_both(one, other, exclude)
    )


def own_low(conditions: TextConditions) -> tuple[str, list[str]]:
    """Where the set begins by its range and prefix patterns, and the strings between that and the stated low."""
    low, passed_over = without_trailing_zeros(conditions.low)
    return conditions._replace(low=low, likes=prefix_patterns(conditions)).range()[0], passed_over


def prefix_patterns(conditions: TextConditions) -> tuple[str, ...]:
    return tuple(pattern for pattern in conditions.likes if is_prefix_pattern(pattern))


def proper_patterns(conditions: TextConditions) -> tuple[str, ...]:
    """The patterns that say more than a range could."""
    return tuple(pattern for pattern in conditions.likes if not is_prefix_pattern(pattern))


def without_opposed_pattern(one: TextConditions, other: TextConditions) -> TextConditions | None:
    if (one.low, one.high) != (other.low, other.high):
        return None
    for asking, forbidding in ((one, other), (other, one)):
        opposed = [pattern for pattern in asking.likes if pattern in forbidding.unlikes]
        likes = tuple(pattern for pattern in asking.likes if pattern not in opposed)
        unlikes = tuple(pattern for pattern in forbidding.unlikes if pattern not in opposed)
        if len(opposed) == 1 and likes == forbidding.likes and unlikes == asking.unlikes:
            exclude = outside_both(one, other, (*one.exclude, *other.exclude))
            return TextConditions(one.low, one.high, likes, unlikes, exclude)
    return None


def outside_both(one: Form, other: Form, texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(text for text in texts if not one.hold_for(text) and not other.hold_for(text))


def common_hull(one: Form, other: Form) -> TextConditions:
    """Conditions that hold for every string of both sets, neither of which is empty."""
    (low, high), (other_low, other_high) = one.range(), other.range()
    low, high = min(low, other_low), greater_end(high, other_high)
    forms = [form for form in (one, other) if isinstance(form, TextConditions)]
    candidates = [*shared_ends(one, other), *(pattern for form in forms for pattern in form.likes)]
    for form in forms:
        candidates += (f"%{escape(run)}%" for run in map(max_run, form.likes) if run and not run.endswith("\\"))
    likes = tuple(pattern for pattern in candidates if implies_like(one, pattern) and implies_like(other, pattern))
    forbidden = (pattern for form in forms for pattern in form.unlikes)
    unlikes = tuple(pattern for pattern in forbidden if forbids(one, pattern) and forbids(other, pattern))
    exclude = outside_both(one, other, (text for form in forms for text in form.exclude))
    return TextConditions(lowered(low), raised(high), (*likes, *known_beginning(low, high)), unlikes, exclude)


def max_run(pattern: str) -> str:
    return max(literal_runs(pattern), key=len, default="")


def shared_ends(one: Form, other: Form) -> list[str]:
    end = common_end(end_of(one), end_of(other))
    return [f"%{escape(end)}"] if end else []


def end_of(form: Form) -> str:
    """What all strings of the set are seen to end with."""
    if isinstance(form, Few):
        return reduce(common_end, form.texts)
    return max(map(literal_suffix, form.likes), key=len, default="")


def common_end(one: str, other: str) -> str:
    return common_beginning(one[::-1], other[::-1])[::-1]


def implies_like(form: Form, pattern: str) -> bool:
    if isinstance(form, Few):
        return all(pattern_matches(pattern, text) for text in form.texts)
    return any(pattern_covers(pattern, narrow) for narrow in form.likes)


def forbids(form: Form, pattern: str) -> bool:
    if isinstance(form, Few):
        return not any(pattern_matches(pattern, text) for text in form.texts)
    if any(pattern_covers(wide, pattern) for wide in form.unlikes):
        return True
    if any(patterns_exclude(pattern, narrow) for narrow in form.likes):
        return True
    return not may_begin_in(form.range(), pattern)


def lowered(low: str) -> str:
    """A range end that reads as a number has no text form in CESQL, where it would compare numbers: go below it."""
    return "" if number_from_text(low) is not None else low


def raised(high: str | None) -> str | None:
    while high is not None and number_from_text(high.removesuffix("\0")) is not None:
        high += "\0"
    return high
