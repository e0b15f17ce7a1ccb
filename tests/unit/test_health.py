"""What those who watch a node get to see, and what they cannot do to it."""

import asyncio
from collections.abc import Callable

import pytest

from tests.worlds.sockets import play
from tidings.net.broker import health
from tidings.net.broker.health import HealthServer
from tidings.net.errors import HostError

exposition = pytest.importorskip("prometheus_client", reason="metrics need prometheus-client, of the extra 'net'")


def nothing_wrong() -> str:
    return ""


def make(
    why_not_healthy: Callable[[], str] = nothing_wrong, why_not_ready: Callable[[], str] = nothing_wrong
) -> HealthServer:
    registry = exposition.CollectorRegistry()
    exposition.Counter("tidings_things", "things", registry=registry).inc(3)
    return HealthServer(("127.0.0.1", 0), registry, why_not_healthy, why_not_ready)


async def exchange(server: HealthServer, request: bytes) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(request)
    if not request.endswith(b"\r\n\r\n"):
        writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, content = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), content


def ask(server: HealthServer, *requests: bytes) -> list[tuple[int, bytes]]:
    async def scenario() -> list[tuple[int, bytes]]:
        await server.start()
        answers = [await exchange(server, request) for request in requests]
        await server.stop()
        return answers

    return play(scenario())


def get(target: str) -> bytes:
    return f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def test_a_node_that_is_ready_says_so() -> None:
    assert ask(make(), get("/healthz"), get("/readyz")) == [(200, b"ok\n"), (200, b"ok\n")]


def test_a_node_that_is_not_ready_says_why_and_is_healthy_all_the_same() -> None:
    server = make(why_not_ready=lambda: "b2 has not told its tables")
    assert ask(server, get("/healthz"), get("/readyz")) == [(200, b"ok\n"), (503, b"b2 has not told its tables\n")]


def test_a_node_that_failed_is_neither_healthy_nor_ready() -> None:
    server = make(why_not_healthy=lambda: "it failed")
    assert ask(server, get("/healthz"), get("/readyz")) == [(503, b"it failed\n"), (503, b"it failed\n")]


def test_metrics_are_those_of_the_registry() -> None:
    ((status, content),) = ask(make(), get("/metrics?x=1"))
    assert status == 200
    assert b"tidings_things_total 3.0" in content


def test_head_has_no_content() -> None:
    assert ask(make(), b"HEAD /metrics HTTP/1.1\r\n\r\n") == [(200, b"")]


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (get("/"), 404),
        (get("/metrics/../etc"), 404),
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"nonsense\r\n\r\n", 400),
        (b"\xff\xfe \xff HTTP/1.1\r\n\r\n", 405),
        (b"GET /metrics HTTP/1.1\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 2 * health.REQUEST_BYTES_MAX + b"\r\n\r\n", 431),
    ],
)
def test_what_is_no_good_request_is_refused(request_bytes: bytes, status: int) -> None:
    ((found, _),) = ask(make(), request_bytes)
    assert found == status


def test_a_watcher_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "REQUEST_TIMEOUT", 0.05)

    async def scenario() -> bytes:
        server = make()
        await server.start()
        reader, writer = await asyncio.open_connection(*server.address)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        await server.stop()
        return answer

    assert play(scenario()).startswith(b"HTTP/1.1 408")


def test_watchers_that_take_their_time_give_way_to_others() -> None:
    async def scenario() -> list[tuple[int, bytes]]:
        server = make()
        await server.start()
        slow = [await asyncio.open_connection(*server.address) for _ in range(health.WATCHERS_MAX + 8)]
        answers = [await exchange(server, get(target)) for target in ("/healthz", "/metrics")]
        assert len(server.watchers) <= health.WATCHERS_MAX
        for _, writer in slow:
            writer.close()
        await server.stop()
        return answers

    (healthy, _), (measured, content) = play(scenario())
    assert (healthy, measured) == (200, 200)
    assert b"tidings_things_total" in content


def test_beyond_loopback_it_must_be_asked_for() -> None:
    server = make()
    server.address = ("0.0.0.0", 0)
    with pytest.raises(HostError, match="say insecure"):
        ask(server)


def test_a_port_that_is_taken_is_named() -> None:
    async def scenario() -> None:
        one, two = make(), make()
        await one.start()
        two.address = one.address
        try:
            with pytest.raises(HostError, match="another program uses that port"):
                await two.start()
        finally:
            await one.stop()

    play(scenario())
