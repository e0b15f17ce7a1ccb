"""What the brokers of a publisher answer, put together for the client that asked.

A publisher that moved has a part of its publications at each of its brokers, some perhaps at two of them. What one
lacks another may hold; what is left then is lost, and the client is told (`extents.py`).
"""

from collections.abc import Mapping, Sequence

from tidings.model.bounds import MARKS_MAX, PUBLICATIONS_MAX
from tidings.model.identity import NodeId
from tidings.protocols.delivery.edge.extents import Extent, within, without
from tidings.protocols.delivery.edge.inquiries import Mark
from tidings.protocols.delivery.edge.pages import merged
from tidings.protocols.delivery.messages import Fetch, FetchedFar
from tidings.pubsub.client import Fetched, MarksReply


def marks_found(
    number: int, marks: Mapping[NodeId, Sequence[Mark]], offers: tuple[str, ...], unreachable: Sequence[NodeId]
) -> list[MarksReply]:
    """The answer to a look, in as many messages as it takes, at least one. Who could not be reached at one of its
    brokers has no mark."""
    rows = [(each, *merged_marks(marks[each])) for each in sorted(marks) if each not in unreachable]
    names = sorted(unreachable)
    messages = []
    while True:
        is_last = len(rows) <= MARKS_MAX and len(names) <= MARKS_MAX
        messages.append(MarksReply(number, tuple(rows[:MARKS_MAX]), offers, tuple(names[:MARKS_MAX]), is_last))
        if is_last:
            return messages
        rows, names, offers = rows[MARKS_MAX:], names[MARKS_MAX:], ()


def merged_marks(marks: Sequence[Mark]) -> tuple[int, int]:
    """Above the first number nothing is lost that the brokers of a publisher had; it has come to the second."""
    lost = without(
        [extent for _, _, lacking, _ in marks for extent in lacking],
        [extent for _, _, _, held in marks for extent in held],
    )
    through = max(last for _, last, _, _ in marks)
    return min(max((end for _, end in lost), default=0), through), through


def fetched(asked: Fetch, answers: Sequence[FetchedFar], through: int) -> tuple[Fetched, list[Extent]]:
    """What the brokers of a publisher store, as far as all of them looked, and as much of it as there is room for; and
    what none of them has any more."""
    page = merged([(each.accepted_at, each.numbers, each.heads, each.payloads) for each in answers], through)
    count = min(max(asked.limit, 1), PUBLICATIONS_MAX, page.fitting())
    if count < len(page.numbers):
        page.cut(count)
        through = page.numbers[-1]
    begin = max(each.begin for each in answers)
    lost = without(
        within([extent for each in answers for extent in each.lacking], begin, through),
        [extent for each in answers for extent in each.held],
    )
    return Fetched(asked.number, through, bool(lost), through < asked.through, *page.columns), lost
