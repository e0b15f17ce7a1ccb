"""`python -m bench.sockets`: how many messages two hosts exchange over loopback in a second of CPU time.

Beside them, in the same run, stand bare asyncio streams that carry frames of the same length and do nothing with them:
no handshake, no encoding, no machine, no queue with a bound. What a host costs beyond that is what it does.

- *Rally*: one message goes back and forth, and each end waits for it; that is the cost of a turn of the loop.
- *Flood*: one end sends as fast as the other reads; that is the cost of a message.

Both ends live in this process, so a figure is for both together. Times are CPU time, contenders take turns, and the
median of the rounds counts. Use the ratios: absolute figures move with the load of the machine.
"""

import argparse
import asyncio
import logging
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from statistics import median
from typing import Any

import structlog

from tidings.machine.effects import Deliver, Effect, Send
from tidings.machine.inputs import Input, Request
from tidings.net import Host
from tidings.protocols.teaching.ping import Echo, Probe
from tidings.wire import encode, frame
from tidings.wire.frames import HEAD, HEAD_BYTES

ROUNDS, RALLY, FLOOD = 5, 20_000, 200_000
"""Rounds, and the messages of one."""

BURST = 500
"""Messages that a flood sends in one turn of the loop; far less than a queue holds."""

BALL = frame(encode(Probe(10_000)))
Measure = Callable[[int], Coroutine[Any, Any, float]]  # from the messages of a round to the CPU seconds they took


class Start(Request, frozen=True):
    messages: tuple[Probe | Echo, ...]


class Player:
    """Sends each `Probe` back with a number one less, swallows each `Echo`; delivers the one that has the number 0."""

    def start(self, now: float) -> list[Effect]:
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        if type(input) is Start:
            return [Send("b", message) for message in input.messages]
        message = input.message
        if message.round == 0:
            return [Deliver(message)]
        return [Send(input.sender, Probe(message.round - 1))] if type(message) is Probe else []

    def check(self) -> None:
        pass


async def between_hosts(bursts: Iterable[tuple[Probe | Echo, ...]]) -> float:
    """Host a sends each burst in a turn of its own; it is over when host b delivers."""
    silent = structlog.make_filtering_bound_logger(logging.CRITICAL)
    log = structlog.wrap_logger(structlog.ReturnLogger(), processors=[], wrapper_class=silent)
    async with Host("b", Player(), log=log) as b, Host("a", Player(), log=log, peers={"b": b.address}) as a:
        a.inject(Start((Echo(0),)))
        await b.items.get()
        began = time.process_time()
        for burst in bursts:
            a.inject(Start(burst))
            await asyncio.sleep(0)
        await b.items.get()
        return time.process_time() - began


def floods(count: int) -> Iterator[tuple[Echo, ...]]:
    for left in range(count, 0, -BURST):
        yield tuple(Echo(number) for number in range(left - 1, max(left - BURST, 0) - 1, -1))


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (size_bytes,) = HEAD.unpack(await reader.readexactly(HEAD_BYTES))
    return await reader.readexactly(size_bytes)


async def bare(count: int, answers: bool) -> float:
    arrived = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(count):
            body = await read_frame(reader)
            if answers:
                writer.write(HEAD.pack(len(body)) + body)
        arrived.set()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1") as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        began = time.process_time()
        for number in range(count):
            writer.write(BALL)
            if answers:
                await read_frame(reader)
            elif number % BURST == 0:
                await writer.drain()
        await arrived.wait()
        writer.close()
        return time.process_time() - began


def contenders(scale: float) -> dict[str, tuple[Measure, int]]:
    """Each with the messages of a round."""
    rally, flood = int(RALLY * scale), int(FLOOD * scale)
    return {
        "bare streams, rally": (lambda count: bare(count // 2, answers=True), rally),
        "two hosts, rally": (lambda count: between_hosts([(Probe(count // 2 * 2),)]), rally),
        "bare streams, flood": (lambda count: bare(count, answers=False), flood),
        "two hosts, flood": (lambda count: between_hosts(floods(count)), flood),
    }


def measure(scale: float) -> dict[str, list[float]]:
    """Messages per CPU second of each contender, one figure for each round."""
    setup = contenders(scale)
    rates: dict[str, list[float]] = {name: [] for name in setup}
    for _ in range(ROUNDS):
        for name, (carry, count) in setup.items():
            rates[name].append(count / asyncio.run(carry(count)))
    return rates


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.sockets", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="length of a round; 1 is about a second (1)")
    rates = measure(parser.parse_args(arguments).scale)
    print(f"{'messages per CPU second':<28}{'median':>12}{'least':>12}{'most':>12}")
    for name, figures in rates.items():
        print(f"{name:<28}{median(figures):>12,.0f}{min(figures):>12,.0f}{max(figures):>12,.0f}")
    for kind in ("rally", "flood"):
        ratio = median(rates[f"two hosts, {kind}"]) / median(rates[f"bare streams, {kind}"])
        print(f"{kind}: two hosts carry {ratio:.2f} of what bare streams do")
    return 0


if __name__ == "__main__":
    sys.exit(main())
