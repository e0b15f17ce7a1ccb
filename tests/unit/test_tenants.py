"""Tenants as one more condition: filters that cannot meet, stamps that come off again, names that nobody can claim."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_access import broker, run
from tests.worlds.desk import of, sent
from tests.worlds.edge import EdgeDesk
from tidings.machine.effects import Disconnect, Drop, Send
from tidings.machine.inputs import LinkDown, LinkUp, Loaded, Received
from tidings.model.bounds import ATTRIBUTES_MAX
from tidings.model.errors import UsageError
from tidings.model.identity import in_tenant, tenant_of
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.protocols.access.judge import NameJudge, Principal, Verdict, open_judge, read_principals
from tidings.protocols.access.messages import Attach, Attached, Rejected
from tidings.protocols.access.tenancy import UNKNOWN_TENANT, WRONG_TENANT, TenantJudge
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.subscriptions import OTHER_TENANT
from tidings.protocols.delivery.messages import (
    Advertise,
    Delivery,
    Fetch,
    Look,
    PublishMessage,
    Refusal,
    Subscribe,
)
from tidings.pubsub.client import Declined, Fetched, MarksReply, Receipt
from tidings.pubsub.notes import RequestRefused
from tidings.pubsub.publications import decode_head, encode_head, event_of
from tidings.pubsub.signals import ClientUp, Forward, Matched, Offer, Want
from tidings.pubsub.tenants import (
    ASKS_RESERVED,
    CROWDED,
    FORGED,
    MALFORMED,
    SET_BY_BROKERS,
    TENANT_ATTRIBUTE,
    TOO_MANY_ATTRIBUTES,
    Tenant,
    conjunct_of,
    narrowed,
    stamped,
    unstamped,
    widened,
)

ACME, ZETA = Tenant("acme"), Tenant("zeta")
FILTERS = ("TRUE", "x > 5", "x = 1 OR y LIKE 'a%'", "LENGTH(name) > 3", "hop < ttl AND x = 1", "NOT EXISTS x")


# Filters.


@pytest.mark.parametrize("one", FILTERS)
@pytest.mark.parametrize("other", FILTERS)
def test_filters_of_two_tenants_do_not_meet_whatever_they_ask_for(one: str, other: str) -> None:
    names = ("acme", "zeta", "")
    for mine in names:
        for theirs in names:
            if mine != theirs:
                assert not narrowed(parse(one), mine).overlaps(narrowed(parse(other), theirs))


@pytest.mark.parametrize("text", FILTERS)
def test_a_narrowed_filter_is_covered_by_its_tenant_and_reads_as_before_without_it(text: str) -> None:
    for tenant in ("acme", ""):
        narrow = narrowed(parse(text), tenant)
        assert conjunct_of(tenant).covers(narrow)
        assert parse(narrow.text()) == narrow
        assert widened(narrow) == parse(text)


# Stamps.


@pytest.mark.parametrize("count", [0, 1, 14, 15, 16, 100, ATTRIBUTES_MAX - 1])
def test_a_stamp_is_an_attribute_and_comes_off_again(count: int) -> None:
    attributes: dict[str, Value] = {f"a{place:03}": place for place in range(count)}
    head = encode_head(attributes)
    (marked,) = stamped((head,), "acme")
    assert decode_head(marked) == {**attributes, TENANT_ATTRIBUTE: "acme"}
    assert unstamped((marked,), "acme") == (head,)
    assert stamped((head,), "") == (head,)


def test_what_must_not_travel_is_not_stamped() -> None:
    forged = encode_head({TENANT_ATTRIBUTE: "zeta"})
    crowded = encode_head({f"a{place:03}": place for place in range(ATTRIBUTES_MAX)})
    assert stamped((forged, crowded, b"\xde", b"\xa1a"), "acme") == (FORGED, CROWDED, MALFORMED, MALFORMED)
    assert stamped((forged, crowded), "") == (FORGED, crowded)
    text = encode_head({"a": f"about {TENANT_ATTRIBUTE}"})
    assert stamped((text,), "") == (text,)


# Names.


def test_the_name_says_the_tenant() -> None:
    assert (tenant_of("acme!ann+desk"), tenant_of("ann")) == ("acme", "")
    assert (in_tenant("acme", "ann"), in_tenant("", "ann")) == ("acme!ann", "ann")


def test_two_tenants_may_list_the_same_name() -> None:
    listed = read_principals(
        "[[principal]]\nname = 'ann'\ntenant = 'acme'\n[[principal]]\nname = 'ann'\ntenant = 'zeta'\n"
        "[[principal]]\nname = 'ann'\n"
    )
    assert list(listed) == ["acme!ann", "zeta!ann", "ann"]


@pytest.mark.parametrize(
    "entry",
    [
        "name = 'acme!ann'",
        "name = 'ann'\ntenant = 'a b'",
        "name = 'ann'\ntenant = 5",
        "name = 'b'\ntenant = 'acme'\nroles = ['broker']",
    ],
)
def test_a_principal_that_cannot_be_is_refused(entry: str) -> None:
    with pytest.raises(UsageError):
        read_principals(f"[[principal]]\n{entry}\n")


def test_a_judge_of_tenants_adds_whose_client_it_is() -> None:
    judge = TenantJudge(open_judge, {"acme": ACME})
    assert judge("acme!ann", "client", b"", 0.0) == Verdict("acme!ann", tenant=ACME)
    assert judge("ann", "client", b"", 0.0) == Verdict("ann", tenant=Tenant())
    assert judge("zeta!ann", "client", b"", 0.0) == UNKNOWN_TENANT
    assert judge("b", "broker", b"", 0.0) == Verdict("b")


@pytest.mark.parametrize("name", ["acme!ann", "!ann", "acme!"])
def test_a_stranger_cannot_claim_a_name_of_a_tenant(name: str) -> None:
    access = broker(open_judge)
    effects = run(access, LinkUp(name, 1), Received(name, Attach("client", b"")))
    assert Send(name, Rejected(WRONG_TENANT)) in effects
    assert Disconnect(name, WRONG_TENANT) in effects


def test_a_client_is_of_the_tenant_of_its_principal() -> None:
    access = broker(TenantJudge(NameJudge({"acme!ann": Principal("acme!ann")}), {"acme": ACME}))
    name = "acme!ann+desk"
    assert run(access, LinkUp(name, 1), Received(name, Attach("client", b"")))[-2:] == [
        Send(name, Attached("acme!ann", "", "")),
        ClientUp(name, "acme!ann", roles=("client",), tenant=ACME),
    ]


# At the edge.


def desk_of(*tenants: Tenant, params: EdgeParams | None = None) -> EdgeDesk:
    """An edge with the client c and the publisher p of each of these tenants."""
    desk = EdgeDesk(params)
    if desk.edge.is_loading:
        desk.handle(Loaded("", ()))
    for tenant in tenants:
        for name in ("c", "p"):
            full = in_tenant(tenant.name, name)
            desk.handle(ClientUp(full, full, tenant=tenant))
    return desk


def subscribe(filter: str, number: int = 1) -> Subscribe:
    return Subscribe(number, filter, "none", None, (), False, "", "wait", 100, 100)


def test_what_a_client_asks_for_and_offers_is_narrowed_to_its_tenant_and_it_does_not_see_that() -> None:
    desk = desk_of(ACME)
    (want,) = of(Want, desk.say("acme!c", subscribe("x > 5")))
    assert want.filter == parse("x > 5 AND tidings.tenant = 'acme'")
    assert [it.filter for it in sent(desk.settle(), Receipt)] == ["x > 5"]
    (offer,) = of(Offer, desk.say("acme!p", Advertise(1, "TRUE")))
    assert offer.filter == parse("tidings.tenant = 'acme'")
    assert [it.filter for it in sent(desk.settle(), Receipt)] == ["TRUE"]


def test_who_is_in_no_tenant_is_kept_from_all_of_them() -> None:
    desk = desk_of(Tenant())
    (want,) = of(Want, desk.say("c", subscribe("x > 5")))
    assert want.filter == parse("x > 5 AND NOT EXISTS tidings.tenant")


def test_where_there_are_no_tenants_filters_stay_as_they_are() -> None:
    desk = EdgeDesk()
    desk.up("c")
    (want,) = of(Want, desk.say("c", subscribe("x > 5")))
    assert want.filter == parse("x > 5")


@pytest.mark.parametrize(
    "filter", ["tidings.tenant = 'zeta'", "EXISTS tidings.tenant", "x = 1 OR tidings.tenant != 'a'"]
)
def test_nobody_can_ask_for_a_tenant(filter: str) -> None:
    desk = desk_of(ACME, Tenant())
    for client in ("acme!c", "c"):
        for message in (
            subscribe(filter),
            Advertise(1, filter),
            Look(1, filter),
            Fetch(1, filter, client, 0, None, 9, 9),
        ):
            (refusal,) = sent(desk.say(client, message), Refusal)
            assert refusal.reason == ASKS_RESERVED


def test_events_are_stamped_on_their_way_and_clean_when_they_arrive() -> None:
    desk = desk_of(ACME)
    desk.say("acme!c", subscribe("x > 5"))
    desk.say("acme!p", Advertise(1, "x > 0"))
    head = encode_head({"x": 7})
    (forward,) = of(Forward, desk.say("acme!p", PublishMessage(1, 1, False, (head,), (b"",))))
    assert decode_head(forward.batch.heads[0]) == {"x": 7, TENANT_ATTRIBUTE: "acme"}
    (delivery,) = sent(desk.handle(Matched(forward.batch, [(("acme!c", 1),)])), Delivery)
    assert delivery.heads == (head,)


def test_nobody_can_write_the_attribute() -> None:
    desk = desk_of(ACME, Tenant())
    heads = (encode_head({"x": 1, TENANT_ATTRIBUTE: "zeta"}), encode_head({"x": 1}))
    for client in ("acme!p", "p"):
        desk.say(client, Advertise(1, "TRUE"))
        effects = desk.say(client, PublishMessage(1, 1, False, heads, (b"", b"")))
        assert sent(effects, Declined) == [Declined((1,), SET_BY_BROKERS)]
        assert [it.batch.numbers for it in of(Forward, effects)] == [(2,)]


def test_an_event_that_has_no_room_for_the_stamp_is_declined_with_the_figure() -> None:
    desk = desk_of(ACME)
    desk.say("acme!p", Advertise(1, "TRUE"))
    head = encode_head({f"a{place:03}": place for place in range(ATTRIBUTES_MAX)})
    effects = desk.say("acme!p", PublishMessage(1, 1, False, (head,), (b"",)))
    assert sent(effects, Declined) == [Declined((1,), TOO_MANY_ATTRIBUTES)]
    assert not of(Forward, effects)


def test_what_reaches_a_broker_that_knows_of_no_tenants_is_not_passed_on_to_its_clients() -> None:
    """The second wall: by the name of the publisher."""
    desk = EdgeDesk()
    desk.up("c")
    desk.say("c", subscribe("TRUE"))
    desk.know("acme!p/1", "tidings.tenant = 'acme'")
    effects = desk.arrive("acme!p", (1,), (("c", 1),))
    assert not sent(effects, Delivery)
    assert [it.reason for it in of(Drop, effects)] == [OTHER_TENANT]


def test_a_look_shows_publishers_of_the_tenant_only_and_their_filters_without_it() -> None:
    desk = desk_of(ACME, ZETA)
    desk.say("acme!p", Advertise(1, "x > 0"))
    desk.say("zeta!p", Advertise(1, "x > 1"))
    for client, publisher, offered in (("acme!c", "acme!p", "x > 0"), ("zeta!c", "zeta!p", "x > 1")):
        (reply,) = sent(desk.say(client, Look(1, "TRUE")), MarksReply)
        assert [mark[0] for mark in reply.marks] == [publisher]
        assert reply.offers == (offered,)


def test_history_of_another_tenant_is_refused_by_its_name_alone() -> None:
    desk = desk_of(ACME, ZETA)
    desk.say("zeta!p", Advertise(1, "TRUE"))
    reasons = [
        sent(desk.say("acme!c", Fetch(number, "TRUE", publisher, 0, None, 9, 9)), Refusal)[0].reason
        for number, publisher in enumerate(("zeta!p", "zeta!q"), 1)
    ]
    assert reasons[0].replace("zeta!p", "zeta!q") == reasons[1]


def test_history_comes_without_the_stamp() -> None:
    desk = desk_of(ACME)
    desk.say("acme!p", Advertise(1, "TRUE"))
    desk.say("acme!p", PublishMessage(1, 1, False, (encode_head({"x": 1}),), (b"",)))
    desk.know("acme!p/1", "tidings.tenant = 'acme'", None)
    (page,) = sent(desk.say("acme!c", Fetch(1, "TRUE", "acme!p", 0, None, 1, 9)), Fetched)
    assert [event_of(head, b"").attributes for head in page.page.heads] == [{"x": 1}]


# Bounds.


def test_a_tenant_has_so_many_connections_and_one_that_leaves_makes_room() -> None:
    access = broker(TenantJudge(open_judge, {"acme": Tenant("acme", connections_max=1), "zeta": ZETA}))
    for name in ("acme!ann", "zeta!ann", "zeta!ben"):
        run(access, LinkUp(name, 1), Received(name, Attach("client", b"")))
    effects = run(access, LinkUp("acme!ben", 1), Received("acme!ben", Attach("client", b"")))
    (rejected,) = sent(effects, Rejected)
    assert "acme has its 1 connections" in rejected.reason
    run(access, LinkDown("acme!ann", 1, "gone"))
    effects = run(access, LinkUp("acme!ben", 2), Received("acme!ben", Attach("client", b"")))
    assert sent(effects, Attached)
    gauges = {(it.labels["tenant"], it.labels["quota"]): it.value for it in access.gauges() if it.labels}
    assert gauges == {("acme", "connections"): 1, ("zeta", "connections"): 2}
    access.check()


def test_a_tenant_has_so_many_subscriptions_of_all_its_clients() -> None:
    desk = desk_of(Tenant("acme", subscriptions_max=2), ZETA)
    for client in ("acme!c", "acme!p", "zeta!c"):
        assert of(Want, desk.say(client, subscribe("TRUE")))
    for number in (2, 3):
        note, refusal = desk.say("acme!c", subscribe("TRUE", number))
        assert refusal.message.reason == "the tenant acme has its 2 subscriptions already; unsubscribe one"
        assert note == RequestRefused("acme!c", "acme!c", "subscribe", refusal.message.reason)
    assert of(Want, desk.say("acme!c", subscribe("TRUE"))), "a repetition is not one more"
    desk.down("acme!p")
    assert of(Want, desk.say("acme!c", subscribe("TRUE", 2)))
    desk.edge.check()
    assert uses(desk)["acme", "subscriptions"] == 2
    assert refusals(desk) == {("acme", "subscriptions"): 2}


def test_a_tenant_publishes_so_many_events_a_second_and_is_told_which_were_too_many() -> None:
    desk = desk_of(Tenant("acme", events_per_second_max=2), ZETA)
    for client in ("acme!p", "zeta!p"):
        desk.say(client, Advertise(1, "TRUE"))
    heads = tuple(encode_head({"x": x}) for x in range(5))
    effects = desk.say("acme!p", PublishMessage(1, 1, True, heads, (b"",) * 5))
    assert [it.batch.numbers for it in of(Forward, effects)] == [(1, 2)]
    (declined,) = sent(effects, Declined)
    assert declined.numbers == (3, 4, 5)
    assert "acme may publish 2 events a second" in declined.reason
    assert sent(effects, Refusal)[0].number == 5, "who waits for a receipt hears of it"
    assert of(RequestRefused, effects)[0].reason == declined.reason
    desk.now += 0.5
    effects = desk.say("acme!p", PublishMessage(1, 6, False, heads[:2], (b"",) * 2))
    assert [it.batch.numbers for it in of(Forward, effects)] == [(6,)]
    effects = desk.say("zeta!p", PublishMessage(1, 1, False, heads, (b"",) * 5))
    assert [it.batch.numbers for it in of(Forward, effects)] == [(1, 2, 3, 4, 5)]
    assert (uses(desk)["acme", "events"], uses(desk)["zeta", "events"]) == (3, 5)
    assert refusals(desk) == {("acme", "events_per_second"): 4}


def test_a_tenant_publishes_so_many_bytes_a_second_but_always_one_event() -> None:
    desk = desk_of(Tenant("acme", bytes_per_second_max=100))
    desk.say("acme!p", Advertise(1, "TRUE"))
    head = encode_head({})
    effects = desk.say("acme!p", PublishMessage(1, 1, False, (head,) * 3, (b"p" * 1000, b"", b"")))
    assert [it.batch.numbers for it in of(Forward, effects)] == [(1,)]
    assert "may publish 100 bytes a second" in sent(effects, Declined)[0].reason
    desk.now += 20.0
    effects = desk.say("acme!p", PublishMessage(1, 4, False, (head,), (b"",)))
    assert [it.batch.numbers for it in of(Forward, effects)] == [(4,)]


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_tenant_stores_so_many_bytes_and_forgets_its_own_oldest_for_more(is_durable: bool) -> None:
    desk = desk_of(Tenant("acme", stored_bytes_max=1000), ZETA, params=EdgeParams(is_durable=is_durable))
    desk.handle(ClientUp("acme!q", "acme!q", tenant=Tenant("acme", stored_bytes_max=1000)))
    for client in ("acme!p", "acme!q", "zeta!p"):
        desk.say(client, Advertise(1, "TRUE"))
    head, payload = encode_head({"x": 1}), b"p" * 250
    for number in range(1, 5):
        desk.now += 1.0
        for client in ("acme!p", "acme!q", "zeta!p"):
            desk.say(client, PublishMessage(1, number, False, (head,), (payload,)))
    stored = {name: len(each.history.batches) for name, each in desk.edge.publishers.all.items()}
    assert stored == {"acme!p": 1, "acme!q": 2, "zeta!p": 4}
    assert uses(desk)["acme", "stored_bytes"] <= 1000
    assert desk.edge.publishers.all["acme!p"].history.forgotten_through == 3
    desk.edge.check()


def test_a_tenant_has_so_many_publishers_those_that_left_included() -> None:
    desk = desk_of(Tenant("acme", publishers_max=1), ZETA)
    assert of(Offer, desk.say("acme!p", Advertise(1, "TRUE")))
    desk.say("acme!p", PublishMessage(1, 1, False, (encode_head({}),), (b"",)))
    desk.down("acme!p")
    assert "acme has its 1 publishers" in sent(desk.say("acme!c", Advertise(1, "TRUE")), Refusal)[0].reason
    assert of(Offer, desk.say("zeta!c", Advertise(1, "TRUE")))
    desk.fire("sweep", desk.now + 1000.0)
    assert of(Offer, desk.say("acme!c", Advertise(1, "TRUE")))
    desk.edge.check()


def test_a_tenant_that_fills_the_store_pushes_out_nothing_but_its_own() -> None:
    params = EdgeParams(history_bytes_max=2000, history_bytes_total_max=2000)
    desk = desk_of(ACME, ZETA, params=params)
    for client in ("acme!p", "acme!c", "zeta!p"):
        desk.say(client, Advertise(1, "TRUE"))
    head = encode_head({})
    desk.say("zeta!p", PublishMessage(1, 1, False, (head,), (b"p" * 500,)))
    for number in range(1, 20):
        for client in ("acme!p", "acme!c"):
            desk.say(client, PublishMessage(1, number, False, (head,), (b"p" * 200,)))
        desk.edge.check()
    desk.say("zeta!p", PublishMessage(1, 2, False, (head,), (b"p" * 300,)))
    assert len(desk.edge.publishers.all["zeta!p"].history.batches) == 2
    assert all(desk.edge.publishers.all[name].history.batches for name in ("acme!p", "acme!c"))


SMALL = Tenant(
    "acme",
    subscriptions_max=2,
    publishers_max=1,
    events_per_second_max=3,
    bytes_per_second_max=500,
    stored_bytes_max=800,
)
TOO_MUCH = st.sampled_from(
    [
        *(("acme!c", subscribe("TRUE", number)) for number in range(1, 6)),
        *((client, Advertise(number, "x > 1")) for client in ("acme!p", "acme!c") for number in (1, 2)),
        *(
            ("acme!p", PublishMessage(1, first, True, (encode_head({"x": 2}),) * 9, (b"p" * 300,) * 9))
            for first in (1, 10)
        ),
        ("acme!c", Look(1, "TRUE")),
    ]
)


@given(st.lists(st.lists(TOO_MUCH, max_size=6), min_size=5, max_size=5))
def test_a_tenant_at_all_its_bounds_changes_nothing_for_another(overuse: list[list[Any]]) -> None:
    """What the other one sees is what it sees alone."""

    def seen(disturbed: bool) -> list[list[str]]:
        params = EdgeParams(history_bytes_max=4000, history_bytes_total_max=4000)
        desk = desk_of(SMALL, ZETA, params=params)
        ordinary = [
            ("zeta!p", Advertise(1, "TRUE")),
            ("zeta!c", subscribe("TRUE")),
            ("zeta!p", PublishMessage(1, 1, False, (encode_head({"x": 1}),), (b"q" * 200,))),
            ("zeta!p", PublishMessage(1, 2, False, (encode_head({"x": 2}),) * 3, (b"q" * 200,) * 3)),
            ("zeta!c", Look(1, "TRUE")),
        ]
        told: list[list[str]] = []
        for (client, asked), others in zip(ordinary, overuse, strict=True):
            desk.now += 0.1
            for attacker, too_much in others if disturbed else ():
                assert not sent(desk.say(attacker, too_much), object, "zeta!c")
            effects = desk.say(client, asked)
            kinds = [type(each).__name__ for each in effects if isinstance(each, Want | Offer | Forward)]
            told.append(
                [*kinds, *map(repr, sent(effects, object, "zeta!c")), *map(repr, sent(effects, object, "zeta!p"))]
            )
            desk.edge.check()
        told.append([repr([batch.numbers for batch in desk.edge.publishers.all["zeta!p"].history.batches])])
        return told

    assert seen(disturbed=True) == seen(disturbed=False)


def test_where_there_are_no_tenants_nothing_is_shown_of_them() -> None:
    desk = EdgeDesk()
    desk.up("c")
    assert uses(desk) == {}


def uses(desk: EdgeDesk) -> dict[tuple[str, str], float]:
    return {(it.labels["tenant"], it.labels["quota"]): it.value for it in desk.edge.gauges() if it.name == "tenant_use"}


def refusals(desk: EdgeDesk) -> dict[tuple[str, str], float]:
    return {
        (it.labels["tenant"], it.labels["quota"]): it.value for it in desk.edge.gauges() if it.name == "tenant_refusals"
    }
