"""An experiment is two files with one name, in a folder of its family: `e12.py` says what is run and what is measured,
`e12.toml` what was published and how it is judged.

    EXPERIMENT = define(__file__, run=run, variants=VARIANTS, figures=figures, plot=plot)

Its name comes from its place: `lab/transport/recovery/e12.py` is transport/E12. The TOML has

    title = "Recovery over time"
    source = "..."
    question = "..."                                        # experiment.py says what each of these is

    [scales]                                                # parameters of the runs, and how many seeds
    small = { seeds = 5, seconds = 24.0 }
    paper = { seeds = 10, seconds = 300.0 }

    [reasons]                                               # what we believe is why, under a short name
    unseen = "..."

    claims = [ ... ]                                        # above the tables; one line each, in the order of the page:
    { figure = "worst part", says = "...", published = "a half", unit = "times", low = 0.3, high = 0.8, good = "less" },
    { figure = "worst part, one copy", says = "...", published = "curves only", unit = "times", not_judged = "..." },

Every published statement is a claim. A claim has a band with two ends, or says why it is `not_judged`. Of the ends,
`low` and `high` belong to the band, `above` and `below` do not; "less than 1 MB" has its other end where nothing can
lie beyond. `good` says on which side of the band a value is better than what was published; without it neither side is.
`requirement` names where the band comes from; a band without one is our own. `reason` (why it is missed) and `better`
(why it is better) are names of some in `[reasons]`. `least` and `most` say where no value of the figure can lie.

Everything is checked here, once, when the definition is loaded: a name that is not known, a value of the wrong kind, a
band with one end, a requirement without a band, a reason that is not there or that nobody names, too few seeds for an
interval. The error names the file and the claim.
"""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tidings.lab.experiment import (
    Band,
    Canvas,
    Claim,
    DataFrame,
    Experiment,
    Measured,
    Parameter,
    Scale,
    Side,
    Unit,
    Variant,
)
from tidings.model.errors import UsageError
from tidings.trace.writer import Writer

LAB = Path(__file__).parent

SEEDS_MIN = 5
"""Fewer give an interval that says nothing."""

Run = Callable[[str, Mapping[str, Any], int, Writer], Mapping[str, float]]


class ClaimLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A claim as it is written down."""

    figure: str
    says: str
    published: str
    groups: tuple[str, ...] = ()
    unit: Unit = "number"
    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    good: Side | None = None
    not_judged: str = ""
    requirement: str | None = None
    reason: str = ""
    better: str = ""
    least: float | None = None
    most: float | None = None


class PublishedPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The TOML of an experiment; claims are read one by one, so that an error can name its claim."""

    title: str
    source: str
    question: str
    scales: dict[str, dict[str, Parameter]]
    claims: list[dict[str, Any]]
    reasons: dict[str, str] = {}


def define(
    file: str,
    *,
    run: Run,
    variants: tuple[Variant, ...],
    figures: Callable[[DataFrame, DataFrame], DataFrame],
    plot: Callable[[Canvas, Sequence[Measured]], None],
    sweep: str = "",
    setting: type[msgspec.Struct] | None = None,
) -> Experiment:
    """`file` is the `__file__` of the definition; `setting` a struct of all parameters of a run, with their
    defaults."""
    path = Path(file).with_suffix(".toml")
    part = read_part(path)
    named = {line.get(field) for line in part.claims for field in ("reason", "better")}
    if idle := [reason for reason in part.reasons if reason not in named]:
        raise UsageError(f"{path}: no claim names the reason {idle[0]}")
    return Experiment(
        id=id_of(path),
        title=part.title,
        source=part.source,
        question=part.question,
        scales={name: scale_of(path, name, scale) for name, scale in part.scales.items()},
        claims=tuple(claim_of(path, place, line, part.reasons) for place, line in enumerate(part.claims, 1)),
        run=f"{run.__module__}:{run.__name__}",
        variants=variants,
        figures=figures,
        plot=plot,
        sweep=sweep,
        defaults={} if setting is None else msgspec.structs.asdict(setting()),
    )


def id_of(path: Path) -> str:
    is_numbered = re.fullmatch(r"e\d+", path.stem)
    family = path.relative_to(LAB).parts[0].replace("_", "-")
    return f"{family}/{path.stem.upper() if is_numbered else path.stem}"


def read_part(path: Path) -> PublishedPart:
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), PublishedPart)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{path}: {error}") from None


def scale_of(path: Path, name: str, parameters: Mapping[str, Parameter]) -> Scale:
    match parameters.get("seeds"):
        case int(seeds) if seeds >= SEEDS_MIN:
            return Scale({key: value for key, value in parameters.items() if key != "seeds"}, seeds)
    raise UsageError(f"{path}, scale {name}: say how many seeds, at least seeds = {SEEDS_MIN}")


def claim_of(path: Path, place: int, table: Mapping[str, Any], reasons: Mapping[str, str]) -> Claim:
    where = f"{path}, claim {place} ({table.get('figure', 'without a figure')})"
    try:
        line = msgspec.convert(table, ClaimLine)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {error}") from None
    band = Band(low=line.low, high=line.high, above=line.above, below=line.below)
    has_band = band != Band()
    if has_band == bool(line.not_judged):
        raise UsageError(f'{where}: give it a band with two ends, or say why not: not_judged = "..."')
    if has_band and not band.has_both_ends:
        raise UsageError(f"{where}: a band has two ends, one of low and above, one of high and below")
    if line.requirement is not None and not re.fullmatch(r"[STDP]-\d+[a-z]?", line.requirement):
        raise UsageError(f"{where}: the requirement {line.requirement} is none, they are called such as S-118")
    if not has_band and (line.requirement or line.good or line.reason or line.better):
        raise UsageError(f"{where}: what is not judged has no requirement, no good side and no reason")
    if line.better and line.good is None:
        raise UsageError(f"{where}: what may be better says on which side: good = 'less' or good = 'more'")
    for name in (line.reason, line.better):
        if name and name not in reasons:
            raise UsageError(f"{where}: the reason {name} is not in [reasons]")
    return Claim(
        figure=line.figure,
        says=line.says,
        published=line.published,
        unit=line.unit,
        groups=line.groups,
        band=band if has_band else None,
        good=line.good,
        not_judged=line.not_judged,
        requirement=line.requirement,
        reason=reasons.get(line.reason, ""),
        better=reasons.get(line.better, ""),
        least=line.least,
        most=line.most,
    )
