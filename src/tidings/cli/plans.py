"""`tidings plan`: what it takes to change the network from one tree of brokers to another, and doing it.

Today's tree is a file, or what the brokers of a network say. Where the goal comes from is one of four options: a file,
or an evaluator that finds a better tree for a table of traffic.
"""

import asyncio
import time
from pathlib import Path
from random import Random
from typing import Annotated

import typer

from tidings.cli.live_plans import (
    Followed,
    LiveTree,
    latencies_from_here,
    live_tree,
    measured,
    rehearsed_brokers,
    text_of,
)
from tidings.cli.output import NO, Json, JsonLines, json_line, print_json, show, table_lines
from tidings.cli.plan_files import read_evaluator, read_traffic, read_tree
from tidings.cli.plan_text import answer_of, estimate_text, lines_of, lines_of_rehearsal, outcome_text
from tidings.cli.reach import Reach, reaching
from tidings.model.errors import UsageError
from tidings.planning.deadline import plan_by
from tidings.planning.estimate import PlanEstimate, estimate
from tidings.planning.evaluators import EVALUATORS, Proposal, Wish, propose
from tidings.planning.operations import SHIFT
from tidings.planning.plan import Limits, PlannedChange
from tidings.planning.planner import PlanOrder
from tidings.planning.traffic import Traffic
from tidings.planning.tree import OverlayTree
from tidings.protocols.routing.params import StrategyName
from tidings.pubsub.rows import PlanRow

plans = typer.Typer(
    help="Plan a change of the network, step by step.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

NO_TRAFFIC = Traffic({}, {})

TrafficFile = Annotated[
    Path | None, typer.Option(metavar="CSV", help="Columns a,b,rate,latency: what is known of the way between brokers.")
]
Measure = Annotated[
    float, typer.Option(min=0, metavar="SECONDS", help="How long to look at what brokers exchange, if no table says.")
]
Improve = Annotated[
    str | None,
    typer.Option(metavar="WHAT", help="A tree with less latency or load, or bounded degree; or file.py:function."),
]


@plans.command("show")
@reaching
def show_command(
    today: Annotated[
        Path | None,
        typer.Option("--from", metavar="TOML", help="The tree as it is: links = [[a, b], ...]; else the broker's."),
    ] = None,
    to: Annotated[Path | None, typer.Option("--to", metavar="TOML", help="The tree as it is to be.")] = None,
    improve: Improve = None,
    drain: Annotated[
        list[str] | None, typer.Option(metavar="BROKER", help="Let nothing pass through it; may be repeated.")
    ] = None,
    add: Annotated[
        list[str] | None, typer.Option(metavar="BROKER", help="Find a place for a new broker; may be repeated.")
    ] = None,
    traffic: TrafficFile = None,
    measure: Measure = 5.0,
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
      tidings plan show --improve latency --measure 10 --broker 127.0.0.1:7411
      tidings plan show --from today.toml --improve latency --traffic traffic.csv --changes 5
    """
    live = None if today is not None else asyncio.run(live_tree(reach))
    initial = read_tree(today, "--from") if today is not None else live_of(live).tree
    table = read_traffic(traffic, "--traffic") if traffic else NO_TRAFFIC
    if live is not None:
        table = completed(table, live, reach, 0.0 if to is not None else measure, improve)
    wish = Wish(changes_max=changes, degree_max=degree_max, drained=tuple(drain or ()), new=tuple(add or ()))
    goal, proposal = find_goal(initial, to, improve, table, wish)
    order = PlanOrder(
        action_set=actions.upper(),
        operations=(SHIFT, *(larger or ())),
        limits=Limits(degree_max=degree_max, is_apart=apart, actions_max=actions_max),
    )
    over_at = time.monotonic() + seconds
    found = plan_by(initial, goal, Random(seed), order, seconds_left=lambda: over_at - time.monotonic())
    told = estimated(found, table, live)
    if svg is not None:
        write_picture(svg, found)
    if json:
        print_json(answer_of(found, proposal, seed, told))
    else:
        show(*lines_of(found, proposal, seed, told))


@plans.command("apply")
@reaching
def apply_command(
    to: Annotated[Path | None, typer.Option("--to", metavar="TOML", help="The tree as it is to be.")] = None,
    drain: Annotated[
        list[str] | None, typer.Option(metavar="BROKER", help="Let nothing pass through it; may be repeated.")
    ] = None,
    improve: Improve = None,
    traffic: TrafficFile = None,
    measure: Measure = 5.0,
    changes: Annotated[int, typer.Option(min=1, max=1000, help="Links that an improvement may change.")] = 10,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="In the simulator, with the network's own tables.")
    ] = False,
    degree_max: Annotated[int | None, typer.Option(min=1, help="Links of a broker, at any time.")] = None,
    seconds: Annotated[float, typer.Option(min=0, help="Time for the best plan; a quick one is there at once.")] = 10.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the quick plan, which tries at random.")] = 1,
    json: JsonLines = False,
    *,
    reach: Reach,
) -> None:
    """Change the network while it runs: plan from today's tree, and have the broker carry it out, step by step.

    Its brokers need overlay kind "scripted" and routing repair "shift". Each step leaves a tree, nothing is lost or
    doubled, and order is kept. With --dry-run the simulator does it, with the network's filters, advertisements and
    rates, and tells how late events would be; nothing is changed. Ctrl-C ends the watching, not the plan:
    `tidings plan abort`. Exit code: 0 when it is done, 1 if it was aborted, 2 if there is no such plan, 3 if no broker
    answers, 4 if that needs a token with the role admin.

    \b
    Example:
      tidings plan apply --to goal.toml --broker 127.0.0.1:7411
      tidings plan apply --drain b7 --broker 127.0.0.1:7411
      tidings plan apply --improve latency --dry-run --broker 127.0.0.1:7411
    """
    live = asyncio.run(live_tree(reach))
    table = read_traffic(traffic, "--traffic") if traffic else NO_TRAFFIC
    table = completed(table, live, reach, 0.0 if to is not None else measure, improve)
    wish = Wish(changes_max=changes, degree_max=degree_max, drained=tuple(drain or ()), new=())
    goal, _ = find_goal(live.tree, to, improve, table, wish)
    order = PlanOrder(action_set="E", operations=(SHIFT,), limits=Limits(degree_max=degree_max))
    over_at = time.monotonic() + seconds
    found = plan_by(live.tree, goal, Random(seed), order, seconds_left=lambda: over_at - time.monotonic())
    if not found.plan.actions:
        show("the network is that tree already; there is nothing to do")
        return
    told = estimated(found, table, live)
    show(f"{len(found.plan.steps)} steps, {len(found.plan.actions)} actions, seed {seed}", to_stderr=json)
    if dry_run:
        rehearse_plan(found, table, live, reach, measure, is_json=json)
        return
    if told is not None:
        show(estimate_text(told), to_stderr=json)
    row = asyncio.run(Followed(reach, json).carry_out(live, found.plan))
    if told is not None and row.state == "done":
        show(outcome_text(told, row.seconds), to_stderr=json)
    finish(row)


def live_of(live: LiveTree | None) -> LiveTree:
    assert live is not None
    return live


def completed(table: Traffic, live: LiveTree, reach: Reach, seconds: float, improve: str | None) -> Traffic:
    """What the table does not say is measured."""
    rates, latencies = table.rates, table.latencies
    if not latencies:
        latencies = asyncio.run(latencies_from_here(reach, live))
    if not rates and seconds:
        rates = asyncio.run(measured(reach, seconds)).rates
        if improve is not None and not rates:
            raise UsageError(
                f"--improve {improve}: in {seconds:g} s no event went from one broker to another; look for longer "
                "(--measure 60), or give a table of what usually does (--traffic)"
            )
    return Traffic(rates, latencies)


def estimated(found: PlannedChange, table: Traffic, live: LiveTree | None) -> PlanEstimate | None:
    if not found.plan.actions or {each.operation for each in found.plan.actions} - {SHIFT, "append", "detach"}:
        return None
    deployer = live.deployer if live is not None else found.plan.initial.brokers[0]
    return estimate(found.plan, table, deployer, 0 if live is None else live.entries)


def rehearse_plan(
    found: PlannedChange, table: Traffic, live: LiveTree, reach: Reach, seconds: float, *, is_json: bool
) -> None:
    from tidings.sim.rehearsal import rehearse

    brokers = asyncio.run(rehearsed_brokers(reach, seconds))
    strategy: StrategyName = "subscription" if live.asked.strategy == "subscription" else "advertisement"
    rehearsal = rehearse(found.plan, brokers, table, live.deployer, strategy=strategy)
    if is_json:
        print(json_line(rehearsal), flush=True)
    else:
        show(*lines_of_rehearsal(rehearsal))
    if rehearsal.state != "done" or rehearsal.lost or rehearsal.twice:
        raise typer.Exit(NO)


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
    if improve is not None:
        evaluators = {**EVALUATORS, improve: read_evaluator(improve, "--improve")}
        proposal = propose(improve, initial, table, wish, evaluators)
    else:
        proposal = propose("drain" if wish.drained else "grow", initial, table, wish)
    return proposal.goal, proposal


def write_picture(path: Path, found: PlannedChange) -> None:
    from tidings.cli.plan_picture import draw_plan

    try:
        path.write_text(draw_plan(found.plan), encoding="utf-8")
    except OSError as problem:
        raise UsageError(f"--svg {path}: it cannot be written: {problem}") from None
