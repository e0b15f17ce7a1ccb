"""Structured logs on stderr, one line of `key=value` pairs per happening; and the loop of a program's choice.

A library does not configure logging for the program it is part of: each host has a logger of its own, and a program
that wants another form gives `Host` its own structlog logger. Nor does it choose the loop: `run` takes asyncio's own,
or uvloop where it is installed and asked for.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, MutableMapping
from typing import Any, TypeVar

from tidings.model.escapes import printable
from tidings.model.identity import NodeId
from tidings.net.errors import HostError


def make_logger(node_id: NodeId, level: str = "info", stream: Any = None) -> Any:
    try:
        import structlog
    except ModuleNotFoundError:
        raise HostError("a host logs with structlog; install it with: pip install 'tidings[net]'") from None
    return structlog.wrap_logger(
        structlog.WriteLogger(stream or sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            escape,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event", "node"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        node=node_id,
    )


def escape(logger: Any, method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """What others chose, names above all, cannot steer a terminal nor begin a line of its own."""
    return {key: printable(value) if isinstance(value, str) else value for key, value in line.items()}


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
