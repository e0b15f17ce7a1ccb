"""Fewer filters for a neighbour: what is announced in place of everything that is wanted.

A broker that wants a thousand things may announce ten filters that cover them. A *reduction* stands between what is
wanted (the candidates) and what one neighbour is told. It takes candidates that come and go, and answers what to add to
the announced set and what to remove from it. Three of them:

    Plain      every candidate is announced
    Covering   a candidate that an announced filter covers is *hidden* by it; when that one goes, what it hid comes to
               light again. Nothing announced covers anything else announced
    Merging    candidates are gathered in small groups, each group is merged (`matching/merging.py`), and what comes out
               goes through covering. A merge may be imperfect; then events come that nobody wants, and are dropped

A hidden filter points to the announced one that hides it, never to another hidden one. So two filters that cover each
other, or a circle of them, cannot hide each other away.

Whoever carries the answer out sends the additions before the removals: then the neighbour has at every moment filters
that cover everything wanted.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from tidings.matching.merging import merge
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.protocols.routing.covering import Covers
from tidings.protocols.routing.params import RoutingParams

Change = tuple[dict[str, Filter], list[str]]
"""Filters to announce, by text, and announced ones to take back."""


class Reduction(Protocol):
    candidates: dict[str, Filter]

    def change(self, added: Mapping[str, Filter], removed: Iterable[str]) -> Change:
        """Candidates come and go; what follows for the announced set."""
        ...

    def stand_ins(self, text: str) -> list[str]:
        """The announced filters that together cover this candidate."""
        ...

    def clear(self) -> None:
        """There are no candidates any more, and nobody to tell it to."""
        ...

    def fade(self, count: int) -> bool:
        """Clear so many of the announced, which leaves it of no other use; whether that was all."""
        ...

    def check(self, announced: Iterable[str]) -> None: ...


class NoReduction:
    def __init__(self) -> None:
        self.candidates: dict[str, Filter] = {}

    def change(self, added: Mapping[str, Filter], removed: Iterable[str]) -> Change:
        gone = list(removed)
        self.candidates.update(added)
        for text in gone:
            del self.candidates[text]
        return dict(added), gone

    def stand_ins(self, text: str) -> list[str]:
        return [text]

    def clear(self) -> None:
        self.candidates.clear()

    def fade(self, count: int) -> bool:
        return True

    def check(self, announced: Iterable[str]) -> None:
        assert set(announced) == self.candidates.keys(), "what is announced is not what should be"


class Covering:
    def __init__(self, covers: Covers) -> None:
        self.covers = covers
        self.candidates: dict[str, Filter] = {}
        self.hides: dict[str, dict[str, None]] = {}
        """The announced filters, each with those it hides."""
        self.hidden_by: dict[str, str] = {}

    def change(self, added: Mapping[str, Filter], removed: Iterable[str]) -> Change:
        before: dict[str, bool] = {}
        self.candidates.update(added)
        for text, filter in added.items():
            self.place(text, filter, before)
        for text in self.remove_all(removed, before):
            self.place(text, self.candidates[text], before)
        told = {text: self.candidates[text] for text, was in before.items() if not was and text in self.hides}
        return told, [text for text, was in before.items() if was and text not in self.hides]

    def place(self, text: str, filter: Filter, before: dict[str, bool]) -> None:
        """Announce a candidate, or hide it. `before` notes whether what is touched was announced at first."""
        cover = self.covers.find_cover(text, filter, self.hides)
        if cover is not None:
            self.hidden_by[text] = cover
            self.hides[cover][text] = None
            return
        before.setdefault(text, False)
        hidden = self.hides[text] = {}
        for narrow in self.covers.find_covered(text, filter, self.hides):
            before.setdefault(narrow, True)
            for each in (*self.hides.pop(narrow), narrow):
                self.hidden_by[each] = text
                hidden[each] = None
            self.covers.leave(narrow)
        self.covers.enter(text, filter)

    def remove_all(self, texts: Iterable[str], before: dict[str, bool]) -> list[str]:
        """Take these away, and find who is hidden by nobody then. The hidden ones go first, and nobody is placed before
        all are gone: many may go at once, and what is hidden by one of them must not be hidden by the next."""
        roots = []
        for text in texts:
            del self.candidates[text]
            cover = self.hidden_by.pop(text, None)
            if cover is None:
                roots.append(text)
            else:
                del self.hides[cover][text]
        orphans: list[str] = []
        for text in roots:
            before.setdefault(text, True)
            self.covers.leave(text)
            orphans += self.hides.pop(text)
        for text in orphans:
            del self.hidden_by[text]
        return orphans

    def clear(self) -> None:
        for text in self.hides:
            self.covers.leave(text)
        self.candidates.clear()
        self.hides.clear()
        self.hidden_by.clear()

    def fade(self, count: int) -> bool:
        for _ in range(min(count, len(self.hides))):
            text, _ = self.hides.popitem()
            self.covers.leave(text)
        return not self.hides

    def stand_ins(self, text: str) -> list[str]:
        return [self.hidden_by.get(text, text)]

    def check(self, announced: Iterable[str]) -> None:
        assert set(announced) == self.hides.keys(), "what is announced is not what should be"
        assert self.hides.keys() | self.hidden_by.keys() == self.candidates.keys()
        assert not self.hides.keys() & self.hidden_by.keys(), "a filter is announced and hidden"
        for text, cover in self.hidden_by.items():
            assert text in self.hides[cover], "a filter is hidden by one that does not know it"
        assert sum(map(len, self.hides.values())) == len(self.hidden_by)


class Group:
    """Candidates on the same attributes, and what their merging gave."""

    __slots__ = ("members", "merged", "names")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.members: dict[str, Filter] = {}
        self.merged: dict[str, Filter] = {}


class Merging:
    """Groups fill in the order in which candidates come; the place of one that goes is taken by the next that comes."""

    def __init__(self, covering: Covering, params: RoutingParams, sample: Callable[[], Sequence[Event]]) -> None:
        self.covering, self.params, self.sample = covering, params, sample
        self.candidates: dict[str, Filter] = {}
        self.groups: dict[tuple[str, ...], list[Group]] = {}
        self.group_of: dict[str, Group] = {}
        self.counts: dict[str, int] = {}
        """Merged filters, each with the number of groups that it came out of."""

    def change(self, added: Mapping[str, Filter], removed: Iterable[str]) -> Change:
        touched: dict[Group, None] = {}
        self.candidates.update(added)
        for text, filter in added.items():
            group = self.group_of[text] = self.group_with_room(filter)
            group.members[text] = filter
            touched[group] = None
        for text in removed:
            group = self.group_of.pop(text)
            del group.members[text], self.candidates[text]
            touched[group] = None
        more: dict[str, Filter] = {}
        less: dict[str, None] = {}
        for group in touched:
            self.merge_again(group, more, less)
        both = [text for text in less if text in more]
        for text in both:
            del more[text], less[text]
        return self.covering.change(more, less)

    def group_with_room(self, filter: Filter) -> Group:
        names = tuple(sorted({constraint.name for part in filter.conjunctions for constraint in part}))
        groups = self.groups.setdefault(names, [])
        for group in groups:
            if len(group.members) < self.params.merge_group_max:
                return group
        groups.append(Group(names))
        return groups[-1]

    def merge_again(self, group: Group, more: dict[str, Filter], less: dict[str, None]) -> None:
        before, group.merged = group.merged, self.merge_members(group.members)
        for text, filter in group.merged.items():
            self.counts[text] = self.counts.get(text, 0) + 1
            if self.counts[text] == 1:
                more[text] = filter
        for text in before:
            self.counts[text] -= 1
            if not self.counts[text]:
                del self.counts[text]
                less[text] = None
        if not group.members:
            self.groups[group.names].remove(group)
            if not self.groups[group.names]:
                del self.groups[group.names]

    def merge_members(self, members: dict[str, Filter]) -> dict[str, Filter]:
        if len(members) < 2:
            return dict(members)
        sample = self.sample() if self.params.merge_share_max else ()
        merged = merge(members.values(), sample, self.params.merge_share_max if sample else 0.0)
        texts = {filter.text(): filter for filter in merged.filters}
        return texts if len(texts) < len(members) else dict(members)

    def stand_ins(self, text: str) -> list[str]:
        filter, merged = self.candidates[text], self.group_of[text].merged
        whole = [each for each, wide in merged.items() if each == text or wide.covers(filter)][:1]
        parts = whole or [each for each, wide in merged.items() if wide.overlaps(filter)]
        return list(dict.fromkeys(self.covering.stand_ins(each)[0] for each in parts))

    def fade(self, count: int) -> bool:
        return self.covering.fade(count)

    def clear(self) -> None:
        self.covering.clear()
        self.candidates.clear()
        self.groups.clear()
        self.group_of.clear()
        self.counts.clear()

    def check(self, announced: Iterable[str]) -> None:
        self.covering.check(announced)
        assert self.covering.candidates.keys() == self.counts.keys()
        assert self.group_of.keys() == self.candidates.keys()
        groups = [group for groups in self.groups.values() for group in groups]
        assert sum(len(group.members) for group in groups) == len(self.candidates)
        assert all(0 < len(group.members) <= self.params.merge_group_max for group in groups)


def make_reduction(params: RoutingParams, covers: Covers, sample: Callable[[], Sequence[Event]]) -> Reduction:
    match params.reduction:
        case "plain":
            return NoReduction()
        case "covering":
            return Covering(covers)
        case "merging":
            return Merging(Covering(covers), params, sample)
