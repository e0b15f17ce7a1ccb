"""From figures to verdicts and their text, without Spark."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.lab.experiment import Band, Claim, Measured, Side, Unit, Verdict
from tidings.lab.verdicts import band_text, in_order_of_claims, judge, measured_text, natural, value_text, verdict_of
from tidings.model.errors import UsageError

numbers = st.floats(-1e6, 1e6)


def measured(value: float, low: float | None = None, high: float | None = None, group: str = "") -> Measured:
    return Measured("cost", group, value, low, high, 5)


@pytest.mark.parametrize(
    ("band", "inside", "outside"),
    [
        (Band(low=1), [1, 2], [0.999]),
        (Band(high=1), [1, 0], [1.001]),
        (Band(above=0), [1e-9], [0, -1]),
        (Band(below=0), [-1e-9], [0, 1]),
        (Band(low=-0.05, high=0.05), [-0.05, 0, 0.05], [-0.051, 0.051]),
    ],
)
def test_a_band_holds_its_ends_unless_they_are_left_out(band: Band, inside: list[float], outside: list[float]) -> None:
    assert all(map(band.holds, inside))
    assert not any(map(band.holds, outside))


def claim(good: Side | None = None, band: Band | None = None, **more: Any) -> Claim:
    return Claim(
        figure="cost",
        says="cost",
        published="about 1",
        band=band or Band(low=0.8, high=1.2),
        good=good,
        reason="it is dear",
        better="it is cheap",
        **more,
    )


@pytest.mark.parametrize(
    ("low", "high", "good", "verdict", "why"),
    [
        (0.8, 1.2, None, "reproduced", ""),
        (0.9, 0.9, "less", "reproduced", ""),
        (0.5, 0.79, "less", "better", "it is cheap"),
        (0.5, 0.79, "more", "missed", "it is dear"),
        (0.5, 0.79, None, "missed", "it is dear"),
        (1.21, 9.0, "more", "better", "it is cheap"),
        (1.21, 9.0, "less", "missed", "it is dear"),
        (0.7, 0.9, "less", "undecided", "reproduced or better: other seeds would tell"),
        (0.7, 0.9, None, "undecided", "reproduced or missed: other seeds would tell"),
        (1.1, 1.3, "less", "undecided", "reproduced or missed: other seeds would tell"),
        (0.7, 1.3, "more", "undecided", "the interval is wider than the band"),
    ],
)
def test_a_verdict_is_about_the_whole_interval(
    low: float, high: float, good: Side | None, verdict: Verdict, why: str
) -> None:
    assert verdict_of(claim(good), measured((low + high) / 2, low, high)) == (verdict, why)


def test_an_end_that_does_not_belong_to_the_band_is_outside() -> None:
    between = claim(band=Band(above=0, below=1))
    assert verdict_of(between, measured(0.5, 0.1, 0.9))[0] == "reproduced"
    assert verdict_of(between, measured(0.5, 0.0, 0.9))[0] == "undecided"
    assert verdict_of(between, measured(0.0, 0.0, 0.0))[0] == "missed"


def test_one_run_alone_decides_nothing() -> None:
    assert verdict_of(claim(), measured(1.0)) == ("undecided", "one run has no interval")


def test_what_has_no_band_says_why_it_is_not_judged_and_so_does_what_was_not_measured() -> None:
    plain = Claim(figure="cost", says="cost", published="a curve", not_judged="curves only")
    assert verdict_of(plain, measured(1.0, 0.9, 1.1)) == ("not judged", "curves only")
    assert verdict_of(claim(), None) == ("not judged", "nothing was measured")


def test_where_no_reason_is_known_the_verdict_says_so() -> None:
    bare = Claim(figure="cost", says="cost", published="1", band=Band(low=0.8, high=1.2), good="less")
    assert [verdict_of(bare, measured(value, value, value)) for value in (2.0, 0.5)] == [
        ("missed", "we do not know why"),
        ("better", "we do not know why"),
    ]


def test_an_interval_ends_where_no_value_can_lie() -> None:
    share = claim(band=Band(low=0.95, high=1.0), unit="share")
    [line] = judge([share], [measured(0.99, 0.97, 1.01)])
    assert (line.verdict, line.low, line.high) == ("reproduced", 0.97, 1.0)
    [line] = judge([claim(band=Band(low=0, high=5), least=0)], [measured(1.0, -1.0, 3.0)])
    assert (line.verdict, line.low, line.high) == ("reproduced", 0.0, 3.0)
    with pytest.raises(UsageError, match=r"cost .* is 1.2, which its claim says is impossible: its unit is share"):
        judge([share], [measured(1.2, 1.1, 1.3)])


@given(numbers, numbers, numbers, numbers, st.sampled_from((None, "less", "more")))
def test_widening_a_band_never_loses_what_was_reproduced(
    one: float, other: float, low: float, more: float, good: Side | None
) -> None:
    found = measured((one + other) / 2, min(one, other), max(one, other))
    narrow, wide = Band(low=low, high=low + abs(more)), Band(low=low - abs(more), high=low + 2 * abs(more))
    if verdict_of(claim(good, narrow), found)[0] == "reproduced":
        assert verdict_of(claim(good, wide), found)[0] == "reproduced"


@given(numbers, numbers, numbers, numbers)
def test_a_mirrored_claim_has_the_mirrored_verdict(one: float, other: float, end: float, more: float) -> None:
    found = measured((one + other) / 2, min(one, other), max(one, other))
    mirror = measured(-found.value, -max(one, other), -min(one, other))
    band, mirrored = Band(low=end, high=end + abs(more)), Band(low=-end - abs(more), high=-end)
    assert verdict_of(claim("less", band), found) == verdict_of(claim("more", mirrored), mirror)


def test_a_claim_has_a_line_for_each_of_its_groups_in_natural_order() -> None:
    found = [measured(1, 1, 1, group=group) for group in ("10 joins", "5 joins", "15 joins")]
    one_group = claim(groups=("15 joins", "20 joins"))
    assert [line.group for line in judge([claim()], found)] == ["5 joins", "10 joins", "15 joins"]
    assert [(line.group, line.verdict, line.runs) for line in judge([one_group], found)] == [
        ("15 joins", "reproduced", 5),
        ("20 joins", "not judged", 0),
    ]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0503, "change", "+5.03 %"),
        (-0.002, "change", "-0.20 %"),
        (0.0, "change", "0 %"),
        (0.19, "share", "19 %"),
        (0.0333, "points", "+3.33 points"),
        (0.112, "seconds", "112 ms"),
        (2.5, "seconds", "2.50 s"),
        (7.345, "times", "7.34 times"),
        (12345.6, "number", "12,346"),
        (0.00012, "number", "0.00012"),
    ],
)
def test_values_are_written_with_three_digits_and_their_unit(value: float, unit: Unit, text: str) -> None:
    assert value_text(value, unit) == text


def test_an_interval_is_written_in_the_unit_of_the_value() -> None:
    assert measured_text(0.98, 0.9, 1.06, "seconds") == "980 ms (900 to 1,060)"
    assert measured_text(0.5, None, None, "share") == "50 %"
    assert measured_text(None, None, None, "share") == "-"


def test_a_band_is_written_in_words() -> None:
    assert band_text(Band(low=-0.05, high=0.05), "change") == "-5 to +5 %"
    assert band_text(Band(low=0.1, high=1.5), "seconds") == "0.10 to 1.50 s"
    assert band_text(Band(above=3, high=15), "times") == "more than 3 times, at most 15 times"
    assert band_text(Band(low=1, high=1), "times") == "1 times"


def test_figures_come_in_the_order_of_the_claims_and_others_last() -> None:
    claims = [Claim(figure=name, says="", published="") for name in ("late", "cost")]
    found = [Measured(name, "", 1.0, None, None, 1) for name in ("cost", "another", "late")]
    assert [each.figure for each in in_order_of_claims(claims, found)] == ["late", "cost", "another"]


@given(st.lists(st.text(max_size=8)))
def test_natural_order_compares_any_texts_and_numbers_by_size(texts: list[str]) -> None:
    ordered = sorted([*texts, "5 x", "10 x"], key=natural)
    assert ordered.index("5 x") < ordered.index("10 x")
