"""From figures to verdicts: what was claimed, what was measured, and whether that is within the band.

A verdict is about the mean over the seeds. Where the confidence interval of the mean reaches over an end of the band,
other seeds might have given the other verdict; it is then called not certain, and the table says so. With a single run
there is no interval, so nothing that is judged is certain.
"""

import re
from collections.abc import Iterable, Sequence

import msgspec

from tidings.lab.experiment import Band, Claim, Measured, Unit, Verdict


class ClaimJudgement(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the table of an experiment."""

    says: str
    group: str
    figure: str
    published: str
    unit: Unit
    value: float | None
    low: float | None
    high: float | None
    runs: int
    band: str
    verdict: Verdict
    is_certain: bool
    requirement: str | None
    reason: str
    """Where the band was missed, what we believe is why."""

    @property
    def measured(self) -> str:
        return measured_text(self.value, self.low, self.high, self.unit)

    @property
    def verdict_text(self) -> str:
        return self.verdict if self.is_certain or self.verdict not in ("reached", "missed") else f"{self.verdict}?"


def judge(claims: Iterable[Claim], measured: Sequence[Measured]) -> list[ClaimJudgement]:
    """In the order of the claims; each group that a claim is about has a line of its own."""
    return [line for claim in claims for line in judge_claim(claim, measured)]


def judge_claim(claim: Claim, measured: Sequence[Measured]) -> list[ClaimJudgement]:
    found = {each.group: each for each in measured if each.figure == claim.figure}
    groups = claim.groups or sorted(found, key=natural) or ("",)
    return [judge_group(claim, group, found.get(group)) for group in groups]


def judge_group(claim: Claim, group: str, measured: Measured | None) -> ClaimJudgement:
    verdict, is_certain = verdict_of(claim.band, measured)
    return ClaimJudgement(
        says=claim.says,
        group=group,
        figure=claim.figure,
        published=claim.published,
        unit=claim.unit,
        value=None if measured is None else measured.value,
        low=None if measured is None else measured.low,
        high=None if measured is None else measured.high,
        runs=0 if measured is None else measured.runs,
        band=whose_band(claim),
        verdict=verdict,
        is_certain=is_certain,
        requirement=claim.requirement,
        reason=claim.reason if verdict == "missed" else "",
    )


def verdict_of(band: Band | None, measured: Measured | None) -> tuple[Verdict, bool]:
    """And whether it is certain."""
    if measured is None:
        return "not measured", False
    if band is None:
        return "reported", False
    holds = band.holds(measured.value)
    ends = [end for end in (measured.low, measured.high) if end is not None]
    return "reached" if holds else "missed", bool(ends) and all(band.holds(end) == holds for end in ends)


def in_order_of_claims(claims: Iterable[Claim], measured: Iterable[Measured]) -> list[Measured]:
    """Figures without a claim come last."""
    places = {figure: place for place, figure in enumerate(dict.fromkeys(claim.figure for claim in claims))}
    return sorted(measured, key=lambda each: (places.get(each.figure, len(places)), each.figure, natural(each.group)))


def natural(text: str) -> list[tuple[int, str]]:
    """A key that puts "5 joins" before "10 joins"."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", text)]


# How values are written.


def value_text(value: float, unit: Unit) -> str:
    number, name = number_and_unit(value, unit, value)
    return f"{number} {name}".rstrip()


def number_and_unit(value: float, unit: Unit, like: float) -> tuple[str, str]:
    """`like` decides whether seconds are written as milliseconds."""
    match unit:
        case "share":
            return three_digits(value * 100), "%"
        case "change":
            return signed(value * 100), "%"
        case "points":
            return signed(value * 100), "points"
        case "seconds" if abs(like) < 1:
            return three_digits(value * 1000), "ms"
        case "seconds":
            return three_digits(value), "s"
        case "times":
            return three_digits(value), "times"
        case "number":
            return three_digits(value), ""


def three_digits(value: float) -> str:
    """Three significant digits, without an exponent."""
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.1 else f"{value:.3g}"


def signed(value: float) -> str:
    return ("+" if value > 0 else "") + three_digits(value)


def measured_text(value: float | None, low: float | None, high: float | None, unit: Unit) -> str:
    """With the interval, unless there is none or nothing in it."""
    if value is None:
        return "-"
    if low is None or high is None or low == high:
        return value_text(value, unit)
    ends = [number_and_unit(end, unit, value)[0] for end in (low, high)]
    return f"{value_text(value, unit)} ({' to '.join(ends)})"


def whose_band(claim: Claim) -> str:
    """With the requirement that it comes from."""
    if claim.band is None:
        return ""
    text = band_text(claim.band, claim.unit)
    return text if claim.requirement is None else f"{text} ({claim.requirement})"


def band_text(band: Band, unit: Unit) -> str:
    if band.low is not None and band.low == band.high:
        return value_text(band.low, unit)
    ends = (
        ("at least ", band.low),
        ("more than ", band.above),
        ("at most ", band.high),
        ("less than ", band.below),
    )
    return ", ".join(word + value_text(end, unit) for word, end in ends if end is not None)
