"""The judge of a nemesis: it finds every promise that is broken, and decides by itself what a filter means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.language.parser import parse
from tidings.workloads.nemesis.campaign import CampaignParams, draw_campaign, payload_of
from tidings.workloads.nemesis.judged import BrokenPromise
from tidings.workloads.nemesis.promise import PromiseJudge
from tidings.workloads.nemesis.wish import (
    EVERYTHING,
    Comparison,
    Membership,
    Negation,
    draw_attributes,
    draw_wish,
    is_wanted,
)

KIND_A = Comparison("kind", "=", "a")
KEY = "subscription"


@given(st.integers(0, 2**32))
def test_a_wish_means_what_its_text_means_to_a_broker(seed: int) -> None:
    rng = random_stream(seed, "wishes")
    wish = draw_wish(rng)
    filter = parse(wish.text())
    for place in range(10):
        attributes = {"id": f"e{place}", **draw_attributes(rng)}
        assert filter.matches(Event(attributes)) is is_wanted(wish, attributes), f"{wish.text()} of {attributes}"


def test_what_is_absent_or_reads_otherwise_is_unknown_and_stays_so() -> None:
    assert Comparison("x", ">", 5).answer({}) is None
    assert Negation(Comparison("x", ">", 5)).answer({"x": "IBM"}) is None
    assert Comparison("x", "=", 5).answer({"x": "05"}) is True
    assert Membership("flag", (True, "false")).answer({"flag": "true"}) is True
    assert Comparison("x", ">", 5, "y").answer({"x": 3, "y": "4"}) is True


def test_a_campaign_is_a_matter_of_its_seed_alone() -> None:
    assert draw_campaign(CampaignParams(), 7) == draw_campaign(CampaignParams(), 7)
    assert draw_campaign(CampaignParams(), 7) != draw_campaign(CampaignParams(), 8)
    without = CampaignParams(is_bulk=False, has_tables=False)
    for seed in range(100):
        scale = draw_campaign(CampaignParams(), seed).scale
        assert draw_campaign(without, seed).scale == ("usual" if scale in ("bulk", "tables") else scale)
    with pytest.raises(UsageError, match="scale"):
        CampaignParams(scale="vast")


def judge_of(*events: tuple[str, str], guarantee: str = "installed", may_forget: bool = False) -> PromiseJudge:
    """A writer `w` and its events, by id and kind, and a reader that was promised them."""
    judge = PromiseJudge(may_forget)
    judge.subscribed(KEY, "r", KIND_A, guarantee)
    judge.confirmed(KEY, 1.0)
    judge.begun("w", 1)
    for id, kind in events:
        judge.published(id, "w", 2.0, {"id": id, "kind": kind}, payload_of(id, 9), EVERYTHING)
        judge.accepted(id)
    return judge


def arrive(judge: PromiseJudge, id: str, kind: str = "a") -> BrokenPromise | None:
    return judge.arrived(KEY, "w", {"id": id, "kind": kind}, payload_of(id, 9))


def promises(judge: PromiseJudge) -> list[str]:
    return [finding.promise for finding in judge.at_end()]


def test_what_arrives_once_in_order_and_is_wanted_is_fine() -> None:
    judge = judge_of(("1", "a"), ("2", "b"), ("3", "a"))
    assert arrive(judge, "1") is arrive(judge, "3") is None
    assert judge.at_end() == []
    assert judge.figures()["deliveries"] == 2


def test_a_delivery_that_breaks_a_promise_is_found_at_once() -> None:
    judge = judge_of(("1", "a"), ("2", "b"), ("3", "a"))
    other = judge.arrived(KEY, "w", {"id": "1", "kind": "a"}, b"something else")
    findings = [arrive(judge, "9"), arrive(judge, "2", "b"), other, arrive(judge, "3"), arrive(judge, "3")]
    findings.append(arrive(judge, "1"))
    assert [finding and finding.promise for finding in findings] == [
        "nothing false",
        "nothing unwanted",
        "nothing false",
        None,
        "nothing twice",
        "order",
    ]


def test_nothing_comes_before_the_receipt_of_an_installed_subscription() -> None:
    judge = judge_of(("1", "a"))
    judge.subscribed(KEY, "r", KIND_A, "installed")
    finding = arrive(judge, "1")
    assert finding is not None and finding.promise == "receipt first"


def test_what_is_missing_is_found_unless_the_reader_was_told_so() -> None:
    judge = judge_of(("1", "a"), ("2", "a"))
    assert promises(judge) == ["nothing lost", "nothing lost"]
    judge.missed(KEY, "w", 1, "too slow")
    assert promises(judge) == ["numbers"], "two are missing"
    judge.missed(KEY, "w", 1, "too slow")
    assert promises(judge) == []
    judge.missed(KEY, "w", 1, "too slow")
    assert promises(judge) == ["numbers"], "not that many"


def test_a_number_may_be_an_upper_bound_where_something_is_forgotten() -> None:
    judge = judge_of(("1", "a"), ("2", "b"), may_forget=True)
    judge.missed(KEY, "w", 2, "forgotten; so many at most")
    assert promises(judge) == []


def test_what_was_given_up_for_a_slow_reader_may_come_after_a_break() -> None:
    for is_dropping, found in ((True, []), (False, ["numbers"])):
        judge = judge_of(("1", "a"))
        judge.subscribed(KEY, "r", KIND_A, "installed", None, is_dropping)
        judge.confirmed(KEY, 1.0)
        judge.missed(KEY, "w", 1, "too slow")
        judge.interrupted("r")
        arrive(judge, "1")
        assert promises(judge) == found


def test_whoever_is_told_of_a_loss_has_one_unless_nobody_can_know() -> None:
    for may_forget, found in ((False, ["numbers"]), (True, [])):
        judge = judge_of(("1", "a"), may_forget=may_forget)
        arrive(judge, "1")
        judge.missed(KEY, "w", 0, "forgotten")
        assert promises(judge) == found


def test_what_was_not_promised_is_not_owed() -> None:
    judge = judge_of(("1", "a"), ("2", "a"), guarantee="none")
    assert judge.at_end() == []
    judge = judge_of(("1", "a"), ("2", "a"))
    judge.forgot(["w"])
    assert judge.at_end() == []
    judge = judge_of(("1", "a"))
    judge.closed(KEY)
    assert judge.at_end() == []


def test_where_clocks_say_when_the_receipt_was_less_is_owed_and_no_more_than_that() -> None:
    for slack, found in ((0.0, 1), (0.5, 1), (5.0, 0)):
        judge = judge_of(("1", "a"))
        judge.subscribed(KEY, "r", KIND_A, "reference", group="twins", slack=slack)
        judge.confirmed(KEY, 1.0)
        assert len(judge.at_end()) == found


def test_a_writer_hears_of_all_it_published_and_is_declined_what_it_did_not_advertise() -> None:
    judge = judge_of()
    for id, kind in (("1", "a"), ("2", "b"), ("3", "b"), ("4", "a")):
        judge.published(id, "w", 2.0, {"id": id, "kind": kind}, b"", KIND_A)
    judge.accepted("2")
    judge.declined("3", "why not")
    judge.declined("4", "why not")
    assert promises(judge) == ["publications"] * 3
    judge.gone("w")
    assert promises(judge) == ["publications"] * 2, "nobody waits for the first any more"


def test_every_request_is_answered() -> None:
    judge = judge_of()
    judge.asked("a request", "r")
    assert promises(judge) == ["answers"]
    judge.answered("a request")
    assert promises(judge) == []


def test_members_of_a_group_that_come_later_are_owed_what_the_first_got() -> None:
    judge = judge_of()
    for key, reader in (("first", "r1"), ("second", "r2")):
        judge.subscribed(key, reader, KIND_A, "installed", group="twins")
        judge.confirmed(key, 1.0)
        if key == "first":
            for id in ("1", "2"):
                judge.published(id, "w", 0.5, {"id": id, "kind": "a"}, b"", EVERYTHING)
                judge.accepted(id)
            judge.arrived(key, "w", {"id": "2", "kind": "a"}, b"")
    assert [finding.text for finding in judge.at_end()] == ["2 is missing, published at 0.500"]
    judge.arrived("second", "w", {"id": "2", "kind": "a"}, b"")
    assert judge.at_end() == []
    judge.subscribed("third", "r3", KIND_A, "installed", group="twins")
    judge.confirmed("third", 1.0)
    judge.forgot(["w"])
    assert judge.at_end() == [], "nobody knows any more where the group began"


def test_nothing_of_one_tenant_reaches_another() -> None:
    judge = PromiseJudge()
    judge.begun("acme!w", 1)
    for key, reader in (("own", "acme!r"), ("other", "zeta!r")):
        judge.subscribed(key, reader, KIND_A, "installed")
        judge.confirmed(key, 1.0)
    judge.published("1", "acme!w", 2.0, {"id": "1", "kind": "a"}, b"", EVERYTHING)
    judge.accepted("1")
    assert [(finding.promise, finding.who) for finding in judge.at_end()] == [("nothing lost", "acme!r")]
    assert judge.arrived("own", "acme!w", {"id": "1", "kind": "a"}, b"") is None
    crossed = judge.arrived("other", "acme!w", {"id": "1", "kind": "a"}, b"")
    assert crossed is not None and crossed.promise == "tenants"
    judge.missed("other", "acme!w", 1, "too slow")
    assert promises(judge) == ["tenants"]


def test_who_reads_in_the_end_finds_what_was_accepted_or_is_told() -> None:
    judge = judge_of(("1", "b"), ("2", "b"), ("3", "a"))
    arrive(judge, "3")
    readings = judge.readings
    for key, is_last in (("early", False), ("late", True)):
        readings.begun(key, "r", EVERYTHING, is_last)
        found = [readings.read(key, "w", {"id": "2", "kind": "b"}, payload_of("2", 9))]
        found.append(readings.read(key, "w", {"id": "1", "kind": "b"}, payload_of("1", 9)))
        found.append(readings.read(key, "w", {"id": "3", "kind": "a"}, b"something else"))
        assert [each and each.promise for each in found] == [None, "readings", "readings"]
        readings.over(key)
    assert [finding.text for finding in judge.at_end()] == [
        "1 is accepted, and was not found",
        "3 is accepted, and was not found",
    ]
    readings.lacks("late", "w")
    assert judge.at_end() == []
    assert judge.figures()["events read"] == 2
