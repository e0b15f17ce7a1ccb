"""Structured logs on stderr, one line of `key=value` pairs per happening.

A library does not configure logging for the program it is part of: each host has a logger of its own, and a program
that wants another form gives `Host` its own structlog logger.
"""

import sys
from typing import Any

from tidings.model.identity import NodeId
from tidings.net.errors import HostError


def make_logger(node_id: NodeId, level: str = "info") -> Any:
    try:
        import structlog
    except ModuleNotFoundError:
        raise HostError("a host logs with structlog; install it with: pip install 'tidings[net]'") from None
    return structlog.wrap_logger(
        structlog.WriteLogger(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event", "node"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        node=node_id,
    )
