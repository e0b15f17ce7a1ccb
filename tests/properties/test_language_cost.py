"""No text takes long to accept or reject.

Time depends on the machine, so this counts calls of functions instead, in Python and below it. The texts with the most
of them take some 40,000, which is 5 to 7 ms on the two cores that the bounds were chosen on; the bound here leaves room
for other versions of Python, and is far below what a step that grows with the square of the text would need.
"""

import sys
from random import Random
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.model.bounds import FILTER_TEXT_BYTES_MAX, FILTER_TOKENS_MAX
from tidings.model.errors import FilterSyntaxError
from tidings.model.language.parser import parse

CALLS_MAX = 60_000
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def calls_to_parse(text: str) -> int:
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        parse(text)
    except FilterSyntaxError:
        pass
    finally:
        sys.setprofile(before)
    return count


def repeated(separator: str, part: str, tokens: int) -> str:
    """As many parts as fit into the bounds; # stands for a number and ? for a letter that change from part to part."""
    count = FILTER_TOKENS_MAX // tokens
    parts = [part.replace("#", str(place)).replace("?", LETTERS[place % 26]) for place in range(count)]
    while len(separator.join(parts)) > FILTER_TEXT_BYTES_MAX:
        parts.pop()
    return separator.join(parts)


EXTREMES = {
    "numbers by OR": repeated(" OR ", "a=#", 4),
    "attributes by OR": repeated(" OR ", "a#=1", 4),
    "ranges by OR": repeated(" OR ", "a># AND b<#", 8),
    "text ranges by OR": repeated(" OR ", "a>'x#' AND a<'y#'", 8),
    "patterns by OR": repeated(" OR ", "a LIKE '%?#_%'", 4),
    "truths and texts by OR": repeated(" OR ", "a AND a!='#'", 6),
    "numbers and patterns by OR": repeated(" OR ", "a># AND a LIKE '#%'", 8),
    "attributes compared by OR": repeated(" OR ", "a#>b#", 4),
    "exclusions by AND": repeated(" AND ", "a!=#", 4),
    "attributes by AND": repeated(" AND ", "a#=1", 4),
    "patterns by AND": repeated(" AND ", "a LIKE '%?_#%'", 4),
    "patterns on many attributes": repeated(" AND ", "? NOT LIKE '%#_%'", 5),
    "products": repeated(" AND ", "(a#=1 OR b#=2)", 10),
    "products of patterns": repeated(" AND ", "(a LIKE '?%' OR b NOT LIKE '%?_%')", 11),
    "products on the same attributes": repeated(" AND ", "(a># OR b<#)", 10),
    "exclusive": " XOR ".join(f"a{place}=1" for place in range(62)),
    "exclusive patterns": " XOR ".join(f"a LIKE '%{place}_%'" for place in range(62)),
    "nested": "(" * 30 + "a=1" + "".join(f" OR b{place}=1) AND c{place} LIKE '%x'" for place in range(30)),
    "negated": "NOT (" + repeated(" OR ", "a#=1", 5) + ")",
    "long list": "a IN (" + repeated(",", "'#'", 3) + ")",
    "long pattern": "a LIKE '" + "%_a" * 1300 + "'",
    "long patterns": " AND ".join("a LIKE '" + f"%_{letter}" * 200 + "'" for letter in "abcde"),
    "wildcards": "a LIKE '" + "%_" * 2000 + "'",
    "calls": repeated(" OR ", "LENGTH(a)>#", 8),
    "parentheses": "(" * 255 + "a" + ")" * 255,
    "open parentheses": "(" * FILTER_TEXT_BYTES_MAX,
    "unclosed string": "a = '" + "\\'" * 2000,
    "signs": "-" * FILTER_TEXT_BYTES_MAX,
    "negations": "NOT " * 1000 + "a",
    "too many terms": " OR ".join(f"a{place}=1" for place in range(10_000)),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_texts_cost_a_bounded_number_of_calls(name: str) -> None:
    calls_to_parse("a = 1")
    assert calls_to_parse(EXTREMES[name]) <= CALLS_MAX


def random_condition(rng: Random, names: list[str]) -> str:
    name, kind = rng.choice(names), rng.randrange(7)
    if kind < 3:
        return f"{name} {rng.choice(('=', '!=', '<', '>='))} {rng.randrange(30)}"
    if kind == 3:
        return f"{name} {rng.choice(('=', '!=', '<', '>='))} '{rng.choice('abc15')}{rng.choice('abc15')}'"
    if kind < 6:
        pattern = "".join(rng.choice(("%", "_", "a", "b", "1", "\\%")) for _ in range(rng.randrange(1, 20)))
        return f"{name} {rng.choice(('LIKE', 'NOT LIKE'))} '{pattern}'"
    return name


def random_filter(rng: Random, names: list[str], depth: int) -> str:
    if depth == 0:
        return random_condition(rng, names)
    parts = [random_filter(rng, names, depth - 1) for _ in range(rng.randrange(2, 7))]
    return f"{rng.choice(('', 'NOT '))}({rng.choice((' AND ', ' OR ', ' XOR ')).join(parts)})"


@given(st.integers(0, 2**32))
def test_random_long_filters_cost_a_bounded_number_of_calls(seed: int) -> None:
    rng = Random(seed)
    names = [f"n{number}" for number in range(rng.choice((1, 2, 5, 40)))]
    text = random_filter(rng, names, rng.randrange(1, 5))
    while len(text) < 1500:
        text += rng.choice((" AND ", " OR ", " XOR ")) + random_filter(rng, names, rng.randrange(3))
    calls_to_parse("a = 1")
    assert calls_to_parse(text) <= CALLS_MAX
