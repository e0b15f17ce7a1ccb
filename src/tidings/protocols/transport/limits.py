"""How often something may happen, and how much of a stranger is believed.

**Buckets**: tokens that come at a steady rate, and a bounded number of them at hand. The same bucket keeps a flow to
its quota, requests and repairs to their share, and requesters to what one may ask. Rate and depth may change at any
time; they hold from the last filling on.

**Receivers that lie.** Anybody may send feedback, and nobody can tell from afar whether a receiver that says it can
take little is lying: one rate for all receivers of a flow means that one of them can slow it down. What a publisher can
do is to bound the harm.

*Budget*: how much feedback is read in a second. Each report is compared with all rows of the table, so a report counts
for more when the table is large. In each second every source may have an equal part, by the number of sources of this
second and the last one. Sources that limit a flow have some room left even when strangers have used up the rest.

*Valve*: a share of what the application sends leaves in any case. If for half a `flow_timeout` less than SHARE_MIN of
the events of a flow could leave, the valve of the flow opens: from then on every 1 / SHARE_MIN-th event goes without a
token, as long as it stays like that. The table as a whole has a valve too, so that it does not help to report another
filter, under another name, each time. A receiver that really can take no more than this share loses events then, and
it alone.

So the bound that holds: whatever strangers report, for no longer than `flow_timeout` does less leave of a flow than
SHARE_MIN of what the application sends of it, or QUOTA_MIN events a second if that is more. Above that share a liar is
believed: nothing tells it from a receiver behind a slow link. The bound for one flow does not hold against somebody who
reports another filter of the same events all the time, while honest receivers keep other flows moving; for all limited
flows together it does.
"""

from collections.abc import Hashable

EARLY = 1e-6
"""Part of a token that may be missing: a timer that was set for the time of a token must find it."""


class Bucket:
    __slots__ = ("depth", "filled_at", "rate", "tokens")

    def __init__(self, now: float, rate: float, depth: float) -> None:
        """`rate` tokens a second, at most `depth` of them at a time; it begins full."""
        self.rate, self.depth = rate, max(1.0, depth)
        self.tokens, self.filled_at = self.depth, now

    def fill(self, now: float) -> None:
        self.tokens = min(self.depth, self.tokens + max(0.0, now - self.filled_at) * self.rate)
        self.filled_at = now

    @property
    def has_token(self) -> bool:
        """As of the last filling."""
        return self.tokens >= 1.0 - EARLY

    @property
    def next_at(self) -> float:
        """When there will be a token, while there is none."""
        return self.filled_at + (1.0 - self.tokens) / self.rate

    def take(self, now: float) -> bool:
        return self.book(now, 0.0) is not None

    def book(self, now: float, wait_max: float) -> float | None:
        """Take a token, perhaps one that is yet to come: the seconds until it does. None if that is too long."""
        self.fill(now)
        wait = max(0.0, 1.0 - self.tokens) / self.rate
        if wait > wait_max:
            return None
        self.tokens -= 1.0
        return wait


class Buckets:
    """One for each name, for the `count_max` that were heard of last. Who is forgotten begins with a full one: the
    names are claims, and whoever claims many is stopped by a bucket for all."""

    def __init__(self, rate: float, depth: float, count_max: int) -> None:
        self.rate, self.depth, self.count_max = rate, depth, count_max
        self.by_name: dict[Hashable, Bucket] = {}

    def take(self, now: float, name: Hashable) -> bool:
        bucket = self.by_name.pop(name, None) or Bucket(now, self.rate, self.depth)
        self.by_name[name] = bucket
        if len(self.by_name) > self.count_max:
            del self.by_name[next(iter(self.by_name))]
        return bucket.take(now)

    def check(self) -> None:
        assert len(self.by_name) <= self.count_max, "more names are remembered than the bound allows"


SHARE_MIN = 1.0 / 32.0
"""Share of a flow that leaves whatever receivers say."""

CREDIT_MAX = 2.0
"""Events that may leave at once through an open valve."""

COMPARISONS = 10_000
"""Comparisons with rows of the table that count as much as one feedback message."""

PERIOD = 1.0
"""Seconds for which a budget is given out."""


class Valve:
    __slots__ = ("began_at", "credit", "is_open", "offered", "passed")

    def __init__(self, now: float) -> None:
        self.began_at = now
        self.offered = self.passed = 0
        self.is_open = False
        self.credit = 0.0

    def offer(self, now: float, timeout: float) -> None:
        """The application sends an event."""
        if now - self.began_at >= timeout / 2.0:
            self.is_open = self.offered * SHARE_MIN >= 1.0 and self.passed < self.offered * SHARE_MIN
            self.began_at, self.offered, self.passed = now, 0, 0
            if not self.is_open:
                self.credit = 0.0
        self.offered += 1
        if self.is_open:
            self.credit = min(CREDIT_MAX, self.credit + SHARE_MIN)


class FeedbackBudget:
    """Feedback that is read, `per_second` at most."""

    def __init__(self, per_second: float) -> None:
        self.per_second = per_second
        self.began_at = 0.0
        self.spent: dict[Hashable, float] = {}
        """In this period, by source. Each costs at least 1, so there are no more than twice `per_second`."""
        self.total = 0.0
        self.sources_before = 0

    def admits(self, now: float, who: Hashable, comparisons: int, is_known: bool) -> bool:
        if now - self.began_at >= PERIOD:
            self.sources_before = len(self.spent) if now - self.began_at < 2.0 * PERIOD else 0
            self.began_at, self.total = now, 0.0
            self.spent.clear()
        cost = 1.0 + comparisons / COMPARISONS
        spent = self.spent.get(who, 0.0)
        sources = max(len(self.spent) + (who not in self.spent), self.sources_before)
        share = self.per_second * PERIOD / sources
        limit = self.per_second * PERIOD * (2.0 if is_known else 1.0)
        if (spent and spent + cost > share) or self.total + cost > limit:
            return False
        self.spent[who] = spent + cost
        self.total += cost
        return True
