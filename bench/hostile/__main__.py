"""`python -m bench.hostile`: how long an ordinary client waits while others give a broker as much to do as they can.

    python -m bench.hostile                    all attacks, 10 seconds each
    python -m bench.hostile --only patterns    one of them
    python -m bench.hostile --steps            also which steps of the brokers took long

Two brokers, a and b, ordinary clients (`ordinary.py`) and attackers (`attacks.py`), in processes of their own. Two
kinds of figures, for each attack:

    waits     of the ordinary client, from call to answer, by the clock. What is measured goes first on the machine
              where the system permits it (`first.py`); the line `alone` says how idle the machine is.
    rounds    of each broker's loop, by the processor time of its thread (`watched.py`): what somebody waits for who
              comes while the broker is busy. No other load of the machine counts.
"""

import argparse
import asyncio
import json
import math
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Any

from bench.hostile.attacks import ATTACKS
from bench.hostile.encrypted import ENCRYPTED, certificates
from bench.hostile.target import Target

SECONDS, LEAD = 10.0, 2.0
"""How long each attack is measured, and what it has before."""

TARGET, ROUND_TARGET = 0.050, 0.020
STEPS_SHOWN = 6


@asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *arguments, stdout=pipe, stderr=pipe, start_new_session=True
    )
    try:
        yield started
    finally:
        with suppress(ProcessLookupError):
            started.terminate()
        await started.wait()


class WatchedBroker:
    def __init__(self, address: str, http: str, started: asyncio.subprocess.Process) -> None:
        self.address, self.http, self.started = address, http, started
        self.logged: list[str] = []

    async def read_log(self) -> None:
        assert self.started.stderr is not None
        while line := await self.started.stderr.readline():
            self.logged.append(line.decode())

    def losses(self, neighbour: str) -> int:
        return len([line for line in self.logged if "stream down" in line and re.search(rf"peer={neighbour}\b", line)])


@asynccontextmanager
async def broker(name: str, file: Path, *more: str) -> AsyncIterator[WatchedBroker]:
    places = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
    arguments = "bench.hostile.watched", str(file), "broker", "--name", name, *places, "--json", *more
    async with process(*arguments) as started:
        assert started.stdout is not None
        ready = await started.stdout.readline()
        assert ready, f"the broker did not start: {(await started.communicate())[1].decode()}"
        told = json.loads(ready)
        watched = WatchedBroker(told["listen"], told["http"], started)
        reading = asyncio.create_task(watched.read_log())
        try:
            yield watched
        finally:
            reading.cancel()


async def measure(attack: str | None, seconds: float, is_encrypted: bool) -> dict[str, Any]:
    """Times of the ordinary client, rounds of the brokers, and how often the link between these was lost."""
    with TemporaryDirectory() as folder:
        more = certificates(Path(folder)) if is_encrypted else {"a": (), "b": ()}
        scheme, shown = ("tidingss", folder) if is_encrypted else ("tidings", "")
        files = {name: Path(folder, f"{name}.json") for name in "ab"}
        async with (
            broker("a", files["a"], *more["a"]) as a,
            broker("b", files["b"], "--link", a.address, *more["b"]) as b,
        ):
            for each in (a, b):
                each.started.send_signal(signal.SIGUSR1)
            target = Target(f"{scheme}://{a.address}", f"{scheme}://{b.address}", a.http, shown)
            if attack is None:
                times = await ordinary(target, seconds)
            else:
                async with process("bench.hostile.attacks", attack, *target) as attacker:
                    await asyncio.sleep(LEAD)
                    times = await ordinary(target, seconds)
                    if attacker.returncode is not None:
                        print((await attacker.communicate())[1].decode(), file=sys.stderr)
            lost = a.losses("b")
        watched = {name: json.loads(file.read_text()) for name, file in files.items()}
        return {"times": times, "lost": lost, "watched": watched}


async def ordinary(target: Target, seconds: float) -> dict[str, list[float]]:
    async with process("bench.hostile.ordinary", str(seconds), *target) as started:
        told, problem = await started.communicate()
        assert told, problem.decode()
        times: dict[str, list[float]] = json.loads(told)
        return times


def milliseconds(*spans: float) -> list[str]:
    return [f"{1000 * each:.1f}" for each in spans]


def show(attack: str, found: dict[str, Any], steps: bool) -> bool:
    is_reached = not found["lost"]
    for what, times in found["times"].items():
        # Whoever is not served at all has waited all the time.
        cuts = quantiles(times, n=100, method="inclusive") if len(times) > 1 else [math.inf] * 99
        is_reached = is_reached and cuts[98] < TARGET
        print(
            "|",
            " | ".join(
                [attack, what, *milliseconds(cuts[49], cuts[98], max(times, default=math.inf)), str(found["lost"])]
            ),
            "|",
        )
    for name, told in found["watched"].items():
        is_reached = is_reached and told["rounds"][-1] < ROUND_TARGET
        print("|", " | ".join([attack, f"busy broker {name}", *milliseconds(*told["rounds"]), "-"]), "|", flush=True)
    if steps:
        for name, told in found["watched"].items():
            for kinds in (told["steps"], {f"collection {k}": v for k, v in told["collections"].items()}):
                for kind, (most, total, count) in sorted(kinds.items(), key=lambda item: -item[1][0])[:STEPS_SHOWN]:
                    print(f"    {name}: {kind:<28} longest {1000 * most:7.1f} ms, all {total:6.2f} s of {count}")
            for place, count in told["places"]:
                print(f"    {name}: {count:4} samples in {place}")
    return is_reached


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.hostile", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", choices=ATTACKS, action="append", help="this attack, or these")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long each is measured")
    parser.add_argument("--steps", action="store_true", help="show which steps of the brokers took long")
    arguments = parser.parse_args()
    print("| beside | what | median, ms | 99 %, ms | most, ms | links lost |\n|---|---|---|---|---|---|")
    is_reached = True
    chosen = arguments.only or list(ATTACKS)
    plain = [(None, False), *((each, False) for each in chosen if each not in ENCRYPTED)]
    encrypted = [(None, True), *((each, True) for each in chosen if each in ENCRYPTED)]
    for attack, is_encrypted in (*plain, *(encrypted if len(encrypted) > 1 else ())):
        found = asyncio.run(measure(attack, arguments.seconds, is_encrypted))
        name = attack or ("alone, TLS" if is_encrypted else "alone")
        is_reached = show(name, found, arguments.steps) and is_reached
    return 0 if is_reached else 1


if __name__ == "__main__":
    sys.exit(main())
