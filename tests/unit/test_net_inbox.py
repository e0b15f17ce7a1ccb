"""What waits for the application: bounded, and each policy does what its name says."""

import asyncio

import pytest

from tests.worlds.sockets import play
from tidings.net.errors import HostError
from tidings.net.inbox import Inbox
from tidings.net.params import InboxPolicy


def make_inbox(policy: InboxPolicy, size_max: int = 4) -> tuple[Inbox, list[str]]:
    relieved: list[str] = []
    return Inbox(size_max, policy, lambda: relieved.append("relieved")), relieved


def test_a_full_inbox_drops_the_newest() -> None:
    inbox, _ = make_inbox(InboxPolicy.DROP_NEWEST, 2)
    assert [inbox.put(number) for number in range(4)] == [(), (), (2,), (3,)]
    assert inbox.take_all() == [0, 1]


def test_a_full_inbox_drops_the_oldest() -> None:
    inbox, _ = make_inbox(InboxPolicy.DROP_OLDEST, 2)
    assert [inbox.put(number) for number in range(4)] == [(), (), (0,), (1,)]
    assert inbox.take_all() == [2, 3]


def test_a_full_inbox_pauses_and_is_relieved_when_half_of_it_was_taken() -> None:
    inbox, relieved = make_inbox(InboxPolicy.PAUSE)
    for number in range(4):
        assert inbox.put(number) == ()
    assert inbox.is_pausing
    assert inbox.put("too much") == ("too much",)
    assert (inbox.take(), relieved) == (0, [])
    assert (inbox.take(), relieved) == (1, ["relieved"])
    assert not inbox.is_pausing


def test_items_are_waited_for_in_order() -> None:
    async def scenario() -> list[int]:
        inbox, _ = make_inbox(InboxPolicy.PAUSE)
        first, second = asyncio.ensure_future(inbox.get()), asyncio.ensure_future(inbox.get())
        await asyncio.sleep(0)
        inbox.put(1)
        inbox.put(2)
        return [await first, await second]

    assert play(scenario()) == [1, 2]


def test_an_item_is_not_lost_with_a_waiter_that_gives_up() -> None:
    async def scenario() -> int:
        inbox, _ = make_inbox(InboxPolicy.PAUSE)
        impatient, patient = asyncio.ensure_future(inbox.get()), asyncio.ensure_future(inbox.get())
        await asyncio.sleep(0)
        inbox.put(1)
        impatient.cancel()
        found: int = await patient
        assert impatient.cancelled()
        return found

    assert play(scenario()) == 1


def test_iteration_ends_when_the_host_has_stopped_and_everything_was_taken() -> None:
    async def scenario() -> list[int]:
        inbox, _ = make_inbox(InboxPolicy.PAUSE)
        inbox.put(1)
        inbox.put(2)
        asyncio.get_running_loop().call_soon(inbox.end, None)
        found = [item async for item in inbox]
        with pytest.raises(HostError, match="the host has stopped"):
            await inbox.get()
        return found

    assert play(scenario()) == [1, 2]


def test_a_failure_comes_out_behind_the_last_item() -> None:
    async def scenario() -> None:
        inbox, _ = make_inbox(InboxPolicy.PAUSE)
        inbox.put(1)
        inbox.end(AssertionError("broken"))
        assert await inbox.get() == 1
        with pytest.raises(AssertionError, match="broken"):
            await inbox.get()

    play(scenario())
