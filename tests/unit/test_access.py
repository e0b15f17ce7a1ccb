"""Access, input by input: who is let in, who is turned away, and which links come back."""

import hashlib
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.machine.effects import CancelTimer, Connect, Disconnect, Drop, Effect, Note, Send, SetTimer
from tidings.machine.inputs import Fired, Input, LinkDown, LinkUp, Received
from tidings.machine.node import Machine
from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.model.language.parser import parse
from tidings.protocols.access import access as at_the_door
from tidings.protocols.access import guest as outside
from tidings.protocols.access.access import Access
from tidings.protocols.access.guest import Guest
from tidings.protocols.access.judge import (
    CREDENTIALS_NEEDED,
    NOBODY_KNOWS_YOU,
    WRONG_NAME,
    WRONG_ROLE,
    Judge,
    NameJudge,
    Principal,
    Verdict,
    open_judge,
    read_principals,
    statement,
)
from tidings.protocols.access.messages import Attach, Attached, Challenge, Proof, Rejected
from tidings.protocols.access.params import AccessParams, GuestParams
from tidings.protocols.access.tokens import (
    BAD_BOUND,
    EXPIRED,
    NO_TOKEN,
    UNKNOWN_AUTHORITY,
    WRONG_SIGNATURE,
    Claims,
    TokenJudge,
    make_token,
)
from tidings.pubsub.signals import ClientDown, ClientUp, PeerDown, PeerUp, TurnedAway
from tidings.wire.handshake import Heartbeat


class Seals:
    """Signatures of a toy: whoever knows the key can make one, which is enough to test what is done with them."""

    def verify(self, public_key: bytes, signature: bytes, data: bytes) -> bool:
        return signature == seal(public_key)(data)


def seal(key: bytes) -> Callable[[bytes], bytes]:
    return lambda data: hashlib.sha512(key + data).digest()


OFFICE, ANNS = b"o" * 32, b"a" * 32
BOUND = parse("price > 1")


def token(**changes: Any) -> bytes:
    claims = {"publish": "", "subscribe": "", "expires_at": 100.0, "authority": "office", "holder_key": b""}
    fields = {"principal": "ann", "roles": ("client",), **claims, **changes}
    return make_token(Claims(**fields), seal(OFFICE))


def judge(principals: dict[str, Principal] | None = None, **changes: Any) -> TokenJudge:
    return TokenJudge(Seals(), {"office": OFFICE}, principals, **changes)


def broker(judge: Judge = open_judge, **params: Any) -> Access:
    access = Access("b", AccessParams(**params), judge, random_stream(1), Seals(), seal(b"b" * 32))
    access.start(0.0)
    return access


def run(machine: Machine, *inputs: Input, now: float = 1.0) -> list[Effect]:
    """The effects of the last of these inputs, without timers that are cancelled and notes."""
    effects: list[Effect] = []
    for input in inputs:
        effects = machine.handle(now, input)
        machine.check()
    return [effect for effect in effects if not isinstance(effect, CancelTimer | Note)]


def turned_away(node: str, reason: str) -> list[Effect]:
    return [Send(node, Rejected(reason)), Disconnect(node, reason)]


# Clients.


def test_a_client_is_let_in_and_told_its_bounds() -> None:
    access = broker(lambda peer, role, credentials, now: Verdict("ann", BOUND, None))
    assert run(access, LinkUp("c", 1)) == [SetTimer(("attach", "c"), 6.0)]
    assert run(access, Received("c", Attach("client", b""))) == [
        Send("c", Attached("ann", "price > 1", "")),
        ClientUp("c", "ann", BOUND, None),
    ]
    assert run(access, LinkDown("c", 1, "gone")) == [ClientDown("c", "gone")]
    assert run(access, LinkDown("c", 1, "gone")) == []


def test_who_is_not_let_in_hears_why_and_loses_the_link() -> None:
    access = broker(lambda peer, role, credentials, now: "no")
    assert run(access, LinkUp("c", 1), Received("c", Attach("client", b""))) == turned_away("c", "no")
    assert run(access, Received("c", Attach("client", b""))) == [Drop(Attach("client", b""), at_the_door.NO_LINK)]


def test_a_link_on_which_nobody_attaches_is_ended_and_a_client_whose_word_was_late_comes_again() -> None:
    access = broker()
    ended = run(access, LinkUp("c", 1), Fired(("attach", "c")))
    assert ended == [Disconnect("c", at_the_door.TOO_LATE)]


def test_a_client_that_attached_is_not_ended_by_a_late_timer() -> None:
    assert run(broker(), LinkUp("c", 1), Received("c", Attach("client", b"")), Fired(("attach", "c"))) == []


def test_a_new_link_of_the_same_client_ends_the_old_one_first() -> None:
    access = broker()
    run(access, LinkUp("c", 1), Received("c", Attach("client", b"")))
    assert run(access, LinkUp("c", 1)) == []
    down, timer = run(access, LinkUp("c", 2))
    assert (down, timer) == (ClientDown("c", at_the_door.REPLACED), SetTimer(("attach", "c"), 6.0))
    assert run(access, LinkDown("c", 1, "late news of the old link")) == []
    assert list(access.entrants) == ["c"]


def test_attaching_twice_and_answers_to_nothing_are_dropped() -> None:
    access = broker()
    attach = Attach("client", b"")
    run(access, LinkUp("c", 1), Received("c", attach))
    assert run(access, Received("c", attach)) == [Drop(attach, at_the_door.ATTACHED_ALREADY)]
    for message in (Attached("x", "", ""), Rejected("x"), Challenge(bytes(32)), Proof(bytes(64))):
        assert run(access, Received("c", message)) == [Drop(message, at_the_door.NOT_ASKED)]
    assert run(access, Received("c", Heartbeat())) == []


def test_bounds_turn_away_the_next_one_with_the_reason() -> None:
    access = broker(clients_max=1, peers_max=1, strangers_max=2)
    run(access, LinkUp("c", 1), Received("c", Attach("client", b"")))
    assert run(access, LinkUp("d", 1), Received("d", Attach("client", b""))) == turned_away(
        "d", at_the_door.TOO_MANY_CLIENTS
    )
    run(access, LinkUp("x", 1), Received("x", Attach("broker", b"")))
    assert run(access, LinkUp("y", 1), Received("y", Attach("broker", b""))) == turned_away(
        "y", at_the_door.TOO_MANY_PEERS
    )
    run(access, LinkUp("e", 1))
    # It was not judged, and a client that heard `Rejected` would never come again.
    assert run(access, LinkUp("f", 1)) == [Disconnect("f", at_the_door.TOO_MANY_STRANGERS)]


def test_credentials_that_expire_end_the_link_of_whoever_showed_them() -> None:
    access = broker(judge(), clock_offset=40.0)
    run(access, LinkUp("ann", 1))
    assert run(access, Received("ann", Attach("client", token())), now=1.0)[1] == SetTimer(("expiry", "ann"), 60.0)
    assert run(access, Fired(("expiry", "ann")), now=60.0) == [
        ClientDown("ann", at_the_door.CREDENTIALS_EXPIRED),
        *turned_away("ann", at_the_door.CREDENTIALS_EXPIRED),
    ]


# Brokers.


def test_a_configured_link_is_asked_for_and_attached() -> None:
    access = Access("a", AccessParams(links=("b", "c"), credentials=b"key"), open_judge, random_stream(1))
    assert access.start(0.0) == [Connect("b"), Connect("c")]
    assert run(access, LinkUp("b", 1)) == [SetTimer(("attach", "b"), 6.0), Send("b", Attach("broker", b"key"))]


def test_two_brokers_are_peers_when_each_has_accepted_the_other() -> None:
    calling = broker(links=("c",))
    assert run(calling, LinkUp("c", 1), Received("c", Attached("b", "", ""))) == []
    assert run(calling, Received("c", Attach("broker", b""))) == [Send("c", Attached("c", "", "")), PeerUp("c", 1)]
    called = broker()
    assert run(called, LinkUp("a", 1), Received("a", Attach("broker", b""))) == [
        Send("a", Attached("a", "", "")),
        Send("a", Attach("broker", b"")),
    ]
    assert run(called, Received("a", Attached("b", "", ""))) == [PeerUp("a", 1, is_configured=False)]
    assert run(called, LinkDown("a", 1, "gone")) == [PeerDown("a", 1, "gone")]


def test_a_lost_link_is_asked_for_again_after_waits_that_double_up_to_a_bound() -> None:
    access = broker(links=("c",), retry_first=0.1, retry_max=0.4)
    waits = []
    for _ in range(6):
        (timer,) = run(access, LinkDown("c", 1, "no answer"), now=0.0)
        assert timer.key == ("connect", "c")
        waits.append(timer.at)
        assert run(access, Fired(("connect", "c"))) == [Connect("c")]
    for wait, longest in zip(waits, [0.1, 0.2, 0.4, 0.4, 0.4, 0.4], strict=True):
        assert longest / 2 < wait <= longest


def test_a_link_that_came_to_something_begins_a_new_series_of_waits() -> None:
    access = broker(links=("c",), retry_first=0.1, retry_max=0.4)
    for _ in range(3):
        run(access, LinkDown("c", 1, "no answer"))
    run(access, LinkUp("c", 2), Received("c", Attached("b", "", "")), Received("c", Attach("broker", b"")))
    down, timer = run(access, LinkDown("c", 2, "gone"), now=0.0)
    assert down == PeerDown("c", 2, "gone")
    assert timer.at <= 0.1


def test_an_unconfigured_link_is_not_asked_for_again_and_a_working_one_not_twice() -> None:
    access = broker(links=("c",))
    run(access, LinkUp("d", 1), Received("d", Attach("broker", b"")))
    assert run(access, LinkDown("d", 1, "gone")) == []
    assert run(access, LinkUp("c", 1), Fired(("connect", "c"))) == []


def test_a_broker_that_rejects_us_is_left_and_tried_again_later() -> None:
    access = broker(links=("c",))
    (disconnect,) = run(access, LinkUp("c", 1), Received("c", Rejected("no")))
    assert disconnect == Disconnect("c", f"{at_the_door.WE_ARE_REJECTED}: no")
    (timer,) = run(access, LinkDown("c", 1, "disconnected"))
    assert timer.key == ("connect", "c")


def test_a_restart_with_its_state_takes_everybody_down_first() -> None:
    access = broker(links=("x",))
    run(access, LinkUp("c", 1), Received("c", Attach("client", b"")))
    run(access, LinkUp("x", 1), Received("x", Attach("broker", b"")), Received("x", Attached("b", "", "")))
    effects = [effect for effect in access.start(9.0) if not isinstance(effect, CancelTimer)]
    again = at_the_door.STARTED_AGAIN
    assert effects == [ClientDown("c", again), PeerDown("x", 1, again), Connect("x")]


# Proofs.


def test_a_token_that_names_a_key_is_good_only_with_a_signature_over_a_fresh_nonce() -> None:
    access = broker(judge())
    bound = token(holder_key=ANNS)
    (challenge,) = run(access, LinkUp("ann", 1), Received("ann", Attach("client", bound)))
    proof = Proof(seal(ANNS)(statement(challenge.message.nonce, "ann", "b")))
    attached, _, up = run(access, Received("ann", proof))
    assert (attached, up) == (Send("ann", Attached("ann", "", "")), ClientUp("ann", "ann", roles=("client",)))
    (again,) = run(access, LinkUp("ann", 2), Received("ann", Attach("client", bound)))
    assert again.message.nonce != challenge.message.nonce
    assert run(access, Received("ann", proof)) == turned_away("ann", at_the_door.WRONG_PROOF)


@pytest.mark.parametrize(
    ("key", "holder", "challenger"), [(OFFICE, "ann", "b"), (ANNS, "ann", "c"), (ANNS, "ben", "b")]
)
def test_a_proof_with_another_key_or_for_other_ends_is_refused(key: bytes, holder: str, challenger: str) -> None:
    access = broker(judge())
    (challenge,) = run(access, LinkUp("ann", 1), Received("ann", Attach("client", token(holder_key=ANNS))))
    proof = Proof(seal(key)(statement(challenge.message.nonce, holder, challenger)))
    assert run(access, Received("ann", proof)) == turned_away("ann", at_the_door.WRONG_PROOF)


def test_a_second_attach_does_not_replace_the_challenge() -> None:
    access = broker(judge())
    bound = Attach("client", token(holder_key=ANNS))
    run(access, LinkUp("ann", 1), Received("ann", bound))
    assert run(access, Received("ann", Attach("client", token()))) == [
        Drop(Attach("client", token()), at_the_door.ATTACHED_ALREADY)
    ]


def test_brokers_prove_their_keys_to_each_other_too() -> None:
    access = broker(links=("c",))
    answer = run(access, LinkUp("c", 1), Received("c", Challenge(b"n" * 32)))
    assert answer == [Send("c", Proof(seal(b"b" * 32)(statement(b"n" * 32, "b", "c"))))]


def test_a_broker_that_cannot_check_signatures_lets_no_holder_in() -> None:
    access = Access("b", AccessParams(), judge(), random_stream(1))
    run(access, LinkUp("ann", 1))
    assert run(access, Received("ann", Attach("client", token(holder_key=ANNS)))) == turned_away(
        "ann", at_the_door.NO_PROOF_POSSIBLE
    )


# Judges.


@pytest.mark.parametrize(
    ("credentials", "role", "peer", "now", "reason"),
    [
        (b"nonsense", "client", "ann", 0.0, NO_TOKEN),
        (b"\x92\xc4\x00\xc4\x00", "client", "ann", 0.0, NO_TOKEN),
        (bytes(5000), "client", "ann", 0.0, NO_TOKEN),
        (token()[:-1] + b"?", "client", "ann", 0.0, WRONG_SIGNATURE),
        (token(authority="other"), "client", "ann", 0.0, UNKNOWN_AUTHORITY),
        (token(), "client", "ann", 100.0, EXPIRED),
        (token(), "broker", "ann", 0.0, WRONG_ROLE),
        (token(), "client", "ben", 0.0, WRONG_NAME),
        (token(), "client", "annie", 0.0, WRONG_NAME),
        (token(roles=("broker",)), "broker", "ann+2", 0.0, WRONG_NAME),
        (b"", "client", "ann", 0.0, CREDENTIALS_NEEDED),
    ],
)
def test_a_token_is_refused_for_its_own_reason(
    credentials: bytes, role: Any, peer: str, now: float, reason: str
) -> None:
    assert judge()(peer, role, credentials, now) == reason


def test_a_good_token_gives_its_principal_and_bounds() -> None:
    good = token(publish="price > 1", subscribe="a = 1", holder_key=ANNS)
    for name in ("ann", "ann+desk"):
        assert judge()(name, "client", good, 99.9) == Verdict("ann", BOUND, parse("a = 1"), 100.0, ANNS, ("client",))


def test_a_listed_principal_has_the_bounds_of_list_and_token() -> None:
    listed = read_principals("[[principal]]\nname='ann'\npublish='price < 9'\n")
    verdict = judge(listed)("ann", "client", token(publish="price > 1"), 0.0)
    assert verdict == Verdict("ann", parse("price > 1 AND price < 9"), None, 100.0, roles=("client",))
    assert judge({})("ann", "client", token(), 0.0) == NOBODY_KNOWS_YOU
    assert judge(listed)("ann", "broker", token(roles=("broker",)), 0.0) == WRONG_ROLE


def test_rights_are_those_that_both_list_and_token_give() -> None:
    listed = read_principals("[[principal]]\nname='ann'\nroles=['client', 'broker']\n")
    both = token(roles=("client", "admin"))
    alone, narrowed = judge()("ann", "client", both, 0.0), judge(listed)("ann", "client", both, 0.0)
    assert isinstance(alone, Verdict)
    assert isinstance(narrowed, Verdict)
    assert (alone.roles, narrowed.roles) == (("client", "admin"), ("client",))


def test_a_bound_that_is_no_filter_is_refused_where_the_authority_let_it_pass() -> None:
    claims = Claims("ann", ("client",), "price >", "", 100.0, "office")
    with pytest.raises(UsageError):
        make_token(claims, seal(OFFICE))
    sealed = token(publish="price > 1").replace(b"price > 1", b"price > +")
    assert judge()("ann", "client", sealed, 0.0) == WRONG_SIGNATURE
    trusting = TokenJudge(Trusting(), {"office": OFFICE})
    assert trusting("ann", "client", sealed, 0.0) == BAD_BOUND


class Trusting:
    def verify(self, public_key: bytes, signature: bytes, data: bytes) -> bool:
        return True


def test_who_shows_nothing_may_be_judged_by_the_name_that_the_link_proved() -> None:
    listed = read_principals("[[principal]]\nname='ann'\n[[principal]]\nname='c'\nroles=['broker']\n")
    by_name = NameJudge(listed)
    combined = judge(listed, otherwise=by_name)
    for judging in (by_name, combined):
        assert judging("ann", "client", b"", 0.0) == Verdict("ann", roles=("client",), by_name=True)
        assert judging("ann+1", "client", b"", 0.0) == Verdict("ann", roles=("client",), by_name=True)
        assert judging("c", "broker", b"", 0.0) == Verdict("c", roles=("broker",), by_name=True)
        assert judging("c", "client", b"", 0.0) == WRONG_ROLE
        assert judging("c+1", "broker", b"", 0.0) == NOBODY_KNOWS_YOU


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[principal]\n", "principals:"),
        ("[[principals]]\nname='a'\n", "principals is not known"),
        ("principal = 7\n", "give \\[\\[principal\\]\\] entries"),
        ("[[principal]]\npublish='a = 1'\n", "give its name"),
        ("[[principal]]\nname='a'\n[[principal]]\nname='a'\n", "listed twice"),
        ("[[principal]]\nname='a'\nsubscribes='x = 1'\n", "'subscribes' is not known"),
        ("[[principal]]\nname='a'\nsubscribe='x ='\n", "subscribe is no filter"),
        ("[[principal]]\nname='a'\nsubscribe=7\n", "subscribe is no filter"),
        ("[[principal]]\nname='a'\nroles='client'\n", "roles is a list"),
        ("[[principal]]\nname='a'\nroles=['king']\n", "roles"),
        ("[[principal]]\nname='a+b'\n", "ends the name"),
        ("[[principal]]\nname=''\n", "'' is no name"),
    ],
)
def test_a_file_of_principals_that_is_wrong_is_refused_with_the_place(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read_principals(text)


names = st.sampled_from(["ann", "c", "x", "y"])
words = st.one_of(
    st.builds(Attach, st.sampled_from(["client", "broker"]), st.sampled_from([b"", token(), token(holder_key=ANNS)])),
    st.sampled_from([Attached("b", "", ""), Rejected("no"), Challenge(bytes(32)), Proof(bytes(64))]),
)
happenings = st.one_of(
    st.builds(LinkUp, names, st.integers(1, 3)),
    st.builds(LinkDown, names, st.integers(1, 3)),
    st.builds(Received, names, words),
    st.builds(Received, names, words),
    st.builds(Fired, st.tuples(st.sampled_from(["attach", "connect", "expiry"]), names)),
)


@given(st.lists(happenings, max_size=40), st.booleans())
def test_whatever_happens_up_and_down_come_in_turns_and_up_only_over_a_link(said: list[Input], is_open: bool) -> None:
    access = broker(open_judge if is_open else judge(), links=("x",), clients_max=2, peers_max=2, strangers_max=2)
    up: dict[str, type] = {}
    for input in said:
        for effect in access.handle(1.0, input):
            match effect:
                case ClientUp(node) | PeerUp(node):
                    assert node not in up
                    assert node in access.entrants
                    up[node] = type(effect)
                case ClientDown(node):
                    assert up.pop(node) is ClientUp
                case PeerDown(node):
                    assert up.pop(node) is PeerUp
        access.check()
        assert set(up) <= set(access.entrants)


# The client's end.


def visitor(sign: Any = None, **params: Any) -> Guest:
    guest = Guest("ann", GuestParams(**{"brokers": ("x", "y"), **params}), random_stream(1), sign)
    assert guest.start(0.0) == [Connect("x")]
    return guest


def test_a_guest_attaches_and_is_served() -> None:
    guest = visitor(credentials=b"key")
    assert run(guest, LinkUp("x", 1)) == [
        SetTimer("attach", 6.0),
        Send("x", Attach("client", b"key", when_drained="goes")),
    ]
    assert run(guest, Received("x", Attached("ann", "", ""))) == [PeerUp("x", 1)]
    assert run(guest, Fired("attach")) == []


def test_a_guest_that_loses_its_broker_tries_the_next_one() -> None:
    guest = visitor()
    run(guest, LinkUp("x", 1), Received("x", Attached("ann", "", "")))
    down, timer = run(guest, LinkDown("x", 1, "gone"))
    assert down == PeerDown("x", 1, "gone")
    assert timer.key == "connect"
    assert run(guest, Fired("connect")) == [Connect("y")]
    down, _ = run(guest, LinkDown("y", 0, "no answer"))
    assert down == PeerDown("y", 0, "no answer")
    assert run(guest, Fired("connect")) == [Connect("x")]


def test_a_broker_that_is_silent_is_left() -> None:
    down, timer, disconnect = run(visitor(), LinkUp("x", 1), Fired("attach"))
    assert down == PeerDown("x", 1, outside.NO_ANSWER)
    assert timer.key == "connect"
    assert disconnect == Disconnect("x", outside.NO_ANSWER)


def test_a_broker_that_turns_us_away_is_not_asked_again() -> None:
    guest = visitor()
    turned, down, timer, disconnect = run(guest, LinkUp("x", 1), Received("x", Rejected("no")))
    assert (turned, down) == (TurnedAway("x", "no"), PeerDown("x", 1, "no"))
    assert (timer.key, disconnect) == ("connect", Disconnect("x", "no"))
    assert run(guest, LinkDown("x", 1, "disconnected"), Fired("connect")) == [Connect("y")]
    turned, down, disconnect = run(guest, LinkUp("y", 1), Received("y", Rejected("no")))
    assert turned == TurnedAway("y", "no")
    assert run(guest, Fired("connect")) == []


def test_a_guest_signs_the_nonce_with_its_key_and_says_so_where_it_has_none() -> None:
    challenge = Received("x", Challenge(b"n" * 32))
    assert run(visitor(seal(ANNS)), LinkUp("x", 1), challenge) == [
        Send("x", Proof(seal(ANNS)(statement(b"n" * 32, "ann", "x"))))
    ]
    assert run(visitor(), LinkUp("x", 1), challenge)[0] == TurnedAway("x", outside.NO_KEY)


def test_words_of_others_or_before_the_link_are_dropped() -> None:
    guest = visitor()
    message = Attached("ann", "", "")
    assert run(guest, Received("x", message)) == [Drop(message, outside.NOT_ASKED)]
    assert run(guest, LinkUp("x", 1), Received("y", message)) == [Drop(message, outside.NOT_ASKED)]
    assert run(guest, LinkUp("y", 1)) == []


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"links": ("a", "a")}, "links"),
        ({"credentials": bytes(5000)}, "credentials"),
        ({"clients_max": 0}, "clients_max"),
        ({"strangers_max": 0}, "strangers_max"),
        ({"attach_timeout": 0.0}, "attach_timeout"),
        ({"retry_first": math.inf}, "retry_first"),
        ({"retry_first": 1.0, "retry_max": 0.5}, "retry_max"),
        ({"clock_offset": math.nan}, "clock_offset"),
    ],
)
def test_parameters_that_make_no_sense_are_refused_by_name(params: dict[str, Any], name: str) -> None:
    with pytest.raises(UsageError, match=f"^{name}:"):
        AccessParams(**params)


def test_a_guest_needs_a_broker_and_a_broker_has_no_link_to_itself() -> None:
    with pytest.raises(UsageError, match=r"^brokers:"):
        GuestParams(brokers=())
    with pytest.raises(UsageError, match=r"^links:"):
        Access("a", AccessParams(links=("a",)), open_judge, random_stream(1))
