"""Experiments on the tree from a ring, very small, against plain Python."""

import pytest

from tidings.lab.dynamic_topologies.dhtree import e22, e23
from tidings.trace.writers import RingBuffer


def test_degrees_are_those_of_a_tree_and_shares_of_hosts_add_up() -> None:
    made = e22.run("stable", {"binary_hosts": 100, "share": 0.02}, 1, RingBuffer(10))
    assert made["most children|binary"] <= 2
    assert sum(made[f"children, binary|{count}"] for count in range(3)) == pytest.approx(1.0)
    children = sum(count * made[f"children, binary|{count}"] for count in range(3))
    assert children * 100 == pytest.approx(99)


def test_the_area_of_a_change_is_the_least_subtree_with_its_ends() -> None:
    #       0
    #     1   2
    #    3 4   5
    parents: e23.Parents = {0: None, 1: 0, 2: 0, 3: 1, 4: 1, 5: 2}
    assert e23.area_of(parents, {3, 4}) == 3
    assert e23.area_of(parents, {3, 5}) == 5
    assert e23.area_of(parents, {4}) == 1
    assert e23.area_of(parents, set()) == 0
    joined: e23.Parents = {**parents, 6: 1, 3: 6}
    assert e23.change(parents, joined) == (2, 1, 3)
    assert e23.change(joined, parents) == (1, 2, 2)
