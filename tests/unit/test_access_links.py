"""Links on demand: who wants which, how they come and are let go; input by input, against a model, and in a network."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.puppets import Witness
from tidings.machine.effects import CancelTimer, Connect, Disconnect, Effect, Know, Note, Send, SetTimer
from tidings.machine.inputs import Fired, Input, LinkDown, LinkUp, Received
from tidings.machine.message import Contact, is_address_text
from tidings.machine.node import Node
from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.protocols.access import access as at_the_door
from tidings.protocols.access.access import Access
from tidings.protocols.access.judge import open_judge
from tidings.protocols.access.messages import Attach, Attached, LetGo, Rejected
from tidings.protocols.access.open_door import OpenDoor, OpenDoorParams
from tidings.protocols.access.params import AccessParams
from tidings.pubsub.signals import LET_GO, ClientDown, ClientUp, LinkFailed, LinkUnwanted, LinkWanted, PeerDown, PeerUp
from tidings.sim.network.latency import Constant
from tidings.sim.node import Draws
from tidings.sim.simulator import Simulator

C = Contact("c", "127.0.0.1:7413")
TOLD = [Attach("broker", b"", "127.0.0.1:7413"), Attached("b", "", "")]


def broker(**params: Any) -> Access:
    access = Access("b", AccessParams(**params), open_judge, random_stream(1), address=lambda: "127.0.0.1:7412")
    access.start(0.0)
    return access


def run(access: Access, *inputs: Input) -> list[Effect]:
    """The effects of the last of these inputs, without timers that are cancelled and notes."""
    effects: list[Effect] = []
    for input in inputs:
        effects = access.handle(1.0, input)
        access.check()
    return [effect for effect in effects if not isinstance(effect, CancelTimer | Note)]


def linked(access: Access, *users: str) -> Access:
    """It is a peer of c, for these users."""
    run(access, *(LinkWanted(C, user) for user in users), LinkUp("c", 1), *(Received("c", message) for message in TOLD))
    assert access.peers == 1
    return access


def test_a_wanted_link_is_asked_for_where_its_contact_says_and_both_ends_say_where_they_listen() -> None:
    access = broker()
    assert run(access, LinkWanted(C, "overlay")) == [Know("c", "127.0.0.1:7413"), Connect("c")]
    assert run(access, LinkUp("c", 1)) == [
        SetTimer(("attach", "c"), 6.0),
        Send("c", Attach("broker", b"", "127.0.0.1:7412")),
    ]
    assert run(access, Received("c", TOLD[0])) == [Send("c", Attached("c", "", ""))]
    assert run(access, Received("c", TOLD[1])) == [PeerUp("c", 1, address="127.0.0.1:7413", is_configured=False)]


def test_where_only_the_name_is_known_nothing_is_told_of_its_address() -> None:
    assert run(broker(), LinkWanted(Contact("c"), "overlay")) == [Connect("c")]
    assert run(broker(), LinkWanted(Contact("c", "nonsense"), "overlay")) == [Connect("c")]


def test_a_link_lives_until_its_last_user_lets_go_and_then_the_other_end_is_told() -> None:
    access = linked(broker(), "overlay", "gossip")
    assert run(access, LinkWanted(C, "gossip")) == [Know("c", "127.0.0.1:7413")]
    assert run(access, LinkUnwanted("c", "overlay")) == []
    assert run(access, LinkUnwanted("c", "overlay")) == []
    assert run(access, LinkUnwanted("c", "gossip")) == [Send("c", LetGo())]
    assert run(access, LinkDown("c", 1, LET_GO)) == [PeerDown("c", 1, LET_GO)]
    assert not access.wanted.users and not access.entrants


def test_who_is_let_go_ends_the_link_unless_it_wants_it_itself() -> None:
    other = broker()
    run(other, LinkUp("c", 1), *(Received("c", message) for message in TOLD))
    assert run(other, Received("c", LetGo())) == [
        PeerDown("c", 1, LET_GO),
        Disconnect("c", LET_GO),
    ]
    for wanting in (linked(broker(), "overlay"), linked(broker(links=("c",)))):
        assert run(wanting, Received("c", LetGo())) == []
        assert wanting.peers == 1


def test_a_configured_link_is_kept_when_those_who_wanted_it_besides_let_go() -> None:
    access = linked(broker(links=("c",)), "overlay")
    assert run(access, LinkUnwanted("c", "overlay")) == []
    assert access.peers == 1 and list(access.wanted.users) == ["c"]


def test_a_link_that_is_up_because_the_other_end_wants_it_is_ours_too_from_then_on() -> None:
    access = broker()
    run(access, LinkUp("c", 1), *(Received("c", message) for message in TOLD))
    assert run(access, LinkWanted(C, "overlay")) == [Know("c", "127.0.0.1:7413")]
    assert run(access, Received("c", LetGo())) == []
    assert run(access, LinkDown("c", 1, "broken"))[0] == PeerDown("c", 1, "broken")
    assert run(access, Fired(("connect", "c"))) == [Connect("c")]


def test_a_link_that_nobody_wants_any_more_when_it_comes_is_ended() -> None:
    access = broker()
    run(access, LinkWanted(C, "overlay"), LinkUnwanted("c", "overlay"))
    assert run(access, LinkUp("c", 1)) == [Disconnect("c", at_the_door.NOT_WANTED)]
    assert run(access, LinkDown("c", 1, "ended")) == [] and not access.entrants


def test_a_link_that_nobody_wants_any_more_when_it_is_let_in_is_let_go() -> None:
    access = broker()
    run(access, LinkWanted(C, "overlay"), LinkUp("c", 1), LinkUnwanted("c", "overlay"), Received("c", TOLD[0]))
    assert run(access, Received("c", TOLD[1])) == [
        PeerUp("c", 1, address=C.address, is_configured=False),
        Send("c", LetGo()),
    ]


def test_whoever_is_linked_and_silent_is_attached_to_when_the_link_is_wanted() -> None:
    access = broker()
    run(access, LinkUp("c", 1))
    assert run(access, LinkWanted(Contact("c"), "overlay")) == [Send("c", Attach("broker", b"", "127.0.0.1:7412"))]


def test_a_link_that_does_not_come_is_told_of_and_tried_again_while_it_is_wanted() -> None:
    access = broker(retry_first=0.1, retry_max=0.4)
    waits = []
    run(access, LinkWanted(C, "overlay"))
    for _ in range(4):
        timer, failed = run(access, LinkDown("c", 0, "refused"))
        assert failed == LinkFailed("c", "refused") and isinstance(timer, SetTimer)
        waits.append(timer.at - 1.0)
        assert run(access, Fired(("connect", "c"))) == [Connect("c")]
    assert all(longest / 2 <= wait <= longest for wait, longest in zip(waits, (0.1, 0.2, 0.4, 0.4), strict=True))
    run(access, LinkUnwanted("c", "overlay"))
    assert run(access, LinkDown("c", 0, "refused")) == []
    assert run(access, Fired(("connect", "c"))) == []


def test_configured_links_that_do_not_come_are_only_tried_again() -> None:
    (timer,) = run(broker(links=("c",)), LinkDown("c", 0, "refused"))
    assert isinstance(timer, SetTimer)


def test_links_that_are_too_many_or_to_ourselves_are_refused() -> None:
    access = broker(links=("x",), links_wanted_max=2)
    run(access, LinkWanted(C, "overlay"))
    assert run(access, LinkWanted(Contact("d"), "overlay")) == [
        LinkFailed("d", at_the_door.TOO_MANY_WANTED, is_refused=True)
    ]
    assert run(access, LinkWanted(Contact("c"), "gossip")) == []
    assert run(access, LinkWanted(Contact("b"), "overlay")) == [LinkFailed("b", at_the_door.OURSELVES, is_refused=True)]
    run(access, LinkUnwanted("c", "overlay"), LinkUnwanted("c", "gossip"))
    assert run(access, LinkWanted(Contact("d"), "overlay")) == [Connect("d")]
    with pytest.raises(UsageError, match="links_wanted_max: 1, but links names 2"):
        AccessParams(links=("x", "y"), links_wanted_max=1)


def test_a_broker_known_by_its_address_and_wanted_by_its_name_has_one_link() -> None:
    access = broker(links=("@h:1",))
    run(access, LinkWanted(Contact("c"), "overlay"), LinkUp("c", 1, "@h:1"))
    assert {link: list(users) for link, users in access.wanted.users.items()} == {"@h:1": ["configuration", "overlay"]}
    assert run(access, LinkDown("c", 1, "broken"))[1:] == [LinkFailed("c", "broken")]
    assert run(access, Fired(("connect", "@h:1"))) == [Connect("@h:1")]
    assert run(access, LinkUnwanted("c", "overlay")) == [] and list(access.wanted.users) == ["@h:1"]


def test_what_is_asked_for_outlives_a_new_start() -> None:
    access = linked(broker(links=("x",)), "overlay")
    effects = access.start(2.0)
    assert PeerDown("c", 1, at_the_door.STARTED_AGAIN) in effects
    assert [effect for effect in effects if isinstance(effect, Connect)] == [Connect("x"), Connect("c")]


@pytest.mark.parametrize("address", ["x", ":1", "h:", "h:0", "h:65536", "a b:1", "h:\u0661", "h\n:1", "h:-1"])
def test_who_says_that_it_listens_nowhere_is_turned_away(address: str) -> None:
    assert not is_address_text(address)
    assert run(broker(), LinkUp("c", 1), Received("c", Attach("broker", b"", address))) == [
        Send("c", Rejected(at_the_door.BAD_ADDRESS)),
        Disconnect("c", at_the_door.BAD_ADDRESS),
    ]


def test_addresses_are_hosts_and_ports() -> None:
    for address in ("h:1", "127.0.0.1:7411", "[::1]:65535", "north.example:80"):
        assert is_address_text(address)


# In a network, against a model: a link is up when either end wants it, and at no other time.

NAMES = ("a", "b", "c")
USERS = ("overlay", "gossip")
STEP = 0.015
"""Less than a message takes, so that minds are changed at every stage of a link."""
PATIENCE = 30.0
"""Far more than links need to come back."""


class Bystander(Witness):
    """Sees who is a peer."""

    hears = (PeerUp, PeerDown, LinkFailed)

    def __init__(self) -> None:
        self.up: dict[NodeId, str] = {}

    def see(self, now: float, input: Input) -> None:
        match input:
            case PeerUp(peer, _, _, address):
                assert peer not in self.up
                self.up[peer] = address
            case PeerDown(peer):
                del self.up[peer]


def make_open(name: NodeId, links: tuple[NodeId, ...], draws: Draws) -> Node:
    door = OpenDoor(name, OpenDoorParams(links=links), draws("access"))
    return Node({"access": door, "others": Bystander()})


def make(name: NodeId, links: tuple[NodeId, ...], draws: Draws) -> Node:
    access = Access(name, AccessParams(links=links), open_judge, draws("access"), address=lambda: f"{name}:1")
    return Node({"access": access, "others": Bystander()}, tells=(ClientUp, ClientDown))


happenings = st.tuples(
    st.integers(0, 6),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    st.sampled_from(["want", "unwant", "change", "change", "cut", "crash"]),
    st.sampled_from(USERS),
).filter(lambda it: it[1] != it[2])


@given(
    st.lists(happenings, max_size=40),
    st.sets(st.sampled_from([(one, other) for one in NAMES for other in NAMES if one < other]), max_size=3),
    st.integers(0, 2**32),
    st.sampled_from([make, make_open]),
)
def test_once_all_is_quiet_a_link_is_up_exactly_where_one_of_its_ends_wants_it(
    script: list[tuple[int, str, str, str, str]],
    configured: set[tuple[str, str]],
    seed: int,
    make_node: Callable[[NodeId, tuple[NodeId, ...], Draws], Node],
) -> None:
    simulator = Simulator(seed, Constant(0.02), checking=True)
    for name in NAMES:
        links = tuple(sorted(other for one, other in configured if one == name))
        simulator.add(name, partial(make_node, name, links))
    wanted = {(one, other, "configuration") for one, other in configured}
    at = 0.0
    for pause, one, other, what, user in script:
        at += pause * STEP
        match what:
            case "want":
                wanted.add((one, other, user))
                simulator.inject(at, one, LinkWanted(Contact(other), user))
            case "change":
                # Wanted, and then not any more.
                simulator.inject(at, one, LinkWanted(Contact(other), user))
                at += STEP * (pause + 1)
                wanted.discard((one, other, user))
                simulator.inject(at, one, LinkUnwanted(other, user))
            case "unwant":
                wanted.discard((one, other, user))
                simulator.inject(at, one, LinkUnwanted(other, user))
            case "cut":
                simulator.call_at(at, partial(simulator.break_link, one, other))
            case "crash":
                # It loses what it was asked for; nobody asks it again.
                wanted = {it for it in wanted if it[0] != one or it[2] == "configuration"}
                simulator.call_at(at, partial(simulator.crash, one))
                simulator.call_at(at, partial(simulator.restart, one, keep_state=False))
    simulator.run(at + PATIENCE)
    expected = {frozenset((one, other)) for one, other, _ in wanted}
    for name in NAMES:
        machine = simulator.nodes[name].machine
        assert isinstance(machine, Node)
        access, others = machine.parts["access"], machine.parts["others"]
        assert isinstance(access, Access | OpenDoor) and isinstance(others, Bystander)
        linked_with = {other for other in NAMES if frozenset((name, other)) in expected}
        assert others.up == {other: f"{other}:1" if make_node is make else "" for other in linked_with}
        kept = access.entrants if isinstance(access, Access) else access.peers
        assert kept.keys() == linked_with, "a link that is no peer's"
