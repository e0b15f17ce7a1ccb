"""`tidings doctor`, `tidings why` and `tidings top`: what brokers tell of themselves, for people.

`doctor` says whether the network is as it should be, `why` where an event ends, and `top` what all brokers are doing
right now, and the transports of their clients: two looks at the counters of
every broker, a period apart, give rates; the second also tells what waits and what was dropped. Clients that have a
transport tell their broker how it fares; that makes a second table.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from tidings import Event, UsageError
from tidings.cli.filters import read_event
from tidings.cli.output import NO, Json, JsonLines, drawn, json_line, print_json, show, table_lines
from tidings.cli.reach import Reach, reaching
from tidings.cli.streams import STREAM_HEADER, StreamLoad, draw_streams, shown_streams, stream_loads
from tidings.cli.tenants import TENANT_HEADER, TenantLoad, draw_tenants, tenant_cells, tenant_loads
from tidings.diagnosis.findings import Finding, diagnose, lasting
from tidings.diagnosis.network import Network, crawl
from tidings.diagnosis.way import Way, trace_event
from tidings.model.identity import name_of, tenant_of
from tidings.net.inspector import Inspector, InspectorAccess, NotInspected
from tidings.pubsub.rows import CounterRow, EventRow, TransportRow
from tidings.pubsub.tenants import TENANT_ATTRIBUTE

Others = Annotated[
    list[str] | None, typer.Option("--also", metavar="HOST:PORT", help="Begin there as well; may be repeated.")
]


@reaching
def doctor(
    also: Others = None,
    settle: Annotated[
        float, typer.Option(min=0, max=600, help="Seconds between the two looks; only what is found twice counts.")
    ] = 1.0,
    json: Json = False,
    *,
    reach: Reach,
) -> None:
    """Compare the tables of all brokers with what they should be, and name what is missing or too much.

    Goes from one broker to all that it is linked with, and on. What each must have told its neighbours follows from the
    subscriptions, advertisements and links that all of them report. Exit code: 0 if nothing is wrong, 1 if something
    is, 3 if no broker answers, 4 if one does not let us look.

    \b
    Example:
      tidings doctor --broker 127.0.0.1:7411
    """
    network, findings = asyncio.run(examine([reach.broker, *(also or ())], reach.access, settle))
    if json:
        print_json({"brokers": list(network.brokers), "unreached": network.unreached, "findings": findings})
    else:
        show(*finding_lines(network, findings))
    if findings:
        raise typer.Exit(NO)


@reaching
def why(
    event: Annotated[str, typer.Argument(metavar="EVENT", help="Attributes as JSON, or PUBLISHER/NUMBER.")],
    subscriber: Annotated[str, typer.Argument(metavar="SUBSCRIBER", help="The name of a client, or NAME/NUMBER.")],
    publisher: Annotated[str, typer.Option(help="Who publishes it; by default anybody who offers such events.")] = "",
    also: Others = None,
    json: Json = False,
    *,
    reach: Reach,
) -> None:
    """Follow an event to a subscriber, hop by hop, and say at which link or constraint it ends.

    It asks about the tables as they are now. An event that was published can be named by its publisher and number for
    as long as it is stored. Exit code: 0 if it arrives, 1 if not.

    \b
    Example:
      tidings why '{"type": "quake", "magnitude": 4.1}' ann
    """
    ways, network = asyncio.run(follow([reach.broker, *(also or ())], reach.access, event, subscriber, publisher))
    if json:
        print_json(ways)
    elif not ways:
        show(no_subscriber_text(network, subscriber))
    else:
        show(*[line for way in ways for line in way_lines(way)])
    if not any(way.arrives for way in ways):
        raise typer.Exit(NO)


async def examine(addresses: Sequence[str], access: InspectorAccess, settle: float) -> tuple[Network, list[Finding]]:
    network = await crawl_or_raise(addresses, access)
    findings = diagnose(network)
    if findings:
        await asyncio.sleep(settle)
        network = await crawl_or_raise(addresses, access)
        findings = lasting(findings, diagnose(network))
    return network, findings


async def crawl_or_raise(addresses: Sequence[str], access: InspectorAccess) -> Network:
    """The network; if no broker answers at all, why the first does not."""
    network = await crawl(addresses, access)
    if not network.brokers:
        first = network.unreached[0]
        raise NotInspected(first.address, first.problem, first.is_refused)
    return network


async def follow(
    addresses: Sequence[str], access: InspectorAccess, text: str, subscriber: str, publisher: str
) -> tuple[list[Way], Network]:
    network = await crawl_or_raise(addresses, access)
    if text.lstrip().startswith("{"):
        event = in_tenant_of(subscriber, read_event(text))
        return trace_event(network, event, subscriber, publisher), network
    name, _, number = text.rpartition("/")
    if not name or not number.isdigit():
        raise UsageError(f"EVENT {text!r}: give attributes as JSON, such as '{{\"a\": 1}}', or PUBLISHER/NUMBER")
    stored = await stored_event(network, access, name, text)
    return trace_event(network, Event(stored.attributes), subscriber, name), network


def in_tenant_of(subscriber: str, event: Event) -> Event:
    """The event as it would be published in the tenant of the subscriber."""
    tenant = tenant_of(subscriber)
    return Event({**event.attributes, TENANT_ATTRIBUTE: tenant}, event.payload) if tenant else event


async def stored_event(network: Network, access: InspectorAccess, publisher: str, text: str) -> EventRow:
    for reported in network.brokers.values():
        if any(publisher in (row.publisher, name_of(row.publisher)) for row in reported.publishers):
            async with Inspector(reported.broker.listen, access) as inspector:
                if rows := await inspector.table("event", EventRow, text):
                    return rows[0]
    raise UsageError(
        f"EVENT {text}: no broker stores it any more, or it was never published; give its attributes as JSON instead"
    )


def finding_lines(network: Network, findings: Sequence[Finding]) -> list[str]:
    names = ", ".join(network.brokers)
    subscriptions = sum(len(each.subscriptions) for each in network.brokers.values())
    advertisements = sum(not row.hop for each in network.brokers.values() for row in each.advertisements)
    lines = [f"asked {names}: {subscriptions} subscriptions, {advertisements} advertisements"]
    lines += tree_lines(network)
    drained = {name: each.broker.drained for name, each in network.brokers.items() if each.broker.drained}
    lines += [f"{name} is {text} (tidings undrain {name}, if it is to stay)" for name, text in drained.items()]
    if not findings:
        return [*lines, "nothing is wrong"]
    for each in findings:
        lines += [f"{each.kind}: {each.text}", f"    {each.advice}"]
    return [*lines, f"{len(findings)} found"]


def tree_lines(network: Network) -> list[str]:
    """Each tree that found itself, in a line."""
    rows = [each.broker for each in network.brokers.values() if each.broker.colour]
    lines = []
    for colour in dict.fromkeys(row.colour for row in rows):
        members = [row for row in rows if row.colour == colour]
        root = next((row.broker for row in members if not row.above), "out of reach")
        deepest, repairs = max(row.depth for row in members), sum(row.repairs for row in members)
        count = f"{len(members)} brokers, depths up to {deepest:.2f}, {repairs} repairs"
        lines.append(f"tree {colour}: root {root}, {count}")
    gone = [
        f"gone, or out of reach: broker {it.broker} at {it.address}, once linked with {it.told_by}"
        for it in network.departed
    ]
    return lines + gone


def way_lines(way: Way) -> list[str]:
    lines = [f"{way.client}/{way.subscription} wants {way.filter}"]
    lines += [f"  {'ok  ' if step.is_passed else 'STOP'}  {step.broker}: {step.text}" for step in way.steps]
    return [*lines, f"  {'arrives' if way.arrives else 'does not arrive'}: {way.reason}"]


def no_subscriber_text(network: Network, subscriber: str) -> str:
    client = subscriber.partition("/")[0]
    known: list[Any] = sorted({row.client for each in network.brokers.values() for row in each.subscriptions})
    asked = ", ".join(network.brokers)
    if client in known:
        return f"{client} has no subscription of that number; give its name alone"
    missed = "".join(f"; {each.address} did not answer" for each in network.unreached)
    there = f"there are {', '.join(known)}" if known else "nobody subscribes there"
    return f"nobody called {client} subscribes at {asked}{missed}; {there}"


HEADER = ("broker", "links", "clients", "subs", "in/s", "out/s", "kB/s out", "busy", "waiting", "dropped", "state")
TRANSPORT_HEADER = (
    *("client", "publisher or flow", "hold", "loss", "round trip", "cache", "hits"),
    *("lost", "recovered", "given up", "rate/s", "quota/s", "queue", "withheld", "state"),
)


class BrokerLoad(msgspec.Struct, frozen=True):
    """One broker over one period."""

    broker: str
    links: int = 0
    links_down: int = 0
    clients: int = 0
    subscriptions: int = 0
    received_per_second: float = 0.0
    """Messages."""
    sent_per_second: float = 0.0
    bytes_sent_per_second: float = 0.0
    busy: float = 0.0
    """The share of the time in which its machine worked."""
    waiting: int = 0
    """Publications in queues for slow clients."""
    dropped: dict[str, float] = {}
    """By reason, since its start."""
    problem: str = ""
    above: str = ""
    depth: float = 0.0
    colour: str = ""
    repairs: int = 0
    """Its place in a tree that finds itself, as in `BrokerRow`."""


@reaching
def top(
    also: Others = None,
    period: Annotated[float, typer.Option(min=0.1, max=60, help="Seconds over which rates are taken.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Show it once and end.")] = False,
    json: JsonLines = False,
    *,
    reach: Reach,
) -> None:
    """Show rates, queues and drops of all brokers that can be reached, until Ctrl-C.

    Messages in and out, the share of the time in which a broker works, publications that wait for slow clients, and
    what was dropped, by reason (with --json). Below, where there are tenants, what each has of each broker and what it
    may have, and for clients with a transport, a line for the client and one for
    each publisher and flow: how long events are held back, losses, round trips, caches, quotas. Where routing goes by
    popularity, the busiest streams: how many want them, their gain, and which way they go. Exit code: 3 if no broker
    answers.

    \b
    Example:
      tidings top --once --json
    """
    try:
        asyncio.run(watch([reach.broker, *(also or ())], reach.access, period, once, json))
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


async def watch(addresses: Sequence[str], access: InspectorAccess, period: float, once: bool, as_json: bool) -> None:
    console = Console()
    before, before_at = await sample(addresses, access), time.monotonic()
    with (
        Live(console=console, auto_refresh=False, transient=False)
        if show_live(console, once, as_json)
        else Nothing() as live
    ):
        while True:
            await asyncio.sleep(period)
            after, after_at = await sample(addresses, access), time.monotonic()
            loads = measure(before, after, after_at - before_at)
            tenants = tenant_loads(before[1], after[1], after_at - before_at)
            carried = [row for reported in after[0].brokers.values() for row in reported.transport]
            streams = stream_loads(after[0])
            if as_json:
                rows = {"brokers": loads, "tenants": tenants, "transport": carried, "streams": streams}
                show(json_line({"at": time.time(), **rows}))
            elif live is None:
                show(*text_lines(loads, tenants, carried, streams))
            else:
                more = [*([draw_tenants(tenants)] if tenants else []), *([draw_transport(carried)] if carried else [])]
                more += [draw_streams(streams)] if streams else []
                live.update(Group(draw(loads), *more), refresh=True)
            if once:
                return
            before, before_at = after, after_at


def show_live(console: Console, once: bool, as_json: bool) -> bool:
    return console.is_terminal and sys.stdout.isatty() and not once and not as_json


class Nothing:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *problem: Any) -> None:
        return None


Sample = tuple[Network, dict[str, list[CounterRow]]]


async def sample(addresses: Sequence[str], access: InspectorAccess) -> Sample:
    network = await crawl(addresses, access, ("links", "clients", "subscriptions", "queues", "transport", "streams"))
    if not network.brokers:
        first = network.unreached[0]
        raise NotInspected(first.address, first.problem, first.is_refused)
    counters: dict[str, list[CounterRow]] = {}
    for name, reported in network.brokers.items():
        try:
            async with Inspector(reported.broker.listen, access) as inspector:
                counters[name] = await inspector.table("counters", CounterRow)
        except NotInspected:
            # It left between the two questions; the next look says so.
            counters[name] = []
    return network, counters


def measure(before: Sample, after: Sample, seconds: float) -> list[BrokerLoad]:
    """What happened between two looks, broker by broker."""
    network, counters = after
    loads = []
    for name, reported in network.brokers.items():
        old, new = totals(before[1].get(name, [])), totals(counters[name])

        def rate(counter: str, old: Counter[str] = old, new: Counter[str] = new) -> float:
            return max(0.0, new[counter] - old[counter]) / seconds if counter in old else 0.0

        dropped = {
            row.labels.get("reason", ""): row.value for row in counters[name] if row.name == "tidings_drops_total"
        }
        loads.append(
            BrokerLoad(
                name,
                sum(link.is_up for link in reported.links),
                sum(not link.is_up and bool(link.problem) for link in reported.links),
                len(reported.clients),
                len(reported.subscriptions),
                rate("tidings_stream_messages_received_total"),
                rate("tidings_stream_messages_sent_total"),
                rate("tidings_stream_bytes_sent_total"),
                rate("tidings_handle_seconds_sum"),
                sum(queue.waiting for queue in reported.queues),
                dropped,
                reported.broker.not_ready,
                reported.broker.above,
                reported.broker.depth,
                reported.broker.colour,
                reported.broker.repairs,
            )
        )
    return loads + [BrokerLoad(each.broker or each.address, problem=each.problem) for each in network.unreached]


def totals(rows: Sequence[CounterRow]) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows:
        found[row.name] += row.value  # type: ignore[assignment]
    return found


def cells(load: BrokerLoad) -> list[str]:
    return [
        load.broker,
        f"{load.links}" + (f" ({load.links_down} down)" if load.links_down else ""),
        f"{load.clients}",
        f"{load.subscriptions}",
        f"{load.received_per_second:,.0f}",
        f"{load.sent_per_second:,.0f}",
        f"{load.bytes_sent_per_second / 1000:,.1f}",
        f"{load.busy:.0%}",
        f"{load.waiting:,}",
        f"{sum(load.dropped.values()):,.0f}",
        load.problem or f"ready{place_text(load)}",
    ]


def place_text(load: BrokerLoad) -> str:
    if not load.colour:
        return ""
    repairs = f", {load.repairs} repairs" if load.repairs else ""
    return f", below {load.above} at {load.depth:.2f}{repairs}" if load.above else f", root {load.colour}{repairs}"


def transport_cells(row: TransportRow) -> list[str]:
    """A client first, what belongs to it below; columns that mean nothing for a row are empty."""
    is_client, is_stream = row.kind == "client", row.kind == "stream"
    is_flow = not is_client and not is_stream
    is_published = row.kind == "flow as publisher"
    state = row.problem or ("; ".join(filter(None, [row.modes, f"{row.more} rows more" if row.more else ""])))
    return [
        row.client if is_client else "",
        row.publisher if is_stream else " ".join(filter(None, [row.publisher, row.flow])),
        f"{1000 * row.hold:.1f} ms" if is_stream else "",
        f"{row.loss_event_rate:.2%}" if is_stream else "",
        f"{1000 * row.round_trip:.1f} ms" if is_stream and row.round_trip else "",
        f"{row.cache}" if is_client else f"{row.cache}/{row.cache_max}" if is_stream else "",
        f"{row.hits}/{row.requests}" if is_stream else "",
        f"{row.lost:,}" if is_stream else "",
        f"{row.recovered:,}" if is_stream else "",
        f"{row.given_up:,}" if is_stream else "",
        f"{row.rate:,.1f}" if is_flow else "",
        f"{row.quota:,.1f}" if is_flow else "",
        f"{row.queue:,}" if is_published else "",
        f"{row.withheld:,}" if is_client else "",
        state if is_client else "limits it" if row.is_limiting else "",
    ]


def text_lines(
    loads: Sequence[BrokerLoad],
    tenants: Sequence[TenantLoad],
    carried: Sequence[TransportRow],
    streams: Sequence[StreamLoad] = (),
) -> list[str]:
    lines = table_lines(HEADER, [cells(load) for load in loads])
    if tenants:
        lines += ["", *table_lines(TENANT_HEADER, list(map(tenant_cells, tenants)))]
    if carried:
        lines += ["", *table_lines(TRANSPORT_HEADER, list(map(transport_cells, carried)))]
    if streams:
        lines += ["", *table_lines(STREAM_HEADER, shown_streams(streams))]
    return lines


def draw_transport(carried: Sequence[TransportRow]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for name in TRANSPORT_HEADER:
        table.add_column(name, justify="left" if name in ("client", "publisher or flow", "state") else "right")
    for row in carried:
        table.add_row(*drawn(transport_cells(row)), style="red" if row.problem else "")
    return table


def draw(loads: Sequence[BrokerLoad]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, caption="Ctrl-C ends")
    for name in HEADER:
        table.add_column(name, justify="left" if name in ("broker", "state") else "right")
    for load in loads:
        table.add_row(*drawn(cells(load)), style="red" if load.problem else "")
    return table
