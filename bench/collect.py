"""Collections for real: hosts as network namespaces with shaped links, beside direct transfer and rsync.

    python -m bench.collect --hosts 12 --sinks 4 --megabytes 6

Needs root, `ip` and `tc` (iproute2), and `rsync`. Every host is a namespace with one interface on a bridge. Its uplink
is an htb class with one below it for each other host, which is the path; its downlink is a tbf on the bridge's end.
Bandwidths are drawn (3H), or with `--grid` those of the Skyplane grid, scaled to a median of 10 Mbit/s. For each sink
the same files are collected three times: along a plan, straight by ourselves, and by rsync from all sources at once
(daemons, `--whole-file`). Printed are seconds by the clock, the horizon of the best static plan, and that of direct
transfer; on a machine with other work only the ratios within one sink mean anything.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tidings.planning.flows.direct import direct_seconds
from tidings.planning.flows.graph import graph_of
from tidings.planning.flows.quickest import quickest
from tidings.workloads.bandwidths import (
    BandwidthTable,
    complete_hosts,
    drawn_bandwidths,
    skyplane_bandwidths,
    with_access,
)

BRIDGE, PREFIX, NETWORK = "tdbr0", "tdn", "10.199.0"
BLOCK_BITS = 8 * 256 * 1024


def sh(command: str) -> None:
    subprocess.run(command.split(), check=True, capture_output=True)


def table_of(hosts: int, seed: int, is_grid: bool) -> BandwidthTable:
    if not is_grid:
        return drawn_bandwidths(hosts, seed)
    rates = {pair: rate for pair, rate in skyplane_bandwidths().items() if pair[0] != pair[1]}
    table = complete_hosts(rates, hosts, seed)
    scale = 10e6 / statistics.median(table.rates.values())
    return with_access(table.hosts, {pair: rate * scale for pair, rate in table.rates.items()})


class Namespaces:
    """A network that is gone when it is closed."""

    def __init__(self, table: BandwidthTable) -> None:
        self.table = table
        self.addresses = {name: f"{NETWORK}.{number + 1}" for number, name in enumerate(table.hosts)}
        self.spaces = {name: f"{PREFIX}{number}" for number, name in enumerate(table.hosts)}

    def __enter__(self) -> "Namespaces":
        sh(f"ip link add {BRIDGE} type bridge")
        sh(f"ip link set {BRIDGE} up")
        for number, name in enumerate(self.table.hosts):
            space, outer = self.spaces[name], f"{PREFIX}v{number}"
            sh(f"ip netns add {space}")
            sh(f"ip link add {outer} type veth peer name eth0 netns {space}")
            sh(f"ip link set {outer} master {BRIDGE} up")
            inside = f"ip netns exec {space}"
            sh(f"{inside} ip addr add {self.addresses[name]}/24 dev eth0")
            sh(f"{inside} ip link set eth0 up")
            sh(f"{inside} ip link set lo up")
            down, up = round(self.table.down[name]), round(self.table.up[name])
            sh(f"tc qdisc add dev {outer} root tbf rate {down}bit burst 64kb latency 200ms")
            sh(f"{inside} tc qdisc add dev eth0 root handle 1: htb default 9999")
            sh(f"{inside} tc class add dev eth0 parent 1: classid 1:1 htb rate {up}bit burst 64kb")
            for place, other in enumerate(self.table.hosts, 10):
                if (name, other) in self.table.rates:
                    rate = round(self.table.rates[name, other])
                    shape = f"htb rate {min(rate, 1000)}bit ceil {rate}bit"
                    sh(f"{inside} tc class add dev eth0 parent 1:1 classid 1:{place} {shape}")
                    sh(
                        f"{inside} tc filter add dev eth0 parent 1: protocol ip u32 match ip dst "
                        f"{self.addresses[other]}/32 flowid 1:{place}"
                    )
        return self

    def __exit__(self, *error: Any) -> None:
        for number, name in enumerate(self.table.hosts):
            subprocess.run(["ip", "link", "del", f"{PREFIX}v{number}"], capture_output=True, check=False)
            subprocess.run(["ip", "netns", "del", self.spaces[name]], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True, check=False)

    def start(self, name: str, command: list[str], **more: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(["ip", "netns", "exec", self.spaces[name], *command], text=True, **more)


class Running:
    """Processes that are ended with the block."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *error: Any) -> None:
        for each in self.processes:
            each.terminate()
        for each in self.processes:
            each.wait()


def tidings(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tidings", "collect", *arguments]


def run_ours(net: Namespaces, sink: str, folder: Path, measure: float) -> dict[str, Any]:
    sources = [name for name in net.table.hosts if name != sink]
    took: dict[str, Any] = {}
    with Running() as running:
        contact = f"{net.addresses[sources[0]]}:7500"
        for name in sources:
            more = [] if name == sources[0] else ["--contact", contact]
            command = tidings(
                "agent", "--share", str(folder / "share" / name.replace(":", "_")), "--name", name,
                "--listen", f"{net.addresses[name]}:7500", "--insecure", "--log", "error", *more,
            )  # fmt: skip
            process = net.start(name, command, stdout=subprocess.PIPE)
            running.processes.append(process)
            assert process.stdout is not None
            if name == sources[0]:
                process.stdout.readline()
        for process in running.processes[1:]:
            assert process.stdout is not None
            process.stdout.readline()
        for way in ("planned", "direct"):
            into = folder / f"into-{way}"
            shutil.rmtree(into, ignore_errors=True)
            command = tidings(
                "get", "*.bin", "--contact", contact, "--into", str(into), "--listen", f"{net.addresses[sink]}:7600",
                "--insecure", "--json", "--name", sink,
                *(["--direct"] if way == "direct" else ["--measure", str(measure)]),
            )  # fmt: skip
            process = net.start(sink, command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            out, problems = process.communicate(timeout=600)
            ended = [json.loads(line) for line in out.splitlines() if '"kind":"ended"' in line]
            if process.returncode or not ended:
                raise SystemExit(f"{sink}, {way}: exit code {process.returncode}\n{problems}\n{out[-2000:]}")
            check_same(folder, into, sources)
            took[way] = ended[0]["seconds"]
            took[f"{way}_by"] = dict(ended[0]["by_sender"])
    return took


def check_same(folder: Path, into: Path, sources: list[str]) -> None:
    for name in sources:
        safe = name.replace(":", "_")
        assert (into / safe / "f.bin").read_bytes() == (folder / "share" / safe / "f.bin").read_bytes(), name


def run_rsync(net: Namespaces, sink: str, folder: Path) -> float:
    sources = [name for name in net.table.hosts if name != sink]
    into = folder / "into-rsync"
    shutil.rmtree(into, ignore_errors=True)
    with Running() as running:
        for name in sources:
            settings = folder / f"rsyncd-{net.spaces[name]}.conf"
            shared = folder / "share" / name.replace(":", "_")
            settings.write_text(f"use chroot = no\nuid = root\ngid = root\n[files]\npath = {shared}\n")
            command = ["rsync", "--daemon", "--no-detach", f"--config={settings}", f"--address={net.addresses[name]}"]
            running.processes.append(net.start(name, command))
        time.sleep(1.0)
        began = time.monotonic()
        fetches = []
        for name in sources:
            (into / name.replace(":", "_")).mkdir(parents=True)
            target = f"{into / name.replace(':', '_')}/"
            command = ["rsync", "-a", "--whole-file", f"rsync://{net.addresses[name]}/files/", target]
            fetches.append(net.start(sink, command))
        codes = [each.wait() for each in fetches]
        took = time.monotonic() - began
    if any(codes):
        raise SystemExit(f"rsync: exit codes {codes}")
    check_same(folder, into, sources)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=12)
    parser.add_argument("--sinks", type=int, default=4)
    parser.add_argument("--megabytes", type=float, default=6)
    parser.add_argument("--measure", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--grid", action="store_true")
    asked = parser.parse_args()
    if os.geteuid() or not all(shutil.which(each) for each in ("ip", "tc", "rsync")):
        raise SystemExit("needs root, ip and tc (iproute2), and rsync")
    table = table_of(asked.hosts, asked.seed, asked.grid)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidings-bench-")))
        size = round(asked.megabytes * 1e6)
        for name in table.hosts:
            share = folder / "share" / name.replace(":", "_")
            share.mkdir(parents=True)
            (share / "f.bin").write_bytes(os.urandom(size))
        net = stack.enter_context(Namespaces(table))
        for sink in table.hosts[: asked.sinks]:
            blocks = -(-size * 8 // BLOCK_BITS)
            graph = graph_of(
                {name: blocks for name in table.hosts if name != sink},
                {pair: rate / BLOCK_BITS for pair, rate in table.rates.items()},
                {name: (table.down[name] / BLOCK_BITS, table.up[name] / BLOCK_BITS) for name in table.hosts},
            )
            row = {
                "sink": sink,
                "best": quickest(graph, sink).horizon,
                "best_direct": round(direct_seconds(graph, sink), 1),
            }
            row |= run_ours(net, sink, folder, asked.measure)
            print(json.dumps(row), flush=True)
            row["rsync"] = round(run_rsync(net, sink, folder), 1)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
