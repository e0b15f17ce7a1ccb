"""The mover: sends blocks along the plan, takes those of others and passes them on, and answers for each until the next
host does.

The problem. n hosts hold large files and one, the *sink*, wants them all. If everybody sends straight to it, the paths
to it decide, and the worst of them decides when it ends. Confluence (Patel thesis, chapter 3) lets hosts pass on each
other's blocks along a flow that was planned for the whole of it (`planning/flows`).

The idea. A directive of the coordinator says how many blocks go to which receiver, and how fast that is meant to be.
Blocks are pushed to all receivers at once, at most a second of planned data on the way to each, so that what has not
left can still be planned anew. A block of somebody else is assigned to a receiver as it comes, by chance, in the
proportion of what each is still to be given. Who has stored a block says so (`BlockAck`), and from then on answers for
it: the sender deletes it unless it is its own.

A plan may say that an origin sends blocks again for which another host answers by now (`ReplicatedBlocks`). What is
left over when a directive is done waits for the next one, or, when that was the last, goes to the sink.

State: a `MovedJob` for each collection, which says more. `peers`: to whom there is a link.

Timers. ("pump", job): the uplink has room again. "acks": what came may be acknowledged now, so that the downlink keeps
to its limit. ("orphan", job): the sink was away for too long.

Guaranteed. A block is deleted here only when another host has said that it stored it, or the collection is over. Not
guaranteed: that a block comes to the sink once only. After a link broke it may be sent twice, and the sink counts it
once.

Bounds. Blocks of others up to `relay_bytes_max`, a window for each receiver, `COLLECTIONS_MAX` collections.
"""

from collections import deque
from random import Random
from typing import Any

from tidings.machine.effects import CancelTimer, CancelTransfer, Compute, Drop, Effect, Send, SetTimer, Transfer
from tidings.machine.inputs import Computed, Fired, Input, Received, Signal, Transferred
from tidings.machine.message import Contact
from tidings.model.bounds import COLLECTION_BLOCKS_MAX, COLLECTIONS_MAX, FILES_MAX, TEXT_CHARS_MAX
from tidings.model.identity import NodeId
from tidings.protocols.collect.limits import TokenBucket
from tidings.protocols.collect.messages import (
    BlockAck,
    BlockRefused,
    BlockSent,
    BlocksReclaimed,
    CollectionOpened,
    CollectionReady,
    Directive,
    FileDigestAsked,
    FileDigestTold,
    FileFailed,
    FilesAsked,
    HoldingsAsked,
    ReplicasTaken,
    ReplicatedBlocks,
    SharedFile,
    StatusRequest,
    StatusUpdate,
    TransferComplete,
)
from tidings.protocols.collect.moved import BlockKey, MovedJob, files_told
from tidings.protocols.collect.params import CollectParams
from tidings.protocols.collect.rates import PeakRate
from tidings.protocols.collect.runs import is_among, numbers_in, parts_of, runs_of
from tidings.protocols.collect.shelf import BlockShelf, BlockTable
from tidings.protocols.collect.signals import (
    BlockArrived,
    CollectionClosed,
    CollectionExpected,
    CollectionOver,
    PlanHeard,
)
from tidings.pubsub.signals import LinkUnwanted, LinkWanted, PeerDown, PeerUp

NOT_A_PEER = "comes from a host that is no peer"
NO_COLLECTION = "there is no such collection here"
NOT_IN_CHARGE = "comes from a host that is not in charge of this collection"
NOBODY_ASKED = "a block that nobody asked for"
NO_ROOM = "no more blocks of others are kept here at the moment"
TOO_MANY = "as many collections as are allowed are under way here already"
TOO_MUCH = f"more than {COLLECTION_BLOCKS_MAX} blocks of one source; ask for fewer files, or for larger blocks"
USER = "collect"


class BlockMover:
    """`BlockMover("a", CollectParams(), shelf, rng)`."""

    messages: tuple[type, ...] = (
        FilesAsked,
        CollectionOpened,
        Directive,
        BlockSent,
        BlockAck,
        BlockRefused,
        StatusRequest,
        ReplicatedBlocks,
        ReplicasTaken,
        HoldingsAsked,
        BlocksReclaimed,
        FileDigestAsked,
        TransferComplete,
    )
    hears: tuple[type, ...] = (PeerUp, PeerDown, CollectionExpected, CollectionOver)
    tells: tuple[type[Signal], ...] = (LinkWanted, LinkUnwanted, BlockArrived, PlanHeard, CollectionClosed)

    def __init__(self, node_id: NodeId, params: CollectParams, shelf: BlockShelf, rng: Random) -> None:
        self.node_id, self.params, self.shelf, self.rng = node_id, params, shelf, rng
        self.peers: dict[NodeId, None] = {}
        self.jobs: dict[str, MovedJob] = {}
        self.opening: dict[str, list[SharedFile]] = {}
        self.wanted: dict[NodeId, dict[str, None]] = {}
        """Links that collections need, and which."""
        self.contacts: dict[NodeId, Contact] = {}
        self.up = TokenBucket(params.up_bps)
        self.down = TokenBucket(params.down_bps)
        self.acks: deque[Send] = deque()
        """Held back, for the downlink's sake."""
        self.relay_bytes = 0
        self.up_peak, self.down_peak = PeakRate(params.rate_seconds), PeakRate(params.rate_seconds)

    def start(self, now: float) -> list[Effect]:
        self.peers.clear()
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(sender, message) if sender != self.node_id and sender not in self.peers:
                return [Drop(message, NOT_A_PEER)]
            case Received(sender, BlockSent() as block):
                return self.take_block(now, sender, block)
            case Received(sender, BlockAck(job, origin, seq)) if job in self.jobs:
                return self.acknowledged(now, sender, self.jobs[job], (origin, seq))
            case Received(sender, BlockRefused(job, origin, seq)) if job in self.jobs:
                return self.refused(now, sender, self.jobs[job], (origin, seq))
            case Received(sender, message):
                return self.hear(now, sender, message)
            case Transferred((_, str(job), str(receiver), str(origin), int(seq)), error) if error and job in self.jobs:
                self.jobs[job].give_up(receiver, (origin, seq), self.rng)
                # Not at once: whoever cannot be reached is not reached this moment either.
                return [SetTimer(("pump", job), now + 1.0)]
            case PeerUp(peer):
                self.peers[peer] = None
                orphans = [CancelTimer(("orphan", each.job)) for each in self.jobs.values() if each.sink == peer]
                return [*orphans, *self.pump_all(now)]
            case PeerDown(peer) if peer in self.peers:
                return self.peer_down(now, peer)
            case Fired(("pump", str(job))) if job in self.jobs:
                return self.pump(now, self.jobs[job])
            case Fired("acks"):
                return self.release_acks(now)
            case Fired(("orphan", str(job))) if job in self.jobs:
                return self.close(self.jobs[job], is_complete=False)
            case CollectionExpected():
                return self.expect(input)
            case CollectionOver(job, is_complete) if job in self.jobs:
                return self.close(self.jobs[job], is_complete)
            case Computed(("digest", str(job), int(file), str(sink)), result, error):
                told = FileDigestTold(
                    job, file, b"", (error or result)[:TEXT_CHARS_MAX] if error or isinstance(result, str) else ""
                )
                if isinstance(result, bytes):
                    told = FileDigestTold(job, file, result)
                return [Send(sink, told)]
        return []

    def hear(self, now: float, sender: NodeId, message: Any) -> list[Effect]:
        match message:
            case FilesAsked(job, patterns):
                return [Send(sender, told) for told in files_told(self.shelf, job, patterns)]
            case CollectionOpened():
                return self.open(now, sender, message)
        moved = self.jobs.get(getattr(message, "job", ""))
        if moved is None:
            return [Drop(message, NO_COLLECTION)]
        is_in_charge = sender in (moved.sink, moved.coordinator)
        match message:
            case ReplicatedBlocks(runs=runs):
                moved.answer_for_own(numbers_in(runs, moved.own_count))
                return [Send(sender, ReplicasTaken(moved.job, runs)), *self.pump(now, moved)]
            case ReplicasTaken(runs=runs):
                for seq in [seq for seq in moved.handed.get(sender, ()) if is_among(seq, runs)]:
                    del moved.handed[sender][seq]
                    self.part_with(moved, (sender, seq))
                return []
            case _ if not is_in_charge:
                return [Drop(message, NOT_IN_CHARGE)]
            case Directive():
                return self.follow(now, moved, message)
            case StatusRequest(plan=plan):
                return [Send(sender, self.status(now, moved, plan))]
            case HoldingsAsked(round=round):
                return [Send(sender, told) for told in moved.told_holdings(round)]
            case BlocksReclaimed(origin=origin, runs=runs):
                self.reclaim(moved, origin, runs)
                return self.pump(now, moved)
            case FileDigestAsked(file=file) if moved.table is not None and file < len(moved.table.files):
                return [Compute(("digest", moved.job, file, sender), self.shelf.own_digest(moved.job, file))]
            case TransferComplete(reason=reason):
                return self.close(moved, is_complete=not reason)
        return []

    # Opening and closing.

    def open(self, now: float, sender: NodeId, opened: CollectionOpened) -> list[Effect]:
        job = opened.job
        if job in self.jobs and self.jobs[job].table is not None:
            moved = self.jobs[job]
            if sender != moved.sink:
                return [Drop(opened, NOT_IN_CHARGE)]
            moved.coordinator = opened.coordinator
            return [Send(sender, CollectionReady(job, moved.own_count))] if opened.is_last else []
        if job not in self.jobs:
            if len(self.jobs) >= COLLECTIONS_MAX:
                return [Send(sender, CollectionReady(job, 0, TOO_MANY))]
            self.jobs[job] = MovedJob(self.node_id, job, sender, self.params, opened.block_bytes)
            self.opening[job] = []
        moved = self.jobs[job]
        if sender != moved.sink or opened.begin != len(self.opening[job]) or opened.begin > FILES_MAX:
            return [Drop(opened, NOT_IN_CHARGE)]
        moved.coordinator = opened.coordinator
        for contact in opened.contacts:
            self.contacts[contact.node] = contact
        self.opening[job] += opened.files
        if not opened.is_last:
            return []
        table = BlockTable(tuple(self.opening.pop(job)), opened.block_bytes)
        problem = TOO_MUCH if table.count > COLLECTION_BLOCKS_MAX else self.shelf.offer(job, table)
        if problem:
            del self.jobs[job]
            return [Send(sender, CollectionReady(job, 0, problem[:TEXT_CHARS_MAX]))]
        moved.table = table
        if not opened.is_again:
            has = set(numbers_in(opened.has, table.count))
            moved.answer_for_own(seq for seq in range(table.count) if seq not in has)
        return [Send(sender, CollectionReady(job, table.count))]

    def expect(self, expected: CollectionExpected) -> list[Effect]:
        """We are the sink."""
        moved = MovedJob(self.node_id, expected.job, self.node_id, self.params, expected.block_bytes)
        moved.expected = dict(expected.blocks)
        moved.arrived = {origin: set(numbers_in(runs, moved.expected[origin])) for origin, runs in expected.has}
        moved.table = BlockTable((), expected.block_bytes)
        self.jobs[expected.job] = moved
        return []

    def close(self, moved: MovedJob, is_complete: bool) -> list[Effect]:
        job = moved.job
        del self.jobs[job]
        self.opening.pop(job, None)
        self.relay_bytes -= sum(moved.sizes.values())
        self.shelf.close(job, is_complete)
        effects: list[Effect] = [CancelTimer(("pump", job)), CancelTimer(("orphan", job)), CollectionClosed(job)]
        for receiver, flying in moved.in_flight.items():
            effects += [CancelTransfer(("block", job, receiver, *key)) for key in flying]
        for node in [node for node, jobs in self.wanted.items() if job in jobs]:
            del self.wanted[node][job]
            if not self.wanted[node]:
                del self.wanted[node]
                effects.append(LinkUnwanted(node, USER))
        return effects

    def peer_down(self, now: float, peer: NodeId) -> list[Effect]:
        del self.peers[peer]
        effects: list[Effect] = []
        for moved in self.jobs.values():
            flying = moved.in_flight.get(peer, ())
            effects += [CancelTransfer(("block", moved.job, peer, *key)) for key in flying]
            moved.lose_receiver(peer, self.rng)
            if moved.sink == peer:
                effects.append(SetTimer(("orphan", moved.job), now + self.params.orphaned_after))
        self.acks = deque(ack for ack in self.acks if ack.to != peer)
        return effects + self.pump_all(now)

    # Plans.

    def follow(self, now: float, moved: MovedJob, directive: Directive) -> list[Effect]:
        if directive.plan <= moved.plan:
            return [Drop(directive, NOT_IN_CHARGE)]
        if moved.is_sink:
            moved.plan = directive.plan
            return [PlanHeard(moved.job, directive.plan, directive.horizon)]
        effects: list[Effect] = []
        moved.direct(now, directive, self.rng)
        for share in directive.shares:
            node = share.receiver
            if node == self.node_id or node in self.peers:
                continue
            users = self.wanted.setdefault(node, {})
            if not users:
                effects.append(LinkWanted(self.contacts.get(node, Contact(node)), USER))
            users[moved.job] = None
        for origin, most in directive.handbacks:
            if origin in self.peers and (numbers := moved.hand_back(origin, most)):
                effects += [Send(origin, ReplicatedBlocks(moved.job, part)) for part in parts_of(runs_of(numbers))]
        return effects + self.pump(now, moved)

    def status(self, now: float, moved: MovedJob, plan: int) -> StatusUpdate:
        moved.freeze(now)
        rates = [(receiver, moved.rates[receiver].rate(now)) for receiver in moved.planned]
        return StatusUpdate(
            moved.job,
            plan,
            tuple(moved.held().items()),
            tuple((receiver, rate) for receiver, rate in rates if rate is not None),
            tuple(receiver for receiver in moved.planned if receiver not in self.peers),
            self.up_peak.peak / moved.block_bytes,
            self.down_peak.peak / moved.block_bytes,
        )

    def reclaim(self, moved: MovedJob, origin: NodeId, runs: tuple[tuple[int, int], ...]) -> None:
        if origin == self.node_id:
            moved.answer_for_own(numbers_in(runs, moved.own_count))
            return
        wanted = [seq for each, seq in moved.spare if each == origin]
        for seq in sorted(set(wanted) & set(numbers_in(runs, max(wanted, default=-1) + 1))):
            moved.spare.pop((origin, seq))
            moved.assign((origin, seq), self.rng)

    # Blocks.

    def pump_all(self, now: float) -> list[Effect]:
        return [effect for moved in list(self.jobs.values()) for effect in self.pump(now, moved)]

    def pump(self, now: float, moved: MovedJob) -> list[Effect]:
        """Send whatever may be sent, to all receivers in turns."""
        effects: list[Effect] = []
        if moved.is_sink:
            return effects
        is_going = True
        while is_going:
            is_going, later = False, list[float]()
            for receiver in moved.receivers():
                if receiver not in self.peers:
                    continue
                if (paced := moved.next_at.get(receiver, now)) > now + 1e-9:
                    later.append(paced)
                    continue
                if wait := self.up.wait(now):
                    effects.append(SetTimer(("pump", moved.job), now + wait))
                    break
                key = moved.next_for(receiver)
                if key is not None:
                    is_going = True
                    effects += self.send(now, moved, receiver, key)
        if later:
            effects.append(SetTimer(("pump", moved.job), min(later)))
        moved.freeze(now)
        return effects

    def send(self, now: float, moved: MovedJob, receiver: NodeId, key: BlockKey) -> list[Effect]:
        origin, seq = key
        block = self.shelf.read(moved.job, origin, seq, is_own=origin == self.node_id)
        if block.problem:
            if origin != self.node_id or moved.table is None:
                # Whoever asks what is here will not hear of it, and its origin sends it again.
                self.part_with(moved, key)
                return []
            file = moved.table.place(seq).file
            gone = set(moved.table.of_file(file))
            moved.own = deque(each for each in moved.own if each not in gone)
            moved.own_unsent -= gone
            return [Send(moved.sink, FileFailed(moved.job, file, block.problem[:TEXT_CHARS_MAX]))]
        moved.sent(now, receiver, key)
        # Blocks without bytes, in large runs, are as large as they would be.
        size_bytes = block.size_bytes or moved.sizes.get(key, 0)
        self.up.spend(size_bytes * 8)
        self.up_peak.add(now, size_bytes)
        message = BlockSent(moved.job, origin, seq, block.digest, block.data)
        return [Transfer(("block", moved.job, receiver, origin, seq), receiver, message, size_bytes)]

    def part_with(self, moved: MovedJob, key: BlockKey) -> None:
        self.relay_bytes -= moved.sizes.pop(key, 0)
        moved.spare.pop(key, None)
        self.shelf.drop(moved.job, *key)

    def take_block(self, now: float, sender: NodeId, block: BlockSent) -> list[Effect]:
        moved, key = self.jobs.get(block.job), (block.origin, block.seq)
        if moved is None or (not moved.is_sink and block.origin == self.node_id):
            return [Drop(block, NOBODY_ASKED), Send(sender, BlockRefused(block.job, *key, NOBODY_ASKED))]
        size_bytes = len(block.data) or moved.block_bytes
        self.down_peak.add(now, size_bytes)
        effects: list[Effect] = []
        if moved.is_sink:
            if block.seq >= moved.expected.get(block.origin, 0):
                return [Drop(block, NOBODY_ASKED), Send(sender, BlockRefused(block.job, *key, NOBODY_ASKED))]
            arrived = moved.arrived.setdefault(block.origin, set())
            if block.seq not in arrived:
                problem = self.shelf.arrive(block.job, block.origin, block.seq, block.data, block.digest)
                if not problem:
                    arrived.add(block.seq)
                effects.append(BlockArrived(block.job, block.origin, block.seq, sender, size_bytes, problem))
                if problem:
                    return [Send(sender, BlockRefused(block.job, *key, problem[:TEXT_CHARS_MAX])), *effects]
        elif not moved.has(key):
            if problem := self.keep(moved, block, size_bytes):
                return [Send(sender, BlockRefused(block.job, *key, problem[:TEXT_CHARS_MAX]))]
            moved.take(key, size_bytes, self.rng)
        effects += self.acknowledge(now, Send(sender, BlockAck(block.job, *key)), size_bytes)
        return effects + self.pump(now, moved)

    def keep(self, moved: MovedJob, block: BlockSent, size_bytes: int) -> str:
        if len(block.data) > moved.block_bytes:
            return NOBODY_ASKED
        while self.relay_bytes + size_bytes > self.params.relay_bytes_max and moved.spare:
            self.part_with(moved, next(iter(moved.spare)))
        if self.relay_bytes + size_bytes > self.params.relay_bytes_max:
            return NO_ROOM
        problem = self.shelf.keep(moved.job, block.origin, block.seq, block.data, block.digest)
        if not problem:
            self.relay_bytes += size_bytes - moved.sizes.get((block.origin, block.seq), 0)
        return problem

    def acknowledge(self, now: float, ack: Send, size_bytes: int) -> list[Effect]:
        """At once, or when the downlink has had time for it: the sender waits for it when its window is full."""
        self.down.spend(size_bytes * 8)
        if not self.acks and not self.down.wait(now):
            return [ack]
        self.acks.append(ack)
        return [SetTimer("acks", now + max(self.down.wait(now), 0.001))] if len(self.acks) == 1 else []

    def release_acks(self, now: float) -> list[Effect]:
        released: list[Effect] = []
        while self.acks and not self.down.wait(now):
            released.append(self.acks.popleft())
            if self.down.is_limited:
                break
        if self.acks:
            released.append(SetTimer("acks", now + max(self.down.wait(now), 0.001)))
        return released

    def acknowledged(self, now: float, sender: NodeId, moved: MovedJob, key: BlockKey) -> list[Effect]:
        if moved.acknowledge(now, sender, key) and key[0] != self.node_id:
            if self.params.keeps_replicas:
                moved.spare[key] = moved.sizes.get(key, 0)
            else:
                self.part_with(moved, key)
        return self.pump(now, moved)

    def refused(self, now: float, sender: NodeId, moved: MovedJob, key: BlockKey) -> list[Effect]:
        """It takes no more, or not this: what is left goes elsewhere by the next plan."""
        moved.budgets.pop(sender, None)
        moved.give_up(sender, key, self.rng)
        return self.pump(now, moved)

    def check(self) -> None:
        for moved in self.jobs.values():
            moved.check()
        assert self.relay_bytes == sum(sum(moved.sizes.values()) for moved in self.jobs.values())
        assert self.relay_bytes <= self.params.relay_bytes_max
