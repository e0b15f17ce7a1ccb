"""Where a name is a claim: visitors stand beside each other and touch nobody until they are admitted."""

from functools import partial

from tests.worlds.puppets import Do, Puppet
from tidings.machine.effects import Admit, Connect, Disconnect, Effect, Send
from tidings.machine.inputs import Input, Knocked, LinkDown, LinkUp, Received
from tidings.machine.node import Machine
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.protocols.access.access import Access
from tidings.protocols.access.params import AccessParams
from tidings.protocols.teaching.ping import Echo, Probe
from tidings.sim.network.latency import Constant
from tidings.sim.node import Draws
from tidings.sim.simulator import Simulator, SimulatorParams
from tidings.sim.visits import KEPT, NOT_FOR_VISITORS


class Doorkeeper(Puppet):
    """A puppet that asks who is there; of visitors it takes echoes."""

    messages = (Echo,)
    hears = (Knocked,)


class Street:
    """Doorkeepers a and b, a caller c that believes whom it calls, and a stranger s that says it is c."""

    def __init__(self) -> None:
        self.world = Simulator(1, Constant(0.5), params=SimulatorParams(has_visitors=True))
        for name in ("a", "b"):
            self.world.add(name, lambda draws: Doorkeeper())
        for name, claims in (("c", ""), ("s", "c")):
            self.world.add(name, lambda draws: Puppet()).claims = claims
        self.run(0.0)

    def run(self, until: float) -> None:
        self.world.run(until)

    def do(self, name: str, *effects: Effect) -> None:
        self.world.nodes[name].inject(self.world.now, Do(effects))

    def heard(self, name: str) -> list[Input]:
        machine = self.world.nodes[name].machine
        assert isinstance(machine, Puppet)
        heard, machine.seen = machine.heard, []
        return heard

    def admit(self, keeper: str, caller: str, name: str) -> str:
        """As whom the caller was admitted."""
        self.do(caller, Connect(keeper))
        self.run(self.world.now + 1.0)
        (knock,) = [input for input in self.heard(keeper) if isinstance(input, Knocked)]
        self.do(keeper, Admit(knock.visitor, name))
        self.run(self.world.now)
        return knock.visitor


def test_who_calls_is_a_visitor_until_it_is_admitted() -> None:
    street = Street()
    street.do("c", Connect("a"))
    street.run(1.0)
    assert street.heard("a") == [Knocked("?1", "c")]
    assert street.heard("c") == [LinkUp("a", 1)]
    street.do("c", Send("a", Echo(1)))
    street.run(2.0)
    assert street.heard("a") == [Received("?1", Echo(1))]
    street.do("a", Send("?1", Echo(2)), Admit("?1", "c"))
    street.run(2.0)
    assert street.heard("a") == [LinkUp("c", 1, visitor="?1")]
    street.do("c", Send("a", Probe(3)))
    street.do("a", Send("c", Echo(4)))
    street.run(3.0)
    assert street.heard("a") == [Received("c", Probe(3))]
    assert street.heard("c") == [Received("a", Echo(2)), Received("a", Echo(4))]


def test_a_stranger_with_a_name_of_another_touches_nothing_of_it() -> None:
    street = Street()
    street.admit("a", "c", "c")
    street.heard("a"), street.heard("c")
    street.do("s", Connect("a"))
    street.run(3.0)
    assert street.heard("a") == [Knocked("?2", "c")]
    street.do("a", Send("c", Echo(1)), Admit("?2", "c"))
    street.run(5.0)
    assert street.heard("c") == [Received("a", Echo(1))], "the link there was is untouched"
    assert street.heard("a") == [LinkDown("?2", 0, KEPT)]
    assert street.heard("s") == [LinkUp("a", 1), LinkDown("a", 1, KEPT)]


def test_a_visitor_says_what_the_door_takes_and_loses_its_link_by_anything_else() -> None:
    street = Street()
    street.do("s", Connect("a"))
    street.run(1.0)
    street.do("s", Send("a", Probe(1)))
    street.run(3.0)
    assert street.heard("a") == [Knocked("?1", "c"), LinkDown("?1", 0, NOT_FOR_VISITORS)]
    assert street.world.counters().lost == {NOT_FOR_VISITORS: 1}


def test_two_that_call_each_other_at_once_have_two_streams_and_one_end_decides() -> None:
    street = Street()
    street.do("a", Connect("b"))
    street.do("b", Connect("a"))
    street.run(1.0)
    knocks = {name: street.heard(name) for name in ("a", "b")}
    assert knocks["a"] == [Knocked("?4", "b"), Knocked("?1", "b", "b")]
    assert knocks["b"] == [Knocked("?3", "a"), Knocked("?2", "a", "a")]
    street.do("b", Admit("?2", "a"))
    street.do("a", Admit("?1", "b"), Admit("?4", "b"))
    street.do("b", Admit("?3", "a", replaces=True))
    street.run(3.0)
    assert street.heard("a") == [LinkUp("b", 1, visitor="?1"), LinkDown("?4", 0, KEPT)]
    ups = [LinkUp("a", 1, visitor="?2"), LinkUp("a", 2, visitor="?3")]
    assert street.heard("b") == [ups[0], LinkDown("a", 1, "replaced by a new link"), ups[1]]
    street.do("a", Send("b", Probe(1)))
    street.run(4.0)
    assert street.heard("b") == [Received("a", Probe(1))], "both kept the same one"


def test_who_ends_a_call_that_the_other_end_gave_up_hears_whom_it_had_asked_for() -> None:
    street = Street()
    street.do("a", Connect("b"))
    street.run(1.0)
    street.do("b", Disconnect("?2", "no"))
    street.do("a", Disconnect("?1", "too late"))
    street.run(3.0)
    assert street.heard("a") == [Knocked("?1", "b", "b"), LinkDown("?1", 0, "too late", asked="b")]
    assert street.heard("b") == [Knocked("?2", "a"), LinkDown("?2", 0, "no")]


def test_a_link_whose_other_end_is_gone_gives_way() -> None:
    street = Street()
    street.admit("a", "c", "c")
    street.world.crash("c", is_silent=True)
    street.world.restart("c", keep_state=False)
    street.heard("a")
    street.admit("a", "c", "c")
    assert street.heard("a") == [LinkDown("c", 1, "replaced by a new link"), LinkUp("c", 2, visitor="?2")]
    street.do("a", Disconnect("c", "enough"))
    street.run(30.0)
    assert street.heard("a") == [LinkDown("c", 2, "enough")]


def make_broker(name: str, other: str, draws: Draws) -> Machine:
    return BrokerNode(name, BrokerParams(access=AccessParams(links=(other,))), draws("access"))


def test_brokers_let_each_other_in_by_the_same_door_as_on_sockets() -> None:
    world = Simulator(1, Constant(0.05), checking=True, params=SimulatorParams(has_visitors=True))
    for name, other in (("a", "b"), ("b", "a")):
        world.add(name, partial(make_broker, name, other))
    for until in (10.0, 40.0):
        world.run(until)
        for name, other in (("a", "b"), ("b", "a")):
            machine = world.nodes[name].machine
            assert isinstance(machine, BrokerNode)
            access = machine.parts["access"]
            assert isinstance(access, Access) and list(access.entrants) == [other] and access.peers == 1
        world.break_link("a", "b")
