"""`tidings doctor` and `tidings why`: is the network as it should be, and where does an event end?"""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from tidings import Event, UsageError
from tidings.cli.connection import Reach, reaching
from tidings.cli.filters import read_event
from tidings.cli.output import NO, Json, print_json
from tidings.diagnosis.findings import Finding, diagnose, lasting
from tidings.diagnosis.network import Network, crawl
from tidings.diagnosis.way import Way, trace_event
from tidings.net.inspector import Inspector, InspectorAccess, NotInspected
from tidings.pubsub.rows import EventRow

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
        print("\n".join(finding_lines(network, findings)))
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
        print(no_subscriber_text(network, subscriber))
    else:
        print("\n".join(line for way in ways for line in way_lines(way)))
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
        return trace_event(network, read_event(text), subscriber, publisher), network
    name, _, number = text.rpartition("/")
    if not name or not number.isdigit():
        raise UsageError(f"EVENT {text!r}: give attributes as JSON, such as '{{\"a\": 1}}', or PUBLISHER/NUMBER")
    stored = await stored_event(network, access, name, text)
    return trace_event(network, Event(stored.attributes), subscriber, name), network


async def stored_event(network: Network, access: InspectorAccess, publisher: str, text: str) -> EventRow:
    for reported in network.brokers.values():
        if any(row.publisher == publisher for row in reported.publishers):
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
    if not findings:
        return [*lines, "nothing is wrong"]
    for each in findings:
        lines += [f"{each.kind}: {each.text}", f"    {each.advice}"]
    return [*lines, f"{len(findings)} found"]


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
