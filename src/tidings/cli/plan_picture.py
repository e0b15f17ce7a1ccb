"""A plan as a picture (SVG): the tree today, and after each step, with the links that go and those that came.

Brokers stand where they stand today, in circles around the middle of the tree, in every panel; so a link that changes
is seen to change. A link that goes in the next step is dashed, one that came in this step is thick, and their colours
differ on light and on dark. A plan with more steps than there are panels is shown by its beginning, and its end.
"""

from html import escape
from math import cos, pi, sin

from tidings.model.identity import NodeId
from tidings.planning.plan import TopologyPlan
from tidings.planning.tree import Link, OverlayTree, reached_from

PANELS_MAX = 24
PANEL, MARGIN, TITLE = 320, 24, 28
COLUMNS = 3
NAMED_MAX = 80
"""Brokers of a picture that has their names; of more there is no room."""

STYLE = """
  .kept { stroke: #8c959f; stroke-width: 1.2 }
  .goes { stroke: #d97706; stroke-width: 2; stroke-dasharray: 5 3 }
  .came { stroke: #3b82f6; stroke-width: 2.6 }
  circle { fill: #64748b }
  text { font: 10px sans-serif; fill: #64748b }
  .title { font-size: 13px }
"""

Places = dict[NodeId, tuple[float, float]]


def draw_plan(plan: TopologyPlan) -> str:
    places = places_of(plan)
    states = plan.links_after()
    numbers = list(range(len(states)))
    if len(states) > PANELS_MAX:
        numbers = [*range(PANELS_MAX - 1), len(states) - 1]
    rows = -(-len(numbers) // COLUMNS)
    width, height = min(COLUMNS, len(numbers)) * PANEL, rows * (PANEL + TITLE) + TITLE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<style>{STYLE}</style>",
    ]
    for at, number in enumerate(numbers):
        across, down = at % COLUMNS * PANEL, at // COLUMNS * (PANEL + TITLE)
        parts.append(f'<g transform="translate({across} {down})">')
        parts += panel(plan, states, number, places)
        parts.append("</g>")
    parts.append(legend(height))
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def panel(plan: TopologyPlan, states: list[frozenset[Link]], number: int, places: Places) -> list[str]:
    here = states[number]
    before = states[number - 1] if number else here
    after = states[number + 1] if number + 1 < len(states) else here
    title = "today" if number == 0 else f"after step {number}" + (": the goal" if number == len(states) - 1 else "")
    parts = [f'<text class="title" x="{MARGIN}" y="18">{title}</text>']
    for kind, links in (("kept", here & after & before), ("goes", here - after), ("came", (here - before) & after)):
        for a, b in sorted(links):
            (x, y), (u, v) = places[a], places[b]
            parts.append(f'<line class="{kind}" x1="{x:.1f}" y1="{y:.1f}" x2="{u:.1f}" y2="{v:.1f}"/>')
    brokers = sorted({end for each in here for end in each} or set(plan.initial.brokers))
    for broker in brokers:
        x, y = places[broker]
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{escape(broker)}</title></circle>')
        if len(places) <= NAMED_MAX:
            parts.append(f'<text x="{x + 4:.1f}" y="{y - 4:.1f}">{escape(broker)}</text>')
    return parts


def legend(height: int) -> str:
    words = (("kept", "stays"), ("goes", "goes in the next step"), ("came", "came in this step"))
    parts = []
    for at, (kind, word) in enumerate(words):
        x, y = MARGIN + at * 150, height - 10
        parts.append(f'<line class="{kind}" x1="{x}" y1="{y}" x2="{x + 24}" y2="{y}"/>')
        parts.append(f'<text x="{x + 30}" y="{y + 4}">{word}</text>')
    return "\n".join(parts)


def places_of(plan: TopologyPlan) -> Places:
    """Everybody of today around the middle; whoever comes stands on the outermost circle."""
    angles, depths = on_circles(plan.initial)
    new = [broker for broker in plan.goal.brokers if broker not in depths]
    deepest = max(depths.values()) + (1 if new else 0)
    for at, broker in enumerate(new):
        angles[broker], depths[broker] = 2 * pi * at / len(new), deepest
    middle, reach = PANEL / 2, PANEL / 2 - MARGIN
    return {
        broker: (
            middle + reach * depths[broker] / max(1, deepest) * cos(angle),
            TITLE + middle + reach * depths[broker] / max(1, deepest) * sin(angle),
        )
        for broker, angle in angles.items()
    }


def on_circles(tree: OverlayTree) -> tuple[dict[NodeId, float], dict[NodeId, int]]:
    """Around the middle of the longest way: how deep each broker is, and at which angle; a branch has as much of the
    circle as it has leaves."""
    around = tree.neighbours()
    far = list(reached_from(around, tree.brokers[0]))[-1]
    before = reached_from(around, far)
    way = [list(before)[-1]]
    while (following := before[way[-1]]) is not None:
        way.append(following)
    above = reached_from(around, way[len(way) // 2])
    depths: dict[NodeId, int] = {}
    for broker, parent in above.items():
        depths[broker] = 0 if parent is None else depths[parent] + 1
    leaves = dict.fromkeys(above, 0)
    for broker, parent in reversed(above.items()):
        leaves[broker] = leaves[broker] or 1
        if parent is not None:
            leaves[parent] += leaves[broker]
    angles: dict[NodeId, float] = {}
    begins: dict[NodeId, float] = {}
    whole = max(leaves.values())
    for broker, parent in above.items():
        begin = 0.0 if parent is None else begins[parent]
        share = 2 * pi * leaves[broker] / whole
        angles[broker], begins[broker] = begin + share / 2, begin
        if parent is not None:
            begins[parent] += share
    return angles, depths
