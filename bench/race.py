"""`python -m bench.race`: subscribe, wait for the receipt, publish elsewhere in the same moment; in the simulator.

    python -m bench.race                 1,000 rounds in each setting
    python -m bench.race --quick         50
    python -m bench.race --write FILE    the table as Markdown, too

Settings: 2 brokers and 50 (a spanning tree of the map Surfnet), links of 0 ms and of 20 ms, advertised before or only
after the receipt, with and without brokers that crash in between and lose their memory. Nothing may be lost or come
twice. The published experiments on guarantees are in the lab: `tidings lab run dependable/E23`.
"""

import argparse
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import msgspec

from tidings.sim.library.brokers import brokers
from tidings.sim.scenario import run_scenario

ROUNDS, ROUNDS_QUICK = 1000, 50
CRASHES = 5
NETWORKS = (("chain", 2), ("zoo-tree:Surfnet", 50))
LATENCIES = (0.0, 0.02)
HEADER = ("| | found | verdict |", "|---|---|---|")


class Line(msgspec.Struct, frozen=True):
    """A row of the table."""

    what: str
    found: str
    passed: bool

    def markdown(self) -> str:
        return f"| {self.what} | {self.found} | {'reached' if self.passed else 'missed'} |"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.race", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=f"{ROUNDS_QUICK} rounds in each setting")
    parser.add_argument("--write", type=Path, help="a file for the table")
    arguments = parser.parse_args()
    lines = []
    for line in race(ROUNDS_QUICK if arguments.quick else ROUNDS):
        print(f"{line.what}: {line.found}", file=sys.stderr)
        lines.append(line)
    table = "\n".join([*HEADER, *[line.markdown() for line in lines]])
    print(table)
    if arguments.write is not None:
        arguments.write.write_text(table + "\n")
    return 0 if all(line.passed for line in lines) else 1


def race(rounds: int) -> Iterator[Line]:
    for (topology, nodes), latency, crashes, late in product(NETWORKS, LATENCIES, (0, CRASHES), (False, True)):
        scenario = brokers(nodes, topology, rounds, latency, late=late, crashes=crashes)
        result = run_scenario(scenario, seed=1, check="never", frames=False)
        what = f"{nodes} brokers, {latency * 1000:.0f} ms links, {rounds} rounds"
        what += (", advertised after the receipt" if late else "") + (", brokers crash" if crashes else "")
        found = f"{result.problem_count} lost or twice" + (f"; {len(result.faults)} crashes" if crashes else "")
        yield Line(what, found, result.passed)


if __name__ == "__main__":
    sys.exit(main())
