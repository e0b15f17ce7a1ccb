"""What an idle connection costs a broker: `python -m bench.idle_connections --count 2000`.

A broker runs in a process of its own, and this one calls it so often, in one of three ways: a caller says nothing at
all; it says its name and no more; it attaches as a client and then is silent. The figure is the growth of the broker's
resident memory for each connection; beside it the time that an ordinary client needs for a publication with its receipt
meanwhile (median and 99th percentile). Each with plain TCP and with TLS.
"""

import argparse
import asyncio
import os
import resource
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import quantiles

import tidings
from tidings.net.certificates import DAY, new_authority, new_certificate
from tidings.net.tls import Tls
from tidings.protocols.access.messages import Attach
from tidings.wire import encode, frame
from tidings.wire.handshake import Hello

WAYS = ("silent", "visitor", "client")
PUBLICATIONS = 300
"""Timed for each figure."""

SETTLE = 2.0
"""Seconds until everything that was asked for is done."""

BROKER = """
import asyncio, sys
from tidings.net.broker.config import load_config
from tidings.net.broker.service import BrokerService
async def main():
    places = int(sys.argv[1])
    flags = {
        "name": "m", "listen": "127.0.0.1:0", "log": "error", "routing": {"engine": "plain"},
        "host": {"strangers_max": places, "address_connections_max": 2 * places, "handshake_timeout": 600.0,
                 "silence_max": 600.0, "heartbeat_period": 2.0},
        "access": {"attach_timeout": 600.0, "strangers_max": 2 * places},
    }
    for name, file in zip(("tls_certificate", "tls_key", "tls_authority"), sys.argv[2:]):
        flags[name] = file
    async with BrokerService(load_config(None, flags)) as service:
        print(service.address[1], flush=True)
        await service.wait()
asyncio.run(main())
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--ways", default=",".join(WAYS))
    options = parser.parse_args(arguments)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, options.count + 256), hard))
    with tempfile.TemporaryDirectory() as folder:
        authority = Path(folder)
        new_authority(authority)
        broker = new_certificate(authority, "m", "broker", ["127.0.0.1"], DAY)
        client = new_certificate(authority, "x", "client", [], DAY)
        for files in ((), (*broker, authority / "authority.pem")):
            tls = Tls.from_files(*client, authority / "authority.pem") if files else None
            for way in options.ways.split(","):
                print(asyncio.run(measure(way, options.count, tuple(map(str, files)), tls)), flush=True)
    return 0


async def measure(way: str, count: int, files: tuple[str, ...], tls: Tls | None) -> str:
    process = subprocess.Popen(
        [sys.executable, "-c", BROKER, str(2 * count), *files], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline())
        url = f"{'tidings' if tls is None else 'tidingss'}://127.0.0.1:{port}"
        async with tidings.connect(url, name="x+probe", tls=tls) as probe:
            await probe.advertise("TRUE")
            quiet = await publish(probe)
            before = resident_bytes(process.pid)
            writers = [await call(way, number, port, tls) for number in range(count)]
            await asyncio.sleep(SETTLE)
            grown = (resident_bytes(process.pid) - before) / count / 1024
            busy = await publish(probe)
            for writer in writers:
                writer.close()
        spoken = "TLS" if tls is not None else "TCP"
        figure = f"{way:8} {spoken}  {grown:6.1f} KiB each of {count}"
        return f"{figure}; a publication {text(busy)}, without them {text(quiet)}"
    finally:
        process.terminate()
        process.wait()


async def call(way: str, number: int, port: int, tls: Tls | None) -> asyncio.StreamWriter:
    context: ssl.SSLContext | None = tls.client if tls is not None and way != "silent" else None
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    if way != "silent":
        writer.write(frame(encode(Hello(f"x+{number}", capabilities=("link",)))))
        await reader.readexactly(1)
    if way == "client":
        writer.write(frame(encode(Attach("client", b""))))
        await reader.readexactly(1)
    return writer


async def publish(client: tidings.Client) -> list[float]:
    spans = []
    for number in range(PUBLICATIONS):
        began = time.perf_counter()
        await client.publish({"n": number}, receipt=True)
        spans.append(time.perf_counter() - began)
    return spans


def text(spans: list[float]) -> str:
    hundredths = quantiles(spans, n=100)
    return f"{hundredths[49] * 1e3:.1f} ms, p99 {hundredths[98] * 1e3:.1f} ms"


def resident_bytes(process: int) -> int:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    sys.exit(main())
