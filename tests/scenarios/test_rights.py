"""Rights that change under a running broker: principals and revocations are read again, and everything is audited."""

import os
import shlex
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_settings", reason="a broker service needs the extra 'net'")

from tests.scenarios.processes import broker
from tests.scenarios.services import command, make_service
from tests.worlds.loopback import connect
from tests.worlds.sockets import play, until
from tidings import NotPermitted, Refused
from tidings.cli.output import OK
from tidings.net.addresses import address_text
from tidings.net.broker.service import BrokerService
from tidings.net.keys import new_key, signer, write_token
from tidings.protocols.access.tokens import Claims, make_token

LATER = 4e9
ANN = "[[principal]]\nname = 'ann'\n"
BEN = "[[principal]]\nname = 'ben'\n"


@pytest.fixture
def office(tmp_path: Path) -> Path:
    """Tokens of ann and ben; both are listed, and nothing is revoked."""
    private, _ = new_key(tmp_path / "office")
    for name in ("ann", "ben"):
        claims = Claims(name, ("client",), "", "", LATER, "office")
        write_token(tmp_path / f"{name}.token", make_token(claims, signer(private)))
    (tmp_path / "principals.toml").write_text(ANN + BEN)
    (tmp_path / "revoked.toml").write_text("")
    return tmp_path


def settings(office: Path) -> dict[str, Any]:
    files = {name: office / f"{name}.toml" for name in ("principals", "revoked")}
    return {"authorities": [str(office / "office.pub")], **files, "audit": office / "audit.log"}


def url(service: BrokerService) -> str:
    return f"tidings://{address_text(service.address)}"


def audited(office: Path, event: str) -> list[dict[str, str]]:
    """The lines of the audit on something, as tables."""
    lines = (office / "audit.log").read_text().splitlines()
    tables = [dict(word.partition("=")[::2] for word in shlex.split(line)) for line in lines]
    return [table for table in tables if table["event"] == event]


def gauge(service: BrokerService, name: str, **labels: str) -> float | None:
    found: float | None = service.registry.get_sample_value(f"tidings_{name}", {"node": service.config.name, **labels})
    return found


def test_who_is_taken_off_the_list_is_turned_away_and_others_do_not_notice(office: Path) -> None:
    async def scenario() -> None:
        async with make_service("b", **settings(office)) as service:
            anns = connect(url(service), token=str(office / "ann.token"), name="ann")
            bens = connect(url(service), token=str(office / "ben.token"), name="ben")
            async with anns as ann, bens:
                await ann.advertise("TRUE")
                before = service.node.access.entrants["ben"]
                (office / "principals.toml").write_text(BEN)
                await until(lambda: not any("ann" in each for each in service.node.access.entrants))
                with pytest.raises(NotPermitted, match="does not know that name"):
                    while True:
                        await ann.publish({"n": 1}, receipt=True)
                assert service.node.access.entrants["ben"] is before
                away = audited(office, "turned away")[0]
                assert (away["peer"], away["principal"], away["role"]) == ("ann", "ann", "client")
                assert away["address"].startswith("127.0.0.1:")
                assert "does not know that name" in away["reason"]

    play(scenario())


def test_who_has_narrower_rights_is_held_to_them_at_once(office: Path) -> None:
    async def scenario() -> None:
        async with make_service("b", **settings(office)) as service:
            anns = connect(url(service), token=str(office / "ann.token"), name="ann")
            bens = connect(url(service), token=str(office / "ben.token"), name="ben")
            async with anns as ann, bens as ben:
                subscription = await ben.subscribe("TRUE")
                await ann.advertise("TRUE")
                await ann.publish({"n": 1}, receipt=True)
                (office / "principals.toml").write_text(f'{ANN}publish = "n = 2"\n{BEN}subscribe = "n < 9"\n')
                await service.reload_rights()
                with pytest.raises(Refused, match="n = 2"):
                    await ann.publish({"n": 3}, receipt=True)
                await ann.advertise("n = 2")
                await ann.publish({"n": 2}, receipt=True)
                taken: list[object] = []
                while len(taken) < 2:
                    taken += [event.attributes["n"] for event in await subscription.take()]
                assert taken == [1, 2]
                changed = {line["peer"]: line for line in audited(office, "rights changed")}
                assert changed["ann"]["publish"] == "n = 2"
                assert changed["ben"]["subscribe"] == "n < 9"
                assert len(audited(office, "let in")) == 4

    play(scenario())


def test_a_revoked_token_is_refused_and_its_holder_turned_away(office: Path) -> None:
    async def scenario() -> None:
        async with make_service("b", **settings(office)) as service:
            token = str(office / "ann.token")
            async with connect(url(service), token=token, name="ann") as ann:
                await ann.advertise("TRUE")
                assert await command("token", "revoke", token, "--list", str(office / "revoked.toml")) == OK
                with pytest.raises(NotPermitted, match="revoked"):
                    while True:
                        await ann.publish({"n": 1}, receipt=True)
                with pytest.raises(NotPermitted, match="revoked"):
                    async with connect(url(service), token=token, name="ann+again"):
                        pass
                assert gauge(service, "tokens_revoked") == 1
                (line,) = audited(office, "token revoked")
                assert line["principal"] == "ann"
                assert (office / "ann.token").read_text().strip() not in (office / "audit.log").read_text()
                assert stat.S_IMODE((office / "audit.log").stat().st_mode) == 0o600

    play(scenario())


def test_a_file_with_a_mistake_changes_nothing_and_is_told_until_it_is_mended(office: Path) -> None:
    async def scenario() -> None:
        async with make_service("b", **settings(office)) as service:
            anns = connect(url(service), token=str(office / "ann.token"), name="ann")
            async with anns as ann:
                entrant = service.node.access.entrants["ann"]
                (office / "principals.toml").write_text(ANN + "pubish = 'n = 2'\n")
                await until(lambda: gauge(service, "rights_stale") == 1)
                assert gauge(service, "rights_reads", result="failed") == 1
                assert "pubish" in audited(office, "rights not read")[0]["reason"]
                await ann.subscribe("TRUE")
                assert service.node.access.entrants["ann"] is entrant
                os.replace(office / "revoked.toml", office / "elsewhere.toml")
                (office / "principals.toml").write_text(ANN)
                await until(lambda: gauge(service, "rights_reads", result="failed") == 2)
                os.replace(office / "elsewhere.toml", office / "revoked.toml")
                await until(lambda: gauge(service, "rights_stale") == 0)
                assert service.node.access.entrants["ann"] is entrant

    play(scenario())


def test_on_sighup_a_broker_reads_its_rights_again(office: Path) -> None:
    async def scenario() -> None:
        given = settings(office)
        files = {name: str(given[name]) for name in ("principals", "revoked")}
        async with broker("b", authority=given["authorities"][0], log="info", **files) as program:
            program.tell(signal.SIGHUP)
            line = await program.says("rights read")
            assert "log=audit" in line
            assert "principals=2" in line

    play(scenario())
