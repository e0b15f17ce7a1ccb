"""A plan and a network that runs: today's tree from what its brokers say, and how far a plan has come.

The tree is asked of every broker that can be reached from the one that is given. Whoever carries the plan out is that
broker; it is told where the others listen, since it has a link to each for as long as the plan lasts. What brokers
exchange is measured by looking at their tables twice (`diagnosis/traffic.py`). How far they are from each other nobody
asks them: without a table they are taken to be as far as their answers take to come here, the mean of both, which is
right where the command runs beside them.
"""

import asyncio
import sys
import time
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from tidings.cli.output import json_line, show
from tidings.cli.reach import Reach
from tidings.diagnosis.network import Network, crawl
from tidings.diagnosis.traffic import MEASURED, measured_traffic, offers_of, publishing_rates
from tidings.machine.message import Contact
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.net.inspector import Inspector, NotInspected
from tidings.planning.plan import TopologyPlan
from tidings.planning.traffic import Traffic
from tidings.planning.tree import Link, OverlayTree, is_tree, link, tree_of
from tidings.protocols.coordination.messages import AskedPlan, Verb
from tidings.pubsub.rows import BrokerRow, EventRow, PlannedActionRow, PlanRow

if TYPE_CHECKING:
    from tidings.sim.rehearsal import RehearsedBroker

LOOK_PERIOD = 0.2
"""Seconds between two looks at how far it is."""

OVER = ("done", "aborted")
BAR_CHARS = 30
LOOKS, ASKED_AT_ONCE = 9, 16
"""For how far away brokers are: times that each is asked, and brokers at the same time."""
PATIENCE = 60.0
"""Seconds for which a broker that carries a plan out may not answer, because it starts again, say."""


class LiveTree(msgspec.Struct, frozen=True):
    tree: OverlayTree
    addresses: dict[NodeId, str]
    deployer: NodeId
    """The broker that was asked."""
    network: Network
    """The tables of all, as they are measured."""

    @property
    def entries(self) -> int:
        """Filters and advertisements that a broker may know."""
        reported = self.network.brokers.values()
        filters = {row.filter for each in reported for row in each.subscriptions}
        offers = {row.advertisement for each in reported for row in each.advertisements}
        return len(filters) + len(offers)

    @property
    def asked(self) -> BrokerRow:
        return self.network.brokers[self.deployer].broker


async def live_tree(reach: Reach) -> LiveTree:
    """The tree of all brokers that can be reached; `UsageError` where they are none."""
    async with Inspector(reach.broker, reach.access) as inspector:
        (own,) = await inspector.table("broker", BrokerRow)
    network = await crawl((reach.broker,), reach.access, MEASURED)
    if network.unreached:
        gone = network.unreached[0]
        raise UsageError(
            f"the broker at {gone.address} does not answer ({gone.problem}); a plan needs all of them: start it, or "
            "have the others let go of it"
        )
    links = {link(a, b) for a, b in network.links()}
    if not is_tree(links, tuple(network.brokers)):
        raise UsageError(
            f"the network is no tree now: {len(network.brokers)} brokers, {len(links)} links that both ends have; see "
            "`tidings doctor`, and try again when it is whole"
        )
    told = {row.broker: row.address for each in network.brokers.values() for row in each.links if row.address}
    addresses = {name: each.broker.listen or told.get(name, "") for name, each in network.brokers.items()}
    return LiveTree(tree_of(links, network.brokers), addresses, own.broker, network)


async def latencies_from_here(reach: Reach, live: LiveTree) -> dict[Link, float]:
    """Half of what a broker takes to answer, the median of some times; of two brokers the mean."""
    room = asyncio.Semaphore(ASKED_AT_ONCE)

    async def one_way(name: NodeId) -> float:
        async with room, Inspector(live.addresses.get(name) or reach.broker, reach.access) as inspector:
            spans = []
            for _ in range(LOOKS):
                begun = time.monotonic()
                await inspector.table("plan", PlanRow)
                spans.append(time.monotonic() - begun)
            return median(spans) / 2

    names = live.tree.brokers
    ways = dict(zip(names, await asyncio.gather(*map(one_way, names)), strict=True))
    return {link(a, b): (ways[a] + ways[b]) / 2 for place, a in enumerate(names) for b in names[place + 1 :]}


async def looked_twice(reach: Reach, seconds: float) -> tuple[Network, Network, float]:
    """With so many seconds in between, or a little more."""
    before, begun = await crawl((reach.broker,), reach.access, MEASURED), time.monotonic()
    await asyncio.sleep(seconds)
    after = await crawl((reach.broker,), reach.access, MEASURED)
    return before, after, time.monotonic() - begun


async def measured(reach: Reach, seconds: float) -> Traffic:
    """What the brokers exchange."""
    return measured_traffic(*await looked_twice(reach, seconds))


async def rehearsed_brokers(reach: Reach, seconds: float) -> "dict[NodeId, RehearsedBroker]":
    """What their clients want, and what they publish: by its rate, and the last event of it that is stored."""
    from tidings.sim.rehearsal import RehearsedBroker, RehearsedOffer

    before, after, span = await looked_twice(reach, seconds)
    rates, offers = publishing_rates(before, after, span), offers_of(after)
    found: dict[NodeId, RehearsedBroker] = {}
    for name, each in after.brokers.items():
        mine: list[RehearsedOffer] = []
        async with Inspector(each.broker.listen or reach.broker, reach.access) as inspector:
            for row in each.publishers:
                filters, rate = offers.get((name, row.publisher), []), rates.get((name, row.publisher), 0.0)
                stored = await inspector.table("event", EventRow, f"{row.publisher}/{row.accepted}") if rate else []
                if filters and stored:
                    wide = " OR ".join(f"({filter})" for filter in filters)
                    mine.append(RehearsedOffer(wide, stored[0].attributes, rate))
        found[name] = RehearsedBroker(tuple(row.filter for row in each.subscriptions), tuple(mine))
    return found


class Followed:
    """Asks the broker, and tells how far it is."""

    def __init__(self, reach: Reach, is_json: bool) -> None:
        self.reach, self.is_json = reach, is_json
        self.said = ""

    async def carry_out(self, live: LiveTree, plan: TopologyPlan) -> PlanRow:
        contacts = tuple(Contact(name, address) for name, address in sorted(live.addresses.items()))
        async with Inspector(self.reach.broker, self.reach.access) as inspector:
            await inspector.plan("carry out", AskedPlan(plan, contacts))
        return await self.follow()

    async def order(self, verb: Verb) -> PlanRow:
        async with Inspector(self.reach.broker, self.reach.access) as inspector:
            await inspector.plan(verb)
        return await self.follow()

    async def look(self) -> tuple[PlanRow | None, list[PlannedActionRow]]:
        async with Inspector(self.reach.broker, self.reach.access) as inspector:
            rows = await inspector.table("plan", PlanRow)
            return (rows[0] if rows else None), await inspector.table("plan-actions", PlannedActionRow)

    async def follow(self) -> PlanRow:
        """Until the plan is over, also across a broker that starts again."""
        silent_since = time.monotonic()
        while True:
            try:
                row, _ = await self.look()
                silent_since = time.monotonic()
            except NotInspected as problem:
                if problem.is_refused or time.monotonic() > silent_since + PATIENCE:
                    raise
                row = None
            if row is not None:
                self.tell(row)
                if row.state in OVER:
                    return row
            await asyncio.sleep(LOOK_PERIOD)

    def tell(self, row: PlanRow) -> None:
        rounded = msgspec.structs.replace(row, seconds=round(row.seconds, 1))
        line = json_line(rounded) if self.is_json else text_of(row)
        if line == self.said:
            return
        self.said = line
        if sys.stdout.isatty() and not self.is_json:
            print(f"\r{line}\x1b[K", end="\n" if row.state in OVER else "", flush=True)
        elif self.is_json:
            print(line, flush=True)
        else:
            show(line)


def text_of(row: PlanRow) -> str:
    """One line, with a bar."""
    filled = BAR_CHARS * row.actions_done // max(1, row.actions)
    bar = "#" * filled + "." * (BAR_CHARS - filled)
    why = f": {row.problem}" if row.problem else ""
    counts = f"step {row.step} of {row.steps}, {row.actions_done} of {row.actions} actions"
    return f"{row.plan} {row.state} [{bar}] {counts}, {row.seconds:.1f} s{why}"
