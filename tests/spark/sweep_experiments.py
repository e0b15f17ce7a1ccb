"""Experiments that behave well, badly, and worse, for tests of sweeps; workers find them by name."""

import ctypes
import os
import random
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidings.trace.record import Record
from tidings.trace.writer import Writer

HERE = __name__


def tosses(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Coins."""
    draw = random.Random(seed)
    heads = 0
    for time in range(parameters.get("tosses", 20)):
        is_head = draw.random() < 0.5
        heads += is_head
        trace.write(Record(time=float(time), node=variant, kind="note", message="head" if is_head else "tail"))
    return {"heads": heads, "share": heads / parameters.get("tosses", 20)}


def kinds(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Which parameters are text."""
    return {name: isinstance(value, str) for name, value in parameters.items()}


def fails(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """As its variant says, after writing into its trace."""
    trace.write(Record(time=1.0, node="n", kind="note", message="so far so good"))
    match variant:
        case "raises":
            raise KeyError("a")
        case "leaves":
            sys.exit("enough")
        case "cancels":
            raise BaseException("not even an exception")
        case "text":
            return {"heads": "many"}  # type: ignore[dict-item]
        case "nothing":
            return None  # type: ignore[return-value]
        case "exits":
            os._exit(3)
        case "crashes":
            ctypes.string_at(0)
    raise AssertionError(variant)


def waits(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """For somebody to open the gate, a named pipe, if there is one."""
    if parameters["gate"]:
        Path(parameters["gate"]).read_bytes()
    return {}


def ends_all(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """With seed 3 kills every process of its session at once, its own at last; but only the first time."""
    mark = Path(parameters["mark"])
    if seed == 3 and not mark.exists():
        mark.touch()
        ours = os.getsid(0)
        for number in [int(path.name) for path in Path("/proc").glob("[0-9]*")]:
            if number != os.getpid() and session_of(number) == ours:
                os.kill(number, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    return tosses(variant, {}, seed, trace)


def session_of(process: int) -> int | None:
    try:
        return os.getsid(process)
    except ProcessLookupError:
        return None
