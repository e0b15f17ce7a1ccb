"""Faults of every kind on trees that mend themselves, and what brokers that left for good leave behind."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.worlds.trees import TreeWorld
from tidings.machine.streams import RandomStream, random_stream
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.sim.library.trees import KINDS, trees
from tidings.sim.order import RunOrder
from tidings.sim.scenario import run_scenario

LIVING, QUIET = 20, 1800.0


@pytest.mark.parametrize("seed", [*range(20), 149, 370, 371, 383, 385, 424, 457, 628, 13240, 52172])
def test_five_seconds_after_the_last_fault_all_is_well(seed: int) -> None:
    """The last ten failed once: calls never called off, links to an earlier life, roots that waited, what an
    earlier life had sent, one on its way below a nearer broker."""
    result = run_scenario(trees(), seed, check="never", frames=False)
    again = RunOrder(scenario="trees", seed=seed, check="never", frames=False).command()
    assert result.passed, f"{result.problems[0]}; again: {again}"


@pytest.mark.parametrize("seed", range(12))
def test_where_brokers_move_all_the_time_all_is_well_when_they_have_found_their_places(seed: int) -> None:
    result = run_scenario(trees(moving=True), seed, check="never", frames=False)
    assert result.passed, result.problems[0]


@pytest.mark.parametrize("seed", range(3))
def test_with_every_step_checked_and_every_message_as_bytes(seed: int) -> None:
    assert run_scenario(trees(nodes=6, subscriptions=10), seed, check="every").passed


def test_every_kind_of_fault_is_drawn() -> None:
    kinds = [draw(random_stream(1, "one of each"), ("a", "b", "c", "d", "e", "f"), 10.0, 2.0) for draw in KINDS]
    assert {fault.kind for faults in kinds for fault in faults} == {"crash", "pause", "break", "partition"}


def mentions(value: Any, names: set[str], passed: set[int]) -> Iterator[str]:
    """Each place of a state in which one of these is named."""
    if isinstance(value, str):
        if value in names:
            yield value
        return
    if value is None or isinstance(value, int | float | bytes | type | RandomStream) or id(value) in passed:
        return
    passed.add(id(value))
    if isinstance(value, dict):
        inner = [*value, *value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        inner = list(value)
    elif isinstance(value, msgspec.Struct):
        inner = [getattr(value, name) for name in value.__struct_fields__]
    else:
        slots = [getattr(value, name, None) for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        inner = [*getattr(value, "__dict__", {}).values(), *slots]
    for each in inner:
        yield from mentions(each, names, passed)


def bytes_about_the_departed(leavers: int) -> float:
    """Of each living broker, on average, when as many have come and gone: names that it holds, eight bytes for what
    stands beside each."""
    world = TreeWorld(1, LIVING, LsTreeParams(contacts_kept=10), is_watched=False)
    world.run(10.0)
    departed: set[str] = set()
    for number in range(leavers):
        world.add(f"leaver{number}", contacts=("d0", "d1", "d2"))
        world.run(1.0)
        world.crash(f"leaver{number}")
        departed.add(f"leaver{number}")
    world.run(QUIET)
    world.assert_one_tree()
    machines = [world.simulator.nodes[name].machine for name in world.names]
    found = [len(name) + 8 for machine in machines for name in mentions(machine, departed, set())]
    return sum(found) / len(machines)


def test_what_is_kept_of_brokers_that_left_is_bounded_and_small() -> None:
    """Shape only: a thirtieth of the joins and leaves."""
    assert bytes_about_the_departed(300) < 64


@pytest.mark.long
def test_after_ten_thousand_joins_and_leaves_less_than_64_bytes_are_kept_for_each_living_broker() -> None:
    assert bytes_about_the_departed(10_000) < 64
