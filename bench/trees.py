"""`python -m bench.trees`: how long a tree that finds itself takes in the simulator, and how soon it has mended itself.

    python -m bench.trees                          1,000 and 10,000 dispatchers
    python -m bench.trees --nodes 1000 --share 0.333

All join, one after the other, from three that are there; when they are at rest a share crashes at once, and five
minutes go by. Shown are CPU time and memory of the process, messages, after how many seconds all that are left were one
tree of one colour, and the greatest degree. A row for each number of nodes; the last line says how CPU time grows with
it.
"""

import argparse
import resource
import sys
import time

from tests.worlds.trees import TreeWorld
from tidings.protocols.overlay.lstree.params import LsTreeParams

SEED = 1
SPACING, REST, AFTER, LOOK = 0.01, 10.0, 300.0, 0.5


def measure(nodes: int, share: float) -> float:
    begin = time.process_time()
    world = TreeWorld(SEED, nodes, LsTreeParams(), spacing=SPACING, is_watched=False)
    world.run(nodes * SPACING + REST)
    world.assert_one_tree()
    crashed_at = world.simulator.now
    world.crash(*world.draws.sample(world.names, round(nodes * share)))
    mended_after = None
    while mended_after is None and world.simulator.now < crashed_at + AFTER:
        world.run(LOOK)
        colours = {world.trees[name].kin.place.colour for name in world.names}
        if len(world.roots) == 1 and len(colours) == 1:
            mended_after = world.simulator.now - crashed_at
    world.run(crashed_at + AFTER - world.simulator.now)
    world.assert_one_tree()
    spent = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    sent, top = world.simulator.counters().sent, max(world.degrees().values())
    print(f"{nodes:>8,}{spent:>9.1f}{peak:>8.2f}{sent:>12,}{mended_after or 0:>9.1f}{top:>8}", flush=True)
    return spent


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.trees", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nodes", type=int, action="append", help="may be repeated")
    parser.add_argument("--share", type=float, default=0.25, help="that crashes at once")
    arguments = parser.parse_args()
    sizes = sorted(arguments.nodes or [1_000, 10_000])
    print(f"{'nodes':>8}{'CPU s':>9}{'GiB':>8}{'messages':>12}{'mended s':>9}{'degree':>8}")
    spent = [measure(nodes, arguments.share) for nodes in sizes]
    if len(sizes) > 1:
        growth = spent[-1] / spent[0] / (sizes[-1] / sizes[0])
        print(f"CPU time for each node grows by {growth:.2f} from {sizes[0]:,} to {sizes[-1]:,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
