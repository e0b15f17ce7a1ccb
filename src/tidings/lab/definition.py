"""An experiment is two files with one name, in a folder of its family: `e12.py` says what is run and what is measured,
`e12.toml` what was published and how it is judged.

    EXPERIMENT = define(__file__, run=run, variants=VARIANTS, figures=figures, plot=plot)

Its name comes from its place: `lab/transport/recovery/e12.py` is transport/E12. The TOML has

    title = "Recovery over time"
    source = "..."
    question = "..."                                        # experiment.py says what each of these is

    [scales]                                                # parameters of the runs, and how many seeds
    small = { seeds = 2, seconds = 24.0 }
    paper = { seeds = 5, seconds = 300.0 }

    [reasons]                                               # why we believe a band is missed, under a short name
    unseen = "..."

    claims = [ ... ]                                        # above the tables; one line each, in the order of the page:
    { figure = "worst part", groups = ["12 brokers"], says = "...", published = "a half", unit = "times", high = 0.8 },

A claim is judged if it has ends of a band: low and high belong to it, above and below do not. `requirement` names where
the band comes from; a band without one is our own. `reason` is the name of one in `[reasons]`.

Everything is checked here, once, when the definition is loaded: a name that is not known, a value of the wrong kind, a
requirement without a band, a reason that is not there. The error names the file and the claim.
"""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tidings.lab.experiment import Band, Canvas, Claim, DataFrame, Experiment, Measured, Parameter, Scale, Unit, Variant
from tidings.model.errors import UsageError
from tidings.trace.writer import Writer

LAB = Path(__file__).parent

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
    requirement: str | None = None
    reason: str = ""


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
) -> Experiment:
    """`file` is the `__file__` of the definition."""
    path = Path(file).with_suffix(".toml")
    part = read_part(path)
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
    )


def id_of(path: Path) -> str:
    is_numbered = re.fullmatch(r"e\d+", path.stem)
    return f"{path.relative_to(LAB).parts[0]}/{path.stem.upper() if is_numbered else path.stem}"


def read_part(path: Path) -> PublishedPart:
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), PublishedPart)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{path}: {error}") from None


def scale_of(path: Path, name: str, parameters: Mapping[str, Parameter]) -> Scale:
    match parameters.get("seeds"):
        case int(seeds) if seeds > 0:
            return Scale({key: value for key, value in parameters.items() if key != "seeds"}, seeds)
    raise UsageError(f"{path}, scale {name}: say how many seeds, such as seeds = 3")


def claim_of(path: Path, place: int, table: Mapping[str, Any], reasons: Mapping[str, str]) -> Claim:
    where = f"{path}, claim {place} ({table.get('figure', 'without a figure')})"
    try:
        line = msgspec.convert(table, ClaimLine)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {error}") from None
    band = Band(low=line.low, high=line.high, above=line.above, below=line.below)
    if line.requirement is not None and not re.fullmatch(r"[STDP]-\d+", line.requirement):
        raise UsageError(f"{where}: the requirement {line.requirement} is none, they are called such as S-118")
    if line.requirement is not None and band == Band():
        raise UsageError(f"{where}: what a requirement is named for needs a band: low, high, above or below")
    if line.reason and line.reason not in reasons:
        raise UsageError(f"{where}: the reason {line.reason} is not in [reasons]")
    return Claim(
        figure=line.figure,
        says=line.says,
        published=line.published,
        unit=line.unit,
        groups=line.groups,
        band=None if band == Band() else band,
        requirement=line.requirement,
        reason=reasons.get(line.reason, ""),
    )
