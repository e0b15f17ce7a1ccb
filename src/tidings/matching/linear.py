"""Two plain matchers beside the index: ask every filter about every event; or follow a decision tree.

The *linear scan* is slow and obviously right, so it is the oracle that the index is tested against, the baseline in the
benchmarks, and a fair choice below a few dozen filters. The *decision tree* is a published alternative to the counting
index, for comparison. Both answer in the order in which their keys were last added.

A filter may be added for a *link* (the neighbour behind which its subscriber lives). A broker that only forwards does
not need the keys, only the links on which somebody wants the event: `match_links`.

In the tree each distinct constraint is a *predicate* with a number, its level. A conjunction is the path of its
predicates in ascending order. At a node of the tree one predicate is asked: if it holds, the search goes on in the
branch *yes*; in any case it goes on in the branch *either*, where the paths are that do not ask it. (A third branch,
*no*, is for subscriptions that ask for the opposite of a predicate. Here the opposite is a constraint of its own, so it
is never needed.) Levels that a path does not ask are left out of it, and paths with a common beginning share it. At the
end of a path are the keys of the filters that have this conjunction. An event asks each predicate at most once, and
only those that lie on its ways. Where filters begin with common predicates whole subtrees are skipped at once; where
all differ the tree is a list, and asks as much as a linear scan. What an expression without normal form (`residual`)
leaves over is asked exactly of the filters that were found.

Source of the tree: the specification of dynamic topologies, 3.1, matching engine (a); the idea is that of Aguilera and
others, "Matching Events in a Content-based Subscription System" (1999). Requirement D-20.
"""

from collections.abc import Hashable, Iterable, Iterator

from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.sets.conjunction import Conjunction
from tidings.model.sets.constraint import Constraint

Key = Hashable
Link = Hashable
Path = tuple[int, ...]


class LinearScan:
    """Filters by key, in the order added; adding a key again replaces its filter and moves it to the end."""

    def __init__(self) -> None:
        self.filters: dict[Key, Filter] = {}
        self.link_of_key: dict[Key, Link] = {}
        self.keys_of_link: dict[Link, dict[Key, None]] = {}

    def __len__(self) -> int:
        return len(self.filters)

    def __contains__(self, key: Key) -> bool:
        return key in self.filters

    def add(self, key: Key, filter: Filter, link: Link | None = None) -> None:
        self.discard(key)
        self.filters[key] = filter
        if link is not None:
            self.link_of_key[key] = link
            self.keys_of_link.setdefault(link, {})[key] = None

    def add_many(self, entries: Iterable[tuple[Key, Filter]]) -> None:
        for key, filter in entries:
            self.add(key, filter)

    def discard(self, key: Key) -> bool:
        """Forget a key; False if it was not there."""
        if key not in self.filters:
            return False
        del self.filters[key]
        if key in self.link_of_key:
            link = self.link_of_key.pop(key)
            del self.keys_of_link[link][key]
            if not self.keys_of_link[link]:
                del self.keys_of_link[link]
        return True

    def match(self, event: Event) -> list[Key]:
        return [key for key, filter in self.filters.items() if filter.matches(event)]

    def match_batch(self, events: Iterable[Event]) -> list[list[Key]]:
        return [self.match(event) for event in events]

    def match_links(self, events: Iterable[Event]) -> list[list[Link]]:
        """For each event the links that have a matching filter, in the order in which the links were first added."""
        return [[link for link in self.keys_of_link if self.wants(link, event)] for event in events]

    def wants(self, link: Link, event: Event) -> bool:
        return any(self.filters[key].matches(event) for key in self.keys_of_link[link])


class TreePlace:
    """A node of the tree. Below it are only predicates with higher numbers than its own."""

    __slots__ = ("either", "keys", "level", "yes")

    def __init__(self, level: int, either: "TreePlace | None") -> None:
        self.level = level
        self.yes: TreePlace | None = None
        self.either = either
        self.keys: dict[Key, None] = {}
        """Filters whose path ends with this predicate."""


class DecisionTree(LinearScan):
    def __init__(self) -> None:
        super().__init__()
        self.added: dict[Key, int] = {}
        self.additions = 0
        self.levels: dict[Constraint, int] = {}
        self.predicates: dict[int, tuple[Constraint, int]] = {}
        """By level: the predicate, and how many paths ask it."""
        self.next_level = 0
        self.always: dict[Key, None] = {}
        """Filters with a conjunction that asks nothing."""
        self.top: TreePlace | None = None

    def add(self, key: Key, filter: Filter, link: Link | None = None) -> None:
        super().add(key, filter, link)
        self.additions += 1
        self.added[key] = self.additions
        for conjunction in dict.fromkeys(filter.conjunctions):
            self.insert(key, self.path_of(conjunction))

    def discard(self, key: Key) -> bool:
        filter = self.filters.get(key)
        if filter is None:
            return False
        del self.added[key]
        for conjunction in dict.fromkeys(filter.conjunctions):
            self.remove(key, conjunction)
        return super().discard(key)

    # The tree.

    def path_of(self, conjunction: Conjunction) -> Path:
        """Its predicates by number; those that nobody asked before get the next numbers."""
        path = set()
        for constraint in conjunction:
            level = self.levels.get(constraint)
            if level is None:
                level = self.levels[constraint] = self.next_level
                self.next_level += 1
                self.predicates[level] = constraint, 0
            path.add(level)
        for level in path:
            predicate, count = self.predicates[level]
            self.predicates[level] = predicate, count + 1
        return tuple(sorted(path))

    def insert(self, key: Key, path: Path) -> None:
        place: TreePlace | None = None
        for level in path:
            place = self.find_or_make(place, level)
        (self.always if place is None else place.keys)[key] = None

    def find_or_make(self, above: TreePlace | None, level: int) -> TreePlace:
        """The place that asks this predicate, among those right below `above`."""
        before, place = None, self.top if above is None else above.yes
        while place is not None and place.level < level:
            before, place = place, place.either
        if place is not None and place.level == level:
            return place
        made = TreePlace(level, place)
        if before is not None:
            before.either = made
        elif above is not None:
            above.yes = made
        else:
            self.top = made
        return made

    def remove(self, key: Key, conjunction: Conjunction) -> None:
        path = tuple(sorted({self.levels[constraint] for constraint in conjunction}))
        trail: list[tuple[TreePlace | None, TreePlace]] = []
        above: TreePlace | None = None
        for level in path:
            place = self.find_or_make(above, level)
            trail.append((above, place))
            above = place
        del (self.always if above is None else above.keys)[key]
        for above, place in reversed(trail):
            if place.keys or place.yes is not None:
                break
            self.cut_out(above, place)
        for level in path:
            predicate, count = self.predicates[level]
            if count > 1:
                self.predicates[level] = predicate, count - 1
            else:
                del self.predicates[level], self.levels[predicate]

    def cut_out(self, above: TreePlace | None, gone: TreePlace) -> None:
        before, place = None, self.top if above is None else above.yes
        while place is not None and place is not gone:
            before, place = place, place.either
        if before is not None:
            before.either = gone.either
        elif above is not None:
            above.yes = gone.either
        else:
            self.top = gone.either

    # Asking it.

    def match(self, event: Event) -> list[Key]:
        found = dict.fromkeys(key for key in self.candidates(event) if self.is_certain(key, event))
        return sorted(found, key=self.added.__getitem__)

    def candidates(self, event: Event) -> Iterator[Key]:
        """Keys with a conjunction that holds; a key may come more than once."""
        yield from self.always
        attributes, answers = event.attributes, dict[int, bool]()
        ahead = [self.top]
        while ahead:
            place = ahead.pop()
            while place is not None:
                level = place.level
                if level not in answers:
                    predicate = self.predicates[level][0]
                    answers[level] = predicate.accepts(attributes.get(predicate.name))
                if answers[level]:
                    yield from place.keys
                    ahead.append(place.yes)
                place = place.either

    def is_certain(self, key: Key, event: Event) -> bool:
        filter = self.filters[key]
        return filter.residual is None or filter.matches(event)

    def match_links(self, events: Iterable[Event]) -> list[list[Link]]:
        answers = []
        for event in events:
            wanting = {self.link_of_key[key] for key in self.match(event) if key in self.link_of_key}
            answers.append([link for link in self.keys_of_link if link in wanting])
        return answers

    def check(self) -> None:
        asked: dict[int, int] = {}
        ahead = [(-1, self.top)]
        while ahead:
            above, place = ahead.pop()
            while place is not None:
                assert place.level > above, "a predicate out of order"
                assert place.keys or place.yes is not None, "a path that leads nowhere"
                asked[place.level] = asked.get(place.level, 0) + 1
                ahead.append((place.level, place.yes))
                above, place = place.level, place.either
        assert sorted(asked) == sorted(self.predicates) == sorted(self.levels.values()), "predicates that nobody asks"
        assert set(self.added) == set(self.filters), "keys without a filter"
