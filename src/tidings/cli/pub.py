"""`tidings pub`: publish an event from the command line, or many from a pipe."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tidings import UsageError
from tidings.cli.output import Json, print_json, show
from tidings.cli.reach import OrderedOption, PacedOption, Reach, ReliableOption, connect, reaching
from tidings.model.event import Event
from tidings.model.values import Value
from tidings.net.client.client import Client
from tidings.net.client.connection import Connecting

LINE_BYTES_MAX = 2 * 1024 * 1024
"""One event as a line of JSON."""

WORDS: dict[str, Value] = {"true": True, "false": False}


class PublishSummary(msgspec.Struct):
    """What became of it."""

    publisher: str
    events: int = 0
    reached: bool = False
    """Whether the brokers of all who want them are known to have them."""


@reaching
def pub(
    attributes: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help="The attributes of one event.")
    ] = None,
    payload: Annotated[str | None, typer.Option(metavar="TEXT", help="What the event carries.")] = None,
    payload_file: Annotated[Path | None, typer.Option(metavar="FILE", help="The same, from a file.")] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Read events from stdin: a JSON object of attributes a line.")
    ] = False,
    advertise: Annotated[
        str | None, typer.Option(metavar="FILTER", help="What is advertised first; by default all that we may publish.")
    ] = None,
    receipt: Annotated[
        bool, typer.Option("--receipt", help="Wait until the brokers of all who want it have it.")
    ] = False,
    name: Annotated[str | None, typer.Option(help="Our name as a publisher; by default a new one.")] = None,
    ordered: OrderedOption = False,
    reliable: ReliableOption = False,
    paced: PacedOption = False,
    json: Json = False,
    *,
    reach: Reach,
) -> None:
    """Publish one event, or with --lines as many as come on stdin.

    A value that reads as a number, true or false is one; in double quotes it stays text: code='"007"'. --reliable and
    --paced are ordered as well; what we published can be repaired only as long as we run. Ends when the broker has
    accepted everything. Exit code: 1 if it declined something, 3 if no broker answers, 4 if we may not.

    \b
    Example:
      tidings pub type=quake magnitude=5.1 place="off Chile" --payload "details"
    """
    if lines and (attributes or payload is not None or payload_file is not None):
        raise UsageError("--lines: events come from stdin; leave out attributes and payload")
    if not lines and not attributes:
        raise UsageError("give attributes as NAME=VALUE, such as type=quake, or --lines to read events from stdin")
    body = read_payload(payload, payload_file)
    first = None if lines else Event(read_attributes(attributes or ()), body)
    connection = connect(reach, name, ordered or reliable or paced, reliable, paced)
    published = asyncio.run(publish(connection, first, advertise, receipt))
    if json:
        print_json(published)
    else:
        counted = "1 event" if published.events == 1 else f"{published.events} events"
        where = "; all brokers that want it have it" if published.reached else ""
        show(f"published {counted} as {published.publisher}{where}")


def read_attributes(texts: Sequence[str]) -> dict[str, Value]:
    attributes: dict[str, Value] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"{text!r}: write an attribute as NAME=VALUE, such as magnitude=5.1")
        if name in attributes:
            raise UsageError(f"{text!r}: {name} is given twice")
        attributes[name] = read_value(value)
    return attributes


def read_value(text: str) -> Value:
    if text in WORDS:
        return WORDS[text]
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return found if isinstance(found, int | float | str) else text


def read_payload(text: str | None, file: Path | None) -> bytes:
    if text is not None and file is not None:
        raise UsageError("--payload and --payload-file: give one of them")
    if file is not None:
        try:
            return file.read_bytes()
        except OSError as problem:
            raise UsageError(f"--payload-file {file}: {problem.strerror}; check the name and its rights") from None
    return (text or "").encode()


async def publish(connection: Connecting, first: Event | None, advertise: str | None, receipt: bool) -> PublishSummary:
    async with connection as client:
        if advertise is not None:
            await client.advertise(advertise)
        published = PublishSummary(client.name, reached=receipt)
        if first is not None:
            await client.publish(first, receipt=receipt)
            published.events = 1
        else:
            await publish_lines(client, receipt, published)
        await client.flush()
    return published


async def publish_lines(client: Client, receipt: bool, published: PublishSummary) -> None:
    """With receipts, the events of a while share one wait."""
    waiting: set[asyncio.Future[None]] = set()
    async for event in read_lines():
        if receipt and not published.events:
            # Alone, so that what is advertised for it is known before others follow; they might overtake it.
            await client.publish(event, receipt=True)
        elif receipt:
            waiting.add(asyncio.ensure_future(client.publish(event, receipt=True)))
            done = {each for each in waiting if each.done()}
            for each in done:
                each.result()
            waiting -= done
            await asyncio.sleep(0)
        else:
            await client.publish(event)
        published.events += 1
    await asyncio.gather(*waiting)


async def read_lines() -> AsyncIterator[Event]:
    loop = asyncio.get_running_loop()
    number = 0
    while line := await loop.run_in_executor(None, sys.stdin.buffer.readline, LINE_BYTES_MAX):
        number += 1
        if not line.strip():
            continue
        try:
            members = msgspec.json.decode(line)
            if not isinstance(members, dict):
                raise UsageError("give a JSON object of attributes")
            yield Event(members)
        except (msgspec.DecodeError, UsageError) as problem:
            raise UsageError(f"line {number} of stdin is no event: {problem}") from None
