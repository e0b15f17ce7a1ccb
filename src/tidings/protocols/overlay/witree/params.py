"""What a WiTree can be set to: how often it is heard, and how long it waits.

Source: dynamic-topologies.md 3.11.3, which takes the times from AODV and MAODV; what that leaves open is ours.
"""

import math

import msgspec

from tidings.model.errors import UsageError

SPANS = ("hello_period", "group_period", "collect_for", "guard_delay", "join_timeout", "jitter")


class WiTreeParams(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="witree"):
    hello_period: float = 1.0
    """Seconds after which a broker that sent nothing else on the air says that it is there."""

    hellos_missed: int = 2
    """Hellos in a row that may be missed; then the neighbour is asked over its link, and if it does not answer within
    one more period it is lost."""

    group_period: float = 5.0
    """Seconds between two hellos of a leader to its whole tree."""

    groups_missed: int = 3
    """Hellos of the leader in a row that may be missed; then the link to the one above counts as lost."""

    collect_for: float = 1.0
    """Seconds for which replies are collected. At least three times `guard_delay`."""

    guard_delay: float = 0.2
    """Seconds before a request is replied to: whoever is part of what is looking for a place has heard so by then."""

    join_timeout: float = 0.5
    """Seconds for a link to whoever replied, and for its answer."""

    retries: int = 2
    """How often a request to which nobody replied is repeated, before its broker becomes a leader."""

    jitter: float = 0.01
    """Seconds up to which what everybody says at once on the air is put off."""

    neighbours_max: int = 64
    """Neighbours that a broker has at most. At least as many links as access must allow."""

    replies_max: int = 32
    """Replies that are kept of one request."""

    requests_max: int = 256
    """Requests of others that are remembered, to be replied to or not to be heard twice; checks that are under way;
    links of ours whose replacement is not known yet."""

    def __post_init__(self) -> None:
        for name in SPANS:
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name}: {getattr(self, name)} is no span of time; give seconds above 0")
        if self.collect_for < 3 * self.guard_delay:
            raise UsageError(f"collect_for: {self.collect_for} is over before replies come; give three guard_delay")
        for name in ("hellos_missed", "groups_missed", "neighbours_max", "replies_max", "requests_max"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: {getattr(self, name)} is too few; give at least 1")
        if not 0 <= self.retries <= 100:
            raise UsageError(f"retries: {self.retries}; give 0 to 100")
