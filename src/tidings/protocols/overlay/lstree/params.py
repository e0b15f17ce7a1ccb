"""What an LSTree can be set to: which strategies it searches with, how many neighbours it takes, how long it waits.

An *instance* is the order in which the strategies are asked for the next candidate, a letter each (`search.py`). The
letters of the published ones are their names; Overcast, which knows no degrees and asks its ancestors alone, and the
same with the Global cache are the baselines.

Source: dynamic-topologies.md 3.9.5, 3.9.10, 3.9.11, 3.12; the spans that the source leaves open are ours.
"""

import math

import msgspec

from tidings.model.bounds import ANCESTORS_MAX, CONTACTS_MAX
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId

INSTANCES = ("RMG", "RDGM", "DRGM", "RUmDGM", "DUmRGM", "RDUmGM", "RDGUmM")
"""The published ones."""

BASELINES = {"Overcast": "A", "Overcast+G": "AG"}


class LsTreeParams(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="lstree"):
    contacts: tuple[NodeId, ...] = ()
    """Brokers to begin with, by name or by address (`identity.at`); any one that is in the tree is enough. A broker
    with none, or none that answers, begins a tree of its own, and joins theirs when one answers."""

    instance: str = "RDGM"
    """Strategies in their order, or the name of a baseline."""

    degree_max: int = 5
    """Neighbours beyond which a broker takes a further one only where nobody else is left."""

    degree_min: int = 2
    """Neighbours below which a broker sends others on to the one above it; only with strategy m."""

    children_max: int = 200
    """Brokers below this one, whatever strategy asks. At least as many links as `access` must allow."""

    ancestors: int = 3
    """How many of those above it a broker knows."""

    ancestor_share: float = 0.5
    """How often the Regional strategy takes one of them rather than a sibling. All of them would make a star of the
    tree, all siblings a line."""

    contacts_kept: int = 10
    """Size of the Global cache: brokers anywhere in the tree."""

    refused_contacts: int = 3
    """Of how many others a broker tells that refuses because of its degree."""

    candidates_max: int = 256
    """Brokers that one search asks; after them, only whom it may ask a second time."""

    busy_retries: int = 3
    busy_wait: float = 0.15
    """How often a candidate that is busy is asked again, and seconds before it is (half of it to one and a half)."""

    request_timeout: float = 1.0
    patience_min: float = 0.2
    """Seconds for a link to a candidate, and again for its answer, at most and at least; in between, about twice what
    others took lately. With both the same, it is always that."""

    ahead_after: int = 2
    ahead_max: int = 16
    """Candidates that came to nothing after which links to others are asked for before their turn, and to how many at
    once; whoever is linked first is asked first. Where many have failed, a place is found sooner. 0 is never."""

    merge_first: float = 0.25
    merge_soon: float = 1.0
    merge_period: float = 30.0
    """Seconds after which a root looks for other trees; the second look comes twice as late as the first, and so on
    up to the period, or up to `merge_soon` for two minutes after brokers that it knew fell silent: then it looks for
    these. Each is up to a fifth longer or shorter."""

    merge_probes: int = 10
    """Brokers that it asks then."""

    gossip_period: float = 250.0
    """Seconds between two times that contacts are passed on, and between two that they are tried."""

    gossip_fanout: int = 2
    gossip_again: float = 0.3
    """To how many neighbours, and how often whoever hears of them passes them on at once."""

    pings: int = 10
    """Contacts that are tried each time."""

    nearer_period: float = 250.0
    nearer_first: float = 30.0
    """Seconds between two times that a broker looks for a nearer one to be below (`mover.py`), at most and at first;
    the second comes twice as late as the first, and so on. Each is up to twice as long. With a period of
    0 it never looks, and no round trip counts, as published."""

    nearer_share: float = 0.7
    nearer_least: float = 0.002
    """It moves where the round trip to the other one is at most this share of that to the one above, and so many
    seconds shorter at least: a move costs routing its tables on that link."""

    nearer_probes: int = 12
    """Brokers whose round trip is measured each time."""

    redistribute_after: float = 86_400.0
    """Seconds after which a root gives out all depths anew."""

    redistribute_pause: float = 60.0
    """Seconds between two such times, when others ask for it."""

    is_integer: bool = False
    """Depth is a number of hops, as a baseline: it cannot be lowered."""

    is_durable: bool = False
    """Contacts are stored, and are there after a restart."""

    @property
    def strategies(self) -> str:
        return BASELINES.get(self.instance, self.instance)

    @property
    def has_global(self) -> bool:
        return "G" in self.strategies

    @property
    def is_near(self) -> bool:
        return self.nearer_period > 0

    @property
    def has_degrees(self) -> bool:
        return "M" in self.strategies

    @property
    def has_degree_min(self) -> bool:
        return "m" in self.strategies

    @property
    def has_siblings(self) -> bool:
        return "R" in self.strategies

    def __post_init__(self) -> None:
        if self.instance not in BASELINES:
            check_instance(self.instance)
        for name, least, most in (
            ("degree_max", 2, 10_000),
            # Where no strategy asks for it, it says nothing.
            ("degree_min", 0, self.degree_max - 1 if self.has_degree_min else 10_000),
            ("children_max", 1, 100_000),
            ("ancestors", 1, ANCESTORS_MAX),
            ("contacts_kept", 1, CONTACTS_MAX - 1),
            ("refused_contacts", 0, CONTACTS_MAX),
            ("candidates_max", 1, 10_000),
            ("busy_retries", 0, 100),
            ("ahead_after", 0, 10_000),
            ("ahead_max", 1, 1_000),
            ("merge_probes", 1, CONTACTS_MAX),
            ("gossip_fanout", 0, 100),
            ("pings", 0, CONTACTS_MAX),
            ("nearer_probes", 1, CONTACTS_MAX),
        ):
            if not least <= getattr(self, name) <= most:
                raise UsageError(f"{name}: {getattr(self, name)} is out of bounds; give {least} to {most}")
        for name in (
            "busy_wait",
            "request_timeout",
            "merge_first",
            "merge_soon",
            "merge_period",
            "gossip_period",
            "redistribute_after",
            "redistribute_pause",
            "nearer_first",
        ):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name}: {getattr(self, name)} is no span of time; give seconds above 0")
        if not 0 < self.patience_min <= self.request_timeout:
            raise UsageError(f"patience_min: {self.patience_min}; give more than 0, and at most request_timeout")
        for name in ("nearer_period", "nearer_least"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageError(f"{name}: {getattr(self, name)} is no span of time; give seconds, 0 or more")
        for name in ("ancestor_share", "gossip_again", "nearer_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name}: {getattr(self, name)} is no probability; give 0 to 1")
        if self.gossip_again * self.gossip_fanout >= 1:
            raise UsageError(
                f"gossip_again: {self.gossip_again} of {self.gossip_fanout} neighbours each would never end; "
                f"give less than {1 / self.gossip_fanout}"
            )
        if len(self.contacts) > CONTACTS_MAX or len(set(self.contacts)) != len(self.contacts):
            raise UsageError(f"contacts: name each once, and at most {CONTACTS_MAX}")


def check_instance(letters: str) -> None:
    """The rules by which strategies combine (dynamic-topologies.md 3.9.5)."""
    known = f"; the published ones are {', '.join((*INSTANCES, *BASELINES))}"
    place = {letter: letters.find(letter) for letter in "RDUmGM"}
    if len(set(letters)) != len(letters) or not set(letters) <= set("RDUmGM"):
        raise UsageError(f"instance: {letters!r} is no order of the letters R, D, U, m, G and M" + known)
    if missing := [letter for letter in "RGM" if place[letter] < 0]:
        raise UsageError(f"instance: {letters!r} lacks {', '.join(missing)}, which every one needs" + known)
    if not (place["R"] < place["G"] and place["D"] < place["G"]):
        raise UsageError(f"instance: {letters!r} asks far away (G) before it asks near (R, D)" + known)
    if place["m"] > place["M"]:
        raise UsageError(f"instance: {letters!r} breaks the greatest degree (M) before the least (m)" + known)
    if ("U" in letters) != ("m" in letters):
        raise UsageError(f"instance: {letters!r} has U without m or m without U; least degrees need both" + known)
