"""E6: how often a Bloom filter of 1024 bits says of a feed that it is read, although it is not.

Measured in the run: no message is needed for it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, Measured, Variant
from tidings.lab.figures import measured_in_runs
from tidings.lab.plots import bars
from tidings.machine.streams import random_stream
from tidings.protocols.feeds.profile import BITS, HASHES, interests_of, may_read
from tidings.trace.writer import Writer

READ = (50, 100, 200)
PROFILES = 20


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: probes, of each number of feeds."""
    rng = random_stream(seed, "bloom")
    found: dict[str, float] = {}
    for read in READ:
        probes, hits = parameters["probes"] // PROFILES, 0
        for _ in range(PROFILES):
            word = rng.below(2**48)
            interests = interests_of(f"https://{word:x}.example/{number}" for number in range(read))
            hits += sum(may_read(interests, f"https://{word:x}.example.net/{number}") for number in range(probes))
        rate = hits / (probes * PROFILES)
        found[f"false positives|{read} feeds"] = rate
        found[f"by the formula|{read} feeds"] = rate / (1 - math.exp(-HASHES * read / BITS)) ** HASHES
    return found


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    shown = [it for it in measured if it.figure == "false positives"]
    bars(axes, shown, {"false positives": "1024 bits, 3 hashes"})
    axes.set(title="false positives", ylabel="share")


EXPERIMENT = define(__file__, run=run, variants=(Variant("1024 bits"),), figures=measured_in_runs, plot=plot)
