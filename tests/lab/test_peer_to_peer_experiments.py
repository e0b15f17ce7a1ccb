"""E8 to E10: the simulator itself, tiny."""

import pytest

from tidings.lab.peer_to_peer import e8, e9, e10
from tidings.lab.peer_to_peer.feeds import e6, e11, e12, e13
from tidings.trace.writers import RingBuffer


def test_percentiles_of_round_trips_are_in_order_and_near_the_published_median() -> None:
    found = e8.run("", {"hosts": 60}, 1, RingBuffer(1))
    values = [found[f"round trip|{name}"] for name in e8.SHARES]
    assert values == sorted(values)
    assert found["round trip|50 %"] == pytest.approx(0.093, rel=0.2)


def test_the_same_seed_gives_the_same_trace_and_another_seed_another() -> None:
    found = e9.run("", {"nodes": 12, "seconds": 3.0}, 1, RingBuffer(1))
    assert found == {"differs|same seed": 0.0, "differs|other seed": 1.0}


def test_memory_and_messages_of_many_nodes_are_measured() -> None:
    found = e10.run("", {"nodes": 200, "seconds": 65.0}, 1, RingBuffer(1))
    assert found["received|"] > 200
    assert 0.01 < found["memory|"] < 50.0


def test_ways_along_a_tree_of_readers_on_a_plane_are_nearly_straight() -> None:
    """Shape only: a quarter of an hour."""
    found = e11.run("", {"readers": 25, "children_max": 3, "seconds": 900.0}, 1, RingBuffer(1))
    assert found["in the tree|"] == 1.0 and found["noise|"] == 0.0
    assert 1.0 <= found["stretch|mean"] < 1.5


def test_readers_mend_their_tree_after_half_of_them_failed() -> None:
    """Shape only: 20 readers, and 20 minutes."""
    found = e12.run("", {"readers": 20, "seconds": 1200.0}, 1, RingBuffer(1))
    assert found["delivered|"] == 1.0 and found["noise|"] == 0.0
    assert 1.0 <= found["copies|"] <= 1.05
    assert found["recovery|after the failure"] <= 180.0 and found["recovery|after the return"] <= 180.0


def test_false_positives_are_near_the_formula() -> None:
    found = e6.run("", {"probes": 20_000}, 1, RingBuffer(1))
    assert all(0.5 < found[f"by the formula|{read} feeds"] < 1.5 for read in e6.READ)


def test_stretch_is_measured_near_the_publisher_and_far_from_it() -> None:
    """Shape only: 24 readers."""
    found = e13.run("", {"readers": 24, "seconds": 600.0}, 1, RingBuffer(1))
    assert found["stretch|farthest quarter"] >= 1.0 and found["noise|"] == 0.0
