"""Receivers that lie: how much of them is read, and how long they can hold a flow down.

Anybody may send feedback, and nobody can tell from afar whether a receiver that says it can take little is lying: one
rate for all receivers of a flow means that one of them can slow it down. What a publisher can do is to bound the harm.

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
