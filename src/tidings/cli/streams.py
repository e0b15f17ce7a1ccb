"""The table of streams in `tidings top`: what is popular, what is not, and which way it goes, where routing goes by
popularity. Only what is decided there is shown of a broker: streams of its own publishers."""

from collections.abc import Sequence

import msgspec
from rich import box
from rich.table import Table

from tidings.cli.output import drawn
from tidings.diagnosis.network import Network
from tidings.pubsub.rows import PopularityRow

STREAM_HEADER = ("broker", "next", "advertisement", "subs", "hops", "gain", "rate/s", "asked", "way")
NUMBERS = ("subs", "hops", "gain", "rate/s")
STREAMS_SHOWN = 20


class StreamLoad(msgspec.Struct, frozen=True):
    """What goes from the broker of its publisher over one link, under one advertisement."""

    broker: str
    stream: PopularityRow


def stream_loads(network: Network) -> list[StreamLoad]:
    """The busiest first."""
    found = [
        StreamLoad(name, row) for name, reported in network.brokers.items() for row in reported.streams if row.is_here
    ]
    return sorted(found, key=lambda load: (-load.stream.rate, load.broker, load.stream.advertisement))


def stream_cells(load: StreamLoad) -> list[str]:
    row = load.stream
    asked = "" if row.latency == "any" else row.latency
    numbers = [f"{row.subscriptions:,}", f"{row.hops:.1f}", f"{row.gain:.3g}", f"{row.rate:,.1f}"]
    return [load.broker, row.neighbour, row.advertisement, *numbers, asked, row.way]


def shown_streams(loads: Sequence[StreamLoad]) -> list[list[str]]:
    cells = [stream_cells(load) for load in loads[:STREAMS_SHOWN]]
    more = len(loads) - STREAMS_SHOWN
    return [*cells, *([["", "", f"{more:,} more", *[""] * (len(STREAM_HEADER) - 3)]] if more > 0 else [])]


def draw_streams(loads: Sequence[StreamLoad]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for name in STREAM_HEADER:
        table.add_column(name, justify="right" if name in NUMBERS else "left")
    for cells in shown_streams(loads):
        table.add_row(*drawn(cells))
    return table
