"""`python -m bench.simulated_brokers`: how long whole brokers take in the simulator, and what checking them costs.

    python -m bench.simulated_brokers                  100 brokers with a client each
    python -m bench.simulated_brokers --nodes 1000     in a balanced tree: on random ones of this size ways become
                                                       longer than the 100 brokers that delivery allows

Each row is the scenario `brokers` with the same seed, so the run is the same to the message; only how often states are
checked, and whether messages travel as bytes, differs. CPU time; the ratios are to the last row.
"""

import argparse
import resource
import sys
import time
from typing import get_args

from tidings.sim.library.brokers import brokers
from tidings.sim.scenario import Check, run_scenario

SEED = 1


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.simulated_brokers", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--topology", default="balanced_tree")
    parser.add_argument("--check", choices=get_args(Check), action="append", help="only these; may be repeated")
    arguments = parser.parse_args()
    settings = [(check, True) for check in arguments.check or get_args(Check)] + [("never", False)]
    run_scenario(brokers(3), SEED)  # so that no row pays for what is loaded once
    rows = []
    for check, frames in settings:
        begin = time.process_time()
        result = run_scenario(brokers(arguments.nodes, arguments.topology), SEED, check=check, frames=frames)
        rows.append((f"check {check}{', frames' if frames else ''}", time.process_time() - begin, result))
    print(f"{'':<24}{'messages':>10}{'CPU s':>9}{'ratio':>8}  verdict")
    for what, spent, result in rows:
        verdict = "passed" if result.passed else "FAILED"
        print(f"{what:<24}{result.counters.sent:>10,}{spent:>9.2f}{spent / rows[-1][1]:>8.2f}  {verdict}")
    print(f"peak of memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")
    return 0 if all(result.passed for _, _, result in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
