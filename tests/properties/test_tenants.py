"""Tenants share a network of brokers, and each finds it as if it were its own: whatever filters, histories and groups
they ask for under the same names, no event crosses, and each gets what it would get in a network without the others."""

from functools import partial
from typing import Any, NamedTuple

from hypothesis import assume, example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.properties.message_strategies import messages
from tests.worlds.desk import Desk
from tests.worlds.edge import subscription
from tidings.machine.effects import Send
from tidings.machine.inputs import LinkUp, Received
from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.model.identity import in_tenant, tenant_of
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.nodes.choices import AnyRoutingParams
from tidings.nodes.client import ClientNode
from tidings.protocols.access.judge import Role, Verdict, open_judge
from tidings.protocols.access.messages import Attach
from tidings.protocols.access.params import AccessParams, GuestParams
from tidings.protocols.access.tenancy import TenantJudge
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.messages import Advertise, Fetch, Look, PublishMessage, Refusal, Subscribe
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.inspection.messages import Inspect
from tidings.protocols.routing.destinations.params import DestinationParams
from tidings.protocols.routing.params import RoutingParams
from tidings.pubsub.client import (
    Arrived,
    Begun,
    Confirmed,
    Declined,
    Failed,
    HistoryRead,
    MarksRead,
    Missed,
    OpenAdvertisement,
    OpenSubscription,
    PublishBatch,
    ReadHistory,
    ReadMarks,
)
from tidings.pubsub.publications import decode_head, encode_head
from tidings.pubsub.tenants import TENANT_ATTRIBUTE, Tenant, conjunct_of, narrowed
from tidings.sim.network.latency import Constant
from tidings.sim.node import Draws
from tidings.sim.simulator import Simulator

TENANTS = {"acme": Tenant("acme"), "zeta": Tenant("zeta")}
EVERYBODY = ("acme", "zeta", "")
PEOPLE = {"ann": "b0", "ben": "b1"}
"""Clients of each tenant, and where they are attached."""
BROKERS = ("b0", "b1", "b2")
TABLES = RoutingParams(engine="plain")
BEGIN, PAUSE = 3.0, 0.5
"""When all are attached, and the time between two steps: enough for each to be carried out everywhere."""

conditions = st.sampled_from(
    [
        *("TRUE", "x > 1", "x = 1", "x <= 2", "NOT x = 2", "EXISTS y", "NOT EXISTS y", "y = 'acme'", "y LIKE 'z%'"),
        *("LENGTH(y) > 3", "x < z", "x IN (0, 3)"),
    ]
)
filters = st.one_of(
    conditions, st.builds("({}) {} ({})".format, conditions, st.sampled_from(["AND", "OR", "XOR"]), conditions)
)
events = st.fixed_dictionaries(
    {"x": st.integers(0, 3)},
    optional={"y": st.sampled_from(["acme", "zeta", "", "tidings.tenant"]), "z": st.integers(0, 3)},
)
people = st.sampled_from(sorted(PEOPLE))


class Step(NamedTuple):
    """What a client of a tenant does; `act` says what and how."""

    tenant: str
    person: str
    act: tuple[Any, ...]


acts = st.one_of(
    st.tuples(st.just("advertise"), filters),
    st.tuples(st.just("publish"), st.integers(1, 2), st.lists(events, min_size=1, max_size=3)),
    st.tuples(
        st.just("subscribe"),
        filters,
        st.sampled_from(["none", "installed", "reference"]),
        st.sampled_from([None, 0.0]),
        st.sampled_from(["", "crew"]),
    ),
    st.tuples(st.just("marks"), filters),
    st.tuples(st.just("history"), filters, people),
)
steps = st.lists(st.builds(Step, st.sampled_from(EVERYBODY), people, acts), min_size=1, max_size=20)


def network(tenants: tuple[str, ...], knowing: tuple[str, ...], routing: AnyRoutingParams = TABLES) -> Simulator:
    """Three brokers in a chain, of which these know of tenants, and ann and ben of every tenant; or, where no broker
    knows, of one that has the network for itself. Those of no tenant are at the last broker."""
    simulator = Simulator(1, Constant(0.01), checking=True)
    for place, name in enumerate(BROKERS):
        links = BROKERS[max(0, place - 1) : place]
        simulator.add(name, partial(broker, name, links, name in knowing, routing))
    for tenant in tenants:
        for person, home in PEOPLE.items():
            name = in_tenant(tenant if knowing else "", person)
            simulator.add(name, partial(client, name, home if tenant else BROKERS[-1]))
    return simulator


def broker(node: str, links: tuple[str, ...], is_knowing: bool, routing: AnyRoutingParams, draws: Draws) -> BrokerNode:
    delivery = EdgeParams(is_durable=True)
    params = BrokerParams(access=AccessParams(links=links), routing=routing, delivery=delivery)
    judge = TenantJudge(open_judge, TENANTS) if is_knowing else open_judge
    return BrokerNode(node, params, draws("access"), judge=judge)


def client(node: str, home: str, draws: Draws) -> ClientNode:
    return ClientNode(node, GuestParams(brokers=(home,)), SessionParams(), draws("access"))


def play(simulator: Simulator, script: list[Step], of: str | None = None) -> None:
    """All steps, or those of one tenant in a network of its own; each at its time."""
    for place, step in enumerate(script):
        if of is not None and step.tenant != of:
            continue
        tenant = step.tenant if of is None else ""
        at, node = BEGIN + place * PAUSE, in_tenant(tenant, step.person)
        match step.act:
            case ("advertise", filter):
                simulator.inject(at, node, OpenAdvertisement(place, filter))
            case ("publish", advertisement, contents):
                heads = tuple(encode_head({**content, "id": f"{place}.{n}"}) for n, content in enumerate(contents))
                simulator.inject(at, node, PublishBatch(advertisement, heads, (b"",) * len(heads)))
            case ("subscribe", filter, guarantee, since, group):
                simulator.inject(at, node, OpenSubscription(place, filter, guarantee, since, group=group))
            case ("marks", filter):
                simulator.inject(at, node, ReadMarks(place, filter))
            case ("history", filter, person):
                asked = ReadHistory(place, filter, in_tenant(tenant, person), 0, None, 1, 100)
                simulator.inject(at, node, asked)
    simulator.run(BEGIN + len(script) * PAUSE + 30.0)


def seen(simulator: Simulator, tenant: str) -> dict[str, list[Any]]:
    """All that ann and ben of this tenant were told, with the names that they have among themselves."""
    prefix = in_tenant(tenant, "")
    return {
        person: sorted(
            [
                str(told).replace(prefix, "") if prefix else str(told)
                for _, item in simulator.delivered(in_tenant(tenant, person))
                for told in things(item)
            ]
        )
        for person in PEOPLE
    }


def things(item: Any) -> list[Any]:
    match item:
        case Arrived():
            return [
                (item.subscription, item.publisher, number, sorted(read(head).items()))
                for number, head in zip(item.numbers, item.heads, strict=True)
            ]
        case HistoryRead(ticket, page):
            contents = [sorted(read(head).items()) for head in page.page.heads]
            return [(ticket, page.page.numbers, contents, page.is_truncated, page.has_more)]
        case MarksRead(ticket, parts):
            return [(ticket, part.marks, part.offers, part.unreachable) for part in parts]
        case Confirmed(ticket, receipt):
            return [(ticket, receipt.filter if receipt is not None else None)]
        case Begun() | Failed() | Declined() | Missed():
            return [item]
    return []


def read(head: bytes) -> dict[str, Value]:
    attributes = decode_head(head)
    assert TENANT_ATTRIBUTE not in attributes
    return attributes


@given(steps, st.sampled_from([BROKERS, ("b0", "b1")]))
@example(
    [
        *(Step(tenant, "ann", ("advertise", "TRUE")) for tenant in EVERYBODY),
        *(Step(tenant, "ben", ("subscribe", "TRUE", "installed", None, "")) for tenant in EVERYBODY),
        *(Step(tenant, "ann", ("publish", 1, [{"x": 1, "y": tenant}])) for tenant in EVERYBODY),
        *(Step(tenant, "ann", ("subscribe", "TRUE", "reference", 0.0, "crew")) for tenant in EVERYBODY),
        *(Step(tenant, "ben", ("history", "TRUE", "ann")) for tenant in EVERYBODY),
        *(Step(tenant, "ben", ("marks", "TRUE")) for tenant in EVERYBODY),
    ],
    ("b0", "b1"),
)
def test_each_tenant_finds_the_network_as_if_it_were_its_own(script: list[Step], knowing: tuple[str, ...]) -> None:
    shared = network(EVERYBODY, knowing)
    play(shared, script)
    for tenant in EVERYBODY:
        alone = network((tenant,), ())
        play(alone, script, of=tenant)
        assert seen(shared, tenant) == seen(alone, ""), tenant or "nobody's"


routings = st.one_of(
    st.builds(
        RoutingParams,
        strategy=st.sampled_from(["flooding", "subscription", "advertisement"]),
        reduction=st.sampled_from(["plain", "covering", "merging"]),
        engine=st.just("plain"),
    ),
    st.just(DestinationParams()),
)


crashes = st.lists(st.tuples(st.sampled_from(BROKERS), st.integers(0, 20)), max_size=3, unique_by=lambda each: each[0])


@given(steps, routings, st.sampled_from([BROKERS, ("b0", "b1")]), crashes)
def test_nothing_crosses_whatever_routes_it_and_whichever_brokers_crash(
    script: list[Step], routing: AnyRoutingParams, knowing: tuple[str, ...], crashes: list[tuple[str, int]]
) -> None:
    shared = network(EVERYBODY, knowing, routing)
    for name, place in crashes:
        at = BEGIN + (place + 0.5) * PAUSE
        shared.call_at(at, partial(shared.crash, name))
        shared.call_at(at + PAUSE, partial(shared.restart, name, keep_state=False))
    play(shared, script)
    published = {
        f"{place}.{n}": step.tenant
        for place, step in enumerate(script)
        if step.act[0] == "publish"
        for n in range(len(step.act[2]))
    }
    for tenant in EVERYBODY:
        for person in PEOPLE:
            for _, item in shared.delivered(in_tenant(tenant, person)):
                match item:
                    case Arrived(publisher=publisher, heads=heads):
                        assert tenant_of(publisher) == tenant
                    case HistoryRead(_, page):
                        heads = page.page.heads
                    case MarksRead(_, parts):
                        assert all(tenant_of(mark[0]) == tenant for part in parts for mark in part.marks)
                        continue
                    case _:
                        continue
                assert {published[str(read(head)["id"])] for head in heads} <= {tenant}


SECRET = "acme!secret"
"""A publisher whose name, events and filters nobody of zeta may hear of."""

told = st.one_of(
    messages,
    st.builds(
        Subscribe,
        st.integers(1, 3),
        filters,
        st.sampled_from(["none", "installed", "reference"]),
        st.none(),
        st.just(((SECRET, 0),)),
        st.just("crew"),
        st.just("wait"),
        st.just(100),
        st.just(100),
    ),
    st.builds(Look, st.integers(1, 9), filters),
    st.builds(
        Fetch,
        st.integers(1, 9),
        filters,
        st.sampled_from([SECRET, "acme!ann", "acme!", "!", "secret"]),
        st.none(),
        st.just(0.0),
        st.just(1),
        st.just(9),
    ),
    st.builds(
        Inspect,
        st.integers(1, 9),
        st.sampled_from(
            ["clients", "subscriptions", "advertisements", "queues", "publishers", "routes", "event", "counters"]
        ),
        st.just(f"{SECRET}/1"),
        st.just(0),
    ),
    st.builds(Advertise, st.integers(1, 3), filters),
    st.builds(
        lambda value: PublishMessage(1, 1, False, (encode_head({"x": 1, TENANT_ATTRIBUTE: value}),), (b"",)),
        st.sampled_from(["acme", "", "zeta"]),
    ),
)


@given(st.lists(told, max_size=20))
def test_whatever_a_client_says_it_hears_nothing_of_another_tenant(script: list[Any]) -> None:
    """An admin, at the very broker of the other."""
    judge = TenantJudge(AdminJudge(), TENANTS)
    params = BrokerParams(routing=RoutingParams(engine="plain"))
    desk = Desk(BrokerNode("b", params, random_stream(1, "access"), judge=judge))
    for name in (SECRET, "acme!ben", "zeta!eve"):
        come_in(desk, name)
    desk.handle(Received("acme!ben", subscription(filter="secret = 'hidden' OR TRUE")))
    desk.handle(Received(SECRET, Advertise(1, "secret = 'hidden' OR x > 0")))
    publication = PublishMessage(1, 1, False, (encode_head({"x": 1, "secret": "hidden"}),), (b"hidden",))
    desk.handle(Received(SECRET, publication))
    for message in script:
        desk.handle(Received("zeta!eve", message, 100))
        desk.advance(desk.now + 1.0)
    desk.handle(Received(SECRET, replace(publication, first=2)))
    desk.advance(desk.now + 100.0)
    for effect in desk.told(Send):
        if effect.to == "zeta!eve":
            said = str(effect.message)
            assert "hidden" not in said
            # What eve asked for herself may come back to her in the reason of a refusal.
            assert SECRET not in said or isinstance(effect.message, Refusal), said


class AdminJudge:
    """Everybody is who he says, and an admin."""

    def __call__(self, peer: str, role: Role, credentials: bytes, now: float) -> Verdict | str:
        return Verdict(peer, roles=("client", "admin"))


def come_in(desk: Desk[BrokerNode], name: str) -> None:
    desk.handle(LinkUp(name, 1))
    desk.handle(Received(name, Attach("client", b"")))


@given(filters, filters, st.permutations(EVERYBODY))
def test_filters_of_two_tenants_are_proved_not_to_meet(one: str, other: str, tenants: list[str]) -> None:
    try:
        mine, theirs = narrowed(parse(one), tenants[0]), narrowed(parse(other), tenants[1])
    except UsageError:
        assume(False)
    assert not mine.overlaps(theirs)
    assert conjunct_of(tenants[0]).covers(mine)
    assert not conjunct_of(tenants[1]).overlaps(mine)
