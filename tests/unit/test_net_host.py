"""The host: inputs one at a time, effects in order, time that does not go back, links that are asked for."""

import asyncio
import math
import os
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.puppets import Puppet
from tests.worlds.sockets import PATIENT, QUIET, BarePeer, acquaint, heard, order, patient, play, puppet_host, until
from tidings.machine.effects import (
    CancelTimer,
    CancelTransfer,
    Compute,
    Connect,
    Deliver,
    Disconnect,
    Drop,
    Effect,
    Job,
    Load,
    Save,
    Send,
    SetTimer,
    Transfer,
    Transport,
)
from tidings.machine.inputs import (
    Computed,
    Fired,
    Input,
    LinkDown,
    LinkUp,
    Loaded,
    Received,
    Saved,
    Signal,
    Transferred,
)
from tidings.machine.message import Message
from tidings.machine.node import Node
from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.net import Host, HostError, InboxPolicy, run
from tidings.net.directory import Directory
from tidings.net.host import NO_TRANSFERS
from tidings.protocols.teaching.gossip import Gossip, GossipParams
from tidings.protocols.teaching.ping import Ping, PingParams, Probe
from tidings.pubsub.notes import HistoryUnreadable
from tidings.pubsub.requests import Publish
from tidings.trace.record import TraceError
from tidings.trace.writers import RingBuffer
from tidings.wire import encode, frame
from tidings.wire.handshake import Hello


class Sum(Job, frozen=True):
    """A job."""

    numbers: tuple[int, ...]

    def run(self) -> int:
        return sum(self.numbers)


class Failing(Job, frozen=True):
    def run(self) -> int:
        raise ValueError("no such number")


class Hint(Signal, frozen=True):
    pass


@pytest.mark.spec("P-18")
def test_messages_come_first_and_expired_timers_after_them() -> None:
    """P-18: while this thread is busy a timer comes due and a message arrives; the message is handled first."""

    async def scenario() -> list[str]:
        async with puppet_host("a") as a:
            peer = await BarePeer.introduced(a.address, "b", link=False)
            await peer.accepted()
            due_at = a.loop.time() + 0.01
            order(a, SetTimer("due", due_at))
            connection = peer.writer.get_extra_info("socket")
            with socket.socket(fileno=os.dup(connection.fileno())) as bare:
                bare.send(frame(encode(Probe(1))) + frame(encode(Probe(2))))
            while a.loop.time() < due_at:
                pass
            await heard(a, Fired)
            await peer.close()
            return [type(input).__name__ for input in a.machine.heard]

    assert play(scenario()) == ["Received", "Received", "Fired"]


def test_time_never_goes_back_and_a_timer_never_sees_a_time_before_its_own() -> None:
    class Watch(Puppet):
        moments: list[float]
        due: dict[int, float]

        def start(self, now: float) -> list[Effect]:
            self.moments, self.due = [now], {}
            return self.set_timers(now)

        def set_timers(self, now: float) -> list[Effect]:
            numbers = range(len(self.due), len(self.due) + 3)
            self.due |= {number: now + 0.0007 * (number % 5) for number in numbers}
            return [SetTimer(number, self.due[number]) for number in numbers]

        def handle(self, now: float, input: Input) -> list[Effect]:
            self.moments.append(now)
            if not isinstance(input, Fired):
                return []
            assert isinstance(input.key, int)
            assert now >= self.due[input.key]
            return [Deliver("done")] if len(self.moments) > 200 else self.set_timers(now)

    async def scenario() -> list[float]:
        watch = Watch()
        async with Host("a", watch, params=PATIENT, log=QUIET) as host:
            await host.items.get()
        return watch.moments

    moments = play(scenario())
    assert moments == sorted(moments)


@pytest.mark.spec("D-4")
def test_effects_are_carried_out_in_order_and_answers_wait_until_all_are() -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a, puppet_host("b") as b:
            await acquaint(a, b)
            order(a, Connect("b"))
            await heard(b, LinkUp)
            await heard(a, LinkUp)
            order(a, Disconnect("b", "first"), Deliver("second"), Save("third", b""))
            assert await a.items.get() == "second"
            assert await a.items.get() == LinkDown("b", 1, "first")
            assert (await a.items.get()).name == "third"

    play(scenario())


def test_a_node_reaches_itself_by_message() -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a:
            order(a, Send("a", Probe(1)), Send("a", Probe(2), Transport.DATAGRAM))
            assert (await heard(a, Received)).message == Probe(1)
            assert await heard(a, Received) == Received("a", Probe(2), len(encode(Probe(2))))

    play(scenario())


def test_a_bulk_transfer_is_refused_in_words_to_the_machine_that_asked() -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a:
            order(a, Transfer("film", "b", Probe(1), 1000), CancelTransfer("film"))
            assert await heard(a, Transferred) == Transferred("film", NO_TRANSFERS)

    play(scenario())


def test_jobs_run_beside_the_loop_and_come_back_as_result_or_error() -> None:
    async def scenario() -> None:
        async with puppet_host("a", params=patient(computations_max=2)) as a:
            order(a, Compute(("sum", 1), Sum((1, 2, 3))), Compute("bad", Failing()), Compute("third", Sum(())))
            answers = [await heard(a, Computed) for _ in range(3)]
            assert sorted(answers, key=lambda it: str(it.key)) == [
                Computed(("sum", 1), 6),
                Computed("bad", None, "ValueError: no such number"),
                Computed("third", None, "too many computations wait"),
            ]
            order(a, Compute("again", Sum((4,))))
            assert await heard(a, Computed) == Computed("again", 4)

    play(scenario())


def test_what_is_saved_can_be_loaded(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with puppet_host("a", storage=tmp_path / "state.db") as a:
            order(a, Save("x/1", b"one"), Save("y", b"two"), Load("x/"))
            assert [await a.items.get() for _ in range(3)] == [
                Saved("x/1"),
                Saved("y"),
                Loaded("x/", (("x/1", b"one"),)),
            ]

    play(scenario())


def test_saving_without_a_storage_is_answered_with_what_to_do() -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a:
            order(a, Save("x", b""), Load(""))
            assert await a.items.get() == Saved("x", "this host stores nothing; give it storage=FILE")
            assert (await a.items.get()).error == "this host stores nothing; give it storage=FILE"

    play(scenario())


def test_a_stream_that_nobody_asked_to_be_a_link_is_not_told_of() -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a, puppet_host("b") as b:
            await acquaint(a, b)
            order(a, Send("b", Probe(1)))
            await heard(b, Received)
            order(b, Send("a", Probe(2)))
            await heard(a, Received)
            order(a, Disconnect("b"))
            await until(lambda: not a.links.open and not b.links.open)
            assert [type(it) for it in a.machine.heard + b.machine.heard] == [Received, Received]

    play(scenario())


@pytest.mark.parametrize("askers", ["a", "b", "ab"])
def test_a_stream_becomes_a_link_when_either_end_asks_or_both_at_once(askers: str) -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a, puppet_host("b") as b:
            await acquaint(a, b)
            order(a, Send("b", Probe(0)))
            await heard(b, Received)
            for host, other in ((a, "b"), (b, "a")):
                if host.node_id in askers:
                    order(host, Send(other, Probe(1)), Connect(other), Send(other, Probe(2)))
            assert await heard(a, LinkUp) == LinkUp("b", 2)
            assert await heard(b, LinkUp) == LinkUp("a", 2)
            order(a, Disconnect("b", "enough"))
            assert await heard(a, LinkDown) == LinkDown("b", 2, "enough")
            assert await heard(b, LinkDown) == LinkDown("a", 2, "enough")
            assert a.counts.drops == b.counts.drops == {}
            for host in (a, b):
                order_heard = [it for it in host.machine.heard if isinstance(it, Received)]
                assert [it.message.round for it in order_heard] == sorted(it.message.round for it in order_heard)

    play(scenario())


def test_small_messages_are_not_held_back_at_either_end() -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a, puppet_host("b") as b:
            await acquaint(a, b)
            order(a, Send("b", Probe(1)))
            await heard(b, Received)
            for stream in (a.links.up["b"], b.links.up["a"]):
                connected = stream.transport.get_extra_info("socket")
                assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    play(scenario())


def test_connecting_where_there_is_a_link_is_answered_with_the_same_epoch() -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a, puppet_host("b") as b:
            await acquaint(a, b)
            order(a, Connect("b"))
            assert await heard(a, LinkUp) == LinkUp("b", 1)
            order(a, Connect("b"))
            assert await heard(a, LinkUp) == LinkUp("b", 1)
            order(a, Connect("nobody"))
            assert await heard(a, LinkDown) == LinkDown("nobody", 0, "no address is known")

    play(scenario())


def test_every_new_link_between_two_nodes_has_a_larger_epoch() -> None:
    async def scenario() -> list[int]:
        async with puppet_host("b") as b:
            async with puppet_host("a", peers={"b": b.address}) as a:
                for _ in range(3):
                    order(a, Connect("b"))
                    await heard(a, LinkUp)
                    order(a, Disconnect("b"))
                    await heard(a, LinkDown)
            async with puppet_host("a", peers={"b": b.address}) as forgetful:
                order(forgetful, Connect("b"))
                await heard(forgetful, LinkUp, epoch=4)
            await until(lambda: not b.links.up)
            return [it.epoch for it in b.machine.heard if isinstance(it, LinkUp)]

    assert play(scenario()) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("policy", "kept"), [(InboxPolicy.DROP_NEWEST, [0, 1, 2]), (InboxPolicy.DROP_OLDEST, [7, 8, 9])]
)
def test_what_a_full_inbox_drops_is_counted(policy: InboxPolicy, kept: list[int]) -> None:
    async def scenario() -> None:
        async with puppet_host("a", params=patient(inbox_max=3, inbox_policy=policy)) as a:
            order(a, *(Deliver(number) for number in range(10)))
            assert a.items.take_all() == kept
            assert a.counts.drops == {"inbox full": 7}

    play(scenario())


def test_the_trace_of_a_host_has_the_rows_that_a_simulator_writes() -> None:
    async def scenario() -> list[Any]:
        trace = RingBuffer(100)
        async with puppet_host("a", trace=trace) as a:
            order(a, SetTimer("t", 0.0), Send("nobody", Probe(7)), Drop("it", "unwanted"), HistoryUnreadable("torn"))
            await heard(a, Fired)
            order(a, Hint(), CancelTimer("t"))
            a.inject(Publish(Event({"source": "s", "id": "1"})))
        return [(row.kind, row.peer, row.message, row.reason) for row in trace.records() if row.kind != "deliver"]

    assert play(scenario()) == [
        ("start", None, None, None),
        ("send", "nobody", "Probe", None),
        ("drop", "nobody", "Probe", "no address is known"),
        ("drop", None, "str", "unwanted"),
        ("note", None, "history_unreadable", None),
        ("timer", None, None, None),
        ("publish", None, "Event", None),
        ("stop", None, None, "stopped"),
    ]


def test_a_message_without_bytes_is_dropped_and_the_node_goes_on() -> None:
    class Unlisted(Message, frozen=True):
        pass

    async def scenario() -> None:
        async with puppet_host("a") as a, puppet_host("b") as b:
            await acquaint(a, b)
            order(a, Send("b", Unlisted()), Send("b", Unlisted(), Transport.DATAGRAM), Send("b", Probe(1)))
            await heard(b, Received)
            assert a.counts.drops == {"cannot be encoded": 2}

    play(scenario())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: play(inject_too_early()), "inject: host a is not running; use it inside 'async with'"),
        (lambda: play(start_twice()), "start: this host has been started already"),
        (lambda: puppet_host("a", peers={"a": ("127.0.0.1", 1)}), "peers: 'a' is this node itself"),
        (lambda: puppet_host("a", peers={"*": ("127.0.0.1", 1)}), r"peers: '\*' is the address of all nodes"),
        (lambda: puppet_host("a", peers={"b": ("127.0.0.1", 70_000)}), "peers: '127.0.0.1', 70000 is no address"),
        (lambda: puppet_host("a", peers={"b": ("127.0.0.1", 0)}), "peers: '127.0.0.1', 0 is no address"),
        (lambda: puppet_host("a", peers={"b": ("x" * 70, 1)}), "peers: 'x+' is no name of a host"),
        (lambda: puppet_host("*"), r"hello: '\*' is the address of all nodes"),
        (lambda: puppet_host(""), "hello: "),
        (lambda: puppet_host("a", capabilities=[f"c{number}" for number in range(32)]), "hello: "),
        (lambda: play(learn_too_early()), "learn: host a is not running; give it peers="),
        (lambda: play(set_timer(math.inf)), "node 'a' set the timer 'never' to inf, which is no time to come"),
        (lambda: play(set_timer(math.nan)), "node 'a' set the timer 'never' to nan"),
        (lambda: play(return_nonsense()), "'nonsense' is no effect; return what"),
    ],
)
def test_a_wrong_call_says_what_to_do(call: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call()


async def inject_too_early() -> None:
    puppet_host("a").inject(Fired("x"))


async def learn_too_early() -> None:
    await puppet_host("a").learn("b", ("127.0.0.1", 1))


async def set_timer(at: float) -> None:
    async with puppet_host("a") as a:
        order(a, SetTimer("never", at))


async def start_twice() -> None:
    async with puppet_host("a") as a:
        await a.start()


async def return_nonsense() -> None:
    async with puppet_host("a") as a:
        nonsense: Any = "nonsense"
        order(a, nonsense)


def test_stopping_twice_does_no_harm() -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a:
            await a.stop()
            await a.wait()

    play(scenario())


def test_uvloop_runs_the_same_host_where_it_is_installed() -> None:
    pytest.importorskip("uvloop")

    async def scenario() -> str:
        async with puppet_host("a") as a, puppet_host("b") as b:
            await acquaint(a, b)
            order(a, Connect("b"), SetTimer("t", a.loop.time() + 0.01))
            await heard(b, LinkUp)
            await heard(a, Fired)
            order(a, Send("b", Probe(1), Transport.DATAGRAM))
            await heard(b, Received)
            return type(a.loop).__module__

    assert run(scenario(), use_uvloop=True) == "uvloop"


def test_an_event_loop_of_ones_own_is_enough() -> None:
    assert run(asyncio.sleep(0, "result")) == "result"


def has_measured_all(ping: Ping) -> bool:
    return all(neighbour.round_trips for neighbour in ping.neighbours.values())


@pytest.mark.spec("P-16")
def test_two_protocols_with_different_transports_live_in_one_node() -> None:
    """P-16: ping over datagrams beside gossip over streams, in one node and one host."""
    names = ["a", "b", "c"]

    def make(name: str) -> Node:
        others = [other for other in names if other != name]
        return Node(
            {
                "ping": Ping(
                    others, PingParams(period=0.02, transport=Transport.DATAGRAM), random_stream(1, name, "ping")
                ),
                "gossip": Gossip(others, GossipParams(period=0.02), random_stream(1, name, "gossip")),
            },
            tells=Ping.tells,
        )

    async def scenario() -> None:
        hosts = [Host(name, make(name), params=PATIENT, log=QUIET) for name in names]
        async with hosts[0], hosts[1], hosts[2]:
            await acquaint(*hosts)
            hosts[0].inject(Publish(Event({"source": "s", "id": "1"})))
            for host in hosts:
                assert (await heard(host, Event)).key == ("s", "1")
            for host in hosts:
                ping = host.machine.parts["ping"]
                await until(partial(has_measured_all, ping))
                assert host.counts.datagrams_received > 0
                assert host.counts.stream_messages_received > 0

    play(scenario())


def test_a_host_without_structlog_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "structlog", None)
    with pytest.raises(HostError, match=r"pip install 'tidings\[net\]'"):
        Host("a", Puppet())


def test_a_machine_that_fails_at_its_start_leaves_nothing_open(tmp_path: Path) -> None:
    class Stillborn(Puppet):
        def start(self, now: float) -> list[Effect]:
            raise AssertionError("cannot begin")

    async def scenario() -> None:
        stillborn = Host("a", Stillborn(), params=PATIENT, log=QUIET, storage=tmp_path / "state.db")
        with pytest.raises(AssertionError, match="cannot begin"):
            await stillborn.start()
        async with puppet_host("a", listen=stillborn.address, storage=tmp_path / "state.db"):
            pass

    play(scenario())


def test_a_trace_that_cannot_be_written_does_not_stop_the_node() -> None:
    class Full(RingBuffer):
        def record(self, now: float, node: str, thing: object) -> None:
            raise TraceError("no space left")

    async def scenario() -> None:
        async with puppet_host("a", trace=Full(10)) as a:
            order(a, Send("a", Probe(1)))
            await heard(a, Received)

    play(scenario())


def test_a_machine_that_fails_while_its_host_begins_to_listen_leaves_nothing_open() -> None:
    class ShortLived(Puppet):
        def start(self, now: float) -> list[Effect]:
            return [Send("a", Probe(1))]

        def handle(self, now: float, input: Input) -> list[Effect]:
            raise AssertionError("did not last")

    async def scenario() -> None:
        short_lived = Host("a", ShortLived(), params=PATIENT, log=QUIET)
        with pytest.raises(AssertionError, match="did not last"):
            async with short_lived:
                await short_lived.wait()
        async with puppet_host("b", listen=short_lived.address):
            pass

    play(scenario())


def test_a_start_that_is_given_up_leaves_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        slow = puppet_host("a", storage=tmp_path / "state.db", peers={"b": ("127.0.0.1", 1)})

        async def never(directory: Directory, peer: str, address: object) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(Directory, "configure", never)
        starting = asyncio.ensure_future(slow.start())
        await until(lambda: slow.storage is not None)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        async with puppet_host("a", listen=slow.address, storage=tmp_path / "state.db"):
            pass

    play(scenario())


def test_a_host_that_is_stopped_while_it_starts_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        host = puppet_host("a", peers={"b": ("127.0.0.1", 1)})

        async def slowly(directory: Directory, peer: str, address: object) -> None:
            await host.ended.wait()

        monkeypatch.setattr(Directory, "configure", slowly)
        starting = asyncio.ensure_future(host.start())
        await until(lambda: host.datagrams is not None)
        await host.stop()
        with pytest.raises(HostError, match="host a was stopped while it started"):
            await starting
        async with puppet_host("b", listen=host.address):
            pass

    play(scenario())


def test_a_stop_that_is_given_up_leaves_nothing_open(tmp_path: Path) -> None:
    async def scenario() -> None:
        a = puppet_host("a", storage=tmp_path / "state.db")
        await a.start()
        lazy = await BarePeer.introduced(a.address, "lazy")
        await heard(a, LinkUp)
        stopping = asyncio.ensure_future(a.stop())
        await until(lambda: a.links.is_stopping)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        await until(lambda: not a.links.open)
        await a.wait()
        async with puppet_host("a", listen=a.address, storage=tmp_path / "state.db"):
            pass
        await lazy.close()

    play(scenario())


def test_an_inbox_that_fills_again_before_its_relief_was_heard_of_loses_nothing() -> None:
    tiny = patient(inbox_max=1)

    async def scenario() -> None:
        async with puppet_host("a", params=tiny) as a:
            peer = await BarePeer.introduced(a.address, "b", link=False)
            await peer.accepted()
            for round in range(3):
                peer.say(Probe(round))
            await until(lambda: a.links.is_paused)
            assert (await heard(a, Received)).message == Probe(0)
            order(a, Deliver("from a timer"))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert await a.items.get() == "from a timer"
            assert [(await heard(a, Received)).message.round for _ in range(2)] == [1, 2]
            assert a.counts.drops == {}
            await peer.close()

    play(scenario())


def test_a_disconnect_answers_the_connect_that_waits() -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a, puppet_host("b") as b:
            await acquaint(a, b)
            order(a, Connect("b"), Disconnect("b", "changed my mind"))
            assert await heard(a, LinkDown) == LinkDown("b", 0, "changed my mind")
            order(a, Connect("b"))
            assert await heard(a, LinkUp) == LinkUp("b", 1)
            assert [type(it) for it in a.machine.heard] == [LinkDown, LinkUp]

    play(scenario())


def test_a_call_is_made_although_the_loop_wakes_up_a_little_early() -> None:
    async def scenario() -> None:
        async with puppet_host("b") as b, puppet_host("a", peers={"b": b.address}) as a:
            dial = a.links.dials["b"]
            dial.retry_at = a.loop.time() + 60.0
            order(a, Connect("b"))
            assert dial.retry is not None
            dial.retry.cancel()
            dial.begin_again()
            assert await heard(a, LinkUp) == LinkUp("b", 1)

    play(scenario())


@pytest.mark.parametrize("is_second", [False, True])
def test_an_epoch_that_nobody_reaches_by_counting_is_refused(is_second: bool) -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a:
            peer = await BarePeer.call(a.address)
            if is_second:
                peer.say(Hello("b"))
                await peer.accepted()
            peer.say(Hello("b", capabilities=("link",), epoch=2**63 - 1))
            await peer.goodbye()
            assert a.links.epochs.of("b") == int(is_second)
            again = await BarePeer.introduced(a.address, "b", epoch=2)
            await again.accepted()
            await again.close()

    play(scenario())


def test_what_waited_when_a_link_broke_is_in_the_trace_message_by_message() -> None:
    async def scenario() -> list[Any]:
        trace = RingBuffer(100)
        async with puppet_host("a", trace=trace) as a:
            peer = await BarePeer.introduced(a.address, "b")
            await peer.accepted()
            await heard(a, LinkUp)
            stream = a.links.up["b"]
            stream.pause_writing()
            stream.look()
            order(a, Send("b", Probe(1)), Send("b", Probe(2)))
            stream.connection_lost(None)
            assert a.counts.drops == {"link went down": 2}
            await peer.close()
        return [(row.peer, row.message) for row in trace.records() if row.kind == "drop"]

    assert play(scenario()) == [("b", "Probe"), ("b", "Probe")]
