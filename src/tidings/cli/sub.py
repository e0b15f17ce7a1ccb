"""`tidings sub`: watch the events that match a filter."""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, cast

import typer
from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from tidings import UsageError, parse
from tidings.cli.filters import value_json
from tidings.cli.output import JsonLines, drawn, json_line, read_instant, show
from tidings.cli.reach import OrderedOption, PacedOption, Reach, ReliableOption, connect, reaching
from tidings.net.client.client import QUEUE_MAX, Client
from tidings.net.client.connection import Connecting
from tidings.net.client.subscription import Delivered, Subscription
from tidings.pubsub.client import Policy

SHOWN_MAX = 20
"""Events in the table; older ones make room."""

REFRESHES_PER_SECOND = 8
LOOK_PERIOD = 0.2
"""Seconds between two looks at whether the broker is still there."""

POLICIES: dict[str, Policy] = {
    "wait": "wait",
    "drop-oldest": "drop oldest",
    "drop-newest": "drop newest",
    "disconnect": "disconnect",
}


@reaching
def sub(
    filter: Annotated[str, typer.Argument(metavar="FILTER", help="Which events, in CESQL; TRUE for all.")],
    guarantee: Annotated[
        str, typer.Option(help="installed: nothing is missed from the receipt on; none: whatever comes.")
    ] = "installed",
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From then on, as far as it is stored: 5m, or an ISO time.")
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(metavar="PUBLISHER/NUMBER", help="From behind this event on; may be repeated."),
    ] = None,
    group: Annotated[str | None, typer.Option(help="Members of a group get the same events.")] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many events.")] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0.1, help="End after so many seconds; exit code 1 if --count is not reached.")
    ] = None,
    policy: Annotated[
        str, typer.Option(help="When events come faster than we take them: wait, drop-oldest, drop-newest, disconnect.")
    ] = "wait",
    queue: Annotated[int, typer.Option(min=1, help="Events that may wait at the broker.")] = QUEUE_MAX,
    name: Annotated[str | None, typer.Option(help="Our name as a subscriber; by default a new one.")] = None,
    ordered: OrderedOption = False,
    reliable: ReliableOption = False,
    paced: PacedOption = False,
    json: JsonLines = False,
    *,
    reach: Reach,
) -> None:
    """Show events that match a filter as they come, until Ctrl-C.

    The receipt (who installed the subscription, and from when on nothing is missed) goes to stderr, and so does word
    of a broker that is lost or found again; the subscription then continues where it was. --reliable and --paced are
    ordered as well; an event that did not come straight says on which way it came. Exit code: 3 if no broker answers,
    4 if we may not.

    \b
    Example:
      tidings sub "type = 'quake' AND magnitude >= 4.5" --since 1h --json
    """
    if guarantee not in ("installed", "none"):
        raise UsageError(f"--guarantee {guarantee}: give installed or none; --since and --after choose their own")
    if policy not in POLICIES:
        raise UsageError(f"--policy {policy}: give {', '.join(POLICIES)}")
    parse(filter)
    asked = {
        "guarantee": None if since or after else cast(Literal["installed", "none"], guarantee),
        "since": None if since is None else read_instant(since, "--since", time.time()),
        "after": read_positions(after or ()) if after else None,
        "group": group,
        "policy": POLICIES[policy],
        "queue_max": queue,
    }
    watcher = SubscriptionWatcher(json, count)
    connection = connect(reach, name, ordered or reliable or paced, reliable, paced)
    try:
        is_complete = asyncio.run(watcher.run(connection, filter, asked, timeout))
    except KeyboardInterrupt:
        is_complete = True
    watcher.conclude()
    if not is_complete:
        raise typer.Exit(1)


def read_positions(texts: Sequence[str]) -> dict[str, int]:
    positions = {}
    for text in texts:
        publisher, _, number = text.rpartition("/")
        if not publisher or not number.isdigit():
            raise UsageError(f"--after {text}: write it as PUBLISHER/NUMBER, as events are shown")
        positions[publisher] = int(number)
    return positions


class SubscriptionWatcher:
    """Takes events and shows them: as lines, as JSON, or on a terminal as a table of the latest."""

    def __init__(self, as_json: bool, count: int | None) -> None:
        self.as_json, self.count = as_json, count
        self.console = Console()
        self.latest: deque[Delivered] = deque(maxlen=SHOWN_MAX)
        self.subscription: Subscription | None = None
        self.seen = 0
        self.missed: dict[str, int] = {}

    async def run(self, connection: Connecting, filter: str, asked: dict[str, Any], timeout: float | None) -> bool:
        """Whether all came that was waited for."""
        async with connection as client:
            self.subscription = await client.subscribe(filter, **asked)
            say(receipt_text(client, self.subscription))
            looking = asyncio.create_task(self.look_after(client, self.subscription))
            try:
                async with asyncio.timeout(timeout):
                    return await self.take(self.subscription)
            except TimeoutError:
                return self.count is None
            finally:
                looking.cancel()
                with suppress(asyncio.CancelledError):
                    await looking

    async def take(self, subscription: Subscription) -> bool:
        is_table = not self.as_json and self.console.is_terminal
        live = Live(console=self.console, refresh_per_second=REFRESHES_PER_SECOND, get_renderable=self.draw)
        if is_table:
            live.start()
        try:
            async for event in subscription:
                self.seen += 1
                if is_table:
                    self.latest.append(event)
                else:
                    show(json_line(event_json(event)) if self.as_json else event_line(event))
                if self.seen == self.count:
                    return True
        finally:
            if is_table:
                live.stop()
        return False

    async def look_after(self, client: Client, subscription: Subscription) -> None:
        """Say when the broker is lost and when it is there again, and what was missed."""
        before = client.broker
        while True:
            await asyncio.sleep(LOOK_PERIOD)
            if client.broker is None and before is not None:
                say(f"broker {before} is lost: {client.reason or 'no reason is known'}; trying again")
            elif client.broker is not None and before is None:
                say(f"broker {client.broker} serves us; the subscription continues where it was")
            before = client.broker
            for reason, number in subscription.counts.missed.items():
                if number > self.missed.get(reason, 0):
                    say(f"missed {number - self.missed.get(reason, 0)} or more events: {reason}")
                    self.missed[reason] = number

    def draw(self) -> Table:
        caption = f"{self.seen} events; Ctrl-C ends"
        table = Table(box=box.SIMPLE_HEAD, caption=caption)
        for column in ("accepted", "event", "attributes"):
            table.add_column(column, no_wrap=column != "attributes")
        for event in self.latest:
            cells = time_text(event.accepted_at), f"{event.life}/{event.number}", attributes_text(event)
            table.add_row(*drawn(cells))
        return table

    def conclude(self) -> None:
        missed = "".join(f"; missed {number}: {reason}" for reason, number in self.missed.items())
        say(f"{self.seen} events{missed}{self.ways()}")

    def ways(self) -> str:
        """What the transport did, if there was one and it had something to do."""
        if self.subscription is None:
            return ""
        counts = self.subscription.counts
        parts = {
            "late": counts.late,
            "lost": counts.lost,
            "repaired": counts.repaired,
            "from history": counts.from_history,
            "given up": counts.given_up,
        }
        return "".join(f"; {number} {what}" for what, number in parts.items() if number)


def say(text: str) -> None:
    show(f"tidings: {text}", to_stderr=True)


def receipt_text(client: Client, subscription: Subscription) -> str:
    receipt = subscription.receipt
    more = receipt.brokers_count - len(receipt.brokers)
    brokers = ", ".join(receipt.brokers) + (f" and {more} more" if more > 0 else "")
    narrowed = f"; narrowed to what you may have: {receipt.filter}" if receipt.is_narrowed else ""
    promised = "; nothing is promised" if receipt.guarantee == "none" else ""
    since = time_text(receipt.at)
    return f"{client.name} is subscribed at {brokers or client.broker} since {since}{narrowed}{promised}"


def time_text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def attributes_text(event: Delivered) -> str:
    return " ".join(f"{name}={value_json(value)}" for name, value in event.attributes.items())


def event_line(event: Delivered) -> str:
    payload = f"  ({len(event.payload)} bytes)" if event.payload else ""
    way = f"  [{event.way}]" if event.way != "direct" else ""
    return f"{time_text(event.accepted_at)}  {event.life}/{event.number}  {attributes_text(event)}{payload}{way}"


def event_json(event: Delivered) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "publisher": event.publisher,
        "number": event.number,
        "accepted_at": event.accepted_at,
        "attributes": event.attributes,
    }
    if event.life != event.publisher:
        shown["life"] = event.life
    if event.way != "direct":
        shown["way"] = event.way
    if event.payload:
        try:
            shown["payload"] = event.payload.decode()
        except UnicodeDecodeError:
            shown["payload_base64"] = event.payload
    return shown
