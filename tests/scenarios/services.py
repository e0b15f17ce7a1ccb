"""Brokers in this process for tests, and the commands beside them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from tests.worlds.sockets import QUIET
from tidings.net.addresses import address_text
from tidings.net.broker.config import load_config
from tidings.net.broker.service import BrokerService


def make_service(name: str, *others: BrokerService | str, **settings: Any) -> BrokerService:
    """A broker on any free port, linked with others, which have started or are named by their address. Its engine is
    the plain one, which needs no compiling."""
    links = [each if isinstance(each, str) else address_text(each.address) for each in others]
    engine = {"routing": {"engine": "plain"}}
    flags = {"name": name, "listen": "127.0.0.1:0", "links": links or None, **engine, **settings}
    return BrokerService(load_config(None, flags), log=QUIET)


@asynccontextmanager
async def chain(*names: str, **settings: Any) -> AsyncIterator[dict[str, BrokerService]]:
    """Brokers in a row, each linked with the one before."""
    started: dict[str, BrokerService] = {}
    async with AsyncExitStack() as stack:
        for name in names:
            before = list(started.values())[-1:]
            started[name] = await stack.enter_async_context(make_service(name, *before, **settings))
        yield started


async def command(*arguments: str) -> int:
    """Run `tidings` beside the loop; the exit code."""
    from tidings.cli.program import run

    return await asyncio.to_thread(run, list(arguments))


async def command_until(code: int, *arguments: str) -> None:
    """Again and again until it ends with this code: what a network has to settle first takes as long as it takes."""
    while await command(*arguments) != code:
        pass


def where(service: BrokerService) -> list[str]:
    return ["--broker", address_text(service.address)]
