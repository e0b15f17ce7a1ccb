"""Similarity, sibling views and levels: the pure parts of gossip around failed brokers (dependable.md 3.3)."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.machine.message import Contact
from tidings.model.bounds import CYCLE_AHEAD_MAX, FAILURES_TOLD_MAX, VECTOR_ENTRIES_MAX
from tidings.protocols.gossip.failover.levels import (
    choose_level,
    group_of,
    merge_levels,
    merge_reports,
    most_similar,
    names_beyond,
)
from tidings.protocols.gossip.failover.messages import LevelMember, LevelReport, LevelView, SiblingMember, SiblingView
from tidings.protocols.gossip.failover.similarity import SimilarityScale, Vector, filters_of, similarity, vector_of
from tidings.protocols.gossip.failover.views import RECORDS_KEPT, SiblingViews

VECTORS = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.integers(0, 9)).map(vector_of)


# Similarity.


@pytest.mark.spec("S-17")
def test_similarity_is_the_sum_of_minima_and_x3_holds() -> None:
    v4, v5, v7 = vector_of({"1": 1, "2": 0}), vector_of({"1": 0, "2": 1}), vector_of({"1": 0, "2": 1})
    assert similarity(v5, v4) == 0 and similarity(v5, v7) == 1


@pytest.mark.spec("S-17")
@pytest.mark.spec("S-19")
@given(VECTORS, VECTORS)
def test_similarity_is_symmetric_bounded_and_keyed_by_advertisement(one: Vector, other: Vector) -> None:
    names = {name for name, _ in one} | {name for name, _ in other}
    expected = sum(min(dict(one).get(name, 0), dict(other).get(name, 0)) for name in names)
    assert similarity(one, other) == similarity(other, one) == expected
    assert expected <= min(sum(count for _, count in one), sum(count for _, count in other))
    assert similarity(one, one) == sum(count for _, count in one)


@given(VECTORS, VECTORS)
def test_the_scale_answers_as_the_plain_function_and_remembers(one: Vector, other: Vector) -> None:
    scale = SimilarityScale()
    scale.set(one)
    assert scale.rank(other) == similarity(one, other) == scale.rank(other)


def test_jaccard_divides_by_what_either_has() -> None:
    scale = SimilarityScale("jaccard")
    scale.set((("a", 1), ("b", 1)))
    alike, wide = (("a", 1), ("b", 1)), tuple((name, 9) for name in "abcdefg")
    assert scale.rank(alike) == 1_000_000 > scale.rank(wide) > 0 == scale.rank((("z", 5),))


def test_weights_count_where_publications_came_lately() -> None:
    scale = SimilarityScale("weighted")
    scale.set((("a", 1), ("b", 1)), {"b": 10.0})
    assert scale.rank((("b", 1),)) == 11 > scale.rank((("a", 1),)) == 1


def test_of_many_filters_two_brokers_leave_out_the_same() -> None:
    common = [f"x = {number}" for number in range(2 * VECTOR_ENTRIES_MAX)]
    one, other = (vector_of(filters_of([*common, f"y = {own}"])) for own in (1, 2))
    assert len(one) == len(other) == VECTOR_ENTRIES_MAX and similarity(one, other) >= VECTOR_ENTRIES_MAX - 2


def test_only_the_largest_counters_are_told() -> None:
    told = vector_of({f"p{number}": number for number in range(VECTOR_ENTRIES_MAX + 10)})
    assert len(told) == VECTOR_ENTRIES_MAX and ("p9", 9) not in told and list(told) == sorted(told)


# Sibling views.


def views(size: int = 3) -> SiblingViews:
    """Of b, to whom everybody is as similar as the count of "x" says."""
    made = SiblingViews("b", size, lambda vector: dict(vector).get("x", 0))
    made.hear_cycle(10)
    return made


def member(name: str, rank: int = 1, heard: int = 10) -> SiblingMember:
    return SiblingMember(Contact(name, f"{name}:1"), heard, (("x", rank),))


def view(
    *members: SiblingMember,
    rank: int = 1,
    failures: tuple[tuple[str, int], ...] = (),
    recoveries: tuple[tuple[str, int], ...] = (),
    cycle: int = 10,
) -> SiblingView:
    return SiblingView(cycle, 0, (("x", rank),), members, failures, recoveries)


X = Contact("x", "x:1")


@pytest.mark.spec("S-22")
def test_a_sibling_that_does_not_answer_is_removed_and_recorded_with_the_cycle() -> None:
    mine = views()
    mine.introduce([Contact("c"), Contact("d")])
    mine.begin_cycle()
    assert mine.begin_cycle() == ["c", "d"]
    mine.answered("d")
    assert mine.finish_cycle(["c"]) == ["c"]
    assert list(mine.members) == ["d"] and mine.failures == {"c": 11} and mine.members["d"].heard == 11
    mine.check()


@pytest.mark.spec("S-23")
def test_a_view_that_is_told_leaves_out_who_is_told() -> None:
    mine = views()
    mine.merge(X, view(member("c"), member("d")))
    assert [each.contact.node for each in mine.told_to("c")] == ["d", "x"]


@pytest.mark.spec("S-24")
def test_of_failures_the_newest_cycle_counts() -> None:
    mine = views()
    mine.merge(X, view(failures=(("c", 7),)))
    mine.merge(X, view(failures=(("c", 9),)))
    mine.merge(X, view(failures=(("c", 8),)))
    assert mine.failures == {"c": 9}


@pytest.mark.spec("S-25")
def test_whoever_sends_a_view_is_alive() -> None:
    mine = views()
    mine.failures["x"] = 9
    mine.merge(X, view())
    assert mine.failures == {} and mine.recoveries == {"x": 10} and "x" in mine.members


@pytest.mark.spec("S-26")
def test_a_recovery_at_least_as_new_clears_a_failure_and_is_recorded_always() -> None:
    mine = views()
    mine.failures |= {"c": 9, "d": 10}
    mine.merge(X, view(recoveries=(("c", 9), ("d", 9), ("e", 5))))
    assert mine.failures == {"d": 10} and mine.recoveries == {"c": 9, "d": 9, "e": 5}


@pytest.mark.spec("S-27")
def test_a_member_that_was_heard_later_than_its_failure_is_back() -> None:
    mine = views()
    mine.failures |= {"c": 9, "d": 10}
    mine.merge(X, view(member("c"), member("d")))
    assert mine.failures == {"d": 10} and "c" in mine.members and "d" not in mine.members


@pytest.mark.spec("S-28")
def test_the_view_is_the_most_similar_of_those_that_live() -> None:
    mine = views(size=2)
    mine.failures["f"] = 10
    mine.merge(X, view(member("c", 5), member("d", 2), member("e", 9), member("f", 99), rank=3))
    assert list(mine.members) == ["e", "c"]
    mine.check()


@pytest.mark.spec("S-29")
def test_a_stale_failure_does_not_undo_a_newer_recovery_and_a_newer_one_does() -> None:
    mine = views()
    mine.recoveries["c"] = 9
    mine.merge(X, view(failures=(("c", 8),)))
    assert mine.failures == {} and mine.recoveries == {"c": 9}
    mine.merge(X, view(failures=(("c", 10),)))
    assert mine.failures == {"c": 10} and mine.recoveries == {}


def test_whoever_is_said_to_have_failed_and_has_not_says_so() -> None:
    mine = views()
    mine.merge(X, view(failures=(("b", 9),)))
    assert mine.failures == {} and mine.recoveries == {"b": 10}


def test_recoveries_are_forgotten() -> None:
    mine = views()
    mine.recoveries["c"] = 10
    for _ in range(RECORDS_KEPT + 1):
        mine.begin_cycle()
    assert mine.recoveries == {}


@pytest.mark.spec("S-30")
@given(st.integers(0, 2**32))
def test_a_live_broker_that_is_suspected_is_cleared_everywhere_in_a_few_cycles(seed: int) -> None:
    """Ten siblings that know each other; one of them is suspected by some, and answers from then on. Two cycles of
    views, in any order, clear it (GE-4)."""
    rng, names = Random(seed), [f"s{place}" for place in range(10)]
    group = {name: SiblingViews(name, 9, lambda vector: 1) for name in names}
    for name, each in group.items():
        each.introduce(Contact(other) for other in names if other != name)
        each.begin_cycle()
    for suspicious in rng.sample(names[1:], rng.randint(1, 9)):
        group[suspicious].suspect("s0")
    for _ in range(2):
        for each in group.values():
            for asked in each.begin_cycle():
                each.answered(asked)
            each.finish_cycle([])
        messages = [(name, other, view_of(each, other)) for name, each in group.items() for other in list(each.members)]
        rng.shuffle(messages)
        for name, other, told in messages:
            group[other].merge(Contact(name), told)
            group[other].check()
    assert not any(each.failures for each in group.values())
    assert all("s0" in each.members for name, each in group.items() if name != "s0")


def view_of(mine: SiblingViews, receiver: str) -> SiblingView:
    failures, recoveries = tuple(mine.failures.items()), tuple(mine.recoveries.items())
    return SiblingView(mine.cycle, 0, (), mine.told_to(receiver), failures, recoveries)


def test_a_forged_failure_evicts_nobody_whom_we_hear() -> None:
    """Whoever lies, in every cycle and with the newest number, keeps nobody out whom our own question reaches."""
    mine = views()
    mine.introduce([Contact("c"), Contact("liar")])
    for _ in range(5):
        assert "c" in mine.begin_cycle()
        mine.answered("c")
        mine.finish_cycle([])
        mine.merge(Contact("liar"), view(failures=(("c", 2**62),), cycle=mine.cycle))
        assert "c" in mine.members and "c" not in mine.failures
    mine.begin_cycle()
    assert mine.finish_cycle(["c"]) == ["c"], "our own question decides"


@given(st.integers(0, 2**32))
def test_whatever_liars_say_no_live_broker_is_away_for_two_cycles(seed: int) -> None:
    """Eight brokers of one group, with room for all, and two liars among them who say in every cycle, with any number,
    that some have failed, to everybody and as often as they like. Who lives is in every honest view at the end of
    every cycle but two in a row."""
    rng, names = Random(seed), [f"s{place}" for place in range(8)]
    group = {name: SiblingViews(name, 7, lambda vector: 1) for name in names}
    liars, honest = names[:2], names[2:]
    for name, each in group.items():
        each.introduce(Contact(other) for other in rng.sample([other for other in names if other != name], 4))
    away: dict[tuple[str, str], int] = {}
    for cycle in range(12):
        for each in group.values():
            asked = [*each.begin_cycle(), *([gone.node] if (gone := each.next_gone()) is not None else [])]
            for node in asked:
                each.answered(node)
            each.finish_cycle([])
        said = [(name, other, view_of(group[name], other)) for name in honest for other in group[name].members]
        for liar in liars:
            for other in honest:
                forged = tuple((node, rng.choice((cycle, cycle + 1, 2**62))) for node in rng.sample(honest, 3))
                said += [(liar, other, view(failures=forged, cycle=cycle))] * rng.randint(1, 3)
        rng.shuffle(said)
        for sender, receiver, told in said:
            group[receiver].merge(Contact(sender), told)
            group[receiver].check()
        for name in honest:
            for other in honest:
                missing = other != name and other not in group[name].members
                away[name, other] = away.get((name, other), 0) + 1 if missing else 0
                # Until the third cycle not everybody has been heard of.
                assert cycle < 3 or away[name, other] < 2, f"{name} has been without {other}"


def test_invented_siblings_take_at_most_half_of_the_places_of_those_that_answer() -> None:
    """A liar tells in every cycle of new brokers that are all just like us, and are not there."""
    mine = views(size=6)
    real = [f"r{place}" for place in range(6)]
    mine.merge(X, view(*(member(name, 5) for name in real), rank=9))
    for cycle in range(10):
        asked = mine.begin_cycle()
        for node in asked:
            if node in real or node == "x":
                mine.answered(node)
        mine.finish_cycle([node for node in asked if node not in real and node != "x"])
        invented = [member(f"f{cycle}-{place}", 99, heard=2**40) for place in range(12)]
        mine.merge(Contact("liar"), view(*invented, rank=99))
        living = [node for node in mine.members if node in (*real, "x", "liar")]
        assert len(living) >= 3, "half of the view"
        mine.check()
    assert mine.finish_cycle([]) == []


def test_brokers_that_hear_each_other_count_cycles_together() -> None:
    """Not each from every other's, or a cycle would be no span of time."""
    one, other = SiblingViews("a", 3, lambda vector: 0), SiblingViews("b", 3, lambda vector: 0)
    for _ in range(5):
        one.begin_cycle()
        other.hear_cycle(one.cycle)
        other.begin_cycle()
        one.hear_cycle(other.cycle)
    assert one.cycle == other.cycle == 5


def test_who_failed_is_asked_again_and_is_back_when_it_answers() -> None:
    mine = views()
    mine.introduce([Contact("c", "c:1"), Contact("d")])
    mine.begin_cycle()
    mine.finish_cycle(["c", "d"])
    assert [mine.next_gone(), mine.next_gone()] == [Contact("c", "c:1"), Contact("d")]
    mine.answered("c")
    assert mine.failures == {"d": 10} and mine.recoveries == {"c": 10} and mine.next_gone() == Contact("d")
    assert mine.members["c"].contact.address == "c:1"
    mine.check()


def test_nobody_is_believed_who_claims_a_cycle_far_ahead() -> None:
    mine = views()
    assert not mine.hear_cycle(10 + CYCLE_AHEAD_MAX + 1) and mine.cycle == 10
    assert not SiblingViews("n", 3, lambda vector: 0).hear_cycle(2**62 + 1)


def test_records_are_bounded_and_the_oldest_go() -> None:
    mine = views()
    for number in range(FAILURES_TOLD_MAX + 20):
        mine.merge(X, view(failures=((f"n{number}", min(10, number)),)))
    assert len(mine.failures) == FAILURES_TOLD_MAX and "n0" not in mine.failures
    mine.check()


@pytest.mark.spec("S-21")
@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 5), st.integers(0, 12)), max_size=30))
def test_a_view_is_bounded_and_holds_neither_ourselves_nor_the_failed(told: list[tuple[str, int, int]]) -> None:
    """GE-3, of a view alone."""
    mine = views()
    for name, rank, at in told:
        mine.merge(Contact(name), view(member(name.upper(), rank), failures=((name, at),)) if name != "b" else view())
        mine.members.pop("b", None)
        mine.check()


# Levels.


def level(
    *members: tuple[str, int], names: tuple[str, ...] = (), failures: tuple[tuple[str, int], ...] = ()
) -> LevelView:
    return LevelView(names, tuple(LevelMember(Contact(name), score) for name, score in members), failures)


@pytest.mark.spec("S-20")
def test_groups_are_levels_and_the_first_may_be_one() -> None:
    """X-4: depths 0, 1, 2, 3 of the tree of 13 brokers."""
    above = {1: 0, 2: 1, 3: 1, 4: 2, 5: 2, 6: 3, 7: 3, 8: 4, 9: 4, 10: 5, 11: 5, 12: 7, 13: 7}
    depth = {1: 0}
    for broker in range(2, 14):
        depth[broker] = depth[above[broker]] + 1

    def groups(merged: int) -> list[list[int]]:
        found: dict[int, list[int]] = {}
        for broker in sorted(depth):
            found.setdefault(group_of(depth[broker], merged), []).append(broker)
        return [found[group] for group in sorted(found)]

    assert groups(1) == [[1], [2, 3], [4, 5, 6, 7], [8, 9, 10, 11, 12, 13]]
    assert groups(2) == [[1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11, 12, 13]]
    assert groups(3) == [[1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11, 12, 13]]


@pytest.mark.spec("S-39")
def test_levels_merge_by_similarity_and_of_failures_the_newest_counts() -> None:
    one = level(("c", 9), ("d", 3), names=("n",), failures=(("f", 4), ("g", 2)))
    other = level(("d", 7), ("e", 5), names=("m",), failures=(("f", 6),))
    merged = merge_levels([one, other], 3)
    assert merged == level(("c", 9), ("d", 7), ("e", 5), names=("n", "m"), failures=(("f", 6), ("g", 2)))
    assert merge_levels([one, other], 2).members == level(("c", 9), ("d", 7)).members


def test_each_branch_has_somebody_in_the_view_while_there_is_room() -> None:
    rich, poor = level(("c", 9), ("d", 8), ("e", 7)), level(("z", 1))
    assert [each.contact.node for each in most_similar([rich.members, poor.members], 3)] == ["c", "d", "z"]
    assert [each.contact.node for each in most_similar([rich.members, poor.members], 1)] == ["c"]


def test_one_branch_that_claims_the_highest_scores_fills_half_of_the_view() -> None:
    liar = level(*((f"f{place}", 2**62) for place in range(9)))
    one, other = level(("c", 3), ("d", 2), ("e", 1)), level(("g", 3), ("h", 2))
    names = [each.contact.node for each in most_similar([liar.members, one.members, other.members], 6)]
    assert names == ["f0", "f1", "f2", "c", "g", "d"]
    assert len(most_similar([liar.members, other.members], 6)) == 6
    assert len(most_similar([liar.members], 6)) == 6, "where nobody else tells of anybody there is room"


def test_reports_merge_level_by_level_up_to_the_bound() -> None:
    deep = LevelReport(1, 3, (level(("c", 1)), level(("d", 1)), level(("e", 1))))
    flat = LevelReport(1, 3, (level(("x", 2)),))
    merged = merge_reports([deep, flat], 6, 2)
    assert [[each.contact.node for each in one.members] for one in merged] == [["x", "c"], ["d"]]


@pytest.mark.spec("S-41")
def test_a_level_on_which_somebody_failed_is_passed_over_unless_all_have_failures() -> None:
    levels = [level(("p", 1), failures=(("10", 3),)), level(("q", 1))]
    beyond = (("10", "11"), ("20", "21"))
    assert choose_level(beyond, levels, {}, "any") == 1, "the example of 4.5"
    assert choose_level(beyond, levels, {}, "all") == 0
    assert choose_level((("10",), ("20",)), levels, {"20": 3}, "any") == 0, "every level has a failure"
    assert choose_level((), levels, {}, "any") == 0


def test_what_is_beyond_a_broker_leaves_out_the_broker() -> None:
    report = LevelReport(1, 2, (level(names=("c",)), level(names=("d", "e")), level(names=("f",))))
    assert names_beyond(report) == (("d", "e"), ("f",)) and names_beyond(None) == ()
