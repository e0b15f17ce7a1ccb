"""Bandwidth between hosts: drawn as in the wide area, or taken from measurements.

The source took a snapshot of bandwidths between PlanetLab hosts that is not to be had any more (Patel thesis, section
7.1). `complete_hosts` does to a table of pairs what it did: from a random host on, a host is added if every pair with
those that are there is measured, and one host is kept of each domain, since hosts of a domain share their access. The
access of a host is the highest bandwidth that was seen at it.

Without a table, `drawn_bandwidths` stands in: every pair a log-normal number around 10 Mbit/s (peer-to-peer
specification 3H; calibrated there so that as many links gain from a relay as the source says). `skyplane_bandwidths`
reads the grid between regions of three clouds (Skyplane, 2022; Apache 2.0). Rates are in bits a second.
"""

import csv
import gzip
from collections.abc import Mapping
from io import StringIO
from math import log
from pathlib import Path

import msgspec
import numpy

from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.workloads.recorded import require_folder

MEDIAN_BPS, SIGMA = 10e6, 0.95

PairRates = Mapping[tuple[str, str], float]


class BandwidthTable(msgspec.Struct, frozen=True):
    """`rates[x, y]` from x to y; `down[x]` and `up[x]` the access of x."""

    hosts: tuple[str, ...]
    rates: dict[tuple[str, str], float]
    down: dict[str, float]
    up: dict[str, float]


def with_access(hosts: tuple[str, ...], rates: PairRates) -> BandwidthTable:
    """The access of a host is the highest bandwidth that was seen at it, in each direction."""
    kept = {(x, y): rates[x, y] for x in hosts for y in hosts if (x, y) in rates}
    down, up = dict.fromkeys(hosts, 0.0), dict.fromkeys(hosts, 0.0)
    for (x, y), rate in kept.items():
        up[x], down[y] = max(up[x], rate), max(down[y], rate)
    return BandwidthTable(hosts, kept, down, up)


def drawn_bandwidths(count: int, seed: int, median_bps: float = MEDIAN_BPS, sigma: float = SIGMA) -> BandwidthTable:
    if count < 2:
        raise UsageError(f"count: {count} hosts have no pair; give at least 2")
    draws = numpy.random.default_rng(random_stream(seed, "bandwidths", count).below(2**53))
    matrix = numpy.exp(draws.normal(log(median_bps), sigma, (count, count)))
    hosts = tuple(f"h{number:03}" for number in range(count))
    rates = {(x, y): float(matrix[i, j]) for i, x in enumerate(hosts) for j, y in enumerate(hosts) if i != j}
    return with_access(hosts, rates)


def domain_of(host: str) -> str:
    """The last two labels of a name, and the part before the colon of a region: aws:eu-west-1 is of aws:eu-west-1."""
    labels = host.split(".")
    return ".".join(labels[-2:])


def complete_hosts(rates: PairRates, count: int, seed: int) -> BandwidthTable:
    """At most `count` hosts, every pair of which is measured in both directions, no two of one domain."""
    names = sorted({end for pair in rates for end in pair})
    random_stream(seed, "complete hosts").shuffle(names)
    chosen: list[str] = []
    domains: set[str] = set()
    for name in names:
        if len(chosen) == count:
            break
        is_measured = all((name, other) in rates and (other, name) in rates for other in chosen)
        if is_measured and domain_of(name) not in domains:
            chosen.append(name)
            domains.add(domain_of(name))
    return with_access(tuple(chosen), rates)


def skyplane_bandwidths(tier: str = "PREMIUM") -> dict[tuple[str, str], float]:
    """What arrived between regions, bits a second, of the better network of each cloud."""
    path = require_folder("the Skyplane grid") / "cloud" / "inter-region-throughput-2022-01.csv.gz"
    rates: dict[tuple[str, str], float] = {}
    for row in rows_of(path):
        if row["src_tier"] == row["dst_tier"] == tier and row["success"] == "True":
            rates[row["src_region"], row["dst_region"]] = float(row["throughput_recieved"])
    return rates


def skyplane_prices(tier: str = "PREMIUM") -> dict[tuple[str, str], float]:
    """Dollars for a gigabyte that leaves one region for another."""
    path = require_folder("the Skyplane prices") / "cloud" / "inter-region-egress-cost-2022-05.csv.gz"
    return {
        (row["src"], row["dest"]): float(row["cost"])
        for row in rows_of(path)
        if row["src_tier"] == row["dest_tier"] == tier
    }


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(gzip.decompress(path.read_bytes()).decode())))


def indirection_share(table: BandwidthTable, triples: int, seed: int) -> float:
    """Of random triples, how many have a third host through which the pair gains: min(x to z, z to y) > x to y."""
    draws, gains = random_stream(seed, "indirection"), 0
    for _ in range(triples):
        x, y, z = draws.sample(table.hosts, 3)
        gains += min(table.rates[x, z], table.rates[z, y]) > table.rates[x, y]
    return gains / triples
