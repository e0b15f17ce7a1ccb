"""A connection to brokers, for the source and the sink, and what can be said of it with `.option(name, value)`.

    url                   where the brokers are: tidings://host:port[,host:port]         (environment: TIDINGS_URL)
    filter                which events: text of the filter language; all of them without it
    startingOffsets       where to begin: "earliest", "latest", a time (ISO, or seconds since 1970), or an offset
    endingOffsets         where a batch read ends: "latest", a time, or an offset
    maxEventsPerTrigger   at most so many events in one micro-batch
    pollInterval          seconds between two questions for news, if there were none: 0.05
    partitions            into how many tasks a read is cut at most: 2
    failOnDataLoss        "true": history that is gone before it was read ends the query
    mode                  "PERMISSIVE": a value that its column cannot hold is null; "FAILFAST": it is an error
    timeout               seconds to wait for an answer, a broker that restarts included: 60
    sinkName, advertise   of the sink: how its publishers are called, and what they say they will publish
    token, tokenKey       the token (its text, or its file), and the file of the key it is bound to
                                                                     (environment: TIDINGS_TOKEN, TIDINGS_TOKEN_KEY)
    tlsCertificate, tlsKey, tlsAuthority       PEM files             (environment: TIDINGS_TLS_CERTIFICATE, ...)
    principal             with TLS and no token: the name in the certificate
    insecure              "true": plain text beyond this machine

Names are read without regard to case, as Spark does. Everything is checked when the format is asked for, before a task
runs. A token is read on the driver, from the option, its file or the environment, and travels to the tasks inside the
pickled reader; the files of keys and certificates are read where a connection is made, so tasks need them too. Spark
prints the options of a stream in its plans, and there it blanks `token` and `url` itself
(spark.sql.redaction.options.regex, spark.redaction.regex). Where that was switched off, the environment is the place
for a token.

Spark calls readers and writers as plain functions, which have no loop. The loop of a `LiveConnection` turns only inside
its calls, in the thread that calls; there is no thread of its own. Between two calls nobody answers the broker's
heartbeats, and after some time it hangs up. The client then comes back by itself as soon as the loop turns again,
before it asks. A link is made where it is used, in the process of the driver or of a task, and never travels.
"""

import asyncio
import os
import secrets
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from tidings.model.errors import UsageError
from tidings.model.language.parser import parse
from tidings.net.client.client import Client
from tidings.net.client.connection import CONNECT_TIMEOUT, Connecting, connect, parse_brokers
from tidings.net.errors import HostError, NotReachable
from tidings.net.keys import principal_of_token, read_token_file, token_of_text
from tidings.net.tls import Tls
from tidings.protocols.access.judge import BEHIND_PRINCIPAL
from tidings.spark.live.offsets import Start, read_start

TIMEOUT = 60.0
POLL_INTERVAL = 0.05
PARTITIONS = 2

ENVIRONMENT = {
    "url": "TIDINGS_URL",
    "token": "TIDINGS_TOKEN",
    "tokenKey": "TIDINGS_TOKEN_KEY",
    "tlsCertificate": "TIDINGS_TLS_CERTIFICATE",
    "tlsKey": "TIDINGS_TLS_KEY",
    "tlsAuthority": "TIDINGS_TLS_AUTHORITY",
}
KNOWN = (
    *("url", "filter", "startingOffsets", "endingOffsets", "maxEventsPerTrigger", "pollInterval", "partitions"),
    *("failOnDataLoss", "mode", "timeout", "sinkName", "advertise", "token", "tokenKey"),
    *("tlsCertificate", "tlsKey", "tlsAuthority", "principal", "insecure"),
)
OF_SPARK = frozenset({"checkpointlocation", "queryname", "outputmode"})
"""Options that Spark hands on although they are its own."""

SINK_NAME = "spark"
SINK_NAME_CHARS_MAX = 100
"""So that a query's id and a partition's number fit behind it."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    filter: str = "TRUE"
    start: Start | None = None
    end: Start | None = None
    events_max: int | None = None
    poll_interval: float = POLL_INTERVAL
    partitions: int = PARTITIONS
    fails_on_loss: bool = True
    fails_on_type: bool = False
    timeout: float = TIMEOUT
    sink_name: str = SINK_NAME
    advertise: str = ""
    token: bytes = b""
    token_key: str = ""
    tls_files: tuple[str, str, str] | None = None
    principal: str = ""
    insecure: bool = False

    def __repr__(self) -> str:
        """Without what must not be seen."""
        return f"Options({self.url}, {self.filter})"

    def connect(self, name: str = "", **others: Any) -> Connecting:
        """A client; `name` is what tells it from others of the same principal, at random if there is none."""
        principal = principal_of_token(self.token) if self.token else self.principal
        called = name
        if principal:
            called = f"{principal}{BEHIND_PRINCIPAL}{name or secrets.token_hex(6)}"
        return connect(
            self.url,
            name=called or None,
            token=self.token or None,
            key=self.token_key or None,
            tls=Tls.from_files(*self.tls_files) if self.tls_files else None,
            insecure=self.insecure,
            timeout=min(CONNECT_TIMEOUT, self.timeout),
            **others,
        )


def read_options(given: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> Options:
    """UsageError names the option that is wrong."""
    said = find_said(given, environment)
    if not said.get("url"):
        raise UsageError('option url: say where the brokers are: .option("url", "tidings://localhost:7411")')
    check_filter("filter", said.get("filter", ""))
    check_filter("advertise", said.get("advertise", ""))
    check_sink_name(said.get("sinkName", SINK_NAME))
    options = Options(
        url=said["url"],
        filter=said.get("filter") or "TRUE",
        start=read_start("startingOffsets", said["startingOffsets"]) if "startingOffsets" in said else None,
        end=read_start("endingOffsets", said["endingOffsets"]) if "endingOffsets" in said else None,
        events_max=int(read_number(said, "maxEventsPerTrigger", 0, 1)) or None,
        poll_interval=read_number(said, "pollInterval", POLL_INTERVAL, 0),
        partitions=int(read_number(said, "partitions", PARTITIONS, 1)),
        fails_on_loss=read_choice(said, "failOnDataLoss", "true", ("true", "false")) == "true",
        fails_on_type=read_choice(said, "mode", "permissive", ("permissive", "failfast")) == "failfast",
        timeout=read_number(said, "timeout", TIMEOUT, 0.05),
        sink_name=said.get("sinkName", SINK_NAME),
        advertise=said.get("advertise", ""),
        token=read_token(said["token"]) if said.get("token") else b"",
        token_key=said.get("tokenKey", ""),
        tls_files=read_tls_files(said),
        principal=said.get("principal", ""),
        insecure=read_choice(said, "insecure", "false", ("true", "false")) == "true",
    )
    check_reach(options)
    return options


def find_said(given: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    by_lower = {name.lower(): name for name in KNOWN}
    said = {name: environment[variable] for name, variable in ENVIRONMENT.items() if environment.get(variable)}
    for name, value in given.items():
        if name.lower() in by_lower:
            said[by_lower[name.lower()]] = value
        elif name.lower() not in OF_SPARK:
            raise UsageError(f"option {name}: there is no such option; there are {', '.join(KNOWN)}")
    return said


def read_tls_files(said: dict[str, str]) -> tuple[str, str, str] | None:
    files = said.get("tlsCertificate", ""), said.get("tlsKey", ""), said.get("tlsAuthority", "")
    if any(files) and not all(files):
        raise UsageError("options tlsCertificate, tlsKey, tlsAuthority: TLS needs all three; give all, or none")
    return files if all(files) else None


def read_token(said: str) -> bytes:
    """The token, or what is in the file of that name. Whatever it is, no error repeats it."""
    with suppress(HostError):
        return token_of_text(said)
    with suppress(HostError, OSError):
        return read_token_file(Path(said))
    raise UsageError("option token: neither a token nor a file with one; make one: tidings token")


def check_reach(options: Options) -> None:
    """Without asking anybody: is the URL one, are the files there?"""
    tls = Tls.from_files(*options.tls_files) if options.tls_files else None
    parse_brokers(options.url)
    if tls is not None and not options.token and not options.principal:
        raise UsageError("option principal: with TLS and without a token, give the name that is in the certificate")


def check_filter(name: str, text: str) -> None:
    if text:
        try:
            parse(text)
        except UsageError as problem:
            raise UsageError(f"option {name}: {problem}") from None


def check_sink_name(name: str) -> None:
    if not 0 < len(name) <= SINK_NAME_CHARS_MAX or any(mark in name for mark in "@,/+ \t\n"):
        raise UsageError(
            f"option sinkName: {name!r:.80} cannot be part of a name; use 1 to {SINK_NAME_CHARS_MAX} characters and "
            "none of @ , / + nor blanks"
        )


def read_number(said: dict[str, str], name: str, default: float, least: float) -> float:
    if name not in said:
        return default
    try:
        number = float(said[name])
    except ValueError:
        number = float("nan")
    if not least <= number < float("inf"):
        raise UsageError(f"option {name}: {said[name]!r:.40} is no number of at least {least}")
    return number


def read_choice(said: dict[str, str], name: str, default: str, choices: tuple[str, ...]) -> str:
    choice = said.get(name, default).lower()
    if choice not in choices:
        raise UsageError(f"option {name}: {said[name]!r:.40} is none of {', '.join(choices)}")
    return choice


Result = TypeVar("Result")


class LiveConnection:
    def __init__(self, options: Options, name: str = "", **others: Any) -> None:
        """`name` and `others` are for `Options.connect`."""
        self.options = options
        self.connecting = options.connect(name, **others)
        self.loop = asyncio.new_event_loop()
        try:
            self.client: Client = self.loop.run_until_complete(self.connecting.open())
        except BaseException:
            self.loop.close()
            raise

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Wait for the result, but not for ever."""
        return self.finish(self.loop.create_task(work))

    def begin(self, work: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
        """Let a request leave for the broker while we do something else; `finish` waits for the answer."""
        task = self.loop.create_task(work)
        self.loop.run_until_complete(turn())
        return task

    def finish(self, task: "asyncio.Task[Result]") -> Result:
        return self.loop.run_until_complete(self.bounded(task))

    def drop(self, task: "asyncio.Task[Result]") -> None:
        """Nobody waits for the answer any more."""
        if not task.done():
            task.cancel()
            self.loop.run_until_complete(asyncio.wait([task]))

    async def bounded(self, task: "asyncio.Task[Result]") -> Result:
        try:
            async with asyncio.timeout(self.options.timeout):
                return await task
        except TimeoutError:
            reason = self.client.reason or "no answer"
            raise NotReachable(
                f"{self.client.brokers} did not answer within {self.options.timeout:g} s ({reason}); is the broker "
                'running? give it longer with .option("timeout", seconds)'
            ) from None

    def close(self) -> None:
        if not self.loop.is_closed():
            try:
                self.loop.run_until_complete(self.client.leave())
                self.loop.run_until_complete(self.loop.shutdown_default_executor())
            finally:
                self.loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


TURNS = 3
"""A request is made, handed to the machine, and written, one turn of the loop each."""


async def turn() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)
