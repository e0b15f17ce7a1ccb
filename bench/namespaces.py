"""Three network namespaces in a row with a bottleneck of the kernel's own between them.

    left --- veth --- router --- cable with a delay --- right
                          tc: so many bits a second, a queue of so many packets, what does not fit is dropped

The bottleneck must not be at the sender: there the kernel's TCP sees its own queue and never fills it. The cable is a
TUN device whose packets a process hands on after a while (`tests/parity/delay_line.py`), since not every kernel can
delay packets itself. Packets are never joined into larger ones, so that the queue counts what is on the wire. Needs
root.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
DELAY_LINE = ROOT / "tests" / "parity" / "delay_line.py"
CABLE = "delayed"
LEFT, RIGHT = "10.97.1.1", "10.97.2.2"
LEFT_ROUTER, RIGHT_ROUTER = "10.97.1.2", "10.97.2.1"
COMMAND_SECONDS_MAX = 30


class Impossible(Exception):
    """Such a network cannot be made here; the text says why."""


@dataclass(frozen=True)
class Bottleneck:
    rate_bps: int = 1_000_000
    queue_packets: int = 50
    delay: float = 0.02
    """Seconds, one way."""


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_SECONDS_MAX)


def must(*words: str) -> str:
    done = command(*words)
    if done.returncode != 0:
        raise Impossible(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def name_of(place: str) -> str:
    return f"tidings-{os.getpid()}-{place}"


def inside(place: str, *words: str) -> list[str]:
    """The command that runs these words there."""
    return ["ip", "netns", "exec", name_of(place), *words]


@contextmanager
def network(bottleneck: Bottleneck) -> Iterator[None]:
    """The three namespaces `left`, `router` and `right`; raises Impossible."""
    if shutil.which("ip") is None or shutil.which("tc") is None:
        raise Impossible("network namespaces need the programs ip and tc, of iproute2")
    with ExitStack() as stack:
        for place in ("left", "router", "right"):
            must("ip", "netns", "add", name_of(place))
            stack.callback(command, "ip", "netns", "del", name_of(place))
            # The kernel would look for neighbours by itself, and no packet may come before both ends are up.
            command(*inside(place, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"))
            must("ip", "-n", name_of(place), "link", "set", "lo", "up")
        stack.enter_context(cable(bottleneck.delay))
        ends = ("ip", "link", "add", "near", "netns", name_of("left"), "type", "veth")
        must(*ends, "peer", "name", "near", "netns", name_of("router"))
        for place, interface, address in (
            ("left", "near", LEFT),
            ("router", "near", LEFT_ROUTER),
            ("router", CABLE, RIGHT_ROUTER),
            ("right", CABLE, RIGHT),
        ):
            there = ("ip", "-n", name_of(place))
            must(*there, "address", "add", f"{address}/24", "dev", interface)
            must(*there, "link", "set", interface, "gso_max_segs", "1", "up")
        must("ip", "-n", name_of("left"), "route", "add", "default", "via", LEFT_ROUTER)
        must("ip", "-n", name_of("right"), "route", "add", "default", "dev", CABLE)
        must(*inside("router", "sysctl", "-qw", "net.ipv4.ip_forward=1"))
        narrow(bottleneck)
        yield


def narrow(bottleneck: Bottleneck) -> None:
    """Everything from the router to the right passes one class of `htb` and waits in one queue."""
    there = ("tc", "-n", name_of("router"))
    must(*there, "qdisc", "add", "dev", CABLE, "root", "handle", "1:", "htb", "default", "1")
    rate = ("rate", f"{bottleneck.rate_bps}bit", "burst", "1600", "cburst", "1600", "quantum", "1600")
    must(*there, "class", "add", "dev", CABLE, "parent", "1:", "classid", "1:1", "htb", *rate)
    must(*there, "qdisc", "add", "dev", CABLE, "parent", "1:1", "pfifo", "limit", str(bottleneck.queue_packets))


def dropped_packets() -> int:
    """What the queue of the bottleneck has dropped so far."""
    words = must("tc", "-n", name_of("router"), "-s", "qdisc", "show", "dev", CABLE).split()
    return max(int(after.strip(",")) for word, after in pairwise(words) if word == "(dropped")


@contextmanager
def cable(delay: float) -> Iterator[None]:
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        raise Impossible("/dev/net/tun is not there, or not ours to use")
    line = subprocess.Popen(
        [sys.executable, str(DELAY_LINE), name_of("router"), name_of("right"), str(delay)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with line:
        assert line.stdin and line.stdout and line.stderr
        if line.stdout.readline() != "ready\n":
            raise Impossible(f"a TUN device cannot be made here: {line.stderr.read().splitlines()[-1]}")
        yield
        line.stdin.close()
