"""Experiments that a test wants to see fail."""

from collections.abc import Mapping
from typing import Any

from tidings.spark.sweeps.performer import RunFailed
from tidings.trace.record import Record
from tidings.trace.writer import Writer


def fails_for_seed_2(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Else a broker passes on an event, and one client gets it; as E25 has it."""
    if seed == 2:
        raise RunFailed("seed 2 is bad")
    trace.write(Record(time=0.0, node="s0.0", kind="start"))
    trace.write(Record(time=10.0, node="p0", kind="publish", message="Event", key="p0 1"))
    trace.write(Record(time=10.0, node="us-e", kind="send", message="Publications"))
    detail = '{"accepted_at": 10.0, "publisher": "p0", "number": 1, "subscription": 1}'
    trace.write(Record(time=10.1, node="s0.0", kind="deliver", message="Event", key="p0 1", detail=detail))
    return {}
