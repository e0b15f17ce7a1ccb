import pytest

from tidings.machine.effects import (
    CancelTimer,
    CancelTransfer,
    Compute,
    Connect,
    Deliver,
    Drop,
    Effect,
    Job,
    Load,
    Save,
    Send,
    SetTimer,
    Transfer,
)
from tidings.machine.inputs import Computed, Fired, Input, LinkUp, Loaded, Received, Request, Saved, Signal, Transferred
from tidings.machine.message import Message
from tidings.machine.node import NO_RECEIVER, SIGNALS_MAX, Node, Part
from tidings.model.errors import UsageError
from tidings.pubsub.notes import HistoryUnreadable


class Apple(Message, frozen=True):
    pass


class Pear(Message, frozen=True):
    pass


class Rain(Signal, frozen=True):
    drops: int


class Sunshine(Signal, frozen=True):
    pass


class Add(Job, frozen=True):
    """A job."""

    def run(self) -> int:
        return 1 + 1


class Script:
    """A part that answers as it was told to, and remembers what it heard."""

    def __init__(
        self, answers: dict[Input, list[Effect]], messages: tuple[type, ...] = (), first: list[Effect] | None = None
    ) -> None:
        self.answers, self.messages, self.first = answers, messages, first or []
        told = [effect for effects in (self.first, *answers.values()) for effect in effects]
        self.tells: tuple[type[Signal], ...] = tuple({type(it): 0 for it in told if isinstance(it, Signal)})
        self.hears: tuple[type, ...] = (LinkUp, Rain, Sunshine)
        self.heard: list[object] = []
        self.checks = 0

    def start(self, now: float) -> list[Effect]:
        self.heard.append("start")
        return self.first

    def handle(self, now: float, input: Input) -> list[Effect]:
        self.heard.append(input)
        return self.answers.get(input, [])

    def check(self) -> None:
        self.checks += 1


def test_a_message_goes_to_the_part_that_receives_its_type() -> None:
    apples, pears = Script({}, (Apple,)), Script({Received("b", Pear()): [Deliver("pear")]}, (Pear,))
    node = Node({"apples": apples, "pears": pears})
    assert node.handle(1.0, Received("b", Pear())) == [Deliver("pear")]
    assert (apples.heard, pears.heard) == ([], [Received("b", Pear())])
    assert node.messages == (Apple, Pear)


def test_a_message_that_no_part_receives_is_dropped_with_a_reason() -> None:
    assert Node({"apples": Script({}, (Apple,))}).handle(1.0, Received("b", Pear())) == [Drop(Pear(), NO_RECEIVER)]


def test_two_parts_cannot_receive_the_same_message() -> None:
    with pytest.raises(UsageError, match="Apple is received by both 'one' and 'two'"):
        Node({"one": Script({}, (Apple,)), "two": Script({}, (Apple,))})


@pytest.mark.parametrize("name", ["", "a/b"])
def test_a_name_that_would_confuse_what_is_saved_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="part"):
        Node({name: Script({})})


def test_the_name_of_the_part_goes_into_every_key_and_comes_off_again() -> None:
    job = Add()
    ask: list[Effect] = [
        SetTimer("round", 2.0),
        CancelTimer(("nack", 7)),
        Compute("sum", job),
        Transfer("film", "b", Apple(), 10),
        CancelTransfer("film"),
        Save("table", b"x"),
        Load("tab"),
        Send("b", Apple()),
        Connect("b"),
        HistoryUnreadable("torn"),
    ]
    part, other = Script({}, first=ask), Script({})
    node = Node({"one": part, "two": other})
    assert node.start(1.0) == [
        SetTimer(("one", "round"), 2.0),
        CancelTimer(("one", ("nack", 7))),
        Compute(("one", "sum"), job),
        Transfer(("one", "film"), "b", Apple(), 10),
        CancelTransfer(("one", "film")),
        Save("one/table", b"x"),
        Load("one/tab"),
        Send("b", Apple()),
        Connect("b"),
        HistoryUnreadable("torn"),
    ]
    came_back: list[Input] = [
        Fired(("one", "round")),
        Computed(("one", "sum"), 2),
        Computed(("one", "sum"), error="too slow"),
        Transferred(("one", "film"), "gone"),
        Saved("one/table", error="disk full"),
        Loaded("one/tab", (("one/table", b"x"), ("one/tab/le", b"y"))),
    ]
    for back in came_back:
        assert node.handle(2.0, back) == []
    assert other.heard == ["start"]
    assert part.heard[1:] == [
        Fired("round"),
        Computed("sum", 2),
        Computed("sum", error="too slow"),
        Transferred("film", "gone"),
        Saved("table", error="disk full"),
        Loaded("tab", (("table", b"x"), ("tab/le", b"y"))),
    ]


def test_other_inputs_are_offered_to_every_part_that_hears_them_in_order() -> None:
    node = Node({name: Script({LinkUp("b", 1): [Deliver(name)]}) for name in ("z", "a", "m")})
    assert node.handle(1.0, LinkUp("b", 1)) == [Deliver("z"), Deliver("a"), Deliver("m")]


def test_a_signal_is_heard_by_the_others_before_the_effects_that_follow_it() -> None:
    speaker = Script({LinkUp("b"): [Deliver(1), Rain(5), Deliver(4)]})
    first = Script({Rain(5): [Sunshine(), SetTimer("dry", 3.0)]})
    second = Script({Sunshine(): [Deliver(2)], Rain(5): [Deliver(3)]})
    node = Node({"speaker": speaker, "first": first, "second": second})
    assert node.handle(1.0, LinkUp("b")) == [
        Deliver(1),
        Deliver(2),
        SetTimer(("first", "dry"), 3.0),
        Deliver(3),
        Deliver(4),
    ]
    assert speaker.heard == [LinkUp("b"), Sunshine()]


def test_every_part_has_started_before_the_first_signal_is_heard() -> None:
    speaker, listener = Script({}, first=[Rain(1)]), Script({Rain(1): [Deliver("wet")]})
    assert Node({"speaker": speaker, "listener": listener}).start(0.0) == [Deliver("wet")]
    assert listener.heard == ["start", Rain(1)]


def test_two_parts_that_signal_each_other_for_ever_are_stopped() -> None:
    class Echoing(Script):
        def handle(self, now: float, input: Input) -> list[Effect]:
            super().handle(now, input)
            return [Rain(1)]

    one = Echoing({})
    with pytest.raises(AssertionError, match="keep signalling each other"):
        Node({"one": one, "two": Echoing({})}).handle(1.0, Fired(("one", "go")))
    assert len(one.heard) <= SIGNALS_MAX


def test_a_node_may_be_part_of_a_node() -> None:
    part = Script({Fired("round"): [SetTimer("round", 2.0)]}, (Apple,))
    inner: Part = Node({"inner": part})
    outer = Node({"outer": inner})
    assert outer.handle(1.0, Fired(("outer", ("inner", "round")))) == [SetTimer(("outer", ("inner", "round")), 2.0)]
    outer.handle(1.0, Received("b", Apple()))
    assert part.heard == [Fired("round"), Received("b", Apple())]


class Rescue(Request, frozen=True):
    pass


def test_a_signal_that_no_other_part_hears_is_refused_when_the_node_is_built() -> None:
    speaker = Script({LinkUp("b"): [Rain(5)]})
    with pytest.raises(UsageError, match="'speaker' tells Rain, which no other part of this node hears"):
        Node({"speaker": speaker})


def test_a_signal_that_the_node_tells_goes_out_and_is_heard_inside_as_well() -> None:
    speaker, listener = Script({LinkUp("b"): [Rain(5), Deliver(2)]}), Script({Rain(5): [Deliver(1)]})
    inner = Node({"speaker": speaker, "listener": listener}, tells=(Rain,))
    assert inner.handle(1.0, LinkUp("b")) == [Rain(5), Deliver(1), Deliver(2)]
    outside = Script({Rain(5): [Deliver("outside")]})
    outer = Node({"inner": inner, "outside": outside})
    assert Deliver("outside") in outer.handle(1.0, LinkUp("b"))
    assert Node({"speaker": speaker}, tells=(Rain,)).handle(1.0, LinkUp("b")) == [Rain(5), Deliver(2)]


def test_a_request_that_no_part_hears_is_refused() -> None:
    with pytest.raises(UsageError, match="no part of this node hears the request Rescue; it has speaker"):
        Node({"speaker": Script({})}).handle(1.0, Rescue())


def test_checking_a_node_checks_its_parts() -> None:
    parts = Script({}), Script({})
    Node({"one": parts[0], "two": parts[1]}).check()
    assert [part.checks for part in parts] == [1, 1]
