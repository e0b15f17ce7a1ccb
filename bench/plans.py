"""`python -m bench.plans`: a plan is carried out by real brokers while events flow, and every event is looked for.

    python -m bench.plans                          30 brokers, a fifth of the links
    python -m bench.plans --brokers 60 --rate 5000

Brokers are processes on loopback, in a random tree whose goal is that of the workload `topology-change`. Publishers and
subscribers are clients in this process, each at a broker of its own choosing: every subscriber wants what every
publisher offers. After some seconds of load the plan is carried out (`tidings plan apply`), and the load goes on for as
long behind it.

Judged: each event has to reach each subscriber once, and in the order of its publisher. Latency is from the call that
publishes to the moment at which the application has the event, of events published before, during and behind the plan:
compare them with each other, since other work on the machine makes the clock mean little.
"""

import argparse
import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from random import Random
from typing import Any

import tidings
from bench.brokers.servers import free_port
from bench.timing import percentile
from tidings.cli.live_plans import Followed, live_tree
from tidings.cli.reach import Reach
from tidings.net.inspector import InspectorAccess
from tidings.planning.plan import TopologyPlan
from tidings.planning.quick import quick_plan
from tidings.planning.tree import OverlayTree, tree_of
from tidings.pubsub.rows import PlanRow
from tidings.workloads.topology_changes import TopologyChange

WAIT_MAX = 300.0
ENVIRONMENT = {
    "TIDINGS_BROKER_ROUTING__ENGINE": "plain",
    "TIDINGS_BROKER_ROUTING__REPAIR": "shift",
    "TIDINGS_BROKER_OVERLAY__KIND": "scripted",
    "TIDINGS_BROKER_OVERLAY__TAKES_CONFIGURED": "true",
    # All connections come from one address here.
    "TIDINGS_BROKER_HOST__ADDRESS_CONNECTIONS_MAX": "10000",
}
BEFORE, DURING, BEHIND = "before", "during", "behind"


class SteeredBrokers:
    """One process each, linked as the tree says."""

    def __init__(self, tree: OverlayTree) -> None:
        self.tree = tree
        self.ports = {name: free_port() for name in tree.brokers}
        self.children: list[asyncio.subprocess.Process] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["SteeredBrokers"]:
        try:
            for name in self.tree.brokers:
                await self.start(name)
            yield self
        finally:
            for child in self.children:
                if child.returncode is None:
                    child.kill()
                await child.wait()

    async def start(self, name: str) -> None:
        links = [b for a, b in self.tree.links if a == name]
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tidings", "broker", "--until-eof", "--name", name),
            *("--listen", self.address(name), "--log", "error"),
            *[part for other in links for part in ("--link", self.address(other))],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            env={**os.environ, **ENVIRONMENT},
        )
        self.children.append(child)

    def address(self, name: str) -> str:
        return f"127.0.0.1:{self.ports[name]}"

    def processor_seconds(self) -> float:
        ticks = 0
        for child in self.children:
            with contextlib.suppress(OSError), open(f"/proc/{child.pid}/stat", encoding="ascii") as stat:
                fields = stat.read().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


class Load:
    """What was published when, and what each subscriber got."""

    def __init__(self) -> None:
        self.phase = BEFORE
        self.published: dict[str, list[tuple[float, str]]] = {}
        self.got: dict[str, dict[str, list[int]]] = {}
        self.latencies: dict[str, list[float]] = {BEFORE: [], DURING: [], BEHIND: []}
        self.is_over = False

    async def publish(self, client: tidings.Client, name: str, period: float) -> None:
        mine, at = self.published.setdefault(name, []), time.monotonic()
        while not self.is_over:
            mine.append((time.monotonic(), self.phase))
            await client.publish({"topic": "plans", "by": name, "n": len(mine) - 1}, b"x" * 100)
            at = max(at + period, time.monotonic() - 1.0)
            await asyncio.sleep(max(0.0, at - time.monotonic()))
        await client.flush()

    async def receive(self, subscription: tidings.Subscription, name: str) -> None:
        mine = self.got.setdefault(name, {})
        async for event in subscription:
            by, number = str(event.attributes["by"]), int(event.attributes["n"])
            at, phase = self.published[by][number]
            self.latencies[phase].append(time.monotonic() - at)
            mine.setdefault(by, []).append(number)

    @property
    def missing(self) -> int:
        due = sum(map(len, self.published.values()))
        return sum(due - sum(len(set(numbers)) for numbers in mine.values()) for mine in self.got.values())

    def judged(self) -> dict[str, Any]:
        came = [numbers for mine in self.got.values() for numbers in mine.values()]
        return {
            "published": sum(map(len, self.published.values())),
            "delivered": sum(map(len, came)),
            "lost": self.missing,
            "twice": sum(len(numbers) - len(set(numbers)) for numbers in came),
            "out of order": sum(late < early for numbers in came for early, late in pairwise(numbers)),
            **{
                f"latency {phase}, ms": {
                    "events": len(each),
                    "median": round(1000 * percentile(each, 0.5), 1),
                    "p99": round(1000 * percentile(each, 0.99), 1),
                    "max": round(1000 * max(each), 1),
                }
                for phase, each in self.latencies.items()
                if each
            },
        }


async def carried_out(brokers: SteeredBrokers, plan: TopologyPlan) -> PlanRow:
    deployer = brokers.tree.brokers[0]
    reach = Reach(brokers.address(deployer), InspectorAccess())
    live = await live_tree(reach)
    return await Followed(reach, True).carry_out(live, TopologyPlan(live.tree, plan.goal, plan.steps))


async def whole_tree(brokers: SteeredBrokers) -> None:
    """Until all say that they are linked as they are to be."""
    reach, deadline = Reach(brokers.address(brokers.tree.brokers[0]), InspectorAccess()), time.monotonic() + WAIT_MAX
    while True:
        with contextlib.suppress(Exception):
            if set((await live_tree(reach)).tree.links) == set(brokers.tree.links):
                return
        if time.monotonic() > deadline:
            raise SystemExit(f"the brokers were no tree within {WAIT_MAX:g} s")
        await asyncio.sleep(0.5)


async def measure(given: argparse.Namespace) -> dict[str, Any]:
    trees = TopologyChange(brokers=given.brokers, change=given.change, seed=given.seed)
    today, rng = tree_of(trees.today().links), Random(given.seed)
    found = quick_plan(today, trees.goal(), rng)
    assert found is not None
    plan, load = found.plan, Load()
    async with SteeredBrokers(today).running() as brokers, contextlib.AsyncExitStack() as stack:
        await whole_tree(brokers)
        tasks: list[asyncio.Task[None]] = []
        for number in range(given.subscribers):
            client = await stack.enter_async_context(connected(brokers, rng))
            subscription = await client.subscribe("topic = 'plans'", guarantee="installed")
            tasks.append(asyncio.create_task(load.receive(subscription, f"s{number}")))
        publishing: list[asyncio.Task[None]] = []
        for number in range(given.publishers):
            client = await stack.enter_async_context(connected(brokers, rng))
            await client.advertise("topic = 'plans'")
            publishing.append(asyncio.create_task(load.publish(client, f"p{number}", given.publishers / given.rate)))
        await asyncio.sleep(given.seconds)
        before, load.phase = brokers.processor_seconds(), DURING
        row = await carried_out(brokers, plan)
        spent, load.phase = brokers.processor_seconds() - before, BEHIND
        tree_after = (await live_tree(Reach(brokers.address("b0"), InspectorAccess()))).tree
        await asyncio.sleep(given.seconds)
        load.is_over = True
        await asyncio.gather(*publishing)
        deadline = time.monotonic() + WAIT_MAX
        while load.missing and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        for task in tasks:
            task.cancel()
    return {
        "brokers": given.brokers,
        "plan": f"{len(plan.steps)} steps, {len(plan.actions)} actions",
        "state": row.state,
        "problem": row.problem,
        "is the goal": tree_after == trees.goal(),
        "seconds": round(row.seconds, 2),
        "processor seconds of brokers": round(spent, 1),
        **load.judged(),
    }


def connected(brokers: SteeredBrokers, rng: Random) -> Any:
    return tidings.connect(f"tidings://{brokers.address(rng.choice(brokers.tree.brokers))}", timeout=WAIT_MAX)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.plans", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--brokers", type=int, default=30)
    parser.add_argument("--change", type=float, default=0.2)
    parser.add_argument("--publishers", type=int, default=5)
    parser.add_argument("--subscribers", type=int, default=5)
    parser.add_argument("--rate", type=float, default=200.0, help="events a second of all publishers together")
    parser.add_argument("--seconds", type=float, default=10.0, help="of load before the plan, and behind it")
    parser.add_argument("--seed", type=int, default=1)
    found = asyncio.run(measure(parser.parse_args()))
    print(json.dumps(found, indent=1))
    is_good = found["state"] == "done" and found["is the goal"]
    return 0 if is_good and not (found["lost"] or found["twice"] or found["out of order"]) else 1


if __name__ == "__main__":
    sys.exit(main())
