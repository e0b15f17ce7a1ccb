"""What the parts of a host tell each other about collections, and what they tell the application."""

import msgspec

from tidings.machine.inputs import Request, Signal
from tidings.model.identity import NodeId
from tidings.protocols.collect.messages import CollectRequest, Enlisted, SharedFile
from tidings.protocols.collect.runs import NumberRun


class CollectionExpected(Signal, frozen=True):
    """From the gatherer: blocks of this collection come to us."""

    job: str
    block_bytes: int
    blocks: tuple[tuple[NodeId, int], ...]
    has: tuple[tuple[NodeId, tuple[NumberRun, ...]], ...]


class CollectionOver(Signal, frozen=True):
    job: str
    is_complete: bool


class BlockArrived(Signal, frozen=True):
    """From the mover: a new block is at the sink, which is us; or it could not be stored, and `problem` says why."""

    job: str
    origin: NodeId
    seq: int
    via: NodeId
    size_bytes: int
    problem: str = ""


class CollectionClosed(Signal, frozen=True):
    """From the mover: nothing is moved for this collection any more."""

    job: str


class PlanHeard(Signal, frozen=True):
    """From the mover of the sink: the coordinator has made a plan."""

    job: str
    plan: int
    horizon: int


class CoordinationWanted(Signal, frozen=True):
    """From the gatherer: coordinate this collection, since whoever did is gone."""

    request: CollectRequest


class MembersKnown(Signal, frozen=True):
    """From the directory: who is there."""

    members: tuple[Enlisted, ...]
    paths: tuple[tuple[NodeId, NodeId, float], ...]
    """Sender, receiver, bits a second."""


# Of the application.


class StartCollection(Request, frozen=True):
    """Which files of whom; comes back as `CollectionListed`. No sources are all who have files."""

    job: str
    patterns: tuple[str, ...]
    sources: tuple[NodeId, ...] = ()
    coordinator: NodeId = ""
    """Who plans; by default the sink itself."""
    strategy: str = "planned"
    pool: int = 0


class ProceedCollection(Request, frozen=True):
    """Go on with what was listed."""

    job: str


class AbandonCollection(Request, frozen=True):
    job: str
    reason: str


class ListedSource(msgspec.Struct, frozen=True):
    node: NodeId
    files: tuple[SharedFile, ...]
    problem: str = ""
    """Why it gives none."""


class CollectionListed(msgspec.Struct, frozen=True):
    """What there is, and what is expected of it. Delivered to the application, as are those below."""

    job: str
    sources: tuple[ListedSource, ...]
    helpers: tuple[NodeId, ...]
    planned_seconds: float = 0.0
    direct_seconds: float = 0.0
    is_measured: bool = False
    """Whether times rest on measurements, and not on what is taken for a path that is not known."""


class CollectionProgress(msgspec.Struct, frozen=True):
    job: str
    now: float
    began_at: float
    blocks: int
    arrived: int
    size_bytes: int
    arrived_bytes: int
    by_origin: tuple[tuple[NodeId, int, int], ...]
    """Origin, blocks that arrived, blocks in all."""
    by_sender: tuple[tuple[NodeId, int], ...]
    """Who brought how many blocks last: relays bring those of others."""
    plan: int = 0
    planned_seconds: float = 0.0
    """From the latest plan on."""
    lost: tuple[tuple[NodeId, int], ...] = ()


class CollectedFile(msgspec.Struct, frozen=True):
    origin: NodeId
    path: str
    size_bytes: int
    sha256: str = ""
    problem: str = ""
    """Why it is not there; empty where it is, byte for byte."""
    is_attested: bool = False
    """Whether its source said what the whole is. One that was gone too early did not: its blocks alone are checked."""


class CollectionEnded(msgspec.Struct, frozen=True):
    job: str
    seconds: float
    files: tuple[CollectedFile, ...]
    by_sender: tuple[tuple[NodeId, int], ...]
    reason: str = ""
    """Why it was given up."""

    @property
    def is_complete(self) -> bool:
        return not self.reason and not any(file.problem for file in self.files)
