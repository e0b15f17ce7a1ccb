"""What a broker knows of the levels above and below it in the tree (dependable.md 3.3.2, 3.3.5).

A broker does not look after views of other levels itself. Its *parent view* is the sibling view of the broker above it;
its *child view* is put together from the sibling views of those below it, the most similar first. And since each tells
in the same message what it was told itself, everybody knows a few brokers of each of the next levels up and down, at no
further message: so several failures one behind the other can be passed by.

A `LevelView` is one level of one branch: `names`, who is there; `members`, who stands in their views; `failures`, whom
they found failed. Views of a level are merged by similarity, as the broker computed it in whose view a member stands
(G-16), with at least one member of each branch where there is room; of failures the newest counts.

Groups. Levels are merged at the top, where they are small: the first `merged` levels of the tree are group 0 (S-20).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from tidings.model.bounds import FAILURES_TOLD_MAX, LEVEL_NAMES_MAX
from tidings.model.identity import NodeId
from tidings.protocols.gossip.failover.messages import LevelMember, LevelReport, LevelView

NOTHING = LevelView((), (), ())

Skip = Literal["any", "all"]
"""Whether a level is passed over when any of those who are meant failed, or only when all of them did (G-17)."""


def group_of(depth: int, merged: int) -> int:
    return max(0, depth - merged + 1)


def merged_failures(levels: Iterable[LevelView]) -> tuple[tuple[NodeId, int], ...]:
    newest: dict[NodeId, int] = {}
    for level in levels:
        for node, at in level.failures:
            newest[node] = max(newest.get(node, at), at)
    latest = sorted(newest.items(), key=lambda entry: (-entry[1], entry[0]))
    return tuple(latest[:FAILURES_TOLD_MAX])


def most_similar(views: Sequence[Sequence[LevelMember]], size: int) -> tuple[LevelMember, ...]:
    """The best of each view first, as far as there is room, and then the best of all; of one view no more than half as
    long as others have somebody to offer: scores are what their senders say."""
    best: dict[NodeId, tuple[LevelMember, int]] = {}
    for place, view in enumerate(views):
        for member in view:
            known = best.get(member.contact.node)
            if known is None or known[0].score < member.score:
                best[member.contact.node] = member, place
    heads = {min(view, key=by_score).contact.node for view in views if view}
    share, told = (size + 1) // 2, [0] * len(views)
    groups: tuple[list[LevelMember], ...] = ([], [], [])
    for member, place in sorted(best.values(), key=lambda entry: by_score(entry[0])):
        is_head = member.contact.node in heads
        told[place] += 1
        groups[0 if is_head else 1 if told[place] <= share else 2].append(member)
    chosen = [member for group in groups for member in group][:size]
    return tuple(sorted(chosen, key=by_score))


def by_score(member: LevelMember) -> tuple[int, NodeId]:
    return -member.score, member.contact.node


def merge_levels(levels: Sequence[LevelView], size: int) -> LevelView:
    if len(levels) == 1 and len(levels[0].members) <= size:
        return levels[0]
    names = dict.fromkeys(name for level in levels for name in level.names)
    members = most_similar([level.members for level in levels], size)
    return LevelView(tuple(names)[:LEVEL_NAMES_MAX], members, merged_failures(levels))


def merge_reports(reports: Iterable[LevelReport], size: int, levels_max: int) -> list[LevelView]:
    """What all of these tell, level by level."""
    told = [report.levels for report in reports]
    depth = min(levels_max, max(map(len, told), default=0))
    return [merge_levels([levels[place] for levels in told if place < len(levels)], size) for place in range(depth)]


def report_levels(own: LevelView, beyond: Sequence[LevelView], levels_max: int) -> tuple[LevelView, ...]:
    """What we tell: our own level at the head of what we were told."""
    return (own, *beyond)[:levels_max]


def names_beyond(report: LevelReport | None) -> tuple[tuple[NodeId, ...], ...]:
    """Of the last report of a broker that failed: those behind it, level by level. Its own is passed over, for that is
    the one that failed."""
    return () if report is None else tuple(level.names for level in report.levels[1:])


def choose_level(
    beyond: Sequence[Sequence[NodeId]], levels: Sequence[LevelView], recorded: Mapping[NodeId, int], skip: Skip
) -> int:
    """At which of our levels a publication goes on: the first at which those who are meant are not recorded as failed;
    the first of all where every level has a failure."""
    for place, names in enumerate(beyond[: len(levels)]):
        failed = {node for node, _ in levels[place].failures} | recorded.keys()
        dead = [name in failed for name in names]
        if not dead or not (any(dead) if skip == "any" else all(dead)):
            return place
    return 0
