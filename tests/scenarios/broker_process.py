"""A broker in a process of its own, to be killed: `python -m tests.scenarios.broker_process PORT STORE`."""

import asyncio
import sys
from pathlib import Path

from tests.worlds.loopback import Broker


async def serve(port: int, store: Path) -> None:
    async with Broker(listen=("127.0.0.1", port), storage=store) as broker:
        print("up", flush=True)
        await broker.wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
