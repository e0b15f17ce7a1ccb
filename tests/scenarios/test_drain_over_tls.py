"""Clients that are sent away over TLS: who answers has to prove the name that was told before anything is said."""

from pathlib import Path

import pytest

pytest.importorskip("pydantic_settings", reason="a broker service needs the extra 'net'")

from tests.scenarios.services import make_service
from tests.scenarios.test_server_names import files_of, office, url
from tests.worlds.loopback import connect
from tests.worlds.sockets import play, until
from tidings.machine.effects import Send
from tidings.machine.message import Contact
from tidings.net.addresses import address_text
from tidings.net.tls import Tls
from tidings.protocols.access.drain import Drain
from tidings.protocols.access.messages import MoveAway

assert office, "the fixture"


def test_a_client_with_a_bearer_token_goes_to_a_broker_that_proves_its_name(office: Path) -> None:
    shared = {"authorities": [str(office / "office.pub")], "principals": str(office / "principals.toml")}

    async def scenario() -> None:
        async with (
            make_service("m", **files_of(office, "m"), **shared) as m,
            make_service("z", m, **files_of(office, "z"), **shared) as z,
            connect(url(m), token=str(office / "ann.token"), tls=Tls.trusting(office / "authority.pem")) as ann,
        ):
            await until(lambda: m.node.draining.ways_out() and not z.why_not_ready())
            subscription = await ann.subscribe("n > 0")
            await ann.publish({"n": 1}, receipt=True)
            m.host.inject(Drain())
            await until(lambda: ann.broker == "z" and not m.node.edge.clients)
            await ann.publish({"n": 2}, receipt=True)
            assert [(await anext(subscription)).attributes["n"] for _ in range(2)] == [1, 2]

    play(scenario())


@pytest.mark.parametrize("thief", ["mallory", "elsewhere"])
def test_a_broker_that_lies_about_where_another_one_is_leads_nobody_to_say_anything_there(
    office: Path, thief: str
) -> None:
    """Somebody who has a certificate of the same authority, though not that of the broker that is named."""
    shared = {"authorities": [str(office / "office.pub")]}

    async def scenario() -> None:
        async with (
            make_service("m", **files_of(office, "m"), **shared) as m,
            make_service("z", **files_of(office, thief), **shared) as impostor,
            connect(url(m), token=str(office / "ann.token"), tls=Tls.trusting(office / "authority.pem")) as ann,
        ):
            lie = MoveAway("go there", (Contact("z", address_text(impostor.address)),))
            guest, named = ann.machine.guest, list[Contact]()
            policy = guest.why_not_there

            def note(broker: str, contact: Contact) -> str:
                named.append(contact)
                return policy(broker, contact)

            guest.why_not_there = note
            m.host.send(Send(ann.name, lie))
            await until(lambda: named and guest.moving is None)
            await ann.publish({"n": 1}, receipt=True)
            assert ann.broker == "m"
            assert impostor.host.counts.stream_messages_received == 0

    play(scenario())
