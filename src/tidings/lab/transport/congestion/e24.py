"""E24: how much a publisher must remember.

The flow table of a publisher has a row for each flow that somebody limits, and drops rows that others cover. Here
subscribers with the interests of E23 all report what they can take, ten times over, to a flow table
as a publisher has it: nothing else runs. That is more than ever happens, since in E23 most subscribers never have a
reason to report. Rates are drawn between 1 and 100 events a second, evenly over factors, and change by a tenth or two
from report to report.

Besides: the memory of a table of 2000 rows of 256 bits.

Measured in the run: a table by itself leaves no trace, and the metric `feedback_rate` has the rows of a table in use.
"""

import gc
import tracemalloc
from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, Measured, Variant
from tidings.lab.figures import measured_in_runs
from tidings.lab.plots import COLOURS, points
from tidings.lab.transport.congestion.e23 import VALUES
from tidings.machine.streams import random_stream
from tidings.matching.bloom import BloomProfile
from tidings.model.language.parser import parse
from tidings.protocols.transport.congestion.flows import FlowTable
from tidings.protocols.transport.congestion.flows import ReceiverClaim as Said
from tidings.protocols.transport.congestion.paced import FlowInterest, interests_of
from tidings.protocols.transport.messages import FlowReport
from tidings.protocols.transport.params import CongestionParams, TransportParams
from tidings.trace.writer import Writer
from tidings.workloads.transport import SharedInterests

COUNTS = (50, 100, 200, 400, 800, 1600)
RATE_MIN, RATE_MAX = 1.0, 100.0
ROUNDS = 10
ROUND_TRIP = 0.1
ROWS = 2000
MEGABYTE = 1e6


def table_of(bits: int) -> FlowTable:
    profile = BloomProfile(bits=bits)
    return FlowTable(TransportParams(is_paced=True, profile=profile, congestion=CongestionParams(flows_max=4096)))


def tell(table: FlowTable, at: float, subscriber: int, flow: FlowInterest, rate: float) -> None:
    said = Said(subscriber, subscriber, 0.0, ROUND_TRIP)
    table.report(at, said, FlowReport(flow.flow, rate, flow.bits, flow.text), rate)


def rows_for(subscribers: int, seed: int) -> int:
    """Rows that are left when everybody has reported."""
    rng, table = random_stream(seed, "flows", subscribers), table_of(128)
    workload = SharedInterests(seed=seed, subscribers=subscribers, values=VALUES)
    flows = [interests_of(parse(row["filter"]), table.profile)[0] for row in workload.subscriptions().rows()]
    rates = [RATE_MIN * (RATE_MAX / RATE_MIN) ** rng.random() for _ in flows]
    for round in range(ROUNDS):
        for subscriber, (flow, rate) in enumerate(zip(flows, rates, strict=True), 1):
            tell(table, round * ROUND_TRIP, subscriber, flow, rate * rng.uniform(0.9, 1.1))
    return len(table.rows)


def bytes_of_rows(seed: int) -> int:
    """What ROWS rows take that do not cover each other."""
    rng, table = random_stream(seed, "memory"), table_of(256)
    flows = [
        interests_of(parse(f"symbol = {number} AND market = {rng.below(50)}"), table.profile)[0]
        for number in range(ROWS)
    ]
    gc.collect()
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for subscriber, flow in enumerate(flows, 1):
        # Bits of the report are the row's own, as when they were read from a message.
        copied = int.from_bytes(flow.bits.to_bytes(32, "big"), "big")
        report = FlowReport(flow.flow, 10.0, copied, "")
        table.report(0.0, Said(subscriber, subscriber, 0.0, ROUND_TRIP), report, 10.0 + subscriber)
    taken = tracemalloc.get_traced_memory()[0] - before
    if not was_tracing:
        tracemalloc.stop()
    assert len(table.rows) >= ROWS * 0.99, "rows cover each other"
    return taken * ROWS // len(table.rows)


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: subscribers_max."""
    counts = [count for count in COUNTS if count <= parameters["subscribers_max"]]
    rows = {count: rows_for(count, seed) for count in counts}
    most, least = counts[-1], counts[0]
    return {
        **{f"rows|{count} subscribers": float(number) for count, number in rows.items()},
        "growth|": (rows[most] / rows[least]) / (most / least),
        "memory|": bytes_of_rows(seed) / MEGABYTE,
    }


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    counts, rows = points(measured, "rows")
    axes.plot(counts, rows, "o-", color=COLOURS[1], label="rows")
    axes.plot(counts, counts, "--", color=COLOURS[5], label="one each")
    axes.set(xlabel="subscribers that report", title="rows of the flow table")
    axes.legend()


EXPERIMENT = define(__file__, run=run, variants=(Variant("everybody reports"),), figures=measured_in_runs, plot=plot)
