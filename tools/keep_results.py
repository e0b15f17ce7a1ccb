"""Keeps what the lab measured: `python tools/keep_results.py LAB_RESULTS COMMIT "WHAT IT RAN ON"`; without arguments it
writes the pages anew from what is kept.

Kept are figures, and nothing that follows from them. For each experiment in the folder they are copied from its
`figures.parquet`, as far as a claim is about them, into `docs/results/FAMILY-EXPERIMENT-SCALE.csv`, with the commit and
what it ran on. Traces are not kept; the same seeds give the same again.

Verdicts, bands and reasons are those of the definitions as they are now: `docs/results/index.md` is written from the
tables, every line of every experiment, with n and interval. In other pages each table between the marks
`<!-- results FAMILY/EXPERIMENT ... -->` and `<!-- end of results -->` has the judged lines of these experiments; with
`<!-- figures FAMILY/EXPERIMENT: FIGURE, ...; GROUP, ... -->` it has these figures of these groups. So no figure of a
table is typed, and a test finds pages that are older than the tables or the definitions.

A picture `images/lab/FAMILY-EXPERIMENT-SCALE.svg` that a page shows is drawn from what is kept, by the experiment's own
plot; of such an experiment all figures are kept. `python tools/keep_results.py` draws it anew, which takes matplotlib.
"""

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from re import DOTALL, Match, compile
from tempfile import TemporaryDirectory

from tidings.lab.experiment import Experiment, Measured
from tidings.lab.registry import built, find, place
from tidings.lab.verdicts import ClaimJudgement, judge, value_text

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = DOCS / "results"
PAGE = RESULTS / "index.md"
COLUMNS = ("figure", "group", "value", "low", "high", "runs", "commit", "made_on")
SCALES = ("small", "paper")
BLOCK = compile(r"(<!-- (results|figures) ([^\n]*?) -->\n).*?(<!-- end of results -->)", DOTALL)
PICTURE = compile(r"\]\([./]*images/lab/([\w-]+)\.svg\)")
PICTURES = DOCS / "images" / "lab"
HEADER = """# Results

What the lab measured, by the definitions as they are: `tidings lab run` with at least five seeds each, kept by
`tools/keep_results.py` as figures (`FAMILY-EXPERIMENT-SCALE.csv` beside this page), from which this page is written. n
is the number of runs; the interval is that of the mean, at 95 %; a verdict is about the whole interval
([the lab](../guide/lab.md)). Scale small is what two cores hold in minutes, and each definition says how it was scaled
down; paper is as published. Of what is not kept, the command that runs it is told.
"""


class Kept:
    """What is kept of an experiment at a scale."""

    def __init__(self, path: Path) -> None:
        self.name = path.stem
        family, number, self.scale = path.stem.rsplit("-", 2)
        self.experiment: Experiment = find(f"{family}/{number}")
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.commit, self.made_on = rows[0]["commit"], rows[0]["made_on"]
        self.measured = [measured_of(row) for row in rows]

    @property
    def judgements(self) -> list[ClaimJudgement]:
        return judge(self.experiment.claims, self.measured)

    @property
    def runs(self) -> int:
        return max(each.runs for each in self.measured)


def measured_of(row: dict[str, str]) -> Measured:
    low, high = (float(row[name]) if row[name] else None for name in ("low", "high"))
    return Measured(row["figure"], row["group"], float(row["value"]), low, high, int(row["runs"]))


def keep(folder: Path, commit: str, made_on: str) -> None:
    from pyarrow import parquet

    shown = names_of_pictures()
    for order_path in sorted(folder.glob("*/*/*/order.json")):
        figures = order_path.with_name("figures.parquet")
        if not figures.exists():
            continue
        order = json.loads(order_path.read_text())
        claimed = {claim.figure for claim in find(order["experiment"]).claims}
        name = f"{order['experiment'].replace('/', '-')}-{order['scale']}"
        every = parquet.read_table(figures, partitioning=None).to_pylist()
        rows = [row for row in every if name in shown or row["figure"] in claimed]
        with (RESULTS / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows({**row, "commit": commit, "made_on": made_on} for row in rows)


def all_kept() -> list[Kept]:
    """Experiment by experiment, small scales first."""
    tables = [Kept(path) for path in RESULTS.glob("*.csv")]
    return sorted(tables, key=lambda each: (place(each.experiment), SCALES.index(each.scale)))


# The page of results.


def page(tables: Sequence[Kept]) -> str:
    return "\n".join([HEADER, *overview(tables), *(line for each in tables for line in section(each))])


def overview(tables: Sequence[Kept]) -> Iterator[str]:
    """Which experiments were run, and how the others are."""
    found = {(each.experiment.id, each.scale): each for each in tables}
    yield "| experiment | small | paper |\n|---|---|---|"
    for id, experiment in built().items():
        cells = [f"{id}: {experiment.title}"]
        for scale in SCALES:
            kept = found.get((id, scale))
            command = f"`tidings lab run {id}{'' if scale == SCALES[0] else f' --scale {scale}'}`"
            cells.append(f"n = {kept.runs}, {kept.commit}" if kept else f"not kept: {command}")
        yield f"| {' | '.join(cells)} |"
    yield ""


def section(kept: Kept) -> Iterator[str]:
    experiment = kept.experiment
    yield f"## {experiment.id}{'' if kept.scale == SCALES[0] else f', {kept.scale}'}: {experiment.title}\n"
    yield f"Scale {kept.scale}; commit {kept.commit}; {kept.made_on}.\n"
    yield "| | published | measured | n | band | verdict |\n|---|---|---|---:|---|---|"
    for line in kept.judgements:
        says = f"{line.says} ({line.group})" if line.group else line.says
        verdict = f"{line.verdict}: {line.why}" if line.why else line.verdict
        yield f"| {' | '.join((says, line.published, line.measured, str(line.runs), line.band, verdict))} |"
    yield ""


# Tables in other pages.


def filled(text: str, tables: Sequence[Kept]) -> str:
    """A page with its tables as they are now."""

    def table(match: Match[str]) -> str:
        wanted = match[3]
        made = short_table(wanted.split(), tables) if match[2] == "results" else figure_table(wanted, tables)
        return f"{match[1]}\n{made}\n{match[4]}"

    return BLOCK.sub(table, text)


def short_table(ids: Sequence[str], tables: Sequence[Kept]) -> str:
    """A line for each claim of these experiments that is judged; its groups beside each other, without intervals."""
    lines = ["| | published | measured | band | |", "|---|---|---|---|---|"]
    for id in ids:
        find(id)
        mine = [each for each in tables if each.experiment.id == id]
        if not mine:
            lines.append(f"| {id.partition('/')[2]} | | not kept: `tidings lab run {id}` | | |")
        for kept in mine:
            lines += short_lines(kept)
    return "\n".join([*lines, ""])


def short_lines(kept: Kept) -> Iterator[str]:
    judged = [each for each in kept.judgements if each.verdict != "not judged"]
    number = kept.experiment.id.partition("/")[2] + ("" if kept.scale == SCALES[0] else f", {kept.scale}")
    for (says, published, band), group in groupby(judged, key=lambda each: (each.says, each.published, each.band)):
        mine = list(group)
        measured = "; ".join(short_value(each, is_alone=len(mine) == 1) for each in mine)
        verdicts = list(dict.fromkeys(each.verdict for each in mine))
        told = verdicts[0] if len(verdicts) == 1 else ", ".join(each.verdict for each in mine)
        runs = max(each.runs for each in mine)
        yield f"| {number}: {says} | {published} | {measured} | {band} | {told}, n = {runs} |"


def short_value(line: ClaimJudgement, is_alone: bool) -> str:
    assert line.value is not None, "it is judged"
    text = value_text(line.value, line.unit)
    return text if is_alone or not line.group else f"{line.group}: {text}"


def figure_table(wanted: str, tables: Sequence[Kept]) -> str:
    """FAMILY/EXPERIMENT: FIGURE, ...; GROUP, ..."""
    id, _, named = wanted.partition(": ")
    figures, groups = ([name.strip() for name in names.split(",")] for names in named.split(";"))
    [kept] = [each for each in tables if each.experiment.id == id and each.scale == SCALES[0]]
    found = {(each.figure, each.group): each for each in kept.judgements}
    lines = [f"| {id.partition('/')[2]}, n = {kept.runs} | {' | '.join(figures)} |", "|---|" + "---:|" * len(figures)]
    for group in groups:
        lines.append(f"| {group} | {' | '.join(found[figure, group].measured for figure in figures)} |")
    return "\n".join([*lines, ""])


def pages() -> list[Path]:
    """Those that have such tables."""
    return [path for path in sorted(DOCS.glob("**/*.md")) if BLOCK.search(path.read_text(encoding="utf-8"))]


def names_of_pictures() -> set[str]:
    """Of results whose picture is on a page."""
    return {name for path in DOCS.glob("**/*.md") for name in PICTURE.findall(path.read_text(encoding="utf-8"))}


def picture(kept: Kept) -> bytes:
    from tidings.lab.plots import draw
    from tidings.spark.place import place_of

    with TemporaryDirectory() as folder:
        draw(kept.experiment, kept.measured, place_of(folder))
        drawn = Path(folder, "plot.svg").read_bytes()
    return METADATA.sub(PAPER, drawn, count=1)


METADATA = compile(rb"<metadata>.*?</metadata>", DOTALL)
"""It names the version of matplotlib."""
PAPER = b'<rect width="100%" height="100%" fill="white"/>'
"""Some readers show pages on black, where the ink would not be seen."""


def write_pictures() -> None:
    PICTURES.mkdir(exist_ok=True)
    shown = names_of_pictures()
    for kept in all_kept():
        if kept.name in shown:
            (PICTURES / f"{kept.name}.svg").write_bytes(picture(kept))


def write_pages() -> None:
    tables = all_kept()
    PAGE.write_text(page(tables), encoding="utf-8")
    for path in pages():
        path.write_text(filled(path.read_text(encoding="utf-8"), tables), encoding="utf-8")


if __name__ == "__main__":
    RESULTS.mkdir(exist_ok=True)
    if len(sys.argv) > 1:
        keep(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
    write_pages()
    write_pictures()
