"""`python -m bench.guarantees`: the experiments on guarantees (E23 to E25) and the race, in the simulator.

    python -m bench.guarantees                 everything at its published scale: long
    python -m bench.guarantees --seconds 60    shorter runs
    python -m bench.guarantees --only race     one part: race, E23, E24 or E25
    python -m bench.guarantees --write FILE    the tables as Markdown, too

Brokers stand in 3, 6 or 10 cloud regions (ov1, ov2, ov3). 10 publishers at us-e, de-c and ch-e publish 10 events a
second each; 20 subscribers are there at the beginning, and others join at 5 a second for 30 s. The published round-trip
times are lost with their figure; ours are about those that one sees between such regions.

The guarantees are compared with what a client can do by itself in a plain system (`delivery/baselines.py`). In the
network it is the same broker in both cases; acknowledgements, which a plain broker would not send, are not counted for
the plain system.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from math import ceil
from pathlib import Path
from statistics import fmean

import msgspec

from bench.guarantee_measures import (
    delivery_latency_99,
    false_positives,
    group_differences,
    messages_per_broker,
    missed_publications,
    throughput,
)
from bench.guarantee_runs import SIZES, Experiment, Outcome, Setting
from tidings.sim.checkers import Checker, Invariants
from tidings.sim.library.brokers import brokers
from tidings.sim.scenario import Scenario, run_scenario
from tidings.sim.topologies import Topology


class Line(msgspec.Struct, frozen=True):
    """A row of a table."""

    experiment: str
    what: str
    published: str
    measured: str
    verdict: str


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.guarantees", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300.0, help="of publishing, in each run")
    parser.add_argument("--rounds", type=int, default=1000, help="of the race, in each setting")
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, separated by commas: {', '.join(PARTS)}")
    parser.add_argument("--write", type=Path, help="a file for the tables")
    arguments = parser.parse_args()
    lines: list[Line] = []
    for part in arguments.only.split(","):
        if part not in PARTS:
            parser.error(f"--only: there is no part {part!r}; choose from {', '.join(PARTS)}")
        begun = time.process_time()
        lines += PARTS[part](arguments.seconds, arguments.rounds)
        print(f"{part}: {time.process_time() - begun:.0f} s of CPU time", file=sys.stderr)
    table = markdown(lines)
    print(table)
    if arguments.write is not None:
        arguments.write.write_text(table + "\n")
    return 0 if all(line.verdict != "missed" for line in lines) else 1


def markdown(lines: Sequence[Line]) -> str:
    rows = [
        f"| {line.experiment} | {line.what} | {line.published} | {line.measured} | {line.verdict} |" for line in lines
    ]
    return "\n".join(["| | | published | measured | verdict |", "|---|---|---|---|---|", *rows])


def verdict(holds: bool) -> str:
    return "reached" if holds else "missed"


def run(overlay: str, seconds: float, **settings: object) -> Outcome:
    return Experiment(msgspec.convert({"overlay": overlay, "seconds": seconds, **settings}, Setting)).run()


def race(seconds: float, rounds: int) -> list[Line]:
    """Subscribe, wait for the receipt, publish elsewhere."""
    lines = []
    for topology, nodes in (("chain", 2), ("zoo-tree:Surfnet", 50)):
        for latency in (0.0, 0.02):
            for late, crashes in ((False, 0), (True, 0), (False, 5), (True, 5)):
                scenario = without_invariants(brokers(nodes, topology, rounds, latency, late=late, crashes=crashes))
                result = run_scenario(scenario, seed=1, checking=False)
                what = f"{nodes} brokers, {latency * 1000:.0f} ms links, {rounds} rounds"
                what += (", advertised after the receipt" if late else "") + (", brokers crash" if crashes else "")
                print(what, result.passed, file=sys.stderr)
                found = f"{result.problem_count} lost or twice" + (f"; {len(result.faults)} crashes" if crashes else "")
                lines.append(Line("race", what, "NATS loses 7 % at 0 ms, all at 20 ms", found, verdict(result.passed)))
    return lines


def without_invariants(scenario: Scenario) -> Scenario:
    """Checking the state of every machine after every step takes most of the time, and tests do it."""

    def checkers(topology: Topology) -> list[Checker]:
        return [checker for checker in scenario.checkers(topology) if not isinstance(checker, Invariants)]

    return msgspec.structs.replace(scenario, checkers=checkers)


def acknowledgements(seconds: float, rounds: int) -> list[Line]:
    """E23."""
    lines, first = [], 0.0
    for overlay in SIZES:
        ours = run(overlay, seconds, system="guarantees", kind="installed", history=0.0)
        timeout = float(ceil(max(ours.ack_times)))
        plain = run(overlay, seconds, system="plain", kind="installed", history=0.0, timeout=timeout)
        mean = fmean(ours.ack_times)
        first = first or mean
        share, count = false_positives(plain)
        own_share, _ = false_positives(ours)
        ratio = fmean(plain.in_memory) / max(1e-9, fmean(ours.in_memory))
        growth = f"{mean * 1000:.0f} ms ({mean / first - 1:+.0%} to ov1)"
        lines += [
            Line("E23", f"{overlay}: mean time to the receipt of a publication", "up to +54 % ov1 to ov3", growth, ""),
            Line(
                "E23",
                f"{overlay}: publications in memory, time-out of {timeout:.0f} s to receipts",
                "up to 10 times",
                f"{ratio:.1f} times",
                verdict(ratio > 3),
            ),
            Line(
                "E23",
                f"{overlay}: subscribers with false positives, plain",
                "up to 40 %",
                f"{share:.0%}, {count:.1f} each",
                verdict(share > 0 or overlay == "ov1"),
            ),
            Line("E23", f"{overlay}: the same, with guarantees", "0", f"{own_share:.0%}", verdict(own_share == 0)),
        ]
    return lines


def references(seconds: float, rounds: int) -> list[Line]:
    """E24."""
    lines = []
    shares, differences = [], []
    for overlay in SIZES:
        ours = run(overlay, seconds, system="guarantees", kind="reference")
        plain = run(overlay, seconds, system="plain", kind="reference")
        share, count = missed_publications(plain)
        differing, difference = group_differences(plain)
        own, own_difference = missed_publications(ours)[0], group_differences(ours)[0]
        shares.append(share)
        differences.append(differing)
        lines += [
            Line(
                "E24",
                f"{overlay}: subscribers that miss something, plain",
                "50 to 60 %; 28 to 38 each",
                f"{share:.0%}; {count:.1f} each",
                verdict(share > 0),
            ),
            Line(
                "E24",
                f"{overlay}: twins that differ, plain",
                "10 to 20 %; by 23 to 92",
                f"{differing:.0%}; by {difference:.1f}",
                verdict(differing > 0),
            ),
            Line(
                "E24",
                f"{overlay}: both, with guarantees",
                "0 and 0",
                f"{own:.0%} and {own_difference:.0%}",
                verdict(own == 0 and own_difference == 0),
            ),
        ]
    grows = shares == sorted(shares) and differences == sorted(differences)
    lines.append(Line("E24", "plain: both grow with the overlay", "yes", "yes" if grows else "no", verdict(grows)))
    return lines


def cost(seconds: float, rounds: int) -> list[Line]:
    """E25."""
    lines = []
    for joins in (5, 10, 15):
        ours = run("ov2", seconds, system="guarantees", kind="mixed", joins=joins)
        plain = run("ov2", seconds, system="plain", kind="mixed", joins=joins)
        more = messages_per_broker(ours) / messages_per_broker(plain) - 1
        rate = throughput(ours) / throughput(plain) - 1
        latency = delivery_latency_99(ours) / delivery_latency_99(plain) - 1
        lines += [
            Line("E25", f"{joins} joins/s: messages per broker", "+2 to +3 %", f"{more:+.1%}", verdict(more <= 0.05)),
            Line(
                "E25",
                f"{joins} joins/s: publications per second and broker",
                "not less",
                f"{rate:+.1%}",
                verdict(rate > -0.05),
            ),
            Line(
                "E25",
                f"{joins} joins/s: latency, 99th percentile",
                "similar",
                f"{latency:+.1%}",
                verdict(abs(latency) <= 0.05),
            ),
        ]
    return lines


PARTS: dict[str, Callable[[float, int], list[Line]]] = {
    "race": race,
    "E23": acknowledgements,
    "E24": references,
    "E25": cost,
}


if __name__ == "__main__":
    sys.exit(main())
