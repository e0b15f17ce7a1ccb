"""`python -m bench.planning`: how long plans take, and how far the quick ones are from the best.

    python -m bench.planning --brokers 60 100 150 --seeds 2 --seconds 120

Random trees with a fifth of their links changed (the workload `topology-change`), balanced and unbalanced. For each
the quick plan, and the best of the action set E as far as it is found in so much processor time (a program that is
being solved is stopped by the clock on the wall). Each line: steps and actions of both, what is proven, seconds of
processor time on one core.
"""

import argparse
import os
import sys
import time
from random import Random

# One core: what numpy and the solver would do on others is not what is measured.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from tidings.planning.planner import NoPlan, make_plan
from tidings.planning.quick import quick_plan
from tidings.planning.tree import OverlayTree
from tidings.workloads.topology_changes import TopologyChange

HEADER = ("brokers", "shape", "seed", "quick: steps", "actions", "s", "best of E: steps", "actions", "s")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.planning", description=__doc__.partition("\n")[0])
    parser.add_argument("--brokers", type=int, nargs="+", default=[60, 100, 150])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--change", type=float, default=0.2)
    parser.add_argument("--seconds", type=float, default=120.0)
    chosen = parser.parse_args(arguments)
    print("| " + " | ".join(HEADER) + " |\n|" + "---|" * len(HEADER))
    for brokers in chosen.brokers:
        for seed in range(1, chosen.seeds + 1):
            for is_balanced in (True, False):
                trees = TopologyChange(brokers=brokers, is_balanced=is_balanced, change=chosen.change, seed=seed)
                cells = [str(brokers), "balanced" if is_balanced else "unbalanced", str(seed)]
                cells += measure(trees.today(), trees.goal(), chosen.seconds)
                print("| " + " | ".join(cells) + " |", flush=True)
    return 0


def measure(today: OverlayTree, goal: OverlayTree, seconds: float) -> list[str]:
    begun = time.process_time()
    quick = quick_plan(today, goal, Random(1))
    between = time.process_time()
    assert quick is not None
    cells = [str(len(quick.plan.steps)), str(len(quick.plan.actions)), f"{between - begun:.2f}"]
    try:
        best = make_plan(today, goal, seconds_left=lambda: between + seconds - time.process_time())
    except NoPlan:
        return [*cells, "-", "-", f"more than {time.process_time() - between:.0f}"]
    taken = f"{time.process_time() - between:.1f}"
    actions = str(len(best.plan.actions))
    return [
        *cells,
        str(len(best.plan.steps)),
        actions if not best.proof.gap else f"{actions} (gap {best.proof.gap:.0%})",
        taken,
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
