"""From figures to verdicts: what was claimed, what was measured, and where that lies.

A figure is a mean over seeds, with the 95 % confidence interval of that mean. A verdict is about the whole interval:

| verdict | the interval |
|---|---|
| reproduced | lies within the band |
| better | lies beyond the band on the good side, if the claim has one |
| missed | lies outside on any other side |
| undecided | crosses an end of the band: more seeds would tell; or there is none, since there was one run |
| not judged | does not matter: the claim says why; or nothing was measured |

Where a figure has natural limits (nothing is more than all of it), its interval ends there: the formula for intervals
does not know of them. Each verdict but the first comes with why.
"""

import re
from collections.abc import Iterable, Sequence
from math import inf

import msgspec

from tidings.lab.experiment import LIMITS, Band, Claim, Measured, Side, Unit, Verdict
from tidings.model.errors import UsageError

UNKNOWN = "we do not know why"

ROUNDING = 1e-9
"""By how much a sum of shares may miss the whole."""


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
    requirement: str | None
    why: str
    """What we believe is the reason for what is missed or better; what is undecided; why something is not judged."""

    @property
    def measured(self) -> str:
        return measured_text(self.value, self.low, self.high, self.unit)


def judge(claims: Iterable[Claim], measured: Sequence[Measured]) -> list[ClaimJudgement]:
    """In the order of the claims; each group that a claim is about has a line of its own."""
    return [line for claim in claims for line in judge_claim(claim, measured)]


def judge_claim(claim: Claim, measured: Sequence[Measured]) -> list[ClaimJudgement]:
    found = {each.group: each for each in measured if each.figure == claim.figure}
    groups = claim.groups or sorted(found, key=natural) or ("",)
    return [judge_group(claim, group, found.get(group)) for group in groups]


def judge_group(claim: Claim, group: str, measured: Measured | None) -> ClaimJudgement:
    if measured is not None:
        measured = within_limits(claim, measured)
    verdict, why = verdict_of(claim, measured)
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
        requirement=claim.requirement,
        why=why,
    )


def within_limits(claim: Claim, measured: Measured) -> Measured:
    least, most = LIMITS.get(claim.unit, (-inf, inf))
    least = least if claim.least is None else claim.least
    most = most if claim.most is None else claim.most
    if not least - ROUNDING <= measured.value <= most + ROUNDING:
        raise UsageError(
            f"the figure {claim.figure} ({measured.group}) is {measured.value:g}, which its claim says is impossible: "
            f"its unit is {claim.unit}, from {least:g} to {most:g}"
        )
    if measured.low is None or measured.high is None:
        return measured
    return msgspec.structs.replace(measured, low=max(measured.low, least), high=min(measured.high, most))


def verdict_of(claim: Claim, measured: Measured | None) -> tuple[Verdict, str]:
    """And why."""
    if measured is None:
        return "not judged", claim.not_judged or "nothing was measured"
    if claim.band is None:
        return "not judged", claim.not_judged
    if measured.low is None or measured.high is None:
        return "undecided", "one run has no interval"
    short = [claim.band.is_short_of(end) for end in (measured.low, measured.high)]
    beyond = [claim.band.is_beyond(end) for end in (measured.low, measured.high)]
    if not any(short) and not any(beyond):
        return "reproduced", ""
    if all(short) or all(beyond):
        side: Side = "less" if all(short) else "more"
        return ("better", claim.better or UNKNOWN) if side == claim.good else ("missed", claim.reason or UNKNOWN)
    if any(short) and any(beyond):
        return "undecided", "the interval is wider than the band"
    side = "less" if any(short) else "more"
    return "undecided", f"reproduced or {'better' if side == claim.good else 'missed'}: other seeds would tell"


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
        case "share" | "ratio":
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
    text = band_text(claim.band, claim.unit) + (f", {claim.good} is better" if claim.good else "")
    return text if claim.requirement is None else f"{text} ({claim.requirement})"


def band_text(band: Band, unit: Unit) -> str:
    if band.low is not None and band.low == band.high:
        return value_text(band.low, unit)
    if band.low is not None and band.high is not None:
        low, name = number_and_unit(band.low, unit, band.high)
        return f"{low} to {number_and_unit(band.high, unit, band.high)[0]} {name}".rstrip()
    ends = (
        ("at least ", band.low),
        ("more than ", band.above),
        ("at most ", band.high),
        ("less than ", band.below),
    )
    return ", ".join(word + value_text(end, unit) for word, end in ends if end is not None)
