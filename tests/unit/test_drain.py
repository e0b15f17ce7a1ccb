"""A broker that sends its clients away, step by step."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.desk import Desk, of, sent
from tidings.machine.effects import Disconnect, Effect, Send
from tidings.machine.inputs import Input, Received
from tidings.machine.message import Contact
from tidings.machine.streams import random_stream
from tidings.model.bounds import WAYS_OUT_MAX
from tidings.model.errors import UsageError
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.protocols.access import drain as draining
from tidings.protocols.access.drain import Drain, Draining, Undrain
from tidings.protocols.access.messages import (
    BrokerDrains,
    CannotMove,
    DrainAnswered,
    DrainAsked,
    MoveAway,
    OtherBrokers,
)
from tidings.protocols.access.params import AccessParams
from tidings.protocols.overlay.scripted import ScriptedParams
from tidings.protocols.overlay.spanning_tree import SpanningTreeParams
from tidings.pubsub.notes import ClientLetGo, RequestRefused
from tidings.pubsub.rows import DrainRow
from tidings.pubsub.signals import ClientDown, ClientUp, PeerDown, PeerUp
from tidings.pubsub.tenants import Tenant


class Office(Desk[Draining]):
    """A broker that is linked with p, at p:1, and has clients."""

    def __init__(self, *clients: str, peers: tuple[str, ...] = ("p",), is_open: bool = True, **params: Any) -> None:
        self.busy, self.is_reachable = "", True
        part = Draining(
            "b",
            AccessParams(**params),
            why_busy=lambda: self.busy,
            address=lambda: "b:1",
            is_open=is_open,
        )
        super().__init__(part)
        for peer in peers:
            self.handle(PeerUp(peer, 1, address=f"{peer}:1"))
        for client in clients:
            self.arrive(client)

    def arrive(self, client: str, when_drained: str = "goes", **up: Any) -> None:
        self.handle(ClientUp(client, client, when_drained=when_drained, **up))

    def hear(self, sender: str, message: Any) -> list[Effect]:
        return self.handle(Received(sender, message))

    @property
    def row(self) -> DrainRow:
        return self.machine.row()

    @property
    def ways_out(self) -> list[str]:
        return list(self.row.ways_out)

    def told(self, kind: type = MoveAway) -> list[Any]:
        return [it.to for _, it in self.all if isinstance(it, Send) and isinstance(it.message, kind)]


def test_clients_are_told_a_few_at_a_time_and_no_more_until_these_have_gone() -> None:
    office = Office(*"cdefgh", drain_rate=20.0, drain_at_once=3)
    office.handle(Drain())
    office.advance(0.1)
    assert office.told() == ["c", "d"]
    office.advance(0.5)
    assert office.told() == ["c", "d", "e"], "three have not gone yet"
    office.handle(ClientDown("d"))
    office.advance(0.6)
    assert office.told() == ["c", "d", "e", "f"]
    assert (office.row.clients, office.row.told, office.row.moved, office.row.state) == (5, 3, 1, "draining")


def test_each_client_hears_of_several_brokers_and_another_one_first() -> None:
    office = Office("c", "d", peers=("p", "q"))
    office.handle(Drain())
    office.hear("p", OtherBrokers((Contact("r", "r:1"), Contact("b", "b:1"), Contact("s", ""))))
    office.advance(1.0)
    named = [[it.node for it in away.contacts] for away in sent(e for _, e in office.all) if type(away) is MoveAway]
    assert named == [["q", "r", "p"], ["r", "p", "q"]]


def test_whoever_comes_meanwhile_is_sent_on_but_for_those_who_only_look() -> None:
    office = Office()
    assert office.machine.away("goes") is None
    office.handle(Drain())
    away = office.machine.away("goes")
    assert away is not None
    assert away.contacts == (Contact("p", "p:1"),)
    assert office.machine.away("") is not None
    assert office.machine.away("stays") is None
    office.handle(Undrain())
    assert office.machine.away("goes") is None


def test_who_cannot_go_or_does_not_understand_is_told_of_and_let_go_in_the_end() -> None:
    office = Office("c", "d", drain_patience=4.0)
    office.arrive("old", "")
    office.handle(Drain())
    office.advance(1.0)
    office.hear("c", CannotMove("no room anywhere"))
    assert (office.row.unable, office.row.problem) == (2, "no room anywhere")
    office.handle(ClientDown("d"))
    office.advance(3.0)
    assert office.told().count("c") == 2, "it is asked once more"
    office.advance(5.0)
    gone = [it for _, it in office.all if isinstance(it, ClientLetGo | Disconnect)]
    reasons = {"c": "no room anywhere", "old": draining.DOES_NOT_KNOW}
    assert gone == [it for c in reasons for it in (ClientLetGo(c, reasons[c]), Disconnect(c, draining.NOT_GONE))]
    assert (office.row.let_go, office.row.moved) == (2, 1)


def test_it_is_safe_to_stop_when_all_have_gone_and_nothing_passes_any_more() -> None:
    office = Office("c", drain_quiet=1.0)
    office.arrive("watcher", "stays")
    office.handle(Drain())
    office.advance(0.5)
    assert office.row.waits_for == "1 clients to go"
    office.handle(ClientDown("c"))
    office.busy = "2 links of the tree"
    assert office.row.waits_for == "2 links of the tree"
    office.busy = ""
    office.advance(2.0)
    assert (office.row.state, office.row.watching) == ("safe to stop", 1)
    office.machine.passed(office.now)
    assert office.row.state == "draining"
    office.advance(office.now + 1.1)
    assert office.row.state == "safe to stop"
    assert office.machine.why_unsettled() == "drained, and safe to stop"


def test_with_nowhere_to_go_nobody_is_sent_away_or_let_go() -> None:
    office = Office("c", peers=())
    assert office.hear("c", DrainAsked(1, True)) == [Send("c", DrainAnswered(1, draining.NOWHERE))]
    office.handle(Drain())
    office.advance(60.0)
    assert not office.told()
    assert not of(Disconnect, (it for _, it in office.all))
    assert draining.NOWHERE in office.row.waits_for
    office.handle(PeerUp("p", 1, address="p:1"))
    office.advance(61.0)
    assert office.told() == ["c"]


def test_brokers_that_are_drained_send_nobody_to_each_other() -> None:
    office = Office("c", peers=("p", "q"))
    assert office.hear("p", BrokerDrains(True)) == [Send("p", OtherBrokers((Contact("q", "q:1"),)))]
    office.handle(Drain())
    assert sorted(office.told(BrokerDrains)) == ["p", "q"]
    office.advance(1.0)
    assert office.ways_out == ["q"]
    office.hear("p", BrokerDrains(False))
    assert office.ways_out == ["p", "q"]
    assert [type(it.message) for it in of(Send, office.handle(PeerUp("r", 1)))] == [BrokerDrains]
    office.handle(PeerDown("q", 1))
    assert office.ways_out == ["p"], "r does not say where it listens"


@pytest.mark.parametrize(
    ("up", "is_allowed"),
    [
        ({}, False),
        ({"roles": ("client",)}, False),
        ({"roles": ("admin",)}, True),
        ({"roles": ("admin",), "tenant": Tenant("")}, True),
        ({"roles": ("admin",), "tenant": Tenant("acme")}, False),
    ],
)
def test_only_an_admin_of_the_whole_broker_may_ask(up: dict[str, Any], is_allowed: bool) -> None:
    office = Office(is_open=False)
    office.arrive("root", "stays", **up)
    effects = office.hear("root", DrainAsked(7, True))
    (answer,) = sent(effects, DrainAnswered)
    assert answer == DrainAnswered(7, "" if is_allowed else draining.NOT_PERMITTED)
    assert office.machine.is_on is is_allowed
    assert bool(of(RequestRefused, effects)) is not is_allowed


def test_what_strangers_say_is_dropped() -> None:
    office = Office("c")
    for sender, message in (("x", BrokerDrains(True)), ("x", OtherBrokers(())), ("x", DrainAsked(1, True))):
        assert [type(it).__name__ for it in office.hear(sender, message)] == ["Drop"]
    assert office.hear("c", CannotMove("nobody asked me")) == []


happenings = st.lists(
    st.one_of(
        st.builds(ClientUp, st.sampled_from("cde"), st.just("x"), when_drained=st.sampled_from(["", "goes", "stays"])),
        st.builds(ClientDown, st.sampled_from("cde")),
        st.builds(PeerUp, st.sampled_from("pq"), st.just(1), address=st.sampled_from(["", "h:1"])),
        st.builds(PeerDown, st.sampled_from("pq"), st.just(1)),
        st.builds(
            Received,
            st.sampled_from("cdepq"),
            st.one_of(
                st.builds(DrainAsked, st.integers(0, 3), st.booleans()),
                st.builds(CannotMove, st.text(max_size=3)),
                st.builds(BrokerDrains, st.booleans()),
                st.builds(OtherBrokers, st.just((Contact("r", "h:2"),) * WAYS_OUT_MAX)),
            ),
        ),
        st.just(Drain()),
        st.just(Undrain()),
        st.floats(0.1, 20.0),
    ),
    max_size=60,
)


@given(happenings)
def test_whatever_happens_nobody_is_told_or_let_go_for_nothing(happened: list[Input | float]) -> None:
    office = Office(peers=(), drain_at_once=2)
    here: dict[str, str] = {}
    for each in happened:
        is_up = isinstance(each, ClientUp) and each.client not in here
        if isinstance(each, ClientUp) and not is_up:
            continue
        effects = office.advance(office.now + each) if isinstance(each, float) else office.handle(each)
        if isinstance(each, ClientUp):
            here[each.client] = each.when_drained
        elif isinstance(each, ClientDown):
            here.pop(each.client, None)
        for effect in effects:
            if isinstance(effect, Disconnect):
                assert here[effect.neighbour] != "stays"
            elif isinstance(effect, Send) and isinstance(effect.message, MoveAway):
                assert here[effect.to] == "goes"
                assert len(effect.message.contacts) <= WAYS_OUT_MAX


@pytest.mark.parametrize("name", ["drain_rate", "drain_at_once", "drain_patience", "drain_quiet"])
def test_bounds_that_make_no_sense_are_refused_by_name(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        msgspec.structs.replace(AccessParams(), **{name: 0})


def test_a_broker_between_others_says_what_may_be_done_about_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for overlay, advice in ((ScriptedParams(), "tidings plan apply --drain b"), (SpanningTreeParams(), "--link")):
        node = BrokerNode("b", BrokerParams(overlay=overlay), random_stream(1))
        monkeypatch.setattr(type(node.overlay), "neighbours", ["a", "c"])
        assert advice in node.why_busy()
