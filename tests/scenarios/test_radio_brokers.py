"""Brokers on an emulated radio: each hears those that it is told of, by UDP, and they are one tree."""

from contextlib import AsyncExitStack

from bench.brokers.servers import free_port
from tests.scenarios.services import make_service
from tests.worlds.loopback import connect, url_of
from tests.worlds.sockets import play, until
from tidings.net.broker.service import BrokerService

HEARS = {"a": "b", "b": "ac", "c": "bd", "d": "c"}
QUICK = {
    "overlay": {"kind": "witree", "hello_period": 0.3, "group_period": 0.6, "collect_for": 0.3, "guard_delay": 0.05}
}


def test_brokers_that_hear_each_other_in_a_row_pass_events_on_and_one_that_comes_back_is_taken_in() -> None:
    ports = {name: free_port() for name in HEARS}

    def on_air(name: str) -> BrokerService:
        hears = [f"{other}=127.0.0.1:{ports[other]}" for other in HEARS[name]]
        return make_service(name, hears=hears, listen=f"127.0.0.1:{ports[name]}", **QUICK)

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            services = {name: on_air(name) for name in HEARS}
            for service in services.values():
                stack.push_async_callback(service.stop)
                await service.start()
            await until(lambda: all(set(services[name].node.overlay.neighbours) == set(HEARS[name]) for name in HEARS))
            reader = await stack.enter_async_context(connect(url_of(services["d"].address)))
            subscription = await reader.subscribe("x > 1")
            writer = await stack.enter_async_context(connect(url_of(services["a"].address)))
            await writer.advertise("TRUE")
            await until(lambda: all(not service.why_not_ready() for service in services.values()))
            await writer.publish({"x": 5})
            assert (await anext(subscription)).attributes["x"] == 5

            await services["b"].stop()
            await until(lambda: not services["a"].node.overlay.neighbours)
            services["b"] = on_air("b")
            stack.push_async_callback(services["b"].stop)
            await services["b"].start()
            await until(lambda: set(services["b"].node.overlay.neighbours) == {"a", "c"})
            await until(lambda: all(not service.why_not_ready() for service in services.values()))
            await writer.publish({"x": 7})
            assert (await anext(subscription)).attributes["x"] == 7
            await reader.close()
            await writer.close()

    play(scenario())
