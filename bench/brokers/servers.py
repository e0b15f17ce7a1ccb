"""Starting the brokers, each in a process of its own on a free port, and what CPU time it has used."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from random import SystemRandom
from types import TracebackType
from typing import Self

STARTING_SECONDS_MAX = 300.0
"""Ours may have to compile its engine first, beside others that use the machine."""
STOPPING_SECONDS_MAX = 60.0
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

TIDINGS, NATS, MOSQUITTO, REDIS, ZENOH = "tidings", "NATS", "Mosquitto", "Redis", "zenoh"
BROKERS = (TIDINGS, NATS, MOSQUITTO, REDIS, ZENOH)
PROGRAMS = {NATS: "nats-server", MOSQUITTO: "mosquitto", REDIS: "redis-server"}


class Missing(Exception):
    """This broker is not installed here."""


def program(name: str) -> str:
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    if found is None:
        raise Missing(f"{name} is not installed; with Debian: apt-get install {name}")
    return found


def check_installed(broker: str) -> None:
    if broker in PROGRAMS:
        program(PROGRAMS[broker])
    elif broker == ZENOH and find_spec("zenoh") is None:
        raise Missing("zenoh is not installed; with pip: pip install eclipse-zenoh")


def command_of(broker: str, port: int, folder: Path) -> list[str]:
    if broker == TIDINGS:
        listen = ["--listen", f"127.0.0.1:{port}", "--log", "error"]
        return [sys.executable, "-m", "tidings", "broker", "--name", "broker", *listen]
    if broker == NATS:
        return [program(PROGRAMS[NATS]), "-a", "127.0.0.1", "-p", str(port)]
    if broker == MOSQUITTO:
        settings = folder / "mosquitto.conf"
        # Without these bounds Mosquitto drops what a subscriber has not read yet.
        settings.write_text(
            f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 0\n"
            "log_type error\n"
        )
        return [program(PROGRAMS[MOSQUITTO]), "-c", str(settings)]
    if broker == REDIS:
        unbounded = ["--client-output-buffer-limit", "pubsub", "0", "0", "0"]
        return [program(PROGRAMS[REDIS]), "--port", str(port), "--bind", "127.0.0.1", "--save", "", *unbounded]
    return [sys.executable, "-m", "bench.brokers.zenoh_router", str(port)]


class Server:
    """`with Server("NATS") as server:`; raises Missing."""

    def __init__(self, broker: str) -> None:
        self.broker, self.port = broker, free_port()
        check_installed(broker)
        self.folder: Path
        self.process: subprocess.Popen[bytes]

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="tidings-bench-"))
        command = command_of(self.broker, self.port, self.folder)
        with (self.folder / "log").open("wb") as log:
            # A broker that is meant to be quick runs on uvloop, where that is installed.
            settings = {"TIDINGS_BROKER_UVLOOP": "true"} if find_spec("uvloop") else {}
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **settings})
        try:
            self.wait()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def wait(self) -> None:
        deadline = time.monotonic() + STARTING_SECONDS_MAX
        while time.monotonic() < deadline and self.process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0):
                return
            time.sleep(0.05)
        raise RuntimeError(f"{self.broker} did not start: {(self.folder / 'log').read_text(errors='replace')[-1000:]}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOPPING_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder)

    def cpu_seconds(self) -> float:
        """Of all threads, in user and kernel mode."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


PORTS = range(10_000, 32_000)
"""Below those that systems give to whoever asks for any: what was free a moment ago still is."""


def free_port() -> int:
    while True:
        port = SystemRandom().choice(PORTS)
        with suppress(OSError), socket.socket() as listening:
            listening.bind(("127.0.0.1", port))
            return port
