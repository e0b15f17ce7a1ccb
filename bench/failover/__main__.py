"""`python -m bench.failover`: two neighbouring brokers of twenty are killed for ten seconds under load.

python -m bench.failover                         ours without and with failover, and NATS where it is installed
python -m bench.failover --rate 400              events a second of all publishers together (100)
python -m bench.failover --only gossip,tree
python -m bench.failover --rest 120              seconds at rest in which CPU time is measured (30)
"""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from bench.brokers.servers import Missing
from bench.failover.shape import KILLED, LEAVES, NAMES, TOPICS, OutagePlan, subscribers_of
from bench.failover.systems import NatsServers, OutageSystem, TidingsTree, cpu_seconds, load
from bench.failover.tally import OutageTally

SYSTEMS = ("tree", "gossip", "leaf", "cluster")
LOOK_PERIOD = 0.2
WARMING = 3.0
"""Seconds of publications that are not counted, at first."""


def make(name: str, folder: Path) -> OutageSystem:
    if name in ("leaf", "cluster"):
        return NatsServers(name == "cluster", folder)
    return TidingsTree("none" if name == "tree" else name, folder)


async def publish(system: OutageSystem, tally: OutageTally, plan: OutagePlan, seconds: float, prefix: str) -> None:
    """At an even rate, by the publishers in turn, each by all topics in turn."""
    payload = b"x" * plan.payload_bytes
    begin, count = time.monotonic(), 0
    while (passed := time.monotonic() - begin) < seconds:
        while count < passed * plan.rate:
            leaf, topic = count % len(LEAVES), (count // len(LEAVES)) % TOPICS
            event = f"{prefix}{count}"
            if prefix:
                tally.publish(time.monotonic(), event, subscribers_of(topic))
            await system.publish(leaf, topic, event, payload)
            count += 1
        await asyncio.sleep(0.5 / plan.rate)


async def strike(system: OutageSystem, tally: OutageTally, plan: OutagePlan) -> None:
    await asyncio.sleep(plan.before)
    tally.killed_at = time.monotonic()
    await asyncio.gather(*map(system.kill, KILLED))
    await asyncio.sleep(plan.outage - (time.monotonic() - tally.killed_at))
    tally.back_at = time.monotonic()
    await asyncio.gather(*map(system.start, KILLED))


async def measure(name: str, plan: OutagePlan, folder: Path) -> None:
    system, tally = make(name, folder), OutageTally()

    def came(kind: str, leaf: int, event: str) -> None:
        if event in tally.published:
            tally.deliver(time.monotonic(), kind, leaf, event)

    async with system.running(came):
        await asyncio.sleep(plan.resting / 3)
        begin, used = time.monotonic(), cpu_seconds(system.pids())
        await asyncio.sleep(plan.resting)
        share = (cpu_seconds(system.pids()) - used) / (time.monotonic() - begin) / len(NAMES)
        print(f"{system.name:18} at rest a server takes {share:.2%} of a CPU", flush=True)
        await publish(system, tally, plan, WARMING, "")
        used = cpu_seconds(system.pids())
        begin_load = load()
        await asyncio.gather(publish(system, tally, plan, plan.seconds, "e"), strike(system, tally, plan))
        ended = time.monotonic()
        while not tally.is_complete(system.kinds) and time.monotonic() < max(ended, tally.heard_at) + plan.settling:
            await asyncio.sleep(LOOK_PERIOD)
        for kind in system.kinds:
            print(tally.figures(system.name, kind).line(), flush=True)
        rate = len(tally.published) / plan.seconds
        print(f"{system.name:18} {rate:.0f} events a second; load of the machine {begin_load:.1f} to {load():.1f}")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.failover", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=OutagePlan().rate)
    parser.add_argument("--rest", type=float, default=OutagePlan().resting)
    parser.add_argument("--only", default=",".join(SYSTEMS), help=f"some of {', '.join(SYSTEMS)}")
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    for name in names:
        if name not in SYSTEMS:
            parser.error(f"--only: there is no {name!r}; choose from {', '.join(SYSTEMS)}")
    plan = OutagePlan(rate=arguments.rate, resting=arguments.rest)
    for name in names:
        with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
            try:
                asyncio.run(measure(name, plan, Path(folder)))
            except Missing as problem:
                print(f"{name}: left out, {problem}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
