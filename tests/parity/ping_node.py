"""One node that pings another, as a program.

    python -m tests.parity.ping_node NAME ADDRESS PEER ADDRESS TRANSPORT SEED ROUNDS

It writes the round trips that it measured as a JSON list once there are ROUNDS of them, and goes on answering until its
input is closed.
"""

import asyncio
import json
import sys

from tests.worlds.both import Draws, host_of, round_trips
from tidings.machine.effects import Transport
from tidings.machine.node import Machine
from tidings.model.identity import NodeId
from tidings.protocols.teaching.ping import Ping, PingParams
from tidings.trace.writers import RingBuffer

PORT = 7400
PERIOD = 0.2


def make_ping(peer: NodeId, transport: Transport, draws: Draws) -> Machine:
    return Ping([peer], PingParams(period=PERIOD, misses=20, transport=transport), draws("ping"))


async def main(name: str, address: str, peer: str, peer_address: str, transport: str, seed: str, rounds: str) -> None:
    loop, closed = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin, closed.set)
    trace = RingBuffer(10_000)
    host = host_of(
        int(seed),
        name,
        lambda _, draws: make_ping(peer, Transport(transport), draws),
        listen=(address, PORT),
        peers={peer: (peer_address, PORT)},
        insecure=True,
        trace=trace,
    )
    async with host:
        while len(found := round_trips(trace.records())) < int(rounds):
            await asyncio.sleep(PERIOD)
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
        await closed.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
