"""Run a program on the loop of your choice: asyncio's own, or uvloop where it is installed and asked for."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tidings.net.errors import HostError

Result = TypeVar("Result")


def run(main: Coroutine[Any, Any, Result], use_uvloop: bool = False) -> Result:
    try:
        factory = uvloop_factory() if use_uvloop else None
    except HostError:
        main.close()
        raise
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)


def uvloop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ModuleNotFoundError:
        raise HostError("uvloop is not installed; install it with: pip install uvloop, or run without it") from None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
