"""`python -m bench.joined_brokers`: real broker processes on this machine that know one contact, a third of them
killed.

    python -m bench.joined_brokers                     60 brokers
    python -m bench.joined_brokers --brokers 12

Every broker is a process of `tidings broker --join`. When they are one tree, a third of them get SIGKILL at once, the
first contact among them, and the clock runs until each of the others is below another one, or the one root, in one
colour, as they say themselves; a look at all of them takes some tenths of a second. Then nothing happens for a while,
and the bytes that each sends are counted.
"""

import argparse
import asyncio
import os
import signal
import sys
import time
from random import Random

from tidings.cli.top import measure, sample
from tidings.net.inspector import InspectorAccess

FIRST_PORT = 17_411
STARTED_AT_ONCE = 6
LOOK_PERIOD = 0.2
WAIT_MAX = 120.0
REST = 60.0


async def start(number: int) -> asyncio.subprocess.Process:
    listen, contact = f"127.0.0.1:{FIRST_PORT + number}", f"127.0.0.1:{FIRST_PORT}"
    role = ["--join", contact] if number else ["--overlay", "lstree"]
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tidings", "broker", "--until-eof", "--name", f"b{number}", "--listen", listen, *role),
        *("--log", "error"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "TIDINGS_BROKER_ROUTING__ENGINE": "plain"},
    )
    assert child.stdout is not None
    await child.stdout.readline()
    return child


async def mended(numbers: list[int]) -> float:
    """Seconds until these are one tree, as each of them says."""
    begin = time.perf_counter()
    addresses = [f"127.0.0.1:{FIRST_PORT + number}" for number in numbers]
    names = {f"b{number}" for number in numbers}
    while time.perf_counter() - begin < WAIT_MAX:
        network, _ = await sample(addresses, InspectorAccess())
        rows = [each.broker for name, each in network.brokers.items() if name in names]
        is_whole = len(rows) == len(names) and len({row.colour for row in rows}) == 1
        if is_whole and sum(not row.above for row in rows) == 1 and all(row.above in names | {""} for row in rows):
            return time.perf_counter() - begin
        await asyncio.sleep(LOOK_PERIOD)
    raise SystemExit(f"not one tree within {WAIT_MAX:g} s")


async def run(count: int, seed: int) -> None:
    children: list[asyncio.subprocess.Process] = [await start(0)]
    try:
        for first in range(1, count, STARTED_AT_ONCE):
            children += await asyncio.gather(*map(start, range(first, min(count, first + STARTED_AT_ONCE))))
        print(f"{count} brokers are up; one tree {await mended(list(range(count))):.2f} s later", flush=True)
        killed = sorted({0, *Random(seed).sample(range(1, count), count // 3 - 1)})
        for number in killed:
            children[number].send_signal(signal.SIGKILL)
        left = [number for number in range(count) if number not in killed]
        print(f"{len(killed)} killed; one tree {await mended(left):.2f} s later", flush=True)
        addresses = [f"127.0.0.1:{FIRST_PORT + number}" for number in left]
        before = await sample(addresses, InspectorAccess())
        await asyncio.sleep(REST)
        after = await sample(addresses, InspectorAccess())
        loads = measure(before, after, REST)
        rates = sorted(load.bytes_sent_per_second for load in loads if not load.problem)
        print(f"at rest a broker sends {sum(rates) / len(rates):.0f} B/s, at most {rates[-1]:.0f} (looking included)")
    finally:
        for child in children:
            if child.returncode is None:
                child.kill()
            await child.wait()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.joined_brokers", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--brokers", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    asyncio.run(run(arguments.brokers, arguments.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
