"""One address cannot take all connections of a node."""

from tests.worlds.sockets import BarePeer, patient, play, puppet_host, until


def test_more_connections_from_one_address_than_the_bound_are_turned_away() -> None:
    few = patient(address_connections_max=2)

    async def scenario() -> None:
        async with puppet_host("a", params=few) as a:
            peers = [await BarePeer.introduced(a.address, name) for name in ("b", "c")]
            for peer in peers:
                await peer.accepted()
            late = await BarePeer.call(a.address)
            assert "too many connections from your address" in await late.goodbye()
            await peers[0].close()
            await until(lambda: len(a.links.open) == 1)
            again = await BarePeer.introduced(a.address, "d")
            await again.accepted()
            await again.close()
            await peers[1].close()
            await until(lambda: not a.links.open)
            assert not a.links.door.callers

    play(scenario())
