"""Experiments that a test wants to see fail."""

from collections.abc import Mapping
from typing import Any

from tidings.spark.sweeps.performer import RunFailed


def fails_for_seed_2(variant: str, parameters: Mapping[str, Any], seed: int, trace: Any) -> dict[str, float]:
    if seed == 2:
        raise RunFailed("seed 2 is bad")
    return {"messages_per_broker": 1.0, "throughput": 1.0, "delivery_latency_99": 1.0}
