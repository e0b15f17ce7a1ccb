"""A plan for a table of bandwidths, and its picture."""

import csv
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tidings.model.errors import UsageError
from tidings.planning.flows.direct import direct_seconds
from tidings.planning.flows.graph import graph_of
from tidings.planning.flows.quickest import quickest
from tidings.workloads.bandwidths import with_access

BLOCKS_PER_MEGABYTE = 4
ROWS_MAX = 1_000_000


class PlannedShare(msgspec.Struct, frozen=True):
    sender: str
    receiver: str
    megabytes: float
    mbps: float


class PlannedCollection(msgspec.Struct, frozen=True):
    sink: str
    seconds: int
    direct_seconds: float
    gain: float
    """The share of the direct time that is saved."""
    shares: tuple[PlannedShare, ...]


def read_rates(path: Path) -> dict[tuple[str, str], float]:
    """Bits a second."""
    rates: dict[tuple[str, str], float] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = {"sender", "receiver", "mbps"} - set(reader.fieldnames or ())
            if missing:
                raise UsageError(
                    f"{path}: there is no column {', '.join(sorted(missing))}; give sender, receiver, mbps"
                )
            for number, row in enumerate(reader, 2):
                try:
                    rates[row["sender"].strip(), row["receiver"].strip()] = float(row["mbps"]) * 1e6
                except (TypeError, ValueError, AttributeError):
                    raise UsageError(f"{path}, line {number}: {row!r} has no number of megabits") from None
                if number > ROWS_MAX:
                    raise UsageError(f"{path}: more than {ROWS_MAX} rows; plan for fewer hosts")
    except (OSError, UnicodeDecodeError) as problem:
        raise UsageError(f"{path}: cannot be read: {problem}") from None
    return {pair: rate for pair, rate in rates.items() if pair[0] != pair[1]}


def plan_table(path: Path, sink: str, sizes: Sequence[str], each: float, has_access: bool) -> PlannedCollection:
    rates = read_rates(path)
    hosts = tuple(dict.fromkeys(end for pair in rates for end in pair))
    if sink not in hosts:
        raise UsageError(f"--sink {sink}: the table has {', '.join(hosts[:10]) or 'no rows'}; name one of its hosts")
    megabytes = {host: each for host in hosts if host != sink}
    for text in sizes:
        host, _, number = text.partition("=")
        if host not in megabytes or not number.replace(".", "", 1).isdigit():
            raise UsageError(f"--size {text}: write HOST=MEGABYTES with a host of the table that is not the sink")
        megabytes[host] = float(number)
    block_bits = 8e6 / BLOCKS_PER_MEGABYTE
    table = with_access(hosts, rates)
    graph = graph_of(
        {host: round(size * BLOCKS_PER_MEGABYTE) for host, size in megabytes.items()},
        {pair: rate / block_bits for pair, rate in rates.items()},
        {host: (table.down[host] / block_bits, table.up[host] / block_bits) for host in hosts if has_access},
    )
    found, direct = quickest(graph, sink), direct_seconds(graph, sink)
    shares = tuple(
        PlannedShare(x, y, blocks / BLOCKS_PER_MEGABYTE, blocks * block_bits / 1e6 / max(found.horizon, 1))
        for (x, y), blocks in sorted(found.sends.items(), key=lambda item: (-item[1], item[0]))
    )
    gain = 1 - found.horizon / direct if 0 < direct < float("inf") else 0.0
    return PlannedCollection(sink, found.horizon, direct, gain, shares)


def write_picture(plan: PlannedCollection, file: Path) -> None:
    """Hosts on a circle, the sink in the middle, arrows as thick as what goes over them."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise UsageError("--picture needs matplotlib, which is not installed: pip install 'tidings[lab]'") from None
    from math import cos, pi, sin

    hosts = sorted({end for share in plan.shares for end in (share.sender, share.receiver)} - {plan.sink})
    places = {
        host: (cos(2 * pi * number / len(hosts)), sin(2 * pi * number / len(hosts)))
        for number, host in enumerate(hosts)
    }
    places[plan.sink] = (0.0, 0.0)
    figure = Figure(figsize=(7, 7), layout="tight")
    axes = figure.add_subplot()
    most = max(share.mbps for share in plan.shares) if plan.shares else 1.0
    for share in plan.shares:
        colour = "#2a6f97" if share.receiver == plan.sink else "#d1495b"
        arrow = {"arrowstyle": "-|>", "lw": 0.5 + 4 * share.mbps / most, "color": colour, "shrinkA": 16, "shrinkB": 16}
        arrow["connectionstyle"] = "arc3,rad=0.12"
        axes.annotate("", xy=places[share.receiver], xytext=places[share.sender], arrowprops=arrow)
    for host, (x, y) in places.items():
        axes.plot(x, y, "o", ms=26, color="#edae49" if host == plan.sink else "#dfe7ec", zorder=3)
        axes.text(x, y, host, ha="center", va="center", fontsize=7, zorder=4)
    axes.set_title(f"{plan.seconds} s planned, {plan.direct_seconds:.0f} s direct (red: between sources)", fontsize=10)
    axes.set_axis_off()
    axes.margins(0.15)
    try:
        figure.savefig(file)
    except (OSError, ValueError) as problem:
        raise UsageError(f"--picture {file}: {problem}") from None
