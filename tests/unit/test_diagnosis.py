"""What the tables of many brokers mean together: what is missing, what is too much, and where an event ends."""

import msgspec
import pytest

from tidings.diagnosis import findings
from tidings.diagnosis.findings import diagnose, lasting
from tidings.diagnosis.network import Network, Reported, Unreached
from tidings.diagnosis.way import trace_event
from tidings.model.event import Event
from tidings.pubsub.rows import (
    AdvertisementRow,
    BrokerRow,
    LinkRow,
    PopularityRow,
    QueueRow,
    RouteRow,
    SubscriptionRow,
)

WANTED = "price > 100"
OFFERED = "type = 'quote'"


def link(broker: str, **more: bool | str) -> LinkRow:
    chosen = {"is_up": True, "is_neighbour": True, "is_synchronised": True, "address": f"h:{broker}", **more}
    return LinkRow(broker=broker, **chosen)  # type: ignore[arg-type]


def broker(name: str, *links: LinkRow, strategy: str = "subscription", **tables: object) -> Reported:
    return Reported(broker=BrokerRow(broker=name, strategy=strategy), links=links, **tables)  # type: ignore[arg-type]


def chain(strategy: str = "subscription", **changes: Reported) -> Network:
    """a - b - c: a publisher at a, a subscriber at c, and tables as they should be."""
    offer = AdvertisementRow(advertisement="pub/1", publisher="pub", filter=OFFERED)
    known = [msgspec.structs.replace(offer, hop=hop) for hop in ("", "a", "b")]
    told, heard = [
        {hop: RouteRow(neighbour=hop, is_ours=is_ours, filter=WANTED) for hop in "abc"} for is_ours in (True, False)
    ]
    brokers = {
        "a": broker("a", link("b"), strategy=strategy, advertisements=(known[0],), routes=(heard["b"],)),
        "b": broker(
            *("b", link("a"), link("c")), strategy=strategy, advertisements=(known[1],), routes=(told["a"], heard["c"])
        ),
        "c": broker(
            *("c", link("b")),
            strategy=strategy,
            advertisements=(known[2],),
            routes=(told["b"],),
            subscriptions=(SubscriptionRow(client="sub", number=1, filter=WANTED),),
        ),
    }
    if strategy == "flooding":
        brokers = {name: msgspec.structs.replace(each, routes=()) for name, each in brokers.items()}
    return Network(list({**brokers, **changes}.values()))


def changed(network: Network, name: str, **tables: object) -> Network:
    brokers = {**network.brokers, name: msgspec.structs.replace(network.brokers[name], **tables)}
    return Network(list(brokers.values()), network.unreached)


def kinds(network: Network) -> list[tuple[str, str, str]]:
    return [(each.kind, each.broker, each.peer) for each in diagnose(network)]


@pytest.mark.parametrize("strategy", ["subscription", "advertisement", "flooding"])
def test_nothing_is_found_where_everything_is_as_it_should_be(strategy: str) -> None:
    assert diagnose(chain(strategy)) == []


def test_who_left_a_tree_that_finds_itself_is_told_and_is_no_fault() -> None:
    left = Unreached("h:z", "cannot connect", "z", told_by="a")
    whole = changed(chain(), "a", links=(link("b"), link("z", is_up=False, is_neighbour=False)))
    in_a_tree = changed(whole, "a", broker=BrokerRow(broker="a", strategy="subscription", colour="a/1"))
    asked = changed(in_a_tree, "b", links=(*in_a_tree.brokers["b"].links, link("z", is_up=False, is_configured=True)))
    held = changed(in_a_tree, "b", links=(*in_a_tree.brokers["b"].links, link("z", is_neighbour=False)))
    for network, is_fault in ((whole, True), (in_a_tree, False), (asked, True), (held, True)):
        seen = Network(list(network.brokers.values()), [left])
        assert [each.kind for each in diagnose(seen)].count(findings.UNREACHED) == is_fault
        assert seen.departed == ([] if is_fault else [left])
    ours = Network(list(in_a_tree.brokers.values()), [Unreached("h:z", "cannot connect")])
    assert [each.kind for each in diagnose(ours)] == [findings.UNREACHED]


def test_a_wider_filter_is_as_good() -> None:
    network = chain()
    wide = tuple(msgspec.structs.replace(row, filter="price > 50") for row in network.brokers["b"].routes)
    network = changed(network, "b", routes=(wide[0], network.brokers["b"].routes[1]))
    network = changed(network, "a", routes=(RouteRow(neighbour="b", is_ours=False, filter="price > 50"),))
    assert diagnose(network) == []


def test_a_subscription_that_was_not_told_on_is_missing() -> None:
    network = changed(chain(), "b", routes=(RouteRow(neighbour="c", is_ours=False, filter=WANTED),))
    network = changed(network, "a", routes=())
    assert kinds(network) == [(findings.MISSING, "a", "b")]
    (finding,) = diagnose(network)
    assert finding.text == "a does not know that sub at c wants: price > 100"


def test_a_filter_that_nobody_wants_is_too_much() -> None:
    network = changed(chain(), "c", subscriptions=())
    assert kinds(network) == [(findings.TOO_MUCH, "a", "b"), (findings.TOO_MUCH, "b", "c")]


def test_what_cannot_be_known_is_not_called_too_much() -> None:
    network = chain()
    partial = Network([network.brokers["a"], network.brokers["b"]], [Unreached("h:c", "timeout", "c", "b")])
    assert kinds(partial) == [(findings.UNREACHED, "c", "b")]


def test_tables_that_the_two_ends_of_a_link_do_not_share_differ() -> None:
    other = RouteRow(neighbour="b", is_ours=False, filter="price > 7")
    network = changed(chain(), "a", routes=(other,))
    assert kinds(network) == [(findings.NOT_MIRRORED, "a", "b"), (findings.NOT_MIRRORED, "a", "b")]


def test_a_subscription_that_no_advertisement_overlaps_need_not_be_told() -> None:
    network = chain("advertisement")
    for name in "abc":
        network = changed(network, name, advertisements=(), routes=())
    assert diagnose(network) == []


def test_an_advertisement_that_did_not_arrive_is_missing() -> None:
    network = changed(chain("advertisement"), "c", advertisements=())
    assert kinds(network) == [(findings.ADVERTISEMENT_MISSING, "c", "a")]


def test_an_advertisement_that_nobody_makes_is_too_much() -> None:
    network = chain("advertisement")
    old = AdvertisementRow(advertisement="old/1", publisher="old", filter="x = 1", hop="b")
    network = changed(network, "c", advertisements=(*network.brokers["c"].advertisements, old))
    assert kinds(network) == [(findings.ADVERTISEMENT_TOO_MUCH, "c", "b")]


def test_an_advertisement_from_the_wrong_side_is_named() -> None:
    network = chain("advertisement")
    wrong = AdvertisementRow(advertisement="pub/1", publisher="pub", filter=OFFERED, hop="c")
    assert (findings.WRONG_HOP, "b", "a") in kinds(changed(network, "b", advertisements=(wrong,)))


def test_a_link_that_is_down_splits_the_network_and_is_named_with_its_reason() -> None:
    network = changed(chain(), "b", links=(link("a"), link("c", is_up=False, is_neighbour=False, is_configured=True)))
    network = changed(network, "c", links=(link("b", is_up=False, is_neighbour=False, problem="refused"),))
    network = changed(network, "b", routes=())
    network = changed(network, "a", routes=())
    network = changed(network, "c", routes=(), advertisements=())
    assert kinds(network) == [(findings.LINK_DOWN, "b", "c"), (findings.IN_PARTS, "", "")]


def test_a_link_that_one_end_does_not_know_is_one_sided() -> None:
    network = changed(chain(), "a", links=())
    assert (findings.ONE_SIDED, "b", "a") in kinds(network)


def test_a_link_whose_tables_are_not_told_yet_is_named() -> None:
    network = changed(chain(), "a", links=(link("b", is_synchronised=False),))
    assert kinds(network) == [(findings.NOT_SYNCHRONISED, "a", "b")]


def test_a_loop_of_routed_links_is_named() -> None:
    network = Network(
        [broker("a", link("b"), link("c")), broker("b", link("a"), link("c")), broker("c", link("a"), link("b"))]
    )
    assert kinds(network) == [(findings.LOOP, "a", "")]


def test_a_ring_with_a_link_that_is_not_used_is_no_loop() -> None:
    spare = {name: link(name, is_neighbour=False, is_synchronised=False) for name in "ac"}
    network = Network(
        [broker("a", link("b"), spare["c"]), broker("b", link("a"), link("c")), broker("c", spare["a"], link("b"))]
    )
    assert diagnose(network) == []


def test_only_what_is_found_twice_lasts() -> None:
    first = diagnose(changed(chain(), "c", subscriptions=()))
    assert lasting(first, diagnose(chain())) == []
    assert lasting(first, first) == first


# Why?

MATCHING = Event({"type": "quote", "price": 120})


def test_an_event_that_is_wanted_is_followed_to_the_subscriber() -> None:
    (way,) = trace_event(chain(), MATCHING, "sub")
    assert way.arrives
    assert [(step.broker, step.is_passed) for step in way.steps] == [("a", True), ("a", True), ("b", True), ("c", True)]
    assert way.steps[1].text == "goes on to b: b told price > 100"
    assert way.reason == "is passed to sub"


def test_the_queue_of_the_subscriber_is_told_of() -> None:
    queue = QueueRow(client="sub", number=1, waiting=7, waiting_max=10, dropped={"queue full": 3}, is_connected=False)
    (way,) = trace_event(changed(chain(), "c", queues=(queue,)), MATCHING, "sub/1")
    assert way.reason == (
        "is passed to sub, which is not connected, behind 7 that wait in its queue of 10, 3 were dropped: queue full"
    )


def test_an_event_that_is_not_wanted_stops_at_a_constraint() -> None:
    (way,) = trace_event(chain(), Event({"type": "quote", "price": 90}), "sub")
    assert not way.arrives
    assert [step.broker for step in way.steps] == ["a", "a"]
    assert way.reason == "sub does not want it: price > 100 fails: price is 90"


def test_an_event_that_others_want_stops_at_the_last_broker() -> None:
    network = chain()
    wide = RouteRow(neighbour="b", is_ours=False, filter="price > 5")
    network = changed(network, "a", routes=(wide,))
    network = changed(network, "b", routes=(msgspec.structs.replace(wide, neighbour="c"),))
    (way,) = trace_event(network, Event({"type": "quote", "price": 90}), "sub")
    assert (way.steps[-1].broker, way.steps[-1].text) == ("c", "arrives, but sub does not want it")


def test_a_table_that_lacks_the_subscription_is_named() -> None:
    (way,) = trace_event(changed(chain(), "b", routes=()), MATCHING, "sub")
    assert way.reason == "goes no further: b has no filter from c that matches it, though sub wants it"


def test_a_link_that_is_down_is_where_it_stops() -> None:
    down = link("c", is_up=False, is_neighbour=False, problem="connection refused")
    network = changed(chain(), "b", links=(link("a"), down))
    (way,) = trace_event(network, MATCHING, "sub")
    assert way.reason == "there is no way from a to c: the link from b to c is down (connection refused)"


def test_an_event_that_nobody_offers_is_told_the_nearest_advertisement() -> None:
    (way,) = trace_event(chain(), Event({"type": "trade", "price": 120}), "sub")
    assert way.reason == (
        "nobody offers such an event: nearest is pub/1, type = 'quote', where type = 'quote' fails: type is \"trade\""
    )
    (way,) = trace_event(chain(), MATCHING, "sub", "somebody")
    assert way.reason == "nobody offers such an event: somebody advertises nothing"


def test_a_subscriber_that_nobody_knows_has_no_way() -> None:
    assert trace_event(chain(), MATCHING, "nobody") == []
    assert trace_event(chain(), MATCHING, "sub/2") == []


def test_what_an_expression_gives_is_told() -> None:
    row = SubscriptionRow(client="sub", number=1, filter="LENGTH(type) > 9")
    (way,) = trace_event(changed(chain(), "c", subscriptions=(row,)), MATCHING, "sub")
    assert way.reason == "sub does not want it: its expression is false"


def test_a_stream_that_few_want_is_followed_the_way_it_goes() -> None:
    wanted = PopularityRow(
        neighbour="b", advertisement="pub/1", subscriptions=1, hops=2.0, gain=0.25, rate=3.0, way="tree"
    )
    event = Event({"type": "quote", "price": 200})

    def texts(way: str, **more: object) -> list[str]:
        stream = msgspec.structs.replace(wanted, way=way, **more)
        (found,) = trace_event(changed(chain("advertisement"), "a", streams=(stream,)), event, "sub")
        assert found.arrives
        return [f"{step.broker}: {step.text}" for step in found.steps[1:]]

    by_tree = ["a: goes on to b: b told price > 100", "b: goes on to c: c told price > 100", "c: is passed to sub"]
    assert texts("tree") == by_tree
    assert texts("direct", is_here=False) == by_tree, "only the broker of the publisher decides"
    few = "not popular behind b (1 subscription 2.0 hops away, gain 0.25, 3 a second"
    assert texts("batching") == [
        f"a: goes on to b when its batch is full, for {few}): b told price > 100",
        *by_tree[1:],
    ]
    assert texts("direct", latency="low") == [
        f"a: goes directly to c, past the tree: {few}, low latency asked for)",
        by_tree[-1],
    ]
    assert texts("gossip", latency="cheap") == [
        f"a: is told to the group of c, past the tree: {few}, asked to be cheap)",
        by_tree[-1],
    ]
    unwanted = changed(chain("advertisement"), "a", streams=(msgspec.structs.replace(wanted, way="direct"),))
    (found,) = trace_event(unwanted, Event({"type": "quote", "price": 1}), "sub")
    assert not found.arrives and "directly" not in "".join(step.text for step in found.steps)
