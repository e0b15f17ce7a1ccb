"""Bulk transfers of machines: shared links, both ends told, given up by either."""

import pytest

from tests.worlds.puppets import PuppetWorld
from tidings.machine.effects import CancelTransfer, Transfer
from tidings.machine.inputs import Received, Transferred
from tidings.model.errors import UsageError
from tidings.protocols.teaching.ping import Echo
from tidings.sim.network.bandwidth import Bandwidth
from tidings.sim.network.flows import Shared
from tidings.sim.network.latency import Constant
from tidings.sim.network.loss import Duplication
from tidings.sim.network.rule import Rule

MEGABYTE = 1_000_000


def shared() -> Rule:
    """Whoever sends to c shares 8 Mbit/s; other pairs have as much for themselves."""

    def path(sender: str, to: str) -> tuple[str, ...]:
        return ("to c",) if to == "c" else ("elsewhere",)

    return Duplication(Shared(Constant(0.5), {"to c": 8e6, "elsewhere": 8e6}, path), probability=0.0)


def bulk(key: str, to: str = "c", size_bytes: int = MEGABYTE) -> Transfer:
    return Transfer(key, to, Echo(7), size_bytes)


@pytest.mark.parametrize("checking", [False, True])
def test_transfers_share_a_link_and_both_ends_hear_of_the_end(checking: bool) -> None:
    world = PuppetWorld("a", "b", "c", network=shared(), checking=checking)
    world.say(0.0, "a", bulk("one"))
    world.say(0.5, "b", bulk("two"))
    world.run(10.0)
    # Alone for half a second, then half the rate each: one has left at 1.5, two at 2.0; half a second of latency.
    assert world.puppet("c").seen == [
        (2.0, Received("a", Echo(7), MEGABYTE)),
        (2.5, Received("b", Echo(7), MEGABYTE)),
    ]
    assert world.puppet("a").seen == [(2.0, Transferred("one"))]
    assert world.puppet("b").seen == [(2.5, Transferred("two"))]
    assert (world.counters().sent, world.counters().in_flight) == (2, 0)


def test_a_cancelled_transfer_leaves_the_link_to_the_others() -> None:
    world = PuppetWorld("a", "b", "c", network=shared())
    world.say(0.0, "a", bulk("one"))
    world.say(0.0, "b", bulk("two"))
    world.say(1.0, "a", CancelTransfer("one"), CancelTransfer("never begun"))
    world.run(10.0)
    assert [at for at, _ in world.puppet("c").seen] == [2.0]
    assert world.puppet("a").seen == []
    assert world.counters().lost == {"the transfer was cancelled": 1}


def test_a_transfer_ends_with_its_sender_and_fails_without_its_receiver() -> None:
    world = PuppetWorld("a", "b", "c", network=shared())
    world.say(0.0, "a", bulk("one"))
    world.say(0.0, "b", bulk("two"), bulk("three", to="nobody"))
    world.call_at(1.0, lambda: world.crash("a"))
    world.call_at(1.2, lambda: world.crash("c"))
    world.run(10.0)
    assert world.puppet("b").seen == [
        (0.0, Transferred("three", "no such node")),
        (2.0, Transferred("two", "the receiver of the transfer is down")),
    ]
    assert world.counters().in_flight == 0


def test_where_no_links_are_shared_a_transfer_takes_as_long_as_its_size_takes_the_network() -> None:
    world = PuppetWorld("a", "b", network=Bandwidth(Constant(0.5), rate_bps=8e6, headers_bytes=0))
    world.say(0.0, "a", bulk("one", to="b"))
    world.run(10.0)
    assert world.puppet("a").seen == [(1.5, Transferred("one"))]


def test_two_transfers_of_one_name_are_refused() -> None:
    world = PuppetWorld("a", "c", network=shared())
    world.say(0.0, "a", bulk("one"), bulk("one"))
    with pytest.raises(UsageError, match="under way already"):
        world.run(1.0)
