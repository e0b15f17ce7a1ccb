"""One collection as its sink sees it: which files, which blocks of them are here, what became of each."""

from collections.abc import Callable, Mapping
from enum import Enum

from tidings.model.bounds import COLLECTION_BLOCKS_MAX, FILES_MAX
from tidings.model.identity import NodeId
from tidings.protocols.collect.expectation import Expectation
from tidings.protocols.collect.messages import Enlisted, SharedFile
from tidings.protocols.collect.runs import NumberRun, numbers_in
from tidings.protocols.collect.shelf import BlockTable
from tidings.protocols.collect.signals import (
    CollectedFile,
    CollectionEnded,
    CollectionListed,
    CollectionProgress,
    ListedSource,
    StartCollection,
)


class GatheringStage(Enum):
    LISTING = "listing"
    LISTED = "listed"
    OPENING = "opening"
    RUNNING = "running"


class Gathering:
    def __init__(self, start: StartCollection, now: float, coordinator: NodeId) -> None:
        self.start, self.job, self.coordinator = start, start.job, coordinator
        self.began_at = self.plan_heard_at = now
        self.stage = GatheringStage.LISTING
        self.generation = self.plan = self.horizon = 0
        self.participants: dict[NodeId, Enlisted] = {}
        self.asked: dict[NodeId, None] = {}
        """Sources that have not told all of their files."""
        self.told: dict[NodeId, list[SharedFile]] = {}
        self.problems: dict[NodeId, str] = {}
        self.tables: dict[NodeId, BlockTable] = {}
        self.unready: dict[NodeId, None] = {}
        self.arrived: dict[NodeId, set[int]] = {}
        self.missing_of: dict[tuple[NodeId, int], int] = {}
        """Blocks that a file wants, by source and number of the file."""
        self.digests_asked: dict[tuple[NodeId, int], None] = {}
        self.to_ask: dict[NodeId, list[int]] = {}
        """Files of each source whose digest was not asked for yet, the first one last."""
        self.digests: dict[tuple[NodeId, int], bytes] = {}
        """What sources say that their files are."""
        self.found: dict[tuple[NodeId, int], str] = {}
        """And what they were found to be here."""
        self.finishing: dict[tuple[NodeId, int], None] = {}
        self.outcomes: dict[tuple[NodeId, int], str] = {}
        """Of files that are over with: empty where it is here, and else why it is not."""
        self.given_up: dict[NodeId, str] = {}
        self.lost: dict[NodeId, int] = {}
        self.gone: dict[NodeId, None] = {}
        """Without a link for so long that nothing more is expected of them."""
        self.by_sender: dict[NodeId, int] = {}
        self.arrived_bytes = self.had = 0

    def hear_files(
        self,
        source: NodeId,
        files: tuple[SharedFile, ...],
        refusal: str,
        block_bytes: int,
        why_unsafe: Callable[[str], str],
    ) -> str:
        """What is wrong with what a source tells of its files; empty where nothing is."""
        told = self.told.setdefault(source, [])
        told += files
        if refusal or len(told) > FILES_MAX:
            return refusal or f"more than {FILES_MAX} files match; ask for fewer"
        for file in files:
            if problem := why_unsafe(file.path):
                return f"tells of a file {file.path!r:.200}, which {problem}"
        if len({file.path for file in told}) < len(told):
            return "tells of one file twice"
        if sum(-(-file.size_bytes // block_bytes) for file in told) > COLLECTION_BLOCKS_MAX:
            return f"has more than {COLLECTION_BLOCKS_MAX} blocks that match; ask for fewer files, or for larger blocks"
        return ""

    def make_tables(self, block_bytes: int) -> None:
        for node, files in self.told.items():
            if files:
                self.tables[node] = BlockTable(tuple(files), block_bytes)

    def listed(self, expected: Expectation) -> CollectionListed:
        sources = [ListedSource(node, table.files) for node, table in self.tables.items()]
        sources += [
            ListedSource(node, ()) for node, files in self.told.items() if not files and node not in self.problems
        ]
        sources += [ListedSource(node, (), problem) for node, problem in self.problems.items()]
        helpers = tuple(node for node in self.participants if node not in self.tables)
        return CollectionListed(self.job, tuple(sources), helpers, *expected)

    def opened(self, has: Mapping[NodeId, tuple[NumberRun, ...]]) -> None:
        for node, table in self.tables.items():
            self.arrived[node] = set(numbers_in(has.get(node, ()), table.count))
            self.had += len(self.arrived[node])
            for file in range(len(table.files)):
                self.missing_of[node, file] = sum(seq not in self.arrived[node] for seq in table.of_file(file))

    def give_up_source(self, node: NodeId, reason: str) -> None:
        self.given_up[node] = reason
        for file in range(len(self.tables[node].files)):
            self.outcomes.setdefault((node, file), reason)

    def come_back(self, node: NodeId, lost: str) -> None:
        """What was given up for `lost` is awaited again."""
        self.lost.pop(node, None)
        self.gone.pop(node, None)
        for key in [key for key, problem in self.outcomes.items() if key[0] == node and problem == lost]:
            del self.outcomes[key]

    @property
    def wanted_count(self) -> int:
        return sum(
            table.count - len(self.arrived[node]) for node, table in self.tables.items() if node not in self.given_up
        )

    def heard_plan(self, now: float, plan: int, horizon: int) -> None:
        self.plan_heard_at, self.plan, self.horizon = now, plan, horizon

    def take(self, origin: NodeId, seq: int, via: NodeId, size_bytes: int) -> int | None:
        """The number of the file that is whole now, if one is."""
        self.arrived[origin].add(seq)
        self.arrived_bytes += size_bytes
        self.by_sender[via] = self.by_sender.get(via, 0) + 1
        file = self.tables[origin].place(seq).file
        self.missing_of[origin, file] -= 1
        return file if not self.missing_of[origin, file] else None

    @property
    def is_over(self) -> bool:
        return len(self.outcomes) == sum(len(table.files) for table in self.tables.values())

    def progress(self, now: float) -> CollectionProgress:
        sizes = [file.size_bytes for table in self.tables.values() for file in table.files]
        return CollectionProgress(
            self.job,
            now,
            self.began_at,
            sum(table.count for table in self.tables.values()),
            sum(len(numbers) for numbers in self.arrived.values()),
            sum(sizes),
            self.arrived_bytes,
            tuple((node, len(self.arrived[node]), table.count) for node, table in self.tables.items()),
            tuple(self.by_sender.items()),
            self.plan,
            max(0.0, self.horizon - (now - self.plan_heard_at)) if self.horizon else 0.0,
            tuple(self.lost.items()),
        )

    def ended(self, now: float, reason: str) -> CollectionEnded:
        files = [
            CollectedFile(
                node,
                file.path,
                file.size_bytes,
                self.found.get((node, place), ""),
                self.outcomes.get((node, place), reason or "not here"),
                (node, place) in self.digests,
            )
            for node, table in self.tables.items()
            for place, file in enumerate(table.files)
        ]
        files += [CollectedFile(node, "", 0, problem=problem) for node, problem in self.problems.items()]
        return CollectionEnded(self.job, now - self.began_at, tuple(files), tuple(self.by_sender.items()), reason)

    def check(self) -> None:
        for node, numbers in self.arrived.items():
            assert all(seq < self.tables[node].count for seq in numbers)
