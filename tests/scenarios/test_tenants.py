"""Two tenants on real sockets, with the same names of clients, the same groups and the same filters, at the same
brokers: each finds the network as its own, and is held to its bounds."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import SystemRandom
from typing import Any

import pytest

pytest.importorskip("pydantic_settings", reason="a broker service needs the extra 'net'")

from tests.scenarios.services import command, make_service
from tests.worlds.loopback import connect
from tests.worlds.sockets import QUIET, play, until
from tidings import NotPermitted, Refused
from tidings.cli.output import NO, OK
from tidings.model.errors import UsageError
from tidings.model.identity import at, in_tenant, name_of
from tidings.model.values import Value
from tidings.net.addresses import address_text
from tidings.net.broker.config import load_config
from tidings.net.broker.service import BrokerService
from tidings.net.certificates import new_authority, new_certificate
from tidings.net.client.client import Client
from tidings.net.host import Host
from tidings.net.inspector import Inspector, InspectorAccess
from tidings.net.keys import new_key, read_token_file, signer, token_of_text, write_token
from tidings.net.tls import Tls
from tidings.nodes.client import ClientNode
from tidings.protocols.access.params import GuestParams
from tidings.protocols.access.tokens import Claims, make_token
from tidings.protocols.delivery.session.params import SessionParams

LATER = 4e9
TENANTS = ("acme", "zeta")


@pytest.fixture
def office(tmp_path: Path) -> Path:
    """An authority for everybody and one of acme alone, and tokens of ann and ben in either tenant."""
    office, _ = new_key(tmp_path / "office")
    new_key(tmp_path / "acme-office")
    for tenant in TENANTS:
        for name in ("ann", "ben"):
            write_token(tmp_path / f"{tenant}-{name}.token", token(office, in_tenant(tenant, name)))
    write_token(tmp_path / "acme-root.token", token(office, "acme!root", ("client", "admin")))
    write_token(tmp_path / "root.token", token(office, "root", ("client", "admin")))
    write_token(tmp_path / "b1.token", token(office, "b1", ("broker",)))
    write_token(tmp_path / "b2.token", token(office, "b2", ("broker",)))
    return tmp_path


def token(key: Path, principal: str, roles: tuple[Any, ...] = ("client",)) -> bytes:
    return make_token(Claims(principal, roles, "", "", LATER, key.stem), signer(key))


def settings(office: Path, name: str, **tenants: dict[str, Any]) -> dict[str, Any]:
    authorities = [str(office / "office.pub"), str(office / "acme-office.pub")]
    tables = {"acme": {}, "zeta": {}, **tenants}
    return {"authorities": authorities, "token": office / f"{name}.token", "tenants": tables}


@asynccontextmanager
async def two_brokers(office: Path, **tenants: dict[str, Any]) -> AsyncIterator[list[BrokerService]]:
    async with (
        make_service("b1", **settings(office, "b1", **tenants)) as first,
        make_service("b2", first, **settings(office, "b2", **tenants)) as second,
    ):
        yield [first, second]


def called(office: Path, service: BrokerService, tenant: str, name: str) -> Any:
    """A client of this name, as its application connects it."""
    token = str(office / f"{tenant}-{name}.token")
    return connect(f"tidings://{address_text(service.address)}", token=token, name=name)


def content(event: Any) -> dict[str, Value]:
    return {name: event.attributes[name] for name in ("x", "of")}


async def taken(subscription: Any, count: int) -> list[dict[str, Value]]:
    found: list[dict[str, Value]] = []
    while len(found) < count:
        found += map(content, await subscription.take())
    return found


def test_two_tenants_with_the_same_names_groups_and_filters_see_nothing_of_each_other(office: Path) -> None:
    async def of_tenant(tenant: str, ann: Client, ben: Client) -> None:
        publisher = in_tenant(tenant, "ann")
        everything: list[dict[str, Value]] = [{"x": x, "of": tenant} for x in range(3)]
        subscription = await ben.subscribe("x >= 0", since=0.0, group="crew")
        assert subscription.filter == "x >= 0"
        await ann.advertise("TRUE")
        for event in everything:
            await ann.publish(event, receipt=True)
        assert await taken(subscription, 3) == everything
        (mark,) = (await ben.marks("TRUE")).marks
        assert name_of(mark.publisher) == publisher
        pages = ben.history("TRUE", mark.publisher, after=mark.forgotten, through=mark.through)
        assert [content(event) async for page in pages for event in page.events()] == everything

    async def scenario() -> None:
        async with two_brokers(office) as (first, second):
            anns = [called(office, first, tenant, "ann") for tenant in TENANTS]
            bens = [called(office, second, tenant, "ben") for tenant in TENANTS]
            async with anns[0] as acme_ann, anns[1] as zeta_ann, bens[0] as acme_ben, bens[1] as zeta_ben:
                await of_tenant("acme", acme_ann, acme_ben)
                await of_tenant("zeta", zeta_ann, zeta_ben)
                with pytest.raises(NotPermitted, match="no publisher of your tenant"):
                    async for _ in acme_ben.history("TRUE", "zeta!ann", after=0, through=1):
                        pass

    play(scenario())


def test_replies_stay_in_a_tenant(office: Path) -> None:
    async def scenario() -> None:
        async with two_brokers(office) as (first, second):
            anns, bens = called(office, first, "acme", "ann"), called(office, second, "acme", "ben")
            async with anns as ann, bens as ben, called(office, second, "zeta", "ben") as other:
                subscription = await ben.subscribe("x >= 0")
                asking = asyncio.create_task(ann.request({"x": 1}))
                event = await anext(subscription)
                with pytest.raises(NotPermitted, match="no publisher of your tenant"):
                    await other.reply(event, b"from outside")
                await ben.reply(event, b"from inside")
                assert (await asking).payload == b"from inside"

    play(scenario())


def test_a_transport_works_in_a_tenant_as_anywhere(office: Path) -> None:
    async def scenario() -> None:
        async with two_brokers(office) as (first, second):
            tokens = {name: str(office / f"acme-{name}.token") for name in ("ann", "ben")}
            carried: dict[str, Any] = {"ordered": True, "reliable": True}
            anns = connect(f"tidings://{address_text(first.address)}", token=tokens["ann"], name="ann", **carried)
            bens = connect(f"tidings://{address_text(second.address)}", token=tokens["ben"], name="ben", **carried)
            async with anns as ann, bens as ben, called(office, second, "zeta", "ben") as other:
                subscription, foreign = await ben.subscribe("x >= 0"), await other.subscribe("TRUE")
                await ann.advertise("TRUE")
                everything: list[dict[str, Value]] = [{"x": x, "of": "acme"} for x in range(5)]
                for event in everything:
                    await ann.publish(event, receipt=True)
                assert await taken(subscription, 5) == everything
                assert foreign.take_now() == []

    play(scenario())


def test_a_certificate_names_the_tenant_too(tmp_path: Path) -> None:
    new_authority(tmp_path, "tidings", 3600.0)
    new_certificate(tmp_path, "b1", "broker", ["localhost", "127.0.0.1"], 3600.0)
    for name in ("acme!ann", "zeta!ann", "ann"):
        new_certificate(tmp_path, name, "client", [], 3600.0)
    entries = [f"[[principal]]\nname = 'ann'\ntenant = '{tenant}'\n" for tenant in TENANTS]
    (tmp_path / "principals.toml").write_text("".join(entries))
    files = {f"tls_{what}": tmp_path / file for what, file in (("certificate", "b1.pem"), ("key", "b1.key"))}
    files |= {"tls_authority": tmp_path / "authority.pem", "principals": tmp_path / "principals.toml"}

    def tls(name: str) -> Tls:
        return Tls.from_files(tmp_path / f"{name}.pem", tmp_path / f"{name}.key", tmp_path / "authority.pem")

    async def scenario() -> None:
        async with make_service("b1", **files, tenants={"acme": {}, "zeta": {}}) as service:
            url = f"tidingss://localhost:{service.address[1]}"
            acme, zeta = [connect(url, name=name, tls=tls(name)) for name in ("acme!ann", "zeta!ann")]
            async with acme as ann, zeta as other:
                subscription, foreign = await ann.subscribe("TRUE"), await other.subscribe("TRUE")
                await ann.advertise("TRUE")
                await ann.publish({"x": 1, "of": "acme"}, receipt=True)
                assert await taken(subscription, 1) == [{"x": 1, "of": "acme"}]
                assert foreign.take_now() == []
            with pytest.raises(NotPermitted, match="does not know that name"):
                await connect(url, name="ann", tls=tls("ann"))

    play(scenario())


def test_who_says_a_name_alone_is_called_by_that_of_its_tenant(office: Path) -> None:
    """As clients do that know nothing of tenants: the names of two are the same on the wire."""

    async def scenario() -> None:
        async with make_service("b1", **settings(office, "b1")) as service, AsyncExitStack() as stack:
            guests = []
            for tenant in TENANTS:
                credentials = read_token_file(office / f"{tenant}-ann.token")
                peer = at(*service.address)
                params = GuestParams(brokers=(peer,), credentials=credentials)
                node = ClientNode("ann", params, SessionParams(), SystemRandom())
                host = Host("ann", node, listen=None, peers={peer: service.address}, log=QUIET)
                guests.append(await stack.enter_async_context(host))
            await until(lambda: sorted(service.node.edge.clients) == ["acme!ann", "zeta!ann"])
            assert all(guest.is_running for guest in guests)

    play(scenario())


def test_nobody_writes_the_tenant_or_asks_for_it(office: Path) -> None:
    async def scenario() -> None:
        async with (
            make_service("b1", **settings(office, "b1")) as service,
            called(office, service, "acme", "ann") as ann,
        ):
            with pytest.raises(Refused, match="leave it out"):
                await ann.subscribe("tidings.tenant = 'zeta'")
            await ann.advertise("TRUE")
            with pytest.raises(UsageError, match="leave it out"):
                await ann.publish({"tidings.tenant": "zeta"})

    play(scenario())


def test_an_authority_of_a_tenant_signs_for_that_tenant_alone(office: Path) -> None:
    key = office / "acme-office.key"
    for name, principal in (("own", "acme!ann"), ("other", "zeta!ann"), ("nobody", "ann"), ("broker", "b9")):
        write_token(office / f"{name}.token", token(key, principal, ("broker",) if name == "broker" else ("client",)))

    async def scenario() -> None:
        tables = settings(office, "b1", acme={"authorities": ["acme-office"]})
        async with make_service("b1", **tables) as service:
            url = f"tidings://{address_text(service.address)}"
            async with connect(url, token=str(office / "own.token")) as ann:
                await ann.subscribe("TRUE")
            for name in ("other", "nobody"):
                with pytest.raises(NotPermitted, match="does not sign for that tenant"):
                    await connect(url, token=str(office / f"{name}.token"))
            broker = (office / "broker.token").read_bytes()
            judged = service.node.access.judge("b9", "broker", token_of_text(broker.decode()), 0.0)
            assert "does not sign for that tenant" in str(judged)

    play(scenario())


def test_an_admin_of_a_tenant_sees_that_tenant_alone(office: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def asked(service: BrokerService, admin: str, *words: str) -> tuple[int, Any]:
        access = ["--broker", address_text(service.address), "--token", str(office / f"{admin}.token"), "--json"]
        capsys.readouterr()
        return await command(*words, *access), json.loads(capsys.readouterr().out)

    async def scenario() -> None:
        bound = {"subscriptions_max": 7}
        async with two_brokers(office, acme=bound) as (first, second):
            anns = [called(office, first, tenant, "ann") for tenant in TENANTS]
            bens = [called(office, second, tenant, "ben") for tenant in TENANTS]
            async with anns[0] as acme_ann, anns[1] as zeta_ann, bens[0] as acme_ben, bens[1] as zeta_ben:
                for ann, ben in ((acme_ann, acme_ben), (zeta_ann, zeta_ben)):
                    await ben.subscribe("x >= 0")
                    await ann.advertise("x >= -1")
                    await ann.publish({"x": 1}, receipt=True)
                for admin in ("root", "acme-root"):
                    for event in ('{"x": 1}', await last_of(acme_ann)):
                        code, ways = await asked(first, admin, "why", event, "acme!ben")
                        assert (code, [way["arrives"] for way in ways]) == (OK, [True]), (admin, event, ways)
                    code, _ = await asked(first, admin, "why", '{"x": -1}', "acme!ben")
                    assert code == NO
                    code, found = await asked(first, admin, "doctor", "--settle", "0")
                    assert (code, found["findings"]) == (OK, []), admin
                code, _ = await asked(first, "acme-root", "why", '{"x": 1}', "zeta!ben")
                assert code == NO, "nobody of that name is to be seen"
                _, seen = await asked(first, "acme-root", "top", "--once")
                assert {each["tenant"] for each in seen["tenants"]} == {"acme"}
                assert "zeta" not in json.dumps(seen)
                here = {each["broker"]: each for each in seen["tenants"]}
                assert (here["b2"]["subscriptions"], here["b2"]["bounds"]) == (1, {"subscriptions": 7})
                _, seen = await asked(first, "root", "top", "--once")
                assert {"acme", "zeta"} <= {each["tenant"] for each in seen["tenants"]}
                access = InspectorAccess(token=token_of_text((office / "acme-root.token").read_text()))
                async with Inspector(address_text(first.address), access) as inspector:
                    for table in first.node.inspection.views:
                        rows = await inspector.table(table, dict)  # type: ignore[type-var]
                        assert "zeta" not in str(rows), table
                        assert "tidings.tenant" not in str(rows), table

    play(scenario())


async def last_of(publisher: Client) -> str:
    """The last event of a publisher, as `why` is asked for it."""
    (mark,) = (await publisher.marks("TRUE")).marks
    return f"{mark.publisher}/{mark.through}"


def test_a_tenant_is_held_to_its_bounds_and_that_is_audited_and_counted(office: Path) -> None:
    bounds = {"connections_max": 2, "subscriptions_max": 1, "events_per_second_max": 0.001, "stored_bytes_max": 2000}
    audit = office / "audit.log"

    async def scenario() -> None:
        async with make_service("b1", **settings(office, "b1", acme=bounds), audit=audit) as service:
            anns = [called(office, service, tenant, "ann") for tenant in TENANTS]
            async with anns[0] as acme_ann, anns[1] as zeta_ann, called(office, service, "acme", "ben"):
                with pytest.raises(NotPermitted, match="acme has its 2 connections"):
                    await called(office, service, "acme", "root")
                await acme_ann.subscribe("TRUE")
                with pytest.raises(Refused, match="acme has its 1 subscriptions"):
                    await acme_ann.subscribe("x = 1")
                for ann in (acme_ann, zeta_ann):
                    await ann.advertise("TRUE")
                await acme_ann.publish({"x": 1}, receipt=True)
                with pytest.raises(Refused, match="events a second and would publish more"):
                    await acme_ann.publish({"x": 2}, receipt=True)
                for x in range(20):
                    await zeta_ann.publish({"x": x}, b"p" * 1000, receipt=True)
                assert gauge(service, "tenant_use", "zeta", "events") == 20
                assert gauge(service, "tenant_use", "zeta", "stored_bytes") > 20_000
                assert gauge(service, "tenant_use", "acme", "connections") == 2
                assert gauge(service, "tenant_use", "acme", "subscriptions") == 1
                assert gauge(service, "tenant_use", "acme", "stored_bytes") <= 2000
                for quota in ("connections", "subscriptions", "events_per_second"):
                    assert gauge(service, "tenant_bound", "acme", quota) == bounds[f"{quota}_max"]
                    assert gauge(service, "tenant_refusals", "acme", quota) == 1

    play(scenario())
    refused = [line for line in audit.read_text().splitlines() if "event=refused" in line]
    assert [kind for kind in ("subscribe", "publish") if any(f"kind={kind}" in line for line in refused)] == [
        "subscribe",
        "publish",
    ]
    assert all("principal=acme!ann" in line for line in refused)


def gauge(service: BrokerService, name: str, tenant: str, quota: str) -> float:
    labels = {"node": service.config.name, "tenant": tenant, "quota": quota}
    found = service.registry.get_sample_value(f"tidings_{name}", labels)
    assert found is not None, (name, labels)
    return float(found)


def test_tenants_are_read_again_with_the_principals(office: Path) -> None:
    file = office / "broker.toml"
    file.write_text("[tenants.acme]\n[tenants.zeta]\n")
    flags = {key: value for key, value in settings(office, "b1").items() if key != "tenants"}
    more = {"name": "b1", "listen": "127.0.0.1:0", "routing": {"engine": "plain"}}

    async def scenario() -> None:
        config = load_config(file, {**flags, **more})
        async with BrokerService(config, log=QUIET) as service:
            async with called(office, service, "acme", "ann"), called(office, service, "zeta", "ann"):
                assert sorted(service.node.access.entrants) == ["acme!ann", "zeta!ann"]
                file.write_text("[tenants.acme]\n")
                await service.reload_rights()
                await until(lambda: list(service.node.access.entrants) == ["acme!ann"])
            with pytest.raises(NotPermitted, match="no such tenant"):
                await called(office, service, "zeta", "ann")

    play(scenario())


def test_tenants_need_somebody_who_asks_for_names(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="anybody may take any name"):
        load_config(None, {"tenants": {"acme": {}}})


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"acme": {"connections": 1}}, "connections"),
        ({"acme": {"connections_max": 0}}, "more than 0"),
        ({"a b": {}}, "use ASCII"),
    ],
)
def test_a_tenant_that_cannot_be_is_refused(office: Path, table: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        load_config(None, {**settings(office, "b1"), "tenants": table})
