import pytest

from tidings.model.sets.patterns import (
    canonical_pattern,
    escape,
    is_literal,
    is_prefix_pattern,
    literal_prefix,
    literal_runs,
    literal_suffix,
    pattern_covers,
    pattern_matches,
    pattern_text,
    patterns_exclude,
    prefix_pattern,
    search_weight,
)
from tidings.model.work import UNITS_PER_MS, WORK

TEXT_CHARS, PATTERN_CHARS = 64 * 1024, 4 * 1024


@pytest.mark.parametrize(
    ("pattern", "canonical"),
    [
        ("%_", "_%"),
        ("%_%%_", "__%"),
        ("a%%b", "a%b"),
        ("a%_b", "a_%b"),
        ("\\%\\_", "\\%\\_"),
        ("%\\%_", "%\\%_"),
        ("a\\b\\", "a\\b\\"),
        ("\\\\%", "\\\\%"),
        ("", ""),
    ],
)
def test_a_gap_is_written_with_its_ones_first_and_a_single_run(pattern: str, canonical: str) -> None:
    assert canonical_pattern(pattern) == canonical


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("", [""], ["a"]),
        ("%", ["", "a", "\n", "a%"], []),
        ("_", ["a", "\n", "\N{GRINNING FACE}"], ["", "ab"]),
        ("ab%", ["ab", "abc"], ["a", "xab"]),
        ("%ab", ["ab", "cab"], ["abc"]),
        ("%ab%", ["ab", "xaby"], ["a b"]),
        ("a%a", ["aa", "aba"], ["a"]),
        ("_b%", ["ab", "bbc"], ["b", "ba"]),
        ("%b_", ["bb", "abc"], ["b", "abcd"]),
        ("%a_c%", ["abc", "aabc", "aaac"], ["ac", "abbc"]),
        ("%ab_a%ab", ["abbaab", "xabcaxab"], ["abab", "abcaab "]),
        ("\\%", ["%"], ["a", "\\%"]),
        ("\\_a", ["_a"], ["ba"]),
        ("a\\b", ["a\\b"], ["ab"]),
        ("a\\", ["a\\"], ["a"]),
        ("\\\\%", ["\\%"], ["\\", "\\a"]),
    ],
)
def test_a_pattern_matches_whole_strings(pattern: str, matching: list[str], other: list[str]) -> None:
    assert [text for text in matching if not pattern_matches(pattern, text)] == []
    assert [text for text in other if pattern_matches(pattern, text)] == []


def test_the_literals_of_a_pattern_are_told_without_escapes() -> None:
    assert literal_runs("ab%c_d\\%") == ("ab", "c", "d%")
    assert literal_runs("%_%") == ()
    assert (literal_prefix("a\\_b%c"), literal_suffix("a\\_b%c")) == ("a_b", "c")
    assert (literal_prefix("_a"), literal_suffix("a%")) == ("", "")


def test_text_escaped_is_a_pattern_for_that_text_only() -> None:
    for text in ("", "plain", "100%", "a_b", "\\", "\\%", "a\\", "%_\\_"):
        assert is_literal(escape(text))
        assert pattern_text(escape(text)) == text
    assert not is_literal("a%")


def test_a_prefix_pattern_exists_unless_its_text_ends_in_a_backslash() -> None:
    assert prefix_pattern("a_") == "a\\_%"
    assert prefix_pattern("a\\b") == "a\\b%"
    assert prefix_pattern("a\\") is None
    assert is_prefix_pattern("a\\_%")
    assert not is_prefix_pattern("a_%")
    assert not is_prefix_pattern("%a%")


@pytest.mark.parametrize(
    ("wide", "narrow", "covers"),
    [
        ("ab%", "abc%", True),
        ("abc%", "ab%", False),
        ("%b%", "a_b%c", True),
        ("%b%", "a_%c", False),
        ("__%", "%a%b", True),
        ("__%", "%a", False),
        ("a__", "ab_", True),
        ("_%a", "%b_a", None),
        ("%\\_%", "a_b", False),
    ],
)
def test_one_pattern_is_seen_to_cover_another(wide: str, narrow: str, covers: bool | None) -> None:
    assert pattern_covers(wide, narrow) is covers


def test_patterns_exclude_each_other_by_beginning_end_or_length() -> None:
    assert patterns_exclude("ab%", "ac%")
    assert patterns_exclude("%ab", "%b_b") is False
    assert patterns_exclude("%ab", "%bb")
    assert patterns_exclude("__", "%abc%")
    assert not patterns_exclude("ab%", "a%b")


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("%_" * (PATTERN_CHARS // 2), "a", True),
        ("%a_" * (PATTERN_CHARS // 3) + "b%", "a", False),
        ("%" + "a_" * (PATTERN_CHARS // 2) + "b%", "a", False),
        ("%" + "aaaa_aab" * (PATTERN_CHARS // 8) + "%", "a", False),
        ("%" + "ab_" * (PATTERN_CHARS // 3) + "a%", "abc", True),
        ("%" + "ab_" * (PATTERN_CHARS // 3) + "c%", "abc", False),
        ("%" + "a" * PATTERN_CHARS + "b%", "a", False),
        ("%" + "a" * (PATTERN_CHARS // 2) + "_" + "a" * (PATTERN_CHARS // 2) + "%", "a", True),
        ("%" + "_".join(map(chr, range(0x4000, 0x4400))) + "%", "".join(map(chr, range(0x4000, 0x4400))), False),
        ("%" + "_".join(map(chr, range(0x4000, 0x4400, 2))) + "%", "".join(map(chr, range(0x4000, 0x4400))), True),
    ],
)
def test_the_largest_patterns_answer_on_the_largest_texts(pattern: str, text: str, matches: bool) -> None:
    repeated = (text * (TEXT_CHARS // len(text) + 1))[:TEXT_CHARS]
    assert pattern_matches(pattern, repeated) is matches


@pytest.mark.parametrize("text", ["a" * TEXT_CHARS, "ab" * (TEXT_CHARS // 2), "aé" * (TEXT_CHARS // 4)])
def test_two_hundred_hostile_patterns_on_the_longest_text_take_less_than_thirty_ms_of_work(text: str) -> None:
    patterns = [f"%a{'_' * ones}{letter}c%" for ones in range(1, 101) for letter in "aé"]
    before = WORK.units
    assert not any(pattern_matches(pattern, text) for pattern in patterns)
    assert WORK.units - before < 30 * UNITS_PER_MS


@pytest.mark.parametrize("pattern", ["%a___b%", "%" + "a_" * 2000 + "b%", "%" + "a_b%" * 1000, "%" + "a" * 4000 + "b%"])
def test_work_grows_with_the_text_and_not_faster(pattern: str) -> None:
    def units(chars: int) -> int:
        before = WORK.units
        assert not pattern_matches(pattern, "ac" * (chars // 2))
        return WORK.units - before

    short, long = units(TEXT_CHARS // 16), units(TEXT_CHARS)
    assert long <= 16 * short
    assert long <= search_weight(pattern).units(TEXT_CHARS)


def test_a_pattern_that_is_compared_at_fixed_places_has_no_weight() -> None:
    assert search_weight("ab_c").units(TEXT_CHARS) == search_weight("ab%c_d").units(TEXT_CHARS) == 0
    assert search_weight("%ab%").units(TEXT_CHARS) > 0
