"""The gatherer: what a host does that wants the files of others.

It asks the directory who is there, and the sources which files they have that match. The application sees the list,
with how long it is expected to take (`CollectionListed`), and says go on. Then everybody who takes part is told
(`CollectionOpened`): sources their files and which blocks are here already, all of them who else there is. When they
are ready the coordinator is asked, and blocks come. When all blocks of a file are here, its source says what the
SHA-256 of the whole file is, ours is found beside the machine, and the file gets its name. When every file has its
name, or cannot get one any more, all are told that it is over (`TransferComplete`).

The sink has the last word on everything: what it has is stored (`BlockShelf`), so a collection that was broken off, by
the death of the sink too, goes on where it was. It is also who watches the coordinator, and takes its place.

State: a `Gathering` for each collection, with its stage: listing, listed, opening, running, over.

Timers, each with the collection: "listing" and "opening" (those who have not answered are left out), "progress",
"watch" (no plan was heard for too long).

Not guaranteed: that a source is honest. It may give anything for its file; what it cannot is change the file of
another: blocks are checked by their digests on their way and files by those of their sources at the end.
"""

from typing import Any

from tidings.machine.effects import CancelTimer, Compute, Deliver, Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Computed, Fired, Input, Received, Signal
from tidings.machine.message import Contact
from tidings.model.bounds import (
    COLLECTION_SUM_MAX,
    COLLECTIONS_MAX,
    COLLECTORS_MAX,
    FILES_TOLD_MAX,
    RANGES_MAX,
    TEXT_CHARS_MAX,
)
from tidings.model.identity import NodeId
from tidings.protocols.collect.expectation import Expectation, expect
from tidings.protocols.collect.gatherer_state import Gathering, GatheringStage
from tidings.protocols.collect.messages import (
    BlocksLost,
    CollectionOpened,
    CollectionReady,
    CollectRequest,
    Enlisted,
    FileDigestAsked,
    FileDigestTold,
    FileFailed,
    FilesAsked,
    FilesTold,
    TransferComplete,
)
from tidings.protocols.collect.params import CollectParams
from tidings.protocols.collect.runs import numbers_in, runs_of
from tidings.protocols.collect.shelf import BlockShelf
from tidings.protocols.collect.signals import (
    AbandonCollection,
    BlockArrived,
    CollectionExpected,
    CollectionOver,
    CoordinationWanted,
    MembersKnown,
    PlanHeard,
    ProceedCollection,
    StartCollection,
)
from tidings.pubsub.signals import LinkUnwanted, LinkWanted, PeerDown, PeerUp

NOT_ASKED = "answers what was not asked"
NO_ANSWER = "does not answer; see whether its agent runs and can be reached from here"
NOT_ENLISTED = "is not known here; see what its agent says, and whether it has the same contact"
NO_FILES = "shares no files"
NOBODY = "nobody who takes part has files that match"
LOST = "its source is gone, and nobody has its missing blocks"
TOO_MUCH = f"more than {COLLECTION_SUM_MAX} blocks; ask for fewer files, or for larger blocks (--block)"
USER = "gather"
DIGESTS_ASKED_MAX = 4
"""Of one source at a time, so that its disk reads what is sent besides."""


class Gatherer:
    messages: tuple[type, ...] = (FilesTold, CollectionReady, BlocksLost, FileFailed, FileDigestTold)
    hears: tuple[type, ...] = (
        StartCollection,
        ProceedCollection,
        AbandonCollection,
        MembersKnown,
        PeerUp,
        PeerDown,
        BlockArrived,
        PlanHeard,
    )
    tells: tuple[type[Signal], ...] = (LinkWanted, LinkUnwanted, CollectionExpected, CollectionOver, CoordinationWanted)

    def __init__(self, node_id: NodeId, params: CollectParams, shelf: BlockShelf) -> None:
        self.node_id, self.params, self.shelf = node_id, params, shelf
        self.members: dict[NodeId, Enlisted] = {}
        self.paths: dict[tuple[NodeId, NodeId], float] = {}
        self.linked: dict[NodeId, None] = {}
        self.jobs: dict[str, Gathering] = {}

    def start(self, now: float) -> list[Effect]:
        self.linked.clear()
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case StartCollection():
                return self.begin(now, input)
            case ProceedCollection(job) if job in self.jobs and self.jobs[job].stage is GatheringStage.LISTED:
                return self.proceed(now, self.jobs[job])
            case AbandonCollection(job, reason) if job in self.jobs:
                return self.end(now, self.jobs[job], reason)
            case MembersKnown(members, paths):
                self.members |= {each.contact.node: each for each in members if each.contact.node != self.node_id}
                self.paths = {(sender, peer): rate for sender, peer, rate in paths}
            case PeerUp(peer):
                self.linked[peer] = None
                return [effect for work in self.jobs.values() for effect in self.peer_up(now, work, peer)]
            case PeerDown(peer):
                self.linked.pop(peer, None)
                self.members.pop(peer, None)
                return [effect for work in self.jobs.values() for effect in self.peer_down(now, work, peer)]
            case Received(sender, message):
                work = self.jobs.get(getattr(message, "job", ""))
                if work is None or (sender not in work.participants and sender != work.coordinator):
                    return [Drop(message, NOT_ASKED)]
                return self.hear(now, work, sender, message)
            case BlockArrived(job) if job in self.jobs:
                return self.arrived(now, self.jobs[job], input)
            case PlanHeard(job, plan, horizon) if job in self.jobs:
                self.jobs[job].heard_plan(now, plan, horizon)
            case Computed(("finish", str(job), str(origin), int(file)), result, error) if job in self.jobs:
                work = self.jobs[job]
                if isinstance(result, bytes):
                    work.found[origin, file] = result.hex()
                    return self.finished(now, work, origin, file, "")
                return self.finished(now, work, origin, file, str(error or result)[:TEXT_CHARS_MAX])
            case Fired(("gone", str(job), str(node))) if job in self.jobs and node not in self.linked:
                self.jobs[job].gone[node] = None
                return self.do_without(self.jobs[job], node)
            case Fired((kind, str(job))) if job in self.jobs:
                return self.due(now, kind, self.jobs[job])
        return []

    # What there is.

    def begin(self, now: float, start: StartCollection) -> list[Effect]:
        if start.job in self.jobs or len(self.jobs) >= COLLECTIONS_MAX:
            return [Drop(start, NOT_ASKED)]
        work = self.jobs[start.job] = Gathering(start, now, start.coordinator or self.node_id)
        work.participants = dict(list(self.members.items())[: COLLECTORS_MAX - 1])
        named = start.sources or tuple(node for node, each in work.participants.items() if each.has_files)
        for source in named:
            if source not in work.participants:
                work.problems[source] = NOT_ENLISTED
            elif not work.participants[source].has_files:
                work.problems[source] = NO_FILES
            else:
                work.asked[source] = None
        effects: list[Effect] = []
        for node, each in work.participants.items():
            if node not in self.linked:
                effects.append(LinkWanted(each.contact, USER))
            elif node in work.asked:
                effects.append(Send(node, FilesAsked(work.job, start.patterns)))
        if not work.asked:
            return effects + self.listed(now, work)
        return [*effects, SetTimer(("listing", work.job), now + self.params.list_timeout)]

    def hear(self, now: float, work: Gathering, sender: NodeId, message: Any) -> list[Effect]:
        match message:
            case FilesTold(files=files, is_last=is_last, refusal=refusal) if sender in work.asked:
                if problem := work.hear_files(sender, files, refusal, self.params.block_bytes, self.shelf.why_unsafe):
                    work.problems[sender] = problem
                    work.told[sender] = []
                if is_last or sender in work.problems:
                    del work.asked[sender]
                    return [] if work.asked else self.listed(now, work)
            case CollectionReady(blocks=blocks, refusal=refusal) if sender in work.unready:
                del work.unready[sender]
                if refusal or (sender in work.tables and blocks != work.tables[sender].count):
                    self.leave_out(work, sender, refusal or "has other files than it told of")
                return [] if work.unready else self.run(now, work)
            case FileFailed(file=file, reason=reason) if sender in work.tables and file < len(
                work.tables[sender].files
            ):
                return self.fail_file(now, work, sender, file, reason)
            case BlocksLost(origin=origin, runs=runs) if sender == work.coordinator and origin in work.tables:
                return self.lose_blocks(now, work, origin, runs)
            case FileDigestTold(file=file, sha256=digest, problem=problem) if (sender, file) in work.digests_asked:
                del work.digests_asked[sender, file]
                asked = self.ask_digests(work, sender)
                if problem or len(digest) != 32:
                    return [*asked, *self.finished(now, work, sender, file, problem or "its source gave no digest")]
                work.digests[sender, file] = digest
                return [*asked, *self.look_at_file(work, sender, file)]
        return []

    def listed(self, now: float, work: Gathering) -> list[Effect]:
        for source in work.asked:
            work.problems[source] = NO_ANSWER
            work.told.pop(source, None)
        work.asked.clear()
        work.stage = GatheringStage.LISTED
        work.make_tables(self.params.block_bytes)
        return [CancelTimer(("listing", work.job)), Deliver(work.listed(self.expected(work)))]

    def expected(self, work: Gathering) -> Expectation:
        blocks = {node: table.count for node, table in work.tables.items()}
        hosts = [*work.participants, self.node_id]
        return expect(blocks, hosts, self.node_id, self.members, self.paths, self.params)

    # Bringing it here.

    def proceed(self, now: float, work: Gathering) -> list[Effect]:
        if not work.tables:
            return self.end(now, work, NOBODY)
        if sum(table.count for table in work.tables.values()) > COLLECTION_SUM_MAX:
            return self.end(now, work, TOO_MUCH)
        has = self.shelf.receive(work.job, work.tables)
        if isinstance(has, str):
            return self.end(now, work, has)
        work.opened(has)
        work.stage = GatheringStage.OPENING
        work.unready = dict.fromkeys(node for node in work.participants if node in self.linked)
        for node in work.tables:
            if node not in self.linked:
                self.leave_out(work, node, NO_ANSWER)
        expected = CollectionExpected(
            work.job,
            self.params.block_bytes,
            tuple((node, table.count) for node, table in work.tables.items()),
            tuple(has.items()),
        )
        effects: list[Effect] = [expected]
        for node in work.unready:
            effects += self.open(work, node, is_again=False)
        if not work.unready:
            return effects + self.run(now, work)
        return [*effects, SetTimer(("opening", work.job), now + self.params.list_timeout)]

    def open(self, work: Gathering, node: NodeId, is_again: bool) -> list[Effect]:
        """As many messages as it takes; what is here already goes with the last one, as far as it fits there: a block
        too much is counted once."""
        contacts = tuple(each.contact for each in work.participants.values())
        files = work.tables[node].files if node in work.tables else ()
        has = runs_of(work.arrived.get(node, ()))[:RANGES_MAX]
        places = range(0, len(files), FILES_TOLD_MAX) or range(1)
        return [
            Send(
                node,
                CollectionOpened(
                    work.job,
                    work.coordinator,
                    self.params.block_bytes,
                    (*contacts, Contact(self.node_id)) if place == 0 else (),
                    place,
                    files[place : place + FILES_TOLD_MAX],
                    place == places[-1],
                    has if place == places[-1] else (),
                    is_again,
                ),
            )
            for place in places
        ]

    def leave_out(self, work: Gathering, node: NodeId, reason: str) -> None:
        work.participants.pop(node, None)
        work.unready.pop(node, None)
        if node in work.tables:
            work.give_up_source(node, reason)

    def run(self, now: float, work: Gathering) -> list[Effect]:
        work.stage = GatheringStage.RUNNING
        work.heard_plan(now, 0, 0)
        effects: list[Effect] = [CancelTimer(("opening", work.job))]
        if work.wanted_count:
            effects.append(Send(work.coordinator, self.request(work)))
        for origin in work.tables:
            work.to_ask[origin] = list(range(len(work.tables[origin].files) - 1, -1, -1))
            effects += self.ask_digests(work, origin)
        effects += [
            SetTimer(("progress", work.job), now + self.params.progress_period),
            SetTimer(("watch", work.job), now + self.patience),
        ]
        for origin, file in list(work.missing_of):
            effects += self.look_at_file(work, origin, file)
        return effects + self.look_at_end(now, work)

    @property
    def patience(self) -> float:
        """Seconds without a plan after which the coordinator is replaced."""
        return 2 * (self.params.period + self.params.status_timeout) + self.params.lost_after

    def request(self, work: Gathering) -> CollectRequest:
        sources = {node: table.count for node, table in work.tables.items() if node not in work.given_up}
        helpers = tuple(node for node in work.participants if node not in sources)
        missing = {node: count - len(work.arrived.get(node, ())) for node, count in sources.items()}
        start = work.start
        return CollectRequest(
            work.job,
            self.params.block_bytes,
            tuple(sources.items()),
            tuple(missing.items()),
            helpers if start.strategy == "planned" else (),
            work.generation,
            start.strategy,
            start.pool,
        )

    def due(self, now: float, kind: object, work: Gathering) -> list[Effect]:
        if kind == "listing" and work.stage is GatheringStage.LISTING:
            return self.listed(now, work)
        if kind == "opening" and work.stage is GatheringStage.OPENING:
            for node in list(work.unready):
                self.leave_out(work, node, NO_ANSWER)
            return self.run(now, work)
        if kind == "progress" and work.stage is GatheringStage.RUNNING:
            again = SetTimer(("progress", work.job), now + self.params.progress_period)
            return [Deliver(work.progress(now)), again]
        if kind == "watch" and work.stage is GatheringStage.RUNNING:
            return self.watch(now, work)
        return []

    def watch(self, now: float, work: Gathering) -> list[Effect]:
        again = SetTimer(("watch", work.job), now + self.patience / 4)
        is_silent = now - work.plan_heard_at > self.patience and self.params.period > 0
        if work.coordinator == self.node_id or work.start.strategy != "planned" or not is_silent:
            return [again]
        return [*self.take_over(now, work), again]

    def take_over(self, now: float, work: Gathering) -> list[Effect]:
        """We coordinate it from now on."""
        work.coordinator, work.generation = self.node_id, work.generation + 1
        work.heard_plan(now, 0, 0)
        effects: list[Effect] = []
        for node in work.participants:
            if node in self.linked:
                effects += self.open(work, node, is_again=True)
        return [*effects, CoordinationWanted(self.request(work))]

    def peer_up(self, now: float, work: Gathering, peer: NodeId) -> list[Effect]:
        if work.stage is GatheringStage.LISTING and peer in work.asked:
            return [Send(peer, FilesAsked(work.job, work.start.patterns))]
        if work.stage is GatheringStage.RUNNING and peer in work.participants:
            # It may have forgotten all of it; then it learns what it has to send when holdings are compared.
            work.come_back(peer, LOST)
            return [*self.open(work, peer, is_again=True), *self.ask_digests(work, peer)]
        return []

    def peer_down(self, now: float, work: Gathering, peer: NodeId) -> list[Effect]:
        if peer in work.participants and work.stage is GatheringStage.OPENING and peer in work.unready:
            self.leave_out(work, peer, NO_ANSWER)
            return [] if work.unready else self.run(now, work)
        effects: list[Effect] = []
        if work.stage is GatheringStage.RUNNING and peer in work.participants:
            effects.append(LinkWanted(work.participants[peer].contact, USER))
            if peer == work.coordinator:
                effects += self.take_over(now, work)
            effects.append(SetTimer(("gone", work.job, peer), now + self.params.lost_after))
        for origin, file in [each for each in work.digests_asked if each[0] == peer]:
            del work.digests_asked[origin, file]
            work.to_ask[origin].append(file)
        return effects

    # What arrived.

    def arrived(self, now: float, work: Gathering, block: BlockArrived) -> list[Effect]:
        if block.problem:
            return self.end(now, work, block.problem)
        file = work.take(block.origin, block.seq, block.via, block.size_bytes)
        if file is None:
            return []
        return self.look_at_file(work, block.origin, file, is_attested=block.origin not in work.gone)

    def ask_digests(self, work: Gathering, origin: NodeId) -> list[Effect]:
        """What its files are, a few at a time: from the beginning, since a source may be gone when all is here."""
        asked: list[Effect] = []
        under_way = sum(each == origin for each, _ in work.digests_asked)
        while work.to_ask.get(origin) and under_way + len(asked) < DIGESTS_ASKED_MAX and origin in self.linked:
            file = work.to_ask[origin].pop()
            if (origin, file) not in work.outcomes:
                work.digests_asked[origin, file] = None
                asked.append(Send(origin, FileDigestAsked(work.job, file)))
        return asked

    def look_at_file(self, work: Gathering, origin: NodeId, file: int, is_attested: bool = True) -> list[Effect]:
        """Whether all of its blocks are here and it is known what it is to be."""
        key = origin, file
        digest = work.digests.get(key, b"")
        if key in work.outcomes or key in work.finishing or work.missing_of.get(key, 1) or (is_attested and not digest):
            return []
        work.finishing[key] = None
        return [Compute(("finish", work.job, origin, file), self.shelf.finish(work.job, origin, file, digest))]

    def do_without(self, work: Gathering, origin: NodeId) -> list[Effect]:
        """A source is gone that did not say what its files are: those that are here are what the digests of their
        blocks say, and the result tells that nobody has confirmed the whole."""
        files = range(len(work.tables[origin].files)) if origin in work.tables else ()
        return [effect for file in files for effect in self.look_at_file(work, origin, file, is_attested=False)]

    def fail_file(self, now: float, work: Gathering, origin: NodeId, file: int, reason: str) -> list[Effect]:
        work.outcomes.setdefault((origin, file), reason)
        return self.look_at_end(now, work)

    def lose_blocks(self, now: float, work: Gathering, origin: NodeId, runs: Any) -> list[Effect]:
        table = work.tables[origin]
        gone = [seq for seq in numbers_in(runs, table.count) if seq not in work.arrived[origin]]
        work.lost[origin] = len(gone)
        for file in sorted({table.place(seq).file for seq in gone}):
            work.outcomes.setdefault((origin, file), LOST)
        return [*self.do_without(work, origin), *self.look_at_end(now, work)]

    def finished(self, now: float, work: Gathering, origin: NodeId, file: int, problem: str) -> list[Effect]:
        work.outcomes.setdefault((origin, file), problem)
        return self.look_at_end(now, work)

    def look_at_end(self, now: float, work: Gathering) -> list[Effect]:
        return self.end(now, work, "") if work.stage is GatheringStage.RUNNING and work.is_over else []

    def end(self, now: float, work: Gathering, reason: str) -> list[Effect]:
        del self.jobs[work.job]
        complete = TransferComplete(work.job, reason[:TEXT_CHARS_MAX])
        told = dict.fromkeys([*work.participants, work.coordinator])
        ended = work.ended(now, reason)
        return [
            *(Send(node, complete) for node in told if node in self.linked),
            CollectionOver(work.job, ended.is_complete),
            *(CancelTimer((kind, work.job)) for kind in ("listing", "opening", "progress", "watch")),
            *(LinkUnwanted(node, USER) for node in work.participants),
            Deliver(ended),
        ]

    def check(self) -> None:
        for work in self.jobs.values():
            work.check()
