"""What `tidings plan` prints: a plan, what it gains and takes, and what came of it; as text and as JSON."""

from typing import TYPE_CHECKING

import msgspec

from tidings.cli.output import table_lines
from tidings.planning.estimate import PlanEstimate
from tidings.planning.evaluators import Proposal
from tidings.planning.operations import Connected, effects_of
from tidings.planning.plan import PlannedChange
from tidings.planning.traffic import LATENCY_DEFAULT, TreeFigures
from tidings.planning.tree import named

if TYPE_CHECKING:
    from tidings.sim.rehearsal import Rehearsal


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


def answer_of(
    found: PlannedChange, proposal: Proposal | None, seed: int, told: PlanEstimate | None = None
) -> dict[str, object]:
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
    if told is not None:
        answer["estimate"] = told
    if proposal is not None:
        answer["traffic"] = {"before": proposal.before, "after": proposal.after, "model": proposal.model}
    return answer


def lines_of(found: PlannedChange, proposal: Proposal | None, seed: int, told: PlanEstimate | None = None) -> list[str]:
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
    lines += [] if told is None else [estimate_text(told)]
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


def estimate_text(told: PlanEstimate) -> str:
    """What carrying it out will take."""
    known = "" if told.has_latencies else f", if links take {LATENCY_DEFAULT * 1000:g} ms (none is known: --traffic)"
    return (
        f"takes    about {told.seconds:.2g} s and {told.messages} messages; events are held for up to "
        f"{told.delay * 1000:.0f} ms where a link moves{known}"
    )


def outcome_text(told: PlanEstimate, seconds: float) -> str:
    """How far the estimate was off."""
    off = told.seconds / seconds - 1 if seconds > 0 else 0.0
    return f"took {seconds:.2f} s; {told.seconds:.2f} s was estimated, {abs(off):.0%} {'more' if off > 0 else 'less'}"


def lines_of_rehearsal(found: "Rehearsal") -> list[str]:
    lines = [
        f"in the simulator the plan was {found.state} after {found.seconds:.2f} s, with {found.messages} messages"
        + (f": {found.problem}" if found.problem else ""),
        f"{found.events} events, {found.deliveries} deliveries, {found.lost} lost, {found.twice} twice or out of order",
        f"99th percentile of latency: {found.p99_before * 1000:.1f} ms before, "
        f"{found.p99_during * 1000:.1f} ms meanwhile",
    ]
    if found.scaled < 1:
        lines.append(f"events were published at {found.scaled:.0%} of the measured rate")
    if found.left_out:
        lines.append(f"{found.left_out} filters were too many, and were left out")
    return lines
