"""What a probe finds on sockets: whatever listens, also if it answers nothing."""

import socket
from random import Random

from tests.worlds.sockets import play, until
from tidings.machine.effects import Effect, ProbeNode
from tidings.machine.inputs import Input, NodeProbed
from tidings.net.host import Host


class Asker:
    """Probes whom it is made with, and keeps what it hears."""

    def __init__(self, **addresses: str) -> None:
        self.addresses = addresses
        self.heard: dict[str, bool] = {}

    def start(self, now: float) -> list[Effect]:
        return [ProbeNode(node, 30.0, address) for node, address in self.addresses.items()]

    def handle(self, now: float, input: Input) -> list[Effect]:
        if isinstance(input, NodeProbed):
            self.heard[input.node] = input.is_there
        return []

    def check(self) -> None:
        pass


async def probe_all() -> dict[str, bool]:
    with socket.create_server(("127.0.0.1", 0)) as standing_still:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            dead = closed.getsockname()[:2]
        here, nowhere = (f"{host}:{port}" for host, port in (standing_still.getsockname()[:2], dead))
        machine = Asker(still=nowhere, dead="", unknown="", named=here, misnamed=nowhere, nonsense="no address")
        peers = {"still": standing_still.getsockname()[:2], "dead": dead}
        async with Host("a", machine, peers=peers, rng=Random(1)):
            await until(lambda: len(machine.heard) == 6)
    return machine.heard


def test_a_process_that_stands_still_is_found_and_a_dead_one_is_not() -> None:
    """Of one whose address nobody knows nothing is said against it; a configuration goes before a probe."""
    found = {"still": True, "dead": False, "unknown": True, "named": True, "misnamed": False, "nonsense": True}
    assert play(probe_all()) == found
