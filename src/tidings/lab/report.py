"""One page for everything that was run: FOLDER/index.html.

It is one file with the plots inside it, and needs no network; Parquet, tables and pictures are links into the folder
beside it. Its frame and its look, light or dark as the reader's system has it, are `page.html`. The text of every value
comes from `verdicts.py`, so the page says what the terminal says.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from tidings.lab.experiment import VERDICTS, Experiment, Planned, Verdict
from tidings.lab.plots import INK
from tidings.lab.registry import entries
from tidings.lab.run import Judged
from tidings.lab.verdicts import ClaimJudgement
from tidings.model.escapes import markup
from tidings.spark.place import Place, place_of

FILES = {
    "figures.parquet": "figures",
    "table.csv": "table as CSV",
    "table.json": "as JSON",
    "table.parquet": "as Parquet",
    "plot.png": "plot as PNG",
    "plot.svg": "as SVG",
}

WHY: dict[Verdict, str] = {
    "better": "Better than published, and what we believe is the reason",
    "missed": "Missed, and what we believe is the reason",
    "undecided": "Undecided",
    "not judged": "Not judged, because",
}

HEADER = ("", "published", "band", "group", "measured", "interval (95 %)", "n", "verdict")


def write_report(folder: str | Path | Place, every: Sequence[Judged]) -> Place:
    known = entries()
    experiments = {id: each for id, each in known.items() if isinstance(each, Experiment)}
    planned = [each for each in known.values() if isinstance(each, Planned)]
    here = place_of(folder)
    page = here / "index.html"
    filled = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8")).substitute(
        overview="\n".join(overview_row(each, experiments[each.order.experiment].title) for each in every),
        sections="\n".join(section(here, each, experiments[each.order.experiment]) for each in every),
        waiting=len(planned),
        planned="\n".join(
            f"<tr><td>{markup(each.id)}</td><td>{markup(each.title)}</td><td>{markup(each.asks)}</td>"
            f"<td>{markup(each.needs)}</td></tr>"
            for each in planned
        ),
    )
    page.write_bytes(filled.encode())
    return page


def anchor(judged: Judged) -> str:
    return f"{judged.order.experiment}-{judged.order.scale}".replace("/", "-")


def overview_row(judged: Judged, title: str) -> str:
    counts = "".join(f"<td class='count'>{judged.count(verdict) or ''}</td>" for verdict in VERDICTS)
    return (
        f"<tr><td><a href='#{anchor(judged)}'>{markup(judged.order.experiment)}</a></td><td>{markup(title)}</td>"
        f"<td>{markup(judged.order.scale)}</td>{counts}"
        f"<td class='count'>{len(judged.failed) or ''}</td></tr>"
    )


def section(folder: Place, judged: Judged, experiment: Experiment) -> str:
    here, swept = (place.below(folder) for place in (judged.place, judged.swept))
    order = judged.order
    return f"""<section id="{anchor(judged)}">
<h2><span class="id">{markup(experiment.id)}</span> {markup(experiment.title)}</h2>
<p>{markup(experiment.question)}</p>
<p class="quiet">{markup(experiment.source)}. Scale {markup(order.scale)}: {markup(setting_text(experiment, judged))};
seeds 1 to {order.seeds}; {len(judged.performed)} runs{incomplete(judged)}. {markup(made_with_text(judged))}</p>
<figure>{inline_svg(judged.place / "plot.svg", experiment.title)}</figure>
<div class="wide"><table class="claims">
<thead><tr>{"".join(f"<th>{name}</th>" for name in HEADER)}</tr></thead>
<tbody>
{claim_rows(judged.judgements)}
</tbody></table></div>
{reasons(judged.judgements)}
<p class="files"><a href="{markup(swept)}">runs (Parquet)</a> {" ".join(links(here, FILES))}</p>
<p class="quiet">Run again: <code>{markup(order.command())}</code></p>
{failures(judged)}
<details><summary>{len(judged.performed)} runs, and the command that runs each alone</summary>
<ol class="runs">
{run_items(judged)}
</ol></details>
</section>"""


def made_with_text(judged: Judged) -> str:
    told = [
        f"tidings {each.version}{f' at {each.commit}' if each.commit else ''}, definition {each.definition}, "
        f"pyspark {each.pyspark}, numpy {each.numpy}"
        for each in judged.made_with
    ]
    now = "" if judged.is_current else " The experiment has been changed since; run it again to judge it as it is now."
    return f"Made with {'; '.join(told) or 'nothing yet'}.{now}"


def links(here: str, files: Mapping[str, str]) -> list[str]:
    return [f'<a href="{markup(here)}/{name}">{text}</a>' for name, text in files.items()]


def setting_text(experiment: Experiment, judged: Judged) -> str:
    parameters = experiment.scale(judged.order.scale).parameters.items()
    return ", ".join(f"{name} {f'{value:g}' if isinstance(value, float) else value}" for name, value in parameters)


def incomplete(judged: Judged) -> str:
    parts = [f"{len(judged.failed)} failed"] if judged.failed else []
    parts += [f"{judged.missing} not run"] if judged.missing else []
    return f" (<strong>{', '.join(parts)}</strong>)" if parts else ""


def claim_rows(judgements: Sequence[ClaimJudgement]) -> str:
    """What a claim says, what was published and the band stand once, beside the lines of all its groups."""
    rows, last = [], ("", "", "")
    for each in judgements:
        claim = each.says, each.published, each.band
        says, published, band = claim if claim != last else ("", "", "")
        kind = "" if each.says == last[0] else "first"
        last = claim
        value, _, interval = each.measured.partition(" (")
        cells = [published, band, each.group, value, interval.removesuffix(")"), str(each.runs)]
        rows.append(
            f"<tr class='{kind}'><th scope='row'>{markup(says)}</th>"
            + "".join(f"<td>{markup(cell)}</td>" for cell in cells)
            + f"<td>{chip(each)}</td></tr>"
        )
    return "\n".join(rows)


def chip(judgement: ClaimJudgement) -> str:
    kind = judgement.verdict.replace(" ", "-")
    asked = f" <span class='quiet'>{markup(judgement.requirement)}</span>" if judgement.requirement else ""
    return f"<span class='chip {kind}' title='{markup(judgement.why)}'>{markup(judgement.verdict)}</span>{asked}"


def reasons(judgements: Sequence[ClaimJudgement]) -> str:
    """Whatever is not reproduced, with why: a paragraph for each verdict."""
    return "\n".join(
        reasons_of(verdict, {each.says: each.why for each in judgements if each.verdict == verdict})
        for verdict in VERDICTS
        if verdict != "reproduced"
    )


def reasons_of(verdict: Verdict, whys: Mapping[str, str]) -> str:
    if not whys:
        return ""
    items = "".join(f"<li><strong>{markup(says)}</strong>: {markup(why)}</li>" for says, why in whys.items())
    return f"<div class='why {verdict.replace(' ', '-')}'><p>{WHY[verdict]}:</p><ul>{items}</ul></div>"


def failures(judged: Judged) -> str:
    if not judged.failed:
        return ""
    items = "".join(
        f"<li>{markup(each.variant)}, seed {each.seed}: {markup(each.error)}<br><code>{markup(each.replay)}</code></li>"
        for each in judged.failed
    )
    return f"<div class='why missed'><p>Runs that failed:</p><ul>{items}</ul></div>"


def run_items(judged: Judged) -> str:
    return "\n".join(
        f"<li>{markup(each.variant)}, seed {each.seed}<br><code>{markup(each.replay)}</code></li>"
        for each in judged.performed
    )


def inline_svg(place: Place, title: str) -> str:
    """The drawing alone, as wide as there is room, in the colour of the text around it."""
    text = place.read_bytes().decode()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # Several drawings on one page would otherwise have elements of the same name; nothing refers to these.
    text = re.sub(r' id="[a-z]+_\d+"', "", text)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    return text.replace("<svg", f'<svg role="img" aria-label="{markup(title)}"', 1)
