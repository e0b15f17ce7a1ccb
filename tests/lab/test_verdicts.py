"""From figures to verdicts and their text, without Spark."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.lab.experiment import Band, Claim, Measured, Unit
from tidings.lab.verdicts import band_text, in_order_of_claims, judge, measured_text, natural, value_text, verdict_of

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


def test_a_verdict_is_about_the_mean_and_certain_where_the_interval_agrees() -> None:
    band = Band(high=0.05)
    assert verdict_of(band, measured(0.04, 0.03, 0.05)) == ("reached", True)
    assert verdict_of(band, measured(0.04, 0.03, 0.06)) == ("reached", False)
    assert verdict_of(band, measured(0.06, 0.04, 0.08)) == ("missed", False)
    assert verdict_of(band, measured(0.06, 0.055, 0.065)) == ("missed", True)


def test_one_run_alone_is_never_certain() -> None:
    assert verdict_of(Band(high=0.05), measured(0.04)) == ("reached", False)


def test_without_a_band_a_value_is_reported_and_without_a_value_nothing_is_measured() -> None:
    assert verdict_of(None, measured(1.0))[0] == "reported"
    assert verdict_of(Band(low=0), None)[0] == verdict_of(None, None)[0] == "not measured"


@given(numbers, numbers, numbers)
def test_widening_a_band_never_turns_reached_into_missed(value: float, low: float, more: float) -> None:
    if verdict_of(Band(low=low), measured(value))[0] == "reached":
        assert verdict_of(Band(low=low - abs(more)), measured(value))[0] == "reached"


def test_a_claim_has_a_line_for_each_of_its_groups_in_natural_order() -> None:
    found = [measured(1, group=group) for group in ("10 joins", "5 joins", "15 joins")]
    all_groups = Claim(figure="cost", says="cost", published="low", band=Band(high=2))
    one_group = Claim(figure="cost", says="cost", published="low", groups=("15 joins", "20 joins"))
    assert [line.group for line in judge([all_groups], found)] == ["5 joins", "10 joins", "15 joins"]
    assert [(line.group, line.verdict) for line in judge([one_group], found)] == [
        ("15 joins", "reported"),
        ("20 joins", "not measured"),
    ]


def test_the_reason_stands_only_where_the_band_was_missed() -> None:
    claim = Claim(figure="cost", says="cost", published="low", band=Band(high=1), reason="it is dear")
    assert [judge([claim], [measured(value)])[0].reason for value in (0.5, 1.5)] == ["", "it is dear"]


def test_a_doubtful_verdict_has_a_question_mark() -> None:
    claim = Claim(figure="cost", says="cost", published="low", band=Band(high=1))
    texts = [judge([claim], [measured(0.9, 0.8, end)])[0].verdict_text for end in (0.95, 1.1)]
    assert texts == ["reached", "reached?"]


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
    assert band_text(Band(low=-0.05, high=0.05), "change") == "at least -5 %, at most +5 %"
    assert band_text(Band(above=3), "times") == "more than 3 times"
    assert band_text(Band(low=1, high=1), "times") == "1 times"


def test_figures_come_in_the_order_of_the_claims_and_others_last() -> None:
    claims = [Claim(figure=name, says="", published="") for name in ("late", "cost")]
    found = [Measured(name, "", 1.0, None, None, 1) for name in ("cost", "another", "late")]
    assert [each.figure for each in in_order_of_claims(claims, found)] == ["late", "cost", "another"]


@given(st.lists(st.text(max_size=8)))
def test_natural_order_compares_any_texts_and_numbers_by_size(texts: list[str]) -> None:
    ordered = sorted([*texts, "5 x", "10 x"], key=natural)
    assert ordered.index("5 x") < ordered.index("10 x")
