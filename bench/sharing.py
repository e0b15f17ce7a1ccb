"""`python -m bench.sharing`: a content-based flow beside the kernel's own TCP behind one bottleneck (T-117, E22).

Two pairs of processes in network namespaces (`bench/namespaces.py`) share a link of 1 Mbit/s with a queue of 50 packets
and 20 ms of delay: a publisher and a subscriber with congestion control, over UDP, and a TCP connection that always has
more to send (our own sockets, or iperf3 with --iperf3). Packets of both have the same size, 285 bytes, because both
control packets, not bytes: where sizes differ, so do the shares. The content flow comes first, TCP later; what counts
is the time from `SETTLING` after that.

Band, stated in advance: TCP gets 45 to 60 % of what both get, and the content flow never more than TCP and 5 % of the
total, on averages over 20 s. Without congestion control the content flow keeps what it wants, which is shown beside it.
Needs root.
"""

import argparse
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import IO

from bench.namespaces import RIGHT, ROOT, Bottleneck, Impossible, dropped_packets, inside, network
from bench.sharing_roles import IP_TCP_BYTES, MAXSEG, PACKET_BYTES, TCP_PORT

DEMAND = 1000.0
"""Events a second that the publisher would like to send: more than twice what the link carries."""

ALONE = 10.0
"""Seconds before TCP comes."""
SETTLING = 10.0
"""Seconds for the two to find their shares."""
AVERAGED = 20.0
ENDING_SECONDS_MAX = 120.0

SAID = re.compile(r"[0-9.]+ [0-9]+")
IPERF_RATE = re.compile(r"([0-9.]+)-([0-9.]+) +sec .* ([0-9.]+) Kbits/sec *$")

SHARE_MIN, SHARE_MAX = 0.45, 0.60
EXCESS_MAX = 0.05


@dataclass
class End:
    """A process, and what it said: times, and bytes until then."""

    process: subprocess.Popen[str]
    said: list[tuple[float, int]] = field(default_factory=list)

    def listen(self, lines: IO[str]) -> None:
        for line in lines:
            rate = IPERF_RATE.search(line)
            if rate is not None:
                self.add_interval(float(rate[2]) - float(rate[1]), float(rate[3]))
            elif "Server listening" in line:
                self.said.append((time.monotonic(), 0))
            elif SAID.fullmatch(line.strip()):
                at, total = line.split()
                self.said.append((float(at), int(total)))

    def add_interval(self, seconds: float, kbps: float) -> None:
        """As iperf3 says it: the payload of the last seconds."""
        on_wire = kbps * 1000 / 8 * seconds * PACKET_BYTES / (PACKET_BYTES - IP_TCP_BYTES)
        self.said.append((time.monotonic(), self.said[-1][1] + round(on_wire)))

    def bytes_until(self, at: float) -> float:
        """Between two lines it is taken to grow evenly."""
        earlier = (0.0, 0)
        for later in self.said:
            if later[0] >= at:
                return earlier[1] + (later[1] - earlier[1]) * (at - earlier[0]) / (later[0] - earlier[0])
            earlier = later
        return earlier[1]

    def rate_bps(self, begin: float, end: float) -> float:
        return 8 * (self.bytes_until(end) - self.bytes_until(begin)) / (end - begin)


def ours(*words: str) -> list[str]:
    return [sys.executable, "-m", "bench.sharing_roles", *words]


def tcp_receiver(with_iperf: bool) -> list[str]:
    if not with_iperf:
        return ours("receiver")
    return ["iperf3", "-s", "-1", "-B", RIGHT, "-p", str(TCP_PORT), "-i", "0.5", "-f", "k", "--forceflush"]


def tcp_sender(with_iperf: bool, algorithm: str, seconds: float) -> list[str]:
    if not with_iperf:
        return ours("sender", algorithm)
    how = ["-M", str(MAXSEG), "-C", algorithm, "-t", str(int(seconds) + 1), "-i", "0", "-l", "16K"]
    return ["iperf3", "-c", RIGHT, "-p", str(TCP_PORT), *how]


@contextmanager
def role(place: str, words: Sequence[str]) -> Iterator[End]:
    process = subprocess.Popen(
        inside(place, *words),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdin and process.stdout
    end = End(process)
    listening = threading.Thread(target=end.listen, args=(process.stdout,))
    listening.start()
    try:
        yield end
        process.stdin.close()
        process.wait(ENDING_SECONDS_MAX)
    finally:
        process.kill()
        process.wait()
        listening.join()
        process.stdout.close()


def wait_for_word(end: End, bytes_min: int = 0) -> None:
    """Until it has said that so many bytes came."""
    while not end.said or end.said[-1][1] < bytes_min:
        if end.process.poll() is not None:
            raise RuntimeError("a process ended before it said what was waited for")
        time.sleep(0.05)


@dataclass(frozen=True)
class Shares:
    """Rates in bits a second, over `AVERAGED` seconds each, one behind the other."""

    content_alone: float
    content: list[float]
    tcp: list[float]
    dropped: int

    @property
    def tcp_share(self) -> float:
        return sum(self.tcp) / (sum(self.tcp) + sum(self.content))

    @property
    def excess_max(self) -> float:
        """By how much of the total the content flow was above TCP, at most."""
        return max((content - tcp) / (content + tcp) for content, tcp in zip(self.content, self.tcp, strict=True))

    @property
    def is_in_band(self) -> bool:
        return SHARE_MIN <= self.tcp_share <= SHARE_MAX and self.excess_max <= EXCESS_MAX


def measure(seconds: float, algorithm: str, is_paced: bool, bottleneck: Bottleneck, with_iperf: bool = False) -> Shares:
    """Raises Impossible."""
    paced = "paced" if is_paced else "unpaced"
    with network(bottleneck), ExitStack() as stack:
        subscriber = stack.enter_context(role("right", ours("subscriber", paced)))
        receiver = stack.enter_context(role("right", tcp_receiver(with_iperf)))
        for end in (subscriber, receiver):
            wait_for_word(end)
        with role("left", ours("publisher", paced, str(DEMAND))):
            wait_for_word(subscriber, PACKET_BYTES)
            began = time.monotonic()
            time.sleep(ALONE)
            with role("left", tcp_sender(with_iperf, algorithm, SETTLING + seconds)):
                wait_for_word(receiver, PACKET_BYTES)
                joined = time.monotonic()
                time.sleep(SETTLING + seconds)
                dropped = dropped_packets()
        begin = joined + SETTLING
        windows = [
            (begin + place * AVERAGED, begin + (place + 1) * AVERAGED) for place in range(int(seconds / AVERAGED))
        ]
        return Shares(
            subscriber.rate_bps(began + ALONE / 2, joined),
            [subscriber.rate_bps(*window) for window in windows],
            [receiver.rate_bps(*window) for window in windows],
            dropped,
        )


def shown(name: str, shares: Shares) -> str:
    rates = "  ".join(
        f"{content / 1000:4.0f}/{tcp / 1000:4.0f}" for content, tcp in zip(shares.content, shares.tcp, strict=True)
    )
    verdict = "in the band" if shares.is_in_band else "outside"
    return (
        f"{name:<24}{shares.content_alone / 1000:>7.0f}{shares.tcp_share:>9.1%}{shares.excess_max:>+9.1%}"
        f"{shares.dropped:>9}  {verdict:<12} {rates}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.sharing", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="measured for so long, a multiple of 20 (60)")
    parser.add_argument("--tcp", nargs="*", default=["reno", "cubic"], help="algorithms of TCP (reno cubic)")
    parser.add_argument("--queue", type=int, default=50, help="packets in the queue of the bottleneck (50)")
    parser.add_argument("--iperf3", action="store_true", help="let iperf3 send and receive, instead of our own sockets")
    parser.add_argument("--delay", type=float, default=0.02, help="seconds of delay, one way (0.02)")
    asked = parser.parse_args(arguments)
    bottleneck = Bottleneck(queue_packets=asked.queue, delay=asked.delay)
    print(f"{'':<24}{'alone':>7}{'TCP':>9}{'excess':>9}{'dropped':>9}  {'verdict':<12} content/TCP, kbit/s, each 20 s")
    try:
        for algorithm in asked.tcp:
            for is_paced in (True, False):
                name = f"{algorithm}, {'paced' if is_paced else 'not paced'}"
                print(shown(name, measure(asked.seconds, algorithm, is_paced, bottleneck, asked.iperf3)), flush=True)
    except Impossible as problem:
        print(f"not possible here: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
