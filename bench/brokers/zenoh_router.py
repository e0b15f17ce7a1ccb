"""`python -m bench.brokers.zenoh_router PORT`: zenoh's router, and sessions with it."""

import json
import sys
import threading
from typing import Any


def session(mode: str, port: int) -> Any:
    """A router that listens there, or a client of it. Nobody looks for others on the network."""
    import zenoh

    endpoints = json.dumps([f"tcp/127.0.0.1:{port}"])
    settings = zenoh.Config()
    settings.insert_json5("mode", json.dumps(mode))
    settings.insert_json5("listen/endpoints", endpoints if mode == "router" else "[]")
    settings.insert_json5("connect/endpoints", "[]" if mode == "router" else endpoints)
    settings.insert_json5("scouting/multicast/enabled", "false")
    settings.insert_json5("scouting/gossip/enabled", "false")
    return zenoh.open(settings)


def main() -> None:
    with session("router", int(sys.argv[1])):
        threading.Event().wait()


if __name__ == "__main__":
    main()
