"""A content-based flow beside the kernel's own TCP, through a bottleneck that the kernel's `tc` makes (T-117, E22).

Two pairs of processes in three network namespaces; `bench/sharing.py` is the same at full length. Needs root; elsewhere
it is skipped, with the reason. The band of T-117 is judged by the bench, over a longer time and for each 20 s of it: on
a machine that runs other tests at the same time, a pause of a process is a pause of its flow. Here it must be seen that
the flow makes room for TCP while the link stays full, and that it would not without congestion control.
"""

import pytest

pytest.importorskip("structlog", reason="a host logs with structlog")

from bench.namespaces import Bottleneck, Impossible
from bench.sharing import Shares, measure

SECONDS = 40.0
LINK = Bottleneck()


def shares_of(is_paced: bool, seconds: float = SECONDS) -> Shares:
    try:
        return measure(seconds, "reno", is_paced, LINK)
    except Impossible as problem:
        pytest.skip(str(problem))


@pytest.mark.timeout(240)
def test_a_content_flow_leaves_tcp_its_share_of_the_bottleneck() -> None:
    shares = shares_of(is_paced=True)
    assert 0.25 <= shares.tcp_share <= 0.75, shares
    assert shares.content_alone >= 0.8 * LINK.rate_bps
    assert sum(shares.content) + sum(shares.tcp) >= 0.9 * LINK.rate_bps * len(shares.tcp)


@pytest.mark.timeout(240)
def test_without_congestion_control_it_keeps_nearly_everything() -> None:
    shares = shares_of(is_paced=False, seconds=20.0)
    assert shares.tcp_share <= 0.1, shares
