"""Parameters that contradict each other are refused when they are given."""

from typing import Any

import pytest

from tidings.model.errors import UsageError
from tidings.net import HostParams


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"silence_max": 3.0},
            "silence_max: 3.0 would take a live peer for dead; give at least twice heartbeat_period",
        ),
        ({"connect_timeout": 2.0}, "connect_timeout: 2.0 is not above heartbeat_period"),
        ({"backoff_first": 0.0}, "backoff_first: 0.0 is no span of time"),
        ({"drain_timeout": float("nan")}, "drain_timeout: nan is no span of time"),
        ({"backoff_max": 0.05}, "backoff_max: 0.05 is below backoff_first"),
        ({"inbox_max": 0}, "inbox_max: 0 leaves no room"),
        ({"queue_bytes_max": 1000}, "queue_bytes_max: 1000 is less than a frame"),
        ({"datagram_bytes_max": 70_000}, "datagram_bytes_max: 70000; UDP carries 65507"),
    ],
)
def test_a_contradiction_is_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        HostParams(**fields)
