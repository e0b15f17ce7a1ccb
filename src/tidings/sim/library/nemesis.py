"""Nemesis: everything goes wrong at once, and whatever a broker promises is held against it.

One scenario draws all that a network can be given from the seed: brokers and how they are linked, with disks and
without, clocks that differ, readers and writers and all they do (`workloads/nemesis/campaign.py`), a network that is
slow, narrow or loses packets, and faults of every kind, of brokers and of clients. A judge that sees what applications
see, and decides by itself what matches, holds the outcome against every promise (`workloads/nemesis/promise.py`).

`NemesisConductor` plays the applications. Its script is the campaign: who subscribes, advertises and publishes what,
and when. A client whose process ended and began anew opens again what its script has open at that time; what it was to
publish while it was down is not published. A client that may not publish now, because too much of what it published
waits to be accepted, tries again a little later, as a program would.

What a broker without a disk loses when it crashes was never promised to stay: the judge is told which writers that
broker may have served. Nothing else is excused.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tidings.machine.inputs import Input
from tidings.machine.node import Machine
from tidings.machine.streams import RandomStream, random_stream
from tidings.model.identity import NodeId, name_of
from tidings.nodes.broker import BrokerParams
from tidings.nodes.client import ClientNode
from tidings.protocols.access.params import AccessParams
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.routing.params import ReductionName, RoutingParams, StrategyName
from tidings.pubsub.client import (
    Accepted,
    Arrived,
    Begun,
    CloseAdvertisement,
    CloseSubscription,
    Confirmed,
    Declined,
    Ended,
    Failed,
    Missed,
    OpenAdvertisement,
    OpenSubscription,
    PublishBatch,
    Took,
)
from tidings.pubsub.publications import decode_head, encode_head
from tidings.pubsub.signals import PeerDown
from tidings.sim.cast import ClientRole, Until, cast_all
from tidings.sim.checkers import Checker, Problem
from tidings.sim.fault_schedule import FaultMix, draw_faults, draw_span
from tidings.sim.faults import Break, Crash, Fault, FaultPlan, plan_of
from tidings.sim.network.bandwidth import Bandwidth
from tidings.sim.network.latency import Constant, Jittered
from tidings.sim.network.loss import Loss
from tidings.sim.network.rule import Rule
from tidings.sim.node import Make, SimulatedNode
from tidings.sim.scenario import Scenario
from tidings.sim.simulator import Simulator
from tidings.sim.topologies import Topology
from tidings.sim.topologies.shapes import make_topology
from tidings.workloads.churn import FOR_EVER
from tidings.workloads.nemesis.campaign import (
    BEGIN,
    Campaign,
    CampaignParams,
    WantedLater,
    WrittenLater,
    draw_campaign,
    payload_of,
)
from tidings.workloads.nemesis.promise import BrokenPromise, PromiseJudge

SETTLING = 200.0
"""Links that vanished are noticed after 20 s, questions asked again after 30 s, receipts given up after 30 s; and
readers that take one event at a time need some round trips for each."""

TRY_AGAIN = 0.25
"""Seconds after which a client that could not publish tries again."""

STRATEGIES: tuple[StrategyName, ...] = ("advertisement", "advertisement", "advertisement", "subscription", "flooding")
REDUCTIONS: tuple[ReductionName, ...] = ("covering", "merging", "plain")


class Stage(Topology, frozen=True):
    """Brokers and their links, clients, and the campaign that is played on them."""

    campaign: Campaign


def nemesis(
    brokers: int = 0,
    writers_max: int = 10_000,
    scale: str = "",
    bulk: bool = True,
    tables: bool = True,
    clock_error_max: float = 60.0,
    short_history: bool = True,
    faults: int = 4,
    restarts: int = 2,
    writer_restarts: bool = True,
) -> Scenario:
    """Everything that can be drawn is drawn, everything that can fail fails, and every promise is judged."""
    params = CampaignParams(
        brokers=brokers,
        writers_max=writers_max,
        is_bulk=bulk,
        has_tables=tables,
        clock_error_max=clock_error_max,
        has_short_history=short_history,
        scale=scale,
    )
    return Scenario(
        name="nemesis",
        topology=lambda seed: make_stage(draw_campaign(params, seed)),
        roles=lambda stage: cast_stage(as_stage(stage)),
        workload=lambda stage, seed: [],
        network=lambda stage, until, seed: draw_network(random_stream(seed, "nemesis network"), until),
        faults=lambda stage, until, seed: draw_trouble(as_stage(stage), until, seed, faults, restarts, writer_restarts),
        checkers=lambda stage: [NemesisConductor(as_stage(stage).campaign)],
        duration=BEGIN + params.span,
        settling=SETTLING,
    )


def as_stage(topology: Topology) -> Stage:
    assert isinstance(topology, Stage)
    return topology


def make_stage(campaign: Campaign) -> Stage:
    linked = make_topology(campaign.shape, len(campaign.brokers), campaign.seed)
    clients = tuple(client.name for client in campaign.clients)
    assert linked.nodes == tuple(broker.name for broker in campaign.brokers)
    return Stage("nemesis", linked.nodes + clients, linked.edges, campaign)


def cast_stage(stage: Stage) -> Mapping[NodeId, Make]:
    campaign, rng = stage.campaign, random_stream(stage.campaign.seed, "nemesis routing")
    routing = RoutingParams(strategy=rng.choice(STRATEGIES), reduction=rng.choice(REDUCTIONS))
    roles: dict[NodeId, tuple[str, Any]] = {}
    for broker in campaign.brokers:
        delivery = EdgeParams(
            is_durable=broker.is_durable,
            clock_offset=broker.clock_offset,
            history_age=campaign.history_age,
            history_count_max=campaign.history_count_max,
        )
        access = AccessParams(clock_offset=broker.clock_offset)
        roles[broker.name] = "broker", BrokerParams(access=access, routing=routing, delivery=delivery)
    for client in campaign.clients:
        roles[client.name] = "client", ClientRole(brokers=client.brokers, is_named=True)
    return cast_all(roles, stage)


def draw_network(rng: RandomStream, calm_at: float) -> Rule:
    latency = rng.choice((0.0, 0.002, 0.02, 0.1))
    calm: Rule = Jittered(Constant(latency), latency / 5) if latency else Constant(0.0)
    rough = Loss(calm, rng.choice((0.0, 0.01, 0.1)))
    network: Rule = Until(calm_at, rough, calm)
    rate_bps = rng.choice((0.0, 20e6, 100e6, 1e9))
    return Bandwidth(network, rate_bps) if rate_bps else network


def draw_trouble(stage: Stage, until: float, seed: int, most: int, restarts: int, writer_restarts: bool) -> FaultPlan:
    """Of each kind as many as drawn, up to `most`, of brokers and of their links; and of clients `restarts`."""
    campaign = stage.campaign
    end = max(until, BEGIN + 1.0)
    rng = random_stream(seed, "nemesis trouble")
    # In one run out of five everything is well, so that mistakes which faults would hide are seen.
    most = most if rng.random() < 0.8 else 0
    mix = FaultMix(
        begin=0.0,
        end=end,
        length_max=rng.choice((1.0, 5.0, 15.0)),
        crashes_forgetting=most,
        pauses=most // 2,
        partitions=most // 2,
        one_way_partitions=most // 4,
        swizzles=most // 4,
        skewed_clocks=most // 4 if campaign.clock_error else 0,
        slow_disks=most // 2,
        full_disks=most // 4,
        corruptions=most // 4,
        corruption_max=0.1,
    )
    drawn: list[Fault] = list(draw_faults(mix, [broker.name for broker in campaign.brokers], seed).faults)
    for _ in range(rng.below(2 * most + 1)):
        drawn.append(draw_break(rng, mix, stage))
    struck = [client.name for client in (campaign.clients if writer_restarts else campaign.readers)[:20]]
    for _ in range(rng.below(restarts + 1) if most else 0):
        drawn.append(Crash(*draw_span(rng, mix), rng.choice(struck), True, rng.random() < 0.5))
    for writer in campaign.writers[:20]:
        if rng.random() < 0.1:
            drawn.append(Crash(round(rng.uniform(BEGIN, end), 3), FOR_EVER, writer.name, True))
    return plan_of(drawn)


def draw_break(rng: RandomStream, mix: FaultMix, stage: Stage) -> Fault:
    if stage.edges and rng.random() < 0.5:
        edge = rng.choice(stage.edges)
        return Break(*draw_span(rng, mix), edge.a, edge.b)
    client = rng.choice(stage.campaign.clients)
    return Break(*draw_span(rng, mix), client.name, rng.choice(client.brokers))


class NemesisConductor(Checker):
    """Plays the applications of a campaign, and tells the judge what they see."""

    name = "nemesis"

    def __init__(self, campaign: Campaign) -> None:
        self.campaign, self.judge = campaign, PromiseJudge(campaign.may_forget)
        self.readers = {reader.name: reader for reader in campaign.readers}
        self.writers = {writer.name: writer for writer in campaign.writers}
        self.forgetful = {broker.name for broker in campaign.brokers if not broker.is_durable}
        self.machines: dict[NodeId, Machine] = {}
        """Of each node the machine that it was last seen with: another one is another life."""
        self.numbers: dict[tuple[NodeId, Any], int] = {}
        """What a client calls the subscription or offer of a ticket."""
        self.subscriptions: dict[tuple[NodeId, int], tuple[Any, WantedLater]] = {}
        """Of the present lives, by the client's number: the judge's key, and what it is."""
        self.sent: dict[NodeId, dict[int, str]] = {}
        """What writers published in their present lives and was not accepted, by number."""
        self.tickets: dict[tuple[NodeId, Any], str] = {}
        """Publications whose receipts are waited for."""
        self.counts: dict[NodeId, int] = {}

    # The script.

    def requested(self, now: float, node: SimulatedNode, input: Input) -> None:
        """Whatever happens to a node may be the first in its life."""
        self.notice_life(now, node)

    def notice_life(self, now: float, node: SimulatedNode) -> None:
        machine = node.machine
        assert machine is not None
        known = self.machines.get(node.id)
        if known is machine:
            return
        self.machines[node.id] = machine
        if node.id in self.forgetful and known is not None:
            served = [writer.name for writer in self.campaign.writers if node.id in writer.brokers]
            self.judge.forgot(served)
        elif node.id in self.readers or node.id in self.writers:
            self.begin_life(now, node, is_first=known is None)

    def begin_life(self, now: float, node: SimulatedNode, is_first: bool) -> None:
        name, life = node.id, node.lives
        for number in [number for client, number in self.subscriptions if client == name]:
            self.judge.closed(self.subscriptions.pop((name, number))[0])
        self.sent[name] = {}
        self.judge.gone(name)
        world = node.world
        if name in self.readers:
            for place, wanted in enumerate(self.readers[name].wanted):
                if wanted.until is None or wanted.until > now:
                    self.at(world, max(now, wanted.at), name, life, partial(self.subscribe, place, wanted))
                    self.at(world, wanted.until, name, life, partial(self.unsubscribe, place))
            return
        self.judge.begun(name, life)
        for place, offer in enumerate(self.writers[name].offers):
            if offer.until is None or offer.until > now:
                self.at(world, max(now, offer.at), name, life, partial(self.advertise, place))
                self.at(world, offer.until, name, life, partial(self.withdraw, place))
        for written in self.writers[name].written:
            if written.at >= now:
                self.at(world, written.at, name, life, partial(self.publish, written))

    def at(
        self,
        world: Simulator,
        time: float | None,
        name: NodeId,
        life: int,
        act: Callable[[float, SimulatedNode, int], None],
    ) -> None:
        """Act at this time if the client is still in this life then."""
        if time is None:
            return
        node = world.node(name)

        def call() -> None:
            if node.process is not None and node.lives == life:
                act(world.now, node, life)

        world.call_at(time, call)

    def subscribe(self, place: int, wanted: WantedLater, now: float, node: SimulatedNode, life: int) -> None:
        key = (node.id, "subscribe", life, place)
        since = None if wanted.since is None else wanted.since
        # Each of two clocks, and what a fault adds to them, may be off.
        promised = None if since is None else since + 2 * self.campaign.clock_error + SKEW_MAX
        self.judge.subscribed(key, node.id, wanted.wish, wanted.guarantee, promised, wanted.policy != "wait")
        self.judge.asked(key, node.id)
        node.inject(
            now,
            OpenSubscription(
                ticket=key,
                filter=wanted.wish.text(),
                guarantee=wanted.guarantee,
                since=since,
                policy=wanted.policy,
                queue_max=wanted.queue_max,
                window=wanted.window,
            ),
        )

    def unsubscribe(self, place: int, now: float, node: SimulatedNode, life: int) -> None:
        key = (node.id, "subscribe", life, place)
        number = self.numbers.get((node.id, key))
        if number is None or (node.id, number) not in self.subscriptions:
            return
        self.judge.closed(key)
        self.ask_to_close(now, node, CloseSubscription((node.id, "unsubscribe", life, place), number))

    def ask_to_close(self, now: float, node: SimulatedNode, request: CloseSubscription | CloseAdvertisement) -> None:
        self.judge.asked(request.ticket, node.id)
        node.inject(now, request)

    def advertise(self, place: int, now: float, node: SimulatedNode, life: int) -> None:
        key = (node.id, "advertise", life, place)
        self.judge.asked(key, node.id)
        node.inject(now, OpenAdvertisement(key, self.writers[node.id].offers[place].wish.text()))

    def withdraw(self, place: int, now: float, node: SimulatedNode, life: int) -> None:
        number = self.numbers.get((node.id, (node.id, "advertise", life, place)))
        if number is not None:
            self.ask_to_close(now, node, CloseAdvertisement((node.id, "withdraw", life, place), number))

    def publish(self, written: WrittenLater, now: float, node: SimulatedNode, life: int) -> None:
        name, machine, process = node.id, node.machine, node.process
        assert isinstance(machine, ClientNode) and process is not None
        offer = self.writers[name].offers[written.offer]
        number = self.numbers.get((name, (name, "advertise", life, written.offer)))
        if offer.until is not None and offer.until <= now:
            return
        again = partial(self.at, node.world, now + TRY_AGAIN, name, life, partial(self.publish, written))
        if number is None or not process.is_running:
            again()
            return
        count = self.counts.get(name, 0)
        id = f"{name}:{count}"
        attributes = {"id": id, **written.attributes}
        payload = payload_of(id, written.payload_bytes)
        ticket = (name, "publish", life, count) if written.wants_receipt else None
        request = PublishBatch(number, (encode_head(attributes),), (payload,), ticket)
        if not machine.takes(request):
            again()
            return
        self.counts[name] = count + 1
        self.sent[name][machine.window.next] = id
        self.judge.published(id, name, now, attributes, payload, offer.wish)
        if ticket is not None:
            self.judge.asked(ticket, name)
            self.tickets[name, ticket] = id
        node.inject(now, request)

    # What clients hand to their applications.

    def delivered(self, now: float, node: SimulatedNode, item: Any) -> None:
        if node.id not in self.readers and node.id not in self.writers:
            return
        self.notice_life(now, node)
        match item:
            case Begun(ticket, number):
                self.begun(node.id, ticket, number)
            case Confirmed(ticket, _):
                self.judge.answered(ticket)
                if ticket in self.judge.subscriptions:
                    self.judge.confirmed(ticket, now)
                elif (node.id, ticket) in self.tickets:
                    self.judge.reached(self.tickets.pop((node.id, ticket)))
            case Failed(ticket, reason):
                self.failed(now, node.id, ticket, reason)
            case Ended(kind, number, reason):
                raise self.fail(now, node.id, f"the {kind} of number {number} ended: {reason}")
            case Accepted(through):
                mine = self.sent[node.id]
                for number in [number for number in mine if number <= through]:
                    self.judge.accepted(mine.pop(number))
            case Declined(numbers, _):
                for number in numbers:
                    if number in self.sent[node.id]:
                        self.judge.declined(self.sent[node.id][number])
            case Missed(number, publisher, count, reason) if (node.id, number) in self.subscriptions:
                self.judge.missed(self.subscriptions[node.id, number][0], name_of(publisher), count, reason)
            case PeerDown():
                self.judge.interrupted(node.id)
            case Arrived():
                self.arrived(now, node, item)

    def begun(self, name: NodeId, ticket: Any, number: int) -> None:
        self.numbers[name, ticket] = number
        if ticket in self.judge.subscriptions:
            place = ticket[3]
            self.subscriptions[name, number] = ticket, self.readers[name].wanted[place]

    def failed(self, now: float, name: NodeId, ticket: Any, reason: str) -> None:
        """A receipt may be lost with its link; nothing else that is asked for here may be refused."""
        self.judge.answered(ticket)
        self.tickets.pop((name, ticket), None)
        if ticket[1] == "subscribe" and ticket in self.judge.subscriptions:
            if self.judge.subscriptions[ticket].is_open:
                raise self.fail(now, name, f"{ticket} failed: {reason}")
        elif ticket[1] == "advertise" and not reason.startswith("closed by"):
            raise self.fail(now, name, f"{ticket} failed: {reason}")

    def arrived(self, now: float, node: SimulatedNode, item: Arrived) -> None:
        key, wanted = self.subscriptions.get((node.id, item.subscription), (None, None))
        if key is None or wanted is None:
            raise self.fail(now, node.id, f"{item!r:.200} arrives for no subscription")
        for head, payload in zip(item.heads, item.payloads, strict=True):
            finding = self.judge.arrived(key, name_of(item.publisher), decode_head(head), payload)
            if finding is not None:
                raise self.fail(now, node.id, f"{finding.promise}: {finding.text}")
        took = Took(item.subscription, len(item.numbers))
        taken_at = now + (wanted.pause * len(item.numbers) if now < self.campaign.until else 0.0)
        self.at(node.world, taken_at, node.id, node.lives, lambda at, client, life: client.inject(at, took))

    def at_end(self, world: Simulator) -> list[Problem]:
        for client in self.campaign.clients:
            if world.nodes[client.name].process is None:
                self.judge.gone(client.name)
        return [self.problem(finding, world.now) for finding in self.judge.at_end()]

    def figures(self) -> dict[str, int]:
        return self.judge.figures()

    def problem(self, finding: BrokenPromise, now: float) -> Problem:
        return Problem(f"{self.name}: {finding.promise}", finding.text, finding.who, now)


SKEW_MAX = 5.0
"""What faults may add to a clock."""
