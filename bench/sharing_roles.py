"""The four ends of `python -m bench.sharing`, each a process of its own inside a network namespace.

publisher   publishes events as fast as the demand says, over UDP, through a transport
subscriber  subscribes to all of them; says every second how many bytes of them came
sender      a TCP connection that always has more to send
receiver    its other end; says every second how many bytes came

All say what came as lines `TIME BYTES`, of the clock that all processes of a machine share. They end when their input
is closed.
"""

import asyncio
import socket
import sys
import threading
import time

from bench.datagrams import DatagramCarrier
from bench.namespaces import LEFT, RIGHT
from tidings.matching.bloom import BloomProfile
from tidings.net.carriers.client import CarrierClient
from tidings.protocols.transport.params import TransportParams

PORT = 7000
TCP_PORT = 7001
EVERY = 0.5
"""Seconds between two lines."""

PACKET_BYTES = 285
"""Of an event on the wire, IP and UDP included, as derived for the published experiments."""

IP_UDP_BYTES = 28
IP_TCP_BYTES = 52
"""With the time stamps that TCP adds to each segment."""

MAXSEG = PACKET_BYTES - IP_TCP_BYTES + 12
PARAMS = TransportParams(record=2, profile=BloomProfile(bits=128))
"""Headers of 80 bytes, as published."""
STEP = 0.005


def say(total_bytes: int) -> None:
    sys.stdout.write(f"{time.monotonic():.3f} {total_bytes}\n")
    sys.stdout.flush()


async def until_closed() -> None:
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def publish(is_paced: bool, demand: float) -> None:
    carrier = DatagramCarrier((LEFT, PORT), [(RIGHT, PORT)])
    async with CarrierClient(carrier, paced=is_paced, transport=PARAMS) as client:
        ending = asyncio.create_task(until_closed())
        began, sent = time.monotonic(), 0
        payload = b""
        while not ending.done():
            while sent < (time.monotonic() - began) * demand:
                before = carrier.sent_bytes
                await client.publish({"kind": "reading", "place": sent % 10}, payload)
                await client.flush()
                sent += 1
                if not payload and sent > 2 * PARAMS.record:
                    # Now the header has its length, and what is missing to the size of a packet is known.
                    payload = bytes(PACKET_BYTES - IP_UDP_BYTES - (carrier.sent_bytes - before))
            await asyncio.wait([ending], timeout=STEP)


async def subscribe(is_paced: bool) -> None:
    carrier = DatagramCarrier((RIGHT, PORT), [(LEFT, PORT)])
    async with CarrierClient(carrier, paced=is_paced, transport=PARAMS) as client:
        subscription = await client.subscribe("kind = 'reading'")
        ending, events = asyncio.create_task(until_closed()), 0
        while not ending.done():
            await asyncio.wait([ending], timeout=EVERY)
            events += len(subscription.take_now())
            say(events * PACKET_BYTES)


def send(algorithm: str) -> None:
    with socket.socket() as sending:
        sending.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, MAXSEG)
        sending.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
        sending.connect((RIGHT, TCP_PORT))
        ending = threading.Thread(target=end_with_input, args=(sending,))
        ending.start()
        try:
            while True:
                sending.sendall(bytes(16 * 1024))
        except OSError:
            ending.join()


def end_with_input(connection: socket.socket) -> None:
    sys.stdin.read()
    connection.shutdown(socket.SHUT_RDWR)


def receive() -> None:
    with socket.create_server((RIGHT, TCP_PORT)) as listening:
        say(0)
        connection, _ = listening.accept()
        with connection:
            total, said_at = 0, time.monotonic()
            payload_bytes = PACKET_BYTES - IP_TCP_BYTES
            while data := connection.recv(64 * 1024):
                total += len(data)
                if time.monotonic() - said_at >= EVERY:
                    said_at = time.monotonic()
                    say(total * PACKET_BYTES // payload_bytes)


def main(words: list[str]) -> None:
    match words:
        case ["publisher", paced, demand]:
            asyncio.run(publish(paced == "paced", float(demand)))
        case ["subscriber", paced]:
            asyncio.run(subscribe(paced == "paced"))
        case ["sender", algorithm]:
            send(algorithm)
        case ["receiver"]:
            receive()


if __name__ == "__main__":
    main(sys.argv[1:])
