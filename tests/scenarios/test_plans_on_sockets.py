"""A plan on brokers of loopback, while events flow; and a deployer that dies."""

import asyncio
from pathlib import Path

import pytest

from tests.worlds.loopback import Broker, connect
from tests.worlds.sockets import play, until
from tidings.cli.live_plans import Followed, live_tree
from tidings.cli.reach import Reach
from tidings.net.inspector import InspectorAccess, NotPlanned
from tidings.planning.operations import Action
from tidings.planning.plan import TopologyPlan
from tidings.planning.tree import tree_of

LINKS = (("b1", "b2"), ("b2", "b3"), ("b3", "b4"))
GOAL = tree_of([("b1", "b2"), ("b2", "b3"), ("b2", "b4")])
STEPS = ((Action("shift", ("b4", "b3", "b2")),),)
EVENTS = 300


async def line_of_brokers(folder: Path) -> dict[str, Broker]:
    brokers: dict[str, Broker] = {}
    for number in range(1, 5):
        name = f"b{number}"
        links = [brokers[f"b{number - 1}"].address] if number > 1 else []
        (folder / name).mkdir(mode=0o700)
        brokers[name] = Broker(name, links, storage=folder / name / "store.db", is_steered=True)
        await brokers[name].start()
    degrees = {"b1": 1, "b2": 2, "b3": 2, "b4": 1}
    await until(lambda: all(len(brokers[name].node.overlay.neighbours) == degrees[name] for name in brokers))
    await until(lambda: all(not broker.node.why_not_ready() for broker in brokers.values()))
    return brokers


def reach_of(broker: Broker) -> Reach:
    host, port = broker.address
    return Reach(f"{host}:{port}", InspectorAccess())


async def carried_out_under_load(folder: Path) -> None:
    brokers = await line_of_brokers(folder)
    reach = reach_of(brokers["b1"])
    async with connect(brokers["b4"].url) as reader, connect(brokers["b1"].url) as writer:
        await writer.advertise("n >= 0")
        subscription = await reader.subscribe("n >= 0")
        live = await live_tree(reach)
        assert set(live.tree.links) == set(LINKS)
        got: list[object] = []

        async def publish() -> None:
            for number in range(EVENTS):
                await writer.publish({"n": number})
                await asyncio.sleep(0)

        async def read() -> None:
            async for event in subscription:
                got.append(event.event.attributes["n"])
                if len(got) == EVENTS:
                    return

        plan = TopologyPlan(live.tree, GOAL, STEPS)
        row, *_ = await asyncio.gather(Followed(reach, True).carry_out(live, plan), publish(), read())
        assert (row.state, row.actions_done) == ("done", 1)
        assert got == list(range(EVENTS))
    assert set((await live_tree(reach)).tree.links) == set(GOAL.links)
    with pytest.raises(NotPlanned, match="no plan is carried out here"):
        await Followed(reach, True).order("abort")
    for broker in brokers.values():
        await broker.stop()


def test_a_plan_under_load_loses_nothing_doubles_nothing_and_keeps_the_order(tmp_path: Path) -> None:
    play(carried_out_under_load(tmp_path))


async def started_again(folder: Path) -> None:
    brokers = await line_of_brokers(folder)
    reach = reach_of(brokers["b1"])
    live = await live_tree(reach)
    await Followed(reach, True).carry_out(live, TopologyPlan(live.tree, GOAL, STEPS))
    address = brokers["b4"].address
    await brokers["b4"].crash()
    brokers["b4"] = Broker("b4", [brokers["b3"].address], address, folder / "b4" / "store.db", is_steered=True)
    await brokers["b4"].start()
    await until(lambda: brokers["b4"].node.overlay.neighbours == ["b2"])
    await until(lambda: "b4" in brokers["b2"].node.overlay.neighbours)
    assert "b4" not in brokers["b3"].node.overlay.neighbours
    for broker in brokers.values():
        await broker.stop()


def test_brokers_that_start_again_have_the_neighbours_that_a_plan_gave_them(tmp_path: Path) -> None:
    play(started_again(tmp_path))
