"""From today's tree of brokers to a better one, step by step. `python examples/plan_change.py`."""

from random import Random

from tidings.planning.deadline import plan_by
from tidings.planning.evaluators import Wish, propose
from tidings.planning.traffic import TrafficRow, traffic_of
from tidings.planning.tree import tree_of

today = tree_of([("paris", "berlin"), ("berlin", "oslo"), ("oslo", "tokyo"), ("tokyo", "seoul"), ("seoul", "sydney")])
traffic = traffic_of(
    [
        TrafficRow("paris", "sydney", rate=200, latency=0.140),
        TrafficRow("paris", "tokyo", rate=120, latency=0.110),
        TrafficRow("oslo", "seoul", rate=15, latency=0.120),
        TrafficRow("paris", "berlin", rate=40, latency=0.010),
    ]
)

proposal = propose("latency", today, traffic, Wish(changes_max=2))
print(f"mean latency {proposal.before.latency * 1000:.0f} ms today, {proposal.after.latency * 1000:.0f} ms in the goal")

found = plan_by(today, proposal.goal, Random(1))
for number, step in enumerate(found.plan.steps, 1):
    print(f"step {number}: {', '.join(map(str, step))}")
