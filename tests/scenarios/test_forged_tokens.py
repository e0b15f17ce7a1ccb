"""Tokens in raw frames: whatever is no good token of that name opens nothing; the reason is told, and audited."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_settings", reason="a broker service needs the extra 'net'")

from tests.scenarios.services import make_service
from tests.worlds.loopback import connect
from tests.worlds.sockets import BarePeer, play
from tidings.model.bounds import CREDENTIALS_BYTES_MAX
from tidings.net.addresses import address_text
from tidings.net.keys import new_key, signer, write_token
from tidings.protocols.access.messages import Attach, Attached, Rejected
from tidings.protocols.access.tokens import Claims, make_token
from tidings.wire.handshake import Goodbye, Heartbeat

LATER, LONG_AGO = 4e9, 1.0
MANY = 100


def token_of(
    folder: Path, name: str, authority: str = "office", roles: Any = ("client",), until: float = LATER
) -> bytes:
    private = folder / f"{authority}.key"
    if not private.exists():
        new_key(folder / authority)
    return make_token(Claims(name, roles, "", "", until, authority), signer(private))


@pytest.fixture
def office(tmp_path: Path) -> Path:
    write_token(tmp_path / "ann.token", token_of(tmp_path, "ann"))
    return tmp_path


FORGED: dict[str, Callable[[Path], bytes]] = {
    "expired": lambda office: token_of(office, "eve", until=LONG_AGO),
    "of the authority of another network": lambda office: token_of(office, "eve", authority="elsewhere"),
    "signed by another than it names": lambda office: make_token(
        Claims("eve", ("client",), "", "", LATER, "office"),
        signer(new_key(office / f"forger{len(list(office.iterdir()))}")[0]),
    ),
    "of somebody else": lambda office: token_of(office, "ann"),
    "for a broker": lambda office: token_of(office, "eve", roles=("broker",)),
    "cut off": lambda office: token_of(office, "eve")[:-1],
    "with something behind it": lambda office: token_of(office, "eve") + b"x",
    "with a bit turned": lambda office: (lambda good: good[:9] + bytes([good[9] ^ 1]) + good[10:])(
        token_of(office, "eve")
    ),
    "as large as it may be": lambda office: b"\xc4\xff" * (CREDENTIALS_BYTES_MAX // 2),
    "nothing": lambda office: b"",
    "deeply nested": lambda office: b"\x91" * 2000,
}


@pytest.mark.parametrize("kind", FORGED)
def test_a_token_that_is_none_opens_nothing_and_the_reason_is_told_and_audited(office: Path, kind: str) -> None:
    async def scenario() -> None:
        shown, audit = FORGED[kind](office), office / "audit.log"
        async with make_service("m", authorities=[str(office / "office.pub")], audit=audit) as service:
            url = f"tidings://{address_text(service.address)}"
            async with connect(url, name="ann", token=office / "ann.token") as ann:
                eve = await BarePeer.introduced(service.address, "eve")
                eve.say(Heartbeat())
                eve.say(Attach("client", shown))
                answer = await eve.hear(Attached, Rejected, Goodbye)
                assert isinstance(answer, Rejected | Goodbye) and answer.reason
                await eve.close()
                await ann.advertise("TRUE")
                await ann.publish({"n": 1}, receipt=True)
                assert set(service.node.access.entrants) == {"ann"}
        refusals = [line for line in audit.read_text().splitlines() if "peer=eve " in line]
        assert len(refusals) == 1 and "reason=" in refusals[0] and "let in" not in refusals[0]

    play(scenario())


def test_many_bad_tokens_keep_no_good_one_out(office: Path) -> None:
    async def scenario() -> None:
        bad = [make(office) for make in FORGED.values()]
        async with make_service("m", authorities=[str(office / "office.pub")]) as service:
            for number in range(MANY):
                eve = await BarePeer.introduced(service.address, f"eve{number}")
                eve.say(Heartbeat())
                eve.say(Attach("client", bad[number % len(bad)]))
                assert isinstance(await eve.hear(Attached, Rejected, Goodbye), Rejected | Goodbye)
                await eve.close()
            url = f"tidings://{address_text(service.address)}"
            async with connect(url, name="ann", token=office / "ann.token") as ann:
                await ann.advertise("TRUE")
            assert service.host.links.visitors <= MANY

    play(scenario())
