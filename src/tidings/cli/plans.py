"""`tidings plan`: what it takes to change the network from one tree of brokers to another, and doing it.

Today's tree is a file, or what the brokers of a network say. Where the goal comes from is one of four options: a file,
or an evaluator that finds a better tree for a table of traffic.
"""

import asyncio
import time
from pathlib import Path
from random import Random
from typing import Annotated

import msgspec
import typer

from tidings.cli.live_plans import Followed, live_tree, text_of
from tidings.cli.output import NO, Json, JsonLines, print_json, show, table_lines
from tidings.cli.plan_files import read_traffic, read_tree
from tidings.cli.reach import Reach, reaching
from tidings.model.errors import UsageError
from tidings.planning.deadline import plan_by
from tidings.planning.evaluators import EVALUATORS, Proposal, Wish, propose
from tidings.planning.operations import SHIFT, Connected, effects_of
from tidings.planning.plan import Limits, PlannedChange
from tidings.planning.planner import PlanOrder
from tidings.planning.traffic import Traffic, TreeFigures
from tidings.planning.tree import OverlayTree, named
from tidings.pubsub.rows import PlanRow

plans = typer.Typer(
    help="Plan a change of the network, step by step.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

IMPROVEMENTS = ("latency", "degree", "load")


@plans.command("show")
@reaching
def show_command(
    today: Annotated[
        Path | None,
        typer.Option("--from", metavar="TOML", help="The tree as it is: links = [[a, b], ...]; else the broker's."),
    ] = None,
    to: Annotated[Path | None, typer.Option("--to", metavar="TOML", help="The tree as it is to be.")] = None,
    improve: Annotated[
        str | None, typer.Option(metavar="WHAT", help="Find a tree with less latency or load, or bounded degree.")
    ] = None,
    drain: Annotated[
        list[str] | None, typer.Option(metavar="BROKER", help="Let nothing pass through it; may be repeated.")
    ] = None,
    add: Annotated[
        list[str] | None, typer.Option(metavar="BROKER", help="Find a place for a new broker; may be repeated.")
    ] = None,
    traffic: Annotated[
        Path | None, typer.Option(metavar="CSV", help="Columns a,b,rate,latency: what is measured between brokers.")
    ] = None,
    changes: Annotated[int, typer.Option(min=1, max=1000, help="Links that an improvement may change.")] = 10,
    degree_max: Annotated[int | None, typer.Option(min=1, help="Links of a broker, at any time.")] = None,
    actions_max: Annotated[int | None, typer.Option(min=1, help="Actions of a step.")] = None,
    apart: Annotated[bool, typer.Option("--apart", help="No broker takes part twice in a step.")] = False,
    actions: Annotated[str, typer.Option(help="What to choose from: E, A or N, from fast to thorough.")] = "E",
    larger: Annotated[
        list[str] | None, typer.Option("--with", metavar="OPERATION", help="Beside shift: move or exchange.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0, help="Time for the best plan; a quick one is there at once.")] = 60.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the quick plan, which tries at random.")] = 1,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it, step by step.")] = None,
    json: Json = False,
    *,
    reach: Reach,
) -> None:
    """Show the steps from one tree of brokers to another, each of which leaves a tree in whatever order it is done.

    \b
    Example:
      tidings plan show --from today.toml --to goal.toml --svg plan.svg
      tidings plan show --drain b7 --broker 127.0.0.1:7411
      tidings plan show --from today.toml --improve latency --traffic traffic.csv --changes 5
    """
    initial = read_tree(today, "--from") if today is not None else asyncio.run(live_tree(reach)).tree
    table = read_traffic(traffic, "--traffic") if traffic else Traffic({}, {})
    wish = Wish(changes_max=changes, degree_max=degree_max, drained=tuple(drain or ()), new=tuple(add or ()))
    goal, proposal = find_goal(initial, to, improve, table, wish)
    order = PlanOrder(
        action_set=actions.upper(),
        operations=(SHIFT, *(larger or ())),
        limits=Limits(degree_max=degree_max, is_apart=apart, actions_max=actions_max),
    )
    over_at = time.monotonic() + seconds
    found = plan_by(initial, goal, Random(seed), order, seconds_left=lambda: over_at - time.monotonic())
    if svg is not None:
        write_picture(svg, found)
    if json:
        print_json(answer_of(found, proposal, seed))
    else:
        show(*lines_of(found, proposal, seed))


@plans.command("apply")
@reaching
def apply_command(
    to: Annotated[Path | None, typer.Option("--to", metavar="TOML", help="The tree as it is to be.")] = None,
    drain: Annotated[
        list[str] | None, typer.Option(metavar="BROKER", help="Let nothing pass through it; may be repeated.")
    ] = None,
    degree_max: Annotated[int | None, typer.Option(min=1, help="Links of a broker, at any time.")] = None,
    seconds: Annotated[float, typer.Option(min=0, help="Time for the best plan; a quick one is there at once.")] = 10.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the quick plan, which tries at random.")] = 1,
    json: JsonLines = False,
    *,
    reach: Reach,
) -> None:
    """Change the network while it runs: plan from today's tree, and have the broker carry it out, step by step.

    Its brokers need overlay kind "scripted" and routing repair "shift". Each step leaves a tree, nothing is lost or
    doubled, and order is kept. Ctrl-C ends the watching, not the plan: `tidings plan abort`. Exit code: 0 when it is
    done, 1 if it was aborted, 2 if there is no such plan, 3 if no broker answers, 4 if that needs a token with the
    role admin.

    \b
    Example:
      tidings plan apply --to goal.toml --broker 127.0.0.1:7411
      tidings plan apply --drain b7 --broker 127.0.0.1:7411
    """
    live = asyncio.run(live_tree(reach))
    wish = Wish(changes_max=10, degree_max=degree_max, drained=tuple(drain or ()), new=())
    goal, _ = find_goal(live.tree, to, None, Traffic({}, {}), wish)
    order = PlanOrder(action_set="E", operations=(SHIFT,), limits=Limits(degree_max=degree_max))
    over_at = time.monotonic() + seconds
    found = plan_by(live.tree, goal, Random(seed), order, seconds_left=lambda: over_at - time.monotonic())
    if not found.plan.actions:
        show("the network is that tree already; there is nothing to do")
        return
    show(f"{len(found.plan.steps)} steps, {len(found.plan.actions)} actions, seed {seed}", to_stderr=json)
    finish(asyncio.run(Followed(reach, json).carry_out(live, found.plan)))


@plans.command("status")
@reaching
def status_command(json: Json = False, *, reach: Reach) -> None:
    """Show how far the plan is that this broker carries out, or carried out last.

    \b
    Example:
      tidings plan status --broker 127.0.0.1:7411
    """
    row, actions = asyncio.run(Followed(reach, json).look())
    if json:
        print_json({"plan": row, "actions": actions})
        return
    if row is None:
        show("no plan was carried out from this broker since it started")
        return
    rows = [[str(each.step), each.action, each.state, each.problem] for each in actions]
    show(text_of(row), "", *table_lines(["step", "action", "state", "problem"], rows))


@plans.command("abort")
@reaching
def abort_command(json: JsonLines = False, *, reach: Reach) -> None:
    """Begin no further action of the plan; what has begun is finished or undone, and the network is a tree.

    \b
    Example:
      tidings plan abort --broker 127.0.0.1:7411
    """
    asyncio.run(Followed(reach, json).order("abort"))


@plans.command("resume")
@reaching
def resume_command(json: JsonLines = False, *, reach: Reach) -> None:
    """Go on with the plan that was aborted, from the step in which it was.

    \b
    Example:
      tidings plan resume --broker 127.0.0.1:7411
    """
    finish(asyncio.run(Followed(reach, json).order("resume")))


def finish(row: PlanRow) -> None:
    if row.state != "done":
        show(f"plan {row.plan} was aborted: {row.problem}", to_stderr=True)
        raise typer.Exit(NO)


def find_goal(
    initial: OverlayTree, to: Path | None, improve: str | None, table: Traffic, wish: Wish
) -> tuple[OverlayTree, Proposal | None]:
    asked = [each for each in (to, improve, wish.drained, wish.new) if each]
    if len(asked) != 1:
        raise UsageError("say what the network is to become: one of --to, --improve, --drain and --add")
    if to is not None:
        return read_tree(to, "--to"), None
    if improve is not None and improve not in IMPROVEMENTS:
        raise UsageError(f"--improve {improve}: choose from {', '.join(IMPROVEMENTS)}")
    assert set(IMPROVEMENTS) < set(EVALUATORS)
    proposal = propose(improve or ("drain" if wish.drained else "grow"), initial, table, wish)
    return proposal.goal, proposal


def write_picture(path: Path, found: PlannedChange) -> None:
    from tidings.cli.plan_picture import draw_plan

    try:
        path.write_text(draw_plan(found.plan), encoding="utf-8")
    except OSError as problem:
        raise UsageError(f"--svg {path}: it cannot be written: {problem}") from None


class ActionRow(msgspec.Struct, frozen=True):
    step: int
    action: str
    operation: str
    brokers: tuple[str, ...]
    place: int
    goes: tuple[str, str] | None
    comes: tuple[str, str] | None


def rows_of(found: PlannedChange) -> list[ActionRow]:
    goal, rows = frozenset(found.plan.goal.links), []
    for number, step in enumerate(found.plan.steps, 1):
        for action in step:
            effects = effects_of(action, goal)
            goes, comes = (
                next((each.link for each in some if isinstance(each, Connected)), None)
                for some in (effects.deletes, effects.adds)
            )
            rows.append(ActionRow(number, str(action), action.operation, action.brokers, action.place, goes, comes))
    return rows


def answer_of(found: PlannedChange, proposal: Proposal | None, seed: int) -> dict[str, object]:
    plan, proof = found.plan, found.proof
    answer: dict[str, object] = {
        "seed": seed,
        "today": {"brokers": plan.initial.brokers, "links": plan.initial.links},
        "goal": {"brokers": plan.goal.brokers, "links": plan.goal.links},
        "steps": len(plan.steps),
        "actions": rows_of(found),
        "cost": proof.cost,
        "method": proof.method,
        "action_set": proof.action_set,
        "steps_min": proof.steps_min,
        "cost_min": proof.cost_min,
    }
    if proposal is not None:
        answer["traffic"] = {"before": proposal.before, "after": proposal.after, "model": proposal.model}
    return answer


def lines_of(found: PlannedChange, proposal: Proposal | None, seed: int) -> list[str]:
    plan, proof = found.plan, found.proof
    changed = len(set(plan.initial.links) - set(plan.goal.links))
    lines = [
        f"today    {len(plan.initial.brokers)} brokers, {len(plan.initial.links)} links, {changed} of which go",
        f"plan     {len(plan.steps)} steps, {len(plan.actions)} actions, cost {proof.cost:g}",
        f"proven   {proof_text(found)}",
        f"found    by {proof.method}, seed {seed}",
    ]
    come, go = (
        sorted(set(a.brokers) - set(b.brokers)) for a, b in ((plan.goal, plan.initial), (plan.initial, plan.goal))
    )
    lines += [f"new      {named(come)}"] if come else []
    lines += [f"leave    {named(go)}"] if go else []
    if proposal is not None:
        lines += ["", *gain_lines(proposal)]
    rows = [
        [str(row.step), row.action, " - ".join(row.goes or ()), " - ".join(row.comes or ())] for row in rows_of(found)
    ]
    return [*lines, *(["", *table_lines(["step", "action", "goes", "comes"], rows)] if rows else [])]


def proof_text(found: PlannedChange) -> str:
    proof, steps = found.proof, len(found.plan.steps)
    fewest = (
        "no plan has fewer steps" if proof.steps_min == steps else f"no plan has fewer than {proof.steps_min} steps"
    )
    if proof.gap < 1e-9:
        return f"{fewest}, and with as many none costs less (action set {proof.action_set})"
    return f"{fewest}, and none costs less than {proof.cost_min:g} (action set {proof.action_set})"


def gain_lines(proposal: Proposal) -> list[str]:
    def cells(figures: TreeFigures) -> list[str]:
        busiest = f"{figures.load_max:.4g} ({figures.busiest})"
        return [
            f"{figures.hops:.3f}",
            f"{figures.latency * 1000:.1f} ms",
            busiest,
            f"{figures.load_mean:.4g}",
            str(figures.degree_max),
        ]

    header = ["", "hops", "latency", "events/s of the busiest", "events/s on average", "links"]
    rows = [["today", *cells(proposal.before)], ["goal", *cells(proposal.after)]]
    return [*table_lines(header, rows), f"model: {proposal.model}"]
