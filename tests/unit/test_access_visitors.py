"""Visitors at the door, input by input: who has proved nothing touches nobody, and of two streams one is kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_access import ANNS, broker, judge, run, seal, token, turned_away
from tests.worlds.puppets import Puppet
from tidings.machine.effects import Admit, Connect, Disconnect, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Knocked, LinkDown, LinkUp, Received
from tidings.machine.node import Node, visitor_messages
from tidings.machine.streams import random_stream
from tidings.protocols.access import access as at_the_door
from tidings.protocols.access.access import Access
from tidings.protocols.access.entrant import NAME_HAS_A_KEY, NAME_NOT_PROVED, NO_BROKER
from tidings.protocols.access.judge import NameJudge, Principal, open_judge, statement
from tidings.protocols.access.messages import Attach, Attached, Challenge, Proof, Rejected
from tidings.protocols.access.params import AccessParams
from tidings.pubsub.signals import ClientDown, ClientUp, PeerDown, PeerUp


def test_a_visitor_is_bound_to_its_name_before_it_is_served() -> None:
    access = broker()
    assert run(access, Knocked("?1", "c")) == [SetTimer(("attach", "?1"), 6.0)]
    assert run(access, Received("?1", Attach("client", b""))) == [Admit("?1", "c")]
    assert run(access, LinkUp("c", 1, visitor="?1"))[1:] == [
        Send("c", Attached("c", "", "")),
        ClientUp("c", "c", None, None),
    ]
    assert run(access, LinkDown("c", 1, "gone")) == [ClientDown("c", "gone")]


def test_visitors_with_the_name_of_a_client_change_nothing_for_it() -> None:
    access = broker(judge())
    run(access, Knocked("?1", "ann"), Received("?1", Attach("client", token())), LinkUp("ann", 1, visitor="?1"))
    before = access.entrants["ann"]
    assert run(access, Knocked("?2", "ann")) == [SetTimer(("attach", "?2"), 6.0)]
    assert run(access, Received("?2", Attach("client", b"")))[-1].neighbour == "?2"
    assert run(access, Knocked("?3", "ann"), Fired(("attach", "?3"))) == [Disconnect("?3", at_the_door.TOO_LATE)]
    assert access.entrants == {"ann": before}


def test_the_holder_of_a_key_is_bound_only_after_its_proof() -> None:
    access = broker(judge())
    run(access, Knocked("?1", "ann"))
    (challenge,) = run(access, Received("?1", Attach("client", token(holder_key=ANNS))))
    assert isinstance(challenge.message, Challenge) and challenge.to == "?1"
    proof = Proof(seal(ANNS)(statement(challenge.message.nonce, "ann", "b")))
    assert run(access, Received("?1", proof)) == [Admit("?1", "ann")]


def test_a_visitor_that_is_gone_before_it_is_bound_leaves_nothing() -> None:
    access = broker()
    run(access, Knocked("?1", "c"), Received("?1", Attach("client", b"")))
    assert run(access, LinkDown("?1", 0, "another stream is kept")) == []
    assert run(access, LinkUp("c", 1, visitor="?1")) == [Disconnect("c", at_the_door.NOT_WANTED)]
    assert not access.entrants


def test_whoever_called_us_shows_first_who_it_is_and_whom_we_called_hears_it_from_us() -> None:
    access = broker(links=("c",), credentials=b"secret")
    assert run(access, Knocked("?1", "c")) == [SetTimer(("attach", "?1"), 6.0)]
    assert run(access, Knocked("?2", "c", "c")) == [
        SetTimer(("attach", "?2"), 6.0),
        Send("?2", Attach("broker", b"secret")),
    ]


def test_the_smaller_name_decides_and_says_attached_on_the_stream_that_it_keeps() -> None:
    small = broker(links=("c",))
    run(small, Knocked("?1", "c", "c"), Received("?1", Attached("b", "", "")))
    assert run(small, Received("?1", Attach("broker", b""))) == [Admit("?1", "c")]
    assert run(small, LinkUp("c", 1, visitor="?1"))[1:] == [Send("c", Attached("c", "", "")), PeerUp("c", 1)]


def test_the_larger_name_answers_and_follows_the_other_ends_choice() -> None:
    large = broker()
    run(large, Knocked("?1", "a"))
    assert run(large, Received("?1", Attach("broker", b""))) == [
        Send("?1", Attached("a", "", "")),
        Send("?1", Attach("broker", b"")),
    ]
    assert run(large, Received("?1", Attached("b", "", ""))) == [Admit("?1", "a", replaces=True)]
    assert run(large, LinkUp("a", 1, visitor="?1"))[-1] == PeerUp("a", 1, is_configured=False)


def test_what_a_visitor_claims_keeps_us_from_calling_nobody() -> None:
    access = broker(links=("c",))
    run(access, LinkDown("c", 0, "no answer"), Knocked("?1", "c"))
    assert run(access, Fired(("connect", "c"))) == [Connect("c")]
    run(access, Knocked("?2", "c", "c"))
    assert run(access, Fired(("connect", "c"))) == []


def test_a_call_that_came_to_nothing_is_made_again_unless_the_link_is_there() -> None:
    access = broker(links=("@c:1",))
    run(access, Knocked("?1", "c", "@c:1"), Received("?1", Rejected("no")))
    (timer,) = run(access, LinkDown("?1", 0, "rejected", "@c:1"))
    assert timer.key == ("connect", "@c:1")
    run(access, Knocked("?2", "c", "@c:1"), Received("?2", Attach("broker", b"")))
    assert access.wanted.link_of("c") == "@c:1", "who it is has been proved, though another stream may be kept"
    run(access, Knocked("?3", "c"), Received("?3", Attach("broker", b"")), LinkUp("c", 1, visitor="?3"))
    assert run(access, LinkDown("?2", 0, "another stream is kept", "@c:1")) == []


def test_all_that_a_visitor_may_say_is_what_access_takes() -> None:
    access = broker()
    assert visitor_messages(access) == access.messages
    assert visitor_messages(Node({"access": access}, tells=access.tells)) == access.messages
    assert visitor_messages(Puppet()) == ()


# Against a host that believes nothing: whatever visitors do, up and down come in turns and only for whom was admitted.

NAMES = ["ann", "a", "x"]
words = st.one_of(
    st.builds(Attach, st.sampled_from(["client", "broker"]), st.sampled_from([b"", token(), token(holder_key=ANNS)])),
    st.sampled_from([Attached("b", "", ""), Rejected("no"), Challenge(bytes(32)), Proof(bytes(64))]),
)
visitors = st.integers(0, 5)
happenings = st.one_of(
    st.tuples(st.just("knock"), st.sampled_from(NAMES), st.booleans()),
    st.tuples(st.just("say"), visitors, words),
    st.tuples(st.just("say"), visitors, words),
    st.tuples(st.just("end"), visitors, st.none()),
    st.tuples(st.just("late"), visitors, st.none()),
)


@given(st.lists(happenings, max_size=40), st.booleans())
def test_whatever_visitors_do_only_who_is_admitted_is_up(
    script: list[tuple[str, object, object]], is_open: bool
) -> None:
    links = {"links": ("x",), "clients_max": 2, "peers_max": 2, "strangers_max": 4}
    access = broker(open_judge if is_open else judge(), **links)
    world = BindingWorld(access)
    for what, one, other in script:
        streams = list(world.streams)
        if what == "knock":
            world.knock(str(one), "x" if other and one == "x" else "")
        elif streams:
            stream = streams[int(str(one)) % len(streams)]
            world.meet(stream, what, other)
        access.check()
        assert set(world.up) <= set(access.entrants)


class BindingWorld:
    """Binds who is admitted, one stream for each name; the older one is ended first."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.streams: dict[str, tuple[str, int, str]] = {}
        """What each is called now: the name that it claimed, its epoch, whom we had asked for."""
        self.up: dict[str, type] = {}
        self.count = 0

    def knock(self, name: str, asked: str) -> None:
        self.count += 1
        self.streams[f"?{self.count}"] = name, 0, asked
        self.handle(Knocked(f"?{self.count}", name, asked))

    def meet(self, stream: str, what: str, word: object) -> None:
        if what == "say":
            self.handle(Received(stream, word))  # type: ignore[arg-type]
        elif what == "late":
            self.handle(Fired(("attach", stream)))
        else:
            self.end(stream)

    def end(self, stream: str) -> None:
        if stream in self.streams:
            _, epoch, asked = self.streams.pop(stream)
            self.handle(LinkDown(stream, epoch, "gone", asked if stream.startswith("?") else ""))

    def handle(self, input: Input) -> None:
        later: list[Effect] = []
        for effect in self.access.handle(1.0, input):
            match effect:
                case ClientUp(node) | PeerUp(node):
                    assert node not in self.up and node in self.streams
                    self.up[node] = type(effect)
                case ClientDown(node):
                    assert self.up.pop(node) is ClientUp
                case PeerDown(node):
                    assert self.up.pop(node) is PeerUp
                case Send(to):
                    assert to in self.streams
                case Admit() | Disconnect():
                    later.append(effect)
        for effect in later:
            match effect:
                case Admit(visitor, name):
                    self.bind(visitor, name)
                case Disconnect(node):
                    self.end(node)

    def bind(self, visitor: str, name: str) -> None:
        assert self.streams[visitor][0] == name
        self.end(name)
        if visitor in self.streams:
            _, _, asked = self.streams.pop(visitor)
            self.count += 1
            self.streams[name] = name, self.count, asked
            self.handle(LinkUp(name, self.count, visitor=visitor))


# What the judge's yes rests on.


def test_who_proved_a_name_with_a_key_is_not_thrown_out_by_one_who_shows_none() -> None:
    access = broker(judge(otherwise=open_judge))
    run(access, Knocked("?1", "ann"))
    (challenge,) = run(access, Received("?1", Attach("client", token(holder_key=ANNS))))
    run(access, Received("?1", Proof(seal(ANNS)(statement(challenge.message.nonce, "ann", "b")))))
    run(access, LinkUp("ann", 1, visitor="?1"))
    away = turned_away("?2", NAME_HAS_A_KEY)
    assert run(access, Knocked("?2", "ann"), Received("?2", Attach("client", b""))) == away
    assert run(access, Knocked("?3", "ben"), Received("?3", Attach("client", b""))) == [Admit("?3", "ben")]


def test_a_listed_name_counts_only_where_the_link_proves_it() -> None:
    access = broker(NameJudge({"ann": Principal("ann")}))
    away = turned_away("?1", NAME_NOT_PROVED)
    assert run(access, Knocked("?1", "ann"), Received("?1", Attach("client", b""))) == away
    proved = Knocked("?2", "ann", certified=("client",))
    assert run(access, proved, Received("?2", Attach("client", b""))) == [Admit("?2", "ann")]


@pytest.mark.parametrize(
    ("certified", "is_listed", "is_broker"),
    [
        (None, False, True),
        ((), False, False),
        ((), True, True),
        (("client",), False, False),
        (("client",), True, False),
        (("broker",), False, True),
        (("broker",), True, True),
    ],
)
def test_a_certificate_that_says_nothing_of_a_broker_makes_none(
    certified: tuple[str, ...] | None, is_listed: bool, is_broker: bool
) -> None:
    access = broker(NameJudge({"x": Principal("x", ("broker",))}) if is_listed else open_judge)
    said = run(access, Knocked("?1", "x", certified=certified), Received("?1", Attach("broker", b"")))
    assert said == ([Admit("?1", "x")] if is_broker else turned_away("?1", NO_BROKER))


@pytest.mark.parametrize(("certified", "shown"), [(None, b""), (("broker",), b"secret")])
def test_a_bearer_token_is_not_shown_to_whom_nothing_but_his_word_is_known(
    certified: tuple[str, ...] | None, shown: bytes
) -> None:
    access = Access("b", AccessParams(credentials=b"secret"), open_judge, random_stream(1))
    run(access, Knocked("?1", "x", certified=certified), Received("?1", Attach("broker", b"")))
    assert Send("x", Attach("broker", shown)) in run(access, LinkUp("x", 1, visitor="?1"))
