"""Brokers that are told one contact and nothing else, on real sockets."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.services import command, make_service, where
from tests.worlds.loopback import connect, url_of
from tests.worlds.sockets import play, until
from tidings.net.addresses import address_text
from tidings.net.broker.service import BrokerService
from tidings.protocols.overlay.lstree.lstree import LsTree

QUICK = {"overlay": {"kind": "lstree", "merge_first": 0.1, "merge_period": 1.0}}


def joining(name: str, *others: BrokerService | str, **settings: Any) -> BrokerService:
    contacts = [each if isinstance(each, str) else address_text(each.address) for each in others]
    return make_service(name, join=contacts or None, **{**QUICK, **settings})


def tree_of(service: BrokerService) -> LsTree:
    assert isinstance(service.node.overlay, LsTree)
    return service.node.overlay


def is_one_tree(services: list[BrokerService]) -> bool:
    """Every link is seen from both ends, and leads to one root."""
    trees = {service.node.node_id: tree_of(service) for service in services}
    roots = [name for name, tree in trees.items() if tree.kin.above is None]
    is_mutual = all(
        other in trees and name in trees[other].neighbours for name, tree in trees.items() for other in tree.neighbours
    )
    links = sum(len(tree.neighbours) for tree in trees.values())
    return len(roots) == 1 and is_mutual and links == 2 * (len(trees) - 1)


def test_brokers_that_know_one_contact_are_one_network_and_mend_it_when_some_fail() -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            services: list[BrokerService] = []
            for number in range(8):
                service = joining(f"b{number}", *services[:1])
                stack.push_async_callback(service.stop)
                await service.start()
                services.append(service)
            await until(lambda: is_one_tree(services))
            reader = await stack.enter_async_context(connect(url_of(services[-1].address)))
            subscription = await reader.subscribe("x > 1")
            writer = await stack.enter_async_context(connect(url_of(services[3].address)))
            await writer.advertise("TRUE")
            await writer.publish({"x": 5})
            assert (await anext(subscription)).attributes["x"] == 5

            # The first contact and another one go, without a word.
            for gone in (services[0], services[2]):
                gone.host.fail(RuntimeError("crashed by a test"))
            left = [service for service in services if service not in (services[0], services[2])]
            await until(lambda: is_one_tree(left))
            await until(lambda: all(not service.why_not_ready() for service in left))
            await writer.publish({"x": 7})
            assert (await anext(subscription)).attributes["x"] == 7
            await reader.close()
            await writer.close()

    play(scenario())


def test_any_one_contact_that_answers_is_enough_and_the_first_may_come_last() -> None:
    async def scenario() -> None:
        async with joining("a", "127.0.0.1:9") as a, joining("b", "127.0.0.1:9", a) as b:
            await until(lambda: is_one_tree([a, b]))

    play(scenario())


def test_a_network_restarts_without_its_first_contact(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            a = await stack.enter_async_context(joining("a"))
            ports = {}
            async with joining("b", a, data=tmp_path / "b") as b, joining("c", a, data=tmp_path / "c") as c:
                await until(lambda: is_one_tree([a, b, c]))
                ports = {"b": address_text(b.address), "c": address_text(c.address)}
                await until(lambda: not tree_of(b).exchange.is_saving and not tree_of(c).exchange.is_saving)
                known = {*tree_of(b).exchange.cache.entries, *tree_of(b).kin.regional.names()}
                assert "c" in known or "b" in {*tree_of(c).exchange.cache.entries, *tree_of(c).kin.regional.names()}
            await a.leave()
            async with (
                make_service("b", data=tmp_path / "b", listen=ports["b"]) as b,
                make_service("c", data=tmp_path / "c", listen=ports["c"]) as c,
            ):
                # Nobody said again on which overlay they are.
                await until(lambda: is_one_tree([b, c]))

    play(scenario())


def test_doctor_says_of_a_broker_that_was_turned_away_by_all_whom_it_was_to_join(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def scenario() -> None:
        async with make_service("a") as a, joining("b", a) as b:
            await until(lambda: bool(tree_of(b).seeker.why_alone()))
            assert await command("doctor", "--settle", "0", *where(b)) == 1
            shown = capsys.readouterr().out
            assert f"alone: b has found none of the brokers that it was to join: {address_text(a.address)}: " in shown
            assert "start with --overlay spanning-tree" in shown

    play(scenario())


def test_doctor_and_top_show_the_tree(capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario() -> None:
        async with joining("a") as a, joining("b", a) as b:
            await until(lambda: is_one_tree([a, b]))
            await command("doctor", "--settle", "0", *where(a))
            assert "tree a/1: root a, 2 brokers" in capsys.readouterr().out
            await command("top", "--once", *where(a))
            shown = capsys.readouterr().out
            assert "root a/1" in shown and "below a at " in shown

    play(scenario())
