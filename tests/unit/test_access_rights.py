"""Rights that change while their holders are in: who is turned away, who has to come back, and what is noted."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.unit.test_access import ANNS, BOUND, OFFICE, Seals, broker, run, seal, token
from tidings.machine.effects import Disconnect, Effect, Note, Send, SetTimer
from tidings.machine.inputs import Fired, LinkUp, Received
from tidings.model.errors import UsageError
from tidings.protocols.access.access import RIGHTS_CHANGED, Access, Rejudge
from tidings.protocols.access.judge import NOBODY_KNOWS_YOU, NameJudge, Principal, Role, Verdict, read_principals
from tidings.protocols.access.messages import Attach, Attached, Proof, Rejected
from tidings.protocols.access.rights import REJUDGED_AT_ONCE
from tidings.protocols.access.tokens import (
    REVOKED,
    Revocation,
    TokenJudge,
    read_revocations,
    revocations_text,
    token_id,
)
from tidings.pubsub.notes import RightsChanged, VisitorAdmitted, VisitorTurnedAway
from tidings.pubsub.signals import ClientDown, ClientUp


class Changing:
    """A judge that can be given another one."""

    def __init__(self, principals: dict[str, Principal]) -> None:
        self.principals = principals

    def __call__(self, peer: str, role: Role, credentials: bytes, now: float) -> Verdict | str:
        return NameJudge(self.principals)(peer, role, credentials, now)


def listed(*principals: Principal) -> dict[str, Principal]:
    return {each.name: each for each in principals}


def let_in(access: Access, node: str, role: Role = "client", credentials: bytes = b"") -> None:
    run(access, LinkUp(node, 1), Received(node, Attach(role, credentials)))


def judged_again(access: Access, now: float = 2.0) -> list[Effect]:
    """All effects until everybody was judged."""
    effects: list[Effect] = []
    pending = access.handle(now, Rejudge())
    while pending:
        access.check()
        effects += [each for each in pending if not isinstance(each, SetTimer)]
        again = [each for each in pending if isinstance(each, SetTimer)]
        pending = access.handle(now, Fired(again[0].key)) if again else []
    return effects


def kinds(effects: Iterable[Effect], *kinds: type) -> list[Effect]:
    return [each for each in effects if isinstance(each, kinds)]


def test_a_client_that_is_not_allowed_any_more_is_turned_away_with_the_reason() -> None:
    judge = Changing(listed(Principal("ann"), Principal("ben")))
    access = broker(judge)
    let_in(access, "ann+desk")
    let_in(access, "ben")
    judge.principals = listed(Principal("ben"))
    effects = judged_again(access)
    assert kinds(effects, ClientDown, Send, Disconnect, Note) == [
        ClientDown("ann+desk", NOBODY_KNOWS_YOU),
        VisitorTurnedAway("ann+desk", NOBODY_KNOWS_YOU, "ann", "client"),
        Send("ann+desk", Rejected(NOBODY_KNOWS_YOU)),
        Disconnect("ann+desk", NOBODY_KNOWS_YOU),
    ]
    assert list(access.entrants) == ["ben"]


def test_a_client_whose_bounds_changed_comes_back_and_gets_the_new_ones() -> None:
    judge = Changing(listed(Principal("ann"), Principal("ben")))
    access = broker(judge)
    let_in(access, "ann")
    let_in(access, "ben")
    judge.principals = listed(Principal("ann", publish_bound=BOUND), Principal("ben"))
    effects = judged_again(access)
    assert kinds(effects, ClientDown, Send, Disconnect, Note) == [
        ClientDown("ann", RIGHTS_CHANGED),
        RightsChanged("ann", "ann", "client", "price > 1", ""),
        Disconnect("ann", RIGHTS_CHANGED),
    ]
    assert run(access, LinkUp("ann", 2), Received("ann", Attach("client", b""))) == [
        Send("ann", Attached("ann", "price > 1", "")),
        ClientUp("ann", "ann", BOUND, None, ("client",)),
    ]


def test_who_keeps_its_rights_does_not_notice() -> None:
    access = broker(Changing(listed(Principal("ann", publish_bound=BOUND))))
    let_in(access, "ann")
    assert judged_again(access) == []


def test_a_broker_that_is_not_allowed_any_more_loses_its_link() -> None:
    judge = Changing(listed(Principal("c", ("broker",))))
    access = broker(judge)
    let_in(access, "c", "broker")
    run(access, Received("c", Attached("b", "", "")))
    judge.principals = {}
    assert VisitorTurnedAway("c", NOBODY_KNOWS_YOU, "c", "broker") in judged_again(access)
    assert access.entrants == {}


def test_who_is_about_to_prove_its_key_is_judged_again_too() -> None:
    made = token(holder_key=ANNS)
    revoked: dict[str, Revocation] = {}
    access = broker(TokenJudge(Seals(), {"office": OFFICE}, revoked=revoked))
    let_in(access, "ann", "client", made)
    assert access.entrants["ann"].challenged is not None
    revoked[token_id(made)] = Revocation(token_id(made), "ann", 100.0)
    assert VisitorTurnedAway("ann", REVOKED, "ann", "client") in judged_again(access)
    assert run(access, Received("ann", Proof(seal(ANNS)(b"")))) != []
    assert access.entrants == {}


def test_many_are_judged_again_in_turns() -> None:
    names = [f"c{number}" for number in range(3 * REJUDGED_AT_ONCE)]
    judge = Changing(listed(*map(Principal, names)))
    access = broker(judge)
    for name in names:
        let_in(access, name)
    judge.principals = {}
    first = access.handle(2.0, Rejudge())
    assert len(kinds(first, Disconnect)) == REJUDGED_AT_ONCE
    assert kinds(first, SetTimer) == [SetTimer("rejudge", 2.001)]
    assert len(kinds(judged_again(access), Disconnect)) == 2 * REJUDGED_AT_ONCE
    assert access.entrants == {}


def test_a_second_change_in_the_middle_begins_anew() -> None:
    names = [f"c{number}" for number in range(2 * REJUDGED_AT_ONCE)]
    judge = Changing(listed(*map(Principal, names)))
    access = broker(judge)
    for name in names:
        let_in(access, name)
    assert kinds(access.handle(2.0, Rejudge()), Disconnect) == []
    judge.principals = {}
    assert len(kinds(judged_again(access), Disconnect)) == 2 * REJUDGED_AT_ONCE


def test_every_attachment_is_noted_with_its_principal() -> None:
    access = broker(Changing(listed(Principal("ann"))))
    effects = access.handle(1.0, LinkUp("ann+desk", 1))
    effects = access.handle(1.0, Received("ann+desk", Attach("client", b"")))
    assert kinds(effects, Note) == [VisitorAdmitted("ann+desk", "ann", "client")]


# Tokens that are called back.


def test_a_revoked_token_is_refused_and_another_of_the_same_principal_is_not() -> None:
    one, other = token(), token(expires_at=101.0)
    judge = TokenJudge(Seals(), {"office": OFFICE}, revoked={token_id(one): Revocation(token_id(one), "ann", 100.0)})
    assert judge("ann", "client", one, 1.0) == REVOKED
    assert isinstance(judge("ann", "client", other, 1.0), Verdict)


def test_a_list_of_revocations_is_read_as_it_was_written() -> None:
    one, other = Revocation("0" * 32, 'a"\n[[x]]\x7f\\\U0001f600', 5.0), Revocation("1" * 32, "ben", 7.5)
    text = revocations_text([one, other])
    assert read_revocations(text) == {one.id: one, other.id: other}
    assert read_revocations("") == {}


@pytest.mark.parametrize(
    "text",
    [
        "[[revoked]]\nid = 'x'\nprincipal = 'ann'\nexpires_at = 1",
        f"[[revoked]]\nid = '{'0' * 32}'\nprincipal = 'ann'",
        f"[[revoked]]\nid = '{'0' * 32}'\nprincipal = 'ann'\nexpires_at = 1\nuntil = 3",
        "[[revoke]]\nid = 'x'",
        "revoked = 3",
        "no toml",
    ],
)
def test_a_list_with_a_mistake_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="revoked"):
        read_revocations(text)


def test_a_mistake_in_an_entry_never_raises_anything_else() -> None:
    entries: list[Any] = ["principal = 3", "[[principal]]\nname = 3", "[[principal]]\nname = 'a'\nroles = [[]]"]
    for text in entries:
        with pytest.raises(UsageError):
            read_principals(text)
