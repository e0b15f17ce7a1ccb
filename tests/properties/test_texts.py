"""Sets of strings against brute force: all strings up to length 5 over three letters, one of them a wildcard's own.

What a set holds is defined here a second time, atom by atom and by a LIKE matcher that follows the definition letter
by letter; intersections of random atoms are then compared with it.
"""

from functools import lru_cache, reduce
from itertools import permutations, product
from operator import and_
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidings.model.sets.automata import find_text
from tidings.model.sets.patterns import (
    canonical_pattern,
    pattern_covers,
    pattern_matches,
    patterns_exclude,
    search_weight,
)
from tidings.model.sets.text_conditions import Few, TextConditions
from tidings.model.sets.texts import (
    TextSet,
    after,
    before,
    find_member,
    find_outside,
    intersection,
    like,
    none_of,
    one_of,
    starting_at,
    text_set,
    unlike,
    up_to,
)
from tidings.model.work import WORK

LETTERS = "ab_"
STRINGS = [
    *("".join(letters) for length in range(6) for letters in product(LETTERS, repeat=length)),
    *("\0", "a\0", "a\0\0", "ab\0", "b\0a", "\\", "a\\", "\\a", "c", "ac", "bz", "a\U0010ffff", "\U0010ffff"),
]

more_examples = settings(max_examples=3 * settings().max_examples)


class Atom(NamedTuple):
    kind: str
    words: tuple[str, ...]

    def texts(self) -> TextSet:
        if self.kind in LISTS:
            return LISTS[self.kind](self.words)
        return SINGLES[self.kind](self.words[0])

    def holds(self, text: str) -> bool:
        word = self.words[0] if self.words else ""
        verdicts = {
            "one of": text in self.words,
            "none of": text not in self.words,
            "before": text < word,
            "up to": text <= word,
            "after": text > word,
            "starting at": text >= word,
        }
        if self.kind in verdicts:
            return verdicts[self.kind]
        return naive_like(word, text) is (self.kind == "like")


LISTS = {"one of": one_of, "none of": none_of}
SINGLES = {
    "like": like,
    "unlike": unlike,
    "before": before,
    "up to": up_to,
    "after": after,
    "starting at": starting_at,
}


@lru_cache(1 << 18)
def naive_like(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[:2] in ("\\%", "\\_"):
        return text[:1] == pattern[1] and naive_like(pattern[2:], text[1:])
    if pattern[0] == "%":
        return naive_like(pattern[1:], text) or (text != "" and naive_like(pattern, text[1:]))
    return text != "" and pattern[0] in ("_", text[0]) and naive_like(pattern[1:], text[1:])


words = st.one_of(st.text(LETTERS, max_size=3), st.text("ab\0\\", max_size=3))
pieces = st.sampled_from(["a", "b", "a", "b", "%", "%", "_", "\\_", "\\%", "\\"])
patterns = st.lists(pieces, max_size=6).map("".join)
atoms = st.one_of(
    st.builds(Atom, st.just("like"), st.tuples(patterns)),
    st.builds(Atom, st.sampled_from(["like", "unlike"]), st.tuples(patterns)),
    st.builds(Atom, st.sampled_from(["before", "up to", "after", "starting at"]), st.tuples(words)),
    st.builds(Atom, st.sampled_from(["one of", "none of"]), st.lists(words, min_size=1, max_size=4).map(tuple)),
)
atom_lists = st.lists(atoms, min_size=1, max_size=4)


def set_of(chosen: list[Atom]) -> TextSet:
    return reduce(and_, (atom.texts() for atom in chosen))


def all_hold(chosen: list[Atom], text: str) -> bool:
    return all(atom.holds(text) for atom in chosen)


def members(chosen: list[Atom]) -> set[str]:
    return {text for text in STRINGS if all_hold(chosen, text)}


@more_examples
@given(patterns, st.text("ab_%\\", max_size=8))
def test_a_pattern_matches_what_its_definition_says(pattern: str, text: str) -> None:
    assert pattern_matches(pattern, text) is naive_like(pattern, text)


@given(patterns)
def test_the_canonical_pattern_matches_the_same_strings_and_is_its_own(pattern: str) -> None:
    canonical = canonical_pattern(pattern)
    assert canonical_pattern(canonical) == canonical
    assert [naive_like(canonical, text) for text in STRINGS] == [naive_like(pattern, text) for text in STRINGS]


@more_examples
@given(st.lists(st.sampled_from("aab_"), min_size=2, max_size=6).map("".join), st.text("ab", min_size=40, max_size=90))
def test_a_segment_that_often_almost_fits_is_found_at_its_leftmost_place(segment: str, text: str) -> None:
    assert pattern_matches(f"%{segment}%b{segment}%", text) is naive_like(f"%{segment}%b{segment}%", text)


hostile_alphabet = st.sampled_from(["ab", "aé", "a\N{GRINNING FACE}", "aĀ"])


@more_examples
@given(hostile_alphabet, st.data())
def test_the_work_of_a_search_is_at_most_its_weight_and_its_answer_that_of_the_definition(
    alphabet: str, data: st.DataObject
) -> None:
    a, b = alphabet[0], alphabet[1]
    text = (
        data.draw(st.text(alphabet, max_size=12)) + a * data.draw(st.integers(0, 90)) + b * data.draw(st.integers(0, 3))
    )
    pieces = st.lists(st.sampled_from([a, a, b, "_", "%"]), min_size=1, max_size=8).map("".join)
    pattern = f"%{data.draw(pieces)}%"
    before = WORK.units
    assert pattern_matches(pattern, text) is naive_like(pattern, text)
    assert WORK.units - before <= search_weight(pattern).units(len(text))


@more_examples
@given(patterns, patterns)
def test_what_two_patterns_show_at_a_glance_is_true(wide: str, narrow: str) -> None:
    wide, narrow = canonical_pattern(wide), canonical_pattern(narrow)
    beyond = find_text(likes=[narrow], unlikes=[wide])
    verdict = pattern_covers(wide, narrow)
    assert beyond.ended
    if verdict is not None:
        assert verdict is (beyond.text is None)
    if patterns_exclude(wide, narrow):
        assert find_text(likes=[wide, narrow]).text is None


@more_examples
@given(atom_lists)
def test_an_intersection_holds_what_all_its_atoms_hold(chosen: list[Atom]) -> None:
    texts = set_of(chosen)
    assert {text for text in STRINGS if text in texts} == members(chosen)


@more_examples
@given(st.lists(atoms, min_size=2, max_size=3))
def test_the_form_of_an_intersection_does_not_depend_on_order(chosen: list[Atom]) -> None:
    texts = set_of(chosen)
    for order in permutations(chosen):
        assert set_of(list(order)) == texts
        assert intersection(atom.texts() for atom in order) == texts
    form = texts.form()
    assert isinstance(form, Few) or text_set(form) == texts


@more_examples
@given(atom_lists)
def test_a_form_is_sorted_and_excludes_nothing_that_the_rest_rules_out(chosen: list[Atom]) -> None:
    texts = set_of(chosen)
    if texts.include is not None:
        assert texts == TextSet(include=texts.include)
    for texts_listed in (texts.include or (), texts.likes, texts.unlikes, texts.exclude):
        assert list(texts_listed) == sorted(set(texts_listed))
    form = texts.form()
    for text in texts.exclude:
        assert isinstance(form, TextConditions)
        assert text in text_set(form._replace(exclude=()))


@more_examples
@given(atom_lists)
def test_an_example_is_a_member_and_only_an_empty_set_has_none(chosen: list[Atom]) -> None:
    texts = set_of(chosen)
    found = find_member(texts)
    assert found.ended
    if found.text is None:
        assert not members(chosen)
        assert texts.is_empty()
    else:
        assert all_hold(chosen, found.text)
        assert not texts.is_empty()


@more_examples
@given(atom_lists, atom_lists)
@example([Atom("like", ("_%a",))], [Atom("like", ("%ba",))])
@example([Atom("one of", ("a", "b"))], [Atom("like", ("_",)), Atom("starting at", ("a",)), Atom("up to", ("b",))])
def test_covering_agrees_with_brute_force_and_has_a_witness_when_it_fails(outer: list[Atom], inner: list[Atom]) -> None:
    wide, narrow = set_of(outer), set_of(inner)
    found = find_outside(narrow, wide)
    assert found.ended
    assert wide.covers(narrow) is (found.text is None)
    if found.text is None:
        assert members(inner) <= members(outer)
    else:
        assert all_hold(inner, found.text)
        assert not all_hold(outer, found.text)


@more_examples
@given(atom_lists, atom_lists)
def test_overlap_agrees_with_brute_force_and_has_a_witness_when_it_holds(one: list[Atom], other: list[Atom]) -> None:
    shared = (set_of(one) & set_of(other)).example()
    assert set_of(one).overlaps(set_of(other)) is (shared is not None)
    if shared is None:
        assert not members(one) & members(other)
    else:
        assert all_hold([*one, *other], shared)


@more_examples
@given(atom_lists, atom_lists)
def test_a_union_is_exact_and_a_hull_covers_both(one: list[Atom], other: list[Atom]) -> None:
    first, second = set_of(one), set_of(other)
    union, hull = first.union(second), first.hull(second)
    either = members(one) | members(other)
    if union is not None:
        assert {text for text in STRINGS if text in union} == either
        assert union.covers(first)
        assert union.covers(second)
        assert hull == union
    assert {text for text in STRINGS if text in hull} >= either
    assert hull.covers(first)
    assert hull.covers(second)


@more_examples
@given(st.sampled_from(["like", "none of", "before", "up to", "after", "starting at"]), st.data())
def test_a_set_and_a_close_relative_have_an_exact_union(kind: str, data: st.DataObject) -> None:
    """Random pairs seldom meet the cases in which a union is exact; these always do."""
    base, word = data.draw(atom_lists), data.draw(words)
    pairs = {
        "like": (Atom("like", ("%a%",)), Atom("unlike", ("%a%",))),
        "none of": (Atom("none of", (word, "b")), Atom("one of", (word,))),
        "before": (Atom("before", (word,)), Atom("starting at", (word,))),
        "up to": (Atom("up to", (word,)), Atom("after", (word,))),
        "after": (Atom("after", (word,)), Atom("one of", (word,))),
        "starting at": (Atom("starting at", (word,)), Atom("before", (word,))),
    }
    one, other = ([*base, atom] for atom in pairs[kind])
    union = set_of(one).union(set_of(other))
    if union is not None:
        assert {text for text in STRINGS if text in union} == members(one) | members(other)
    plain = set_of([pairs[kind][0]]).union(set_of([pairs[kind][1]]))
    assert plain is not None


@pytest.mark.parametrize("states_max", [1, 2, 5, 20])
@given(st.lists(patterns, max_size=3), st.lists(patterns, max_size=2), words, words)
def test_a_search_cut_short_claims_nothing(
    states_max: int, likes: list[str], unlikes: list[str], low: str, high: str
) -> None:
    short = find_text(likes, unlikes, (), low, high, states_max)
    full = find_text(likes, unlikes, (), low, high)
    assert short.states <= max(states_max, 1)
    if short.ended:
        assert short.text == full.text
    else:
        assert short.text is None
