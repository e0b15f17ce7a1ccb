import pytest

from tidings.model.errors import UsageError
from tidings.model.sets.texts import (
    EVERY_TEXT,
    NO_TEXT,
    TextSet,
    after,
    before,
    find_outside,
    intersection,
    like,
    none_of,
    one_of,
    starting_at,
    unlike,
    up_to,
)

LAST = "\U0010ffff"


@pytest.mark.parametrize(
    ("built", "canonical"),
    [
        (one_of(["b", "a", "b"]), TextSet(include=("a", "b"))),
        (one_of([]), NO_TEXT),
        (none_of([]), EVERY_TEXT),
        (none_of(["b", "a"]), TextSet(exclude=("a", "b"))),
        (like("%"), EVERY_TEXT),
        (like("a\\_b"), one_of(["a_b"])),
        (like("%_%"), none_of([""])),
        (like("%_a"), TextSet(likes=("_%a",))),
        (unlike("%"), NO_TEXT),
        (unlike("a"), none_of(["a"])),
        (unlike("_%"), one_of([""])),
        (before(""), NO_TEXT),
        (up_to(""), one_of([""])),
        (starting_at(""), EVERY_TEXT),
        (after(""), none_of([""])),
        (after("m"), TextSet(low="m\0")),
        (up_to("m"), TextSet(high="m\0")),
    ],
)
def test_each_constructor_gives_the_canonical_form(built: TextSet, canonical: TextSet) -> None:
    assert built == canonical


@pytest.mark.parametrize(
    ("sets", "canonical"),
    [
        ([starting_at("m"), before("m")], NO_TEXT),
        ([starting_at("m"), up_to("m")], one_of(["m"])),
        ([starting_at("m"), none_of(["m"])], after("m")),
        ([up_to("m"), none_of(["m"])], before("m")),
        ([starting_at("ab"), before("ac")], like("ab%")),
        ([starting_at("\\"), before("]")], TextSet(low="\\", high="]")),
        ([like("ab%"), before("b")], like("ab%")),
        ([like("ab%"), starting_at("abm")], TextSet(low="abm", likes=("ab%",))),
        ([like("ab%"), after("ab")], TextSet(likes=("ab%",), exclude=("ab",))),
        ([like("5%"), before("5x")], TextSet(high="5x", likes=("5%",))),
        ([like(f"5{LAST}%"), starting_at("5")], like(f"5{LAST}%")),
        ([like("ab%"), like("a%")], like("ab%")),
        ([like("ab%"), like("ac%")], NO_TEXT),
        ([like("%ab"), like("%cb")], NO_TEXT),
        ([like("ab%"), like("%ab%"), none_of(["x"])], like("ab%")),
        ([like("a%"), unlike("%a%")], NO_TEXT),
        ([like("a%"), unlike("b%")], like("a%")),
        ([unlike("a%"), unlike("ab%"), none_of(["abc"])], unlike("a%")),
        ([like("_"), starting_at("b_"), before("b_a")], NO_TEXT),
        ([like("%b%"), starting_at("ab1"), before("ab5")], starting_at("ab1") & before("ab5")),
        ([like("a_"), one_of(["ab", "b"])], one_of(["ab"])),
        ([like("%x"), after("m")], TextSet(low="m", likes=("%x",))),
        ([], EVERY_TEXT),
    ],
)
def test_an_intersection_drops_what_its_other_conditions_imply(sets: list[TextSet], canonical: TextSet) -> None:
    assert intersection(sets) == canonical


def test_membership_looks_at_every_condition() -> None:
    texts = intersection([like("a%"), unlike("%x%"), starting_at("ab"), before("ay"), none_of(["am"])])
    assert [text for text in ("a", "aa", "ab", "am", "amx", "amy", "ay", "b") if text in texts] == ["ab", "amy"]


def test_a_long_list_is_searched_as_exactly_as_a_short_one() -> None:
    texts = one_of(f"v{number}" for number in range(100))
    assert "v57" in texts
    assert "v570" not in texts
    assert "v570" in none_of(texts.include or ())
    assert "v57" not in none_of(texts.include or ())


@pytest.mark.parametrize(
    ("wide", "narrow", "covers"),
    [
        (like("ab%"), like("abc%"), True),
        (like("abc%"), like("ab%"), False),
        (like("%z"), like("a%"), False),
        (like("_%a"), like("%b_a"), True),
        (like("%a%b%"), like("%a%") & like("%b"), True),
        (like("%a%b%"), like("%a%") & like("%b%"), False),
        (like("%ab%"), like("a%b") & like("__"), True),
        (starting_at("a") & before("c"), like("b%x"), True),
        (starting_at("a") & before("b"), like("b%x"), False),
        (none_of(["a"]), like("b%"), True),
        (none_of(["a", "b"]), none_of(["a"]), False),
        (unlike("%x%"), like("a__") & unlike("_x_") & unlike("__x"), True),
        (unlike("%x"), like("%y"), True),
        (one_of(["a", "b"]), like("_") & starting_at("a") & up_to("b"), True),
        (one_of(["a"]), like("_") & starting_at("a") & up_to("b"), False),
        (NO_TEXT, like("%a") & like("_b"), True),
        (like("b%"), NO_TEXT, True),
    ],
)
def test_covering_is_decided_for_sets_of_every_kind(wide: TextSet, narrow: TextSet, covers: bool) -> None:
    assert wide.covers(narrow) is covers
    witness = narrow.example_outside(wide)
    assert (witness is None) is covers
    assert covers or (witness in narrow and witness not in wide)  # type: ignore[operator]


def test_sets_overlap_when_some_string_is_in_both() -> None:
    assert like("ab%").overlaps(like("%yz"))
    assert like("ab%").overlaps(like("%bc") & like("___"))
    assert not like("ab%").overlaps(like("%yz") & like("___"))
    assert not like("%a_").overlaps(like("%b") & like("%c_"))
    assert before("m").overlaps(starting_at("lz"))
    assert not before("m").overlaps(like("m%"))
    assert not one_of(["x"]).overlaps(unlike("_"))


def test_an_example_is_short_and_readable() -> None:
    assert EVERY_TEXT.example() == "a"
    assert like("ab%").example() == "ab"
    assert (like("%_x") & unlike("%a%")).example() == "bx"
    assert one_of(["", "b"]).example() == "b"
    assert one_of([""]).example() == ""
    assert NO_TEXT.example() is None
    assert (like("a_") & starting_at("a\ud7ff") & before("a\ue001")).example() == "a\ud7ff"
    assert (like("a_") & after("a\ud7ff") & unlike("a\ud7ff") & before("a\ue001")).example() == "a\ue000"


def test_unions_that_are_sets_again_are_exact() -> None:
    assert one_of(["a"]).union(one_of(["b"])) == one_of(["a", "b"])
    assert none_of(["a", "b"]).union(one_of(["b"])) == none_of(["a"])
    assert none_of(["a", "b"]).union(none_of(["b", "c"])) == none_of(["b"])
    assert before("m").union(starting_at("k")) == EVERY_TEXT
    assert before("m").union(after("m")) == none_of(["m"])
    assert before("m").union(one_of(["m"])) == up_to("m")
    assert after("m").union(one_of(["m"])) == starting_at("m")
    assert like("ab%").union(like("ac%")) == starting_at("ab") & before("ad")
    assert like("ab%").union(like("abc%")) == like("ab%")
    assert like("%x%").union(unlike("%x%")) == EVERY_TEXT
    assert like("%x").union(like("%y")) is None
    assert before("c").union(after("d")) is None


def test_a_hull_keeps_what_both_sets_share() -> None:
    assert like("ab%x").hull(like("ab%y")) == like("ab%")
    assert like("a%.log").hull(like("%b.log")) == like("%.log")
    assert like("%mid%x").hull(like("a%mid%")) == like("%mid%")
    assert like("%x").hull(like("%y") & none_of(["z"])) == EVERY_TEXT
    assert (like("%x") & unlike("%q%")).hull(like("%y") & unlike("%q%")) == unlike("%q%")
    assert (like("%x") & none_of(["ax", "bx"])).hull(like("a%")) == none_of(["bx"])
    assert NO_TEXT.hull(like("%x")) == like("%x")


def test_a_hull_has_no_range_end_that_would_read_as_a_number() -> None:
    assert one_of(["51", "5x"]).hull(like("5%a")) == like("5%")
    assert one_of(["7"]).hull(like("3%a") & like("%b%")) == TextSet(high="7\0\0")


@pytest.mark.parametrize(("places", "is_decided"), [(4, True), (14, False)])
def test_a_search_at_its_bound_gives_the_safe_answer(places: int, is_decided: bool) -> None:
    """An a and a b at the same distance from the end: the search keeps track of every subset of places in between."""
    ends_with_a, ends_with_b = like("%a" + "_" * places), like("%b" + "_" * places)
    not_b = unlike("%b" + "_" * places)
    assert find_outside(ends_with_a, not_b).ended is is_decided
    assert ends_with_a.example_outside(not_b) is None
    assert not_b.covers(ends_with_a) is is_decided
    assert ends_with_a.overlaps(ends_with_b) is not is_decided
    assert (ends_with_a & ends_with_b).is_empty() is is_decided
    assert (ends_with_a & ends_with_b).example() is None


@pytest.mark.parametrize("build", [like, unlike, before, up_to, after, starting_at])
def test_what_is_no_string_of_characters_is_refused(build: object) -> None:
    with pytest.raises(UsageError, match="not a string"):
        build(5)  # type: ignore[operator]
    with pytest.raises(UsageError, match="surrogate"):
        build("a\ud800")  # type: ignore[operator]


def test_a_list_with_something_other_than_strings_is_refused() -> None:
    with pytest.raises(UsageError, match="texts: 5 is not a string"):
        one_of([5])  # type: ignore[list-item]
