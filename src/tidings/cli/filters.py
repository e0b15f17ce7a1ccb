"""`tidings filter`: what a filter means, and how two of them relate."""

from typing import Annotated

import msgspec
import typer

from tidings import Event, UsageError, parse
from tidings.cli.output import Json, print_json, show
from tidings.matching.explanation import ConjunctionVerdict, Explanation, explain, judge
from tidings.model.cloudevents import from_structured
from tidings.model.values import Value

NO = 1

filters = typer.Typer(
    help="Explain and compare filters.", no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
)

FilterText = Annotated[str, typer.Argument(metavar="TEXT", help="A filter in CESQL.")]


@filters.command("explain")
def explain_command(
    text: FilterText,
    event: Annotated[
        str | None, typer.Option(help="An event as JSON: an object of attributes, or a CloudEvents document.")
    ] = None,
    json: Json = False,
) -> None:
    """Show the normal form of a filter, what it reads, what it costs, and why it matches an event or does not.

    Cost classes, from the cheapest: equality (a look-up), range (a search), pattern (the text is read), residual (the
    expression is evaluated). Exit code with --event: 0 if it matches, 1 if not.

    \b
    Example:
      tidings filter explain "price > 100 AND symbol IN ('IBM', 'AAPL')" --event '{"price": 90, "symbol": "IBM"}'
    """
    filter = parse(text)
    explanation = explain(filter)
    judgement = None if event is None else judge(filter, read_event(event))
    if json:
        print_json({"filter": explanation, "event": judgement})
    else:
        show(*explanation_lines(explanation))
        if judgement is not None:
            show(*judgement_lines(explanation, judgement))
    if judgement is not None and not judgement.matches:
        raise typer.Exit(NO)


@filters.command("covers")
def covers_command(
    wide: Annotated[str, typer.Argument(metavar="A", help="The filter that may cover the other.")],
    narrow: Annotated[str, typer.Argument(metavar="B", help="The filter that may be covered.")],
    json: Json = False,
) -> None:
    """Say whether A matches every event that B matches; if not, show an event that only B matches.

    Exit code: 0 if A covers B, 1 if not.

    \b
    Example:
      tidings filter covers "price > 100" "price > 150 AND symbol = 'IBM'"
    """
    a, b = parse(wide), parse(narrow)
    covers = a.covers(b)
    witness = None if covers else a.counterexample(b)
    if json:
        print_json({"covers": covers, "counterexample": None if witness is None else witness.attributes})
    else:
        show(*covering_lines(covers, witness))
    if not covers:
        raise typer.Exit(NO)


def covering_lines(covers: bool, witness: Event | None) -> list[str]:
    if covers:
        return ["yes: every event that B matches is matched by A"]
    if witness is None:
        return ["not proved: no event was found that only B matches, but A may still not cover B"]
    return ["no: B matches this event and A does not", f"  {value_json(witness.attributes)}"]


def explanation_lines(explanation: Explanation) -> list[str]:
    parts = explanation.conjunctions
    lines = [f"filter      {explanation.text}", "normal form"]
    for number, part in enumerate(parts, 1):
        lines.append(f"  part {number}, all of" if len(parts) > 1 else "  all of")
        width = max((len(each.text) for each in part.constraints), default=0)
        lines += [f"    {each.text:<{width}}   {each.cost}" for each in part.constraints] or ["    nothing: any event"]
    if not parts:
        lines.append("  no part: no event")
    if explanation.residual is not None:
        lines += ["  and evaluated for each event that passes", f"    {explanation.residual}   residual"]
    lines.append(f"reads       {', '.join(explanation.attributes) or 'no attribute'}")
    lines.append(f"cost class  {explanation.cost}")
    for number, part in enumerate(parts, 1):
        lines.append(f"{'Bloom tags' if number == 1 else '':<11} {', '.join(part.tags) or 'none'}")
    return lines


def judgement_lines(explanation: Explanation, judgement: ConjunctionVerdict) -> list[str]:
    lines = [f"event       {'matches' if judgement.matches else 'does not match'}"]
    for number, refusals in enumerate(judgement.refusals, 1):
        part = f"part {number}: " if len(judgement.refusals) > 1 else ""
        lines += [f"  {part}{each.constraint} fails: {each.attribute} {value_text(each.value)}" for each in refusals]
        if not refusals:
            lines.append(f"  {part}every constraint holds")
    if explanation.residual is not None:
        error, value = judgement.residual_error, judgement.residual_value
        lines.append(f"  {explanation.residual} gives {'an error: ' + error if error else value_json(value)}")
    return lines


def value_text(value: Value | None) -> str:
    return "is absent" if value is None else f"is {value_json(value)}"


def value_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def read_event(text: str) -> Event:
    """An event from JSON: a CloudEvents document if it says so, else an object of attributes."""
    try:
        members = msgspec.json.decode(text)
    except msgspec.DecodeError as problem:
        raise UsageError(f"--event is not JSON: {problem}") from None
    if not isinstance(members, dict):
        raise UsageError("--event: give a JSON object of attributes, or a CloudEvents document")
    if "specversion" in members:
        return from_structured(text.encode())
    return Event(members)
