"""A network that grows, and then loses a third of itself: 1,000 dispatchers that join one after the other from three
contacts each, 20 to 80 ms one way."""

import pytest

from tests.worlds.trees import TreeWorld
from tidings.protocols.overlay.lstree.params import LsTreeParams

NODES, SPACING = 1_000, 0.01


@pytest.mark.parametrize("seed", [1, 5])
def test_a_thousand_that_lose_a_third_are_one_tree_again_within_three_seconds(seed: int) -> None:
    world = TreeWorld(seed, NODES, LsTreeParams(), spacing=SPACING, is_watched=False)
    world.run(NODES * SPACING + 10.0)
    world.assert_one_tree()
    assert max(world.degrees().values()) <= 8
    world.crash(*world.draws.sample(world.names, NODES // 3))
    world.run(3.0)
    world.assert_one_tree()
