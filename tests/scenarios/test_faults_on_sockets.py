"""What can go wrong on real sockets, one thing at a time: each has a bounded consequence and a clear message."""

import asyncio
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.brokers.servers import free_port
from tests.scenarios.processes import python
from tests.worlds.puppets import Puppet
from tests.worlds.sockets import PATIENT, QUIET, BarePeer, acquaint, heard, order, patient, play, puppet_host, until
from tidings.machine.effects import Connect, Disconnect, Effect, Load, Save, Send
from tidings.machine.inputs import Input, LinkDown, LinkUp, Loaded, Received, Saved
from tidings.model.bounds import FRAME_BYTES_MAX, OPENING_BYTES_MAX
from tidings.net import Host, HostError
from tidings.net.connection import Cause
from tidings.net.counts import QUEUE_FULL, UNREACHABLE
from tidings.protocols.teaching.gossip import GossipRequest
from tidings.protocols.teaching.ping import Echo, Probe
from tidings.wire.frames import HEAD, frame
from tidings.wire.handshake import Goodbye, Heartbeat, Hello, goodbye
from tidings.wire.registry import encode

ROOT = Path(__file__).parents[2]

WATCHFUL = patient(silence_max=0.4)
"""A peer that is silent is soon taken for dead."""

CHILD = """
import asyncio, json, sys
from tests.worlds.sockets import PATIENT, QUIET
from tests.scenarios.notary import Notary
from tidings.net import Host

async def main():
    host = Host("child", Notary(), params=PATIENT, log=QUIET, storage=sys.argv[1] if len(sys.argv) > 1 else None)
    async with host:
        print(json.dumps(host.address), flush=True)
        await host.wait()

asyncio.run(main())
"""


@asynccontextmanager
async def child_process(*arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, tuple[str, int]]]:
    """A node named "child" in a process of its own, and its address."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    async with python("-c", CHILD, *arguments, cwd=ROOT, env=environment) as process:
        assert process.stdout is not None
        host, port = json.loads(await process.stdout.readline())
        yield process, (host, port)


def test_a_port_that_is_taken_is_named_together_with_what_to_do() -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a:
            with pytest.raises(HostError, match=rf"{a.address[1]} \(TCP\): another program uses that port; stop it"):
                await puppet_host("b", listen=a.address).start()

    play(scenario())


def test_a_port_that_is_taken_for_datagrams_only_is_named_too() -> None:
    async def scenario() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind(("127.0.0.1", 0))
            with pytest.raises(HostError, match=r"\(UDP\): another program uses that port"):
                await puppet_host("b", listen=taken.getsockname()).start()

    play(scenario())


def test_an_address_that_this_machine_lacks_is_explained() -> None:
    with pytest.raises(HostError, match="this machine does not have that address"):
        play(puppet_host("a", listen=("192.0.2.1", 0), insecure=True).start())


def frame_or_bytes(data: bytes) -> bytes:
    """Half of the time these bytes as the body of a frame, which the reader accepts."""
    return frame(data) if data and data[0] % 2 else data


def test_a_peer_that_never_answers_is_called_ever_more_rarely_and_reached_when_it_appears() -> None:
    async def scenario() -> None:
        address = ("127.0.0.1", free_port())
        async with puppet_host("a", Connect("b"), clings=True, peers={"b": address}) as a:
            down = await heard(a, LinkDown, neighbour="b")
            assert down.reason == "cannot connect: Connection refused"
            await until(lambda: a.counts.dial_failures >= 6)
            assert a.links.dials["b"].failures >= 6
            async with puppet_host("b", listen=address) as b:
                assert await heard(a, LinkUp) == LinkUp("b", 1)
                assert await heard(b, LinkUp) == LinkUp("a", 1)

    play(scenario())


class StoppedClock:
    def time(self) -> float:
        return 0.0


def test_each_wait_between_calls_is_longer_up_to_the_bound_and_has_a_random_part() -> None:
    async def scenario() -> list[float]:
        async with puppet_host("a", peers={"b": ("127.0.0.1", free_port())}) as a:
            dial, waits = a.links.dials["b"], []
            dial.loop = cast(asyncio.AbstractEventLoop, StoppedClock())
            for _ in range(8):
                dial.put_off()
                waits.append(dial.retry_at)
            return waits

    waits = play(scenario())
    for turn, wait in enumerate(waits):
        longest = min(PATIENT.backoff_max, PATIENT.backoff_first * 2**turn)
        assert longest / 2 <= wait <= longest
    assert len(set(waits)) == len(waits)


def test_what_is_sent_to_a_peer_that_cannot_be_reached_is_dropped_with_the_reason() -> None:
    async def scenario() -> None:
        async with puppet_host("a", peers={"b": ("127.0.0.1", free_port())}) as a:
            order(a, *(Send("b", Probe(round)) for round in range(3)))
            await until(lambda: a.counts.drops[UNREACHABLE] == 3)
            a.links.dials["b"].retry_at = a.loop.time() + 60.0
            order(a, Send("b", Probe(4)))
            assert a.counts.drops["no link"] == 1
            order(a, Send("nobody", Probe(5)))
            assert a.counts.drops["no address is known"] == 1

    play(scenario())


def test_a_peer_that_stops_reading_fills_its_own_queue_and_loses_its_link_and_nobody_elses() -> None:
    small = patient(queue_messages_max=50, write_buffer_bytes=1024, drain_timeout=0.05)
    filler = GossipRequest(tuple((f"{number:0100d}", "x" * 250) for number in range(100)))

    async def scenario() -> None:
        async with puppet_host("a", params=small) as a, puppet_host("b", Connect("a"), params=small) as b:
            await b.learn("a", a.address)
            order(b, Connect("a"))
            await heard(a, LinkUp, neighbour="b")
            lazy = await BarePeer.introduced(a.address, "lazy")
            await heard(a, LinkUp, neighbour="lazy")
            lazy.writer.transport.pause_reading()
            outbox = a.links.up["lazy"].outbox
            while len(outbox.frames) < small.queue_messages_max:
                order(a, Send("lazy", filler))
                await asyncio.sleep(0)
            assert outbox.size_bytes <= small.queue_bytes_max
            for round in range(100):
                order(a, Send("b", Probe(round)))
                assert (await heard(b, Received)).message == Probe(round)
            assert a.counts.drops == {}
            order(a, Send("lazy", filler), Send("lazy", filler))
            assert await heard(a, LinkDown) == LinkDown("lazy", 1, QUEUE_FULL)
            assert a.counts.drops == {QUEUE_FULL: 1, "no address is known": 1}
            assert a.counts.closings == {Cause.UNSENT.value: 1}
            await until(lambda: len(a.links.open) == 1)
            await lazy.close()

    play(scenario())


def test_what_waited_in_a_full_queue_arrives_in_order_and_without_a_hole_before_the_link_breaks() -> None:
    small = patient(queue_messages_max=50, write_buffer_bytes=1024)
    filler = tuple((f"{number:0100d}", "x" * 250) for number in range(100))

    async def scenario() -> None:
        async with puppet_host("a", params=small) as a, puppet_host("b", params=small) as b:
            await acquaint(a, b)
            order(a, Connect("b"))
            await heard(a, LinkUp)
            await heard(b, LinkUp)
            b.links.up["a"].pause_reading()
            sent = 0
            while a.links.up:
                order(a, Send("b", GossipRequest((("number", str(sent)), *filler))), Send("b", Probe(sent)))
                sent += 1
                await asyncio.sleep(0)
            assert await heard(a, LinkDown) == LinkDown("b", 1, QUEUE_FULL)
            lost = sum(a.counts.drops.values())
            b.links.up["a"].resume_reading()
            assert await heard(b, LinkDown) == LinkDown("a", 1, QUEUE_FULL)
            arrived = [it.message for it in b.machine.heard if isinstance(it, Received)]
            assert len(arrived) == 2 * sent - lost
            numbers = [int(it.keys[0][1]) if isinstance(it, GossipRequest) else it.round for it in arrived]
            assert numbers == [place // 2 for place in range(len(arrived))]
            order(a, Connect("b"))
            assert await heard(a, LinkUp) == LinkUp("b", 2)

    play(scenario())


def test_when_too_much_waits_for_a_call_all_of_it_is_dropped_and_connect_is_answered() -> None:
    small = patient(queue_messages_max=10)

    async def scenario() -> None:
        async with puppet_host("b") as b, puppet_host("a", params=small, peers={"b": b.address}) as a:
            order(a, Connect("b"), *(Send("b", Probe(round)) for round in range(11)), Send("b", Probe(100)))
            assert await heard(a, LinkDown) == LinkDown("b", 0, f"cannot connect: {QUEUE_FULL}")
            assert a.counts.drops == {QUEUE_FULL: 11}
            assert (await heard(b, Received)).message == Probe(100)

    play(scenario())


def test_as_much_as_the_queue_holds_may_wait_for_a_call() -> None:
    small = patient(queue_messages_max=10)

    async def scenario() -> None:
        async with puppet_host("b") as b, puppet_host("a", params=small, peers={"b": b.address}) as a:
            order(a, Connect("b"), *(Send("b", Probe(round)) for round in range(10)))
            assert [(await heard(b, Received)).message.round for _ in range(10)] == list(range(10))
            assert a.counts.drops == {}
            assert await heard(a, LinkUp) == LinkUp("b", 1)

    play(scenario())


def test_a_message_longer_than_the_peer_reads_breaks_the_link_whether_it_waited_for_the_call_or_not() -> None:
    large = GossipRequest(tuple((f"{number:0250d}", "x") for number in range(50)))

    async def scenario() -> None:
        async with puppet_host("a") as a:
            peer = await BarePeer.call(a.address)
            peer.say(Hello("b", capabilities=("link",), frame_bytes_max=OPENING_BYTES_MAX))
            await peer.accepted()
            await heard(a, LinkUp)
            order(a, Send("b", Probe(1)), Send("b", large), Send("b", Probe(2)))
            assert await peer.hear(Probe, Goodbye) == Probe(1)
            assert await peer.goodbye() == "longer than the peer reads"
            assert await heard(a, LinkDown) == LinkDown("b", 1, "longer than the peer reads")
            server = await asyncio.start_server(answer_with_short_frames, "127.0.0.1")
            async with server:
                await a.learn("0", server.sockets[0].getsockname())
                order(a, Send("0", large), Send("0", Probe(3)), Connect("0"))
                down = await heard(a, LinkDown)
                assert down == LinkDown("0", 1, "cannot connect: longer than the peer reads")

    play(scenario())


async def answer_with_short_frames(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    peer = BarePeer(reader, writer)
    await peer.hear(Hello)
    peer.say(Hello("0", frame_bytes_max=OPENING_BYTES_MAX))
    peer.say(Heartbeat())
    await peer.goodbye()


def test_good_messages_before_a_bad_frame_of_the_same_read_are_handed_on() -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a:
            peer = await BarePeer.introduced(a.address, "b")
            await peer.accepted()
            good = b"".join(frame(encode(Probe(round))) for round in range(3))
            peer.writer.write(good + bytes(4) + frame(encode(Probe(9))))
            assert await peer.goodbye() == "an empty frame"
            assert [(await heard(a, Received)).message.round for _ in range(3)] == [0, 1, 2]
            assert (await heard(a, LinkDown)).reason == "an empty frame"
            assert a.counts.stream_messages_received == 3

    play(scenario())


def test_good_messages_before_a_bad_frame_wait_for_a_full_inbox_and_are_not_lost() -> None:
    tiny = patient(inbox_max=1)

    async def scenario() -> None:
        async with puppet_host("a", params=tiny) as a:
            peer = await BarePeer.introduced(a.address, "b", link=False)
            await peer.accepted()
            peer.writer.write(b"".join(frame(encode(Probe(round))) for round in range(3)) + bytes(4))
            assert [(await heard(a, Received)).message.round for _ in range(3)] == [0, 1, 2]
            assert await peer.goodbye() == "an empty frame"

    play(scenario())


def test_a_peer_that_was_killed_is_noticed_at_once() -> None:
    async def scenario() -> None:
        async with child_process() as (process, address), puppet_host("a", Connect("child"), clings=True) as a:
            await a.learn("child", address)
            order(a, Connect("child"))
            await heard(a, LinkUp)
            process.send_signal(signal.SIGKILL)
            down = await heard(a, LinkDown, epoch=1)
            assert "without a goodbye" in down.reason or "broke" in down.reason

    play(scenario())


def test_a_peer_that_hangs_is_noticed_after_the_longest_silence() -> None:
    async def scenario() -> None:
        async with (
            child_process() as (process, address),
            puppet_host("a", peers={"child": address}, params=WATCHFUL) as a,
        ):
            order(a, Connect("child"))
            await heard(a, LinkUp)
            process.send_signal(signal.SIGSTOP)
            down = await heard(a, LinkDown, epoch=1)
            assert down.reason.startswith("nothing was heard for")
            assert a.counts.closings[Cause.SILENT.value] == 1

    play(scenario())


def test_a_socket_that_goes_silent_is_given_up() -> None:
    async def scenario() -> None:
        async with puppet_host("a", params=WATCHFUL) as a:
            peer = await BarePeer.introduced(a.address, "b")
            await peer.accepted()
            down = await heard(a, LinkDown, neighbour="b")
            assert down.reason.startswith("nothing was heard for")
            await peer.close()

    play(scenario())


def test_a_process_that_stood_still_does_not_blame_its_peers() -> None:
    async def scenario() -> None:
        async with puppet_host("a", params=WATCHFUL) as a, puppet_host("b", params=WATCHFUL) as b:
            await acquaint(a, b)
            order(a, Connect("b"))
            await heard(a, LinkUp)
            resumes_at = a.loop.time() + 2 * WATCHFUL.silence_max
            while a.loop.time() < resumes_at:
                pass
            seen = a.links.up["b"].look_at
            await until(lambda: a.links.up["b"].look_at > seen + WATCHFUL.heartbeat_period)
            assert a.counts.closings == b.counts.closings == {}

    play(scenario())


def test_heartbeats_alone_keep_a_link() -> None:
    async def scenario() -> None:
        async with puppet_host("a", params=WATCHFUL) as a:
            peer = await BarePeer.introduced(a.address, "b")
            for _ in range(10):
                await peer.hear(Heartbeat)
                peer.say(Heartbeat())
            assert "b" in a.links.up
            await peer.close()

    play(scenario())


@pytest.mark.parametrize(
    ("data", "cause", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", Cause.BAD_FRAME, f"at most {OPENING_BYTES_MAX} are allowed here"),
        (HEAD.pack(0), Cause.BAD_FRAME, "an empty frame"),
        (HEAD.pack(3) + b"\xff\xff\x00", Cause.BAD_MESSAGE, "no message type has the code 0xffff"),
        (HEAD.pack(3) + b"\x00\x01\x00", Cause.BAD_MESSAGE, "Hello"),
        (HEAD.pack(4) + b"\x0f\x00\x91\x01", Cause.NO_HANDSHAKE, "Probe came where Hello was expected"),
    ],
)
def test_garbage_from_a_stranger_closes_the_connection_with_the_reason(data: bytes, cause: Cause, reason: str) -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a:
            peer = await BarePeer.call(a.address)
            peer.writer.write(data)
            assert reason in await peer.goodbye()
            assert a.counts.closings == {cause.value: 1}

    play(scenario())


@pytest.mark.parametrize(
    ("data", "cause", "reason"),
    [
        (HEAD.pack(FRAME_BYTES_MAX + 1), Cause.BAD_FRAME, f"at most {FRAME_BYTES_MAX} are allowed here"),
        (HEAD.pack(4) + b"\x0f\x00\x91\xc0", Cause.BAD_MESSAGE, "Probe"),
    ],
)
def test_garbage_on_a_link_ends_it_at_both_ends_with_the_reason(data: bytes, cause: Cause, reason: str) -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a:
            peer = await BarePeer.introduced(a.address, "b")
            await peer.accepted()
            peer.say(Probe(1))
            assert (await heard(a, Received)).message == Probe(1)
            peer.writer.write(data)
            peer.say(Probe(2))
            assert reason in await peer.goodbye()
            assert reason in (await heard(a, LinkDown)).reason
            assert a.counts.closings == {cause.value: 1}
            assert a.counts.stream_messages_received == 1

    play(scenario())


messages = st.sampled_from([Hello("b"), Hello("z", epoch=9), Heartbeat(), goodbye("so"), Probe(1), GossipRequest(())])
pieces = st.one_of(messages.map(lambda it: frame(encode(it))), st.binary(max_size=40).map(frame_or_bytes))


@given(st.lists(pieces, max_size=12), st.booleans())
def test_whatever_a_stranger_sends_the_node_goes_on(data: list[bytes], greets: bool) -> None:
    async def scenario() -> None:
        async with puppet_host("a", params=patient(drain_timeout=0.05)) as a, puppet_host("c") as c:
            stranger = await BarePeer.call(a.address)
            if greets:
                stranger.say(Hello("b", capabilities=("link",)))
            for piece in data:
                stranger.writer.write(piece)
            await c.learn("a", a.address)
            order(c, Send("a", Probe(7)))
            await heard(a, Received, sender="c")
            await stranger.close()
            await until(lambda: len(a.links.open) == 1)

    play(scenario())


@pytest.mark.parametrize(
    ("theirs", "reason"),
    [
        (Hello("b", version_min=7, version_max=9), "b is too new: it speaks versions 7 to 9, we speak version 1"),
        (Hello("b", version_min=0, version_max=0), "b is too old"),
        (Hello("a"), "both ends are called 'a'"),
    ],
)
def test_a_handshake_that_cannot_agree_is_refused_with_the_reason(theirs: Hello, reason: str) -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a:
            peer = await BarePeer.call(a.address)
            peer.say(theirs)
            assert reason in await peer.goodbye()
            assert a.counts.closings == {Cause.REFUSED.value: 1}
            assert a.links.up == {}

    play(scenario())


def test_whoever_answers_under_another_name_than_was_called_is_refused() -> None:
    async def scenario() -> None:
        async with puppet_host("b") as b, puppet_host("a", Connect("c"), peers={"c": b.address}) as a:
            assert "we called c, and b answered" in (await heard(a, LinkDown)).reason

    play(scenario())


def test_a_stranger_who_says_nothing_is_turned_away_after_the_handshake_timeout() -> None:
    async def scenario() -> None:
        async with puppet_host("a", params=patient(handshake_timeout=0.1)) as a:
            peer = await BarePeer.call(a.address)
            assert "no handshake within" in await peer.goodbye()

    play(scenario())


def test_more_strangers_than_the_bound_are_turned_away_at_once() -> None:
    few = patient(strangers_max=3)

    async def scenario() -> None:
        async with puppet_host("a", params=few) as a:
            peers = [await BarePeer.call(a.address) for _ in range(3)]
            await until(lambda: len(a.links.open) == 3)
            late = await BarePeer.call(a.address)
            assert "too many connections" in await late.goodbye()
            for peer in peers:
                await peer.close()

    play(scenario())


def test_more_streams_than_the_bound_are_refused() -> None:
    one = patient(streams_max=1)

    async def scenario() -> None:
        async with puppet_host("a", params=one) as a:
            first = await BarePeer.introduced(a.address, "b")
            await first.accepted()
            second = await BarePeer.introduced(a.address, "c")
            assert "a has 1 streams already" in await second.goodbye()
            await first.close()

    play(scenario())


def test_two_nodes_that_call_each_other_at_once_end_with_one_link_of_the_same_epoch() -> None:
    async def scenario() -> None:
        for _ in range(20):
            async with puppet_host("a") as a, puppet_host("b") as b:
                await acquaint(a, b)
                order(a, Connect("b"), Send("b", Probe(1)))
                order(b, Connect("a"), Send("a", Probe(2)))
                up_a, up_b = await heard(a, LinkUp), await heard(b, LinkUp)
                assert up_a == LinkUp("b", up_b.epoch)
                assert (await heard(a, Received)).message == Probe(2)
                assert (await heard(b, Received)).message == Probe(1)
                for host in (a, b):
                    await until(partial(has_one_connection, host))
                assert a.counts.drops == b.counts.drops == {}
                assert [type(it) for it in a.machine.heard] == [LinkUp, Received]

    play(scenario())


def has_one_connection(host: Host) -> bool:
    return len(host.links.open) == 1


def test_a_caller_without_memory_takes_the_place_of_a_stream_that_turns_out_dead() -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a:
            old = await BarePeer.introduced(a.address, "b")
            await old.accepted()
            new = await BarePeer.introduced(a.address, "b")
            await until(lambda: a.links.rivals.waiting)
            old.writer.transport.abort()
            await new.accepted()
            await until(lambda: len(a.machine.heard) == 3)
            first, down, second = a.machine.heard
            assert (first, second) == (LinkUp("b", 1), LinkUp("b", 2))
            assert (down.neighbour, down.epoch) == ("b", 1)
            await old.close()
            await new.close()

    play(scenario())


def test_a_second_call_is_refused_while_the_stream_lives() -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a:
            old = await BarePeer.introduced(a.address, "b")
            await old.accepted()
            new = await BarePeer.introduced(a.address, "b")
            await until(lambda: a.links.rivals.waiting)
            old.say(Heartbeat())
            assert "there is a stream already" in await new.goodbye()
            assert a.machine.heard == [LinkUp("b", 1)]
            await old.close()

    play(scenario())


def test_a_caller_that_knows_the_stream_and_gave_it_up_replaces_it_at_once() -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a:
            old = await BarePeer.introduced(a.address, "b")
            await old.accepted()
            new = await BarePeer.introduced(a.address, "b", epoch=2)
            await new.accepted()
            assert "a newer connection" in await old.goodbye()
            ups = [it.epoch for it in a.machine.heard if isinstance(it, LinkUp)]
            assert ups == [1, 2]
            await new.close()

    play(scenario())


def test_what_was_sent_before_a_disconnect_still_arrives() -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a, puppet_host("b") as b:
            await acquaint(a, b)
            order(a, Connect("b"))
            await heard(a, LinkUp)
            order(a, *(Send("b", Probe(round)) for round in range(1000)), Disconnect("b", "enough"))
            assert [(await heard(b, Received)).message.round for _ in range(1000)] == list(range(1000))
            assert (await heard(b, LinkDown)).reason == "enough"
            assert (await heard(a, LinkDown)).reason == "enough"

    play(scenario())


def test_a_host_that_stops_hands_over_what_waits_and_says_goodbye() -> None:
    async def scenario() -> None:
        async with puppet_host("b") as b:
            async with puppet_host("a", peers={"b": b.address}) as a:
                order(a, Connect("b"))
                await heard(a, LinkUp)
                order(a, *(Send("b", Probe(round)) for round in range(1000)))
            assert [(await heard(b, Received)).message.round for _ in range(1000)] == list(range(1000))
            assert (await heard(b, LinkDown)).reason == "node a stops"

    play(scenario())


def test_a_host_stops_in_time_although_a_peer_does_not_read() -> None:
    hasty = patient(drain_timeout=0.05)
    filler = GossipRequest(tuple((f"{number:0100d}", "x" * 250) for number in range(100)))

    async def scenario() -> None:
        async with puppet_host("a", params=hasty) as a:
            lazy = await BarePeer.introduced(a.address, "lazy")
            await heard(a, LinkUp)
            lazy.writer.transport.pause_reading()
            while a.links.up["lazy"].outbox.size_bytes < 1_000_000:
                order(a, Send("lazy", filler))
                await asyncio.sleep(0)
        assert a.links.open == {}
        await lazy.close()

    play(scenario())


FULL_DISK = """
import json, resource, sys
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from tidings.machine.effects import Load, Save
from tidings.net.storage import Storage

answers = SimpleQueue()
storage = Storage(Path(sys.argv[1]), 100, lambda answered, seconds: [answers.put(it) for it in answered])
def ask(order):
    assert storage.ask(order)
    return answers.get(timeout=20)

soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
before = ask(Save("before", b"x" * 1000)).error
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
during = ask(Save("during", b"y" * 1_000_000)).error
small = ask(Load("")).entries
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
after = ask(Save("after", b"z" * 1_000_000)).error
names = [name for name, data in ask(Load("")).entries]
storage.close()
json.dump([before, during, [name for name, data in small], after, names], sys.stdout)
"""


def test_a_full_disk_comes_back_as_an_error_and_saving_goes_on_when_there_is_room(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "state.db")],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 0, done.stderr
    before, during, small, after, names = json.loads(done.stdout)
    assert before is None
    assert "cannot save to" in during and ("disk" in during or "full" in during)
    assert small == ["before"]
    assert after is None
    assert names == ["after", "before"]


def test_a_storage_that_cannot_be_written_answers_with_the_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with puppet_host("a", storage=tmp_path / "state.db") as a:
            assert a.storage is not None
            a.storage.database.execute("PRAGMA query_only = ON")
            order(a, Save("name", b"data"))
            saved = await heard(a, Saved)
            assert saved.error is not None and "readonly" in saved.error
            assert a.counts.save_errors == 1

    play(scenario())


def test_a_node_that_was_killed_comes_back_with_everything_it_had_confirmed(tmp_path: Path) -> None:
    file = str(tmp_path / "state.db")

    async def scenario() -> None:
        async with puppet_host("a") as a:
            async with child_process(file) as (process, address):
                await a.learn("child", address)
                order(a, *(Send("child", Probe(round)) for round in range(100)))
                for _ in range(30):
                    await heard(a, Received)
                process.send_signal(signal.SIGKILL)
                await process.wait()
            confirmed = {it.message.round for it in a.machine.heard}
            assert len(confirmed) >= 30
            async with child_process(file) as (process, address):
                await until(lambda: "child" not in a.links.up)
                await a.learn("child", address)
                order(a, Connect("child"))
                await heard(a, LinkUp)
                order(a, Send("child", GossipRequest((("what", "do you know"),))))
                answer = (await heard(a, Received)).message
                assert confirmed <= {int(round) for round, _ in answer.keys}

    play(scenario())


def test_a_file_that_is_no_database_stops_the_start_with_a_clear_message(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    file.write_bytes(b"something else" * 1000)
    with pytest.raises(HostError, match=r"state.db: file is not a database; it is damaged, and nothing was changed"):
        play(puppet_host("a", storage=file).start())


@pytest.mark.parametrize("when", ["before the start", "after it"])
def test_a_damaged_page_stops_the_start_or_comes_back_as_an_error(tmp_path: Path, when: str) -> None:
    file = tmp_path / "state.db"

    async def save() -> None:
        async with puppet_host("a", storage=file) as a:
            # More than SQLite keeps in memory, so that it reads the file again.
            order(a, *(Save(f"name {number}", bytes(50_000)) for number in range(100)))
            for _ in range(100):
                assert (await heard(a, Saved)).error is None

    def damage() -> None:
        with file.open("r+b") as damaged:
            damaged.seek(4096)
            damaged.write(b"\xff" * (file.stat().st_size - 4096))

    async def load() -> None:
        async with puppet_host("a", storage=file) as a:
            damage()
            order(a, Load(""))
            loaded = await heard(a, Loaded)
            assert loaded.error is not None and "malformed" in loaded.error

    play(save())
    with sqlite3.connect(file) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    if when == "after it":
        play(load())
        return
    damage()
    with pytest.raises(HostError, match=r"state.db: .* malformed; it is damaged, and nothing was changed"):
        play(puppet_host("a", storage=file).start())


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE entries (theirs TEXT)")
    database.close()
    before = file.read_bytes()
    with pytest.raises(HostError, match="is the database of another program"):
        play(puppet_host("a", storage=file).start())
    assert file.read_bytes() == before


def test_two_nodes_cannot_share_one_storage(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with puppet_host("a", storage=tmp_path / "state.db"):
            with pytest.raises(HostError, match="another node has it open; give each node its own file"):
                await puppet_host("b", storage=tmp_path / "state.db").start()

    play(scenario())


def test_a_machine_that_fails_stops_its_host_and_the_error_comes_out() -> None:
    class Broken(Puppet):
        def handle(self, now: float, input: Input) -> list[Effect]:
            raise AssertionError("an invariant broke")

    async def scenario() -> None:
        async with puppet_host("b") as b:
            broken = Host("a", Broken(), params=PATIENT, log=QUIET)
            with pytest.raises(AssertionError, match="an invariant broke") as caught:
                async with broken:
                    await b.learn("a", broken.address)
                    order(b, Send("a", Probe(1)))
                    await broken.items.get()
            assert "in node 'a', handling" in caught.value.__notes__[0]
            with pytest.raises(AssertionError):
                await broken.wait()
            await until(lambda: not b.links.up)

    play(scenario())


def test_a_hanging_application_slows_the_sender_down_and_loses_nothing() -> None:
    tiny = patient(inbox_max=10)

    async def scenario() -> None:
        async with puppet_host("a") as a, puppet_host("b", params=tiny) as b:
            await acquaint(a, b)
            order(a, *(Send("b", Echo(round)) for round in range(500)))
            await until(lambda: b.links.is_paused)
            assert len(b.items.items) == 10
            assert [(await heard(b, Received)).message.round for _ in range(500)] == list(range(500))
            assert b.counts.drops == {}
            await until(lambda: not b.links.is_paused)

    play(scenario())
