"""A campaign: what brokers there are, and what their applications do, drawn from a seed.

Readers subscribe and, some of them, unsubscribe; writers advertise, publish, withdraw what they advertised, and some
leave. Everything about them is drawn: how the brokers are linked, whether each stores on disk, how far its clock is
off, the guarantees and policies of subscriptions and how slow their readers are, the wishes, the sizes of payloads up
to what an event may hold, and how many writers there are. Some readers are twins: members of a group, with the same
wish. Some read what is stored, by marks. In some campaigns the clients belong to tenants, which use the same names for
groups and events.

Most campaigns are small, since a small failure is soon understood. Some are large in one respect, the *scale*. What
grows has a law with a tail that is cut at its bound (`draw_large`): most are far from it, and some are there.

    usual    75 %  2 to 6 brokers, 1 to 5 writers, 20 to 250 events
    busy     10 %  5 to 60 writers, 300 to 3,000 events
    wide      6 %  7 to 16 brokers
    bulk      5 %  60 events of up to the largest size, together more than links queue
    crowd     3 %  100 to 10,000 writers, an eighth of these at the bound
    tables    1 %  1,000 to 8,000 subscriptions, a quarter of these at the bound

What goes wrong besides is drawn elsewhere (`sim/library/nemesis.py`, `lab/chaos`): this says only what applications
want. Times are seconds from the beginning of the run; nothing here depends on what happens.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import msgspec
from msgspec.structs import replace

from tidings.machine.streams import RandomStream, random_stream
from tidings.model.bounds import PUBLICATION_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.workloads.nemesis.wish import EVERYTHING, KINDS, Membership, Wish, draw_attributes, draw_wish

BEGIN = 3.0
"""When applications begin: brokers have found each other by then, unless a fault keeps them from it."""

HEAD_ROOM_BYTES = 1024
"""Left of the largest event for its attributes."""

Scale = Literal["usual", "busy", "wide", "bulk", "crowd", "tables"]
WantedGuarantee = Literal["none", "installed", "reference"]
WantedPolicy = Literal["wait", "drop oldest", "drop newest", "disconnect"]

GUARANTEES: tuple[WantedGuarantee, ...] = ("installed", "installed", "installed", "reference", "reference", "none")

SHAPES = ("chain", "star", "ring", "random_tree", "clique", "scale_free")
POLICIES: tuple[WantedPolicy, ...] = ("wait", "wait", "wait", "wait", "drop oldest", "drop newest", "disconnect")
TENANTS = ("", "acme", "zeta")
GROUP = "twins"
READ_AFTER = 100.0
"""Seconds after which applications that read in the end do so: nothing is unreachable any more."""
CLOCK_ERRORS = (0.0, 0.0, 0.05, 0.5, 60.0)
WINDOWS = (1, 4, 32, 1024)
"""Events on the way."""
BUSY_WINDOW, BUSY_PAUSE = 32, 0.02
"""The least and the longest where thousands of events are published, or all of them are read in the end: a round trip
for each takes longer than a run."""
PAGES = (4, 30, 4096)
"""Events a page of what is read."""
WIDE_WINDOW = 4
"""The least where a round trip may take three seconds."""
TABLE_READERS, TABLE_MAX = 8, 8_000
"""Whose subscriptions tables are made of, and how many there are at most."""
SMALL_BYTES, MIDDLE_BYTES = (0, 1, 20, 200), (2_000, 20_000)


class CampaignParams(msgspec.Struct, frozen=True, kw_only=True):
    """What may be drawn. Without a switch the draws of everything else stay the same."""

    brokers: int = 0
    """How many; 0 is drawn."""
    span: float = 30.0
    """Seconds in which applications do something."""
    writers_max: int = 10_000
    """Of a crowd."""
    is_bulk: bool = True
    """Whether payloads together may exceed what a link queues."""
    has_tables: bool = True
    """Whether there may be thousands of subscriptions."""
    clock_error_max: float = 60.0
    """Seconds by which the clock of a broker may be off."""
    has_short_history: bool = True
    """Whether brokers may forget what somebody still wants."""
    has_groups: bool = True
    has_tenants: bool = True
    has_readings: bool = True
    """Whether somebody may read what is stored without subscribing."""
    scale: str = ""
    """Always this scale; empty is drawn."""

    def __post_init__(self) -> None:
        if self.brokers < 0 or self.writers_max < 1 or not self.span > 0 or self.clock_error_max < 0:
            raise UsageError(
                f"brokers {self.brokers}, writers_max {self.writers_max}, span {self.span}, "
                f"clock_error_max {self.clock_error_max}: give numbers above 0 (brokers=0 is drawn)"
            )
        if self.scale not in ("", *get_args(Scale)):
            raise UsageError(f"scale: {self.scale!r}; give one of {', '.join(get_args(Scale))}, or leave it empty")


class CampaignBroker(msgspec.Struct, frozen=True):
    name: str
    is_durable: bool
    clock_offset: float
    """Of its first process."""


class WantedLater(msgspec.Struct, frozen=True):
    """A subscription to be made."""

    at: float
    until: float | None
    wish: Wish
    guarantee: WantedGuarantee
    since: float | None
    policy: WantedPolicy
    window: int
    queue_max: int
    pause: float
    """Seconds that its reader takes for each event."""
    group: str = ""
    """Members get the same."""


class ReadLater(msgspec.Struct, frozen=True):
    """What is stored is to be read, by marks."""

    at: float
    wish: Wish
    limit: int
    """How many events of a page."""


class OfferedLater(msgspec.Struct, frozen=True):
    """An advertisement to be made."""

    at: float
    until: float | None
    wish: Wish


class WrittenLater(msgspec.Struct, frozen=True):
    """An event to be published under the offer of this place. Those of one time and offer are published at once."""

    at: float
    offer: int
    attributes: dict[str, bool | int | float | str]
    payload_bytes: int
    wants_receipt: bool


class CampaignReader(msgspec.Struct, frozen=True):
    name: str
    brokers: tuple[str, ...]
    """Where to be served: the first, and the next when that one is gone."""
    wanted: tuple[WantedLater, ...]
    read: tuple[ReadLater, ...] = ()


class CampaignWriter(msgspec.Struct, frozen=True):
    name: str
    brokers: tuple[str, ...]
    offers: tuple[OfferedLater, ...]
    written: tuple[WrittenLater, ...]


class Campaign(msgspec.Struct, frozen=True):
    seed: int
    scale: Scale
    shape: str
    brokers: tuple[CampaignBroker, ...]
    readers: tuple[CampaignReader, ...]
    writers: tuple[CampaignWriter, ...]
    clock_error: float
    """No clock is off by more."""
    history_age: float
    history_count_max: int
    until: float
    """When applications have done all they do, but for those who read in the end."""
    tenants: tuple[str, ...] = ("",)
    """To whom clients belong, and say so in their names; the one without a name are those who belong to nobody."""

    @property
    def may_forget(self) -> bool:
        return self.history_age < SURE_AGE

    @property
    def movers(self) -> set[str]:
        """Writers that may go to another broker."""
        return {writer.name for writer in self.writers if len(writer.brokers) > 1}

    @property
    def clients(self) -> tuple[CampaignReader | CampaignWriter, ...]:
        return (*self.readers, *self.writers)


SURE_AGE, SURE_COUNT = 900.0, 100_000
"""A history that holds everything of a run."""


def draw_campaign(params: CampaignParams, seed: int) -> Campaign:
    rng = random_stream(seed, "campaign")
    scale = draw_scale(rng, params)
    clock_error = min(rng.choice(CLOCK_ERRORS), params.clock_error_max)
    brokers = draw_brokers(random_stream(seed, "campaign brokers"), params, scale, clock_error)
    names = tuple(broker.name for broker in brokers)
    is_short = rng.random() < 0.15 and params.has_short_history and scale in ("usual", "busy", "wide")
    readers = draw_readers(random_stream(seed, "campaign readers"), params, scale, names)
    writers = draw_writers(random_stream(seed, "campaign writers"), params, scale, names)
    if scale != "tables":
        readers = draw_twins(random_stream(seed, "campaign groups"), params, scale, names, readers)
    readers = draw_readings(random_stream(seed, "campaign readings"), params, scale, readers)
    called = random_stream(seed, "campaign tenants")
    tenants = TENANTS if params.has_tenants and called.random() < 0.25 else ("",)
    return Campaign(
        seed=seed,
        scale=scale,
        shape=rng.choice(SHAPES) if len(brokers) > 3 else "chain",
        brokers=brokers,
        readers=tuple(replace(each, name=in_tenant(called.choice(tenants), each.name)) for each in readers),
        writers=tuple(replace(each, name=in_tenant(called.choice(tenants), each.name)) for each in writers),
        clock_error=clock_error,
        history_age=rng.uniform(2.0, 10.0) if is_short else SURE_AGE,
        history_count_max=5 + rng.below(40) if is_short else SURE_COUNT,
        until=BEGIN + params.span,
        tenants=tenants,
    )


def in_tenant(tenant: str, name: str) -> str:
    return f"{tenant}!{name}" if tenant else name


SCALES: tuple[tuple[float, Scale], ...] = (
    (0.03, "crowd"),
    (0.08, "bulk"),
    (0.09, "tables"),
    (0.19, "busy"),
    (0.25, "wide"),
)
"""Up to which chance each is drawn; the rest are usual."""


def draw_scale(rng: RandomStream, params: CampaignParams) -> Scale:
    chance = rng.random()
    drawn: Scale = next((scale for bound, scale in SCALES if chance < bound), "usual")
    if (drawn == "bulk" and not params.is_bulk) or (drawn == "tables" and not params.has_tables):
        drawn = "usual"
    return msgspec.convert(params.scale, Scale) if params.scale else drawn


def draw_large(rng: RandomStream, least: int, most: int, beyond: int) -> int:
    """Between two numbers, each order of magnitude as likely as the next; what the law gives between `most` and
    `beyond` is cut to `most`."""
    return min(most, int(least * (beyond / least) ** rng.random()))


def draw_brokers(
    rng: RandomStream, params: CampaignParams, scale: Scale, clock_error: float
) -> tuple[CampaignBroker, ...]:
    least, kinds = {"usual": (2, 5), "busy": (2, 5), "wide": (7, 10)}.get(scale, (2, 2))
    count = params.brokers or least + rng.below(kinds)
    are_all_durable = rng.random() < 0.6
    drawn = []
    for place in range(count):
        is_durable, offset = are_all_durable or rng.random() < 0.5, rng.uniform(-clock_error, clock_error)
        drawn.append(CampaignBroker(f"n{place}", is_durable, round(offset, 3)))
    return tuple(drawn)


def draw_served(rng: RandomStream, brokers: Sequence[str]) -> tuple[str, ...]:
    """Half of the clients know a second broker, to which they may move."""
    return tuple(rng.sample(brokers, 1 + rng.below(2)))


def draw_readers(
    rng: RandomStream, params: CampaignParams, scale: Scale, brokers: Sequence[str]
) -> tuple[CampaignReader, ...]:
    count, most = (TABLE_READERS, 0) if scale == "tables" else (1 + rng.below(4), 4)
    if scale == "tables":
        most = draw_large(rng, 1_000, TABLE_MAX, 2 * TABLE_MAX) // count
    readers = []
    for place in range(count):
        served = draw_served(rng, brokers)
        if scale == "tables":
            wanted = tuple(draw_wanted(rng, params, 1.0) for _ in range(most))
        else:
            wanted = tuple(draw_wanted(rng, params, params.span / 2) for _ in range(1 + rng.below(most)))
        wanted = tuple(hurried(each, scale) for each in wanted)
        readers.append(CampaignReader(f"r{place}", served, wanted))
    return tuple(readers)


def draw_wanted(rng: RandomStream, params: CampaignParams, before: float) -> WantedLater:
    at = round(BEGIN + before * rng.random() ** 2, 3)
    guarantee: WantedGuarantee = rng.choice(GUARANTEES)
    is_since = guarantee == "reference" and rng.random() < 0.6
    window = rng.choice(WINDOWS)
    return WantedLater(
        at=at,
        until=round(at + rng.uniform(0.0, params.span), 3) if rng.random() < 0.2 else None,
        wish=draw_wish(rng),
        guarantee=guarantee,
        since=round(rng.uniform(BEGIN, at), 3) if is_since else None,
        policy=rng.choice(POLICIES),
        window=window,
        queue_max=rng.choice((1, 10, 10_000)),
        pause=rng.choice((0.0, 0.0, 0.0, 0.02, 0.2)),
    )


def hurried(wanted: WantedLater, scale: Scale) -> WantedLater:
    """As it is, but where there is so much to take that a run would end before: then it takes more at a time."""
    if scale == "crowd":
        return replace(wanted, window=max(WINDOWS), pause=0.0)
    if scale == "busy":
        return replace(wanted, window=max(BUSY_WINDOW, wanted.window), pause=min(BUSY_PAUSE, wanted.pause))
    if scale == "wide":
        return replace(wanted, window=max(WIDE_WINDOW, wanted.window))
    return wanted


def draw_twins(
    rng: RandomStream,
    params: CampaignParams,
    scale: Scale,
    brokers: Sequence[str],
    readers: tuple[CampaignReader, ...],
) -> tuple[CampaignReader, ...]:
    """One more reader, and some of the others besides, are members of a group: they want the same, and wait for it."""
    if not params.has_groups or rng.random() >= 0.3:
        return readers
    first = replace(draw_wanted(rng, params, params.span / 2), until=None, since=None, policy="wait", group=GROUP)
    first = replace(first, guarantee=rng.choice(("installed", "reference")))
    drawn = []
    for reader in (*readers, CampaignReader(f"r{len(readers)}", draw_served(rng, brokers), ())):
        later = params.span * rng.choice((0.0, 0.2, 0.8)) * rng.random()
        if not reader.wanted and params.has_readings and rng.random() < 0.5:
            later = params.span + READ_AFTER
        window = rng.choice(WINDOWS)
        if later > params.span:
            window = max(BUSY_WINDOW, window)
        twin = hurried(replace(first, at=round(first.at + later, 3), window=window), scale)
        is_member = not reader.wanted or rng.random() < 0.5
        drawn.append(replace(reader, wanted=(*reader.wanted, twin)) if is_member else reader)
    return tuple(drawn)


def draw_readings(
    rng: RandomStream, params: CampaignParams, scale: Scale, readers: tuple[CampaignReader, ...]
) -> tuple[CampaignReader, ...]:
    """Some readers look at what is stored, at any time, and once more in the end, when all of it can be found; where
    that is much, or far away, in pages of which not too many are needed."""
    if not params.has_readings or rng.random() >= 0.4:
        return readers
    drawn, least = [], BUSY_WINDOW if scale in ("busy", "wide") else 1
    for reader in readers:
        times = [rng.uniform(0.0, params.span) for _ in range(rng.below(3))] + [params.span + READ_AFTER]
        read = [ReadLater(round(BEGIN + at, 3), draw_wish(rng), max(least, rng.choice(PAGES))) for at in times]
        drawn.append(replace(reader, read=tuple(read)) if rng.random() < 0.5 else reader)
    return tuple(drawn)


def draw_writers(
    rng: RandomStream, params: CampaignParams, scale: Scale, brokers: Sequence[str]
) -> tuple[CampaignWriter, ...]:
    count = 1 + rng.below(5)
    if scale == "crowd":
        count = draw_large(rng, min(100, params.writers_max), params.writers_max, 2 * params.writers_max)
    elif scale == "busy":
        count = draw_large(rng, 5, 60, 120)
    # What all of them publish together, so that a run stays a matter of seconds.
    few = 20 + rng.below(230)
    events = {"crowd": 2 * count, "bulk": 60, "tables": 20}.get(scale, few)
    if scale == "busy":
        events = draw_large(rng, 300, 3_000, 4_000)
    return tuple(draw_writer(rng, params, scale, f"w{place}", brokers, events // count) for place in range(count))


def draw_writer(
    rng: RandomStream, params: CampaignParams, scale: Scale, name: str, brokers: Sequence[str], events: int
) -> CampaignWriter:
    offers = [draw_offer(rng, params) for _ in range(1 if scale == "crowd" else 1 + rng.below(2))]
    bursts = [rng.uniform(0.0, params.span) for _ in range(1 + rng.below(4))]
    written: list[WrittenLater] = []
    for _ in range(events):
        # Some at any time, some in bursts.
        after = rng.choice(bursts) + 0.01 * rng.random() if rng.random() < 0.7 else rng.uniform(0.0, params.span)
        at, offer = round(BEGIN + after, 4), rng.below(len(offers))
        attributes, payload_bytes, wants_receipt = draw_attributes(rng), draw_size(rng, scale), rng.random() < 0.2
        if written and rng.random() < 0.2 and payload_bytes <= max(SMALL_BYTES):
            at, offer = written[-1].at, written[-1].offer
        written.append(WrittenLater(at, offer, attributes, payload_bytes, wants_receipt))
    written.sort(key=lambda each: each.at)
    return CampaignWriter(name, draw_served(rng, brokers), tuple(offers), tuple(written))


def draw_offer(rng: RandomStream, params: CampaignParams) -> OfferedLater:
    wish = rng.choice((EVERYTHING, EVERYTHING, Membership("kind", KINDS), draw_wish(rng)))
    at = round(BEGIN + params.span * rng.choice((0.0, 0.0, 0.5)) * rng.random(), 3)
    return OfferedLater(at, round(at + rng.uniform(0.0, params.span), 3) if rng.random() < 0.2 else None, wish)


def draw_size(rng: RandomStream, scale: Scale) -> int:
    most = PUBLICATION_BYTES_MAX - HEAD_ROOM_BYTES
    if scale == "bulk":
        return rng.choice((100_000, 400_000, most))
    chance = rng.random()
    return rng.choice(SMALL_BYTES) if chance < 0.95 else rng.choice(MIDDLE_BYTES) if chance < 0.995 else most


def payload_of(id: str, size_bytes: int) -> bytes:
    """What the event of this id carries, so that a judge knows it without keeping it."""
    pattern = f"{id} ".encode()
    return (pattern * (size_bytes // len(pattern) + 1))[:size_bytes]
