"""The benchmarks of the transport: their worlds carry what they say, and their arithmetic is right."""

import io
import subprocess

import pytest

pytest.importorskip("structlog", reason="a host logs with structlog")

from bench import sharing
from bench.namespaces import Bottleneck, Impossible
from bench.sharing import End, Shares
from bench.sharing_roles import IP_TCP_BYTES, PACKET_BYTES
from bench.transport import SWITCHES, measure_bytes, params_of, quotes, run_machines
from tidings.protocols.transport.params import TransportParams


@pytest.mark.parametrize("mode", SWITCHES)
def test_every_event_is_handed_over(mode: str) -> None:
    published_us, received_us = run_machines(params_of(mode), quotes(300))
    assert min(published_us, received_us) > 0


@pytest.mark.spec("T-17", "T-19")
def test_bytes_are_those_of_the_header_and_plain_events_have_none() -> None:
    sizes = measure_bytes(2000)
    heads, row_bytes = quotes(2000), TransportParams().profile.size_bytes
    assert sizes["plain"] == sum(map(len, heads)) / len(heads)
    mark_bytes = sizes["basic order"] - sizes["plain"] - 44
    assert mark_bytes == pytest.approx(23, abs=0.1)
    for entries in (5, 10, 25):
        header_bytes = sizes[f"record of {entries}"] - sizes["plain"] - mark_bytes
        assert header_bytes == pytest.approx(40 + entries * (4 + row_bytes), rel=0.02)
        assert sizes[f"record of {entries}, compressed"] < 0.8 * sizes[f"record of {entries}"]


def test_lines_become_rates() -> None:
    end = End(subprocess.Popen(["true"], text=True))
    end.process.wait()
    end.listen(io.StringIO("10.0 0\n11.0 1000\nsomething else\n13.0 5000\n"))
    assert end.bytes_until(12.0) == 3000
    assert end.rate_bps(11.0, 13.0) == 8 * 2000
    assert end.bytes_until(20.0) == 5000


def test_lines_of_iperf3_become_bytes_on_the_wire() -> None:
    end = End(subprocess.Popen(["true"], text=True))
    end.process.wait()
    lines = [
        "Server listening on 7001 (test #1)",
        "[  5]   0.00-0.50   sec  28.0 KBytes   400 Kbits/sec                  ",
        "[  5]   0.50-1.00   sec  28.0 KBytes   200 Kbits/sec                  ",
    ]
    end.listen(io.StringIO("\n".join(lines) + "\n"))
    assert [total for _, total in end.said][-1] == pytest.approx(
        (400 + 200) * 1000 / 8 / 2 * PACKET_BYTES / (PACKET_BYTES - IP_TCP_BYTES), abs=2
    )


def test_shares_are_judged_by_the_whole_and_by_each_part() -> None:
    even = Shares(900e3, [490e3, 500e3], [510e3, 500e3], 10)
    assert (even.tcp_share, even.is_in_band) == (0.505, True)
    greedy_once = Shares(900e3, [600e3, 400e3], [400e3, 600e3], 10)
    assert greedy_once.tcp_share == 0.5
    assert not greedy_once.is_in_band
    assert not Shares(900e3, [300e3], [700e3], 10).is_in_band


def test_both_flows_pass_the_bottleneck_and_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shape only, in network namespaces: who gets how much of the link is the benchmark's to say. Needs root."""
    for name, seconds in (("ALONE", 0.2), ("SETTLING", 0.2), ("AVERAGED", 0.5)):
        monkeypatch.setattr(sharing, name, seconds)
    try:
        shares = sharing.measure(1.0, "reno", True, Bottleneck())
    except Impossible as problem:
        pytest.skip(str(problem))
    assert len(shares.content) == len(shares.tcp) == 2
