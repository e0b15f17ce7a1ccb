"""A broker looks for garbage among few objects at a time, and in the end finds all of it."""

import gc
import weakref
from typing import Any

from tidings.net.broker.garbage import THAW_PERIOD, THAW_PERIOD_MAX, SteppedCollection


class Circle:
    """Refers to itself."""

    def __init__(self) -> None:
        self.itself = self


class World:
    def __init__(self) -> None:
        self.now = self.worked = 0.0

    def collection(self) -> SteppedCollection:
        return SteppedCollection(lambda: self.worked, lambda: self.now)


def test_what_survives_is_not_looked_at_again() -> None:
    sizes: list[int] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            sizes.append(sum(len(gc.get_objects(generation=each)) for each in range(info["generation"] + 1)))

    kept: list[list[int]] = []
    with World().collection():
        gc.callbacks.append(note)
        try:
            for number in range(200_000):
                kept.append([number])
        finally:
            gc.callbacks.remove(note)
        assert len(sizes) > 20
        assert max(sizes) < 50_000
        assert sum(len(gc.get_objects(generation=each)) for each in range(3)) < 50_000


def test_circles_among_what_was_set_aside_are_found_when_the_broker_is_quiet() -> None:
    world = World()
    with world.collection() as collection:
        circle = Circle()
        gone = weakref.ref(circle)
        gc.collect(1)
        del circle
        gc.collect()
        assert gone() is not None, "it was set aside"
        world.now += THAW_PERIOD / 2
        assert not collection.look()
        world.now += THAW_PERIOD / 2
        assert collection.look()
        assert gone() is None


def test_a_broker_that_is_never_quiet_looks_seldom() -> None:
    world = World()
    with world.collection() as collection:
        looks = []
        for second in range(1, int(THAW_PERIOD_MAX) + 60):
            world.now, world.worked = float(second), second / 2
            if collection.look():
                looks.append(second)
        assert looks == [int(THAW_PERIOD_MAX)]


def test_afterwards_everything_is_as_before() -> None:
    before, callbacks = gc.get_threshold(), list(gc.callbacks)
    with World().collection():
        assert gc.get_threshold() != before
    assert gc.get_threshold() == before and gc.callbacks == callbacks and gc.get_freeze_count() == 0
